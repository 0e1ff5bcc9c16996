package headroom

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A lock of the simulation: holds of mean 1 by some distribution, and what part of
// the hold at today's load is there because of the load.
type lock struct {
	name   string
	hold   func(*rand.Rand) float64
	growth float64
}

func fixedHold(*rand.Rand) float64 { return 1 }

// twoClass has a squared coefficient of variation of 9: every 20th hold is 14 times the mean.
func twoClass(r *rand.Rand) float64 {
	const rare = 0.05
	if r.Float64() < rare {
		return 1 + math.Sqrt(9*(1-rare)/rare)
	}
	return 1 - math.Sqrt(9*rare/(1-rare))
}

var locks = []lock{
	{"fixed", fixedHold, 0},
	{"exponential", (*rand.Rand).ExpFloat64, 0},
	{"two-class", twoClass, 0},
	{"growing", fixedHold, 0.2},
	{"growing much", (*rand.Rand).ExpFloat64, 0.5},
}

// Arrivals are the gaps between acquisitions, of mean 1.
type arrivals struct {
	name string
	gaps func(*rand.Rand) func() float64
}

func dealt(tasks int) arrivals {
	return arrivals{fmt.Sprintf("robin %d", tasks), func(r *rand.Rand) func() float64 {
		return func() float64 {
			sum := 0.0
			for range tasks {
				sum += r.ExpFloat64()
			}
			return sum / float64(tasks)
		}
	}}
}

// batches arrive at random, of geometric size with mean 4.
func batches(r *rand.Rand) func() float64 {
	const mean = 4
	return func() float64 {
		if r.Float64() < 1-1.0/mean {
			return 0
		}
		return mean * r.ExpFloat64()
	}
}

// spells are random arrivals at 1.5 and 0.5 times the rate in turn, for some 30 arrivals each.
func spells(r *rand.Rand) func() float64 {
	rate, left := 1.5, 0.0
	return func() float64 {
		gap := 0.0
		for {
			if x := r.ExpFloat64() / rate; x < left {
				left -= x
				return gap + x
			}
			gap += left
			rate, left = 2-rate, 30*r.ExpFloat64()
		}
	}
}

var patterns = []arrivals{
	{"random", func(r *rand.Rand) func() float64 { return r.ExpFloat64 }},
	dealt(4),
	dealt(8),
	{"batches", batches},
	{"spells", spells},
}

const rate = 100 // acquisitions a second at today's load

// simulate is what a lock of utilisation rho at today's load shows at a
// multiple of it, first come first served, and how many come in each tenth of a second.
func simulate(l lock, a arrivals, rho, load float64, elapsed time.Duration, seed uint64) (Window, []float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	next := a.gaps(r)
	mean := rho / rate * (1 - l.growth + l.growth*load)
	end := elapsed.Seconds()
	const every, slot = 0.05, 0.1 // between snapshots, between counts
	w := Window{Elapsed: elapsed, Load: load}
	counts := make([]float64, int(end/slot))
	at, free, began, snapshot, before := 0.0, 0.0, 0.0, every, false
	delay := 0.0
	look := func(until float64) { // the lock is held from began to free, and then not until until
		for ; snapshot < min(until, end); snapshot += every {
			inside := snapshot >= began && snapshot < free
			w.Snapshots++
			if inside {
				w.Inside++
			}
			if inside != before && w.Snapshots > 1 {
				w.Changes++
			}
			before = inside
		}
	}
	for {
		at += next() / (rate * load)
		if at >= end {
			break
		}
		w.Acquisitions++
		if i := int(at / slot); i < len(counts) {
			counts[i]++
		}
		if at < free {
			w.Contentions++
			delay += free - at
			free += mean * l.hold(r)
			continue
		}
		look(at)
		began, free = at, at+mean*l.hold(r)
	}
	look(end)
	w.Delay = seconds(delay)
	return w, counts
}

// saturates is the truth: ρx(1-g + gx) = 1.
// It is in multiples of what came in w, which stood for today.
func (l lock) saturates(rho float64, w Window) float64 {
	today := rate * w.Elapsed.Seconds() / w.Acquisitions
	if l.growth == 0 {
		return today / rho
	}
	g := l.growth
	return today * (g - 1 + math.Sqrt((1-g)*(1-g)+4*g/rho)) / (2 * g)
}

// A cell is the runs of one reading of one lock at one utilisation under one pattern.
type cell struct {
	runs, given, near, inside int
	ratio, worst              float64 // forecast by truth: summed, and the most optimistic
}

func (c *cell) add(f Forecast, truth float64) {
	c.runs++
	if f.Refused != "" {
		return
	}
	ratio := f.Saturates.At / truth
	c.given++
	c.ratio += ratio
	c.worst = max(c.worst, ratio)
	if math.Abs(ratio-1) <= 0.2 {
		c.near++
	}
	if f.Saturates.Low <= truth && truth <= f.Saturates.High {
		c.inside++
	}
}

func (c *cell) String() string {
	if c.given == 0 {
		return "refused"
	}
	return fmt.Sprintf("%.2f %2d/%2d/%2d", c.ratio/float64(c.given), c.near, c.inside, c.given)
}
