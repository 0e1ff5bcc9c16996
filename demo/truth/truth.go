// Package truth reads what may be found in a scenario: truth.txt, written by
// hand from the injected fault, never from what contend finds.
package truth

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Truth is what must and what may be found in a scenario. What it does not
// list is forbidden.
type Truth struct {
	Wants, Allows []Entry  // in the order of the file
	Verdicts      []string // causes, any of which is right; "" is no cause
}

// Entry is one finding of a truth.
type Entry struct {
	Detector string
	Alert    string // "" is any alert, or what profiles show
	Reason   string // why it is wanted or allowed
}

// String is an entry as it stands in the file, without its reason.
func (e Entry) String() string {
	return strings.TrimSpace(e.Detector + " " + e.Alert)
}

// none is the verdict of a scenario without a cause.
const none = "none"

var (
	detectorName = regexp.MustCompile(`^[a-z]+$`)
	alertName    = regexp.MustCompile(`^[A-Z][A-Za-z]*$`)
)

// Parse reads a truth.txt. Its lines are
//
//	want|allow DETECTOR [ALERT]  # reason
//	verdict NAME|none
//
// in any order, beside empty ones and comments, which begin with #. A verdict
// may be given several times: each is right. The error names every line that
// is wrong.
func Parse(text string) (Truth, error) {
	var t Truth
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := t.add(strings.TrimSpace(line)); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
	}
	if errs == nil {
		errs = append(errs, t.check())
	}
	if err := errors.Join(errs...); err != nil {
		return Truth{}, err
	}
	return t, nil
}

// add reads one line.
func (t *Truth) add(line string) error {
	text, reason, commented := strings.Cut(line, "#")
	reason = strings.TrimSpace(reason)
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil
	}
	switch fields[0] {
	case "verdict":
		return t.addVerdict(fields[1:])
	case "want", "allow":
	default:
		return fmt.Errorf("expected want, allow or verdict, saw %q", fields[0])
	}
	e := Entry{Reason: reason}
	switch len(fields) {
	case 2:
		e.Detector = fields[1]
	case 3:
		e.Detector, e.Alert = fields[1], fields[2]
		if !alertName.MatchString(e.Alert) {
			return fmt.Errorf("expected an alert such as ContendHerd, saw %q", e.Alert)
		}
	default:
		return fmt.Errorf("expected %s DETECTOR [ALERT]  # reason, saw %q", fields[0], line)
	}
	if !detectorName.MatchString(e.Detector) {
		return fmt.Errorf("expected a detector such as herd, saw %q", e.Detector)
	}
	if !commented || reason == "" {
		return fmt.Errorf("expected a reason after %q, as # and a sentence", strings.Join(fields, " "))
	}
	if slices.ContainsFunc(t.listed(e.Detector), func(o Entry) bool { return o.Alert == e.Alert }) {
		return fmt.Errorf("%s is listed twice", e)
	}
	if fields[0] == "want" {
		t.Wants = append(t.Wants, e)
	} else {
		t.Allows = append(t.Allows, e)
	}
	return nil
}

func (t *Truth) addVerdict(names []string) error {
	if len(names) != 1 || !detectorName.MatchString(names[0]) {
		return fmt.Errorf("expected verdict and one detector or none, saw %q; for several that are right, give each a line", strings.Join(names, " "))
	}
	cause := names[0]
	if cause == none {
		cause = ""
	}
	if slices.Contains(t.Verdicts, cause) {
		return fmt.Errorf("verdict %s is listed twice", names[0])
	}
	t.Verdicts = append(t.Verdicts, cause)
	return nil
}

// check holds the lines to each other.
func (t *Truth) check() error {
	if len(t.Verdicts) == 0 {
		return errors.New("expected a line verdict NAME or verdict none, saw none")
	}
	var errs []error
	for _, v := range t.Verdicts {
		if v != "" && len(t.listed(v)) == 0 {
			errs = append(errs, fmt.Errorf("verdict %s is forbidden as a finding; list it with want or allow", v))
		}
	}
	return errors.Join(errs...)
}

// listed are the entries of a detector.
func (t *Truth) listed(detector string) []Entry {
	var out []Entry
	for _, e := range slices.Concat(t.Wants, t.Allows) {
		if e.Detector == detector {
			out = append(out, e)
		}
	}
	return out
}

// Wanted reports whether a detector must find something.
func (t *Truth) Wanted(detector string) bool {
	return slices.ContainsFunc(t.Wants, func(e Entry) bool { return e.Detector == detector })
}

// Permits reports whether a finding may be there: its detector is listed, and,
// where the detector is listed with alerts alone, so is its alert. A finding
// of profiles has no alert: "".
func (t *Truth) Permits(detector, alert string) bool {
	return slices.ContainsFunc(t.listed(detector), func(e Entry) bool {
		return alert == "" || e.Alert == "" || e.Alert == alert
	})
}

// Right reports whether a cause, "" for none, is a right verdict.
func (t *Truth) Right(cause string) bool { return slices.Contains(t.Verdicts, cause) }

// Verdict is the right verdicts as one text: "applock or lockwait".
func (t *Truth) Verdict() string {
	var names []string
	for _, v := range t.Verdicts {
		if v == "" {
			v = none
		}
		names = append(names, v)
	}
	return strings.Join(names, " or ")
}
