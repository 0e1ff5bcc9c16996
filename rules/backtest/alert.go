package backtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"

	"github.com/contend/contend/detect"
)

const (
	alertLabel = model.AlertNameLabel
	stateLabel = "alertstate"
)

const (
	// More alerts of one rule than anybody wants to be told of: its labels
	// have something in them that changes.
	maxAlerts = 50_000
	// Of one alert, in all: one that flaps every other step for two weeks.
	maxSpans = 50_000
)

// alert is the state of an alerting rule during a replay: its alerts by their labels.
type alert struct {
	rule     *rule
	tracks   map[string]*track
	fixed    labels.Labels     // that are no templates, with the rule's name
	template map[string]string // labels to expand
	plain    map[string]string // labels whose templates are not expanded, with the reason

	doubled      int       // evaluations with two alerts of the same labels
	firstDoubled time.Time // the first of them
}

// track is one alert: the times at which the rule's expression has a value for it.
type track struct {
	labels labels.Labels
	// at are such times in ms: of a pending alert since it began, of a firing
	// one from the last before the steps to come.
	at      []int64
	firing  *detect.Span
	fired   []detect.Span // that are over
	pending int           // that were over before they fired
}

func newAlert(r *rule) *alert {
	a := &alert{rule: r, tracks: map[string]*track{}, template: map[string]string{}, plain: map[string]string{}}
	fixed := map[string]string{}
	for name, value := range r.labels {
		if !isTemplate(value) {
			fixed[name] = value
			continue
		}
		if err := harmless(value); err != nil {
			a.plain[name] = err.Error()
			fixed[name] = value
			continue
		}
		a.template[name] = value
	}
	fixed[alertLabel] = r.Alert
	a.fixed = labels.FromMap(fixed)
	return a
}

// labelsOf are the labels of the alert that a sample makes (rules.AlertingRule.Eval).
func (a *alert) labelsOf(b *labels.Builder, metric labels.Labels, value float64, at int64) labels.Labels {
	b.Reset(metric)
	b.Del(model.MetricNameLabel)
	for _, name := range slices.Sorted(maps.Keys(a.template)) {
		b.Set(name, expand(a.template[name], metric, value, at))
	}
	a.fixed.Range(func(l labels.Label) { b.Set(l.Name, l.Value) })
	return b.Labels()
}

// take adds the values of the rule's expression at some steps.
func (a *alert) take(ctx context.Context, m promql.Matrix) error {
	b := labels.NewBuilder(labels.EmptyLabels())
	doubled := map[int64]bool{}
	touched := map[*track]bool{}
	for _, s := range m {
		var t *track
		for i, p := range s.Floats {
			// A template may show the value; else all samples of a series are one alert.
			if i == 0 || len(a.template) > 0 {
				if err := ctx.Err(); err != nil {
					return err // templates take long to expand
				}
				lset := a.labelsOf(b, s.Metric, p.F, p.T)
				key := string(lset.Bytes(nil))
				if t = a.tracks[key]; t == nil {
					if len(a.tracks) == maxAlerts {
						return fmt.Errorf("expected at most %d different alerts, saw more: its labels change", maxAlerts)
					}
					t = &track{labels: lset}
					a.tracks[key] = t
				}
			}
			touched[t] = true
			t.at = append(t.at, p.T+a.rule.offset.Milliseconds())
		}
	}
	for t := range touched {
		slices.Sort(t.at)
		for i := 1; i < len(t.at); i++ {
			if t.at[i] == t.at[i-1] {
				doubled[t.at[i]] = true
			}
		}
		t.at = slices.Compact(t.at)
	}
	if len(doubled) > 0 {
		if a.doubled == 0 {
			a.firstDoubled = time.UnixMilli(slices.Min(slices.Collect(maps.Keys(doubled)))).UTC()
		}
		a.doubled += len(doubled)
	}
	return nil
}

// advance evaluates the states of all alerts until end, and returns the times that were
// active since the last call by alert.
func (a *alert) advance(end time.Time) (map[*track][]detect.Span, error) {
	active := map[*track][]detect.Span{}
	spans := 0
	for _, t := range a.tracks {
		if s := t.advance(end, a.rule.step, time.Duration(a.rule.For), time.Duration(a.rule.KeepFiringFor)); len(s) > 0 {
			active[t] = s
		}
		spans += len(t.fired)
	}
	if spans > maxSpans {
		return nil, fmt.Errorf("expected at most %d firings, saw more", maxSpans)
	}
	return active, nil
}

// advance does what detect.Spans would of all times at once.
func (t *track) advance(end time.Time, step, hold, keep time.Duration) (active []detect.Span) {
	if t.firing != nil {
		// From its last value on, a firing alert is what one would be that fires at once.
		s := detect.Spans(t.at, time.UnixMilli(t.at[0]).UTC(), end, step, 0, keep)[0]
		if s.Resolved.IsZero() {
			t.at = []int64{t.at[len(t.at)-1]}
			return []detect.Span{*t.firing}
		}
		t.firing.Resolved = s.Resolved
		active = append(active, *t.firing)
		t.fired = append(t.fired, *t.firing)
		t.firing = nil
		after, _ := slices.BinarySearch(t.at, s.Resolved.UnixMilli())
		t.at = t.at[after:]
	}
	if len(t.at) == 0 {
		return active
	}
	spans := detect.Spans(t.at, time.UnixMilli(t.at[0]).UTC(), end, step, hold, keep)
	active = append(active, spans...)
	last := spans[len(spans)-1]
	switch {
	case !last.Resolved.IsZero():
		t.at = nil
	case last.Fired.IsZero():
		since, _ := slices.BinarySearch(t.at, last.Active.UnixMilli())
		t.at = slices.Clone(t.at[since:])
		spans = spans[:len(spans)-1]
	default:
		t.firing = &last
		t.at = []int64{t.at[len(t.at)-1]}
		spans = spans[:len(spans)-1]
	}
	for _, s := range spans {
		if s.Fired.IsZero() {
			t.pending++
		} else {
			t.fired = append(t.fired, s)
		}
	}
	return active
}

// series are what a server writes about active alerts, at the rule's steps from start to end.
func (a *alert) series(active map[*track][]detect.Span, start, end time.Time) (alerts, forState promql.Matrix) {
	b := labels.NewBuilder(labels.EmptyLabels())
	offset := a.rule.offset
	for t, spans := range active {
		state := func(name string) *promql.Series {
			b.Reset(t.labels)
			if name != "" {
				b.Set(stateLabel, name)
			}
			return &promql.Series{Metric: b.Labels()}
		}
		pending, firing, since := state("pending"), state("firing"), state("")
		for _, s := range spans {
			for at := start; !at.After(end) && (s.Resolved.IsZero() || at.Before(s.Resolved)); at = at.Add(a.rule.step) {
				if at.Before(s.Active) {
					continue
				}
				to := firing
				if s.Fired.IsZero() || at.Before(s.Fired) {
					to = pending
				}
				written := at.Add(-offset).UnixMilli()
				to.Floats = append(to.Floats, promql.FPoint{T: written, F: 1})
				since.Floats = append(since.Floats, promql.FPoint{T: written, F: float64(s.Active.Unix())})
			}
		}
		alerts = append(alerts, *pending, *firing)
		forState = append(forState, *since)
	}
	return alerts, forState
}

// templateNames are what a server puts before each template.
const templateNames = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"

// expand is the text of a template that is harmless.
func expand(text string, metric labels.Labels, value float64, at int64) string {
	data := template.AlertTemplateData(metric.Map(), nil, "", promql.Sample{T: at, F: value, Metric: metric})
	none := func(context.Context, string, time.Time) (promql.Vector, error) {
		return nil, errors.New("templates ask nothing in a replay")
	}
	out, err := template.NewTemplateExpander(context.Background(), templateNames+text, "label", data, model.Time(at), none, nil, nil).Expand()
	if err != nil {
		return fmt.Sprintf("<error expanding template: %s>", err)
	}
	return out
}

// lean are the functions of templates whose result is about as long as their
// arguments. The others can be put together to texts that fill the memory, or ask a server.
var lean = []string{
	"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "index", "len",
	"humanize", "humanize1024", "humanizeDuration", "humanizePercentage", "humanizeTimestamp",
	"title", "toUpper", "toLower", "stripPort", "stripDomain", "match", "parseDuration", "toTime", "toDuration",
}

// harmless is nil where a template ends soon and with a short text: without
// loops and templates in it, and with lean functions.
func harmless(text string) error {
	t := parse.New("label")
	t.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := t.Parse(templateNames+text, "", "", set); err != nil {
		return err
	}
	if len(set) > 1 {
		return errors.New("define")
	}
	return harmlessNode(t.Root)
}

func harmlessNode(n parse.Node) error {
	var inner []parse.Node
	branch := func(b *parse.BranchNode) {
		inner = []parse.Node{b.Pipe, b.List}
		if b.ElseList != nil {
			inner = append(inner, b.ElseList)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		inner = n.Nodes
	case *parse.ActionNode:
		inner = []parse.Node{n.Pipe}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			inner = append(inner, c.Args...)
		}
	case *parse.ChainNode:
		inner = []parse.Node{n.Node}
	case *parse.IdentifierNode:
		if !slices.Contains(lean, n.Ident) {
			return errors.New(n.Ident)
		}
	case *parse.TextNode, *parse.CommentNode, *parse.VariableNode, *parse.FieldNode, *parse.DotNode, *parse.NilNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
	default:
		word, _, _ := strings.Cut(strings.Trim(n.String(), "{} "), " ")
		return errors.New(word)
	}
	for _, n := range inner {
		if err := harmlessNode(n); err != nil {
			return err
		}
	}
	return nil
}
