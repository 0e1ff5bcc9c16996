package all_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/ingest"
)

// A finding of series is past where its alert does not fire at the end: it
// waits for its for of 8 steps, or its keep_firing_for of 8 steps is over.
func TestPast(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		waits, inFlight string
		past            bool
	}{
		"it fires":                {"0.1x100 80x30", "12x100 90x30", false},
		"it has just begun":       {"0.1x100 80x1", "12x100 90x1", true},
		"it is kept firing":       {"0.1x100 80x30 0.1x5", "12x100 90x30 12x5", false},
		"it was resolved":         {"0.1x100 80x30 0.1x20", "12x100 90x30 12x20", true},
		"it fires again, shorter": {"0.1x100 80x40 0.1x20 80x20", "12x100 90x40 12x20 90x20", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cases.Series(t, `contend:lock_wait{job="api",instance="a"} `+tt.waits+"\n"+`contend:inflight{job="api",instance="a"} `+tt.inFlight+"\n")
			r := detect.Run(&ingest.Bundle{Series: c}, nil, all.Detectors(), detect.Options{Detectors: []string{"lockwait"}})
			if len(r.Findings) != 1 || r.Findings[0].Past != tt.past {
				t.Errorf("findings %+v; want one, past %v", r.Findings, tt.past)
			}
		})
	}
}
