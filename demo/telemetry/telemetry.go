// Package telemetry is the layer of metrics, traces or logs that stands on the
// gateway's request path: every request passes Record once.
//
// Four kinds exist, each faulty or fixed. A faulty layer keeps one lock while it
// does something slow that takes no CPU, so that all requests of a process queue
// for that lock while its cores are idle. A fixed one records the same and never
// waits: what it cannot take at once it drops.
//
//	metrics   registers a collector again on every recording, under the lock of
//	          client_golang's registry; fixed: registered once
//	exporter  exports each span as it ends, under the lock of OpenTelemetry's
//	          simple span processor; fixed: in batches, from a queue that drops
//	sampler   asks a slow quota under a mutex; fixed: atomic counters
//	logger    writes each line to a slow sink under the lock of the standard
//	          library's logger; fixed: through a buffer that drops
package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of telemetry.
const (
	KindMetrics  = "metrics"
	KindExporter = "exporter"
	KindSampler  = "sampler"
	KindLogger   = "logger"
	KindNone     = "none" // turned off, as in load tests that are to be cheap
)

// Config says which telemetry a gateway has. In JSON, Hold is in nanoseconds.
type Config struct {
	Kind   string        // one of the kinds above; "" is metrics
	Faulty bool          // keep the lock while something slow is done
	Hold   time.Duration // how long the slow thing takes for each recording, without CPU; default 3 ms
}

// defaultHold lets a process record 333 requests a second: of four tasks that
// share 500 requests/s each has room, and at three times that none.
const defaultHold = 3 * time.Millisecond

// Recorder records requests. Many goroutines may use it at once.
type Recorder interface {
	// Record takes one request that was answered with status and took elapsed
	// until now. Route comes from a small set: it becomes a label's value.
	Record(route, method string, status int, elapsed time.Duration)
}

// New makes the telemetry that cfg describes. What it exports about itself it
// registers in registry, which must not have metrics of the same names. Its
// background work ends with ctx.
func New(ctx context.Context, registry prometheus.Registerer, cfg Config) (Recorder, error) {
	if cfg.Hold < 0 {
		return nil, fmt.Errorf("expected a hold of 0 or more, saw %v", cfg.Hold)
	}
	if cfg.Hold == 0 {
		cfg.Hold = defaultHold
	}
	switch cfg.Kind {
	case KindMetrics, "":
		return newFilters(registry, cfg)
	case KindExporter:
		return newTracer(ctx, cfg), nil
	case KindSampler:
		return newSampler(registry, cfg)
	case KindLogger:
		return newLogger(ctx, registry, cfg)
	case KindNone:
		return nothing{}, nil
	}
	return nil, fmt.Errorf("expected telemetry of kind %s, %s, %s, %s or %s, saw %q", KindMetrics, KindExporter, KindSampler, KindLogger, KindNone, cfg.Kind)
}

// nothing records nothing.
type nothing struct{}

func (nothing) Record(string, string, int, time.Duration) {}
