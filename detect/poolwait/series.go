package poolwait

import (
	"fmt"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/stacks"
)

var signals = []detect.Signal{
	{
		Alert: "ContendPoolWait",
		Title: "a material share of the requests in flight waits for a connection of a pool",
		Expr: `contend:pool_wait >= {{waiting=3}}
and (contend:pool_wait > {{share=0.2}} * contend:inflight or (contend:pool_wait >= 5 unless contend:inflight))`,
		Unless:     []detect.LookAlike{detect.Unaffected},
		For:        "2x,30s",
		KeepFiring: "8x,2m",
		Severity:   detect.Warning,
		Value:      "requests that wait for a connection",
		Thresholds: "a fifth of what is in flight and three: what is material for stacks too",
	},
	{
		Alert: "ContendPoolExhausted",
		Title: "a pool that does not count its waits is at its limit while requests pile up",
		Expr: `contend:pool_use >= {{share=0.95}}
and contend:inflight >= {{inflight=5}} and contend:inflight > {{growth=3}} * contend:inflight:baseline
unless contend:pool_wait`,
		Unless:     []detect.LookAlike{detect.AtCPULimit, detect.Throttled, detect.Traffic, detect.GaugeLeak},
		For:        "2x,30s",
		KeepFiring: "8x,2m",
		Severity:   detect.Warning,
		Value:      "share of the pool's connections in use",
		Thresholds: "one in twenty free is none to have at the moment; a full pool alone is one that is well used, so requests must pile up too",
	},
}

func runSeries(p *detect.Pass) error {
	v := p.Series
	p.ReportAlerts(v.MostOf("pool_wait", "waited for a pool"), func(f *detect.Firing) detect.Finding {
		next := []string{
			"see what those who have a connection do with it, and how long: a pool is full because they are slow, or because it is small",
			"raise the pool's size only as far as what is behind it can take; give the wait a time-out, so that callers fail fast",
		}
		if f.Signal.Alert == "ContendPoolExhausted" {
			use := f.Worst
			at, now := v.HeldPeak("inflight", f)
			f.At = at
			base := v.HeldSum("inflight:baseline", f)
			return detect.Finding{
				Wait: string(stacks.Pool), Unit: detect.Requests, Confidence: detect.Medium, Next: next,
				Blocked: detect.Round(now - base), Total: detect.Round(now),
				Summary:  fmt.Sprintf("a pool is at its limit %s (%.0f %% in use) while %s are in flight, %s before", v.On(f), 100*use, detect.Plural(detect.Round(now), "request"), detect.Thousands(detect.Round(base))),
				Warnings: []string{"this pool does not count who waits for it: the rise is taken for its queue"},
			}
		}
		out := v.WaitFinding(f, "pool_wait")
		out.Wait, out.Next = string(stacks.Pool), next
		out.Summary = fmt.Sprintf("%s wait for a connection of a pool %s", v.WaitsOf(out), v.On(f))
		if gaveUp, ok := v.Sum("pool_timeouts", f.At); ok && gaveUp > 0 {
			out.Evidence = append(out.Evidence, v.Evidence("%s waits per second gave up", detect.Figure(gaveUp)))
		}
		if use, ok := v.Of("pool_use", f.Instance, f.At); ok {
			out.Evidence = append(out.Evidence, v.Evidence("%.0f %% of the pool's connections are in use on %s", 100*use, f.Instance))
		}
		return out
	})
	return nil
}
