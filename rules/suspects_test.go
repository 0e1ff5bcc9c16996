package rules_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/rules"
)

// TestSuspects: whatever the series, conditions hold for the same instances and
// with the same values as where all of them are looked at.
func TestSuspects(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	plain, suspects := canonical(t, quarter, rules.Options{Plain: true}), canonical(t, quarter, rules.Options{})
	at := time.Unix(1_800_000_000, 0)
	held := map[string]int{}
	for seed := range uint64(6) {
		want := conditions(t, plain, anything(seed, at), at)
		got := conditions(t, suspects, anything(seed, at), at)
		for key, value := range want {
			held[key[:strings.IndexByte(key, ' ')]]++
			if got[key] != value {
				t.Errorf("seed %d: %s is %v, want %v", seed, key, got[key], value)
			}
			delete(got, key)
		}
		for key := range got {
			t.Errorf("seed %d: %s holds, and does not where all are looked at", seed, key)
		}
	}
	for _, r := range suspects.Rules {
		if r.Record == rules.Holds && held[r.Labels[0].Value] == 0 {
			t.Errorf("%s holds nowhere: nothing was compared", r.Labels[0].Value)
		}
	}
}

// anything are canonical series of 300 instances with any values, some of them
// missing, and of two whose values are chosen.
func anything(seed uint64, at time.Time) *memory.Store {
	random := rand.New(rand.NewPCG(seed, 1))
	store := memory.New()
	add := func(name string, of ...string) {
		if random.IntN(8) == 0 {
			return
		}
		const minutes = 61
		var ts []int64
		var vs []float64
		// What it was for most of the hour, and what it is for three minutes.
		before, now := math.Exp2(float64(random.IntN(14)-6)), math.Exp2(float64(random.IntN(14)-6))
		for m := minutes; m >= 0; m-- {
			ts = append(ts, at.Add(-time.Duration(m)*time.Minute).UnixMilli())
			if m > 3 {
				vs = append(vs, before)
			} else {
				vs = append(vs, now*(1+0.01*float64(3-m)))
			}
		}
		store.Append(labels.FromStrings(append(of, model.MetricNameLabel, name)...), ts, vs)
	}
	var names []string
	for _, s := range series.Signals() {
		names = append(names, s.Metric())
	}
	const jobs, instances = 30, 300
	for _, r := range series.Records() {
		if r.Sum { // of what is here
			continue
		}
		if strings.HasPrefix(r.Name, "contend:arrivals:") || r.Name == "contend:service" {
			for job := range jobs {
				add(r.Name, model.JobLabel, fmt.Sprint("job", job))
			}
			continue
		}
		names = append(names, r.Name)
	}
	for i := range instances {
		for _, name := range names {
			add(name, model.JobLabel, fmt.Sprint("job", i%jobs), model.InstanceLabel, fmt.Sprint("instance", i))
		}
	}
	// What chance does not come to: a lock that nears its end as the load grows by half, and one beside it that does not.
	for instance, chosen := range map[string]map[string][2]float64{
		"full":  {"contend:lock_use": {0.3, 0.7}, "contend:lock_wait": {0.12, 1.6}, "contend:load_before": {1, 0.67}, "contend:completions": {100, 150}},
		"spare": {"contend:lock_use": {0.3, 0.4}, "contend:lock_wait": {0.12, 0.27}, "contend:load_before": {1, 0.67}, "contend:completions": {100, 150}},
	} {
		for name, values := range chosen {
			var ts []int64
			var vs []float64
			for m := 70; m >= 0; m-- {
				ts, vs = append(ts, at.Add(-time.Duration(m)*time.Minute).UnixMilli()), append(vs, values[0])
				if m < 30 {
					vs[len(vs)-1] = values[1]
				}
			}
			store.Append(labels.FromStrings(model.MetricNameLabel, name, model.JobLabel, "lock", model.InstanceLabel, instance), ts, vs)
		}
	}
	return store
}

// conditions evaluates sums and what comes after records, in order, and returns
// the values of all conditions by alert and instance.
func conditions(t *testing.T, g *rules.Group, store *memory.Store, at time.Time) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	sum := func(name string) bool {
		return slices.ContainsFunc(series.Records(), func(r series.Record) bool { return r.Sum && r.Name == name })
	}
	for _, r := range g.Rules {
		if !sum(r.Record) && !strings.HasPrefix(r.Record, rules.Suspect) && r.Record != rules.LooksLike && r.Record != rules.Holds {
			continue
		}
		m, err := store.Range(t.Context(), r.Expr, at, at, quarter.Interval)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m {
			b := labels.NewBuilder(m[i].Metric)
			for _, l := range r.Labels {
				b.Set(l.Name, l.Value)
			}
			m[i].Metric = b.Labels()
			if r.Record == rules.Holds {
				out[m[i].Metric.Get("alert")+" "+m[i].Metric.Get(model.JobLabel)+" "+m[i].Metric.Get(model.InstanceLabel)] = m[i].Floats[0].F
			}
		}
		store.AppendMatrix(r.Record, m, quarter.Interval)
	}
	return out
}
