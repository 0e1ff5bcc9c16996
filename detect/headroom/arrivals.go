package headroom

import "math"

// Pattern is how acquisitions come.
type Pattern int

// Patterns.
const (
	Unknown Pattern = iota
	Random          // many callers who know nothing of each other
	Smooth          // more regular, as behind a balancer that deals out in turn
	Bursts          // in bursts
)

// PatternOf tells how arrivals come from how many came in each of a row of
// equal intervals. It asks for 200 intervals with 3 to 30 arrivals each: in shorter
// ones arrivals of any pattern look random, in longer ones the drift of the load
// looks like bursts and hides a regular pattern below it. It is Unknown for
// fewer, and where two scales disagree.
//
// It is by the index of dispersion, variance by mean: 1 for random arrivals, 1/N for
// every Nth of a random stream (Cox and Lewis 1966). The variance is that of
// successive differences (von Neumann 1941), which the load's drift leaves alone.
func PatternOf(counts []float64) Pattern {
	const (
		intervals = 200 // the index of random arrivals is then within 0.75 and 1.25 in 19 of 20 cases
		fewest    = 3   // at which the index of every second, 1/2, still reads 0.58
		most      = 30  // at which a swing of a tenth adds 0.3 to the index
		coarse    = 4   // the second scale, in intervals
	)
	if len(counts) < intervals {
		return Unknown
	}
	fine, mean := dispersion(counts)
	if !(fine >= 0 && mean >= fewest && !math.IsInf(mean, 1)) {
		return Unknown
	}
	sums := make([]float64, len(counts)/coarse)
	for i := range sums {
		for _, n := range counts[coarse*i : coarse*(i+1)] {
			sums[i] += n
		}
	}
	wide, _ := dispersion(sums)
	switch {
	case fine < 0.75 && wide < 1: // however long the intervals: drift only adds
		return Smooth
	case mean > most:
		return Unknown
	case fine > 1.5 && wide > 1.5:
		return Bursts
	case fine >= 0.75 && fine <= 1.33 && wide >= 0.6 && wide <= 1.6:
		return Random
	}
	return Unknown
}

// dispersion is the variance of counts by their mean; NaN where a count is none.
func dispersion(counts []float64) (index, mean float64) {
	sum, squares := 0.0, 0.0
	for i, n := range counts {
		if !(n >= 0) {
			return math.NaN(), math.NaN()
		}
		sum += n
		if i > 0 {
			squares += (n - counts[i-1]) * (n - counts[i-1])
		}
	}
	mean = sum / float64(len(counts))
	return squares / 2 / float64(len(counts)-1) / mean, mean
}
