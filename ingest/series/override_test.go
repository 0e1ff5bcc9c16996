package series

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestOverrides(t *testing.T) {
	t.Parallel()
	c := collectFleet(t, CollectOptions{Selector: `job="gateway"`, Overrides: map[string]string{
		"inflight":       "pool_busy",                         // adds up over pools
		"pool_use":       "pool_busy / 4",                     // the fullest
		"health_latency": `timeout_seconds{job="config"}`,     // another job's
		"cpu_limit":      "2",                                 // of every instance
		"latency":        "no_such_series",                    //
		"completions":    "rate(http_requests_total[{{4x}}])", // arrivals are derived of it
	}})
	got := values(t, c, c.End)
	compare(t, map[string]float64{
		`{__name__="up", instance="a", job="gateway"}`:              1,
		`{__name__="up", instance="b", job="gateway"}`:              1,
		`{__name__="inflight", instance="a", job="gateway"}`:        5,
		`{__name__="inflight_change", instance="a", job="gateway"}`: 0,
		`{__name__="completions", instance="a", job="gateway"}`:     2,
		`{__name__="arrivals", instance="a", job="gateway"}`:        2,
		`{__name__="errors", instance="a", job="gateway"}`:          0,
		`{__name__="pool_use", instance="a", job="gateway"}`:        0.75,
		`{__name__="health_latency", instance="z", job="config"}`:   2,
		`{__name__="cpu", instance="a", job="gateway"}`:             1,
		`{__name__="cpu_limit", instance="a", job="gateway"}`:       2,
		`{__name__="cpu_limit", instance="b", job="gateway"}`:       2,
		`{__name__="cpu_limit", instance="z", job="config"}`:        2,
	}, got)
	if m := match(t, c, "latency"); !strings.Contains(m.Missing, "no value from") || m.Matched != "" {
		t.Errorf("latency: %+v", m)
	}
	if m := match(t, c, "inflight"); m.Matched != "given: pool_busy" {
		t.Errorf("inflight: %+v", m)
	}
}

// TestNamelessOverride: a result without job and instance is nobody's, unless
// there is but one that it can be of.
func TestNamelessOverride(t *testing.T) {
	t.Parallel()
	const one = `
up{job="app",instance="a"} 1x20
open_calls{job="app",instance="a",pool="x"} 2x20
open_calls{job="app",instance="a",pool="y"} 3x20
want
up{} 1
`
	const pair = `up{job="app",instance="b"} 1x20` + one
	const nameless = `
http_requests_total{code="200"} 0+15x20
open_calls{pool="x"} 2x20
want
up{} 1
`
	for _, test := range []struct {
		name, story, query string
		want               map[string]float64
		missing            string
	}{
		{"one instance", one, "sum(open_calls)", map[string]float64{`{__name__="inflight", instance="a", job="app"}`: 5}, ""},
		{"one instance, by job", one, "sum by (job) (open_calls)", map[string]float64{`{__name__="inflight", instance="a", job="app"}`: 5}, ""},
		{"two", pair, "sum(open_calls)", nil, "expected a result by job and instance, such as sum by (job, instance) (…), saw {}"},
		{"two, by job", pair, "sum by (job) (open_calls)", nil, `expected a result by job and instance, such as sum by (job, instance) (…), saw {job="app"}`},
		{"two, by both", pair, "sum by (job, instance) (open_calls)", map[string]float64{`{__name__="inflight", instance="a", job="app"}`: 5}, ""},
		{"another job's metric", `calls{job="proxy",instance="p"} 4x20` + one, "sum(calls)", nil, "expected a result by job and instance, such as sum by (job, instance) (…), saw {}"},
		{"a file without these labels", nameless, "sum(open_calls)", map[string]float64{`{__name__="inflight"}`: 2}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := parseStory(t, test.story)
			c, err := Collect(t.Context(), s.store, CollectOptions{Start: epoch, End: s.end, Overrides: map[string]string{"inflight": test.query}})
			if err != nil {
				t.Fatal(err)
			}
			if m := match(t, c, "inflight"); m.Missing != test.missing {
				t.Errorf("missing %q, want %q", m.Missing, test.missing)
			}
			got := values(t, c, c.End)
			maps.DeleteFunc(got, func(key string, _ float64) bool { return !strings.Contains(key, `"inflight"`) })
			compare(t, test.want, got)
			if test.missing != "" && slices.Contains(c.Jobs, "") {
				t.Errorf("jobs %q", c.Jobs)
			}
		})
	}
}
