package headroom

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	// minRatio of the highest load to the lowest: closer, growth is mostly error.
	minRatio = 1.2
	// shareReach and queueReach are how far ahead waits are followed that do not
	// grow in step with the load. Simulated, shares of smooth arrivals then err by up
	// to 20 %, and those of batches whose holds grow too by up to 35 %; the queue,
	// which does not know the holds' distribution, by up to 20 %.
	shareReach = 3
	queueReach = 2
	// bentBias is that error.
	bentBias = 1.2
	// maxUnequal is the V beyond which bursts are likelier than holds so unequal:
	// at 50, c² is 99, one hold in a hundred being a hundred times the others.
	maxUnequal = 50
	// sameWithin is how far two ways to the same utilisation may differ.
	sameWithin = 1.2
)

// Levels is the reading from two or more loads, the last being today's. It
// uses snapshots where two windows or more have enough, else contended shares, else
// the mean queue; windows with too little for that are left out. Waits at two loads tell that something bends, but not
// whether it is arrivals or holds: what it was taken for is in Assumes.
func Levels(windows ...Window) Forecast {
	lo, hi := math.Inf(1), 0.0
	for i := range windows {
		if why := windows[i].invalid(); why != "" {
			return refuse(ByLevels, "%s", why)
		}
		lo, hi = min(lo, windows[i].load()), max(hi, windows[i].load())
	}
	switch {
	case len(windows) < 2:
		return refuse(ByLevels, "expected two loads or more, saw %d", len(windows))
	case lo == 0:
		return refuse(ByLevels, "expected the load of every window, saw one without; give its acquisitions or its requests a second")
	case hi/lo < minRatio:
		return refuse(ByLevels, "expected loads that differ by %v times or more, saw %.2f times; look at a busier hour too", minRatio, hi/lo)
	case hi/lo > farthest:
		return refuse(ByLevels, "expected loads of one unit, saw %.2g and %.2g; give the acquisitions of all windows, or of none", lo, hi)
	}
	direct := directLevels(windows)
	if direct.Refused == "" {
		return direct
	}
	waits := shareLevels
	uncounted := func(w Window) bool { return w.Acquisitions == 0 || w.Contentions == 0 }
	if _, why := readable(windows, (*Window).shareless); why != "" && slices.ContainsFunc(windows, uncounted) {
		waits = queueLevels
	}
	f := waits(windows)
	if f.Refused != "" {
		f.Refused = direct.Refused + "; or by waits: " + f.Refused
	}
	return f
}

// readable are the windows in which a reading sees enough, today's among them. One
// that shows too little costs no other; why is said where what is left is no levels.
func readable(windows []Window, unread func(*Window) string) (out []Window, why string) {
	lo, hi := math.Inf(1), 0.0
	for i := range windows {
		w := &windows[i]
		if no := unread(w); no != "" {
			no = fmt.Sprintf("level %d of %d: %s", i+1, len(windows), no)
			if i == len(windows)-1 {
				return nil, no
			}
			why = cmp.Or(why, no)
			continue
		}
		out = append(out, *w)
		lo, hi = min(lo, w.load()), max(hi, w.load())
	}
	if hi/lo < minRatio {
		return nil, why
	}
	return out, ""
}

func directLevels(windows []Window) Forecast {
	windows, why := readable(windows, func(w *Window) string { return Direct(*w).Refused })
	if why != "" {
		return refuse(ByLevels, "%s", why)
	}
	ps := points(windows, func(w *Window) (u, err float64) {
		f := Direct(*w)
		return f.Utilisation.At, math.Log(f.Utilisation.High/f.Utilisation.Low) / 4 // two errors to either side
	})
	c := follow(ps, true)
	return Forecast{
		Reading:     ByLevels,
		Confidence:  High,
		Utilisation: Direct(windows[len(windows)-1]).Utilisation,
		Saturates:   extrapolate(ps, true),
		Growth:      c.growth(),
		Assumes:     []string{assumesMoments, "from here on a hold grows with the load as it did between the levels"},
	}.finish(&windows[len(windows)-1])
}

func shareLevels(windows []Window) Forecast {
	windows, why := readable(windows, (*Window).shareless)
	if why != "" {
		return refuse(ByLevels, "%s", why)
	}
	ps := points(windows, func(w *Window) (u, err float64) { return min(1, w.share()), w.shareError() })
	c := follow(ps, false)
	today := &windows[len(windows)-1]
	f := Forecast{Reading: ByLevels, Confidence: Medium, Saturates: extrapolate(ps, false), Assumes: []string{assumesAll, c.meaning()}}
	if rho, ok := erlang(windows); today.Arrivals == Random {
		f.Growth = c.growth()
	} else if ok && c.steep > 1 {
		f.Saturates.At = 1 / rho
		f.Saturates.High = max(f.Saturates.High, bentBias/rho)
	} else if f = c.near(f, shareReach); f.Refused != "" {
		return f
	}
	return f.apparent().finish(today)
}

func queueLevels(windows []Window) Forecast {
	windows, why := readable(windows, (*Window).few)
	if why != "" {
		return refuse(ByLevels, "%s", why)
	}
	apparent := func(v float64) []point {
		return points(windows, func(w *Window) (u, err float64) {
			lq := w.queue()
			r := w.queueError(utilisation(lq, exponentialHolds))
			return utilisation(lq, v), math.Log(utilisation(lq*math.Exp(r), v)/utilisation(lq*math.Exp(-r), v)) / 2
		})
	}
	fixed, exponential := apparent(fixedHolds), apparent(exponentialHolds)
	c := follow(exponential, false)
	early, late := extrapolate(fixed, false), extrapolate(exponential, false)
	if c.steep+2*c.steepErr < 1 {
		// Too slow a growth even for exponential holds. Either holds are less equal, and
		// V is the one that makes u proportional to load, or arrivals come in bursts.
		v := maxUnequal
		for ; v > 1; v-- {
			if follow(apparent(float64(v-1)), false).steep < 1 {
				break
			}
		}
		early, late = late, extrapolate(apparent(float64(v)), false)
	}
	f := c.near(Forecast{
		Reading:    ByLevels,
		Confidence: Low,
		Saturates:  Range{min(early.Low, late.Low), math.Sqrt(early.At * late.At), max(early.High, late.High)},
		Assumes:    []string{c.meaning(), assumesHolds},
	}, queueReach)
	if f.Refused != "" {
		return f
	}
	return f.apparent().finish(&windows[len(windows)-1])
}

// apparent gives f the utilisation at which a lock saturates where f says and its
// hold grows as f says, ρ·x·(1-g + g·x) = 1.
func (f Forecast) apparent() Forecast {
	rho := func(x float64) float64 { return 1 / (x * (1 - f.Growth + f.Growth*x)) }
	f.Utilisation = Range{rho(f.Saturates.High), rho(f.Saturates.At), rho(f.Saturates.Low)}
	return f
}

// A point is a utilisation, true or apparent, at a load.
type point struct {
	load float64 // in multiples of today's
	u    float64
	err  float64 // standard error of ln u
}

// points are what read sees in windows.
func points(windows []Window, read func(*Window) (u, err float64)) []point {
	today := windows[len(windows)-1].load()
	out := make([]point, len(windows))
	for i := range windows {
		u, err := read(&windows[i])
		out[i] = point{windows[i].load() / today, u, err}
	}
	return out
}

// A curve is u(x) = a·x^p + b·x^q, x the load.
type curve struct {
	a, p, b, q      float64
	steep, steepErr float64 // dlnu/dlnx
}

// follow is the curve through points, as the package's documentation says.
// Through the origin goes what is a true utilisation.
func follow(ps []point, origin bool) curve {
	steep, steepErr := slope(ps)
	power := curve{p: max(1, steep)}
	power.fit(ps)
	c := power
	switch {
	case steep < 1 && origin: // a hold that seems shorter under load is not counted on
	case steep < 1:
		c = curve{p: 0, q: 1}
		c.fit(ps)
	case steep <= 2:
		c = curve{p: 1, q: 2}
		if c.fit(ps); c.a < 0 || c.b < 0 { // can be with three levels
			c = power
		}
	}
	c.steep, c.steepErr = steep, steepErr
	return c
}

// fit chooses a and b by least squares; a alone where q is 0.
func (c *curve) fit(ps []point) {
	var aa, ab, bb, ua, ub float64
	for _, p := range ps {
		x, y, w := math.Pow(p.load, c.p), math.Pow(p.load, c.q), 1/(p.u*p.err*p.u*p.err)
		aa, ab, bb = aa+w*x*x, ab+w*x*y, bb+w*y*y
		ua, ub = ua+w*p.u*x, ub+w*p.u*y
	}
	if c.q == 0 {
		c.a = ua / aa
		return
	}
	det := aa*bb - ab*ab
	c.a, c.b = (ua*bb-ub*ab)/det, (ub*aa-ua*ab)/det
}

// slope is dlnu/dlnx by least squares, with its standard error.
func slope(ps []point) (s, err float64) {
	var w, x, y, xx, xy float64
	for _, p := range ps {
		v, lx, ly := 1/(p.err*p.err), math.Log(p.load), math.Log(p.u)
		w, x, y, xx, xy = w+v, x+v*lx, y+v*ly, xx+v*lx*lx, xy+v*lx*ly
	}
	d := xx - x*x/w
	return (xy - x*y/w) / d, 1 / math.Sqrt(d)
}

// farthest is where a curve is taken never to be 1.
const farthest = 1e6

// cliff is where the curve is 1, at the latest at farthest.
func (c *curve) cliff() float64 {
	lo, hi := 0.0, farthest
	for range 100 { // bisects 1e6 to the last bit
		x := (lo + hi) / 2
		if c.a*math.Pow(x, c.p)+c.b*math.Pow(x, c.q) < 1 {
			lo = x
		} else {
			hi = x
		}
	}
	return hi
}

// growth is the part of today's holding time that is there because of the load,
// λS'/S at x = 1.
func (c *curve) growth() float64 {
	if c.q == 2 {
		return c.b / (c.a + c.b)
	}
	return max(0, min(1, c.p-1))
}

// meaning says what the curve was taken for.
func (c *curve) meaning() string {
	switch {
	case c.steep+2*c.steepErr < 1:
		return "waits grow more slowly than load, so arrivals come in bursts or a few holds are very long; this goes on as it is"
	case c.steep-2*c.steepErr > 1:
		return "waits grow faster than load, so arrivals are regular or holds grow with load; this goes on as it is"
	}
	return "waits grow as they do for random arrivals and holds that do not grow; this goes on as it is"
}

// near is f where waits that do not grow in step with the load need not be followed far.
func (c *curve) near(f Forecast, reach float64) Forecast {
	if math.Abs(c.steep-1) <= 2*c.steepErr {
		return f
	}
	if f.Saturates.At > reach {
		return refuse(ByLevels, "expected waits that grow in step with the load, saw them grow with its power %.2f, up to a cliff beyond %v times, which is too far to follow them; look at busier hours, or take snapshots", c.steep, reach)
	}
	f.Saturates.Low = max(1, f.Saturates.Low/bentBias)
	f.Saturates.High *= bentBias
	return f
}

// extrapolate is where the curve through points is 1, give or take two
// standard errors, each point's carried through the curve to the side where it
// matters more; at the earliest now.
func extrapolate(ps []point, origin bool) Range {
	at := func(ps []point) float64 {
		c := follow(ps, origin)
		return c.cliff()
	}
	middle, variance := at(ps), 0.0
	for i := range ps {
		more, less := slices.Clone(ps), slices.Clone(ps)
		more[i].u *= math.Exp(ps[i].err)
		less[i].u *= math.Exp(-ps[i].err)
		d := max(math.Abs(math.Log(at(more)/middle)), math.Abs(math.Log(at(less)/middle)))
		variance += d * d
	}
	r := around(middle, math.Sqrt(variance))
	return Range{max(1, r.Low), max(1, r.At), max(1, r.High)}
}

// erlang is today's utilisation if holds are exponential and arrivals Erlang-N, for
// some N. Then the contended share is the root of σ = (1 + (1-σ)/Nρ)^-N
// (GI/M/1), which the lowest and the highest load give N and ρ by, and
// ρ is the mean queue times (1-σ)/σ too: ok only if both say the same.
func erlang(windows []Window) (rho float64, ok bool) {
	by := func(a, b Window) int { return cmp.Compare(a.load(), b.load()) }
	low, high := slices.MinFunc(windows, by), slices.MaxFunc(windows, by)
	of := func(w *Window, n float64) float64 {
		return (1 - w.share()) / (n * (math.Pow(w.share(), -1/n) - 1))
	}
	n, most := 1.0, 1e3 // beyond, arrivals are as good as periodic
	for range 50 {
		mid := (n + most) / 2
		if of(&high, mid)/of(&low, mid) > high.load()/low.load() {
			n = mid
		} else {
			most = mid
		}
	}
	rho = of(&high, n)
	again := high.queue() * (1 - high.share()) / high.share()
	rho *= windows[len(windows)-1].load() / high.load()
	again *= windows[len(windows)-1].load() / high.load()
	return rho, rho < 1 && max(rho/again, again/rho) < sameWithin
}
