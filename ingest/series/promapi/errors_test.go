package promapi

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/config"
)

const (
	isUnreachable = true
	isQueryError  = false
)

func wantError(t *testing.T, err error, unreachable bool, parts string) {
	t.Helper()
	if err == nil {
		t.Fatal("want an error")
	}
	_, u := errors.AsType[*Unreachable](err)
	_, q := errors.AsType[*QueryError](err)
	if u != unreachable || q == unreachable {
		t.Errorf("%v: unreachable %t, query error %t, want unreachable %t", err, u, q, unreachable)
	}
	wantParts(t, err.Error(), parts)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%q shows the password", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		code        int
		header      string
		body        string
		unreachable bool
		want        string
	}{
		{"401", 401, "", "Unauthorized\n", isUnreachable, "saw 401 Unauthorized; | --http.config.file"},
		{"401 of Mimir", 401, "", "no org id\n", isUnreachable, "(no org id) | X-Scope-OrgID under http_headers"},
		{"403", 403, "Content-Type: text/html", "<h1>no</h1>", isUnreachable, "saw 403 Forbidden; give credentials | --http.config.file"},
		{"403 of the API", 403, "", `{"status":"error","errorType":"forbidden","error":"not yours"}`, isUnreachable, "403 Forbidden, forbidden (not yours)"},
		{"404", 404, "", "404 page not found\n", isUnreachable, "no Prometheus API is there | /prometheus | /select/0/prometheus"},
		{"404 of the API", 404, "", `{"status":"error","errorType":"not_found","error":"no such tenant"}`, isQueryError, "404 Not Found, not_found (no such tenant)"},
		{"404 with other JSON", 404, "", `{"message":"Not found"}`, isUnreachable, "saw 404 Not Found; | /prometheus"},
		{"405", 405, "", "", isUnreachable, "no Prometheus API is there"},
		{"redirect", 302, "Location: https://me:hunter2@sso.example.com/login?token=hunter2", "", isUnreachable, "302 Found, a redirect to another host, https://sso.example.com/login; give that address if you trust it, or where it is a login page, credentials with --http.config.file"},
		{"redirect to itself with TLS", 301, "Location: https://example.com/prom/api/v1/query", "", isUnreachable, "a redirect to another host, https://example.com/prom; give that address if you trust it"},
		{"redirect to nowhere", 301, "", "", isUnreachable, "301 Moved Permanently"},
		{"login page", 200, "Content-Type: text/html", "<!DOCTYPE html><title>Sign in hunter2</title>", isUnreachable, "200 OK with a page for people | login page | --http.config.file"},
		{"page that says it is JSON", 200, "Content-Type: application/json", "\n <html>", isUnreachable, "page for people"},
		{"text", 200, "", "go_goroutines 5\nup 1\n", isUnreachable, "(go_goroutines 5), which is no answer of a Prometheus API"},
		{"empty", 200, "", "", isUnreachable, "saw 200 OK, which is no answer"},
		{"a list", 200, "", "[1,2]", isUnreachable, "([1,2]), which is no answer"},
		{"other JSON", 200, "", `{"name":"elastic","tagline":"search"}`, isUnreachable, "which is no answer of a Prometheus API"},
		{"other status", 200, "", `{"status":"ok"}`, isUnreachable, "which is no answer"},
		{"HTTPS", 400, "", "Client sent an HTTP request to an HTTPS server.\n", isUnreachable, "try https:// in place of http://"},

		{"bad selector", 400, "", `{"status":"error","errorType":"bad_data","error":"1:5: parse error: unexpected\nidentifier"}`, isQueryError, "`vector(1)` | 400 Bad Request, bad_data (1:5: parse error: unexpected identifier) | check the expression"},
		{"execution", 422, "", `{"errorType":"execution","error":"found duplicate series","status":"error"}`, isQueryError, "422 Unprocessable Entity, execution (found duplicate series)"},
		{"error with 200", 200, "", `{"status":"error","errorType":"internal","error":"oh"}`, isQueryError, "200 OK, internal (oh)"},
		{"plain 400", 400, "", "cannot parse: hunter2?", isQueryError, "(cannot parse: xxxxx?)"},
		{"429", 429, "Retry-After: 120", "slow down", isQueryError, "429 Too Many Requests (slow down); it asks to wait 2m0s"},
		{"429 without a time", 429, "", "", isQueryError, "429 Too Many Requests; it has had too many requests | --since"},
		{"503 with a time", 503, "Retry-After: 600", "", isQueryError, "it asks to wait 10m0s"},
		{"503", 503, "", "Service Unavailable\n", isQueryError, "saw 503 Service Unavailable; it may be starting"},
		{"503 timeout", 503, "", `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`, isQueryError, "503 Service Unavailable, timeout | --since"},
		{"500 page", 500, "Content-Type: text/html", "<html>hunter2", isQueryError, "saw 500 Internal Server Error; see the server's log"},
		{"500 broken JSON", 500, "", `{"status":"error","error`, isQueryError, "saw 500 Internal Server Error; see"},
		{"500 of Google", 500, "", `{"error":{"code":500,"message":"x"}}`, isQueryError, "saw 500 Internal Server Error; see"},
		{"unknown status", 299, "", "x", isUnreachable, "saw 299"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, s := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				if name, value, ok := strings.Cut(tt.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.code)
				io.WriteString(w, tt.body)
			})
			a := connect(t, strings.Replace(s.URL, "//", "//me:hunter2@", 1)+"/?token=hunter2", s.Client(), Options{})
			wantError(t, a.Health(t.Context()), tt.unreachable, tt.want+" | "+s.URL+": ")
		})
	}
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	for body, healthy := range map[string]bool{vector(one): true, vector(): false, strings.Replace(vector(one), `"1"`, `"2"`, 1): false} {
		a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) })
		if err := a.Health(t.Context()); (err == nil) != healthy {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	silent := func(s *httptest.Server) *httptest.Server {
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
		return s
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := silent(httptest.NewUnstartedServer(http.NotFoundHandler()))
	secure.StartTLS()
	t.Cleanup(secure.Close)
	noHTTP := lines(t, "SSH-2.0-OpenSSH_9.2\r\n")
	alert := lines(t, "\x15\x03\x01\x00\x02\x02\x46")
	noDNS := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "prom.invalid", IsNotFound: true}}
	}}}
	lost := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
	}}}
	tests := []struct {
		name, url string
		client    *http.Client
		want      string
	}{
		{"refused", "http://" + nobody.Addr().String(), nil, "connection refused | check host and port"},
		{"no host", "http://me:hunter2@prom.invalid", noDNS, "the host has no address | prom.invalid | check its name"},
		{"no route", "http://prom.invalid", lost, "there is no connection | can be reached from here"},
		{"certificate", secure.URL, nil, "certificate is not trusted | tls_config in --http.config.file"},
		{"client certificate", secure.URL, secure.Client(), "refused TLS | client certificate"},
		{"no TLS", strings.Replace(plain.URL, "http", "https", 1), nil, "does not speak TLS | try http://"},
		{"TLS by its Go answer", strings.Replace(secure.URL, "https", "http", 1), nil, "try https://"},
		{"TLS alert", "http://" + alert, nil, "does not speak HTTP | try https://"},
		{"no HTTP", "http://" + noHTTP, nil, "does not speak HTTP"},
		{"wrong path", plain.URL + "/x", nil, "/x: | no Prometheus API is there"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opt := Options{}
			if tt.client == lost {
				opt.Timeout = 50 * time.Millisecond
			}
			wantError(t, connect(t, tt.url, tt.client, opt).Health(t.Context()), isUnreachable, tt.want)
		})
	}
	err = connect(t, "http://"+nobody.Addr().String(), nil, Options{}).Health(t.Context())
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v does not wrap its reason", err)
	}
}

// lines is the address of a server that says what it has to say and is gone.
func lines(t *testing.T, say string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			io.WriteString(c, say)
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for begun, want := range map[bool]string{false: "within 100ms, saw none", true: "a whole answer within 100ms, saw | bytes of one"} {
		a, _ := serve(t, Options{Timeout: 100 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // net/http looks for the end of a connection only then
			if begun {
				io.WriteString(w, `{"status":"success"`+strings.Repeat(" ", maxLooked))
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		_, err := a.Instant(t.Context(), "x", t0)
		wantError(t, err, isQueryError, want)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is no deadline", err)
		}
	}
}

// What took too long is not asked for again as it is, whoever's time passed.
func TestDeadlineOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer   http.HandlerFunc
		requests int64
		deadline bool
	}{
		"here": {func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, 1, true},
		"the server's": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(503)
			io.WriteString(w, `{"status":"error","errorType":"timeout","error":"query timed out"}`)
		}, 1, true},
		"a proxy's":            {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(504) }, 1, true},
		"of another kind, 503": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			a, _ := serve(t, Options{Timeout: 200 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
				n.Add(1)
				tt.answer(w, r)
			})
			_, err := a.Instant(t.Context(), "x", t0)
			if n.Load() != tt.requests || errors.Is(err, context.DeadlineExceeded) != tt.deadline {
				t.Errorf("%d requests, %v", n.Load(), err)
			}
		})
	}
}

// A client's own headers stay on the host they are for.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	_, s := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hunter2" || r.Header.Get("X-Scope-OrgID") != "team" || r.Header.Get("Referer") != "" {
			t.Errorf("got %v", r.Header)
		}
		switch {
		case strings.HasPrefix(r.URL.Path, "/other"):
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		case strings.HasPrefix(r.URL.Path, "/moved"):
			http.Redirect(w, r, "/here"+strings.TrimPrefix(r.URL.Path, "/moved"), http.StatusPermanentRedirect)
		case strings.HasPrefix(r.URL.Path, "/post"):
			http.Redirect(w, r, "/here", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/loop"):
			http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
		case r.PostFormValue("query") != "":
			io.WriteString(w, vector(one))
		}
	})
	var headers config.Headers
	headers.Headers = map[string]config.Header{"X-Scope-OrgID": {Values: []string{"team"}}}
	client, err := config.NewClientFromConfig(config.HTTPClientConfig{
		FollowRedirects: true,
		Authorization:   &config.Authorization{Type: "Bearer", Credentials: "hunter2"},
		HTTPHeaders:     &headers,
	}, "test")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/other": "307 Temporary Redirect, a redirect to another host, " + other.URL + "/other; give that address if you trust it",
		"/post":  "302 Found to " + s.URL + "/here; try that address",
		"/loop":  "stopped after 10 redirects",
	} {
		a := connect(t, s.URL+path+"?token=hunter2", client, Options{})
		wantError(t, a.Health(t.Context()), isUnreachable, want)
	}
	if err := connect(t, s.URL+"/moved", client, Options{}).Health(t.Context()); err != nil {
		t.Error(err)
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests to another host", n)
	}
}

// What was sent in secret and comes back is not shown.
func TestSecrets(t *testing.T) {
	t.Parallel()
	_, s := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.WriteHeader(500)
		fmt.Fprintf(w, "%s, %s: %s%s at %s?%s via http://a:b@up/x?c=d", user, password, password, r.Header.Get("Authorization"), r.URL.Path, r.URL.RawQuery)
	})
	a := connect(t, strings.Replace(s.URL, "//", "//al:hunter2%20%2F@", 1)+"?sig=s3cr3t%2F", s.Client(), Options{})
	_, err := a.Instant(t.Context(), "x", t0)
	wantError(t, err, isQueryError, "(xxxxx, xxxxx: xxxxxxxxxx at /api/v1/query?sig=xxxxx via http://up/x?xxxxx)")
	if strings.Contains(err.Error(), "s3cr3t") {
		t.Error(err)
	}
}

func TestGzip(t *testing.T) {
	t.Parallel()
	bomb := strings.Repeat(" ", 1<<20)
	a, _ := serve(t, Options{MaxBytes: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("got %v", r.Header)
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		if r.FormValue("query") == "bomb" {
			io.WriteString(z, `{"status":`+bomb)
		}
		io.WriteString(z, vector(one))
	})
	if v, err := a.Instant(t.Context(), "x", t0); err != nil || len(v) != 1 {
		t.Errorf("got %v, %v", v, err)
	}
	_, err := a.Instant(t.Context(), "bomb", t0)
	wantError(t, err, isQueryError, "at most 1048576 bytes, saw more | --since")
	if !errors.Is(err, errTooLarge) {
		t.Errorf("%v does not wrap its reason", err)
	}
}

func TestGzipCutOff(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, vector(one))
		z.Flush()
	})
	_, err := a.Instant(t.Context(), "x", t0)
	wantError(t, err, isQueryError, "cut off after")
}
