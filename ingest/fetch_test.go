package ingest

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contend/contend/ingest/waits"
)

// hostLoader samples for a moment only.
func hostLoader(opt Options) *loader {
	l := newLoader(opt)
	l.window = 10 * time.Millisecond
	return l
}

// fakePprof serves a process by hand: each profile is a function of the request.
func fakePprof(t *testing.T, profiles map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, h := range profiles {
		mux.HandleFunc(path, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func serve(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.Write(data) }
}

func TestLoadHostRealPprof(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	for _, suffix := range []string{"", "/", "/debug/pprof", "/debug/pprof/"} {
		t.Run("root"+suffix, func(t *testing.T) {
			t.Parallel()
			l := hostLoader(Options{})
			b := l.load(t.Context(), []string{s.URL + suffix})
			if len(b.Failures)+len(b.Unused) != 0 {
				t.Fatalf("failures %v, unused %v", b.Failures, b.Unused)
			}
			var names []string
			for _, in := range b.Snapshots {
				names = append(names, strings.TrimPrefix(in.Name, s.URL))
				if in.Taken.IsZero() || in.Loss.Read == 0 {
					t.Errorf("%s: taken %v, read %d", in.Name, in.Taken, in.Loss.Read)
				}
			}
			for _, in := range b.Waits {
				names = append(names, strings.TrimPrefix(in.Name, s.URL)+" "+string(in.Kind))
				if in.Window <= 0 {
					t.Errorf("%s has no window", in.Name)
				}
			}
			want := []string{
				"/debug/pprof/goroutine", "/debug/pprof/goroutine, 10ms later", "/debug/pprof/goroutine?debug=2",
				"/debug/pprof/block?seconds=1 block", "/debug/pprof/mutex?seconds=1 mutex",
			}
			if !slices.Equal(names, want) {
				t.Errorf("inputs %q, want %q", names, want)
			}
			ps := b.Processes()
			if len(ps) != 1 || ps[0].Name != s.URL || len(ps[0].Snapshots) != 3 || len(ps[0].Waits) != 2 {
				t.Errorf("want one process of all, got %d: %+v", len(ps), ps[0])
			}
		})
	}
}

func TestLoadSingleURL(t *testing.T) {
	t.Parallel()
	var got string
	s := fakePprof(t, map[string]http.HandlerFunc{
		"/x/debug/pprof/goroutine": func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.RawQuery
			w.Write(gz(goroutineProto(t, "b1", t0, 7)))
		},
		"/files/dump": serve([]byte(dumpText)),
	})
	b := Load(t.Context(), []string{s.URL + "/x/debug/pprof/goroutine?tenant=a&token=hunter2", s.URL + "/files/dump"}, Options{})
	if len(b.Failures) != 0 || len(b.Snapshots) != 2 {
		t.Fatalf("got %+v", b)
	}
	if want := s.URL + "/x/debug/pprof/goroutine?tenant=a&token=xxxxx"; b.Snapshots[0].Name != want {
		t.Errorf("name %s, want %s", b.Snapshots[0].Name, want)
	}
	if got != "tenant=a&token=hunter2" {
		t.Errorf("the server was asked with query %q", got)
	}
	if o := b.Origin[b.Snapshots[0].Name]; o != s.URL+"/x" {
		t.Errorf("origin %q", o)
	}
	if b.Snapshots[1].Taken.IsZero() {
		t.Error("a dump from a URL has no time")
	}
}

func TestLoadHostPartly(t *testing.T) {
	t.Parallel()
	big := serve(goroutineProto(t, "b1", t0, maxTextGoroutines))
	small := serve(goroutineProto(t, "b1", t0, maxTextGoroutines-1))
	var mu sync.Mutex
	taken := 0
	cumulative := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("seconds") {
			w.Header().Set("X-Go-Pprof", "1")
			http.Error(w, "profile duration exceeds server's WriteTimeout", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		taken++
		w.Write(contentionProto(t, "b1", t0.Add(time.Duration(taken)*time.Second), time.Duration(taken)*time.Second))
	}
	const p = "/debug/pprof/"
	tests := []struct {
		name     string
		profiles map[string]http.HandlerFunc
		inputs   string // snapshots + waits
		unused   string
		failure  string
	}{
		{"no block and mutex", map[string]http.HandlerFunc{p + "goroutine": serve([]byte(dumpText))},
			"3+0", "/debug/pprof/block?seconds=1: the service does not serve it (404) | /debug/pprof/mutex?seconds=1: the service does not serve it (404)", ""},
		{"many goroutines", map[string]http.HandlerFunc{p + "goroutine": big, p + "block": serve(contentionProto(t, "b1", t0, time.Second)), p + "mutex": serve(contentionProto(t, "b1", t0, time.Second))},
			"2+2", "/debug/pprof/goroutine?debug=2: not taken: | 10000 goroutines", ""},
		{"just below many", map[string]http.HandlerFunc{p + "goroutine": small, p + "block": serve(contentionProto(t, "b1", t0, time.Second)), p + "mutex": serve(contentionProto(t, "b1", t0, time.Second))},
			"3+2", "", ""},
		{"short write timeout", map[string]http.HandlerFunc{p + "goroutine": small, p + "block": cumulative},
			"3+2", "mutex", ""},
		{"block forbidden", map[string]http.HandlerFunc{p + "goroutine": small, p + "mutex": serve(contentionProto(t, "b1", t0, time.Second)),
			p + "block": func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) }},
			"3+1", "", "/debug/pprof/block?seconds=1: expected a block profile, saw 403 Forbidden (no) | --http.config.file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fakePprof(t, tt.profiles)
			b := hostLoader(Options{}).load(t.Context(), []string{s.URL})
			if got := fmt.Sprintf("%d+%d", len(b.Snapshots), len(b.Waits)); got != tt.inputs {
				t.Errorf("read %s inputs, want %s: %+v", got, tt.inputs, b)
			}
			var unused, failures []string
			for _, u := range b.Unused {
				unused = append(unused, u.Name+": "+u.Reason)
			}
			for _, f := range b.Failures {
				failures = append(failures, f.Name+": "+f.Err.Error())
			}
			check := func(got []string, want string) {
				if (len(got) == 0) != (want == "") {
					t.Errorf("got %q, want %q", got, want)
				}
				wantParts(t, strings.Join(got, "\n"), want)
			}
			check(unused, tt.unused)
			check(failures, tt.failure)
			if tt.name == "short write timeout" {
				ps := b.Processes()
				if len(ps) != 1 || len(ps[0].Waits) != 1 || ps[0].Waits[0].Kind != waits.Block || ps[0].Waits[0].Window != time.Second {
					t.Errorf("the two cumulative profiles were not subtracted: %+v", ps[0])
				}
			}
		})
	}
}

// A process' metrics are one scrape of it, packed or not.
func TestLoadMetricsURL(t *testing.T) {
	t.Parallel()
	const page = "# TYPE requests counter\nrequests_total{code=\"200\"} 7\nup{job=\"shop\",instance=\"a:1\"} 1\n"
	packed := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(gz([]byte(page)))
	}
	s := fakePprof(t, map[string]http.HandlerFunc{
		"/metrics":        serve([]byte(page)),
		"/packed/metrics": packed,
		"/file/metrics":   serve(gz([]byte(page))),
		"/login/metrics": func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
				http.Error(w, "who are you", http.StatusUnauthorized)
				return
			}
			packed(w, r) // HTTPClient's client takes none off
		},
	})
	client, err := HTTPClient(write(t, t.TempDir(), "http.yml", []byte("basic_auth: {username: me, password: hunter2}\n")))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path   string
		client *http.Client
	}{
		{"/metrics", nil}, {"/metrics?token=hunter2", nil}, {"/packed/metrics", nil}, {"/file/metrics", nil}, {"/login/metrics", client},
	} {
		before := time.Now().Truncate(time.Millisecond)
		b := Load(t.Context(), []string{s.URL + tt.path}, Options{HTTP: tt.client})
		name := s.URL + strings.Replace(tt.path, "hunter2", "xxxxx", 1)
		if len(b.Failures)+len(b.Unused) != 0 || len(b.Read) != 1 || b.Read[0].Name != name || b.Read[0].Loaded.Samples != 2 {
			t.Errorf("%s: read %+v, failures %v, unused %v", tt.path, b.Read, b.Failures, b.Unused)
			continue
		}
		got := map[string]float64{}
		for _, c := range b.Samples.All() {
			if len(c.T) != 1 || c.T[0] < before.UnixMilli() || c.T[0] > time.Now().UnixMilli() {
				t.Errorf("%s: %s has times %v, want that of the request", tt.path, c.Labels, c.T)
				continue
			}
			got[c.Labels.String()] = c.V[0]
		}
		want := map[string]float64{
			fmt.Sprintf(`{__name__="requests_total", code="200", instance=%q, job="scrape"}`, name): 7,
			`{__name__="up", instance="a:1", job="shop"}`:                                           1,
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", tt.path, got, want)
		}
	}
	b := Load(t.Context(), []string{s.URL + "/login/metrics", s.URL + "/metrics"}, Options{})
	if len(b.Failures) != 1 || len(b.Read) != 1 {
		t.Fatalf("read %v, failures %v; want one of each", b.Read, b.Failures)
	}
	if got, want := b.Failures[0].Err.Error(), "expected metrics, saw 401 Unauthorized (who are you); try: give credentials with --http.config.file"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLoadURLBad(t *testing.T) {
	t.Parallel()
	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Error(w, text, code) }
	}
	html := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>Sign in</title>")
	}
	s := fakePprof(t, map[string]http.HandlerFunc{
		"/401/": status(401, "who are you"), "/403/": status(403, "Forbidden"),
		"/404/": status(404, "404 page not found"), "/500/": status(500, "panic at https://me:hunter2@db/?token=hunter2"),
		"/html/": html, "/login": html,
		"/moved/": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login?state=hunter2&key=hunter2", http.StatusFound)
		},
		"/loop/": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/loop/?token=hunter2", http.StatusFound)
		},
		"/broken/": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://me:hunter2@[/")
			w.WriteHeader(302)
		},
		"/hang/": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/cutoff/": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "9999")
			w.Write(goroutineProto(t, "b", t0, 1))
		},
		"/bomb/":      serve(gz([]byte(strings.Repeat(dumpText, 20000)))),
		"/metrics":    serve([]byte("# TYPE a gauge\n")),
		"/empty/":     serve(nil),
		"/plainheap/": serve(typedProto(t, "inuse_space", "bytes", "inuse_objects", "count")),
	})
	tlsServer := httptest.NewUnstartedServer(serve(nil))
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	defer tlsServer.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tests := []struct{ name, url, want string }{
		{"401", s.URL + "/401/goroutine", "expected a goroutine profile, saw 401 Unauthorized (who are you); try: give credentials with --http.config.file"},
		{"403", s.URL + "/403/goroutine", "saw 403 Forbidden; try: give credentials with --http.config.file"},
		{"404", s.URL + "/404/goroutine", `saw 404 Not Found | import _ "net/http/pprof"`},
		{"404 metrics", s.URL + "/404/metrics", "expected metrics, saw 404 Not Found (404 page not found); try: check host, port and path"},
		{"404 other", s.URL + "/404/x", `expected a profile, saw 404 Not Found | import _ "net/http/pprof"`},
		{"404 host", s.URL, `saw 404 Not Found | import _ "net/http/pprof"`},
		{"500", s.URL + "/500/goroutine", "saw 500 Internal Server Error (panic at https://db/?xxxxx) | SIGQUIT"},
		{"HTML", s.URL + "/html/goroutine", "expected a goroutine, block or mutex profile | saw HTML | try the address with credentials"},
		{"HTML host", s.URL + "/html/debug/pprof", "saw HTML"},
		{"login page", s.URL + "/moved/goroutine", "redirected to " + s.URL + "/login?state=hunter2&key=xxxxx: | saw HTML"},
		{"loop", s.URL + "/loop/goroutine", "request failed: | 10 redirects"},
		{"broken redirect", s.URL + "/broken/goroutine", "request failed: | Location"},
		{"hang", s.URL + "/hang/goroutine", "expected a goroutine profile, saw no answer in time | try again"},
		{"hang host", s.URL + "/hang/debug/pprof/", "expected a goroutine profile, saw no answer in time"},
		{"cut off", s.URL + "/cutoff/goroutine", "expected a whole file or answer, saw one that is cut off after | unexpected EOF; take it again"},
		{"bomb", s.URL + "/bomb/goroutine", "unpacked to more than 1 MiB | --max-bytes"},
		{"metrics", s.URL + "/metrics", "expected Prometheus text with samples, saw none"},
		{"empty", s.URL + "/empty/goroutine", "saw an empty input"},
		{"heap", s.URL + "/plainheap/x", "saw a heap profile"},
		{"heap by name", s.URL + "/debug/pprof/heap", "saw a heap profile | /debug/pprof/goroutine"},
		{"cpu by name", s.URL + "/debug/pprof/profile?seconds=30", "saw a CPU profile | /debug/pprof/goroutine"},
		{"refused", "http://" + closed.Addr().String() + "/debug/pprof/goroutine", "connection refused: nothing listens there | forward the port"},
		{"refused host", "http://" + closed.Addr().String(), "connection refused"},
		{"certificate", tlsServer.URL + "/debug/pprof/goroutine", "certificate is not trusted | tls_config in --http.config.file"},
		{"plain on TLS", strings.Replace(tlsServer.URL, "https", "http", 1) + "/debug/pprof/goroutine", "400 Bad Request | HTTPS server | https:// in place of http://"},
		{"TLS on plain", strings.Replace(s.URL, "http", "https", 1) + "/debug/pprof/goroutine", "does not speak TLS on this port; try http://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := hostLoader(Options{MaxBytes: 1 << 20})
			if strings.HasPrefix(tt.name, "hang") {
				l.headerTimeout = 20 * time.Millisecond
			}
			b := l.load(t.Context(), []string{tt.url, "-"})
			if len(b.Failures) != 2 || b.Failures[1].Name != "stdin" {
				t.Fatalf("want a failure of the URL and one of stdin, got %+v", b)
			}
			if b.Failures[0].Name != tt.url {
				t.Errorf("failure of %s, want of %s", b.Failures[0].Name, tt.url)
			}
			msg := b.Failures[0].Err.Error()
			wantParts(t, msg, tt.want)
			if strings.Contains(strings.ReplaceAll(msg, "state=hunter2", ""), "hunter2") || strings.Contains(msg, "\n") {
				t.Errorf("message %q has a secret or several lines", msg)
			}
		})
	}
}

// Whatever happens, nothing a user sees has a secret of the URL in it.
func TestLoadURLSecrets(t *testing.T) {
	t.Parallel()
	auth := make(chan string, 100)
	s := fakePprof(t, map[string]http.HandlerFunc{
		"/debug/pprof/goroutine": func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			auth <- user + " " + password
			w.Write(goroutineProto(t, "b1", t0, 7))
		},
	})
	host := strings.TrimPrefix(s.URL, "http://")
	const query = "?access_token=hunter2&X-Amz-Signature=hunter2&sig=hunter2;apikey=hunter2"
	urls := []string{
		"http://me:hunter2@" + host,
		"http://me:hunter2@" + host + "/" + query,
		"http://me:hunter2@" + host + "/debug/pprof/goroutine" + query + "#hunter2",
		"HTTP://hunter2@" + host + "/missing" + query,
		"http://me:hunter2@" + host + "/debug/pprof/heap" + query,
		"http://me:hunter2@127.0.0.1:1/debug/pprof/block" + query,
		"http://me:hunter2@127.0.0.1:1" + query,
		"http://me:hunter%2@" + host + "/" + query,
		"http://me:hunter2/x@" + host + "/" + query,
		"http://me:hunter2@" + host + ":port/" + query,
		"http://me:hunter2@" + query,
		"https://me:hunter2@" + host + "/debug/pprof/goroutine" + query,
		"ftp://me:hunter2@" + host + query,
		"http://me:hunter2@[::1" + query,
	}
	for _, u := range urls {
		var shown []string
		l := hostLoader(Options{Progress: func(s string) { shown = append(shown, s) }})
		b := l.load(t.Context(), []string{u})
		for _, f := range b.Failures {
			shown = append(shown, f.Name, f.Err.Error(), fmt.Sprintf("%+v %#v", f.Err, f.Err))
		}
		for _, n := range b.Unused {
			shown = append(shown, n.Name, n.Reason)
		}
		for name, origin := range b.Origin {
			shown = append(shown, name, origin)
		}
		for _, sn := range b.Snapshots {
			shown = append(shown, sn.Name)
			shown = append(shown, sn.Warnings...)
		}
		for _, p := range b.Processes() {
			shown = append(shown, p.Name)
			shown = append(shown, p.Notes...)
		}
		if len(shown) == 0 {
			t.Errorf("%s: nothing to look at", u)
		}
		for _, text := range shown {
			if strings.Contains(text, "hunter") || strings.Contains(text, "me:") {
				t.Errorf("loading %s shows %q", u, text)
			}
		}
	}
	if got := <-auth; got != "me hunter2" {
		t.Errorf("the server was given credentials %q", got)
	}
}

// A redirect to another host must not take the password there, nor, as the
// referrer, a token in the query.
func TestLoadURLRedirectKeepsCredentials(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	elsewhere := fakePprof(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Clone()
		w.Write([]byte(dumpText))
	}})
	other := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	s := fakePprof(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other+"/dump", http.StatusFound)
	}})
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "hunter2")
	b := Load(t.Context(), []string{u.String() + "/dump?token=hunter2"}, Options{})
	if len(b.Failures) != 0 {
		t.Skip("localhost is not 127.0.0.1 here:", b.Failures[0].Err)
	}
	for key, values := range <-got {
		if strings.Contains(fmt.Sprint(values), "hunter2") || key == "Authorization" {
			t.Errorf("the other host was sent %s: %v", key, values)
		}
	}
}

func TestLoadURLCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := fakePprof(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }})
	b := Load(ctx, []string{s.URL}, Options{})
	if len(b.Failures) != 1 {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), "interrupted")
}

func TestHostQuery(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	s := fakePprof(t, map[string]http.HandlerFunc{"/debug/pprof/": func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + "?" + r.URL.RawQuery
		w.Write(goroutineProto(t, "b1", t0, 7))
	}})
	b := hostLoader(Options{}).load(t.Context(), []string{s.URL + "/debug/pprof/?debug=1&tenant=a%2Fb&seconds=9"})
	if len(b.Failures) != 0 {
		t.Fatal(b.Failures)
	}
	close(asked)
	var got []string
	for a := range asked {
		got = append(got, a)
	}
	slices.Sort(got)
	want := []string{
		"/debug/pprof/block?tenant=a%2Fb&seconds=1",
		"/debug/pprof/goroutine?tenant=a%2Fb",
		"/debug/pprof/goroutine?tenant=a%2Fb",
		"/debug/pprof/goroutine?tenant=a%2Fb&debug=2",
		"/debug/pprof/mutex?tenant=a%2Fb&seconds=1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

func TestQuerySeconds(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{
		"": 0, "seconds=5": 5 * time.Second, "seconds=0.5": 500 * time.Millisecond,
		"seconds=-1": 0, "seconds=x": 0, "seconds=NaN": 0, "seconds=1e300": 0,
	} {
		if got := querySeconds(&url.URL{RawQuery: query}); got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}
