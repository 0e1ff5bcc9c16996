package series

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series/memory"
)

// broken is a source of which some queries fail.
type broken struct {
	Source
	fails func(expr string) bool

	mu    sync.Mutex
	asked []string
}

var errBroken = errors.New("500 Internal Server Error")

func (b *broken) Range(ctx context.Context, expr string, start, end time.Time, step time.Duration) (promql.Matrix, error) {
	b.mu.Lock()
	b.asked = append(b.asked, expr)
	b.mu.Unlock()
	if b.fails(expr) {
		return nil, errBroken
	}
	return b.Source.Range(ctx, expr, start, end, step)
}

const fleet = `
up{job="gateway",instance="a"} 1x60
up{job="gateway",instance="b"} 1x60
up{job="gateways-canary",instance="c"} 1x60
http_requests_in_flight{job="gateway",instance="a"} 3x60
http_requests_in_flight{job="gateway",instance="b"} 4x20
http_requests_in_flight{job="gateways-canary",instance="c"} 9x60
http_requests_total{job="gateway",instance="a",code="200"} 0+30x60
process_cpu_seconds_total{job="gateway",instance="a"} 0+15x60
pool_busy{job="gateway",instance="a",pool="x"} 2x60
pool_busy{job="gateway",instance="a",pool="y"} 3x60
timeout_seconds{job="config",instance="z",of="a"} 1x60
timeout_seconds{job="config",instance="z",of="b"} 2x60
want
up{} 1
`

func collectFleet(t *testing.T, opt CollectOptions) *Canonical {
	t.Helper()
	s := parseStory(t, fleet)
	opt.End = s.end
	if opt.Start.IsZero() {
		opt.Start = s.end.Add(-5 * time.Minute)
	}
	c, err := Collect(t.Context(), s.store, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func match(t *testing.T, c *Canonical, signal string) Match {
	t.Helper()
	i := slices.IndexFunc(c.Matches, func(m Match) bool { return m.Signal == signal })
	if i < 0 {
		t.Fatalf("no match of %s", signal)
	}
	return c.Matches[i]
}

func TestCollect(t *testing.T) {
	t.Parallel()
	c := collectFleet(t, CollectOptions{Selector: `{job="gateway"}`, History: 5 * time.Minute})
	var names []string
	for _, s := range Signals() {
		names = append(names, s.Name)
	}
	var got []string
	for _, m := range c.Matches {
		got = append(got, m.Signal)
	}
	if !slices.Equal(got, names) {
		t.Errorf("matches %q, want one of each signal in the table's order", got)
	}
	if c.Selector != `job="gateway"` || !slices.Equal(c.Jobs, []string{"gateway"}) || !reflect.DeepEqual(c.Instances, map[string][]string{"gateway": {"a", "b"}}) {
		t.Errorf("selector %s, jobs %q, instances %q", c.Selector, c.Jobs, c.Instances)
	}
	if c.Timing.Interval != 15*time.Second || !c.From.Equal(c.Start.Add(-5*time.Minute)) {
		t.Errorf("interval %s, from %s to %s", c.Timing.Interval, c.From, c.Start)
	}
	// The gauge of b ends 5 minutes after the epoch, and the window begins at 9:45.
	want := Match{Signal: "inflight", Matched: "client library: http_requests_in_flight", Metrics: []string{"http_requests_in_flight"}, Instances: 1}
	if m := match(t, c, "inflight"); !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	arrivals := Match{Signal: "arrivals", Instances: 1, Matched: "completions and the change of in-flight; completions",
		Metrics: []string{"contend:completions", "contend:inflight_change"}}
	if m := match(t, c, "arrivals"); !reflect.DeepEqual(m, arrivals) {
		t.Errorf("got  %+v\nwant %+v", m, arrivals)
	}
	lock := match(t, c, "lock_wait")
	if want := "no such series: looked for go_sync_mutex_wait_total_seconds_total, go_mutex_wait_seconds_total, jvm_threads_states_threads, jvm_threads_state, jvm_thread_count"; lock.Missing != want || lock.Matched != "" {
		t.Errorf("got  %+v\nwant %q", lock, want)
	}
	if want := `client_golang: collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/sync/.*")}))`; lock.Hint != want {
		t.Errorf("hint %s", lock.Hint)
	}
	again := collectFleet(t, CollectOptions{Selector: `job="gateway"`, History: 5 * time.Minute})
	if !reflect.DeepEqual(c.Matches, again.Matches) || !reflect.DeepEqual(values(t, c, c.End), values(t, again, again.End)) {
		t.Error("two collections of one source differ")
	}
}

// TestOneScrape: a page of /metrics has levels and no rates.
func TestOneScrape(t *testing.T) {
	t.Parallel()
	s := parseStory(t, `
http_requests_in_flight{job="app",instance="a"} 7
http_requests_total{job="app",instance="a",code="200"} 100
go_goroutines{job="app",instance="a"} 12
want
up{} 1
`)
	c, err := Collect(t.Context(), s.store, CollectOptions{Start: s.end, End: s.end})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, map[string]float64{
		`{__name__="inflight", instance="a", job="app"}`:   7,
		`{__name__="goroutines", instance="a", job="app"}`: 12,
	}, values(t, c, c.End))
	if m := match(t, c, "completions"); m.Missing != "one scrape: rates need two" {
		t.Errorf("completions: %+v", m)
	}
	if m := match(t, c, "cpu"); !strings.HasPrefix(m.Missing, "no such series: looked for process_cpu_seconds_total") {
		t.Errorf("cpu: %+v", m)
	}
	if len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0], "one scrape:") {
		t.Errorf("notes %q", c.Notes)
	}
}

// TestTwoScrapes: of two pages of /metrics, whenever they were taken, the
// differences are over the time between them and not over a whole window.
func TestTwoScrapes(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{0, 3 * time.Second, 9999 * time.Millisecond} {
		store := memory.New()
		first := epoch.Add(offset)
		last := first.Add(10 * time.Second)
		for name, v := range map[string][]float64{
			`http_requests_total{job="app",instance="a",code="200"}`:            {1000, 1050},
			`process_cpu_seconds_total{job="app",instance="a"}`:                 {70, 75},
			`http_requests_in_flight{job="app",instance="a"}`:                   {4, 8},
			`grpc_server_started_total{job="g",instance="a",grpc_type="unary"}`: {500, 520},
		} {
			lset, err := promQL.ParseMetric(name)
			if err != nil {
				t.Fatal(err)
			}
			store.Append(lset, []int64{first.UnixMilli(), last.UnixMilli()}, v)
		}
		c, err := Collect(t.Context(), store, CollectOptions{Start: first, End: last, History: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		got := values(t, c, c.End)
		for key, want := range map[string]float64{
			`{__name__="completions", instance="a", job="app"}`: 5,
			`{__name__="cpu", instance="a", job="app"}`:         0.5,
			`{__name__="inflight", instance="a", job="app"}`:    6,
			`{__name__="arrivals", instance="a", job="g"}`:      2,
		} {
			if math.Abs(got[key]-want) > 1e-9 {
				t.Errorf("%s after the hour: %s: got %v, want %v", offset, key, got[key], want)
			}
		}
	}
}

// TestNotNumbers: samples that were computed to be no numbers, or larger than
// anything measured, are dropped, so that no sum of them is infinite.
func TestNotNumbers(t *testing.T) {
	t.Parallel()
	s := parseStory(t, `
http_requests_in_flight{job="app",instance="a"} 1x20
http_requests_in_flight{job="app",instance="b"} 1x16 2e18x3
http_requests_in_flight{job="app",instance="c"} -1e18x20
want
up{} 1
`)
	c, err := Collect(t.Context(), s.store, CollectOptions{Start: epoch, End: s.end, Overrides: map[string]string{
		"inflight": "http_requests_in_flight", "cpu": "http_requests_in_flight / 0", "memory": "http_requests_in_flight * NaN", "cpu_limit": "1e18"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []string{"cpu", "memory"} {
		if m := match(t, c, signal); m.Instances != 0 || m.Missing == "" {
			t.Errorf("%+v", m)
		}
	}
	if m := match(t, c, "inflight"); m.Instances != 3 {
		t.Errorf("%+v", m)
	}
	got := values(t, c, c.End)
	if got[`{__name__="inflight", instance="a", job="app"}`] != 1 || got[`{__name__="inflight", instance="c", job="app"}`] != -1e18 ||
		got[`{__name__="cpu_limit", instance="a", job="app"}`] != 1e18 {
		t.Errorf("got %v", got)
	}
	if v, ok := got[`{__name__="inflight", instance="b", job="app"}`]; ok {
		t.Errorf("b: got %v", v)
	}
	if want := "signal inflight: dropped 4 values larger than 1e+18, which nothing measures"; !slices.Contains(c.Notes, want) {
		t.Errorf("notes %q, want %q", c.Notes, want)
	}
	if slices.ContainsFunc(c.Notes, func(n string) bool { return strings.HasPrefix(n, "signal memory") }) {
		t.Errorf("notes %q of NaN", c.Notes)
	}
}

// TestManyPoints: more than memory has room for is an error that says what to do.
func TestManyPoints(t *testing.T) {
	t.Parallel()
	s := parseStory(t, fleet)
	opt := CollectOptions{Start: epoch, End: s.end}
	c, err := Collect(t.Context(), s.store, opt)
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, signal := range Signals() {
		m, err := c.Store.Range(t.Context(), signal.Metric(), c.From, c.End, c.Timing.Interval)
		if err != nil {
			t.Fatal(err)
		}
		for _, series := range m {
			points += len(series.Floats)
		}
	}
	opt.maxPoints = points
	if _, err := Collect(t.Context(), s.store, opt); err != nil {
		t.Errorf("%d points: %v", points, err)
	}
	opt.maxPoints = points - 1
	_, err = Collect(t.Context(), s.store, opt)
	if want := fmt.Sprintf("expected at most %d values of all signals, saw more at signal ", points-1); err == nil || !strings.HasPrefix(err.Error(), want) ||
		!strings.HasSuffix(err.Error(), ": choose the series of one service with --selector, or a shorter window with --since") {
		t.Errorf("got %v", err)
	}
	asked := &broken{Source: s.store, fails: func(string) bool { return false }}
	opt.maxPoints = 1
	if _, err := Collect(t.Context(), asked, opt); err == nil {
		t.Error("got no error of 1 point")
	}
	// The list of jobs, and the queries that were on their way.
	if len(asked.asked) > 1+queriesAtOnce+1 {
		t.Errorf("asked %d queries after the first was too much", len(asked.asked))
	}
}

// TestHiddenNames: of durations one name's count, and the others are said not to be
// read, where an instance has several and not where each has its own.
func TestHiddenNames(t *testing.T) {
	t.Parallel()
	const own = `
http_request_duration_seconds_sum{job="a",instance="1"} 0+3x20
http_request_duration_seconds_count{job="a",instance="1"} 0+30x20
llm_http_request_duration_seconds_sum{job="b",instance="1"} 0+60x20
llm_http_request_duration_seconds_count{job="b",instance="1"} 0+30x20
http_requests_in_flight{job="a",instance="1"} 5x20
grpc_requests_in_flight{job="a",instance="1"} 400x20
llm_requests_in_flight{job="a",instance="1"} 70x20
want
latency{job="a",instance="1"} 0.1
latency{job="b",instance="1"} 2
inflight{job="a",instance="1"} 400
`
	both := strings.ReplaceAll(own, "\nwant", `
llm_http_request_duration_seconds_sum{job="a",instance="1"} 0+60x20
llm_http_request_duration_seconds_count{job="a",instance="1"} 0+30x20
want`)
	const note = "signal latency: not read beside http_request_duration_seconds_count, http_request_duration_seconds_sum: llm_http_request_duration_seconds; choose with --signal latency='…'"
	for story, want := range map[string]bool{own: false, both: true} {
		s := parseStory(t, story)
		c, err := Collect(t.Context(), s.store, CollectOptions{Start: epoch, End: s.end})
		if err != nil {
			t.Fatal(err)
		}
		got := values(t, c, c.End)
		maps.DeleteFunc(got, func(key string, _ float64) bool {
			return !strings.Contains(key, `"inflight"`) && !strings.Contains(key, `"latency"`)
		})
		compare(t, s.want, got)
		if slices.Contains(c.Notes, note) != want || !want && len(c.Notes) > 0 {
			t.Errorf("notes %q, want %v: %q", c.Notes, want, note)
		}
	}
}

func TestFailingQueries(t *testing.T) {
	t.Parallel()
	s := parseStory(t, fleet)
	opt := CollectOptions{Start: epoch, End: s.end}
	some := &broken{Source: s.store, fails: func(expr string) bool { return strings.Contains(expr, "process_cpu") }}
	c, err := Collect(t.Context(), some, opt)
	if err != nil {
		t.Fatal(err)
	}
	if m := match(t, c, "cpu"); m.Missing != "query failed: 500 Internal Server Error" || m.Instances != 0 {
		t.Errorf("cpu: %+v", m)
	}
	if len(c.Failures) != 1 || !errors.Is(c.Failures[0], errBroken) || c.Failures[0].Error() != "signal cpu: 500 Internal Server Error" {
		t.Errorf("failures %v", c.Failures)
	}
	if m := match(t, c, "inflight"); m.Instances != 3 {
		t.Errorf("inflight: %+v", m)
	}
	all := &broken{Source: s.store, fails: func(string) bool { return true }}
	if _, err := Collect(t.Context(), all, opt); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), fmt.Sprintf("none of %d queries succeeded", len(all.asked)-1)) { // one lists the jobs
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Collect(ctx, s.store, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestNothingToCollect(t *testing.T) {
	t.Parallel()
	s := parseStory(t, fleet)
	window := CollectOptions{Start: epoch, End: s.end}
	for _, test := range []struct {
		name string
		opt  CollectOptions
		want string
	}{
		{"a selector that is none", CollectOptions{Selector: "job=gateway"},
			`expected a selector such as job="gateway" or job=~"gate.*",namespace="prod", saw "job=gateway"`},
		{"the name of a metric", CollectOptions{Selector: `__name__="up"`}, "saw the name of a metric"},
		{"no such job", CollectOptions{Selector: `job="gatewy"`},
			`no series match {job="gatewy"} from 2026-03-02T09:00:00Z to 2026-03-02T09:15:00Z: none has job="gatewy"; job is one of: gateway, gateways-canary`},
		{"no such label", CollectOptions{Selector: `job="gateway",zone="x"`}, `none has zone="x"; no series with the label zone was found`},
		{"no series of both", CollectOptions{Selector: `job="gateway",instance="c"`}, "each matcher has series, and no series matches all"},
		{"no such signal", CollectOptions{Overrides: map[string]string{"inflite": "x"}}, `saw "inflite"; is it inflight?`},
		{"bad PromQL", CollectOptions{Overrides: map[string]string{"inflight": "x)"}}, "signal inflight: expected PromQL or a number"},
		{"a window that ends before it starts", CollectOptions{Start: s.end, End: epoch}, "expected a window that ends after it starts"},
		{"a window without data", CollectOptions{Start: s.end.Add(time.Hour), End: s.end.Add(2 * time.Hour)},
			"no data from 2026-03-02T10:15:00Z to 2026-03-02T11:15:00Z; there is data from 2026-03-02T09:00:00Z to 2026-03-02T09:15:00Z"},
	} {
		opt := test.opt
		if opt.End.IsZero() {
			opt.Start, opt.End = window.Start, window.End
		}
		if _, err := Collect(t.Context(), s.store, opt); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.name, err, test.want)
		}
	}
}

// TestManySteps: of a month at 15 s the last part is looked at, at the interval,
// and that is said: a longer step would hide what lasts for minutes.
func TestManySteps(t *testing.T) {
	t.Parallel()
	c := collectFleet(t, CollectOptions{Start: epoch.Add(-30 * 24 * time.Hour)})
	if want := 15 * time.Second; c.Timing.Interval != want {
		t.Errorf("step %s, want %s", c.Timing.Interval, want)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "only, 20000 steps of 15s: --until looks at what was before") {
		t.Errorf("notes %q", c.Notes)
	}
	if got, most := c.End.Sub(c.From), (maxSteps+1)*15*time.Second; got > most {
		t.Errorf("%s, more than %s", got, most)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	s := parseStory(t, `
a{instance="1"} 1 1 _ _
a{instance="2"} 1 1 1 1
b{instance="1"} 2 2 2 2
b{instance="3"} 2 2 2 2
want
up{} 1
`)
	read := func(expr string) promql.Matrix {
		m, err := s.store.Range(t.Context(), expr, epoch, epoch.Add(45*time.Second), 15*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	// The sum takes the name away, as stage one does; the range an old sample.
	got := merge(read("sum by (instance) (last_over_time(a[1s]))"), read("sum by (instance) (b)"))
	want := read("sum by (instance) (last_over_time(a[1s])) or on (instance) sum by (instance) (b)")
	sortSeries(want)
	if got.String() != want.String() || len(got) != 3 {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	got := Nearest("gatewy", []string{"worker", "gate", "gateway", "gateway-2"})
	if want := []string{"gateway", "gate", "gateway-2", "worker"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("%s to %s: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// BenchmarkCollect: the cost grows with instances and not faster.
func BenchmarkCollect(b *testing.B) {
	for _, instances := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(instances), func(b *testing.B) {
			store := memory.New()
			const scrapes = 190 * 4 // 2 h and the hour and ten minutes before them
			ts := make([]int64, scrapes)
			for i := range ts {
				ts[i] = epoch.Add(time.Duration(i) * 15 * time.Second).UnixMilli()
			}
			for i := range instances {
				for _, name := range []string{
					"up{%s}", "http_requests_in_flight{%s}", `http_requests_total{code="200",handler="/api",%s}`, `http_requests_total{code="500",handler="/api",%s}`,
					`http_request_duration_seconds_sum{handler="/api",%s}`, `http_request_duration_seconds_count{handler="/api",%s}`,
					`http_request_duration_seconds_sum{handler="/healthz",%s}`, `http_request_duration_seconds_count{handler="/healthz",%s}`,
					"process_cpu_seconds_total{%s}", "process_resident_memory_bytes{%s}", "process_start_time_seconds{%s}", "process_open_fds{%s}",
					"go_goroutines{%s}", "go_sched_gomaxprocs_threads{%s}", "go_sync_mutex_wait_total_seconds_total{%s}",
				} {
					lset, err := promQL.ParseMetric(fmt.Sprintf(name, fmt.Sprintf(`job="app",instance="%d"`, i)))
					if err != nil {
						b.Fatal(err)
					}
					vs := make([]float64, scrapes)
					for k := range vs {
						vs[k] = float64(k * (1 + i%7))
					}
					store.Append(lset, ts, vs)
				}
			}
			end := time.UnixMilli(ts[scrapes-1])
			for b.Loop() {
				c, err := Collect(b.Context(), store, CollectOptions{Start: end.Add(-2 * time.Hour), End: end, History: 70 * time.Minute})
				if err != nil {
					b.Fatal(err)
				}
				if len(c.Instances["app"]) != instances {
					b.Fatalf("%d instances, want %d", len(c.Instances["app"]), instances)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(instances)*1e3, "ms/instance")
		})
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3},
		{"poolwiat", "poolwait", 2}, {strings.Repeat("x", 1000), "", 64},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%.10q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
