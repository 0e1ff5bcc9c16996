package backtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseForms(t *testing.T) {
	t.Parallel()
	const rule = "{alert: A, expr: up == 0, for: 1m}"
	for _, tt := range []struct {
		name, text string
		groups     []string
	}{
		{"Prometheus", "groups:\n- name: g\n  rules: [" + rule + "]\n", []string{"g"}},
		{"JSON", `{"groups": [{"name": "g", "rules": [{"alert": "A", "expr": "up == 0"}]}]}`, []string{"g"}},
		{"mimirtool", "namespace: n\ngroups:\n- name: g\n  source_tenants: [a, b]\n  rules: [" + rule + "]\n", []string{"g (n)"}},
		{"Thanos", "groups:\n- name: g\n  partial_response_strategy: abort\n  rules: [" + rule + "]\n", []string{"g"}},
		{"the operator", "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: x, labels: {a: b}}\nspec:\n  groups:\n  - name: g\n    rules: [" + rule + "]\n", []string{"g (x)"}},
		{"kubectl get", "kind: List\nitems:\n- kind: PrometheusRule\n  spec: {groups: [{name: g, rules: [" + rule + "]}]}\n- kind: PrometheusRule\n  spec: {groups: [{name: h, rules: []}]}\n", []string{"g", "h"}},
		{"kubectl get of one name in two namespaces", "kind: PrometheusRuleList\nitems:\n- kind: PrometheusRule\n  metadata: {namespace: a, name: x}\n  spec: {groups: [{name: g, rules: [" + rule + "]}]}\n- kind: PrometheusRule\n  metadata: {namespace: b, name: x}\n  spec: {groups: [{name: g, rules: [" + rule + "]}]}\n", []string{"g (a/x)", "g (b/x)"}},
		{"namespaces of mimirtool", "namespace: n\ngroups: [{name: g, rules: [" + rule + "]}]\n---\nnamespace: m\ngroups: [{name: g, rules: [" + rule + "]}]\n", []string{"g (n)", "g (m)"}},
		{"several documents", "---\ngroups: [{name: g, rules: [" + rule + "]}]\n---\n---\nnamespace: n\ngroups: [{name: h, rules: [" + rule + "]}]\n", []string{"g", "h (n)"}},
		{"anchors", "groups:\n- name: g\n  rules:\n  - &a {alert: A, expr: up, labels: &l {x: y}}\n  - {alert: B, expr: up, labels: *l}\n  - *a\n", []string{"g"}},
	} {
		groups, err := Parse("x.yaml", []byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var names []string
		for _, g := range groups {
			names = append(names, g.Name+strings.TrimPrefix(g.File, "x.yaml"))
		}
		if fmt.Sprint(names) != fmt.Sprint(tt.groups) {
			t.Errorf("%s: groups %v, want %v", tt.name, names, tt.groups)
		}
		if r := groups[0].Rules[0]; r.Alert != "A" || !strings.HasPrefix(r.Expr, "up") {
			t.Errorf("%s: the first rule is %+v", tt.name, r)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	in := func(rule string) string { return "groups:\n- name: g\n  rules:\n  - " + rule + "\n" }
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", `x.yaml:1: expected groups of rules (groups: - name: …), saw none`},
		{"no groups", "groups: []\n", `x.yaml:1: expected groups of rules (groups: - name: …), saw none`},
		{"no YAML", "groups:\n  - name: [\n", `x.yaml:2: expected YAML of rules: did not find expected node content`},
		{"a text", "rules", `x.yaml:1: expected a rule file with groups, saw "rules"`},
		{"another file", "scrape_configs: []\n", `x.yaml:1: unknown field "scrape_configs" in a rule file; expected one of groups, namespace`},
		{"another kind", "kind: Deployment\nspec: {}\n", `x.yaml:1: expected kind: PrometheusRule, saw "Deployment"`},
		{"no spec", "kind: PrometheusRule\n", `x.yaml:1: expected a PrometheusRule with spec, saw none`},
		{"a list of lists", "kind: List\nitems: [{kind: List, items: []}]\n", `x.yaml:2: expected kind: PrometheusRule, saw "List"`},
		{"no list", "groups: {name: g}\n", `x.yaml:1: expected a list as groups of a rule file, saw fields`},
		{"no name", "groups:\n- rules: []\n", `x.yaml:2: expected a group with a name, saw none`},
		{"a name twice", "groups:\n- name: g\n- name: g\n", `x.yaml:3: group "g" is in the file twice; a server takes each name once`},
		{"a name twice in documents", "groups: [{name: g}]\n---\ngroups: [{name: g}]\n", `x.yaml:3: group "g" is in the file twice; a server takes each name once`},
		{"a name twice in a resource", "kind: List\nitems:\n- kind: PrometheusRule\n  metadata: {namespace: a, name: x}\n  spec: {groups: [{name: g}]}\n- kind: PrometheusRule\n  metadata: {namespace: b, name: x}\n  spec: {groups: [{name: g}, {name: g}]}\n", `x.yaml:8: group "g" is in b/x twice; a server takes each name once`},
		{"misspelt", in("alert: A\n    expr: up\n    keep_firing: 1m"), `x.yaml:6: unknown field "keep_firing" in a rule; expected one of alert, record, expr, for, keep_firing_for, labels, annotations`},
		{"a duration", in("alert: A\n    expr: up\n    for: soon"), `x.yaml:6: expected a duration such as 90s, 5m or 1d, below 292y, as for of a rule, saw "soon"`},
		{"two durations", in("alert: A\n    keep_firing_for: [1m]\n    for: 300y\n    expr: up"), "x.yaml:6: expected a duration such as 90s, 5m or 1d, below 292y, as for of a rule, saw \"300y\"\n" +
			"x.yaml:5: expected a duration such as 90s, 5m or 1d, below 292y, as keep_firing_for of a rule, saw a list"},
		{"a duration over a merged one", "groups:\n- name: g\n  rules:\n  - &a\n    alert: A\n    expr: up\n    for: 1m\n  - <<: *a\n    for: 5\n", `x.yaml:9: expected a duration such as 90s, 5m or 1d, below 292y, as for of a rule, saw "5"`},
		{"a duration of a group", "groups:\n- name: g\n  interval: soon\n", `x.yaml:3: expected a duration such as 90s, 5m or 1d, below 292y, as interval of a group, saw "soon"`},
		{"no text", in("alert: A\n    expr: [up]"), "x.yaml:5: expected YAML of rules: cannot unmarshal !!seq into string"},
		{"PromQL", in("alert: A\n    expr: sum(up"), `x.yaml:5: group "g", rule "A": could not parse expression: 1:7: parse error: unclosed left parenthesis`},
		{"PromQL on lines", in("alert: A\n    expr: |\n      up ==\n      = 1"), `x.yaml:5: group "g", rule "A": could not parse expression: 2:1: parse error: unexpected "="`},
		{"two names", in("alert: A\n    record: b\n    expr: up"), `x.yaml:5: group "g", rule "Ab": only one of 'record' and 'alert' must be set`},
		{"no name of a rule", in("expr: up"), `x.yaml:4: group "g", rule "": one of 'record' or 'alert' must be set`},
		{"no expression", in("alert: A"), `x.yaml:4: group "g", rule "A": field 'expr' must be set in rule`},
		{"for of a record", in("record: a\n    expr: up\n    for: 1m"), `x.yaml:4: group "g", rule "a": invalid field 'for' in recording rule`},
		{"a template", in("alert: A\n    expr: up\n    labels: {x: '{{ $labels.'}"), `x.yaml:6: group "g", rule "A": label "x": template: __alert_A:1: unexpected "." in operand`},
		{"a template of an annotation", in("alert: A\n    expr: up\n    annotations:\n      a: fine\n      b: '{{ if }}'"), `x.yaml:8: group "g", rule "A": annotation "b": template: __alert_A:1: missing value for if`},
		{"a label", in("alert: A\n    expr: up\n    labels: {__name__: x}"), `x.yaml:4: group "g", rule "A": invalid label name: __name__`},
	} {
		_, err := Parse("x.yaml", []byte(tt.text))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			continue
		}
		if got, want := strings.Count(err.Error(), "x.yaml:"), strings.Count(tt.want, "x.yaml:"); got != want {
			t.Errorf("%s: %d errors, want %d: %v", tt.name, got, want, err)
		}
	}
}

// TestManyRules holds that too many rules are said once, whatever the other errors.
func TestManyRules(t *testing.T) {
	t.Parallel()
	many := func(n int) []byte {
		return []byte("groups:\n- name: g\n  rules:\n  - &r {alert: A, expr: up}\n" + strings.Repeat("  - *r\n", n-1) + "- name: h\n  rules:\n  - *r\n")
	}
	if groups, err := Parse("x.yaml", many(maxRules-1)); err != nil || len(groups) != 2 {
		t.Errorf("of %d: %v", maxRules, err)
	}
	for _, n := range []int{maxRules, maxRules + 100} {
		if _, err := Parse("x.yaml", many(n)); err == nil || err.Error() != "x.yaml:4: expected at most 20000 rules, saw more" {
			t.Errorf("of %d: %.300v", n+1, err)
		}
	}
}

// TestParseHostile holds that what is made to take memory or time is refused, or read.
func TestParseHostile(t *testing.T) {
	t.Parallel()
	rule := func(expr string) string {
		return fmt.Sprintf("groups: [{name: g, rules: [{alert: A, expr: %q}]}]\n", expr)
	}
	template := func(text string) string {
		return fmt.Sprintf("groups: [{name: g, rules: [{alert: A, expr: up, labels: {l: %q}}]}]\n", text)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for _, tt := range []struct {
		name, text, want string
	}{
		{"huge", strings.Repeat("#", MaxFile+1), "expected a rule file of at most 16 MiB"},
		{"a long expression", rule(strings.Repeat("1+", maxExpr) + "1"), "expected an expression of at most 256 KiB"},
		{"deep brackets", rule(strings.Repeat("(", 50_000) + "up" + strings.Repeat(")", 50_000)), "1000 brackets in each other"},
		{"deep minus", rule(strings.Repeat("-", 100_000) + "up"), "at most 1000 operators"},
		{"brackets and signs", rule(strings.Repeat("(", maxDepth) + strings.Repeat("-", maxOperators) + "up" + strings.Repeat(")", maxDepth)), ""},
		{"aliases of aliases", bomb + "groups: *j\n", `unknown field "a"`},
		{"rules by alias", "groups: [{name: g, rules: [&r {alert: A, expr: up}" + strings.Repeat(",*r", maxRules) + "]}]\n", "expected at most 20000 rules"},
		{"a long template", template(strings.Repeat("x", maxTemplate+1)), `x.yaml:1: group "g", rule "A": label "l": expected a template of at most 16 KiB, saw 16385 bytes`},
		{"the longest template", template(strings.Repeat("x", maxTemplate)), ""},
		{"deep ifs", template(strings.Repeat("{{- if(true)}}", maxNested+1) + strings.Repeat("{{end}}", maxNested+1)), "at most 100 ifs and loops in each other"},
		{"an annotation of deep ifs", strings.Replace(template(strings.Repeat("{{ with .x}}", maxNested+1)), "labels", "annotations", 1), `annotation "l": expected a template of at most 100 ifs`},
		{"the deepest ifs", template(strings.Repeat("{{if true}}", maxNested) + strings.Repeat("{{end}}", maxNested)), ""},
		{"many ifs", template(strings.Repeat("{{if true}}{{ $value }}{{ end }}", 4*maxNested)), ""},
		{"deep lists", strings.Repeat("[", 100_000), "exceeded max depth"},
		{"many errors", "groups: [{name: g, rules: [" + strings.Repeat("{},", 1000) + "]}]\n", "and more"},
	} {
		groups, err := Parse("x.yaml", []byte(tt.text))
		switch {
		case tt.want == "" && (err != nil || len(groups) != 1):
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 10_000):
			t.Errorf("%s: %.300v, want %s", tt.name, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(walkRules))
	f.Add([]byte("kind: PrometheusRule\nspec: {groups: [{name: g, rules: [{record: a, expr: 'a @ end() offset -1m'}]}]}"))
	f.Add([]byte("groups: [{name: g, labels: {a: b}, rules: [&x {alert: A, expr: 'ALERTS', labels: {l: '{{ range 3 }}{{ end }}'}}, *x]}]"))
	f.Add([]byte("groups: [{name: g, rules: [{alert: A, expr: 'max_over_time(up[1h:1m] @ 5)', for: 5m}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		groups, err := Parse("x.yaml", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x.yaml:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		// What is read can be prepared.
		rules := compile(groups, testStep, testStep)
		link(rules)
		n := 0
		for _, u := range units(rules) {
			n += len(u.rules)
		}
		if n != len(rules) {
			t.Errorf("%d rules in units, want %d", n, len(rules))
		}
		schedule(units(rules), testStart)
	})
}
