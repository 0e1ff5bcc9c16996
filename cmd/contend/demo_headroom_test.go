package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/demo/cliff"
	"github.com/contend/contend/detect"
)

// The load is half of what saturates the lock: the truth is twice.
func forecastOf(way string, low, high float64) lockForecast {
	return lockForecast{Lock: "fixed", Arrivals: "random", Run: 1, Way: way, Load: 0.5, Low: low, High: high, Reading: "direct"}
}

func TestForecastAndTruth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high   float64
		ratio       float64
		near, holds bool
	}{
		{2, 2, 1, true, true},
		{1, 4, 1, true, true},
		{1.6, 1.6, 0.8, true, false},
		{1.59, 1.59, 0.795, false, false},
		{2.4, 2.4, 1.2, true, false},
		{2.42, 2.42, 1.21, false, false},
		{2, 4.5, 1.5, false, true},
		{2.01, 4.5, 1.5037, false, false},
		{1, 2, 0.7071, false, true},
	} {
		f := forecastOf(bySnapshots, c.low, c.high)
		if got := f.ratio(); got < c.ratio-1e-3 || got > c.ratio+1e-3 || f.near() != c.near || f.holds() != c.holds {
			t.Errorf("%v to %v: %.4f of the truth, near %v, holds %v; want %v, %v and %v", c.low, c.high, got, f.near(), f.holds(), c.ratio, c.near, c.holds)
		}
	}
}

// Of several locks the one that saturates first is told, of those that profiles
// name; a number that is of no lock in particular is none.
func TestForecastRead(t *testing.T) {
	t.Parallel()
	finding := func(function string, low, high float64) detect.Finding {
		return detect.Finding{Function: function, Headroom: &detect.Headroom{SaturatesAt: detect.Bracket{Low: low, High: high}, Reading: "levels"}}
	}
	for _, c := range []struct {
		report detect.Report
		want   string
	}{
		{detect.Report{Findings: []detect.Finding{finding("a", 3, 4), finding("b", 2, 2.5), finding("", 1, 1.2), {Function: "c"}}}, "2.00-2.50x by levels, and it was 2.00x"},
		{detect.Report{Findings: []detect.Finding{finding("", 1, 1.2)}, RuledOut: []detect.RuledOut{{Reason: "one"}}, Skipped: []detect.Skipped{{Reason: "two"}}}, "one; two"},
	} {
		f := lockForecast{Load: 0.5}
		f.read(&c.report)
		if got := f.Refused; got != c.want && f.words() != c.want {
			t.Errorf("%+v is %q or %q, want %q", c.report, f.words(), got, c.want)
		}
	}
}

func TestHeadroomGoals(t *testing.T) {
	t.Parallel()
	right, early, late, lulls := forecastOf(bySnapshots, 1.8, 2.2), forecastOf(bySnapshots, 1, 1.5), forecastOf(bySnapshots, 2.8, 3), forecastOf(bySnapshots, 3, 3.3)
	refused := forecastOf(bySnapshots, 0, 0)
	refused.Refused = "no number"
	other := late
	other.Lock = "two-class"
	idle := early
	idle.Load = 0.1
	queue := forecastOf(byQueue, 1.8, 2.2)
	of := func(n int, f lockForecast) []lockForecast { return slices.Repeat([]lockForecast{f}, n) }
	for _, c := range []struct {
		name      string
		forecasts []lockForecast
		want      []string // goals that are missed
	}{
		{"right", slices.Concat(of(9, right), of(1, queue)), nil},
		{"one of ten is not", slices.Concat(of(9, right), of(1, early), of(1, queue)), nil},
		{"two of ten are not", slices.Concat(of(8, right), of(2, early), of(2, queue)), []string{"within 20 % by snapshots", "truth in the bracket"}},
		{"refused ones are no misses", slices.Concat(of(9, right), of(9, refused), of(1, queue)), nil},
		{"of other locks the bracket is not asked", slices.Concat(of(5, right), of(5, other), of(1, queue)), []string{"within 20 % by snapshots"}},
		{"at little load it need not be near", slices.Concat(of(90, right), of(9, idle), of(10, queue)), nil},
		{"one lulls", slices.Concat(of(99, right), of(1, lulls), of(1, queue)), []string{"no more than 1.5 times"}},
		{"nothing is no success", nil, []string{"within 20 % by snapshots", "within 20 % by queue", "truth in the bracket", "no more than 1.5 times"}},
	} {
		e := &headroomEval{Forecasts: c.forecasts}
		var missed []string
		for _, row := range e.goals() {
			if row[3] == "MISSED" {
				missed = append(missed, row[0])
			}
		}
		same := len(missed) == len(c.want) && e.missed() == len(c.want)
		for i := range min(len(missed), len(c.want)) {
			same = same && strings.HasPrefix(missed[i], c.want[i])
		}
		if !same {
			t.Errorf("%s: missed %q (%d), want %q", c.name, missed, e.missed(), c.want)
		}
	}
}

// That a lock was played twice is said, also where that helped.
func TestHeadroomSaid(t *testing.T) {
	t.Parallel()
	ended, busy := errors.New("a task ended"), errors.New("calls were late")
	for want, c := range map[string]lookedAt{
		"saturates at 93.5 calls a second":                                                  {saturation: 93.51},
		"saturates at 93.5 calls a second (played once more, since at first: a task ended)": {saturation: 93.51, before: ended},
		"not valid: calls were late (played once more, since at first: a task ended)":       {saturation: 93.51, before: ended, invalid: busy},
		"not valid: a task ended":                                                           {invalid: ended},
	} {
		if got := c.said(); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}

func TestHeadroomTable(t *testing.T) {
	t.Parallel()
	refused := forecastOf(byLevels, 0, 0)
	refused.Refused = "no number"
	e := &headroomEval{Valid: true, Saturation: []saturation{{Lock: "fixed", Arrivals: "random", Run: 1, PerSecond: 93}}, Forecasts: []lockForecast{
		forecastOf(bySnapshots, 1.8, 2.2), forecastOf(bySnapshots, 2.2, 4), forecastOf(bySnapshots, 1.61, 1.7), refused,
	}}
	rows := e.rows()
	if n := 1 + len(cliff.Locks())*len(cliff.Patterns()); len(rows) != n {
		t.Fatalf("%d rows, want %d", len(rows), n)
	}
	if got, want := strings.Join(rows[1], "|"), "fixed|random|3/3 2 1 1.48|0/1|-|-"; got != want {
		t.Errorf("row %s, want %s", got, want)
	}
	var b bytes.Buffer
	if err := writeHeadroomText(&b, e); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"4 forecasts of 1 lock at 10 to 60 % of the load that saturates them",
		"fixed, random, run 1, by snapshots at 50 %: 2.20-4.00x by direct, and it was 2.00x",
		"fixed, random, run 1, by snapshots at 50 %: 1.61-1.70x by direct, and it was 2.00x",
	} {
		if !slices.Contains(strings.Split(b.String(), "\n"), line) {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if len(line) > usualWidth {
			t.Errorf("%d columns, want at most %d: %s", len(line), usualWidth, line)
		}
	}
}

// What the documentation shows of forecasts is made of the record of an evaluation:
// its table, its plot, and for each miss a reason by hand.
const (
	forecastsRecord = "../../demo/cliff/forecasts.json"
	forecastsPage   = "../../demo/cliff/README.md"
	forecastsPlot   = "../../demo/cliff/forecasts.svg"
)

func recordedForecasts(t *testing.T) *headroomEval {
	t.Helper()
	data, err := os.ReadFile(forecastsRecord)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var e headroomEval
	if err := d.Decode(&e); err != nil {
		t.Fatal(err)
	}
	cells := len(cliff.Locks()) * len(cliff.Patterns()) * e.Runs
	if e.Schema != headroomSchema || !e.Valid || len(e.Saturation) != cells || cells == 0 {
		t.Fatalf("schema %s, valid %v, with %d ramps, want %s with %d that are", e.Schema, e.Valid, len(e.Saturation), headroomSchema, cells)
	}
	return &e
}

func TestForecastsPage(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- forecasts: derived, CONTEND_UPDATE=1 go test ./cmd/contend -->\n", "<!-- end of forecasts -->"
	e := recordedForecasts(t)
	data, err := os.ReadFile(forecastsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	shown, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no lines %q and %q", forecastsPage, begin, end)
	}
	table := forecastsTables(e)
	if shown != table && os.Getenv("CONTEND_UPDATE") == "" {
		t.Errorf("the page has\n%s\nthe record is\n%s", shown, table)
	}
	update(t, forecastsPage, data, []byte(before+begin+table+end+after))
	plot := forecastsSVG(t, e)
	was, err := os.ReadFile(forecastsPlot)
	if err != nil && os.Getenv("CONTEND_UPDATE") == "" {
		t.Error(err)
	}
	if !bytes.Equal(plot, was) && os.Getenv("CONTEND_UPDATE") == "" {
		t.Errorf("%s is not of the record", forecastsPlot)
	}
	update(t, forecastsPlot, was, plot)
	checkReasons(t, e, after)
}

// forecastsTables are those of the page.
func forecastsTables(e *headroomEval) string {
	var b strings.Builder
	rows := e.rows()
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(rows[0], " | "), strings.Repeat(" --- |", len(rows[0])))
	for _, row := range rows[1:] {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n| goal | of the numbers given | wanted | |\n| --- | --- | --- | --- |\n")
	for _, row := range e.goals() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

// checkReasons holds the table of misses on the page to the misses of the record:
// each has one row, and each row is of some.
func checkReasons(t *testing.T, e *headroomEval, page string) {
	t.Helper()
	const head = "| lock | arrivals | way | why |\n| --- | --- | --- | --- |\n"
	_, table, ok := strings.Cut(page, head)
	if !ok {
		t.Fatalf("%s has no table of misses, which begins with\n%s", forecastsPage, head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	type row struct {
		cells [3]string
		of    int
	}
	var rows []row
	for line := range strings.Lines(table) { // none where there is no miss
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 4 || len(cells[3]) < 20 {
			t.Fatalf("expected a lock, arrivals, a way and why, saw %s", line)
		}
		rows = append(rows, row{cells: [3]string(cells[:3])})
	}
	for _, f := range e.misses() {
		n := 0
		for i, r := range rows {
			fits := true
			for k, value := range []string{f.Lock, f.Arrivals, f.Way} {
				fits = fits && (r.cells[k] == "all" || slices.Contains(strings.Split(r.cells[k], ", "), value))
			}
			if fits {
				rows[i].of, n = r.of+1, n+1
			}
		}
		if n != 1 {
			t.Errorf("%d reasons for %s, %s, run %d, by %s at %.0f %%: %s; want one", n, f.Lock, f.Arrivals, f.Run, f.Way, 100*f.Load, f.words())
		}
	}
	for _, r := range rows {
		if r.of == 0 {
			t.Errorf("a reason for %q, of which there is no miss", r.cells)
		}
	}
}
