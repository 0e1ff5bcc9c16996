package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// probe checks t's health until ctx ends. healthy hears true after each success, and
// false after so many failures in a row, and after each failure from then on.
func (f *Fleet) probe(ctx context.Context, t *task, kind, base string, p Probe, healthy func(bool)) {
	ticker := time.NewTicker(p.Every)
	defer ticker.Stop()
	failures := 0
	for {
		start := time.Now()
		err := f.check(ctx, base+p.Path, p.Timeout)
		if ctx.Err() != nil {
			return
		}
		took := time.Since(start)
		f.probes.observe(t.name, kind, err == nil, took)
		if kind == liveness {
			f.mu.Lock()
			t.health, t.failing = took, err != nil
			f.mu.Unlock()
		}
		if err == nil {
			failures = 0
			healthy(true)
		} else if failures++; failures >= p.Failures {
			healthy(false)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// check asks once.
func (f *Fleet) check(ctx context.Context, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return errors.New("expected a status from 200 to 399, saw " + resp.Status)
	}
	// As much as the kubelet reads. Its answer has to be whole.
	_, err = io.CopyN(io.Discard, resp.Body, 10<<10)
	if err != io.EOF {
		return err
	}
	return nil
}

func newProbeClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Kinds of health checks, as the kubelet names them.
const (
	liveness  = "Liveness"
	readiness = "Readiness"
)

// Labels of a Kubernetes pod.
const (
	namespace = "demo"
	container = "gateway"
)

// probeMetrics count health checks as the kubelet does at /metrics/probes.
type probeMetrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newProbeMetrics() probeMetrics {
	labels := prometheus.Labels{"namespace": namespace, "container": container}
	return probeMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name:        "prober_probe_total",
			Help:        "Health checks by result.",
			ConstLabels: labels,
		}, []string{"pod", "probe_type", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:        "prober_probe_duration_seconds",
			Help:        "How long successful health checks took.",
			ConstLabels: labels,
		}, []string{"pod", "probe_type"}),
	}
}

func (m probeMetrics) observe(pod, kind string, ok bool, took time.Duration) {
	if !ok {
		m.total.WithLabelValues(pod, kind, "failed").Inc()
		return
	}
	m.total.WithLabelValues(pod, kind, "successful").Inc()
	m.duration.WithLabelValues(pod, kind).Observe(took.Seconds())
}

// forget drops a pod that is gone, as the kubelet does.
func (m probeMetrics) forget(pod string) {
	m.total.DeletePartialMatch(prometheus.Labels{"pod": pod})
	m.duration.DeletePartialMatch(prometheus.Labels{"pod": pod})
}

// Metrics serves what an orchestrator exports of its pods, under the names and labels
// of cAdvisor (container_*) and the kubelet (prober_*).
func (f *Fleet) Metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.probes.total, f.probes.duration, containers{f})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// containers collects what cAdvisor exports.
type containers struct{ fleet *Fleet }

var containerLabels = []string{"namespace", "pod", "container"}

var (
	memoryDesc = prometheus.NewDesc("container_memory_working_set_bytes", "Memory in use, in bytes.", containerLabels, nil)
	limitDesc  = prometheus.NewDesc("container_spec_memory_limit_bytes", "Memory that may be used, in bytes; 0 is no limit.", containerLabels, nil)
	cpuDesc    = prometheus.NewDesc("container_cpu_usage_seconds_total", "CPU time used, in seconds.", containerLabels, nil)
)

func (c containers) Describe(descs chan<- *prometheus.Desc) {
	descs <- memoryDesc
	descs <- limitDesc
	descs <- cpuDesc
}

func (c containers) Collect(metrics chan<- prometheus.Metric) {
	type sample struct {
		pod string
		usage
	}
	var samples []sample
	c.fleet.mu.Lock()
	for _, t := range c.fleet.tasks {
		if t.usage != (usage{}) {
			samples = append(samples, sample{t.name, t.usage})
		}
	}
	c.fleet.mu.Unlock()
	for _, s := range samples {
		send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64) {
			metrics <- prometheus.MustNewConstMetric(desc, kind, value, namespace, s.pod, container)
		}
		send(memoryDesc, prometheus.GaugeValue, float64(s.resident))
		send(limitDesc, prometheus.GaugeValue, float64(c.fleet.cfg.MemoryLimit))
		send(cpuDesc, prometheus.CounterValue, s.cpu)
	}
}
