package rules_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/rules"
)

// service has a series for each name, with a value for each scrape, 15 s apart.
type service map[string]func(i int) float64

func constant(v float64) func(int) float64 { return func(int) float64 { return v } }
func rising(v float64) func(int) float64   { return func(i int) float64 { return v * float64(i) } }

// check looks at a service that has been scraped so often.
func check(t *testing.T, s service, scrapes int) *rules.Checked {
	t.Helper()
	const start = 1_800_000_000
	var text strings.Builder
	for name, value := range s {
		for i := range scrapes {
			fmt.Fprintf(&text, "%s{job=\"api\",instance=\"a\"} %g %d\n", name, value(i), start+15*i)
		}
	}
	text.WriteString("# EOF\n")
	store := memory.New()
	if _, err := store.Load("x", strings.NewReader(text.String()), memory.LoadOptions{Format: memory.OpenMetrics}); err != nil {
		t.Fatal(err)
	}
	end := time.Unix(start+15*int64(scrapes-1), 0)
	opt := series.CollectOptions{Start: end.Add(-10 * time.Minute), End: end, History: 70 * time.Minute}
	stage, err := series.StageOne(t.Context(), store, opt)
	if err != nil {
		t.Fatal(err)
	}
	g, err := rules.Generate(all.Detectors(), stage, rules.Options{All: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := series.Collect(t.Context(), store, opt)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := rules.Check(t.Context(), store, c, g)
	if err != nil {
		t.Fatal(err)
	}
	return checked
}

// alertsOf and recordsOf are what was checked by name, each there once.
func alertsOf(t *testing.T, c *rules.Checked) map[string]rules.CheckedAlert {
	t.Helper()
	out := map[string]rules.CheckedAlert{}
	for _, a := range c.Alerts {
		if _, again := out[a.Alert]; again {
			t.Errorf("%s is there twice", a.Alert)
		}
		out[a.Alert] = a
	}
	return out
}

func recordsOf(t *testing.T, c *rules.Checked) map[string]rules.CheckedRecord {
	t.Helper()
	out := map[string]rules.CheckedRecord{}
	for _, r := range c.Records {
		if _, again := out[r.Record]; again {
			t.Errorf("%s is there twice", r.Record)
		}
		out[r.Record] = r
	}
	return out
}

// TestCheck: of a service whose requests pile up it tells a condition that
// holds from one that is false and from one that has no series.
func TestCheck(t *testing.T) {
	t.Parallel()
	got := check(t, service{
		"up": constant(1),
		"http_requests_in_flight": func(i int) float64 {
			if i >= 280 {
				return 300 + float64(i%2)
			}
			return 4 + float64(i%2)
		},
		"process_cpu_seconds_total":              rising(0.5 * 15),
		"process_start_time_seconds":             constant(1_799_990_000),
		"go_sync_mutex_wait_total_seconds_total": func(i int) float64 { return float64(i % 2) },
		"go_goroutines":                          rising(40),
	}, 320)
	alerts, records := alertsOf(t, got), recordsOf(t, got)
	for _, want := range []rules.CheckedRecord{
		{Record: "contend:inflight", State: rules.HasValue, Instances: 1, Reads: []rules.Selected{{Metric: "http_requests_in_flight", Series: 1}}},
		{Record: "contend:memory", State: rules.NoSeries, Reads: []rules.Selected{}},
		{Record: "contend:inflight:baseline", State: rules.HasValue, Instances: 1, Reads: []rules.Selected{{Metric: "contend:inflight", Series: 1}, {Metric: "contend:inflight:median", Series: 1}}},
		// Nothing restarts: there is no value, and all that it takes.
		{Record: "contend:short_lives", State: rules.NoValue, Reads: []rules.Selected{{Metric: "contend:age", Series: 1}, {Metric: "contend:restarts", Series: 0}, {Metric: "contend:up", Series: 1}}},
		{Record: "contend:arrivals:peak", State: rules.NoSeries, Reads: []rules.Selected{{Metric: "contend:arrivals:sum", Series: 0}}},
	} {
		if one := records[want.Record]; !reflect.DeepEqual(one, want) {
			t.Errorf("got  %+v\nwant %+v", one, want)
		}
	}
	for _, want := range []rules.CheckedAlert{
		{Alert: "ContendInflightCPU", Severity: detect.AlertPage, State: rules.Holding, Instances: 1},
		{Alert: "ContendLockWait", Severity: detect.AlertTicket, State: rules.False},
		{Alert: "ContendReplacementSpiral", Severity: detect.AlertTicket, State: rules.False},
		{Alert: "ContendHerd", Severity: detect.AlertTicket, State: rules.NoSeries, Needs: [][]string{{"contend:arrivals"}}},
		{Alert: "ContendPoolExhausted", Severity: detect.AlertTicket, State: rules.NoSeries, Needs: [][]string{{"contend:pool_use"}}},
		{Alert: "ContendCPUBound", Severity: detect.AlertTicket, State: rules.NoSeries, Needs: [][]string{{"contend:cpu_limit"}, {"contend:cpu_throttled"}}},
		{Alert: "ContendMemoryGrowth", Severity: detect.AlertTicket, State: rules.NoSeries, Needs: [][]string{{"contend:memory", "contend:memory_limit"}}},
		{Alert: "ContendHungRequests", Severity: detect.AlertTicket, State: rules.NoSeries, Needs: [][]string{{"contend:completions"}, {"contend:latency"}}},
		{Alert: rules.MissingAlert, Severity: detect.AlertInfo, State: rules.False},
	} {
		one := alerts[want.Alert]
		if one.Reads = nil; !reflect.DeepEqual(one, want) {
			t.Errorf("got  %+v\nwant %+v", one, want)
		}
	}
	pages := 0
	for i, a := range got.Alerts {
		if a.Severity == detect.AlertPage && pages == i {
			pages++
		} else if a.Severity == detect.AlertPage {
			t.Errorf("%s pages and stands after one that does not", a.Alert)
		}
	}
	if pages != 3 {
		t.Errorf("%d alerts that page come first, want 3", pages)
	}
	wantDoubts := []rules.Doubt{
		{Record: "contend:lock_wait", Metric: "go_sync_mutex_wait_total_seconds_total", Why: "is read as a counter, and falls as often as a gauge does"},
		{Record: "contend:goroutines", Metric: "go_goroutines", Why: "is read as a level, and only rises, as a counter does"},
	}
	if !reflect.DeepEqual(got.Doubts, wantDoubts) {
		t.Errorf("doubts %+v, want %+v", got.Doubts, wantDoubts)
	}

	missing := map[string]rules.MissingSignal{}
	needed := true
	for _, m := range got.Missing {
		if _, again := missing[m.Record]; again {
			t.Errorf("%s is missing twice", m.Record)
		}
		missing[m.Record] = m
		if len(m.Wakes) > 0 && !needed {
			t.Errorf("%s, which an alert needs, stands after what none needs", m.Record)
		}
		needed = len(m.Wakes) > 0
		if m.Hint == "" || !strings.HasPrefix(m.Why, "no such series: looked for ") {
			t.Errorf("%s: hint %q, why %q", m.Record, m.Hint, m.Why)
		}
	}
	for record, want := range map[string][]rules.Wake{
		"contend:memory":   {{Alert: "ContendMemoryGrowth", With: []string{"contend:memory_limit"}}},
		"contend:arrivals": {{Alert: "ContendHerd", With: []string{}}},
		"contend:restarts": {}, // the start time tells too
		"contend:streams":  {},
	} {
		if m, ok := missing[record]; !ok || !reflect.DeepEqual(m.Wakes, want) {
			t.Errorf("%s: %+v, want it to wake %+v", record, m, want)
		}
	}
	if m, ok := missing["contend:inflight"]; ok {
		t.Errorf("missing, though it is there: %+v", m)
	}
}

// TestCheckYoung: a service that has just begun is accused of nothing, and what
// has no value yet is told apart from what has no series.
func TestCheckYoung(t *testing.T) {
	t.Parallel()
	young := service{
		"up": constant(1), "process_cpu_seconds_total": rising(1), "process_start_time_seconds": constant(1_799_999_990),
		"http_requests_total": rising(30), "process_resident_memory_bytes": rising(1e6), "go_goroutines": rising(1),
	}
	for _, tt := range []struct {
		scrapes      int // minutes are a quarter of them
		peak, median rules.State
		waits        []rules.Wait
		doubts       int
	}{
		{8, rules.NoHistory, rules.NoHistory, []rules.Wait{{Record: "contend:arrivals:mean_peak", State: rules.NoHistory, Takes: "11m"}, {Record: "contend:arrivals:peak", State: rules.NoHistory, Takes: "11m"}}, 0},
		{19, rules.NoHistory, rules.NoHistory, []rules.Wait{{Record: "contend:arrivals:mean_peak", State: rules.NoHistory, Takes: "11m"}, {Record: "contend:arrivals:peak", State: rules.NoHistory, Takes: "11m"}}, 0},
		{4*12 + 1, rules.HasValue, rules.NoHistory, nil, 1}, // goroutines, and not memory
		{4*17 + 1, rules.HasValue, rules.HasValue, nil, 1},
	} {
		t.Run(fmt.Sprint(tt.scrapes), func(t *testing.T) {
			got := check(t, young, tt.scrapes)
			alerts, records := alertsOf(t, got), recordsOf(t, got)
			takes := map[rules.State]string{rules.NoHistory: "16m"}
			for _, name := range []string{"contend:completions:median", "contend:completions:baseline"} {
				if r := records[name]; r.State != tt.median || r.Takes != takes[tt.median] {
					t.Errorf("got %+v, want %s", r, tt.median)
				}
			}
			if r := records["contend:arrivals:peak"]; r.State != tt.peak {
				t.Errorf("got %+v, want %s", r, tt.peak)
			}
			// What has no value lacks more than history, and what is not there lacks all.
			for name, want := range map[string]rules.State{"contend:streams": rules.NoSeries, "contend:latency:median": rules.NoSeries} {
				if r := records[name]; r.State != want || r.Takes != "" {
					t.Errorf("got %+v, want %s", r, want)
				}
			}
			if a := alerts["ContendHerd"]; a.State != rules.False || !reflect.DeepEqual(a.Waits, tt.waits) || a.Needs != nil {
				t.Errorf("got %+v, want it to wait for %+v", a, tt.waits)
			}
			if len(got.Doubts) != tt.doubts {
				t.Errorf("doubts: %+v, want %d", got.Doubts, tt.doubts)
			}
		})
	}
}

// TestCheckAsGenerate: an alert has no such series where Generate leaves it out,
// whichever signal is missing, alone or beside that which most alerts read; and
// each set of signals that an alert needs, and no part of one, has it written.
func TestCheckAsGenerate(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	signals := series.Signals()
	left := func(has func(signal int) bool) (names []string, checked *rules.Checked) {
		stage := &series.Rules{Timing: quarter}
		c := &series.Canonical{Store: memory.New(), Timing: quarter, From: time.Unix(0, 0), Start: time.Unix(0, 0), End: time.Unix(0, 0)}
		for i, s := range signals {
			r := series.Rule{Signal: s}
			if has(i) {
				r.Expr = "sum by (job, instance) (nothing)"
			}
			stage.Rules = append(stage.Rules, r)
			c.Matches = append(c.Matches, series.Match{Signal: s.Name})
		}
		g, err := rules.Generate(all.Detectors(), stage, rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range g.LeftOut {
			if l.Severity != "" {
				names = append(names, l.Rule)
			}
		}
		if g, err = rules.Generate(all.Detectors(), stage, rules.Options{All: true}); err != nil {
			t.Fatal(err)
		}
		if checked, err = rules.Check(context.Background(), memory.New(), c, g); err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		return names, checked
	}
	names := func(set []string) func(int) bool {
		return func(i int) bool { return slices.Contains(set, signals[i].Metric()) }
	}
	compared := 0
	compare := func(has func(int) bool) {
		want, checked := left(has)
		var got []string
		for _, a := range checked.Alerts {
			if a.State != rules.NoSeries {
				continue
			}
			got = append(got, a.Alert)
			if len(a.Needs) == 0 {
				t.Errorf("%s needs nothing and has no such series", a.Alert)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("no such series: %v\nbut left out: %v", got, want)
		}
		compared += len(want)
	}
	for i := range signals {
		compare(func(k int) bool { return k != i })
		compare(func(k int) bool { return k != i && signals[k].Name != "inflight" })
	}
	compare(func(int) bool { return true })
	if compared == 0 {
		t.Fatal("nothing was ever left out")
	}

	// Where nothing is there, what an alert needs is what it takes.
	want, none := left(func(int) bool { return false })
	if len(want) != len(none.Alerts) {
		t.Errorf("%d alerts are left out of %d", len(want), len(none.Alerts))
	}
	for _, a := range none.Alerts {
		if a.Alert == rules.MissingAlert {
			if want := [][]string{{"contend:completions", "contend:up"}, {"contend:inflight", "contend:up"}}; !reflect.DeepEqual(a.Needs, want) {
				t.Errorf("%s needs %v, want %v", a.Alert, a.Needs, want)
			}
		}
		for _, set := range a.Needs {
			if without, _ := left(names(set)); slices.Contains(without, a.Alert) {
				t.Errorf("%s is left out where %v are there", a.Alert, set)
			}
			for i := range set {
				part := slices.Delete(slices.Clone(set), i, i+1)
				if without, _ := left(names(part)); !slices.Contains(without, a.Alert) {
					t.Errorf("%s needs %v, and %v suffice", a.Alert, set, part)
				}
			}
		}
	}
}
