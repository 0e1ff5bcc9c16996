package detect

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
)

// Validate says what is wrong with a list of detectors: a missing part, a name that
// is no lower-case identifier, a list out of order. It is nil where nothing is.
func Validate(detectors []*Detector) error {
	var errs []error
	last := ""
	for i, d := range detectors {
		if d == nil {
			errs = append(errs, fmt.Errorf("detector %d: expected a detector, saw nil", i))
			continue
		}
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("detector %q: "+format, append([]any{d.Name}, args...)...))
		}
		if d.Name == "" || strings.IndexFunc(d.Name, func(r rune) bool { return !unicode.IsLower(r) || r > unicode.MaxASCII }) >= 0 {
			bad("expected a name of lower-case letters")
		}
		if d.Name <= last {
			bad("expected names sorted and different, saw it after %q", last)
		}
		last = d.Name
		switch d.Role {
		case Trigger, Cause, Symptom, Forecast:
		default:
			bad("expected a role, saw %q", d.Role)
		}
		if d.Title == "" {
			bad("has no title")
		}
		if !strings.HasPrefix(d.Doc, "# "+d.Name+"\n") {
			bad("expected documentation that begins with %q", "# "+d.Name)
		}
		for _, section := range [...]string{"## What it means", "## Look-alikes", "## What to do", "## Proof"} {
			if !strings.Contains(d.Doc, section) {
				bad("documentation has no section %q", section)
			}
		}
		if len(d.Needs) == 0 {
			bad("needs no input: name at least one kind")
		}
		for _, n := range d.Needs {
			switch n.Input {
			case Stacks, Waits:
			case Series:
				for _, name := range n.Signals {
					if !knownSignal(name) {
						bad("needs signal %q, which package series does not have", name)
					}
				}
			default:
				bad("expected a kind of input, saw %q", n.Input)
			}
		}
		if d.NoAlert == "" && len(d.Signals) == 0 {
			bad("has neither signals nor a reason why no alert can see it")
		}
		for i := range d.Signals {
			if err := d.Signals[i].validate(); err != nil {
				bad("alert %q: %w", d.Signals[i].Alert, err)
			}
		}
		if d.Run == nil {
			bad("has no Run")
		}
	}
	return errors.Join(errs...)
}

var alertName = regexp.MustCompile(`^Contend[A-Z][A-Za-z]+$`)

// canonical is a name of a canonical series or of a record, as PromQL has it.
var canonical = regexp.MustCompile(`contend:[a-z_]+(?::[a-z_]+)?`)

func (s *Signal) validate() error {
	if !alertName.MatchString(s.Alert) {
		return errors.New("expected a name that begins with Contend")
	}
	for _, part := range [...]struct{ what, text string }{
		{"title", s.Title}, {"source of its thresholds", s.Thresholds}, {"meaning of its value", s.Value}, {"keep_firing_for", s.KeepFiring},
	} {
		if part.text == "" {
			return fmt.Errorf("has no %s", part.what)
		}
	}
	switch s.Severity {
	case Critical, Warning, Info:
	default:
		return fmt.Errorf("expected a severity, saw %q", s.Severity)
	}
	if err := s.validateLimits(); err != nil {
		return err
	}
	timing := series.Timing{Interval: 15 * time.Second}
	for _, span := range [...]string{s.For, s.KeepFiring} {
		if span == "" {
			continue
		}
		if _, err := timing.Span(span); err != nil {
			return err
		}
	}
	expr, err := timing.Expand(s.Condition())
	if err != nil {
		return err
	}
	if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
		return fmt.Errorf("its condition does not parse: %w", err)
	}
	for _, name := range canonical.FindAllString(s.Condition(), -1) {
		if !knownSeries(name) {
			return fmt.Errorf("reads %s, which package series does not make", name)
		}
	}
	return nil
}

func knownSignal(name string) bool {
	return slices.ContainsFunc(series.Signals(), func(s series.Signal) bool { return s.Name == name })
}

func knownSeries(name string) bool {
	if knownSignal(strings.TrimPrefix(name, "contend:")) {
		return true
	}
	return slices.ContainsFunc(series.Records(), func(r series.Record) bool { return r.Name == name })
}
