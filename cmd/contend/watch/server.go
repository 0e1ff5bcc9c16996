package watch

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/contend/contend/detect/report"
)

// firstWait is how often browsers ask until the first report is there.
const firstWait = time.Second

// PageLimits are those of pages and metrics: people with a browser and a Prometheus
// server or two, who ask with a line and some headers for less than a MB, also over a
// slow line. Slow clients take a connection each until their time is over, and others wait.
var PageLimits = Limits{Connections: 64, Request: 5 * time.Second, Answer: 30 * time.Second, Idle: time.Minute, Close: 2 * time.Second}

// MetricsHandler answers /metrics.
func MetricsHandler(r *prometheus.Registry, public bool) http.Handler {
	mux := http.NewServeMux()
	addMetrics(mux, r)
	return Guard(mux, public)
}

func addMetrics(mux *http.ServeMux, r *prometheus.Registry) {
	// Of metrics that clash the others are still sent. One at a time is enough.
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4}))
}

// Page shows the last report. It may be asked while it is set.
type Page struct {
	Interval time.Duration // between looks: how often browsers ask again
	Now      func() time.Time

	mu     sync.Mutex
	report []byte // as HTML
	json   []byte
	at     time.Time // of the look that they are of
	inputs []Input
}

// Set takes the report of a look. Where it saw nothing, the report of before
// stays, and the page says how old it is.
func (p *Page) Set(look *Look) error {
	seen := false
	for _, in := range look.Inputs {
		seen = seen || in.Why == ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inputs = look.Inputs
	if !seen {
		return nil
	}
	var page, data bytes.Buffer
	html := report.HTML(&page, look.Report, report.HTMLOptions{Refresh: p.Interval, Seen: look.At})
	if err := errors.Join(html, report.JSON(&data, look.Report)); err != nil {
		return fmt.Errorf("show the report: %w", err)
	}
	p.report, p.json, p.at = page.Bytes(), data.Bytes(), look.At
	return nil
}

// Handler answers / with two frames: /status.html, the state of the inputs, and
// /report.html. Beside them are /report.json and /metrics.
func (p *Page) Handler(r *prometheus.Registry, public bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		send(w, "text/html; charset=utf-8", styledOnly, []byte(indexPage))
	})
	mux.HandleFunc("GET /status.html", p.status)
	mux.HandleFunc("GET /report.html", func(w http.ResponseWriter, _ *http.Request) {
		// The report has a policy of its own for what is in it.
		p.write(w, "text/html; charset=utf-8", "frame-ancestors 'self'; base-uri 'none'; form-action 'none'; connect-src 'self'", func() []byte { return p.report })
	})
	mux.HandleFunc("GET /report.json", func(w http.ResponseWriter, _ *http.Request) {
		p.write(w, "application/json", "default-src 'none'", func() []byte { return p.json })
	})
	addMetrics(mux, r)
	return Guard(mux, public)
}

func (p *Page) write(w http.ResponseWriter, kind, policy string, body func() []byte) {
	p.mu.Lock()
	data, at := body(), p.at
	p.mu.Unlock()
	if at.IsZero() {
		refresh(w, firstWait)
		http.Error(w, "nothing has been seen so far; try again in some seconds", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	send(w, kind, policy, data)
}

// status says how old the report is and what cannot be seen. Browsers ask for it
// again by themselves, without a script.
func (p *Page) status(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	state := struct {
		At     time.Time
		Age    time.Duration
		Inputs []Input
	}{p.at, p.Now().Sub(p.at).Round(time.Second), p.inputs}
	p.mu.Unlock()
	wait := p.Interval
	if state.At.IsZero() {
		wait = firstWait
	}
	var b bytes.Buffer
	if err := statusPage.Execute(&b, state); err != nil {
		http.Error(w, "the page could not be written", http.StatusInternalServerError)
		return
	}
	refresh(w, wait)
	send(w, "text/html; charset=utf-8", styledOnly, b.Bytes())
}

// refresh has browsers ask again after a while.
func refresh(w http.ResponseWriter, after time.Duration) {
	w.Header().Set("Refresh", strconv.Itoa(max(1, int(after.Seconds()))))
}

func send(w http.ResponseWriter, kind, policy string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", policy)
	w.Write(body)
}

// styledOnly is the policy of our own pages, which have no script.
const styledOnly = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"

// indexPage has the state and the report in frames, so that each is loaded anew
// by itself and the report stays a document of its own.
const indexPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>contend</title>
<style>:root { color-scheme: light dark } body { margin: 0; display: flex; flex-direction: column; height: 100vh } iframe { border: 0; width: 100% } #status { height: 4.5em } #report { flex: 1 }</style>
</head><body><iframe id="status" src="/status.html" title="what can be seen"></iframe><iframe id="report" src="/report.html" title="the report"></iframe></body></html>
`

var statusPage = template.Must(template.New("status").Funcs(template.FuncMap{"clock": clock, "printable": report.Printable}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>contend: status</title>
<style>:root { color-scheme: light dark } body { margin: .5em 1em; font: 15px/1.4 system-ui, sans-serif } p { margin: 0 }</style></head><body role="status">
{{if not .At.IsZero}}<p>Seen at {{clock .At}}, {{.Age}} ago.</p>
{{else if .Inputs}}<p>Nothing could be seen so far.</p>
{{else}}<p>Looking for the first time.</p>
{{end}}{{range .Inputs}}{{if .Why}}<p><strong>{{printable .Name}} cannot be seen since {{clock .Blind}}</strong>: {{printable .Why}}</p>
{{end}}{{end}}</body></html>
`))
