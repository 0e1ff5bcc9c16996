package backtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/ingest/series/promapi"
)

// some are two jobs' requests, an hour of them: a has too many twice, b all the time from the middle on.
func some() *memory.Store {
	store := memory.New()
	a := make([]string, 240)
	b := make([]string, 240)
	for i := range a {
		a[i], b[i] = "1", "1"
		if i >= 40 && i < 60 || i >= 100 && i < 104 {
			a[i] = "9"
		}
		if i >= 120 {
			b[i] = "9"
		}
	}
	for job, values := range map[string][]string{"a": a, "b": b} {
		column(store, labels.FromStrings("__name__", "requests", "job", job, "instance", "1"), strings.Join(values, " "))
	}
	return store
}

const someRules = `
groups:
  - name: g
    limit: 10
    rules:
      - {record: "job:requests", expr: "sum by (job) (requests)"}
      - {record: "job:nothing", expr: "sum by (job) (nothing)"}
      - {record: "job:never", expr: "job:requests > 100"}
      - {alert: Busy, expr: "job:requests > 5", for: 1m, labels: {severity: page}}
      - {alert: Worse, expr: "job:requests > 8", for: 2m, keep_firing_for: 1m, labels: {severity: critical}}
      - {alert: Ticket, expr: "sum(job:requests) > 8", labels: {severity: ticket}}
      - {alert: Long, expr: "requests > 5", for: 45m}
      - {alert: False, expr: "job:never > 0"}
      - {alert: Missing, expr: "job:nothing > 1 and job:requests"}
      - {alert: Absent, expr: "absent(nothing)", for: 2h}
      - {alert: Either, expr: "nothing > 1 or requests > 100"}
      - {record: "job:future", expr: "requests offset -5m"}
      - {record: "job:later", expr: "job:future + 0"}
      - {alert: Future, expr: "requests offset -5m > 1"}
      - {alert: FedFuture, expr: "job:later > 100 or requests > 100"}
      - {alert: Fixed, expr: "requests @ 1790003600 > 1"}
      - {alert: FixedRecord, expr: "job:requests @ 1 > 1"}
      - {alert: AtEnd, expr: "requests @ end() > 5", for: 1m}
      - {alert: AtEndWithin, expr: "max_over_time((requests @ end())[5m:1m]) > 5", for: 1m}
      - {alert: Same, expr: "requests > 8 or label_replace(requests > 8, 'x', 'y', '', '')", labels: {x: z}}
      - {alert: Broken, expr: "requests / on () group_right () requests > 0"}
      - {alert: Loop, expr: "requests > 8", labels: {x: "{{ range 5 }}x{{ end }}"}}
`

func TestOutcomes(t *testing.T) {
	t.Parallel()
	r := run1(t, FromStore(some()), mustParse(t, someRules), 240, 0)
	want := `Busy: fired, pending 1
  11m0s-15m0s map[job:a severity:page]
  31m0s-… map[job:b severity:page]
Worse: fired, pending 1
  12m0s-16m0s map[job:a severity:critical]
  32m0s-… map[job:b severity:critical]
Ticket: fired, pending 0
  10m0s-15m0s map[severity:ticket]
  25m0s-26m0s map[severity:ticket]
  30m0s-… map[severity:ticket]
Long: pending, pending 3
False: condition false, pending 0 [job:never]
Missing: no series, pending 0 [job:nothing]
Absent: pending, pending 1 [nothing]
Either: condition false, pending 0 [nothing]
Future: failed, pending 0
  requests reads 5m into the future, which a live rule does not have
FedFuture: failed, pending 0
  it reads what is not known: job:future is not replayed: requests reads 5m into the future, which a live rule does not have
Fixed: failed, pending 0
  @ reads at one time after the start of the window, which a live rule does not have before
FixedRecord: failed, pending 0
  @ reads at one time beside what is recorded, which a replay in chunks does not have
AtEnd: fired, pending 1
  11m0s-15m0s map[instance:1 job:a]
  31m0s-… map[instance:1 job:b]
AtEndWithin: fired, pending 1
  11m0s-15m0s map[instance:1 job:a]
  31m0s-… map[instance:1 job:b]
Same: fired, pending 0
  10m0s-15m0s map[instance:1 job:a x:z]
  25m0s-26m0s map[instance:1 job:a x:z]
  30m0s-… map[instance:1 job:b x:z]
  144 evaluations have two alerts with the same labels, first at FIRST: a server refuses them
Broken: failed, pending 0
  some evaluations failed, first at START: evaluating
Loop: fired, pending 0
  10m0s-15m0s map[instance:1 job:a x:{{ range 5 }}x{{ end }}]
  25m0s-26m0s map[instance:1 job:a x:{{ range 5 }}x{{ end }}]
  30m0s-… map[instance:1 job:b x:{{ range 5 }}x{{ end }}]
`
	want = strings.NewReplacer("FIRST", clock(testStart.Add(10*time.Minute)), "START", clock(testStart)).Replace(want)
	var got strings.Builder
	at := func(end *time.Time) string {
		if end == nil {
			return "…"
		}
		return fmt.Sprint(end.Sub(testStart))
	}
	for _, a := range r.Alerts {
		fmt.Fprintf(&got, "%s: %s, pending %d", a.Alert, a.Outcome, a.Pending)
		if len(a.NoSeries) > 0 {
			fmt.Fprintf(&got, " %v", a.NoSeries)
		}
		got.WriteString("\n")
		for _, f := range a.Firings {
			fmt.Fprintf(&got, "  %s-%s %v\n", at(&f.Start), at(f.End), f.Labels)
		}
		if a.Error != "" {
			text, _, _ := strings.Cut(a.Error, "evaluating")
			if text != a.Error {
				text += "evaluating"
			}
			fmt.Fprintf(&got, "  %s\n", text)
		}
	}
	if got.String() != want {
		t.Errorf("%s\nall:\n%s", firstDifference(got.String(), want), got.String())
	}
	if got, want := fmt.Sprint(r.NoSeries), "[job:never job:nothing nothing]"; got != want {
		t.Errorf("no series: %s, want %s", got, want)
	}
	var pages []string
	for _, p := range r.Pages {
		pages = append(pages, fmt.Sprintf("%s %s-%s %v", p.Job, p.Start.Sub(testStart), at(p.End), p.Alerts))
	}
	// Two alerts of one job at a time are one page.
	if got, want := strings.Join(pages, "; "), "a 11m0s-16m0s [Busy Worse]; b 31m0s-… [Busy Worse]"; got != want {
		t.Errorf("pages: %s, want %s", got, want)
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"group g: its limit of 10 is not applied", "Loop: the template of its label x is not expanded, since it has range", "job:future is not replayed: requests reads 5m into the future"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q, want %q", notes, want)
		}
	}
	if len(r.Notes) != 3 {
		t.Errorf("%d notes, want 3: %q", len(r.Notes), notes)
	}
}

// TestCovered holds that a window longer than what is kept is said, and that what is not
// known is not replayed, of files and of servers.
func TestCovered(t *testing.T) {
	t.Parallel()
	end := testStart.Add(239 * testStep)
	sources := map[string]Source{"a file": FromStore(some()), "a server": server(t, some())}
	for _, tt := range []struct {
		back time.Duration
		note string
		text string
	}{
		{0, "", "(59m45s)"},
		{time.Minute, "", "(1h1m)"},
		{24 * time.Hour, "of 1d1h that were asked for, 59m45s are replayed", "(59m45s)"},
		{14 * 24 * time.Hour, "of 14d1h that were asked for, 59m45s are replayed", "(59m45s)"},
	} {
		for name, src := range sources {
			tt := tt // what of a server is known to a step only
			r, err := Run(t.Context(), src, mustParse(t, someRules), Options{Start: testStart.Add(-tt.back), End: end, Interval: testStep})
			if err != nil {
				t.Fatal(err)
			}
			// To a step, which is where that is said at all.
			before := testStart.Sub(r.Start)
			if before <= -testStep || before > time.Minute || tt.note != "" && before > testStep {
				t.Errorf("%s, %s before the data: replayed from %s before it on", name, tt.back, before)
			}
			if name == "a server" {
				tt.note = strings.Replace(tt.note, "59m45s", span(end.Sub(r.Start)), 1)
				tt.text = strings.Replace(tt.text, "59m45s", span(end.Sub(r.Start)), 1)
			}
			notes := strings.Join(r.Notes, "\n")
			if said := strings.Contains(notes, "the data begins at "+clock(r.Start)); said != (tt.note != "") || !strings.Contains(notes, tt.note) {
				t.Errorf("%s, %s before the data: notes %q, want %q", name, tt.back, r.Notes, tt.note)
			}
			if kept := strings.Contains(notes, "a server keeps 15 days"); kept != (tt.note != "" && name == "a server") {
				t.Errorf("%s, %s before the data: notes %q", name, tt.back, r.Notes)
			}
			var b bytes.Buffer
			if err := Text(&b, r); err != nil {
				t.Fatal(err)
			}
			if head, _, _ := strings.Cut(b.String(), "\n"); !strings.HasSuffix(head, tt.text) {
				t.Errorf("%s, %s before the data: %s, want %s", name, tt.back, head, tt.text)
			}
		}
	}
}

// TestSparse holds that a counter that begins with its first error does not make the
// time before one of which nothing is known.
func TestSparse(t *testing.T) {
	t.Parallel()
	const hours, step = 48, time.Minute
	store := memory.New()
	var ts []int64
	var up, errs []float64
	for i := range hours*60 + 1 {
		ts = append(ts, testStart.Add(time.Duration(i)*step).UnixMilli())
		up = append(up, 1)
		bad := 0.0
		if i == hours*60-40 || i == hours*60-20 {
			bad = 9
		}
		errs = append(errs, bad)
	}
	store.Append(labels.FromStrings("__name__", "up", "job", "a"), ts, up)
	from := len(ts) - 60
	store.Append(labels.FromStrings("__name__", "failures", "job", "a"), ts[from:], errs[from:])
	groups := mustParse(t, `groups: [{name: g, rules: [{alert: A, expr: "failures > 5"}]}]`)
	for name, src := range map[string]Source{"a file": FromStore(store), "a server": server(t, store)} {
		end := testStart.Add(hours * time.Hour)
		r, err := Run(t.Context(), src, groups, Options{Start: testStart, End: end, Interval: step})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Start.Equal(testStart) || !r.End.Equal(end) || len(r.Notes) > 0 || len(r.Alerts[0].Firings) != 2 {
			t.Errorf("%s: %s to %s, notes %q, %d firings; want all of two days and 2", name, r.Start, r.End, r.Notes, len(r.Alerts[0].Firings))
		}
		for text, want := range map[string]string{"A>1/d": "", "A>0.9/d": "A fired 2 times in 2d, which is A>0.9/d"} {
			l, err := ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := judged(&l, r); got != want {
				t.Errorf("%s: %s: %q, want %q", name, text, got, want)
			}
		}
	}
}

func server(t *testing.T, store *memory.Store) Source {
	t.Helper()
	api, err := promapi.New(serve(t, store).URL, nil, promapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return FromServer(api)
}

// TestAbsent holds that alerts which are not among the rules are told of as those that
// could not look.
func TestAbsent(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), FromStore(some()), mustParse(t, `groups: [{name: g, rules: [{alert: Never, expr: "requests > 10", labels: {severity: page}}]}]`), Options{
		Start: testStart, End: testStart.Add(time.Hour), Interval: testStep,
		Absent: []Absent{{"Slow", "g", "page", []string{"latency"}}, {"Growth", "g", "ticket", []string{"memory", "limit and memory"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var limits []Limit
	for _, text := range []string{"Slow>1/d", "Growth<=0", "Never>1/d", "pages>0"} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	var text, junit bytes.Buffer
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	if err := JUnit(&junit, r, limits); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ got, want string }{
		{text.String(), "\nnobody was paged (severity page or critical)\nnot looked, for want of series: Slow\n\nNever: never fired: its condition was false\n\nSlow: could not fire: no such series\n  nothing matches latency\n\nGrowth: could not fire: no such series\n  nothing matches memory\n  nothing matches limit and memory\n"},
		{asJSON(t, r), `      "alert": "Slow",
      "group": "g",
      "severity": "page",
      "labels": {
        "severity": "page"
      },
      "outcome": "no series",
      "firings": [],
      "pending": 0,
      "no_series": [
        "latency"
      ]
`},
		{junit.String(), `tests="7" failures="0" errors="2" skipped="2"`},
		{junit.String(), `    <testcase name="Slow&gt;1/d" classname="limits">
      <error message="Slow&gt;1/d is not known: Slow: no such series: latency"></error>
    </testcase>
    <testcase name="Growth&lt;=0" classname="limits">
      <error message="Growth&lt;=0 is not known: Growth: no such series: memory, limit and memory"></error>
    </testcase>
    <testcase name="Never&gt;1/d" classname="limits"></testcase>
    <testcase name="pages&gt;0" classname="limits">
      <system-out>pages&gt;0: not looked, for want of series: Slow</system-out>
    </testcase>
`},
		{junit.String(), `    <testcase name="Slow" classname="g">
      <skipped message="no such series: latency"></skipped>
`},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("want\n%s\nin\n%s", tt.want, tt.got)
		}
	}
}

// TestNotEvaluated holds that what was never evaluated is told apart from what was false, and
// that what reads it is not known.
func TestNotEvaluated(t *testing.T) {
	t.Parallel()
	groups := mustParse(t, `
groups:
  - name: long
    interval: 10h
    rules:
      - {record: x, expr: requests}
      - {alert: Long, expr: "requests >= 0", labels: {severity: page}}
      - {alert: Nothing, expr: "nothing >= 0"}
  - {name: ever, interval: 290y, rules: [{alert: Ever, expr: "requests >= 0"}]}
  - {name: once, interval: 1h, rules: [{alert: Once, expr: "requests > 100"}]}
  - name: fed
    rules:
      - {alert: Fed, expr: "x >= 0"}
      - {alert: False, expr: "requests > 100"}
`)
	start := testStart.Add(12 * testStep) // an hour of an even number is no multiple of 10 h
	for _, tt := range []struct {
		interval time.Duration
		want     string
	}{
		{testStep, "Long not evaluated: its interval of 10h is longer than the window; Nothing not evaluated: its interval of 10h is longer than the window; " +
			"Ever not evaluated: its interval of 290y is longer than the window; Once not evaluated: its interval of 1h is longer than the window; " +
			"Fed failed: it reads what is not known: x: not evaluated: its interval of 10h is longer than the window; False condition false: "},
		{10 * time.Hour, "Long not evaluated: its interval of 10h is longer than the window; Nothing not evaluated: its interval of 10h is longer than the window; " +
			"Ever not evaluated: its interval of 290y is longer than the window; Once not evaluated: its interval of 1h is longer than the window; " +
			"Fed not evaluated: its interval of 10h is longer than the window; False not evaluated: its interval of 10h is longer than the window"},
	} {
		r, err := Run(t.Context(), FromStore(some()), groups, Options{Start: start, End: testStart.Add(239 * testStep), Interval: tt.interval})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range r.Alerts {
			got = append(got, fmt.Sprintf("%s %s: %s", a.Alert, a.Outcome, strings.TrimPrefix(a.Error, "not evaluated: ")))
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("each %s: %s\nwant %s", tt.interval, strings.Join(got, "; "), tt.want)
		}
		for text, want := range map[string]string{
			"Long>1/d": "? Long>1/d is not known: Long: not evaluated: its interval of 10h is longer than the window",
			"Long<1":   "? Long<1 is not known: Long: not evaluated: its interval of 10h is longer than the window",
			"pages>1":  "? pages>1 is not known: Long: not evaluated: its interval of 10h is longer than the window",
		} {
			l, err := ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := judged(&l, r); got != want {
				t.Errorf("each %s: %q, want %q", tt.interval, got, want)
			}
		}
		var text, junit bytes.Buffer
		if err := errors.Join(Text(&text, r), JUnit(&junit, r, nil)); err != nil {
			t.Fatal(err)
		}
		if want := "nobody was paged (severity page or critical)\nnot replayed: Long\n\nLong: not evaluated: its interval of 10h is longer than the window\n\nNothing: "; !strings.Contains(text.String(), want) {
			t.Errorf("want %s in\n%s", want, text.String())
		}
		if want := "<testcase name=\"Long\" classname=\"long\">\n      <error message=\"not evaluated: its interval of 10h is longer than the window\">"; !strings.Contains(junit.String(), want) {
			t.Errorf("want %s in\n%s", want, junit.String())
		}
	}
	// The longer interval's multiple is there, at the start of the window, and the shorter one's is not.
	at := testStart.Add(20 * time.Second)
	r, err := Run(t.Context(), FromStore(some()), mustParse(t, `groups: [{name: a, interval: 20s, rules: [{alert: A, expr: "requests > 0"}]}, {name: b, interval: 15s, rules: [{alert: B, expr: "requests > 0"}]}]`),
		Options{Start: at, End: at.Add(9 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Alerts[0], r.Alerts[1]; len(a.Firings) != 2 || !a.Firings[0].Start.Equal(at) || b.Outcome != NotEvaluated {
		t.Errorf("A %s %v, B %s %v", a.Outcome, a.Firings, b.Outcome, b.Firings)
	}
}

// TestForged holds that no name, label or error makes lines that seem to be of the result.
func TestForged(t *testing.T) {
	t.Parallel()
	store := memory.New()
	column(store, labels.FromStrings("__name__", "x", "job", "a: B\n\nnobody was paged\n", "k8s.pod.ünï\"", "\u202ey"), "1 1 9 9 1")
	groups := mustParse(t, `
groups:
  - name: "g\u202e\n"
    limit: 1
    rules:
      - {alert: "X: never fired: its condition was false\n\nB", expr: "x > 5", labels: {severity: page}}
      - {alert: "B\u2028", expr: "nothing{a=\"\u202e\\n\"} > 5", labels: {severity: page}}
      - {alert: "C\x1b[1m", expr: "x{job!=\"\\n\"} offset -5m"}
`)
	r, err := Run(t.Context(), FromStore(store), groups, Options{Start: testStart, End: testStart.Add(4 * testStep), Interval: testStep})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := ParseLimit(`{alertname=~"X.*"}>0`)
	if err != nil {
		t.Fatal(err)
	}
	var text, junit bytes.Buffer
	if err := errors.Join(Text(&text, r), JUnit(&junit, r, []Limit{limit})); err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("START", clock(testStart), "END", clock(testStart.Add(4*testStep)), "AT", clock(testStart.Add(2*testStep))).Replace(`START to END (1m)

paged once (severity page or critical, grouped by job)
not looked, for want of series: B\u2028
  AT  for 30s  a: B\n\nnobody was paged\n: X: never fired: its condition was false\n\nB

X: never fired: its condition was false\n\nB: fired once, for 30s in all
  AT  for 30s  {"k8s.pod.ünï\""="\u202ey", job="a: B\n\nnobody was paged\n", severity="page"}

B\u2028: could not fire: no such series
  nothing matches nothing{a="\u202e\n"}

C\x1b[1m: not replayed
  x{job!="\n"} reads 5m into the future, which a live rule does not have

1 selector of the rules matched nothing; -o json lists them (no_series)

note: group g\u202e\n: its limit of 1 is not applied
`)
	if text.String() != want {
		t.Errorf("%s\nall:\n%s", firstDifference(text.String(), want), text.String())
	}
	if class := `classname="g\u202e\n"`; strings.Count(junit.String(), class) != 3 || strings.ContainsAny(junit.String(), "\u202e\u2028\x1b") || strings.Contains(junit.String(), "&#xA;") {
		t.Errorf("junit: %s", junit.String())
	}
	if long := printable(strings.Repeat("ü", 2001)); long != strings.Repeat("ü", 2000)+"…" {
		t.Errorf("a long text has %d bytes", len(long))
	}
	if same := "sum by (job) (x{a=\"\\\\\"}) – ünï"; printable(same) != same {
		t.Errorf("%s, want %s", printable(same), same)
	}
}

// TestHostileRules holds that rules which would take for ever end, and that those beside
// them are replayed.
func TestHostileRules(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("groups:\n- name: g\n  rules:\n  - {record: x0, expr: none}\n  - {record: x1, expr: none}\n")
	for i := 2; i < 60; i++ {
		fmt.Fprintf(&b, "  - {record: x%d, expr: x%d or x%d}\n", i, i-1, i-2) // of which each could twice as many ways
	}
	fmt.Fprintf(&b, "  - {alert: Ways, expr: x59}\n  - {alert: Plus, expr: \"requests%s > 1\"}\n", strings.Repeat("+requests", maxOperators-1))
	for name, expr := range map[string]string{
		"Points": "max_over_time(requests[30d:10ms])", "Within": "max_over_time(max_over_time(requests[1d:1m])[1d:1m])", "Minutes": "max_over_time(requests[140d:])",
		"Month": "max_over_time(requests[30d:15s]) > 8", "Days": "max_over_time(requests[138d:]) > 8",
	} {
		fmt.Fprintf(&b, "  - {alert: %s, expr: \"%s\"}\n", name, expr)
	}
	r := run1(t, FromStore(some()), mustParse(t, b.String()), 8, 0)
	got := map[string]string{}
	for _, a := range r.Alerts {
		got[a.Alert] = strings.TrimSuffix(string(a.Outcome)+" "+a.Error, " ")
	}
	const refused = "failed expected subqueries of at most 200000 points at each evaluation, saw "
	for name, want := range map[string]string{
		"Ways": "no series", "Plus": "fired", "Month": "condition false", "Days": "condition false",
		"Points": refused + "[30d:10ms] with 2.59e+08: choose a longer step", "Within": refused + "[1d:1m] with 2.07e+06: choose a longer step",
		"Minutes": refused + "[20w:1m] with 2.02e+05: choose a longer step",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
}

// TestTemplatesEnd holds that a replay which is cancelled expands no more templates.
func TestTemplatesEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := newAlert(&rule{Rule: rulefmt.Rule{Alert: "A"}, labels: map[string]string{"l": "{{ $value }}"}})
	m := promql.Matrix{{Floats: []promql.FPoint{{T: 1, F: 1}}}}
	if err := a.take(ctx, m); !errors.Is(err, context.Canceled) || len(a.tracks) > 0 {
		t.Errorf("cancelled: %v and %d alerts", err, len(a.tracks))
	}
	if err := a.take(t.Context(), m); err != nil || len(a.tracks) != 1 {
		t.Errorf("%v and %d alerts", err, len(a.tracks))
	}
}

// TestPages holds how firings are grouped.
func TestPages(t *testing.T) {
	t.Parallel()
	store := memory.New()
	for _, lset := range []labels.Labels{
		labels.FromStrings("__name__", "x", "job", "a", "cluster", "c"), labels.FromStrings("__name__", "x", "job", "b", "cluster", "c"),
		labels.FromStrings("__name__", "x", "cluster", "d", "node", "1"), labels.FromStrings("__name__", "x", "node", "2"),
	} {
		column(store, lset, "1 1 9 9 1")
	}
	groups := mustParse(t, `groups: [{name: g, rules: [{alert: A, expr: "x > 5", labels: {severity: page}}, {alert: B, expr: "x > 6", labels: {severity: critical}}, {alert: C, expr: "x > 5", labels: {severity: info}}]}]`)
	for _, tt := range []struct{ by, want, text string }{
		{"", `map[alertname:A] [A]; map[alertname:B] [B]; map[job:a] [A B]; map[job:b] [A B]`, "paged 4 times (severity page or critical, grouped by job, without one by alertname)\n  AT  for 30s: A\n  AT  for 30s: B\n  AT  for 30s  a: A, B\n"},
		{"job", `map[job:] [A B]; map[job:a] [A B]; map[job:b] [A B]`, "grouped by job)\n  AT  for 30s  {job=\"\"}: A, B\n  AT  for 30s  a: A, B\n"},
		{"alertname", `map[alertname:A] [A]; map[alertname:B] [B]`, "grouped by alertname)\n  AT  for 30s: A\n"},
		{"cluster,alertname", `map[alertname:A cluster:] [A]; map[alertname:A cluster:c] [A]; map[alertname:A cluster:d] [A]; map[alertname:B cluster:] [B]; map[alertname:B cluster:c] [B]; map[alertname:B cluster:d] [B]`,
			"grouped by cluster, alertname)\n  AT  for 30s  {alertname=\"A\", cluster=\"\"}: A\n"},
		{"severity", `map[severity:critical] [B]; map[severity:page] [A]`, "grouped by severity)\n  AT  for 30s  {severity=\"critical\"}: B\n"},
	} {
		var by []string
		if tt.by != "" {
			by = strings.Split(tt.by, ",")
		}
		r, err := Run(t.Context(), FromStore(store), groups, Options{Start: testStart, End: testStart.Add(4 * testStep), Interval: testStep, GroupBy: by})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range r.Pages {
			got = append(got, fmt.Sprintf("%v %v", p.Labels, p.Alerts))
			if p.Job != p.Labels["job"] {
				t.Errorf("by %q: job %q of %v", tt.by, p.Job, p.Labels)
			}
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("by %q: %s, want %s", tt.by, strings.Join(got, "; "), tt.want)
		}
		var b bytes.Buffer
		if err := Text(&b, r); err != nil {
			t.Fatal(err)
		}
		if want := strings.ReplaceAll(tt.text, "AT", clock(testStart.Add(2*testStep))); !strings.Contains(b.String(), want) {
			t.Errorf("by %q: want\n%s\nin\n%s", tt.by, want, b.String())
		}
	}
}

// TestSameName holds that alerts of one name can be told apart.
func TestSameName(t *testing.T) {
	t.Parallel()
	r := run1(t, FromStore(some()), mustParse(t, `groups: [{name: g, labels: {team: x}, rules: [
  {alert: Disk, expr: "requests > 5", labels: {severity: page}},
  {alert: Disk, expr: "requests > 10", labels: {severity: ticket, of: "{{ $labels.job }}"}},
  {alert: Disk, expr: "nothing > 1", labels: {severity: critical}},
  {alert: Other, expr: "requests > 10"}]}]`), 240, 0)
	var text, junit bytes.Buffer
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	if err := JUnit(&junit, r, nil); err != nil {
		t.Fatal(err)
	}
	for _, title := range []string{`Disk{severity="page", team="x"}`, `Disk{severity="ticket", team="x"}`, `Disk{severity="critical", team="x"}`, "Other"} {
		if !strings.Contains(text.String(), "\n"+title+": ") {
			t.Errorf("want %s in\n%s", title, text.String())
		}
		if name := `<testcase name="` + strings.ReplaceAll(title, `"`, "&#34;") + `" classname="g">`; !strings.Contains(junit.String(), name) {
			t.Errorf("want %s in\n%s", name, junit.String())
		}
	}
	if want := "not looked, for want of series: Disk{severity=\"critical\", team=\"x\"}\n"; !strings.Contains(text.String(), want) {
		t.Errorf("want %s in\n%s", want, text.String())
	}
	if got, want := fmt.Sprint(r.Alerts[0].Labels, r.Alerts[1].Labels, r.Alerts[3].Labels), "map[severity:page team:x] map[severity:ticket team:x] map[team:x]"; got != want {
		t.Errorf("labels %s, want %s", got, want)
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0ms": 0, "250ms": 250 * time.Millisecond, "1s": 999_700 * time.Microsecond, "9.3s": 9250 * time.Millisecond, "31.1s": 31_074 * time.Millisecond,
		"27.8s": 27_836 * time.Millisecond, "26s": 26 * time.Second, "1m": 59_970 * time.Millisecond, "1m19s": 78_700 * time.Millisecond,
		"59m45s": 59*time.Minute + 45*time.Second, "1h": 59*time.Minute + 59_600*time.Millisecond, "2h10m": 2*time.Hour + 10*time.Minute + 20*time.Second,
		"1d": 24*time.Hour - 20*time.Second, "1d1h": 24*time.Hour + 59*time.Minute + 45*time.Second, "14d": 14 * 24 * time.Hour, "15d": 15*24*time.Hour + 29*time.Minute, "365d": 365 * 24 * time.Hour,
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	groups := mustParse(t, someRules)
	for _, tt := range []struct {
		opt  Options
		want string
	}{
		{Options{Start: testStart, End: testStart}, "expected a window that ends after it starts"},
		{Options{Start: testStart, End: testStart.Add(10 * 365 * 24 * time.Hour)}, "choose a shorter window with --since"},
	} {
		if _, err := Run(t.Context(), FromStore(some()), groups, tt.opt); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// TestCircles holds that rules which read each other end, whatever they read.
func TestCircles(t *testing.T) {
	t.Parallel()
	r := run1(t, FromStore(some()), mustParse(t, `
groups:
  - name: one
    rules:
      - {record: x, expr: "y + 1 or sum(requests)"}
      - {record: self, expr: "self + 1 or sum(requests)"}
      - {record: '__name__', expr: "requests"}
      - {alert: X, expr: "x > 100"}
      - {alert: Self, expr: "self > 100"}
      - {alert: Own, expr: 'count(ALERTS{alertname="Own"} or requests) > 0', for: 1m}
      - {alert: All, expr: 'count({__name__=~".+"}) > 1000'}
  - name: two
    rules:
      - {record: y, expr: "x + 1"}
`), 240, 0)
	outcomes := map[string]Outcome{}
	for _, a := range r.Alerts {
		outcomes[a.Alert] = a.Outcome
		if a.Error != "" {
			t.Errorf("%s: %s", a.Alert, a.Error)
		}
	}
	if got, want := fmt.Sprint(outcomes), "map[All:condition false Own:fired Self:fired X:fired]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r := &Result{Start: testStart, End: testStart.Add(48 * time.Hour), Alerts: []Alert{
		{Alert: "A", Firings: make([]Firing, 3)}, {Alert: "B"},
		{Alert: "Disk", Labels: map[string]string{"severity": "page"}, Severity: "page", Firings: make([]Firing, 1)},
		{Alert: "Disk", Labels: map[string]string{"severity": "ticket"}, Firings: make([]Firing, 4)},
		{Alert: "None", Outcome: NoSeries, NoSeries: []string{"nothing"}},
		{Alert: "Half", Outcome: Fired, Error: "some evaluations failed", Firings: make([]Firing, 2)},
		{Alert: "Broken", Outcome: Failed, Error: "it is broken"},
	}, Pages: make([]Page, 1)}
	short := &Result{Start: testStart, End: testStart.Add(10 * time.Minute), Alerts: r.Alerts}
	paging := func(outcome Outcome, err string) *Result {
		return &Result{Start: r.Start, End: r.End, Alerts: []Alert{
			{Alert: "None", Severity: "page", Outcome: NoSeries}, {Alert: "Looked", Severity: "page", Outcome: outcome, Error: err},
			{Alert: "Ticket", Severity: "ticket", Outcome: Failed, Error: "it is broken"},
		}, Pages: make([]Page, 1)}
	}
	for _, tt := range []struct {
		text string
		of   *Result
		want string
	}{
		{"A>2/d", r, ""},
		{"A>1/d", r, "A fired 3 times in 2d, which is A>1/d"},
		{" A >= 1.5 / d ", r, "A fired 3 times in 2d, which is A >= 1.5 / d"},
		{"A>2", r, "A fired 3 times in 2d, which is A>2"},
		{"A>3", r, ""},
		{"A>2/w", r, "A fired 3 times in 2d, which is A>2/w"}, // two days count as a week
		{"A>3/w", r, ""},
		{"A>0/h", r, "A fired 3 times in 2d, which is A>0/h"},
		{"A>2/d", short, "A fired 3 times in 10m, which is A>2/d"},
		{"A>3/d", short, ""},
		{"B<1", r, "B never fired in 2d, which is B<1"},
		{"B<=0", r, "B never fired in 2d, which is B<=0"},
		{"A<1", r, ""},
		{"pages>0", r, "somebody is paged once in 2d, which is pages>0"},
		{"pages>1/d", r, ""},
		{"Disk>4", r, "Disk fired 5 times in 2d, which is Disk>4"},
		{`Disk{severity="page"}>0`, r, `Disk{severity="page"} fired once in 2d, which is Disk{severity="page"}>0`},
		{`Disk{severity="page"}>1`, r, ""},
		{`Disk{severity=~"tick.*", alertname!="x>1"} > 1/d`, r, `Disk{severity=~"tick.*", alertname!="x>1"} fired 4 times in 2d, which is Disk{severity=~"tick.*", alertname!="x>1"} > 1/d`},
		{`{severity="page"}>0`, r, `{severity="page"} fired once in 2d, which is {severity="page"}>0`},
		// What could not look passes no limit, whichever way it is.
		{"None>1/d", r, "? None>1/d is not known: None: no such series: nothing"},
		{"None<1", r, "? None<1 is not known: None: no such series: nothing"},
		{"None>=0", r, "None never fired in 2d, which is None>=0"},
		{"Broken>0", r, "? Broken>0 is not known: Broken: it is broken"},
		{"Half>2", r, "? Half>2 is not known: Half: some evaluations failed"},
		{"Half>1", r, "Half fired 2 times in 2d, which is Half>1"}, // more would be too often too
		{"Half<3", r, "? Half<3 is not known: Half: some evaluations failed"},
		{"Half<2", r, ""}, // more would be often enough too
		{"pages>1/d", paging(ConditionFalse, ""), ""},
		{"pages>1/d", paging(Failed, "it is broken"), "? pages>1/d is not known: Looked: it is broken"},
		{"pages>0", paging(Failed, "it is broken"), "somebody is paged once in 2d, which is pages>0"},
		{"pages>1/d", paging(NoSeries, ""), "? pages>1/d is not known: no alert that pages has series: None, Looked"},
	} {
		l, err := ParseLimit(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := judged(&l, tt.of); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
	for _, text := range []string{"", "A", "A>", ">2/d", "A>2/y", "A>-1", "A>x", "A==2", "A>2/d/d", " >2", "A{x}>2", `pages{job="a"}>2`} {
		if l, err := ParseLimit(text); err == nil {
			t.Errorf("%q is read as %+v", text, l)
		}
	}
	groups := mustParse(t, someRules)
	var gone []Absent
	for _, name := range []string{"Gone", "Disk full", "Rate > 5/d", "läuft, {x} = y", "Disk {sda}"} {
		gone = append(gone, Absent{Alert: name, Severity: "info"})
	}
	for text, want := range map[string]string{
		"Busy>1": "", "pages>1": "",
		"Disk full>1/d": "", `Disk full{severity="info"} > 1/d`: "", "Rate > 5/d>1": "", "läuft, {x} = y >= 1": "", `{alertname="Disk {sda}"}>1`: "",
		`Disk {sda}{severity="info"}>1`: "",
		"Disk  full>1":                  `Disk  full>1: expected an alert of the rules, saw "Disk  full"; the closest: Disk full, Disk {sda}, Missing`,
		"{}x>2":                         `{}x>2: expected an alert of the rules, saw "{}x"; the closest: Busy, Fixed, Gone`,
		`Busy{severity="page"}>1`:       "", "Gone>1": "", `Gone{severity="info"}>1`: "", `{severity="critical"}>1`: "",
		`Busy{severity="pgae"}>1`: `Busy{severity="pgae"}>1: expected an alert of the rules, saw Busy with other labels only: {severity="page"}`,
		`{severity="pgae"}>1`:     `{severity="pgae"}>1: expected an alert of the rules, saw none with such labels`,
		"Bussy>1":                 `Bussy>1: expected an alert of the rules, saw "Bussy"; the closest: Busy, False, Worse`,
	} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := l.Check(groups, gone); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	l, err := ParseLimit("pages>1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ severity, want string }{
		{"critical", ""},
		{"{{ if gt $value 5.0 }}page{{ else }}info{{ end }}", ""},
		{"P1", "pages>1: expected an alert that pages (severity page or critical), saw none among 1"},
	} {
		got := ""
		if err := l.Check(mustParse(t, fmt.Sprintf("groups: [{name: g, labels: {severity: %q}, rules: [{alert: A, expr: up}]}]", tt.severity)), nil); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("pages of severity %s: %q, want %q", tt.severity, got, tt.want)
		}
	}
}

// judged is what a limit says of a result: with ? before it where that is that it is not known.
func judged(l *Limit, r *Result) string {
	beyond, unknown := l.Judge(r)
	if unknown != "" {
		return beyond + "? " + unknown
	}
	return beyond
}

func TestWrite(t *testing.T) {
	t.Parallel()
	groups := mustParse(t, `groups: [{name: g, rules: [
  {alert: Busy, expr: "requests > 5", for: 6m, labels: {severity: page}},
  {alert: Missing, expr: "nothing > 1"}, {alert: Future, expr: "requests offset -5m"}, {alert: Never, expr: "requests > 10"}]}]`)
	r := run1(t, FromStore(some()), groups, 240, 0)
	limit, err := ParseLimit("Busy>0/d")
	if err != nil {
		t.Fatal(err)
	}
	var text, junit bytes.Buffer
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	if err := JUnit(&junit, r, []Limit{limit}); err != nil {
		t.Fatal(err)
	}
	day := clock(testStart)[:11]
	hour := clock(testStart)[11:13]
	replace := strings.NewReplacer("DAY", day, "HOUR", hour)
	for _, tt := range []struct{ name, got, want string }{
		{"json", asJSON(t, r), `{
  "schema": "contend.backtest/v1",
  "start": "DAYHOUR:00:00Z",
  "end": "DAYHOUR:59:45Z",
  "alerts": [
    {
      "alert": "Busy",
      "group": "g",
      "file": "rules.yaml",
      "severity": "page",
      "labels": {
        "severity": "page"
      },
      "outcome": "fired",
      "firings": [
        {
          "start": "DAYHOUR:36:00Z",
          "labels": {
            "instance": "1",
            "job": "b",
            "severity": "page"
          }
        }
      ],
      "pending": 2
    },
    {
      "alert": "Missing",
      "group": "g",
      "file": "rules.yaml",
      "outcome": "no series",
      "firings": [],
      "pending": 0,
      "no_series": [
        "nothing"
      ]
    },
    {
      "alert": "Future",
      "group": "g",
      "file": "rules.yaml",
      "outcome": "failed",
      "firings": [],
      "pending": 0,
      "error": "requests reads 5m into the future, which a live rule does not have"
    },
    {
      "alert": "Never",
      "group": "g",
      "file": "rules.yaml",
      "outcome": "condition false",
      "firings": [],
      "pending": 0
    }
  ],
  "pages": [
    {
      "job": "b",
      "labels": {
        "job": "b"
      },
      "start": "DAYHOUR:36:00Z",
      "alerts": [
        "Busy"
      ]
    }
  ],
  "no_series": [
    "nothing"
  ]
}
`},
		{"text", text.String(), `DAYHOUR:00:00Z to DAYHOUR:59:45Z (59m45s)

paged once (severity page or critical, grouped by job)
  DAYHOUR:36:00Z  still firing  b: Busy

Busy: fired once, for 23m45s in all; pending 2 times without firing
  DAYHOUR:36:00Z  still firing  {instance="1", job="b", severity="page"}

Missing: could not fire: no such series
  nothing matches nothing

Future: not replayed
  requests reads 5m into the future, which a live rule does not have

Never: never fired: its condition was false

1 selector of the rules matched nothing; -o json lists them (no_series)
`},
		{"junit", junit.String(), `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="contend rules backtest" tests="5" failures="1" errors="1" skipped="1" time="3585.000" timestamp="DAYHOUR:00:00">
    <testcase name="Busy&gt;0/d" classname="limits">
      <failure message="Busy fired once in 59m45s, which is Busy&gt;0/d"></failure>
    </testcase>
    <testcase name="Busy" classname="g">
      <system-out>fired once, for 23m45s in all; pending 2 times without firing</system-out>
    </testcase>
    <testcase name="Missing" classname="g">
      <skipped message="no such series: nothing"></skipped>
      <system-out>could not fire: no such series</system-out>
    </testcase>
    <testcase name="Future" classname="g">
      <error message="requests reads 5m into the future, which a live rule does not have"></error>
      <system-out>not replayed</system-out>
    </testcase>
    <testcase name="Never" classname="g">
      <system-out>never fired: its condition was false</system-out>
    </testcase>
  </testsuite>
</testsuites>
`},
	} {
		if want := replace.Replace(tt.want); tt.got != want {
			t.Errorf("%s: %s", tt.name, firstDifference(tt.got, want))
		}
	}
}
