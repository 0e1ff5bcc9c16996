// Package capture takes a bundle off a live process: its goroutine, block and
// mutex profiles, one goroutine dump, and its Prometheus metrics as series.
package capture

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds of a capture. They limit what it asks of a process in trouble, and
// what it writes.
const (
	MinFor = time.Second
	// Longer is a monitoring system's work.
	MaxFor = time.Hour
	// The demo's interval, 60 times faster than a usual one.
	MinScrapeInterval = 250 * time.Millisecond
	// A goroutine profile takes a process of 17,000 goroutines 0.8 ms, so even
	// these take it a thousandth of its time.
	MinEvery = time.Second
	// Goroutine profiles; analyze reads up to 1,000 files of a directory.
	maxProfiles = 500
	// Of a job's name, which each line of the series has.
	maxJob = 200
	// Of an address: what most servers take, with a token in it.
	maxURL = 8 << 10
	// Of a host: the longest name in DNS, and a port. It is a label too.
	maxHost = 253 + len(":65535")
)

// Options are the choices of one capture. All that have no default named here
// are needed.
type Options struct {
	// Target is the URL of the process: its root, or its /debug/pprof.
	Target string
	// Metrics is the URL of its Prometheus metrics; "" is MetricsPath beside
	// /debug/pprof.
	Metrics     string
	MetricsPath string
	// Out is the directory that will be the bundle: new, or empty.
	Out string
	// For is how long the capture takes.
	For time.Duration
	// Every is the time between goroutine profiles.
	Every time.Duration
	// ScrapeInterval is the time between scrapes of the metrics.
	ScrapeInterval time.Duration
	// MaxGoroutines is how many there may be for a text dump to be taken, which
	// is below it; 0 is never.
	MaxGoroutines int
	// Job is the label of all series, of at most 200 bytes; "" is the host's name, or "process" where
	// it has none.
	Job string
	// Version of contend, for the bundle.
	Version string
	// HTTP makes the requests; nil is a plain client.
	HTTP *http.Client
	// Progress, where set, is told how far the capture is.
	Progress func(string)
	// Note, where set, is told of each thing that could not be taken, when it
	// is first seen. It and Progress are not called at the same time.
	Note func(Missing)
}

// Check says what Run would refuse before it asks for anything, apart from Out.
func (o Options) Check() error {
	_, err := newEndpoints(o)
	switch {
	case err != nil:
		return err
	case len(o.Job) > maxJob:
		return fmt.Errorf("expected a job's name of at most %d bytes, saw %d", maxJob, len(o.Job))
	case len(o.MetricsPath) > maxURL:
		return fmt.Errorf("expected a path of at most %d bytes, saw %d", maxURL, len(o.MetricsPath))
	case o.For < MinFor || o.For > MaxFor:
		return fmt.Errorf("expected a capture of %v to %v, saw %v", MinFor, MaxFor, o.For)
	case o.ScrapeInterval < MinScrapeInterval:
		return fmt.Errorf("expected at least %v between scrapes, saw %v", MinScrapeInterval, o.ScrapeInterval)
	case o.Every < MinEvery:
		return fmt.Errorf("expected at least %v between goroutine profiles, saw %v", MinEvery, o.Every)
	case o.For/o.Every > maxProfiles:
		least := (o.For/maxProfiles + time.Second).Truncate(time.Second)
		return fmt.Errorf("expected at most %d goroutine profiles, saw one every %v for %v; try one every %v", maxProfiles, o.Every, o.For, least)
	case o.MaxGoroutines < 0:
		return fmt.Errorf("expected a number of goroutines, 0 for no dump, saw %d", o.MaxGoroutines)
	}
	return nil
}

// endpoints are the addresses of one process, and its name in labels.
type endpoints struct {
	pprof, metrics *url.URL
	target         string // as it may be shown
	job, instance  string
}

const pprofPath = "/debug/pprof"

func newEndpoints(o Options) (endpoints, error) {
	target, err := parseURL(o.Target)
	if err != nil {
		return endpoints{}, err
	}
	prefix, isPprof := strings.CutSuffix(strings.TrimSuffix(target.Path, "/"), pprofPath)
	if !isPprof && prefix != "" {
		return endpoints{}, errors.New("expected the root of a host or its /debug/pprof, such as http://HOST:PORT, saw another path; metrics elsewhere are named with --metrics")
	}
	at := func(path string) *url.URL {
		u := *target
		u.Path, u.RawPath = prefix+path, ""
		u.Fragment, u.RawFragment = "", ""
		return &u
	}
	e := endpoints{pprof: at(pprofPath), job: o.Job}
	if o.Metrics != "" {
		if e.metrics, err = parseURL(o.Metrics); err != nil {
			return endpoints{}, fmt.Errorf("metrics: %w", err)
		}
	} else {
		e.metrics = at("/" + strings.TrimPrefix(o.MetricsPath, "/"))
	}
	shown := at("")
	shown.User, shown.RawQuery = nil, "" // either may hold a token
	e.target = shown.String()
	host := target.Hostname()
	if e.job == "" && (host == "localhost" || net.ParseIP(host) != nil) {
		e.job = "process"
	}
	e.job = strings.ToValidUTF8(cmp.Or(e.job, host), "")
	e.instance = instance(e.metrics)
	return e, nil
}

// parseURL does not quote what it refuses, which may hold a password.
func parseURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("expected a URL of at most %d bytes, saw %d", maxURL, len(raw))
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("expected a URL such as http://localhost:6060, saw something else; http:// is needed, and a password's special characters are written as %XX")
	}
	if len(u.Host) > maxHost {
		return nil, fmt.Errorf("expected a host of at most %d bytes, saw %d", maxHost, len(u.Host))
	}
	return u, nil
}

// instance is a target's address as Prometheus labels it, with the port.
func instance(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
