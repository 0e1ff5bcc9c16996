package rules_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/rules"
)

// TestCheck: on a service whose requests pile up it tells a condition that
// holds from one that is false and from one that has no series.
func TestCheck(t *testing.T) {
	t.Parallel()
	const start, steps = 1_800_000_000, 320
	var text strings.Builder
	line := func(format string, value func(i int) float64) {
		for i := range steps {
			fmt.Fprintf(&text, "%s %g %d\n", format, value(i), start+15*i)
		}
	}
	line(`up{job="api",instance="a"}`, func(int) float64 { return 1 })
	line(`http_requests_in_flight{job="api",instance="a"}`, func(i int) float64 {
		if i >= 280 {
			return 300 + float64(i%2)
		}
		return 4 + float64(i%2)
	})
	line(`process_cpu_seconds_total{job="api",instance="a"}`, func(i int) float64 { return 0.5 * 15 * float64(i) })
	line(`go_sync_mutex_wait_total_seconds_total{job="api",instance="a"}`, func(i int) float64 { return float64(i % 2) })
	line(`go_goroutines{job="api",instance="a"}`, func(i int) float64 { return 40 * float64(i) })
	text.WriteString("# EOF\n")
	store := memory.New()
	if _, err := store.Load("x", strings.NewReader(text.String()), memory.LoadOptions{Format: memory.OpenMetrics}); err != nil {
		t.Fatal(err)
	}
	end := time.Unix(start+15*(steps-1), 0)
	opt := series.CollectOptions{Start: end.Add(-10 * time.Minute), End: end, History: 70 * time.Minute}
	ctx := context.Background()
	stage, err := series.StageOne(ctx, store, opt)
	if err != nil {
		t.Fatal(err)
	}
	g, err := rules.Generate(all.Detectors(), stage, rules.Options{All: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := series.Collect(ctx, store, opt)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := rules.Check(ctx, store, c, g)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]rules.Checked{}
	for _, one := range checked {
		if _, again := got[one.Rule]; again {
			t.Errorf("%s is there twice", one.Rule)
		}
		got[one.Rule] = one
	}
	for _, want := range []struct {
		rule     string
		state    rules.State
		selected string
		hint     string
		doubt    string
	}{
		{"contend:inflight", rules.HasValue, "[{http_requests_in_flight 1}]", "", ""},
		{"contend:memory", rules.NoSeries, "[]", "process_resident_memory_bytes", ""},
		{"contend:lock_wait", rules.HasValue, "[{go_sync_mutex_wait_total_seconds_total 1}]", "", "go_sync_mutex_wait_total_seconds_total is read as a counter, and falls as often as a gauge does"},
		{"contend:goroutines", rules.HasValue, "[{go_goroutines 1}]", "", "go_goroutines is read as a level, and only rises, as a counter does"},
		{"contend:inflight:baseline", rules.HasValue, "[{contend:inflight 1} {contend:inflight:median 1}]", "", ""},
		{"ContendInflightCPU", rules.HasValue, "", "", ""},
		{"ContendLockWait", rules.NoValue, "", "", ""},
		{"ContendHerd", rules.NoSeries, "", "arrivals: ", ""},
		{"ContendInputsMissing", rules.NoValue, "", "", ""},
	} {
		one, ok := got[want.rule]
		if !ok {
			t.Errorf("%s is not there", want.rule)
			continue
		}
		if one.State != want.state || one.Doubt != want.doubt || !strings.Contains(one.Hint, want.hint) || want.hint == "" && one.Hint != "" {
			t.Errorf("%s: got %+v", want.rule, one)
		}
		if s := fmt.Sprint(one.Selected); want.selected != "" && s != want.selected {
			t.Errorf("%s reads %s, want %s", want.rule, s, want.selected)
		}
	}
}
