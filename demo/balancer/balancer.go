// Package balancer spreads requests over the tasks of a service. As it comes it
// makes things worse, as many real ones do: it opens new connections to a task
// however many are open already, and sends what failed to the next one. The fix
// is a balancer that knows how the tasks fare (Config.Aware).
package balancer

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Task is where requests may go.
type Task struct {
	Name string
	URL  string // such as http://127.0.0.1:8080, without a path
}

// Config says what a balancer is like. Zero values take the defaults.
type Config struct {
	// Aware sends each request to the task with the fewest in progress, and leaves
	// out a task that is full, and for a second one that just failed. Without it
	// tasks take turns.
	Aware bool
	// Limit is how many requests in progress make a task full. Only an aware
	// balancer heeds it; default 64.
	Limit int
	// Attempts is to how many tasks at most a request is sent, one after the other,
	// while there is no connection, or status 502. Only a GET without a body is
	// repeated. Default 1.
	Attempts int
}

// rest is how long an aware balancer leaves out a task that failed: a minute of
// the demo's time, within which a health check finds a task that is gone.
const rest = time.Second

// Stats is what a task has in hand.
type Stats struct {
	Task     string
	InFlight int // requests in progress
}

// Balancer is a handler that passes requests on.
type Balancer struct {
	cfg       Config
	transport *http.Transport

	mu    sync.Mutex
	tasks []*backend
	next  int // whose turn it is, modulo the number of tasks; of requests, not attempts
}

// backend is a task and how it fares. Balancer.mu guards the last two.
type backend struct {
	Task
	scheme, host string
	inFlight     int
	failedAt     time.Time // last: no connection, an answer cut off, or status 502
}

// New makes a balancer without tasks. It answers 503 until it has some.
func New(cfg Config) *Balancer {
	if cfg.Limit <= 0 {
		cfg.Limit = 64
	}
	cfg.Attempts = max(cfg.Attempts, 1)
	return &Balancer{cfg: cfg, transport: &http.Transport{
		// On loopback only a task whose queue of connections is full takes long.
		DialContext: (&net.Dialer{Timeout: time.Second}).DialContext,
		// More than clients ever wait at once: a connection given up after each
		// request would cost more than the request.
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true, // what the client asked for is passed on as it is
	}}
}

// SetTasks replaces the tasks. Of those that stay is still known how they fare, and
// requests in progress go on. A task whose URL cannot be read is one that never connects.
func (b *Balancer) SetTasks(tasks []Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := map[Task]*backend{}
	for _, t := range b.tasks {
		old[t.Task] = t
	}
	b.tasks = make([]*backend, 0, len(tasks))
	for _, task := range tasks {
		t := old[task]
		if t == nil {
			t = &backend{Task: task}
			if u, err := url.Parse(task.URL); err == nil {
				t.scheme, t.host = u.Scheme, u.Host
			}
		}
		b.tasks = append(b.tasks, t)
	}
}

// Stats are the numbers of the present tasks, in the order they were given in.
func (b *Balancer) Stats() []Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Stats, len(b.tasks))
	for i, t := range b.tasks {
		all[i] = Stats{Task: t.Name, InFlight: t.inFlight}
	}
	return all
}

// statusClientGone is what nginx logs for a client that hung up before the answer.
// Nobody reads it, but it is counted, and must count neither as served nor as failed.
const statusClientGone = 499

// ServeHTTP passes a request to a task, and its answer back: status, headers and
// body; no trailers, and no upgrade to another protocol. A client that hangs up
// ends the request at the task too. It answers 502 where no task answered, and 503
// where none may be asked. An answer that breaks off in its body aborts the
// handler as net/http asks for (http.ErrAbortHandler), so that the client sees it too.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	attempts := 1
	if r.Method == http.MethodGet && r.ContentLength == 0 {
		attempts = b.cfg.Attempts
	}
	var tried []*backend
	for len(tried) < attempts {
		t := b.pick(tried)
		if t == nil {
			break
		}
		tried = append(tried, t)
		if b.send(w, r, t, len(tried) < attempts) {
			return
		}
	}
	if len(tried) == 0 {
		http.Error(w, "no task may be asked", http.StatusServiceUnavailable)
		return
	}
	http.Error(w, "no task answered", http.StatusBadGateway)
}

// pick chooses a task that is not among tried and counts the request as in progress
// there; nil where there is none.
func (b *Balancer) pick(tried []*backend) *backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	tired := func(t *backend) bool { return now.Sub(t.failedAt) < rest }
	// Where all tasks failed, leaving them out would only lose the requests that some
	// of them could serve.
	leaveOut := b.cfg.Aware && !every(b.tasks, tired)
	var best *backend
	for i := range b.tasks {
		t := b.tasks[(b.next+i)%len(b.tasks)]
		switch {
		case slices.Contains(tried, t),
			leaveOut && tired(t),
			b.cfg.Aware && t.inFlight >= b.cfg.Limit:
		case best == nil, b.cfg.Aware && t.inFlight < best.inFlight:
			best = t
		}
	}
	if len(tried) == 0 { // else the task after one that fails would get no turn of its own
		b.next++
	}
	if best != nil {
		best.inFlight++
	}
	return best
}

func every(tasks []*backend, is func(*backend) bool) bool {
	return !slices.ContainsFunc(tasks, func(t *backend) bool { return !is(t) })
}

// done counts a request to t as over.
func (b *Balancer) done(t *backend, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.inFlight--
	if failed {
		t.failedAt = time.Now()
	}
}

// send passes a request to t and its answer to w. It returns false where w has no
// answer yet: t could not be reached, or there is another try and t answered 502.
func (b *Balancer) send(w http.ResponseWriter, r *http.Request, t *backend, again bool) (answered bool) {
	failed := false
	defer func() { b.done(t, failed) }()

	out := outgoing(r, t)
	if out.Body != nil {
		// Else the transport might still read it when the server takes the connection back.
		defer out.Body.Close()
	}
	resp, err := b.transport.RoundTrip(out)
	if err != nil {
		if r.Context().Err() != nil {
			w.WriteHeader(statusClientGone)
			return true
		}
		failed = true
		return false
	}
	defer resp.Body.Close()
	failed = resp.StatusCode == http.StatusBadGateway
	if failed && again {
		return false
	}
	removeHopByHop(resp.Header)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	readErr, writeErr := copyBody(w, resp)
	if readErr != nil || writeErr != nil {
		failed = failed || readErr != nil && r.Context().Err() == nil
		panic(http.ErrAbortHandler)
	}
	return true
}

// copyBody passes a body on. One of unknown length, such as a stream of events, is
// passed on as it comes.
func copyBody(w http.ResponseWriter, resp *http.Response) (readErr, writeErr error) {
	flusher := http.NewResponseController(w)
	buf := make([]byte, 4<<10) // as much as the transport reads at once
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return nil, err
			}
			if resp.ContentLength < 0 {
				// A writer that cannot flush passes it on late, and still whole.
				_ = flusher.Flush()
			}
		}
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}

// outgoing is the request as t gets it.
func outgoing(r *http.Request, t *backend) *http.Request {
	out := r.WithContext(r.Context()) // a shallow copy
	out.URL = &url.URL{Scheme: t.scheme, Host: t.host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	out.Header = r.Header.Clone()
	removeHopByHop(out.Header)
	// The client's wish is for its own connection, and not for the one to the task.
	out.Close = false
	if r.ContentLength == 0 {
		out.Body = nil
	}
	return out
}

// removeHopByHop takes out the headers that are of one connection alone
// (RFC 9110, section 7.6.1).
func removeHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		delete(h, name)
	}
}
