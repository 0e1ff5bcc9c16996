package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/truth"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
)

// earlyWarning is the detector whose alert is to come before the first request
// times out. A profile that shows the same is taken when the scenario says so,
// and proves nothing of the time.
const earlyWarning = "inflightcpu"

// missedWarning stands among what is missing where that alert came too late.
const missedWarning = "warning before the first time-out"

// mark is what one detector did in one run.
type mark string

const (
	markTP    mark = "tp"    // wanted, with all alerts that are, and found
	markFN    mark = "fn"    // wanted and not found, or an alert of it is missing
	markFP    mark = "fp"    // found and not listed, or with an alert that is not
	markTN    mark = "tn"    // neither listed nor found
	markFound mark = "found" // allowed and found: counted nowhere
	markQuiet mark = "quiet" // allowed and not found: counted nowhere
)

// runScore is what one run was worth.
type runScore struct {
	Missing   []string           `json:"missing"`             // as truth.txt has them, and "verdict NAME"
	Forbidden []string           `json:"forbidden"`           // detectors, with the alert where that is forbidden, and "verdict NAME"
	Marks     map[string]mark    `json:"marks"`               // by detector, of all
	Delay     map[string]float64 `json:"delay_s"`             // seconds from the onset to the first alert, of wanted detectors that were found
	Warning   *float64           `json:"warning_s,omitempty"` // seconds from the onset to the early warning
	After     map[string]float64 `json:"after_s"`             // seconds from the onset to the first timeout, failed call and kill
}

// lead is how many seconds the early warning came before an event, below
// zero where it came after; nil where either did not happen.
func (s *runScore) lead(event string) *float64 {
	after, ok := s.After[event]
	if !ok || s.Warning == nil {
		return nil
	}
	lead := milli(after - *s.Warning)
	return &lead
}

// right reports whether all was found that must be, and nothing that must not.
func (s *runScore) right() bool { return len(s.Missing)+len(s.Forbidden) == 0 }

// scorer scores the runs of one scenario.
type scorer struct {
	truth     truth.Truth
	detectors []*detect.Detector // all that there are, sorted by name
	timing    series.Timing      // of the run's series
}

// score holds a report to the truth. events are those of the run's bundle; of
// several of one name the first counts.
func (s *scorer) score(r *detect.Report, events []ingest.Event) runScore {
	out := runScore{Missing: []string{}, Forbidden: []string{}, Marks: map[string]mark{}, Delay: map[string]float64{}, After: map[string]float64{}}
	r, early := s.withoutEarly(r, events)
	out.Forbidden = append(out.Forbidden, early...)
	for _, w := range s.truth.Wants {
		if !has(r, w) {
			out.Missing = append(out.Missing, w.String())
		}
	}
	for _, d := range s.detectors {
		forbidden := s.forbidden(r, d.Name)
		out.Forbidden = append(out.Forbidden, forbidden...)
		wrong := len(forbidden) > 0 || slices.ContainsFunc(early, func(name string) bool { return strings.HasPrefix(name, d.Name+" ") })
		out.Marks[d.Name] = s.mark(r, d.Name, wrong)
	}
	if !s.truth.Right(r.Verdict.Cause) {
		out.Missing = append(out.Missing, "verdict "+s.truth.Verdict())
		if r.Verdict.Cause != "" {
			out.Forbidden = append(out.Forbidden, "verdict "+r.Verdict.Cause)
		}
	}
	s.measure(&out, r, events)
	return out
}

// withoutEarly is a report without the alerts that were over before anything
// was done that leads to the fault, and names them: false alarms, whatever the
// truth says of the fault.
func (s *scorer) withoutEarly(r *detect.Report, events []ingest.Event) (*detect.Report, []string) {
	begin, ok := first(events, play.EventBegin)
	if !ok {
		if begin, ok = first(events, play.EventOnset); !ok {
			return r, nil
		}
	}
	rest := *r
	rest.Findings = nil
	var early []string
	for i := range r.Findings {
		f := &r.Findings[i]
		fired := s.fired(f)
		if len(fired) == 0 || f.Times[len(f.Times)-1].End.After(begin) {
			rest.Findings = append(rest.Findings, *f)
			continue
		}
		early = append(early, truth.Entry{Detector: f.Detector, Alert: f.Alert}.String()+" before the fault")
	}
	return &rest, early
}

// first is when the first event of a name was.
func first(events []ingest.Event, name string) (time.Time, bool) {
	i := slices.IndexFunc(events, func(e ingest.Event) bool { return e.Name == name })
	if i < 0 {
		return time.Time{}, false
	}
	return events[i].At, true
}

// has reports whether a report has a finding.
func has(r *detect.Report, e truth.Entry) bool {
	return slices.ContainsFunc(r.Findings, func(f detect.Finding) bool {
		return f.Detector == e.Detector && (e.Alert == "" || f.Alert == e.Alert)
	})
}

// forbidden names what a detector found and must not, each once: the detector
// where it is not listed at all, else the alert.
func (s *scorer) forbidden(r *detect.Report, detector string) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Detector != detector || s.truth.Permits(detector, f.Alert) {
			continue
		}
		name := detector
		if s.truth.Permits(detector, "") {
			name = truth.Entry{Detector: detector, Alert: f.Alert}.String()
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// mark is one for each run and detector, so that a false alarm of one alert is
// not made good by the right alarm of another.
func (s *scorer) mark(r *detect.Report, detector string, forbidden bool) mark {
	switch {
	case forbidden:
		return markFP
	case s.truth.Wanted(detector):
		if slices.ContainsFunc(s.truth.Wants, func(w truth.Entry) bool { return w.Detector == detector && !has(r, w) }) {
			return markFN
		}
		return markTP
	case !s.truth.Permits(detector, ""):
		return markTN
	case has(r, truth.Entry{Detector: detector}):
		return markFound
	}
	return markQuiet
}

// measure fills in the times. Without an onset there is nothing to measure from.
func (s *scorer) measure(out *runScore, r *detect.Report, events []ingest.Event) {
	onset, ok := first(events, play.EventOnset)
	if !ok {
		return
	}
	for name, m := range out.Marks {
		// When a profile is taken the scenario says: it tells nothing of a delay.
		if at, ok := s.firstAfter(onset, r, name); ok && m == markTP {
			out.Delay[name] = milli(at.Sub(onset).Seconds())
		}
	}
	if at, ok := s.firstAfter(onset, r, earlyWarning); ok {
		delay := milli(at.Sub(onset).Seconds())
		out.Warning = &delay
	}
	for _, name := range [...]string{play.EventFirstTimeout, play.EventFirstFailure, play.EventFirstKill} {
		if at, ok := first(events, name); ok {
			out.After[name] = milli(at.Sub(onset).Seconds())
		}
	}
	if after, ok := out.After[play.EventFirstTimeout]; ok && s.truth.Wanted(earlyWarning) && (out.Warning == nil || *out.Warning >= after) {
		out.Missing = append(out.Missing, missedWarning)
	}
}

// milli rounds seconds to the millisecond: series have no finer times.
func milli(s float64) float64 { return math.Round(s*1e3) / 1e3 }

// firstAfter is when one of a detector's alerts first fired, not before the
// onset: what was found earlier is not of the fault.
func (s *scorer) firstAfter(onset time.Time, r *detect.Report, detector string) (first time.Time, ok bool) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Detector != detector || f.Alert == "" {
			continue
		}
		for _, at := range s.fired(f) {
			if !at.Before(onset) && (!ok || at.Before(first)) {
				first, ok = at, true
			}
		}
	}
	return first, ok
}

// fired are the times at which a finding's alert fired. Finding.Times has those
// from which and to which its condition held; an alert waits for its hold first.
func (s *scorer) fired(f *detect.Finding) []time.Time {
	hold := s.hold(f)
	var out []time.Time
	for _, w := range f.Times {
		// A condition that ended within its hold is reported while it lasts, and did not fire.
		if at := w.Start.Add(hold); !at.After(w.End) {
			out = append(out, at)
		}
	}
	return out
}

// hold is how long a finding's condition holds until its alert fires: its For,
// in whole steps of the evaluation.
func (s *scorer) hold(f *detect.Finding) time.Duration {
	for _, d := range s.detectors {
		for i := range d.Signals {
			if d.Name != f.Detector || d.Signals[i].Alert != f.Alert || d.Signals[i].For == "" {
				continue
			}
			hold, _ := s.timing.Span(d.Signals[i].For) // detect.Validate has read it
			if step := s.timing.Interval; step > 0 {
				hold = (hold + step - 1) / step * step
			}
			return hold
		}
	}
	return 0
}
