// Package gateway is a small HTTP gateway in the manner of many real ones: a
// goroutine for each request, an upstream that takes a few milliseconds, and
// telemetry recorded on the request path. Its telemetry can be faulty (see
// demo/telemetry); everything else is ordinary.
//
// Paths: /healthz is a request like any other and passes the same telemetry;
// /metrics, /metrics/filters and /debug/pprof/ stand beside the request path;
// every other path is an API call.
//
// /metrics has http_requests_in_flight, http_requests_total{code,method,handler}
// and http_request_duration_seconds{code,handler}, health checks under a handler
// of their own, and the metrics of the Go runtime and the process, among them
// go_sync_mutex_wait_total_seconds_total and process_cpu_seconds_total.
// /metrics/filters has what the telemetry records. Its registry is another one: a
// scrape of it waits for the lock that faulty telemetry holds, and one of
// /metrics does not.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/contend/contend/demo/telemetry"
)

// Loopback is where a gateway listens unless told otherwise: a free port that
// only this machine reaches, since nothing here asks who is calling.
const Loopback = "127.0.0.1:0"

// Config says what a gateway is like. Zero values take the defaults.
type Config struct {
	FaultyTelemetry bool          // register metrics again for every request
	Filters         int           // each records two metrics per request; default 100
	Upstream        time.Duration // how long the upstream takes; default 3 ms
}

// Gateway handles requests.
type Gateway struct {
	telemetry *telemetry.Metrics
	upstream  time.Duration
	mux       *http.ServeMux
}

// New makes a gateway that does not listen yet.
func New(cfg Config) (*Gateway, error) {
	if cfg.Filters == 0 {
		cfg.Filters = 100
	}
	if cfg.Upstream == 0 {
		cfg.Upstream = 3 * time.Millisecond
	}
	if cfg.Filters < 0 || cfg.Upstream < 0 {
		return nil, fmt.Errorf("expected filters and upstream time above zero, saw %d and %v", cfg.Filters, cfg.Upstream)
	}

	filters := prometheus.NewRegistry()
	metrics, err := telemetry.New(filters, cfg.Filters, cfg.FaultyTelemetry)
	if err != nil {
		return nil, fmt.Errorf("set up telemetry: %w", err)
	}
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "http_requests_in_flight",
		Help: "Requests that were started and not yet answered.",
	})
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "http_requests_total",
		Help: "Requests that were answered.",
	}, []string{"code", "method", "handler"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "http_request_duration_seconds",
		Help:    "Time from a request's start to its answer.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s: from the upstream's time to past any client's time-out
	}, []string{"code", "handler"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		inFlight,
		requests,
		duration,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		// Without the rule the collector leaves out the lock-wait counter.
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)),
	)

	// GET only: the method becomes a label's value, and clients may send any word for it.
	g := &Gateway{telemetry: metrics, upstream: cfg.Upstream, mux: http.NewServeMux()}
	handle := func(path string, f http.HandlerFunc) {
		labels := prometheus.Labels{"handler": path}
		g.mux.Handle("GET "+path, promhttp.InstrumentHandlerInFlight(inFlight,
			promhttp.InstrumentHandlerCounter(requests.MustCurryWith(labels),
				promhttp.InstrumentHandlerDuration(duration.MustCurryWith(labels), f))))
	}
	handle("/", g.serveAPI)
	handle("/healthz", g.serveHealth)
	g.mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	g.mux.Handle("GET /metrics/filters", promhttp.HandlerFor(filters, promhttp.HandlerOpts{}))
	g.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	g.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	return g, nil
}

// ServeHTTP serves one request, whatever its path.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Serve answers on listener until ctx ends, and then returns nil. It does not
// wait for requests in progress: under a fault they may never end.
func (g *Gateway) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %v: %w", listener.Addr(), err)
	}
	return nil
}

func (g *Gateway) serveAPI(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	status, answer := http.StatusOK, "ok\n"
	if err := g.callUpstream(r.Context()); err != nil {
		status, answer = http.StatusBadGateway, "the upstream did not answer\n"
	}
	g.telemetry.Record("api", r.Method, status, time.Since(start))
	w.WriteHeader(status)
	io.WriteString(w, answer)
}

func (g *Gateway) serveHealth(w http.ResponseWriter, r *http.Request) {
	g.telemetry.Record("healthz", r.Method, http.StatusOK, 0)
	io.WriteString(w, "ok\n")
}

// callUpstream stands in for a call to a service behind the gateway; it ends
// early where the client is gone.
func (g *Gateway) callUpstream(ctx context.Context) error {
	timer := time.NewTimer(g.upstream)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sampling of lock contention, cheap enough to leave on under the worst fault.
const (
	// A block event is recorded for every so many nanoseconds spent blocked, so the
	// cost follows the number of blocked goroutines and not that of lock calls: 500
	// waiters make 5,000 events a second whether each waits 5 ms or 500. At one to two
	// microseconds an event, part of it with the lock in hand, that is below 1 % of a core.
	blockRate = int(100 * time.Millisecond)
	// One of so many contended unlocks is recorded. The faulty gateway makes tens of
	// thousands a second; a hundredth of them still settles shares within a per cent.
	mutexFraction = 100
)

// ProfileContention turns on the block and mutex profiles of this process.
func ProfileContention() {
	runtime.SetBlockProfileRate(blockRate)
	runtime.SetMutexProfileFraction(mutexFraction)
}
