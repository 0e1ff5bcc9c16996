package headroom

import (
	"fmt"
	"math"
	"time"
)

// Assumptions, for people at three in the morning.
const (
	assumesMoments = "snapshots were taken at moments that have nothing to do with the lock"
	assumesApart   = "snapshots were taken further apart than the lock is busy at a time"
	assumesCPU     = "a hold computes from lock to unlock: what it sleeps or waits is not counted"
	assumesRandom  = "arrivals are random: many callers who know nothing of each other, no balancer that deals them out in turn"
	assumesHolds   = "holds are between all alike and exponentially distributed; if a few are very long, it saturates later than this"
	assumesAll     = "the acquisitions are all there are, from wherever the lock is taken"
)

// Direct is the reading from snapshots.
func Direct(w Window) Forecast {
	if why := w.invalid(); why != "" {
		return refuse(ByDirect, "%s", why)
	}
	n, k, d := float64(w.Snapshots), float64(w.Inside), float64(w.Changes)
	switch {
	case w.Snapshots == 0:
		return refuse(ByDirect, "expected %d snapshots or more, saw none", minSnapshots)
	// With k inside and n-k not, no order has more changes than twice the rarer.
	case k > n || d > min(n-1, 2*min(k, n-k)):
		return refuse(ByDirect, "expected somebody inside in no more than the %v snapshots, and a change only where that differs, saw %v inside and %v changes", n, k, d)
	case w.Snapshots < minSnapshots:
		return refuse(ByDirect, "expected %d snapshots or more, saw %v; take more", minSnapshots, n)
	case w.Inside == 0:
		return refuse(ByDirect, "expected somebody inside in some snapshot, saw none in %v: the lock is held at most %.2g of the time", n, wilson(0, n).High)
	}
	share := k / n
	apart := assumesApart
	if d > 0 {
		apart = "the order of the snapshots says how independent they are"
		if r := 1 - d/(2*share*(1-share)*(n-1)); r > 0 {
			n *= (1 - r) / (1 + r)
		}
	}
	rho := wilson(share, n)
	c := Medium
	if 1/rho.At <= alike {
		c = High
	}
	return single(ByDirect, &w, rho, c, assumesMoments, apart)
}

// OnCPU is the reading from CPU time under the holder, for holds that compute.
func OnCPU(w Window) Forecast {
	if why := w.invalid(); why != "" {
		return refuse(ByDirect, "%s", why)
	}
	rho := w.CPU.Seconds() / w.Elapsed.Seconds()
	samples := float64(w.CPU) / float64(cpuSample)
	switch {
	case samples < minContentions:
		return refuse(ByDirect, "expected %d CPU samples of the holder or more, saw %.0f; look for longer", minContentions, samples)
	case rho > 1+2/math.Sqrt(samples):
		return refuse(ByDirect, "expected one holder at a time, saw %.2f cores busy under it: the code is not all inside the lock", rho)
	}
	return single(ByDirect, &w, around(rho, 1/math.Sqrt(samples)), Medium, assumesCPU)
}

// Share is the reading from how many acquisitions had to wait.
func Share(w Window) Forecast {
	if why := w.alone(); why != "" {
		return refuse(ByShare, "%s", why)
	}
	if why := w.shareless(); why != "" {
		return refuse(ByShare, "%s", why)
	}
	rho := w.share()
	bracket := around(rho, w.shareError())
	bracket.High *= spinBias
	return single(ByShare, &w, bracket, Low, assumesRandom, assumesAll)
}

// spinBias is by how much the share of a real sync.Mutex can read low, for
// contentions that ended while spinning: 0.34 was read at 0.41, 0.51 at 0.57 (fixed
// holds, random arrivals).
const spinBias = 1.2

// Queue is the reading from how many wait on average.
func Queue(w Window) Forecast {
	if why := w.alone(); why != "" {
		return refuse(ByQueue, "%s", why)
	}
	lq := w.queue()
	fixed, exponential := utilisation(lq, fixedHolds), utilisation(lq, exponentialHolds)
	e := w.queueError(exponential)
	f := single(ByQueue, &w, Range{
		Low: utilisation(lq*math.Exp(-2*e), exponentialHolds),
		// The middle is as far from a fixed hold's 1/ρ as from an exponential one's.
		At:   (fixed + exponential) / 2,
		High: utilisation(lq*math.Exp(2*e), fixedHolds),
	}, Low, assumesRandom, assumesHolds)
	if f.Refused == "" && f.Holding == 0 && w.Contentions > 0 {
		// Of λ arrivals λρ wait, if they are random: S = ρ/λ = ρ²/(contentions/s).
		f.Holding = seconds(f.Utilisation.At * f.Utilisation.At * w.Elapsed.Seconds() / w.Contentions)
	}
	return f
}

// alone says why a single share or queue reading of w is worth no number.
func (w *Window) alone() string {
	if why := w.invalid(); why != "" {
		return why
	}
	if why := w.few(); why != "" {
		return why
	}
	switch w.Arrivals {
	case Random:
		return w.irregular()
	case Smooth:
		return "expected random arrivals, saw regular ones, as of a balancer that deals out in turn: they hardly collide until the lock is nearly full; take snapshots, or look at two loads"
	case Bursts:
		return "expected random arrivals, saw bursts: they collide at any utilisation; take snapshots, or look at two loads"
	}
	return "expected arrivals known to be random: behind a balancer that deals out in turn waits hide a lock that is nearly full; take snapshots, or look at two loads"
}

// irregular says that waits are not those of random arrivals, by V < 1/2.
func (w *Window) irregular() string {
	if w.Acquisitions == 0 {
		return ""
	}
	rho := w.share()
	v := w.queue() * (1 - rho) / (rho * rho)
	if e := math.Hypot(w.queueError(rho), 2*w.shareError()); rho < 1 && v*math.Exp(2*e) < fixedHolds {
		return "expected waits as long as random arrivals make them, saw shorter ones for so many: arrivals are regular or come in bursts; take snapshots, or look at two loads"
	}
	return ""
}

// V = (1+c²)/2 for holds that are all alike and for exponentially distributed ones.
const (
	fixedHolds       = 0.5
	exponentialHolds = 1.0
)

// utilisation is ρ where Lq = Vρ²/(1-ρ), with the small difference of two
// large numbers written as a quotient.
func utilisation(lq, v float64) float64 {
	if lq == 0 {
		return 0
	}
	return 2 / (1 + math.Sqrt(1+4*v/lq))
}

// share is the contended share.
func (w *Window) share() float64 { return w.Contentions / w.Acquisitions }

// shareless says why w has no contended share, "" where it has one.
func (w *Window) shareless() string {
	if why := w.few(); why != "" {
		return why
	}
	switch {
	case w.Contentions == 0:
		return "expected the number of contentions, saw only their delay; take a block or mutex profile"
	case w.Acquisitions == 0:
		return "expected the number of acquisitions, saw none: requests in the window times acquisitions per request"
	case w.share() > 1+2*w.shareError():
		return fmt.Sprintf("expected no more contentions than acquisitions, saw %.0f of %.0f: the lock is taken elsewhere too, or several times by each", w.Contentions, w.Acquisitions)
	}
	return ""
}

// shareError is the relative standard error of share: c², the holds' squared
// coefficient of variation, is what V = (1+c²)/2 says, and at least 1.
func (w *Window) shareError() float64 {
	rho := min(1, w.share())
	c2 := max(1, 2*w.queue()*(1-rho)/(rho*rho)-1)
	return math.Sqrt(rho*c2/w.Contentions + 1/w.sampled())
}

// queueError is the relative standard error of the mean queue at utilisation rho.
func (w *Window) queueError(rho float64) float64 {
	if w.DelayError > 0 {
		return float64(w.DelayError) / float64(w.Delay)
	}
	contentions := w.sampled()
	return math.Sqrt((2+5*rho)/contentions) / (1 - rho)
}

// around is a value with two relative standard errors to either side, by ratio.
func around(at, err float64) Range {
	return Range{at * math.Exp(-2*err), at, at * math.Exp(2*err)}
}

// wilson is Wilson's interval for two standard errors of a share seen in n samples.
func wilson(share, n float64) Range {
	const z = 2.0
	middle := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return Range{min(share, middle-half), share, max(share, middle+half)} // rounding may leave one beyond the other
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
