package contendtest

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// simulate has n callers compute for a mean time of 1 and hold a lock for a mean
// hold, first come first served, and returns the share of time it is held, how many wait, and the
// share of time in which somebody does.
func simulate(n int, hold float64, think, held func() float64) (rho, waiting, busy float64) {
	ready := make([]float64, n) // when each comes
	for i := range ready {
		ready[i] = think()
	}
	const calls = 50000
	free, covered := 0.0, 0.0
	for range calls {
		first := 0
		for i := range ready {
			if ready[i] < ready[first] {
				first = i
			}
		}
		came := ready[first]
		begins := max(came, free)
		// First come, first served: who waits now began after all who came before.
		waiting += begins - came
		busy += max(0, begins-max(came, covered))
		covered = max(covered, begins)
		h := hold * held()
		rho += h
		free = begins + h
		ready[first] = free + think()
	}
	return rho / free, waiting / free, busy / free
}

// TestReadings holds both readings to locks whose utilisation is known.
func TestReadings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	same := func() float64 { return 1 }
	for _, tt := range []struct {
		name        string
		think, held func() float64
		low, high   float64 // of what is read by what is true
	}{
		{"random calls, holds alike", r.ExpFloat64, same, 0.9, 1.15},
		{"random calls, exponential holds", r.ExpFloat64, r.ExpFloat64, 0.95, 1.5},
		// In step, callers come one after the other and hardly wait before the lock is full, as the package says.
		{"calls nearly in step", func() float64 { return 0.9 + 0.2*r.Float64() }, same, 0.2, 1.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ratios []float64
			for _, n := range []int{2, 4, 8, 32} {
				for _, of := range []float64{0.1, 0.3, 0.5, 0.8, 1.5, 8} { // utilisation if none waited
					hold := of / float64(n) / (1 - min(0.9, of/float64(n)))
					rho, waiting, busy := simulate(n, hold, tt.think, tt.held)
					read := min(byQueue(waiting, float64(n)), byWaiters(busy, float64(n)))
					t.Logf("%2d callers, offered %.1f: held %.3f, by queue %.3f, by waiters %.3f", n, of, rho, byQueue(waiting, float64(n)), byWaiters(busy, float64(n)))
					if waiting > 1e-3 {
						ratios = append(ratios, read/rho)
					}
				}
			}
			if len(ratios) < 10 {
				t.Fatalf("%d readings, want most", len(ratios))
			}
			if slices.Min(ratios) < tt.low || slices.Max(ratios) > tt.high {
				t.Errorf("read %.2f to %.2f of what is true, want %v to %v", slices.Min(ratios), slices.Max(ratios), tt.low, tt.high)
			}
		})
	}
}
