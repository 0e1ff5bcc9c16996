package series

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// People write expressions of a line or a page. Brackets nested a million
// deep take the parser minutes.
const maxOverride = 16 << 10

// override is a user's own source of a signal: a constant, or a query.
type override struct {
	constant *float64
	query    string
	metrics  []string // sorted
}

// parseOverride reads PromQL or a number. The user's matchers are added to
// each selector that has none for the label, so that an expression may name
// another job's series.
func parseOverride(s Signal, text string, stage Stage) (override, error) {
	if v, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
		if math.IsNaN(v) || math.Abs(v) > maxValue {
			return override{}, fmt.Errorf("signal %s: expected PromQL or a finite number of at most %g, saw %q", s.Name, float64(maxValue), text)
		}
		return override{constant: &v}, nil
	}
	if len(text) > maxOverride {
		return override{}, fmt.Errorf("signal %s: expected PromQL of at most %d bytes, saw %d", s.Name, maxOverride, len(text))
	}
	expanded, err := stage.Timing.Expand(text)
	if err != nil {
		return override{}, fmt.Errorf("signal %s: %w", s.Name, err)
	}
	expr, err := promQL.ParseExpr(expanded)
	if err != nil {
		return override{}, fmt.Errorf("signal %s: expected PromQL or a number, saw %q: %w", s.Name, text, err)
	}
	if t := expr.Type(); t != parser.ValueTypeVector {
		return override{}, fmt.Errorf("signal %s: expected PromQL of an instant vector or a number, saw %s in %q", s.Name, parser.DocumentedType(t), text)
	}
	var o override
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if v.Name != "" {
			o.metrics = append(o.metrics, v.Name)
		}
		has := map[string]bool{}
		for _, m := range v.LabelMatchers {
			has[m.Name] = true
		}
		for _, m := range stage.Selector {
			if !has[m.Name] {
				v.LabelMatchers = append(v.LabelMatchers, m)
			}
		}
		return nil
	})
	slices.Sort(o.metrics)
	o.metrics = slices.Compact(o.metrics)
	o.query = s.aggregate() + by + "(" + expr.String() + ")"
	return o, nil
}

// identify looks at results of the user's own expressions that do not say of
// which job and instance they are, as of sum(x). Where the source has one job
// and instance in all they are that one's, else they are nobody's.
func (c *collector) identify(ctx context.Context, all []found) {
	for i, s := range c.table {
		f := &all[i]
		nameless := func(s promql.Series) bool { return s.Metric.Get("job") == "" || s.Metric.Get("instance") == "" }
		if !f.given || !slices.ContainsFunc(f.matrix, nameless) {
			continue
		}
		known := c.identities(ctx, all, f.Metrics)
		// Series that a file has without these labels are known without them.
		at := slices.IndexFunc(f.matrix, func(s promql.Series) bool {
			_, ok := known[s.Metric.String()]
			return nameless(s) && !ok
		})
		switch {
		case at < 0:
		case len(known) == 1 && len(f.matrix) == 1:
			for _, only := range known {
				f.matrix[0].Metric = only
			}
		default:
			f.Missing = fmt.Sprintf("expected a result by job and instance, such as %s by (job, instance) (…), saw %s", s.aggregate(), f.matrix[at].Metric)
			f.matrix = nil
		}
	}
}

// identities are the labels job and instance that the source's series have,
// those of metrics too, by their text.
func (c *collector) identities(ctx context.Context, all []found, metrics []string) map[string]labels.Labels {
	known := map[string]labels.Labels{}
	add := func(m promql.Matrix) {
		for _, s := range m {
			known[s.Metric.String()] = s.Metric
		}
	}
	names := fmt.Sprintf("__name__=~%q", quoted(append(strings.Split(everyTarget, "|"), metrics...)))
	// A query that fails leaves what the other signals know.
	if m, err := c.glance(ctx, "count"+by+"({"+joinMatchers(names, c.Selector)+"})"); err == nil {
		add(m)
	}
	for _, f := range all {
		if !f.given {
			add(f.matrix)
		}
	}
	return known
}
