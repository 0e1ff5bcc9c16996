package memory

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
)

func TestTail(t *testing.T) {
	t.Parallel()
	s := New()
	const step = 10 * time.Second
	s.AppendMatrix("a", promql.Matrix{{Floats: []promql.FPoint{{T: 10_000, F: 1}, {T: 20_000, F: math.NaN()}, {T: 40_000, F: 2}}}}, step)
	s.AppendMatrix("b", promql.Matrix{{Floats: []promql.FPoint{{T: 40_000, F: 3}}}}, step)
	s.AppendMatrix("early", promql.Matrix{{Floats: []promql.FPoint{{T: 1_000, F: 4}}}}, step)
	tail := s.Tail(func(l labels.Labels) (int64, bool) { return 20_000, l.Get("__name__") != "b" })

	if all := tail.All(); len(all) != 1 {
		t.Fatalf("%d series, want a alone", len(all))
	}
	a := tail.Columns("a")[0]
	wantT := []int64{20_000, 30_000, 40_000, 50_000}
	for i, want := range wantT {
		if i >= len(a.T) || a.T[i] != want {
			t.Fatalf("samples at %v, want %v", a.T, wantT)
		}
	}
	stale := []bool{false, true, false, true}
	for i, want := range stale {
		if got := value.IsStaleNaN(a.V[i]); got != want {
			t.Errorf("the sample at %d is a stale marker: %v, want %v", a.T[i], got, want)
		}
	}
	if !math.IsNaN(a.V[0]) || a.V[2] != 2 {
		t.Errorf("values %v, want NaN, a marker, 2, a marker", a.V)
	}
	// What comes next takes the place of the marker after the last sample.
	tail.AppendMatrix("a", promql.Matrix{{Floats: []promql.FPoint{{T: 50_000, F: 5}}}}, step)
	if a := tail.Columns("a")[0]; a.V[3] != 5 {
		t.Errorf("%v at 50 s, want 5", a.V[3])
	}
	if a := s.Columns("a")[0]; len(a.T) != 5 {
		t.Errorf("the store that it was taken from has %d samples, want 5", len(a.T))
	}
}
