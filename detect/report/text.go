// Package report writes a detect.Report for a person (Text) or a program
// (JSON). Its functions depend on the report alone.
package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/contend/contend/detect"
)

// TextOptions are how a report is laid out.
type TextOptions struct {
	Width int  // display columns; 0 where unknown
	Color bool // use terminal colours
	Top   int  // findings, and evidence of each, to show; 0 for all
}

const (
	defaultWidth = 100 // where the width is not known: fits most windows and chat code blocks
	minWidth     = 40  // below it, columns of numbers no longer fit
	maxWidth     = 140 // longer lines of prose are hard to follow
)

// Text writes r for an engineer on call: what it is, where the requests are,
// the findings, what was ruled out, what could not be looked at, what to do,
// and what was read. It fails only where w does.
func Text(w io.Writer, r *detect.Report, o TextOptions) error {
	p := &page{width: defaultWidth, color: o.Color, top: max(o.Top, 0), dir: commonDir(r.Inputs), jobs: jobsOf(r)}
	if o.Width > 0 {
		p.width = min(max(o.Width, minWidth), maxWidth)
	}
	p.verdict(r)
	p.budget(r)
	p.findings(r)
	p.next(r)
	p.growth(r.Base, r.BaseSummary)
	p.ruledOut(r.RuledOut)
	if failed := countFailed(r.Inputs); failed == 0 || failed < len(r.Inputs) {
		p.skipped(r.Skipped) // else the inputs say it
	}
	p.signals(r.Signals)
	p.inputs(r.Inputs)
	p.warnings(r.Warnings)
	p.reading(r.Notes)
	_, err := w.Write(p.buf.Bytes())
	return err
}

// jobsOf is how many jobs a report is of.
func jobsOf(r *detect.Report) int {
	seen := map[string]bool{}
	for _, f := range r.Findings {
		seen[f.Job] = true
	}
	for _, n := range r.RuledOut {
		seen[n.Job] = true
	}
	delete(seen, "")
	return len(seen)
}

// verdict is the answer in a sentence, and how sure it is.
func (p *page) verdict(r *detect.Report) {
	v := &r.Verdict
	switch {
	case v.Cause != "":
		f := verdictFinding(r)
		// With several processes the summary begins with the name of one.
		p.block(severityStyle(f.Severity, bold), "", strings.TrimPrefix(v.Summary, p.dir))
		words := []string{v.Cause}
		if f.Severity != "" {
			words = append(words, string(f.Severity))
		}
		if v.Confidence != "" {
			words = append(words, string(v.Confidence)+" confidence")
		}
		if v.Trigger != "" {
			words = append(words, "set off by "+v.Trigger)
		}
		if a := v.Instances; a != nil {
			one, many := "process", "processes"
			if f.Alert != "" || f.Job != "" {
				one, many = "instance", "instances"
			}
			words = append(words, fmt.Sprintf("%d of %s", a.Affected, count(int64(a.Total), one, many)))
		}
		if v.Job != "" {
			words = append(words, "job "+v.Job)
		}
		words = append(words, duration(f)...)
		p.block(plain, "", strings.Join(words, ", ")+unsure(v.Confidence, f.Warnings))
	case couldNotLook(r):
		p.block(yellow, "", "could not look: "+tail(v.Summary, "could not look", noLook(r)))
		p.block(plain, "", "This does not mean that the process is well.")
	case len(r.Findings) > 0:
		worst := slices.MinFunc(r.Findings, func(a, b detect.Finding) int {
			return slices.Index(detect.Severities, a.Severity) - slices.Index(detect.Severities, b.Severity)
		})
		style := severityStyle(worst.Severity, green)
		if worst.Severity == detect.Info {
			style = green
		}
		p.block(style, "", cmp.Or(v.Summary, "nothing found that holds a material share; what is below is worth knowing"))
		p.block(plain, "", lookedAt(r))
	default:
		p.block(green, "", "nothing found: "+tail(v.Summary, "nothing found", "nothing holds the requests"))
		p.block(plain, "", lookedAt(r))
	}
	p.story(r)
}

// unsure says in few words why a verdict is not surer: the first clause of its
// finding's first warning. The whole warning stands with the finding.
func unsure(c detect.Confidence, warnings []string) string {
	if c != detect.Low && c != detect.Medium || len(warnings) == 0 {
		return ""
	}
	why := warnings[0]
	if i := strings.Index(why, "; "); i > 0 {
		why = why[:i]
	}
	if i := strings.Index(why, ": "); i > 0 {
		why = why[:i]
	}
	return ": " + why
}

// verdictFinding is the finding the verdict was taken from; where there is no
// verdict, the first; where there are no findings, an empty one.
func verdictFinding(r *detect.Report) *detect.Finding {
	for i := range r.Findings {
		if r.Findings[i].Detector == r.Verdict.Cause {
			return &r.Findings[i]
		}
	}
	if len(r.Findings) > 0 {
		return &r.Findings[0]
	}
	return &detect.Finding{}
}

// couldNotLook reports whether no detector came to a result, so that a
// report without findings means nothing.
func couldNotLook(r *detect.Report) bool {
	return len(r.Findings) == 0 && len(r.RuledOut) == 0
}

// countFailed is how many inputs could not be read.
func countFailed(list []detect.Input) int {
	n := 0
	for _, in := range list {
		if in.Error != "" {
			n++
		}
	}
	return n
}

// noLook says why nothing was looked at.
func noLook(r *detect.Report) string {
	failed := countFailed(r.Inputs)
	switch {
	case len(r.Inputs) == 0:
		return "there was no input"
	case failed == len(r.Inputs):
		return "no input could be read"
	}
	return "no detector can work from what was read"
}

// tail is a summary without a heading it may already begin with. Where it is
// empty or claims another outcome, it is fallback.
func tail(summary, heading, fallback string) string {
	rest, ok := strings.CutPrefix(summary, heading)
	if ok {
		return cmp.Or(strings.TrimLeft(rest, ":;,. "), fallback)
	}
	if strings.HasPrefix(summary, "nothing found") || strings.HasPrefix(summary, "could not look") {
		return fallback
	}
	return cmp.Or(summary, fallback)
}

// lookedAt sums up, with numbers, what stands behind a report without a verdict.
func lookedAt(r *detect.Report) string {
	var lost int64
	largest := map[string]int64{} // of the snapshots of a process, which show the same goroutines
	inputs, failed := 0, 0
	for _, in := range r.Inputs {
		if in.Error != "" {
			failed++
			continue
		}
		inputs++
		if in.Goroutines != nil {
			largest[in.Process] = max(largest[in.Process], in.Goroutines.Read)
			lost += in.Goroutines.Lost
		}
	}
	read := int64(0)
	for _, n := range largest {
		read += n
	}
	text := "looked at " + count(int64(inputs), "input", "inputs")
	if read > 0 {
		text = fmt.Sprintf("looked at %s in %s", count(read, "goroutine", "goroutines"), count(int64(inputs), "input", "inputs"))
	}
	if lost > 0 {
		text += fmt.Sprintf(", %s lost", whole(lost))
	}
	if failed > 0 {
		text += fmt.Sprintf("; %s could not be read", count(int64(failed), "input", "inputs"))
	}
	looked, blind := map[string]bool{}, map[string]bool{}
	for _, n := range r.RuledOut {
		looked[n.Detector] = true
	}
	for _, n := range r.Skipped {
		blind[n.Detector] = true
	}
	text += fmt.Sprintf("; %s ruled out", count(int64(len(looked)), "cause", "causes"))
	if len(blind) > 0 {
		text += fmt.Sprintf("; %s could not look", count(int64(len(blind)), "detector", "detectors"))
	}
	return text
}

// findings prints each finding, largest first.
func (p *page) findings(r *detect.Report) {
	if len(r.Findings) == 0 {
		return
	}
	title := "Findings"
	if len(r.Findings) == 1 {
		title = "Finding"
	}
	p.heading(bold, title)
	n := p.shown(len(r.Findings))
	for i := range r.Findings[:n] {
		p.finding(&r.Findings[i], r, i > 0 && p.top > 0)
	}
	if more := r.Findings[n:]; len(more) > 0 {
		var names []string
		for _, f := range more {
			if !slices.Contains(names, f.Detector) {
				names = append(names, f.Detector)
			}
		}
		p.block(dim, "  ", fmt.Sprintf("and %s (%s): --top 0 shows all",
			count(int64(len(more)), "more finding", "more findings"), strings.Join(names, ", ")))
	}
}

// finding prints one finding; a brief one leaves out the holder's stack and
// most of the evidence, so that the screen is left to the first.
func (p *page) finding(f *detect.Finding, r *detect.Report, brief bool) {
	words := []string{f.Detector}
	for _, s := range []string{string(f.Role), string(f.Severity)} {
		if s != "" {
			words = append(words, s)
		}
	}
	if f.Confidence != "" {
		words = append(words, string(f.Confidence)+" confidence")
	}
	if f.Process != "" {
		words = append(words, "in "+p.local(f.Process))
	}
	// One that is only worth knowing has one sentence; a forecast is worth what it assumes.
	if f.Severity == detect.Info && f.Summary != "" && p.top > 0 && f.Headroom == nil {
		p.block(severityStyle(f.Severity, plain), "  ", strings.Join(words, ", ")+": "+f.Summary)
		return
	}
	p.block(severityStyle(f.Severity, plain), "  ", strings.Join(words, ", "))
	// The verdict has said it already.
	if said := r.Verdict.Summary; f.Summary != "" && f.Summary != said && f.Process+": "+f.Summary != said {
		p.block(plain, "    ", f.Summary)
	}
	verb := "waits for"
	if f.Charged == "holder" {
		verb = "holds"
	}
	p.field(verb, waitsFor(f))
	if f.Package != "" && !strings.HasPrefix(f.Function, f.Package+".") {
		p.field("package", f.Package)
	}
	p.field("library", f.Library)
	p.field("blocked", blocked(f))
	if h := f.Headroom; h != nil {
		p.field("lock", h.Held())
		p.field("headroom", h.Saturates()+" today's load, "+h.By())
		for i, a := range h.Assumes {
			key := ""
			if i == 0 {
				key = "assumes"
			}
			p.field(key, a)
		}
	}
	if n := p.shown(len(f.Instances)); n > 0 {
		p.field("instances", strings.Join(f.Instances[:n], ", ")+andMore(len(f.Instances)-n))
	}
	if w := f.Window; w != nil {
		p.field("window", fmt.Sprintf("%s to %s (%s)", clock(w.Start), clock(w.End), w.End.Sub(w.Start)))
	}
	p.field("labels", p.labels(f.Labels))
	p.holder(f, brief)
	shown := p.shown(len(f.Evidence))
	if brief {
		shown = min(shown, 1)
	}
	p.evidence(f.Evidence, shown, r.Inputs)
	for _, w := range f.Warnings {
		p.styledField(yellow, "warning", w)
	}
}

// fieldIndent is where the values of a finding begin: after the longest key.
const fieldIndent = 15

func (p *page) field(key, value string) { p.styledField(plain, key, value) }

// styledField prints a value under its key; nothing where there is no value.
func (p *page) styledField(s style, key, value string) {
	if value == "" {
		return
	}
	p.block(s, fmt.Sprintf("%-*s", fieldIndent, "    "+key), value)
}

// waitNames are the kinds of waits in words.
var waitNames = map[string]string{
	"lock":    "a lock",
	"rlock":   "a read lock",
	"fdlock":  "the lock of a file descriptor",
	"chan":    "a channel",
	"pool":    "a permit of a pool",
	"socket":  "an answer from a socket",
	"select":  "one of several channels",
	"cond":    "a condition or a group",
	"sleep":   "a timer, asleep",
	"syscall": "a system call",
	"cpu":     "a processor",
}

func waitsFor(f *detect.Finding) string {
	text := cmp.Or(waitNames[f.Wait], f.Wait)
	if f.Lock != "" {
		text += " at " + f.Lock
	}
	if f.Function != "" {
		text += " in " + f.Function
	}
	return strings.TrimPrefix(text, " ")
}

func blocked(f *detect.Finding) string {
	if f.Blocked == 0 && f.Total == 0 {
		return ""
	}
	unit := string(cmp.Or(f.Unit, detect.Requests))
	// A share of all goroutines, as a leak's, is told by their number.
	if f.Unit == detect.Goroutines && f.Total > 0 && f.Total < float64(f.Goroutines) {
		unit = notIdle
	}
	inScope := f.Blocked
	if f.RequestsBlocked > 0 {
		inScope = float64(f.RequestsBlocked)
	}
	text := number(inScope) + " " + unit
	if f.Unit == detect.Contentions {
		// Their share is of the delay, which the verdict tells, not of their number.
		text = fmt.Sprintf("%s of %s %s", number(inScope), number(f.Total), unit)
	} else if f.Total > 0 && inScope <= f.Total {
		text = fmt.Sprintf("%s of %s %s (%s)", number(inScope), number(f.Total), unit, percent(inScope/f.Total))
	}
	// More wait than there are requests where helpers or background work wait too.
	if f.Blocked > inScope {
		text += fmt.Sprintf(", %s in all", count(int64(f.Blocked), "goroutine", "goroutines"))
	}
	if f.Requests > 0 && f.Unit != detect.Requests && f.Unit != "" {
		text += fmt.Sprintf("; %s in flight", count(f.Requests, "request", "requests"))
	}
	if f.Goroutines > 0 {
		of := "the process has"
		if f.Process == "" && len(f.Instances) > 1 {
			of = "the processes have"
		}
		text += fmt.Sprintf("; %s %s", of, count(f.Goroutines, "goroutine", "goroutines"))
	}
	return text
}

// evidence prints the first n of a list; where it was read, only where there
// are several inputs to tell apart.
func (p *page) evidence(list []detect.Evidence, n int, inputs []detect.Input) {
	for i, e := range list[:n] {
		key := ""
		if i == 0 {
			key = "evidence"
		}
		text := p.local(e.Text)
		if len(inputs) > 1 && e.Input != "" {
			text += " [" + shortName(e.Input, inputs) + "]"
		}
		p.field(key, text)
		// A stack with a count is one that the text sums up.
		if e.Count == 0 {
			p.stack("  frames", e.Stack, 4)
		}
	}
	if more := len(list) - n; more > 0 {
		p.styledField(dim, "", fmt.Sprintf("and %d more: --top 0 shows all", more))
	}
}

// Three steps are what a person keeps in mind, and one more for what is
// critical beside them; the JSON has them all.
const (
	maxSteps = 4
	ownSteps = 3
)

// next is what to do: of the verdict's finding, then first of all about what
// else is critical.
func (p *page) next(r *detect.Report) {
	lead := verdictFinding(r)
	steps := slices.Clone(lead.Next[:min(len(lead.Next), ownSteps)])
	told := map[string]bool{lead.Detector: true}
	for i := range r.Findings {
		f := &r.Findings[i]
		if len(steps) == maxSteps || f.Severity != detect.Critical || told[f.Detector] || len(f.Next) == 0 {
			continue
		}
		told[f.Detector] = true
		steps = append(steps, f.Detector+": "+f.Next[0])
	}
	if len(steps) == 0 {
		return
	}
	p.heading(bold, "What to do next")
	for i, s := range steps {
		p.block(plain, fmt.Sprintf("  %d. ", i+1), s)
	}
}

func severityStyle(s detect.Severity, other style) style {
	switch s {
	case detect.Critical:
		return red
	case detect.Warning:
		return yellow
	case detect.Info:
		return cyan
	}
	return other
}

// number writes a quantity: whole where it is whole or large.
func number(f float64) string {
	switch {
	case math.IsNaN(f) || math.Abs(f) >= 1e15: // past what a float64 counts one by one
		return strconv.FormatFloat(f, 'g', 4, 64)
	case f > 0 && f < 0.05:
		return "<0.1"
	case math.Abs(f) >= 100:
		return detect.Thousands(math.Round(f))
	}
	return detect.Thousands(math.Round(f*10) / 10)
}

func percent(share float64) string {
	switch {
	case share > 0 && share < 0.0005:
		return "<0.1%"
	case share < 1 && share > 0.9995:
		return ">99.9%" // rounding up would say that all are
	}
	return strconv.FormatFloat(share*100, 'f', 1, 64) + "%"
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return whole(n) + " " + many
}

func whole(n int64) string { return number(float64(n)) }

func signed(n int64) string {
	if n > 0 {
		return "+" + whole(n)
	}
	return whole(n)
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
