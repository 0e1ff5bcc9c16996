package detect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/contend/contend/ingest/series"
)

// What an alert asks for, in the label severity of its rule. Each job has one
// page for an incident, with the routes and inhibitions of Alertmanager.
const (
	AlertPage   = "page"   // somebody is to be woken
	AlertTicket = "ticket" // to be looked at by day, and what explains a page
	AlertInfo   = "info"
)

// AlertSeverity is what s asks for.
func (s *Signal) AlertSeverity() string {
	switch {
	case s.Page:
		return AlertPage
	case s.Severity == Info:
		return AlertInfo
	}
	return AlertTicket
}

// Setting is a user's own value of something in an alert: "for",
// "keep_firing_for", "severity", or one of its Limits. Whatever is made of
// signals takes the same settings, so that a rule and its drawing agree.
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

// Apply is detectors with the settings in their signals; the ones given stay as
// they are. It says which setting is of no alert, or has a value that it cannot.
func Apply(detectors []*Detector, settings []Setting) ([]*Detector, error) {
	out := slices.Clone(detectors)
	var alerts []string
	used := map[Setting]bool{}
	for i, d := range detectors {
		changed := *d
		changed.Signals = slices.Clone(d.Signals)
		for j := range changed.Signals {
			s := &changed.Signals[j]
			alerts = append(alerts, s.Alert)
			for _, set := range settings {
				if set.Alert != s.Alert {
					continue
				}
				used[set] = true
				if err := set.on(s); err != nil {
					return nil, fmt.Errorf("%s.%s: %w", set.Alert, set.Name, err)
				}
			}
		}
		out[i] = &changed
	}
	for _, set := range settings {
		if !used[set] {
			return nil, fmt.Errorf("unknown alert %q; expected one of %s", set.Alert, strings.Join(series.Nearest(set.Alert, alerts), ", "))
		}
	}
	return out, nil
}

func (set Setting) on(s *Signal) error {
	switch set.Name {
	case "for", "keep_firing_for":
		if _, err := (series.Timing{}).Span(set.Value); err != nil {
			return err
		}
		if d, err := model.ParseDuration(set.Value); err == nil && d == 0 {
			set.Value = ""
		}
		if set.Name == "for" {
			s.For = set.Value
		} else {
			s.KeepFiring = set.Value
		}
		return nil
	case "severity":
		s.Page = set.Value == AlertPage
		switch set.Value {
		case AlertPage:
		case AlertTicket:
			s.Severity = Warning
		case AlertInfo:
			s.Severity = Info
		default:
			return fmt.Errorf("expected %s, %s or %s, saw %q", AlertPage, AlertTicket, AlertInfo, set.Value)
		}
		return nil
	}
	names := []string{"for", "keep_firing_for", "severity"}
	for _, l := range s.Limits() {
		names = append(names, l.Name)
	}
	if !slices.Contains(names, set.Name) {
		return fmt.Errorf("expected one of %s, saw %q", strings.Join(names, ", "), set.Name)
	}
	value, err := strconv.ParseFloat(set.Value, 64)
	const most = 1e15 // all its digits are exact
	if err != nil || !(value >= 0 && value <= most) {
		return fmt.Errorf("expected a number that is not below 0, saw %q", set.Value)
	}
	*s = s.WithLimit(set.Name, value)
	return nil
}
