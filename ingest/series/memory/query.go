package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	// Prometheus' --query.lookback-delta.
	standardLookback = 5 * time.Minute
	// Prometheus' --query.max-samples: what a server evaluates, a file does
	// too. Those of one query are 16 bytes each, 800 MB.
	maxQuerySamples = 50_000_000
	// The engine wants a limit. The caller's context is the one that counts.
	queryTimeout = time.Hour
	// Prometheus' global evaluation_interval: the resolution of [1h:].
	subqueryStep = time.Minute
)

// newEngine makes the engine of one store. It holds nothing that would have to
// be closed.
func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples:               maxQuerySamples,
		Timeout:                  queryTimeout,
		LookbackDelta:            standardLookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return subqueryStep.Milliseconds() },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		Parser:                   parser.NewParser(parser.Options{}),
	})
}

// Range evaluates expr at start, start+step … until end. The result is sorted
// by labels and belongs to the caller.
func (s *Store) Range(ctx context.Context, expr string, start, end time.Time, step time.Duration) (promql.Matrix, error) {
	if step < time.Millisecond {
		return nil, fmt.Errorf("expected a step of a millisecond or more, saw %s", step)
	}
	if end.Before(start) {
		return nil, fmt.Errorf("expected a range that ends after it starts, saw %s to %s", start.Format(time.RFC3339), end.Format(time.RFC3339))
	}
	s.mu.RLock()
	lookback := s.lookback
	s.mu.RUnlock()
	q, err := s.engine.NewRangeQuery(ctx, s, promql.NewPrometheusQueryOpts(false, lookback, nil), expr, start, end, step)
	if err != nil {
		return nil, fmt.Errorf("expected PromQL, saw %q: %w", expr, err)
	}
	// The query is not closed: that would give its result back to be used again.
	m, err := q.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("evaluating %q: %w", expr, err)
	}
	return m, nil
}

// Names lists the names of the metrics that have a sample from start to end
// among the series that match selector: matchers without braces, "" is all.
func (s *Store) Names(ctx context.Context, selector string, start, end time.Time) ([]string, error) {
	matchers, err := parseSelector(selector)
	if err != nil {
		return nil, err
	}
	q := &querier{s, start.UnixMilli(), end.UnixMilli()}
	names, _, err := q.LabelValues(ctx, model.MetricNameLabel, nil, matchers...)
	return names, err
}

// parseSelector parses matchers without braces.
func parseSelector(selector string) ([]*labels.Matcher, error) {
	// PromQL wants a matcher that the empty string does not match; this one is
	// true of all series.
	const any = `{__name__!="",`
	matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(any + selector + "}")
	if err != nil {
		return nil, fmt.Errorf("expected matchers such as job=\"gateway\", saw %q: %w", selector, err)
	}
	return matchers, nil
}

// Extent is the time of the first and of the last sample. ok is false where
// there is none.
func (s *Store) Extent() (start, end time.Time, ok bool) {
	s.rlock()
	defer s.mu.RUnlock()
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, x := range s.all {
		i, j := 0, len(x.vs)-1
		for i <= j && value.IsStaleNaN(x.vs[i]) {
			i++
		}
		for j > i && value.IsStaleNaN(x.vs[j]) {
			j--
		}
		if i <= j {
			first, last = min(first, x.ts[i]), max(last, x.ts[j])
		}
	}
	if first > last {
		return time.Time{}, time.Time{}, false
	}
	return time.UnixMilli(first), time.UnixMilli(last), true
}

// Querier is for the engine: storage.Queryable.
func (s *Store) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{s, mint, maxt}, nil
}

// querier reads the samples of a store from mint to maxt, both included, in
// milliseconds.
type querier struct {
	s          *Store
	mint, maxt int64
}

func (q *querier) Close() error { return nil }

// Select returns the series with a sample in the range of hints, or else of q.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := q.mint, q.maxt
	if hints != nil {
		mint, maxt = max(mint, hints.Start), min(maxt, hints.End)
	}
	found, err := q.s.pick(ctx, mint, maxt, matchers)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	if sorted {
		slices.SortFunc(found, func(a, b excerpt) int { return labels.Compare(a.labels, b.labels) })
	}
	return &seriesSet{found: found, i: -1}
}

// LabelValues lists the values of a label among the series that match, sorted.
func (q *querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.collect(ctx, matchers, func(lset labels.Labels, add func(string)) {
		if v := lset.Get(name); v != "" {
			add(v)
		}
	})
}

// LabelNames lists the names of labels of the series that match, sorted.
func (q *querier) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.collect(ctx, matchers, func(lset labels.Labels, add func(string)) {
		lset.Range(func(l labels.Label) { add(l.Name) })
	})
}

func (q *querier) collect(ctx context.Context, matchers []*labels.Matcher, of func(labels.Labels, func(string))) ([]string, annotations.Annotations, error) {
	found, err := q.s.pick(ctx, q.mint, q.maxt, matchers)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	var out []string
	for _, x := range found {
		of(x.labels, func(text string) {
			if !seen[text] {
				seen[text] = true
				out = append(out, strings.Clone(text)) // text is a part of all labels
			}
		})
	}
	slices.Sort(out)
	return out, nil, nil
}

// excerpt is a series as a query sees it: the samples of its range.
type excerpt struct {
	labels labels.Labels
	ts     []int64
	vs     []float64
}

// pick returns the series that match and have a sample, and not only a marker,
// from mint to maxt. They are in the order in which they came.
func (s *Store) pick(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) ([]excerpt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.rlock()
	defer s.mu.RUnlock()
	candidates := s.candidates(matchers)
	found := make([]excerpt, 0, len(candidates))
next:
	for _, x := range candidates {
		for _, m := range matchers {
			if !m.Matches(x.labels.Get(m.Name)) {
				continue next
			}
		}
		i, _ := slices.BinarySearch(x.ts, mint)
		j := len(x.ts)
		if j > i && x.ts[j-1] > maxt {
			j, _ = slices.BinarySearch(x.ts, maxt+1)
		}
		if i < j && slices.ContainsFunc(x.vs[i:j], func(v float64) bool { return !value.IsStaleNaN(v) }) {
			found = append(found, excerpt{x.labels, x.ts[i:j:j], x.vs[i:j:j]})
		}
	}
	return found, nil
}

// candidates narrows the series to look at down by their names.
func (s *Store) candidates(matchers []*labels.Matcher) []*series {
	for _, m := range matchers {
		if m.Name != model.MetricNameLabel {
			continue
		}
		switch {
		case m.Type == labels.MatchEqual && m.Value != "":
			return s.byName[m.Value]
		case m.Type == labels.MatchRegexp && len(m.SetMatches()) > 0 && !m.Matches(""):
			var out []*series
			for _, name := range slices.Compact(slices.Sorted(slices.Values(m.SetMatches()))) {
				out = append(out, s.byName[name]...)
			}
			return out
		}
	}
	return s.all
}

// seriesSet walks over excerpts: storage.SeriesSet.
type seriesSet struct {
	found []excerpt
	i     int
}

func (s *seriesSet) Next() bool                        { s.i++; return s.i < len(s.found) }
func (s *seriesSet) At() storage.Series                { return &s.found[s.i] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// Labels is for the engine: storage.Series.
func (x *excerpt) Labels() labels.Labels { return x.labels }

// Iterator is for the engine, which hands in the iterator of the series before.
func (x *excerpt) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	c, ok := it.(*cursor)
	if !ok {
		c = new(cursor)
	}
	*c = cursor{ts: x.ts, vs: x.vs, i: -1}
	return c
}

// cursor is a place in two columns: chunkenc.Iterator.
type cursor struct {
	ts []int64
	vs []float64
	i  int
}

func (c *cursor) Next() chunkenc.ValueType {
	if c.i < len(c.ts) {
		c.i++
	}
	return c.here()
}

// millis is a time in milliseconds since 1970. Under its other name, go vet
// takes Seek for one of io.Seeker that went wrong.
type millis = int64

func (c *cursor) Seek(t millis) chunkenc.ValueType {
	from := max(c.i, 0)
	n, _ := slices.BinarySearch(c.ts[from:], t)
	c.i = from + n
	return c.here()
}

func (c *cursor) here() chunkenc.ValueType {
	if c.i < len(c.ts) {
		return chunkenc.ValFloat
	}
	return chunkenc.ValNone
}

func (c *cursor) At() (int64, float64) { return c.ts[c.i], c.vs[c.i] }
func (c *cursor) AtT() int64           { return c.ts[c.i] }
func (c *cursor) AtST() int64          { return 0 } // not known
func (c *cursor) Err() error           { return nil }

func (c *cursor) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return c.ts[c.i], nil
}

func (c *cursor) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return c.ts[c.i], nil
}
