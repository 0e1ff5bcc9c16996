package pyroscope

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/pyroscope/pyroscopetest"
	"github.com/contend/contend/ingest/series"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://pyroscope:4040/":                "http://pyroscope:4040",
		"https://me:hunter2@host/pyroscope?a=b": "https://host/pyroscope",
		"pyroscope:4040":                        "saw one without http:// or https://",
		"ftp://pyroscope":                       "saw ftp://",
		"http://:4040":                          "saw one without a host",
		"http://me:hun%ter2@host":               "saw one that cannot be read",
	} {
		q, err := New(address, Options{})
		switch {
		case err == nil && q.Name() != want:
			t.Errorf("%s is named %s, want %s", address, q.Name(), want)
		case err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hun")):
			t.Errorf("%s: %v, want %q and no password", address, err, want)
		}
	}
}

// answering is a server whose merged profiles are answered otherwise.
func answering(s *pyroscopetest.Server, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/SelectMergeProfile") {
			io.Copy(io.Discard, r.Body) // else nobody sees that the client went away
			w.Header().Set("Content-Type", "application/proto")
			answer(w, r)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// A bad answer is told as what it is, with what to try, and is read no further.
func TestBadProfiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"not a profile", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "no profile\n") },
			"expected a merged goroutine profile, saw other text; check the address"},
		{"a heap profile", func(w http.ResponseWriter, _ *http.Request) {
			newProfile("inuse_space/bytes", stack{"main.main", []int64{1}}).WriteUncompressed(w)
		}, "expected a goroutine profile, saw a heap profile (inuse_space/bytes)"},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 3000)) },
			"expected a merged goroutine profile of at most 2000 bytes, saw more"},
		{"half", func(w http.ResponseWriter, _ *http.Request) {
			var b bytes.Buffer
			goroutines(3, 5).WriteUncompressed(&b)
			w.Write(b.Bytes()[:b.Len()/2])
		}, "saw"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("x"))
		}, "expected a merged goroutine profile, saw an answer that was cut off after 1 byte"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<html>log in")
		}, `saw an answer of type "text/html"; check that this is the address of a Pyroscope server, and give credentials with --http.config.file if it is a login page`},
		{"an error of the server", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"code":"internal","message":"block \u001b[31mis gone\nsecond line"}`)
		}, "expected a merged goroutine profile, saw 500 Internal Server Error (block [31mis gone); try: check the address"},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"expected a merged goroutine profile, saw no answer in time; check the address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &pyroscopetest.Server{}
			gateway := map[string]string{"service_name": "gateway", "instance": "gateway-1"}
			s.Add("goroutines", gateway, start.Add(time.Minute), goroutines(3, 5))
			q, err := New(serve(t, answering(s, tt.answer)), Options{MaxBytes: 2000, Timeout: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			b := q.Load(t.Context(), Query{Start: start, End: end})
			if len(b.Failures) != 1 || !strings.Contains(b.Failures[0].Err.Error(), tt.want) || len(b.Snapshots) > 0 {
				t.Errorf("failures %v and %d snapshots, want one failure with %q", b.Failures, len(b.Snapshots), tt.want)
			}
		})
	}
}

// A server that does not answer at all is one failure, not one for each profile.
func TestBadServers(t *testing.T) {
	t.Parallel()
	moved := httptest.NewServer(http.NotFoundHandler())
	moved.Close()
	status := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.Handler
		want   string
	}{
		{"401", status(401, "text/plain", "who is it"), "saw 401 Unauthorized (who is it); try: give credentials with --http.config.file"},
		{"no tenant", &pyroscopetest.Server{Tenant: "blue"}, "saw 401 Unauthorized (no org id); try: give the tenant as X-Scope-OrgID under http_headers in --http.config.file"},
		{"404", status(404, "text/plain", "404 page not found"), "saw 404 Not Found (404 page not found); try: check the address, and see the server's log; a shorter --since or a narrower --selector asks for less; Pyroscope answers there since 1.0, also below a path"},
		{"empty", status(200, "application/json", ""), "expected the types of its profiles as Pyroscope writes it, saw another JSON: unexpected end of JSON input"},
		{"another JSON", status(200, "application/json", `[1]`), "saw another JSON"},
		{"half", status(200, "application/json", `{"profileTypes":[{"ID":"goro`), "unexpected end of JSON input"},
		{"a redirect to another host", http.RedirectHandler("http://elsewhere.example/x?token=hunter2", http.StatusTemporaryRedirect), "a redirect to another host, http://elsewhere.example/x?token=xxxxx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := load(t, serve(t, tt.answer), "")
			if len(b.Failures) != 1 || !strings.Contains(b.Failures[0].Err.Error(), tt.want) {
				t.Errorf("failures %v, want one with %q", b.Failures, tt.want)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		b := load(t, moved.URL, "")
		if want := "saw the connection refused"; len(b.Failures) != 1 || !strings.Contains(b.Failures[0].Err.Error(), want) {
			t.Errorf("failures %v, want one with %q", b.Failures, want)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		s := &pyroscopetest.Server{}
		push(s, "gateway", "gateway-1", 2, constant(3))
		ctx, cancel := context.WithCancelCause(t.Context())
		q, err := New(serve(t, answering(s, func(_ http.ResponseWriter, r *http.Request) {
			cancel(errors.New("enough"))
			<-r.Context().Done()
		})), Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := q.Load(ctx, Query{Start: start, End: end})
		for _, f := range b.Failures {
			if want := "interrupted: enough"; f.Err.Error() != want {
				t.Errorf("%s: %v, want %s", f.Name, f.Err, want)
			}
		}
		if len(b.Failures) != 3 {
			t.Errorf("%d failures, want one for each profile", len(b.Failures))
		}
	})
}

// answers is a transport that answers each method with the same bytes.
type answers map[string][]byte

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	method := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": r.Header["Content-Type"]},
		Body: io.NopCloser(bytes.NewReader(a[method])),
	}, nil
}

// Numbers that are none, and labels that are empty, are read for what they are.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	const types = `{"profileTypes":[{"ID":"goroutines:goroutine:count:goroutine:count","name":"goroutines","sampleType":"goroutine"}]}`
	for answer, want := range map[string]int{
		`{"series":[{"labels":[{"name":"instance","value":"a"}],"points":[{"value":3,"timestamp":"1762939800000"},{"timestamp":1762939815000}]}]}`: 1,
		`{"series":[{"points":[{"value":"NaN","timestamp":"-9e99"},{"value":"Infinity"}]},{"labels":[{"name":"instance","value":"a"}]}]}`:          1,
		`{"series":[{"points":[{"value":"many"}]}]}`: 1, // no JSON of Pyroscope's, so the number of snapshots is not known
		`{"series":null}`: 0,
		`{}`:              0,
	} {
		q, err := New("http://host", Options{HTTP: &http.Client{Transport: answers{
			"ProfileTypes": []byte(types), "LabelNames": []byte(`{"names":["instance",""]}`), "LabelValues": []byte(`{}`),
			"SelectSeries": []byte(answer), "SelectMergeProfile": pprof(goroutines(1<<62, 1<<62)),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		b := q.Load(t.Context(), Query{Start: start, End: end})
		if len(b.Snapshots) != want || len(b.Failures) != 1-want {
			t.Errorf("%s: %d snapshots and failures %v, want %d and %d", answer, len(b.Snapshots), b.Failures, want, 1-want)
		}
	}
}

// FuzzUploads reads any answer of SelectSeries: what is read has a selector that parses.
func FuzzUploads(f *testing.F) {
	f.Add([]byte(`[{"labels":[{"name":"instance","value":"a"}],"points":[{"value":3,"timestamp":"1762939800000"},{"timestamp":"1762939815000"}]}]`))
	f.Add([]byte(`[{"labels":[{"name":"instance","value":"\"}\n"}],"points":[{"value":"NaN","timestamp":"-9e99"},{"value":"Infinity"}]}]`))
	f.Add([]byte("[{\"labels\":[{\"name\":\"instance\",\"value\":\"\xb4\xd8\"}],\"points\":[{\"value\":1}]}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var all []sums
		if json.Unmarshal(text, &all) != nil {
			return
		}
		for _, s := range all {
			p := newProcess(&s, `{job="x"}`, []string{serviceLabel, "instance"})
			if err := series.CheckSelector(p.selector); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
			p.covered()
		}
	})
}

// FuzzMerged reads any merged profiles: nothing panics, and no group is empty.
func FuzzMerged(f *testing.F) {
	for _, p := range [][]byte{pprof(goroutines(30, 5)), pprof(contention(lockWait, 3, time.Second)), pprof(newProfile("delay/nanoseconds", stack{unlock, []int64{1e9}})), nil} {
		f.Add(p, pprof(newProfile("contentions/count", stack{unlock, []int64{7}})), int64(3))
		f.Add(pprof(goroutines(1<<62, 1<<62)), p, int64(1))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, n int64) {
		p, err := ingest.ParseProfile(a, "a", "b")
		if err != nil || len(p.Sample) == 0 {
			return
		}
		var out ingest.Bundle
		if addGoroutines(&out, "x", p.Copy(), &process{uploads: make([]time.Time, n&0xff)}) == nil {
			for _, g := range out.Snapshots[0].Groups {
				if g.Count == 0 || g.Count < 0 && !out.Snapshots[0].Growth {
					t.Errorf("a group of %d goroutines", g.Count)
				}
			}
		}
		if counts, err := ingest.ParseProfile(b, "a", "b"); err == nil && len(counts.Sample) > 0 {
			p = joined(counts, p)
		}
		_ = addWaits(&out, "x", p) // an error is an answer
	})
}
