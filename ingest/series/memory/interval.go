package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// Interval is the usual time between two samples of one series of selector
// near end: the scrape interval, as it was configured. 0 where no series has
// two samples from start to end.
//
// It is what promapi.API.Interval says of the same series: of up where it is
// there, else of ScrapedName, as UsualInterval has it. A file costs nothing to
// look further into: where those have none, all its series count.
func (s *Store) Interval(ctx context.Context, selector string, start, end time.Time) (time.Duration, error) {
	matchers, err := parseSelector(selector)
	if err != nil {
		return 0, err
	}
	spacing := func(name string) (time.Duration, error) {
		return s.spacing(ctx, append(slices.Clone(matchers), labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)), start, end)
	}
	if d, err := spacing("up"); d > 0 || err != nil {
		return d, err
	}
	names, err := s.Names(ctx, selector, start, end)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	if d, err := spacing(ScrapedName(names)); d > 0 || err != nil {
		return d, err
	}
	return s.spacing(ctx, matchers, start, end)
}

// spacing is the usual time between two samples of the series that match.
func (s *Store) spacing(ctx context.Context, matchers []*labels.Matcher, start, end time.Time) (time.Duration, error) {
	for _, w := range append(IntervalWindows(start, end), end.Sub(start)) {
		from := max(start.UnixMilli(), end.Add(-w).UnixMilli())
		found, err := s.pick(ctx, from, end.UnixMilli(), matchers)
		if err != nil {
			return 0, err
		}
		if d := UsualInterval(len(found), func(i int) []int64 { return found[i].scrapes() }); d > 0 {
			return d, nil
		}
	}
	return 0, nil
}

// scrapes are the times of an excerpt's samples. A marker is none.
func (x *excerpt) scrapes() []int64 {
	if !slices.ContainsFunc(x.vs, value.IsStaleNaN) {
		return x.ts
	}
	var out []int64
	for i, t := range x.ts {
		if !value.IsStaleNaN(x.vs[i]) {
			out = append(out, t)
		}
	}
	return out
}

// IntervalWindows are how far before end to look for samples that tell the
// scrape interval, one after the other until there are some.
func IntervalWindows(start, end time.Time) []time.Duration {
	const (
		// Ten samples a series at the slowest scrapes that are usual, once a minute.
		usual = 10 * time.Minute
		// A service may be gone shortly before the end. More would be many
		// samples of a server for an answer that few give.
		most = 2 * time.Hour
	)
	windows := []time.Duration{usual}
	if w := min(end.Sub(start), most).Truncate(time.Second); w > usual {
		windows = append(windows, w)
	}
	return windows
}

// ScrapedName is a metric that is scraped, not written by rules, and has not
// many series for each target. names are not empty.
func ScrapedName(names []string) string {
	i := slices.IndexFunc(names, func(n string) bool {
		return !strings.Contains(n, ":") && !strings.HasPrefix(n, "ALERTS") && !strings.HasSuffix(n, "_bucket")
	})
	return names[max(i, 0)]
}

// UsualInterval is the usual time between two successive samples of one series,
// as it was configured; 0 where none has two. times are those of the i-th of n
// series, in milliseconds, ascending.
func UsualInterval(n int, times func(i int) []int64) time.Duration {
	const (
		perSeries = 20  // of the last spacings: what the interval is now, and not before it was changed
		series    = 500 // are enough to tell, evenly spread over the jobs
		// The median, shifted down a little: every third scrape lost makes half of
		// the spacings twice as long, and the median a matter of chance.
		quantile = 0.4
	)
	var spacings []int64
	for i := 0; i < n; i += n/series + 1 {
		ts := times(i)
		for j := max(1, len(ts)-perSeries); j < len(ts); j++ {
			if d := ts[j] - ts[j-1]; d > 0 {
				spacings = append(spacings, d)
			}
		}
	}
	if len(spacings) == 0 {
		return 0
	}
	slices.Sort(spacings)
	return round(time.Duration(spacings[int(float64(len(spacings)-1)*quantile)]) * time.Millisecond)
}

// round is the roundest duration within 2 % of d: scrapes are late by some
// milliseconds, and intervals are configured in round numbers. 2 % is twice
// what Prometheus itself allows for (--scrape.timestamp-tolerance).
func round(d time.Duration) time.Duration {
	const tolerance = 0.02
	for _, grid := range []time.Duration{
		time.Minute, 30 * time.Second, 15 * time.Second, 10 * time.Second, 5 * time.Second, time.Second,
		500 * time.Millisecond, 250 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond, 10 * time.Millisecond,
	} {
		r := d.Round(grid)
		if r > 0 && (r-d).Abs() <= time.Duration(tolerance*float64(d)) {
			return r
		}
	}
	return d
}
