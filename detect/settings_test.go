package detect_test

import (
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
)

// TestApply: a setting changes its own alert, wherever the condition has it, and
// leaves the detectors that were given as they are.
func TestApply(t *testing.T) {
	t.Parallel()
	before := all.Detectors()
	after, err := detect.Apply(before, []detect.Setting{
		{Alert: "ContendInflightCPU", Name: "ratio", Value: "7"},
		{Alert: "ContendInflightCPU", Name: "for", Value: "1m"},
		{Alert: "ContendHerd", Name: "severity", Value: "page"},
	})
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i, d := range before {
		for j, old := range d.Signals {
			s := after[i].Signals[j]
			switch s.Alert {
			case "ContendInflightCPU":
				changed++
				if s.Limits()[0].Value != 7 || s.For != "1m" || old.Limits()[0].Value != 3 || old.For != "2x" {
					t.Errorf("saw %+v, before %+v", s, old)
				}
			case "ContendHerd":
				changed++
				if s.AlertSeverity() != detect.AlertPage || old.AlertSeverity() != detect.AlertTicket || s.Expr != old.Expr {
					t.Errorf("saw %+v, before %+v", s, old)
				}
			default:
				if s.Expr != old.Expr || s.For != old.For || s.KeepFiring != old.KeepFiring || s.AlertSeverity() != old.AlertSeverity() {
					t.Errorf("%s changed too: %+v", s.Alert, s)
				}
			}
		}
	}
	if changed != 2 {
		t.Errorf("saw %d of 2 alerts", changed)
	}
}

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ContendHerd", "ContendHerd=2", "ContendHerd.=2", ".factor=2", "ContendHerd.factor="} {
		if _, err := detect.ParseSetting(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	for text, want := range map[string]string{
		"ContendHeard.factor=2":        `unknown alert "ContendHeard"; expected one of ContendHerd, `,
		"ContendHerd.factr=2":          `expected one of for, keep_firing_for, severity, factor, requests, saw "factr"`,
		"ContendHerd.factor=-1":        `expected a number that is not below 0, saw "-1"`,
		"ContendHerd.factor=NaN":       `expected a number that is not below 0, saw "NaN"`,
		"ContendHerd.factor=1e300":     `expected a number that is not below 0, saw "1e300"`,
		"ContendHerd.factor=2) or (up": `expected a number`,
		"ContendHerd.for=soon":         `expected a duration`,
		"ContendHerd.severity=high":    `expected page, ticket or info, saw "high"`,
	} {
		s, err := detect.ParseSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := detect.Apply(all.Detectors(), []detect.Setting{s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
