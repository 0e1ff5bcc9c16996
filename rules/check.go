package rules

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
)

// State is what a rule has to say at a moment.
type State string

const (
	HasValue State = "holds"          // a record has values, a condition holds
	NoValue  State = "false"          // all that it needs is there, and it does not hold
	NoSeries State = "no such series" // it can have no value
)

// Checked is one rule of a group, as a server's series have it.
type Checked struct {
	Rule      string // the record's or the alert's name
	State     State
	Instances int        // that have a value, or of which the condition holds
	Selected  []Selected // what each of its selectors matches
	Hint      string     // of NoSeries: how to switch on what is missing
	Doubt     string     // a metric whose values contradict how it is read
}

// Selected is a metric and how many of its series there are at the moment.
type Selected struct {
	Metric string
	Series int
}

// Check looks at what each rule of a group reads. src is the server, where the
// group need not be loaded: its canonical series are those of c, whose window
// ends at the moment that is looked at. AddRecords is called on them.
func Check(ctx context.Context, src series.Source, c *series.Canonical, g *Group) ([]Checked, error) {
	if err := series.AddRecords(ctx, c.Store, c.Timing, c.From, c.Start, c.End); err != nil {
		return nil, err
	}
	k := &checker{ctx: ctx, src: src, c: c, matches: map[string]*series.Match{}}
	for i := range c.Matches {
		k.matches["contend:"+c.Matches[i].Signal] = &c.Matches[i]
	}
	var out []Checked
	for i := range g.Rules {
		r := &g.Rules[i]
		switch {
		case r.Alert == "" && k.matches[r.Record] != nil:
			out = append(out, k.signal(r))
		case r.Alert != "" && i > 0 && g.Rules[i-1].Record == Holds:
			one, err := k.canonical(r.Alert, g.Rules[i-1].Expr)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		case r.Record == Holds:
		case r.Record == LooksLike:
			if err := k.record(r); err != nil {
				return nil, err
			}
		default:
			one, err := k.canonical(r.Record+r.Alert, r.Expr)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, nil
}

type checker struct {
	ctx     context.Context
	src     series.Source
	c       *series.Canonical
	matches map[string]*series.Match
}

// signal is a rule of stage one.
func (k *checker) signal(r *Rule) Checked {
	m := k.matches[r.Record]
	out := Checked{Rule: r.Record, State: HasValue, Instances: m.Instances}
	if m.Instances == 0 {
		out.State, out.Hint = NoSeries, strings.Trim(m.Missing+"; "+m.Hint, "; ")
		if len(m.Metrics) > 0 {
			out.State = NoValue
		}
	}
	var doubts []string
	for _, name := range m.Metrics {
		if strings.HasPrefix(name, "contend:") {
			continue
		}
		count, err := k.count("count({" + k.selector(name) + "})")
		if err != nil {
			continue // it was read a moment ago: the rest says what there is
		}
		out.Selected = append(out.Selected, Selected{name, count})
		if d := k.contradiction(name, usesOf(r.Expr, name)); d != "" {
			doubts = append(doubts, d)
		}
	}
	out.Doubt = strings.Join(doubts, "; ")
	return out
}

func (k *checker) selector(metric string) string {
	out := fmt.Sprintf("__name__=%q", metric)
	if k.c.Selector != "" && !series.Foreign(metric) {
		out += "," + k.c.Selector
	}
	return out
}

// canonical is a rule on canonical series.
func (k *checker) canonical(name, expr string) (Checked, error) {
	out := Checked{Rule: name}
	there := map[string]int{}
	for _, metric := range canonicalNames(expr) {
		for _, col := range k.c.Store.Columns(metric) {
			if n := len(col.T); n > 0 && col.T[n-1] >= k.c.Start.UnixMilli() {
				there[metric]++
			}
		}
		out.Selected = append(out.Selected, Selected{metric, there[metric]})
	}
	possible, err := series.Possible(expr, func(metric string) bool { return there[metric] > 0 || metric == "ALERTS" })
	if err != nil {
		return out, err
	}
	if !possible {
		out.State = NoSeries
		out.Hint = k.hint(out.Selected)
		return out, nil
	}
	m, err := k.c.Store.Range(k.ctx, expr, k.c.End, k.c.End, k.c.Timing.Interval)
	if err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	out.State, out.Instances = NoValue, len(m)
	if len(m) > 0 {
		out.State = HasValue
	}
	return out, nil
}

// record adds what a rule records at the moment to the canonical series.
func (k *checker) record(r *Rule) error {
	m, err := k.c.Store.Range(k.ctx, r.Expr, k.c.End, k.c.End, k.c.Timing.Interval)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Record, err)
	}
	for i := range m {
		b := labels.NewBuilder(m[i].Metric)
		for _, l := range r.Labels {
			b.Set(l.Name, l.Value)
		}
		m[i].Metric = b.Labels()
	}
	k.c.Store.AppendMatrix(r.Record, m, k.c.Timing.Interval)
	return nil
}

// hint says how to switch on the signals that are missing.
func (k *checker) hint(selected []Selected) string {
	var out []string
	for _, s := range selected {
		if m := k.matches[s.Metric]; s.Series == 0 && m != nil && m.Hint != "" {
			out = append(out, m.Signal+": "+m.Hint)
		}
	}
	return strings.Join(out, "; ")
}

var canonicalName = regexp.MustCompile(`contend:[a-z_]+(?::[a-z_]+)?`)

func canonicalNames(expr string) []string {
	names := map[string]bool{}
	for _, n := range canonicalName.FindAllString(expr, -1) {
		names[n] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// uses are the ways in which an expression reads a metric.
type uses struct{ rated, level bool }

func usesOf(expr, metric string) (u uses) {
	e, err := series.ParsePromQL(expr)
	if err != nil {
		return u
	}
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok || v.Name != metric {
			return nil
		}
		for _, above := range path {
			if call, ok := above.(*parser.Call); ok {
				u.rated = u.rated || call.Func.Name == "rate"
				u.level = u.level || call.Func.Name == "avg_over_time"
			}
		}
		return nil
	})
	return u
}

// contradiction says why a metric is not what it is read as. What exporters
// declare is not asked: it is known to be wrong. A counter falls when a process
// begins again and at no other time, and something that is counted up and down
// falls now and then.
func (k *checker) contradiction(metric string, u uses) string {
	window := model.Duration(max(k.c.End.Sub(k.c.Start), time.Minute)).String()
	all := "{" + k.selector(metric) + "}[" + window + "]"
	const often = 5 // a fifth of its samples: more than a process in a crash loop
	falls := fmt.Sprintf("count(resets(%s) * %d > count_over_time(%s))", all, often, all)
	rises := fmt.Sprintf("count(changes(%s) * %d > count_over_time(%s) unless resets(%s) > 0)", all, often, all, all)
	total, err := k.count("count({" + k.selector(metric) + "})")
	if err != nil || total == 0 {
		return ""
	}
	// Most series of it: one may have its reasons.
	most := func(query string) bool {
		n, err := k.count(query)
		return err == nil && 2*n > total
	}
	switch {
	case u.rated && most(falls):
		return metric + " is read as a counter, and falls as often as a gauge does"
	case u.level && most(rises):
		return metric + " is read as a level, and only rises, as a counter does"
	}
	return ""
}

// count is the value of a query at the end of the window; 0 where it has none.
func (k *checker) count(query string) (int, error) {
	m, err := k.src.Range(k.ctx, query, k.c.End, k.c.End, k.c.Timing.Interval)
	if err != nil || len(m) == 0 || len(m[0].Floats) == 0 {
		return 0, err
	}
	return int(lastOf(m[0])), nil
}

func lastOf(s promql.Series) float64 { return s.Floats[len(s.Floats)-1].F }
