// Package lockwait finds requests that wait for locks by the runtime's own
// counter, which does not say whose lock it is.
package lockwait

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "lockwait",
	Title: "requests wait for locks, by the runtime's counter",
	Role:  detect.Cause,
	Doc:   doc,
	Needs: []detect.Need{{Input: detect.Series, Signals: []string{"lock_wait"}}},
	Signals: []detect.Signal{{
		Alert: "ContendLockWait",
		Title: "a material share of the requests in flight waits for locks of the process",
		Expr: `contend:lock_wait >= {{waiting=3}}
and (contend:lock_wait > {{share=0.2}} * contend:inflight or (contend:lock_wait >= 5 unless contend:inflight))`,
		Unless:     []detect.LookAlike{detect.Unaffected},
		For:        "2x,30s",
		KeepFiring: "8x,2m",
		Severity:   detect.Warning,
		Value:      "goroutines or threads that wait for a lock, on average",
		Thresholds: "a fifth of what is in flight and three: what is material for stacks too; quiet services show less than one in twenty",
	}},
	Run: run,
}

func run(p *detect.Pass) error {
	v := p.Series
	p.ReportAlerts(v.MostOf("lock_wait", "waited for locks"), func(f *detect.Firing) detect.Finding {
		out := v.WaitFinding(f, "lock_wait")
		out.Wait = "lock"
		out.Summary = fmt.Sprintf("%s wait for locks %s", v.WaitsOf(out), v.On(f))
		out.Warnings = append(out.Warnings, "series cannot say whose lock: a goroutine profile or dump of one of the instances does")
		out.Next = []string{
			"name the lock: contend analyze " + f.Profiles(),
			"suspect telemetry too (metrics registered again, an exporter, a logger): it waits in your requests",
		}
		return out
	})
	return nil
}
