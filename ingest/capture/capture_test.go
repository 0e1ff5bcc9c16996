package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest"
)

// handled answers requests with a handler in this process: without a network,
// time can be synctest's.
type handled struct{ h http.Handler }

func (t handled) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := make(chan *http.Response, 1)
	go func() {
		rec := httptest.NewRecorder()
		t.h.ServeHTTP(rec, req)
		answer <- rec.Result()
	}()
	select {
	case r := <-answer:
		if r.StatusCode == gone {
			return nil, syscall.ECONNREFUSED
		}
		return r, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// gone stands for no answer at all.
const gone = 599

// service is a process with metrics that count their scrapes.
type service struct {
	at       map[string]http.HandlerFunc // by path; of /debug/pprof/ for the profiles that are not named
	requests atomic.Int64
	scrapes  atomic.Int64
}

func newService() *service {
	s := &service{}
	s.at = map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index,
		"/metrics": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total{code=\"200\"} %d\n", s.scrapes.Add(1))
		},
	}
	for _, kind := range []string{"block", "mutex"} {
		s.at["/debug/pprof/"+kind] = contention(3)
	}
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	h := s.at[r.URL.Path]
	if h == nil && strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
		h = s.at["/debug/pprof/"]
	}
	if h == nil {
		h = http.NotFound
	}
	h(w, r)
}

func options(t *testing.T, h http.Handler) Options {
	return Options{
		Target: "http://gateway:6060", MetricsPath: "/metrics",
		Out: filepath.Join(t.TempDir(), "bundle"),
		For: time.Minute, Every: 10 * time.Second, ScrapeInterval: 5 * time.Second, MaxGoroutines: 10_000,
		Version: "contend v0", HTTP: &http.Client{Transport: handled{h}},
	}
}

// run captures in synctest's time, which begins with the year 2000.
func run(t *testing.T, ctx context.Context, o Options) (r *Report, err error) {
	t.Helper()
	r, err = Run(ctx, o)
	if parts, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Out), ".*")); len(parts) > 0 {
		t.Errorf("%v are left over", parts)
	}
	return r, err
}

func manifest(t *testing.T, dir string) Manifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	for _, taken := range m.Taken {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(taken.File))); err != nil || info.Size() == 0 {
			t.Errorf("%s is listed: %v", taken.File, err)
		}
	}
	return m
}

// takenFiles lists files without their times, with the second each was taken at.
func takenFiles(m Manifest) string {
	var out []string
	for _, f := range m.Taken {
		ending := f.File[strings.IndexByte(f.File, '.')+1:]
		if f.Kind != "series" {
			ending = ending[len("000Z."):]
		}
		out = append(out, fmt.Sprintf("%s.%s@%d", f.Kind, ending, f.At.Unix()-946684800))
	}
	return strings.Join(out, " ")
}

func missing(m []Missing) string {
	var out []string
	for _, one := range m {
		text := fmt.Sprintf("%s@%d: %s", one.What, one.At.Unix()-946684800, one.Reason)
		if one.Times > 0 {
			text += fmt.Sprintf(" (%d times)", one.Times)
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func seriesText(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "series.om"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// contention answers with a block or mutex profile of so many contentions,
// whatever this process is profiled for.
func contention(n int64) http.HandlerFunc {
	f := &profile.Function{ID: 1, Name: "main.work"}
	m := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x800000, File: "/home/somebody/bin/contend"}
	l := &profile.Location{ID: 1, Mapping: m, Line: []profile.Line{{Function: f}}}
	return func(w http.ResponseWriter, _ *http.Request) {
		p := &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}},
			TimeNanos:  time.Now().UnixNano(),
		}
		if n > 0 {
			p.Mapping = []*profile.Mapping{m}
			p.Location, p.Function = []*profile.Location{l}, []*profile.Function{f}
			p.Sample = []*profile.Sample{{Location: p.Location, Value: []int64{n, n * 1000}}}
		}
		p.Write(w)
	}
}

const everything = "goroutine.pb.gz@0 series.om@0 goroutine.txt.gz@0 block.pb.gz@0 mutex.pb.gz@0 " +
	"goroutine.pb.gz@10 goroutine.pb.gz@20 goroutine.pb.gz@30 goroutine.pb.gz@40 goroutine.pb.gz@50 " +
	"goroutine.pb.gz@60 block.pb.gz@60 mutex.pb.gz@60"

func sorted(list string) string { return strings.Join(slices.Sorted(strings.FieldsSeq(list)), " ") }

func TestRun(t *testing.T) {
	t.Parallel()
	s := newService()
	o := options(t, s)
	synctest.Test(t, func(t *testing.T) {
		o.Target = "http://me:hunter2@gateway:6060/debug/pprof/?token=hunter2"
		o.Job = "shop"
		r, err := run(t, t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		m := manifest(t, o.Out)
		if got := takenFiles(m); sorted(got) != sorted(everything) {
			t.Errorf("taken %s\nwant  %s", got, everything)
		}
		if m.Schema != "contend.bundle/v1" || m.Target != "http://gateway:6060" || m.ClockFactor != 1 || m.Version != "contend v0" || len(m.Missing) > 0 {
			t.Errorf("bundle.json says %+v", m)
		}
		// The labels of its series, by which another capture is known to be of the same process.
		if want := []Process{{"profiles", "shop", "gateway:6060"}}; !slices.Equal(m.Processes, want) {
			t.Errorf("its profiles are of %+v, want %+v", m.Processes, want)
		}
		if r.Scrapes != 13 || r.Failed != 0 || r.Series != 3 || r.Elapsed != time.Minute || r.Interrupted || r.Bytes == 0 {
			t.Errorf("the report is %+v", r)
		}
		// 7 goroutine profiles, a dump, 4 others and 13 scrapes, as the help says.
		if n := s.requests.Load(); n != 25 {
			t.Errorf("%d requests, want 25", n)
		}
		var want strings.Builder
		for _, series := range []struct {
			head, name string
			value      func(scrape int) int
		}{
			{"# TYPE requests counter\n", `requests_total{code="200",instance="gateway:6060",job="shop"}`, func(i int) int { return i }},
			{"# TYPE scrape_duration_seconds gauge\n", `scrape_duration_seconds{instance="gateway:6060",job="shop"}`, func(int) int { return 0 }},
			{"# TYPE up gauge\n", `up{instance="gateway:6060",job="shop"}`, func(int) int { return 1 }},
		} {
			want.WriteString(series.head)
			for i := range 13 {
				fmt.Fprintf(&want, "%s %d %d.000\n", series.name, series.value(i+1), 946684800+5*i)
			}
		}
		want.WriteString("# EOF\n")
		if got := seriesText(t, o.Out); got != want.String() {
			t.Errorf("series.om is\n%s\nwant\n%s", got, &want)
		}
	})
	b := ingest.Load(t.Context(), []string{o.Out}, ingest.Options{})
	if len(b.Snapshots) != 8 || len(b.Waits) != 4 || len(b.Failures) > 0 {
		t.Errorf("read back: %d snapshots, %d waits, failures %v; want 8, 4 and none", len(b.Snapshots), len(b.Waits), b.Failures)
	}
}

// Over a real connection, in real time, and on disk for its owner alone.
func TestRunServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newService())
	defer server.Close()
	o := options(t, nil)
	o.Target, o.HTTP = server.URL, nil
	o.For, o.Every, o.ScrapeInterval = MinFor, MinEvery, MinScrapeInterval
	var steps []string
	o.Progress = func(step string) { steps = append(steps, step) }
	r, err := run(t, t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Scrapes == 0 || !strings.HasSuffix(seriesText(t, o.Out), "\n# EOF\n") {
		t.Errorf("the report is %+v", r)
	}
	if info, err := os.Stat(o.Out); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the bundle has mode %v, %v", info.Mode(), err)
	}
	if want := []string{"taking the first profiles", "0s of 1s, 4 profiles", "taking the last profiles", "writing the bundle"}; !slices.Equal(steps, want) {
		t.Errorf("progress told %q, want %q", steps, want)
	}
}

// Credentials stay on the host they are for, whatever it redirects to.
func TestRunRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	s := newService()
	metrics := s.at["/metrics"]
	s.at["/here"] = func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" || r.Header.Get("X-Api-Key") != "hunter3" {
			t.Errorf("the host itself was sent %v", r.Header)
		}
		metrics(w, r)
	}
	s.at["/metrics"] = http.RedirectHandler("/here", http.StatusFound).ServeHTTP
	s.at["/away"] = http.RedirectHandler(other.URL+"/away", http.StatusFound).ServeHTTP
	s.at["/debug/pprof/block"] = http.RedirectHandler(other.URL+"/block", http.StatusFound).ServeHTTP
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "http.yml")
	if err := os.WriteFile(file, []byte("basic_auth: {username: me, password: hunter2}\nhttp_headers: {X-Api-Key: {secrets: [hunter3]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := ingest.HTTPClient(file)
	if err != nil {
		t.Fatal(err)
	}
	const refused = ", saw 302 Found, a redirect to another host, "
	const try = "; try: that address if you trust it with the credentials, or other ones where it is a login page"
	for path, want := range map[string]map[string]string{
		"/metrics": {"block": "expected a block profile" + refused + other.URL + "/block" + try},
		"/away":    {"block": "expected a block profile" + refused + other.URL + "/block" + try, "metrics": "expected metrics" + refused + other.URL + "/away" + try},
	} {
		o := options(t, nil)
		o.Target, o.MetricsPath, o.HTTP = server.URL, path, client
		o.For, o.Every, o.ScrapeInterval = MinFor, MinEvery, MinScrapeInterval
		r, err := run(t, t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, m := range r.Missing {
			got[m.What] = m.Reason
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: missing %q, want %q", path, got, want)
		}
		if (r.Scrapes > 0) != (path == "/metrics") {
			t.Errorf("%s: %d scrapes", path, r.Scrapes)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests to another host", n)
	}
}

func TestRunMissing(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, tt := range map[string]struct {
		change  func(*service, *Options)
		taken   string
		missing []string // substrings, one each
	}{
		"no metrics": {
			func(s *service, o *Options) { o.MetricsPath = "/nowhere" },
			strings.Replace(everything, "series.om@0 ", "", 1),
			[]string{"metrics@0: expected metrics, saw 404 Not Found (404 page not found); try: check host, port and path"},
		},
		"metrics elsewhere": {
			func(s *service, o *Options) {
				s.at["/m"] = status(http.StatusServiceUnavailable)
				o.Metrics = "http://other:9/m"
			},
			everything,
			[]string{"metrics@0: expected metrics, saw 503 Service Unavailable; try: see the service's log, or send it SIGQUIT, which ends it, and give its output (13 times)"},
		},
		"no pprof": {
			func(s *service, o *Options) {
				s.at = map[string]http.HandlerFunc{"/metrics": s.at["/metrics"]}
			},
			"series.om@0",
			[]string{
				"goroutine@0: expected a goroutine profile, saw 404",
				"block@0: expected a block profile, saw 404",
				"mutex@0: expected a mutex profile, saw 404",
			},
		},
		"credentials": {
			func(s *service, o *Options) { s.at["/debug/pprof/mutex"] = status(http.StatusUnauthorized) },
			strings.NewReplacer("mutex.pb.gz@0 ", "", " mutex.pb.gz@60", "").Replace(everything),
			[]string{"mutex@0: expected a mutex profile, saw 401 Unauthorized; try: give credentials with --http.config.file"},
		},
		"profiling off": {
			func(s *service, o *Options) { s.at["/debug/pprof/block"] = contention(0) },
			everything,
			[]string{"block@60: empty: its profiling is off (runtime.SetBlockProfileRate)"},
		},
		"another kind": {
			func(s *service, o *Options) {
				s.at["/debug/pprof/block"] = pprof.Handler("goroutine").ServeHTTP
				s.at["/debug/pprof/mutex"] = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>sign in</html>") }
			},
			strings.NewReplacer(" block.pb.gz@0", "", " mutex.pb.gz@0", "", " block.pb.gz@60", "", " mutex.pb.gz@60", "").Replace(everything),
			[]string{"block@0: expected a block profile, saw a goroutine profile", "mutex@0: expected a mutex profile, saw HTML (a login or an error page?); check that net/http/pprof answers at that address, and give credentials with --http.config.file if it asks for them (2 times)"},
		},
		"no dump": {
			func(s *service, o *Options) {
				s.at["/debug/pprof/goroutine"] = func(w http.ResponseWriter, r *http.Request) {
					r.URL.RawQuery = "" // debug is not known here
					pprof.Index(w, r)
				}
			},
			strings.Replace(everything, "goroutine.txt.gz@0 ", "", 1),
			[]string{"dump@0: expected a goroutine dump, saw a profile in protobuf"},
		},
		"too many goroutines": {
			func(s *service, o *Options) { o.MaxGoroutines = 1 },
			strings.Replace(everything, "goroutine.txt.gz@0 ", "", 1),
			[]string{"dump@60: not taken: it would stop the process for long to write "},
		},
		"no dump wanted": {
			func(s *service, o *Options) { o.MaxGoroutines = 0 },
			strings.Replace(everything, "goroutine.txt.gz@0 ", "", 1),
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newService()
				o := options(t, s)
				var told []Missing
				o.Note = func(m Missing) { told = append(told, m) }
				tt.change(s, &o)
				if _, err := run(t, t.Context(), o); err != nil {
					t.Fatal(err)
				}
				m := manifest(t, o.Out)
				if got := takenFiles(m); sorted(got) != sorted(tt.taken) {
					t.Errorf("taken %s\nwant  %s", got, tt.taken)
				}
				got := missing(m.Missing)
				for _, want := range tt.missing {
					if !strings.Contains(got, want) {
						t.Errorf("missing\n%s\nwant %s", got, want)
					}
				}
				if len(m.Missing) != len(tt.missing) || len(told) != len(tt.missing) {
					t.Errorf("missing %d, told %d, want %d:\n%s", len(m.Missing), len(told), len(tt.missing), got)
				}
			})
		})
	}
}
