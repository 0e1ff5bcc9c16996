package backtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// Names of the series that alerting rules write about their own state.
const (
	alertsMetric   = "ALERTS"
	forStateMetric = "ALERTS_FOR_STATE"
)

// Points of subqueries at one evaluation, each of which is evaluated and kept. 30 days at
// 15 s, more than any error budget reads, are 172,800.
const maxPoints = 200_000

// rule is a rule on its way through a replay.
type rule struct {
	rulefmt.Rule
	group  *Group
	expr   parser.Expr
	text   string            // expr as it is asked for
	labels map[string]string // its own over its group's

	step, offset time.Duration
	reads        []selector
	// stepwise rules cannot be evaluated as a range: what they read at one step is
	// written at another, or depends on where a range ends.
	stepwise bool
	// begin is the first time for which its values are needed. Of a record that no alert
	// reads it is zero: nobody asks.
	begin time.Time
	err   error // why it is not replayed

	evaluations int64  // how many there were
	failures    int    // evaluations, or runs of them, that failed
	failure     string // the first

	alert *alert // nil of a recording rule
	// written are the labels of what a stepwise rule wrote last, by name.
	written map[string]map[string]labels.Labels
	empty   bool // no evaluation so far had a value
}

// selector is one of an expression's.
type selector struct {
	matchers []*labels.Matcher
	text     string
	need     time.Duration // how far before an evaluation it reads
	fixed    *int64        // the time that it reads at, in ms, where it is written with @
	from     []*rule       // that write what it reads
	raw      bool          // it may read what no rule writes
}

// compile prepares the rules of all groups, in their order.
func compile(groups []Group, interval, lookback time.Duration) []*rule {
	var out []*rule
	p := parser.NewParser(parser.Options{})
	for i := range groups {
		g := &groups[i]
		for _, in := range g.Rules {
			r := &rule{Rule: in, group: g, empty: true}
			r.step = cmp.Or(time.Duration(g.Interval), interval)
			if g.QueryOffset != nil {
				r.offset = time.Duration(*g.QueryOffset)
			}
			r.labels = ownLabels(g, &in)
			if r.Alert != "" {
				r.alert = newAlert(r)
			}
			if r.expr, r.err = p.ParseExpr(in.Expr); r.err == nil {
				r.err = r.inspect(lookback)
				r.text = r.expr.String()
			}
			if r.err == nil && r.offset < 0 {
				r.err = errors.New("its group's query_offset is negative: a rule that is evaluated live cannot read the future")
			}
			out = append(out, r)
		}
	}
	return out
}

// inspect finds the selectors of a rule, and refuses what a range of time
// cannot show as it was when it was the present.
func (r *rule) inspect(lookback time.Duration) error {
	coarse := coarseStep(r.expr)
	var failed error
	parser.Inspect(r.expr, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			if s, ok := n.(*parser.SubqueryExpr); ok {
				if s.StartOrEnd != 0 {
					r.atEvaluation(&s.StartOrEnd, path)
				}
				if points := pointsOf(s, path); points > maxPoints {
					failed = fmt.Errorf("expected subqueries of at most %d points at each evaluation, saw [%s:%s] with %.3g: choose a longer step", maxPoints, model.Duration(s.Range), model.Duration(stepOf(s)), points)
				}
			}
			return nil
		}
		if v.Smoothed {
			failed = errors.New("smoothed reads samples after the evaluation, which a live rule does not have")
		}
		if v.StartOrEnd != 0 {
			r.atEvaluation(&v.StartOrEnd, path)
		}
		s := selector{matchers: v.LabelMatchers, text: matchersText(v), fixed: v.Timestamp, need: lookback}
		back := v.OriginalOffset // to the latest sample that may be read
		for _, above := range slices.Backward(path) {
			switch above := above.(type) {
			case *parser.MatrixSelector:
				s.need = above.Range
				if v.Anchored {
					s.need += lookback
				}
			case *parser.SubqueryExpr:
				if s.fixed == nil {
					back += above.OriginalOffset
					s.need += above.Range
					s.fixed = above.Timestamp
				}
			}
		}
		if back < 0 {
			failed = fmt.Errorf("%s reads %s into the future, which a live rule does not have", s.text, model.Duration(-back))
		}
		s.need += back + coarse
		r.reads = append(r.reads, s)
		return nil
	})
	return failed
}

// pointsOf is how many points a subquery has at one evaluation of the rule, with those of
// the subqueries above it, which read it at each of theirs.
func pointsOf(s *parser.SubqueryExpr, path []parser.Node) float64 {
	points := float64(s.Range) / float64(stepOf(s))
	for _, n := range path {
		if above, ok := n.(*parser.SubqueryExpr); ok {
			points *= float64(above.Range) / float64(stepOf(above))
		}
	}
	return points
}

// stepOf is the resolution of a subquery: of [1h:] a server's evaluation_interval.
func stepOf(s *parser.SubqueryExpr) time.Duration { return cmp.Or(s.Step, usualInterval) }

// atEvaluation deals with @ start() and @ end(), which in a rule are the time of
// the evaluation. In a subquery that is another time than the one there.
func (r *rule) atEvaluation(word *parser.ItemType, path []parser.Node) {
	if slices.ContainsFunc(path, func(n parser.Node) bool { _, ok := n.(*parser.SubqueryExpr); return ok }) {
		r.stepwise = true
		return
	}
	*word = 0
}

// matchersText is a selector without its range and offset.
func matchersText(v *parser.VectorSelector) string {
	return (&parser.VectorSelector{Name: v.Name, LabelMatchers: v.LabelMatchers}).String()
}

// braced is a selector as matchers alone, without braces.
func (s *selector) braced() string {
	var out []string
	for _, m := range s.matchers {
		out = append(out, m.String())
	}
	return strings.Join(out, ",")
}

// metric is the name that a selector reads; "" where it has none, or several.
func (s *selector) metric() string {
	for _, m := range s.matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// mayRead tells whether a selector may read what a rule writes.
func (s *selector) mayRead(r *rule) bool {
	if r.Record != "" {
		for name, value := range r.labels {
			if !s.takes(name, value) {
				return false
			}
		}
		return s.takes(model.MetricNameLabel, r.Record)
	}
	return s.takes(alertLabel, r.Alert) && (s.takes(model.MetricNameLabel, alertsMetric) || s.takes(model.MetricNameLabel, forStateMetric))
}

// takes tells whether a selector's matchers of one label match a value.
func (s *selector) takes(label, value string) bool {
	for _, m := range s.matchers {
		if m.Name == label && !m.Matches(value) {
			return false
		}
	}
	return true
}

// link finds out which rules write what the selectors of others read.
func link(rules []*rule) {
	byName := map[string][]*rule{}
	for _, r := range rules {
		if r.Record != "" {
			byName[r.Record] = append(byName[r.Record], r)
		} else {
			byName[alertsMetric] = append(byName[alertsMetric], r)
			byName[forStateMetric] = append(byName[forStateMetric], r)
		}
	}
	for _, r := range rules {
		for i := range r.reads {
			s := &r.reads[i]
			among := rules
			if name := s.metric(); name != "" {
				among = byName[name]
			}
			for _, w := range among {
				if s.mayRead(w) {
					s.from = append(s.from, w)
				}
			}
			// Of a name that is recorded here, what a server has of it is another rule's, or
			// an older form of this one.
			s.raw = len(s.from) == 0 || s.metric() == ""
		}
	}
}

// pure tells whether a rule reads nothing that a rule writes.
func (r *rule) pure() bool {
	return !slices.ContainsFunc(r.reads, func(s selector) bool { return len(s.from) > 0 })
}

// unit is a rule, or several that read each other's results.
type unit struct {
	rules    []*rule // in the order of the files
	stepwise bool
	level    int // above those of the units that it reads
}

// units sorts rules so that each reads what was written before it. A rule that reads a
// later one of its group sees its last evaluation, and rules of several groups may
// read each other in a circle: such are one unit, evaluated step by step. A rule that
// reads another group's is replayed after it, wherever that group stands.
// (Tarjan's strongly connected components, which come with what they lead to first.)
func units(rules []*rule) []unit {
	at := make(map[*rule]int, len(rules))
	for i, r := range rules {
		at[r] = i
	}
	next := make([][]int, len(rules))
	self := make([]bool, len(rules))
	for i, r := range rules {
		for _, s := range r.reads {
			for _, w := range s.from {
				j := at[w]
				if next[i] = append(next[i], j); j == i {
					self[i] = true
				} else if w.group == r.group && j > i {
					next[j] = append(next[j], i)
				}
			}
		}
	}
	var out []unit
	of := make([]int, len(rules)) // the unit of each rule that has one, from 1
	index, low := make([]int, len(rules)), make([]int, len(rules))
	var stack []int
	count := 0
	type frame struct{ rule, edge int }
	for root := range rules {
		if index[root] != 0 {
			continue
		}
		// Without recursion: a chain of rules may be as long as a file.
		frames := []frame{{rule: root}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			i := f.rule
			if f.edge == 0 && index[i] == 0 {
				count++
				index[i], low[i] = count, count
				stack = append(stack, i)
			}
			if f.edge < len(next[i]) {
				j := next[i][f.edge]
				f.edge++
				if index[j] == 0 {
					frames = append(frames, frame{rule: j})
				} else if of[j] == 0 {
					low[i] = min(low[i], index[j])
				}
				continue
			}
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				above := frames[len(frames)-1].rule
				low[above] = min(low[above], low[i])
			}
			if low[i] != index[i] {
				continue
			}
			first := slices.Index(stack, i)
			members := slices.Sorted(slices.Values(stack[first:]))
			stack = stack[:first]
			u := unit{stepwise: len(members) > 1}
			for _, m := range members {
				of[m] = len(out) + 1
			}
			for _, m := range members {
				u.rules = append(u.rules, rules[m])
				u.stepwise = u.stepwise || self[m] || rules[m].stepwise
				for _, j := range next[m] {
					if of[j] != len(out)+1 {
						u.level = max(u.level, out[of[j]-1].level+1)
					}
				}
			}
			for _, r := range u.rules {
				r.stepwise = u.stepwise
			}
			out = append(out, u)
		}
	}
	return out
}

// schedule says from when each rule's values are needed: alerts from start, records
// as far before as those who read them look back. It returns the earliest.
func schedule(all []unit, start time.Time) time.Time {
	first := start
	sooner := func(r *rule, t time.Time) bool {
		if r.begin.IsZero() || t.Before(r.begin) {
			r.begin = t
			return true
		}
		return false
	}
	for _, u := range slices.Backward(all) {
		for _, r := range u.rules {
			if r.alert != nil {
				sooner(r, start)
			}
		}
		// In a circle all begin with the first of them.
		if len(u.rules) > 1 {
			begin := time.Time{}
			for _, r := range u.rules {
				if !r.begin.IsZero() && (begin.IsZero() || r.begin.Before(begin)) {
					begin = r.begin
				}
			}
			if !begin.IsZero() {
				for _, r := range u.rules {
					r.begin = begin
				}
			}
		}
		for _, r := range u.rules {
			if r.begin.IsZero() {
				continue
			}
			if r.begin.Before(first) {
				first = r.begin
			}
			for _, s := range r.reads {
				for _, w := range s.from {
					if !slices.Contains(u.rules, w) && w.alert == nil {
						sooner(w, r.begin.Add(-s.need-r.offset))
					}
				}
			}
		}
	}
	return first
}

// ownLabels are the labels of a rule, over those of its group.
func ownLabels(g *Group, r *rulefmt.Rule) map[string]string {
	out := map[string]string{}
	maps.Copy(out, g.Labels)
	maps.Copy(out, r.Labels)
	return out
}

// isTemplate tells whether a label's value depends on the alert.
func isTemplate(value string) bool { return strings.Contains(value, "{{") }

// static are the labels among those of a rule that all its alerts have alike.
func static(own map[string]string) map[string]string {
	out := maps.Clone(own)
	maps.DeleteFunc(out, func(_, value string) bool { return isTemplate(value) })
	return out
}
