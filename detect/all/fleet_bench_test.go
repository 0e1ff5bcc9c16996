package all_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// fleet is what a server has of n instances of one Go service: the raw series
// of some fifteen signals at 15 s, over two hours and what baselines look back on
// before that. One in ten is blocked for the last half hour, so that conditions have work to do.
func fleet(n int) (store *memory.Store, start, end time.Time) {
	const interval = 15 * time.Second
	const window, history, fault = 2 * time.Hour, 70 * time.Minute, 30 * time.Minute
	end = time.Unix(1_800_000_000, 0)
	start = end.Add(-window)
	steps := int((window + history) / interval)
	ts := make([]int64, steps+1)
	for i := range ts {
		ts[i] = end.Add(-time.Duration(steps-i) * interval).UnixMilli()
	}
	store = memory.New()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		instance := fmt.Sprintf("10.0.%d.%d:8080", i/256, i%256)
		put := func(name string, at func(t, noise float64) float64, more ...string) {
			vs := make([]float64, len(ts))
			for k := range vs {
				vs[k] = at(float64(k)*interval.Seconds(), random.Float64())
			}
			lset := append([]string{"__name__", name, "job", "gateway", "instance", instance}, more...)
			store.Append(labels.FromStrings(lset...), ts, vs)
		}
		begin := float64(steps)*interval.Seconds() - fault.Seconds()
		sick := func(t float64) float64 { return max(t-begin, 0) * float64(1-min(i%10, 1)) }
		counter := func(rate float64) func(t, noise float64) float64 {
			return func(t, noise float64) float64 { return math.Floor(rate * (t + noise)) }
		}
		put("up", func(float64, float64) float64 { return 1 })
		put("http_requests_in_flight", func(t, noise float64) float64 { return math.Floor(4 + 3*noise + sick(t)) })
		put("http_requests_total", counter(50), "code", "200", "handler", "/api")
		put("http_request_duration_seconds_sum", func(t, noise float64) float64 { return 4 * (t + noise) }, "handler", "/api")
		put("http_request_duration_seconds_count", counter(50), "handler", "/api")
		put("http_request_duration_seconds_sum", func(t, _ float64) float64 { return 0.0004 * t }, "handler", "/healthz")
		put("http_request_duration_seconds_count", counter(0.2), "handler", "/healthz")
		put("process_cpu_seconds_total", func(t, noise float64) float64 { return 0.5 * (t + noise) })
		put("go_sched_gomaxprocs_threads", func(float64, float64) float64 { return 2 })
		put("go_sync_mutex_wait_total_seconds_total", func(t, _ float64) float64 { return 0.01*t + sick(t)*sick(t)/2 })
		put("go_sql_wait_duration_seconds_total", func(t, _ float64) float64 { return 0.001 * t }, "db_name", "main")
		put("go_goroutines", func(t, noise float64) float64 { return math.Floor(50 + 5*noise + sick(t)) })
		put("process_resident_memory_bytes", func(_, noise float64) float64 { return 2e8 + 1e6*noise })
		put("process_start_time_seconds", func(float64, float64) float64 { return 1_799_000_000 })
		put("process_open_fds", func(t, noise float64) float64 { return math.Floor(40 + 3*noise + sick(t)) })
	}
	return store, start, end
}

// BenchmarkFleet analyses a fleet's two hours, from raw series to a report, as
// contend analyze does. It prints the time for each instance, which must not
// grow with their number, and the most memory held.
func BenchmarkFleet(b *testing.B) {
	var perInstance float64 // of the smallest
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store, start, end := fleet(n)
			var most uint64
			for b.Loop() {
				bundle := &ingest.Bundle{Samples: store}
				bundle.ReadSeries(b.Context(), ingest.SeriesOptions{Since: end.Sub(start), Until: end, Collect: series.CollectOptions{Interval: 15 * time.Second}})
				if len(bundle.Failures) > 0 {
					b.Fatal(bundle.Failures)
				}
				r := detect.Run(bundle, nil, all.Detectors(), detect.Options{})
				if r.Verdict.Cause != "lockwait" || r.Verdict.Instances.Affected != n/10 {
					b.Fatalf("%+v", r.Verdict)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapSys)
			}
			each := b.Elapsed().Seconds() / float64(b.N) / float64(n)
			if perInstance == 0 {
				perInstance = each
			}
			b.ReportMetric(each*1e3, "ms/instance")
			b.ReportMetric(each/perInstance, "of-the-smallest")
			b.ReportMetric(float64(most)/(1<<20), "MiB")
		})
	}
}
