package cpubound

import (
	"fmt"

	"github.com/contend/contend/detect"
)

var signals = []detect.Signal{{
	Alert: "ContendCPUBound",
	Title: "the process is at its CPU limit and its requests queue",
	// High CPU alone is a machine well used: something must get slower by it.
	Expr: `(contend:cpu > {{share=0.9}} * contend:cpu_limit or (contend:cpu and contend:cpu_throttled > {{throttled=0.5}}))
and (contend:inflight > {{growth=2}} * contend:inflight:baseline and contend:inflight >= {{inflight=5}}
  or contend:cpu_wait > 0.2 * contend:inflight and contend:cpu_wait >= 3
  or contend:latency > {{growth=2}} * contend:latency:baseline
  or (contend:cpu_throttled > {{throttled=0.5}} unless contend:inflight unless contend:latency))`,
	For:        "2x,30s",
	KeepFiring: "8x,2m",
	Severity:   detect.Warning,
	Value:      "cores busy",
	Thresholds: "nine tenths of the limit as the mean of a window is at it, and healthy services run at seven; half of the periods throttled is a quota that holds the process, and stands for a queue where neither requests in flight nor latency are known; twice the in-flight or latency of before is a queue",
}}

func runSeries(p *detect.Pass) error {
	v := p.Series
	if !v.Has("inflight") && !v.Has("latency") && !v.Has("cpu_throttled") {
		return fmt.Errorf("%s, and neither requests in flight nor latency are known: whether anything queues cannot be seen", none(v))
	}
	p.ReportAlerts(none(v), func(f *detect.Firing) detect.Finding {
		cpu, worst := f.Worst, f.At
		out := detect.Finding{Wait: "cpu", Unit: detect.Requests, Weight: 1}
		if at, now := v.HeldPeak("inflight", f); now > 0 {
			waits := 0.0
			for _, signal := range [...]string{"lock_wait", "pool_wait", "dependency_wait"} {
				w, _ := v.Sum(signal, at, f.Instances...)
				waits += w
			}
			f.At = at
			out.Total, out.Requests = detect.Round(now), detect.Whole(now)
			out.Blocked = detect.Round(max(now-waits, 0))
			out.Weight = out.Blocked / out.Total
			out.Severity = detect.SeverityOfShare(out.Weight)
		}
		limit, known := v.Of("cpu_limit", f.Instance, worst)
		what := "at the CPU limit"
		if !known || cpu <= nearLimit*limit {
			what = "throttled by the CPU quota"
		}
		out.Summary = fmt.Sprintf("%s %s: %.2f cores busy on %s", what, v.On(f), cpu, f.Instance)
		if known {
			out.Summary += " of " + detect.Figure(limit)
		}
		if share, ok := v.Of("cpu_throttled", f.Instance, worst); ok && share > 0.25 {
			out.Summary += fmt.Sprintf(", %.0f %% of its periods throttled", 100*share)
		}
		if out.Total > 0 {
			out.Summary += fmt.Sprintf("; %s in flight: busy, not blocked", detect.Plural(out.Total, "request"))
		}
		out.Next = []string{
			"take a CPU profile: it says which code uses the CPU (go tool pprof http://HOST/debug/pprof/profile)",
			"look at the CPU limit and at throttling by quota, then add CPU or instances, or admit fewer requests",
		}
		return out
	})
	return nil
}

// nearLimit is the share of the limit from which on the mean of a window is at
// it; the alert's condition has it too.
const nearLimit = 0.9

func none(v *detect.SeriesView) string {
	text := fmt.Sprintf("at most %.2f cores busy", v.Highest("cpu"))
	if v.Has("cpu_limit") {
		text += " of " + detect.Figure(v.Highest("cpu_limit"))
	}
	return text
}
