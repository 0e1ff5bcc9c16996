// Package healthcheck finds health checks that turn slow or fail: the step
// before instances are replaced that are alive.
package healthcheck

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

// ofService leaves checks to services: a probe of a web site somewhere has a job of
// its own, which exports nothing of a process and is nobody's to restart.
const ofService = `
and on (job) contend:service`

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "healthcheck",
	Title: "health checks turn slow or fail",
	Role:  detect.Symptom,
	Doc:   doc,
	Needs: []detect.Need{
		{Input: detect.Series, Signals: []string{"health_latency"}},
		{Input: detect.Series, Signals: []string{"health_failures"}},
	},
	Signals: []detect.Signal{
		{
			Alert: "ContendHealthCheckSlow",
			Title: "health checks take half of their timeout or far more than they did",
			Expr: `(contend:health_latency > {{share=0.5}} * contend:health_timeout
or (contend:health_latency > {{seconds=0.2}} and contend:health_latency > {{growth=5}} * contend:health_latency:baseline unless contend:health_timeout)
or (contend:health_latency > {{seconds_without_history=0.5}} unless contend:health_timeout unless contend:health_latency:baseline))` + ofService,
			For:        "2x",
			KeepFiring: "8x,2m",
			Severity:   detect.Critical,
			Page:       true,
			Value:      "seconds of a health check",
			Thresholds: "half of the timeout where it is exported; else 0.2 s and five times the baseline: a fifth of the one second that Kubernetes gives a probe by default, for a handler that has next to nothing to do; without history, half of that second",
		},
		{
			Alert: "ContendHealthCheckFailing",
			Title: "health checks of instances that are no longer starting fail",
			Expr:  "contend:health_failures * {{s:4x,1m}} >= {{failures=2}}" + ofService,
			Unless: []detect.LookAlike{{
				Name: "an instance that is starting: it fails its checks until it is ready",
				Expr: "contend:age < {{s:5m}}",
			}},
			For:        "8x,2m",
			KeepFiring: "8x,2m",
			Severity:   detect.Critical,
			Page:       true,
			Value:      "failed health checks in a window of four scrapes",
			Thresholds: "two in each window for two minutes: an instance that is well fails none, a single failure is in one window, one that is drained fails them for less",
		},
	},
	Run: run,
}

func run(p *detect.Pass) error {
	v := p.Series
	none := fmt.Sprintf("health checks took at most %s", detect.Seconds(v.Highest("health_latency")))
	if !v.Has("health_latency") {
		none = "no health check failed"
	}
	p.ReportAlerts(none, func(f *detect.Firing) detect.Finding {
		out := detect.Finding{Next: []string{
			"keep it from becoming a replacement spiral: raise the check's timeout, or stop replacing, until the cause is found",
			"serve liveness on a path of its own that waits for nothing; readiness may say no more than: send me no traffic",
		}}
		if f.Signal.Alert == "ContendHealthCheckFailing" {
			out.Summary = fmt.Sprintf("health checks fail %s: %s in %s on %s", v.On(f), detect.Figure(f.Worst), v.Window(), f.Instance)
			return out
		}
		out.Summary = fmt.Sprintf("health checks turn slow %s: %s on %s", v.On(f), detect.Seconds(f.Worst), f.Instance)
		if limit, ok := v.Of("health_timeout", f.Instance, f.At); ok {
			out.Summary += fmt.Sprintf(", of a timeout of %s", detect.Seconds(limit))
		}
		if before, ok := v.Of("health_latency:baseline", f.Instance, f.At); ok {
			out.Summary += fmt.Sprintf(" (%s before)", detect.Seconds(before))
		}
		return out
	})
	return nil
}
