package detect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// jobOf is the job whose series tell the story of a verdict: the lead's own; else
// the one that has the lead's process among its instances; else the only one there
// is, where the lead's job is not known; without a lead, the one with the gravest
// findings. nil where none is it.
func jobOf(passes []*Pass, lead *Pass) *Pass {
	if lead != nil && lead.Series != nil {
		return lead
	}
	var jobs []*Pass
	for _, p := range passes {
		if p.Series == nil {
			continue
		}
		if p.Series.profiled(lead) != "" {
			return p
		}
		jobs = append(jobs, p)
	}
	switch {
	case len(jobs) == 0 || lead != nil && lead.instance != "":
		return nil
	case len(jobs) == 1:
		return jobs[0]
	case lead == nil:
		return slices.MaxFunc(jobs, func(a, b *Pass) int {
			return cmp.Or(a.gravest()-b.gravest(), len(a.findings)-len(b.findings))
		})
	}
	return nil
}

// gravest is how grave a pass's worst finding is: by severity, and what still
// lasts before what is over.
func (p *Pass) gravest() int {
	worst := 0
	for _, f := range p.findings {
		rank := 2 * (3 - slices.Index(Severities, f.Severity))
		if f.Ongoing {
			rank++
		}
		worst = max(worst, rank)
	}
	return worst
}

func jobsOf(passes []*Pass) int {
	n := 0
	for _, p := range passes {
		if p.Series != nil {
			n++
		}
	}
	return n
}

// tell puts the findings of an incident in order: what set it off, what
// follows from it, and what gives way to what is known better. detector is the
// verdict's cause, without a name where there is none; of are the processes that
// the budget is of.
func (r *Report) tell(all []Finding, lead *Pass, of []*Pass, job *Pass, detector *Detector) {
	if job == nil {
		return
	}
	v, cause := job.Series, detector.Name
	for i := range all {
		f := &all[i]
		if f.Alert == "" || f.Job != v.Job {
			continue
		}
		switch {
		case f.Detector == "lockwait" && lead != job && isLock(cause):
			// The counter says that requests wait for a lock; the stacks say which.
			f.Severity, f.Next, f.Warnings = Info, nil, nil
			f.Summary += "; see " + cause + ", which names the lock"
		case f.Role == Trigger && f.Detector == "hungrequests" && cause != "":
			f.Role = Symptom // something holds them: that they hang follows from it
		}
	}
	r.Verdict.Trigger = triggerOf(all, v)
	for _, f := range all {
		at := time.Time{}
		switch {
		case f.Alert != "" && (f.Job == v.Job || f.Role == Trigger && cause != ""):
			// What set this job off can be seen at another.
			at = f.Window.Start
			if !f.Onset.IsZero() {
				at = f.Onset.UTC()
			}
			r.again(&f, v.Canon.Timing.Interval)
		case f.Alert == "" && f.Detector == cause && lead != nil && f.of(lead) && lead.Stacks != nil && f.Severity != Info:
			at = lead.since(detector).UTC()
		}
		if !at.IsZero() {
			line := StoryLine{At: at, Detector: f.Detector, Summary: f.Summary, Role: f.Role}
			if f.Alert != "" {
				line.Job, line.Until = f.Job, f.Window.End
			}
			if f.Job != v.Job && f.Alert != "" {
				line.Summary += " (job " + f.Job + ")"
			}
			if !f.moment.IsZero() && f.moment.Sub(at) > v.Canon.Timing.Interval {
				line.Summary += " (at " + v.clock(f.moment) + ")"
			}
			r.Verdict.Story = append(r.Verdict.Story, line)
		}
	}
	// Of what begins at one step, what sets it off comes first, and what follows last.
	rank := map[string]int{}
	for _, f := range all {
		rank[f.Detector] = slices.Index([]Role{Trigger, Cause, Symptom, Forecast}, f.Role)
	}
	slices.SortStableFunc(r.Verdict.Story, func(a, b StoryLine) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(rank[a.Detector], rank[b.Detector]))
	})
	r.seriesBudget(lead, of, v, all, cause)
	if lead != nil && lead != job {
		r.compareTimes(lead, v)
		if other := causeOf(job); other != "" && other != cause && other != "lockwait" {
			r.Warnings = append(r.Warnings, fmt.Sprintf("the series of job %s say %s and the profiles say %s: the profiles are of another moment or instance, or both hold requests", v.Job, other, cause))
		}
	}
}

// mostAgain is how many more times that one alert fired a story tells.
const mostAgain = 3

// again tells of the other times that an alert fired.
func (r *Report) again(f *Finding, step time.Duration) {
	told := 0
	for _, w := range f.Times {
		if w == *f.Window {
			continue
		}
		if told++; told > mostAgain {
			return // how often it was in all is in the finding's evidence
		}
		when := "fired again"
		if w.Start.Before(f.Window.Start) {
			when = "had fired before"
		}
		r.Verdict.Story = append(r.Verdict.Story, StoryLine{
			At: w.Start, Detector: f.Detector, Summary: when + ", for " + (w.End.Sub(w.Start) + step).String(),
			Role: f.Role, Job: f.Job, Until: w.End,
		})
	}
}

func isLock(cause string) bool {
	return cause == "telemetryblock" || cause == "applock" || cause == "deadlock"
}

// triggerOf is what set an incident off: a herd before anything else of the
// job, or requests that hang where no cause holds them; "" where neither is known.
func triggerOf(all []Finding, v *SeriesView) string {
	var others []Window // of what is no trigger
	for _, f := range all {
		if f.Alert != "" && f.Job == v.Job && f.Role != Trigger {
			others = append(others, f.Times...)
		}
	}
	trigger := ""
	for _, f := range all {
		if f.Alert == "" || f.Job != v.Job || f.Role != Trigger {
			continue
		}
		switch f.Detector {
		case "herd":
			if len(others) == 0 || slices.ContainsFunc(f.Times, func(w Window) bool { return v.setsOff(w, others) }) {
				return f.Detector
			}
		case "hungrequests":
			trigger = f.Detector
		}
	}
	return trigger
}

// setsOff reports whether a herd stands before one of the others: it was still
// there, or had just ended, when that began. A condition takes a window to hold, so that what
// a herd sets off may show a window before the herd itself does.
func (v *SeriesView) setsOff(herd Window, others []Window) bool {
	slack := 2 * v.Window()
	return slices.ContainsFunc(others, func(w Window) bool {
		return !w.Start.Before(herd.Start.Add(-slack)) && !w.Start.After(herd.End.Add(2*slack))
	})
}

// symptomsOf says, where no cause was found, that something is wrong all the
// same: an engineer must not read "nothing found" beside it.
func symptomsOf(passes []*Pass, findings []Finding) string {
	var names []string
	summary := ""
	job := jobOf(passes, nil)
	for _, f := range findings {
		if f.Alert == "" || f.Severity == Info || f.Role == Cause || f.Job != job.Series.Job {
			continue
		}
		if summary == "" || f.Detector == "inflightcpu" {
			summary = f.Summary
		}
		names = append(names, f.Detector)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	text := fmt.Sprintf("no cause found, but %s: %s", strings.Join(slices.Compact(names), ", "), summary)
	var others []string
	for _, f := range findings {
		if f.Alert != "" && f.Severity != Info && f.Job != job.Series.Job && !slices.Contains(others, f.Job) {
			others = append(others, f.Job)
		}
	}
	if len(others) > 0 {
		text += "; also in job " + strings.Join(others, ", ")
	}
	return text
}

// quiet says what was looked at in a job's series.
func (v *SeriesView) quiet() string {
	text := v.Job + ": "
	if at, n := v.peak("inflight", v.Canon.Start, v.Canon.End); n > 0 {
		text += fmt.Sprintf("at most %s in flight (%s), ", Plural(Round(n), "request"), v.clock(at))
	}
	first, last := v.extent()
	return text + fmt.Sprintf("%s from %s to %s", Plural(float64(len(v.Canon.Instances[v.Job])), "instance"), v.clock(first), v.clock(last))
}

// clock writes a moment of the window, with its day where the window has several.
func (v *SeriesView) clock(t time.Time) string {
	if v.Canon.Start.UTC().YearDay() != v.Canon.End.UTC().YearDay() || v.Canon.End.Sub(v.Canon.Start) > 24*time.Hour {
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return t.UTC().Format("15:04:05 UTC")
}
