package load

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Count is what became of requests: Arrived = Dropped + Answered + TimedOut +
// Failed + those still waiting. Each counts once, after its last attempt.
type Count struct {
	Arrived  int
	Dropped  int // never sent: MaxInFlight or MaxCalls was reached
	Answered int // status 200 within the time-out
	TimedOut int
	Failed   int // another status, no connection, or the run was cancelled
}

// waiting is how many were sent and have not ended.
func (c Count) waiting() int { return c.Arrived - c.Dropped - c.Answered - c.TimedOut - c.Failed }

// add counts one request that has ended.
func (c *Count) add(o outcome) {
	switch o {
	case answered:
		c.Answered++
	case timedOut:
		c.TimedOut++
	default:
		c.Failed++
	}
}

// Stats is the state of a run.
type Stats struct {
	Count             // of API calls
	Retried       int // attempts after the first
	StatusPages   int // of the failed: answered by the edge with its status page
	InFlight      int // calls sent and not ended
	Assets        Count
	WaitingAssets int // visitors that were sent for the asset, have not got it and have not given up
	Streams       int // long-lived connections that are open
}

// Report is what became of a run. Of visitors that still waited for the asset
// at its end WaitingAssets tells.
type Report struct {
	Stats
	MaxInFlight  int           // of the run's Config
	Sending      time.Duration // how long calls arrived
	Latency      Quantiles     // of the calls answered, from their intended start, with retries
	Lateness     Quantiles     // of the calls sent: from the intended start to the real one
	LateSecond   time.Duration // the 99th percentile of the lateness in the second where it was largest, of those with enough calls
	FirstTimeout time.Time     // when the first attempt timed out, since ForgetFailures and retried or not; zero where none did
	FirstFailure time.Time     // when the first call was given up after its last attempt, since ForgetFailures; zero where none was
	Seconds      []Second      // of the run, from its begin until the last call ended
}

// Second is what happened in one second of a run.
type Second struct {
	Arrived  int // calls due in it
	Answered int // in it, whenever they arrived
	Failed   int // in it, time-outs among them
}

// Quantiles of a set of durations, all zero where it is empty.
type Quantiles struct {
	Median, P99, Max time.Duration
}

// Above these a run says more of its generator than of the service.
const (
	maxLateP99 = 50 * time.Millisecond // a fifth of a scrape of 250 ms: what arrives in one is still seen in it
	maxLate    = time.Second           // a pause of all clients, as no real ones make
	// maxLateSecond is a scrape: a surge is short beside a run, whose percentile
	// would not show that its clients were late.
	maxLateSecond = 250 * time.Millisecond
	enough        = 100 // calls that have a 99th percentile
)

// Starved reports whether the generator could not keep to its schedule, so that
// the run is not valid, and why: it was late, or it dropped arrivals, since an
// open loop that is cut off is none.
func (r Report) Starved() (bool, string) {
	late := r.Lateness
	switch {
	case late.P99 > maxLateP99:
		return true, fmt.Sprintf("1 %% of the calls began %v or more after they were due, expected at most %v; leave the machine more idle", late.P99.Round(time.Millisecond), maxLateP99)
	case late.Max > maxLate:
		return true, fmt.Sprintf("a call began %v after it was due, expected at most %v; leave the machine more idle", late.Max.Round(time.Millisecond), maxLate)
	case r.LateSecond > maxLateSecond:
		return true, fmt.Sprintf("in one second 1 %% of the calls began %v or more after they were due, expected at most %v; leave the machine more idle", r.LateSecond.Round(time.Millisecond), maxLateSecond)
	case r.Dropped+r.Assets.Dropped > 0:
		return true, fmt.Sprintf("%d calls and %d visitors were dropped, expected none: at most %d of each may wait at once, and %d arrive in all; make less load, or allow more", r.Dropped, r.Assets.Dropped, r.MaxInFlight, MaxCalls)
	}
	return false, ""
}

// worstSecond is the largest 99th percentile of the lateness of one second's calls.
func worstSecond(seconds [][]time.Duration) time.Duration {
	worst := time.Duration(0)
	for _, late := range seconds {
		if len(late) >= enough {
			worst = max(worst, quantiles(late).P99)
		}
	}
	return worst
}

// quantiles sorts its argument.
func quantiles(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	// The nearest rank: the smallest value with at least that share at or below it.
	rank := func(share float64) time.Duration { return d[int(math.Ceil(share*float64(len(d))))-1] }
	return Quantiles{Median: rank(0.5), P99: rank(0.99), Max: d[len(d)-1]}
}
