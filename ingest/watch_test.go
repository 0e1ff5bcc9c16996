package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// watcher asks without pause, until it is told to stop.
func watcher() *loader {
	l := newLoader(Options{})
	l.window, l.watchEvery = time.Minute, time.Nanosecond
	return l
}

func TestWatch(t *testing.T) {
	t.Parallel()
	const p = "/debug/pprof/"
	goroutines := goroutineProto(t, "b1", t0, 7)
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	contentions := serve(contentionProto(t, "b1", t0, time.Second))
	for name, tt := range map[string]struct {
		answers  string // of goroutine profiles, one by one: o is one, x an error, c ends the watch
		block    http.HandlerFunc
		inputs   string   // snapshots + waits
		failures []string // in their order
	}{
		"until it is interrupted": {"ooooc", contentions, "4+1", nil},
		"interrupted, with profiles under way": {"ooooc", hang, "4+0", []string{
			"/debug/pprof/block?seconds=60: interrupted: context canceled"}},
		"one that fails loses no other": {"oxoxxoc", contentions, "3+1", nil},
		"a process that dies": {"oooxxx", hang, "3+0", []string{
			"/debug/pprof/goroutine: given up after ",
			"/debug/pprof/block?seconds=60: interrupted: context canceled"}},
		"nothing there": {"x", hang, "0+0", []string{": expected a goroutine profile, saw 500 Internal Server Error"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// Both are whole before the first snapshot fails the watch or ends it.
			var asked atomic.Int32
			got := make(chan struct{}, 2)
			s := fakePprof(t, map[string]http.HandlerFunc{
				p + "goroutine": func(w http.ResponseWriter, r *http.Request) {
					i := asked.Add(1) - 1
					if i == 0 {
						<-got
						<-got
					}
					switch tt.answers[i] {
					case 'o':
						w.Write(goroutines)
					case 'x':
						w.WriteHeader(http.StatusInternalServerError)
					case 'c':
						cancel()
						<-r.Context().Done()
					}
				},
				p + "block": func(w http.ResponseWriter, r *http.Request) { got <- struct{}{}; tt.block(w, r) },
				p + "mutex": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r); got <- struct{}{} },
			})
			b := watcher().watch(ctx, s.URL)
			if in := fmt.Sprintf("%d+%d", len(b.Snapshots), len(b.Waits)); in != tt.inputs {
				t.Errorf("read %s inputs, want %s", in, tt.inputs)
			}
			if len(b.Failures) != len(tt.failures) {
				t.Fatalf("failures %v, want %q", b.Failures, tt.failures)
			}
			for i, f := range b.Failures {
				if text := strings.TrimPrefix(f.Name, s.URL) + ": " + f.Err.Error(); !strings.HasPrefix(text, tt.failures[i]) {
					t.Errorf("failure %q, want %q", text, tt.failures[i])
				}
			}
			if ps := b.Processes(); len(ps) > 1 {
				t.Errorf("%d processes, want one", len(ps))
			}
		})
	}
}

// Gaps are random also where a process is slow to answer: a rest that is the same
// each time would see a lock that is taken in that rhythm always or never.
func TestGap(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		draw             float64
		mean, took, want time.Duration
	}{
		{0, 100 * ms, 38 * ms, 0},
		{1, 100 * ms, 3 * ms, 100 * ms},
		{0.5, 100 * ms, 3 * ms, 50 * ms},
		{1, 100 * ms, 38 * ms, 760 * ms},
		{0.25, 100 * ms, 38 * ms, 190 * ms},
		{2, 500 * ms, 38 * ms, 1520 * ms},
	} {
		if got := gap(tt.draw, tt.mean, tt.took); got != tt.want {
			t.Errorf("gap(%v, %v, %v) is %v, want %v", tt.draw, tt.mean, tt.took, got, tt.want)
		}
	}
}

// A watch is of a process, and no secret is in what it says.
func TestWatchRefuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://me:hunter2@127.0.0.1:1/debug/pprof/goroutine": "expected the root of a host or its /debug/pprof",
		"http://me:hunter2@/":               "expected a URL such as http://HOST:PORT, saw one that cannot be read",
		"localhost:6060":                    "expected a URL such as http://HOST:PORT",
		"http://me:hunter2@127.0.0.1:1?a=b": "saw the connection refused",
	} {
		b := watcher().watch(t.Context(), raw)
		if len(b.Failures) != 1 || !strings.Contains(b.Failures[0].Err.Error(), want) || strings.Contains(fmt.Sprint(b.Failures), "hunter2") {
			t.Errorf("%s: failures %v, want one with %q", raw, b.Failures, want)
		}
	}
}
