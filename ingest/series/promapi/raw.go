package promapi

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
)

// Raw are the samples, as they were scraped, of the series that selector
// (matchers without braces) matches, after from and until to. Stale markers are not
// among them: the API does not show them. Samples that are histograms are left out.
func (a *API) Raw(ctx context.Context, selector string, from, to time.Time) (promql.Matrix, error) {
	window := to.Sub(from).Truncate(time.Millisecond)
	if window <= 0 {
		return nil, fmt.Errorf("expected a window that ends after it starts, saw %s to %s", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	s, err := a.instant(ctx, braces(selector)+"["+model.Duration(window).String()+"]", to)
	if err != nil {
		return nil, err
	}
	return s.series, nil
}
