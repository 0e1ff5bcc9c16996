package cases

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// Stories holds detectors to a file of stories. A story is a title, canonical
// series in the notation of Prometheus' unit tests, and all that may be found:
//
//	== a service that is blocked
//	interval 15s
//	contend:inflight{job="api",instance="a"}  4x280 4+10x40
//	want inflightcpu 1h11m a,b blocked 88 of 90
//	skip cpubound
//	verdict lockwait
//	trigger herd
//
// Samples are an interval apart, and the window is all of them. A want may
// give the time at which the alert became active, since the first sample, the instances, and
// how many requests are blocked. A detector that finds nothing must have looked, unless skip
// names it. Lines that begin with # are comments.
func Stories(t *testing.T, detectors []*detect.Detector, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split("\n"+string(text), "\n== ")
	if len(parts) < 2 {
		t.Fatalf("%s has no stories", file)
	}
	for _, part := range parts[1:] {
		title, body, _ := strings.Cut(part, "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := readStory(t, body)
			s.check(t, detectors, detect.Run(&ingest.Bundle{Series: s.canonical(t)}, nil, detectors, detect.Options{}))
		})
	}
}

// Series are the canonical series of a story's text, which begin at Start.
func Series(t *testing.T, text string) *series.Canonical {
	t.Helper()
	return readStory(t, text).canonical(t)
}

// Start is the time of a story's first samples: a multiple of every interval in use.
var Start = time.Unix(1_800_000_000, 0).UTC()

type story struct {
	interval time.Duration
	series   []storySeries
	want     []storyWant
	skip     []string
	verdict  string
	trigger  string
}

type storySeries struct {
	labels labels.Labels
	values []parser.SequenceValue
}

type storyWant struct {
	detector  string
	at        time.Duration // -1 where it is not said
	instances string
	blocked   string // "88 of 90"
}

func readStory(t *testing.T, body string) *story {
	t.Helper()
	s := &story{interval: 15 * time.Second}
	p := parser.NewParser(parser.Options{})
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case line == "" || line[0] == '#':
		case words[0] == "interval":
			s.interval = duration(t, words[1])
		case words[0] == "verdict":
			s.verdict = words[1]
		case words[0] == "trigger":
			s.trigger = words[1]
		case words[0] == "skip":
			s.skip = append(s.skip, words[1:]...)
		case words[0] == "want":
			w := storyWant{detector: words[1], at: -1}
			if i := slices.Index(words, "blocked"); i > 0 {
				w.blocked, words = strings.Join(words[i+1:], " "), words[:i]
			}
			if len(words) > 2 {
				w.at = duration(t, words[2])
			}
			if len(words) > 3 {
				w.instances = words[3]
			}
			s.want = append(s.want, w)
		default:
			lset, values, err := p.ParseSeriesDesc(line)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			s.series = append(s.series, storySeries{lset, values})
		}
	}
	return s
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// canonical is what the story's series are to detectors.
func (s *story) canonical(t *testing.T) *series.Canonical {
	t.Helper()
	start := Start
	c := &series.Canonical{Source: "story", Store: memory.New(), From: start, Start: start, End: start, Timing: series.Timing{Interval: s.interval}, Instances: map[string][]string{}}
	c.Store.SetLookback(c.Timing.Lookback())
	seen := map[string]bool{}
	for _, one := range s.series {
		recorded := promql.Series{Metric: one.labels}
		for i, v := range one.values {
			if v.Omitted {
				continue
			}
			ts := start.Add(time.Duration(i) * s.interval)
			recorded.Floats = append(recorded.Floats, promql.FPoint{T: ts.UnixMilli(), F: v.Value})
			if ts.After(c.End) {
				c.End = ts
			}
		}
		name := strings.TrimPrefix(one.labels.Get(model.MetricNameLabel), "contend:")
		if !slices.ContainsFunc(c.Matches, func(m series.Match) bool { return m.Signal == name }) {
			c.Matches = append(c.Matches, series.Match{Signal: name, Matched: "story"})
		}
		c.Store.AppendMatrix(one.labels.Get(model.MetricNameLabel), promql.Matrix{recorded}, s.interval)
		job, instance := one.labels.Get(model.JobLabel), one.labels.Get(model.InstanceLabel)
		if !slices.Contains(c.Jobs, job) {
			c.Jobs = append(c.Jobs, job)
		}
		if !seen[job+"\x00"+instance] {
			seen[job+"\x00"+instance] = true
			c.Instances[job] = append(c.Instances[job], instance)
		}
		if !slices.ContainsFunc(series.Signals(), func(x series.Signal) bool { return x.Name == name }) {
			t.Fatalf("%s is no signal", one.labels)
		}
	}
	if err := series.AddRecords(t.Context(), c.Store, c.Timing, c.Start, c.Start, c.End); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *story) check(t *testing.T, detectors []*detect.Detector, r *detect.Report) {
	t.Helper()
	if s.verdict != "" && s.verdict != cmp.Or(r.Verdict.Cause, "none") {
		t.Errorf("verdict %q, want %q: %s", r.Verdict.Cause, s.verdict, r.Verdict.Summary)
	}
	if s.trigger != "" && s.trigger != cmp.Or(r.Verdict.Trigger, "none") {
		t.Errorf("trigger %q, want %q", r.Verdict.Trigger, s.trigger)
	}
	left := slices.Clone(s.want)
	for _, f := range r.Findings {
		i := slices.IndexFunc(left, func(w storyWant) bool { return w.detector == f.Detector })
		if i < 0 {
			t.Errorf("unexpected finding: %s at %s: %s", f.Detector, f.Window.Start.Sub(Start), f.Summary)
			continue
		}
		w := left[i]
		left = slices.Delete(left, i, i+1)
		if got := f.Window.Start.Sub(Start); w.at >= 0 && got != w.at {
			t.Errorf("%s became active at %s, want %s: %s", f.Detector, got, w.at, f.Summary)
		}
		if got := fmt.Sprintf("%g of %g", f.Blocked, f.Total); w.blocked != "" && got != w.blocked {
			t.Errorf("%s: blocked %s, want %s: %s", f.Detector, got, w.blocked, f.Summary)
		}
		instances := slices.Clone(f.Instances)
		slices.Sort(instances)
		if got := strings.Join(instances, ","); w.instances != "" && got != w.instances {
			t.Errorf("%s on %s, want %s", f.Detector, got, w.instances)
		}
	}
	for _, w := range left {
		t.Errorf("not found: %s%s", w.detector, ruledOut(r, w.detector))
	}
	for _, skipped := range r.Skipped {
		if !slices.Contains(s.skip, skipped.Detector) {
			t.Errorf("%s could not look: %s", skipped.Detector, skipped.Reason)
		}
	}
	for _, name := range s.skip {
		if !slices.ContainsFunc(r.Skipped, func(x detect.Skipped) bool { return x.Detector == name }) {
			t.Errorf("%s looked, although its input is missing", name)
		}
	}
}

func ruledOut(r *detect.Report, detector string) string {
	for _, x := range r.RuledOut {
		if x.Detector == detector {
			return fmt.Sprintf(" (ruled out: %s)", x.Reason)
		}
	}
	return ""
}
