// Package rules writes detectors as Prometheus rules: recording rules that turn
// a service's own metrics into canonical series, and alerts on those.
package rules

import (
	"fmt"
	"regexp"
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
	LeftOut  []LeftOut // in the order in which they would be
}

// LeftOut is a rule that can have no value, since what it reads is not there.
type LeftOut struct {
	Rule     string   // the record's or the alert's name
	Severity string   // of an alert; "" of a record
	Needs    []string // canonical series, any of which would do: several that are needed together are one, joined by "and"
	Why      string   // in words
}

func (l LeftOut) String() string { return l.Rule + ": " + l.Why }

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
	Name     string // of the group, and what its records begin with; "" is contend
	Selector string // matchers of the service's series, without braces; "" is all
	Labels   []Pair // that alerts get besides their own
	Settings []detect.Setting
	All      bool // leave out nothing: for Check, and of no use to a server
	// Plain has conditions read the series of all instances, and medians those of all
	// samples: what saves a server work at each step is more of it in a replay, which evaluates
	// a range of steps at once. All implies it.
	Plain  bool
	Server string // address of the server that is asked, without credentials; "" is the one that has the rules
}

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
	detectors, err := detect.Apply(detectors, opt.Settings)
	if err != nil {
		return nil, err
	}
	opt.Plain = opt.Plain || opt.All
	g := &generator{Group: Group{Name: usualName, Interval: stage.Timing.Interval}, opt: opt, timing: stage.Timing, has: map[string]bool{}, shared: map[string]bool{}}
	if err := g.stageOne(stage); err != nil {
		return nil, err
	}
	for _, r := range series.Records() {
		steps := []series.Record{r}
		if every, err := g.timing.Span(r.Every); err == nil && every%g.timing.Interval == 0 && !opt.Plain {
			points, record := r.Sampled()
			steps = []series.Record{points, record}
		}
		for _, r := range steps {
			expr, ok, err := g.possible(r.Expr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
			if ok {
				g.record(r.Name, expr)
			}
		}
	}
	if err := g.shareLookAlikes(detectors); err != nil {
		return nil, err
	}
	for _, d := range inOrder(detectors) {
		for i := range d.Signals {
			if err := g.alert(d, &d.Signals[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Signals[i].Alert, err)
			}
		}
	}
	if !opt.Plain {
		if err := g.readSuspects(); err != nil {
			return nil, err
		}
	}
	if err := g.inputsMissing(); err != nil {
		return nil, err
	}
	if opt.Name != "" {
		if err := g.rename(opt.Name); err != nil {
			return nil, err
		}
	}
	return &g.Group, nil
}

// usualName is the name of a group that has no other.
const usualName = "contend"

var groupName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// CheckName refuses what the names of records cannot begin with.
func CheckName(name string) error {
	if !groupName.MatchString(name) {
		return fmt.Errorf("expected a name of small letters, digits and _ such as shop, which records begin with, saw %q", name)
	}
	return nil
}

// rename has a group's records begin with its name: two groups on one server,
// of two selectors, would write and read the same series.
func (g *Group) rename(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	g.Name = name
	change := func(text string) string { return strings.ReplaceAll(text, usualName+":", name+":") }
	for i := range g.Rules {
		r := &g.Rules[i]
		r.Record, r.Expr, r.Comment = change(r.Record), change(r.Expr), change(r.Comment)
		for k := range r.Annotations {
			r.Annotations[k].Value = change(r.Annotations[k].Value)
		}
	}
	for i := range g.LeftOut {
		l := &g.LeftOut[i]
		l.Rule, l.Why = change(l.Rule), change(l.Why)
		for k := range l.Needs {
			l.Needs[k] = change(l.Needs[k])
		}
	}
	return nil
}

// inOrder puts causes before what they cause: rules are evaluated in order,
// and a page names the causes whose conditions hold by then.
func inOrder(detectors []*detect.Detector) []*detect.Detector {
	rank := func(d *detect.Detector) int {
		if d.Role == detect.Symptom {
			return 1
		}
		return 0
	}
	out := slices.Clone(detectors)
	slices.SortStableFunc(out, func(a, b *detect.Detector) int { return rank(a) - rank(b) })
	return out
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
			g.LeftOut = append(g.LeftOut, LeftOut{Rule: r.Signal.Metric(), Why: "no " + r.Missing})
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
		needs := g.needs(d)
		g.LeftOut = append(g.LeftOut, LeftOut{s.Alert, s.AlertSeverity(), needs, "needs " + strings.Join(needs, ", or ")})
		return nil
	}
	rule := Rule{Alert: s.Alert, Expr: fmt.Sprintf("count by (job) (%s{alert=%q}) > 0", Holds, s.Alert), Labels: g.labels(s.AlertSeverity(), d.Name)}
	if rule.For, err = g.span(s.For); err != nil {
		return err
	}
	if rule.KeepFiringFor, err = g.span(s.KeepFiring); err != nil {
		return err
	}
	others, err := g.lookAlikes(s)
	if err != nil {
		return err
	}
	rule.Annotations = g.annotations(d, s, others)
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

// condition is that of an alert, with the sums and the look-alikes that are records as those.
func (g *generator) condition(s detect.Signal) string {
	expr := "(" + s.Expr + ")"
	for _, r := range series.Records() {
		if r.Sum && g.has[r.Name] && !g.opt.Plain {
			expr = strings.ReplaceAll(expr, r.Expr, r.Name)
		}
	}
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
				for _, s := range n.Signals {
					missing = append(missing, "contend:"+s)
				}
			}
			out = append(out, strings.Join(missing, " and "))
		}
	}
	return out
}

// lookAlike is one that an alert excludes.
type lookAlike struct {
	name  string
	reads []string // canonical series without any of which it cannot be seen; none: nothing shows it
}

// lookAlikes are those of an alert. That one is excluded may be said of a job
// that has what shows it: of another "unless" tells nothing.
func (g *generator) lookAlikes(s *detect.Signal) ([]lookAlike, error) {
	var out []lookAlike
	for _, l := range s.Unless {
		text, ok, err := g.possible(l.Expr)
		if err != nil {
			return nil, err
		}
		one := lookAlike{name: l.Name}
		if ok {
			if one.reads, err = g.necessary(text); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// necessary are the canonical series without which an expression has no value;
// where it has one by either of several, those.
func (g *generator) necessary(expr string) ([]string, error) {
	var out, any []string
	for _, name := range canonicalNames(expr) {
		if !g.has[name] {
			continue
		}
		any = append(any, name)
		ok, err := series.Possible(expr, func(n string) bool { return n != name && g.has[n] })
		if err != nil {
			return nil, err
		}
		if !ok {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return any, nil
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

// inputsMissing adds the one alert that says that others cannot see: of a job
// that is scraped and whose requests in flight or CPU are not known most of the
// time, although it answers requests, or did so an hour ago, or is asked for by
// name. Scraped more seldom than these rules were made for it is known now and
// then, for which no alert would last.
func (g *generator) inputsMissing() error {
	if !g.has["contend:up"] {
		g.LeftOut = append(g.LeftOut, LeftOut{MissingAlert, detect.AlertInfo, []string{"contend:up"}, "needs up"})
		return nil
	}
	expr := "count by (job) (contend:up > 0)"
	if !namesJob.MatchString(g.opt.Selector) {
		expr += " and on (job) (max_over_time(contend:completions[{{20x}}]) or max_over_time(contend:inflight[{{20x}}]) or contend:inflight offset {{1h}})"
	}
	if _, ok, err := g.possible(expr); err != nil {
		return err
	} else if !ok {
		g.LeftOut = append(g.LeftOut, LeftOut{MissingAlert, detect.AlertInfo, []string{"contend:completions", "contend:inflight"}, "needs contend:completions, or contend:inflight"})
		return nil
	}
	expr += " unless on (job) (count_over_time(contend:inflight[{{20x}}]) >= 10 and count_over_time(contend:cpu[{{20x}}]) >= 10)"
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
		Labels: g.labels(detect.AlertInfo, ""), Annotations: g.missingAnnotations(),
	})
	return nil
}

// namesJob tells that a selector asks for jobs by name.
var namesJob = regexp.MustCompile(`(?:^|,)\s*job\s*=`)

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
