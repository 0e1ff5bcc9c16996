// Package lockheadroom forecasts at what multiple of today's load a lock saturates.
package lockheadroom

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/headroom"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "lockheadroom",
	Title: "a lock saturates at little more than today's load",
	Role:  detect.Forecast,
	Doc:   doc,
	Needs: []detect.Need{
		{Input: detect.Stacks}, {Input: detect.Waits},
		{Input: detect.Series, Signals: []string{"lock_wait", "completions"}},
	},
	NoAlert: "the mean queue at one load is that of a lock which is nearly full, of bursts or of many small locks alike, and behind a balancer none; " +
		"what tells them apart is how it grew over a day of loads, with its error, which is a fit and no PromQL",
	Run: run,
}

const (
	// saturated is how many wait on average for a lock that has no headroom to tell
	// of: at 0.88 of its time in use where holds are alike, at 0.78 where they
	// are exponential. The detectors of causes count from the same number.
	saturated = detect.MaterialCount
)

func run(p *detect.Pass) error {
	if p.Series != nil {
		return ofSeries(p)
	}
	return ofProfiles(p)
}

// onlyWaits is why levels were refused, without what is told of their snapshots, of
// which there are none or which are told of apart.
func onlyWaits(levels headroom.Forecast) string {
	if _, waits, ok := strings.Cut(levels.Refused, "; or by waits: "); ok {
		return waits
	}
	return levels.Refused
}

// assess turns a forecast into a finding, or into words for what was ruled out.
// NoNumber is no all-clear, and says so.
func assess(f headroom.Forecast, opt *detect.Options) (out detect.Finding, ok bool, why string) {
	if f.Refused != "" {
		return out, false, "no number, which is no all-clear: " + f.Refused
	}
	h := detect.NewHeadroom(f)
	// What stands and falls with an assumption is no alarm at the edge of its bracket.
	soonest := f.Saturates.Low
	if f.Confidence == headroom.Low {
		soonest = f.Saturates.At
	}
	survives := soonest >= cmp.Or(opt.Expect, detect.UsualSurge)
	if survives && !opt.AllLocks {
		return out, false, fmt.Sprintf("%s today's load, %s, %s confidence (assumes: %s)", h.Saturates(), h.By(), f.Confidence, strings.Join(f.Assumes, "; "))
	}
	out = detect.Finding{Severity: detect.Warning, Confidence: detect.Confidence(f.Confidence), Headroom: h}
	if survives || out.Confidence == detect.Low {
		out.Severity = detect.Info
	}
	for _, e := range f.Evidence {
		if e.Refused == "" {
			other := detect.NewHeadroom(e)
			out.Evidence = append(out.Evidence, detect.Evidence{Text: fmt.Sprintf("%s it %s today's load", other.By(), other.Saturates())})
		}
	}
	return out, true, ""
}
