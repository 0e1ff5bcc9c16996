// Package inflightcpu finds a service whose requests in flight rise while its
// CPU does not: it is blocked, not busy.
package inflightcpu

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "inflightcpu",
	Title: "requests in flight rise while CPU does not",
	Role:  detect.Symptom,
	Doc:   doc,
	Needs: []detect.Need{{Input: detect.Series, Signals: []string{"inflight", "cpu"}}},
	Signals: []detect.Signal{{
		Alert: "ContendInflightCPU",
		Title: "requests in flight per busy core are far above their own baseline: blocked, not busy",
		// The second form is for a service without any history, such as one that
		// was born broken: fifty in flight per busy core, and three times what it had half an
		// hour ago at the least.
		Expr: `(contend:inflight_per_cpu > {{ratio=3}} * contend:inflight_per_cpu:baseline
  and contend:inflight >= {{inflight=5}} and contend:inflight > {{growth=2}} * contend:inflight:baseline)
or
(contend:inflight_per_cpu > {{ratio_without_history=50}} and contend:inflight >= 50
  and contend:inflight > 3 * min_over_time(contend:inflight[{{30m}}])
  unless contend:inflight_per_cpu:baseline)`,
		Unless: []detect.LookAlike{
			detect.AtCPULimit, detect.Throttled, detect.CPURoseToo, detect.Finishing, detect.Traffic, detect.GaugeLeak, detect.Streams,
			{
				// Requests that are blocked have finished ones behind them that were slow. With a
				// history what never finishes stands out, as streams that are new or as hung requests.
				Name: "streams that clients open, of a service without history: as many requests finish as ever, fast, and are little of what is in flight",
				Expr: `contend:completions * contend:latency < 0.2 * contend:inflight
and contend:completions > 0.5 * max_over_time(contend:completions[{{30m}}])
unless contend:inflight_per_cpu:baseline`,
			},
		},
		For:        "2x",
		KeepFiring: "8x,2m",
		Severity:   detect.Critical,
		Page:       true,
		Value:      "requests in flight per busy core",
		Thresholds: "three times the median hour: on simulated fleets a threefold rise of traffic, cold caches and deploys stay below two once what finishes is accounted for, and every blocked service passes ten; five in flight, since below that a ratio is noise",
	}},
	Run: run,
}

func run(p *detect.Pass) error {
	v := p.Series
	if !v.Has("inflight_per_cpu:baseline") && len(v.Firings("ContendInflightCPU")) == 0 {
		return detect.ErrNoHistory
	}
	p.ReportAlerts(highest(v)+v.Doubt("inflight"), func(f *detect.Firing) detect.Finding {
		now, _ := v.Of("inflight", f.Instance, f.At)
		cpu, _ := v.Of("cpu", f.Instance, f.At)
		text := fmt.Sprintf("%s in flight with %.2f cores busy on %s", detect.Plural(detect.Round(now), "request"), cpu, f.Instance)
		if limit, ok := v.Of("cpu_limit", f.Instance, f.At); ok {
			text += " (limit " + detect.Figure(limit) + ")"
		}
		out := detect.Finding{Unit: detect.Requests}
		if before, ok := v.Of("inflight_per_cpu:baseline", f.Instance, f.At); ok {
			text += fmt.Sprintf(": %s in flight per busy core, %s before", detect.Thousands(detect.Round(f.Worst)), detect.Thousands(detect.Round(before)))
		} else {
			out.Confidence = detect.Medium
			out.Warnings = append(out.Warnings, "there is no history to compare with: it is far above what a service has, and rose")
		}
		if sum := v.HeldSum("inflight", f); sum > 0 {
			out.Blocked, out.Total = detect.Round(max(sum-v.HeldSum("cpu", f), 0)), detect.Round(sum)
		}
		out.Summary = "blocked, not busy, " + v.On(f) + ": " + text
		out.Next = []string{
			"see where they wait: contend analyze " + f.Profiles(),
			"do not replace instances or add load balancer retries for it: new ones take the same load cold",
		}
		return out
	})
	return nil
}

// highest says how near the ratio came.
func highest(v *detect.SeriesView) string {
	most, base := v.Highest("inflight_per_cpu"), v.Highest("inflight_per_cpu:baseline")
	if !v.Has("inflight_per_cpu:baseline") {
		return fmt.Sprintf("at most %s in flight per busy core, with no history to compare with", detect.Thousands(detect.Round(most)))
	}
	return fmt.Sprintf("at most %s in flight per busy core, against a baseline of up to %s", detect.Thousands(detect.Round(most)), detect.Thousands(detect.Round(base)))
}
