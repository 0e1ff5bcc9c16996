package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/promapi"
	"github.com/contend/contend/ingest/stacks"
)

func lset(pairs ...string) labels.Labels { return labels.FromStrings(pairs...) }

// standIn is a process: this one. It counts what it is asked for.
type standIn struct {
	*httptest.Server
	started  atomic.Int64 // unix seconds; 0 has no metrics, and for -1 they wait
	down     atomic.Bool
	profiles atomic.Int64 // goroutine profiles as protobuf
	dumps    atomic.Int64
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{}
	s.started.Store(1000)
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("debug") == "2":
			s.dumps.Add(1)
		case strings.HasSuffix(r.URL.Path, "/goroutine"):
			s.profiles.Add(1)
		}
		pprof.Index(w, r)
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		switch s.started.Load() {
		case 0:
			http.NotFound(w, r)
			return
		case -1:
			<-r.Context().Done()
			return
		}
		fmt.Fprintf(w, "# TYPE process_start_time_seconds gauge\ngo_goroutines 7\nprocess_start_time_seconds %d\n", s.started.Load())
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// serverOf is a stand-in for a server without series, as answer says.
func serverOf(t *testing.T, answer http.HandlerFunc) ingest.SeriesOptions {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	api, err := promapi.New(s.URL, nil, promapi.Options{Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return ingest.SeriesOptions{Server: series.NewRecent(api), ServerName: api.Name(), Since: time.Minute}
}

func newLooker(t *testing.T, o Options) *Looker {
	t.Helper()
	o.Timeout, o.Detectors = 20*time.Second, all.Detectors()
	l, err := NewLooker(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What a process is compared with is half of five minutes old and more, once it has been
// looked at for so long, and never more than five.
func TestEarlier(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Second, 15 * time.Second, 10 * time.Minute} {
		p := &process{}
		for i := range 200 {
			at := noon.Add(time.Duration(i) * every)
			p.keep(&stacks.Snapshot{Name: "p", Taken: at})
			if i == 0 {
				continue
			}
			least, most := min(time.Duration(i)*every, earlierTime/2), max(earlierTime, 2*every)
			if age := at.Sub(p.earlier.Taken); age < least || age > most || p.earlier.Name != "p, before" || p.latest.Name != "p" {
				t.Fatalf("each %v, at %v: compared with %q, %v old; want %v to %v", every, at.Sub(noon), p.earlier.Name, age, least, most)
			}
		}
	}
}

// A process is compared with itself before, but not across a restart, nor across
// a time in which it could not be seen where it does not say when it began.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	l := newLooker(t, Options{Processes: []string{s.URL + "/debug/pprof/"}})
	now := noon
	look := func(what string, snapshots int, restarted bool, blind string) {
		t.Helper()
		now = now.Add(15 * time.Second)
		got := l.Look(t.Context(), now)
		if n := len(got.bundle.Snapshots); n != snapshots {
			t.Errorf("%s: %d snapshots, want %d", what, n, snapshots)
		}
		if (len(got.Restarted) > 0) != restarted {
			t.Errorf("%s: restarted %q", what, got.Restarted)
		}
		in := got.Inputs[0]
		if (in.Why == "") != (blind == "") || !strings.Contains(in.Why, blind) || in.Blind.IsZero() != (blind == "") {
			t.Errorf("%s: %+v, want blind for %q", what, in, blind)
		}
	}
	look("first", 1, false, "")
	look("second", 2, false, "")
	s.started.Store(2000)
	look("restarted", 1, true, "")
	look("after it", 2, false, "")
	s.down.Store(true)
	look("down", 0, false, "503")
	since := l.processes[0].Blind
	look("still", 0, false, "503")
	if in := l.processes[0].Input; in.Blind != since || in.Errors != 2 || in.Seen != since.Add(-15*time.Second) {
		t.Errorf("while it is down: %+v", in)
	}
	s.down.Store(false)
	look("up again, the same", 2, false, "")

	// Metrics that wait for a lock are no reason not to see who else waits for it.
	s.started.Store(-1)
	l.patience = 20 * time.Millisecond
	look("metrics wait", 1, false, "")
	s.started.Store(2000)
	l.patience = l.Timeout
	look("and come again", 2, false, "")

	s.started.Store(0)
	l = newLooker(t, Options{Processes: []string{s.URL}})
	look("without metrics", 1, false, "")
	look("and again", 2, false, "")
	s.down.Store(true)
	look("down", 0, false, "503")
	s.down.Store(false)
	look("up again, the same or not", 1, false, "")
	if s.dumps.Load() != 0 {
		t.Errorf("%d dumps were taken by looking", s.dumps.Load())
	}
}

// A server that is dead, slow, or no server at all makes a look blind, and not late;
// the process beside it is seen.
func TestBlind(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		why    string
	}{
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // only then is it seen that the client has gone
			<-r.Context().Done()
		}, "within 100ms"},
		"failing": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", 500) }, "500"},
		"hostile": {func(w http.ResponseWriter, _ *http.Request) {
			w.Write(append([]byte(`{"status":"success","data":["`), bytes.Repeat([]byte("\x1b[2J"), 1000)...))
		}, "expected"},
		"empty": {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"status":"success","data":[]}`)) }, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t)
			l := newLooker(t, Options{Series: serverOf(t, tt.answer), Processes: []string{s.URL}})
			look := l.Look(t.Context(), noon)
			server, process := look.Inputs[0], look.Inputs[1]
			if !strings.Contains(server.Why, tt.why) || server.Blind != noon || process.Why != "" || process.Seen != noon {
				t.Errorf("server %+v, process %+v", server, process)
			}
			if n := len(look.bundle.Snapshots); n != 1 {
				t.Errorf("%d snapshots, want 1", n)
			}
			if !slices.ContainsFunc((&Tracker{Interval: time.Second}).Changes(look), func(c Change) bool { return c.Kind == Blind && c.Input == server.Name }) {
				t.Error("it is not said that the server cannot be seen")
			}
		})
	}
}

// A server whose process is watched as well is two inputs, each seen or not by itself.
func TestServerAsProcess(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	api, err := promapi.New(s.URL, nil, promapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := newLooker(t, Options{Series: ingest.SeriesOptions{Server: api, ServerName: api.Name(), Since: time.Minute}, Processes: []string{s.URL, s.URL + "/other"}})
	tracker := &Tracker{Interval: time.Second}
	for i, blind := range []int{2, 0} { // neither its API nor /other is there
		told := 0
		for _, c := range tracker.Changes(l.Look(t.Context(), noon.Add(time.Duration(i)*time.Second))) {
			switch c.Kind {
			case Blind:
				told++
			case Sees:
				t.Errorf("look %d: %v", i, c)
			}
		}
		if told != blind {
			t.Errorf("look %d: %d inputs are told blind, want %d", i, told, blind)
		}
	}
	for i, want := range []string{s.URL, s.URL + "/debug/pprof", s.URL + "/other"} {
		if got := append([]*Input{l.server}, &l.processes[0].Input, &l.processes[1].Input)[i].Name; got != want {
			t.Errorf("input %d is %s, want %s", i, got, want)
		}
	}
}

// A look that takes too long says so, and what to try.
func TestLate(t *testing.T) {
	t.Parallel()
	l := newLooker(t, Options{Series: serverOf(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})})
	l.Timeout = 20 * time.Millisecond // before that of the request
	look := l.Look(t.Context(), noon)
	if why := look.Inputs[0].Why; !strings.Contains(why, "expected all answers within 20ms, saw that more were to come; a longer --interval") || strings.Contains(why, "deadline") {
		t.Errorf("blind for %q", why)
	}
}

// What a look cannot be begun with.
func TestNewLooker(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"":                       "neither",
		"localhost:6060":         "http:// is needed",
		"http://a:b@x:99999999 ": "URL of a process",
		"http://h/debug/pprof/goroutine?x=secret": "another path",
	} {
		o := Options{}
		if url != "" {
			o.Processes = []string{url}
		}
		if _, err := NewLooker(o); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", url, err, says)
		}
	}
	if _, err := NewLooker(Options{Processes: []string{"http://h", "http://h/debug/pprof"}}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
	l, err := NewLooker(Options{Processes: []string{"http://user:hunter2@h/p/debug/pprof?token=hunter2"}})
	if err != nil || l.processes[0].Name != "http://h/p" {
		t.Errorf("%v, %v", l, err)
	}
}

func FuzzStartIn(f *testing.F) {
	for _, page := range []string{"process_start_time_seconds 1.7e+09\n", "process_start_time_seconds{a=\"b\"} 3\n", "# HELP process_start_time_seconds x\nprocess_start_time_seconds NaN", ""} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		if v := startIn(page); !(v >= 0) {
			t.Errorf("%v", v)
		}
	})
}

// Looks are one after the other; what is late loses turns.
func TestEvery(t *testing.T) {
	t.Parallel()
	now := noon
	ctx, cancel := context.WithCancel(t.Context())
	clock := Clock{Now: func() time.Time { return now }, Wait: func(_ context.Context, until time.Time) { now = until }}
	takes := []time.Duration{time.Second, 15 * time.Second, 46 * time.Second, time.Second, 0}
	var got []string
	Every(ctx, clock, 15*time.Second, func(at time.Time, missed int) {
		got = append(got, fmt.Sprintf("%v %d", at.Sub(noon), missed))
		now = now.Add(takes[0])
		if takes = takes[1:]; len(takes) == 0 {
			cancel()
		}
	})
	if want := []string{"0s 0", "15s 0", "45s 1", "1m45s 3", "2m0s 0"}; !slices.Equal(got, want) {
		t.Errorf("looks %q, want %q", got, want)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error(ctx.Err())
	}
}
