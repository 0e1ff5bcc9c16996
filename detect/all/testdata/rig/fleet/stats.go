package main

import (
	"math"
	"math/rand"
)

// bounds are the buckets that every histogram is kept in, in seconds.
var bounds = [...]float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 30}

// Which of the bounds a library exports by default, by index.
var (
	promBuckets = []int{0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 13} // client_golang's DefBuckets
	fewBuckets  = []int{0, 2, 5, 7, 9, 11, 13}
	otelBuckets = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13} // the semantic conventions' advice
	longBuckets = []int{0, 2, 5, 7, 9, 11, 13, 14}
)

// Histogram of durations in seconds.
type Histogram struct {
	count, sum float64
	buckets    [len(bounds)]float64 // each alone, not cumulative
	max        float64
}

func (h *Histogram) observe(v float64) {
	h.count++
	h.sum += v
	h.max = max(h.max, v)
	for i, b := range bounds {
		if v <= b {
			h.buckets[i]++
			return
		}
	}
}

func (h *Histogram) scale(k float64) {
	h.count *= k
	h.sum *= k
	for i := range h.buckets {
		h.buckets[i] *= k
	}
}

func (h *Histogram) add(o *Histogram) {
	h.count += o.count
	h.sum += o.sum
	for i := range h.buckets {
		h.buckets[i] += o.buckets[i]
	}
}

// A request ended well, or not.
const (
	ok = iota
	failed
	outcomes
)

// Stats are what a server counts of its requests, by route.
type Stats struct {
	started   []float64
	inFlight  []int
	completed [][outcomes]float64
	latency   [][outcomes]Histogram
}

func newStats(routes int) *Stats {
	return &Stats{make([]float64, routes), make([]int, routes), make([][outcomes]float64, routes), make([][outcomes]Histogram, routes)}
}

// scale makes counters what they are after k times as long. What is in flight
// is no counter.
func (s *Stats) scale(k float64) {
	for r := range s.started {
		s.started[r] = s.started[r]*k - float64(s.inFlight[r])*(k-1)
		for o := range s.completed[r] {
			s.completed[r][o] *= k
			s.latency[r][o].scale(k)
		}
	}
}

// totals are sums over routes.
type totals struct {
	started, ok, failed   float64
	inFlight              int
	okLatency, badLatency Histogram
}

func (s *Stats) totals() totals {
	var t totals
	for r := range s.started {
		t.started += s.started[r]
		t.inFlight += s.inFlight[r]
		t.ok += s.completed[r][ok]
		t.failed += s.completed[r][failed]
		t.okLatency.add(&s.latency[r][ok])
		t.badLatency.add(&s.latency[r][failed])
	}
	return t
}

// tally is what will be credited in each second of a process' life.
type tally struct{ at []float64 }

// farFuture is more seconds than any case lasts: what ends later is never seen.
const farFuture = 100_000

func (a *tally) add(second int, x float64) {
	second = max(second, 0)
	if second > farFuture {
		return
	}
	if second >= len(a.at) {
		a.at = append(a.at, make([]float64, second+257-len(a.at))...)
	}
	a.at[second] += x
}

func (a *tally) get(second int) float64 {
	if second < len(a.at) {
		return a.at[second]
	}
	return 0
}

// permits are when each of some threads or connections is free again: a heap,
// the earliest first.
type permits []float64

func newPermits(n int, t float64) permits {
	h := make(permits, n)
	for i := range h {
		h[i] = t
	}
	return h
}

func (h permits) earliest() float64 { return h[0] }

// take puts the earliest permit to use until t.
func (h permits) take(t float64) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if t <= h[child] {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = t
}

// logNormal is a factor with mean 1.
func logNormal(r *rand.Rand, sigma float64) float64 {
	return math.Exp(sigma*r.NormFloat64() - sigma*sigma/2)
}

// poisson draws a number of events of which mean are expected.
func poisson(r *rand.Rand, mean float64) int {
	const normal = 60 // from here on the normal distribution is near enough
	if mean <= 0 {
		return 0
	}
	if mean > normal {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	limit := math.Exp(-mean)
	for k, p := 0, 1.0; ; k++ {
		p *= r.Float64()
		if p <= limit {
			return k
		}
	}
}
