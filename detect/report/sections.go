package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/detect"
)

// measures are the columns of the budget, the surest first: a snapshot counts
// requests one by one, series and profiles average over a time.
var measures = []struct {
	name string
	of   func(detect.Measures) *float64
}{
	{"stacks", func(m detect.Measures) *float64 { return m.Stacks }},
	{"series", func(m detect.Measures) *float64 { return m.Series }},
	{"waits", func(m detect.Measures) *float64 { return m.Waits }},
}

// budget prints where the requests are, as numbers and bars. Shares are of
// the first measure that was taken.
func (p *page) budget(r *detect.Report) {
	rows := slices.Clone(r.Budget)
	header := []string{"  where"}
	var columnsOf []func(detect.Share) *float64
	for _, m := range measures {
		if slices.ContainsFunc(rows, func(s detect.Share) bool { return m.of(s.Now) != nil }) {
			header = append(header, m.name)
			columnsOf = append(columnsOf, func(s detect.Share) *float64 { return m.of(s.Now) })
		}
	}
	if len(columnsOf) == 0 {
		return
	}
	first := columnsOf[0]
	for _, m := range measures {
		if slices.ContainsFunc(rows, func(s detect.Share) bool { return m.of(s.Before) != nil }) {
			header = append(header, m.name+" before")
			columnsOf = append(columnsOf, func(s detect.Share) *float64 { return m.of(s.Before) })
		}
	}

	inFlight, rows := takeInFlight(rows)
	total, before := 0.0, ""
	if v := first(inFlight); v != nil {
		total = *v
	} else {
		for _, s := range rows {
			total += value(first(s))
		}
	}
	if v := inFlight.Before.Stacks; v != nil {
		before = fmt.Sprintf(" (before: %s)", number(*v))
	}
	var zero []string
	rows = slices.DeleteFunc(rows, func(s detect.Share) bool {
		none := first(s) != nil
		for _, col := range columnsOf {
			none = none && value(col(s)) == 0
		}
		if none {
			zero = append(zero, s.Where)
		}
		return none
	})
	if len(rows) == 0 && total == 0 {
		return // nothing is in flight, as the first line says
	}
	// Only a finding tells whether the budget counts requests.
	if u := verdictFinding(r).Unit; u != "" && u != detect.Contentions {
		p.heading(bold, fmt.Sprintf("Where the %s %s are%s", number(total), u, before))
	} else {
		p.heading(bold, fmt.Sprintf("In flight: %s%s", number(total), before))
	}
	if len(rows) > 0 {
		p.shares(rows, header, columnsOf, total)
	}
	if len(zero) > 0 {
		p.block(dim, "  ", "none: "+strings.Join(zero, ", "))
	}
}

// takeInFlight splits the budget's total from its parts.
func takeInFlight(rows []detect.Share) (total detect.Share, parts []detect.Share) {
	i := slices.IndexFunc(rows, func(s detect.Share) bool { return s.Where == detect.PlaceInFlight })
	if i < 0 {
		return detect.Share{}, rows
	}
	total = rows[i]
	return total, slices.Delete(rows, i, i+1)
}

// maxBar is the longest bar of the budget, in columns: long enough to tell
// shares of one part in a hundred apart, at eight steps a column.
const maxBar = 30

func (p *page) shares(rows []detect.Share, header []string, columnsOf []func(detect.Share) *float64, total float64) {
	cells := [][]string{append(header, "share")}
	right := []int{len(header)}
	for i := range columnsOf {
		right = append(right, i+1)
	}
	for _, s := range rows {
		line := []string{"  " + Printable(s.Where)}
		for _, col := range columnsOf {
			if v := col(s); v != nil {
				line = append(line, number(*v))
			} else {
				line = append(line, "-")
			}
		}
		share := ""
		if v := columnsOf[0](s); v != nil && total > 0 {
			share = percent(*v / total)
		}
		cells = append(cells, append(line, share))
	}
	lines := table(cells, right...)
	widest := 0
	for _, line := range lines {
		widest = max(widest, columns(line))
	}
	for i, line := range lines {
		if i == 0 {
			p.put(dim, line)
			continue
		}
		v := columnsOf[0](rows[i-1])
		room := min(maxBar, p.width-widest-2)
		if v != nil && total > 0 && room > 0 {
			if b := bar(*v/total, room); b != "" {
				line += strings.Repeat(" ", widest-columns(line)+2) + b
			}
		}
		p.put(plain, line)
	}
}

func value(v *float64) float64 {
	if v == nil || math.IsNaN(*v) {
		return 0
	}
	return *v
}

// growth is the comparison with the base.
func (p *page) growth(list []detect.Growth) {
	if len(list) == 0 {
		return
	}
	p.heading(bold, "What grew since the base, in goroutines")
	n := p.shown(len(list))
	cells := [][]string{{"  wait", "before", "→", "now", "growth"}}
	right := []int{1, 3, 4}
	withShares := p.width >= 80 // the shares take 27 columns
	if withShares {
		cells[0] = append(cells[0], "share before", "→", "now")
		right = append(right, 5, 7)
	}
	for _, g := range list[:n] {
		row := []string{"  " + Printable(g.Wait), whole(g.Before), "→", whole(g.Now), signed(g.Now - g.Before)}
		if withShares {
			row = append(row, percent(g.ShareBefore), "→", percent(g.ShareNow))
		}
		cells = append(cells, row)
	}
	for i, line := range table(cells, right...) {
		if i == 0 {
			p.put(dim, line)
			continue
		}
		// Function names are long: each has a line of its own.
		p.put(plain, line)
		p.put(plain, "    "+shorten(Printable(list[i-1].Function), p.width-4))
	}
	if more := len(list) - n; more > 0 {
		p.block(dim, "  ", fmt.Sprintf("and %d more: --top 0 shows all", more))
	}
}

// note is a line about detectors: what was ruled out, or why it was not looked.
type note struct {
	detectors, processes []string
	reason               string
}

func (p *page) ruledOut(list []detect.RuledOut) {
	var notes []note
	for _, n := range list {
		notes = append(notes, note{[]string{n.Detector}, []string{n.Process}, n.Reason})
	}
	p.notes(bold, "Ruled out", notes)
}

func (p *page) skipped(list []detect.Skipped) {
	var notes []note
	for _, n := range list {
		notes = append(notes, note{[]string{n.Detector}, []string{n.Process}, n.Reason})
	}
	p.notes(yellow, "Could not look (which is not the same as not found)", notes)
}

// notes prints a list as two columns, detectors and reasons. Equal reasons
// are joined, first over processes, then over detectors.
func (p *page) notes(s style, title string, list []note) {
	if len(list) == 0 {
		return
	}
	p.heading(s, title)
	slices.SortStableFunc(list, func(a, b note) int { return strings.Compare(a.detectors[0], b.detectors[0]) })
	list = joined(list, func(n note) string { return n.detectors[0] + "\x00" + n.reason },
		func(to *note, n note) { to.processes = append(to.processes, n.processes...) })
	list, hidden := p.limitEach(list)
	list = joined(list, func(n note) string { return n.reason + "\x00" + strings.Join(n.processes, "\x00") },
		func(to *note, n note) { to.detectors = append(to.detectors, n.detectors...) })
	width := 0
	for _, n := range list {
		if c := columns(Printable(strings.Join(n.detectors, ", "))); c <= p.width/3 {
			width = max(width, c)
		}
	}
	for _, n := range list {
		names := Printable(strings.Join(n.detectors, ", "))
		text := n.reason
		if where := inProcesses(n.processes); where != "" {
			text += " [" + p.local(where) + "]"
		}
		if columns(names) > width {
			p.block(plain, "  ", names)
			names = ""
		}
		p.block(plain, "  "+names+strings.Repeat(" ", width-columns(names))+"  ", text)
	}
	if hidden > 0 {
		p.block(dim, "  ", fmt.Sprintf("and %d more of other processes: -o json lists them", hidden))
	}
}

// limitEach keeps at most p.top notes of one detector, so that many processes
// do not fill the screen.
func (p *page) limitEach(list []note) (kept []note, hidden int) {
	seen := map[string]int{}
	for _, n := range list {
		name := n.detectors[0]
		if seen[name]++; p.top > 0 && seen[name] > p.top {
			hidden++
			continue
		}
		kept = append(kept, n)
	}
	return kept, hidden
}

// joined merges the notes of one key into the first of them.
func joined(list []note, key func(note) string, merge func(*note, note)) []note {
	at := map[string]int{}
	var out []note
	for _, n := range list {
		k := key(n)
		if i, ok := at[k]; ok {
			merge(&out[i], n)
			continue
		}
		at[k] = len(out)
		out = append(out, n)
	}
	return out
}

func inProcesses(names []string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 2 {
		return fmt.Sprintf("in %d processes", len(names))
	}
	if len(names) == 0 {
		return ""
	}
	return "in " + strings.Join(names, " and ")
}

// maxInputs is how many inputs that were read whole are listed; the ones with
// losses or errors always are.
const maxInputs = 8

// inputs is what was read and what was lost.
func (p *page) inputs(list []detect.Input) {
	if len(list) == 0 {
		return
	}
	if len(list) == 1 && list[0].Error == "" && lost(&list[0]) == 0 {
		p.heading(plain, "Input: "+list[0].Name+": "+describe(&list[0]))
		return
	}
	title := "Inputs"
	if len(list) == 1 {
		title = "Input"
	}
	if p.dir != "" {
		title += " in " + p.dir
	}
	p.heading(bold, title)
	whole := 0
	for i := range list {
		in := &list[i]
		switch {
		case in.Error != "":
			p.block(red, "  ", p.local(in.Name)+": could not be read: "+p.local(in.Error))
		case lost(in) > 0:
			p.block(yellow, "  ", p.local(in.Name+": "+describe(in)))
		default:
			if whole++; whole <= maxInputs || p.top == 0 {
				p.block(plain, "  ", p.local(in.Name+": "+describe(in)))
			}
		}
	}
	if more := whole - maxInputs; more > 0 && p.top > 0 {
		p.block(dim, "  ", fmt.Sprintf("and %d more, read whole: -o json lists them", more))
	}
}

// commonDir is the directory or URL, up to a slash, that all of several
// inputs are in; "" where there is none.
func commonDir(list []detect.Input) string {
	if len(list) < 2 {
		return ""
	}
	dir := list[0].Name
	for _, in := range list {
		for !strings.HasPrefix(in.Name, dir) || !strings.HasSuffix(dir, "/") {
			if dir == "" {
				return ""
			}
			dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1]
		}
	}
	return dir
}

// local shortens the names of inputs and processes in a text to what they do
// not share. Elsewhere than at the start of a word, the same letters are of another name.
func (p *page) local(text string) string {
	if p.dir == "" || p.dir == "/" {
		return text
	}
	text = strings.TrimPrefix(text, p.dir)
	text = strings.ReplaceAll(text, " "+p.dir, " ")
	return strings.ReplaceAll(text, "["+p.dir, "[")
}

func lost(in *detect.Input) int64 {
	if in.Goroutines == nil {
		return 0
	}
	return in.Goroutines.Lost
}

// describe says what an input is, in which role it was used, and its loss report.
func describe(in *detect.Input) string {
	text := "profile"
	if in.Kind != "" {
		text = in.Kind + " profile"
	}
	if in.Format != "" {
		text += " (" + in.Format + ")"
	}
	if in.Process != "" {
		text += " of " + in.Process
	}
	if in.Taken != nil {
		text += ", taken " + clock(*in.Taken)
	}
	if in.Window != "" {
		text += ", over " + in.Window
	}
	if in.Use != "" {
		text += ", " + in.Use
	}
	g := in.Goroutines
	switch {
	case g == nil:
	case g.Lost > 0 && g.Declared > 0:
		text += fmt.Sprintf("; %s goroutines declared, %s read, %s lost", whole(g.Declared), whole(g.Read), whole(g.Lost))
	case g.Lost > 0:
		text += fmt.Sprintf("; %s read, %s lost", count(g.Read, "goroutine", "goroutines"), whole(g.Lost))
	default:
		text += fmt.Sprintf(", %s, none lost", count(g.Read, "goroutine", "goroutines"))
	}
	return text
}

// maxWarnings keeps a dump with a thousand bad blocks from filling the screen.
const maxWarnings = 5

func (p *page) warnings(list []string) {
	n := len(list)
	if p.top > 0 {
		n = min(n, maxWarnings)
	}
	for _, w := range list[:n] {
		p.block(yellow, "", "warning: "+p.local(w))
	}
	if more := len(list) - n; more > 0 {
		p.block(dim, "", fmt.Sprintf("and %d more: --top 0 lists them", more))
	}
}

// maxNotes is how many notes a screen has room for; how the inputs of a
// directory were paired fits, its unused files may not.
const maxNotes = 3

func (p *page) reading(list []string) {
	n := len(list)
	if p.top > 0 {
		n = min(n, maxNotes)
	}
	for _, s := range list[:n] {
		p.block(dim, "", "note: "+p.local(s))
	}
	if more := len(list) - n; more > 0 {
		p.block(dim, "", fmt.Sprintf("and %d more: --top 0 lists them", more))
	}
}

// clock writes a moment in UTC; without a fraction, which no one reads.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
