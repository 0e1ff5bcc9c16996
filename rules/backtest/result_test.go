package backtest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest/series/memory"
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
      - {alert: Future, expr: "requests offset -5m > 1"}
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
	for _, want := range []string{"group g: its limit of 10 is not applied", "Loop: the template of its label x is not expanded, since it has range"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes %q, want %q", notes, want)
		}
	}
	if len(r.Notes) != 2 {
		t.Errorf("%d notes, want 2: %q", len(r.Notes), notes)
	}
}

// TestCovered holds that a window longer than what is kept is said, and that what is not
// known is not replayed.
func TestCovered(t *testing.T) {
	t.Parallel()
	end := testStart.Add(239 * testStep)
	for _, tt := range []struct {
		back  time.Duration
		start time.Duration // of the result, before testStart, at most
		note  string
	}{
		{0, 0, ""},
		{time.Minute, time.Minute, ""},
		{24 * time.Hour, 20 * time.Minute, "the data begins about " + clock(testStart)[:13]},
	} {
		r, err := Run(t.Context(), FromStore(some()), mustParse(t, someRules), Options{Start: testStart.Add(-tt.back), End: end, Interval: testStep})
		if err != nil {
			t.Fatal(err)
		}
		if before := testStart.Sub(r.Start); before < 0 || before > tt.start {
			t.Errorf("%s before the data: replayed from %s before it on", tt.back, before)
		}
		if said := strings.Contains(strings.Join(r.Notes, "\n"), "the data begins"); said != (tt.note != "") || !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) {
			t.Errorf("%s before the data: notes %q, want %q", tt.back, r.Notes, tt.note)
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
	r := &Result{Start: testStart, End: testStart.Add(48 * time.Hour), Alerts: []Alert{{Alert: "A", Firings: make([]Firing, 3)}, {Alert: "B"}}, Pages: make([]Page, 1)}
	short := &Result{Start: testStart, End: testStart.Add(10 * time.Minute), Alerts: r.Alerts}
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
	} {
		l, err := ParseLimit(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Exceeded(tt.of); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
	for _, text := range []string{"", "A", "A>", ">2/d", "A>2/y", "A>-1", "A>x", "A==2", "A>2/d/d", "A B>2"} {
		if l, err := ParseLimit(text); err == nil {
			t.Errorf("%q is read as %+v", text, l)
		}
	}
	groups := mustParse(t, someRules)
	for text, want := range map[string]string{
		"Busy>1": "", "pages>1": "",
		"Bussy>1": `Bussy>1: expected an alert of the rules, saw "Bussy"; the closest: Busy, False, Worse`,
	} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := l.Check(groups); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
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

1 selectors of the rules matched nothing; -o json lists them (no_series)
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
