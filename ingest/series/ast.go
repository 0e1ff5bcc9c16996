package series

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var promQL = parser.NewParser(parser.Options{})

// ParsePromQL reads an expression. The error quotes it.
func ParsePromQL(text string) (parser.Expr, error) {
	e, err := promQL.ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("expected PromQL, saw %q: %w", text, err)
	}
	return e, nil
}

var classic = regexp.MustCompile(`rate\(METRIC_(sum|count)((?:\{[^}]*\})?\[)`)

// nativeForm reads a native histogram, of which there are no series _sum and
// _count. The functions are as old as native histograms, in Prometheus 2.40.
func nativeForm(text string) string {
	var out strings.Builder
	for {
		at := classic.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			return out.String()
		}
		end := at[1] + strings.Index(text[at[1]:], ")") // of rate
		out.WriteString(text[:at[0]] + "histogram_" + text[at[2]:at[3]] + "(rate(METRIC" + text[at[4]:end] + "))")
		text = text[end+1:]
	}
}

// rename puts the metric's name, and its way to spell labels, in the place of METRIC.
func rename(expr parser.Expr, metric string) {
	spell := func(label string) string { return label }
	if strings.Contains(metric, ".") {
		spell = func(label string) string { return cmp.Or(dotted[label], label) }
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			end, ok := strings.CutPrefix(n.Name, "METRIC")
			if !ok {
				break
			}
			setName(n, metric+end)
			for _, m := range n.LabelMatchers {
				m.Name = spell(m.Name)
			}
		case *parser.AggregateExpr:
			for i, l := range n.Grouping {
				n.Grouping[i] = spell(l)
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				for i, l := range n.VectorMatching.MatchingLabels {
					n.VectorMatching.MatchingLabels[i] = spell(l)
				}
			}
		}
		return nil
	})
}

// setName names a selector. A name that is none in Prometheus 2 is a matcher,
// which it takes.
func setName(v *parser.VectorSelector, name string) {
	v.Name = name
	if strings.Contains(name, ".") {
		v.Name = ""
	}
	for i, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			v.LabelMatchers[i] = labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)
		}
	}
}

// nameOf is the matcher of the metric's name, which all selectors of presets have.
func nameOf(v *parser.VectorSelector) *labels.Matcher {
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			return m
		}
	}
	return nil
}

// prune leaves out of an expression what has no series and is not needed for a
// value: a side of or, the right side of unless. ok is false where no value
// can come of what is left.
func prune(e parser.Expr, has func(*parser.VectorSelector) bool) (out parser.Expr, ok bool) {
	switch n := e.(type) {
	case *parser.VectorSelector:
		return n, has(n)
	case *parser.MatrixSelector:
		_, ok = prune(n.VectorSelector, has)
		return n, ok
	case *parser.ParenExpr:
		n.Expr, ok = prune(n.Expr, has)
		return n, ok
	case *parser.UnaryExpr:
		n.Expr, ok = prune(n.Expr, has)
		return n, ok
	case *parser.SubqueryExpr:
		n.Expr, ok = prune(n.Expr, has)
		return n, ok
	case *parser.AggregateExpr:
		n.Expr, ok = prune(n.Expr, has)
		return n, ok
	case *parser.Call:
		for i := range n.Args {
			if n.Args[i], ok = prune(n.Args[i], has); !ok {
				return n, false
			}
		}
		return n, true
	case *parser.BinaryExpr:
		var left, right bool
		n.LHS, left = prune(n.LHS, has)
		n.RHS, right = prune(n.RHS, has)
		switch {
		case n.Op == parser.LOR && left != right:
			if left {
				return n.LHS, true
			}
			return n.RHS, true
		case n.Op == parser.LUNLESS && left && !right:
			return n.LHS, true
		case n.Op == parser.LOR || n.Op == parser.LUNLESS:
			return n, left
		}
		return n, left && right
	}
	return e, true // numbers and texts
}

// firstSelector is the first selector of an expression, and whether it is that
// of a rate.
func firstSelector(e parser.Expr) (first *parser.VectorSelector, rated bool) {
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok && first == nil {
			first = v
			rated = slices.ContainsFunc(path, func(n parser.Node) bool {
				call, ok := n.(*parser.Call)
				return ok && call.Func.Name == "rate"
			})
		}
		return nil
	})
	return first, rated
}

// takesAway tells whether a node, by the nodes above it, is on the right of unless.
func takesAway(n parser.Node, path []parser.Node) bool {
	for i, above := range path {
		below := n
		if i+1 < len(path) {
			below = path[i+1]
		}
		if b, ok := above.(*parser.BinaryExpr); ok && b.Op == parser.LUNLESS && below == parser.Node(b.RHS) {
			return true
		}
	}
	return false
}
