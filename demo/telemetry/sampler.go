package telemetry

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sampleEvery is the share of requests whose trace would be kept: one in so many.
const sampleEvery = 10

func newSampler(registry prometheus.Registerer, cfg Config) (Recorder, error) {
	sampled := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gateway_traces_sampled_total",
		Help: "Requests whose trace was kept.",
	}, []string{"route"})
	if err := registry.Register(sampled); err != nil {
		return nil, fmt.Errorf("register the sampler's metric: %w", err)
	}
	if cfg.Faulty {
		return &lockingSampler{sampled: sampled, hold: cfg.Hold, seen: map[string]int64{}}, nil
	}
	return &atomicSampler{sampled: sampled}, nil
}

// lockingSampler counts under one mutex, which it keeps while it asks for the
// quota of a route.
type lockingSampler struct {
	sampled *prometheus.CounterVec
	hold    time.Duration

	mu   sync.Mutex
	seen map[string]int64 // requests by route
}

// Record implements Recorder.
func (s *lockingSampler) Record(route, _ string, _ int, _ time.Duration) {
	if s.sample(route) {
		s.sampled.WithLabelValues(route).Inc()
	}
}

func (s *lockingSampler) sample(route string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[route]++
	return s.seen[route]%s.quota() == 0
}

// quota stands for a question to a slow store.
func (s *lockingSampler) quota() int64 {
	time.Sleep(s.hold)
	return sampleEvery
}

// atomicSampler takes no lock of its own.
type atomicSampler struct {
	sampled *prometheus.CounterVec
	seen    sync.Map // from route to *atomic.Int64, requests
}

// Record implements Recorder.
func (s *atomicSampler) Record(route, _ string, _ int, _ time.Duration) {
	seen, ok := s.seen.Load(route)
	if !ok {
		seen, _ = s.seen.LoadOrStore(route, new(atomic.Int64))
	}
	if seen.(*atomic.Int64).Add(1)%sampleEvery == 0 {
		s.sampled.WithLabelValues(route).Inc()
	}
}
