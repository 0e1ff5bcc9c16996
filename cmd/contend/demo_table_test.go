package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/detect/all"
)

func TestEvalText(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeEvalText(&b, testEvaluation()); err != nil {
		t.Fatal(err)
	}
	const want = `6 of 8 runs right, of 5 scenarios
not valid: 1 run, counted nowhere below and named under "wrong"; try again with less running beside it

scenario           right appl herd infl lockh lockw tele
incident             1/2   !1   -1    +     .     o    +
healthy              1/2    .    .    .     .     .    .
fix-once             2/2    .    .    .     .     .    .
control-more-tasks   1/1    .    .    +     .     .    .
control-nothing      1/1    .    .    .     .     .    .
+ found as wanted  - missing  ! found and forbidden  o found and allowed  . silent  ? not valid
(-2: in 2 of the runs)
appl=applock  infl=inflightcpu  lockh=lockheadroom  lockw=lockwait  tele=telemetryblock

wrong
incident, run 2: missing herd, verdict telemetryblock; forbidden applock, verdict applock
healthy, run 2: not valid: requests were sent 120 ms late (99 %), more than 50 ms: the machine is too slow

detector        tp  fp  fn  tn   delay   worst
applock          0   1   0   6       -       -
herd             1   0   1   5  0.25 s  0.25 s
inflightcpu      3   0   0   4  2.50 s  3.50 s
lockheadroom     0   0   0   7       -       -
lockwait         0   0   0   5       -       -
telemetryblock   2   0   0   5  2.55 s  3.00 s
delay: median, and the worst, from the injected onset to the alert; when profiles are taken, the
scenario says

lead time of the alert of inflightcpu; in scrapes and real time, the worst
scenario                   before  warned  median    worst  scrapes   at 15 s   at 30 s
incident            first timeout     1/2  0.85 s  -0.10 s       -1  too late  too late
incident               first kill     1/1  3.50 s   3.50 s       14     3m30s      2m0s
control-more-tasks     first kill     0/1       -        -        -         -         -
At 30 s the alert needs as many scrapes, twice the time, and what it warns of comes as soon as it did.
The slowest warning came 13 scrapes after the onset: 3m15s at 15 s, 6m30s at 30 s. Where a step in
load meets clients with a shorter timeout than that, no alert on scraped series can come in time.

fixes, and controls that must not help, on one timeline; medians, clients' calls. People reload a page
that hangs, and stop when it does not: what is offered follows from how tasks fare
scenario            offered  served  failed  of offered  killed  usual traffic served
fix-once             40,546  40,501      46         0 %       0           after 4.5 s          helps
control-more-tasks   29,900  20,000   9,900        33 %      31                 never  does not help
control-nothing      30,500  20,500  10,000        33 %      30                 never
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// TestEvalWidth holds the text of the largest evaluation to one screen's width.
func TestEvalWidth(t *testing.T) {
	t.Parallel()
	e := testEvaluation()
	e.detectors = nil
	for _, d := range all.Detectors() {
		e.detectors = append(e.detectors, d.Name)
	}
	e.played = append(e.played, testRun("telemetryblock-eventloop", 1, "telemetryblock=tp"), testRun("control-a-name-that-is-longer-than-its-column", 10, ""))
	for _, line := range append(e.matrix(), e.records()...) {
		if n := utf8.RuneCountInString(line); n > usualWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	rows := strings.Split(strings.Join(e.matrix(), "\n"), "\n")
	if want := "telemetryblock-eventloop"; !strings.HasPrefix(rows[len(e.scenarios())-1], want) {
		t.Errorf("got %q, want %s in full", rows[len(e.scenarios())-1], want)
	}
	if want := "control-a-name-that-is-longer…"; !strings.HasPrefix(rows[len(e.scenarios())], want+" ") {
		t.Errorf("got %q, want %s", rows[len(e.scenarios())], want)
	}
}

func TestShortHeads(t *testing.T) {
	t.Parallel()
	names := []string{"herd", "healthcheck", "lockheadroom", "lockwait", "lock"}
	for _, test := range []struct {
		width int
		want  string
	}{
		{100, "herd heal lockh lockw lock"},
		{27, "herd heal lockh lockw lock"},
		{26, "her hea lockh lockw lock"},
		{1, "her hea lockh lockw lock"}, // shorter ones would be alike
	} {
		if got := strings.Join(shortHeads(names, test.width), " "); got != test.want {
			t.Errorf("in %d columns: %s, want %s", test.width, got, test.want)
		}
	}
}

func TestCell(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ marks, want string }{
		{"", "?"},
		{"tp tp", "+"},
		{"tn tn", "."},
		{"quiet found quiet", "o"},
		{"quiet", "."},
		{"tp fn tp", "-1"},
		{"fn fn", "-"},
		{"fp", "!"},
		{"tn fp fp", "!2"},
		{"fn fp tp", "!1"},
	} {
		var runs []played
		for m := range strings.FieldsSeq(test.marks) {
			runs = append(runs, testRun("s", 1, "herd="+m))
		}
		if got := cell(runs, "herd"); got != test.want {
			t.Errorf("%q is %q, want %q", test.marks, got, test.want)
		}
	}
}

func TestEvalTextEmpty(t *testing.T) {
	t.Parallel()
	e := &evaluation{runs: 1, detectors: []string{"herd"}, played: []played{testRun("healthy", 1, "")}}
	if lines := append(e.wrong(), append(e.leads(), e.fixes()...)...); lines != nil {
		t.Errorf("one healthy run has %q", lines)
	}
	e.variants = testEvaluation().variants
	e.played = []played{testRun("incident", 1, "")}
	if lines := e.fixes(); lines != nil {
		t.Errorf("an incident alone is compared: %q", lines)
	}
	e.played = []played{testRun("fix-once", 1, "")}
	if lines := e.fixes(); lines != nil {
		t.Errorf("a recorded fix, without an outcome, is compared: %q", lines)
	}
	e.played[0].Outcome = &play.Result{}
	if lines := e.fixes(); len(lines) != 4 || lines[3] != "fix-once        0       0       0         0 %       0                 never" {
		t.Errorf("a fix alone: %q", lines)
	}
}

// What a fix is worth is held to what it must be: an evaluation in which a
// control helps, or a fix does not, is wrong.
func TestEvalUnexpected(t *testing.T) {
	t.Parallel()
	e := testEvaluation()
	if n := len(e.unexpected()); n != 0 || e.mistakes() != 1 {
		t.Fatalf("%d unexpected, %d mistakes; want 0 and 1", n, e.mistakes())
	}
	e.variants = map[string]variant{"fix-once": {"control-nothing", false}, "control-more-tasks": {"control-nothing", true}, "fix-not-played": {"control-nothing", true}}
	if e.mistakes() != 3 {
		t.Errorf("%d mistakes, want 3", e.mistakes())
	}
	lines := e.wrong()
	want := []string{"fix-once: helps beside control-nothing, expected that it does not", "control-more-tasks: does not help beside control-nothing, expected that it does"}
	if got := lines[len(lines)-2:]; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	e.played = slices.DeleteFunc(e.played, func(p played) bool { return p.Scenario == "control-nothing" })
	if n := len(e.unexpected()); n != 0 {
		t.Errorf("%d are compared with what was not played", n)
	}
}
