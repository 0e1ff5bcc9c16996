package cdn

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contend/contend/demo/canary"
)

const assetPath = "/object-panel.js"

// forever is how long a fetch takes that a test is not to see complete by itself.
const forever = time.Hour

func start(t *testing.T, cfg Config) *CDN {
	t.Helper()
	cfg.Asset = assetPath
	if cfg.Next == nil {
		cfg.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "next "+r.URL.Path) })
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ask returns the answer to a request of a client of a region.
func ask(c *CDN, method, path, region string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set(RegionHeader, region)
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// clients lets n of them ask for the asset and returns when all wait. The
// function it returns gives their answers' statuses once all have one.
func clients(t *testing.T, c *CDN, n int) (statuses func() map[int]int) {
	t.Helper()
	var (
		all   sync.WaitGroup
		lock  sync.Mutex
		codes = map[int]int{}
	)
	before := c.Counts().Started
	for range n {
		all.Go(func() {
			code := ask(c, "GET", assetPath, "").Code
			lock.Lock()
			defer lock.Unlock()
			codes[code]++
		})
	}
	for c.Counts().Started < before+n {
		time.Sleep(time.Millisecond)
	}
	return func() map[int]int {
		all.Wait()
		return codes
	}
}

func TestNewChecks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no handler":     func(c *Config) { c.Next = nil },
		"no path":        func(c *Config) { c.Asset = "panel.js" },
		"negative fetch": func(c *Config) { c.Fetch = -1 },
		"negative limit": func(c *Config) { c.Limit = -1 },
	} {
		cfg := Config{Next: http.NotFoundHandler(), Asset: assetPath}
		change(&cfg)
		if c, err := New(cfg); err == nil {
			c.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAssetReleasesAllAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Fetch: forever})
	statuses := clients(t, c, 50)
	if got := c.Counts(); got != (canary.Counts{Started: 50}) {
		t.Errorf("while all wait: %+v", got)
	}
	c.Repair()
	if got := statuses(); len(got) != 1 || got[200] != 50 {
		t.Errorf("statuses %v, want 50 of 200", got)
	}
	if got := ask(c, "GET", assetPath, ""); got.Code != 200 || got.Body.Len() != assetSize {
		t.Errorf("from the cache: status %d, %d bytes", got.Code, got.Body.Len())
	}
	if got := c.Counts(); got != (canary.Counts{Started: 51, Completed: 51}) {
		t.Errorf("in the end: %+v", got)
	}
}

// TestOneFetch counts what the origin is asked for.
func TestOneFetch(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Fetch: forever})
	var lock sync.Mutex
	fetches := 0
	origin := c.origin.server.Handler
	c.origin.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		fetches++
		lock.Unlock()
		origin.ServeHTTP(w, r)
	})
	first := clients(t, c, 10)
	second := clients(t, c, 5)
	c.Repair()
	if a, b := first(), second(); a[200] != 10 || b[200] != 5 {
		t.Errorf("statuses %v and %v, want 10 and 5 of 200", a, b)
	}
	ask(c, "GET", assetPath, "")
	lock.Lock()
	defer lock.Unlock()
	if fetches != 1 {
		t.Errorf("%d fetches, want one for those that came first, later and after it", fetches)
	}
}

func TestFetchTakesItsTime(t *testing.T) {
	t.Parallel()
	const takes = 50 * time.Millisecond
	c := start(t, Config{Fetch: takes})
	begin := time.Now()
	if got := ask(c, "GET", assetPath, ""); got.Code != 200 {
		t.Errorf("status %d", got.Code)
	}
	if got := time.Since(begin); got < takes*9/10 { // each delay is rounded down
		t.Errorf("it took %v, want %v or more", got, takes)
	}
}

func TestAssetFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		end         func(*CDN)
		status, now int // of those that wait, and of the next
	}{
		{"abandoned", (*CDN).Abandon, 404, 404},
		{"closed", func(c *CDN) { c.Close() }, 502, 502},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start(t, Config{Fetch: forever})
			statuses := clients(t, c, 3)
			test.end(c)
			if got := statuses(); got[test.status] != 3 {
				t.Errorf("statuses %v, want %d", got, test.status)
			}
			if got := ask(c, "GET", assetPath, "").Code; got != test.now {
				t.Errorf("the next gets status %d, want %d", got, test.now)
			}
			if got := c.Counts(); got != (canary.Counts{Started: 4, Failed: 4}) {
				t.Errorf("counts %+v", got)
			}
		})
	}
}

func TestAbandonDropsTheCached(t *testing.T) {
	t.Parallel()
	c := start(t, Config{})
	before := ask(c, "GET", assetPath, "").Code
	c.Abandon()
	if after := ask(c, "GET", assetPath, "").Code; before != 200 || after != 404 {
		t.Errorf("status %d before, %d after; want 200, 404", before, after)
	}
}

func TestBrokenOriginIsAskedAgain(t *testing.T) {
	t.Parallel()
	c := start(t, Config{})
	origin := c.origin.server.Handler
	c.origin.server.Handler = http.NotFoundHandler()
	first := ask(c, "GET", assetPath, "").Code
	c.origin.server.Handler = origin
	if second := ask(c, "GET", assetPath, "").Code; first != 502 || second != 200 {
		t.Errorf("status %d, then %d; want 502, 200", first, second)
	}
}

func TestClientThatLeaves(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Fetch: forever})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", assetPath, nil))
	if got := c.Counts(); w.Code != statusClientGone || got != (canary.Counts{Started: 1, Failed: 1}) {
		t.Errorf("status %d, counts %+v", w.Code, got)
	}
}

func TestPassesOn(t *testing.T) {
	t.Parallel()
	c := start(t, Config{})
	for _, test := range []struct{ method, path, want string }{
		{"GET", "/", "next /"},
		{"POST", assetPath, "next " + assetPath},
		{"GET", assetPath + "/x", "next " + assetPath + "/x"},
	} {
		if got := ask(c, test.method, test.path, ""); got.Code != 200 || got.Body.String() != test.want {
			t.Errorf("%s %s: status %d, %q, want %q", test.method, test.path, got.Code, got.Body, test.want)
		}
	}
}

func TestRule(t *testing.T) {
	t.Parallel()
	regions := Regions()
	c := start(t, Config{})
	for _, test := range []struct {
		name  string
		apply func()
		pass  int // how many regions
		other bool
	}{
		{"none", func() {}, 10, true},
		{"block", func() { c.Block(true) }, 0, false},
		{"a tenth", func() { c.Restore(0.1) }, 1, false},
		{"a third", func() { c.Restore(1.0 / 3) }, 3, false},
		{"nine tenths", func() { c.Restore(0.9) }, 9, false},
		{"less than nothing", func() { c.Restore(-1) }, 0, false},
		{"all", func() { c.Restore(1) }, 10, true},
		{"block again", func() { c.Block(true) }, 0, false},
		{"unblock", func() { c.Block(false) }, 10, true},
	} {
		test.apply()
		for _, path := range []string{"/", assetPath} {
			for i, region := range regions {
				if got := ask(c, "GET", path, region); (got.Code == 200) != (i < test.pass) {
					t.Errorf("%s: %s of %s has status %d, want the first %d to pass", test.name, path, region, got.Code, test.pass)
				}
			}
			if got := ask(c, "GET", path, "atlantis"); (got.Code == 200) != test.other {
				t.Errorf("%s: %s of an unknown region has status %d", test.name, path, got.Code)
			}
		}
		if got := ask(c, "GET", "/metrics", ""); got.Code != 200 {
			t.Errorf("%s: metrics have status %d", test.name, got.Code)
		}
	}
	c.Block(true)
	got := ask(c, "GET", "/", regions[0])
	if got.Code != 503 || got.Header().Get(StatusPageHeader) != "1" || !strings.Contains(got.Body.String(), "back soon") {
		t.Errorf("status page: %d, %v, %q", got.Code, got.Header(), got.Body)
	}
}

func TestRestoreLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &CDN{cfg: Config{Limit: 1000}}
		c.Restore(0.5) // 500 a second, 51 at once
		request := httptest.NewRequest("GET", "/", nil)
		request.Header.Set(RegionHeader, Regions()[0])
		passed := func() (n int) {
			for range 600 {
				if c.rule.Load().passes(request) {
					n++
				}
			}
			return n
		}
		for i, want := range []int{51, 50, 51} {
			if got := passed(); got != want {
				t.Errorf("step %d: %d of 600 pass, want %d", i, got, want)
			}
			time.Sleep([]time.Duration{100 * time.Millisecond, time.Second, 0}[i])
		}
	})
}

func TestSegmentDelays(t *testing.T) {
	t.Parallel()
	for _, total := range []time.Duration{0, time.Second, 20 * time.Second} {
		delays := segmentDelays(rand.New(rand.NewPCG(1, 0)), total)
		var sum time.Duration
		waited := 0
		for _, d := range delays {
			if sum += d; d > 0 {
				waited++
			}
		}
		// Rounding takes less than a nanosecond of each.
		if len(delays) != 64 || sum > total || sum < total-64 {
			t.Errorf("%d delays of %v in all, want 64 of %v", len(delays), sum, total)
		}
		if total > 0 && (waited < 32 || waited == 64) {
			t.Errorf("%d of 64 segments were lost at least once, want about two thirds", waited)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Fetch: forever})
	ask(c, "GET", "/", "")
	statuses := clients(t, c, 2)
	c.Block(true)
	ask(c, "GET", "/", "")
	metrics := ask(c, "GET", "/metrics", "").Body.String()
	c.Repair()
	statuses()
	metrics += ask(c, "GET", "/metrics", "").Body.String()
	for _, want := range []string{
		"\nhttp_requests_in_flight 2\n",
		"\nhttp_requests_in_flight 0\n",
		`http_requests_total{code="200",handler="api"} 1`,
		`http_requests_total{code="503",handler="api"} 1`,
		`http_requests_total{code="200",handler="asset"} 2`,
		`http_request_duration_seconds_count{code="200",handler="asset"} 2`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %q:\n%s", want, metrics)
		}
	}
	if strings.Contains(metrics, "go_") || strings.Contains(metrics, "process_") {
		t.Errorf("metrics of the process, which a foreign service does not show:\n%s", metrics)
	}
}
