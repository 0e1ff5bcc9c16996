package promapi

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"github.com/contend/contend/ingest/series/memory"
)

// Interval is the usual time between two samples of one series of selector
// (matchers without braces; "" is all) near end: the scrape interval, as it was
// configured. It looks at up, which a scrape writes, and where there is none at
// one metric of the selector. 0 where there are none.
func (a *API) Interval(ctx context.Context, selector string, start, end time.Time) (time.Duration, error) {
	d, err := a.spacing(ctx, braces(`__name__="up"`, selector), start, end)
	if d > 0 || err != nil {
		return d, err
	}
	names, err := a.Names(ctx, selector, start, end)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	return a.spacing(ctx, braces("__name__="+strconv.Quote(memory.ScrapedName(names)), selector), start, end)
}

// spacing is the time between raw samples.
func (a *API) spacing(ctx context.Context, selector string, start, end time.Time) (time.Duration, error) {
	for _, w := range memory.IntervalWindows(start, end) {
		s, err := a.instant(ctx, selector+"["+model.Duration(w).String()+"]", end)
		if err != nil {
			return 0, err
		}
		times := func(i int) []int64 {
			var ts []int64
			for _, p := range s.series[i].Floats {
				ts = append(ts, p.T)
			}
			return ts
		}
		if d := memory.UsualInterval(len(s.series), times); d > 0 {
			return d, nil
		}
	}
	return 0, nil
}
