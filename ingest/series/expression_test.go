package series

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

var quarter = Timing{Interval: 15 * time.Second}

func TestExpression(t *testing.T) {
	t.Parallel()
	present := func(names ...string) Present { return Present{Own: sorted(names)} }
	const w = "[1m]"
	two := Signal{Name: "x", Presets: []Preset{
		{Source: "a", Expr: "sum by (job, instance) (a)"},
		{Source: "b", Expr: "sum by (job, instance) (b)"},
		{Source: "c", Expr: "sum by (job, instance) (c)", Rank: 1},
		{Source: "d", Expr: "sum by (job, instance) (d)", Part: "other"},
		{Source: "e", Expr: "contend:y + contend:z", Derived: true, Rank: 2},
	}}
	alike := Signal{Name: "x", Presets: []Preset{{Source: "a", Expr: "sum by (job, instance) (a)"}, {Source: "A", Expr: "sum by (job, instance) (a)"}}}
	least := two
	least.Smallest = true
	named := Signal{Name: "x", Presets: []Preset{{Source: "a", Metric: "(?:.+_)?busy", Not: "not_.*", Known: []string{"busy"}, Expr: "sum by (job, instance) (METRIC)"}}}
	largest := named
	largest.Largest = true
	spelling := Signal{Name: "x", Presets: []Preset{spelled("http.busy", "seconds", Preset{Expr: `sum by (job, instance) (rate(METRIC_sum{http_route!~"x"}[{{4x,1m}}])) / (sum by (job, instance) (rate(METRIC_count[{{4x,1m}}])) > 0)`})}}
	for _, test := range []struct {
		name     string
		signal   Signal
		selector string
		present  Present
		want     string
		unused   string
	}{
		{name: "nothing", signal: two, present: present("z")},
		{name: "one", signal: two, present: present("a"), want: `sum by (job, instance) (a)`},
		{name: "selector", signal: two, present: present("a"), selector: `job=~"x|y",pod!=""`,
			want: `sum by (job, instance) (a{job=~"x|y",pod!=""})`},
		{name: "equal ranks: the largest", signal: two, present: present("a", "b"),
			want: `max by (job, instance) (label_replace(sum by (job, instance) (a), "preset", "1", "", "") or label_replace(sum by (job, instance) (b), "preset", "2", "", ""))`},
		{name: "equal ranks: the smallest", signal: least, present: present("a", "b"),
			want: `min by (job, instance) (label_replace(sum by (job, instance) (a), "preset", "1", "", "") or label_replace(sum by (job, instance) (b), "preset", "2", "", ""))`},
		{name: "equal ranks that read alike", signal: alike, present: present("a"), want: `sum by (job, instance) (a)`},
		{name: "ranks", signal: two, present: present("a", "c"),
			want: `(sum by (job, instance) (a)) or on (job, instance) (sum by (job, instance) (c))`},
		{name: "parts", signal: two, present: present("c", "d"),
			want: `sum by (job, instance) (label_replace(sum by (job, instance) (c), "preset", "1", "", "") or label_replace(sum by (job, instance) (d), "preset", "2", "", ""))`},
		{name: "derived", signal: two, selector: `job="x",pod="p"`, present: Present{Own: []string{"c"}, Signals: []string{"y", "z"}},
			want: `(sum by (job, instance) (c{job="x",pod="p"})) or on (job, instance) (contend:y{job="x"} + contend:z{job="x"})`},
		{name: "derived of a signal that is not there", signal: two, present: Present{Own: []string{"c"}, Signals: []string{"y"}},
			want: `sum by (job, instance) (c)`},
		{name: "the known name first, and few others", signal: named, present: present("a_busy", "busy", "c_busy", "b_busy", "d_busy", "not_busy", "busyness"),
			want:   `(sum by (job, instance) (busy)) or on (job, instance) (sum by (job, instance) (a_busy)) or on (job, instance) (sum by (job, instance) (b_busy)) or on (job, instance) (sum by (job, instance) (c_busy))`,
			unused: "d_busy"},
		{name: "the largest of the names", signal: largest, present: present("a_busy", "busy", "not_busy"),
			want: `max by (job, instance) (label_replace(sum by (job, instance) (busy), "preset", "1", "", "") or label_replace(sum by (job, instance) (a_busy), "preset", "2", "", ""))`},
		{name: "with unit", signal: spelling, present: present("http_busy_seconds_sum", "http_busy_seconds_count"),
			want: `sum by (job, instance) (rate(http_busy_seconds_sum{http_route!~"x"}` + w + `)) / (sum by (job, instance) (rate(http_busy_seconds_count` + w + `)) > 0)`},
		{name: "without _count", signal: spelling, present: present("http_busy_seconds_sum")},
		{name: "native histogram", signal: spelling, present: present("http_busy_seconds"),
			want: `sum by (job, instance) (histogram_sum(rate(http_busy_seconds{http_route!~"x"}` + w + `))) / (sum by (job, instance) (histogram_count(rate(http_busy_seconds` + w + `))) > 0)`},
		{name: "summary with quantiles", signal: spelling, present: present("http_busy_seconds", "http_busy_seconds_sum", "http_busy_seconds_count"),
			want: `sum by (job, instance) (rate(http_busy_seconds_sum{http_route!~"x"}` + w + `)) / (sum by (job, instance) (rate(http_busy_seconds_count` + w + `)) > 0)`},
		{name: "dots", signal: spelling, present: present("http.busy_sum", "http.busy_count"), selector: `job="x"`,
			want: `sum by (job, instance) (rate({"http.route"!~"x",__name__="http.busy_sum",job="x"}` + w + `)) / (sum by (job, instance) (rate({__name__="http.busy_count",job="x"}` + w + `)) > 0)`},
		{name: "labels", selector: `job="x"`,
			signal:  Signal{Presets: []Preset{{Source: "a", Expr: `a{path!~"x",route!~"x",code=~"5.."} or a{status=~"5..",method!="x"}`}}},
			present: Present{Own: []string{"a"}, Labels: map[string][]string{"path": {"a"}, "route": {"b"}, "code": nil, "status": {"a"}}},
			want:    `a{job="x",method!="x",status=~"5.."}`},
		{name: "labels that are there", selector: `job="x"`,
			signal:  Signal{Presets: []Preset{{Source: "a", Expr: `a{path!~"x",route!~"x",code=~"5.."}`}}},
			present: Present{Own: []string{"a"}, Labels: map[string][]string{"path": {"a"}, "route": {"b"}, "code": {"a"}}},
			want:    `a{code=~"5..",job="x",path!~"x"}`},
		{name: "another job's series", selector: `job="x"`,
			signal:  Signal{Presets: []Preset{{Source: "a", Foreign: []string{"container_"}, Expr: `container_a * on (pod) group_left () up`}}},
			present: Present{Own: []string{"up"}, Foreign: []string{"container_a"}},
			want:    `container_a * on (pod) group_left () up{job="x"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			matchers, _, err := parseSelector(test.selector)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Stage{Timing: quarter, Selector: matchers, Present: test.present}.Expression(test.signal)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.PromQL(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := strings.Join(e.Unused, " "); got != test.unused {
				t.Errorf("unused %q, want %q", got, test.unused)
			}
		})
	}
}

// TestExporterWindows: what exporters say is read over windows of their own
// interval, where that is longer.
func TestExporterWindows(t *testing.T) {
	t.Parallel()
	signal := Signal{Name: "x", Presets: []Preset{
		{Source: "a", Expr: "sum by (job, instance) (rate(a[{{4x,1m}}]))"},
		{Source: "b", Rank: 1, Foreign: exporters, Expr: "sum by (job, instance) (rate(container_b[{{4x,1m}}]))"},
	}}
	for interval, window := range map[time.Duration]string{0: "1m", 10 * time.Second: "1m", 30 * time.Second: "2m", time.Minute: "4m"} {
		stage := Stage{Timing: quarter, ExporterInterval: interval, Present: Present{Own: []string{"a"}, Foreign: []string{"container_b"}}}
		e, err := stage.Expression(signal)
		want := "(sum by (job, instance) (rate(a[1m]))) or on (job, instance) (sum by (job, instance) (rate(container_b[" + window + "])))"
		if err != nil || e.Direct != want {
			t.Errorf("%s: got %s, %v, want %s", interval, e.Direct, err, want)
		}
	}
}

// everyExpression is every preset of the table by itself, and every signal as
// a whole, by a name that is fit for a recording rule.
func everyExpression(t *testing.T) map[string]string {
	t.Helper()
	matchers, _, err := parseSelector(`job="gateway"`)
	if err != nil {
		t.Fatal(err)
	}
	stage := Stage{Timing: quarter, Selector: matchers, HealthRoutes: `/a"b\\d`, Present: Known()}
	out := map[string]string{}
	for _, s := range Signals() {
		whole, err := stage.Expression(s)
		if err != nil {
			t.Fatal(err)
		}
		out[s.Metric()] = whole.PromQL()
		for i, p := range s.Presets {
			one := s
			one.Presets = []Preset{p}
			e, err := stage.Expression(one)
			if err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprintf("%s:preset%d", s.Metric(), i)] = e.PromQL()
		}
	}
	return out
}

// TestEveryExpression parses the whole table, and holds that each result has
// the labels job and instance and no others.
func TestEveryExpression(t *testing.T) {
	t.Parallel()
	for name, text := range everyExpression(t) {
		if text == "" {
			t.Errorf("%s: no expression of known names", name)
			continue
		}
		expr, err := promQL.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v in %s", name, err, text)
			continue
		}
		for _, word := range []string{"METRIC", "HEALTH", "SCRAPE", "STREAM", "BY", "{{"} {
			if strings.Contains(text, word) {
				t.Errorf("%s: %s is left in %s", name, word, text)
			}
		}
		if !byInstance(expr) {
			t.Errorf("%s: labels other than job and instance in %s", name, text)
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.DIV {
				if _, number := unwrap(b.RHS).(*parser.NumberLiteral); !number && !filtered(b.RHS) {
					t.Errorf("%s: a division by what may be 0: %s", name, b)
				}
			}
			return nil
		})
	}
}

func unwrap(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// filtered tells a denominator of which > 0 is left, or a period, which is never 0.
func filtered(e parser.Expr) bool {
	if b, ok := unwrap(e).(*parser.BinaryExpr); ok {
		return b.Op == parser.GTR || b.Op == parser.LSS && filtered(b.LHS)
	}
	return strings.HasPrefix(e.String(), "last_over_time(container_spec_cpu_period")
}

// byInstance tells whether an expression's labels are job and instance.
func byInstance(e parser.Expr) bool {
	switch e := unwrap(e).(type) {
	case *parser.AggregateExpr:
		return !e.Without && slices.Equal(e.Grouping, []string{"job", "instance"})
	case *parser.BinaryExpr:
		left, right := unwrap(e.LHS), unwrap(e.RHS)
		if _, ok := left.(*parser.NumberLiteral); ok {
			return byInstance(right)
		}
		if _, ok := right.(*parser.NumberLiteral); ok {
			return byInstance(left)
		}
		return byInstance(left) && (e.Op != parser.LOR || byInstance(right))
	case *parser.Call:
		return byInstance(e.Args[0])
	case *parser.SubqueryExpr:
		return byInstance(e.Expr)
	case *parser.VectorSelector:
		return strings.HasPrefix(e.Name, canonicalPrefix)
	}
	return false
}

// TestPrometheus242 loads the whole table as recording rules with the oldest
// Prometheus that generated rules are for.
func TestPrometheus242(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal("promtool is not installed, and CONTEND_REQUIRE is set")
		}
		t.Skip("promtool is not installed (Debian: apt-get install prometheus)")
	}
	version, err := exec.Command(promtool, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(version), "version 2.42.") {
		t.Skipf("promtool 2.42 is wanted, saw %.60q, %v", version, err)
	}
	every := everyExpression(t)
	var names []string
	for name := range every {
		names = append(names, name)
	}
	slices.Sort(names)
	var rules strings.Builder
	rules.WriteString("groups:\n- name: contend\n  rules:\n")
	for _, name := range names {
		fmt.Fprintf(&rules, "  - record: %s\n    expr: %q\n", name, every[name])
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d rules found", len(names))) {
		t.Errorf("%d rules, %v: %s", len(names), err, out)
	}
}
