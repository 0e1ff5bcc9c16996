package report

import (
	"bytes"
	"testing"
	"time"

	"github.com/contend/contend/detect"
)

// TestForecast holds the forecast of two locks, one without a number, and of none.
func TestForecast(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 4, 31, 53, 0, time.UTC)
	end := at.Add(30 * time.Second)
	lock := func(function string, low, high float64, severity detect.Severity) detect.Finding {
		h := &detect.Headroom{
			Utilisation: detect.Bracket{Low: 1 / high, High: 1 / low}, SaturatesAt: detect.Bracket{Low: low, High: high},
			HoldingS: 0.005, Queue: 0.21, Contentions: 778, Reading: "direct",
			Assumes: []string{"snapshots were taken at moments that have nothing to do with the lock", "a hold takes as long under more load; if it grows in step with the load, expect 1.4 times"},
		}
		return detect.Finding{
			Detector: "lockheadroom", Role: detect.Forecast, Severity: severity, Confidence: detect.High, Headroom: h,
			Summary: "a lock of telemetry in " + function + " " + h.Saturates() + " today's load: " + h.Held(), Function: function, Wait: "lock",
			Next: []string{"hold it shorter", "shard it: n locks by key have n times the headroom"}, Warnings: []string{"taken for one lock"},
		}
	}
	first := lock(register, 1.3, 1.9, detect.Warning)
	first.Library = "github.com/prometheus/client_golang@v1.25.0"
	first.Holder = &detect.Holder{Function: register, Wait: "waiting on a channel in " + register, Stack: []string{"runtime.chanrecv2", register}, Brief: []string{register}}
	r := &detect.Report{
		Findings: []detect.Finding{lock("main.(*roomy).put", 4.1, 6.2, detect.Info), first},
		RuledOut: []detect.RuledOut{{Detector: "lockheadroom", Reason: "main.\x1b[2J(*cache).put: no number, which is no all-clear: by waits, expected 100 contentions or more, saw 40"}, {Detector: "lockheadroom", Reason: "main.log: no number"}},
		Inputs: []detect.Input{
			{Name: "goroutine", Kind: "goroutine", Taken: &at}, {Name: "goroutine, 30 s in", Kind: "goroutine", Taken: &end},
			{Name: "block?seconds=30", Kind: "block", Window: "30.001s", Taken: &end}, {Name: "mutex?seconds=30", Error: "expected a mutex profile"},
		},
	}
	for name, tt := range map[string]struct {
		report *detect.Report
		opt    TextOptions
	}{
		"forecast":      {r, TextOptions{Width: 100, Top: 3}},
		"forecast-one":  {r, TextOptions{Width: 60, Top: 1}},
		"forecast-none": {&detect.Report{RuledOut: r.RuledOut[:1], Inputs: r.Inputs}, TextOptions{}},
		"forecast-lost": {couldNot(), TextOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := Forecast(&b, tt.report, tt.opt); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt.golden", b.Bytes())
		})
	}
}
