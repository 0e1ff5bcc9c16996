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
		{path: "/ok", data: "text/plain"},
		{path: "/endless", want: "metrics", err: "expected metrics of at most 1000 bytes, saw more"},
		{path: "/endless", err: "expected a profile of at most 1000 bytes, saw more"},
		{path: "/stuck", want: "metrics", timeout: 50 * time.Millisecond, err: "expected metrics, saw an answer that was still arriving: 3 bytes in 0 s"},
		{path: "/cut", err: "expected a profile, saw an answer that was cut off after 3 bytes: unexpected EOF"},
		{path: "/silent", timeout: 50 * time.Millisecond, err: "expected a profile, saw no answer in time; the process may be too busy to answer: try again, or " + sendQuit},
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
	p, err := ParseProfile(packed)
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := p.WriteUncompressed(&plain); err != nil {
		t.Fatal(err)
	}
	if again, err := ParseProfile(plain.Bytes()); err != nil || len(again.Sample) != len(p.Sample) {
		t.Errorf("without gzip: %v", err)
	}
	for name, data := range map[string][]byte{
		"nothing":   nil,
		"a dump":    []byte(dumpText),
		"text form": []byte(contentionText),
		"HTML":      []byte("<html></html>"),
		"cut off":   packed[:len(packed)/2],
		"a bomb":    gz(bytes.Repeat([]byte{fieldSample<<3 | 2, 0}, maxParsed/messageMemory+1)),
	} {
		if p, err := ParseProfile(data); err == nil || p != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
