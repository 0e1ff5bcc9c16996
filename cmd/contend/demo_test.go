package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/scenarios"
	"github.com/contend/contend/demo/truth"
	"github.com/contend/contend/detect/all"
)

// keysOf are the names of an object's fields, sorted.
func keysOf[V any](object map[string]V) []string { return slices.Sorted(maps.Keys(object)) }

func decodeStrict(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("expected the documented JSON: %v\n%s", err, text)
	}
}

// TestDemoListJSON holds demo list -o json to what it is documented as:
// [{"name","fault","wants":[...],"allows":[...]}].
func TestDemoListJSON(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"demo", "list", "-o", "json"}, nil, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	var objects []map[string]json.RawMessage
	decodeStrict(t, stdout.Bytes(), &objects)
	var list []listedScenario
	decodeStrict(t, stdout.Bytes(), &list)
	var names, want []string
	for i, s := range list {
		names = append(names, s.Name)
		if got := keysOf(objects[i]); !slices.Equal(got, []string{"allows", "fault", "name", "wants"}) {
			t.Errorf("%s has the fields %q", s.Name, got)
		}
		if s.Wants == nil || s.Allows == nil {
			t.Errorf("%s: wants %v and allows %v, want lists", s.Name, s.Wants, s.Allows)
		}
		for _, detectors := range [][]string{s.Wants, s.Allows} {
			for j, name := range detectors {
				if slices.Contains(detectors[:j], name) {
					t.Errorf("%s lists %s twice", s.Name, name)
				}
			}
		}
	}
	for _, s := range scenarios.All() {
		want = append(want, s.Name)
	}
	if len(names) == 0 || !slices.Equal(names, want) {
		t.Errorf("lists %q, want %q", names, want)
	}
}

// Each fix and each control came in its recorded run to what it must.
func TestRecordedOutcomes(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	args := []string{"demo", "eval", "--recorded", "-o", "json", "--scenario", "control-nothing"}
	want := map[string]bool{}
	for _, s := range scenarios.All() {
		if s.Against == "" {
			continue
		}
		if s.Against != "control-nothing" {
			t.Errorf("%s is compared with %s, which is not played here", s.Name, s.Against)
		}
		args, want[s.Name] = append(args, "--scenario", s.Name), s.Helps
	}
	var stdout, stderr bytes.Buffer
	if code := run(args, nil, &stdout, &stderr); code != exitOK {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	var doc struct {
		Comparisons []struct {
			Name, Against string
			Helps, Right  bool
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if len(want) < 13 || len(doc.Comparisons) != len(want) {
		t.Errorf("%d comparisons, want %d, 10 fixes and 3 controls at the least", len(doc.Comparisons), len(want))
	}
	for _, c := range doc.Comparisons {
		if helps, ok := want[c.Name]; !ok || c.Helps != helps || !c.Right {
			t.Errorf("%+v, want it to help: %v", c, helps)
		}
	}
}

func TestDetectorsOf(t *testing.T) {
	t.Parallel()
	entries := []truth.Entry{{Detector: "herd", Alert: "A"}, {Detector: "lockwait"}, {Detector: "herd", Alert: "B"}}
	if got := detectorsOf(entries); !slices.Equal(got, []string{"herd", "lockwait"}) {
		t.Errorf("got %q, want each once", got)
	}
	if got := detectorsOf(nil); got == nil || len(got) > 0 {
		t.Errorf("of nothing: %#v, want an empty list", got)
	}
}

// TestDemoEvalRecordedJSON holds demo eval -o json to what it is documented as,
// and recorded runs to their truths.
func TestDemoEvalRecordedJSON(t *testing.T) {
	t.Parallel()
	// In the order of the list, whatever the order they are asked for in.
	want := []string{"telemetryblock", "healthy", "incident"}
	var stdout, stderr bytes.Buffer
	code := run([]string{"demo", "eval", "--recorded", "-o", "json",
		"--scenario", "incident", "--scenario", "healthy", "--scenario", "telemetryblock", "--scenario", "healthy"}, nil, &stdout, &stderr)
	if code != exitOK || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q; want %d and nothing", code, &stderr, exitOK)
	}
	var doc struct {
		Schema    string
		Valid     bool
		Runs      int
		Scenarios []map[string]json.RawMessage
		Detectors map[string]map[string]float64
	}
	decodeStrict(t, stdout.Bytes(), &doc)
	if doc.Schema != "contend.eval/v1" || !doc.Valid || doc.Runs != 1 {
		t.Errorf("schema %q, valid %v, %d runs; want contend.eval/v1, valid, 1", doc.Schema, doc.Valid, doc.Runs)
	}
	var names []string
	for _, s := range doc.Scenarios {
		var name string
		if err := json.Unmarshal(s["name"], &name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
		delete(s, "lead_s") // where there is nothing to lead
		if got := keysOf(s); !slices.Equal(got, []string{"forbidden", "missing", "name", "right", "run"}) {
			t.Errorf("%s has the fields %q", name, got)
		}
		for field, want := range map[string]string{"run": "1", "right": "true", "missing": "[]", "forbidden": "[]"} {
			if got := string(s[field]); got != want {
				t.Errorf("%s: %s is %s, want %s", name, field, got, want)
			}
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("scenarios %q, want %q", names, want)
	}
	for _, d := range all.Detectors() {
		counted := 0.0 // what may be found or not is counted nowhere
		for _, name := range want {
			tr, err := scenarioTruth(name)
			if err != nil {
				t.Fatal(err)
			}
			if tr.Wanted(d.Name) || !tr.Permits(d.Name, "") {
				counted++
			}
		}
		tally := doc.Detectors[d.Name]
		if sum := tally["tp"] + tally["fp"] + tally["fn"] + tally["tn"]; sum != counted || tally["fp"]+tally["fn"] > 0 {
			t.Errorf("%s: %v, want %v right ones", d.Name, tally, counted)
		}
		delete(tally, "delay_s")
		if got := keysOf(tally); !slices.Equal(got, []string{"fn", "fp", "tn", "tp"}) {
			t.Errorf("%s has the fields %q", d.Name, got)
		}
	}
	if len(doc.Detectors) != len(all.Detectors()) {
		t.Errorf("%d detectors, want %d", len(doc.Detectors), len(all.Detectors()))
	}
}

// TestEvaluateResumed checks that runs which are kept are not played again, and
// that it is said before anything is played where they cannot be used.
func TestEvaluateResumed(t *testing.T) {
	t.Parallel()
	chosen, err := chosenScenarios([]string{"healthy", "herd"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := openResults(t.TempDir(), "build 1", testDetectors)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"herd", "healthy"} {
		for run := 1; run <= 2; run++ {
			if err := r.keep(testRun(name, run, "")); err != nil {
				t.Fatal(err)
			}
		}
	}
	var stderr bytes.Buffer
	e := &evaluation{runs: 2}
	// A context that has ended fails whatever is played.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ev := &evaluator{flags: &demoEvalFlags{seed: 1}, stderr: &stderr, results: r, scratch: t.TempDir()}
	if err := ev.evaluate(ctx, e, chosen); err != nil {
		t.Fatal(err)
	}
	want := `2 runs of 2 scenarios: about 0s
1 of 4: herd, run 1: right; about 0s left
2 of 4: healthy, run 1: right; about 0s left
3 of 4: herd, run 2: right; about 0s left
4 of 4: healthy, run 2: right; about 0s left
`
	if len(e.played) != 4 || stderr.String() != want {
		t.Errorf("%d runs, stderr\n%swant 4 and\n%s", len(e.played), &stderr, want)
	}
	stderr.Reset()
	ev.flags = &demoEvalFlags{seed: 7}
	if err := ev.evaluate(ctx, e, chosen); err == nil || !strings.Contains(err.Error(), "was played with seed 1, and this evaluation has 7 for it") || stderr.Len() > 0 {
		t.Errorf("with another seed: %v, stderr %q", err, &stderr)
	}
}

func TestWriteOutcome(t *testing.T) {
	t.Parallel()
	count := load.Report{Stats: load.Stats{Count: load.Count{Arrived: 12_345, Answered: 12_000, Failed: 300, Dropped: 4, TimedOut: 41}},
		Latency:  load.Quantiles{Median: 20 * time.Millisecond, P99: 1500 * time.Millisecond},
		Lateness: load.Quantiles{Median: 400 * time.Microsecond, P99: 12_300 * time.Microsecond},
	}
	onset, never := time.Unix(1000, 0), (*time.Duration)(nil)
	atOnce, later := time.Duration(0), 12_400*time.Millisecond
	const tail = "\nThe median of the answered calls took 20ms and 99 % of them 1.5s at most, from when they were due;\ncalls were sent 400µs late, 99 % of them 12.3ms at most\n"
	const head = "\nPlayed: calls 12,000 answered, 304 failed, 41 timed out; 1 task killed"
	for _, tt := range []struct {
		onset   time.Time
		recover *time.Duration
		want    string
	}{
		{time.Time{}, never, ""},
		{onset, never, "; the usual traffic was not\nserved again before the end"},
		{onset, &atOnce, ""},
		{onset, &later, "; the usual traffic was served\nagain 12s after the fault set in"},
	} {
		var b bytes.Buffer
		if err := writeOutcome(&b, play.Outcome{Load: count, Kills: 1, Onset: tt.onset, Recover: tt.recover}); err != nil || b.String() != head+tt.want+tail {
			t.Errorf("wrote %q, %v; want %q", &b, err, head+tt.want+tail)
		}
	}
}
