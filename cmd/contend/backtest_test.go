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
	two := write("two.yaml", `
groups:
  - name: g
    rules:
      - {alert: Waiting, expr: "sum(waiting) > 10", for: 1m, labels: {severity: page}}
      - {alert: Waiting, expr: "sum(waiting) > 40", labels: {severity: ticket}}
      - {alert: Ahead, expr: "waiting offset -5m > 10", labels: {severity: critical}}
`)
	names := write("names.yaml", `
groups:
  - {name: g, rules: [{alert: Disk full, expr: waiting > 10}]}
  - {name: h, interval: 10h, rules: [{alert: Rare, expr: waiting > 0}]}
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
		{"a limit on what has no series", []string{series, "--rules", rules, "--fail-if", "Other>1/d"}, exitFailed, "paged once", "Other>1/d is not known: Other: no such series: other"},
		{"and one that is exceeded", []string{series, "--rules", rules, "--fail-if", "Other>1/d", "--fail-if", "Waiting>0"}, exitFailed, "paged once", "Waiting fired once in 29m45s, which is Waiting>0"},
		{"a limit on what is false", []string{series, "--rules", rules, "--fail-if", "Down>0"}, exitOK, "paged once", ""},
		{"a limit on what is not replayed", []string{series, "--rules", two, "--fail-if", "Ahead>0"}, exitFailed, "Ahead: not replayed", "Ahead>0 is not known: Ahead: waiting reads 5m into the future"},
		{"pages of what is not replayed", []string{series, "--rules", two, "--fail-if", "pages>1"}, exitFailed, "", "pages>1 is not known: Ahead: "},
		{"one of two", []string{series, "--rules", two, "--fail-if", `Waiting{severity="ticket"}>0`}, exitFound, `Waiting{severity="ticket"}: fired once`, `Waiting{severity="ticket"} fired once in 29m45s`},
		{"a name of words", []string{series, "--rules", names, "--fail-if", "Disk full>0/d"}, exitFound, "Disk full: fired once", "Disk full fired once in 29m45s, which is Disk full>0/d"},
		{"a limit on what is not evaluated", []string{series, "--rules", names, "--fail-if", "Rare>1/d"}, exitFailed, "Rare: not evaluated: its interval of 10h is longer than the window\n", "Rare>1/d is not known: Rare: not evaluated: "},
		{"no evaluation at all", []string{series, "--rules", rules, "--interval", "10h", "--fail-if", "Down>0"}, exitFailed, "Down: not evaluated: its interval of 10h", "Down>0 is not known: Down: not evaluated: "},
		{"neither of two", []string{series, "--rules", two, "--fail-if", `Waiting{severity="info"}>0`}, exitUsage, "", `saw Waiting with other labels only: {severity="page"}, {severity="ticket"}`},
		{"without a job", []string{series, "--rules", two}, exitOK, "grouped by job, without one by alertname)", ""},
		{"by severity", []string{series, "--rules", rules, "--group-by", "severity,job"}, exitOK, "grouped by severity, job)\n  2026-09-21T14:24:30Z  for 4m  {job=\"a\", severity=\"page\"}: Waiting", ""},
		{"by no label", []string{series, "--rules", rules, "--group-by", "..."}, exitUsage, "", `expected names of labels such as cluster,alertname, saw "..."`},
		{"a faster clock", []string{series, "--rules", rules, "--clock-factor", "60"}, exitOK, "note: a sample stands for the present for 5s (look-back), not for 5m as by default", ""},
		{"a server's look-back", []string{series, "--rules", rules, "--lookback-delta", "2m"}, exitOK, "for 2m (look-back)", ""},
		{"the usual look-back", []string{series, "--rules", rules, "--lookback-delta", "5m"}, exitOK, "paged once (severity page or critical, grouped by job)", ""},
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

// TestComplainEach holds that each error of a rule file has a line, and an error around others one.
func TestComplainEach(t *testing.T) {
	t.Parallel()
	a, b := errors.New("x.yaml:1: a"), errors.New("x.yaml:2: b\nc\x1b[1m")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{a, "contend: x.yaml:1: a\n"},
		{errors.Join(a, b), "contend: x.yaml:1: a\ncontend: x.yaml:2: b c\\x1b[1m\n"},
		{errors.Join(a, errors.Join(b, a)), "contend: x.yaml:1: a\ncontend: x.yaml:2: b c\\x1b[1m\ncontend: x.yaml:1: a\n"},
		{fmt.Errorf("both: %w", errors.Join(a, a)), "contend: both: x.yaml:1: a x.yaml:1: a\n"},
		{fmt.Errorf("%w, and %w", a, a), "contend: x.yaml:1: a, and x.yaml:1: a\n"},
	} {
		var stderr bytes.Buffer
		if complainEach(&stderr, tt.err); stderr.String() != tt.want {
			t.Errorf("%q, want %q", &stderr, tt.want)
		}
	}
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("groups:\n- name: g\n  interval: x\n- name: h\n  rules:\n  - {alert: A, expr: up, for: y}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	code := run([]string{"rules", "backtest", "--rules", path, "none"}, nil, &bytes.Buffer{}, &stderr)
	lines := strings.Split(stderr.String(), "\n")
	if code != exitFailed || len(lines) != 3 || !strings.HasPrefix(lines[0], "contend: "+path+":3: ") || !strings.HasPrefix(lines[1], "contend: "+path+":6: ") {
		t.Errorf("exit code %d, stderr %s", code, &stderr)
	}
}
