package series_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// stageOneOf are the rules by signal for an exposition of two scrapes.
func stageOneOf(t *testing.T, lines string, opt series.CollectOptions) (map[string]series.Rule, error) {
	t.Helper()
	store := memory.New()
	var text strings.Builder
	for line := range strings.Lines(lines) {
		text.WriteString(strings.TrimSpace(line) + " 1000\n")
	}
	for line := range strings.Lines(lines) {
		text.WriteString(strings.TrimSpace(line) + " 1015\n")
	}
	text.WriteString("# EOF\n")
	if _, err := store.Load("x", strings.NewReader(text.String()), memory.LoadOptions{Format: memory.OpenMetrics}); err != nil {
		t.Fatal(err)
	}
	opt.Start, opt.End = time.Unix(1000, 0), time.Unix(1015, 0)
	r, err := series.StageOne(context.Background(), store, opt)
	if err != nil {
		return nil, err
	}
	if r.Timing.Interval != 15*time.Second {
		t.Errorf("interval %s", r.Timing.Interval)
	}
	out := map[string]series.Rule{}
	for _, one := range r.Rules {
		out[one.Signal.Name] = one
	}
	return out, nil
}

func TestStageOneOfServer(t *testing.T) {
	t.Parallel()
	rules, err := stageOneOf(t, `http_requests_in_flight{job="a",instance="1"} 3
http_requests_total{job="a",instance="1",code="200"} 30
http_request_duration_seconds_sum{job="a",instance="1",code="200"} 3
http_request_duration_seconds_count{job="a",instance="1",code="200"} 30`,
		series.CollectOptions{Overrides: map[string]string{"cpu": "sum by (job, instance) (rate(busy[{{4x,1m}}]))", "health_timeout": "2"}})
	if err != nil {
		t.Fatal(err)
	}
	for signal, want := range map[string]string{
		"inflight": "sum by (job, instance) (avg_over_time(http_requests_in_flight[1m]))",
		// All instances have the counter: the histogram's count is not asked too.
		"completions":    "sum by (job, instance) (rate(http_requests_total[1m]))",
		"arrivals":       "(clamp_min(contend:completions + on (job, instance) contend:inflight_change, 0)) or on (job, instance) (contend:completions)",
		"cpu":            "sum by (job, instance) (sum by (job, instance) (rate(busy[1m])))",
		"health_timeout": "max by (job, instance) (up or contend:inflight or contend:cpu) * 0 + 2",
		"memory":         "",
	} {
		if got := rules[signal].Expr; got != want {
			t.Errorf("%s: got  %s\nwant %s", signal, got, want)
		}
	}
	if !strings.Contains(rules["memory"].Missing, "process_resident_memory_bytes") {
		t.Errorf("memory: missing %q", rules["memory"].Missing)
	}
}

func TestStageOneOfUnknown(t *testing.T) {
	t.Parallel()
	_, err := stageOneOf(t, `cooks_busy{job="kitchen",instance="1"} 3`, series.CollectOptions{})
	if err == nil || !strings.Contains(err.Error(), "none of the 1 metrics is one that contend knows (inflight may be cooks_busy)") || !strings.Contains(err.Error(), "looked for http_requests_in_flight") {
		t.Errorf("got %v", err)
	}
}

// TestStageOneOfAll: for no server in particular a histogram is read in both forms.
func TestStageOneOfAll(t *testing.T) {
	t.Parallel()
	if _, err := series.StageOne(context.Background(), nil, series.CollectOptions{}); err == nil {
		t.Error("no interval was taken")
	}
	r, err := series.StageOne(context.Background(), nil, series.CollectOptions{Interval: 15 * time.Second, Selector: `job="x"`})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range r.Rules {
		if one.Expr == "" {
			t.Errorf("%s has no rule", one.Signal.Name)
		}
	}
	i := slices.IndexFunc(r.Rules, func(r series.Rule) bool { return r.Signal.Name == "cpu_wait" })
	const want = `(sum by (job, instance) (rate(go_sched_latencies_seconds_sum{job="x"}[1m]))) or on (job, instance) (sum by (job, instance) (histogram_sum(rate(go_sched_latencies_seconds{job="x"}[1m]))))`
	if !strings.Contains(r.Rules[i].Expr, want) {
		t.Errorf("cpu_wait is %s\nwant in it %s", r.Rules[i].Expr, want)
	}
}

func TestPossible(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]bool{
		"a": true, "b": false, "a and b": false, "a or b": true, "a unless b": true, "b unless a": false,
		"a > 2 * b": false, "sum by (job) (b)": false, "count_over_time(a[1h:2m]) >= 5": true, "time() - b": false,
	} {
		got, err := series.Possible(expr, func(name string) bool { return name == "a" })
		if err != nil || got != want {
			t.Errorf("%s: got %t, %v, want %t", expr, got, err, want)
		}
	}
	if _, err := series.Possible("a and", func(string) bool { return true }); err == nil {
		t.Error("PromQL that does not parse was taken")
	}
}
