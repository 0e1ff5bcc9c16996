package downstream

import (
	"fmt"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/stacks"
)

var signals = []detect.Signal{{
	Alert: "ContendDownstream",
	Title: "most requests in flight wait for a dependency, and longer than they did",
	Expr: `contend:dependency_wait >= {{waiting=5}}
and contend:dependency_wait > {{growth=2}} * contend:dependency_wait:baseline
and (contend:dependency_wait > {{share=0.5}} * contend:inflight or contend:dependency_wait unless contend:inflight)`,
	Unless: []detect.LookAlike{
		{Name: "more calls to a dependency that is as fast as before", Expr: "contend:dependency_latency < 2 * contend:dependency_latency:baseline"},
		detect.Unaffected, detect.CPUCameToLimit,
	},
	For:        "2x,30s",
	KeepFiring: "8x,2m",
	Severity:   detect.Warning,
	Value:      "requests in outgoing calls",
	Thresholds: "half of what is in flight explains it; twice the time of before is slower and no noise; five at once is everyday",
}}

func runSeries(p *detect.Pass) error {
	v := p.Series
	if !v.Has("dependency_wait:baseline") {
		return detect.ErrNoHistory
	}
	p.ReportAlerts(v.MostOf("dependency_wait", "waited for a dependency"), func(f *detect.Firing) detect.Finding {
		out := v.WaitFinding(f, "dependency_wait")
		out.Wait = string(stacks.Socket)
		out.Summary = fmt.Sprintf("%s wait for a dependency %s", v.WaitsOf(out), v.On(f))
		now, ok := v.Of("dependency_latency", f.Instance, f.At)
		before, had := v.Of("dependency_latency:baseline", f.Instance, f.At)
		switch {
		case ok && had:
			out.Summary += fmt.Sprintf(", whose answers take %s (%s before)", detect.Seconds(now), detect.Seconds(before))
		case had:
			out.Summary += fmt.Sprintf(", which does not answer any more (%s before)", detect.Seconds(before))
		}
		out.Next = []string{
			"look at the latency of that dependency from its own side and from this one",
			"give the call a time-out and a limit on how many may wait, so that its slowness stays its own",
		}
		return out
	})
	return nil
}
