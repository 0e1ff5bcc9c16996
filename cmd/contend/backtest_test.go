package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contend/contend/rules/backtest"
)

// backtested runs contend rules backtest and returns its exit code too.
func backtested(args ...string) (stdout, stderr string, code int) {
	cmd := backtestCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	err := cmd.Execute()
	var o *outcome
	switch {
	case errors.As(err, &o):
		code = o.code
		if o.err != nil {
			fmt.Fprintln(&errs, o.err)
		}
	case err != nil:
		code = exitUsage
		fmt.Fprintln(&errs, err)
	}
	return out.String(), errs.String(), code
}

func TestBacktestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Half an hour each 15 s; requests pile up for five minutes of it.
	var om strings.Builder
	om.WriteString("# TYPE up gauge\n")
	const start = 1_790_000_010
	for i := range 120 {
		fmt.Fprintf(&om, "up{job=\"a\",instance=\"1\"} 1 %d\n", start+15*i)
	}
	om.WriteString("# TYPE waiting gauge\n")
	for i := range 120 {
		waiting := 1
		if i >= 40 && i < 60 {
			waiting = 50
		}
		fmt.Fprintf(&om, "waiting{job=\"a\",instance=\"1\"} %d %d\n", waiting, start+15*i)
	}
	om.WriteString("# EOF\n")
	series := write("series.om", om.String())
	rules := write("rules.yaml", `
groups:
  - name: g
    rules:
      - {record: "job:waiting", expr: "sum by (job) (waiting)"}
      - {alert: Waiting, expr: "job:waiting > 10", for: 1m, labels: {severity: page}}
      - {alert: Down, expr: "up == 0"}
      - {alert: Other, expr: "other > 0"}
`)
	bad := write("bad.yaml", "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: sum(\n")
	for _, tt := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"text", []string{series, "--rules", rules}, exitOK, "Waiting: fired once, for 4m in all", ""},
		{"no such series", []string{series, "--rules", rules}, exitOK, "Other: could not fire: no such series\n  nothing matches other", ""},
		{"the condition is false", []string{series, "--rules", rules}, exitOK, "Down: never fired: its condition was false", ""},
		{"not too often", []string{series, "--rules", rules, "--fail-if", "Waiting>1/d"}, exitOK, "paged once", ""},
		{"too often", []string{series, "--rules", rules, "--fail-if", "Waiting>0/d"}, exitFound, "paged once", "Waiting fired once in 29m45s, which is Waiting>0/d"},
		{"junit", []string{series, "--rules", rules, "--fail-if", "pages>0", "-o", "junit"}, exitFound, `<testsuite name="contend rules backtest" tests="4" failures="1" errors="0" skipped="1"`, "somebody is paged once"},
		{"the last minutes", []string{series, "--rules", rules, "--since", "5m"}, exitOK, "nobody was paged", ""},
		{"a bad rule file", []string{series, "--rules", bad}, exitFailed, "", `bad.yaml:5: group "g", rule "A": could not parse expression: 1:5: parse error: unclosed left parenthesis`},
		{"no rule file", []string{series, "--rules", filepath.Join(dir, "none")}, exitFailed, "", "no such file or directory"},
		{"no input", []string{filepath.Join(dir, "none"), "--rules", rules}, exitFailed, "", "expected series to replay rules over"},
		{"no series", []string{bad, "--rules", rules}, exitFailed, "", "expected series to replay rules over"},
		{"no known metric", []string{series, "--since", "1m"}, exitFailed, "", "looked for"},
		{"neither", []string{"--rules", rules}, exitUsage, "", "expected a bundle or --prometheus URL, saw neither"},
		{"both", []string{series, "--prometheus", "http://localhost:9090"}, exitUsage, "", "expected a bundle or --prometheus URL, saw both"},
		{"another alert", []string{series, "--rules", rules, "--fail-if", "Wait>1"}, exitUsage, "", `expected an alert of the rules, saw "Wait"; the closest: `},
		{"no limit", []string{series, "--rules", rules, "--fail-if", "Waiting"}, exitUsage, "", "such as ContendInflightCPU>2/d"},
		{"another format", []string{series, "-o", "html"}, exitUsage, "", `unknown output "html"; expected text, json, junit`},
		{"settings of other rules", []string{series, "--rules", rules, "--set", "ContendHerd.for=1m"}, exitUsage, "", "not with --rules"},
	} {
		stdout, stderr, code := backtested(tt.args...)
		if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d, want %d; stdout %s; stderr %s", tt.name, code, tt.code, stdout, stderr)
		}
	}
	stdout, _, _ := backtested(series, "--rules", rules, "-o", "json")
	var r backtest.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if r.Schema != "contend.backtest/v1" || len(r.Alerts) != 3 || len(r.Alerts[0].Firings) != 1 || fmt.Sprint(r.NoSeries) != "[other]" {
		t.Errorf("the result is %s", stdout)
	}
}
