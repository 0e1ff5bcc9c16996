package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits on one connection.
const (
	headTime = 10 * time.Second // of sending a request's head
	idleTime = time.Minute      // between two requests
)

// eventEvery is the time between two events of a stream.
const eventEvery = time.Second

// handler serves each request in a goroutine of net/http's.
func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	// GET only: the method becomes a label's value, and clients may send any word for it.
	handle := func(path string, f http.HandlerFunc) {
		labels := prometheus.Labels{"handler": path}
		mux.Handle("GET "+path, promhttp.InstrumentHandlerInFlight(g.metrics.inFlight,
			promhttp.InstrumentHandlerCounter(g.metrics.requests.MustCurryWith(labels),
				promhttp.InstrumentHandlerDuration(g.metrics.duration.MustCurryWith(labels), f))))
	}
	handle(pathAPI, g.admitted(g.serveAPI))
	if g.cfg.HealthApart {
		handle(pathHealth, g.serveHealth)
		handle(pathReady, g.serveHealth)
	} else {
		// A check that is refused for load would have the task killed for it.
		handle(pathHealth, g.recorded(g.serveHealth))
		handle(pathReady, g.recorded(g.serveHealth))
	}
	if g.cfg.Streams {
		// A stream would keep its place for good, so it takes none.
		handle(pathStreams, g.recorded(g.serveStream))
	}
	return mux
}

// newServer makes a server that is closed when ctx ends.
func newServer(ctx context.Context, handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headTime,
		IdleTimeout:       idleTime,
		ErrorLog:          log.New(io.Discard, "", 0), // of clients' faults: connections that broke
	}
	context.AfterFunc(ctx, func() { server.Close() })
	return server
}

// serve answers on listener until server is closed, and then returns nil.
func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %v: %w", listener.Addr(), err)
	}
	return nil
}

// admitted answers 503 at once where too many requests are in progress.
func (g *gateway) admitted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.admit() {
			overloaded.write(w)
			return
		}
		defer g.leave()
		defer g.buffers.put(g.buffers.get())
		next(w, r)
	}
}

// recorded passes the telemetry once next is done.
func (g *gateway) recorded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		next(w, r)
		g.telemetry.Record(r.URL.Path, r.Method, http.StatusOK, time.Since(start))
	}
}

func (g *gateway) serveAPI(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	g.app.work(*g.faults.Load())
	a := outcome(r.Context(), g.ask(r.Context()))
	g.telemetry.Record(pathAPI, r.Method, a.status, time.Since(start))
	a.write(w)
}

func (g *gateway) serveHealth(w http.ResponseWriter, r *http.Request) {
	time.Sleep(g.faults.Load().HealthDelay)
	g.health(r.URL.Path).write(w)
}

func (g *gateway) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, event); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

const event = "data: saved\n\n"
