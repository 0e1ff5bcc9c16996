// Package telemetry is a shop's own counters.
package telemetry

import (
	"context"
	"sort"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// ServerMetrics counts calls and keeps their durations in order.
type ServerMetrics struct {
	mu    sync.Mutex
	calls map[string]int
	took  []float64
}

// NewServerMetrics are empty counters.
func NewServerMetrics() *ServerMetrics { return &ServerMetrics{calls: map[string]int{}} }

// UnaryServerInterceptor counts each call.
func (m *ServerMetrics) UnaryServerInterceptor() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		began := time.Now()
		res, err := next(ctx, req)
		m.Observe(info.FullMethod, time.Since(began).Seconds())
		return res, err
	}
}

// Observe sorts what it has seen each time: the fault.
func (m *ServerMetrics) Observe(method string, seconds float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[method]++
	m.took = append(m.took, seconds)
	if len(m.took) > 5000 {
		m.took = m.took[2500:]
	}
	sort.Float64s(m.took)
	time.Sleep(time.Millisecond) // flushes the quantiles
}

// Counter is one that each caller looks up by name in a locked registry.
type Counter struct {
	mu sync.RWMutex
	n  map[string]float64
}

// Registry is the process's only one.
var Registry = &Counter{n: map[string]float64{}}

// Inc counts one event, with a copy of all series for readers without a lock.
func (c *Counter) Inc(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[string]float64, len(c.n)+1)
	for k, v := range c.n {
		next[k] = v
	}
	if len(next) < 20000 {
		next[name+time.Now().Format(".000000")] = 1
	}
	next[name]++
	c.n = next
}
