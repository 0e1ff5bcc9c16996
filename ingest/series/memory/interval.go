package memory

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// Interval is the usual time between two samples of one series of selector
// near end: the scrape interval, as it was configured. 0 where no series has
// two samples from start to end.
//
// Where up is there, it alone is looked at: Prometheus writes it for every
// scrape, also for one that failed.
func (s *Store) Interval(ctx context.Context, selector string, start, end time.Time) (time.Duration, error) {
	matchers, err := parseSelector(selector)
	if err != nil {
		return 0, err
	}
	mint, maxt := start.UnixMilli(), end.UnixMilli()
	up := append(slices.Clone(matchers), labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "up"))
	for _, ms := range [][]*labels.Matcher{up, matchers} {
		found, err := s.pick(ctx, mint, maxt, ms)
		if err != nil {
			return 0, err
		}
		if d := usualSpacing(found); d > 0 {
			return round(d), nil
		}
	}
	return 0, nil
}

// usualSpacing is the median of the spacings of successive samples, shifted
// down a little: every third scrape lost makes half of the spacings twice as
// long, and the median a matter of chance.
func usualSpacing(found []excerpt) time.Duration {
	const (
		perSeries = 20  // of the last spacings: what the interval is now, and not before it was changed
		series    = 500 // are enough to tell, evenly spread over the jobs
		quantile  = 0.4
	)
	var spacings []int64
	every := len(found)/series + 1
	for i := 0; i < len(found); i += every {
		x := found[i]
		for n, j := 0, len(x.ts)-1; j > 0 && n < perSeries; j-- {
			// What is between a sample and a marker is no interval.
			if !value.IsStaleNaN(x.vs[j]) && !value.IsStaleNaN(x.vs[j-1]) {
				spacings = append(spacings, x.ts[j]-x.ts[j-1])
				n++
			}
		}
	}
	if len(spacings) == 0 {
		return 0
	}
	slices.Sort(spacings)
	return time.Duration(spacings[int(float64(len(spacings)-1)*quantile)]) * time.Millisecond
}

// round is the roundest duration within 2 % of d: scrapes are late by some
// milliseconds, and intervals are configured in round numbers.
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
