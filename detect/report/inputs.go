package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/detect"
)

// maxInputs is how many inputs that were read whole are listed one by one: more
// are counted by kind, for those of a bundle would push the answer off the
// screen. The ones with losses or errors always are listed.
const maxInputs = 8

// inputs is what was read and what was lost.
func (p *page) inputs(list []detect.Input) {
	if len(list) == 0 {
		return
	}
	if len(list) == 1 && list[0].Error == "" {
		s := plain
		if lost(&list[0]) > 0 {
			s = yellow
		}
		p.heading(s, "Input: "+list[0].Name+": "+describe(&list[0]))
		return
	}
	day := commonDay(list)
	p.heading(bold, p.inputsTitle(list, day))
	var whole []detect.Input
	for _, in := range list {
		if in.Error == "" && lost(&in) == 0 {
			whole = append(whole, in)
		}
	}
	tallied := len(whole) > maxInputs && p.top > 0
	listed := list
	if tallied {
		listed = slices.DeleteFunc(slices.Clone(list), func(in detect.Input) bool { return in.Error == "" && lost(&in) == 0 })
	}
	rows := p.inputRows(listed, day)
	if rows != nil {
		p.put(dim, strings.TrimRight(rows[0], " "))
		rows = rows[1:]
	}
	for i := range listed {
		in := &listed[i]
		if in.Error != "" {
			p.block(red, "  ", p.local(in.Name)+": could not be read: "+p.local(in.Error))
			continue
		}
		s := yellow
		if lost(in) == 0 {
			s = plain
		}
		if len(rows) == 0 { // no room for columns
			p.block(s, "  ", p.local(in.Name+": "+describe(in)))
			continue
		}
		p.inputLine(s, rows[0], in)
		rows = rows[1:]
	}
	if tallied {
		p.block(plain, "  ", tally(whole)+", read whole: --top 0 lists them")
	}
}

// tally counts inputs by kind, in the order they are first seen, and the processes they are of.
func tally(list []detect.Input) string {
	var kinds []string
	number, processes := map[string]int64{}, map[string]bool{}
	for _, in := range list {
		kind := cmp.Or(in.Kind, "profile")
		if number[kind]++; number[kind] == 1 {
			kinds = append(kinds, kind)
		}
		if in.Process != "" {
			processes[in.Process] = true
		}
	}
	for i, kind := range kinds {
		one, many := kind+" profile", kind+" profiles"
		switch kind {
		case "profile":
			one, many = "profile", "profiles"
		case "series":
			one, many = "file of series", "files of series"
		}
		kinds[i] = count(number[kind], one, many)
	}
	text := strings.Join(kinds, ", ")
	if len(processes) > 0 {
		text += " of " + count(int64(len(processes)), "process", "processes")
	}
	return text
}

// inputsTitle says what all inputs have in common.
func (p *page) inputsTitle(list []detect.Input, day string) string {
	title := "Inputs"
	if len(list) == 1 {
		title = "Input"
	}
	if p.dir != "" {
		title += " in " + p.dir
	}
	if day != "" {
		title += ", taken " + day + " (UTC)"
	}
	counted, gone := false, int64(0)
	for i := range list {
		counted = counted || list[i].Goroutines != nil
		gone += lost(&list[i])
	}
	if counted && gone == 0 {
		title += ", no goroutine lost"
	}
	return title
}

const (
	minName = 24 // fewest columns for an input's name: of the time or host by which names differ, and its suffix
	minUse  = 30 // columns for an input's use, before names are cut: "difference from" and the end of a name
)

// inputRows are the readable inputs as lines of equal width, after a header:
// name, kind, time, and goroutines or how long the values were gathered. nil
// where there are none, or the page is too narrow for them.
func (p *page) inputRows(list []detect.Input, day string) []string {
	cells := [][]string{{"  input", "kind", "taken", "goroutines"}}
	widths := []int{0, 0, 0, 0} // of what is there, without the header
	widestUse := 0
	for i := range list {
		in := &list[i]
		if in.Error != "" {
			continue
		}
		row := []string{p.local(Printable(in.Name)), p.kind(in), takenOn(in, day), quantity(in)}
		for k, cell := range row {
			widths[k] = max(widths[k], columns(cell))
		}
		widestUse = max(widestUse, columns(Printable(p.use(in))))
		cells = append(cells, row)
	}
	room := p.width - 2 // for the name
	if len(cells) == 1 {
		return nil // none could be read
	}
	kept := []int{0}
	for k := 1; k < len(widths); k++ {
		if widths[k] > 0 {
			kept = append(kept, k)
			room -= max(widths[k], len(cells[0][k])) + 2
		}
	}
	if room < minName {
		return nil
	}
	if widestUse > 0 {
		room = max(room-min(widestUse, minUse)-2, minName)
	}
	for i, row := range cells {
		if i > 0 {
			row[0] = "  " + cutMiddle(row[0], room)
		}
		var line []string
		for _, k := range kept {
			line = append(line, row[k])
		}
		cells[i] = line
	}
	lines := table(cells)
	widest := 0
	for _, line := range lines {
		widest = max(widest, columns(line))
	}
	for i, line := range lines {
		lines[i] = line + strings.Repeat(" ", widest-columns(line))
	}
	return lines
}

// inputLine prints one input: its row and its use, which goes under the row
// where it does not fit beside.
func (p *page) inputLine(s style, row string, in *detect.Input) {
	use := Printable(p.use(in))
	room := p.width - columns(row) - 2
	// A long name at its end is what can be shortened.
	if i := strings.LastIndexByte(use, ' ') + 1; columns(use) > room && columns(use[:i])+minEnd <= room {
		use = use[:i] + shorten(use[i:], room-columns(use[:i]))
	}
	if columns(use) <= room {
		p.put(s, strings.TrimRight(row+"  "+use, " "))
		return
	}
	p.put(s, strings.TrimRight(row, " "))
	p.block(s, "      ", use)
}

// minEnd is the fewest columns of a name's end that tell it from others.
const minEnd = 12

// use is what an input was used for, and the process it is of where its name
// does not say so.
func (p *page) use(in *detect.Input) string {
	var parts []string
	if in.Process != "" && in.Process != in.Name {
		parts = append(parts, "of "+p.local(in.Process))
	}
	if in.Use != "" {
		parts = append(parts, p.local(in.Use))
	}
	return strings.Join(parts, ", ")
}

// kind is a profile's kind, with its format where that is not the usual one
// and there is room.
func (p *page) kind(in *detect.Input) string {
	kind := cmp.Or(in.Kind, "profile")
	if in.Format != "" && in.Format != "pprof" && p.width >= defaultWidth {
		kind += " " + in.Format
	}
	return Printable(kind)
}

// quantity is the size of an input: its goroutines with the lost ones, or the
// time its values were gathered over.
func quantity(in *detect.Input) string {
	g := in.Goroutines
	switch {
	case g != nil && g.Lost > 0 && g.Declared > 0:
		return fmt.Sprintf("%s of %s, %s lost", whole(g.Read), whole(g.Declared), whole(g.Lost))
	case g != nil && g.Lost > 0:
		return fmt.Sprintf("%s, %s lost", whole(g.Read), whole(g.Lost))
	case g != nil:
		return whole(g.Read)
	case in.Samples > 0:
		return count(int64(in.Samples), "sample", "samples")
	case in.Window != "":
		return "over " + Printable(shortWindow(in.Window))
	}
	return ""
}

// shortWindow is a Go duration to the tenth of a second, where it has many.
func shortWindow(s string) string {
	if d, err := time.ParseDuration(s); err == nil && d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return s
}

// takenOn is when an input was taken: the time alone where the title has the day.
func takenOn(in *detect.Input, day string) string {
	switch {
	case in.Taken == nil:
		return ""
	case day != "":
		return in.Taken.UTC().Format(time.TimeOnly)
	}
	return clock(*in.Taken)
}

// commonDay is the day in UTC on which all inputs with a time were taken; "" where they differ.
func commonDay(list []detect.Input) string {
	day := ""
	for i := range list {
		if list[i].Taken == nil {
			continue
		}
		d := list[i].Taken.UTC().Format(time.DateOnly)
		if day != "" && d != day {
			return ""
		}
		day = d
	}
	return day
}

// shortName is the shortest end of an input's name, in whole elements, that no
// other input's name ends in.
func shortName(name string, list []detect.Input) string {
	for at := strings.LastIndexByte(name, '/'); at >= 0; at = strings.LastIndexByte(name[:at], '/') {
		end := name[at+1:]
		if end != "" && !slices.ContainsFunc(list, func(in detect.Input) bool {
			return in.Name != name && (in.Name == end || strings.HasSuffix(in.Name, "/"+end))
		}) {
			return end
		}
	}
	return name
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
	if strings.HasSuffix(dir, "://") { // a scheme is no place
		return ""
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
	switch in.Kind {
	case "", text:
	case "series":
		text = "series"
	default:
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
	if in.Samples > 0 {
		text += fmt.Sprintf(", %s of %s", count(int64(in.Samples), "sample", "samples"), count(int64(in.Series), "series", "series"))
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

// reading is how the inputs were understood: a line a note, as these are for
// who doubts the rest.
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
