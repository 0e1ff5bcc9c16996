package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/contend/contend/demo/cliff"
)

// headroomSchema is the version of the JSON form; it changes when a field changes meaning or goes.
const headroomSchema = "contend.headroom-eval/v1"

// headroomEval is an evaluation of forecasts, and its JSON form.
type headroomEval struct {
	Schema     string         `json:"schema"`
	Valid      bool           `json:"valid"` // all locks were played, and each could be looked at
	Runs       int            `json:"runs"`
	Seed       uint64         `json:"seed"`
	Saturation []saturation   `json:"saturation"`
	Forecasts  []lockForecast `json:"forecasts"`
}

// saturation is what the ramp of a run has found.
type saturation struct {
	Lock      string  `json:"lock"`
	Arrivals  string  `json:"arrivals"`
	Run       int     `json:"run"`
	PerSecond float64 `json:"per_second"`        // calls
	Invalid   string  `json:"invalid,omitempty"` // why it could not be played, and there are no forecasts
}

const (
	// farAhead is how many times later than the truth no forecast may be: it would lull.
	farAhead = 1.5
	// wantedShare is in how many cases the others are to be right.
	wantedShare = 0.9
	// fullEnough is the load from which on a forecast is to be near: the middle between
	// the first two that are looked at, since arrivals are as chance has it.
	fullEnough = 0.15
)

// goal is something that forecasts are to reach.
type goal struct {
	what string
	of   func(*lockForecast) bool // those with a number that it is about
	good func(*lockForecast) bool
	all  bool // of them, and not most
}

var headroomGoals = []goal{
	{
		"within 20 % by snapshots, levels or waits, from 20 % of the load on",
		func(f *lockForecast) bool { return f.Way != byQueue && f.Load > fullEnough },
		(*lockForecast).near, false,
	},
	{
		"within 20 % by queue, from 20 % on, of fixed or exponential holds",
		func(f *lockForecast) bool { return f.Way == byQueue && f.Load > fullEnough && plainHolds(f.Lock) },
		(*lockForecast).near, false,
	},
	{
		"truth in the bracket, of fixed or exponential holds",
		func(f *lockForecast) bool { return plainHolds(f.Lock) },
		(*lockForecast).holds, false,
	},
	{
		"no more than 1.5 times too optimistic, of all",
		func(*lockForecast) bool { return true },
		func(f *lockForecast) bool { return f.ratio() <= farAhead }, true,
	},
}

func plainHolds(lock string) bool { return lock == "fixed" || lock == "exponential" }

// count is how many of the forecasts that a goal is about are good.
func (g goal) count(forecasts []lockForecast) (good, all int) {
	for i := range forecasts {
		f := &forecasts[i]
		if f.Refused != "" || !g.of(f) {
			continue
		}
		all++
		if g.good(f) {
			good++
		}
	}
	return good, all
}

// reached reports whether so many are enough. Where there are none nothing is shown.
func (g goal) reached(good, all int) bool {
	if g.all {
		return good == all && all > 0
	}
	return float64(good) >= wantedShare*float64(all) && all > 0
}

// missed counts goals that are not reached.
func (e *headroomEval) missed() int {
	n := 0
	for _, g := range headroomGoals {
		if !g.reached(g.count(e.Forecasts)) {
			n++
		}
	}
	return n
}

// of are the forecasts of a lock under a pattern of arrivals by one way.
func (e *headroomEval) of(lock, arrivals, way string) []lockForecast {
	return slices.DeleteFunc(slices.Clone(e.Forecasts), func(f lockForecast) bool {
		return f.Lock != lock || f.Arrivals != arrivals || f.Way != way
	})
}

// rows are a table of forecasts: a row for each lock and pattern, a column for each way.
func (e *headroomEval) rows() [][]string {
	rows := [][]string{append([]string{"lock", "arrivals"}, lookWays...)}
	for _, l := range cliff.Locks() {
		for _, a := range cliff.Patterns() {
			row := []string{l.Name, a.Name}
			for _, way := range lookWays {
				row = append(row, headroomCell(e.of(l.Name, a.Name, way)))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// headroomCell is how many looks gave a number, how many of those were near and
// had the truth in their bracket, and the most optimistic.
func headroomCell(looks []lockForecast) string {
	given, near, holds, worst := 0, 0, 0, 0.0
	for i := range looks {
		f := &looks[i]
		if f.Refused != "" {
			continue
		}
		given++
		worst = max(worst, f.ratio())
		if f.near() {
			near++
		}
		if f.holds() {
			holds++
		}
	}
	switch {
	case len(looks) == 0:
		return "-"
	case given == 0:
		return fmt.Sprintf("0/%d", len(looks))
	}
	return fmt.Sprintf("%d/%d %d %d %.2f", given, len(looks), near, holds, worst)
}

// writeHeadroomText writes an evaluation of forecasts for people.
func writeHeadroomText(w io.Writer, e *headroomEval) error {
	var b strings.Builder
	if !e.Valid {
		b.WriteString("not valid: some locks were not played\n")
	}
	fmt.Fprintf(&b, "%s of %s at %.0f to %.0f %% of the load that saturates them\n\n", plural(len(e.Forecasts), "forecast"),
		plural(len(e.Saturation), "lock"), 100*lookLoads[0], 100*lookLoads[len(lookLoads)-1])
	b.WriteString(strings.Join(alignRows(e.rows(), "  "), "\n") + "\n")
	b.WriteString("looks that gave a number/looks, within 20 % of the truth, truth in the bracket, most optimistic\n")
	b.WriteString("(by how many times)\n\n")
	b.WriteString(strings.Join(alignRows(e.goals(), "  "), "\n") + "\n")
	for _, s := range e.Saturation {
		if s.Invalid != "" {
			fmt.Fprintf(&b, "%s, %s, run %d: not valid: %s\n", s.Lock, s.Arrivals, s.Run, s.Invalid)
		}
	}
	for _, f := range e.misses() {
		fmt.Fprintf(&b, "%s, %s, run %d, by %s at %.0f %%: %s\n", f.Lock, f.Arrivals, f.Run, f.Way, 100*f.Load, f.words())
	}
	return written(io.WriteString(w, b.String()))
}

// goals are a line for each, with what was reached.
func (e *headroomEval) goals() [][]string {
	var rows [][]string
	for _, g := range headroomGoals {
		good, all := g.count(e.Forecasts)
		word, wanted := "reached", "9 of 10 wanted"
		if g.all {
			wanted = "all wanted"
		}
		if !g.reached(good, all) {
			word = "MISSED"
		}
		rows = append(rows, []string{g.what, fmt.Sprintf("%d of %d", good, all), wanted, word})
	}
	return rows
}

// misses are the numbers that are not within 20 % of the truth, or do not have it
// in their bracket, the most optimistic first.
func (e *headroomEval) misses() []lockForecast {
	out := slices.DeleteFunc(slices.Clone(e.Forecasts), func(f lockForecast) bool {
		return f.Refused != "" || f.near() && f.holds()
	})
	slices.SortStableFunc(out, func(a, b lockForecast) int { return cmp.Compare(b.ratio(), a.ratio()) })
	return out
}

// words say what a forecast was and what came.
func (f *lockForecast) words() string {
	return fmt.Sprintf("%.2f-%.2fx by %s, and it was %.2fx", f.Low, f.High, f.Reading, 1/f.Load)
}
