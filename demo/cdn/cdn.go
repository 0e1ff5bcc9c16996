// Package cdn is the edge of a content delivery network before the gateway. It
// serves one asset, which it fetches from an origin over a path that loses most
// of what is sent: one fetch for all clients that ask meanwhile, who all get the
// asset in the same instant when it is complete. It passes all else on, unless
// its rule blocks the traffic and answers with a status page.
package cdn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/contend/contend/demo/canary"
)

// statusClientGone is for a client that did not wait for its answer, which only
// metrics see. No standard has a status for it; nginx uses this one.
const statusClientGone = 499

// Config says what the edge stands before.
type Config struct {
	Next  http.Handler  // gets all that is neither blocked nor the asset
	Asset string        // path of the asset, such as /object-panel.js
	Fetch time.Duration // how long the path's losses make a fetch; 0: nothing is lost
	Seed  uint64        // of the losses
	Limit float64       // requests per second in normal times, of which Restore lets its share pass; 0: no limit
}

// CDN is the edge. Its methods may be called at any time by many goroutines.
type CDN struct {
	cfg      Config
	origin   *origin
	rule     atomic.Pointer[rule] // nil: all may pass
	asset    http.Handler
	next     http.Handler
	blocked  map[bool]http.Handler // by whether the asset was asked for
	metrics  http.Handler
	ctx      context.Context // of all fetches
	cancel   context.CancelCauseFunc
	fetching sync.WaitGroup

	lock   sync.Mutex // guards all below
	random *rand.Rand
	fetch  *fetch // of the asset, running or complete; nil: the next client starts one
	counts canary.Counts
}

// fetch is of one asset from the origin.
type fetch struct {
	done chan struct{} // closed when it has ended
	body []byte        // both once it has ended
	err  error
}

// New starts the edge and its origin, a server on loopback. Close ends them.
func New(cfg Config) (*CDN, error) {
	switch {
	case cfg.Next == nil:
		return nil, fmt.Errorf("expected a handler to pass requests to, saw none")
	case !strings.HasPrefix(cfg.Asset, "/"):
		return nil, fmt.Errorf("expected a path such as /object-panel.js for the asset, saw %q", cfg.Asset)
	case cfg.Fetch < 0:
		return nil, fmt.Errorf("expected a fetch to take zero or more, saw %v", cfg.Fetch)
	case !(cfg.Limit >= 0): // NaN too
		return nil, fmt.Errorf("expected a limit of zero or more, saw %v requests per second", cfg.Limit)
	}
	origin, err := startOrigin()
	if err != nil {
		return nil, err
	}
	c := &CDN{cfg: cfg, origin: origin, random: rand.New(rand.NewPCG(cfg.Seed, 0))}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.instrument()
	return c, nil
}

// Close ends the fetch and the origin. Who waits is answered with an error.
func (c *CDN) Close() error {
	c.lock.Lock()
	c.cancel(errClosed)
	c.lock.Unlock()
	c.fetching.Wait()
	return c.origin.close()
}

// instrument puts metrics around the handlers, those that a foreign service
// would show: nothing of its process.
func (c *CDN) instrument() {
	registry := prometheus.NewRegistry()
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "http_requests_in_flight", Help: "Requests in progress.",
	})
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "http_requests_total", Help: "Requests ended.",
	}, []string{"code", "handler"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "http_request_duration_seconds", Help: "Time from request to answer.", Buckets: prometheus.DefBuckets,
	}, []string{"code", "handler"})
	// As the exporter of the proxy that most edges run names them. A client here has
	// a connection while it waits for an answer.
	connections := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "nginx_connections_active", Help: "Connections of clients.",
	})
	registry.MustRegister(inFlight, total, duration, connections)

	around := func(name string, h http.HandlerFunc) http.Handler {
		labels := prometheus.Labels{"handler": name}
		return promhttp.InstrumentHandlerInFlight(inFlight, promhttp.InstrumentHandlerInFlight(connections,
			promhttp.InstrumentHandlerDuration(duration.MustCurryWith(labels),
				promhttp.InstrumentHandlerCounter(total.MustCurryWith(labels), h))))
	}
	c.asset = around("asset", c.serveAsset)
	c.next = around("api", c.cfg.Next.ServeHTTP)
	c.blocked = map[bool]http.Handler{true: around("asset", serveStatusPage), false: around("api", serveStatusPage)}
	c.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// Metrics is what the edge tells of itself, also at its path /metrics.
func (c *CDN) Metrics() http.Handler { return c.metrics }

func (c *CDN) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asset := r.Method == http.MethodGet && r.URL.Path == c.cfg.Asset
	switch {
	case r.URL.Path == "/metrics":
		c.metrics.ServeHTTP(w, r)
	case !c.rule.Load().passes(r):
		c.blocked[asset].ServeHTTP(w, r)
	case asset:
		c.asset.ServeHTTP(w, r)
	default:
		c.next.ServeHTTP(w, r)
	}
}

// serveAsset waits for the fetch that is there, or starts it.
func (c *CDN) serveAsset(w http.ResponseWriter, r *http.Request) {
	c.lock.Lock()
	c.counts.Started++
	if c.fetch == nil {
		c.fetch = c.startFetch()
	}
	f := c.fetch
	c.lock.Unlock()

	served := false
	defer func() {
		c.lock.Lock()
		defer c.lock.Unlock()
		if served {
			c.counts.Completed++
		} else {
			c.counts.Failed++
		}
	}()
	select {
	case <-f.done:
	case <-r.Context().Done():
		w.WriteHeader(statusClientGone)
		return
	}
	switch {
	case errors.Is(f.err, errAbandoned):
		http.Error(w, "no such file", http.StatusNotFound)
	case f.err != nil:
		http.Error(w, "the origin does not answer", http.StatusBadGateway)
	default:
		w.Header().Set("Content-Type", "text/javascript")
		_, err := w.Write(f.body)
		served = err == nil
	}
}

// startFetch begins a fetch, over a path that loses other segments than it did
// before. The lock is held.
func (c *CDN) startFetch() *fetch {
	f := &fetch{done: make(chan struct{})}
	if f.err = context.Cause(c.ctx); f.err != nil {
		close(f.done)
		return f
	}
	delays := segmentDelays(c.random, c.cfg.Fetch)
	c.fetching.Go(func() {
		body, err := c.origin.get(c.ctx, delays)
		c.lock.Lock()
		defer c.lock.Unlock()
		if cause := context.Cause(c.ctx); cause != nil {
			err = cause
		}
		if f.body, f.err = body, err; err != nil {
			c.fetch = nil // the next client has it fetched again
		}
		close(f.done)
	})
	return f
}

// Abandon stops the release: the asset is there no more, and clients that wait
// for it are told so.
func (c *CDN) Abandon() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.cancel(errAbandoned)
	c.fetch = nil
}

// Repair mends the path: it loses nothing any more, and a fetch that runs
// completes at once.
func (c *CDN) Repair() { c.origin.repair() }

// Counts are of the requests for the asset since New. Failed has the clients
// that did not wait: what a page reports as an error of its own.
func (c *CDN) Counts() canary.Counts {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.counts
}
