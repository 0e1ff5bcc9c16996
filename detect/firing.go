package detect

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
)

// ErrNoHistory is the reason of a detector that compares with the past and has none.
var ErrNoHistory = errors.New("it compares with the time before, and the series have less than a quarter of an hour of it; look further back with --since where there is more")

// Doubt is what to add to a sentence that leans on a signal which is not to be
// leaned on; "" where it may be.
func (v *SeriesView) Doubt(signal string) string {
	if why := v.doubt(signal); why != "" {
		return "; but " + why
	}
	return ""
}

// doubt says why a signal is not to be leaned on: a gauge below zero is counted
// down more often than up. It is "" where it may be.
func (v *SeriesView) doubt(signal string) string {
	for _, c := range v.columns(signal) {
		for _, x := range c.within(v.Canon.Start, v.Canon.End).V {
			if x <= -1 {
				return fmt.Sprintf("the %s gauge of %s falls to %s: it is counted down more often than up, and says little", signal, c.instance, Figure(x))
			}
		}
	}
	return ""
}

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
		f.Instances, f.moment = main.Instances, main.At
		f.affected.Affected, f.affected.Total = v.affected(&main)
		held := main.Window()
		f.Window = &held
		if main.Fired.IsZero() {
			f.Confidence = Low
			if f.Severity == Critical {
				f.Severity = Warning
			}
			f.Warnings = append([]string{fmt.Sprintf("it has just begun: its condition has held for %s, and its alert waits for %s", main.lasted(v), v.span(s.For))}, f.Warnings...)
		}
		f.lasted = main.lasted(v)
		holds := main.heldAt(v.Canon.End) > 0
		f.Ongoing = holds && main.Resolved.IsZero()
		f.again = holds && !f.Ongoing
		f.Past = !slices.ContainsFunc(firings, func(f Firing) bool { return !f.Fired.IsZero() && f.Resolved.IsZero() })
		if f.Unit == Requests && f.Requests == 0 {
			f.Requests = Whole(f.Total)
		}
		if main.Active.Equal(v.Canon.Start) {
			f.Warnings = append(f.Warnings, "it held from the first step on: it began then or before; look further back with --since")
		}
		for i := range firings {
			if !firings[i].Fired.IsZero() || len(firings) == 1 {
				f.Times = append(f.Times, firings[i].Window())
			}
		}
		evidence := v.Evidence("%s: %s; its condition held for %s", s.Alert, s.Title, f.lasted)
		if n := len(f.Times); n > 1 {
			evidence.Text += fmt.Sprintf(", the longest of %d times", n)
		}
		if f.again {
			evidence.Text += "; it holds again at the end"
		}
		f.Evidence = append([]Evidence{evidence}, f.Evidence...)
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

// On says for how many of a job's instances something held at the moment of f.
func (v *SeriesView) On(f *Firing) string {
	n, total := v.affected(f)
	if total == 1 {
		return "on its one instance"
	}
	return fmt.Sprintf("on %d of %d instances", n, total)
}

// Profiles says where to take a profile of the worst instance: its address, where
// its name is one.
func (f *Firing) Profiles() string {
	if _, port, err := net.SplitHostPort(f.Instance); err != nil || port == "" {
		return "http://HOST:PORT of one of the instances named"
	}
	return "http://" + f.Instance + " (or where that instance serves its profiles)"
}

// affected counts the instances for which the condition held at the moment of
// f, and all that the job had then.
func (v *SeriesView) affected(f *Firing) (n, total int) {
	n = f.heldAt(f.At)
	return n, max(n, v.InstancesAt("inflight", f.At), v.InstancesAt("cpu", f.At))
}

// WaitFinding is what a firing of a cause says in requests: how many wait, by
// the signal of that wait, of how many in flight, on the instances for which
// it holds at the moment. It sets the moment of f: of the steps at which at least half as many
// wait as at the worst, the one at which the wait is most of what is in
// flight. A wait is credited when it ends, so that the most may be credited
// when it is nearly over. The weight is of all in flight in the job.
func (v *SeriesView) WaitFinding(f *Firing, signal string) Finding {
	waits, totals := v.heldSums(signal, f), v.heldSums("inflight", f)
	most := 0.0
	for _, t := range f.steps() {
		most = max(most, waits[t])
	}
	wait, total, best := 0.0, 0.0, -1.0
	for _, t := range f.steps() {
		w, all := waits[t], totals[t]
		s := 0.0
		if all > 0 {
			s = min(w/all, all/w) // more than is in flight is as wrong as less
		}
		if w >= most/2 && (s > best || s == best && w > wait) {
			wait, total, best = w, all, s
			f.At = time.UnixMilli(t).UTC()
		}
	}
	out := Finding{Unit: Requests, Blocked: round1(wait)}
	if total > 0 {
		// Some waits are sampled, and background work waits too, so that they can
		// come to more than there are requests at the moment.
		out.Blocked = min(out.Blocked, round1(total))
		out.Total, out.Requests = round1(total), Whole(total)
		out.Severity = SeverityOfShare(min(wait/total, 1))
		if most := 2.0; wait > most*total {
			out.Severity, out.Confidence = Info, Low
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s wait and %s are in flight: most of those that wait are no requests", Thousands(Round(wait)), Plural(Round(total), "request")))
		}
		inJob, _ := v.Sum("inflight", f.At)
		out.Weight = min(wait/max(inJob, total), 1)
	} else {
		out.Weight = MaterialShare // of an unknown whole: material, and no more
		out.Confidence = Medium
		out.Warnings = append(out.Warnings, "requests in flight are not known, so their share is not either")
	}
	return out
}

// HeldPeak is when, during a firing, the sum of a signal over the instances for
// which the condition held at that step was largest, and that sum; 0 where there is none.
func (v *SeriesView) HeldPeak(signal string, f *Firing) (at time.Time, sum float64) {
	sums := v.heldSums(signal, f)
	at = f.At
	for _, t := range f.steps() {
		if sums[t] > sum {
			at, sum = time.UnixMilli(t).UTC(), sums[t]
		}
	}
	return at, sum
}

// HeldValues is the sum of the condition's own values at the moment of f.
func (v *SeriesView) HeldValues(f *Firing) float64 {
	sum := 0.0
	for _, s := range f.held {
		for _, p := range s.Floats {
			if p.T == f.At.UnixMilli() {
				sum += p.F
			}
		}
	}
	return sum
}

// HeldSum is the sum of a signal at the moment of f over the instances for
// which the condition holds then.
func (v *SeriesView) HeldSum(signal string, f *Firing) float64 {
	return v.heldSums(signal, f)[f.At.UnixMilli()]
}

// heldSums are a signal's sums at each step of a firing over the instances for
// which the condition holds at it.
func (v *SeriesView) heldSums(signal string, f *Firing) map[int64]float64 {
	held := map[string]*promql.Series{}
	for i := range f.held {
		held[f.held[i].Metric.Get(model.InstanceLabel)] = &f.held[i]
	}
	sums := map[int64]float64{}
	for _, c := range v.columns(signal) {
		s := held[c.instance]
		if s == nil {
			continue
		}
		for _, p := range s.Floats {
			if x, ok := c.at(time.UnixMilli(p.T)); ok {
				sums[p.T] += x
			}
		}
	}
	return sums
}

// soften makes warnings of what is critical in a job whose trouble as a whole was
// brief: one sample is in an average for as long as its window, so that what
// shows for two lasted no longer than one. What still lasts is not known to be brief.
func (p *Pass) soften() {
	v := p.Series
	if len(p.Options.Detectors) > 0 {
		return // one detector does not see the trouble as a whole
	}
	for _, f := range p.findings {
		if f.Ongoing || f.again || f.lasted > 2*v.Window() || v.moment() {
			return
		}
	}
	for i := range p.findings {
		if f := &p.findings[i]; f.Severity == Critical {
			f.Severity, f.Confidence = Warning, Weaker(f.Confidence, Medium)
			f.Warnings = append(f.Warnings, fmt.Sprintf("it held for %s in all, as a stall of seconds does", f.lasted))
		}
	}
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
	var with []string
	for _, c := range v.columns(signal) {
		with = append(with, c.instance)
	}
	seen := ""
	if n := len(v.Canon.Instances[v.Job]); len(with) < n {
		seen = fmt.Sprintf(", as far as %d of %d instances say", len(with), n)
	}
	if total, ok := v.Sum("inflight", at, with...); ok && total >= wait && len(with) > 0 {
		if wait >= MaterialShare*total && wait >= MaterialCalls {
			seen += "; not for long, or no more than before"
		}
		return fmt.Sprintf("at most %s of %s %s%s", few(wait), Plural(Round(total), "request"), what, seen)
	}
	return fmt.Sprintf("at most %s %s at once%s", few(wait), what, seen)
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

// SeverityOfShare is the severity of a cause that holds a share, 0 to 1, of what is
// in flight.
func SeverityOfShare(share float64) Severity {
	switch {
	case share >= criticalShare:
		return Critical
	case share >= MaterialShare:
		return Warning
	}
	return Info
}
