// Package gateway is a task of the demo's service: a small HTTP gateway in the
// manner of many real ones, with an upstream that takes a few milliseconds, a
// cache, perhaps a database, and telemetry recorded on the request path. Each
// part can be faulty (see Config, Faults and demo/telemetry).
//
// It listens twice on loopback. On the traffic listener /healthz is its
// liveness, /readyz its readiness and, where Config.Streams says so, /stream a
// stream of events; every other path is an API call. On the admin listener
// stand /metrics, /metrics/filters and /debug/pprof/.
//
// Requests are served in one of two ways: by net/http, a goroutine for each
// (serve.go), or by a fixed number of event loops (loops.go).
//
// /metrics has http_requests_in_flight, http_requests_total{code,method,handler}
// and http_request_duration_seconds{code,handler}, what database/sql and the
// client of the upstream export, and the Go runtime and the process, among them
// go_sync_mutex_wait_total_seconds_total and process_cpu_seconds_total.
// /metrics/filters has what the telemetry exports. Its registry is another one: a
// scrape of it waits for the lock that faulty telemetry holds, and one of
// /metrics does not.
package gateway

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/contend/contend/demo/telemetry"
)

// Paths of the traffic listener, and the values of the label handler.
const (
	pathAPI     = "/"
	pathHealth  = "/healthz"
	pathReady   = "/readyz"
	pathStreams = "/stream"
)

// statusClientGone is what nginx counts a request under whose client did not
// wait for the answer. It is no error of the service's.
const statusClientGone = 499

// gateway is what both ways to serve share.
type gateway struct {
	cfg       Config
	faults    atomic.Pointer[Faults]
	telemetry telemetry.Recorder
	buffers   *buffers
	app       *application
	db        *sql.DB      // nil: no database is asked
	upstream  *http.Client // nil: a timer stands for it

	registry, filters *prometheus.Registry
	metrics           requestMetrics

	inProgress atomic.Int64 // requests that count for admission
	draining   atomic.Bool
}

// newGateway makes a gateway that does not listen yet. Its background work ends
// with ctx.
func newGateway(ctx context.Context, cfg Config) (*gateway, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := &gateway{
		cfg:      cfg,
		buffers:  newBuffers(cfg.Hold),
		app:      newApplication(cfg.Lock),
		registry: prometheus.NewRegistry(),
		filters:  prometheus.NewRegistry(),
		metrics:  newRequestMetrics(),
	}
	g.registry.MustRegister(
		g.metrics.inFlight, g.metrics.requests, g.metrics.duration,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		// Without the rules the collector leaves out the lock-wait counter and the
		// scheduler's latencies; with all metrics a page is twice as long.
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.MetricsScheduler, collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/sync/`)})),
	)
	var err error
	if g.telemetry, err = telemetry.New(ctx, g.filters, cfg.Telemetry); err != nil {
		return nil, fmt.Errorf("set up telemetry: %w", err)
	}
	if err := g.apply(cfg.Faults); err != nil {
		return nil, err
	}
	if cfg.Upstream != "" {
		if g.upstream, err = newUpstreamClient(cfg.Upstream, g.registry); err != nil {
			return nil, err
		}
	}
	if cfg.Pool > 0 {
		g.db = openDatabase(cfg.Pool, func() time.Duration { return g.faults.Load().Query })
		context.AfterFunc(ctx, func() { g.db.Close() })
		g.registry.MustRegister(collectors.NewDBStatsCollector(g.db, "demo"))
	}
	go g.app.grow(ctx, g.faults.Load)
	return g, nil
}

// apply puts faults in force, in place of those before.
func (g *gateway) apply(f Faults) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.UpstreamTime == 0 {
		f.UpstreamTime = defaultUpstreamTime
	}
	if f.Query == 0 {
		f.Query = defaultQuery
	}
	g.faults.Store(&f)
	g.app.cache.wedge(f.Wedged)
	return nil
}

// admit reports whether a request may start. One that may must be let go of
// with leave.
func (g *gateway) admit() bool {
	if n := g.inProgress.Add(1); g.cfg.Admission > 0 && n > int64(g.cfg.Admission) {
		g.inProgress.Add(-1)
		return false
	}
	return true
}

func (g *gateway) leave() { g.inProgress.Add(-1) }

// answer is what a client gets.
type answer struct {
	status int
	body   string
}

func (a answer) write(w http.ResponseWriter) {
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

var overloaded = answer{http.StatusServiceUnavailable, "too many requests in progress\n"}

// health is the answer to a health check at path.
func (g *gateway) health(path string) answer {
	if path == pathReady && g.draining.Load() {
		return answer{http.StatusServiceUnavailable, "draining\n"}
	}
	return answer{http.StatusOK, "ok\n"}
}

// ask asks the database, where there is one, and then the upstream.
func (g *gateway) ask(ctx context.Context) error {
	if g.db != nil {
		if _, err := g.db.ExecContext(ctx, "SELECT design"); err != nil {
			return fmt.Errorf("ask the database: %w", err)
		}
	}
	if g.upstream != nil {
		return g.callUpstream(ctx)
	}
	timer := time.NewTimer(g.faults.Load().UpstreamTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outcome is the answer to an API call whose client's context is ctx and whose
// dependencies answered with err.
func outcome(ctx context.Context, err error) answer {
	switch {
	case err == nil:
		return answer{http.StatusOK, "ok\n"}
	case ctx.Err() != nil:
		return answer{status: statusClientGone}
	}
	return answer{http.StatusBadGateway, "the upstream did not answer\n"}
}

// requestMetrics are what middleware exports of requests.
type requestMetrics struct {
	inFlight prometheus.Gauge
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newRequestMetrics() requestMetrics {
	return requestMetrics{
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "http_requests_in_flight",
			Help: "Requests that were started and not yet answered.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total",
			Help: "Requests that were answered.",
		}, []string{"code", "method", "handler"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_duration_seconds",
			Help:    "Time from a request's start to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s: from the upstream's time to past any client's time-out
		}, []string{"code", "handler"}),
	}
}
