package series

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseConfig(t *testing.T) {
	t.Parallel()
	c, err := ParseConfig([]byte(`
selector: job="gateway"
health_routes: /internal/alive
signals:
  inflight: sum by (job, instance) (gateway_open_calls)
  cpu: rate(busy_seconds[{{4x,1m}}])
  cpu_limit: 2
  health_timeout: 0.5
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"inflight": "sum by (job, instance) (gateway_open_calls)", "cpu": "rate(busy_seconds[{{4x,1m}}])", "cpu_limit": "2", "health_timeout": "0.5",
	}
	if c.Selector != `job="gateway"` || c.HealthRoutes != "/internal/alive" || !maps.Equal(c.Signals, want) {
		t.Errorf("got %+v", c)
	}
	if c, err := ParseConfig(nil); err != nil || c.Signals != nil {
		t.Errorf("empty: got %+v, %v", c, err)
	}
	for _, test := range []struct{ text, want string }{
		{"selectr: x", `expected one of the keys selector, health_routes, signals, saw "selectr"; is it selector?`},
		{"signals: {inflght: x}", `saw "inflght"; is it inflight?`},
		{"signals: {inflight: 'sum(x'}", `1:6: parse error: unclosed left parenthesis`},
		{"signals: {inflight: 'x[5m]'}", "expected PromQL of an instant vector or a number, saw range vector"},
		{"signals: {inflight: '\"x\"'}", "saw string"},
		{"signals: {inflight: 'x[{{4z}}]'}", "in \"x[{{4z}}]\": expected a duration"},
		{"signals: {inflight: [1]}", "inflight: expected PromQL or a number, saw [1]"},
		{"signals: {inflight: .nan}", "expected PromQL or a finite number"},
		{"signals: {inflight: .inf}", "expected PromQL or a finite number of at most 1e+18"},
		{"signals: {inflight: -2e18}", "expected PromQL or a finite number of at most 1e+18"},
		{"signals: {inflight: 1, inflight: 2}", "inflight"},
		{"signals: x", "expected a mapping of signals to PromQL or numbers, saw x"},
		{"selector: job=x", `expected a selector such as job="gateway"`},
		{"selector: up", `expected a selector such as job="gateway"`},
		{"selector: 1", "selector: expected a text, saw 1"},
		{"health_routes: (", "missing closing )"},
		{"selector: job=\"x\"\nselector: job=\"y\"", "selector"},
		{"- a", "expected a YAML mapping with the keys selector, health_routes, signals"},
		{"signals: {inflight: '" + strings.Repeat("(", maxOverride) + "1'}", "expected PromQL of at most 16384 bytes"},
		{"health_routes: a)|(b", "unexpected )"},
		{"a: [b", "expected a YAML mapping with the keys selector, health_routes, signals"},
		{strings.Repeat("#", maxConfig+1), "expected a configuration of at most 1048576 bytes"},
	} {
		if c, err := ParseConfig([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.60s: got %+v, %v, want error %q", test.text, c, err, test.want)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "contend.yaml")
	if _, err := LoadConfig(file); err == nil {
		t.Error("no error of a file that is not there")
	}
	if err := os.WriteFile(file, []byte("signals: {up: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := LoadConfig(file); err != nil || c.Signals["up"] != "1" {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestParseSignalFlag(t *testing.T) {
	t.Parallel()
	name, query, err := ParseSignalFlag(`inflight = open_calls{kind="in"}`)
	if err != nil || name != "inflight" || query != `open_calls{kind="in"}` {
		t.Errorf("got %q, %q, %v", name, query, err)
	}
	for _, bad := range []string{"", "inflight", "inflight=", "=x", "inflite=x", "inflight=sum("} {
		if _, _, err := ParseSignalFlag(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("selector: job=\"x\"\nsignals:\n  inflight: sum(x)\n  cpu: 1.5\n"))
	f.Add([]byte("signals: {inflight: 'x[{{4x,1m}}]', up: .inf}"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("health_routes: (a|b)"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			return
		}
		// What is accepted can be used.
		matchers, _, err := parseSelector(c.Selector)
		if err != nil {
			t.Fatal(err)
		}
		stage := Stage{Timing: quarter, Selector: matchers, HealthRoutes: c.HealthRoutes, Present: Known()}
		for name, text := range c.Signals {
			o, err := parseOverride(Signal{Name: name}, text, stage)
			if err != nil {
				t.Fatal(err)
			}
			if o.constant == nil {
				if _, err := promQL.ParseExpr(o.query); err != nil {
					t.Errorf("%s of %q: %v", o.query, text, err)
				}
			}
		}
		for _, s := range requestSignals() {
			e, err := stage.Expression(s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := promQL.ParseExpr(e.PromQL()); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
	})
}
