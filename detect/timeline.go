package detect

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Timeline is how one job fared over the window that was analysed, in few
// enough points to draw: at most maxPoints, at most maxEnds.
type Timeline struct {
	Job        string
	Start, End time.Time
	Every      time.Duration // from one point to the next
	Steps      int           // of the series, that one point stands for; the last point may stand for fewer
	Instances  int           // that the job had in all
	Lines      []Line        // those that the job has a value of, in the order of timelineSignals
	Ends       []InstanceEnd // in order of time
	MoreEnds   int           // those left out of Ends, the latest
}

// Line is a signal, or a place of the budget, of all of a job's instances. Where
// a point stands for several steps, a place has its value at the one of them with
// most requests in flight, so that the places of a point still add up; any other
// line has its highest value among them.
type Line struct {
	Name   string    // a signal, or a place of the budget
	Place  bool      // of the budget: requests
	Unit   string    // of a signal, as in package series
	Worst  bool      // the highest of any instance rather than their sum
	Values []float64 // a point each; NaN where there is none
}

// InstanceEnd is a moment at which an instance went away or began anew. Series do
// not say whether it was killed.
type InstanceEnd struct {
	At        time.Time
	Instance  string
	Restarted bool // it came back under its name
}

const (
	maxPoints    = 240 // a point each 3 or 4 pixels of a plot, and a table that can still be read
	maxEnds      = 200
	maxTimelines = 4 // jobs: what sets an incident off is often seen at another one
)

// timelineSignals are what is drawn beside the budget: what comes, what goes, what
// it costs, and how near the health checks are to their timeout.
var timelineSignals = []struct {
	name, unit string
	worst      bool
}{
	{"inflight", "requests", false},
	{"cpu", "cores", false},
	{"cpu_limit", "cores", false},
	{"arrivals", "requests/s", false},
	{"completions", "requests/s", false},
	{"errors", "requests/s", false},
	{"health_latency", "seconds", true},
	{"health_timeout", "seconds", true},
}

// At is the moment of point i: of the first step it stands for.
func (t *Timeline) At(i int) time.Time { return t.Start.Add(time.Duration(i) * t.Every) }

// Line is the line of that name; nil where the job has none.
func (t *Timeline) Line(name string) *Line {
	if i := slices.IndexFunc(t.Lines, func(l Line) bool { return l.Name == name && !l.Place }); i >= 0 {
		return &t.Lines[i]
	}
	return nil
}

// Places are the lines that share out what is in flight, in the budget's order.
func (t *Timeline) Places() []Line {
	return slices.DeleteFunc(slices.Clone(t.Lines), func(l Line) bool { return !l.Place })
}

// addTimelines fills in the timelines of jobs, the verdict's first, then those
// with findings.
func (r *Report) addTimelines(passes []*Pass) {
	var jobs []*Pass
	for _, p := range passes {
		if p.Series != nil {
			jobs = append(jobs, p)
		}
	}
	rank := func(p *Pass) int {
		switch {
		case p.Series.Job == r.Verdict.Job:
			return 0
		case len(p.findings) > 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(jobs, func(a, b *Pass) int { return cmp.Compare(rank(a), rank(b)) })
	for _, p := range jobs {
		if t := p.Series.timeline(); len(t.Lines) > 0 {
			r.Timelines = append(r.Timelines, t)
		}
	}
	if n := len(r.Timelines) - maxTimelines; n > 0 {
		r.Timelines, r.MoreTimelines = r.Timelines[:maxTimelines], n
	}
}

func (v *SeriesView) timeline() Timeline {
	steps := int(v.Canon.End.Sub(v.Canon.Start)/v.Canon.Timing.Interval) + 1
	fold := (steps + maxPoints - 1) / maxPoints
	t := Timeline{
		Job: v.Job, Start: v.Canon.Start.UTC(), End: v.Canon.End.UTC(),
		Every: time.Duration(fold) * v.Canon.Timing.Interval, Steps: fold,
		Instances: len(v.Canon.Instances[v.Job]),
	}
	busiest := make([]int, 0, maxPoints) // the step of each point with most in flight
	inFlight := v.perStep("inflight", steps, false)
	for from := 0; from < steps; from += fold {
		best := from
		for i := from; i < min(from+fold, steps); i++ {
			if math.IsNaN(inFlight[best]) || inFlight[i] > inFlight[best] {
				best = i
			}
		}
		busiest = append(busiest, best)
	}
	for _, p := range v.placesPerStep(inFlight) {
		values := make([]float64, len(busiest))
		for i, step := range busiest {
			values[i] = p.Values[step]
		}
		p.Values = values
		t.add(p)
	}
	for _, s := range timelineSignals {
		all := v.perStep(s.name, steps, s.worst)
		var values []float64
		for part := range slices.Chunk(all, fold) {
			values = append(values, highest(part))
		}
		t.add(Line{Name: s.name, Unit: s.unit, Worst: s.worst, Values: values})
	}
	t.Ends = v.ends()
	if n := len(t.Ends) - maxEnds; n > 0 {
		t.Ends, t.MoreEnds = t.Ends[:maxEnds], n
	}
	return t
}

// add keeps a line that has a value.
func (t *Timeline) add(l Line) {
	if !math.IsNaN(highest(l.Values)) {
		t.Lines = append(t.Lines, l)
	}
}

// highest is the largest value; NaN where there is none.
func highest(values []float64) float64 {
	most := math.NaN()
	for _, x := range values {
		if math.IsNaN(most) || x > most {
			most = x
		}
	}
	return most
}

// perStep is a signal's sum over the job's instances, or its highest value of any,
// at each step of the window; NaN where none has a value.
func (v *SeriesView) perStep(signal string, steps int, worst bool) []float64 {
	out := make([]float64, steps)
	for i := range out {
		out[i] = math.NaN()
	}
	start, step := v.Canon.Start.UnixMilli(), v.Canon.Timing.Interval.Milliseconds()
	for _, c := range v.columns(signal) {
		c = c.within(v.Canon.Start, v.Canon.End)
		for k, t := range c.T {
			i, x := int((t-start)/step), c.V[k]
			switch {
			case math.IsNaN(x) || math.IsInf(x, 0) || i >= steps:
			case math.IsNaN(out[i]):
				out[i] = x
			case worst:
				out[i] = max(out[i], x)
			default:
				out[i] += x
			}
		}
	}
	return out
}

// placesPerStep shares out what is in flight at each step, as the budget does.
func (v *SeriesView) placesPerStep(inFlight []float64) []Line {
	measured := map[string][]float64{} // by signal
	for _, p := range seriesPlaces {
		measured[p.signal] = v.perStep(p.signal, len(inFlight), false)
	}
	var lines []Line
	for _, name := range places[1:] {
		lines = append(lines, Line{Name: name, Place: true, Unit: "requests", Values: make([]float64, len(inFlight))})
	}
	for i := range inFlight {
		at := shareOut(func(signal string) (float64, bool) {
			x := measured[signal][i]
			return x, !math.IsNaN(x)
		})
		for k := range lines {
			x, ok := at[lines[k].Name]
			if _, whole := at[PlaceInFlight]; !ok || !whole {
				x = math.NaN()
			}
			lines[k].Values[i] = x
		}
	}
	return lines
}

// ends are when the job's instances went away or began anew, by the time at which
// each says that it began.
func (v *SeriesView) ends() []InstanceEnd {
	step := v.Canon.Timing.Interval
	// A series of a window's last value goes on for a window after its last sample.
	late := v.Window() - step
	var out []InstanceEnd
	for _, c := range v.columns("start_time") {
		c = c.within(v.Canon.Start, v.Canon.End)
		last := -1
		for i, x := range c.V {
			if math.IsNaN(x) {
				continue
			}
			// Some exporters compute it anew at each scrape, a little differently.
			if last >= 0 && x-c.V[last] > max(1, step.Seconds()/2) {
				out = append(out, InstanceEnd{At: time.UnixMilli(c.T[i]).UTC(), Instance: c.instance, Restarted: true})
			}
			last = i
		}
		if last < 0 {
			continue
		}
		if end := time.UnixMilli(c.T[last]); v.Canon.End.Sub(end) > step {
			out = append(out, InstanceEnd{At: end.Add(-late).UTC(), Instance: c.instance})
		}
	}
	slices.SortFunc(out, func(a, b InstanceEnd) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Instance, b.Instance))
	})
	return out
}
