package load

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestExpected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		phases []Phase
		want   float64 // below 0: an error
	}{
		{"constant", Constant(100, time.Second), 100},
		{"up and down", []Phase{{2 * time.Second, 0, 100}, {time.Second, 100, 50}}, 175},
		{"nothing arrives", Constant(0, time.Second), 0},
		{"longest", []Phase{{maxDuration - 1, 0, 0}, {1, 0, 0}}, 0},
		{"most", Constant(MaxCalls, time.Second), MaxCalls},
		{"above the most", Constant(MaxCalls+1, time.Second), -1},
		{"none", nil, -1},
		{"negative rate", Constant(-1, time.Second), -1},
		{"rate that is no number", []Phase{{time.Second, 1, math.NaN()}}, -1},
		{"infinite rate", Constant(math.Inf(1), time.Second), -1},
		{"no duration", Constant(1, 0), -1},
		{"too long", []Phase{{maxDuration, 0, 0}, {1, 0, 0}}, -1},
	} {
		got, err := expected(test.phases)
		if (err != nil) != (test.want < 0) || err == nil && got != test.want {
			t.Errorf("%s: got %v and error %v, want %v", test.name, got, err, test.want)
		}
	}
}

// TestScheduleInverts checks every arrival against the integral of the rate,
// which must have grown by the same random number.
func TestScheduleInverts(t *testing.T) {
	t.Parallel()
	phases := []Phase{
		{2 * time.Second, 100, 100}, {time.Second, 100, 500}, {time.Second, 0, 0},
		{time.Second, 500, 0}, {500 * time.Millisecond, 0, 40}, {time.Second, 10, 10.000001},
	}
	integral := func(at float64) (calls float64) {
		for _, p := range phases {
			x := min(at, p.For.Seconds())
			calls += p.From*x + (p.To-p.From)*x*x/(2*p.For.Seconds())
			at -= x
		}
		return calls
	}
	s := schedule{phases: phases, random: rand.New(rand.NewPCG(7, 0)), gap: Random}
	random := rand.New(rand.NewPCG(7, 0))
	n, mass := 0, random.ExpFloat64()
	for ; ; n++ {
		at, more := s.next()
		if !more {
			if at != 6500*time.Millisecond || integral(6.5) > mass {
				t.Errorf("it ends at %v after %d, expected another at %v", at, n, mass)
			}
			break
		}
		if got := integral(at.Seconds()); math.Abs(got-mass) > 1e-4 {
			t.Fatalf("arrival %d at %v has %v expected before it, want %v", n, at, got, mass)
		}
		mass += random.ExpFloat64()
	}
	if want := integral(6.5); math.Abs(float64(n)-want) > 4*math.Sqrt(want) {
		t.Errorf("%d arrivals, want about %v", n, want)
	}
}

func TestScheduleOfNothing(t *testing.T) {
	t.Parallel()
	s := schedule{phases: Constant(0, time.Second), random: rand.New(rand.NewPCG(1, 0)), gap: Random}
	if at, more := s.next(); more || at != time.Second {
		t.Errorf("got %v, %v; want the end", at, more)
	}
}

func TestVisitorsCalls(t *testing.T) {
	t.Parallel()
	v := Visitors{Calls: [2]int{4, 6}, Jitter: time.Second, Spread: 100 * time.Millisecond}
	a, b := rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(1, 1))
	seen := map[int]bool{}
	late := 0
	for range 200 {
		calls, again := v.calls(a), v.calls(b)
		seen[len(calls)] = true
		for i, after := range calls {
			if after != again[i] {
				t.Fatalf("the same seed gives %v and %v", calls, again)
			}
			if i > 0 && (after < calls[i-1] || after-calls[0] > v.Spread) {
				t.Fatalf("calls %v, want them in order within %v", calls, v.Spread)
			}
		}
		if calls[0] > v.Jitter/2 {
			late++
		}
	}
	if len(seen) != 3 || !seen[4] || !seen[5] || !seen[6] {
		t.Errorf("numbers of calls %v, want 4, 5 and 6", seen)
	}
	if late < 60 || late > 140 {
		t.Errorf("%d of 200 visitors begin after half of the jitter, want about half", late)
	}
	at := Visitors{Calls: [2]int{2, 2}}.calls(a)
	if len(at) != 2 || at[0] != 0 || at[1] != 0 {
		t.Errorf("without jitter and spread: %v, want two at once", at)
	}
}

func TestVisitorsRequest(t *testing.T) {
	t.Parallel()
	valid := Visitors{PerSecond: 1, Asset: "http://127.0.0.1:1/panel.js", Calls: [2]int{4, 6}}
	for name, change := range map[string]func(*Visitors){
		"valid":                   func(*Visitors) {},
		"no rate":                 func(v *Visitors) { v.PerSecond = 0 },
		"rate that is no number":  func(v *Visitors) { v.PerSecond = math.NaN() },
		"most before the fewest":  func(v *Visitors) { v.Calls = [2]int{6, 4} },
		"too many calls":          func(v *Visitors) { v.Calls[1] = maxCallsEach + 1 },
		"negative jitter":         func(v *Visitors) { v.Jitter = -1 },
		"no address":              func(v *Visitors) { v.Asset = "" },
		"address without a host":  func(v *Visitors) { v.Asset = "/panel.js" },
		"address of other scheme": func(v *Visitors) { v.Asset = "ftp://127.0.0.1/" },
	} {
		v := valid
		change(&v)
		if _, err := v.request(); (err != nil) != (name != "valid") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Arrivals of all patterns are one a call expected; how regular they are is the
// variance of the gaps.
func TestGaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		gap      Gap
		variance float64
	}{
		{"random", Random, 1},
		{"dealt to 4", Dealt(4), 1.0 / 4},
		{"dealt to 8", Dealt(8), 1.0 / 8},
		{"batches of 4", Batches(4), 2*4 - 1},
	} {
		const n = 200_000
		r := rand.New(rand.NewPCG(3, 0))
		sum, squares := 0.0, 0.0
		for range n {
			x := c.gap(r)
			sum, squares = sum+x, squares+x*x
		}
		mean := sum / n
		variance := squares/n - mean*mean
		if math.Abs(mean-1) > 0.02 || math.Abs(variance/c.variance-1) > 0.05 {
			t.Errorf("%s: gaps of mean %.3f and variance %.3f, want 1 and %v", c.name, mean, variance, c.variance)
		}
	}
}

// The pattern of a run is that of its Config.
func TestScheduleOfBatches(t *testing.T) {
	t.Parallel()
	s := schedule{phases: Constant(1000, 10*time.Second), random: rand.New(rand.NewPCG(5, 0)), gap: Batches(4)}
	calls, batches, last := 0, 0, time.Duration(-1)
	for at, more := s.next(); more; at, more = s.next() {
		if calls++; at != last {
			batches++
		}
		last = at
	}
	if size := float64(calls) / float64(batches); math.Abs(size-4) > 0.4 || math.Abs(float64(calls)-10_000) > 1_100 {
		t.Errorf("%d calls in batches of %.2f, want about 10,000 in batches of 4", calls, size)
	}
}

// A batch comes at one moment, also in a phase that begins with none.
func TestBatchesFromNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := schedule{phases: []Phase{{time.Second, 0, 50}, {time.Second, 50, 0}}, random: rand.New(rand.NewPCG(seed, 0)), gap: Batches(4)}
		last := time.Duration(0)
		for at, more := s.next(); more; at, more = s.next() {
			if at < last || at > 2*time.Second {
				t.Fatalf("seed %d: a call at %v after one at %v", seed, at, last)
			}
			last = at
		}
	}
}
