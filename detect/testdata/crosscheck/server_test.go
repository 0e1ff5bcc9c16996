package crosscheck

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"go.yaml.in/yaml/v2"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	generated "github.com/contend/contend/rules"
)

// contendRules are contend's records and alerts as a server is given them
// (package rules), but for stage one, whose series the stories are, the alert that
// stories have no place for, and what is for people.
func contendRules(t *testing.T, timing series.Timing) []rulefmt.Rule {
	t.Helper()
	stage := &series.Rules{Timing: timing}
	for _, s := range series.Signals() {
		stage.Rules = append(stage.Rules, series.Rule{Signal: s, Expr: "nothing"})
	}
	group, err := generated.Generate(all.Detectors(), stage, generated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out []rulefmt.Rule
	records := 0
	for _, r := range group.Rules {
		if r.Expr == "nothing" || r.Alert == generated.MissingAlert {
			continue
		}
		one := rulefmt.Rule{Record: r.Record, Alert: r.Alert, Expr: r.Expr, For: model.Duration(r.For), KeepFiringFor: model.Duration(r.KeepFiringFor)}
		if r.Record != "" {
			records++
			one.Labels = map[string]string{}
			for _, l := range r.Labels {
				one.Labels[l.Name] = l.Value
			}
		}
		out = append(out, one)
	}
	if records == 0 || len(out) == records {
		t.Fatalf("%d records and %d alerts found, expected some of each", records, len(out)-records)
	}
	return out
}

// writeRules writes a rule file with one group.
func writeRules(t *testing.T, interval time.Duration, all []rulefmt.Rule) (file string) {
	t.Helper()
	text, err := yaml.Marshal(rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{{Name: "contend", Interval: model.Duration(interval), Rules: all}}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// server is a Prometheus server without its network and its clock.
type server struct {
	db    *tsdb.DB
	group *rules.Group
	// active is when each alert of each job was: the state after each evaluation.
	active map[alertOf][]detect.Span
}

// newServer starts a server with the settings that it has by default, but that it
// evaluates rules concurrently where none needs the other (--enable-feature=concurrent-rule-eval),
// which large fleets are told to do; promtool evaluates one after the other.
func newServer(t *testing.T, interval time.Duration, ruleFile string) *server {
	t.Helper()
	opts := tsdb.DefaultOptions()
	opts.MinBlockDuration = (24 * time.Hour).Milliseconds() // longer than any story: none is cut in two
	opts.MaxBlockDuration = opts.MinBlockDuration
	opts.RetentionDuration = 0
	opts.WALSegmentSize = -1 // no log: it does not outlive the test
	db, err := tsdb.Open(t.TempDir(), nil, nil, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples:               50_000_000,
		Timeout:                  time.Hour,
		LookbackDelta:            5 * time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		Parser:                   parser.NewParser(parser.Options{}),
	})
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	groups, errs := rules.NewManager(&rules.ManagerOptions{
		Context:      context.Background(),
		QueryFunc:    rules.EngineQueryFunc(engine, db),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		AppendableV2: db,
		Queryable:    db,

		ConcurrentEvalsEnabled: true,
		MaxConcurrentEvals:     4, // the server's default
	}).LoadGroups(interval, labels.EmptyLabels(), "", nil, false, ruleFile)
	if len(errs) > 0 || len(groups) != 1 {
		t.Fatalf("%d groups of rules were read, expected one: %v", len(groups), errs)
	}
	s := &server{db: db, active: map[alertOf][]detect.Span{}}
	for _, s.group = range groups {
	}
	return s
}

// run lives from start to end: at each step what was scraped since the last
// comes in, and the rules are evaluated.
func (s *server) run(t *testing.T, scraped []memory.Column, start, end time.Time, step time.Duration) {
	t.Helper()
	ctx := context.Background()
	next := make([]int, len(scraped)) // of each series: the first sample that has not come
	refs := make([]storage.SeriesRef, len(scraped))
	for at := start; !at.After(end); at = at.Add(step) {
		app := s.db.AppenderV2(ctx)
		for i, c := range scraped {
			for ; next[i] < len(c.T) && c.T[next[i]] <= at.UnixMilli(); next[i]++ {
				var err error
				if refs[i], err = app.Append(refs[i], c.Labels, 0, c.T[next[i]], c.V[next[i]], nil, nil, storage.AOptions{}); err != nil {
					t.Fatalf("%s: %v", c.Labels, err)
				}
			}
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
		s.group.Eval(ctx, at)
		for _, rule := range s.group.Rules() {
			if err := rule.LastError(); err != nil {
				t.Fatalf("%s at %s: %v", rule.Name(), at.Sub(start), err)
			}
		}
		for _, rule := range s.group.AlertingRules() {
			s.observe(rule, at)
		}
	}
}

// observe adds what a rule's alerts are after its evaluation.
func (s *server) observe(rule *rules.AlertingRule, at time.Time) {
	seen := map[alertOf]bool{}
	rule.ForEachActiveAlert(func(a *rules.Alert) {
		of := alertOf{rule.Name(), a.Labels.Get(model.JobLabel)}
		seen[of] = true
		spans := s.active[of]
		if n := len(spans); n == 0 || !spans[n-1].Active.Equal(a.ActiveAt) {
			s.active[of] = append(spans, detect.Span{Active: a.ActiveAt})
		}
		last := &s.active[of][len(s.active[of])-1]
		last.Fired, last.Resolved = a.FiredAt, a.ResolvedAt
	})
	// A pending alert that has no value is forgotten.
	for of, spans := range s.active {
		if last := &spans[len(spans)-1]; of.alert == rule.Name() && !seen[of] && last.Resolved.IsZero() {
			last.Resolved = at
		}
	}
}

// fired are the times that alerts fired.
func (s *server) fired() map[alertOf][]detect.Span {
	out := map[alertOf][]detect.Span{}
	for of, spans := range s.active {
		for _, span := range spans {
			if !span.Fired.IsZero() {
				out[of] = append(out[of], span)
			}
		}
	}
	return out
}

// onlyServers are the records by which a server's work is spared; contend comes to the
// same conditions and medians without them, and those are compared.
const onlyServers = generated.Holds + "|" + generated.LooksLike + "|" + generated.Suspect + "(:.+)?|contend:.+:sampled"

// points are the samples of the database by series, without markers.
func (s *server) points(t *testing.T) map[string][]promql.FPoint {
	t.Helper()
	head := s.db.Head()
	q, err := s.db.Querier(head.MinTime(), head.MaxTime())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	out := map[string][]promql.FPoint{}
	found := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, "contend:.+"),
		labels.MustNewMatcher(labels.MatchNotRegexp, model.MetricNameLabel, onlyServers))
	for found.Next() {
		one := found.At()
		var points []promql.FPoint
		it := one.Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			if kind != chunkenc.ValFloat {
				t.Fatalf("%s has a sample that is no number", one.Labels())
			}
			if at, v := it.At(); !value.IsStaleNaN(v) {
				points = append(points, promql.FPoint{T: at, F: v})
			}
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		if len(points) > 0 {
			out[one.Labels().String()] = points
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// pointsOf are those of contend's store until end: the marker after a last
// sample may be later.
func pointsOf(store *memory.Store, end time.Time) map[string][]promql.FPoint {
	out := map[string][]promql.FPoint{}
	for _, c := range store.All() {
		var points []promql.FPoint
		for i, at := range c.T {
			if !value.IsStaleNaN(c.V[i]) && at <= end.UnixMilli() {
				points = append(points, promql.FPoint{T: at, F: c.V[i]})
			}
		}
		if len(points) > 0 {
			out[c.Labels.String()] = points
		}
	}
	return out
}

// keys are those of both maps.
func keys[K comparable, V any](a, b map[K]V) map[K]bool {
	out := map[K]bool{}
	for k := range maps.Keys(a) {
		out[k] = true
	}
	for k := range maps.Keys(b) {
		out[k] = true
	}
	return out
}

// difference says where two series first differ; "" where they do not.
func difference(contend, prometheus []promql.FPoint, start time.Time) string {
	for i := range max(len(contend), len(prometheus)) {
		switch {
		case i == len(contend):
			return fmt.Sprintf("at %s contend has no value any more, Prometheus has %v", since(prometheus[i].T, start), prometheus[i].F)
		case i == len(prometheus):
			return fmt.Sprintf("at %s contend has %v, Prometheus no value any more", since(contend[i].T, start), contend[i].F)
		case contend[i].T != prometheus[i].T:
			return fmt.Sprintf("the next value is at %s for contend, at %s for Prometheus", since(contend[i].T, start), since(prometheus[i].T, start))
		case !same(contend[i].F, prometheus[i].F):
			return fmt.Sprintf("at %s contend has %v, Prometheus %v", since(contend[i].T, start), contend[i].F, prometheus[i].F)
		}
	}
	return ""
}

func since(ms int64, start time.Time) time.Duration { return time.UnixMilli(ms).Sub(start) }

// same is equality of NaN too, and up to the rounding of sums: a server adds
// up series in another order than contend's store has them.
func same(a, b float64) bool {
	const rounding = 1e-9
	return a == b || a != a && b != b || max(a-b, b-a) <= rounding*max(1, a, -a)
}
