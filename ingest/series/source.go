// Package series finds a service's Prometheus series and turns them into
// canonical ones: contend:<signal> by job and instance (stage one). Detectors
// evaluate their conditions on those (stage two).
package series

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// Source answers PromQL over one set of series: a Prometheus-compatible server
// (package promapi), or what was read from files (package memory).
type Source interface {
	// Names lists the names of metrics that have a sample from start to end
	// among the series that match selector (matchers without braces; "" is all), sorted.
	Names(ctx context.Context, selector string, start, end time.Time) ([]string, error)
	// Interval is the usual time between two samples of one series of selector
	// near end: the scrape interval. 0 where there are none.
	Interval(ctx context.Context, selector string, start, end time.Time) (time.Duration, error)
	// Range evaluates expr at start, start+step … until end. Samples that are
	// histograms are left out.
	Range(ctx context.Context, expr string, start, end time.Time, step time.Duration) (promql.Matrix, error)
}
