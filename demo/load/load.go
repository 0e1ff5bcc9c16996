// Package load drives an HTTP service with an open loop: calls arrive whether or
// not earlier ones were answered, as a Poisson process, as they do from clients
// that do not know of each other, or as Config.Gap says, and latency is counted from the moment
// a call should have started. A generator that waits for answers would slow down
// together with the service and hide the queue it is meant to show.
//
// Beside them there are visitors, who make calls once they have an asset or have
// given up on it, and streams, which stay open. Every client is of one of the
// edge's regions.
//
// Everything is bounded: the time, the calls in all, those in progress, and so
// the connections. The report says what the generator itself could not keep up
// with. The same seed gives the same calls of the phases; visitors are the same
// from each Visit on, whose moments may follow from how the service fares.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/contend/contend/demo/cdn"
)

// Bounds of one run, against typing errors: the whole runs in a process that
// shares its machine with the service under load.
const (
	MaxCalls     = 500_000   // each costs 16 bytes of record
	MaxStreams   = 5_000     // each is a connection with its buffers
	MaxAnswer    = 1 << 20   // bytes read of one answer
	maxDuration  = time.Hour // of arrivals
	maxAttempts  = 10        // of one call, which are made without a wait between them
	maxCallsEach = 100       // of one visitor
)

// Config says what load to make.
type Config struct {
	URL         string        // of the API calls; streams are at its path /stream
	Phases      []Phase       // one after the other; the run ends with the last
	Seed        uint64        // of arrivals and visitors
	Gap         Gap           // between arrivals; nil: Random
	Timeout     time.Duration // of a call: from its intended start to the whole of its answer; of a further attempt: from its start
	Attempts    int           // most attempts of a call, made at once after a failure; 0 is 1
	MaxInFlight int           // calls in progress, and apart from them visitors that wait; an arrival above it is dropped and counted
	Streams     int           // long-lived connections, opened again a second after they end
	// Transport sends calls and fetches assets; nil: over connections of their own,
	// which is what takes most of the CPU. Streams have connections in any case.
	Transport http.RoundTripper
}

// check is an error where the configuration makes no sense.
func (cfg Config) check() error {
	switch {
	case cfg.Timeout <= 0:
		return fmt.Errorf("expected a time-out above zero, saw %v", cfg.Timeout)
	case cfg.Attempts < 0 || cfg.Attempts > maxAttempts:
		return fmt.Errorf("expected up to %d attempts, saw %d", maxAttempts, cfg.Attempts)
	case cfg.MaxInFlight <= 0:
		return fmt.Errorf("expected a limit of calls in flight above zero, saw %d", cfg.MaxInFlight)
	}
	return nil
}

// Generator makes the load of one run.
type Generator struct {
	cfg       Config
	transport *http.Transport   // of streams, and of all else where Config has none
	send      http.RoundTripper // of calls and assets
	calls     []*http.Request   // a template for each region
	streaming []*http.Request   // the same of streams
	begin     time.Time
	lasts     time.Duration // of all phases
	run       context.Context
	cancel    context.CancelFunc // of run
	arriving  context.Context    // ends with the phases, before the last calls do
	end       context.CancelFunc // of arriving
	pending   sync.WaitGroup     // all goroutines

	lock         sync.Mutex // guards all below
	stopVisits   context.CancelFunc
	visits       uint64 // calls of Visit, each with random numbers of its own
	stats        Stats
	seconds      []Second
	latency      []time.Duration   // of the calls answered
	lateness     [][]time.Duration // of the calls sent, by the second they were due in
	firstTimeout time.Time         // since ForgetFailures; zero: none
	firstFailure time.Time         // the same of calls that ended without an answer
	stopped      time.Duration     // when arrivals ended
	opened       int               // streams, whether they are open yet or not
}

// Start begins to make the load, until the phases or ctx end. Either way Wait
// must be called.
func Start(ctx context.Context, cfg Config) (*Generator, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if _, err := expected(cfg.Phases); err != nil {
		return nil, err
	}
	call, err := newRequest(cfg.URL)
	if err != nil {
		return nil, err
	}
	stream := call.Clone(ctx)
	stream.URL = stream.URL.JoinPath("stream")
	connections := 2*cfg.MaxInFlight + MaxStreams
	g := &Generator{
		cfg: cfg,
		transport: &http.Transport{
			MaxConnsPerHost:     connections,
			MaxIdleConns:        connections,
			MaxIdleConnsPerHost: connections,
			DisableCompression:  true,
		},
		calls:      perRegion(call),
		stopVisits: func() {},
		begin:      time.Now(),
	}
	g.send = cfg.Transport
	if g.send == nil {
		g.send = g.transport
	}
	for _, p := range cfg.Phases {
		g.lasts += p.For
	}
	g.run, g.cancel = context.WithCancel(ctx)
	g.arriving, g.end = context.WithCancel(g.run)
	g.pending.Go(g.arrivals)
	g.streaming = perRegion(stream)
	if err := g.OpenStreams(cfg.Streams, 0); err != nil {
		return nil, err
	}
	return g, nil
}

// OpenStreams opens n more streams, so many a second; 0 is all at once. It does
// not wait for them.
func (g *Generator) OpenStreams(n int, perSecond float64) error {
	g.lock.Lock()
	defer g.lock.Unlock()
	if n < 0 || n > MaxStreams-g.opened || !(perSecond >= 0) {
		return fmt.Errorf("expected up to %d streams in all and a rate of zero or more, saw %d and %d more at %v per second", MaxStreams, g.opened, n, perSecond)
	}
	if g.run.Err() != nil || g.arriving.Err() != nil {
		return nil
	}
	g.opened += n
	begin := time.Now()
	for i := range n {
		due := begin
		if perSecond > 0 {
			due = begin.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		}
		g.pending.Go(func() {
			if sleepUntil(g.arriving, due) {
				g.stream(g.streaming[i%len(g.streaming)])
			}
		})
	}
	return nil
}

// ForgetFailures has the report tell of the first time-out and failure from now on, such as
// the first since a fault began.
func (g *Generator) ForgetFailures() {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.firstTimeout, g.firstFailure = time.Time{}, time.Time{}
}

// Stats is the state now. It may be called while the run goes on, and after it.
func (g *Generator) Stats() Stats {
	g.lock.Lock()
	defer g.lock.Unlock()
	s := g.stats
	s.InFlight = s.waiting()
	s.WaitingAssets = s.Assets.waiting()
	return s
}

// Wait returns when the phases are over, or ctx has ended, and the last call
// has. It is called once.
func (g *Generator) Wait() Report {
	g.pending.Wait()
	g.cancel()
	g.transport.CloseIdleConnections()
	return Report{
		Stats:        g.Stats(),
		MaxInFlight:  g.cfg.MaxInFlight,
		Sending:      g.stopped,
		Latency:      quantiles(g.latency),
		Lateness:     quantiles(slices.Concat(g.lateness...)),
		LateSecond:   worstSecond(g.lateness),
		FirstTimeout: g.firstTimeout,
		FirstFailure: g.firstFailure,
		Seconds:      g.seconds,
	}
}

// arrivals makes the calls that the phases ask for.
func (g *Generator) arrivals() {
	random := rand.New(rand.NewPCG(g.cfg.Seed, 0))
	s := schedule{phases: g.cfg.Phases, random: random, gap: g.cfg.Gap}
	if s.gap == nil {
		s.gap = Random
	}
	for {
		at, more := s.next()
		due := g.begin.Add(at)
		if !sleepUntil(g.arriving, due) || !more {
			break
		}
		g.arrive(due, random.IntN(len(g.calls)))
	}
	// Under the lock, so that Visit adds nothing to pending afterwards.
	g.lock.Lock()
	defer g.lock.Unlock()
	g.end()
	g.stopped = min(time.Since(g.begin), g.lasts)
}

// arrive counts a call that is due and sends it.
func (g *Generator) arrive(due time.Time, region int) {
	g.lock.Lock()
	g.second(due).Arrived++
	sent := g.admit(&g.stats.Count)
	g.lock.Unlock()
	if sent {
		g.pending.Go(func() { g.call(due, g.calls[region]) })
	}
}

// admit counts an arrival and reports whether it is sent. The lock is held.
func (g *Generator) admit(c *Count) bool {
	c.Arrived++
	if c.waiting() > g.cfg.MaxInFlight || c.Arrived > MaxCalls {
		c.Dropped++
		return false
	}
	return true
}

// call makes one API call, with all its attempts.
func (g *Generator) call(due time.Time, request *http.Request) {
	late := time.Since(due)
	deadline := due.Add(g.cfg.Timeout)
	o := g.attempt(g.run, request, deadline)
	for n := 1; n < g.cfg.Attempts && (o == failed || o == timedOut) && g.run.Err() == nil; n++ {
		g.lock.Lock()
		g.stats.Retried++
		g.noteTimeout(o)
		g.lock.Unlock()
		o = g.attempt(g.run, request, time.Now().Add(g.cfg.Timeout))
	}
	ended := time.Now()
	g.lock.Lock()
	defer g.lock.Unlock()
	g.noteTimeout(o)
	g.stats.add(o)
	g.late(due, late)
	second := g.second(ended)
	if o == answered {
		second.Answered++
		g.latency = append(g.latency, ended.Sub(due))
		return
	}
	second.Failed++
	if g.firstFailure.IsZero() && g.run.Err() == nil { // what the end of the run cut off did not fail
		g.firstFailure = ended
	}
	if o == statusPage {
		g.stats.StatusPages++
	}
}

// noteTimeout keeps when the first was. The lock is held.
func (g *Generator) noteTimeout(o outcome) {
	if o == timedOut && g.firstTimeout.IsZero() {
		g.firstTimeout = time.Now()
	}
}

// second is the second of a moment of the run. The lock is held, and what is
// returned holds only as long.
func (g *Generator) second(at time.Time) *Second {
	return of(&g.seconds, at.Sub(g.begin))
}

// of is the element of a second, up to which the list is made longer.
func of[T any](seconds *[]T, at time.Duration) *T {
	i := int(at / time.Second)
	for len(*seconds) <= i {
		var zero T
		*seconds = append(*seconds, zero)
	}
	return &(*seconds)[i]
}

// late keeps how late a call was sent. The lock is held.
func (g *Generator) late(due time.Time, late time.Duration) {
	second := of(&g.lateness, due.Sub(g.begin))
	*second = append(*second, late)
}

// stream holds one long-lived connection until the arrivals end.
func (g *Generator) stream(request *http.Request) {
	for {
		g.read(request.WithContext(g.arriving))
		if !sleepUntil(g.arriving, time.Now().Add(time.Second)) {
			return
		}
	}
}

// read reads a stream to its end, and counts it as open meanwhile.
func (g *Generator) read(request *http.Request) {
	response, err := g.transport.RoundTrip(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return
	}
	g.streams(+1)
	defer g.streams(-1)
	io.Copy(io.Discard, response.Body)
}

func (g *Generator) streams(n int) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.stats.Streams += n
}

// outcome of one request that was sent.
type outcome int

const (
	failed outcome = iota
	answered
	timedOut
	statusPage // of the edge, which a client shows and does not try to get past
)

// attempt sends a request and reads the whole answer, so that the connection can
// serve the next one. A deadline of zero is none.
func (g *Generator) attempt(ctx context.Context, request *http.Request, deadline time.Time) outcome {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	// Not a http.Client, whose redirects and cookies an API call has no use for.
	response, err := g.send.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return unanswered(err)
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(response.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return unanswered(err)
	case response.Header.Get(cdn.StatusPageHeader) != "":
		return statusPage
	case n > MaxAnswer || response.StatusCode != http.StatusOK:
		return failed
	}
	return answered
}

func unanswered(err error) outcome {
	if errors.Is(err, context.DeadlineExceeded) {
		return timedOut
	}
	return failed
}

// newRequest makes a GET request of which each one that is sent is a copy.
func newRequest(address string) (*http.Request, error) {
	request, err := http.NewRequest(http.MethodGet, address, nil)
	switch {
	case err != nil:
		var u *url.Error
		if errors.As(err, &u) { // whose text repeats the address, and credentials in it
			err = u.Err
		}
		return nil, fmt.Errorf("expected an address such as http://127.0.0.1:8080/: %w", err)
	case request.URL.Scheme != "http" || request.URL.Host == "":
		return nil, fmt.Errorf("expected an address such as http://127.0.0.1:8080/, saw %s", request.URL.Redacted())
	}
	if request.URL.Path == "" {
		request.URL.Path = "/" // else what is joined to it is no path of a request
	}
	return request, nil
}

// perRegion is the request as clients of each region send it. Nothing changes
// its headers any more, so that all of them can share it.
func perRegion(request *http.Request) []*http.Request {
	var requests []*http.Request
	for _, region := range cdn.Regions() {
		r := request.Clone(context.Background())
		r.Header.Set(cdn.RegionHeader, region)
		requests = append(requests, r)
	}
	return requests
}

// sleepUntil reports whether it slept to the end.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
