package telemetry

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// filterCount makes the collector larger than the channel through which a
// registry of client_golang takes descriptors: it has room for ten (capDescChan).
const filterCount = 13

// pauseAfter is the first descriptor that fits in that channel only once the
// registry, its lock in hand, has taken another: a pause behind it is spent under
// the lock.
const pauseAfter = 11

// filters is one collector with a counter for each of the gateway's filters.
type filters []*prometheus.CounterVec

// filterMetrics records in every filter.
type filterMetrics struct {
	registry prometheus.Registerer
	counters filters
	hold     time.Duration // of registering again for each recording; 0: registered once
}

func newFilters(registry prometheus.Registerer, cfg Config) (*filterMetrics, error) {
	m := &filterMetrics{registry: registry}
	for i := range filterCount {
		m.counters = append(m.counters, newRequests(i))
	}
	if err := registry.Register(m.counters); err != nil {
		return nil, fmt.Errorf("register the filters' metrics: %w", err)
	}
	if cfg.Faulty {
		m.hold = cfg.Hold
	}
	return m, nil
}

// Record implements Recorder.
func (m *filterMetrics) Record(route, method string, status int, _ time.Duration) {
	code := strconv.Itoa(status)
	for _, requests := range m.instruments() {
		requests.WithLabelValues(route, method, code).Inc()
	}
}

// instruments is where the fault is: code that asks the registry for what it
// already has, and falls back on it.
func (m *filterMetrics) instruments() filters {
	if m.hold == 0 {
		return m.counters
	}
	err := m.registry.Register(slowFilters{m.counters, m.hold})
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		return already.ExistingCollector.(filters)
	}
	return m.counters
}

// Describe implements prometheus.Collector.
func (f filters) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range f {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (f filters) Collect(ch chan<- prometheus.Metric) {
	for _, c := range f {
		c.Collect(ch)
	}
}

// slowFilters has the same descriptors, so that a registry takes it for the
// same collector, and looks up the last ones somewhere slow.
type slowFilters struct {
	filters
	hold time.Duration
}

// Describe implements prometheus.Collector.
func (f slowFilters) Describe(ch chan<- *prometheus.Desc) {
	f.filters[:pauseAfter].Describe(ch)
	time.Sleep(f.hold)
	f.filters[pauseAfter:].Describe(ch)
}

func newRequests(filter int) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name:        fmt.Sprintf("gateway_filter_%03d_requests_total", filter),
		Help:        "Requests that passed this filter.",
		ConstLabels: prometheus.Labels{"service": "gateway", "region": "eu-1"},
	}, []string{"route", "method", "code"})
}
