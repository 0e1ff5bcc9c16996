package ingest

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

func TestGet(t *testing.T) {
	t.Parallel()
	handlers := map[string]http.HandlerFunc{
		"/ok": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/x")
			io.WriteString(w, r.Header.Get("Accept"))
		},
		"/endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("a"), 4096)); err != nil {
					return
				}
			}
		},
		"/stuck": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "abc")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"/cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "abc")
		},
		"/silent": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/login": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "hunter2 is wrong", http.StatusUnauthorized)
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handlers[r.URL.Path](w, r) }))
	defer server.Close()
	for _, tt := range []struct {
		path, want, data, err string
		status                int
		timeout               time.Duration
	}{
		{path: "/ok", want: "metrics", data: "text/plain"},
		{path: "/endless", want: "metrics", err: "expected metrics of at most 1000 bytes, saw more"},
		{path: "/endless", want: "a block profile", err: "expected a block profile of at most 1000 bytes, saw more"},
		{path: "/stuck", want: "metrics", timeout: 50 * time.Millisecond, err: "expected metrics, saw an answer that was still arriving: 3 bytes in 0 s"},
		{path: "/cut", want: "a goroutine dump", err: "expected a goroutine dump, saw an answer that was cut off after 3 bytes: unexpected EOF"},
		{path: "/silent", want: "a profile", timeout: 50 * time.Millisecond, err: "expected a profile, saw no answer in time; the process may be too busy to answer: try again, or " + sendQuit},
		{path: "/login", want: "metrics", status: 401, err: "expected metrics, saw 401 Unauthorized (xxxxx is wrong); try: give credentials with --http.config.file"},
	} {
		u, err := url.Parse(server.URL + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("me", "hunter2")
		data, kind, err := Get(t.Context(), nil, Request{URL: u, Want: tt.want, Accept: "text/plain", MaxBytes: 1000, Timeout: cmp.Or(tt.timeout, time.Minute)})
		switch {
		case tt.err == "" && (err != nil || string(data) != tt.data || kind != "text/x"):
			t.Errorf("%s: %q, %q, %v; want %q", tt.path, data, kind, err, tt.data)
		case tt.err != "" && (err == nil || err.Error() != tt.err || data != nil || StatusOf(err) != tt.status):
			t.Errorf("%s: %q, status %d, %v; want status %d, %s", tt.path, data, StatusOf(err), err, tt.status, tt.err)
		}
	}
}

func TestParseProfile(t *testing.T) {
	t.Parallel()
	packed := lookup(t, "goroutine", 0)
	p, err := ParseProfile(packed, "a profile", "")
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := p.WriteUncompressed(&plain); err != nil {
		t.Fatal(err)
	}
	if again, err := ParseProfile(plain.Bytes(), "a profile", ""); err != nil || len(again.Sample) != len(p.Sample) {
		t.Errorf("without gzip: %v", err)
	}
	const try = "; check that net/http/pprof answers at that address, and give credentials with --http.config.file if it asks for them"
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "expected a mutex profile, saw an empty input" + try},
		{"a dump", []byte(dumpText), "expected a mutex profile, saw text with goroutines" + try},
		{"text form", []byte(contentionText), "expected a mutex profile, saw a block or mutex profile as text" + try},
		{"HTML", []byte("<html></html>"), "expected a mutex profile, saw HTML (a login or an error page?)" + try},
		{"series", []byte("# TYPE a gauge\na 1\n"), "expected a mutex profile, saw Prometheus series" + try},
		{"text in colour", []byte("\x1b[31mprofiling is off\x1b[0m\n"), "expected a mutex profile, saw other text" + try},
		{"noise", []byte("\x00\xff\x00\xff"), "expected a mutex profile, saw binary data that is no pprof profile" + try},
		{"gzip in gzip in gzip", gz(gz(gz(packed))), "expected a mutex profile, saw gzip within gzip, more than 2 deep" + try},
		{"cut off", packed[:len(packed)/2], "expected a whole gzip file, saw one that is cut off or damaged | take it again"},
		{"a bomb", gz(bytes.Repeat([]byte{fieldSample<<3 | 2, 0}, maxParsed/messageMemory+1)), "expected a pprof profile as a process writes it, saw one that would take more than"},
	} {
		p, err := ParseProfile(tt.data, "a mutex profile", "")
		if err == nil || p != nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		wantParts(t, err.Error(), tt.want)
	}
}

func TestCheckDump(t *testing.T) {
	t.Parallel()
	if err := CheckDump([]byte(dumpText)); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		data []byte
		saw  string
	}{
		{lookup(t, "goroutine", 0), "a profile in protobuf"},
		{[]byte("sorry\n" + dumpText), "text with goroutines"},
		{[]byte("\x1b[1mno\x1b[0m"), "other text"},
		{[]byte("<html></html>"), "HTML (a login or an error page?)"},
	} {
		err := CheckDump(tt.data)
		if err == nil {
			t.Errorf("%s: no error", tt.saw)
			continue
		}
		wantParts(t, err.Error(), "expected a goroutine dump, saw "+tt.saw+"; check that net/http/pprof answers")
	}
}
