package dashboards_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/dashboards"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/rules"
)

// bundle is the demo's recorded incident.
const bundle = "../demo/scenarios/incident/bundle"

// absent are the series that the incident does not have, with the reason. Their
// queries run on stand-ins: the values of requests in flight by another name.
var absent = map[string]string{
	"contend:cpu_throttled":            "the demo's tasks run in no container with a quota",
	"contend:dependency_wait":          "the incident calls no dependency",
	"contend:dependency_wait:baseline": "the incident calls no dependency",
	"contend:health_timeout":           "the demo's health checks export their latency alone",
	"contend:pool_use":                 "the incident uses no pool",
	"contend:pool_wait":                "the incident uses no pool",
}

// TestIncident runs every query of every panel and annotation on the recorded
// incident: each has data, and none matches many to many.
func TestIncident(t *testing.T) {
	t.Parallel()
	b := ingest.Load(t.Context(), []string{bundle}, ingest.Options{})
	b.ReadSeries(t.Context(), ingest.SeriesOptions{})
	for _, f := range b.Failures {
		t.Errorf("%s: %v", f.Name, f.Err)
	}
	if b.Series == nil {
		t.Fatalf("expected series in %s, saw none; contend demo run incident records it", bundle)
	}
	c := b.Series
	addAlerts(t, c)
	standIn, err := c.Store.Range(t.Context(), "contend:inflight * 1", c.Start, c.End, c.Timing.Interval)
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range absent {
		if len(c.Store.Columns(name)) > 0 {
			t.Errorf("%s is there, and expected not to be: %s", name, reason)
		}
		c.Store.AppendMatrix(name, standIn, c.Timing.Interval)
	}
	instances := c.Instances["gateway"]
	if len(instances) == 0 {
		t.Fatalf("expected the job gateway, saw %q", c.Jobs)
	}
	values := map[string]string{
		"job": ".+", "instance": ".+", "worst": "5", "worst_instance": instances[0],
		"__range":    model.Duration(c.End.Sub(c.Start)).String(),
		"__interval": model.Duration(c.Timing.Interval).String(),
	}
	run := func(where, expr string, data bool) {
		m, err := c.Store.Range(t.Context(), fill(expr, values), c.Start, c.End, c.Timing.Interval)
		if err != nil {
			t.Errorf("%s: %s: %v", where, expr, err)
			return
		}
		if (len(m) > 0) != data {
			t.Errorf("%s: saw data: %v, expected it: %v: %s", where, len(m) > 0, data, expr)
		}
	}
	for _, f := range boards(t, dashboards.Options{Timing: c.Timing, Path: standard.Path}) {
		d := read(t, f)
		for _, p := range d.all() {
			for _, q := range p.Targets {
				where := f.Name + ": " + p.Title
				if !strings.Contains(q.LegendFormat, " unless ") {
					run(where, q.Expr, true)
					continue
				}
				// A limit for want of a series, which the incident and the stand-ins have.
				run(where, q.Expr, false)
				run(where, strings.ReplaceAll(q.Expr, " unless contend:", " unless gone:"), true)
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				run(f.Name+": variable "+v.Name, inner.FindStringSubmatch(v.Query)[1], true)
			}
		}
		for _, a := range d.Annotations.List {
			// A forecast warns before an incident, of a load that has risen for an hour.
			run(f.Name+": annotation "+a.Name, a.Expr, a.Name != "forecast")
		}
	}
}

// addAlerts adds what a Prometheus server records of the generated alerts: for
// which instances their conditions hold, and, without their waiting, their states.
func addAlerts(t *testing.T, c *series.Canonical) {
	t.Helper()
	alerts := map[string]promql.Matrix{} // by record
	for _, d := range all.Detectors() {
		for _, s := range d.Signals {
			for _, of := range [...]struct{ record, form, label string }{
				{rules.Holds, "%s", "alert"}, {"ALERTS", "count by (job) (%s) > 0", "alertname"},
			} {
				expr, err := c.Timing.Expand(fmt.Sprintf(of.form, s.Condition()))
				if err != nil {
					t.Fatal(err)
				}
				m, err := c.Store.Range(t.Context(), expr, c.Start, c.End, c.Timing.Interval)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range m {
					lset := labels.NewBuilder(x.Metric).Set(of.label, s.Alert)
					if of.label == "alert" {
						alerts[of.record] = append(alerts[of.record], promql.Series{Metric: lset.Labels(), Floats: x.Floats})
						continue
					}
					for _, state := range [...]string{"pending", "firing"} {
						alerts[of.record] = append(alerts[of.record], promql.Series{Metric: lset.Set("alertstate", state).Labels(), Floats: x.Floats})
					}
				}
			}
		}
	}
	if len(alerts) != 2 {
		t.Fatal("no alert's condition holds in the incident")
	}
	for record, m := range alerts {
		c.Store.AppendMatrix(record, m, c.Timing.Interval)
	}
}
