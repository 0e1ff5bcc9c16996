package watch

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

var (
	findingDesc = prometheus.NewDesc("contend_finding", "1 for each finding that lasts.", []string{"detector", "role", "job", "severity"}, nil)
	sinceDesc   = prometheus.NewDesc("contend_finding_since_timestamp_seconds", "When the finding began.", []string{"detector", "job"}, nil)
	verdictDesc = prometheus.NewDesc("contend_verdict", "1 for the cause that holds the requests; there is none where none was found.", []string{"cause", "job"}, nil)
	seenDesc    = prometheus.NewDesc("contend_watch_last_seen_timestamp_seconds", "When an input could last be seen.", []string{"input"}, nil)
	blindDesc   = prometheus.NewDesc("contend_watch_blind_since_timestamp_seconds", "Since when an input cannot be seen, 0 where it can. What is not found meanwhile says nothing.", []string{"input"}, nil)
	errorsDesc  = prometheus.NewDesc("contend_watch_errors_total", "Looks at which an input could not be seen.", []string{"input"}, nil)
	looksDesc   = prometheus.NewDesc("contend_watch_looks_total", "Looks so far.", nil, nil)
	missedDesc  = prometheus.NewDesc("contend_watch_missed_looks_total", "Looks that were left out, since the one before took longer than the interval.", nil, nil)
	lastDesc    = prometheus.NewDesc("contend_watch_last_look_timestamp_seconds", "When the last look began.", nil, nil)
	tookDesc    = prometheus.NewDesc("contend_watch_look_duration_seconds", "How long the last look took.", nil, nil)
)

// Metrics are what contend tells of its findings and of itself. It may be
// collected while it is set.
type Metrics struct {
	mu            sync.Mutex
	findings      []Tracked
	cause, job    string
	inputs        []Input
	at            time.Time // of the last look
	took          time.Duration
	looks, missed int
}

// Registry has the metrics, and those of the process.
func (m *Metrics) Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Set takes what one look has shown.
func (m *Metrics) Set(look *Look, t *Tracker, missed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Not the look itself: its profiles would stay in memory until the next one's are there.
	m.inputs, m.at, m.took = look.Inputs, look.At, look.Took
	m.findings = t.Current()
	m.cause, m.job = t.Cause()
	m.looks++
	m.missed += missed
}

// Describe sends no descriptions: which metrics there are changes.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics as of the last look; nothing before the first.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looks == 0 {
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		for i, l := range labels { // of series and addresses, which may have anything in them
			labels[i] = strings.ToValidUTF8(l, "\uFFFD")
		}
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	for _, f := range m.findings {
		send(findingDesc, gauge, 1, f.Detector, string(f.Role), f.Job, string(f.Severity))
		send(sinceDesc, gauge, unix(f.Since), f.Detector, f.Job)
	}
	if m.cause != "" {
		send(verdictDesc, gauge, 1, m.cause, m.job)
	}
	for _, in := range m.inputs {
		send(seenDesc, gauge, unix(in.Seen), in.Name)
		send(blindDesc, gauge, unix(in.Blind), in.Name)
		send(errorsDesc, counter, float64(in.Errors), in.Name)
	}
	send(looksDesc, counter, float64(m.looks))
	send(missedDesc, counter, float64(m.missed))
	send(lastDesc, gauge, unix(m.at))
	send(tookDesc, gauge, m.took.Seconds())
}

// unix is a time in seconds; 0 is none.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
