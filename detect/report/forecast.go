package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/contend/contend/detect"
)

// Forecast writes what r says of locks and the load at which they fall over, and
// nothing else: each lock, the first to fall over first, with what to do about it;
// the locks of which no number can be told, and why; what was looked at. It fails
// only where w does.
func Forecast(w io.Writer, r *detect.Report, o TextOptions) error {
	p := newPage(r, o)
	locks := slices.DeleteFunc(slices.Clone(r.Findings), func(f detect.Finding) bool { return f.Headroom == nil })
	slices.SortStableFunc(locks, func(a, b detect.Finding) int { return cmp.Compare(a.SaturatesAt.Low, b.SaturatesAt.Low) })
	if len(locks) == 0 {
		p.block(yellow, "", "no forecast, which is no all-clear")
	}
	n := p.shown(len(locks))
	for i := range locks[:n] {
		f := &locks[i]
		if i > 0 {
			p.put(plain, "")
		}
		p.forecast(f, r)
	}
	if more := len(locks) - n; more > 0 {
		p.block(dim, "  ", fmt.Sprintf("and %d more, which fall over later: --top 0 shows all", more))
	}
	skipped := r.Skipped
	if countFailed(r.Inputs) == len(r.Inputs) {
		skipped = nil // the complaints about the inputs say it
	}
	if len(r.RuledOut)+len(skipped) > 0 {
		p.heading(bold, "No number")
	}
	shown := p.shown(len(r.RuledOut))
	for _, n := range r.RuledOut[:shown] {
		p.block(plain, "  ", n.Reason)
	}
	if more := len(r.RuledOut) - shown; more > 0 {
		p.block(dim, "  ", fmt.Sprintf("and %s: --top 0 shows all", count(int64(more), "lock", "locks")))
	}
	for _, n := range skipped {
		p.block(plain, "  ", n.Reason)
	}
	if text := watched(r.Inputs); text != "" {
		p.heading(dim, text)
	}
	p.warnings(r.Warnings)
	p.reading(r.Notes)
	_, err := w.Write(p.buf.Bytes())
	return err
}

// forecast prints what is known of one lock.
func (p *page) forecast(f *detect.Finding, r *detect.Report) {
	p.block(severityStyle(f.Severity, bold), "", f.Summary)
	p.field("reading", f.By()+", "+string(f.Confidence)+" confidence")
	p.field("library", f.Library)
	p.fields("assumes", f.Assumes)
	p.holder(f, true)
	p.evidence(f.Evidence, p.shown(len(f.Evidence)), r.Inputs)
	for _, w := range f.Warnings {
		p.styledField(yellow, "warning", w)
	}
	p.fields("to do", f.Next)
}

// fields prints values under one key.
func (p *page) fields(key string, values []string) {
	for _, v := range values {
		p.field(key, v)
		key = ""
	}
}

// watched sums the inputs up: "Looked at in 287 snapshots from 04:31:53 to 04:32:23, …".
func watched(inputs []detect.Input) string {
	snapshots := 0
	var first, last time.Time
	windows := ""
	for _, in := range inputs {
		switch {
		case in.Error != "" || in.Taken == nil:
		case in.Kind == "goroutine":
			if snapshots++; first.IsZero() || in.Taken.Before(first) {
				first = *in.Taken
			}
			if in.Taken.After(last) {
				last = *in.Taken
			}
		case in.Window != "":
			windows += fmt.Sprintf(", %s profile over %s", in.Kind, in.Window)
		}
	}
	if snapshots == 0 {
		return ""
	}
	return fmt.Sprintf("Looked at in %s, %s to %s%s", count(int64(snapshots), "snapshot", "snapshots"), clock(first), clock(last), windows)
}
