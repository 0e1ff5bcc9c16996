package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest/series"
)

// Kind is what has changed.
type Kind string

const (
	Begins   Kind = "begins"   // a finding
	Changes  Kind = "changes"  // its severity
	Ends     Kind = "ends"     // it
	Verdict  Kind = "verdict"  // is another
	Blind    Kind = "blind"    // an input cannot be seen
	Sees     Kind = "sees"     // it can be again
	Restart  Kind = "restart"  // a process is another
	Evidence Kind = "evidence" // was kept, or could not be
)

// Change is one line of what contend watch says.
type Change struct {
	At      time.Time
	Kind    Kind
	Finding *Tracked        // of Begins, Changes, Ends and, where there is a cause, Verdict
	Was     detect.Severity // of Changes, before
	Input   string          // of Blind, Sees, Restart and Evidence
	Text    string
}

// key tells findings apart: of one detector there is one for each job, since of
// the sites and instances of one trouble now this and now that is the first.
type key struct{ detector, job string }

// Tracked is a finding while it lasts.
type Tracked struct {
	Detector, Job string
	Role          detect.Role
	Severity      detect.Severity
	Summary       string
	Since         time.Time // when it was first seen, or before that its alert's condition first held
	Seen          time.Time // when last

	series, stacks bool      // which of them showed it last
	alert          bool      // an alert alone, which is kept firing by itself
	calmer         time.Time // since when it has been less severe than Severity; zero where it is not
	lost           bool      // that the series which show it have ended has been said
}

const (
	// How long a finding without an alert is kept, as most alerts are kept firing:
	// see detect.Signal.KeepFiring.
	usualKeep = "8x,2m"
	// A server of thousands of jobs in one incident; more, nobody reads.
	maxTracked = 1000
)

// Tracker turns reports into changes. A finding begins when a report has it. What
// series show ends when its alert does, which is kept firing for a while; what
// stacks show, once they have not shown it for 2 minutes or 8 looks, the longer of
// both. Severity rises at once and falls after as long. While an input that
// showed a finding cannot be seen, that time does not pass: what could not be looked
// for has not ended.
type Tracker struct {
	Interval time.Duration // between looks
	current  map[key]*Tracked
	blind    map[string]time.Time // inputs, since when
	verdict  key                  // zero where there is none
	doubted  time.Time            // since when reports have another; zero where they have not
	full     bool                 // that there are too many has been said
	last     time.Time            // look
}

// Current are the findings that last, the worst first.
func (t *Tracker) Current() []Tracked {
	out := make([]Tracked, 0, len(t.current))
	for _, f := range t.current {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Tracked) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.Detector, b.Detector), cmp.Compare(a.Job, b.Job))
	})
	return out
}

// Cause is the cause of the last verdict that was said, and its job; "" where there is none.
func (t *Tracker) Cause() (cause, job string) { return t.verdict.detector, t.verdict.job }

func rank(s detect.Severity) int { return slices.Index(detect.Severities, s) }

// keep is how long what stacks show is kept, and a severity.
func (t *Tracker) keep() time.Duration {
	d, _ := series.Timing{Interval: t.Interval}.Span(usualKeep) // ours, and parses
	return d
}

// Changes are what a look shows that the one before did not. Those of
// inputs come first: they say what the others lean on.
func (t *Tracker) Changes(look *Look) []Change {
	if t.current == nil {
		t.current, t.blind = map[key]*Tracked{}, map[string]time.Time{}
	}
	out := t.inputs(look)
	now := lasting(look)
	for _, k := range sortedKeys(now) {
		out = append(out, t.seen(k, now[k], look)...)
	}
	for _, k := range sortedKeys(t.current) {
		if now[k] == nil {
			out = append(out, t.unseen(k, look)...)
		}
	}
	t.last = look.At
	return append(out, t.judge(look)...)
}

// inputs are the changes of what can be seen.
func (t *Tracker) inputs(look *Look) (out []Change) {
	for _, in := range look.Inputs {
		since, was := t.blind[in.Name]
		switch {
		case !in.Blind.IsZero() && !was:
			t.blind[in.Name] = in.Blind
			out = append(out, Change{At: look.At, Kind: Blind, Input: in.Name, Text: in.Why})
		case in.Blind.IsZero() && was:
			delete(t.blind, in.Name)
			out = append(out, Change{At: look.At, Kind: Sees, Input: in.Name, Text: fmt.Sprintf("it was blind for %s, since %s", look.At.Sub(since).Round(time.Second), clock(since))})
		}
	}
	maps.DeleteFunc(t.blind, func(name string, _ time.Time) bool { // of what is looked at no more
		return !slices.ContainsFunc(look.Inputs, func(in Input) bool { return in.Name == name })
	})
	for _, name := range look.Restarted {
		out = append(out, Change{At: look.At, Kind: Restart, Input: name, Text: "the process is another than at the look before, and is not compared with it"})
	}
	return out
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// lasting are a look's findings that are so at its moment: of each key the most
// severe, with what shows it.
func lasting(look *Look) map[key]*Tracked {
	out := map[key]*Tracked{}
	for _, f := range look.Report.Findings {
		if f.Past {
			continue
		}
		one := &Tracked{Detector: f.Detector, Job: f.Job, Role: f.Role, Severity: f.Severity, Summary: f.Summary, Since: look.At, alert: f.Alert != ""}
		one.stacks = !one.alert && look.hasProcess(f.Job)
		one.series = !one.stacks
		if f.Window != nil && f.Ongoing && f.Window.Start.Before(look.At) {
			one.Since = f.Window.Start
		}
		k := key{f.Detector, f.Job}
		if old := out[k]; old != nil {
			if rank(old.Severity) <= rank(one.Severity) {
				old, one = one, old
			}
			one.series, one.stacks, one.alert = one.series || old.series, one.stacks || old.stacks, one.alert && old.alert
			if old.Since.Before(one.Since) {
				one.Since = old.Since
			}
		}
		out[k] = one
	}
	return out
}

func sortedKeys(m map[key]*Tracked) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.detector, b.detector), cmp.Compare(a.job, b.job))
	})
}

// seen takes in a finding that a look has.
func (t *Tracker) seen(k key, now *Tracked, look *Look) []Change {
	f := t.current[k]
	if f == nil {
		if len(t.current) == maxTracked {
			if t.full {
				return nil
			}
			t.full = true
			return []Change{{At: look.At, Kind: Blind, Input: "findings", Text: fmt.Sprintf("more than %d at once: further ones are not told; watch one service with --selector", maxTracked)}}
		}
		now.Seen = look.At
		t.current[k] = now
		return []Change{change(look, Begins, now, now.Summary)}
	}
	f.Seen, f.Summary, f.lost = look.At, now.Summary, false
	f.series, f.stacks, f.alert = now.series, now.stacks, now.alert
	was := f.Severity
	switch {
	case rank(now.Severity) == rank(was):
		f.calmer = time.Time{}
		return nil
	case rank(now.Severity) > rank(was) && f.calmer.IsZero():
		f.calmer = look.At
		return nil
	case rank(now.Severity) > rank(was) && look.At.Sub(f.calmer) < t.keep():
		return nil
	}
	f.Severity, f.calmer = now.Severity, time.Time{}
	c := change(look, Changes, f, fmt.Sprintf("was %s: %s", was, f.Summary))
	c.Was = was
	return []Change{c}
}

// unseen takes in that a look lacks a finding, if it could have had it.
func (t *Tracker) unseen(k key, look *Look) []Change {
	f := t.current[k]
	switch {
	case f.series && look.serverBlind(), f.stacks && look.processBlind(k.job):
		f.Seen = f.Seen.Add(look.At.Sub(t.last)) // that time does not count
		return nil
	case f.series && !look.has(k.job):
		return t.end(k, look, "its job has no series any more: not known to be over, after ")
	case f.stacks && !look.hasProcess(k.job):
		return t.end(k, look, "its job has no process any more: not known to be over, after ")
	case f.series && !look.sees(k.job, k.detector):
		if f.lost {
			return nil
		}
		f.lost = true
		return []Change{{At: look.At, Kind: Blind, Input: "job " + k.job, Text: "the series that show it have ended: whether " + k.detector + " goes on cannot be seen"}}
	case !f.alert && look.At.Sub(f.Seen) < t.keep():
		return nil
	}
	return t.end(k, look, "after ")
}

// end forgets a finding that lasts no more. text goes before how long it did.
func (t *Tracker) end(k key, look *Look, text string) []Change {
	f := t.current[k]
	delete(t.current, k)
	t.full = false
	return []Change{change(look, Ends, f, text+look.At.Sub(f.Since).Round(time.Second).String())}
}

func change(look *Look, kind Kind, f *Tracked, text string) Change {
	as := *f
	return Change{At: look.At, Kind: kind, Finding: &as, Text: text}
}

// judge says that the verdict is another: at once where there was none, where its
// finding has ended, and where this look has both and the other began later,
// which is news; else once reports have had the other for as long as a finding is kept.
func (t *Tracker) judge(look *Look) []Change {
	v := look.Report.Verdict
	next := key{v.Cause, v.Job}
	if _, there := t.current[next]; !there {
		next = key{} // of what is over, or nothing
	}
	old, lasts := t.current[t.verdict]
	switch {
	case next == t.verdict:
		t.doubted = time.Time{}
		return nil
	case lasts && next == key{}:
		return nil // it ends with its finding
	case lasts && (!old.Seen.Equal(look.At) || !t.current[next].Since.After(old.Since)):
		if t.doubted.IsZero() {
			t.doubted = look.At
		}
		if look.At.Sub(t.doubted) < t.keep() {
			return nil
		}
	}
	t.verdict, t.doubted = next, time.Time{}
	if next == (key{}) {
		return []Change{{At: look.At, Kind: Verdict, Text: "no cause any more"}}
	}
	return []Change{change(look, Verdict, t.current[next], v.Summary)}
}

// String is a change as one line for people, safe on a terminal.
func (c Change) String() string {
	line := c.At.UTC().Format(time.RFC3339) + " " + string(c.Kind)
	if f := c.Finding; f != nil {
		line += fmt.Sprintf(" %s, %s, %s", f.Detector, f.Severity, f.Job)
	}
	if c.Input != "" {
		line += " " + c.Input
	}
	return report.Printable(line + ": " + c.Text)
}
