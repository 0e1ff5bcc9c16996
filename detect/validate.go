package detect

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
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
			if n.Input != Stacks && n.Input != Waits {
				bad("expected a kind of input, saw %q", n.Input)
			}
		}
		if d.NoAlert == "" {
			bad("has neither signals nor a reason why no alert can see it")
		}
		if d.Run == nil {
			bad("has no Run")
		}
	}
	return errors.Join(errs...)
}
