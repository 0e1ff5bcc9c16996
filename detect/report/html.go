package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/detect"
)

// HTMLOptions are how a page is served.
type HTMLOptions struct {
	// Refresh is how often a live page loads itself anew, in whole seconds, one at
	// least; 0 for a page that stays as it is.
	Refresh time.Duration
	// Seen is when a live page's inputs were looked at.
	Seen time.Time
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		// Every string of a report goes through it: what is harmless to a browser can still
		// mislead a reader, as a bidirectional override in a function's name.
		"say":   Printable,
		"clock": func(t time.Time) string { return t.UTC().Format(time.TimeOnly) },
		"exact": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"doc":   detect.Page,
		"whole": func(n int64) string { return detect.Thousands(float64(n)) },
	}).Parse(pageHTML))
)

// What a page shows of long lists; it says how many more there are, and the JSON has all.
const (
	pageFindings = 30
	pageEvidence = 12
	pageNames    = 12 // instances, values of a label
	pageInputs   = 100
	pageLines    = 50 // warnings, notes
)

// HTML writes r as one page that needs nothing else: no other file, no network, and
// no script to be read. It fails only where w does.
func HTML(w io.Writer, r *detect.Report, o HTMLOptions) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, newHTMLPage(r, o)); err != nil {
		return fmt.Errorf("write report as HTML: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// htmlPage is a report in the order that its page has it.
type htmlPage struct {
	Policy      string
	CSS         template.CSS
	JS          template.JS
	Refresh     int // seconds
	Seen        time.Time
	Tone        string
	Head, Rest  string
	Story       []storyItem
	Day         string
	Steps       []string
	Jobs        []job
	MoreJobs    int
	Budget      *budgetTable
	Unexplained []detect.Evidence
	Tree        *treeView
	Lock        *lockView
	Findings    []findingView
	More        []string // names of the detectors of findings left out
	Base        []detect.Growth
	BaseSummary string
	RuledOut    []noteGroup
	Skipped     []noteGroup
	SkipTitle   string
	Signals     []detect.SignalMatch
	Inputs      []inputRow
	MoreInputs  int
	Flawed      bool // an input could not be read, or not whole
	Warnings    []string
	MoreWarned  []string // folded
	Notes       []string
}

type storyItem struct {
	At, Clock, Detector, Role, Sign, Color, Summary string
}

func newHTMLPage(r *detect.Report, o HTMLOptions) *htmlPage {
	a, dir := answerOf(r), commonDir(r.Inputs)
	p := &htmlPage{
		Policy: "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src '" + hash(pageCSS) + "'; script-src '" + hash(pageJS) + "'",
		CSS:    template.CSS(pageCSS), JS: template.JS(pageJS),
		Tone: tones[a.tone], Head: a.head, Rest: a.rest,
		Steps: steps(r), Jobs: jobs(r), MoreJobs: r.MoreTimelines,
		Budget: newBudgetTable(r), Unexplained: r.Unexplained, Tree: newTreeView(r.Tree),
		Base: r.Base, BaseSummary: r.BaseSummary,
		RuledOut: groupNotes(ruledOutNotes(r.RuledOut, jobsOf(r))), SkipTitle: couldNotTitle,
		Signals: r.Signals,
		Notes:   firstOf(withoutDir(r.Notes, dir), pageLines),
	}
	p.Warnings = withoutDir(r.Warnings, dir)
	if n := maxWarnings; len(p.Warnings) > n {
		p.Warnings, p.MoreWarned = p.Warnings[:n], firstOf(p.Warnings[n:], pageLines)
	}
	if o.Refresh > 0 {
		p.Refresh, p.Seen = max(int(o.Refresh/time.Second), 1), o.Seen
		p.Policy += "; connect-src 'self'" // to see whether there is somebody to load it from
	}
	if failed := countFailed(r.Inputs); failed == 0 || failed < len(r.Inputs) {
		p.Skipped = groupNotes(skippedNotes(r.Skipped, jobsOf(r))) // else the inputs say it
	}
	p.Day = dayTaken(r.Inputs)
	p.story(r.Verdict.Story)
	if f := verdictFinding(r); f.Holder != nil || f.Holds != "" {
		p.Lock = newLockView(f)
	}
	for i := range r.Findings {
		if i >= pageFindings {
			if d := r.Findings[i].Detector; !slices.Contains(p.More, d) {
				p.More = append(p.More, d)
			}
			continue
		}
		p.Findings = append(p.Findings, newFindingView(&r.Findings[i], r, p.Lock != nil))
	}
	for i := range r.Inputs {
		p.Inputs = append(p.Inputs, newInputRow(&r.Inputs[i], dir))
	}
	// What could not be read, or not whole, stands first and is not folded.
	slices.SortStableFunc(p.Inputs, func(a, b inputRow) int { return cmp.Compare(b.flaw(), a.flaw()) })
	p.Flawed = len(p.Inputs) > 0 && p.Inputs[0].flaw() > 0
	if n := len(p.Inputs) - pageInputs; n > 0 {
		p.Inputs, p.MoreInputs = p.Inputs[:pageInputs], n
	}
	return p
}

// tones are the classes of page.css for the colours of a terminal.
var tones = map[style]string{red: "critical", yellow: "warning", cyan: "info", green: "well", bold: "info"}

// hash is a source of a content security policy: only this text may run or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func firstOf(list []string, most int) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most]), fmt.Sprintf("and %d more: -o json lists them", len(list)-most))
}

// withoutDir are texts that begin with the name of an input, by what comes after the
// directory that all are in.
func withoutDir(list []string, dir string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = strings.TrimPrefix(out[i], dir)
	}
	return out
}

// dayTaken is the day, in UTC, on which the last of the inputs was taken; "" where none tells.
func dayTaken(list []detect.Input) string {
	var last time.Time
	for i := range list {
		if at := list[i].Taken; at != nil && at.After(last) {
			last = *at
		}
	}
	if last.IsZero() {
		return ""
	}
	return last.UTC().Format(time.DateOnly)
}

func (p *htmlPage) story(list []detect.StoryLine) {
	if len(list) == 0 {
		return
	}
	p.Day = list[0].At.UTC().Format(time.DateOnly)
	for _, s := range list {
		at := s.At.UTC().Format(time.TimeOnly)
		if s.At.UTC().Format(time.DateOnly) != p.Day {
			at = s.At.UTC().Format(time.DateTime)
		}
		m := markOf(s.Role)
		p.Story = append(p.Story, storyItem{s.At.UTC().Format(time.RFC3339Nano), at, s.Detector, m.name, m.sign, hex(m.color), s.Summary})
	}
}

// budgetTable is where what is in flight is, by each measure that was taken.
type budgetTable struct {
	Title, Of string
	Columns   []string
	Rows      []budgetRow
}

type budgetRow struct {
	Where, Color, Share, Width string
	Cells                      []string
}

func newBudgetTable(r *detect.Report) *budgetTable {
	t := &budgetTable{Of: budgetTimes(r.BudgetTimes)}
	var of []func(detect.Share) *float64
	for _, m := range measures {
		for _, before := range [...]bool{false, true} {
			name, get := m.name, func(s detect.Share) *float64 { return m.of(s.Now) }
			if before {
				name, get = name+" before", func(s detect.Share) *float64 { return m.of(s.Before) }
			}
			if slices.ContainsFunc(r.Budget, func(s detect.Share) bool { return get(s) != nil }) {
				t.Columns, of = append(t.Columns, name), append(of, get)
			}
		}
	}
	if len(of) == 0 {
		return nil
	}
	inFlight, rows := takeInFlight(slices.Clone(r.Budget))
	total := value(of[0](inFlight))
	if of[0](inFlight) == nil {
		for _, s := range rows {
			total += value(of[0](s))
		}
	}
	t.Title = budgetTitle(r.BudgetUnit, total)
	for _, s := range append(rows, inFlight) {
		if s.Where == "" {
			continue // no total was measured
		}
		row := budgetRow{Where: s.Where, Color: hex(placeLooks[s.Where].color)}
		for _, get := range of {
			if v := get(s); v != nil {
				row.Cells = append(row.Cells, number(*v))
			} else {
				row.Cells = append(row.Cells, "–")
			}
		}
		if v := of[0](s); v != nil && total > 0 && s.Where != detect.PlaceInFlight {
			row.Share, row.Width = percent(*v/total), width(*v/total)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// width is a share of 0 to 1 as a length in an SVG.
func width(share float64) string { return fmt.Sprintf("%.2f%%", 100*min(max(share, 0), 1)) }

// pair is a line of a finding.
type pair struct{ Key, Value string }

type findingView struct {
	Words, Detector, Severity, Summary string
	Fields                             []pair
	Lock                               *lockView
	Evidence                           []evidenceView
	MoreEvidence                       int
	Next                               []string
	Warnings                           []string
}

// newFindingView leaves the lock of the verdict's finding to the tree's section, where withLock.
func newFindingView(f *detect.Finding, r *detect.Report, withLock bool) findingView {
	v := findingView{Detector: f.Detector, Severity: string(f.Severity), Summary: f.Summary, Next: f.Next, Warnings: f.Warnings}
	var words []string
	for _, s := range []string{string(f.Role), string(f.Severity)} {
		if s != "" {
			words = append(words, s)
		}
	}
	if f.Confidence != "" {
		words = append(words, string(f.Confidence)+" confidence")
	}
	for _, s := range []pair{{"job ", f.Job}, {"in ", f.Process}} {
		if s.Value != "" {
			words = append(words, s.Key+s.Value)
		}
	}
	v.Words = strings.Join(words, ", ")
	add := func(key, value string) {
		if value != "" {
			v.Fields = append(v.Fields, pair{key, value})
		}
	}
	verb := "waits for"
	if f.Charged == "holder" {
		verb = "holds"
	}
	add(verb, waitsFor(f))
	if !strings.HasPrefix(f.Function, f.Package+".") {
		add("package", f.Package)
	}
	add("library", f.Library)
	add("blocked", blocked(f))
	if h := f.Headroom; h != nil {
		add("lock", h.Held())
		add("headroom", h.Saturates()+" today's load, "+h.By())
		for _, a := range h.Assumes {
			add("assumes", a)
		}
	}
	n := min(len(f.Instances), pageNames)
	add("instances", strings.Join(f.Instances[:n], ", ")+andMore(len(f.Instances)-n))
	if w := f.Window; w != nil {
		add("window", fmt.Sprintf("%s to %s (%s)", clock(w.Start), clock(w.End), w.End.Sub(w.Start)))
	}
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		values := f.Labels[key]
		n := min(len(values), pageNames)
		add("label "+key, strings.Join(values[:n], ", ")+andMore(len(values)-n))
	}
	if (f.Holder != nil || f.Holds != "") && !(withLock && f == verdictFinding(r)) {
		v.Lock = newLockView(f)
	}
	dir := commonDir(r.Inputs)
	for _, e := range f.Evidence[:min(len(f.Evidence), pageEvidence)] {
		shown := evidenceView{Text: strings.TrimPrefix(e.Text, dir)}
		if e.Count == 0 { // a stack with a count is one that the text sums up
			shown.Stack, shown.More = frames(e.Stack)
		}
		if len(r.Inputs) > 1 && e.Input != "" { // else there is nothing to tell apart
			shown.Source = shortName(e.Input, r.Inputs)
		}
		v.Evidence = append(v.Evidence, shown)
	}
	v.MoreEvidence = len(f.Evidence) - len(v.Evidence)
	return v
}

// Details reports whether there is more to a finding than its summary.
func (v findingView) Details() bool {
	return len(v.Fields)+len(v.Evidence)+len(v.Next)+len(v.Warnings) > 0 || v.Lock != nil
}

type evidenceView struct {
	Text, Source string
	Stack        []string // caller last
	More         int      // frames left out
}

// frames are those of a stack that a page shows, and how many more there are.
func frames(stack []string) (shown []string, more int) {
	n := min(len(stack), maxFrames)
	return stack[:n], len(stack) - n
}

// lockView is who waits for a lock, who holds it, and what that one waits for.
type lockView struct {
	Waiters, Lock, Holds string
	Chain                []holderView
}

type holderView struct {
	Who, Wait string
	Stack     []string // caller last
	More      int      // frames left out
}

func newLockView(f *detect.Finding) *lockView {
	v := &lockView{Waiters: waiters(f), Lock: waitsFor(f), Holds: f.Holds}
	if f.Holder == nil {
		return v
	}
	chain := append([]detect.Holder{*f.Holder}, f.Holder.Then...)
	for i := range chain {
		h := &chain[i]
		waiter := ""
		if i == 0 {
			waiter = f.Function
		}
		stack, more := frames(h.Stack)
		v.Chain = append(v.Chain, holderView{whoHolds(h, waiter, i == 0 && f.Wait == "pool"), itIs(h) + " " + theirWait(h), stack, more})
	}
	return v
}

// noteGroup is what was said about one detector.
type noteGroup struct {
	Detector    string
	First, Rest []reason
}

type reason struct{ Text, Where string }

// groupReasons are how many reasons of a detector stand before the rest is folded.
const groupReasons = 2

func groupNotes(list []note) (groups []noteGroup) {
	for _, n := range byDetector(list) {
		if len(groups) == 0 || groups[len(groups)-1].Detector != n.detectors[0] {
			groups = append(groups, noteGroup{Detector: n.detectors[0]})
		}
		g := &groups[len(groups)-1]
		if r := (reason{n.reason, n.where()}); len(g.First) < groupReasons {
			g.First = append(g.First, r)
		} else if len(g.Rest) < pageLines {
			g.Rest = append(g.Rest, r)
		}
	}
	return groups
}

type inputRow struct {
	Name, Kind, Taken, Size, Use, Error string
	Lost                                bool
}

// flaw is how little was read of an input: 2 nothing, 1 a part, 0 all.
func (in inputRow) flaw() int {
	switch {
	case in.Error != "":
		return 2
	case in.Lost:
		return 1
	}
	return 0
}

// newInputRow names an input by what comes after the directory that all are in.
func newInputRow(in *detect.Input, dir string) inputRow {
	row := inputRow{Name: strings.TrimPrefix(in.Name, dir), Kind: cmp.Or(in.Kind, "profile"), Size: quantity(in), Use: strings.Replace(in.Use, dir, "", 1), Error: in.Error, Lost: lost(in) > 0}
	if in.Format != "" {
		row.Kind += " (" + in.Format + ")"
	}
	if in.Taken != nil {
		row.Taken = clock(*in.Taken)
	}
	if in.Process != "" && in.Process != in.Name {
		row.Use = strings.TrimSuffix("of "+strings.TrimPrefix(in.Process, dir)+", "+row.Use, ", ")
	}
	return row
}
