// Package contendtest is for tests and benchmarks of code that many goroutines
// call at once: it fails where one lock would hold them up, and names it.
//
//	func TestRecordInParallel(t *testing.T) {
//		r := metrics.NewRecorder()
//		contendtest.Run(t, 8, func() { r.Record("checkout", 200) })
//	}
//
// A benchmark of one goroutine does not see a lock, and one of many only that
// something is slow. A metrics library that registered its metrics again under the
// registry's lock on every recording passed both, and stopped a fleet at three
// times its usual load.
//
// # What is measured
//
// First the call is made by one goroutine, Alone times a second, then by n
// goroutines in a loop, Together times a second, then by one again, so that a machine
// that slows down meanwhile favours neither. While there are n, Go's block profile
// adds up how long they wait at which lock, and snapshots of their stacks say at which address.
//
// Such a loop is no load that has a rate: n callers who do nothing but wait
// for one lock keep it full, however short it is held. What can be known of it is
// how long a call holds the lock:
//
//   - Q, the mean number who wait for the lock, is delay by elapsed time (Little 1961).
//   - ρ, the share of time it is held, follows from Q. A caller who comes finds what
//     the other N-1 leave there, (N-1)/N of the mean (Bard 1979, Schweitzer 1979), and waits for a hold of
//     each who waits and for the rest of the one inside, on average V of a hold. So
//     Q = ρ(Q+Vρ)(N-1)/N. V is 1/2 for holds that are all alike and 1 for exponential
//     ones; it is taken as 1/2, the larger ρ, by 1.4 at most. Where most wait,
//     ρ is 1 by either. N, who are there to compete, are those who wait and, by Little again, the
//     Together/Alone who do not: fewer than n where there are fewer cores. For n of infinity
//     this is the queue reading of package headroom.
//   - B, the share of snapshots with somebody waiting, gives ρ again: that a second comes while one is inside is
//     B = ρ²/2·(N-1)/N if holds are alike, more if not. Callers who all come together make both readings
//     too high, Q more than B where they pile up behind one long hold, so the smaller is taken.
//   - Where readers of a sync.RWMutex wait, all do while a writer asks, and the writer while they leave:
//     ρ is B itself.
//   - S, how long a call holds it, is ρ/Together (the utilisation law, Denning and Buzen 1978),
//     with the handing over from one to the next, which no single goroutine shows.
//
// The lock saturates at 1/S calls a second, whoever makes them. At a load of R
// calls a second its utilisation is R·S: that is held to the limit. R is Options.Rate,
// or else n·Alone: what n callers ask for who never wait and have a core each.
// Utilisation is then n·ρ·Alone/Together, n times the serial fraction of the call
// (Amdahl 1967), a number that is the same on fast and slow machines. At 1 the
// callers begin to stand in line, and beyond it more of them bring nothing.
//
// So give Run all that a request does, and as many callers as a process may
// have at work at once; or give it the one call in question and say in Options.Rate
// how often that comes. A counter behind a mutex is nothing but lock, and full at
// any number of callers, but 20 million times a second may be plenty.
//
// # Limits
//
//   - Callers who compute need a core each to meet: with GOMAXPROCS of 2 they meet less
//     than n would, which the formula allows for; with 1 they meet only where one is preempted inside the lock.
//   - A waiter who gets the lock while it spins, for up to about a microsecond, is in no
//     profile. With more callers than cores some sleep all the same; with as many or fewer, locks held
//     for less than that read too low.
//   - Calls that all take the same time fall in step, one after the other, and hardly wait before
//     the lock is full: with 4 callers 0.5 then reads 0.3 and 0.8 reads 0.37, with 8 0.4 and 0.53 (simulated). From 1.5 on
//     every pattern reads what is true; so leave a limit of 0.5 where it is, and prefer more callers.
//   - Readers of a sync.RWMutex do not exclude each other and do not wait. What
//     is read of it is its writers' side: from when one asks until it is done. Cores
//     that take the reader count from each other, as of any word they share, do not wait
//     either: that is in Result.Scaling alone.
//   - Channels, conditions and pools are not locks here, nor are the runtime's own.
//   - Several locks in the call: one that is full hides how full others are, which get fewer calls. They show when it is mended.
//   - Sharded locks are told apart by their address. Where the compiler leaves no address in
//     the stack, locks of one type count as one, which reads high.
//
// It is a package of its own, with few imports, so that whatever library
// can use it in its own package without an import cycle.
package contendtest

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Options are what may be asked of RunWith. What is zero is as Run has it.
type Options struct {
	// Limit is the utilisation up to which a lock passes; 0.5 where it is zero, since such
	// a lock bears twice the load before it is full, and up to half waits are short.
	Limit float64
	// Rate is the load that utilisation is of, in calls a second of one process. Where it is zero, it is
	// what the callers would make if none waited.
	Rate float64
	// For is how long the callers call together, and half of it one alone; a second where it is zero, which
	// is 100 times what Go lets a goroutine compute before others get its core.
	For time.Duration
}

const (
	defaultLimit = 0.5
	defaultFor   = time.Second
	// meetings, for each caller, is how many contentions a lock at the limit must have had, were it there: a third
	// of them is what chance makes of ten, and Result.most then allows for twice that.
	meetings = 10
	// aloneCalls is where the time of a call is known to a third, if it is as variable as exponential.
	aloneCalls = 10
)

// Result is what was seen.
type Result struct {
	Parallelism int
	Alone       float64 // calls a second by one caller
	Together    float64 // calls a second by Parallelism callers
	Scaling     float64 // Together/Alone
	Rate        float64 // the load that utilisation is of, calls a second
	Locks       []Lock  // those somebody waited for, the largest utilisation first
}

// Lock is one lock, or where its address is not known, those of one type.
type Lock struct {
	Function    string        // that asks for it, fully qualified; of several the one that is waited in most
	Package     string        // of Function
	Library     string        // module and version of Function, "" where its path has none: your own code, or the standard library
	Standard    bool          // Function is of the standard library
	Callers     []string      // who call Function where most is waited, the nearest first, up to the function given to Run
	ReadWrite   bool          // a sync.RWMutex: all of this is its writers' side
	Utilisation float64       // at Result.Rate: above 1 it cannot bear that
	Holding     time.Duration // how long a call holds it
	Saturates   float64       // calls a second of one process at which it is full
	Waiting     float64       // mean number of callers who waited
	Contentions int64         // how often one did
}

// Run is RunWith and no Options.
func Run(t testing.TB, parallelism int, fn func()) Result {
	t.Helper()
	return RunWith(t, parallelism, Options{}, fn)
}

// RunWith calls fn from parallelism goroutines at once, and fails t where a
// lock's utilisation is above the limit, see the package, by more than two standard errors of what was
// seen of it. It takes one and a half times Options.For, and fails where a call has not
// returned after as long again, or a second.
//
// fn fails the test where it panics. It may call t.Error, but not t.Fatal.
//
// Profiles are of the whole process. So a test that calls it must not be parallel,
// nor any above it; it fails if one is, by t.Setenv, which also makes a later t.Parallel
// panic. What else runs in the process is in the result. Go's block profile is on meanwhile; as the
// runtime does not say at which rate it was, it is set back to what go test was
// asked for, which is off without -blockprofile.
//
// In a benchmark it goes into a loop of b.Loop, and reports calls/s, scaling and
// the largest utilisation of a lock instead of ns/op, of the last time.
func RunWith(t testing.TB, parallelism int, o Options, fn func()) Result {
	t.Helper()
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	if o.For == 0 {
		o.For = defaultFor
	}
	switch {
	case parallelism < 2:
		t.Fatalf("expected 2 callers or more, saw %d: one alone never waits for a lock", parallelism)
	case !(o.Limit > 0), !(o.Rate >= 0) || math.IsInf(o.Rate, 1), o.For < 0:
		t.Fatalf("expected a limit, a rate and a time above zero, saw limit %v, rate %v, for %v; leave out what is to be as usual", o.Limit, o.Rate, o.For)
	}
	notParallel(t)

	before := call(t, 1, o.For/4, fn)
	seen := observe(t, parallelism, o.For, fn)
	after := call(t, 1, o.For/4, fn)

	alone := float64(before.calls+after.calls) / (before.elapsed + after.elapsed).Seconds()
	r := Result{Parallelism: parallelism, Alone: alone, Together: seen.rate(), Rate: o.Rate}
	r.Scaling = r.Together / r.Alone
	if r.Rate == 0 {
		r.Rate = float64(parallelism) * r.Alone
	}
	r.Locks = seen.locks(&r)
	r.metrics(t)

	over := false
	for i := range r.Locks {
		l := &r.Locks[i]
		if l.Utilisation > r.most(l, o.Limit) {
			over = true
			t.Error(r.complaint(l, o))
		}
	}
	if over {
		return r
	}
	// A lock at the limit is held for this share of the time that the callers took,
	// and about that share of calls meet somebody there.
	share := min(1, o.Limit*r.Together/r.Rate)
	need := meetings * float64(parallelism) / share
	if calls := before.calls + after.calls; float64(seen.calls) < need || calls < aloneCalls {
		more := max(need/float64(max(1, seen.calls)), aloneCalls/float64(max(1, calls)))
		t.Errorf("expected %s calls together and %d alone or more, to see a lock at the limit, saw %d and %d; raise Options.For from %v to %v; so far, %s",
			number(need), aloneCalls, seen.calls, calls, o.For, round(time.Duration(1.5*more*float64(o.For))), r)
		return r
	}
	t.Log(r)
	return r
}

// notParallel fails t where it, or a test above it, is parallel.
func notParallel(t testing.TB) {
	t.Helper()
	defer func() {
		if recover() != nil {
			t.Helper()
			t.Fatalf("expected a test that is not parallel, nor any above it, saw one that is: profiles are of the whole process; take out t.Parallel")
		}
	}()
	t.Setenv("CONTENDTEST", t.Name())
}

// metrics reports to a benchmark.
func (r *Result) metrics(t testing.TB) {
	b, ok := t.(interface{ ReportMetric(float64, string) })
	if !ok {
		return
	}
	most := 0.0
	if len(r.Locks) > 0 {
		most = r.Locks[0].Utilisation
	}
	b.ReportMetric(0, "ns/op") // of measuring: no time of fn
	b.ReportMetric(r.Together, "calls/s")
	b.ReportMetric(r.Scaling, "scaling")
	b.ReportMetric(most, "utilisation")
}

// byQueue is ρ where Q = ρ(Q+ρ/2)(N-1)/N, see the package: waiting is Q, n is N.
func byQueue(waiting, n float64) float64 {
	if waiting == 0 {
		return 0
	}
	// The root of ρ²/2 + Qρ - QN/(N-1), without the difference of two large numbers.
	c := n / (n - 1)
	return min(1, 2*c/(1+math.Sqrt(1+2*c/waiting)))
}

// byWaiters is ρ where B = ρ²/2·(N-1)/N, see the package: busy is B, n is N.
func byWaiters(busy, n float64) float64 { return min(1, math.Sqrt(2*busy*n/(n-1))) }

// most is the utilisation up to which l passes at a limit: two standard errors above
// it, of so many contentions as came one by one, if at worst all callers but one
// came together each time, behind a holder who lost its core.
func (r *Result) most(l *Lock, limit float64) float64 {
	alone := float64(l.Contentions) / float64(r.Parallelism-1)
	return limit * math.Exp(2/math.Sqrt(alone))
}

// complaint is what t is failed with for l.
func (r *Result) complaint(l *Lock, o Options) string {
	advice := "hold it for less of a call, have several, or take it off the path"
	if o.Rate == 0 {
		advice += fmt.Sprintf("; where %s calls/s are plenty, say in Options.Rate how many there will be", number(l.Saturates))
	}
	return fmt.Sprintf("expected locks with a utilisation of at most %s, saw %s\n\t%s", number(o.Limit), r.describe(l), advice)
}
