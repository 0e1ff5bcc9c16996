package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
)

// Suspect is the record of the instances for which an alert's condition may
// hold, by a part of it that costs little, with the label alert; and what
// the names of their canonical series begin with: contend:suspect:latency.
//
// A server evaluates all of an expression for all instances, although nearly
// all of them fail its first comparison. What of a condition is for each
// instance alone therefore reads the series of suspects, of which a fleet that is
// well has none.
const Suspect = "contend:suspect"

// cheap is how many selectors a part of a condition has at most to be one by
// which suspects are told: a signal and its baseline.
const cheap = 2

// readSuspects records suspects before what looks at them alone.
func (g *generator) readSuspects() error {
	var suspects []Rule
	exprs := map[int]parser.Expr{} // by index of the rule
	reads := map[string]int{}      // how often a canonical series is read of suspects
	first := len(g.Rules)
	for i, r := range g.Rules {
		if r.Record != Holds && r.Record != LooksLike {
			continue
		}
		e, err := series.ParsePromQL(r.Expr)
		if err != nil {
			return err
		}
		exprs[i], first = e, min(first, i)
		if r.Record == Holds {
			part := g.suspected(e)
			for p, ok := part.(*parser.ParenExpr); ok; p, ok = part.(*parser.ParenExpr) {
				part = p.Expr
			}
			suspects = append(suspects, Rule{Record: Suspect, Expr: parser.Prettify(part), Labels: r.Labels})
		}
		forInstance(e, func(v *parser.VectorSelector) { reads[v.Name]++ })
	}
	own := func(name string) bool { return g.has[name] && reads[name] > 1 } // else it is as cheap to read all
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		if own(name) {
			suspects = append(suspects, Rule{Record: ofSuspects(name), Expr: fmt.Sprintf("%s and on (job, instance) %s", name, Suspect)})
		}
	}
	for i, e := range exprs {
		forInstance(e, func(v *parser.VectorSelector) {
			if own(v.Name) {
				v.Name = ofSuspects(v.Name)
				v.LabelMatchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, v.Name)}
			}
		})
		r := &g.Rules[i]
		r.Expr = parser.Prettify(e)
		if r.Record == Holds { // what is read of all instances has its say on suspects alone
			r.Expr = fmt.Sprintf("(%s) and on (job, instance) %s{alert=%q}", r.Expr, Suspect, r.Labels[0].Value)
			var err error
			if r.Expr, err = pretty(r.Expr); err != nil {
				return err
			}
		}
	}
	g.Rules = slices.Insert(g.Rules, first, suspects...)
	return nil
}

// ofSuspects is the name of a canonical series as that of suspects alone.
func ofSuspects(name string) string {
	return Suspect + strings.TrimPrefix(name, usualName)
}

// suspected is a condition that holds wherever e does: e without those sides of
// and and unless that cost more than they leave out.
func (g *generator) suspected(e parser.Expr) parser.Expr {
	switch n := e.(type) {
	case *parser.ParenExpr:
		return &parser.ParenExpr{Expr: g.suspected(n.Expr)}
	case *parser.BinaryExpr:
		if !n.Op.IsSetOperator() {
			return e
		}
		out := *n
		out.LHS, out.RHS = g.suspected(n.LHS), g.suspected(n.RHS)
		first, ok := out.LHS.(*parser.BinaryExpr)
		chain := ok && first.Op.IsSetOperator() // of comparisons each of which costs little
		switch {
		case n.Op == parser.LUNLESS && !isSeries(n), n.Op == parser.LAND && !g.isCheap(out.RHS):
			return out.LHS
		case n.Op == parser.LAND && !chain && !g.isCheap(out.LHS) && byAllLabels(n):
			return out.RHS
		}
		return &out
	}
	return e
}

// isSeries tells whether the right side of unless is that a series exists: of the
// instances without a baseline, say, there are few. A look-alike is none.
func isSeries(unless *parser.BinaryExpr) bool {
	_, ok := unless.RHS.(*parser.VectorSelector)
	return ok && byAllLabels(unless)
}

func byAllLabels(e *parser.BinaryExpr) bool {
	return !e.VectorMatching.On && len(e.VectorMatching.MatchingLabels) == 0
}

// isCheap tells whether an expression reads few series of an instance, and of
// their past no more than the window that detectors look at for what happens now.
func (g *generator) isCheap(e parser.Expr) bool {
	now, _ := g.timing.Span("8x,2m")
	n, ok := 0, true
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			n++
		case *parser.MatrixSelector:
			ok = ok && node.Range <= now
		case *parser.SubqueryExpr, *parser.AggregateExpr:
			ok = false
		}
		return nil
	})
	return ok && n <= cheap
}

// forInstance calls do for the selectors of which the result of e for an
// instance takes that instance's value of the moment, and nothing else.
func forInstance(e parser.Expr, do func(*parser.VectorSelector)) {
	switch n := e.(type) {
	case *parser.VectorSelector:
		if n.OriginalOffset == 0 && n.Timestamp == nil {
			do(n)
		}
	case *parser.ParenExpr:
		forInstance(n.Expr, do)
	case *parser.UnaryExpr:
		forInstance(n.Expr, do)
	case *parser.Call:
		if n.Func.Name != "absent" && n.Func.Name != "scalar" {
			for _, a := range n.Args {
				forInstance(a, do)
			}
		}
	case *parser.BinaryExpr:
		forInstance(n.LHS, do)
		if n.VectorMatching == nil || byAllLabels(n) || slices.Contains(n.VectorMatching.MatchingLabels, model.InstanceLabel) {
			forInstance(n.RHS, do)
		}
	}
}
