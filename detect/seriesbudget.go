package detect

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// seriesPlaces are the signals that measure the places of a budget, in requests.
var seriesPlaces = []struct{ place, signal string }{
	{PlaceInFlight, "inflight"},
	{PlaceCPU, "cpu"},
	{PlaceRunnable, "cpu_wait"},
	{PlaceLock, "lock_wait"},
	{PlacePool, "pool_wait"},
	{PlaceDependency, "dependency_wait"},
}

// seriesBudget adds the series' measure to the budget: of the instances that the
// profiles in it are of, where they are known, else of all of the job's; at the
// moment of the profile, else the one the verdict's numbers are of, else when most
// requests were in flight in the longest trouble, else at the end.
func (r *Report) seriesBudget(lead *Pass, of []*Pass, v *SeriesView, all []Finding, cause string) {
	profiled := instancesOf(of)
	if instance := v.profiled(lead); instance != "" && len(profiled) == 0 {
		profiled = []string{instance}
	}
	if lead == nil && len(profiled) > 0 {
		lead = of[0] // no cause, but of this moment and of these instances
	}
	if lead != nil && lead.Main() != nil && !lead.Main().ByRequest {
		return // goroutines of a process without handlers and requests of a gauge are no two measures of one thing
	}
	now, before := v.moments(lead, all, cause)
	shares := func(t time.Time) map[string]float64 {
		return shareOut(func(signal string) (float64, bool) { return v.Sum(signal, t, profiled...) })
	}
	here, there := shares(now), map[string]float64{}
	if len(here) == 0 {
		return
	}
	times := &BudgetTimes{Of: v.Job, Now: now.UTC()}
	switch n := len(profiled); {
	case n == 1:
		times.Of = profiled[0]
	case n > 1:
		times.Of = fmt.Sprintf("%d instances of %s", n, v.Job)
	}
	if !before.IsZero() {
		if there = shares(before); len(there) > 0 {
			b := before.UTC()
			times.Before = &b
		}
	}
	r.BudgetTimes = times
	if r.BudgetUnit == "" {
		r.BudgetUnit = Requests
	}
	var out []Share
	for _, name := range places {
		i := slices.IndexFunc(r.Budget, func(s Share) bool { return s.Where == name })
		s := Share{Where: name}
		if i >= 0 {
			s = r.Budget[i]
		}
		if x, ok := here[name]; ok {
			s.Now.Series = number(x)
		}
		if x, ok := there[name]; ok {
			s.Before.Series = number(x)
		}
		if s.Now != (Measures{}) || s.Before != (Measures{}) {
			out = append(out, s)
		}
	}
	r.Budget = out
	if lead != nil && lead.Stacks != nil && lead.Stacks.ByRequest && (len(profiled) > 0 || len(v.Canon.Instances[v.Job]) == 1) {
		r.disagreement()
	}
}

// shareOut shares what is in flight at one moment out to the places that are
// measured, and the rest to PlaceUnexplained.
func shareOut(measure func(signal string) (float64, bool)) map[string]float64 {
	out := map[string]float64{}
	for _, p := range seriesPlaces {
		if x, ok := measure(p.signal); ok {
			out[p.place] = max(x, 0)
		}
	}
	inFlight, ok := out[PlaceInFlight]
	if !ok {
		return out
	}
	// Garbage collection and background work use CPU too, calls go out in
	// parallel, and a wait is credited when it ends: no part is more than the whole.
	rest := inFlight
	for _, p := range seriesPlaces[1:] {
		if x, ok := out[p.place]; ok {
			out[p.place] = min(x, inFlight)
			rest -= out[p.place]
		}
	}
	out[PlaceUnexplained] = max(rest, 0)
	return out
}

// moments are the steps that a budget is of: now, and before the trouble began
// (zero where it began with the window, or there is none).
func (v *SeriesView) moments(lead *Pass, all []Finding, cause string) (now, before time.Time) {
	now = v.Canon.End
	var first time.Time
	longest := time.Duration(-1)
	for _, f := range all {
		if f.Alert == "" || f.Job != v.Job {
			continue
		}
		if first.IsZero() || f.Window.Start.Before(first) {
			first = f.Window.Start
		}
		if d := f.Window.End.Sub(f.Window.Start); d > longest {
			longest = d
			now, _ = v.peak("inflight", f.Window.Start, f.Window.End)
		}
	}
	for _, f := range all {
		if f.Alert != "" && f.Job == v.Job && f.Detector == cause {
			now = f.moment
			break
		}
	}
	if lead != nil && lead.Stacks != nil {
		if taken := lead.Stacks.Snapshot.Taken; !taken.IsZero() && !taken.Before(v.Canon.Start) && !taken.After(v.Canon.End) {
			now = v.step(taken)
		}
	}
	if !first.IsZero() {
		// Two windows earlier, nothing of it is in an average.
		if b := v.step(first.Add(-2 * v.Window())); !b.Before(v.Canon.Start) {
			before = b
		}
	}
	if !before.Before(now) {
		before = time.Time{} // the profile is of before the trouble
	}
	return now, before
}

// step is the last step of the grid until t.
func (v *SeriesView) step(t time.Time) time.Time {
	n := t.Sub(v.Canon.Start) / v.Canon.Timing.Interval
	return v.Canon.Start.Add(n * v.Canon.Timing.Interval)
}

// profiled is the instance that the lead's profiles are of: the one that their
// bundle names, else the one whose address is in their origin; "" where that is not known.
func (v *SeriesView) profiled(lead *Pass) string {
	switch {
	case lead == nil:
		return ""
	case lead.instance != "" && lead.job == v.Job:
		return lead.instance
	case lead.instance != "" || lead.Stacks == nil:
		return ""
	}
	for _, name := range [...]string{lead.target, lead.Process, lead.Stacks.Name} {
		u, err := url.Parse(name)
		if err != nil || u.Host == "" {
			continue
		}
		if slices.Contains(v.Canon.Instances[v.Job], u.Host) {
			return u.Host
		}
	}
	return ""
}

// disagreement warns where a snapshot and the series of one moment differ by
// more than a factor of two and ten requests: one of them is of another
// process, moment or population, or the waits for a lock have not ended
// (runtime.casgstatus adds a wait to /sync/mutex/wait/total:seconds at its end).
func (r *Report) disagreement() {
	const factor, least = 2, 10
	for _, s := range r.Budget {
		if s.Now.Series == nil || s.Now.Stacks == nil || s.Where != PlaceInFlight && s.Where != PlaceLock {
			continue
		}
		a, b := *s.Now.Stacks, *s.Now.Series
		if high, low := max(a, b), min(a, b); high > factor*low && high-low > least {
			why := "they are of different moments or processes, or count different requests"
			if s.Where == PlaceLock && a > b {
				why = "the runtime counts a wait once it ends, so these have not: the lock is not released, or was not until then; or they are of different moments"
			}
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: the profile has %s and the series %s: %s", s.Where, Thousands(Round(a)), Thousands(Round(b)), why))
		}
	}
}

// compareTimes warns where profiles were taken outside of the time that the
// series cover: another moment, or a clock that differs.
func (r *Report) compareTimes(lead *Pass, v *SeriesView) {
	if lead.Stacks == nil || lead.Stacks.Snapshot.Taken.IsZero() {
		return
	}
	taken, slack := lead.Stacks.Snapshot.Taken, v.Window()
	if taken.Before(v.Canon.Start.Add(-slack)) || taken.After(v.Canon.End.Add(slack)) {
		const form = "2006-01-02 15:04:05 MST"
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s was taken at %s, and the series are from %s to %s: they are of different moments, or a clock differs",
			strings.TrimSpace(lead.Stacks.Name), taken.UTC().Format(form), v.Canon.Start.UTC().Format(form), v.Canon.End.UTC().Format(form)))
	}
}
