package load

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestRequests(t *testing.T) {
	valid := Config{Rate: 100, Duration: time.Second, Timeout: time.Second, MaxInFlight: 1}
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   int // 0: an error
	}{
		{"valid", func(*Config) {}, 100},
		{"rounded up", func(c *Config) { c.Rate = 2.5 }, 3},
		{"one", func(c *Config) { c.Rate = 0.1 }, 1},
		{"most", func(c *Config) { c.Rate = MaxRequests }, MaxRequests},
		{"above the most", func(c *Config) { c.Rate = MaxRequests + 1 }, 0},
		{"no rate", func(c *Config) { c.Rate = 0 }, 0},
		{"negative rate", func(c *Config) { c.Rate = -1 }, 0},
		{"rate that is no number", func(c *Config) { c.Rate = math.NaN() }, 0},
		{"infinite rate", func(c *Config) { c.Rate = math.Inf(1) }, 0},
		{"no duration", func(c *Config) { c.Duration = 0 }, 0},
		{"too long", func(c *Config) { c.Rate, c.Duration = 0.01, maxDuration+1 }, 0},
		{"no time-out", func(c *Config) { c.Timeout = 0 }, 0},
		{"nothing in flight", func(c *Config) { c.MaxInFlight = 0 }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := valid
			test.change(&cfg)
			got, err := cfg.requests()
			if got != test.want || (err != nil) != (test.want == 0) {
				t.Errorf("got %d requests and error %v, want %d", got, err, test.want)
			}
		})
	}
}

func TestArrival(t *testing.T) {
	for _, test := range []struct {
		i    int
		rate float64
		want time.Duration
	}{
		{0, 500, 0},
		{1, 500, 2 * time.Millisecond},
		{5000, 500, 10 * time.Second},
		{1, 0.5, 2 * time.Second},
	} {
		if got := arrival(test.i, test.rate); got != test.want {
			t.Errorf("request %d at %v/s is due after %v, want %v", test.i, test.rate, got, test.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i) // 100 down to 1
	}
	for _, test := range []struct {
		name string
		in   []time.Duration
		want Quantiles
	}{
		{"none", nil, Quantiles{}},
		{"one", []time.Duration{7}, Quantiles{7, 7, 7}},
		{"two", []time.Duration{9, 3}, Quantiles{3, 9, 9}},
		{"hundred", hundred, Quantiles{50, 99, 100}},
	} {
		if got := quantiles(test.in); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestReportAdds(t *testing.T) {
	r := Report{Arrived: 5, Dropped: 1, Sending: 2 * time.Second}
	r.add([]outcome{
		{answered: 4 * time.Second, late: time.Second},
		{answered: 2 * time.Second},
		{err: context.DeadlineExceeded, answered: 9 * time.Second, late: 3 * time.Second},
		{err: errors.New("refused"), answered: 8 * time.Second},
	})
	want := Report{
		Arrived: 5, Dropped: 1, Answered: 2, TimedOut: 1, Failed: 1, Sending: 2 * time.Second,
		Latency:  Quantiles{2 * time.Second, 4 * time.Second, 4 * time.Second},
		Lateness: Quantiles{0, 3 * time.Second, 3 * time.Second},
	}
	if r != want {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	if r.Served() != 1 {
		t.Errorf("served %v per second, want 1", r.Served())
	}
	if (Report{}).Served() != 0 {
		t.Error("an empty report serves something")
	}
}

func TestRunAnswered(t *testing.T) {
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer server.Close()
	r, err := Run(t.Context(), Config{URL: server.URL, Rate: 1000, Duration: 50 * time.Millisecond, Timeout: time.Minute, MaxInFlight: 50})
	if err != nil {
		t.Fatal(err)
	}
	if r.Arrived != 50 || r.Answered != 50 || seen.Load() != 50 || r.Sending != 50*time.Millisecond {
		t.Errorf("the server saw %d requests, the report is %+v; want 50 answered in 50ms", seen.Load(), r)
	}
}

// TestRunIsOpen holds every request until the last one that is allowed has
// arrived: a closed loop would never get there.
func TestRunIsOpen(t *testing.T) {
	var seen atomic.Int64
	full := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if seen.Add(1) == 8 {
			close(full)
		}
		<-full
	}))
	defer server.Close()
	r, err := Run(t.Context(), Config{URL: server.URL, Rate: 1000, Duration: 8 * time.Millisecond, Timeout: time.Minute, MaxInFlight: 8})
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered != 8 {
		t.Errorf("report %+v, want 8 answered", r)
	}
}

func TestRunDropsAndTimesOut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	// All are due within a microsecond, so that the others come while the first is held.
	r, err := Run(t.Context(), Config{URL: server.URL, Rate: 1e7, Duration: time.Microsecond, Timeout: time.Second / 2, MaxInFlight: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Arrived < 10 || r.TimedOut != 1 || r.Dropped != r.Arrived-1 {
		t.Errorf("report %+v, want at least 10 arrived, 1 timed out, the others dropped", r)
	}
}

func TestRunFailed(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"status":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"too long answer": func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, MaxAnswer+1)) },
	} {
		server := httptest.NewServer(handler)
		defer server.Close()
		r, err := Run(t.Context(), Config{URL: server.URL, Rate: 1000, Duration: 2 * time.Millisecond, Timeout: time.Minute, MaxInFlight: 2})
		if err != nil || r.Failed != 2 {
			t.Errorf("%s: report %+v, error %v; want 2 failed", name, r, err)
		}
	}
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	// The second arrival is due after a minute.
	r, err := Run(ctx, Config{URL: server.URL, Rate: 1.0 / 60, Duration: 2 * time.Minute, Timeout: time.Hour, MaxInFlight: 2})
	if !errors.Is(err, context.Canceled) || r.Arrived != 1 || r.Failed != 1 {
		t.Errorf("report %+v, error %v; want one request, failed", r, err)
	}
}
