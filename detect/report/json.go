package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/contend/contend/detect"
)

// JSON writes r as indented JSON, by the contract of detect.Report: lists at
// the top level are never null, absent values are left out, and times are
// RFC 3339 in UTC. It fails where w does, or where r holds a number that JSON
// cannot carry (NaN or an infinity).
func JSON(w io.Writer, r *detect.Report) error {
	out := *r
	out.Findings = copied(r.Findings)
	out.Budget = copied(r.Budget)
	out.RuledOut = copied(r.RuledOut)
	out.Skipped = copied(r.Skipped)
	out.Signals = copied(r.Signals)
	out.Inputs = copied(r.Inputs)
	out.Warnings = copied(r.Warnings)
	inUTC(&out)

	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(&out); err != nil {
		return fmt.Errorf("write report as JSON: %w", err)
	}
	_, err := w.Write(escapeUnprintable(b.Bytes()))
	return err
}

// copied is a copy of s that is never nil.
func copied[T any](s []T) []T { return append([]T{}, s...) }

// inUTC moves the times of r to UTC. The lists that hold them must be r's own.
func inUTC(r *detect.Report) {
	r.Verdict.Story = append([]detect.StoryLine(nil), r.Verdict.Story...)
	for i := range r.Verdict.Story {
		r.Verdict.Story[i].At = r.Verdict.Story[i].At.UTC()
	}
	for i := range r.Findings {
		if win := r.Findings[i].Window; win != nil {
			r.Findings[i].Window = &detect.Window{Start: win.Start.UTC(), End: win.End.UTC()}
		}
	}
	for i := range r.Inputs {
		if t := r.Inputs[i].Taken; t != nil {
			r.Inputs[i].Taken = new(time.Time)
			*r.Inputs[i].Taken = t.UTC()
		}
	}
}

// escapeUnprintable writes as \u escapes what encoding/json leaves in strings
// and a terminal would obey: DEL, the C1 controls and format characters such as
// bidirectional overrides. Outside strings JSON is ASCII without any of those.
func escapeUnprintable(b []byte) []byte {
	var out []byte
	start := 0
	for i := 0; i < len(b); {
		c, n := utf8.DecodeRune(b[i:])
		if c >= 0x7f && (isControl(c) || isFormat(c)) {
			out = append(out, b[start:i]...)
			out = appendEscape(out, c)
			start = i + n
		}
		i += n
	}
	if start == 0 {
		return b
	}
	return append(out, b[start:]...)
}

// appendEscape adds c as JSON's \u escape, above U+FFFF as a surrogate pair.
func appendEscape(b []byte, c rune) []byte {
	if c <= 0xffff {
		return fmt.Appendf(b, `\u%04x`, c)
	}
	c -= 0x10000
	return fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
}
