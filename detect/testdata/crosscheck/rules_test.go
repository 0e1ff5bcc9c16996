package crosscheck

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// TestRules evaluates every record and every alert on every story, by contend
// a story at a time over the whole range, and by a server step by step with all stories on it.
func TestRules(t *testing.T) {
	t.Parallel()
	begin := time.Unix(writtenStart, 0).UTC()
	everything := stories(t)
	for _, r := range []reading{
		{name: "each 15s", timing: series.Timing{Interval: 15 * time.Second}, start: begin},
		{name: "each 60s", timing: series.Timing{Interval: time.Minute}, start: begin},
		{name: "each 250ms, sixty times as fast", timing: series.Timing{Interval: 250 * time.Millisecond, Factor: 60}, start: begin},
		// Baselines have their points at multiples of two minutes: it must not matter
		// where among them the window begins and the steps are.
		{name: "each 13s, every tenth scrape lost", timing: series.Timing{Interval: 13 * time.Second}, start: time.Unix(writtenStart-writtenStart%13, 0).UTC(), lost: 0.1},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.compare(t, everything)
		})
	}
}

func (r *reading) compare(t *testing.T, everything []story) {
	end := r.end(everything)
	var scraped []memory.Column
	contendPoints := map[string][]promql.FPoint{}
	contendFired := map[alertOf][]detect.Span{}
	for _, s := range everything {
		c := r.canonical(&s, end)
		scraped = append(scraped, c.Store.All()...)
		for of, spans := range contendSays(t, c) {
			contendFired[of] = spans
		}
		for name, points := range pointsOf(c.Store, end) {
			contendPoints[name] = points
		}
	}
	server := newServer(t, r.timing.Interval, writeRules(t, r.timing.Interval, contendRules(t, r.timing)))
	server.run(t, scraped, r.start, end, r.timing.Interval)

	points := server.points(t)
	for name := range keys(contendPoints, points) {
		if d := difference(contendPoints[name], points[name], r.start); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	fired := server.fired()
	for of := range keys(contendFired, fired) {
		if got, want := describe(contendFired[of], r.start), describe(fired[of], r.start); got != want {
			t.Errorf("%s of %q: contend says %s; Prometheus says %s", of.alert, of.job, got, want)
		}
	}
	covers(t, points, fired)
	t.Logf("%d stories, %d series, %d alerts that fired", len(everything), len(points), len(fired))
}

// covers guards the comparison: a record or an alert that no story gives a
// value to is not compared.
func covers(t *testing.T, points map[string][]promql.FPoint, fired map[alertOf][]detect.Span) {
	t.Helper()
	seen := map[string]bool{}
	for lset := range points {
		name, _, _ := strings.Cut(strings.TrimPrefix(lset, `{__name__="`), `"`)
		seen[name] = true
	}
	for of := range fired {
		seen[of.alert] = true
	}
	for _, r := range series.Records() {
		if !seen[r.Name] {
			t.Errorf("%s has no value in any story", r.Name)
		}
	}
	for _, d := range all.Detectors() {
		for _, s := range d.Signals {
			if !seen[s.Alert] {
				t.Errorf("%s fires in no story", s.Alert)
			}
		}
	}
}
