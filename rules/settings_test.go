package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/rules"
)

func find(g *rules.Group, alert string) (holds, rule *rules.Rule) {
	for i := range g.Rules {
		if g.Rules[i].Alert == alert {
			return &g.Rules[i-1], &g.Rules[i]
		}
	}
	return nil, nil
}

// TestSettings: each kind of setting changes what it names, and nothing else.
func TestSettings(t *testing.T) {
	t.Parallel()
	usual := canonical(t, quarter, rules.Options{})
	for _, test := range []struct {
		setting string
		changed func(holds, rule *rules.Rule) string
		want    string
	}{
		{"ContendInflightCPU.for=1m", func(_, r *rules.Rule) string { return r.For.String() }, "1m0s"},
		{"ContendInflightCPU.for=8x,5m", func(_, r *rules.Rule) string { return r.For.String() }, "5m0s"},
		{"ContendInflightCPU.for=0s", func(_, r *rules.Rule) string { return r.For.String() }, "0s"},
		{"ContendHerd.keep_firing_for=10m", func(_, r *rules.Rule) string { return r.KeepFiringFor.String() }, "10m0s"},
		{"ContendHerd.severity=page", func(_, r *rules.Rule) string { return r.Labels[0].Value }, "page"},
		{"ContendInflightCPU.severity=info", func(_, r *rules.Rule) string { return r.Labels[0].Value }, "info"},
		{"ContendHerd.requests=60", func(h, _ *rules.Rule) string { return h.Comment }, "--set ContendHerd.factor=2, requests=60"},
	} {
		t.Run(test.setting, func(t *testing.T) {
			t.Parallel()
			s, err := detect.ParseSetting(test.setting)
			if err != nil {
				t.Fatal(err)
			}
			g := canonical(t, quarter, rules.Options{Settings: []detect.Setting{s}})
			holds, rule := find(g, s.Alert)
			if got := test.changed(holds, rule); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for i := range g.Rules {
				if name := g.Rules[i].Alert; name != "" && name != s.Alert && g.Rules[i].For != usual.Rules[i].For {
					t.Errorf("%s waits for %s, was %s", name, g.Rules[i].For, usual.Rules[i].For)
				}
			}
			text, err := rules.Tests(g, "rules.yaml", quarter, []detect.Setting{s}, header)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), `alertname="`+s.Alert+`"`) {
				t.Errorf("the stories of %s are for other thresholds", s.Alert)
			}
		})
	}
	// A number stands wherever the condition has it.
	holds, _ := find(canonical(t, quarter, rules.Options{Settings: []detect.Setting{{Alert: "ContendHerd", Name: "factor", Value: "3.5"}}}), "ContendHerd")
	if n := strings.Count(holds.Expr, "3.5 * contend:arrivals"); n != 3 {
		t.Errorf("the factor stands in %d places, want 3:\n%s", n, holds.Expr)
	}
}

func TestLabelsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"job", "severity", "a-b", "__x", "", "é"} {
		if rules.CheckLabel(name) == nil {
			t.Errorf("label %q was taken", name)
		}
	}
	if err := rules.CheckLabel("team"); err != nil {
		t.Error(err)
	}
}

// TestPages: in-flight per CPU and health checks page, and nothing else does.
func TestPages(t *testing.T) {
	t.Parallel()
	g := canonical(t, quarter, rules.Options{Labels: []rules.Pair{{Name: "team", Value: "shop"}}})
	var pages []string
	for _, r := range g.Rules {
		if r.Alert == "" {
			continue
		}
		if r.Labels[0].Value == detect.AlertPage {
			pages = append(pages, r.Alert)
		}
		if !slices.Contains(r.Labels, rules.Pair{Name: "team", Value: "shop"}) {
			t.Errorf("%s has no label team", r.Alert)
		}
		var have []string
		for _, a := range r.Annotations {
			have = append(have, a.Name)
			if a.Value == "" {
				t.Errorf("%s: %s is empty", r.Alert, a.Name)
			}
		}
		if got := strings.Join(have, " "); got != "summary description find runbook_url" {
			t.Errorf("%s has the annotations %s", r.Alert, got)
		}
		if r.KeepFiringFor == 0 {
			t.Errorf("%s has no keep_firing_for", r.Alert)
		}
	}
	if got := strings.Join(pages, " "); got != "ContendHealthCheckSlow ContendHealthCheckFailing ContendInflightCPU" {
		t.Errorf("these page: %s", got)
	}
	golden(t, "testdata/alertmanager.yaml", rules.Alertmanager(g, header))
}
