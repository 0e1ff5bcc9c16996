package detect

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// TestPlanIsTheEngine holds a plan to what Prometheus' engine makes of the whole
// expression, on random series of two jobs.
func TestPlanIsTheEngine(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	c := &series.Canonical{Store: memory.New(), Start: start, End: start.Add(time.Hour), Timing: series.Timing{Interval: 15 * time.Second}}
	c.Store.SetLookback(c.Timing.Lookback())
	random := rand.New(rand.NewPCG(3, 5))
	for _, name := range []string{"a", "b", "c"} {
		for i := range 8 {
			s := promql.Series{Metric: labels.FromStrings("job", []string{"x", "y"}[i%2], "instance", string(rune('p'+i)))}
			for k := 0; k < 241; k++ {
				if random.IntN(30) == 0 {
					k += random.IntN(40)
				}
				f := math.Floor(10 * random.Float64())
				if name == "a" && i >= 6 {
					f = 0 // one of each job passes no left side
				}
				s.Floats = append(s.Floats, promql.FPoint{T: start.Add(time.Duration(k) * c.Timing.Interval).UnixMilli(), F: f})
			}
			c.Store.AppendMatrix("contend:"+name, promql.Matrix{s}, c.Timing.Interval)
		}
	}
	for _, expr := range []string{
		"contend:a > 5",
		"contend:a > 5 and contend:b > 5",
		"contend:a > 5 and contend:b > 5 and contend:c > 5",
		"contend:a > 8 or contend:b > 8",
		"contend:a > 5 unless contend:b > 5",
		"(contend:a > 7 or contend:b > 7 and contend:c < 3) unless contend:c > 8",
		"contend:a > 5 and (contend:b > 5 or contend:c > 5)",
		"contend:a > 5 unless contend:b > 5 unless contend:c > 5",
		"contend:a > 2 * contend:b and contend:c",
		"contend:a > 5 and on (job) (sum by (job) (contend:b) > 18)",
		"contend:a > 5 unless on (job) (max by (job) (contend:b) > 8)",
		"contend:a > 8 and on (job) contend:b > 8",
		"contend:a > 5 and contend:b offset 5m > 5",
		"contend:a > 5 and max_over_time((contend:b - contend:c)[5m:15s]) > 6",
		"contend:a > 5 and contend:b > on (job) group_left () max by (job) (contend:c)",
		"contend:a > 8 and (contend:b > 2 and on (job) contend:c > 8)",
		"contend:a > 2 unless (contend:b > 2 and on (job) contend:c > 8)",
		"contend:a and (contend:b unless on (job) contend:c > 8)",
		`contend:a > 8 and contend:a > on (job) group_left () 0 * contend:c{instance="v"}`,
		`contend:a > 8 and contend:a > scalar(0 * contend:c{instance="v"})`,
		"contend:a > 8 and on (job) (contend:b > 8 and contend:c > 3)",
		"contend:a > 8 and on (job) (contend:c == 9)",
		"contend:a > 100 and contend:b",
	} {
		p := &plan{t.Context(), c}
		got, err := p.run(expr, scope{store: c.Store, start: c.Start, end: c.End})
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		want, err := c.Store.Range(t.Context(), expr, c.Start, c.End, c.Timing.Interval)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		type point struct {
			instanceKey
			t int64
		}
		points := map[point]float64{}
		for i := range want {
			for _, f := range want[i].Floats {
				points[point{keyOf(&want[i]), f.T}] = f.F
			}
		}
		if len(points) == 0 && expr != "contend:a > 100 and contend:b" {
			t.Errorf("%s: nothing to compare", expr)
		}
		for i := range got {
			for _, f := range got[i].Floats {
				k := point{keyOf(&got[i]), f.T}
				if v, ok := points[k]; !ok || v != f.F {
					t.Fatalf("%s: %v is %v, the engine has %v (%v)", expr, k, f.F, v, ok)
				}
				delete(points, k)
			}
		}
		if len(points) > 0 {
			t.Errorf("%s: the engine has %d points more", expr, len(points))
		}
	}
}

// TestSpans holds the alert's states to what a server does; Prometheus' own
// code is compared in testdata/crosscheck.
func TestSpans(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0).UTC()
	const s = time.Second
	at := func(n int) time.Time { return start.Add(time.Duration(n) * s) }
	for _, tt := range []struct {
		name       string
		holds      []int64 // seconds
		end        int
		hold, keep time.Duration
		want       []Span
	}{
		{name: "never", end: 5},
		{name: "at once", holds: []int64{1, 2}, end: 5, want: []Span{{at(1), at(1), at(3)}}},
		{name: "pending, then over", holds: []int64{1, 2}, end: 5, hold: 2 * s, want: []Span{{at(1), time.Time{}, at(3)}}},
		{name: "fires after its hold", holds: []int64{1, 2, 3}, end: 5, hold: 2 * s, want: []Span{{at(1), at(3), at(4)}}},
		{name: "a gap starts the hold again", holds: []int64{1, 2, 4, 5, 6}, end: 7, hold: 2 * s, want: []Span{{at(1), time.Time{}, at(3)}, {at(4), at(6), at(7)}}},
		{name: "kept over a gap", holds: []int64{1, 3}, end: 6, keep: 2 * s, want: []Span{{at(1), at(1), at(6)}}},
		{name: "kept, and over", holds: []int64{1}, end: 6, keep: 3 * s, want: []Span{{at(1), at(1), at(5)}}},
		{name: "still firing", holds: []int64{4, 5}, end: 5, want: []Span{{Active: at(4), Fired: at(4)}}},
		{name: "still kept", holds: []int64{4}, end: 5, keep: 9 * s, want: []Span{{Active: at(4), Fired: at(4)}}},
		{name: "pending is not kept", holds: []int64{1, 3}, end: 4, hold: s, keep: 9 * s, want: []Span{{at(1), time.Time{}, at(2)}, {at(3), time.Time{}, at(4)}}},
	} {
		var ms []int64
		for _, h := range tt.holds {
			ms = append(ms, h*1000)
		}
		got := Spans(ms, start, at(tt.end), s, tt.hold, tt.keep)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			continue
		}
		for i := range got {
			g, w := got[i], tt.want[i]
			if !g.Active.Equal(w.Active) || !g.Fired.Equal(w.Fired) || !g.Resolved.Equal(w.Resolved) {
				t.Errorf("%s: %v, want %v", tt.name, g, w)
			}
		}
	}
}
