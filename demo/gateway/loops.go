package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Limits on one connection, as net/http has them in serve.go.
const (
	mostHead  = 64 << 10    // bytes of a request's head, far above any client's here
	mostWrite = time.Second // of writing an answer: a client that does not read must not hold a loop
)

// eventLoops serve requests in a fixed number of goroutines. Each owns the
// connections it was given and runs everything of their requests, handler and
// telemetry: what blocks one request of a loop stalls all others. Only reading
// and what waits for a dependency is done apart; both post what comes next to
// the loop.
type eventLoops struct {
	*gateway
	ctx   context.Context
	loops []*loop
	conns sync.Map // of *conn to nothing: those that are open
}

// newEventLoops starts g.cfg.Loops loops, which end with ctx.
func newEventLoops(ctx context.Context, g *gateway) *eventLoops {
	e := &eventLoops{gateway: g, ctx: ctx}
	for range g.cfg.Loops {
		l := &loop{wake: make(chan struct{}, 1)}
		e.loops = append(e.loops, l)
		go l.run(ctx)
	}
	context.AfterFunc(ctx, func() {
		e.conns.Range(func(c, _ any) bool {
			c.(*conn).Close()
			return true
		})
	})
	return e
}

// serve gives the connections of listener to the loops in turn, until listener
// is closed, and then returns nil.
func (e *eventLoops) serve(listener net.Listener) error {
	for n := 0; ; n++ {
		accepted, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve on %v: %w", listener.Addr(), err)
		}
		c := &conn{Conn: accepted, loop: e.loops[n%len(e.loops)]}
		e.conns.Store(c, nil)
		go e.read(c)
	}
}

// shutdown closes listener and returns when no request is in progress or ctx
// ends. Streams have no end and are not waited for.
func (e *eventLoops) shutdown(ctx context.Context, listener net.Listener) error {
	if err := listener.Close(); err != nil {
		return err
	}
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for e.inProgress.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, l := range e.loops { // the last answers are counted and perhaps not yet written
		written := make(chan struct{})
		l.post(func() { close(written) })
		select {
		case <-written:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// drainPoll is how often shutdown looks, as net/http's does.
const drainPoll = 5 * time.Millisecond

// loop is one goroutine's list of what to do. It has no limit of its own: each
// open connection has one request in it at most.
type loop struct {
	mu     sync.Mutex
	events []func()
	wake   chan struct{}
}

func (l *loop) post(event func()) {
	l.mu.Lock()
	l.events = append(l.events, event)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (l *loop) run(ctx context.Context) {
	for {
		l.mu.Lock()
		events := l.events
		l.events = nil
		l.mu.Unlock()
		for _, event := range events {
			event()
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
	}
}

// conn is a connection, read by a goroutine of its own and answered by its loop.
type conn struct {
	net.Conn
	loop *loop
	busy atomic.Bool // a request of it is not answered yet
}

// read parses requests until the connection ends, and hands each to the loop.
func (e *eventLoops) read(c *conn) {
	defer e.conns.Delete(c)
	defer c.Close()
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel() // the client is gone
	limit := &io.LimitedReader{R: c}
	in := bufio.NewReader(limit)
	for {
		limit.N = mostHead
		c.SetReadDeadline(time.Now().Add(idleTime))
		if _, err := in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) && c.busy.Load() {
			continue // it is not idle: it waits for its answer
		} else if err != nil {
			return
		}
		c.SetReadDeadline(time.Now().Add(headTime))
		parsed, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		// One at a time: an answer that overtakes another would go to the wrong request.
		if c.busy.Swap(true) {
			return
		}
		e.start(ctx, c, parsed)
	}
}

// request is one in progress.
type request struct {
	*conn
	path    string // of those that metrics know
	started time.Time
	last    bool // the connection ends with the answer
	place   bool // it has one of those that admission gives, and a buffer
	buffer  []byte
}

// start answers what stands apart from the loops and posts everything else. It
// runs in the connection's reader.
func (e *eventLoops) start(ctx context.Context, c *conn, parsed *http.Request) {
	// What has a body is not read on: what follows it would be taken for a request.
	r := &request{conn: c, path: e.route(parsed.URL.Path), started: time.Now(), last: parsed.Close || parsed.ContentLength != 0}
	if parsed.Method != http.MethodGet {
		r.last = true
		r.write(answer{http.StatusMethodNotAllowed, "expected GET\n"})
		return
	}
	e.metrics.inFlight.Inc()
	health := r.path == pathHealth || r.path == pathReady
	switch {
	case health && e.cfg.HealthApart:
		time.Sleep(e.faults.Load().HealthDelay)
		e.send(r, e.health(r.path))
	case r.path == pathStreams:
		c.loop.post(func() { e.stream(ctx, r) })
	case health: // refused for load, it would have the task killed for it
		c.loop.post(func() { e.handle(ctx, r) })
	case !e.admit():
		e.send(r, overloaded)
	default:
		r.place, r.buffer = true, e.buffers.get()
		c.loop.post(func() { e.handle(ctx, r) })
	}
}

// route is the path of the handler for path.
func (e *eventLoops) route(path string) string {
	switch {
	case path == pathHealth, path == pathReady, path == pathStreams && e.cfg.Streams:
		return path
	}
	return pathAPI
}

// handle runs in the loop, as all below do.
func (e *eventLoops) handle(ctx context.Context, r *request) {
	faults := *e.faults.Load()
	if r.path != pathAPI {
		e.after(r, faults.HealthDelay, func() { e.finish(r, e.health(r.path)) })
		return
	}
	e.app.work(faults)
	if e.db == nil && e.upstream == nil {
		e.after(r, faults.UpstreamTime, func() { e.finish(r, outcome(ctx, ctx.Err())) })
		return
	}
	go func() { // both clients block; no loop waits for them
		err := e.ask(ctx)
		r.loop.post(func() { e.finish(r, outcome(ctx, err)) })
	}()
}

// after goes on with next in the loop of r, at once where there is nothing to wait for.
func (e *eventLoops) after(r *request, wait time.Duration, next func()) {
	if wait == 0 {
		next()
		return
	}
	time.AfterFunc(wait, func() { r.loop.post(next) })
}

// stream sends events until the client is gone.
func (e *eventLoops) stream(ctx context.Context, r *request) {
	ended := false
	var next func()
	next = func() {
		if ended {
			return
		}
		r.SetWriteDeadline(time.Now().Add(mostWrite))
		if _, err := io.WriteString(r, event); err != nil {
			r.Close() // its reader ends, and with it ctx
			return
		}
		e.after(r, eventEvery, next)
	}
	context.AfterFunc(ctx, func() {
		r.loop.post(func() {
			ended = true
			e.telemetry.Record(r.path, http.MethodGet, http.StatusOK, time.Since(r.started))
			e.metrics.count(r, http.StatusOK)
		})
	})
	io.WriteString(r, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n") // an error comes again with the event
	next()
}

// finish passes the telemetry and answers.
func (e *eventLoops) finish(r *request, a answer) {
	e.telemetry.Record(r.path, http.MethodGet, a.status, time.Since(r.started))
	e.send(r, a)
}

// send counts the request before it answers: who has the answer sees it counted.
func (e *eventLoops) send(r *request, a answer) {
	if r.place {
		e.buffers.put(r.buffer)
		e.leave()
	}
	e.metrics.count(r, a.status)
	r.last = r.last || e.draining.Load()
	r.write(a)
}

// count does what promhttp's instrumented handlers do, with the same labels.
func (m requestMetrics) count(r *request, status int) {
	code := strconv.Itoa(status)
	m.inFlight.Dec()
	m.requests.WithLabelValues(code, "get", r.path).Inc()
	m.duration.WithLabelValues(code, r.path).Observe(time.Since(r.started).Seconds())
}

// write sends the answer, and closes the connection where that fails.
func (r *request) write(a answer) {
	head := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nDate: %s\r\n",
		a.status, http.StatusText(a.status), len(a.body), time.Now().UTC().Format(http.TimeFormat))
	if r.last {
		head = append(head, "Connection: close\r\n"...)
	}
	head = append(head, "\r\n"...)
	r.busy.Store(false) // before the client can have the answer and ask again
	r.SetWriteDeadline(time.Now().Add(mostWrite))
	if _, err := r.Write(append(head, a.body...)); err != nil || r.last {
		r.Close()
	}
}
