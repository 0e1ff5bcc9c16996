package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

var t0 = time.Unix(1_700_000_000, 0)

// serve starts a server, and asks it without pauses.
func serve(t *testing.T, opt Options, h http.HandlerFunc) (*API, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return connect(t, s.URL, s.Client(), opt), s
}

func connect(t *testing.T, address string, client *http.Client, opt Options) *API {
	t.Helper()
	a, err := New(address, client, opt)
	if err != nil {
		t.Fatal(err)
	}
	a.pause = time.Millisecond
	return a
}

func success(data string) string { return `{"status":"success","data":` + data + `}` }

func matrix(series ...string) string {
	return success(`{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}`)
}

func vector(series ...string) string {
	return success(`{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}`)
}

const one = `{"metric":{},"value":[1700000000,"1"]}`

func wantParts(t *testing.T, got, parts string) {
	t.Helper()
	for p := range strings.SplitSeq(parts, " | ") {
		if !strings.Contains(got, p) {
			t.Errorf("got %q, want %q in it", got, p)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, name, asked string }{
		{"http://host:9090", "http://host:9090", "http://host:9090/api/v1/query"},
		{"http://host:9090/", "http://host:9090", "http://host:9090/api/v1/query"},
		{"https://host/prometheus//", "https://host/prometheus", "https://host/prometheus/api/v1/query"},
		{"http://host/prometheus/api/v1/", "http://host/prometheus", "http://host/prometheus/api/v1/query"},
		{"http://host/a%2Fb", "http://host/a%2Fb", "http://host/a%2Fb/api/v1/query"},
		{"HTTP://[::1]:9090", "http://[::1]:9090", "http://[::1]:9090/api/v1/query"},
		{"http://me:hunter2@host/x?token=hunter2#hunter2", "http://host/x", "http://me:hunter2@host/x/api/v1/query?token=hunter2"},
	}
	for _, tt := range tests {
		a, err := New(tt.url, nil, Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if a.Name() != tt.name {
			t.Errorf("%s: name %q, want %q", tt.url, a.Name(), tt.name)
		}
		if got := a.base.JoinPath("api/v1/query").String(); got != tt.asked {
			t.Errorf("%s: asks %q, want %q", tt.url, got, tt.asked)
		}
	}
}

func TestNewBad(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, want string }{
		{"", "without http://"},
		{"host:9090", "without http:// or https://"},
		{"me:hunter2@host:9090", "without http:// or https://"},
		{"ftp://me:hunter2@host", "saw ftp://"},
		{"http://", "without a host"},
		{"http://me:hunter2@:9090", "without a host"},
		{"http:///prometheus", "without a host"},
		{"http://me:hunter2#%@host", "cannot be read"},
		{"http://me:hunter2@host:port", "cannot be read | %XX"},
	}
	for _, tt := range tests {
		_, err := New(tt.url, nil, Options{})
		if err == nil {
			t.Errorf("%q: want an error", tt.url)
			continue
		}
		wantParts(t, err.Error(), tt.want+" | http://prometheus:9090")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q shows the password", err)
		}
	}
}

func TestInstant(t *testing.T) {
	t.Parallel()
	sample := func(f float64, ls ...string) promql.Sample {
		return promql.Sample{Metric: labels.FromStrings(ls...), T: t0.UnixMilli(), F: f}
	}
	tests := []struct {
		name, body string
		want       []promql.Sample
	}{
		{"scalar", success(`{"resultType":"scalar","result":[1700000000,"2.5"]}`), []promql.Sample{sample(2.5)}},
		{"vector in the server's order", vector(`{"metric":{"z":"2","a":"1","empty":""},"value":[1700000000,"2"]}`, `{"metric":{"a":"0"},"value":[1700000000.0004,"-Inf"]}`),
			[]promql.Sample{sample(2, "a", "1", "z", "2"), sample(negInf(), "a", "0")}},
		{"members in another order", `{"isPartial":false,"data":{"stats":{"x":[1]},"result":[{"value":[ 1700000000 , "1e3" ],"metric":{}}],"resultType":"vector"},"status":"success"}` + "\n ", []promql.Sample{sample(1000)}},
		{"histograms left out", vector(`{"metric":{"h":"1"},"histogram":[1700000000,{"count":"1","buckets":[[0,"1","2","3"]]}]}`, one), []promql.Sample{sample(1)}},
		{"nothing", vector(), []promql.Sample{}},
		{"null", success(`{"resultType":"vector","result":null}`), []promql.Sample{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != "POST" || r.URL.Path != "/api/v1/query" || r.PostFormValue("query") != "x{}" || r.PostFormValue("time") != "1700000000.25" || r.PostFormValue("timeout") != "30" {
					t.Errorf("asked %s %s %v", r.Method, r.URL, r.PostForm)
				}
				io.WriteString(w, tt.body)
			})
			got, err := a.Instant(t.Context(), "x{}", t0.Add(250*time.Millisecond+time.Microsecond))
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint([]promql.Sample(got)) != fmt.Sprint(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func negInf() float64 { f, _ := strconv.ParseFloat("-Inf", 64); return f }

func TestInstantOfRange(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, matrix(`{"metric":{},"values":[[1,"1"],[2,"1"]]}`))
	})
	_, err := a.Instant(t.Context(), "x[1m]", t0)
	if _, ok := errors.AsType[*QueryError](err); !ok {
		t.Fatalf("got %v", err)
	}
	wantParts(t, err.Error(), "`x[1m]` | expected one sample")
}

func TestNames(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.URL.String())
		io.WriteString(w, success(`["up","go_goroutines","up"]`))
	})
	for _, tt := range []struct{ selector, match string }{
		{`job="gateway"`, `&match%5B%5D=%7Bjob%3D%22gateway%22%7D`},
		{` job="gateway", `, `&match%5B%5D=%7Bjob%3D%22gateway%22%7D`},
		{"", ""},
	} {
		got, err := a.Names(t.Context(), tt.selector, t0, t0.Add(time.Hour))
		if err != nil || !slices.Equal(got, []string{"go_goroutines", "up"}) {
			t.Errorf("%q: got %v, %v", tt.selector, got, err)
		}
		want := "GET /api/v1/label/__name__/values?end=1700003600" + tt.match + "&start=1700000000"
		if asked.Load() != want {
			t.Errorf("%q: asked %s, want %s", tt.selector, asked.Load(), want)
		}
	}
}

func TestNamesFromSeries(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 404, 405, 422, 501} {
		a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/series" {
				http.Error(w, "no match[] here", code)
				return
			}
			if got := r.FormValue("match[]"); got != `{job="gateway",__name__!=""}` {
				t.Errorf("asked for %s", got)
			}
			io.WriteString(w, success(`[{"__name__":"up","job":"gateway"},{"__name__":"a"},{"job":"x","__name__":"up"}]`))
		})
		got, err := a.Names(t.Context(), `job="gateway"`, t0, t0.Add(time.Hour))
		if err != nil || !slices.Equal(got, []string{"a", "up"}) {
			t.Errorf("%d: got %v, %v", code, got, err)
		}
	}
}

// A failure of both is told as the first: a wrong selector.
func TestNamesBadSelector(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		io.WriteString(w, `{"status":"error","errorType":"bad_data","error":"1:5: parse error"}`)
	})
	_, err := a.Names(t.Context(), `job=`, t0, t0.Add(time.Hour))
	e, ok := errors.AsType[*QueryError](err)
	if !ok || e.Status != 400 || e.Type != "bad_data" {
		t.Fatalf("got %#v", err)
	}
	wantParts(t, err.Error(), "names of `{job=}` | 400 Bad Request, bad_data (1:5: parse error) | check the expression and --selector")
}

// steps answers like a server: series i has a sample at each step whose number
// since t0 is a multiple of i+1.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for after, want := range map[string]int64{"0": 2, "3600": 1, "-5": 2, "99999999999999999999": 2, "Fri, 01 Jan 2100 00:00:00 GMT": 1} {
		var n atomic.Int64
		a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			w.Header().Set("Retry-After", after)
			http.Error(w, "later", http.StatusTooManyRequests)
		})
		_, err := a.Instant(t.Context(), "x", t0)
		e, ok := errors.AsType[*QueryError](err)
		if !ok || e.Status != 429 || n.Load() != want {
			t.Errorf("%s: %d requests, want %d; %v", after, n.Load(), want, err)
		}
	}
}

func TestGetWherePostIsRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []int{403, 405, 501} {
		var methods []string
		_, s := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			methods = append(methods, r.Method)
			if r.Method == "POST" {
				http.Error(w, "no", code)
				return
			}
			if r.URL.Query().Get("dedup") != "false" {
				t.Errorf("the address' own query is missing in %s", r.URL)
			}
			io.WriteString(w, vector(one))
		})
		a := connect(t, s.URL+"?dedup=false", s.Client(), Options{})
		for range 2 {
			if v, err := a.Instant(t.Context(), "x", t0); err != nil || len(v) != 1 {
				t.Errorf("%d: %v, %v", code, v, err)
			}
		}
		if !slices.Equal(methods, []string{"POST", "GET", "GET"}) {
			t.Errorf("%d: %v", code, methods)
		}
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	full := make(chan struct{})
	a, _ := serve(t, Options{Concurrency: 3}, func(w http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 3 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		select {
		case <-full:
		case <-r.Context().Done():
		}
		io.WriteString(w, vector(one))
	})
	errs := make(chan error)
	for range 20 {
		go func() {
			_, err := a.Instant(t.Context(), "x", t0)
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 3 {
		t.Errorf("%d requests at a time, want 3", most.Load())
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"status":"success","isPartial":true,"warnings":["no store\n matches","no store\n matches"],"data":{"resultType":"vector","result":[]},"infos":["PromQL info: http://me:hunter2@store/?token=hunter2"]}`)
	})
	for range 2 {
		if _, err := a.Instant(t.Context(), "x", t0); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"PromQL info: http://store/?xxxxx", "no store matches", "the server says that some of its answers are partial: a part of its storage cannot be reached"}
	if got := a.Warnings(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Servers that round the times are taken as they are, with a warning.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{Concurrency: 1}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	for range 2 { // one waits for its turn
		go func() {
			_, err := a.Instant(ctx, "x", t0)
			errs <- err
		}()
	}
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestPostIsForm(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x + ", 10_000) + "x" // longer than a URL may be
	a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		if form.Get("query") != long || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			t.Errorf("got %v", r.Header)
		}
		if _, ok := r.Header["Idempotency-Key"]; ok {
			t.Error("a header that is for net/http was sent")
		}
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": []any{}}})
	})
	if _, err := a.Instant(t.Context(), long, t0); err != nil {
		t.Fatal(err)
	}
}

// An empty list may be null, as Go writes one, but has to be there.
func TestNamesEmpty(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		success("[]"):          "",
		success("null"):        "",
		`{"status":"success"}`: "saw another: it has no data",
	} {
		a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) })
		names, err := a.Names(t.Context(), "", t0, t0.Add(time.Minute))
		if want == "" && (err != nil || len(names) != 0) {
			t.Errorf("%s: got %v, %v", body, names, err)
		} else if want != "" {
			wantError(t, err, isQueryError, want)
		}
	}
}
