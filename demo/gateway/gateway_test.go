package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestPaths(t *testing.T) {
	for _, faulty := range []bool{false, true} {
		g, err := New(Config{FaultyTelemetry: faulty, Filters: 2, Upstream: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(g)
		defer server.Close()
		for _, test := range []struct {
			path string
			want []string
		}{
			{"/", []string{"ok\n"}},
			{"/v1/designs", []string{"ok\n"}},
			{"/healthz", []string{"ok\n"}},
			{"/metrics", []string{
				"\nhttp_requests_in_flight 0\n", // the scrape itself is no request
				"\nhttp_requests_total{code=\"200\",handler=\"/\",method=\"get\"} 2\n",
				"\nhttp_requests_total{code=\"200\",handler=\"/healthz\",method=\"get\"} 1\n",
				"\nhttp_request_duration_seconds_count{code=\"200\",handler=\"/\"} 2\n",
				"\nhttp_request_duration_seconds_count{code=\"200\",handler=\"/healthz\"} 1\n",
				"\ngo_sync_mutex_wait_total_seconds_total ",
				"\ngo_sched_latencies_seconds_sum ",
				"\ngo_sched_gomaxprocs_threads ",
				"\ngo_goroutines ",
				"\nprocess_cpu_seconds_total ",
				"\nprocess_start_time_seconds ",
			}},
			{"/metrics/filters", []string{
				"\ngateway_filter_001_requests_total{code=\"200\",method=\"GET\",region=\"eu-1\",route=\"api\",service=\"gateway\"} 2\n",
				"\ngateway_filter_001_requests_total{code=\"200\",method=\"GET\",region=\"eu-1\",route=\"healthz\",service=\"gateway\"} 1\n",
			}},
			{"/debug/pprof/goroutine?debug=2", []string{"goroutine ", "net/http.(*conn).serve"}},
			{"/debug/pprof/block?debug=1", []string{"--- contention:"}},
			{"/debug/pprof/mutex?debug=1", []string{"--- mutex:"}},
		} {
			status, body := get(t, server.URL+test.path)
			if status != http.StatusOK {
				t.Errorf("faulty %v: GET %s has status %d, want 200", faulty, test.path, status)
			}
			for _, want := range test.want {
				if !strings.Contains(body, want) {
					t.Errorf("faulty %v: GET %s lacks %q", faulty, test.path, want)
				}
			}
		}
	}
}

func TestOtherMethodsAreNoRequests(t *testing.T) {
	g, err := New(Config{Filters: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest("ANYTHING", "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status %d, want 405", w.Code)
	}
}

func TestUpstreamEndsWithClient(t *testing.T) {
	g, err := New(Config{Filters: 1, Upstream: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	if w.Code != http.StatusBadGateway {
		t.Errorf("status %d for a client that is gone, want 502", w.Code)
	}
}

func TestServeEndsWithContext(t *testing.T) {
	g, err := New(Config{Filters: 1})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", Loopback)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, listener) }()
	if status, _ := get(t, "http://"+listener.Addr().String()+"/healthz"); status != http.StatusOK {
		t.Errorf("status %d, want 200", status)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeReportsListener(t *testing.T) {
	g, err := New(Config{Filters: 1})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", Loopback)
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := g.Serve(t.Context(), listener); err == nil {
		t.Error("no error for a closed listener")
	}
}

func TestNewRefusesNegatives(t *testing.T) {
	for _, cfg := range []Config{{Filters: -1}, {Upstream: -time.Second}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("no error for %+v", cfg)
		}
	}
}
