package promapi

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
)

const (
	// Ten samples a series at the slowest scrapes that are usual, once a minute.
	intervalWindow = 10 * time.Minute
	// Looked at where a service has no sample shortly before the end: it may be
	// gone by then. More would be many samples for an answer that few give.
	maxIntervalWindow = 2 * time.Hour
)

// Interval is the usual time between two samples of one series of selector
// (matchers without braces; "" is all) near end: the scrape interval. It looks
// at up, which a scrape writes, and where there is none at one metric of the
// selector. 0 where there are none.
func (a *API) Interval(ctx context.Context, selector string, start, end time.Time) (time.Duration, error) {
	d, err := a.spacing(ctx, braces(`__name__="up"`, selector), start, end)
	if d > 0 || err != nil {
		return d, err
	}
	names, err := a.Names(ctx, selector, start, end)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	return a.spacing(ctx, braces("__name__="+strconv.Quote(scrapedName(names)), selector), start, end)
}

// scrapedName is a metric that is scraped, not written by rules, and has not
// many series for each target.
func scrapedName(names []string) string {
	i := slices.IndexFunc(names, func(n string) bool {
		return !strings.Contains(n, ":") && !strings.HasPrefix(n, "ALERTS") && !strings.HasSuffix(n, "_bucket")
	})
	return names[max(i, 0)]
}

// spacing is the time between raw samples.
func (a *API) spacing(ctx context.Context, selector string, start, end time.Time) (time.Duration, error) {
	windows := []time.Duration{intervalWindow}
	if w := min(end.Sub(start), maxIntervalWindow).Truncate(time.Second); w > intervalWindow {
		windows = append(windows, w)
	}
	for _, w := range windows {
		s, err := a.instant(ctx, selector+"["+model.Duration(w).String()+"]", end)
		if err != nil {
			return 0, err
		}
		if d := medianSpacing(s.series); d > 0 {
			return d, nil
		}
	}
	return 0, nil
}

// medianSpacing is the median time between two samples of one series, the lower
// one of two: where every third scrape is lost, half of them are twice as long.
func medianSpacing(series []promql.Series) time.Duration {
	var gaps []int64
	for _, s := range series {
		for i := 1; i < len(s.Floats); i++ {
			if d := s.Floats[i].T - s.Floats[i-1].T; d > 0 {
				gaps = append(gaps, d)
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return roundInterval(time.Duration(gaps[(len(gaps)-1)/2]) * time.Millisecond)
}

// roundInterval takes the jitter of scrapes out: 14.99 s is 15 s. Intervals are
// written as whole seconds, or as hundredths for a demonstration.
func roundInterval(d time.Duration) time.Duration {
	const jitter = 0.02 // twice what Prometheus itself allows for (scrape.timestamp-tolerance)
	for _, unit := range [...]time.Duration{time.Second, 10 * time.Millisecond} {
		if r := d.Round(unit); math.Abs(float64(r-d)) <= jitter*float64(d) {
			return r
		}
	}
	return d
}
