package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contend/contend/demo/cdn"
)

// soon is a run that ends by itself after enough arrivals for a test.
func soon(url string) Config {
	return Config{URL: url, Phases: Constant(1000, 50*time.Millisecond), Seed: 1, Timeout: time.Minute, MaxInFlight: 1000}
}

// long is one that goes on until the test ends it.
func long(url string) Config {
	cfg := soon(url)
	cfg.Phases = Constant(0, time.Minute)
	return cfg
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func start(t *testing.T, ctx context.Context, cfg Config) *Generator {
	t.Helper()
	g, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// until waits for a state of the run.
func until(g *Generator, reached func(Stats) bool) Stats {
	for {
		if s := g.Stats(); reached(s) {
			return s
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no phases":          func(c *Config) { c.Phases = nil },
		"no time-out":        func(c *Config) { c.Timeout = 0 },
		"too many attempts":  func(c *Config) { c.Attempts = maxAttempts + 1 },
		"nothing in flight":  func(c *Config) { c.MaxInFlight = 0 },
		"negative streams":   func(c *Config) { c.Streams = -1 },
		"no address":         func(c *Config) { c.URL = "" },
		"address of no host": func(c *Config) { c.URL = "localhost:80" },
		"broken address":     func(c *Config) { c.URL = "http://user:secret@127.0.0.1:x/" },
	} {
		cfg := soon("http://127.0.0.1:1")
		change(&cfg)
		if _, err := Start(t.Context(), cfg); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestAnswered also runs the same seed twice, and another.
func TestAnswered(t *testing.T) {
	t.Parallel()
	var seen, regions atomic.Int64
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if r.Header.Get(cdn.RegionHeader) != "" {
			regions.Add(1)
		}
	})
	var arrived []int
	for _, seed := range []uint64{1, 1, 2} {
		seen.Store(0)
		regions.Store(0)
		cfg := soon(url)
		cfg.Seed = seed
		r := start(t, t.Context(), cfg).Wait()
		if n := int(seen.Load()); r.Arrived != n || r.Answered != n || int(regions.Load()) != n || n < 20 {
			t.Errorf("the server saw %d requests, %d with a region, the report is %+v", n, regions.Load(), r)
		}
		if r.Sending != 50*time.Millisecond || r.InFlight != 0 || !r.FirstTimeout.IsZero() || r.Seconds[0].Arrived != r.Arrived {
			t.Errorf("report %+v", r)
		}
		arrived = append(arrived, r.Arrived)
	}
	if arrived[0] != arrived[1] || arrived[0] == arrived[2] {
		t.Errorf("arrivals %v, want as many with the same seed, not with another", arrived)
	}
}

// TestIsOpen holds every request until many have arrived: a closed loop would
// never get there.
func TestIsOpen(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	full := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		if seen.Add(1) == 20 {
			close(full)
		}
		<-full
	})
	if r := start(t, t.Context(), soon(url)).Wait(); r.Answered != r.Arrived || r.Answered < 20 {
		t.Errorf("report %+v, want all answered", r)
	}
}

func TestDropsAndTimesOut(t *testing.T) {
	t.Parallel()
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cfg := soon(url)
	cfg.MaxInFlight, cfg.Timeout, cfg.Attempts = 1, 600*time.Millisecond, 2
	begin := time.Now()
	r := start(t, t.Context(), cfg).Wait()
	if r.Arrived < 20 || r.TimedOut != 1 || r.Dropped != r.Arrived-1 || r.Retried != 1 {
		t.Errorf("report %+v, want 1 timed out after 2 attempts, the others dropped", r)
	}
	if at := r.FirstTimeout.Sub(begin); at < 600*time.Millisecond || time.Since(r.FirstTimeout) < 0 {
		t.Errorf("the first time-out is %v after the begin, want that of the first attempt", at)
	}
	if at := r.FirstFailure.Sub(begin); at < 1200*time.Millisecond {
		t.Errorf("the first call failed %v after the begin, want that after both attempts", at)
	}
	if starved, why := r.Starved(); !starved || !strings.HasPrefix(why, fmt.Sprintf("%d calls and 0 visitors were dropped, expected none: at most 1 of each may wait at once", r.Dropped)) {
		t.Errorf("starved %v: %q, want it so for the %d calls dropped", starved, why, r.Dropped)
	}
	last := r.Seconds[len(r.Seconds)-1]
	if last.Failed != 1 || last.Answered != 0 || len(r.Seconds) < 2 {
		t.Errorf("seconds %+v, want the failure in the last, after 1.2s", r.Seconds)
	}
}

func TestForgetFailures(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := long(serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	cfg.Phases, cfg.Timeout = Constant(200, time.Minute), 50*time.Millisecond
	g := start(t, ctx, cfg)
	// another waits until one more has timed out.
	another := func() {
		n := g.Stats().TimedOut
		until(g, func(s Stats) bool { return s.TimedOut > n })
	}
	another()
	before := time.Now()
	g.ForgetFailures()
	another()
	after := time.Now()
	another()
	cancel()
	r := g.Wait()
	for _, first := range []time.Time{r.FirstTimeout, r.FirstFailure} {
		if !first.After(before) || !first.Before(after) {
			t.Errorf("the first time-out is %v after it was forgotten, want it within %v", first.Sub(before), after.Sub(before))
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		// of each call
		answered, failed, retried, pages int
	}{
		{"other status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 0, 1, 2, 0},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, 0, 1, 2, 0},
		{"longest answer", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, MaxAnswer)) }, 1, 0, 0, 0},
		{"too long answer", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, MaxAnswer+1)) }, 0, 1, 2, 0},
		{"status page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(cdn.StatusPageHeader, "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 0, 1, 0, 1},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, 1, 2, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := soon(serve(t, test.answer))
			cfg.Phases, cfg.Attempts = Constant(1000, 8*time.Millisecond), 3
			r := start(t, t.Context(), cfg).Wait()
			n := r.Arrived
			if n == 0 || r.Answered != n*test.answered || r.Failed != n*test.failed || r.Retried != n*test.retried || r.StatusPages != n*test.pages {
				t.Errorf("report %+v, want of each call %+v", r, test)
			}
		})
	}
}

func TestRetryIsAnswered(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if seen.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	cfg := soon(url)
	cfg.Attempts = 2
	if r := start(t, t.Context(), cfg).Wait(); r.Answered != r.Arrived || r.Failed != 0 || r.Retried != 1 {
		t.Errorf("report %+v, want all answered, one of them at the second attempt", r)
	}
}

func TestEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cfg := long(url)
	cfg.Phases, cfg.Attempts = Constant(100, time.Minute), 5
	g := start(t, ctx, cfg)
	until(g, func(s Stats) bool { return s.InFlight >= 3 })
	cancel()
	if r := g.Wait(); r.Arrived < 3 || r.Failed != r.Arrived || r.Retried != 0 || r.Sending >= time.Minute || !r.FirstFailure.IsZero() {
		t.Errorf("report %+v, want all cut off, which is no failure of the service's", r)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ base, path string }{
		{"", "/stream"},
		{"/api", "/api/stream"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != test.path {
				t.Errorf("path %s, want %s", r.URL.Path, test.path)
			}
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		cfg := long(url + test.base)
		cfg.Streams = 3
		g := start(t, ctx, cfg)
		if err := g.OpenStreams(4, 1000); err != nil {
			t.Error(err)
		}
		until(g, func(s Stats) bool { return s.Streams == 7 })
		if err := g.OpenStreams(MaxStreams-6, 0); err == nil || !strings.Contains(err.Error(), "expected up to 5000 streams") {
			t.Errorf("one stream more than there may be: error %v", err)
		}
		cancel()
		if r := g.Wait(); r.Streams != 0 || r.Arrived != 0 {
			t.Errorf("report %+v, want no stream open and no call", r)
		}
	}
}

// edge serves an asset when it is released, and counts calls.
func edge(t *testing.T) (url string, calls *atomic.Int64, release func()) {
	released := make(chan struct{})
	calls = &atomic.Int64{}
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/panel.js" {
			calls.Add(1)
			return
		}
		select {
		case <-released:
			io.WriteString(w, "//")
		case <-r.Context().Done():
		}
	})
	return url, calls, sync.OnceFunc(func() { close(released) })
}

func TestVisitorsWaitAndCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url, calls, release := edge(t)
	defer release()
	g := start(t, ctx, long(url))
	if err := g.Visit(Visitors{PerSecond: 1000, Asset: url + "/panel.js", Calls: [2]int{4, 4}, Spread: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	until(g, func(s Stats) bool { return s.WaitingAssets >= 20 })
	g.StopVisits()
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls before the asset is there", n)
	}
	release()
	s := until(g, func(s Stats) bool { return s.WaitingAssets == 0 && s.Answered == 4*s.Assets.Arrived })
	cancel()
	r := g.Wait()
	if r.Assets != s.Assets || r.Assets.Answered != r.Assets.Arrived || int(calls.Load()) != r.Arrived || r.Arrived != 4*r.Assets.Arrived {
		t.Errorf("report %+v, %d calls; want four calls of each visitor", r, calls.Load())
	}
}

func TestVisitorsDoWithoutTheAsset(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url, calls, release := edge(t)
	defer release()
	g := start(t, ctx, long(url))
	if err := g.Visit(Visitors{PerSecond: 1000, Asset: url + "/panel.js", Timeout: 50 * time.Millisecond, Calls: [2]int{2, 2}}); err != nil {
		t.Fatal(err)
	}
	until(g, func(s Stats) bool { return s.Assets.TimedOut >= 5 })
	g.StopVisits()
	until(g, func(s Stats) bool { return s.WaitingAssets == 0 && s.Answered == 2*s.Assets.TimedOut })
	cancel()
	r := g.Wait()
	if r.Assets.TimedOut != r.Assets.Arrived || r.Arrived != 2*r.Assets.TimedOut || int(calls.Load()) != r.Arrived {
		t.Errorf("report %+v, %d calls; want two calls of each visitor that gave up", r, calls.Load())
	}
	if !r.FirstTimeout.IsZero() {
		t.Errorf("first time-out %v, want none: those are of calls", r.FirstTimeout)
	}
}

func TestVisitorsAreRefused(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"cut off":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"status page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(cdn.StatusPageHeader, "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			url := serve(t, refuse)
			g := start(t, ctx, long(url))
			if err := g.Visit(Visitors{PerSecond: 1000, Asset: url + "/panel.js", Timeout: time.Minute, Calls: [2]int{1, 1}}); err != nil {
				t.Fatal(err)
			}
			until(g, func(s Stats) bool { return s.Assets.Failed >= 5 })
			g.StopVisits()
			until(g, func(s Stats) bool { return s.WaitingAssets == 0 })
			cancel()
			if r := g.Wait(); r.Assets.Failed != r.Assets.Arrived || r.Arrived != 0 {
				t.Errorf("report %+v, want all visitors failed, and no call", r)
			}
		})
	}
}

func TestVisitorsWaitForEver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url, calls, release := edge(t)
	defer release()
	cfg := long(url)
	cfg.MaxInFlight = 5
	g := start(t, ctx, cfg)
	if err := g.Visit(Visitors{PerSecond: 1000, Asset: url + "/panel.js", Timeout: 50 * time.Millisecond, Calls: [2]int{0, 0}}); err != nil {
		t.Fatal(err)
	}
	until(g, func(s Stats) bool { return s.Assets.TimedOut >= 5 && s.Assets.Dropped > 0 })
	// Those of another kind take their place.
	if err := g.Visit(Visitors{PerSecond: 1000, Asset: url + "/panel.js", Calls: [2]int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	before := g.Stats().Assets.Dropped
	until(g, func(s Stats) bool { return s.WaitingAssets == 5 && s.Assets.Dropped > before+100 })
	cancel()
	r := g.Wait()
	if r.WaitingAssets != 5 || r.Assets.Answered != 0 || r.Assets.Failed != 0 || calls.Load() != 0 {
		t.Errorf("report %+v, %d calls; want 5 waiting at the end, and no call", r, calls.Load())
	}
	if err := g.Visit(Visitors{PerSecond: 1, Asset: url, Calls: [2]int{1, 1}}); err != nil || g.Stats().Assets.Arrived != r.Assets.Arrived {
		t.Errorf("after the end: error %v, %+v", err, g.Stats())
	}
}

// TestThroughEdge has the real edge abandon the asset: who waits fails, and makes no calls.
func TestThroughEdge(t *testing.T) {
	t.Parallel()
	c, err := cdn.New(cdn.Config{Next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Asset: "/panel.js", Fetch: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, c.ServeHTTP)
	g := start(t, ctx, long(url))
	if err := g.Visit(Visitors{PerSecond: 1000, Asset: url + "/panel.js", Calls: [2]int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	for c.Counts().Started < 10 {
		time.Sleep(time.Millisecond)
	}
	g.StopVisits()
	c.Abandon()
	s := until(g, func(s Stats) bool { return s.WaitingAssets == 0 })
	cancel()
	if r := g.Wait(); s.Assets.Failed < 10 || s.Assets.Failed != s.Assets.Arrived || r.Arrived != 0 {
		t.Errorf("report %+v, want all visitors failed", r)
	}
}
