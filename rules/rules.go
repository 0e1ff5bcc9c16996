// Package rules writes detectors as Prometheus rules: recording rules that turn
// a service's own metrics into canonical series, and alerts on those.
package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
)

// Group is one group of rules, which a server evaluates in order.
type Group struct {
	Name     string
	Interval time.Duration
	Rules    []Rule
	LeftOut  []string // rules for which there is no metric, and why
}

// Rule is a recording rule or an alert.
type Rule struct {
	Record, Alert      string // one of both is ""
	Expr               string
	For, KeepFiringFor time.Duration
	Labels             []Pair
	Annotations        []Pair
	Comment            string // one line, for people; "" is none
}

// Pair is a label or an annotation.
type Pair struct{ Name, Value string }

// Options are the user's choices.
type Options struct {
	Selector string // matchers of the service's series, without braces; "" is all
	Labels   []Pair // that alerts get besides their own
	Settings []Setting
	All      bool   // leave out nothing: for Check, and of no use to a server
	Server   string // address of the server that is asked, without credentials; "" is the one that has the rules
}

// Severities of alerts. Each job has one page for an incident, with
// the routes and inhibitions of Alertmanager.
const (
	Page   = "page"   // somebody is to be woken
	Ticket = "ticket" // to be looked at by day, and what explains a page
	Info   = "info"
)

// Holds is the record of an alert's condition: for each instance for which it
// holds, with the label alert, the condition's value. The alert counts them.
const Holds = "contend:holds"

// LooksLike is the record of a look-alike that several alerts exclude: it is
// there for each instance that has it, with its name as the label like.
const LooksLike = "contend:looks_like"

// Generate makes the rules of detectors: stage one, records, and for each
// alert where its condition holds and how many instances of a job that are.
// What reads metrics that stage one does not have is left out.
func Generate(detectors []*detect.Detector, stage *series.Rules, opt Options) (*Group, error) {
	g := &generator{Group: Group{Name: "contend", Interval: stage.Timing.Interval}, opt: opt, timing: stage.Timing, has: map[string]bool{}, shared: map[string]bool{}}
	if err := g.stageOne(stage); err != nil {
		return nil, err
	}
	for _, r := range series.Records() {
		expr, ok, err := g.possible(r.Expr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		if ok {
			g.record(r.Name, expr)
		}
	}
	if err := g.shareLookAlikes(detectors); err != nil {
		return nil, err
	}
	left := slices.Clone(opt.Settings)
	for _, d := range detectors {
		for _, s := range d.Signals {
			s, rest, err := apply(s, left)
			if err != nil {
				return nil, err
			}
			left = rest
			if err := g.alert(d, &s); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Alert, err)
			}
		}
	}
	if len(left) > 0 {
		return nil, unknownAlert(left[0], detectors)
	}
	if err := g.inputsMissing(); err != nil {
		return nil, err
	}
	return &g.Group, nil
}

type generator struct {
	Group
	opt    Options
	timing series.Timing
	has    map[string]bool // the canonical series and records that there are
	shared map[string]bool // names of the look-alikes that are records
}

func (g *generator) stageOne(stage *series.Rules) error {
	for _, r := range stage.Rules {
		if r.Expr == "" && !g.opt.All {
			g.LeftOut = append(g.LeftOut, fmt.Sprintf("%s: no %s", r.Signal.Metric(), r.Missing))
			continue
		}
		expr := r.Expr
		const readable = 2000 // dozens of presets are no easier to read with the indentation of each
		if expr != "" && len(expr) < readable {
			var err error
			if expr, err = pretty(expr); err != nil {
				return fmt.Errorf("%s: %w", r.Signal.Metric(), err)
			}
		}
		g.record(r.Signal.Metric(), expr)
		g.Rules[len(g.Rules)-1].Comment = r.Signal.Meaning + " (" + r.Signal.Unit + ")"
	}
	return nil
}

func (g *generator) record(name, expr string) {
	g.has[name] = true
	g.Rules = append(g.Rules, Rule{Record: name, Expr: expr})
}

// possible is an expression as a server is given it, and whether it can have a value.
func (g *generator) possible(expr string) (text string, ok bool, err error) {
	if text, err = g.timing.Expand(expr); err != nil {
		return "", false, err
	}
	if ok, err = series.Possible(text, func(name string) bool { return g.has[name] }); err != nil {
		return "", false, err
	}
	text, err = pretty(text)
	return text, ok, err
}

func (g *generator) alert(d *detect.Detector, s *detect.Signal) error {
	expr, ok, err := g.possible(g.condition(*s))
	if err != nil {
		return err
	}
	if !ok {
		g.LeftOut = append(g.LeftOut, s.Alert+": needs "+strings.Join(g.needs(d), ", or "))
		return nil
	}
	rule := Rule{Alert: s.Alert, Expr: fmt.Sprintf("count by (job) (%s{alert=%q}) > 0", Holds, s.Alert), Labels: g.labels(severityOf(s), d.Name)}
	if rule.For, err = g.span(s.For); err != nil {
		return err
	}
	if rule.KeepFiringFor, err = g.span(s.KeepFiring); err != nil {
		return err
	}
	excluded, err := g.lookAlikes(s)
	if err != nil {
		return err
	}
	rule.Annotations = g.annotations(d, s, excluded)
	g.Rules = append(g.Rules, Rule{Record: Holds, Expr: expr, Labels: []Pair{{"alert", s.Alert}}, Comment: limitsOf(s)}, rule)
	return nil
}

// shareLookAlikes records each look-alike that several alerts exclude. A server
// evaluates all of an expression, whatever its first part has left over:
// in each of them they would be most of the group's cost.
func (g *generator) shareLookAlikes(detectors []*detect.Detector) error {
	used := map[string]int{}
	for _, d := range detectors {
		for _, s := range d.Signals {
			_, ok, err := g.possible(s.Expr)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Alert, err)
			}
			if !ok {
				continue
			}
			for _, l := range s.Unless {
				expr, ok, err := g.possible(l.Expr)
				if err != nil {
					return fmt.Errorf("%s: %w", s.Alert, err)
				}
				if used[l.Name]++; used[l.Name] == 2 && ok {
					g.shared[l.Name] = true
					g.Rules = append(g.Rules, Rule{Record: LooksLike, Expr: expr, Labels: []Pair{{"like", l.Name}}})
				}
			}
		}
	}
	return nil
}

// condition is that of an alert, with the look-alikes that are records as those.
func (g *generator) condition(s detect.Signal) string {
	expr := "(" + s.Expr + ")"
	for _, l := range s.Unless {
		if g.shared[l.Name] {
			expr += fmt.Sprintf("\nunless on (job, instance) %s{like=%q}", LooksLike, l.Name)
		} else {
			expr += "\nunless (" + l.Expr + ")"
		}
	}
	return expr
}

// needs are the signals of which a detector needs those of one line.
func (g *generator) needs(d *detect.Detector) []string {
	var out []string
	for _, n := range d.Needs {
		if n.Input == detect.Series {
			var missing []string
			for _, s := range n.Signals {
				if !g.has["contend:"+s] {
					missing = append(missing, "contend:"+s)
				}
			}
			if len(missing) == 0 {
				missing = n.Signals
			}
			out = append(out, strings.Join(missing, " and "))
		}
	}
	return out
}

// lookAlikes are those of an alert that can be told apart.
func (g *generator) lookAlikes(s *detect.Signal) ([]string, error) {
	var out []string
	for _, l := range s.Unless {
		_, ok, err := g.possible(l.Expr)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, l.Name)
		}
	}
	return out, nil
}

func (g *generator) span(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return g.timing.Span(text)
}

// labels are an alert's, the user's last.
func (g *generator) labels(severity, detector string) []Pair {
	out := []Pair{{"severity", severity}}
	if detector != "" {
		out = append(out, Pair{"detector", detector})
	}
	return append(out, g.opt.Labels...)
}

func severityOf(s *detect.Signal) string {
	switch {
	case s.Page:
		return Page
	case s.Severity == detect.Info:
		return Info
	}
	return Ticket
}

// inputsMissing adds the one alert that says that others cannot see: of a job
// that is scraped and whose requests in flight or CPU are not known, although
// it answers requests, or did so an hour ago, or was asked for.
func (g *generator) inputsMissing() error {
	if !g.has["contend:up"] {
		g.LeftOut = append(g.LeftOut, MissingAlert+": needs up")
		return nil
	}
	expr := "count by (job) (contend:up > 0)"
	if g.opt.Selector == "" {
		expr += " and on (job) (contend:completions or contend:inflight or contend:inflight offset {{1h}})"
	}
	expr += " unless on (job) (contend:inflight and contend:cpu)"
	expr, err := g.timing.Expand(expr)
	if err != nil {
		return err
	}
	if expr, err = pretty(expr); err != nil {
		return err
	}
	// Longer than a start takes.
	wait, err := g.span("10m")
	if err != nil {
		return err
	}
	g.Rules = append(g.Rules, Rule{
		Alert: MissingAlert, Expr: expr, For: wait, KeepFiringFor: wait,
		Labels: g.labels(Info, ""), Annotations: g.missingAnnotations(),
	})
	return nil
}

// MissingAlert is the alert of a job for which the other alerts cannot look.
const MissingAlert = "ContendInputsMissing"

// pretty breaks an expression into lines.
func pretty(expr string) (string, error) {
	e, err := series.ParsePromQL(expr)
	if err != nil {
		return "", err
	}
	return parser.Prettify(e), nil
}

func duration(d time.Duration) string { return model.Duration(d).String() }
