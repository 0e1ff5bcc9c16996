package secret

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestSameHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from, to string
		same     bool
	}{
		{"http://h/a", "http://h/b?c", true},
		{"https://h:1/a", "https://h:1/", true},
		{"http://h/", "https://h/", true},
		{"http://h:80/", "https://h:8443/", true},
		{"https://h/", "http://h/", false},
		{"http://h/", "http://h:8080/", false},
		{"https://h/", "https://h:8443/", false},
		{"http://h/", "http://a.h/", false},
		{"http://h/", "https://a.h/", false},
		{"http://h/", "ftp://h/", false},
	} {
		from, _ := url.Parse(tt.from)
		to, _ := url.Parse(tt.to)
		if got := SameHost(from, to); got != tt.same {
			t.Errorf("%s to %s: %v, want %v", tt.from, tt.to, got, tt.same)
		}
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	reached := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" {
			t.Errorf("%s: the referrer is sent", r.URL)
		}
		w.WriteHeader(http.StatusNoContent)
	}
	other := httptest.NewServer(http.HandlerFunc(reached))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("/here", reached)
	mux.Handle("/moved", http.RedirectHandler("/here", http.StatusTemporaryRedirect))
	mux.Handle("/found", http.RedirectHandler("/here", http.StatusFound))
	mux.Handle("/twice", http.RedirectHandler("/away", http.StatusTemporaryRedirect))
	mux.Handle("/away", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusTemporaryRedirect))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	never := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, tt := range []struct {
		name, method, path string
		client             *http.Client
		status             int // 0 is an error
	}{
		{"same host", "GET", "/moved", OnSameHost(&http.Client{}), 204},
		{"same host, POST", "POST", "/moved", OnSameHost(&http.Client{}), 204},
		{"POST to GET", "POST", "/found", OnSameHost(&http.Client{}), 302},
		{"GET stays GET", "GET", "/found", OnSameHost(&http.Client{}), 204},
		{"another host", "GET", "/away", OnSameHost(&http.Client{}), 307},
		{"another host, later", "GET", "/twice", OnSameHost(&http.Client{}), 307},
		{"a loop", "GET", "/loop", OnSameHost(&http.Client{}), 0},
		{"the client's own no", "GET", "/moved", OnSameHost(never), 307},
		{"any host", "GET", "/twice", WithoutReferer(&http.Client{}), 204},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL+tt.path+"?token=hunter2", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tt.client.Do(req)
			if tt.status == 0 {
				if err == nil || !strings.Contains(err.Error(), "stopped after 10 redirects") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("got %d, want %d", resp.StatusCode, tt.status)
			}
		})
	}
}
