package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server that sends back what it was sent must not make contend show it.
func TestServerEchoesSecrets(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		said := fmt.Sprintf("no %s for %s %s, %s, %s", r.RequestURI, user, password, r.Header.Get("Authorization"), r.URL.Query())
		if r.URL.Path == "/dump" {
			fmt.Fprintf(w, "goroutine 1 [%s", said)
			return
		}
		http.Error(w, said, http.StatusTeapot)
	}
	s := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	dir := t.TempDir()
	tests := []struct{ name, url, config string }{
		{"userinfo", "http://gateway:hunter2%2F%22@" + host + "/x", ""},
		{"query", s.URL + "/x?access_token=hunter2%2Fx&sig=hunter2<b>", ""},
		{"query at the root", s.URL + "/?access_token=hunter2%2Fx", ""},
		{"dump", s.URL + "/dump?access_token=hunter2", ""},
		{"basic", s.URL + "/x", "basic_auth: {username: gateway, password: hunter2}"},
		{"bearer", s.URL + "/x", "authorization: {credentials: hunter2}"},
		{"scheme of its own", s.URL + "/x", "authorization: {type: Ours, credentials: hunter2}"},
		{"header", s.URL + "/x", "http_headers: {X-Tenant: {secrets: [hunter2]}}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opt := Options{}
			if tt.config != "" {
				client, err := HTTPClient(write(t, dir, tt.name+".yml", []byte(tt.config+"\n")))
				if err != nil {
					t.Fatal(err)
				}
				opt.HTTP = client
			}
			b := hostLoader(opt).load(t.Context(), []string{tt.url})
			if len(b.Failures) != 1 {
				t.Fatalf("got %+v", b)
			}
			f := b.Failures[0]
			for _, shown := range []string{f.Name, f.Err.Error(), fmt.Sprintf("%+v %#v", f.Err, f.Err)} {
				if strings.Contains(shown, "hunter") || strings.Contains(shown, "Z2F0ZXdheTpodW50ZXIy") || strings.Contains(shown, "gateway") {
					t.Errorf("shows %q", shown)
				}
			}
			if !strings.Contains(f.Err.Error(), "no /") && tt.name != "dump" {
				t.Errorf("%q: what the server said is gone", f.Err)
			}
		})
	}
}

// A broken answer is quoted by net/http.
func TestBrokenAnswerEchoesSecrets(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"what is hunter2?\r\n\r\n", "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n", "HTTP/1.1 hunter2 OK\r\n\r\n"} {
		u := answering(t, answer) + "/x?token=hunter2"
		b := Load(t.Context(), []string{u}, Options{})
		if len(b.Failures) != 1 {
			t.Fatalf("got %+v", b)
		}
		if msg := b.Failures[0].Err.Error(); strings.Contains(msg, "hunter") {
			t.Errorf("shows %q", msg)
		}
	}
}

// A port that speaks TLS closes on HTTP, or answers with an alert.
func TestHTTPToTLSPort(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"", "\x15\x03\x01\x00\x02\x02\x46"} {
		b := Load(t.Context(), []string{answering(t, answer) + "/x"}, Options{})
		if len(b.Failures) != 1 {
			t.Fatalf("got %+v", b)
		}
		wantParts(t, b.Failures[0].Err.Error(), "closed without an answer to HTTP; if the port speaks TLS, try https://")
	}
}

// answering gives the address of a server that answers every request with
// the same bytes and hangs up.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}
