package detect

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// Signal is the "when" half of a detector: one alert, as a condition on
// canonical series (see package series).
type Signal struct {
	Alert string // the alert's name: "ContendHerd"
	Title string // one line: what it means that it fires
	// Expr is PromQL with {{spans}} (series.Timing) and Limits. Its result has job and
	// instance: the condition holds where there is one, which says more than its value.
	Expr string
	// Unless are the look-alikes: where one of them holds, the condition is not
	// what it seems.
	Unless []LookAlike
	// For and KeepFiring are spans; "" is none.
	For, KeepFiring string
	Severity        Severity
	// Page is set where somebody is to be woken: of what users feel, and never
	// of a cause beside it, so that an incident is one page.
	Page  bool
	Value string // what the value of Expr is, with its unit
	// About is what of Expr has a limit, as Expr has it; "" is what Expr compares
	// first. What else it compares are gates: the least for it to matter.
	About      string
	Thresholds string // where the numbers in Expr come from
}

// LookAlike is what has the same signature and another meaning.
type LookAlike struct {
	Name string // "a gauge that leaks", in words that go on: "looks like NAME"
	Expr string // PromQL as Signal.Expr
}

// Condition is the whole expression of s: Expr without its look-alikes.
func (s *Signal) Condition() string {
	out := "(" + s.Expr + ")"
	for _, l := range s.Unless {
		out += "\nunless (" + l.Expr + ")"
	}
	return out
}

// Span is one time that an alert was active: pending from Active, firing from
// Fired (zero where it never did), until Resolved (zero where it still is).
type Span struct {
	Active, Fired, Resolved time.Time
}

// Spans folds the steps at which an alert's expression has a value into its
// active times, as a Prometheus server evaluates a rule at start, start+step … until
// end (rules.AlertingRule.Eval): it is pending from the first such step,
// fires at the first at which it has been so for hold, and goes on firing until it has had no
// value for keep. at are the times with a value, in milliseconds, ascending.
func Spans(at []int64, start, end time.Time, step, hold, keep time.Duration) []Span {
	var out []Span
	var cur *Span
	var missing time.Time // since when a firing alert has had no value
	i := 0
	for ts := start; !ts.After(end); ts = ts.Add(step) {
		for i < len(at) && at[i] < ts.UnixMilli() {
			i++
		}
		holds := i < len(at) && at[i] == ts.UnixMilli()
		if holds {
			if cur == nil {
				out = append(out, Span{Active: ts})
				cur = &out[len(out)-1]
			}
			missing = time.Time{}
		} else if cur != nil {
			firing := !cur.Fired.IsZero()
			if firing && missing.IsZero() {
				missing = ts
			}
			if !firing || keep <= 0 || ts.Sub(missing) >= keep {
				cur.Resolved, cur = ts, nil
				missing = time.Time{}
				continue
			}
		}
		if cur != nil && cur.Fired.IsZero() && ts.Sub(cur.Active) >= hold {
			cur.Fired = ts
		}
	}
	return out
}

// StepsOf are the times, in ms and ascending, at which any series of m has a value.
func StepsOf(m promql.Matrix) []int64 {
	var out []int64
	for _, s := range m {
		for _, p := range s.Floats {
			out = append(out, p.T)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
