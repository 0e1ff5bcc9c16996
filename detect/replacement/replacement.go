// Package replacement finds a replacement spiral: instances that restart or
// are replaced in quick succession, each living only shortly.
package replacement

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "replacement",
	Title: "instances are replaced in quick succession and live ever shorter",
	Role:  detect.Symptom,
	Doc:   doc,
	Needs: []detect.Need{
		{Input: detect.Series, Signals: []string{"start_time"}},
		{Input: detect.Series, Signals: []string{"restarts"}},
	},
	Signals: []detect.Signal{{
		Alert: "ContendReplacementSpiral",
		Title: "instances die soon after they began, and are replaced cold",
		// The last part leaves out jobs whose instances are short-lived by design.
		Expr: `contend:short_lives
and on (job) (sum by (job) (contend:short_lives) >= {{lives=2}})
and on (job) (max by (job) (max_over_time(contend:age[{{1h}}:{{2m}}])) > {{s:15m}} or max by (job) (contend:restarts))`,
		Unless: []detect.LookAlike{{
			Name: "a few of many instances that came and went",
			Expr: "contend:short_lives and on (job) (sum by (job) (contend:short_lives) < 0.25 * count by (job) (contend:start_time))",
		}},
		KeepFiring: "8x,5m",
		Severity:   detect.Critical,
		Value:      "how often the instance began again shortly after it began",
		Thresholds: "two lives shorter than 5 minutes within 15, on a quarter of the instances: a rolling deploy ends long lives, once each",
	}},
	Run: run,
}

func run(p *detect.Pass) error {
	v := p.Series
	none := "no instance began again soon after it had begun"
	p.ReportAlerts(none, func(f *detect.Firing) detect.Finding {
		at, lives := v.HeldPeak("short_lives", f)
		f.At = at
		return detect.Finding{
			Summary: fmt.Sprintf("instances are replaced in quick succession: %s shorter than 5 minutes within 15, %s", livesOf(lives), v.On(f)),
			Next: []string{
				"stop replacing: a new instance takes the load cold and dies the same way; block or limit traffic first, then let instances start in peace",
				"see what ends them: exit code 137 is the memory limit, a failed liveness check is the health check",
			},
		}
	})
	return nil
}

func livesOf(n float64) string {
	if n == 1 {
		return "1 life"
	}
	return detect.Thousands(n) + " lives"
}
