package headroom

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// How a reading reads, and what it has to reach.
var readings = []struct {
	name string
	read func(low, today Window, counts []float64) Forecast
	// near is where 9 of 10 numbers must be within 20 % of the truth.
	near func(l lock, a arrivals, rho float64) bool
	// bound is where no number may be more than 1.5 times too optimistic, nil for everywhere.
	bound func(l lock, rho float64) bool
	// always is where it must not refuse.
	always func(l lock, a arrivals, rho float64) bool
}{
	{
		name:   "direct",
		read:   func(_, today Window, _ []float64) Forecast { return Direct(today) },
		near:   func(l lock, _ arrivals, _ float64) bool { return l.growth == 0 },
		bound:  oneLevel,
		always: func(lock, arrivals, float64) bool { return true },
	},
	{
		name:   "levels, direct",
		read:   func(low, today Window, _ []float64) Forecast { return Levels(low, today) },
		near:   func(lock, arrivals, float64) bool { return true },
		always: func(_ lock, _ arrivals, rho float64) bool { return true },
	},
	{
		name: "levels, share",
		read: func(low, today Window, _ []float64) Forecast {
			return Levels(waitsOnly(low), waitsOnly(today))
		},
		near:   func(l lock, a arrivals, _ float64) bool { return l.growth == 0 && a.name != "spells" },
		always: func(l lock, a arrivals, rho float64) bool { return l.growth == 0 && a.name == "random" },
	},
	{
		name: "levels, queue",
		read: func(low, today Window, _ []float64) Forecast {
			low, today = waitsOnly(low), waitsOnly(today)
			low.Acquisitions, today.Acquisitions = 0, 0
			return Levels(low, today)
		},
		near: func(l lock, a arrivals, rho float64) bool {
			return l.growth == 0 && l.name != "two-class" && (a.name == "random" || rho >= 0.6 && a.name != "spells")
		},
	},
	{
		name: "share",
		read: func(_, today Window, counts []float64) Forecast {
			today.Arrivals = PatternOf(counts)
			return Share(today)
		},
		near:   func(l lock, _ arrivals, _ float64) bool { return l.growth == 0 },
		bound:  oneLevel,
		always: func(_ lock, a arrivals, _ float64) bool { return a.name == "random" },
	},
	{
		name: "queue",
		read: func(_, today Window, counts []float64) Forecast {
			today.Arrivals = PatternOf(counts)
			return Queue(today)
		},
		near:   func(l lock, _ arrivals, _ float64) bool { return l.name == "fixed" || l.name == "exponential" },
		bound:  func(l lock, rho float64) bool { return l.growth == 0 || rho >= 0.4 },
		always: func(l lock, a arrivals, _ float64) bool { return l.growth == 0 && a.name == "random" },
	},
	{
		name: "all",
		read: func(low, today Window, counts []float64) Forecast {
			today.Arrivals = PatternOf(counts)
			return Of(low, today)
		},
		near:   func(l lock, a arrivals, rho float64) bool { return l.growth == 0 || rho >= 0.4 },
		always: func(lock, arrivals, float64) bool { return true },
	},
}

// oneLevel is where a hold that grows makes 1/ρ no more than 1.4 times too
// optimistic, which leaves something for chance: one level cannot see it grow.
func oneLevel(l lock, rho float64) bool {
	return 1/rho <= 1.4*l.saturates(rho, Window{Elapsed: time.Second, Acquisitions: rate})
}

// TestPatternOf: no pattern but random passes for random.
func TestPatternOf(t *testing.T) {
	want := map[string]Pattern{"random": Random, "robin 4": Smooth, "robin 8": Smooth, "batches": Bursts}
	for _, a := range append(patterns, dealt(2), dealt(20)) {
		seen := map[Pattern]int{}
		const runs = 50
		for seed := range uint64(runs) {
			_, counts := simulate(locks[0], a, 0.3, 1, time.Minute, seed)
			seen[PatternOf(counts)]++
		}
		switch p := want[a.name]; {
		case p != Unknown && 10*seen[p] < 9*runs:
			t.Errorf("%s: seen as %v", a.name, seen)
		case p != Random && seen[Random] > 0:
			t.Errorf("%s: %d of %d seen as random", a.name, seen[Random], runs)
		}
		t.Log(a.name, seen)
	}
	for name, counts := range map[string][]float64{
		"none": nil, "few": make([]float64, 199), "idle": make([]float64, 500),
		"negative": slices.Repeat([]float64{5, -1}, 200), "no numbers": slices.Repeat([]float64{5, math.NaN()}, 200),
		"infinite":                   slices.Repeat([]float64{5, math.Inf(1)}, 200),
		"too many at a time to tell": slices.Repeat([]float64{900, 960, 930, 870}, 100),
	} {
		if p := PatternOf(counts); p != Unknown {
			t.Errorf("%s: pattern %v, want unknown", name, p)
		}
	}
}

// TestIrregular: who claims random arrivals is contradicted where waits can.
func TestIrregular(t *testing.T) {
	for _, a := range []arrivals{dealt(8), {"batches", batches}} {
		w, _ := simulate(locks[0], a, 0.8, 1, 5*time.Minute, 1)
		if a.name == "batches" {
			w, _ = simulate(locks[0], a, 0.2, 1, 5*time.Minute, 1)
		}
		w.Arrivals = Random
		for _, f := range []Forecast{Share(w), Queue(w)} {
			if !strings.Contains(f.Refused, "regular or come in bursts") {
				t.Errorf("%s: want a contradiction, got %+v", a.name, f)
			}
		}
	}
}

// good is half of the time held for 5 ms, by every reading: random arrivals, fixed holds.
var good = Window{
	Elapsed: time.Minute, Acquisitions: 6000, Contentions: 3000, Delay: 15 * time.Second, Arrivals: Random,
	Snapshots: 600, Inside: 300, Changes: 300, CPU: 30 * time.Second,
}

func TestRefusals(t *testing.T) {
	quiet := func(w *Window) { w.Snapshots, w.Inside, w.Changes = 0, 0, 0 }
	half := func(w *Window) {
		quiet(w)
		w.Acquisitions, w.Contentions, w.Delay = 3000, 750, 2500*time.Millisecond
	}
	levels := func(first func(*Window)) func(Window) Forecast {
		return func(w Window) Forecast {
			low := w
			first(&low)
			return Levels(low, w)
		}
	}
	for _, c := range []struct {
		name   string
		read   func(Window) Forecast
		change func(*Window)
		want   string // in the refusal; "" for a number
	}{
		{"direct", Direct, func(*Window) {}, ""},
		{"CPU", OnCPU, func(*Window) {}, ""},
		{"share", Share, func(*Window) {}, ""},
		{"queue", Queue, func(*Window) {}, ""},
		{"all", func(w Window) Forecast { return Of(w) }, func(*Window) {}, ""},
		{"levels of waits", levels(half), quiet, ""},

		{"no time", Direct, func(w *Window) { w.Elapsed = 0 }, "saw 0s"},
		{"time that runs backwards", Share, func(w *Window) { w.Elapsed = -time.Minute }, "saw -1m0s"},
		{"a glance", Queue, func(w *Window) { w.Elapsed = 999 * time.Millisecond }, "saw 999ms"},
		{"a second", Share, func(w *Window) {
			w.Elapsed, w.Acquisitions, w.Contentions, w.Delay = time.Second, 1600, 800, 250*time.Millisecond
		}, ""},
		{"profiles in the wrong order", Queue, func(w *Window) { w.Delay = -time.Second }, "is the first the earlier one"},
		{"negative contentions", Share, func(w *Window) { w.Contentions = -3 }, "is the first the earlier one"},
		{"no number", Share, func(w *Window) { w.Acquisitions = math.NaN() }, "saw NaN"},
		{"an infinite number", Queue, func(w *Window) { w.Contentions = math.Inf(1) }, "saw +Inf"},

		{"no snapshot", Direct, quiet, "saw none"},
		{"few snapshots", Direct, func(w *Window) { w.Snapshots, w.Inside, w.Changes = 29, 20, 5 }, "saw 29; take more"},
		{"enough snapshots", Direct, func(w *Window) { w.Snapshots, w.Inside, w.Changes = 30, 27, 6 }, ""},
		{"nobody inside", Direct, func(w *Window) { w.Inside, w.Changes = 0, 0 }, "at most 0.0066 of the time"},
		{"always inside", Direct, func(w *Window) { w.Inside, w.Changes = w.Snapshots, 0 }, ""},
		{"more inside than snapshots", Direct, func(w *Window) { w.Inside = 601 }, "no more than the 600 snapshots"},
		{"changes that cannot be", Direct, func(w *Window) { w.Inside, w.Changes = 10, 21 }, "saw 10 inside and 21 changes"},
		{"one long pile-up", Direct, func(w *Window) { w.Changes = 2 }, "look for longer"},
		{"too rarely inside for the snapshots", Direct, func(w *Window) { w.Inside, w.Changes = 20, 38 }, "look for longer"},

		{"no CPU", OnCPU, func(w *Window) { w.CPU = 990 * time.Millisecond }, "saw 99;"},
		{"two cores", OnCPU, func(w *Window) { w.CPU = 2 * time.Minute }, "2.00 cores"},

		{"a healthy process", Share, func(w *Window) { w.Contentions = 99 }, "expected 100 contentions or more, saw 99"},
		{"a healthy process by queue", Queue, func(w *Window) { w.Contentions = 99 }, "expected 100 contentions or more, saw 99"},
		{"one in a hundred kept", Share, func(w *Window) { w.MutexFraction = 100 }, "saw 30 of about 3000"},
		{"one in ten kept", Share, func(w *Window) { w.MutexFraction = 10 }, ""},
		{"waits below the block rate", Queue, func(w *Window) { w.BlockRate = time.Second }, "in the sample, saw 15 of"},
		{"contentions without delay", Queue, func(w *Window) { w.Delay = 0 }, "expected a delay"},
		{"acquisitions not known", Share, func(w *Window) { w.Acquisitions = 0 }, "acquisitions per request"},
		{"a lock taken elsewhere too", Share, func(w *Window) { w.Acquisitions = 2000 }, "saw 3000 of 2000"},
		{"holds too short to be seen", Share, func(w *Window) {
			w.Acquisitions, w.Contentions, w.Delay = 600e3, 300e3, 15*time.Second
			w.Elapsed = 50 * time.Second
		}, "saw 41"},
		{"arrivals not known", Share, func(w *Window) { w.Arrivals = Unknown }, "known to be random"},
		{"arrivals not known, by queue", Queue, func(w *Window) { w.Arrivals = Unknown }, "known to be random"},
		{"behind a balancer", Share, func(w *Window) { w.Arrivals = Smooth }, "deals out in turn"},
		{"bursts", Queue, func(w *Window) { w.Arrivals = Bursts }, "saw bursts"},
		{"shorter waits than random", Share, func(w *Window) { w.Delay = 5 * time.Second }, "regular or come in bursts"},
		{"a delay with its own error", Queue, func(w *Window) { w.Contentions, w.DelayError = 0, time.Second }, ""},
		{"a delay with a large error", Queue, func(w *Window) { w.Contentions, w.DelayError = 0, 10*time.Second }, "look for longer"},
		{"a small delay with its own error", Queue, func(w *Window) { w.Contentions, w.Delay, w.DelayError = 0, time.Millisecond, time.Microsecond }, "saw a delay of about"},

		{"one level", func(w Window) Forecast { return Levels(w) }, func(*Window) {}, "two loads or more"},
		{"equal levels", levels(func(*Window) {}), func(*Window) {}, "saw 1.00 times"},
		{"a level without its load", levels(func(w *Window) { w.Acquisitions = 0 }), func(*Window) {}, "one without"},
		{"a bad level", levels(func(w *Window) { w.Elapsed = 0 }), func(*Window) {}, "saw 0s"},
		{"an idle level", levels(func(w *Window) { half(w); w.Contentions, w.Delay = 20, time.Second }), quiet, "level 1 of 2: expected 100 contentions"},
		{"waits that fall as load grows", levels(func(w *Window) { half(w); w.Contentions, w.Delay = 2900, 20*time.Second }), quiet, "saw none; are these"},
		{"no window", func(Window) Forecast { return Of() }, func(*Window) {}, "saw none"},
	} {
		w := good
		c.change(&w)
		f := c.read(w)
		check(t, f)
		if c.want == "" && f.Refused != "" || !strings.Contains(f.Refused, c.want) {
			t.Errorf("%s: refused %q, want %q", c.name, f.Refused, c.want)
		}
	}
}

// TestGood has every reading of a lock that is held for 5 ms half of the time.
func TestGood(t *testing.T) {
	half := good
	half.Acquisitions, half.Contentions, half.Delay, half.Inside, half.Changes = 3000, 750, 2500*time.Millisecond, 150, 225
	for _, c := range []struct {
		f          Forecast
		confidence Confidence
		assumes    string
	}{
		{Direct(good), High, assumesMoments},
		{OnCPU(good), Medium, assumesCPU},
		{Levels(half, good), High, "between the levels"},
		{Levels(waitsOnly(half), waitsOnly(good)), Medium, "as they do for random arrivals"},
		{Share(good), Low, assumesRandom},
		{Queue(good), Low, assumesHolds},
		{Of(half, good), High, assumesMoments},
	} {
		check(t, c.f)
		if s := c.f.Saturates; !(s.Low <= 2 && 2 <= s.High && math.Abs(s.At-2) < 0.3) || c.f.Confidence != c.confidence || !strings.Contains(strings.Join(c.f.Assumes, "\n"), c.assumes) {
			t.Errorf("%+v", c.f)
		}
		if off := math.Abs(c.f.Holding.Seconds()/0.005 - 1); off > 0.15 {
			t.Errorf("by %s a hold takes %v, want 5ms", c.f.Reading, c.f.Holding)
		}
	}
}

// A level at which too little was seen costs the others nothing, whichever it is
// but today's, and however it is read.
func TestIdleLevel(t *testing.T) {
	half := good
	half.Acquisitions, half.Contentions, half.Delay, half.Inside, half.Changes = 3000, 750, 2500*time.Millisecond, 150, 225
	idle := good
	idle.Acquisitions, idle.Contentions, idle.Delay, idle.Snapshots, idle.Inside, idle.Changes = 600, 30, 60*time.Millisecond, 20, 1, 2
	byQueue := func(w Window) Window {
		w = waitsOnly(w)
		w.Load, w.Acquisitions = w.Acquisitions, 0
		return w
	}
	for name, of := range map[string]func(Window) Window{"all": func(w Window) Window { return w }, "share": waitsOnly, "queue": byQueue} {
		two := Levels(of(half), of(good))
		if two.Refused != "" {
			t.Fatalf("%s: two levels: %s", name, two.Refused)
		}
		for _, windows := range [][]Window{{of(idle), of(half), of(good)}, {of(half), of(idle), of(good)}} {
			if f := Levels(windows...); f.Refused != two.Refused || f.Saturates != two.Saturates {
				t.Errorf("%s: with an idle level %+v, want %+v", name, f, two)
			}
		}
		none := of(idle)
		none.Contentions, none.Delay = 0, 0
		if f := Levels(none, of(half), of(good)); f.Refused != two.Refused || f.Saturates != two.Saturates || f.Confidence != two.Confidence {
			t.Errorf("%s: with a level at which nobody waited %+v, want %+v", name, f, two)
		}
		if f := Levels(of(half), of(good), of(idle)); !strings.HasPrefix(f.Refused, "level 3 of 3: expected ") {
			t.Errorf("%s: today is idle: %+v", name, f)
		}
	}
}

// Numbers at the ends of what there is make no nonsense.
func TestExtremes(t *testing.T) {
	levels := func(low, high float64) []Window {
		a, b := good, good
		a.Inside, a.Changes = 150, 225
		a.Acquisitions, b.Acquisitions, a.Load, b.Load = 0, 0, low, high
		return []Window{a, b}
	}
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{5e-324, 5e-324, "expected loads that differ by 1.2 times or more, saw 1.00 times"},
		{5e-324, 1e9, "expected loads of one unit, saw 4.9e-324 and 1e+09"},
		{1, 1.1e6, "expected loads of one unit"},
		{1, 2, ""},
	} {
		f := Levels(levels(c.low, c.high)...)
		check(t, f)
		if c.want == "" && f.Refused != "" || !strings.HasPrefix(f.Refused, c.want) {
			t.Errorf("loads of %v and %v: refused %q, want %q", c.low, c.high, f.Refused, c.want)
		}
	}
	always := good
	always.Snapshots, always.Inside, always.Changes = 229, 229, 0
	if f := Direct(always); f.Utilisation.At != 1 || f.Saturates.Low != 1 || f.Saturates.At != 1 {
		t.Errorf("somebody is always inside: %+v", f)
	}
	for n, want := range map[float64]time.Duration{1e-9: 0, 0.99: 0, 1: 15 * time.Second} {
		w := good
		w.Elapsed, w.Acquisitions = 30*time.Second, n
		f := Direct(w)
		check(t, f)
		if f.Refused != "" || f.Holding != want {
			t.Errorf("%v acquisitions: held for %v, want %v; %s", n, f.Holding, want, f.Refused)
		}
	}
}

func TestCombine(t *testing.T) {
	number := func(r Reading, at float64, c Confidence) Forecast {
		return Forecast{Reading: r, Confidence: c, Saturates: Range{at / 1.1, at, at * 1.1}, Utilisation: Range{0.9 / at, 1 / at, min(1, 1.1/at)}}
	}
	for _, c := range []struct {
		name     string
		readings []Forecast
		want     Reading
		at       float64
		means    string
	}{
		{"nothing", nil, "", 0, ""},
		{"all refused", []Forecast{refuse(ByQueue, "q"), refuse(ByDirect, "d")}, ByDirect, 0, ""},
		{"order", []Forecast{number(ByQueue, 2, Low), number(ByShare, 2, Low), number(ByDirect, 2, High)}, ByDirect, 2, ""},
		{"a refusal gives way", []Forecast{refuse(ByDirect, "d"), number(ByQueue, 2, Low)}, ByQueue, 2, ""},
		{"regular arrivals", []Forecast{number(ByDirect, 2, High), number(ByShare, 8, Low)}, ByDirect, 2, "more regular than random"},
		{"bursts", []Forecast{number(ByDirect, 4, High), number(ByQueue, 1.5, Low)}, ByDirect, 4, "bursts"},
		{"growing holds", []Forecast{number(ByDirect, 5, Medium), number(ByLevels, 3, High)}, ByLevels, 3, "did not stay alike"},
		{"levels of waits do not overrule", []Forecast{number(ByDirect, 5, Medium), number(ByLevels, 3, Medium)}, ByDirect, 5, "holds grow with load"},
		{"CPU misses what a holder sleeps", []Forecast{number(ByDirect, 6, Medium), number(ByDirect, 2, High)}, ByDirect, 2, "holds do not only compute"},
	} {
		f := Combine(c.readings...)
		if f.Reading != c.want || f.Saturates.At != c.at || (f.Refused == "") != (c.at > 0) || len(f.Evidence) != max(0, len(c.readings)-1) {
			t.Errorf("%s: %+v", c.name, f)
		}
		if said := strings.Join(f.Assumes, "\n"); !strings.Contains(said, c.means) || c.means == "" && said != "" {
			t.Errorf("%s: says %q, want %q", c.name, said, c.means)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add(int64(time.Minute), 6000.0, 0.0, 3000.0, int64(15*time.Second), int64(0), int64(0), 1, 600, 300, 300, int64(30*time.Second), uint8(1), 0.5)
	f.Add(int64(-1), math.NaN(), math.Inf(1), -1.0, int64(-1), int64(-1), int64(-1), -1, -1, -1, -1, int64(-1), uint8(9), math.NaN())
	f.Add(int64(math.MaxInt64), math.MaxFloat64, 1e-300, 1e300, int64(math.MaxInt64), int64(1), int64(math.MaxInt64), math.MaxInt, math.MaxInt, math.MaxInt, 1, int64(math.MaxInt64), uint8(1), 1e-9)
	f.Fuzz(func(t *testing.T, elapsed int64, acquisitions, load, contentions float64, delay, delayError, blockRate int64, fraction, snapshots, inside, changes int, cpu int64, pattern uint8, part float64) {
		w := Window{
			time.Duration(elapsed), acquisitions, load, Pattern(pattern), contentions, time.Duration(delay), time.Duration(delayError),
			time.Duration(blockRate), fraction, snapshots, inside, changes, time.Duration(cpu),
		}
		low := w
		low.Acquisitions, low.Load, low.Contentions, low.Delay = part*w.Acquisitions, part*w.Load, part*part*w.Contentions, time.Duration(part*part*float64(w.Delay))
		check(t, Of(w))
		check(t, Of(low, w))
		check(t, Levels(waitsOnly(low), waitsOnly(w)))
		PatternOf(slices.Repeat([]float64{acquisitions, load, contentions}, 100))
	})
}

func ExampleOf() {
	f := Of(Window{Elapsed: 30 * time.Second, Acquisitions: 2400, Snapshots: 600, Inside: 250, Changes: 210})
	fmt.Printf("held %.0f %% of the time, for %v, saturates at %.1f to %.1f times today's load (%s, %s confidence)\n",
		100*f.Utilisation.At, f.Holding.Round(time.Millisecond), f.Saturates.Low, f.Saturates.High, f.Reading, f.Confidence)
	for _, a := range f.Assumes {
		fmt.Println("if", a)
	}
	// Output:
	// held 42 % of the time, for 5ms, saturates at 2.1 to 2.7 times today's load (direct, medium confidence)
	// if snapshots were taken at moments that have nothing to do with the lock
	// if the order of the snapshots says how independent they are
	// if a hold takes as long under more load; if it grows in step with the load, expect 1.5 times
}

func waitsOnly(w Window) Window {
	w.Snapshots, w.Inside, w.Changes = 0, 0, 0
	return w
}

// TestReach holds every reading to what it must reach, of locks of five kinds
// under five patterns of arrivals. Its table, go test -v, is the mean of forecast
// by truth, with how many of the numbers were within 20 % and how many brackets
// had the truth in them.
func TestReach(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	const runs = 10
	utilisations := []float64{0.2, 0.4, 0.6, 0.8}
	table := map[string]*cell{}
	at := func(reading, pattern, lock string, rho float64) *cell {
		key := fmt.Sprint(reading, pattern, lock, rho)
		if table[key] == nil {
			table[key] = &cell{}
		}
		return table[key]
	}
	for _, a := range patterns {
		for _, l := range locks {
			for _, rho := range utilisations {
				elapsed := 5 * time.Minute
				if rho < 0.3 {
					elapsed = 20 * time.Minute // for levels: the cliff is five times away
				}
				for seed := range uint64(runs) {
					low, _ := simulate(l, a, rho, 0.5, elapsed, 2*seed)
					today, counts := simulate(l, a, rho, 1, elapsed, 2*seed+1)
					for i := range readings {
						f := readings[i].read(low, today, counts)
						truth := l.saturates(rho, today)
						at(readings[i].name, a.name, l.name, rho).add(f, truth)
						check(t, f)
						if readings[i].name == "direct" && f.IfGrowing > truth {
							t.Errorf("%s hold under %s arrivals at %v: %.2f times if it grows with the load, want no more than %.2f", l.name, a.name, rho, f.IfGrowing, truth)
						}
					}
				}
			}
		}
	}
	for _, r := range readings {
		var lines strings.Builder
		for _, a := range patterns {
			for _, l := range locks {
				var all cell
				fmt.Fprintf(&lines, "\n%-8s %-12s", a.name, l.name)
				for _, rho := range utilisations {
					c := at(r.name, a.name, l.name, rho)
					fmt.Fprintf(&lines, "  %-14s", c)
					all.given, all.inside = all.given+c.given, all.inside+c.inside
					where := fmt.Sprintf("%s of a %s hold under %s arrivals at %v", r.name, l.name, a.name, rho)
					if (r.bound == nil || r.bound(l, rho)) && c.worst > 1.5 {
						t.Errorf("%s: %.2f times too optimistic", where, c.worst)
					}
					if r.near(l, a, rho) && 10*c.near < 9*c.given {
						t.Errorf("%s: %d of %d within 20 %%, on average %.2f of the truth", where, c.near, c.given, c.ratio/float64(c.given))
					}
					if r.always != nil && r.always(l, a, rho) && c.given < runs {
						t.Errorf("%s: %d of %d refused", where, c.runs-c.given, c.runs)
					}
				}
				plain := (l.name == "fixed" || l.name == "exponential") && a.name != "spells"
				if plain && 10*all.inside < 9*all.given {
					t.Errorf("%s of a %s hold under %s arrivals: %d of %d brackets hold the truth", r.name, l.name, a.name, all.inside, all.given)
				}
			}
		}
		t.Logf("%s, at a utilisation of %v%s", r.name, utilisations, lines.String())
	}
}

// check is what holds for every forecast.
func check(t *testing.T, f Forecast) {
	t.Helper()
	for _, r := range append([]Forecast{f}, f.Evidence...) {
		u, s := r.Utilisation, r.Saturates
		if r.Refused != "" {
			if s != (Range{}) || u != (Range{}) || r.Holding != 0 || r.IfGrowing != 0 || r.Confidence != "" || r.Assumes != nil {
				t.Errorf("a refused forecast has numbers: %+v", r)
			}
			continue
		}
		if !(1 <= s.Low && s.Low <= s.At && s.At <= s.High && s.High <= maxSpread*s.Low && !math.IsInf(s.High, 0)) {
			t.Errorf("saturates at %+v", s)
		}
		if !(0 < u.Low && u.Low <= u.At && u.At <= u.High && u.High <= 1) {
			t.Errorf("utilisation %+v", u)
		}
		if r.Holding < 0 || !(r.Growth >= 0 && r.Growth <= 1) || !(r.Variability >= 0) || r.IfGrowing > s.Low || r.Confidence == "" || len(r.Assumes) == 0 {
			t.Errorf("nonsense: %+v", r)
		}
	}
}
