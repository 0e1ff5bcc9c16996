package series

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest/series/memory"
)

// story is one file of testdata/presets: series in Prometheus' test notation,
// and the value of every signal that they have at their end.
type story struct {
	selector string
	interval time.Duration
	store    *memory.Store
	end      time.Time
	want     map[string]float64 // "inflight{instance="a",job="app"}"
}

var epoch = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// parseStory reads lines "selector M", "interval D", series, and after "want"
// lines "signal{labels} value".
func parseStory(t *testing.T, text string) story {
	t.Helper()
	s := story{interval: 15 * time.Second, store: memory.New(), want: map[string]float64{}}
	wanting := false
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		first, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == "want":
			wanting = true
		case first == "selector":
			s.selector = rest
		case first == "interval":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			s.interval = d
		case wanting:
			at := strings.LastIndex(line, " ")
			v, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			lset, err := promQL.ParseMetric(line[:at])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			s.want[lset.String()] = v
		default:
			lset, values, err := promQL.ParseSeriesDesc(line)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			var ts []int64
			var vs []float64
			for i, v := range values {
				if v.Omitted {
					continue
				}
				at := epoch.Add(time.Duration(i) * s.interval)
				ts, vs = append(ts, at.UnixMilli()), append(vs, v.Value)
				if at.After(s.end) {
					s.end = at
				}
			}
			s.store.Append(lset, ts, vs)
		}
	}
	if len(s.want) == 0 {
		t.Fatal("wants nothing")
	}
	return s
}

// values are the canonical series of a time.
func values(t *testing.T, c *Canonical, at time.Time) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	for _, signal := range Signals() {
		m, err := c.Store.Range(t.Context(), signal.Metric(), at, at, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range m {
			b := labels.NewBuilder(s.Metric)
			b.Set(model.MetricNameLabel, signal.Name)
			got[b.Labels().String()] = s.Floats[0].F
		}
	}
	return got
}

func compare(t *testing.T, want, got map[string]float64) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		v, ok := got[key]
		switch {
		case !ok:
			t.Errorf("%s: want %v, got none", key, want[key])
		case math.Abs(v-want[key]) > 1e-9*max(1, math.Abs(v)):
			t.Errorf("%s: want %v, got %v", key, want[key], v)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: want none, got %v", key, got[key])
		}
	}
}

// TestPresets holds every preset against its library's real metrics, and
// against what looks like them. Whatever a file does not want must not be there.
func TestPresets(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/presets/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	matched := map[string]bool{} // "signal metric"
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := parseStory(t, string(text))
			c, err := Collect(context.Background(), s.store, CollectOptions{Selector: s.selector, Start: epoch.Add(4 * s.interval), End: s.end})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Failures) > 0 {
				t.Errorf("failures: %v", c.Failures)
			}
			compare(t, s.want, values(t, c, c.End))
			for _, m := range c.Matches {
				for _, metric := range m.Metrics {
					if m.Missing == "" {
						matched[m.Signal+" "+metric] = true
					}
				}
			}
		})
	}
	stage := Stage{Timing: Timing{Interval: time.Minute}, Present: Known()}
	for _, s := range Signals() {
		for _, p := range s.Presets {
			one := s
			one.Presets = []Preset{p}
			e, err := stage.Expression(one)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(e.Metrics, func(metric string) bool { return matched[s.Name+" "+metric] }) {
				t.Errorf("no file of testdata/presets has %s of %s, any of %q", s.Name, p.Source, e.Metrics)
			}
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range Signals() {
		if seen[s.Name] || s.Meaning == "" || s.Unit == "" || s.Hint == "" || len(s.Presets) == 0 {
			t.Errorf("signal %s: twice, or without meaning, unit, hint or presets", s.Name)
		}
		seen[s.Name] = true
		last := 0
		for _, p := range s.Presets {
			if p.Derived {
				if p.Rank <= last {
					t.Errorf("signal %s: %s is derived and has rank %d, not above %d", s.Name, p.Source, p.Rank, last)
				}
				continue
			}
			last = max(last, p.Rank)
			if p.Source == "" || strings.ContainsAny(p.Source, ";:") {
				t.Errorf("signal %s: source %q", s.Name, p.Source)
			}
			if strings.Contains(p.Expr, "METRIC") != (len(p.Known) > 0) {
				t.Errorf("signal %s: %s: METRIC in %q, known %v", s.Name, p.Source, p.Expr, p.Known)
			}
		}
	}
}

func Example() {
	for _, s := range Signals()[:3] {
		fmt.Printf("%s (%s): %s\n", s.Metric(), s.Unit, s.Meaning)
	}
	// Output:
	// contend:inflight (requests): requests being served now
	// contend:inflight_change (requests/s): change of the requests being served
	// contend:completions (requests/s): requests that finished
}
