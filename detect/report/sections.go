package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
		// The title has the sum of before, which is what a narrow page has room for.
		if p.width >= 60 && slices.ContainsFunc(rows, func(s detect.Share) bool { return m.of(s.Before) != nil }) {
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
	if v := inFlight.Before.Stacks; v != nil && (*v > 0 || total > 0) {
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
	p.heading(bold, budgetTitle(r.BudgetUnit, total)+before)
	if len(rows) > 0 {
		p.shares(rows, header, columnsOf, total)
	}
	if len(zero) > 0 {
		p.block(dim, "  ", "none: "+strings.Join(zero, ", "))
	}
	if text := budgetTimes(r.BudgetTimes); text != "" {
		p.block(dim, "  ", text)
	}
	p.unexplained(r.Unexplained)
}

func budgetTitle(u detect.Unit, total float64) string {
	var what, one string
	switch u {
	case detect.Requests:
		what, one = "requests", "request"
	case detect.Goroutines:
		what, one = notIdle, "goroutine that is not idle"
	default: // events are no concurrency
		return "In flight: " + number(total)
	}
	switch total {
	case 0:
		return "No " + what + " now"
	case 1:
		return "Where the 1 " + one + " is"
	}
	return "Where the " + number(total) + " " + what + " are"
}

// notIdle is what a budget of goroutines counts.
const notIdle = "goroutines that are not idle"

// unexplained names the sites behind the budget's line of that name.
func (p *page) unexplained(list []detect.Evidence) {
	if len(list) == 0 {
		return
	}
	p.block(plain, "  ", "what they wait for, the stacks do not tell:")
	n := p.shown(len(list))
	for _, e := range list[:n] {
		p.block(plain, "    ", e.Text)
	}
	if more := len(list) - n; more > 0 {
		p.block(dim, "    ", fmt.Sprintf("and %d more: --top 0 shows all", more))
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

// growth is the comparison with the base; also where nothing grew, or nothing
// could be compared.
func (p *page) growth(list []detect.Growth, summary string) {
	if len(list) == 0 {
		if summary != "" {
			p.heading(bold, "Compared with the base")
			p.block(plain, "  ", summary)
		}
		return
	}
	title := "What grew since the base"
	if u := list[0].Unit; u != "" {
		title += ", in " + string(u)
	}
	p.heading(bold, title)
	if summary != "" {
		p.block(plain, "  ", summary)
	}
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
	jobs                 int // of those in processes
	reason               string
}

func (p *page) ruledOut(list []detect.RuledOut) {
	p.notes(bold, "Ruled out", ruledOutNotes(list, p.jobs))
}

func (p *page) skipped(list []detect.Skipped) {
	p.notes(yellow, couldNotTitle, skippedNotes(list, p.jobs))
}

const couldNotTitle = "Could not look (which is not the same as not found)"

func ruledOutNotes(list []detect.RuledOut, jobs int) (notes []note) {
	for _, n := range list {
		notes = append(notes, newNote(n.Detector, n.Process, n.Job, n.Reason, jobs))
	}
	return notes
}

func skippedNotes(list []detect.Skipped, jobs int) (notes []note) {
	for _, n := range list {
		notes = append(notes, newNote(n.Detector, n.Process, n.Job, n.Reason, jobs))
	}
	return notes
}

// newNote names the process or job that it is of, where there are several.
func newNote(detector, process, job, reason string, jobs int) note {
	n := note{[]string{detector}, []string{process}, 0, reason}
	if jobs > 1 && process == "" {
		n.processes, n.jobs = []string{job}, 1
	}
	return n
}

// notes prints a list as two columns, detectors and reasons. Equal reasons
// are joined, first over processes, then over detectors.
func (p *page) notes(s style, title string, list []note) {
	if len(list) == 0 {
		return
	}
	p.heading(s, title)
	list, hidden := p.limitEach(byDetector(list))
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
		if where := n.where(); where != "" {
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

// byDetector sorts notes, and joins the equal reasons of several processes.
func byDetector(list []note) []note {
	slices.SortStableFunc(list, func(a, b note) int { return strings.Compare(a.detectors[0], b.detectors[0]) })
	return joined(list, func(n note) string { return n.detectors[0] + "\x00" + n.reason },
		func(to *note, n note) {
			to.processes = append(to.processes, n.processes...)
			to.jobs += n.jobs
		})
}

// limitEach keeps at most p.top notes of one detector, so that many processes
// do not fill the screen.
func (p *page) limitEach(list []note) (kept []note, hidden int) {
	seen := map[string]int{}
	most := p.top
	const few = 3 // processes whose notes fit beside each other on a screen
	if len(processesOf(list)) > few {
		most = min(most, 1) // 0 is still all
	}
	for _, n := range list {
		name := n.detectors[0]
		if seen[name]++; most > 0 && seen[name] > most {
			hidden++
			continue
		}
		kept = append(kept, n)
	}
	return kept, hidden
}

// processesOf are the processes, and not the jobs, that notes are of.
func processesOf(list []note) map[string]bool {
	all := map[string]bool{}
	for _, n := range list {
		if n.jobs > 0 {
			continue
		}
		for _, process := range n.processes {
			all[process] = true
		}
	}
	return all
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

// where says of which processes or jobs a note is; "" where there is one.
func (n *note) where() string {
	names := slices.DeleteFunc(slices.Clone(n.processes), func(s string) bool { return s == "" })
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 2 {
		what := "processes"
		switch n.jobs {
		case 0:
		case len(n.processes):
			what = "jobs"
		default:
			what = "processes and jobs"
		}
		return fmt.Sprintf("in %d %s", len(names), what)
	}
	if len(names) == 0 {
		return ""
	}
	return "in " + strings.Join(names, " and ")
}
