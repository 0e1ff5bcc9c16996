package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/detect"
)

// variant is what a scenario's outcome is held to.
type variant struct {
	against string // the scenario it is compared with
	helps   bool   // whether usual traffic is to be served sooner than there
}

// variantsOf are those of a list, by name.
func variantsOf(list []play.Scenario) map[string]variant {
	out := map[string]variant{}
	for _, s := range list {
		if s.Against != "" {
			out[s.Name] = variant{s.Against, s.Helps}
		}
	}
	return out
}

// comparison is a variant beside what it is compared with, by the medians of
// their valid runs.
type comparison struct {
	Name    string `json:"name"`
	Against string `json:"against"`
	Helps   bool   `json:"helps"` // the usual traffic was served sooner, or at all
	Right   bool   `json:"right"` // as it should be
}

// comparisons are of the scenarios that have something to be compared with.
func (e *evaluation) comparisons() []comparison {
	var out []comparison
	for _, name := range e.scenarios() {
		v, ok := e.variants[name]
		if !ok {
			continue
		}
		with, without := e.outcomes(name), e.outcomes(v.against)
		if len(with) == 0 || len(without) == 0 {
			continue
		}
		helps := recovers(with) < recovers(without)
		out = append(out, comparison{name, v.against, helps, helps == v.helps})
	}
	return out
}

// outcomes are a scenario's valid runs whose bundle says what became of the clients.
func (e *evaluation) outcomes(scenario string) []play.Result {
	valid, _ := e.of(scenario)
	var out []play.Result
	for _, p := range valid {
		if p.Outcome != nil {
			out = append(out, *p.Outcome)
		}
	}
	return out
}

// fixes is a table of the variants and of what they are compared with.
func (e *evaluation) fixes() []string {
	rows := [][]string{{"scenario", "offered", "served", "failed", "of offered", "killed", "usual traffic served", ""}}
	words := map[string]string{}
	compared := map[string]bool{}
	for _, v := range e.variants {
		compared[v.against] = true
	}
	for _, c := range e.comparisons() {
		words[c.Name] = "does not help"
		if c.Helps {
			words[c.Name] = "helps"
		}
	}
	for _, name := range e.scenarios() {
		runs := e.outcomes(name)
		if _, ok := e.variants[name]; len(runs) == 0 || !ok && !compared[name] {
			continue
		}
		count := func(of func(play.Result) int) string {
			return detect.Thousands(math.Round(medianOf(runs, func(r play.Result) float64 { return float64(of(r)) })))
		}
		rows = append(rows, []string{
			name,
			count(func(r play.Result) int { return r.Served + r.Failed }),
			count(func(r play.Result) int { return r.Served }),
			count(func(r play.Result) int { return r.Failed }),
			fmt.Sprintf("%.0f %%", 100*medianOf(runs, func(r play.Result) float64 { return float64(r.Failed) / float64(max(r.Served+r.Failed, 1)) })),
			count(func(r play.Result) int { return r.Kills }),
			recovery(runs), words[name],
		})
	}
	if len(rows) < 2 {
		return nil
	}
	lines := []string{"fixes, and controls that must not help, on one timeline; medians, clients' calls. People reload a page",
		"that hangs, and stop when it does not: what is offered follows from how tasks fare"}
	return append(lines, alignRows(rows, "  ")...)
}

// medianOf is that of a value of each run; there must be one.
func medianOf(runs []play.Result, value func(play.Result) float64) float64 {
	var list []float64
	for _, r := range runs {
		list = append(list, value(r))
	}
	return median(list)
}

// recovery is the median time to recover. A run that never does is longer than all others.
func recovery(runs []play.Result) string {
	middle := recovers(runs)
	if math.IsInf(middle, 1) {
		return "never"
	}
	return fmt.Sprintf("after %.1f s", middle)
}

// recovers is the median of the seconds until the usual traffic was served
// again: what a fix is for. Failures it may have as many: fast ones, of what is
// above that.
func recovers(runs []play.Result) float64 {
	return medianOf(runs, func(r play.Result) float64 {
		if r.Recover == nil {
			return math.Inf(1)
		}
		return r.Recover.Seconds()
	})
}

// unexpected are the comparisons that came out as they should not.
func (e *evaluation) unexpected() []comparison {
	return slices.DeleteFunc(e.comparisons(), func(c comparison) bool { return c.Right })
}
