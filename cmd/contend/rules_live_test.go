package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/truth"
)

// TestRulesLive lets a real server scrape the demo's fleet while it is played and
// evaluate the generated rules: what fires is what the scenario's truth wants,
// and before the first request times out.
func TestRulesLive(t *testing.T) {
	if os.Getenv("CONTEND_LIVE") == "" {
		t.Skip("plays the demo, which needs the machine for itself: CONTEND_LIVE=1 go test -run TestRulesLive ./cmd/contend")
	}
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("needs a Prometheus server, such as Debian's package: %v", err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if code := run([]string{"rules", "generate", "--interval", "250ms", "--clock-factor", fmt.Sprint(play.ClockFactor), "-o", file}, nil, t.Output(), t.Output()); code != exitOK {
		t.Fatalf("rules generate: exit code %d", code)
	}
	for _, name := range []string{"telemetryblock", "poolwait", "healthy"} {
		t.Run(name, func(t *testing.T) { playWithRules(t, binary, file, name) })
	}
}

// tries are how often a scenario is played on a machine that is too slow for it.
const tries = 3

// playWithRules plays a scenario until the alerts are right, or wrong on a
// machine that was fast enough. Alerts that are right although clients came
// late are right: what is late only makes it harder.
func playWithRules(t *testing.T, prometheus, rules, name string) {
	sc, err := findScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	want, err := scenarioTruth(name)
	if err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ {
		var wrong []string
		starved := ""
		// A test of its own, so that its server ends with it.
		if !t.Run(fmt.Sprintf("try %d", try), func(t *testing.T) { wrong, starved = playOnce(t, prometheus, rules, sc, &want, try) }) {
			return
		}
		switch {
		case len(wrong) == 0:
			return
		case starved == "" || try == tries:
			t.Fatalf("%s; the machine: %s", strings.Join(wrong, "; "), cmp.Or(starved, "fast enough"))
		}
		t.Logf("played again: %s; %s", starved, strings.Join(wrong, "; "))
	}
}

// playOnce is what is wrong with the alerts of one run, and why the machine was too slow for it.
func playOnce(t *testing.T, prometheus, rules string, sc play.Scenario, want *truth.Truth, seed int) (wrong []string, starved string) {
	contend, err := exec.LookPath("contend") // this test's binary, under the command's name
	if err != nil {
		t.Fatal(err)
	}
	sd := &discovery{file: filepath.Join(t.TempDir(), "targets.json"), targets: map[string]play.Target{}}
	if err := sd.write(); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, prometheus, fmt.Sprintf(`
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
rule_files: [%q]
scrape_configs:
- job_name: demo
  file_sd_configs: [{files: [%q]}]
`, rules, sd.file))
	start := time.Now()
	out, err := play.Run(t.Context(), sc, play.Options{Command: []string{contend, "demo", "task"}, Seed: uint64(seed), Recorder: sd})
	if err != nil {
		t.Fatal(err)
	}
	fired := firing(t, server, start, time.Now())
	wrong = wrongAlerts(fired, want)
	if at, ok := fired["ContendInflightCPU"]; ok && !out.FirstTimeout.IsZero() {
		lead := out.FirstTimeout.Sub(at)
		t.Logf("ContendInflightCPU fired %v after the onset and %v before the first request timed out", at.Sub(out.Onset).Round(time.Millisecond), lead.Round(time.Millisecond))
		if lead <= 0 {
			wrong = append(wrong, fmt.Sprintf("ContendInflightCPU fired at %v, after the first time-out at %v", at, out.FirstTimeout))
		}
	}
	return wrong, out.Starved
}

// firing is when each alert fired first, from the server's own record of it.
func firing(t *testing.T, server string, start, end time.Time) map[string]time.Time {
	t.Helper()
	stamp := func(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1e3, 'f', 3, 64) }
	resp, err := http.Get(server + "/api/v1/query_range?" + url.Values{
		"query": {`ALERTS{alertstate="firing"}`}, "start": {stamp(start)}, "end": {stamp(end)}, "step": {"0.25"},
	}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status string
		Data   struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("ask for alerts: status %q, error %v", answer.Status, err)
	}
	out := map[string]time.Time{}
	for _, s := range answer.Data.Result {
		seconds, ok := s.Values[0][0].(float64)
		if !ok {
			t.Fatalf("expected a time, saw %v", s.Values[0])
		}
		at := time.UnixMilli(int64(seconds * 1e3))
		alert := s.Metric["alertname"]
		if first, ok := out[alert]; !ok || at.Before(first) {
			out[alert] = at
		}
		t.Logf("%s of %s fired at %v", alert, s.Metric["job"], at.Format("15:04:05.000"))
	}
	return out
}

// discovery is a play.Recorder that tells a server its targets.
type discovery struct {
	file    string
	mu      sync.Mutex
	targets map[string]play.Target // by instance
}

func (d *discovery) Add(target play.Target) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.targets[target.Instance] = target
	return d.write()
}

func (d *discovery) Remove(instance string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.targets, instance)
	_ = d.write() // it is only scraped for longer
}

func (d *discovery) Profiles(context.Context, bool)  {}
func (d *discovery) Glance(context.Context, string)  {}
func (d *discovery) Event(time.Time, string, string) {}
func (d *discovery) Late() string                    { return "" }
func (d *discovery) Finish(string) error             { return nil }

func (d *discovery) write() error {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	for _, target := range d.targets {
		u, err := url.Parse(target.Metrics)
		if err != nil {
			return err
		}
		labels := map[string]string{"job": target.Job, "instance": target.Instance, "__metrics_path__": u.Path}
		for name, value := range target.Labels {
			labels[name] = value
		}
		groups = append(groups, group{[]string{u.Host}, labels})
	}
	slices.SortFunc(groups, func(a, b group) int { return slices.Compare(a.Targets, b.Targets) })
	text, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	return writeByRename(d.file, text)
}
