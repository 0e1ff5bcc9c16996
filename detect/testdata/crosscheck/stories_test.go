package crosscheck

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// story is the series of one of the detectors' stories (cases.Stories).
// Their jobs have the story's name before their own, so that all stories can be
// on one server, where none may change what is said of another.
type story struct {
	name   string // "herd/1: three times the peak at once"
	number int    // within its file, from 1
	series []storySeries
}

type storySeries struct {
	labels labels.Labels
	values []parser.SequenceValue
}

// stories reads those of all detectors.
func stories(t *testing.T) []story {
	t.Helper()
	files, err := filepath.Glob("../../*/testdata/stories.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no stories found")
	}
	var out []story
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		detector := filepath.Base(filepath.Dir(filepath.Dir(file)))
		parts := strings.Split("\n"+string(text), "\n== ")[1:]
		if len(parts) == 0 {
			t.Fatalf("%s has no stories", file)
		}
		for i, part := range parts {
			title, body, _ := strings.Cut(part, "\n")
			s := story{name: fmt.Sprintf("%s/%d: %s", detector, i+1, title), number: i + 1}
			s.read(t, body)
			out = append(out, s)
		}
	}
	return out
}

// read keeps the series alone: what must be found is the detectors' tests' to say.
func (s *story) read(t *testing.T, body string) {
	t.Helper()
	p := parser.NewParser(parser.Options{})
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "contend:") {
			continue
		}
		lset, values, err := p.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %q: %v", s.name, line, err)
		}
		b := labels.NewBuilder(lset)
		b.Set(model.JobLabel, s.name+": "+lset.Get(model.JobLabel))
		s.series = append(s.series, storySeries{b.Labels(), values})
	}
	if len(s.series) == 0 {
		t.Fatalf("%s has no series", s.name)
	}
}

// reading is how stories are taken: an interval other than the one that they
// are written for makes them slower or faster.
type reading struct {
	name   string
	timing series.Timing
	start  time.Time     // of the first evaluation
	late   time.Duration // how long after it is the first sample
	lost   float64       // share of the scrapes that fail
}

const (
	writtenFor   = 15 * time.Second // the interval that stories are written for
	writtenStart = 1_800_000_000    // and when they begin; start times in them are close to it
)

// end is when the longest of stories has been over for a while: a server does not stop with a service.
func (r *reading) end(stories []story) time.Time {
	const after = 40 // steps: longer than the longest time for which an alert keeps firing
	steps := 0
	for _, s := range stories {
		for _, one := range s.series {
			steps = max(steps, len(one.values))
		}
	}
	return r.start.Add(time.Duration(steps+after) * r.timing.Interval)
}

// canonical is a story as contend has it before it evaluates anything.
func (r *reading) canonical(s *story, end time.Time) *series.Canonical {
	c := &series.Canonical{Source: s.name, Store: memory.New(), From: r.start, Start: r.start, End: end, Timing: r.timing, Instances: map[string][]string{}}
	c.Store.SetLookback(r.timing.Lookback())
	for _, one := range s.series {
		job, instance := one.labels.Get(model.JobLabel), one.labels.Get(model.InstanceLabel)
		name := one.labels.Get(model.MetricNameLabel)
		points := promql.Series{Metric: one.labels}
		fails := r.failures(job, instance)
		for i, v := range one.values {
			if failed := fails(); failed || v.Omitted {
				continue
			}
			if name == "contend:start_time" {
				v.Value = float64(r.start.Unix()) + (v.Value-writtenStart)*float64(r.timing.Interval)/float64(writtenFor)
			}
			at := r.start.Add(r.late + time.Duration(i)*r.timing.Interval)
			points.Floats = append(points.Floats, promql.FPoint{T: at.UnixMilli(), F: v.Value})
		}
		c.Store.AppendMatrix(name, promql.Matrix{points}, r.timing.Interval)
		if !slices.Contains(c.Jobs, job) {
			c.Jobs = append(c.Jobs, job)
		}
		if !slices.Contains(c.Instances[job], instance) {
			c.Instances[job] = append(c.Instances[job], instance)
		}
	}
	return c
}

// failures tells of each scrape of an instance in turn whether it failed. All
// of an instance's series lose the same ones, and each run loses them.
func (r *reading) failures(job, instance string) func() bool {
	h := fnv.New64a()
	h.Write([]byte(job + "\x00" + instance))
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	return func() bool { return random.Float64() < r.lost }
}

// alertOf is one alert of one job.
type alertOf struct{ alert, job string }

// contendSays evaluates a story as contend does: the records are added to its
// store, and the times that alerts fired are returned.
func contendSays(t *testing.T, c *series.Canonical) map[alertOf][]detect.Span {
	t.Helper()
	if err := series.AddRecords(context.Background(), c.Store, c.Timing, c.Start, c.Start, c.End); err != nil {
		t.Fatal(err)
	}
	fired := map[alertOf][]detect.Span{}
	var probes []*detect.Detector
	for _, d := range all.Detectors() {
		if len(d.Signals) == 0 {
			continue
		}
		probe := *d
		probe.Needs = []detect.Need{{Input: detect.Series}} // whatever signals are there: a server does not ask either
		probe.Run = func(p *detect.Pass) error {
			for _, s := range d.Signals {
				for _, f := range p.Series.Firings(s.Alert) {
					of := alertOf{s.Alert, p.Series.Job}
					fired[of] = append(fired[of], f.Span)
				}
			}
			return nil
		}
		probes = append(probes, &probe)
	}
	for _, skipped := range detect.Run(&ingest.Bundle{Series: c}, nil, probes, detect.Options{}).Skipped {
		t.Fatalf("%s could not look: %s", skipped.Detector, skipped.Reason)
	}
	return fired
}

// describe writes spans as times since start.
func describe(spans []detect.Span, start time.Time) string {
	since := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Sub(start).String()
	}
	var out []string
	for _, s := range spans {
		out = append(out, fmt.Sprintf("active %s fired %s resolved %s", since(s.Active), since(s.Fired), since(s.Resolved)))
	}
	if len(out) == 0 {
		return "never active"
	}
	return strings.Join(out, "; ")
}
