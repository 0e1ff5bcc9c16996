// Package memorygrowth finds memory that will reach its limit within minutes
// because requests pile up.
package memorygrowth

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "memorygrowth",
	Title: "memory will reach its limit within minutes",
	Role:  detect.Symptom,
	Doc:   doc,
	Needs: []detect.Need{{Input: detect.Series, Signals: []string{"memory", "memory_limit"}}},
	Signals: []detect.Signal{{
		Alert: "ContendMemoryGrowth",
		Title: "memory reaches its limit within five minutes at this pace, with requests or connections piling up",
		Expr: `contend:memory / contend:memory_limit > {{share=0.5}}
and predict_linear(contend:memory[{{8x,2m}}], {{s:5m}}) > contend:memory_limit
and (contend:inflight > {{growth=1.5}} * contend:inflight:baseline and contend:inflight >= {{inflight=5}}
  or contend:connections > {{growth=1.5}} * contend:connections:baseline
  or contend:memory unless contend:inflight unless contend:connections)`,
		Unless: []detect.LookAlike{{
			Name: "an instance that has just begun and fills its caches",
			Expr: "contend:age < {{s:10m}} unless contend:inflight unless contend:connections",
		}},
		For:        "2x",
		KeepFiring: "8x,2m",
		Severity:   detect.Critical,
		Value:      "share of the memory limit in use",
		About:      "predict_linear(contend:memory[{{8x,2m}}], {{s:5m}})",
		Thresholds: "five minutes: less than a person takes to react to it; half of the limit, since a line through a start leads anywhere",
	}},
	Run: run,
}

func run(p *detect.Pass) error {
	v := p.Series
	p.ReportAlerts("memory does not run towards its limit with requests or connections piling up", func(f *detect.Firing) detect.Finding {
		memory, _ := v.Of("memory", f.Instance, f.At)
		limit, _ := v.Of("memory_limit", f.Instance, f.At)
		out := detect.Finding{
			Summary: fmt.Sprintf("memory runs into its limit %s: %s of %s on %s", v.On(f), detect.Bytes(memory), detect.Bytes(limit), f.Instance),
			Next: []string{
				"admit fewer requests: what piles up holds the memory",
				"raise the limit only to gain minutes: what blocks the requests is the cause",
			},
		}
		if !v.Has("inflight") && !v.Has("connections") {
			out.Confidence = detect.Medium
			out.Warnings = append(out.Warnings, "neither requests in flight nor connections are known: it may be a leak that was fast")
		}
		return out
	})
	return nil
}
