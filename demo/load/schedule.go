package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Phase is a stretch of the load whose rate changes linearly.
type Phase struct {
	For      time.Duration
	From, To float64 // API calls per second
}

// Constant is one phase of a steady rate.
func Constant(rate float64, d time.Duration) []Phase {
	return []Phase{{For: d, From: rate, To: rate}}
}

// expected is how many calls arrive on average, an error where the phases make
// no sense.
func expected(phases []Phase) (float64, error) {
	if len(phases) == 0 {
		return 0, fmt.Errorf("expected at least one phase, saw none")
	}
	var (
		lasts time.Duration
		calls float64
	)
	for i, p := range phases {
		for _, rate := range []float64{p.From, p.To} {
			if !(rate >= 0) || math.IsInf(rate, 0) { // NaN too
				return 0, fmt.Errorf("phase %d: expected rates of zero or more, saw %v calls per second", i+1, rate)
			}
		}
		if p.For <= 0 || p.For > maxDuration-lasts {
			return 0, fmt.Errorf("phase %d: expected a duration above zero, and up to %v of all phases; saw %v", i+1, maxDuration, p.For)
		}
		lasts += p.For
		calls += p.For.Seconds() * (p.From + p.To) / 2
	}
	if calls > MaxCalls {
		return 0, fmt.Errorf("expected at most %d calls in one run, saw about %.0f; lower the rates or the durations", MaxCalls, calls)
	}
	return calls, nil
}

// Gap draws how many calls are expected until the next one arrives: 1 on average.
type Gap func(*rand.Rand) float64

// Random arrivals are those of clients that do not know of each other: a Poisson process.
func Random(r *rand.Rand) float64 { return r.ExpFloat64() }

// Dealt are the arrivals at one of so many tasks to which a balancer deals out
// random arrivals in turn.
func Dealt(tasks int) Gap {
	return func(r *rand.Rand) float64 {
		sum := 0.0
		for range tasks {
			sum += r.ExpFloat64()
		}
		return sum / float64(tasks)
	}
}

// Batches arrive at random, all calls of one at once. Their sizes are geometric.
func Batches(mean float64) Gap {
	return func(r *rand.Rand) float64 {
		if r.Float64() >= 1/mean {
			return 0
		}
		return mean * r.ExpFloat64()
	}
}

// schedule draws arrivals whose rate follows the phases.
type schedule struct {
	phases []Phase
	random *rand.Rand
	gap    Gap
	phase  int     // of the last arrival
	offset float64 // of the last arrival, in seconds since its phase began
	passed float64 // seconds of all earlier phases
}

// next is when the next call arrives, in time since the first phase began. It is
// false, and the time that of the end, when none arrives any more.
func (s *schedule) next() (time.Duration, bool) {
	// The number of calls expected until the next arrival is distributed alike
	// whatever the rate does: a process of one rate on another clock
	// (Lewis and Shedler 1979, inversion of the cumulative rate).
	mass := s.gap(s.random)
	for ; s.phase < len(s.phases); s.phase, s.offset = s.phase+1, 0 {
		p := s.phases[s.phase]
		slope := (p.To - p.From) / p.For.Seconds()
		rate := p.From + slope*s.offset
		rest := p.For.Seconds() - s.offset
		if ahead := rest * (rate + slope*rest/2); mass >= ahead {
			mass -= ahead
			s.passed += p.For.Seconds()
			continue
		}
		if mass == 0 { // with the one before, also where the rate is 0 yet
			return seconds(s.passed + s.offset), true
		}
		// The root of slope/2 x² + rate x = mass, in the form that neither
		// divides by a slope of zero nor subtracts what is nearly equal.
		s.offset += 2 * mass / (rate + math.Sqrt(math.Max(0, rate*rate+2*slope*mass)))
		return seconds(s.passed + s.offset), true
	}
	return seconds(s.passed), false
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
