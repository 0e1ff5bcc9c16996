package lockheadroom

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/headroom"
)

const (
	// lookBack is how far back from a moment its alert has looked.
	lookBack = "1h10m"
	// mostLevels is how many levels the loads of a window are sorted into.
	mostLevels = 3
	// fewest is how many values that know nothing of each other a level has at
	// least, for their scatter to be known to a quarter.
	fewest = 10
)

// ofSeries forecasts for each instance from its mean queue over all its locks at
// several loads. The last level is that of the highest load, which a surge adds to.
// Where the window has no number, since the lock has saturated by now, say, but its
// alert has fired, what was known when it did is told.
func ofSeries(p *detect.Pass) error {
	v := p.Series
	var best detect.Finding
	var instances []string
	past := true // of all of them
	why := fmt.Sprintf("no number, which is no all-clear: expected %d values or more of waits and load, saw fewer", 2*fewest)
	firings := v.Firings(alert)
	back, err := v.Canon.Timing.Span(lookBack)
	if err != nil {
		return err
	}
	for _, instance := range v.Canon.Instances[v.Job] {
		out, ok, reason := ofInstance(p, instance, v.Canon.Start, v.Canon.End)
		for i := 0; i < len(firings) && !ok; i++ {
			if f := &firings[i]; slices.Contains(f.Instances, instance) && !f.Fired.IsZero() {
				if out, ok, _ = ofInstance(p, instance, f.Fired.Add(-back), f.Fired); ok {
					out.Alert = alert
					held := f.Window()
					out.Window = &held
					out.Past = !f.Resolved.IsZero()
					out.Evidence = append(out.Evidence, detect.Evidence{Text: fmt.Sprintf("%s has fired at %s", alert, f.Fired.UTC().Format("15:04:05"))})
				}
			}
		}
		if !ok {
			why = cmp.Or(reason, why)
			continue
		}
		instances, past = append(instances, instance), past && out.Past
		if best.Headroom == nil || out.SaturatesAt.Low < best.SaturatesAt.Low {
			best = out
		}
	}
	if best.Headroom == nil {
		p.RuleOut("%s", why)
		return nil
	}
	best.Instances, best.Past = instances, past
	best.Assumes = append(best.Assumes, "one lock does most of the waiting of the process")
	best.Next = []string{
		"name the lock: contend analyze of two block profiles of one instance some seconds apart says whose it is",
		"hold it shorter, shard it by key, or take it off the request path before the load gets there",
	}
	best.Warnings = append(best.Warnings, "series cannot say which lock, nor whose")
	p.Report(best)
	return nil
}

// ofInstance is the forecast of one instance from what it showed from start to end.
func ofInstance(p *detect.Pass, instance string, start, end time.Time) (out detect.Finding, ok bool, why string) {
	v := p.Series
	rows := v.Values(start, end, instance, "completions", "lock_wait")
	if len(rows) == 0 {
		return out, false, ""
	}
	if slices.ContainsFunc(rows, func(r []float64) bool { return r[1] >= saturated }) {
		return out, false, fmt.Sprintf("saturated already: in %s at some time %d and more wait for locks, which says more than a forecast", instance, saturated)
	}
	windows := levelsOf(rows, int(v.Window()/v.Canon.Timing.Interval), v.Window())
	f := headroom.Levels(windows...)
	f.Refused = onlyWaits(f)
	if out, ok, why = assess(f, &p.Options); !ok {
		return out, false, instance + ": " + why
	}
	today := &windows[len(windows)-1]
	out.Reading = "series"
	out.Queue = today.Delay.Seconds() / today.Elapsed.Seconds()
	out.Window = &detect.Window{Start: start.UTC(), End: end.UTC()}
	out.Summary = fmt.Sprintf("%s, by its locks, %s the highest load it had, %s requests a second: %s", instance, out.Saturates(), detect.Figure(today.Load), out.Held())
	return out, true, ""
}

// levelsOf sorts values of load and waiting into levels of load, the highest
// last. A value is the mean of the window before its step, so that only every
// stride-th knows nothing of the one before.
func levelsOf(rows [][]float64, stride int, window time.Duration) []headroom.Window {
	var apart [][]float64
	for i := 0; i < len(rows); i += max(1, stride) {
		if rows[i][0] > 0 {
			apart = append(apart, rows[i])
		}
	}
	if len(apart) == 0 {
		return nil
	}
	slices.SortFunc(apart, func(a, b []float64) int { return cmp.Compare(a[0], b[0]) })
	lowest, highest := apart[0][0], apart[len(apart)-1][0]
	step := math.Pow(highest/lowest, 1.0/mostLevels)
	levels := make([][][]float64, mostLevels)
	for _, r := range apart {
		i := 0
		for edge := lowest * step; i < mostLevels-1 && r[0] >= edge; edge *= step {
			i++
		}
		levels[i] = append(levels[i], r)
	}
	var out []headroom.Window
	for _, level := range levels {
		if len(level) >= fewest {
			out = append(out, levelOf(level, window))
		}
	}
	return out
}

// levelOf is a level of load. A request is taken to ask for the lock once, which
// makes of the delay the least number of contentions that can be behind it.
func levelOf(rows [][]float64, window time.Duration) headroom.Window {
	n := float64(len(rows))
	load, queue, squares := 0.0, 0.0, 0.0
	for _, r := range rows {
		load, queue, squares = load+r[0]/n, queue+r[1]/n, squares+r[1]*r[1]/n
	}
	elapsed := n * window.Seconds()
	scatter := math.Sqrt(max(0, squares-queue*queue) / (n - 1))
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return headroom.Window{
		Elapsed: seconds(elapsed), Load: load, Acquisitions: load * elapsed,
		Delay: seconds(queue * elapsed), DelayError: seconds(scatter * elapsed),
	}
}
