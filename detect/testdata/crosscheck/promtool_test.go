package crosscheck

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"go.yaml.in/yaml/v2"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// unitTest is a file of promtool test rules.
type unitTest struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []testGroup    `yaml:"tests"`
}

type testGroup struct {
	Interval    model.Duration  `yaml:"interval"`
	InputSeries []inputSeries   `yaml:"input_series"`
	AlertTests  []alertRuleTest `yaml:"alert_rule_test"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertRuleTest struct {
	EvalTime model.Duration  `yaml:"eval_time"`
	Alert    string          `yaml:"alertname"`
	Expected []expectedAlert `yaml:"exp_alerts,omitempty"`
}

type expectedAlert struct {
	Labels map[string]string `yaml:"exp_labels"`
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	binary, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal("promtool is not installed, and CONTEND_REQUIRE is set")
		}
		t.Skip("promtool is not installed")
	}
	if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
		const most = 4000
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out[:min(len(out), most)])
	}
}

// TestPromtoolCheck has the promtool that is installed look at the rules.
func TestPromtoolCheck(t *testing.T) {
	t.Parallel()
	timing := series.Timing{Interval: writtenFor}
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", writeRules(t, timing.Interval, contendRules(t, timing)))
}

// TestPromtoolTest has the promtool that is installed test that alerts fire
// when contend says that they do. It may be a release before 3.0, for which
// a range has its left edge. So nothing may be on an edge: samples are half an
// interval before evaluations, and the interval has next to no multiples in
// common with those of the subqueries, which are of whole seconds. 14.986 s and
// 15 s meet each 31 hours.
func TestPromtoolTest(t *testing.T) {
	t.Parallel()
	const interval = 14986 * time.Millisecond
	r := reading{timing: series.Timing{Interval: interval}, start: time.Unix(0, 0).UTC(), late: interval / 2}
	// The first of each detector, which are what it finds: all take half a minute.
	everything := slices.DeleteFunc(stories(t), func(s story) bool { return s.number > 2 })
	end := r.end(everything)
	test := testGroup{Interval: model.Duration(interval / 2)}
	fired := map[alertOf][]detect.Span{}
	for _, s := range everything {
		c := r.canonical(&s, end)
		for _, column := range c.Store.All() {
			test.InputSeries = append(test.InputSeries, inputSeries{column.Labels.String(), values(column, interval/2)})
		}
		maps.Copy(fired, contendSays(t, c))
	}
	rules := contendRules(t, r.timing)
	for _, rule := range rules {
		if rule.Alert != "" {
			test.AlertTests = append(test.AlertTests, expectations(rule, fired, r.start, end, interval)...)
		}
	}
	file := unitTest{RuleFiles: []string{writeRules(t, interval, rules)}, EvaluationInterval: model.Duration(interval), Tests: []testGroup{test}}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", path)
	t.Logf("%d stories, %d alerts that fired, %d times looked at", len(everything), len(fired), len(test.AlertTests))
}

// values writes a series as promtool has it, from 1970 on.
func values(c memory.Column, interval time.Duration) string {
	var out []string
	for i, at := range c.T {
		for int64(len(out))*interval.Milliseconds() < at {
			out = append(out, "_")
		}
		if value.IsStaleNaN(c.V[i]) {
			out = append(out, "stale")
		} else {
			out = append(out, strconv.FormatFloat(c.V[i], 'f', -1, 64))
		}
	}
	return strings.Join(out, " ")
}

// expectations say which jobs' alerts fire, at the steps at which that of any
// job begins or ends, at the steps before these, and at the end.
func expectations(rule rulefmt.Rule, fired map[alertOf][]detect.Span, start, end time.Time, step time.Duration) []alertRuleTest {
	times := map[time.Duration]bool{end.Sub(start): true}
	for of, spans := range fired {
		if of.alert != rule.Alert {
			continue
		}
		for _, s := range spans {
			for _, edge := range []time.Time{s.Fired, s.Resolved} {
				if !edge.IsZero() {
					times[edge.Sub(start)] = true
					times[max(0, edge.Sub(start)-step)] = true
				}
			}
		}
	}
	var out []alertRuleTest
	for _, at := range slices.Sorted(maps.Keys(times)) {
		test := alertRuleTest{EvalTime: model.Duration(at), Alert: rule.Alert}
		for of, spans := range fired {
			if of.alert == rule.Alert && slices.ContainsFunc(spans, func(s detect.Span) bool {
				now := start.Add(at)
				return !now.Before(s.Fired) && (s.Resolved.IsZero() || now.Before(s.Resolved))
			}) {
				test.Expected = append(test.Expected, expectedAlert{map[string]string{model.JobLabel: of.job}})
			}
		}
		out = append(out, test)
	}
	return out
}
