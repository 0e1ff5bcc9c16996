package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
)

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
// falls now and then. total is how many series it has, at least one.
func (k *checker) contradiction(metric string, total int, u uses) string {
	window := model.Duration(max(k.c.End.Sub(k.c.Start), time.Minute)).String()
	all := "{" + k.selector(metric) + "}[" + window + "]"
	const often = 5   // a fifth of its samples: more than a process in a crash loop
	const enough = 20 // samples: fewer are a start, in which much only rises
	falls := fmt.Sprintf("count(resets(%[1]s) * %[2]d > count_over_time(%[1]s) and count_over_time(%[1]s) >= %[3]d)", all, often, enough)
	rises := fmt.Sprintf("count(changes(%[1]s) * %[2]d > count_over_time(%[1]s) and count_over_time(%[1]s) >= %[3]d unless resets(%[1]s) > 0)", all, often, enough)
	// Most series of it: one may have its reasons.
	most := func(query string) bool {
		n, err := k.count(query)
		return err == nil && 2*n > total
	}
	switch {
	case u.rated && most(falls):
		return "is read as a counter, and falls as often as a gauge does"
	// Memory that only rises is no counter: it is what one looks for.
	case u.level && !strings.HasSuffix(metric, "_bytes") && most(rises):
		return "is read as a level, and only rises, as a counter does"
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
