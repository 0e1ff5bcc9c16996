// Package herd finds a thundering herd: arrivals that jump to a multiple of
// what they were at their highest.
package herd

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "herd",
	Title: "arrivals jump to a multiple of their trailing peak",
	Role:  detect.Trigger,
	Doc:   doc,
	Needs: []detect.Need{{Input: detect.Series, Signals: []string{"arrivals"}}},
	Signals: []detect.Signal{{
		Alert: "ContendHerd",
		Title: "arrivals are at twice the highest they were in the last hour, within a few scrapes",
		// Of a job as a whole and of its instances on average: the first alone is what
		// new instances bring, the second alone is what lost ones leave to the others.
		// Both are counts, so that sums of them are what they seem. The peak must
		// be of some time and of a job that was serving (ten requests in a window), not of a
		// start. 30 requests more than twice the peak in a window are no accident of few.
		Expr: `contend:arrivals
and on (job) (sum by (job) (contend:arrivals) > {{factor=2}} * contend:arrivals:peak)
and on (job) (contend:arrivals:peak > 10 / {{s:4x,1m}})
and on (job) (sum by (job) (contend:arrivals) - {{factor=2}} * contend:arrivals:peak > {{requests=30}} / {{s:4x,1m}})
and on (job) (avg by (job) (contend:arrivals) > {{factor=2}} * contend:arrivals:mean_peak)`,
		Unless: []detect.LookAlike{{
			Name: "requests that were held up and finish together: completions stand for arrivals here, since nothing counts those that begin",
			Expr: "contend:completions == contend:arrivals and contend:latency > 2 * contend:latency:baseline unless contend:inflight",
		}, {
			Name: "a counter that began again above zero: neither CPU nor requests in flight moved",
			Expr: "contend:cpu < 1.3 * contend:cpu:baseline and contend:inflight < 1.5 * clamp_min(contend:inflight:baseline, 1)",
		}},
		KeepFiring: "4x,1m",
		Severity:   detect.Warning,
		Value:      "requests that arrive per second",
		Thresholds: "a factor of two over the trailing peak, not the mean: the highest of an hour already has the noise, the batches and the retries of an ordinary day in it; the published surge was three times it",
	}},
	Run: run,
}

func run(p *detect.Pass) error {
	v := p.Series
	if !v.Has("arrivals:peak") {
		return detect.ErrNoHistory
	}
	none := fmt.Sprintf("at most %s requests per second arrived at once", detect.Figure(v.HighestSum("arrivals")))
	p.ReportAlerts(none, func(f *detect.Firing) detect.Finding {
		at, _ := v.HeldPeak("arrivals", f)
		f.At = at
		now, _ := v.Sum("arrivals", at)
		peak, _ := v.JobValue("arrivals:peak", f.Active)
		out := detect.Finding{
			Summary: fmt.Sprintf("arrivals rose to %s requests per second, %.1f times the highest of the hour before (%s)", detect.Figure(now), now/peak, detect.Figure(peak)),
			Next: []string{
				"admit no more than what was served before (a limit on requests in flight, fast errors for the rest), and block at the edge if tasks die",
				"look for what let them go together: a stalled asset or dependency that came back, a cache that expired, retries without jitter",
			},
		}
		// The condition holds when an average has doubled. It began when arrivals
		// left what they had been, and a counter tells that a scrape later.
		step := v.Canon.Timing.Interval
		for t := f.Active; t.After(f.Active.Add(-v.Window())); t = t.Add(-step) {
			if x, ok := v.Sum("arrivals", t); !ok || x <= peak {
				break
			}
			out.Onset = t.Add(-step)
		}
		if before, ok := v.Sum("completions", f.Active); ok {
			if then, ok := v.Sum("completions", at); ok {
				out.Evidence = append(out.Evidence, v.Evidence("%s requests per second were completed as it began, %s at its peak", detect.Figure(before), detect.Figure(then)))
			}
		}
		return out
	})
	return nil
}
