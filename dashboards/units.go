package dashboards

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
)

// grafanaUnits are Grafana's names of the units that package series has.
// https://github.com/grafana/grafana/blob/main/packages/grafana-data/src/valueFormats/categories.ts
var grafanaUnits = map[string]string{
	"":           "short", // a ratio of different things
	"1/s":        "ops",
	"bytes":      "bytes",
	"checks/s":   "cps",
	"cores":      "short",
	"count":      "short",
	"requests":   "short",
	"requests/s": "reqps",
	"seconds":    "s",
	"share":      "percentunit",
}

// about are meaning and unit of the records that are no signal seen again.
var about = map[string]series.Signal{
	"contend:age":              {Meaning: "age of the instance", Unit: "seconds"},
	"contend:inflight_per_cpu": {Meaning: "requests in flight per busy core"},
	"contend:load_before":      {Meaning: "load of 50 minutes ago, as a share of the present one", Unit: "share"},
	"contend:lock_use":         {Meaning: "share of time that the locks are in use, as their mean queue tells", Unit: "share"},
	"contend:short_lives":      {Meaning: "how often the instance began again soon after it began", Unit: "count"},
}

// quantity is what a canonical series or a record is of.
func quantity(name string) (series.Signal, error) {
	if q, ok := about[name]; ok {
		return q, nil
	}
	base, past, _ := strings.Cut(strings.TrimPrefix(name, "contend:"), ":")
	if past != "" {
		q, err := quantity("contend:" + base)
		if strings.HasSuffix(past, "peak") {
			q.Meaning += ", the highest of the last hour"
		}
		return q, err
	}
	for _, s := range series.Signals() {
		if s.Name == base {
			return s, nil
		}
	}
	return series.Signal{}, fmt.Errorf("expected the name of a canonical series or a record, saw %q", name)
}

// unit is the unit of an expression's value, as package series names it.
func unit(e parser.Expr) (string, error) {
	switch e := bare(e).(type) {
	case *parser.VectorSelector:
		q, err := quantity(e.Name)
		return q.Unit, err
	case *parser.MatrixSelector:
		return unit(e.VectorSelector)
	case *parser.SubqueryExpr:
		return unit(e.Expr)
	case *parser.AggregateExpr:
		return unit(e.Expr)
	case *parser.Call: // of a series over time: its first argument
		return unit(e.Args[0])
	case *parser.BinaryExpr:
		left, err := unit(e.LHS)
		if err != nil {
			return "", err
		}
		_, times := number(e.RHS)
		switch {
		case e.Op == parser.MUL && times && strings.HasSuffix(left, "/s"):
			return "count", nil // a rate over the seconds of a window
		case e.Op == parser.DIV && !times:
			right, err := unit(e.RHS)
			if left == right {
				return "share", err
			}
			return "", err
		}
		return left, nil
	}
	return "", fmt.Errorf("expected an expression over series, saw %q", e)
}

// describe says what an expression measures.
func describe(e parser.Expr) (string, error) {
	switch e := bare(e).(type) {
	case *parser.VectorSelector:
		q, err := quantity(e.Name)
		return q.Meaning, err
	case *parser.MatrixSelector:
		return describe(e.VectorSelector)
	case *parser.SubqueryExpr:
		return describe(e.Expr)
	case *parser.AggregateExpr:
		inner, err := describe(e.Expr)
		return inner + map[parser.ItemType]string{
			parser.SUM: ", all of the job",
			parser.AVG: ", mean of the job's instances",
			parser.MAX: ", highest of the job's instances",
		}[e.Op], err
	case *parser.Call:
		inner, err := describe(e.Args[0])
		if e.Func.Name == "predict_linear" {
			inner += ", extrapolated"
		}
		return inner, err
	}
	return "", fmt.Errorf("expected a series, or a function of one, saw %q", e)
}
