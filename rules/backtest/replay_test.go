package backtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/ingest/series/promapi"
)

const testStep = 15 * time.Second

var testStart = time.Unix(1_790_000_000, 0).UTC().Truncate(time.Hour)

// column adds a series with a value each step from testStart on; "_" is none,
// "!" ends it.
func column(store *memory.Store, lset labels.Labels, values string) {
	var ts []int64
	var vs []float64
	for i, v := range strings.Fields(values) {
		if v == "_" {
			continue
		}
		f, err := strconv.ParseFloat(strings.Replace(v, "!", "NaN", 1), 64)
		if err != nil {
			panic(err)
		}
		ts, vs = append(ts, testStart.Add(time.Duration(i)*testStep).UnixMilli()), append(vs, f)
	}
	store.Append(lset, ts, vs)
}

// walk are the levels of some instances that go up and down, with gaps.
func walk(steps int) *memory.Store {
	store := memory.New()
	random := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"a", "b"} {
		for n := range 3 {
			var out []string
			x := 5.0
			for range steps {
				x = max(0, x+random.NormFloat64())
				switch {
				case random.IntN(60) == 0:
					out = append(out, "!")
				case random.IntN(30) == 0:
					out = append(out, "_")
				default:
					out = append(out, fmt.Sprintf("%.3f", x))
				}
			}
			column(store, labels.FromStrings("__name__", name, "job", fmt.Sprint("job", n/2), "instance", fmt.Sprint(n)), strings.Join(out, " "))
		}
	}
	return store
}

func mustParse(t testing.TB, text string) []Group {
	t.Helper()
	groups, err := Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

func run1(t testing.TB, src Source, groups []Group, steps int, chunk int64) *Result {
	t.Helper()
	r, err := Run(t.Context(), src, groups, Options{Start: testStart, End: testStart.Add(time.Duration(steps-1) * testStep), Interval: testStep, chunk: chunk})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func asJSON(t testing.TB, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const walkRules = `
groups:
  - name: records
    rules:
      - {record: "sum:a", expr: "sum by (job) (a)"}
      - {record: "avg:a", expr: "avg_over_time(sum:a[10m]) and count_over_time(sum:a[10m]) >= 5"}
      - {record: "base:a", expr: "quantile_over_time(0.5, a[20m:2m] offset 6m) and count_over_time(a[20m:2m] offset 6m) >= 3"}
      - {record: "again", expr: "again * 0.5 + on (job) sum:a or sum:a"}
      - {alert: High, expr: "sum:a > 1.2 * avg:a and on (job) count by (job) (b > 4) > 0", for: 1m, keep_firing_for: 1m, labels: {severity: page}}
      - {alert: Base, expr: "count by (job) (a > 1.5 * base:a unless b > a) > 0", for: 30s}
      - {alert: Again, expr: "again > 30", for: 2m}
      - {alert: Mixed, expr: "max_over_time(b[3m]) - on (job) group_left () sum:a > 0 or a < 1 and b < 1"}
  - name: slow
    interval: 1m
    query_offset: 15s
    rules:
      - {alert: Slow, expr: "sum by (job) (a) + on (job) sum by (job) (b) > 25", for: 2m}
      - {alert: Firing, expr: 'count(ALERTS{alertname="High", alertstate="firing"}) > 0'}
`

// TestChunks holds that it does not matter how the time is cut.
func TestChunks(t *testing.T) {
	t.Parallel()
	const steps = 1500
	src := FromStore(walk(steps))
	groups := mustParse(t, walkRules)
	want := run1(t, src, groups, steps, 10_000)
	for _, a := range want.Alerts {
		if len(a.Firings) < 2 || a.Error != "" {
			t.Errorf("%s fires %d times, which is too seldom to compare; %s", a.Alert, len(a.Firings), a.Error)
		}
	}
	for _, chunk := range []int64{1, 7, 64, 240} {
		if got := asJSON(t, run1(t, src, groups, steps, chunk)); got != asJSON(t, want) {
			t.Errorf("in chunks of %d steps: %s", chunk, firstDifference(got, asJSON(t, want)))
		}
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %s, want %s, after %s", i, g[i], w[i], strings.Join(g[max(0, i-12):i], "\n"))
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// TestServer holds that a server's answers give what its samples do.
func TestServer(t *testing.T) {
	t.Parallel()
	const steps = 1500
	store := walk(steps)
	groups := mustParse(t, walkRules)
	want := asJSON(t, run1(t, FromStore(store), groups, steps, 0))
	api, err := promapi.New(serve(t, store).URL, nil, promapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, chunk := range []int64{0, 100} {
		if got := asJSON(t, run1(t, FromServer(api), groups, steps, chunk)); got != want {
			t.Errorf("in chunks of %d steps: %s", chunk, firstDifference(got, want))
		}
	}
}

// serve answers the queries of package promapi from a store.
func serve(t *testing.T, store *memory.Store) *httptest.Server {
	t.Helper()
	at := func(r *http.Request, name string) time.Time {
		f, _ := strconv.ParseFloat(r.FormValue(name), 64)
		return time.UnixMilli(int64(f*1000 + 0.5))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := func(data any, err error) {
			if err != nil {
				w.WriteHeader(http.StatusUnprocessableEntity)
				json.NewEncoder(w).Encode(map[string]any{"status": "error", "errorType": "execution", "error": err.Error()})
				return
			}
			json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data})
		}
		matrix := func(m promql.Matrix) map[string]any {
			result := []any{}
			for _, s := range m {
				values := []any{}
				for _, p := range s.Floats {
					values = append(values, []any{float64(p.T) / 1000, strconv.FormatFloat(p.F, 'g', -1, 64)})
				}
				result = append(result, map[string]any{"metric": s.Metric.Map(), "values": values})
			}
			return map[string]any{"resultType": "matrix", "result": result}
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/query_range"):
			f, _ := strconv.ParseFloat(r.FormValue("step"), 64)
			m, err := store.Range(r.Context(), r.FormValue("query"), at(r, "start"), at(r, "end"), time.Duration(f*float64(time.Second)))
			reply(matrix(m), err)
		case strings.HasSuffix(r.URL.Path, "/query"):
			e, err := parser.NewParser(parser.Options{}).ParseExpr(r.FormValue("query"))
			sel, ok := e.(*parser.MatrixSelector)
			if err != nil || !ok {
				reply(nil, fmt.Errorf("expected a range, saw %s", r.FormValue("query")))
				return
			}
			v := sel.VectorSelector.(*parser.VectorSelector)
			to := at(r, "time")
			columns, err := FromStore(store).raw(r.Context(), &selector{matchers: v.LabelMatchers}, to.Add(-sel.Range).Add(time.Millisecond), to, 0, 0)
			var m promql.Matrix
			for _, c := range columns {
				s := promql.Series{Metric: c.Labels}
				for i := range c.T {
					if c.V[i] == c.V[i] {
						s.Floats = append(s.Floats, promql.FPoint{T: c.T[i], F: c.V[i]})
					}
				}
				if len(s.Floats) > 0 {
					m = append(m, s)
				}
			}
			reply(matrix(m), err)
		case strings.HasSuffix(r.URL.Path, "/values"):
			match := strings.Trim(r.FormValue("match[]"), "{}")
			names, err := store.Names(r.Context(), match, at(r, "start"), at(r, "end"))
			reply(names, err)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestEvaluate holds that less work gives what the engine makes of an expression.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	const steps = 700
	store := walk(steps)
	ask := func(expr string, a, b time.Time, step time.Duration) (promql.Matrix, error) {
		return store.Range(t.Context(), expr, a, b, step)
	}
	for _, expr := range []string{
		"a > 8",
		"a > 8 and b > 8",
		"a > 2 and b > 9 unless a > b",
		"count by (job) (a > 8 and b < 3) > 0",
		"(a > 8) * on (job) group_left () (sum by (job) (b) > 12)",
		"a > 9 or b > 9",
		"(a > 9 and b > 2) or (b > 9 and a < 3)",
		"a > 9 or b",
		"a > bool 9 and b > 9",
		"sum(a > 100)",
		"sum(a > 100) or sum(b > 8)",
		"absent(a > 9)",
		"a - (b > 9)",
		"1 < a",
		"a and on (job) sum by (job) (b) > 20",
		"quantile_over_time(0.5, a[20m:2m] offset 6m)",
		"quantile_over_time(0.5, a[20m:2m] offset 6m) and count_over_time(a[20m:2m] offset 6m) >= 5",
		"max_over_time(sum by (job) (a)[10m:1m])",
		"max_over_time((a > 8)[10m:1m]) > 9",
		"rate(a[10m:1m])",
		"max_over_time(a[10m:40s])",
		"max_over_time(a[10m:1m] offset 30s)",
		"max_over_time(a[10m:1m]) > max_over_time(b[10m:2m])",
		"max_over_time(a[10m:7s])",
		"vector(1) and on () a > 9",
		"topk(1, a > 8)",
		"-a < -8",
	} {
		for _, from := range []time.Duration{0, 45 * time.Second, 11 * time.Minute} {
			start, end := testStart.Add(from), testStart.Add(steps*testStep)
			e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
			if err != nil {
				t.Fatal(err)
			}
			want, err := ask(expr, start, end, testStep)
			if err != nil {
				t.Fatal(err)
			}
			got, err := evaluate(ask, e, start, end, testStep)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(got, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
			if got.String() != want.String() {
				t.Errorf("%s from %s: %s", expr, from, firstDifference(got.String(), want.String()))
			}
		}
	}
}

// TestAdvance holds an alert that is advanced a few steps at a time to
// detect.Spans of all of them.
func TestAdvance(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for n := range 400 {
		hold := []time.Duration{0, 20 * time.Second, time.Minute, 10 * time.Minute}[random.IntN(4)]
		keep := []time.Duration{0, 20 * time.Second, time.Minute, 7 * time.Minute}[random.IntN(4)]
		const steps = 300
		end := testStart.Add((steps - 1) * testStep)
		var at []int64
		one := track{}
		holds := false
		for i := range steps {
			if random.IntN([]int{2, 8, 40}[n%3]) == 0 {
				holds = !holds
			}
			now := testStart.Add(time.Duration(i) * testStep)
			if holds {
				at = append(at, now.UnixMilli())
				one.at = append(one.at, now.UnixMilli())
			}
			if random.IntN(10) == 0 || i == steps-1 {
				one.advance(now, testStep, hold, keep)
			}
		}
		var want []detect.Span
		pending := 0
		for _, s := range detect.Spans(at, testStart, end, testStep, hold, keep) {
			if s.Fired.IsZero() {
				pending++
			} else {
				want = append(want, s)
			}
		}
		got := one.fired
		if one.firing != nil {
			got = append(got, *one.firing)
		} else if len(one.at) > 0 {
			one.pending++
		}
		if !slices.Equal(got, want) || one.pending != pending {
			t.Fatalf("for %s keep %s: %v and %d pending, want %v and %d", hold, keep, got, one.pending, want, pending)
		}
	}
}

// TestServerRefuses holds that a rule whose series a server does not give is
// not replayed, and the others are.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	const steps = 200
	inner := serve(t, walk(steps))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/query") && strings.HasPrefix(r.FormValue("query"), `{__name__="b"}`) {
			http.Error(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`, http.StatusUnprocessableEntity)
			return
		}
		inner.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	api, err := promapi.New(s.URL, nil, promapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := run1(t, FromServer(api), mustParse(t, walkRules), steps, 0)
	for _, a := range r.Alerts {
		reads := a.Alert == "High" || a.Alert == "Base" || a.Alert == "Mixed" || a.Alert == "Firing" // which reads High
		if refused := strings.Contains(a.Error, "too many samples"); refused != reads {
			t.Errorf("%s: %s, %q; refused: %v, want %v", a.Alert, a.Outcome, a.Error, refused, reads)
		}
	}
	api, err = promapi.New("http://127.0.0.1:1", nil, promapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), FromServer(api), mustParse(t, walkRules), Options{Start: testStart, End: testStart.Add(time.Hour)}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("of a server that is not there: %v", err)
	}
}
