package detect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
)

// jobPasses evaluates the alerts of detectors over the series of an input and
// returns a pass for each job.
func jobPasses(c *series.Canonical, detectors []*Detector, opt Options, r *Report) []*Pass {
	if c == nil {
		return nil
	}
	views, err := evaluateSignals(context.Background(), c, detectors)
	if err != nil {
		for _, d := range detectors {
			if d.needs(Series) {
				r.Skipped = append(r.Skipped, Skipped{Detector: d.Name, Reason: fmt.Sprintf("its condition could not be evaluated (%v): please report it with the input", err)})
			}
		}
		return nil
	}
	var passes []*Pass
	for _, v := range views {
		passes = append(passes, &Pass{Options: opt, Series: v})
	}
	return passes
}

// runJobs runs detectors on each job, beside the processes. One that could look
// at some of the jobs or processes was not skipped: what it could not see of the
// others is a note.
func (r *Report) runJobs(jobs, processes []*Pass, detectors []*Detector) {
	blind := map[string][]string{} // by job
	sees := func(d *Detector) func(*Pass) bool {
		return func(p *Pass) bool { return unmet(d, p) == "" }
	}
	for _, d := range detectors {
		if len(processes) > 0 && !d.needs(Series) {
			continue // it looks at the processes
		}
		looked := slices.ContainsFunc(jobs, sees(d)) || slices.ContainsFunc(processes, sees(d))
		reason := ""
		for _, p := range jobs {
			switch why := unmet(d, p); {
			case why == "":
				p.run(d, r)
			case looked:
				blind[p.Series.Job] = append(blind[p.Series.Job], d.Name)
			case reason == "" || len(why) < len(reason):
				reason = why // the job that lacks least
			}
		}
		if !looked && len(jobs) > 0 {
			r.Skipped = append(r.Skipped, Skipped{Detector: d.Name, Reason: reason})
		}
	}
	for _, p := range jobs {
		p.soften()
		if names := blind[p.Series.Job]; len(names) > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("job %s: no series for %s, which looked elsewhere", p.Series.Job, strings.Join(names, ", ")))
		}
	}
}

// addSeries says in a report which series were read and what was taken for which signal.
func (r *Report) addSeries(b *ingest.Bundle, jobs []*Pass) {
	c, window := b.Series, "not used"
	if c != nil {
		v := SeriesView{Canon: c}
		window = fmt.Sprintf("%s to %s, each %s", v.clock(c.Start), v.clock(c.End), c.Timing.Interval)
		if len(b.Read) == 0 {
			r.Inputs = append(r.Inputs, Input{Name: c.Source, Kind: "series", Taken: when(c.Start), Use: window})
		}
	}
	for _, s := range b.Read {
		in := Input{Name: s.Name, Kind: "series", Format: s.Format, Series: s.Loaded.Series, Samples: s.Loaded.Samples, Use: window}
		if c != nil {
			in.Taken = when(c.Start)
		}
		r.Inputs = append(r.Inputs, in)
		for _, note := range s.Loaded.Notes {
			r.Notes = append(r.Notes, s.Name+": "+note)
		}
		if s.Loaded.Bad > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s could not be read and were left out, beside %s that were", s.Name, Plural(float64(s.Loaded.Bad), "line"), Plural(float64(s.Loaded.Samples), "sample")))
		}
	}
	if c == nil {
		return
	}
	r.Notes = append(r.Notes, c.Notes...)
	r.Warnings = append(r.Warnings, c.Warnings...)
	for _, m := range c.Matches {
		r.Signals = append(r.Signals, SignalMatch{Signal: m.Signal, Matched: m.Matched, Metrics: m.Metrics, Instances: m.Instances, Missing: m.Missing, Hint: m.Hint})
	}
	for _, p := range jobs {
		p.Series.gaps = p.Series.holes()
		r.Warnings = append(r.Warnings, p.Series.gaps...)
	}
}

// unmet says why d cannot look at the job's series; "" where it can.
func (v *SeriesView) unmet(d *Detector) string {
	var first []string // what is missing of the first need, the usual one
	for _, n := range d.Needs {
		if n.Input != Series {
			continue
		}
		var missing []string
		for _, name := range n.Signals {
			if !v.Has(name) {
				missing = append(missing, v.missing(name))
			}
		}
		if len(missing) == 0 {
			return ""
		}
		if first == nil {
			first = missing
		}
	}
	return strings.Join(first, "; ")
}

// missing says why the job has no series of a signal.
func (v *SeriesView) missing(signal string) string {
	for _, m := range v.Canon.Matches {
		if m.Signal != signal {
			continue
		}
		// Which names were looked for is in the report's signals.
		text := "no " + signal + " series"
		switch {
		case m.Missing != "" && len(m.Metrics) > 0:
			text += ": " + m.Missing
		case m.Matched != "":
			text += " of this job, although other jobs have them"
		}
		if len(m.Near) > 0 {
			text += fmt.Sprintf(" (but %s: if that is it, --signal %s=…)", strings.Join(m.Near, ", "), signal)
		}
		if m.Hint != "" {
			text += "; " + m.Hint
		}
		return text
	}
	return "no " + signal + " series"
}

// holes warns of what is not in the series of the window: scrapes that failed (a
// service whose /metrics waits for the lock in question fails them exactly then),
// and series that stopped coming although nothing says that their job is gone.
func (v *SeriesView) holes() []string {
	var out []string
	var first, last time.Time
	failed := 0
	ups := v.columns("up")
	for _, c := range ups {
		if from, to, ok := v.lost(c); ok {
			failed++
			if first.IsZero() || from.Before(first) {
				first = from
			}
			if to.After(last) {
				last = to
			}
		}
	}
	if failed > 0 {
		out = append(out, fmt.Sprintf("job %s: scrapes of %d of %s failed for minutes, from about %s to %s: what happened meanwhile is not in the series", v.Job, failed, Plural(float64(len(ups)), "instance"), v.clock(first), v.clock(last)))
	}
	if why := v.doubt("inflight"); why != "" {
		out = append(out, fmt.Sprintf("job %s: %s", v.Job, why))
	}
	if _, end := v.extent(); v.Canon.End.Sub(end) > v.lostTime() {
		out = append(out, fmt.Sprintf("job %s: its series end at %s, %s before the window does: what happened since is not in them", v.Job, v.clock(end), v.Canon.End.Sub(end)))
	}
	return out
}

// lost reports whether an instance's scrapes failed for longer than a drained
// target's last ones do, and from when to when.
func (v *SeriesView) lost(up column) (from, to time.Time, ok bool) {
	begin := int64(-1) // of a run of failed scrapes
	end := func(t int64) bool {
		return begin >= 0 && time.Duration(t-begin)*time.Millisecond >= v.lostTime()
	}
	last := int64(0)
	up = up.within(v.Canon.Start, v.Canon.End)
	for i, t := range up.T {
		last = t
		if up.V[i] < lostScrapes {
			if begin < 0 {
				begin = t
			}
			continue
		}
		if end(t) {
			return time.UnixMilli(begin), time.UnixMilli(t), true
		}
		begin = -1
	}
	return time.UnixMilli(begin), time.UnixMilli(last), end(last)
}

// extent is the first and the last step in the window at which any instance has a
// sample of any signal.
func (v *SeriesView) extent() (first, last time.Time) {
	first, last = v.Canon.End, v.Canon.Start
	for _, m := range v.Canon.Matches {
		for _, c := range v.columns(m.Signal) {
			c = c.within(v.Canon.Start, v.Canon.End)
			there := func(x float64) bool { return !math.IsNaN(x) }
			i := slices.IndexFunc(c.V, there)
			if i < 0 {
				continue
			}
			if t := time.UnixMilli(c.T[i]).UTC(); t.Before(first) {
				first = t
			}
			k := len(c.V) - 1
			for !there(c.V[k]) {
				k--
			}
			if t := time.UnixMilli(c.T[k]).UTC(); t.After(last) {
				last = t
			}
		}
	}
	return first, last
}

// lostTime is how long nothing must come to be worth a warning: in a window of a minute, less.
func (v *SeriesView) lostTime() time.Duration {
	return min(v.span("8x,2m"), max(v.Canon.End.Sub(v.Canon.Start)/4, 2*v.Canon.Timing.Interval))
}

// lostScrapes is the share of a window's scrapes that must have come: half of
// them lost is no accident of one.
const lostScrapes = 0.5
