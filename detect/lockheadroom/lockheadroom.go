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

const alert = "ContendLockHeadroom"

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
	Signals: []detect.Signal{{
		Alert: alert,
		Title: "the waits for locks outgrow the load, and would have no end at little more of it",
		// The line through the use at the load of 50 minutes ago and today's is followed to
		// the surge. A load from a fifth of today's to four fifths is another level.
		//
		// Whatever the holds, the queue Q of one lock at a load of r times today's is r² (1-ρ)/(1-rρ) of
		// today's (Pollaczek and Khinchine, as in package headroom), so that Q has grown by more than
		// r⁻² (N-r)/(N-1) where ρ is above 1/N. Those of many locks with much to spare
		// grow by r⁻², those of bursts by less.
		//
		// The load has comparisons of its own: locks in use are many, those whose load rose are few, and
		// rules look at the rest of a condition for the instances alone of which the cheap parts hold.
		Expr: `contend:lock_use + ({{expect=3}} - 1) * (contend:lock_use - contend:lock_use offset {{50m}}) / (1 - contend:load_before) > 1
and contend:lock_use > {{use=0.25}} and contend:lock_use < 0.8 and contend:load_before > 0.2 and contend:load_before < 0.8
and avg_over_time(contend:lock_wait[{{10m}}]) > avg_over_time(contend:lock_wait[{{10m}}] offset {{50m}})
  / contend:load_before ^ 2 * ({{expect=3}} - contend:load_before) / ({{expect=3}} - 1)`,
		// Who is held up by a CPU holds locks for longer.
		Unless:     []detect.LookAlike{detect.AtCPULimit, detect.Throttled},
		For:        "10m",
		KeepFiring: "1h",
		Severity:   detect.Warning, // a ticket: nothing is wrong yet
		Value:      "share of time that the locks would be in use at the surge to survive, if one of them does most of the waiting; at 1 it is full",
		Thresholds: "backlogs and retries come as about three times the usual load; a quarter in use, which is a twelfth waiting on average, since below that a queue is chance, and 0.8, which is three waiting and no forecast; " +
			"on simulated fleets it is silent but where a lock fills up, and there it came 23 minutes before the lock was full",
	}},
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
