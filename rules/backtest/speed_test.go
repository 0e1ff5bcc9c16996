package backtest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/rules"
	"github.com/contend/contend/rules/backtest"
)

// fleet is what instances of a service that works well have, as client_golang
// exports it, with two incidents on their way.
func fleet(instances int, start, end time.Time, step time.Duration) *memory.Store {
	store := memory.New()
	steps := int(end.Sub(start)/step) + 1
	ts := make([]int64, steps)
	for i := range ts {
		ts[i] = start.Add(time.Duration(i) * step).UnixMilli()
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range instances {
		noise := make([]float64, steps) // around 1
		for i := range noise {
			noise[i] = 0.8 + 0.4*random.Float64()
		}
		incident := func(i int) bool {
			at := i % (steps / 2)
			return n%4 == 0 && at > steps/4 && at < steps/4+60
		}
		add := func(name string, value func(i int) float64, more ...string) {
			vs := make([]float64, steps)
			for i := range vs {
				vs[i] = value(i)
			}
			b := labels.NewBuilder(labels.FromStrings("__name__", name, "job", "gateway", "instance", fmt.Sprintf("10.0.0.%d:8080", n)))
			for i := 0; i < len(more); i += 2 {
				b.Set(more[i], more[i+1])
			}
			store.Append(b.Labels(), ts, vs)
		}
		counter := func(name string, rate func(i int) float64, more ...string) {
			sum := 0.0
			add(name, func(i int) float64 {
				sum += rate(i) * step.Seconds()
				return sum
			}, more...)
		}
		level := func(x float64) func(int) float64 { return func(i int) float64 { return x * noise[i] } }
		add("up", func(int) float64 { return 1 })
		add("scrape_duration_seconds", level(0.01))
		add("http_requests_in_flight", func(i int) float64 {
			if incident(i) {
				return 400
			}
			return 10 * noise[i]
		})
		for _, code := range []string{"200", "404", "500"} {
			for _, route := range []string{"/", "/healthz", "/api"} {
				counter("http_requests_total", level(20), "code", code, "handler", route, "method", "get")
				counter("http_request_duration_seconds_count", level(20), "code", code, "handler", route, "method", "get")
				counter("http_request_duration_seconds_sum", level(0.4), "code", code, "handler", route, "method", "get")
			}
		}
		counter("process_cpu_seconds_total", level(0.5))
		add("process_resident_memory_bytes", level(2e8))
		add("process_start_time_seconds", func(int) float64 { return float64(start.Unix()) })
		add("go_goroutines", level(200))
		add("go_sched_gomaxprocs_threads", func(int) float64 { return 4 })
		counter("go_sync_mutex_wait_total_seconds_total", func(i int) float64 {
			if incident(i) {
				return 300
			}
			return 0.1
		})
		counter("go_sql_wait_duration_seconds_total", level(0.01), "db_name", "main")
		counter("go_sched_latencies_seconds_sum", level(0.01))
	}
	return store
}

// BenchmarkFortnight replays the generated rules over 14 days at 15 s for 20
// instances, which must take less than 60 s on two cores.
func BenchmarkFortnight(b *testing.B) {
	const step = 15 * time.Second
	end := time.Unix(1_790_000_000, 0).UTC().Truncate(step)
	start := end.Add(-14 * 24 * time.Hour)
	store := fleet(20, start.Add(-2*time.Hour), end, step)
	groups := generated(b, store, start, end)
	b.ResetTimer()
	for range b.N {
		r, err := backtest.Run(b.Context(), backtest.FromStore(store), groups, backtest.Options{Start: start, End: end, Interval: step})
		if err != nil {
			b.Fatal(err)
		}
		fired := 0
		for _, a := range r.Alerts {
			fired += len(a.Firings)
		}
		b.ReportMetric(float64(fired), "firings")
	}
}

// generated are the rules that contend rules backtest replays where it is given none.
func generated(tb testing.TB, store *memory.Store, start, end time.Time) []backtest.Group {
	tb.Helper()
	stage, err := series.StageOne(tb.Context(), store, series.CollectOptions{Start: start, End: end})
	if err != nil {
		tb.Fatal(err)
	}
	group, err := rules.Generate(all.Detectors(), stage, rules.Options{Plain: true})
	if err != nil {
		tb.Fatal(err)
	}
	groups, err := backtest.Parse("generated", rules.Encode(group, rules.Prometheus, rules.Header{}))
	if err != nil {
		tb.Fatal(err)
	}
	return groups
}
