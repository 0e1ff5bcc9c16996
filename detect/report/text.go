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
	p := newPage(r, o)
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

func newPage(r *detect.Report, o TextOptions) *page {
	p := &page{width: defaultWidth, color: o.Color, top: max(o.Top, 0), dir: commonDir(r.Inputs), jobs: jobsOf(r)}
	if o.Width > 0 {
		p.width = min(max(o.Width, minWidth), maxWidth)
	}
	return p
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
	a := answerOf(r)
	// With several processes the summary begins with the name of one.
	p.block(a.tone, "", strings.TrimPrefix(a.head, p.dir))
	p.block(plain, "", a.rest)
	p.story(r)
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
		p.fields("assumes", h.Assumes)
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

// blocked is who waits, and of how many.
func blocked(f *detect.Finding) string {
	text := waiters(f)
	if text == "" {
		return ""
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

// waiters is who waits, as the subject of a sentence; "" where nobody was counted.
func waiters(f *detect.Finding) string {
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

// next is what to do.
func (p *page) next(r *detect.Report) {
	list := steps(r)
	if len(list) == 0 {
		return
	}
	p.heading(bold, "What to do next")
	for i, s := range list {
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
