// Package hungrequests finds requests that begin and do not end, while nothing
// fails: what an error rate does not see.
package hungrequests

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "hungrequests",
	Title: "requests begin and do not end, and nothing fails",
	Role:  detect.Trigger,
	Doc:   doc,
	Needs: []detect.Need{{Input: detect.Series, Signals: []string{"inflight", "completions"}}},
	Signals: []detect.Signal{{
		Alert: "ContendHungRequests",
		Title: "requests are started and not completed while errors stay flat",
		// What is in flight less what of it finishes (Little: completions times
		// their time). Where nothing finishes there is no time, and all of it is left.
		Expr: `(contend:inflight - (contend:completions * contend:latency or 0 * contend:inflight)) > {{share=0.5}} * contend:inflight
and contend:inflight >= {{inflight=10}}
and contend:inflight > {{growth=3}} * contend:inflight:baseline
and (contend:latency:baseline or contend:completions:baseline > 0 and contend:completions == 0)`,
		Unless: []detect.LookAlike{
			{Name: "requests that fail: an error rate sees it", Expr: "contend:errors > 0.05 * contend:completions and contend:errors > 0.1"},
			detect.AtCPULimit, detect.Throttled, detect.GaugeLeak, detect.Streams,
		},
		For:        "8x,2m",
		KeepFiring: "8x,2m",
		Severity:   detect.Warning,
		Value:      "requests in flight that do not finish",
		Thresholds: "half of what is in flight: a queue that grows at twice what is served, which is slow and not hung, leaves half; two minutes, since every rise of slow requests is ahead of its completions for as long as one takes; ten in flight and three times the baseline, as noise of few requests",
	}},
	Run: run,
}

func run(p *detect.Pass) error {
	v := p.Series
	if !v.Has("inflight:baseline") {
		return detect.ErrNoHistory
	}
	p.ReportAlerts("what is in flight finishes"+v.Doubt("inflight"), func(f *detect.Firing) detect.Finding {
		now, done := v.HeldSum("inflight", f), v.HeldSum("completions", f)
		out := detect.Finding{
			Unit: detect.Requests, Blocked: detect.Round(v.HeldValues(f)), Total: detect.Round(now),
			Summary: fmt.Sprintf("requests begin and do not end %s: %s in flight, %s completed per second (%s before), %s errors per second: its error rate does not see it",
				v.On(f), detect.Thousands(detect.Round(now)), detect.Figure(done), detect.Figure(v.HeldSum("completions:baseline", f)), detect.Figure(v.HeldSum("errors", f))),
			Next: []string{
				"find what completes no more: completions by route or method, and clients that wait without a time-out",
				"count completions and time-outs in the canary, not only errors",
				"take a goroutine profile of an instance named: it says where they stand",
			},
		}
		if oldest := v.Highest("oldest"); oldest > 0 {
			out.Evidence = append(out.Evidence, v.Evidence("the oldest request in flight is %s old", detect.Seconds(oldest)))
		}
		return out
	})
	return nil
}
