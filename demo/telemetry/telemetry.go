// Package telemetry is the gateway's metrics layer: for every request it
// records what each filter of the gateway did, a counter and a histogram per
// filter.
//
// It exists in two modes. The fixed one registers its metrics once, at start.
// The faulty one builds and registers them again on every recording and falls
// back on the registered ones, as code does that asks a registry for "the
// counter of this name" on the request path. Each such call takes the
// registry's one lock for writing, so that all requests of a process queue for
// it a few hundred times each. Both modes record the same values.
package telemetry

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is the set of instruments of one gateway.
type Metrics struct {
	registry prometheus.Registerer
	faulty   bool
	requests []*prometheus.CounterVec   // by filter
	seconds  []*prometheus.HistogramVec // by filter
}

// New registers a counter and a histogram for each of so many filters in
// registry. With faulty, Record registers them again each time. It fails where
// the registry already has different metrics of the same names.
func New(registry prometheus.Registerer, filters int, faulty bool) (*Metrics, error) {
	m := &Metrics{registry: registry, faulty: faulty}
	for i := range filters {
		requests, err := register(registry, newRequests(i))
		if err != nil {
			return nil, fmt.Errorf("register the counter of filter %d: %w", i, err)
		}
		seconds, err := register(registry, newSeconds(i))
		if err != nil {
			return nil, fmt.Errorf("register the histogram of filter %d: %w", i, err)
		}
		m.requests = append(m.requests, requests)
		m.seconds = append(m.seconds, seconds)
	}
	return m, nil
}

// Record counts one request, which took so long until now, in every filter.
func (m *Metrics) Record(route, method string, status int, elapsed time.Duration) {
	code := strconv.Itoa(status)
	for i := range m.requests {
		m.filterRequests(i).WithLabelValues(route, method, code).Inc()
		m.filterSeconds(i).WithLabelValues(route, method, code).Observe(elapsed.Seconds())
	}
}

func (m *Metrics) filterRequests(i int) *prometheus.CounterVec {
	if m.faulty {
		if again, err := register(m.registry, newRequests(i)); err == nil {
			return again
		}
	}
	return m.requests[i]
}

func (m *Metrics) filterSeconds(i int) *prometheus.HistogramVec {
	if m.faulty {
		if again, err := register(m.registry, newSeconds(i)); err == nil {
			return again
		}
	}
	return m.seconds[i]
}

// labels and place are what such metrics commonly carry. They cost a correct
// program nothing; one that describes its metrics anew each time pays for every
// label, since a description is sorted, checked and hashed.
var labels = []string{"route", "method", "code"}

func place() prometheus.Labels {
	return prometheus.Labels{"service": "gateway", "region": "eu-1"}
}

func newRequests(filter int) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name:        fmt.Sprintf("gateway_filter_%03d_requests_total", filter),
		Help:        "Requests that passed this filter.",
		ConstLabels: place(),
	}, labels)
}

func newSeconds(filter int) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:        fmt.Sprintf("gateway_filter_%03d_seconds", filter),
		Help:        "Time from the request's start until this filter was done.",
		ConstLabels: place(),
		// Few buckets: a page of /metrics has one line for each, times filters and routes.
		Buckets: []float64{0.01, 0.1, 1},
	}, labels)
}

// register returns the collector that the registry holds for c: c itself, or
// the equal one that was there before.
func register[C prometheus.Collector](registry prometheus.Registerer, c C) (C, error) {
	err := registry.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		existing, ok := already.ExistingCollector.(C)
		if !ok {
			return c, fmt.Errorf("expected the registered collector to be a %T, saw a %T", c, already.ExistingCollector)
		}
		return existing, nil
	}
	return c, err
}
