package backtest

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/ingest/series/promapi"
)

// Source is what was recorded: a server's series, or those of files.
type Source struct {
	series.Source
	// raw are the samples of the series that match, from and to included. A NaN is a
	// stale marker. Steps are the times at which that is to be exact.
	raw func(ctx context.Context, s *selector, from, to time.Time, step, lookback time.Duration) ([]memory.Column, error)
	// first is when the earliest sample was taken, of files.
	first func() (time.Time, bool)
	// native tells which of some selectors, by their texts, match native histograms.
	native func(ctx context.Context, of map[string]*selector, from, to time.Time, step time.Duration) (map[string]bool, error)
	loses  string // what becomes of them
	// A server's own rules are asked of it as a whole: it has the samples at hand.
	server bool
}

// FromStore replays over series that were read from files. It sets the store's
// look-back.
func FromStore(s *memory.Store) Source {
	first := func() (time.Time, bool) {
		first, _, ok := s.Extent()
		return first, ok
	}
	native := func(_ context.Context, of map[string]*selector, _, _ time.Time, _ time.Duration) (map[string]bool, error) {
		out := map[string]bool{}
		for text, sel := range of {
			out[text] = slices.ContainsFunc(s.Histograms(), func(name string) bool { return sel.takes(model.MetricNameLabel, name) })
		}
		return out, nil
	}
	return Source{Source: s, first: first, native: native, loses: "are not read from files", raw: func(_ context.Context, sel *selector, from, to time.Time, _, _ time.Duration) ([]memory.Column, error) {
		among := s.All
		if name := sel.metric(); name != "" {
			among = func() []memory.Column { return s.Columns(name) }
		}
		var out []memory.Column
		for _, c := range among() {
			if !slices.ContainsFunc(sel.matchers, func(m *labels.Matcher) bool { return !m.Matches(c.Labels.Get(m.Name)) }) {
				i, _ := slices.BinarySearch(c.T, from.UnixMilli())
				j, _ := slices.BinarySearch(c.T, to.UnixMilli()+1)
				out = append(out, memory.Column{Labels: c.Labels, T: c.T[i:j], V: c.V[i:j]})
			}
		}
		return out, nil
	}}
}

// FromServer replays over what a server with Prometheus' API has.
func FromServer(a *promapi.API) Source {
	// All at once first: most servers have none.
	native := func(ctx context.Context, of map[string]*selector, from, to time.Time, step time.Duration) (map[string]bool, error) {
		out := map[string]bool{}
		has := func(texts []string) (bool, error) {
			m, err := a.Range(ctx, "count(histogram_count("+strings.Join(texts, ")) or count(histogram_count(")+"))", from, to, step)
			if noSuchFunction(err) {
				return false, nil
			}
			return len(m) > 0, err
		}
		texts := slices.Sorted(maps.Keys(of))
		if len(texts) == 0 {
			return out, nil
		}
		if some, err := has(texts); !some || err != nil {
			return out, err
		}
		for _, text := range texts {
			var err error
			if out[text], err = has([]string{text}); err != nil {
				return out, err
			}
		}
		return out, nil
	}
	return Source{Source: a, server: true, native: native, loses: "are not kept between rules", raw: func(ctx context.Context, sel *selector, from, to time.Time, step, lookback time.Duration) ([]memory.Column, error) {
		samples, err := a.Raw(ctx, sel.braced(), from, to)
		if err != nil || len(samples) == 0 {
			return nil, err
		}
		first := gridFrom(from, step)
		seen, err := a.Range(ctx, sel.text, first, to, step)
		if err != nil {
			return nil, err
		}
		at := map[string][]promql.FPoint{}
		for _, s := range seen {
			at[string(s.Metric.Bytes(nil))] = s.Floats
		}
		var out []memory.Column
		for _, s := range samples {
			c := mark(s.Floats, at[string(s.Metric.Bytes(nil))], first, to, step, lookback)
			c.Labels = s.Metric
			out = append(out, c)
		}
		return out, nil
	}}
}

// mark puts stale markers where a server has some: it does not show them, but at
// those steps has no value although there is a sample not long before.
func mark(samples, seen []promql.FPoint, start, end time.Time, step, lookback time.Duration) memory.Column {
	var c memory.Column
	i, k := 0, 0
	marked := true // since the last sample, or there is none
	for at := start.UnixMilli(); at <= end.UnixMilli(); at += step.Milliseconds() {
		for ; i < len(samples) && samples[i].T <= at; i++ {
			c.T, c.V = append(c.T, samples[i].T), append(c.V, samples[i].F)
			marked = false
		}
		for k < len(seen) && seen[k].T < at {
			k++
		}
		there := k < len(seen) && seen[k].T == at
		if n := len(c.T); !marked && !there && c.T[n-1] < at && at-c.T[n-1] < lookback.Milliseconds() {
			c.T, c.V = append(c.T, at), append(c.V, math.NaN())
			marked = true
		}
	}
	for ; i < len(samples); i++ {
		c.T, c.V = append(c.T, samples[i].T), append(c.V, samples[i].F)
	}
	return c
}

// gridFrom is the first multiple of step at or after t. Servers evaluate rules
// on such a grid too, each group's moved by a part of a step that depends on its name.
func gridFrom(t time.Time, step time.Duration) time.Time {
	ms := t.UnixMilli()
	if over := ((ms % step.Milliseconds()) + step.Milliseconds()) % step.Milliseconds(); over > 0 {
		ms += step.Milliseconds() - over
	}
	return time.UnixMilli(ms).UTC()
}
