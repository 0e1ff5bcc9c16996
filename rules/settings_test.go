package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect/all"
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
			s, err := rules.ParseSetting(test.setting)
			if err != nil {
				t.Fatal(err)
			}
			g := canonical(t, quarter, rules.Options{Settings: []rules.Setting{s}})
			holds, rule := find(g, s.Alert)
			if got := test.changed(holds, rule); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for i := range g.Rules {
				if name := g.Rules[i].Alert; name != "" && name != s.Alert && g.Rules[i].For != usual.Rules[i].For {
					t.Errorf("%s waits for %s, was %s", name, g.Rules[i].For, usual.Rules[i].For)
				}
			}
			text, err := rules.Tests(g, "rules.yaml", quarter, []rules.Setting{s}, header)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), `alertname="`+s.Alert+`"`) {
				t.Errorf("the stories of %s are for other thresholds", s.Alert)
			}
		})
	}
	// A number stands wherever the condition has it.
	holds, _ := find(canonical(t, quarter, rules.Options{Settings: []rules.Setting{{Alert: "ContendHerd", Name: "factor", Value: "3.5"}}}), "ContendHerd")
	if n := strings.Count(holds.Expr, "3.5 * contend:arrivals"); n != 3 {
		t.Errorf("the factor stands in %d places, want 3:\n%s", n, holds.Expr)
	}
}

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ContendHerd", "ContendHerd=2", "ContendHerd.=2", ".factor=2", "ContendHerd.factor="} {
		if _, err := rules.ParseSetting(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	for text, want := range map[string]string{
		"ContendHeard.factor=2":        `unknown alert "ContendHeard"; expected one of ContendHerd, `,
		"ContendHerd.factr=2":          `expected one of for, keep_firing_for, severity, factor, requests, saw "factr"`,
		"ContendHerd.factor=-1":        `expected a number that is not below 0, saw "-1"`,
		"ContendHerd.factor=NaN":       `expected a number that is not below 0, saw "NaN"`,
		"ContendHerd.factor=1e300":     `expected a number that is not below 0, saw "1e300"`,
		"ContendHerd.factor=2) or (up": `expected a number`,
		"ContendHerd.for=soon":         `expected a duration`,
		"ContendHerd.severity=high":    `expected page, ticket or info, saw "high"`,
	} {
		s, err := rules.ParseSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := rules.CheckSettings(all.Detectors(), []rules.Setting{s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
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
		if r.Labels[0].Value == rules.Page {
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
