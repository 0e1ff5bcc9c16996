package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/detect/report"
)

// usualWidth is the columns of text where those of a terminal are not known, as a
// report's. An evaluation keeps to them in any case: its matrix is compared from
// one to the next.
const usualWidth = 100

// writeEvalText writes an evaluation for people: the matrix of scenarios and
// detectors, what was wrong, each detector's record, the lead times, and what
// the fixes are worth.
func writeEvalText(w io.Writer, e *evaluation) error {
	sections := [][]string{e.summary(), e.matrix(), e.wrong(), e.records(), e.leads(), e.fixes()}
	var b strings.Builder
	for _, lines := range sections {
		if len(lines) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.Join(lines, "\n") + "\n")
	}
	return written(io.WriteString(w, b.String()))
}

func (e *evaluation) summary() []string {
	right, starved := 0, 0
	for _, p := range e.played {
		if p.right() {
			right++
		}
		if p.Invalid != "" {
			starved++
		}
	}
	lines := []string{fmt.Sprintf("%d of %s right, of %s", right, plural(len(e.played), "run"), plural(len(e.scenarios()), "scenario"))}
	if missing := e.expected - len(e.played); missing > 0 {
		lines = append(lines, fmt.Sprintf("not valid: it was stopped, %s before its end", plural(missing, "run")))
	}
	if starved > 0 {
		lines = append(lines, fmt.Sprintf("not valid: %s, counted nowhere below and named under \"wrong\"; try again with less running beside it", plural(starved, "run")))
	}
	return lines
}

// matrix has a row for each scenario and a column for each detector.
func (e *evaluation) matrix() []string {
	names := e.scenarios()
	longest := utf8.RuneCountInString("scenario")
	for _, name := range names {
		longest = max(longest, utf8.RuneCountInString(name))
	}
	const mostName = 30 // leaves four columns for each of 15 detectors
	longest = min(longest, mostName)
	right := len("right")
	heads := shortHeads(e.detectors, usualWidth-longest-1-right)

	rows := [][]string{append([]string{"scenario", "right"}, heads...)}
	for _, name := range names {
		valid, all := e.of(name)
		n := 0
		for i := range valid {
			if valid[i].right() {
				n++
			}
		}
		row := []string{report.Cut(name, longest), fmt.Sprintf("%d/%d", n, all)}
		for _, d := range e.detectors {
			row = append(row, cell(valid, d))
		}
		rows = append(rows, row)
	}
	lines := alignRows(rows, " ")
	lines = append(lines, "+ found as wanted  - missing  ! found and forbidden  o found and allowed  . silent  ? not valid",
		"(-2: in 2 of the runs)")
	return append(lines, e.legend(heads)...)
}

// shortHeads are the shortest beginnings of names that tell them apart, of at
// least four letters, or fewer where width has no room for that.
func shortHeads(names []string, width int) []string {
	var heads []string
	for least := 4; least > 0; least-- {
		heads = nil
		used := 0
		for _, name := range names {
			head := shortest(name, names, least)
			heads = append(heads, head)
			used += 1 + len(head)
		}
		if used <= width {
			break
		}
	}
	return heads
}

func shortest(name string, names []string, least int) string {
	for n := least; n < len(name); n++ {
		others := 0
		for _, o := range names {
			if strings.HasPrefix(o, name[:n]) {
				others++
			}
		}
		if others == 1 {
			return name[:n]
		}
	}
	return name
}

// legend says what the heads of columns stand for.
func (e *evaluation) legend(heads []string) []string {
	var lines []string
	line := ""
	for i, name := range e.detectors {
		if heads[i] == name {
			continue
		}
		word := heads[i] + "=" + name
		if line != "" && len(line)+2+len(word) > usualWidth {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += "  "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// cell is the worst that a detector did in the runs of a scenario, with how
// many runs it did so in where that is not all of them.
func cell(valid []played, detector string) string {
	counts := map[mark]int{}
	for _, p := range valid {
		counts[p.Score.Marks[detector]]++
	}
	for _, m := range [...]struct {
		mark
		sign  string
		count bool // what is right in some of the runs needs none
	}{{markFP, "!", true}, {markFN, "-", true}, {markTP, "+", false}, {markFound, "o", false}, {markQuiet, ".", false}, {markTN, ".", false}} {
		n := counts[m.mark]
		switch {
		case n == 0:
			continue
		case m.count && n < len(valid):
			return m.sign + strconv.Itoa(n)
		}
		return m.sign
	}
	return "?"
}

// wrong names what was missing and forbidden, and why runs were not valid.
func (e *evaluation) wrong() []string {
	var lines []string
	for _, p := range e.played {
		var words []string
		if p.Invalid != "" {
			words = append(words, "not valid: "+p.Invalid)
		} else {
			if len(p.Score.Missing) > 0 {
				words = append(words, "missing "+strings.Join(p.Score.Missing, ", "))
			}
			if len(p.Score.Forbidden) > 0 {
				words = append(words, "forbidden "+strings.Join(p.Score.Forbidden, ", "))
			}
		}
		if len(words) > 0 {
			lines = append(lines, fmt.Sprintf("%s, run %d: %s", p.Scenario, p.Run, strings.Join(words, "; ")))
		}
	}
	for _, c := range e.unexpected() {
		word := "does not help beside %s, expected that it does"
		if c.Helps {
			word = "helps beside %s, expected that it does not"
		}
		lines = append(lines, c.Name+": "+fmt.Sprintf(word, c.Against))
	}
	if len(lines) > 0 {
		lines = append([]string{"wrong"}, lines...)
	}
	return lines
}

// records is a line for each detector.
func (e *evaluation) records() []string {
	rows := [][]string{{"detector", "tp", "fp", "fn", "tn", "delay", "worst"}}
	tallies := e.tallies()
	for _, name := range e.detectors {
		t := tallies[name]
		rows = append(rows, []string{
			name, strconv.Itoa(t.TP), strconv.Itoa(t.FP), strconv.Itoa(t.FN), strconv.Itoa(t.TN), someSeconds(t.Delay), someSeconds(t.worst),
		})
	}
	return append(alignRows(rows, "  "), "delay: median, and the worst, from the injected onset to the alert; when profiles are taken, the",
		"scenario says")
}

func someSeconds(s *float64) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f s", *s)
}

// leads are the lead times of the scenarios that have early warnings to give.
func (e *evaluation) leads() []string {
	rows := [][]string{{"scenario", "before", "warned", "median", "worst", "scrapes", "at 15 s", "at 30 s"}}
	slowest := 0.0
	for _, name := range e.scenarios() {
		valid, _ := e.of(name)
		if !slices.ContainsFunc(valid, warns) {
			continue
		}
		for _, event := range [...]struct{ name, title string }{{play.EventFirstTimeout, "first timeout"}, {play.EventFirstFailure, "first failed call"}, {play.EventFirstKill, "first kill"}} {
			if row := leadRow(valid, event.name); row != nil {
				rows = append(rows, append([]string{name, event.title}, row...))
			}
		}
		for _, p := range valid {
			if p.Score.Warning != nil {
				slowest = max(slowest, *p.Score.Warning)
			}
		}
	}
	if len(rows) == 1 {
		return nil
	}
	lines := []string{fmt.Sprintf("lead time of the alert of %s; in scrapes and real time, the worst", earlyWarning)}
	lines = append(lines, alignRows(rows, "  ")...)
	if slowest == 0 {
		return lines
	}
	n := scrapes(slowest)
	after := func(interval time.Duration) time.Duration { return time.Duration(n) * interval }
	return append(lines,
		"At 30 s the alert needs as many scrapes, twice the time, and what it warns of comes as soon as it did.",
		fmt.Sprintf("The slowest warning came %.0f scrapes after the onset: %v at 15 s, %v at 30 s. Where a step in", n, after(15*time.Second), after(30*time.Second)),
		"load meets clients with a shorter timeout than that, no alert on scraped series can come in time.")
}

// warns reports whether an early warning is wanted, or was given, in a run.
func warns(p played) bool {
	m := p.Score.Marks[earlyWarning]
	return p.Score.Warning != nil || m == markTP || m == markFN
}

// leadRow are the lead times before one event: in how many of the runs that
// had it the warning came before it, and how long. nil where no run had it.
func leadRow(valid []played, event string) []string {
	had, warned := 0, 0
	var leads []float64
	for _, p := range valid {
		if _, ok := p.Score.After[event]; ok {
			had++
		}
		if lead := p.Score.lead(event); lead != nil {
			leads = append(leads, *lead)
			if *lead > 0 {
				warned++
			}
		}
	}
	if had == 0 {
		return nil
	}
	row := []string{fmt.Sprintf("%d/%d", warned, had)}
	if len(leads) == 0 {
		return append(row, "-", "-", "-", "-", "-")
	}
	worst := slices.Min(leads)
	return append(row, fmt.Sprintf("%.2f s", median(leads)), fmt.Sprintf("%.2f s", worst),
		fmt.Sprintf("%.0f", math.Floor(worst/play.Scrape.Seconds())), // a part of a scrape may hold none at another interval
		leadAt(valid, event, 15*time.Second), leadAt(valid, event, 30*time.Second))
}

// scrapes is how many an alert needs that fires so many seconds after the onset.
func scrapes(seconds float64) float64 { return math.Ceil(seconds / play.Scrape.Seconds()) }

// leadAt is the worst lead time, in real time, of servers that scrape at an
// interval: the event comes when it does, and the alert after as many scrapes
// as it needed here.
func leadAt(valid []played, event string, interval time.Duration) string {
	worst := time.Duration(math.MaxInt64)
	for _, p := range valid {
		if p.Score.lead(event) == nil {
			continue
		}
		comes := time.Duration(p.Score.After[event] * play.ClockFactor * float64(time.Second))
		warned := time.Duration(scrapes(*p.Score.Warning)) * interval
		worst = min(worst, (comes - warned).Round(time.Second))
	}
	if worst <= 0 {
		return "too late"
	}
	return worst.String()
}

// alignRows pads the cells of rows to columns: the first, which names, begins
// at the left, and the numbers and marks after it end at the right.
func alignRows(rows [][]string, gap string) []string {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i == 0 {
				b.WriteString(c + pad)
			} else {
				b.WriteString(gap + pad + c)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}
