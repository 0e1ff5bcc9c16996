package promapi

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// minPoints is what a request is not made smaller than: one that fails for an
// hour at a scrape a minute fails for its own reasons.
const minPoints = 60

// windowBound expressions have another meaning in each part of a window.
var windowBound = regexp.MustCompile(`@\s*(start|end)\s*\(\s*\)`)

// Range evaluates expr at start, start+step … until end; start is truncated to
// milliseconds, step is whole ones. Samples that are histograms are left out.
// Series are sorted by labels.
//
// A window of more than Options.MaxPoints steps is asked for in parts, one after
// the other, which gives what one request would. A part that fails for a reason
// that may pass, or that is too much for the server, is asked for once more in
// halves, and so are those that follow; after a timeout, only once. An expression with @ start() or @ end() is asked for at once.
//
// Some servers can be set up to move start to a multiple of step; then there is
// a warning. A start that is one already avoids it, and finds their caches.
func (a *API) Range(ctx context.Context, expr string, start, end time.Time, step time.Duration) (promql.Matrix, error) {
	if step < time.Millisecond || step%time.Millisecond != 0 {
		return nil, fmt.Errorf("expected a step of whole milliseconds, saw %v", step)
	}
	if end.Before(start) {
		return nil, fmt.Errorf("expected an end after the start %s, saw %s", start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
	}
	g := grid{start: start.UnixMilli(), step: step.Milliseconds()}
	points := (end.UnixMilli()-g.start)/g.step + 1
	size, smallest := int64(a.opt.MaxPoints), int64(minPoints)
	if windowBound.MatchString(expr) {
		size, smallest = points, points
	}
	m := merger{series: map[string]*mergedSeries{}}
	var retried int64 // steps before it have been asked for twice
	slow := false     // a part was not answered in time
	for from := int64(0); from < points; {
		n := min(size, points-from)
		if n < points {
			a.opt.Progress(fmt.Sprintf("asking for steps %d to %d of %d of %s", from+1, from+n, points, quoteExpr(expr)))
		}
		part := &samples{most: a.opt.MaxSeries, left: a.opt.MaxSamples - m.samples, from: g.at(from - 1), to: g.at(from + n)}
		form := url.Values{
			"query": {expr},
			"start": {timeParam(g.at(from))},
			"end":   {timeParam(g.at(from + n - 1))},
			"step":  {timeParam(g.step)},
		}
		err := a.ask(ctx, request{path: "query_range", form: form, what: quoteExpr(expr), data: part.data})
		if err != nil {
			if from < retried || slow && tookTooLong(err) || !a.again(ctx, err, n > smallest) {
				return nil, err
			}
			slow = slow || tookTooLong(err)
			retried = from + n
			size = max(n/2, min(n, smallest))
			continue
		}
		if err := m.add(part.series); err != nil {
			return nil, a.queryError(quoteExpr(expr), err, "%s", a.quote(err.Error()))
		}
		if len(m.series) > a.opt.MaxSeries {
			return nil, a.tooManySeries(quoteExpr(expr))
		}
		if !g.holds(part.series) {
			a.warn("the server evaluated some queries shortly before or after the times it was asked for, as it rounds them")
		}
		from += n
	}
	return m.matrix(), nil
}

// grid is the times that are asked for, in milliseconds.
type grid struct{ start, step int64 }

func (g grid) at(i int64) int64 { return g.start + i*g.step }

// holds is false where a series begins between two steps. One is enough to
// know: the steps of an answer are the same for all.
func (g grid) holds(series []promql.Series) bool {
	return !slices.ContainsFunc(series, func(s promql.Series) bool { return (s.Floats[0].T-g.start)%g.step != 0 })
}

// merger puts the parts of a window together.
type merger struct {
	series  map[string]*mergedSeries // by their labels' bytes
	part    int
	samples int
	key     []byte
}

type mergedSeries struct {
	promql.Series
	part int // the last one it was in
}

// add appends a later part. It fails where that has one series twice.
func (m *merger) add(part []promql.Series) error {
	m.part++
	for _, s := range part {
		m.key = s.Metric.Bytes(m.key)
		old := m.series[string(m.key)]
		switch {
		case old == nil:
			m.series[string(m.key)] = &mergedSeries{s, m.part}
			m.samples += len(s.Floats)
			continue
		case old.part == m.part:
			return fmt.Errorf("expected each series once, saw %s twice", clip(s.Metric.String(), maxQuoted))
		}
		// A server that moves the times may give the last one again.
		last := old.Floats[len(old.Floats)-1].T
		fresh := slices.IndexFunc(s.Floats, func(p promql.FPoint) bool { return p.T > last })
		if fresh >= 0 {
			old.Floats = append(old.Floats, s.Floats[fresh:]...)
			m.samples += len(s.Floats) - fresh
		}
		old.part = m.part
	}
	return nil
}

func (m *merger) matrix() promql.Matrix {
	out := make(promql.Matrix, 0, len(m.series))
	for _, s := range m.series {
		out = append(out, s.Series)
	}
	slices.SortFunc(out, func(x, y promql.Series) int { return labels.Compare(x.Metric, y.Metric) })
	return out
}
