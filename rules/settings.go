package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
)

// Setting is a user's own value of something in an alert: "for",
// "keep_firing_for", "severity", or one of its limits (detect.Limit).
type Setting struct{ Alert, Name, Value string }

// ParseSetting reads ALERT.NAME=VALUE.
func ParseSetting(text string) (Setting, error) {
	path, value, ok := strings.Cut(text, "=")
	alert, name, dot := strings.Cut(path, ".")
	if !ok || !dot || alert == "" || name == "" || value == "" {
		return Setting{}, fmt.Errorf("expected ALERT.NAME=VALUE such as ContendInflightCPU.for=1m, saw %q", text)
	}
	return Setting{alert, name, value}, nil
}

// apply is s with the settings that are for it; rest are those that are not.
func apply(s detect.Signal, settings []Setting) (out detect.Signal, rest []Setting, err error) {
	for _, set := range settings {
		if set.Alert != s.Alert {
			rest = append(rest, set)
			continue
		}
		if s, err = set.on(s); err != nil {
			return s, nil, fmt.Errorf("%s.%s: %w", set.Alert, set.Name, err)
		}
	}
	return s, rest, nil
}

func (set Setting) on(s detect.Signal) (detect.Signal, error) {
	switch set.Name {
	case "for", "keep_firing_for":
		if _, err := (series.Timing{}).Span(set.Value); err != nil {
			return s, err
		}
		if d, err := model.ParseDuration(set.Value); err == nil && d == 0 {
			set.Value = ""
		}
		if set.Name == "for" {
			s.For = set.Value
		} else {
			s.KeepFiring = set.Value
		}
		return s, nil
	case "severity":
		s.Page = set.Value == Page
		switch set.Value {
		case Page:
		case Ticket:
			s.Severity = detect.Warning
		case Info:
			s.Severity = detect.Info
		default:
			return s, fmt.Errorf("expected %s, %s or %s, saw %q", Page, Ticket, Info, set.Value)
		}
		return s, nil
	}
	names := []string{"for", "keep_firing_for", "severity"}
	for _, l := range s.Limits() {
		names = append(names, l.Name)
	}
	if !slices.Contains(names, set.Name) {
		return s, fmt.Errorf("expected one of %s, saw %q", strings.Join(names, ", "), set.Name)
	}
	value, err := strconv.ParseFloat(set.Value, 64)
	const most = 1e15 // all its digits are exact
	if err != nil || !(value >= 0 && value <= most) {
		return s, fmt.Errorf("expected a number that is not below 0, saw %q", set.Value)
	}
	return s.WithLimit(set.Name, value), nil
}

// CheckSettings says which of the settings is of no alert, or has a value that it cannot.
func CheckSettings(detectors []*detect.Detector, settings []Setting) error {
	for _, d := range detectors {
		for _, s := range d.Signals {
			var err error
			if _, settings, err = apply(s, settings); err != nil {
				return err
			}
		}
	}
	if len(settings) > 0 {
		return unknownAlert(settings[0], detectors)
	}
	return nil
}

var reserved = []string{"alert", "alertname", "detector", "instance", "job", "severity"}

// CheckLabel says why a label's name is none that alerts can get.
func CheckLabel(name string) error {
	if !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, "__") {
		return fmt.Errorf("expected a label's name of letters, digits and _, saw %q", name)
	}
	if slices.Contains(reserved, name) {
		return fmt.Errorf("expected none of the labels that alerts have already (%s), saw %s", strings.Join(reserved, ", "), name)
	}
	return nil
}

func unknownAlert(set Setting, detectors []*detect.Detector) error {
	var names []string
	for _, d := range detectors {
		for _, s := range d.Signals {
			names = append(names, s.Alert)
		}
	}
	return fmt.Errorf("unknown alert %q; expected one of %s", set.Alert, strings.Join(series.Nearest(set.Alert, names), ", "))
}

// limitsOf says what may be set of an alert, with its values. "for" and its
// like stand beside the alert.
func limitsOf(s *detect.Signal) string {
	var out []string
	for _, l := range s.Limits() {
		out = append(out, fmt.Sprintf("%s=%s", l.Name, strconv.FormatFloat(l.Value, 'f', -1, 64)))
	}
	if len(out) == 0 {
		return ""
	}
	return "--set " + s.Alert + "." + strings.Join(out, ", ")
}
