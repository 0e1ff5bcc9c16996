package series

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// explain says why a signal has no instances.
func (c *collector) explain(ctx context.Context, s Signal, f *found) {
	if f.Instances > 0 {
		return
	}
	f.Hint = s.Hint
	switch {
	case f.Missing != "":
	case f.err != nil:
		f.Missing = "query failed: " + f.err.Error()
	case f.constant != nil:
		f.Missing = "no instance seen that the number could be of"
	case f.Matched == "":
		f.Missing = "no such series: looked for " + lookedFor(s)
		f.Near = resembling(s.Name, c.stage.Present.Own)
		if name := c.unread(s); name != "" && !c.stage.own("up") && !c.stage.own("target_info") {
			f.Missing = fmt.Sprintf("%s is not read: %s", name, noTargets)
		}
	case len(f.matrix) > 0:
		f.Missing = fmt.Sprintf("no value from %s to %s, only before it", clock(c.Start), clock(c.End))
	case c.oneScrape:
		f.Missing = "one scrape: rates need two"
	default:
		f.Missing = fmt.Sprintf("no value from %s to %s in %s", clock(c.From), clock(c.End), strings.Join(f.Metrics, ", "))
		if f.given {
			break
		}
		if reasons := c.unjoined(ctx, s); len(reasons) > 0 {
			f.Missing += ": " + strings.Join(reasons, "; ")
		}
	}
	f.Matched = ""
}

const noTargets = "no series up or target_info of the service has the labels namespace and pod to join them by"

// unjoined says why series of exporters are no value of the service's instances.
func (c *collector) unjoined(ctx context.Context, s Signal) []string {
	var reasons []string
	for _, p := range s.Presets {
		if !p.readsExporters() {
			continue
		}
		text, _, err := c.stage.write(p, "", false)
		if err != nil || text == "" {
			continue
		}
		expr, err := promQL.ParseExpr(text)
		if err != nil {
			continue
		}
		if reason := c.whyUnjoined(ctx, expr); reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// whyUnjoined is the first thing that is amiss with the exporter's metric that
// a preset's expression reads; "" where none of what is looked at is, or a
// query fails.
func (c *collector) whyUnjoined(ctx context.Context, expr parser.Expr) string {
	metric, rated := firstSelector(expr)
	var matchers []string
	for _, m := range metric.LabelMatchers {
		matchers = append(matchers, m.String())
	}
	series := strings.Join(matchers, ",")
	if !c.there(ctx, series) {
		return fmt.Sprintf("no series %s", metric)
	}
	if rated {
		timing := c.stage.Timing
		timing.Interval = max(timing.Interval, c.stage.ExporterInterval)
		w, err := timing.Span(windowSpan)
		if err != nil {
			return ""
		}
		d, err := c.src.Interval(ctx, series, c.From, c.End)
		switch {
		case err != nil:
			return ""
		case d == 0:
			return fmt.Sprintf("one sample of %s, and a rate needs two", metric)
		case 2*d > w:
			return fmt.Sprintf("one sample of %s in %s: scraped each %s", metric, w, d)
		}
	}
	if !c.there(ctx, c.Selector, `__name__="up",namespace!="",pod!=""`) && !c.there(ctx, c.Selector, `__name__="target_info",k8s_pod_name!=""`) {
		return noTargets
	}
	own, err := c.ownTargets()
	if err != nil {
		return ""
	}
	m, err := c.glance(ctx, "count by (namespace, pod) ({"+series+"}) and on (namespace, pod) "+own)
	switch {
	case err != nil:
		return ""
	case len(m) == 0:
		return fmt.Sprintf("no series %s is of a pod of the service", metric)
	case strings.Contains(expr.String(), wholePods):
		return fmt.Sprintf("not every container of the service's pods has a limit in %s", metric)
	}
	return ""
}

// there tells whether a series matches. A source that fails to say is trusted to have it.
func (c *collector) there(ctx context.Context, matchers ...string) bool {
	names, err := c.src.Names(ctx, joinMatchers(matchers...), c.From, c.End)
	return err != nil || len(names) > 0
}

// ownTargets are the targets that the user's matchers select.
func (c *collector) ownTargets() (string, error) {
	text, err := c.stage.Timing.Expand(targets(false))
	if err != nil {
		return "", err
	}
	expr, err := promQL.ParseExpr(text)
	if err != nil {
		return "", err
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			c.stage.inject(v, nil)
		}
		return nil
	})
	return expr.String(), nil
}

// unread is an exporter's metric of a signal that is there; "" where none is.
func (c *collector) unread(s Signal) string {
	for _, p := range s.Presets {
		if name := firstMetric(p); isForeign(name, p.Foreign) {
			if _, ok := slices.BinarySearch(c.stage.Present.Foreign, name); ok {
				return name
			}
		}
	}
	return ""
}

// firstMetric is the first metric that a preset reads.
func firstMetric(p Preset) string {
	if len(p.Known) > 0 {
		return p.Known[0] + suffixes.FindStringSubmatch(p.Expr)[1]
	}
	text, err := Timing{Interval: time.Second}.Expand(p.Expr)
	if err != nil {
		return ""
	}
	expr, err := promQL.ParseExpr(text)
	if err != nil {
		return ""
	}
	if first, _ := firstSelector(expr); first != nil {
		return first.Name
	}
	return ""
}

// lookedFor names a signal's metrics, the first of each preset and at most 6.
func lookedFor(s Signal) string {
	const most = 6
	var names []string
	for _, p := range s.Presets {
		name := firstMetric(p)
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
