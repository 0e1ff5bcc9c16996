package crosscheck

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	generated "github.com/contend/contend/rules"
	"github.com/contend/contend/rules/rulestest"
)

// BenchmarkCost measures an evaluation of the generated group as BenchmarkCost of
// package rules does, in the code of the Prometheus that this module requires, which
// is years ahead of Debian's: one rule after the other, as is usual, and with
// the server's --enable-feature=concurrent-rule-eval.
//
//	cd detect/testdata/crosscheck && go test -run '^$' -bench Cost -benchtime 8x -v
func BenchmarkCost(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(75)) // a server's own default
	for _, c := range []struct {
		name string
		sick bool
	}{{"well", false}, {"sick", true}} {
		db, f := filled(b)
		for _, concurrent := range []int64{0, 4} { // the server's default where it is on
			name := c.name + ", one after the other"
			if concurrent > 0 {
				name = c.name + ", concurrent"
			}
			b.Run(name, func(b *testing.B) {
				if c.sick && f.Sick.IsZero() {
					f.Sick = f.Now
				}
				group := groupOf(b, f, db, concurrent)
				for range 2 { // windows are full of samples then, of which none came before
					evaluate(b, f, db, group)
				}
				var clock, cpu time.Duration
				for b.Loop() {
					c1, c2 := evaluate(b, f, db, group)
					clock, cpu = clock+c1, cpu+c2
				}
				n := float64(b.N)
				b.ReportMetric(0, "ns/op") // samples come in it too
				b.ReportMetric(1e3*clock.Seconds()/n, "ms/evaluation")
				b.ReportMetric(1e3*cpu.Seconds()/n, "cpu-ms/evaluation")
				b.ReportMetric(1e6*cpu.Seconds()/n/rulestest.Instances, "cpu-µs/instance")
			})
		}
	}
}

// filled is a database with all of a fleet's series.
func filled(b *testing.B) (*tsdb.DB, *rulestest.Fleet) {
	b.Helper()
	db, err := tsdb.Open(b.TempDir(), nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	f := rulestest.New(time.Unix(1_800_000_000, 0))
	columns, err := f.Columns(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	const slice = 10 * time.Minute // the database takes no sample that is an hour older than its newest
	for from := f.Start; !from.After(f.Now); from = from.Add(slice) {
		for n := range rulestest.Instances {
			app := db.AppenderV2(b.Context())
			for _, c := range columns {
				first, _ := slices.BinarySearch(c.T, from.UnixMilli())
				end, _ := slices.BinarySearch(c.T, from.Add(slice).UnixMilli())
				lset := of(c.Labels, n)
				ref := storage.SeriesRef(0)
				for i := first; i < end && c.T[i] <= f.Now.UnixMilli(); i++ { // a stale marker may come after it
					if ref, err = app.Append(ref, lset, 0, c.T[i], c.V[i], nil, nil, storage.AOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := app.Commit(); err != nil {
				b.Fatal(err)
			}
		}
	}
	return db, f
}

// of are the labels of the n-th instance.
func of(l labels.Labels, n int) labels.Labels {
	job, instance := rulestest.Name(n)
	return labels.NewBuilder(l).Set(model.JobLabel, job).Set(model.InstanceLabel, instance).Labels()
}

// groupOf is the group of the rules for what the fleet has.
func groupOf(b *testing.B, f *rulestest.Fleet, db *tsdb.DB, concurrent int64) *rules.Group {
	b.Helper()
	g, err := f.Group(b.Context(), f.Raw)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "contend.rules.yaml")
	if err := os.WriteFile(file, generated.Encode(g, generated.Prometheus, generated.Header{Version: "dev", Command: "contend rules generate"}), 0o600); err != nil {
		b.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 2 * time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
	})
	b.Cleanup(func() { engine.Close() })
	groups, errs := rules.NewManager(&rules.ManagerOptions{
		Context: context.Background(), QueryFunc: rules.EngineQueryFunc(engine, db),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		AppendableV2: db, Queryable: db,
		ConcurrentEvalsEnabled: concurrent > 0, MaxConcurrentEvals: concurrent,
	}).LoadGroups(rulestest.Interval, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 || len(groups) != 1 {
		b.Fatalf("%d groups of rules were read, expected one: %v", len(groups), errs)
	}
	for _, group := range groups {
		return group
	}
	return nil
}

// evaluate takes the next scrape of all instances in, and then evaluates the
// group: its time on the clock and of CPU.
func evaluate(b *testing.B, f *rulestest.Fleet, db *tsdb.DB, group *rules.Group) (clock, cpu time.Duration) {
	b.Helper()
	f.Now = f.Now.Add(rulestest.Interval)
	samples := f.Samples(f.Now)
	app := db.AppenderV2(b.Context())
	for n := range rulestest.Instances {
		for _, s := range samples {
			if _, err := app.Append(0, of(s.Labels, n), 0, f.Now.UnixMilli(), s.Value, nil, nil, storage.AOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		b.Fatal(err)
	}
	used, begin := cpuTime(b), time.Now()
	group.Eval(b.Context(), f.Now)
	clock, cpu = time.Since(begin), cpuTime(b)-used
	for _, r := range group.Rules() {
		if err := r.LastError(); err != nil {
			b.Fatalf("%s: %v", r.Name(), err)
		}
	}
	return clock, cpu
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
