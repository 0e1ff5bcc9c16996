package series

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series/memory"
)

// Record is a series computed from canonical ones, as a Prometheus recording
// rule computes it.
type Record struct {
	Name string
	Expr string // PromQL over canonical series, with {{spans}}
	// Every, where not "", is a span at whose multiples alone the value changes:
	// a subquery of that resolution, whose range and offset are multiples of it.
	// Evaluating it more often costs much and changes nothing.
	Every string
	// Sum is set of what conditions aggregate: they may read the record instead.
	Sum bool
	// phase orders records: each reads the past of none but those of earlier phases.
	phase int
	// youngOf is the signal of a baseline: Expr is evaluated by hand then.
	youngOf string
}

// History is how far before the window that is analysed series are read, for
// baselines to look back on. A span, as in Timing.
const History = "1h10m"

const (
	// A median, since a mean follows the incident. An hour in 30 points: at full
	// resolution a baseline of 1,000 instances costs ten times as much. The offset is
	// longer than an alert takes to fire, so that the first minutes of an incident
	// are not in its own baseline; an incident longer than half an hour is.
	baselineRange = "[{{1h}}:{{2m}}] offset {{6m}}"
	// Ten minutes of history: fewer points are a start and no habit.
	baselinePoints = 5
)

// withBaseline are the signals and records that detectors compare with their own past.
var withBaseline = [...]string{
	"inflight", "inflight_per_cpu", "completions", "cpu", "latency", "goroutines", "connections",
	"health_latency", "dependency_wait", "dependency_latency",
}

// Records are what detectors read besides the signals, in an order in which
// each reads only what comes before it:
//
//   - contend:inflight_per_cpu: requests in flight per busy core. Below a twentieth of a core the
//     ratio would be noise over nothing, and the rate of an instance younger than its window is too low.
//   - contend:lock_use: the share of time that the locks are in use, if one of them does most
//     of the waiting: what it is for the mean queue Lq of ten minutes with random arrivals and
//     exponential holds, Lq = ρ²/(1-ρ) solved for ρ (M/M/1; package headroom). No more than a
//     scale on which one lock's use grows in step with the load.
//   - contend:load_before: the load of 50 minutes ago as a share of the present one, by the
//     requests that finished in ten minutes.
//   - contend:age: seconds since the instance began.
//   - contend:short_lives: how often it began again soon after it began, by its age
//     falling, since a clock that is set moves the time of its start without a restart; an
//     instance that is gone counts for a while where it lived less than 5 minutes, the time
//     for which the horizontal pod autoscaler keeps what it added (its
//     stabilization window's default).
//   - contend:cpu_use: the share of the CPU's limit that is in use.
//   - contend:arrivals:sum, contend:arrivals:mean: a job's, all of it and by instance. As a subquery
//     over each instance, their peaks were most of what records cost.
//   - contend:service: there for each job that exports something of a process or of its requests.
//   - contend:arrivals:peak, contend:arrivals:mean_peak: the highest of those of an hour, until one window ago.
//   - contend:X:median: X's own median over an hour, where there are ten minutes of it.
//   - contend:X:baseline: that, or for an instance too young to have one the
//     largest of its job.
func Records() []Record {
	out := []Record{
		{Name: "contend:age", Expr: "time() - contend:start_time"},
		{Name: "contend:lock_use", Expr: "2 / (1 + sqrt(1 + 4 / avg_over_time(contend:lock_wait[{{10m}}])))"},
		{Name: "contend:load_before", phase: 2, Expr: "avg_over_time(contend:completions[{{10m}}] offset {{50m}}) / avg_over_time(contend:completions[{{10m}}])"},
		{Name: "contend:inflight_per_cpu", phase: 1, Expr: "contend:inflight / clamp_min(contend:cpu, 0.05) unless contend:age < {{s:4x,1m}}"},
		{Name: "contend:cpu_use", phase: 1, Expr: "contend:cpu / contend:cpu_limit"},
		{Name: "contend:arrivals:sum", phase: 1, Sum: true, Expr: "sum by (job) (contend:arrivals)"},
		{Name: "contend:arrivals:mean", phase: 1, Sum: true, Expr: "avg by (job) (contend:arrivals)"},
		{Name: "contend:service", phase: 2, Expr: "group by (job) (contend:cpu) or group by (job) (contend:inflight) or group by (job) (contend:completions) or group by (job) (contend:start_time) or group by (job) (contend:restarts)"},
		{Name: "contend:short_lives", phase: 2, Expr: `max by (job, instance) (
  label_replace(resets(contend:age[{{15m}}]) - 1 > 0, "how", "again", "", "")
or
  label_replace(contend:restarts - contend:restarts offset {{15m}} - 1 > 0, "how", "restarts", "", "")
or
  label_replace((max_over_time(contend:age[{{15m}}]) < {{s:5m}} unless contend:age unless contend:up) * 0 + 1, "how", "gone", "", ""))`},
	}
	for _, peak := range [...]struct{ name, of string }{
		{"contend:arrivals:peak", "contend:arrivals:sum"},
		{"contend:arrivals:mean_peak", "contend:arrivals:mean"},
	} {
		out = append(out, Record{Name: peak.name, phase: 2, Expr: fmt.Sprintf(
			"max_over_time(%[1]s[{{1h}}:{{1x,15s}}] offset {{4x,1m}}) and count_over_time(%[1]s[{{1h}}:{{2m}}] offset {{4x,1m}}) >= %[2]d", peak.of, baselinePoints)})
	}
	for _, x := range withBaseline {
		out = append(out, Record{
			Name:  "contend:" + x + ":median",
			Expr:  fmt.Sprintf("quantile_over_time(0.5, contend:%[1]s%[2]s) and count_over_time(contend:%[1]s%[2]s) >= %[3]d", x, baselineRange, baselinePoints),
			Every: "2m",
			phase: 2,
		})
	}
	for _, x := range withBaseline {
		out = append(out, Record{
			Name: "contend:" + x + ":baseline",
			Expr: fmt.Sprintf("contend:%[1]s:median or 0 * contend:%[1]s + on (job) group_left () max by (job) (contend:%[1]s:median)", x),

			phase: 3, youngOf: x,
		})
	}
	return out
}

// Sampled writes a record that looks at one point of Every as recording rules of a
// server that evaluates it at each interval: a series that has a sample once in
// Every, and the record over those. The subquery reads all samples of the hour each time, twice; of
// 1,000 instances that was a quarter of what all rules cost. The points are the subquery's
// own where Every is a multiple of the interval, and only there.
func (r Record) Sampled() (points, record Record) {
	of := strings.TrimSuffix(r.Name, ":median")
	points = Record{Name: of + ":sampled", Expr: fmt.Sprintf("%s and on () (vector(time()) %% {{s:%s}} < {{s:1x}})", of, r.Every)}
	r.Expr = strings.ReplaceAll(r.Expr, of+"[{{1h}}:{{"+r.Every+"}}]", points.Name+"[{{1h}}]")
	return points, r
}

// AddRecords evaluates Records over what store has and adds them to it. What
// others read the past of begins at start, the rest at from, both on the grid
// of the interval.
func AddRecords(ctx context.Context, store *memory.Store, t Timing, start, from, end time.Time) error {
	records := Records()
	for phase := range 4 {
		begin := from
		if phase < 2 { // baselines look back on them
			begin = start
		}
		var tasks []func() error
		for _, r := range records {
			if r.phase == phase {
				tasks = append(tasks, func() error {
					m, err := r.evaluate(ctx, store, t, begin, end)
					if err != nil {
						return fmt.Errorf("%s: %w", r.Name, err)
					}
					store.AppendMatrix(r.Name, m, t.Interval)
					return nil
				})
			}
		}
		if err := TwoAtOnce(tasks); err != nil {
			return err
		}
	}
	return nil
}

// TwoAtOnce runs tasks on two cores, which is what the machine of somebody on
// call has to spare, and returns what failed.
func TwoAtOnce(tasks []func() error) error {
	errs := make([]error, len(tasks))
	next := make(chan int)
	var workers sync.WaitGroup
	for range queriesAtOnce {
		workers.Go(func() {
			for i := range next {
				errs[i] = tasks[i]()
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

// evaluate returns a record at each step from start to end.
func (r Record) evaluate(ctx context.Context, store *memory.Store, t Timing, start, end time.Time) (promql.Matrix, error) {
	if r.youngOf != "" {
		return withYoung(store.Columns("contend:"+r.youngOf+":median"), store.Columns("contend:"+r.youngOf), start, end), nil
	}
	expr, err := t.Expand(r.Expr)
	if err != nil {
		return nil, err
	}
	if r.Every == "" {
		return store.Range(ctx, expr, start, end, t.Interval)
	}
	every, err := t.Span(r.Every)
	if err != nil {
		return nil, err
	}
	if span, _ := t.Span("1h"); span%every != 0 || every < t.Interval {
		return store.Range(ctx, expr, start, end, t.Interval) // the short cut does not hold
	}
	first := start.UnixMilli()
	first -= first % every.Milliseconds()
	m, err := store.Range(ctx, expr, time.UnixMilli(first), end, every)
	if err != nil {
		return nil, err
	}
	return Spread(m, every, start, end, t.Interval), nil
}

// withYoung is what the expression of a baseline says, without the engine,
// for which the two joins of a thousand instances are most of the work: each
// median, and where an instance has a value and no median, the largest of its job.
func withYoung(medians, values []memory.Column, start, end time.Time) promql.Matrix {
	largest := map[string]map[int64]float64{} // by job
	known := map[string]memory.Column{}       // by labels without the name
	var out promql.Matrix
	bare := labels.NewBuilder(labels.EmptyLabels())
	target := func(c memory.Column) labels.Labels {
		bare.Reset(c.Labels)
		return bare.Del(model.MetricNameLabel).Labels()
	}
	for _, c := range medians {
		job := c.Labels.Get(model.JobLabel)
		if largest[job] == nil {
			largest[job] = map[int64]float64{}
		}
		for i, t := range c.T {
			if most, ok := largest[job][t]; !math.IsNaN(c.V[i]) && (!ok || c.V[i] > most) {
				largest[job][t] = c.V[i]
			}
		}
		known[target(c).String()] = c
	}
	for _, c := range values {
		lset := target(c)
		s := promql.Series{Metric: lset}
		own, of := known[lset.String()], largest[c.Labels.Get(model.JobLabel)]
		delete(known, lset.String())
		k := 0
		for i, t := range c.T {
			for k < len(own.T) && own.T[k] < t {
				s.Floats = appendPoint(s.Floats, own.T[k], own.V[k], start, end)
				k++
			}
			if k < len(own.T) && own.T[k] == t && !math.IsNaN(own.V[k]) {
				s.Floats = appendPoint(s.Floats, t, own.V[k], start, end)
				k++
			} else if most, ok := of[t]; ok && !math.IsNaN(c.V[i]) {
				s.Floats = appendPoint(s.Floats, t, most, start, end)
			}
		}
		for ; k < len(own.T); k++ {
			s.Floats = appendPoint(s.Floats, own.T[k], own.V[k], start, end)
		}
		if len(s.Floats) > 0 {
			out = append(out, s)
		}
	}
	for _, c := range medians { // of instances that are gone
		lset := target(c)
		if _, left := known[lset.String()]; !left {
			continue
		}
		s := promql.Series{Metric: lset}
		for i, t := range c.T {
			s.Floats = appendPoint(s.Floats, t, c.V[i], start, end)
		}
		out = append(out, s)
	}
	return out
}

func appendPoint(to []promql.FPoint, t int64, v float64, start, end time.Time) []promql.FPoint {
	if math.IsNaN(v) || t < start.UnixMilli() || t > end.UnixMilli() {
		return to
	}
	return append(to, promql.FPoint{T: t, F: v})
}

// Spread repeats each point of m, which are every apart on multiples of it, at
// the steps of a finer grid until the next.
func Spread(m promql.Matrix, every time.Duration, from, end time.Time, step time.Duration) promql.Matrix {
	out := make(promql.Matrix, 0, len(m))
	for _, s := range m {
		fine := promql.Series{Metric: s.Metric}
		i := 0
		for at := from.UnixMilli(); at <= end.UnixMilli(); at += step.Milliseconds() {
			for i+1 < len(s.Floats) && s.Floats[i+1].T <= at {
				i++
			}
			if i < len(s.Floats) && s.Floats[i].T <= at && at < s.Floats[i].T+every.Milliseconds() {
				fine.Floats = append(fine.Floats, promql.FPoint{T: at, F: s.Floats[i].F})
			}
		}
		if len(fine.Floats) > 0 {
			out = append(out, fine)
		}
	}
	return out
}
