package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/scenarios"
	"github.com/contend/contend/demo/truth"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/rules"
	"github.com/contend/contend/rules/backtest"
)

// TestRulesOnScenarios replays the generated rules over the series of every
// recorded run: an alert fires where the scenario's truth wants its detector, and
// nowhere else; where requests pile up it does so before the first of them times
// out; and a job's incident is one page.
func TestRulesOnScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	list := scenarios.All()
	if len(list) == 0 {
		t.Fatal("no scenarios")
	}
	// The file that users get: without --rules the replay has conditions in their plain form.
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if code := run([]string{"rules", "generate", "--interval", "250ms", "--clock-factor", fmt.Sprint(play.ClockFactor), "-o", file}, nil, t.Output(), t.Output()); code != exitOK {
		t.Fatalf("rules generate: exit code %d", code)
	}
	for _, sc := range list {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("..", "..", "demo", "scenarios", sc.Name, "bundle")
			if from := os.Getenv("CONTEND_BUNDLES"); from != "" { // those of another evaluation
				dir = filepath.Join(from, sc.Name+"-1")
			}
			want, err := scenarioTruth(sc.Name)
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if code := run([]string{"rules", "backtest", dir, "--rules", file, "-o", "json"}, nil, &stdout, &stderr); code != exitOK {
				t.Fatalf("exit code %d: %s", code, &stderr)
			}
			var result backtest.Result
			if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
				t.Fatal(err)
			}
			fired := map[string]time.Time{}
			for _, a := range result.Alerts {
				for _, f := range a.Firings {
					if at, ok := fired[a.Alert]; !ok || f.Start.Before(at) {
						fired[a.Alert] = f.Start
					}
				}
			}
			checkLead(t, dir, fired, &want)
			for _, wrong := range wrongAlerts(fired, &want) {
				t.Error(wrong)
			}
			pages := map[string]int{}
			for _, p := range result.Pages {
				if pages[p.Job]++; pages[p.Job] > 1 {
					t.Errorf("job %s is paged again at %v for %q", p.Job, p.Start, p.Alerts)
				}
			}
		})
	}
}

// checkLead holds the first page to the clients' first time-out.
func checkLead(t *testing.T, dir string, fired map[string]time.Time, want *truth.Truth) {
	t.Helper()
	if !want.Wanted("inflightcpu") {
		return
	}
	at := fired["ContendInflightCPU"]
	for _, e := range ingest.Load(t.Context(), []string{dir}, ingest.Options{}).Events {
		if e.Name == play.EventFirstTimeout && (at.IsZero() || !at.Before(e.At)) {
			t.Errorf("ContendInflightCPU fired at %v, and the first request timed out at %v", at, e.At)
		}
	}
}

// wrongAlerts is what is wrong with the alerts that fired, by a truth: of each
// detector that is wanted one at least, and none of others.
func wrongAlerts(fired map[string]time.Time, want *truth.Truth) []string {
	var wrong []string
	others := maps.Clone(fired)
	for _, d := range all.Detectors() {
		some := false
		for _, s := range d.Signals {
			_, ok := fired[s.Alert]
			some = some || ok
			if ok && !want.Permits(d.Name, s.Alert) {
				wrong = append(wrong, s.Alert+" fired, which nothing lets expect")
			}
			delete(others, s.Alert)
		}
		// A forecast's alert asks for a load that rises within the hour, which no scenario
		// has; that of a constant load is read from snapshots.
		if len(d.Signals) > 0 && d.Role != detect.Forecast && want.Wanted(d.Name) && !some {
			wrong = append(wrong, fmt.Sprintf("no alert of %s fired, which is wanted", d.Name))
		}
	}
	// The CDN, a foreign service, has no CPU: the alerts cannot look at it, and say so.
	delete(others, rules.MissingAlert)
	for _, alert := range slices.Sorted(maps.Keys(others)) {
		wrong = append(wrong, alert+" fired, which is no alert of a detector")
	}
	return wrong
}
