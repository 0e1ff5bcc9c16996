package gateway

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// admin is what stands beside the request path.
func (g *gateway) admin() http.Handler {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(g.registry, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(g.faults.Load().ScrapeTime)
		metrics.ServeHTTP(w, r)
	})
	mux.Handle("GET /metrics/filters", promhttp.HandlerFor(g.filters, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if g.cfg.HealthApart {
		mux.HandleFunc("GET "+pathHealth, g.serveHealth)
		mux.HandleFunc("GET "+pathReady, g.serveHealth)
	}
	return mux
}

// Sampling of lock contention, cheap enough to leave on under the worst fault.
const (
	// A block event is recorded for every so many nanoseconds spent blocked, so the
	// cost follows the number of blocked goroutines and not that of lock calls: 500
	// waiters make 5,000 events a second whether each waits 5 ms or 500. At one to two
	// microseconds an event, part of it with the lock in hand, that is below 1 % of a core.
	blockRate = int(100 * time.Millisecond)
	// One of so many contended unlocks is recorded, so that a short lock, which is let
	// go thousands of times a second, costs little; a hundredth of them still settles
	// shares within a few per cent.
	mutexFraction = 100
)

// profileContention turns on the block and mutex profiles of this process.
func profileContention() {
	runtime.SetBlockProfileRate(blockRate)
	runtime.SetMutexProfileFraction(mutexFraction)
}
