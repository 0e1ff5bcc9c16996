package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/contend/contend/detect"
)

// story is what happened, in order of time: each finding once, as short as
// it can be, since the findings have the rest.
func (p *page) story(r *detect.Report) {
	list := r.Verdict.Story
	if len(list) == 0 {
		return
	}
	day := list[0].At.UTC().Format(time.DateOnly)
	p.heading(bold, "What happened, "+day+" (UTC)")
	width := 0
	for _, s := range list {
		width = max(width, columns(Printable(s.Detector)))
	}
	for _, s := range list {
		at := s.At.UTC().Format(time.TimeOnly)
		if d := s.At.UTC().Format(time.DateOnly); d != day {
			at = clock(s.At)
		}
		name := Printable(s.Detector)
		p.block(plain, "  "+at+"  "+name+strings.Repeat(" ", width-columns(name))+"  ", s.Summary)
	}
}

// maxSignals is how many signals are listed with their metrics: about two lines.
const maxSignals = 6

// signals says which series were taken for what, and what was not there. Why,
// and how to switch it on, stands with the detectors that could not look.
func (p *page) signals(list []detect.SignalMatch) {
	var found, missing []string
	for _, s := range list {
		if s.Matched == "" || s.Missing != "" {
			missing = append(missing, s.Signal)
			continue
		}
		text := s.Signal
		if len(s.Metrics) > 0 && s.Metrics[0] != s.Signal {
			text += " (" + s.Metrics[0] + andMore(len(s.Metrics)-1) + ")"
		}
		found = append(found, text)
	}
	if len(list) == 0 {
		return
	}
	p.heading(bold, "Series")
	if p.top > 0 && len(found) > maxSignals {
		found = []string{fmt.Sprintf("%d of %d signals; --top 0 says in which metrics", len(found), len(list))}
	}
	p.block(plain, "  found    ", strings.Join(found, ", "))
	if len(missing) > 0 {
		p.block(plain, "  missing  ", strings.Join(missing, ", ")+" (-o json says what was looked for)")
	}
}

// budgetTimes says of which job or instance, and of which moments, the series of a budget are.
func budgetTimes(t *detect.BudgetTimes) string {
	if t == nil {
		return ""
	}
	text := fmt.Sprintf("series of %s at %s", t.Of, t.Now.UTC().Format(time.TimeOnly))
	if t.Before != nil {
		text += ", before at " + t.Before.UTC().Format(time.TimeOnly)
	}
	return text
}

// duration says since when a finding of series lasts, or that it is over.
func duration(f *detect.Finding) []string {
	w := f.Window
	if w == nil || f.Alert == "" {
		return nil
	}
	form := time.TimeOnly
	if start, end := w.Start.UTC(), w.End.UTC(); start.Format(time.DateOnly) != end.Format(time.DateOnly) {
		form = time.DateTime
	}
	if f.Ongoing {
		return []string{"since " + w.Start.UTC().Format(form) + ", still"}
	}
	return []string{w.Start.UTC().Format(form) + " to " + w.End.UTC().Format(form) + ", over"}
}
