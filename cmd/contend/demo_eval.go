package main

import (
	"io"
	"slices"

	"github.com/contend/contend/demo/play"
)

// played is one run of a scenario, played or read from its recorded bundle, and
// what it came to.
type played struct {
	Scenario string       `json:"scenario"`
	Run      int          `json:"run"` // from 1
	Seed     uint64       `json:"seed"`
	Invalid  string       `json:"invalid,omitempty"` // why the run says nothing
	Score    runScore     `json:"score"`
	Outcome  *play.Result `json:"outcome,omitempty"` // nil where the bundle does not say
}

// evaluation is all runs, in any order.
type evaluation struct {
	runs      int      // of each scenario, as asked for
	expected  int      // runs in all
	detectors []string // all that there are, in order
	played    []played
	variants  map[string]variant // by scenario, of those whose outcome is compared
}

// tally is a detector's record over all valid runs.
type tally struct {
	TP    int      `json:"tp"`
	FP    int      `json:"fp"`
	FN    int      `json:"fn"`
	TN    int      `json:"tn"`
	Delay *float64 `json:"delay_s,omitempty"` // median seconds from the onset to its alert, where it was found as wanted
	worst *float64
}

// evalSchema is the version of the JSON form; it changes when a field changes meaning or goes.
const evalSchema = "contend.eval/v1"

// evalDocument is the JSON form of an evaluation.
type evalDocument struct {
	Schema    string            `json:"schema"`
	Valid     bool              `json:"valid"` // all runs are there, and none was starved
	Runs      int               `json:"runs"`
	Scenarios []evalRun         `json:"scenarios"`
	Detectors map[string]*tally `json:"detectors"`
	// Comparisons say what the variants of the incident came to; none where there are none.
	Comparisons []comparison `json:"comparisons,omitempty"`
}

// evalRun is one run in it.
type evalRun struct {
	Name      string    `json:"name"`
	Run       int       `json:"run"`
	Right     bool      `json:"right"`
	Invalid   string    `json:"invalid,omitempty"`
	Missing   []string  `json:"missing"`
	Forbidden []string  `json:"forbidden"`
	Lead      leadTimes `json:"lead_s,omitzero"`
}

// leadTimes say how many seconds the first early warning came before an event.
type leadTimes struct {
	FirstTimeout *float64 `json:"first_timeout,omitempty"`
	FirstFailure *float64 `json:"first_failure,omitempty"` // of a call, with all its attempts
	FirstKill    *float64 `json:"first_kill,omitempty"`
}

// writeEvalJSON writes an evaluation as indented JSON.
func writeEvalJSON(w io.Writer, e *evaluation) error {
	doc := evalDocument{Schema: evalSchema, Valid: e.valid(), Runs: e.runs, Scenarios: []evalRun{}, Detectors: e.tallies(), Comparisons: e.comparisons()}
	for _, p := range e.played {
		doc.Scenarios = append(doc.Scenarios, evalRun{
			Name: p.Scenario, Run: p.Run, Right: p.right(), Invalid: p.Invalid,
			Missing: p.Score.Missing, Forbidden: p.Score.Forbidden, Lead: leadTimes{p.Score.lead(play.EventFirstTimeout), p.Score.lead(play.EventFirstFailure), p.Score.lead(play.EventFirstKill)},
		})
	}
	return writeIndented(w, doc)
}

// right reports whether a run is valid and all of it is right.
func (p *played) right() bool { return p.Invalid == "" && p.Score.right() }

// valid reports whether all runs are there, and each says something.
func (e *evaluation) valid() bool {
	return len(e.played) > 0 && len(e.played) >= e.expected && !slices.ContainsFunc(e.played, func(p played) bool { return p.Invalid != "" })
}

// mistakes counts the valid runs that are not right, and the comparisons.
func (e *evaluation) mistakes() int {
	n := len(e.unexpected())
	for _, p := range e.played {
		if p.Invalid == "" && !p.Score.right() {
			n++
		}
	}
	return n
}

// tallies are each detector's record. Runs that are not valid say nothing of a detector.
func (e *evaluation) tallies() map[string]*tally {
	out := map[string]*tally{}
	delays := map[string][]float64{}
	for _, name := range e.detectors {
		out[name] = &tally{}
	}
	for _, p := range e.played {
		if p.Invalid != "" {
			continue
		}
		for name, t := range out {
			switch p.Score.Marks[name] {
			case markTP:
				t.TP++
			case markFP:
				t.FP++
			case markFN:
				t.FN++
			case markTN:
				t.TN++
			}
			if d, ok := p.Score.Delay[name]; ok {
				delays[name] = append(delays[name], d)
			}
		}
	}
	for name, list := range delays {
		if t := out[name]; t != nil {
			middle, worst := median(list), slices.Max(list)
			t.Delay, t.worst = &middle, &worst
		}
	}
	return out
}

// scenarios are the names of the scenarios, in the order of the runs.
func (e *evaluation) scenarios() []string {
	var names []string
	for _, p := range e.played {
		if !slices.Contains(names, p.Scenario) {
			names = append(names, p.Scenario)
		}
	}
	return names
}

// of are the valid runs of a scenario, and how many there are in all.
func (e *evaluation) of(scenario string) (valid []played, all int) {
	for _, p := range e.played {
		if p.Scenario != scenario {
			continue
		}
		all++
		if p.Invalid == "" {
			valid = append(valid, p)
		}
	}
	return valid, all
}

// median is the middle value, of an even number of values the mean of both in
// the middle; the list must not be empty.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}
