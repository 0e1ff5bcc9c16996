package series

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series/memory"
)

// ragged has instances of two jobs that come, go and have holes.
func ragged(t Timing, start time.Time, steps int) *memory.Store {
	store := memory.New()
	store.SetLookback(t.Lookback())
	random := rand.New(rand.NewPCG(7, 9))
	for _, signal := range []string{"inflight", "cpu", "start_time", "restarts", "up", "arrivals", "latency"} {
		for i := range 6 {
			job := []string{"a", "b"}[i%2]
			from, to := random.IntN(steps/2), steps-random.IntN(steps/3)
			s := promql.Series{Metric: labels.FromStrings("job", job, "instance", string(rune('p'+i)))}
			for k := from; k < to; k++ {
				if random.IntN(40) == 0 {
					k += random.IntN(60)
				}
				s.Floats = append(s.Floats, promql.FPoint{T: start.Add(time.Duration(k) * t.Interval).UnixMilli(), F: math.Floor(20 * random.Float64())})
			}
			store.AppendMatrix("contend:"+signal, promql.Matrix{s}, t.Interval)
		}
	}
	return store
}

// TestRecordsAreTheirExpressions holds the two short cuts of AddRecords (coarse
// subqueries, baselines by hand) to what the engine makes of each expression at each step.
func TestRecordsAreTheirExpressions(t *testing.T) {
	t.Parallel()
	for _, timing := range []Timing{
		{Interval: 15 * time.Second}, {Interval: 30 * time.Second}, {Interval: time.Minute},
		{Interval: 250 * time.Millisecond, Factor: 60}, {Interval: 5 * time.Second},
	} {
		start := time.Unix(1_800_000_000, 0)
		const steps = 700
		from, end := start.Add(200*timing.Interval), start.Add((steps+30)*timing.Interval)
		store := ragged(timing, start, steps)
		if err := AddRecords(t.Context(), store, timing, start, from, end); err != nil {
			t.Fatal(err)
		}
		compared := 0
		for _, r := range Records() {
			expr, err := timing.Expand(r.Expr)
			if err != nil {
				t.Fatal(err)
			}
			want, err := store.Range(t.Context(), expr, from, end, timing.Interval)
			if err != nil {
				t.Fatal(err)
			}
			got, err := store.Range(t.Context(), r.Name, from, end, timing.Interval)
			if err != nil {
				t.Fatal(err)
			}
			compared += compareMatrices(t, timing, r.Name, got, want)
		}
		if compared < 1000 {
			t.Errorf("%v: compared %d values only", timing, compared)
		}
	}
}

func compareMatrices(t *testing.T, timing Timing, name string, got, want promql.Matrix) int {
	t.Helper()
	type point struct {
		job, instance string
		t             int64
	}
	points := func(m promql.Matrix) map[point]float64 {
		out := map[point]float64{}
		for _, s := range m {
			for _, p := range s.Floats {
				out[point{s.Metric.Get("job"), s.Metric.Get("instance"), p.T}] = p.F
			}
		}
		return out
	}
	g, w := points(got), points(want)
	if len(g) != len(w) {
		t.Errorf("%v %s: %d values, the engine has %d", timing, name, len(g), len(w))
	}
	for k, v := range w {
		if x, ok := g[k]; !ok || x != v {
			t.Errorf("%v %s: %v is %v (%v), the engine has %v", timing, name, k, x, ok, v)
			break
		}
	}
	return len(w)
}
