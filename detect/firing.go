package detect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ReportAlerts makes a finding of each of the detector's alerts that fired for
// the pass's job; describe fills in what is particular to one firing. Of an
// alert that fired several times it is the longest one. Where none fired, it rules the
// detector out: for what looked like it, with whatever describe's author says in none.
func (p *Pass) ReportAlerts(none string, describe func(f *Firing) Finding) {
	v := p.Series
	reported := false
	var lookAlikes []string
	for i := range p.Detector.Signals {
		s := &p.Detector.Signals[i]
		firings := v.Firings(s.Alert)
		if len(firings) == 0 {
			lookAlikes = append(lookAlikes, v.LookedLike(s.Alert)...)
			continue
		}
		main := slices.MaxFunc(firings, func(a, b Firing) int {
			return cmp.Compare(a.End(v).Sub(a.Active), b.End(v).Sub(b.Active))
		})
		f := describe(&main)
		f.Alert = s.Alert
		f.Severity = cmp.Or(f.Severity, s.Severity)
		f.Confidence = cmp.Or(f.Confidence, High)
		if v.moment() {
			f.Confidence = Weaker(f.Confidence, Medium)
			f.Warnings = append(f.Warnings, "a scrape or two show a moment: whether it lasts, more of them would say")
		}
		f.Instances = main.Instances
		f.Window = &Window{Start: main.Active.UTC(), End: main.End(v).UTC()}
		if len(firings) > 1 {
			f.Evidence = append(f.Evidence, Evidence{Text: fmt.Sprintf("%s fired %d times in the window; this is the longest", s.Alert, len(firings)), Input: v.Canon.Source})
		}
		p.Report(f)
		reported = true
	}
	if reported {
		return
	}
	slices.Sort(lookAlikes)
	if lookAlikes = slices.Compact(lookAlikes); len(lookAlikes) > 0 {
		none += "; what looked like it is " + strings.Join(lookAlikes, ", and ")
	}
	p.RuleOut("%s", none)
}

// Evidence is a number of series, as evidence.
func (v *SeriesView) Evidence(format string, args ...any) Evidence {
	return Evidence{Text: fmt.Sprintf(format, args...), Input: v.Canon.Source}
}

// On says for how many of a job's instances something held.
func (v *SeriesView) On(f *Firing) string {
	total := max(v.InstancesAt("inflight", f.At), v.InstancesAt("cpu", f.At), len(f.Instances))
	if total == 1 {
		return "on its one instance"
	}
	return fmt.Sprintf("on %d of %d instances", len(f.Instances), total)
}

// WaitFinding is what a firing of a cause says in requests: how many wait, by
// the signal of that wait, of how many in flight, over the instances for which
// it fired, at the step at which most wait.
func (v *SeriesView) WaitFinding(f *Firing, signal string) Finding {
	at, wait := v.peak(signal, f.Active, f.End(v), f.Instances...)
	out := Finding{Unit: Requests, Blocked: round1(wait)}
	if total, ok := v.Sum("inflight", at, f.Instances...); ok && total > 0 {
		// Waits are credited when they end and some are sampled, so that they can
		// come to more than there are requests at the moment.
		out.Blocked = min(out.Blocked, round1(total))
		out.Total, out.Requests = round1(total), Whole(total)
		out.Weight = min(out.Blocked/out.Total, 1)
		out.Severity = severityOfShare(out.Weight)
	} else {
		out.Weight = MaterialShare // of an unknown whole: material, and no more
		out.Confidence = Medium
		out.Warnings = append(out.Warnings, "requests in flight are not known, so their share is not either")
	}
	f.At = at
	return out
}

// WaitsOf says "n of m requests" of a finding of WaitFinding.
func (v *SeriesView) WaitsOf(f Finding) string {
	if f.Total == 0 {
		return "on average " + Thousands(Round(f.Blocked))
	}
	return fmt.Sprintf("%s of %s", Thousands(Round(f.Blocked)), Plural(Round(f.Total), "request"))
}

// MostOf says how many waited at the most, and of how many, where that was not
// material: "at most 0.3 of 12 requests waited for locks".
func (v *SeriesView) MostOf(signal, what string) string {
	at, wait := v.peak(signal, v.Canon.Start, v.Canon.End)
	if total, ok := v.Sum("inflight", at); ok && total >= wait {
		return fmt.Sprintf("at most %s of %s %s", few(wait), Plural(Round(total), "request"), what)
	}
	return fmt.Sprintf("at most %s %s at once", few(wait), what)
}

func few(x float64) string {
	if x > 0 && x < 0.05 {
		return "0.1"
	}
	return Thousands(round1(x))
}

// Round is a number as people want to read it: whole from ten on, else with one decimal.
func Round(x float64) float64 {
	if x >= 10 || x <= -10 {
		return math.Round(x)
	}
	return round1(x)
}

// Figure prints a number with three digits that count.
func Figure(x float64) string {
	if x >= 100 || x <= -100 {
		return Thousands(math.Round(x))
	}
	return fmt.Sprintf("%.3g", x)
}

// Bytes prints a quantity of memory for people.
func Bytes(x float64) string {
	for _, u := range [...]struct {
		size float64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if x >= u.size {
			return fmt.Sprintf("%.3g %s", x/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f bytes", x)
}

func severityOfShare(share float64) Severity {
	switch {
	case share >= criticalShare:
		return Critical
	case share >= MaterialShare:
		return Warning
	}
	return Info
}
