package ingest

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
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
