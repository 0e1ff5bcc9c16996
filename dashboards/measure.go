package dashboards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
)

// measure is one quantity that a condition compares, and what it is compared
// with. It is read from the condition's own text, so that a threshold is
// written once.
type measure struct {
	expr   parser.Expr
	value  string  // what it is, where it is the condition's value: detect.Signal.Value
	limits []limit // drawn: what an alert is about
	gates  []gate  // told in words: a healthy service is past most of them
}

// text is the measure as PromQL.
func (m *measure) text() string { return m.expr.String() }

// limit is what an alert holds a measure against.
type limit struct {
	alert  string
	bound  parser.Expr // a number or a series
	unless string      // " unless SERIES": where that is there, another limit holds; "" is everywhere
}

// String is the limit as the alert has it.
func (l limit) String() string { return l.bound.String() + l.unless }

// fixed reports whether the limit is one number for all.
func (l limit) fixed() bool { return isNumber(l.bound) && l.unless == "" }

// query is the limit as a series: beside the measure m, where it depends on others.
func (l limit) query(m *measure) string {
	switch {
	case l.fixed():
		return fmt.Sprintf("vector(%s)", l.bound)
	case isNumber(l.bound):
		return fmt.Sprintf("0 * (%s) + %s", m.expr, l)
	}
	return l.String()
}

// gate is the least of a measure for an alert to matter.
type gate struct {
	form   string // words with a place for what it is
	bound  string // PromQL
	unless string // as of a limit
}

// measures are what the condition of s compares, in the order of its text.
// Look-alikes are left out: what they compare excludes an alert, and a line
// that must not be crossed would look like one that must.
func measures(s *detect.Signal, t series.Timing) ([]*measure, error) {
	e, err := parsed(s.Expr, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Alert, err)
	}
	of := ""
	if s.About != "" {
		about, err := parsed(s.About, t)
		if err != nil {
			return nil, fmt.Errorf("%s: what it is about: %w", s.Alert, err)
		}
		of = about.String()
	}
	r := reader{alert: s.Alert, limits: limits(e, of)}
	if len(r.limits) == 0 {
		return nil, fmt.Errorf("%s: expected a condition with a limit on what it is about, saw none in %s", s.Alert, e)
	}
	r.read(e, true, "")
	r.found[0].value = s.Value
	return r.found, nil
}

// parsed is a detector's PromQL at the timing of the rules.
func parsed(expr string, t series.Timing) (parser.Expr, error) {
	text, err := t.Expand(expr)
	if err != nil {
		return nil, err
	}
	return series.ParsePromQL(text)
}

// limits are the comparisons that a condition is about: the first that each of
// its alternatives makes, or those of the expression of, and others of the same measure
// that must hold too.
func limits(e parser.Expr, of string) []*parser.BinaryExpr {
	b, ok := bare(e).(*parser.BinaryExpr)
	switch {
	case !ok:
	case b.Op == parser.LOR:
		return slices.Concat(limits(b.LHS, of), limits(b.RHS, of))
	case b.Op == parser.LUNLESS:
		return limits(b.LHS, of)
	case b.Op == parser.LAND:
		return both(limits(b.LHS, of), limits(b.RHS, of))
	case exceeds(b) && (of == "" || bare(b.LHS).String() == of):
		return []*parser.BinaryExpr{b}
	}
	return nil
}

// both are the limits of two parts that must hold together. Where one of them
// holds a measure against a series and the other against a number, the number is a gate.
func both(left, right []*parser.BinaryExpr) []*parser.BinaryExpr {
	if len(left) == 0 {
		return right
	}
	right = slices.DeleteFunc(right, func(b *parser.BinaryExpr) bool {
		return !slices.ContainsFunc(left, func(a *parser.BinaryExpr) bool { return bare(a.LHS).String() == bare(b.LHS).String() })
	})
	numbers := func(list []*parser.BinaryExpr) bool {
		return !slices.ContainsFunc(list, func(b *parser.BinaryExpr) bool { return !isNumber(b.RHS) })
	}
	switch {
	case numbers(right): // or there are none
		return left
	case numbers(left):
		return right
	}
	return slices.Concat(left, right)
}

func exceeds(b *parser.BinaryExpr) bool { return b.Op == parser.GTR || b.Op == parser.GTE }

// reader collects the measures of one condition.
type reader struct {
	alert  string
	limits []*parser.BinaryExpr // the comparisons that are limits
	found  []*measure
}

// read goes through the parts of a condition. first is set for the part whose
// value is the condition's; unless is what must not be there for the part to count.
func (r *reader) read(e parser.Expr, first bool, unless string) {
	e = bare(e)
	b, ok := e.(*parser.BinaryExpr)
	switch {
	case ok && b.Op == parser.LUNLESS:
		r.read(b.LHS, first, fmt.Sprintf(" unless %s%s", b.RHS, unless))
	case ok && b.Op.IsSetOperator():
		r.read(b.LHS, first, unless)
		r.read(b.RHS, false, unless)
	case ok && b.Op.IsComparisonOperator():
		if first {
			r.at(bare(b.LHS))
		}
		v, constant := number(b.RHS)
		if exceeds(b) && !(constant && v == 0) || b.Op == parser.LSS || b.Op == parser.LTE { // else it asks whether there is any, not how much
			r.compare(b, unless)
		}
	case first:
		r.at(e)
	}
}

// compare adds a comparison. A gate of a difference is one of what it is taken
// from: a - b > c is a > b + c.
func (r *reader) compare(b *parser.BinaryExpr, unless string) {
	if slices.Contains(r.limits, b) {
		m := r.at(bare(b.LHS))
		m.limits = append(m.limits, limit{r.alert, b.RHS, unless})
		return
	}
	g := gate{"above `%s`", b.RHS.String(), unless}
	switch b.Op {
	case parser.GTE:
		g.form = "from `%s` on"
	case parser.LSS:
		g.form = "below `%s`"
	case parser.LTE:
		g.form = "up to `%s`"
	}
	left := bare(b.LHS)
	if d, ok := left.(*parser.BinaryExpr); ok && d.Op == parser.SUB {
		left, g.bound = bare(d.LHS), fmt.Sprintf("%s + %s", d.RHS, b.RHS)
	}
	m := r.at(left)
	if slices.Contains(m.gates, g) || slices.ContainsFunc(m.limits, func(l limit) bool { return l.bound.String() == g.bound }) {
		return
	}
	m.gates = append(m.gates, g)
}

// gated says in words what the measure's gates are; "" is that it has none.
func (m *measure) gated() string {
	var out []string
	for _, g := range m.gates {
		out = append(out, fmt.Sprintf(g.form, g.bound+g.unless))
	}
	if len(out) == 0 {
		return ""
	}
	return "A gate, no limit, and so not drawn: it matters " + strings.Join(out, ", ") + "."
}

// at is the measure of e, new or known.
func (r *reader) at(e parser.Expr) *measure {
	for _, m := range r.found {
		if m.text() == e.String() {
			return m
		}
	}
	m := &measure{expr: e}
	r.found = append(r.found, m)
	return m
}

// bare is e without parentheses around it.
func bare(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

func isNumber(e parser.Expr) bool {
	_, ok := number(e)
	return ok
}

// number is the value of an expression of numbers alone.
func number(e parser.Expr) (v float64, ok bool) {
	switch e := bare(e).(type) {
	case *parser.NumberLiteral:
		return e.Val, true
	case *parser.BinaryExpr:
		a, okA := number(e.LHS)
		b, okB := number(e.RHS)
		if !okA || !okB {
			return 0, false
		}
		switch e.Op {
		case parser.MUL:
			return a * b, true
		case parser.DIV:
			return a / b, true
		}
	}
	return 0, false
}
