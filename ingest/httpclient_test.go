package ingest

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestHTTPClient(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		io.WriteString(w, dumpText)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	write(t, dir, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	file := write(t, dir, "http.yml", []byte("basic_auth: {username: me, password: hunter2}\ntls_config: {ca_file: ca.pem}\n"))
	client, err := HTTPClient(file)
	if err != nil {
		t.Fatal(err)
	}
	b := Load(t.Context(), []string{s.URL + "/dump"}, Options{HTTP: client})
	if len(b.Failures) != 0 || len(b.Snapshots) != 1 {
		t.Errorf("got %+v", b)
	}

	file = write(t, dir, "other.yml", []byte("basic_auth: {username: you, password: hunter2}\ntls_config: {ca_file: ca.pem}\n"))
	if client, err = HTTPClient(file); err != nil {
		t.Fatal(err)
	}
	b = Load(t.Context(), []string{s.URL + "/dump"}, Options{HTTP: client})
	if len(b.Failures) != 1 {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), "401 Unauthorized (who are xxxxx)")
}

// Credentials stay on the host they are for.
func TestHTTPClientRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		io.WriteString(w, dumpText)
	}))
	t.Cleanup(other.Close)
	away := http.RedirectHandler(other.URL+"/login?token=hunter2", http.StatusFound)
	mux := http.NewServeMux()
	mux.HandleFunc("/dump", func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" || r.Header.Get("X-Api-Key") != "hunter3" {
			t.Errorf("the host itself was sent %v", r.Header)
		}
		io.WriteString(w, dumpText)
	})
	mux.Handle("/away", away)
	mux.Handle("/debug/pprof/", away)
	mux.Handle("/later", http.RedirectHandler("/away", http.StatusFound))
	mux.Handle("/moved", http.RedirectHandler("/dump", http.StatusFound))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	file := write(t, t.TempDir(), "http.yml", []byte("basic_auth: {username: me, password: hunter2}\nhttp_headers: {X-Api-Key: {secrets: [hunter3]}}\n"))
	client, err := HTTPClient(file)
	if err != nil {
		t.Fatal(err)
	}
	const refused = ", saw 302 Found, a redirect to another host, "
	try := other.URL + "/login?token=xxxxx; try: that address if you trust it with the credentials, or other ones where it is a login page"
	for path, want := range map[string]string{
		"/away":                  "expected a profile" + refused + try,
		"/later":                 "expected a profile" + refused + try,
		"/debug/pprof/block":     "expected a block profile" + refused + try,
		"/debug/pprof/goroutine": "expected a goroutine profile" + refused + try,
		"":                       "expected a goroutine profile" + refused + try,
		"/moved":                 "",
	} {
		b := hostLoader(Options{HTTP: client}).load(t.Context(), []string{s.URL + path})
		switch {
		case want == "" && (len(b.Failures) != 0 || len(b.Snapshots) != 1):
			t.Errorf("%s: got %+v", path, b)
		case want != "" && (len(b.Failures) != 1 || b.Failures[0].Err.Error() != want):
			t.Errorf("%s: failures %v, want %s", path, b.Failures, want)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests to another host", n)
	}
	// A client without credentials has none to keep.
	if b := Load(t.Context(), []string{s.URL + "/away"}, Options{}); len(b.Failures) != 0 || elsewhere.Load() != 1 {
		t.Errorf("without credentials: %v", b.Failures)
	}
}

func TestHTTPClientBad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := []struct{ name, data, want string }{
		{"unknown.yml", "basic_aut: {}\n", "expected YAML with basic_auth | basic_aut"},
		{"type.yml", "basic_auth: hunter2\n", "expected YAML | xxxxx"},
		{"both.yml", "basic_auth: {username: me}\nauthorization: {credentials: hunter2}\n", "at most one of"},
		{"proxy.yml", "proxy_url: 'http://me:hunter2@[/'\n", "expected YAML"},
		{"ca.yml", "tls_config: {ca_file: none.pem}\n", "none.pem | check the files it names"},
	}
	for _, tt := range tests {
		_, err := HTTPClient(write(t, dir, tt.name, []byte(tt.data)))
		if err == nil {
			t.Errorf("%s: want an error", tt.name)
			continue
		}
		wantParts(t, err.Error(), tt.want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q shows the password", tt.name, err)
		}
	}
	if _, err := HTTPClient(dir + "/missing"); err == nil {
		t.Error("want an error for a missing file")
	}
}
