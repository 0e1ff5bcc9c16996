package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/demo/telemetry"
)

// modes are both ways to serve.
var modes = map[string]int{"goroutines": 0, "loops": 4}

func start(t *testing.T, cfg Config) *task {
	t.Helper()
	started, err := startTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return started
}

// forBoth runs test for both ways to serve.
func forBoth(t *testing.T, test func(t *testing.T, loops int)) {
	t.Helper()
	for name, loops := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, loops)
		})
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	status, body, err := tryGet(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func tryGet(ctx context.Context, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// send makes n requests that may never be answered.
func send(t *testing.T, n int, url string) (answers <-chan int) {
	t.Helper()
	out := make(chan int, n)
	for range n {
		go func() {
			if status, _, err := tryGet(t.Context(), url); err == nil {
				out <- status
			}
		}()
	}
	return out
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := make(<-chan time.Time)
	if deadline, ok := t.Deadline(); ok {
		end = time.After(time.Until(deadline) - 5*time.Second)
	}
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the test's time ended before %s", what)
		}
	}
}

// stacks counts the goroutines whose stack has all parts.
func stacks(parts ...string) int {
	var out strings.Builder
	pprof.Lookup("goroutine").WriteTo(&out, 2)
	n := 0
next:
	for stack := range strings.SplitSeq(out.String(), "\n\n") {
		for _, part := range parts {
			if !strings.Contains(stack, part) {
				continue next
			}
		}
		n++
	}
	return n
}

// value is that of one series of a task's /metrics.
func value(t *testing.T, task *task, series string) string {
	t.Helper()
	_, page := get(t, task.addresses.Admin+"/metrics")
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "none"
}

func inFlight(t *testing.T, task *task, want int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d requests were in flight", want), func() bool {
		return value(t, task, "http_requests_in_flight") == fmt.Sprint(want)
	})
}

func TestPaths(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops, Hold: 10_000, Telemetry: telemetry.Config{Faulty: true, Hold: time.Microsecond}})
		for _, test := range []struct {
			path string
			want []string
		}{
			{"/", []string{"ok\n"}},
			{"/api/designs?page=1", []string{"ok\n"}},
			{"/healthz", []string{"ok\n"}},
			{"/readyz", []string{"ok\n"}},
		} {
			status, body := get(t, task.addresses.URL+test.path)
			if status != http.StatusOK || body != test.want[0] {
				t.Errorf("GET %s: %d %q, want 200 %q", test.path, status, body, test.want[0])
			}
		}
		for _, test := range []struct {
			path string
			want []string
		}{
			{"/metrics", []string{
				"\nhttp_requests_in_flight 0\n", // the scrape itself is no request
				"\nhttp_requests_total{code=\"200\",handler=\"/\",method=\"get\"} 2\n",
				"\nhttp_requests_total{code=\"200\",handler=\"/healthz\",method=\"get\"} 1\n",
				"\nhttp_requests_total{code=\"200\",handler=\"/readyz\",method=\"get\"} 1\n",
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
				"\ngateway_filter_001_requests_total{code=\"200\",method=\"GET\",region=\"eu-1\",route=\"/\",service=\"gateway\"} 2\n",
				"\ngateway_filter_001_requests_total{code=\"200\",method=\"GET\",region=\"eu-1\",route=\"/healthz\",service=\"gateway\"} 1\n",
			}},
			{"/debug/pprof/goroutine?debug=2", []string{"goroutine "}},
			{"/debug/pprof/block?debug=1", []string{"--- contention:"}},
			{"/debug/pprof/mutex?debug=1", []string{"--- mutex:"}},
		} {
			status, body := get(t, task.addresses.Admin+test.path)
			if status != http.StatusOK {
				t.Errorf("GET %s has status %d, want 200", test.path, status)
			}
			for _, want := range test.want {
				if !strings.Contains(body, want) {
					t.Errorf("GET %s lacks %q", test.path, want)
				}
			}
		}
		if status, _ := get(t, task.addresses.Admin+"/healthz"); status != http.StatusNotFound {
			t.Errorf("health is on the admin listener though it is not apart: status %d", status)
		}
	})
}

func TestOtherMethodsAreNoRequests(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops})
		response, err := http.Post(task.addresses.URL+"/", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("status %d, want 405", response.StatusCode)
		}
		if got := value(t, task, `http_requests_total{code="405",handler="/",method="post"}`); got != "none" {
			t.Errorf("counted %s", got)
		}
	})
}

// Requests that telemetry blocks stay in flight, whichever way they are served,
// and health checks with them.
func TestTelemetryBlocks(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops, Telemetry: telemetry.Config{Kind: telemetry.KindSampler, Faulty: true, Hold: 1000 * time.Hour}})
		send(t, 19, task.addresses.URL+"/")
		send(t, 1, task.addresses.URL+"/healthz")
		inFlight(t, task, 20)
	})
}

// All loops stall, each in the lock, and nothing else does.
func TestLoopsWaitInLock(t *testing.T) {
	t.Parallel()
	task := start(t, Config{Loops: 6, Telemetry: telemetry.Config{Kind: telemetry.KindExporter, Faulty: true, Hold: 1000 * time.Hour}})
	send(t, 60, task.addresses.URL+"/")
	inFlight(t, task, 60)
	waitFor(t, "all loops were in the lock", func() bool {
		return stacks("[sync.Mutex.Lock", "(*simpleSpanProcessor).OnEnd(", "gateway.(*loop).run(") == 5 &&
			stacks("[sleep", "(*simpleSpanProcessor).OnEnd(", "gateway.(*loop).run(") == 1
	})
}

func TestHealthApart(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops, HealthApart: true, Admission: 8,
			Telemetry: telemetry.Config{Kind: telemetry.KindSampler, Faulty: true, Hold: 1000 * time.Hour}})
		send(t, 8, task.addresses.URL+"/")
		inFlight(t, task, 8)
		for _, path := range []string{"/healthz", "/readyz"} {
			for _, at := range []string{task.addresses.URL, task.addresses.Admin} {
				if status, body := get(t, at+path); status != http.StatusOK || body != "ok\n" {
					t.Errorf("%s%s: %d %q, want 200", at, path, status, body)
				}
			}
		}
		task.draining.Store(true)
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
			if status, _ := get(t, task.addresses.URL+path); status != want {
				t.Errorf("%s of a task that drains: status %d, want %d", path, status, want)
			}
		}
	})
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops, Admission: 3, Faults: Faults{UpstreamTime: 1000 * time.Hour}})
		send(t, 3, task.addresses.URL+"/")
		inFlight(t, task, 3)
		if status, body := get(t, task.addresses.URL+"/"); status != http.StatusServiceUnavailable || body != overloaded.body {
			t.Errorf("a call beyond the limit: %d %q, want 503", status, body)
		}
		if status, _ := get(t, task.addresses.URL+"/healthz"); status != http.StatusOK {
			t.Errorf("a health check beyond the limit: %d, want 200", status)
		}
		if got := value(t, task, `http_requests_total{code="503",handler="/",method="get"}`); got != "1" {
			t.Errorf("counted %s refused API calls, want 1", got)
		}
	})
}

// A client that is gone ends its call to the upstream; what it waited for is no error.
func TestClientGone(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(upstream.Close)
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops, Upstream: upstream.URL})
		ctx, cancel := context.WithCancel(t.Context())
		go tryGet(ctx, task.addresses.URL+"/")
		waitFor(t, "the upstream was asked", func() bool { return value(t, task, "client_in_flight_requests") == "1" })
		cancel()
		inFlight(t, task, 0)
		if got := value(t, task, `http_requests_total{code="499",handler="/",method="get"}`); got != "1" {
			t.Errorf("counted %s requests without a client, want 1", got)
		}
	})
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(upstream.Close)
	forBoth(t, func(t *testing.T, loops int) {
		for path, want := range map[string]int{"/": 200, "/broken": 502} {
			task := start(t, Config{Loops: loops, Upstream: upstream.URL + path})
			if status, _ := get(t, task.addresses.URL+"/"); status != want {
				t.Errorf("upstream %s: status %d, want %d", path, status, want)
			}
			if got := value(t, task, "client_in_flight_requests"); got != "0" {
				t.Errorf("%s calls are in flight, want 0", got)
			}
			code := map[string]string{"/": "200", "/broken": "500"}[path]
			if got := value(t, task, `http_client_request_duration_seconds_count{code="`+code+`"}`); got != "1" {
				t.Errorf("counted %s calls, want 1", got)
			}
		}
	})
}

func TestUpstreamURLStaysSecret(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://user:hunter2@:bad:/", "ftp://user:hunter2@host/", "user:hunter2@host"} {
		_, err := newGateway(t.Context(), Config{Upstream: address})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v for %q, want one without the password", err, address)
		}
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops, Streams: true, Admission: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			request, _ := http.NewRequestWithContext(ctx, http.MethodGet, task.addresses.URL+"/stream", nil)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, err := bufio.NewReader(response.Body).ReadString('\n'); got != "data: saved\n" {
				t.Errorf("first event %q: %v", got, err)
			}
		}
		inFlight(t, task, 2)
		if status, _ := get(t, task.addresses.URL+"/"); status != http.StatusOK {
			t.Errorf("status %d beside streams, which take no place", status)
		}
		cancel()
		inFlight(t, task, 0)
		if got := value(t, task, `http_requests_total{code="200",handler="/stream",method="get"}`); got != "2" {
			t.Errorf("counted %s streams, want 2", got)
		}
	})
}

// A request that arrives before the last was answered ends the connection of a
// loop: it must not get the other's answer.
func TestLoopsRefusePipelines(t *testing.T) {
	t.Parallel()
	task := start(t, Config{Loops: 1, Faults: Faults{UpstreamTime: 1000 * time.Hour}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(task.addresses.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 2))
	if rest, err := io.ReadAll(conn); len(rest) != 0 || err != nil {
		t.Errorf("read %q, %v; want the end", rest, err)
	}
}

func TestLoopsRefuseNonsense(t *testing.T) {
	t.Parallel()
	task := start(t, Config{Loops: 1})
	for _, input := range []string{
		"nonsense\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nPadding: " + strings.Repeat("x", mostHead) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(task.addresses.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, input)
		if rest, _ := io.ReadAll(conn); len(rest) != 0 { // the connection may be reset, with bytes of the head unread
			t.Errorf("%.20q: read %q, want the end", input, rest)
		}
		conn.Close()
	}
	if status, _ := get(t, task.addresses.URL+"/"); status != http.StatusOK {
		t.Errorf("status %d after nonsense, want 200", status)
	}
}

func TestBuffers(t *testing.T) {
	t.Parallel()
	b := newBuffers(10_000)
	var held [][]byte
	for range 2 * spareBuffers {
		held = append(held, b.get())
	}
	for _, buffer := range held {
		if len(buffer) != 10_000 || buffer[0] != 1 || buffer[8192] != 1 {
			t.Fatalf("a buffer of %d bytes is not resident", len(buffer))
		}
		b.put(buffer)
	}
	if len(b.spare) != spareBuffers {
		t.Errorf("%d buffers are spare, want %d", len(b.spare), spareBuffers)
	}
	none := newBuffers(0)
	if got := none.get(); got != nil {
		t.Errorf("a buffer of %d bytes, want none", len(got))
	}
	none.put(nil)
}

// A buffer is held for each open connection and given back with it.
func TestConnectionsHoldBuffers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", Loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	held := holdingListener{listener, newBuffers(1)}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := held.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(held.buffers.spare); n != 0 {
		t.Errorf("%d buffers are spare while the connection is open", n)
	}
	conn.Close()
	conn.Close()
	if n := len(held.buffers.spare); n != 1 {
		t.Errorf("%d buffers were given back, want 1", n)
	}
}

func TestConfigTravels(t *testing.T) {
	t.Parallel()
	want := Config{Name: "gateway-3", Telemetry: telemetry.Config{Kind: "logger", Faulty: true, Hold: time.Second}, Loops: 2, Pool: 3, Faults: Faults{Query: time.Minute, Leak: true}}
	line, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Config
	if err := decode(string(line), &got); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// heldUpstream answers each call when it is told to.
type heldUpstream struct {
	*httptest.Server
	asked, answer chan struct{}
}

func newHeldUpstream(t *testing.T) *heldUpstream {
	u := &heldUpstream{asked: make(chan struct{}), answer: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		u.asked <- struct{}{}
		<-u.answer
	}))
	t.Cleanup(u.Close)
	return u
}
