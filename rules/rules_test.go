package rules_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"

	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/rules"
)

var header = rules.Header{Version: "contend", Command: "contend rules generate"}

// everything is the group for no server in particular.
func everything(t *testing.T, timing series.Timing, opt rules.Options) *rules.Group {
	t.Helper()
	stage, err := series.StageOne(context.Background(), nil, series.CollectOptions{Interval: timing.Interval, Factor: timing.Factor, Selector: opt.Selector})
	if err != nil {
		t.Fatal(err)
	}
	g, err := rules.Generate(all.Detectors(), stage, opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// canonical is the same group with a stage one that reads nothing: that of
// everything is long, and promtool reads it anew at each evaluation.
func canonical(t *testing.T, timing series.Timing, opt rules.Options) *rules.Group {
	t.Helper()
	stage := &series.Rules{Timing: timing}
	for _, s := range series.Signals() {
		stage.Rules = append(stage.Rules, series.Rule{Signal: s, Expr: "sum by (job, instance) (nothing)"})
	}
	g, err := rules.Generate(all.Detectors(), stage, opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var quarter = series.Timing{Interval: 15 * time.Second}

// TestCommitted compares the file in this folder with what is generated.
// CONTEND_UPDATE=1 writes it anew.
func TestCommitted(t *testing.T) {
	t.Parallel()
	const file = "contend.rules.yaml"
	want := rules.Encode(everything(t, quarter, rules.Options{}), rules.Prometheus, header)
	if again := rules.Encode(everything(t, quarter, rules.Options{}), rules.Prometheus, header); !bytes.Equal(want, again) {
		t.Fatal("the same rules are not the same bytes")
	}
	golden(t, file, want)
}

func golden(t *testing.T, file string, want []byte) {
	t.Helper()
	if os.Getenv("CONTEND_UPDATE") != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; CONTEND_UPDATE=1 writes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is generated; CONTEND_UPDATE=1 writes it anew", file)
	}
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

func write(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPromtoolCheck: Prometheus 2.42 reads the rules, and its linter finds nothing.
func TestPromtoolCheck(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*rules.Group{
		"each 15s": everything(t, quarter, rules.Options{}),
		"each 250ms, sixty times as fast": everything(t, series.Timing{Interval: 250 * time.Millisecond, Factor: 60}, rules.Options{
			Selector: `job=~"gate.*",namespace="a\"b"`, Labels: []rules.Pair{{Name: "team", Value: "shop's: #1"}, {Name: "on", Value: "yes"}},
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			promtool(t, "check", "rules", "--lint=all", "--lint-fatal", write(t, t.TempDir(), "rules.yaml", rules.Encode(g, rules.Prometheus, header)))
		})
	}
}

// TestStoriesOfSomeSignals: they hold of the rules of a server that has some of the signals.
func TestStoriesOfSomeSignals(t *testing.T) {
	t.Parallel()
	for name, has := range map[string]string{
		"a Go service":          "inflight inflight_change completions arrivals errors cpu cpu_limit cpu_wait lock_wait memory start_time connections goroutines up",
		"without in-flight":     "completions latency errors cpu cpu_limit lock_wait pool_wait pool_use memory start_time up",
		"without completions":   "inflight inflight_change cpu cpu_limit lock_wait dependency_wait dependency_latency health_latency health_timeout up",
		"health and dependency": "inflight completions health_latency health_failures dependency_wait dependency_latency up",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stage := &series.Rules{Timing: quarter}
			for _, s := range series.Signals() {
				rule := series.Rule{Signal: s, Missing: "metric of it"}
				if slices.Contains(strings.Fields(has), s.Name) {
					rule.Expr = "sum by (job, instance) (nothing)"
				}
				stage.Rules = append(stage.Rules, rule)
			}
			g, err := rules.Generate(all.Detectors(), stage, rules.Options{})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			write(t, dir, "rules.yaml", rules.Encode(g, rules.Prometheus, header))
			text, err := rules.Tests(g, "rules.yaml", quarter, nil, header)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(text, []byte("eval_time:")) {
				t.Error("no story holds, want some")
			}
			promtool(t, "test", "rules", write(t, dir, "test.yaml", text))
		})
	}
}

// TestStories: the unit tests that users get hold, also at other intervals and
// at the demo's clock.
func TestStories(t *testing.T) {
	t.Parallel()
	for name, timing := range map[string]series.Timing{
		"each 15s":                        quarter,
		"each 60s":                        {Interval: time.Minute},
		"each 8s":                         {Interval: 8 * time.Second}, // with the alert that inputs are missing
		"each 5s":                         {Interval: 5 * time.Second}, // too often for that alert
		"each 250ms, sixty times as fast": {Interval: 250 * time.Millisecond, Factor: 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			g := canonical(t, timing, rules.Options{})
			write(t, dir, "rules.yaml", rules.Encode(g, rules.Prometheus, header))
			text, err := rules.Tests(g, "rules.yaml", timing, nil, header)
			if err != nil {
				t.Fatal(err)
			}
			promtool(t, "test", "rules", write(t, dir, "test.yaml", text))
		})
	}
}

// TestStoriesCover: each alert fires in a story.
func TestStoriesCover(t *testing.T) {
	t.Parallel()
	g := canonical(t, quarter, rules.Options{})
	text, err := rules.Tests(g, "rules.yaml", quarter, nil, header)
	if err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, r := range g.Rules {
		if r.Alert == "" {
			continue
		}
		alerts++
		if !strings.Contains(string(text), `alertname="`+r.Alert+`"}'`) {
			t.Errorf("%s fires in no story", r.Alert)
		}
	}
	if alerts != 14 {
		t.Errorf("%d alerts, want 14", alerts)
	}
}

// TestEncode: Prometheus' own reader finds what was written, whatever the format.
func TestEncode(t *testing.T) {
	t.Parallel()
	g := everything(t, quarter, rules.Options{Labels: []rules.Pair{{Name: "team", Value: "a: b # \u0000 'c' \"d\" \\"}, {Name: "no", Value: "true"}}})
	for _, format := range rules.Formats {
		text := rules.Encode(g, format, rules.Header{Version: "contend\nx: 1", Command: "c\nd", Labels: []rules.Pair{{Name: "release", Value: "on"}}})
		var read struct {
			Namespace, Kind string
			Metadata        struct {
				Name   string
				Labels map[string]string
			}
			Spec   any
			Groups any
		}
		if err := yaml.Unmarshal(text, &read); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		switch format {
		case rules.Operator:
			if read.Kind != "PrometheusRule" || read.Metadata.Name != "contend" || read.Metadata.Labels["release"] != "on" {
				t.Errorf("operator: read %s %+v", read.Kind, read.Metadata)
			}
			spec, err := yaml.Marshal(read.Spec)
			if err != nil {
				t.Fatal(err)
			}
			text = spec
		case rules.Mimir:
			if read.Namespace != "contend" {
				t.Errorf("mimir: namespace %q", read.Namespace)
			}
			text = []byte(strings.Replace(string(text), "namespace: contend\n", "", 1))
		}
		groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			t.Fatalf("%s: %v", format, errs)
		}
		if len(groups.Groups) != 1 || len(groups.Groups[0].Rules) != len(g.Rules) || time.Duration(groups.Groups[0].Interval) != g.Interval {
			t.Fatalf("%s: read %d groups", format, len(groups.Groups))
		}
		for i, got := range groups.Groups[0].Rules {
			want := &g.Rules[i]
			if got.Record != want.Record || got.Alert != want.Alert || got.Expr != want.Expr || time.Duration(got.For) != want.For || time.Duration(got.KeepFiringFor) != want.KeepFiringFor {
				t.Errorf("%s: read %+v, want %+v", format, got, want)
			}
			for _, p := range want.Labels {
				if got.Labels[p.Name] != p.Value {
					t.Errorf("%s: %s%s: label %s is %q, want %q", format, want.Record, want.Alert, p.Name, got.Labels[p.Name], p.Value)
				}
			}
			for _, p := range want.Annotations {
				if got.Annotations[p.Name] != p.Value {
					t.Errorf("%s: %s: annotation %s is %q, want %q", format, want.Alert, p.Name, got.Annotations[p.Name], p.Value)
				}
			}
		}
	}
}

// TestAnnotations: promtool fills in what is read at night.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := canonical(t, quarter, rules.Options{Labels: []rules.Pair{{Name: "team", Value: "shop"}}})
	write(t, dir, "rules.yaml", rules.Encode(g, rules.Prometheus, header))
	text, err := os.ReadFile("testdata/annotations_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", write(t, dir, "test.yaml", text))
}

// TestSeldom: rules that are made for another interval say so, rather than be silent.
func TestSeldom(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	dir := t.TempDir()
	for from, to := range map[string]string{"contend.rules.yaml": "contend.rules.yaml", "testdata/seldom_test.yaml": "test.yaml"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, to, text)
	}
	promtool(t, "test", "rules", filepath.Join(dir, "test.yaml"))
}

// TestTwoGroups: groups of two selectors do not mix what they record.
func TestTwoGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := time.Unix(1_800_000_000, 0)
	store := memory.New()
	for _, metric := range []string{"up", "http_requests_in_flight", "process_cpu_seconds_total"} {
		for _, team := range []string{"shop", "pay"} {
			store.Append(labels.FromStrings(model.MetricNameLabel, metric, "namespace", team, model.JobLabel, "api", model.InstanceLabel, "a:80"), []int64{at.UnixMilli(), at.Add(time.Hour).UnixMilli()}, []float64{1, 1})
		}
	}
	for _, team := range []string{"shop", "pay"} {
		selector := fmt.Sprintf("namespace=%q", team)
		stage, err := series.StageOne(t.Context(), store, series.CollectOptions{Interval: quarter.Interval, Selector: selector, Start: at, End: at.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		g, err := rules.Generate(all.Detectors(), stage, rules.Options{Name: team, Selector: selector, Labels: []rules.Pair{{Name: "team", Value: team}}})
		if err != nil {
			t.Fatal(err)
		}
		text := rules.Encode(g, rules.Prometheus, rules.Header{Version: "a test"})
		if bytes.Contains(text, []byte("contend:")) {
			t.Errorf("the group %s has a record or a selector of another name", team)
		}
		write(t, dir, team+".yaml", text)
	}
	text, err := os.ReadFile("testdata/two_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", write(t, dir, "test.yaml", text))
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"shop": true, "shop_2": true, "": false, "Shop": false, "2shop": false, "a:b": false, "a-b": false, "a\n": false} {
		if err := rules.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestMissingGate: who asks for a job by name is told that contend cannot look at it
// at all; a selector of a namespace brings in exporters, of which nobody asked that.
func TestMissingGate(t *testing.T) {
	t.Parallel()
	for selector, gated := range map[string]bool{"": true, `namespace="shop"`: true, `cronjob="x"`: true, `job!="redis"`: true, `job="api"`: false, `namespace="shop", job=~"api.*"`: false} {
		g := canonical(t, quarter, rules.Options{Selector: selector})
		i := slices.IndexFunc(g.Rules, func(r rules.Rule) bool { return r.Alert == rules.MissingAlert })
		if i < 0 || strings.Contains(g.Rules[i].Expr, "contend:completions") != gated {
			t.Errorf("selector %q: expected the alert to ask for requests: %v; saw it at %d of %d", selector, gated, i, len(g.Rules))
		}
	}
}
