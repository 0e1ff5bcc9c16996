package backtest

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
)

// query evaluates an expression at start, start+step … until end.
type query func(expr string, start, end time.Time, step time.Duration) (promql.Matrix, error)

// evaluate is what the engine makes of e at those steps, with less work where
// most of it would show nothing: see candidates and coarseStep.
func evaluate(ask query, e parser.Expr, start, end time.Time, step time.Duration) (promql.Matrix, error) {
	if coarse := coarseStep(e); coarse > step {
		first := start.UnixMilli()
		first -= first % coarse.Milliseconds()
		m, err := ask(e.String(), time.UnixMilli(first), end, coarse)
		return series.Spread(m, coarse, start, end, step), err
	}
	whole := []run{{start.UnixMilli(), end.UnixMilli()}}
	c := candidates{ask, step, map[parser.Node]int{}}
	at, narrowed, err := c.steps(e, whole, true)
	if err != nil || narrowed && len(at) == 0 {
		return nil, err
	}
	if narrowed {
		whole = runs(at, step)
	}
	return c.over(e, whole)
}

// candidates finds steps outside of which an expression has no value. Most
// conditions of an alert are false most of the time, and the engine evaluates all
// sides of and and unless for all steps all the same.
type candidates struct {
	ask   query
	step  time.Duration
	sizes map[parser.Node]int // of the expressions that were asked for
}

// size is how many nodes an expression has. They are counted once: to write each side of each
// operator as text, to compare their lengths, takes time by the cube of their number.
func (c candidates) size(e parser.Node) int {
	n, ok := c.sizes[e]
	if !ok {
		n = 1
		for child := range parser.ChildrenIter(e) {
			n += c.size(child)
		}
		c.sizes[e] = n
	}
	return n
}

// over evaluates an expression in some runs of steps.
func (c candidates) over(e parser.Expr, in []run) (promql.Matrix, error) {
	var parts []promql.Matrix
	for _, r := range in {
		m, err := c.ask(e.String(), time.UnixMilli(r.first), time.UnixMilli(r.last), c.step)
		if err != nil {
			return nil, err
		}
		parts = append(parts, m)
	}
	return join(parts), nil
}

// steps are those of in at which e may have a value; narrowed is false where that is
// not known for less work than e is. top is set of an expression that will be evaluated as a whole.
func (c candidates) steps(e parser.Expr, in []run, top bool) (at []int64, narrowed bool, err error) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.steps(e.Expr, in, top)
	case *parser.AggregateExpr:
		return c.steps(e.Expr, in, false)
	case *parser.BinaryExpr:
		if e.VectorMatching != nil && (e.VectorMatching.FillValues.LHS != nil || e.VectorMatching.FillValues.RHS != nil) {
			return nil, false, nil
		}
		switch {
		case e.Op == parser.LOR:
			left, ok, err := c.steps(e.LHS, in, false)
			if !ok || err != nil {
				return nil, false, err
			}
			right, ok, err := c.steps(e.RHS, in, false)
			both := slices.Concat(left, right)
			slices.Sort(both)
			return slices.Compact(both), ok, err
		case e.Op.IsComparisonOperator() && !e.ReturnBool && !top:
			m, err := c.over(e, in)
			return detect.StepsOf(m), true, err
		}
		needed := []parser.Expr{e.LHS, e.RHS}
		if e.Op.IsSetOperator() {
			needed = conjuncts(e)
		}
		// Small ones first: they are cheap, and as likely to be false.
		slices.SortStableFunc(needed, func(a, b parser.Expr) int { return c.size(a) - c.size(b) })
		for _, n := range needed {
			some, ok, err := c.steps(n, in, false)
			if err != nil {
				return nil, false, err
			}
			if !ok {
				continue
			}
			if narrowed {
				some = slices.DeleteFunc(some, func(t int64) bool { _, both := slices.BinarySearch(at, t); return !both })
			}
			if at, narrowed = some, true; len(at) == 0 {
				break
			}
			in = runs(at, c.step)
		}
	}
	return at, narrowed, nil
}

// conjuncts are expressions that all have a value where e, which is no or, has one.
func conjuncts(e parser.Expr) []parser.Expr {
	switch n := e.(type) {
	case *parser.ParenExpr:
		return conjuncts(n.Expr)
	case *parser.BinaryExpr:
		switch n.Op {
		case parser.LUNLESS:
			return conjuncts(n.LHS)
		case parser.LAND:
			return slices.Concat(conjuncts(n.LHS), conjuncts(n.RHS))
		}
	}
	return []parser.Expr{e}
}

// run is the first and the last of some steps, in ms.
type run struct{ first, last int64 }

// runs are the first and last of times that are near each other. A query costs
// about as much as so many steps of it.
func runs(at []int64, step time.Duration) []run {
	const near = 40
	var out []run
	for _, t := range at {
		if n := len(out); n > 0 && t-out[n-1].last <= near*step.Milliseconds() {
			out[n-1].last = t
			continue
		}
		out = append(out, run{t, t})
	}
	return out
}

// join puts the results for one run after another together.
func join(parts []promql.Matrix) promql.Matrix {
	if len(parts) == 1 {
		return parts[0]
	}
	var out promql.Matrix
	at := map[string]int{}
	for _, m := range parts {
		for _, s := range m {
			key := string(s.Metric.Bytes(nil))
			i, ok := at[key]
			if !ok {
				at[key] = len(out)
				out = append(out, s)
				continue
			}
			out[i].Floats = append(out[i].Floats, s.Floats...)
		}
	}
	return out
}

// overTime are the functions of a range that look at its samples alone, and
// not at where the range begins and ends, as rate does.
var overTime = []string{
	"avg_over_time", "changes", "count_over_time", "last_over_time", "max_over_time", "min_over_time",
	"present_over_time", "quantile_over_time", "resets", "stddev_over_time", "stdvar_over_time", "sum_over_time",
}

// coarseStep is a step at whose multiples alone the value of e changes; 0 where there is
// none. The points of a subquery are at multiples of its step, so that which
// are in its range changes with them, if range and offset are multiples too. A
// baseline of two-minute points is the same for all eight evaluations in between.
func coarseStep(e parser.Expr) time.Duration {
	steps := map[time.Duration]bool{}
	if !coarseSteps(e, steps) || len(steps) != 1 {
		return 0
	}
	for s := range steps {
		return s
	}
	return 0
}

func coarseSteps(e parser.Expr, steps map[time.Duration]bool) bool {
	switch e := e.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
		return true
	case *parser.ParenExpr:
		return coarseSteps(e.Expr, steps)
	case *parser.AggregateExpr:
		return coarseSteps(e.Expr, steps) && (e.Param == nil || coarseSteps(e.Param, steps))
	case *parser.BinaryExpr:
		return coarseSteps(e.LHS, steps) && coarseSteps(e.RHS, steps)
	case *parser.SubqueryExpr:
		s := e.Step
		if s <= 0 || s%time.Millisecond != 0 || e.Range%s != 0 || e.OriginalOffset%s != 0 || e.Timestamp != nil || e.StartOrEnd != 0 || e.OriginalOffset < 0 {
			return false
		}
		steps[s] = true
		return true
	case *parser.Call:
		if !slices.Contains(overTime, e.Func.Name) {
			return false
		}
		for _, arg := range e.Args {
			if !coarseSteps(arg, steps) {
				return false
			}
		}
		return true
	}
	return false
}
