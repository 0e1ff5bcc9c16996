// Package rulestest has the fleet on which benchmarks measure what the generated
// rules cost a server: one instance's series, which stand for those of all.
package rulestest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/rules"
)

const (
	// Instances that a fleet has, of so many jobs.
	Instances = 1000
	jobs      = 20
	// Interval between two scrapes, and two evaluations.
	Interval = 15 * time.Second
	// history is longer than any rule looks back.
	history = 70 * time.Minute
)

// Fleet is what one of its instances exports.
type Fleet struct {
	Start, Now time.Time     // of the first and of the last samples
	Sick       time.Time     // since when all instances are; zero is not at all
	Raw        *memory.Store // the instance's series until it was made
}

// New makes a fleet that has been scraped until now.
func New(now time.Time) *Fleet {
	f := &Fleet{Start: now.Add(-history - 5*time.Minute), Now: now, Raw: memory.New()}
	for at := f.Start; !at.After(now); at = at.Add(Interval) {
		for _, s := range f.Samples(at) {
			f.Raw.Append(s.Labels, []int64{at.UnixMilli()}, []float64{s.Value})
		}
	}
	return f
}

// Group are the rules for what src has, such as Raw; nil is no server in particular.
func (f *Fleet) Group(ctx context.Context, src series.Source) (*rules.Group, error) {
	stage, err := series.StageOne(ctx, src, series.CollectOptions{Interval: Interval, Start: f.Now.Add(-time.Hour), End: f.Now})
	if err != nil {
		return nil, err
	}
	return rules.Generate(all.Detectors(), stage, rules.Options{})
}

// Columns are all series of the instance on a server that has evaluated the
// rules for Raw all the time: raw ones, canonical ones and their records.
func (f *Fleet) Columns(ctx context.Context) ([]memory.Column, error) {
	canon, err := series.Collect(ctx, f.Raw, series.CollectOptions{Interval: Interval, Start: f.Now.Add(-time.Minute), End: f.Now, History: history})
	if err != nil {
		return nil, err
	}
	if err := series.AddRecords(ctx, canon.Store, canon.Timing, f.Now.Add(-history), f.Now.Add(-time.Minute), f.Now); err != nil {
		return nil, err
	}
	g, err := f.Group(ctx, f.Raw)
	if err != nil {
		return nil, err
	}
	columns := slices.Concat(f.Raw.All(), canon.Store.All())
	for _, r := range g.Rules {
		if of, ok := strings.CutSuffix(r.Record, ":sampled"); ok {
			columns = append(columns, sampled(canon.Store.Columns(of)[0], r.Record))
		}
	}
	return slices.DeleteFunc(columns, func(c memory.Column) bool { return !c.Labels.Has(model.InstanceLabel) }), nil
}

// sampled has the samples of a series that its rule would have left over of it.
func sampled(c memory.Column, name string) memory.Column {
	out := memory.Column{Labels: labels.NewBuilder(c.Labels).Set(model.MetricNameLabel, name).Labels()}
	for i, t := range c.T {
		if t%(2*time.Minute).Milliseconds() < Interval.Milliseconds() {
			out.T, out.V = append(out.T, t), append(out.V, c.V[i])
		}
	}
	return out
}

// Name is what the labels of the n-th instance are in place of the one's.
func Name(n int) (job, instance string) {
	return fmt.Sprintf("api%d", n%jobs), fmt.Sprintf("10.0.%d.%d:8080", n/250, n%250)
}

// Sample is one of an instance's.
type Sample struct {
	Labels labels.Labels
	Value  float64
}

// Samples are what a service exports that uses client_golang: 30 series. Since it is
// sick, requests wait for a lock, a pool and a dependency, and the CPU idles.
func (f *Fleet) Samples(at time.Time) []Sample {
	var out []Sample
	add := func(value float64, name string, pairs ...string) {
		out = append(out, Sample{labels.FromStrings(append(pairs, model.MetricNameLabel, name, model.JobLabel, "api", model.InstanceLabel, "api:8080")...), value})
	}
	t, ill := at.Sub(f.Start).Seconds(), 0.0
	if !f.Sick.IsZero() {
		ill = max(at.Sub(f.Sick).Seconds(), 0)
	}
	level := func(well, sick float64) float64 {
		if ill > 0 {
			return sick
		}
		return well * (1 + 0.2*math.Sin(t/40))
	}
	// A rate, integrated.
	total := func(well, sick float64) float64 { return well*(t-ill+8*(1-math.Cos((t-ill)/40))) + sick*ill }
	add(1, "up")
	add(math.Round(level(6, 400)), "http_requests_in_flight")
	for _, handler := range []string{"/a", "/b", "/healthz"} {
		for code, share := range map[string]float64{"200": 1, "500": 0.001} {
			if handler == "/healthz" && code == "500" {
				continue
			}
			with := []string{"handler", handler, "code", code}
			add(total(50*share, 20*share), "http_requests_total", with...)
			add(total(50*share, 20*share), "http_request_duration_seconds_count", with...)
			add(total(1.5*share, 100*share), "http_request_duration_seconds_sum", with...)
		}
	}
	add(total(0.5, 0.2), "process_cpu_seconds_total")
	add(2, "go_sched_gomaxprocs_threads")
	add(total(0.1, 0.1), "go_sched_latencies_seconds_sum")
	add(total(0.1, 200), "go_sync_mutex_wait_total_seconds_total")
	add(total(0.1, 100), "go_sql_wait_duration_seconds_total", "db_name", "x")
	add(level(5, 20), "go_sql_in_use_connections", "db_name", "x")
	add(20, "go_sql_max_open_connections", "db_name", "x")
	add(total(100, 10), "http_client_request_duration_seconds_count")
	add(total(2, 100), "http_client_request_duration_seconds_sum")
	add(level(2e8, 4e8), "process_resident_memory_bytes")
	add(float64(f.Start.Unix()-86400), "process_start_time_seconds")
	add(math.Round(level(50, 450)), "process_open_fds")
	add(math.Round(level(60, 900)), "go_goroutines")
	return out
}
