// Package headroom says at what multiple of today's load a lock falls over,
// from what can be seen of it today. It is arithmetic: no input, no output.
//
// # The quantity
//
// A lock that is taken λ times a second and held for S seconds each time is
// held for ρ = λS of the time (the utilisation law, Denning and Buzen 1978; it
// needs no assumption on arrivals). At ρ = 1 it is held always, and whoever
// comes beyond that waits for ever longer. If S stays what it is, that is at
// 1/ρ times today's load; if S grows with the load, S(λ) = S₀ + bλ, it is where
// λS(λ) = 1, which is sooner.
//
// # The readings, in order of trust
//
// Direct: the share of snapshots with somebody inside estimates ρ whatever the
// arrivals, since snapshots come at moments that have nothing to do with the
// lock. Its bracket is Wilson's interval (1927) for two standard errors, on the
// number of independent snapshots. Of two-state samples with share p in which
// neighbours differ d of n-1 times, the correlation of neighbours is
// r = 1 - d/(2p(1-p)(n-1)), and n samples are worth n(1-r)/(1+r) (Bartlett 1946).
// CPU time under a holder that burns CPU is the same share from a CPU profile,
// with a Poisson error of as many samples.
//
// Levels: at two or more loads, whatever is 1 at the cliff is followed to 1.
// That is the direct share, λS₀ + bλ², for any arrivals; or the contended share,
// which is 1 at the cliff for any arrivals too, but on the way there is ρ only
// if they are random, above it where they come in bursts and far below it
// where they are smooth; or a utilisation computed from the mean queue. How
// steeply it grows with load, e = dlnu/dlnλ, tells these apart, see curve:
//
//   - below 1, a line A + Bλ. It is exact for batches that arrive at random:
//     who does not wait is the first of a batch of mean size B̄ and finds the
//     lock free, so 1 - u = (1-ρ)/B̄.
//   - from 1 to 2, S₀λ + bλ²: exact for random arrivals, with holds that grow.
//   - beyond, which a linearly growing hold cannot cause, c·λ^e: arrivals are
//     smoother than random. No form is exact for them. Simulated, this one errs by
//     -20 to +5 % for shares of Erlang-4 and Erlang-8 arrivals, -25 to +20 % for queues,
//     and by -40 % five times ahead, so it is not followed beyond shareReach and queueReach.
//
// The queue also needs the holds' V, see below. It is taken to be between those of
// fixed and exponential holds; if u grows too slowly even so, V is
// larger, or arrivals come in bursts, and the bracket has both. Often
// that is too wide, and there is no number.
//
// Where holds are exponential, more is known, see erlang: the mean wait of those
// who wait is S/(1-σ), with σ the contended share, whatever the arrivals
// (GI/M/1: Kleinrock, Queueing Systems 1, 1975, section 6.4), so ρ follows twice.
//
// Share: contended / all acquisitions = ρ if arrivals are random, for any
// distribution of holds (PASTA: Wolff 1982). Its relative variance is
// (1+ρc²)/contentions, c the holds' coefficient of variation, by renewal at the
// uncontended acquisitions, each of which begins a busy period.
//
// Queue: the mean number waiting, Lq = delay / elapsed (Little 1961). By
// Pollaczek and Khinchine, Lq = Vρ²/(1-ρ) for random arrivals, with V = (1+c²)/2,
// c the holds' coefficient of variation: 1/2 if they are fixed (M/D/1), 1 if they
// are exponential (M/M/1). Solved: ρ = (-Lq + √(Lq² + 4V·Lq))/2V. Its relative
// variance is at most (2+5ρ)/(1-ρ)²/contentions (M/M/1: Daley 1968).
//
// # What cannot be known
//
// Arrivals are random where many callers act on their own. Behind a balancer
// that deals requests out in turn to N tasks, one task's are Erlang-N: regular.
// Collisions then all but vanish: six tasks at a true 0.6 read 0.18 by share,
// 0.21 by queue, twenty tasks 0.02 and 0.05. No single level betrays that. Share
// and queue are two numbers, and random arrivals with ρ the share and
// V = Lq(1-ρ)/ρ² explain any two, except that V is at least 1/2: Erlang-6 at 0.6
// has 0.68. So a lone share or queue gives a number only where arrivals are
// known to be random (see PatternOf), and never if V is below 1/2.
//
// Nor does one level, direct or not, betray a hold that grows with load. The
// forecast is then 1/ρ if it does not, and IfGrowing, the square root of that,
// if all of it does. Up to 1/ρ = 2.25 the one is no more than 1.5 times the
// other; beyond, 1/ρ is too optimistic by more than 1.5 where the growing part of
// today's hold exceeds 0.5/(2/(3ρ) - 1), a fifth at ρ = 0.2. Only a second level
// tells.
//
// The cliff is that of the mean load. Bursts that last longer than a hold
// overload the lock, for as long as they last, before the mean does. Waits at
// several loads see that coming (they read 0.8 of the mean's cliff for spells of
// 1.5 times the load), direct readings do not.
//
// TestReach has what each reading reaches on simulated locks, testdata/real on a
// sync.Mutex.
package headroom

import (
	"fmt"
	"math"
	"time"
)

// Window is what was seen of one lock in one stretch of time at one load. What
// is zero was not looked at.
type Window struct {
	Elapsed time.Duration

	// Acquisitions is how often the lock was asked for, requests times
	// acquisitions per request. Guess it too high and the lock looks idle.
	Acquisitions float64
	// Load is anything in proportion to Acquisitions, such as requests a second,
	// for Levels where the number itself is not known.
	Load float64
	// Arrivals is how they come, where that is known.
	Arrivals Pattern

	// Contentions is how often somebody waited, from a block or mutex profile, as
	// the runtime scaled it. Spinning that succeeds is none.
	Contentions float64
	// Delay is how long they waited, all together.
	Delay time.Duration
	// DelayError is the standard error of Delay where that is known otherwise
	// than from Contentions, such as from the scatter of a series.
	DelayError time.Duration
	// BlockRate and MutexFraction are the sampling the profile was taken with:
	// waits shorter than BlockRate were kept in proportion to their length,
	// one of MutexFraction contentions was kept.
	BlockRate     time.Duration
	MutexFraction int

	// Inside is in how many of Snapshots somebody held the lock or waited for it.
	// Where no holder can be seen, only waiters, leave both 0: waiters
	// alone are in about the square of that share.
	Snapshots, Inside int
	// Changes is how often a snapshot and the next differ in that.
	Changes int
	// CPU is CPU-profile time under the code that holds the lock. Set it only for
	// holds that do nothing but compute: what they sleep is not in it.
	CPU time.Duration
}

// Range is a value with what it may be instead.
type Range struct {
	Low, At, High float64
}

// Reading is how a forecast was made.
type Reading string

// Readings, the most trusted first.
const (
	ByDirect Reading = "direct"
	ByLevels Reading = "levels"
	ByShare  Reading = "share"
	ByQueue  Reading = "queue"
)

// Confidence in a forecast.
type Confidence string

const (
	High   Confidence = "high"   // no assumption that could make it more than 1.5 times too optimistic
	Medium Confidence = "medium" // one that would have to fail by much
	Low    Confidence = "low"    // it stands and falls with one
)

// Forecast is the load at which a lock falls over, or why that is not known.
type Forecast struct {
	Reading Reading
	// Refused is why there is no number, "" where there is one. All that follows is
	// zero then, but for Evidence.
	Refused string
	// Utilisation is the share of today's time that the lock is held, today
	// being the last window. By levels it is what follows from Saturates.
	Utilisation Range
	// Saturates is in multiples of today's load: at least 1, from
	// two standard errors and the known bias of the reading. High/Low is at most
	// maxSpread.
	Saturates Range
	// IfGrowing is Saturates.Low for a hold that grows in proportion to the load,
	// which a single level cannot exclude; 0 where levels do.
	IfGrowing float64
	// Holding is the mean time the lock is held for, 0 where Acquisitions are not known or not one.
	Holding time.Duration
	// Growth is the part of Holding that is there because of the load: with S the
	// holding time, b = Growth·S/λ and S₀ = (1-Growth)·S. Only levels know it.
	Growth float64
	// Variability is V in Lq = Vρ²/(1-ρ), 0 where it is not known.
	Variability float64
	Confidence  Confidence
	Assumes     []string // what must hold, a sentence each
	// Evidence has the other readings of the same lock, refused ones too.
	Evidence []Forecast
}

const (
	// minContentions is where a count's two standard errors are a fifth of it.
	minContentions = 100
	// minElapsed is some ten times what a garbage collection or a late timer can take.
	minElapsed = time.Second
	// minSnapshots is where a single pile-up is no longer most of what was seen.
	minSnapshots = 30
	// minHolding is ten times what a woken goroutine takes to run, and more than
	// that of what sync.Mutex spins before it waits (4 rounds of 30 pauses): holds
	// below it collide unseen, and what is seen is mostly waking.
	minHolding = 100 * time.Microsecond
	// maxSpread is how wide a bracket of four standard errors may be: the truth is
	// then 1.5 times away once in a hundred cases, at 2.3 errors.
	maxSpread = 2
	// alike is where √(1/ρ), for a hold that grows in step with the load, is 1.5 times less than 1/ρ.
	alike = 1.5 * 1.5
	// cpuSample is the period of Go's CPU profile.
	cpuSample = 10 * time.Millisecond
)

// Of is the forecast from all windows of one lock, the last being today's.
func Of(windows ...Window) Forecast {
	if len(windows) == 0 {
		return Forecast{Refused: "expected a window in which the lock was looked at, saw none"}
	}
	today := windows[len(windows)-1]
	readings := []Forecast{Direct(today)}
	if today.CPU != 0 {
		readings = append(readings, OnCPU(today))
	}
	if len(windows) > 1 {
		readings = append(readings, Levels(windows...))
	}
	return Combine(append(readings, Share(today), Queue(today))...)
}

// Combine is the most trusted of several readings of one lock, with the others
// as evidence. Where all are refused, so is it, for the reason of the most trusted.
func Combine(readings ...Forecast) Forecast {
	best := -1
	for i := range readings {
		if best < 0 || better(&readings[i], &readings[best]) {
			best = i
		}
	}
	if best < 0 {
		return Forecast{Refused: "expected a reading of the lock, saw none"}
	}
	f := readings[best]
	for i, other := range readings {
		if i != best {
			f.Evidence = append(f.Evidence, other)
		}
		if i != best && f.Refused == "" && other.Refused == "" {
			f.disagree(&other)
		}
	}
	return f
}

// better puts a number before a refusal, and then goes by trust. But one level
// takes the hold to stay as it is: levels that say it grows, beyond their
// errors, know better. Of two shares of time the larger is right, since a hold
// that sleeps burns no CPU.
func better(a, b *Forecast) bool {
	if (a.Refused == "") != (b.Refused == "") {
		return a.Refused == ""
	}
	if a.Refused == "" && a.Reading == ByLevels && b.Reading == ByDirect {
		return a.Confidence == High && a.Saturates.High < b.Saturates.At
	}
	if a.Refused == "" && a.Reading == ByDirect && b.Reading == ByLevels {
		return !better(b, a)
	}
	if a.Refused == "" && a.Reading == b.Reading {
		return a.Utilisation.At > b.Utilisation.At
	}
	return trust[a.Reading] < trust[b.Reading]
}

var trust = map[Reading]int{ByDirect: 0, ByLevels: 1, ByShare: 2, ByQueue: 3}

// disagree adds to f's assumptions what it means that other says something else.
func (f *Forecast) disagree(other *Forecast) {
	early, late := other.Saturates.High < f.Saturates.Low, other.Saturates.Low > f.Saturates.High
	if !early && !late {
		return
	}
	why := ""
	switch single := other.Reading == ByShare || other.Reading == ByQueue; {
	case single && late:
		why = "arrivals are more regular than random, and waits hide how full the lock is"
	case single:
		why = "arrivals come in bursts or a few holds are very long, and waits exaggerate"
	case early:
		// A trusted reading that is the later one rests on what the other denies.
		if f.Confidence == High {
			f.Confidence = Medium
		}
		why = "holds grow with load, or were not alike in the two windows"
	default:
		why = "holds do not only compute, or did not stay alike between the levels"
	}
	f.Assumes = append(f.Assumes, fmt.Sprintf("the reading by %s says %.2g to %.2g times instead: %s",
		other.Reading, other.Saturates.Low, other.Saturates.High, why))
}

// refuse is a forecast without a number.
func refuse(r Reading, format string, args ...any) Forecast {
	return Forecast{Reading: r, Refused: fmt.Sprintf(format, args...)}
}

// single is the forecast of one level, 1/ρ.
func single(r Reading, w *Window, rho Range, c Confidence, assumes ...string) Forecast {
	f := Forecast{Reading: r, Confidence: c}
	f.Utilisation = Range{min(1, rho.Low), min(1, rho.At), min(1, rho.High)}
	f.Saturates = Range{1 / f.Utilisation.High, 1 / f.Utilisation.At, 1 / f.Utilisation.Low}
	f.IfGrowing = math.Sqrt(f.Saturates.Low)
	f.Assumes = append(assumes, fmt.Sprintf("a hold takes as long under more load; if it grows in step with the load, expect %.1f times", f.IfGrowing))
	return f.finish(w)
}

// finish adds the holding time, and withholds a number that nobody should lean on.
func (f Forecast) finish(today *Window) Forecast {
	if f.Saturates.At >= farthest {
		return refuse(f.Reading, "expected a lock that fills up as load grows, saw none; are these windows of the same lock?")
	}
	spread := f.Saturates.High / f.Saturates.Low
	if !(f.Saturates.Low >= 1) || !(spread <= maxSpread) {
		return refuse(f.Reading, "expected a bracket no wider than %v times, saw %.3g to %.3g times today's load; look for longer", maxSpread, f.Saturates.Low, f.Saturates.High)
	}
	if today.Acquisitions >= 1 { // of less than one a hold would be longer than the window
		f.Holding = time.Duration(f.Utilisation.At * float64(today.Elapsed) / today.Acquisitions)
		if f.Holding < minHolding && f.Reading != ByDirect {
			return refuse(f.Reading, "expected holds of %v or longer, saw %v: waiters spin for so short a time and are not seen; use a CPU profile or snapshots", minHolding, f.Holding)
		}
		if lq := today.queue(); lq > 0 && f.Utilisation.At < 1 {
			f.Variability = lq * (1 - f.Utilisation.At) / (f.Utilisation.At * f.Utilisation.At)
		}
	}
	return f
}

// invalid says what of w cannot be, "" if nothing.
func (w *Window) invalid() string {
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"acquisitions", w.Acquisitions}, {"load", w.Load}, {"contentions", w.Contentions},
		{"delay", float64(w.Delay)}, {"delay error", float64(w.DelayError)}, {"CPU time", float64(w.CPU)},
		{"block rate", float64(w.BlockRate)}, {"mutex fraction", float64(w.MutexFraction)},
		{"snapshots", float64(w.Snapshots)}, {"snapshots with somebody inside", float64(w.Inside)}, {"changes", float64(w.Changes)},
	} {
		if !(v.value >= 0 && v.value <= math.MaxInt64) { // what is no number is not in between
			return fmt.Sprintf("expected a number of %s from 0 up, saw %v; of two profiles, is the first the earlier one, of the same process?", v.name, v.value)
		}
	}
	if w.Elapsed < minElapsed {
		return fmt.Sprintf("expected a window of %v or longer, saw %v; take two profiles further apart, or one with ?seconds=30", minElapsed, w.Elapsed)
	}
	return ""
}

// queue is the mean number that wait.
func (w *Window) queue() float64 { return w.Delay.Seconds() / w.Elapsed.Seconds() }

// load is what Levels compares windows by: best by what came, since that is
// what was held for.
func (w *Window) load() float64 {
	if w.Acquisitions > 0 {
		return w.Acquisitions / w.Elapsed.Seconds()
	}
	return w.Load
}

// sampled is how many of the contentions the runtime kept.
func (w *Window) sampled() float64 {
	kept := w.Contentions / float64(max(1, w.MutexFraction))
	if mean := float64(w.Delay) / w.Contentions; mean < float64(w.BlockRate) {
		kept *= mean / float64(w.BlockRate)
	}
	return kept
}

// few says that too little was seen of waiting, "" if enough.
func (w *Window) few() string {
	switch {
	case w.Contentions == 0 && w.DelayError > 0 && w.Delay > 0: // its scatter says how sure it is
		if n := w.Acquisitions * utilisation(w.queue(), fixedHolds); w.Acquisitions > 0 && n < minContentions {
			return fmt.Sprintf("expected %d contentions or more, saw a delay of about %.0f; look for longer, or under more load", minContentions, n)
		}
		return ""
	case w.Contentions < minContentions:
		return fmt.Sprintf("expected %d contentions or more, saw %.0f; look for longer, or under more load", minContentions, w.Contentions)
	case w.Delay == 0:
		return fmt.Sprintf("expected a delay, saw none for %.0f contentions; take both from the same profile", w.Contentions)
	case w.sampled() < minContentions:
		return fmt.Sprintf("expected %d contentions or more in the sample, saw %.0f of about %.0f; look for longer, or sample more", minContentions, w.sampled(), w.Contentions)
	}
	return ""
}
