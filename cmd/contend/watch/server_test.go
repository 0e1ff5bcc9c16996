package watch

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect"
)

func seenLook(at time.Time, summary, why string) *Look {
	return &Look{
		At: at, Inputs: []Input{{Name: "http://p", Job: "app", Why: why, Blind: at}},
		Report: &detect.Report{Verdict: detect.Verdict{Cause: "applock", Summary: summary}},
	}
}

func ask(h http.Handler, method, path, host string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPage(t *testing.T) {
	t.Parallel()
	now := noon
	p := &Page{Interval: 15 * time.Second, Now: func() time.Time { return now }}
	m := &Metrics{}
	h := p.Handler(m.Registry(), false)
	if w := ask(h, "GET", "/status.html", "localhost"); w.Code != 200 || w.Header().Get("Refresh") != "1" || !strings.Contains(w.Body.String(), "first time") {
		t.Errorf("before the first look: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := ask(h, "GET", "/report.json", "localhost"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Refresh") != "1" {
		t.Errorf("report before the first look: %d %v", w.Code, w.Header())
	}
	if err := p.Set(seenLook(noon, "nothing found", "refused")); err != nil {
		t.Fatal(err)
	}
	if w := ask(h, "GET", "/status.html", "localhost"); !strings.Contains(w.Body.String(), "Nothing could be seen so far") || !strings.Contains(w.Body.String(), "refused") {
		t.Errorf("blind from the start: %s", w.Body)
	}
	if w := ask(h, "GET", "/report.html", "localhost"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("report of nothing: %d", w.Code)
	}
	const hostile = `<script>alert(1)</script>`
	if err := p.Set(seenLook(noon, hostile+"12 of 13 wait", "")); err != nil {
		t.Fatal(err)
	}
	now = noon.Add(3 * time.Second)
	if w := ask(h, "GET", "/status.html", "[::1]:7126"); !strings.Contains(w.Body.String(), "2026-11-30T12:00:00Z, 3s ago") || w.Header().Get("Refresh") != "15" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	if w := ask(h, "GET", "/", "localhost:1"); w.Code != 200 || strings.Count(w.Body.String(), "<iframe") != 2 {
		t.Errorf("the page: %d %s", w.Code, w.Body)
	}
	report := ask(h, "GET", "/report.html", "127.0.0.1:7126")
	if body := report.Body.String(); !strings.Contains(body, "12 of 13 wait") || strings.Contains(body, hostile) || !strings.Contains(body, `http-equiv="refresh" content="15"`) {
		t.Errorf("%s", body)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"} {
		if got := report.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	// Nothing can be seen: the last report stays, with its age, and the reason is said.
	now = noon.Add(time.Minute)
	if err := p.Set(seenLook(now, "nothing found", "no answer "+hostile)); err != nil {
		t.Fatal(err)
	}
	if w := ask(h, "GET", "/status.html", "localhost"); !strings.Contains(w.Body.String(), "1m0s ago") || !strings.Contains(w.Body.String(), "cannot be seen since 2026-11-30T12:01:00Z") || strings.Contains(w.Body.String(), "<script") {
		t.Errorf("blind: %s", w.Body)
	}
	if w := ask(h, "GET", "/report.json", "localhost"); !strings.Contains(w.Body.String(), "12 of 13 wait") {
		t.Errorf("blind: %s", w.Body)
	}
}

// Only GET and HEAD, only what is there, and on loopback only by its names.
func TestGuard(t *testing.T) {
	t.Parallel()
	p := &Page{Now: time.Now}
	for _, tt := range []struct {
		method, path, host string
		public             bool
		code               int
	}{
		{"GET", "/metrics", "localhost:7126", false, 200},
		{"HEAD", "/metrics", "127.9.9.9", false, 200},
		{"GET", "/metrics", "rebound.example:7126", false, 421},
		{"GET", "/metrics", "127.0.0.1.example", false, 421},
		{"GET", "/metrics", "", false, 421},
		{"GET", "/metrics", "contend.example", true, 200},
		{"POST", "/metrics", "localhost", false, 405},
		{"DELETE", "/", "localhost", false, 405},
		{"GET", "/x", "localhost", false, 404},
		{"GET", "/debug/pprof/", "localhost", false, 404},
	} {
		h := p.Handler((&Metrics{}).Registry(), tt.public)
		if w := ask(h, tt.method, tt.path, tt.host); w.Code != tt.code {
			t.Errorf("%s %s of %q: %d, want %d", tt.method, tt.path, tt.host, w.Code, tt.code)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := &Metrics{}
	h := MetricsHandler(m.Registry(), false)
	if w := ask(h, "GET", "/metrics", "localhost"); strings.Contains(w.Body.String(), "contend_") {
		t.Errorf("before the first look:\n%s", w.Body)
	}
	look := seenLook(noon, "x", "")
	look.bundle = nil
	look.Inputs[0].Blind, look.Inputs[0].Seen = time.Time{}, noon
	look.Report.Verdict.Job = "app\xff\n"
	look.Report.Findings = []detect.Finding{{Detector: "applock", Role: detect.Cause, Severity: detect.Critical, Job: "app\xff\n"}}
	tracker := &Tracker{Interval: 15 * time.Second}
	tracker.Changes(look)
	m.Set(look, tracker, 2)
	body := ask(h, "GET", "/metrics", "localhost").Body.String()
	for _, want := range []string{
		`contend_finding{detector="applock",job="app�\n",role="cause",severity="critical"} 1`,
		`contend_finding_since_timestamp_seconds{detector="applock",job="app�\n"} 1.79604e+09`,
		`contend_verdict{cause="applock",job="app�\n"} 1`,
		`contend_watch_blind_since_timestamp_seconds{input="http://p"} 0`,
		`contend_watch_errors_total{input="http://p"} 0`,
		`contend_watch_looks_total 1`, `contend_watch_missed_looks_total 2`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

// A port that is taken is an error; what listens ends when it is told to, also
// while a client sends nothing.
func TestServe(t *testing.T) {
	t.Parallel()
	l, public, err := Listen("127.0.0.1:0")
	if err != nil || public {
		t.Fatal(err, public)
	}
	if _, _, err := Listen(l.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "expected a free port at "+l.Addr().String()+", saw one in use;") {
		t.Errorf("a port that is taken: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }), PageLimits)
	}()
	stuck, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	open, public, err := Listen("0.0.0.0:0")
	if err != nil || !public {
		t.Fatalf("all addresses: public %v, %v", public, err)
	}
	open.Close()
}
