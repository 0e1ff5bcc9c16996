package backtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series/promapi"
)

// A native histogram is one sample that is a whole distribution. Neither the answers
// of package promapi nor package memory keep such samples: a server that evaluates a
// whole expression reads them, but what a rule records as one is lost, and
// so is one that is read beside records.

// refuseHistograms gives up the rules whose native histograms would be lost, where they
// would else have no value and their alerts a condition that is false.
func (p *replay) refuseHistograms(from time.Time) error {
	asked := map[string]*selector{}
	candidates := func(f func(r *rule, s *selector)) {
		for _, r := range p.rules {
			if r.begin.IsZero() || r.err != nil {
				continue
			}
			whole := p.src.server && r.pure() && !r.stepwise
			for i := range r.reads {
				s := &r.reads[i]
				if s.raw && (!whole || makesHistograms(r.expr, s.text)) {
					f(r, s)
				}
			}
		}
	}
	candidates(func(_ *rule, s *selector) {
		if p.matched[s.text] || !p.src.server { // of a file, names of histograms alone match nothing
			asked[s.text] = s
		}
	})
	native, err := p.src.native(p.ctx, asked, from, p.opt.End, max(p.opt.End.Sub(from)/glances, p.fine).Truncate(time.Millisecond))
	if err != nil && !p.passes(err) {
		return err
	}
	if err != nil {
		p.note("whether rules lose native histograms is not known: %v", err)
	}
	candidates(func(r *rule, s *selector) {
		if native[s.text] {
			r.err = fmt.Errorf("%s has native histograms, which %s", s.text, p.src.loses)
		}
	})
	return nil
}

// keepHistograms are the functions that make native histograms of native histograms.
var keepHistograms = []string{
	"avg_over_time", "delta", "first_over_time", "idelta", "increase", "irate", "label_join", "label_replace",
	"last_over_time", "rate", "sort", "sort_by_label", "sort_by_label_desc", "sort_desc", "sum_over_time",
}

// makesHistograms tells whether an expression's values are native histograms where those of
// one of its selectors are, as far as its form shows.
func makesHistograms(e parser.Expr, native string) bool {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return matchersText(e) == native
	case *parser.MatrixSelector:
		return makesHistograms(e.VectorSelector, native)
	case *parser.SubqueryExpr:
		return makesHistograms(e.Expr, native)
	case *parser.ParenExpr:
		return makesHistograms(e.Expr, native)
	case *parser.UnaryExpr:
		return makesHistograms(e.Expr, native)
	case *parser.AggregateExpr:
		switch e.Op {
		case parser.SUM, parser.AVG, parser.LIMITK, parser.LIMIT_RATIO:
			return makesHistograms(e.Expr, native)
		}
	case *parser.Call:
		return slices.Contains(keepHistograms, e.Func.Name) &&
			slices.ContainsFunc(e.Args, func(arg parser.Expr) bool { return makesHistograms(arg, native) })
	case *parser.BinaryExpr:
		left := makesHistograms(e.LHS, native)
		if e.Op == parser.LAND || e.Op == parser.LUNLESS || e.Op.IsComparisonOperator() {
			return left
		}
		return left || makesHistograms(e.RHS, native)
	}
	return false
}

// noSuchFunction tells whether a server refuses a query for what it is: one that has no
// histogram_count (Prometheus before 2.40, VictoriaMetrics) has no native histograms.
func noSuchFunction(err error) bool {
	e, ok := errors.AsType[*promapi.QueryError](err)
	return ok && (e.Type == "bad_data" || e.Type == "422") && strings.Contains(err.Error(), "function")
}
