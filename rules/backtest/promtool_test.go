package backtest_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"go.yaml.in/yaml/v3"

	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/rules/backtest"
)

// example are series for testdata/crosscheck.yaml, a value every 15 s from 1970 on:
// "_" is none, "stale" ends the series.
func example() map[string][]string {
	const steps = 160
	out := map[string][]string{}
	add := func(lset string, value func(i int) string) {
		for i := range steps {
			out[lset] = append(out[lset], value(i))
		}
	}
	between := func(i int, spans ...int) bool {
		for n := 0; n < len(spans); n += 2 {
			if i >= spans[n] && i < spans[n+1] {
				return true
			}
		}
		return false
	}
	add(`load{job="a", instance="1"}`, func(i int) string {
		switch {
		case between(i, 100, 112):
			return "_"
		case i == 112:
			return "stale"
		case between(i, 113, 130):
			return "_"
		case between(i, 10, 13, 20, 40, 41, 42, 44, 60, 140, 150):
			return "9"
		}
		return "1"
	})
	add(`load{job="a", instance="2"}`, func(i int) string {
		switch {
		case between(i, 30, 36, 70, 90):
			return "8"
		case i == 95:
			return "stale"
		case i > 95:
			return "_"
		}
		return "2"
	})
	add(`load{job="b", instance="1"}`, func(i int) string {
		if i%7 < 2 || between(i, 50, 58) {
			return "6"
		}
		return "3"
	})
	add(`quiet{job="a"}`, func(i int) string {
		switch {
		case between(i, 25, 30):
			return "1"
		case i == 30:
			return "stale"
		}
		return "_"
	})
	total := 0
	add(`total{job="a"}`, func(i int) string {
		if total += 3; between(i, 60, 80) {
			total += 30
		}
		if i == 90 {
			total = 0
		}
		return strconv.Itoa(total)
	})
	return out
}

// gaps are series for testdata/gaps.yaml, a value every 5 s: a beat that misses three
// minutes, which is less than the look-back, seven, which is more, and ends.
func gaps() map[string][]string {
	var beat []string
	for i := range 480 {
		switch {
		case i > 100 && i < 100+36, i > 200 && i < 200+84, i > 400:
			beat = append(beat, "_")
		case i == 400:
			beat = append(beat, "stale")
		default:
			beat = append(beat, "1")
		}
	}
	return map[string][]string{`beat{job="a"}`: beat}
}

// crosscheck is what the replay and promtool are both given.
type crosscheck struct {
	rules  string              // file
	series map[string][]string // see example
	scrape time.Duration       // between two values of series
}

const evaluation = 15 * time.Second

func (c *crosscheck) store(t *testing.T) *memory.Store {
	t.Helper()
	store := memory.New()
	for text, values := range c.series {
		name, rest, _ := strings.Cut(text, "{")
		lset := map[string]string{"__name__": name}
		for _, pair := range strings.Split(strings.TrimSuffix(rest, "}"), ", ") {
			k, v, _ := strings.Cut(pair, "=")
			lset[k] = strings.Trim(v, `"`)
		}
		var ts []int64
		var vs []float64
		for i, v := range values {
			if v == "_" {
				continue
			}
			f, err := strconv.ParseFloat(strings.Replace(v, "stale", "NaN", 1), 64)
			if err != nil {
				t.Fatal(err)
			}
			ts, vs = append(ts, int64(i)*c.scrape.Milliseconds()), append(vs, f)
		}
		store.Append(labels.FromMap(lset), ts, vs)
	}
	return store
}

// evaluations are how many there are: as long as there are series.
func (c *crosscheck) evaluations() int {
	most := 0
	for _, values := range c.series {
		most = max(most, len(values))
	}
	return int(time.Duration(most) * c.scrape / evaluation)
}

func (c *crosscheck) replay(t *testing.T) *backtest.Result {
	t.Helper()
	data, err := os.ReadFile(c.rules)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := backtest.Parse(c.rules, data)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(0, 0).UTC()
	r, err := backtest.Run(t.Context(), backtest.FromStore(c.store(t)), groups, backtest.Options{
		Start: start, End: start.Add(time.Duration(c.evaluations()-1) * evaluation), Interval: evaluation,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type expectedAlert struct {
	Labels map[string]string `yaml:"exp_labels"`
}

type alertTest struct {
	EvalTime string          `yaml:"eval_time"`
	Alert    string          `yaml:"alertname"`
	Expected []expectedAlert `yaml:"exp_alerts"`
}

// TestPromtool has promtool say of each alert at each evaluation what fires:
// the same as the replay.
func TestPromtool(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal("promtool is not installed, and CONTEND_REQUIRE is set")
		}
		t.Skip("promtool is not installed")
	}
	for _, c := range []crosscheck{
		{"testdata/crosscheck.yaml", example(), evaluation},
		{"testdata/gaps.yaml", gaps(), 5 * time.Second},
	} {
		t.Run(filepath.Base(c.rules), func(t *testing.T) {
			t.Parallel()
			c.run(t, binary)
		})
	}
}

func (c *crosscheck) run(t *testing.T, promtool string) {
	r := c.replay(t)
	type test = map[string]any
	var input []test
	for _, lset := range slices.Sorted(maps.Keys(c.series)) {
		input = append(input, test{"series": lset, "values": strings.Join(c.series[lset], " ")})
	}
	var tests []alertTest
	fired := 0
	for _, a := range r.Alerts {
		if a.Error != "" {
			t.Errorf("%s: %s", a.Alert, a.Error)
		}
		if len(a.Firings) == 0 {
			t.Errorf("%s never fires, so that nothing is compared", a.Alert)
		}
		for i := range c.evaluations() {
			at := r.Start.Add(time.Duration(i) * evaluation)
			one := alertTest{EvalTime: model.Duration(at.Sub(r.Start)).String(), Alert: a.Alert}
			for _, f := range a.Firings {
				if !at.Before(f.Start) && (f.End == nil || at.Before(*f.End)) {
					fired++
					one.Expected = append(one.Expected, expectedAlert{f.Labels})
				}
			}
			tests = append(tests, one)
		}
	}
	rules, err := filepath.Abs(c.rules)
	if err != nil {
		t.Fatal(err)
	}
	file := test{
		"rule_files": []string{rules}, "evaluation_interval": evaluation.String(),
		"tests": []test{{"interval": c.scrape.String(), "input_series": input, "alert_rule_test": tests}},
	}
	var order []string // else it takes groups in any order
	for _, a := range r.Alerts {
		if !slices.Contains(order, a.Group) {
			order = append(order, a.Group)
		}
	}
	file["group_eval_order"] = order
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", path).CombinedOutput(); err != nil {
		const most = 4000
		t.Errorf("promtool test rules: %v\n%s", err, out[:min(len(out), most)])
	}
	t.Logf("%d alerts, %d evaluations of them, firing at %d", len(r.Alerts), len(tests), fired)
}
