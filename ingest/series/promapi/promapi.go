// Package promapi asks servers that speak the HTTP API of Prometheus:
// Prometheus itself, Thanos, Mimir, Cortex, VictoriaMetrics
// (https://prometheus.io/docs/prometheus/latest/querying/api/).
//
// It sends standard parameters only: Google's managed service refuses a request
// with any other. So results are not asked to bypass a server's cache.
package promapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/secret"
)

// Options limit what is asked of a server and what is taken from it. Each
// field's zero is its default.
type Options struct {
	// Timeout is how long one request may take until its answer is read: 30 s,
	// which is what Grafana waits. The server is told it too.
	Timeout time.Duration
	// MaxPoints is how many steps one request asks for: 2,000, or 8 h every 15 s.
	// Prometheus refuses more than 11,000, and holds at most 50 million samples
	// at a time, which leaves room for 25,000 series.
	MaxPoints int
	// MaxBytes limits one answer, unpacked: 256 MiB, or 10 million samples.
	MaxBytes int64
	// MaxSamples limits the result of one query, over all its requests:
	// 20 million, or 320 MB.
	MaxSamples int
	// MaxSeries limits the result of one query, over all its requests: 100,000,
	// which is 100 instances of each of 1,000 services, and some 100 MB with
	// their labels. More is no answer that anybody can look through.
	MaxSeries int
	// Concurrency is how many requests run at a time: 2. A server that is asked
	// during an incident has others to answer, and by default runs 20 queries.
	Concurrency int
	// Progress is told of requests that take long. It may be called by several
	// goroutines at a time.
	Progress func(string)
}

func (o Options) withDefaults() Options {
	set := func(d *int, standard int) {
		if *d <= 0 {
			*d = standard
		}
	}
	set(&o.MaxPoints, 2000)
	set(&o.MaxSamples, 20_000_000)
	set(&o.MaxSeries, 100_000)
	set(&o.Concurrency, 2)
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// API is one server. Its methods may be called by several goroutines; at most
// Options.Concurrency requests run at a time. A request that fails for a reason
// that may pass (5xx, 429, a broken connection) is sent once more. One that is
// not answered in time is not, or Range asks once for less: who waited once
// does not wait twice for the same.
//
// Every error of a query is an *Unreachable, a *QueryError, or has the
// context's cause.
type API struct {
	base    *url.URL // with credentials: shown by name only
	name    string
	client  *http.Client
	opt     Options
	slots   chan struct{}
	sent    *secret.Sent
	getOnly atomic.Bool // the server, or what is before it, refuses POST
	pause   time.Duration

	mu       sync.Mutex
	warnings map[string]bool
}

// retryPause is how long a server in trouble is left alone before a request is
// sent again: a restarting proxy is back by then, and a user hardly notices.
const retryPause = 500 * time.Millisecond

// New makes a source from the address of a server: http or https, with the path
// before /api/v1 where there is one (http://mimir/prometheus). Its query goes
// along with each request; a user and password in it are sent, and shown nowhere.
// A nil client is http.DefaultClient.
//
// Redirects are followed on the same host only: see secret.OnSameHost.
func New(baseURL string, client *http.Client, opt Options) (*API, error) {
	const example = "http://prometheus:9090"
	u, err := secret.ServerURL(baseURL, example)
	if err != nil {
		return nil, err
	}
	base := &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, RawQuery: u.RawQuery}
	if base.Path, err = url.PathUnescape(trimPath(u.EscapedPath())); err != nil {
		return nil, fmt.Errorf("expected a server's URL such as %s, saw one with a path that cannot be read", example)
	}
	base.RawPath = trimPath(u.EscapedPath())
	if client == nil {
		client = http.DefaultClient
	}
	opt = opt.withDefaults()
	return &API{
		base:     base,
		name:     (&url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path, RawPath: base.RawPath}).String(),
		client:   secret.OnSameHost(client),
		opt:      opt,
		slots:    make(chan struct{}, opt.Concurrency),
		sent:     sentTo(base),
		pause:    retryPause,
		warnings: map[string]bool{},
	}, nil
}

// sentTo has what each request tells a server in secret: all of its address'
// query, whatever the names in it.
func sentTo(base *url.URL) *secret.Sent {
	s := &secret.Sent{}
	s.AddURL(base)
	for _, values := range base.Query() {
		s.Add(values...)
	}
	return s
}

// trimPath allows for an address that was copied with a path of the API's, or
// from a browser that shows one of the server's own pages.
func trimPath(p string) string {
	if i := strings.Index(p, "/api/v1"); i >= 0 {
		p = p[:i]
	}
	p = strings.TrimRight(p, "/")
	for _, page := range [...]string{"/graph", "/query", "/targets", "/alerts", "/rules", "/status"} {
		if rest, ok := strings.CutSuffix(p, page); ok {
			return strings.TrimRight(rest, "/")
		}
	}
	return p
}

// Name is the server's URL as it may be shown: without user, password and query.
func (a *API) Name() string { return a.name }

// maxWarnings is how many different ones are kept. Some name a place in an
// expression, so that there may be one for each.
const maxWarnings = 100

// Warnings are what the server said about its answers so far, such as that a
// part of the data is missing: each once, sorted.
func (a *API) Warnings() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]string, 0, len(a.warnings))
	for w := range a.warnings {
		out = append(out, w)
	}
	slices.Sort(out)
	return out
}

func (a *API) warn(notes ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range notes {
		if len(a.warnings) < maxWarnings {
			a.warnings[a.quote(n)] = true
		}
	}
}

// Health is nil where the server answers a query that needs no data. Otherwise
// its error says what to try; an *Unreachable means that other queries will
// fail as this did.
func (a *API) Health(ctx context.Context) error {
	v, err := a.Instant(ctx, "vector(1)", time.Now())
	if err == nil && (len(v) != 1 || v[0].F != 1) {
		return a.unreachable(nil, "expected the answer 1 to the query vector(1), saw another; check that this is a Prometheus API")
	}
	return err
}

// Instant evaluates expr at one time, truncated to milliseconds. A scalar is a
// sample without labels. Samples that are histograms are left out.
func (a *API) Instant(ctx context.Context, expr string, at time.Time) (promql.Vector, error) {
	s, err := a.instant(ctx, expr, at)
	if err != nil {
		return nil, err
	}
	out := make(promql.Vector, 0, len(s.series))
	for _, series := range s.series {
		if len(series.Floats) != 1 {
			return nil, a.queryError(quoteExpr(expr), nil, "expected one sample for each series, saw a range of them; an instant vector has no [window]")
		}
		out = append(out, promql.Sample{Metric: series.Metric, T: series.Floats[0].T, F: series.Floats[0].F})
	}
	return out, nil
}

func (a *API) instant(ctx context.Context, expr string, at time.Time) (*samples, error) {
	var s *samples
	form := url.Values{"query": {expr}, "time": {timeParam(at.UnixMilli())}}
	err := a.retry(ctx, func() error {
		s = &samples{most: a.opt.MaxSeries, left: a.opt.MaxSamples, from: -maxTime, to: maxTime}
		return a.ask(ctx, request{path: "query", form: form, what: quoteExpr(expr), data: s.data})
	})
	return s, err
}

// Names lists the names of metrics among the series that match selector
// (matchers without braces; "" is all), sorted. Servers look them up in whole
// blocks of data, so that one may have its last sample shortly before start.
// A server that cannot do that for a selector is asked for the series
// themselves, which is dearer.
func (a *API) Names(ctx context.Context, selector string, start, end time.Time) ([]string, error) {
	names, err := a.labelValues(ctx, selector, start, end)
	switch statusOf(err) {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		if other, otherErr := a.seriesNames(ctx, selector, start, end); otherErr == nil {
			names, err = other, nil
		}
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// maxNames is how many metrics may have a name: ten times what a large server has.
const maxNames = 1_000_000

var errTooManyNames = errors.New("too many names")

// labelValues never sends a POST: no version takes one there.
func (a *API) labelValues(ctx context.Context, selector string, start, end time.Time) (names []string, err error) {
	form := windowForm(start, end)
	if strings.TrimSpace(selector) != "" {
		form.Set("match[]", braces(selector))
	}
	err = a.retry(ctx, func() error {
		names = nil
		return a.ask(ctx, request{path: "label/" + model.MetricNameLabel + "/values", form: form, what: "names of " + quoteExpr(braces(selector)), list: true,
			data: func(dec *jsontext.Decoder) error {
				return array(dec, func() error {
					name, err := readString(dec)
					if len(names) == maxNames && err == nil {
						return errTooManyNames
					}
					names = append(names, name)
					return err
				})
			}})
	})
	return names, err
}

func (a *API) seriesNames(ctx context.Context, selector string, start, end time.Time) ([]string, error) {
	found := map[string]bool{}
	form := windowForm(start, end)
	form.Set("match[]", braces(selector, `__name__!=""`))
	err := a.retry(ctx, func() error {
		clear(found)
		return a.ask(ctx, request{path: "series", form: form, what: "series of " + quoteExpr(braces(selector)), list: true,
			data: func(dec *jsontext.Decoder) error {
				return array(dec, func() error {
					return object(dec, func(label string) error {
						value, err := readString(dec)
						if label == model.MetricNameLabel {
							found[value] = true
						}
						if len(found) > maxNames {
							return errTooManyNames
						}
						return err
					})
				})
			}})
	})
	names := make([]string, 0, len(found))
	for n := range found {
		names = append(names, n)
	}
	return names, err
}

// braces makes a selector of matchers.
func braces(matchers ...string) string {
	var set []string
	for _, m := range matchers {
		if m = strings.TrimRight(strings.TrimSpace(m), ", "); m != "" {
			set = append(set, m)
		}
	}
	return "{" + strings.Join(set, ",") + "}"
}

func windowForm(start, end time.Time) url.Values {
	return url.Values{"start": {timeParam(start.UnixMilli())}, "end": {timeParam(end.UnixMilli())}}
}

// timeParam is a time in seconds, as every server takes it.
func timeParam(ms int64) string {
	return strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)
}
