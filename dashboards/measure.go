package dashboards

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
)

// measure is one quantity that a condition compares, and what it is compared
// with. It is read from the condition's own text, so that a threshold is
// written once.
type measure struct {
	expr      parser.Expr
	value     string    // what it is, where it is the condition's value: detect.Signal.Value
	constants []float64 // thresholds that are numbers, ascending
	moving    []string  // thresholds that are series, as PromQL
}

// text is the measure as PromQL.
func (m *measure) text() string { return m.expr.String() }

// measures are what the condition of s compares, in the order of its text.
// Look-alikes are left out: what they compare excludes an alert, and a line
// that must not be crossed would look like one that must.
func measures(s *detect.Signal, t series.Timing) ([]*measure, error) {
	text, err := t.Expand(s.Expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Alert, err)
	}
	e, err := series.ParsePromQL(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Alert, err)
	}
	var r reader
	r.read(e, true)
	if len(r.found) > 0 {
		r.found[0].value = s.Value
	}
	return r.found, nil
}

// reader collects the measures of one condition.
type reader struct{ found []*measure }

// read goes through the parts of a condition. first is set for the part whose
// value is the condition's.
func (r *reader) read(e parser.Expr, first bool) {
	b, ok := e.(*parser.BinaryExpr)
	switch {
	case isParen(e):
		r.read(bare(e), first)
	case ok && b.Op == parser.LUNLESS:
		r.read(b.LHS, first)
	case ok && b.Op.IsSetOperator():
		r.read(b.LHS, first)
		r.read(b.RHS, false)
	case ok && (b.Op == parser.GTR || b.Op == parser.GTE):
		r.compare(bare(b.LHS), bare(b.RHS), first)
	case ok && b.Op.IsComparisonOperator(): // == 0 and the like: whether, not how much
	case first:
		r.at(e)
	}
}

// compare adds left > right. A difference on the left that is not the
// condition's value is a threshold too: a - b > c is a > b + c.
func (r *reader) compare(left, right parser.Expr, first bool) {
	limit, constant := number(right)
	if d, ok := left.(*parser.BinaryExpr); ok && d.Op == parser.SUB && !first {
		r.at(bare(d.LHS)).move(fmt.Sprintf("%s + %s", d.RHS, right))
		return
	}
	if constant && limit == 0 {
		return // whether there is any
	}
	m := r.at(left)
	if !constant {
		m.move(right.String())
		return
	}
	if i, known := slices.BinarySearch(m.constants, limit); !known {
		m.constants = slices.Insert(m.constants, i, limit)
	}
}

func (m *measure) move(threshold string) {
	if !slices.Contains(m.moving, threshold) {
		m.moving = append(m.moving, threshold)
	}
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

func isParen(e parser.Expr) bool {
	_, ok := e.(*parser.ParenExpr)
	return ok
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
