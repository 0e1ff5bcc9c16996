package main

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/truth"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
)

var demoStart = time.Date(2026, 1, 2, 8, 47, 0, 0, time.UTC)

// demoAt is a moment so many milliseconds after the onset.
func demoAt(ms int) time.Time { return demoStart.Add(time.Duration(ms) * time.Millisecond) }

// alertFinding is a finding of an alert whose condition held from and to those milliseconds, by pairs.
func alertFinding(detector, alert string, ms ...int) detect.Finding {
	f := detect.Finding{Detector: detector, Alert: alert}
	for i := 0; i+1 < len(ms); i += 2 {
		f.Times = append(f.Times, detect.Window{Start: demoAt(ms[i]), End: demoAt(ms[i+1])})
	}
	return f
}

func demoEvents(ms map[string]int) []ingest.Event {
	var events []ingest.Event
	for _, name := range []string{"begin", "onset", "phase", "first_timeout", "first_kill"} {
		if at, ok := ms[name]; ok {
			events = append(events, ingest.Event{Name: name, At: demoAt(at)})
		}
	}
	return events
}

func testScorer(t *testing.T, text string) *scorer {
	t.Helper()
	tr, err := truth.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &scorer{truth: tr, detectors: all.Detectors(), timing: series.Timing{Interval: play.Scrape, Factor: 60}}
}

// TestScoreFindings compares reports with one truth.
func TestScoreFindings(t *testing.T) {
	t.Parallel()
	s := testScorer(t, `verdict telemetryblock
verdict lockwait
want telemetryblock  # the fault
want healthcheck ContendHealthCheckSlow  # checks take the lock
allow lockwait  # the counter says it too
allow poolwait ContendPoolWait  # perhaps
`)
	telemetry, slow := detect.Finding{Detector: "telemetryblock"}, detect.Finding{Detector: "healthcheck", Alert: "ContendHealthCheckSlow"}
	for _, test := range []struct {
		name               string
		verdict            string
		findings           []detect.Finding
		missing, forbidden []string
		marks              map[string]mark // of those that are not tn
	}{
		{
			name: "right", verdict: "telemetryblock", findings: []detect.Finding{telemetry, slow, telemetry},
			missing: []string{}, forbidden: []string{},
			marks: map[string]mark{"telemetryblock": markTP, "healthcheck": markTP, "lockwait": markQuiet, "poolwait": markQuiet},
		},
		{
			name: "right too", verdict: "lockwait",
			findings: []detect.Finding{telemetry, slow, {Detector: "healthcheck"}, {Detector: "lockwait", Alert: "ContendLockWait"}, {Detector: "poolwait"}, {Detector: "poolwait", Alert: "ContendPoolWait"}},
			missing:  []string{}, forbidden: []string{},
			marks: map[string]mark{"telemetryblock": markTP, "healthcheck": markTP, "lockwait": markFound, "poolwait": markFound},
		},
		{
			name:    "nothing",
			missing: []string{"telemetryblock", "healthcheck ContendHealthCheckSlow", "verdict telemetryblock or lockwait"}, forbidden: []string{},
			marks: map[string]mark{"telemetryblock": markFN, "healthcheck": markFN, "lockwait": markQuiet, "poolwait": markQuiet},
		},
		{
			name: "the wanted alert is missing", verdict: "telemetryblock", findings: []detect.Finding{telemetry, {Detector: "healthcheck"}},
			missing: []string{"healthcheck ContendHealthCheckSlow"}, forbidden: []string{},
			marks: map[string]mark{"telemetryblock": markTP, "healthcheck": markFN, "lockwait": markQuiet, "poolwait": markQuiet},
		},
		{
			name: "another verdict and another detector", verdict: "applock",
			findings: []detect.Finding{telemetry, slow, {Detector: "applock"}, {Detector: "applock"}},
			missing:  []string{"verdict telemetryblock or lockwait"}, forbidden: []string{"applock", "verdict applock"},
			marks: map[string]mark{"telemetryblock": markTP, "healthcheck": markTP, "lockwait": markQuiet, "poolwait": markQuiet, "applock": markFP},
		},
		{
			name: "other alerts", verdict: "telemetryblock",
			findings: []detect.Finding{telemetry, slow, {Detector: "healthcheck", Alert: "ContendHealthCheckFailing"}, {Detector: "poolwait", Alert: "ContendPoolExhausted"}, {Detector: "herd", Alert: "ContendHerd"}},
			missing:  []string{}, forbidden: []string{"healthcheck ContendHealthCheckFailing", "herd", "poolwait ContendPoolExhausted"},
			marks: map[string]mark{"telemetryblock": markTP, "healthcheck": markFP, "lockwait": markQuiet, "poolwait": markFP, "herd": markFP},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := s.score(&detect.Report{Verdict: detect.Verdict{Cause: test.verdict}, Findings: test.findings}, nil)
			marks := map[string]mark{}
			for _, d := range s.detectors {
				marks[d.Name] = markTN
			}
			for name, m := range test.marks {
				marks[name] = m
			}
			want := runScore{Missing: test.missing, Forbidden: test.forbidden, Marks: marks, Delay: map[string]float64{}, After: map[string]float64{}}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if got.right() != (len(test.missing)+len(test.forbidden) == 0) {
				t.Errorf("right is %v", got.right())
			}
		})
	}
}

// A scenario without a fault is right without a cause only.
func TestScoreNone(t *testing.T) {
	t.Parallel()
	s := testScorer(t, "verdict none")
	if got := s.score(&detect.Report{}, nil); !got.right() {
		t.Errorf("nothing found is wrong: %+v", got)
	}
	got := s.score(&detect.Report{Verdict: detect.Verdict{Cause: "applock"}}, nil)
	if !reflect.DeepEqual(got.Missing, []string{"verdict none"}) || !reflect.DeepEqual(got.Forbidden, []string{"verdict applock"}) {
		t.Errorf("a cause where there is none: %+v", got)
	}
}

// TestScoreTimes has times that were counted by hand. Alerts hold for two
// scrapes (0.5 s) in inflightcpu and lockwait, for none in herd.
func TestScoreTimes(t *testing.T) {
	t.Parallel()
	const everything = "verdict telemetryblock\nwant telemetryblock  # r\nwant herd  # r\nwant inflightcpu  # r\nallow lockwait  # r\n"
	when := demoAt(2100)
	later := demoAt(3250)
	stacks := &detect.Report{
		Verdict:  detect.Verdict{Cause: "telemetryblock", Story: []detect.StoryLine{{At: demoAt(900), Detector: "herd", Summary: "locked"}, {At: when, Detector: "telemetryblock", Summary: "locked"}}},
		Findings: []detect.Finding{{Detector: "telemetryblock", Summary: "locked", Evidence: []detect.Evidence{{Input: "late"}}}},
		Inputs:   []detect.Input{{Name: "late", Taken: &later}},
	}
	unstoried := &detect.Report{
		Verdict:  detect.Verdict{Cause: "telemetryblock"},
		Findings: []detect.Finding{{Detector: "telemetryblock", Evidence: []detect.Evidence{{Input: "gone"}, {Input: "late"}}}},
		Inputs:   []detect.Input{{Name: "gone"}, {Name: "late", Taken: &later}},
	}
	alerts := func(findings ...detect.Finding) *detect.Report {
		return &detect.Report{Verdict: detect.Verdict{Cause: "telemetryblock"}, Findings: findings}
	}
	num := func(x float64) *float64 { return &x }
	for _, test := range []struct {
		name    string
		report  *detect.Report
		events  map[string]int
		delay   map[string]float64
		warning *float64
		timeout *float64
		kill    *float64
		missed  bool // the warning, which is wanted, came too late or not at all
	}{
		{
			name:   "an alert fires after its hold",
			report: alerts(alertFinding("inflightcpu", "ContendInflightCPU", 1000, 9000), alertFinding("herd", "ContendHerd", 250, 250)),
			events: map[string]int{"onset": 0, "first_timeout": 4250, "first_kill": 8001},
			delay:  map[string]float64{"inflightcpu": 1.5, "herd": 0.25}, warning: num(1.5), timeout: num(2.75), kill: num(6.501),
		},
		{
			name:   "one that ended within its hold did not fire",
			report: alerts(alertFinding("inflightcpu", "ContendInflightCPU", 1000, 1250)),
			events: map[string]int{"onset": 0, "first_timeout": 4250},
			delay:  map[string]float64{}, missed: true,
		},
		{
			name:   "one that ended with its hold did",
			report: alerts(alertFinding("inflightcpu", "ContendInflightCPU", 1000, 1500)),
			events: map[string]int{"onset": 0},
			delay:  map[string]float64{"inflightcpu": 1.5}, warning: num(1.5),
		},
		{
			name:   "what fired before the onset is not of the fault",
			report: alerts(alertFinding("inflightcpu", "ContendInflightCPU", -4000, -2000, 2000, 6000), alertFinding("herd", "ContendHerd", -250, 3000)),
			events: map[string]int{"onset": 0, "first_timeout": 2000},
			delay:  map[string]float64{"inflightcpu": 2.5}, warning: num(2.5), timeout: num(-0.5), missed: true,
		},
		{
			name:   "what fires at the onset is",
			report: alerts(alertFinding("herd", "ContendHerd", 0, 250)),
			events: map[string]int{"onset": 0, "first_kill": 300},
			delay:  map[string]float64{"herd": 0},
		},
		{
			name: "profiles, as the story has them", report: stacks,
			events: map[string]int{"onset": 0, "first_timeout": 3000},
			delay:  map[string]float64{}, missed: true, // when a profile is taken, the scenario says: no warning
		},
		{
			name: "profiles without a story", report: unstoried,
			events: map[string]int{"onset": 1000, "first_kill": 6250},
			delay:  map[string]float64{},
		},
		{
			name:   "an alert beside a profile",
			report: &detect.Report{Verdict: stacks.Verdict, Inputs: stacks.Inputs, Findings: append([]detect.Finding{alertFinding("inflightcpu", "ContendInflightCPU", 1500, 9000)}, stacks.Findings...)},
			events: map[string]int{"onset": 0, "first_timeout": 3000},
			delay:  map[string]float64{"inflightcpu": 2}, warning: num(2), timeout: num(1),
		},
		{
			name:   "allowed detectors have no delay, and lockwait is no early warning",
			report: alerts(alertFinding("lockwait", "ContendLockWait", 1000, 9000)),
			events: map[string]int{"onset": 0, "first_timeout": 3000},
			delay:  map[string]float64{}, missed: true,
		},
		{
			name:   "no onset",
			report: alerts(alertFinding("inflightcpu", "ContendInflightCPU", 1000, 9000)),
			events: map[string]int{"first_timeout": 3000},
			delay:  map[string]float64{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := testScorer(t, everything).score(test.report, demoEvents(test.events))
			if !reflect.DeepEqual(got.Delay, test.delay) {
				t.Errorf("delays %v, want %v", got.Delay, test.delay)
			}
			if slices.Contains(got.Missing, missedWarning) != test.missed {
				t.Errorf("missing %q, want the warning among them: %v", got.Missing, test.missed)
			}
			for _, m := range []struct {
				what      string
				got, want *float64
			}{{"warning", got.Warning, test.warning}, {"before the first timeout", got.lead(play.EventFirstTimeout), test.timeout}, {"before the first kill", got.lead(play.EventFirstKill), test.kill}} {
				if !reflect.DeepEqual(m.got, m.want) {
					t.Errorf("%s: %s, want %s", m.what, someSeconds(m.got), someSeconds(m.want))
				}
			}
		})
	}
}

// An alert that was over before anything was done is a false alarm, and not the
// one that is wanted.
func TestScoreEarly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name               string
		finding            detect.Finding
		events             map[string]int
		missing, forbidden []string
		mark               mark
	}{
		{"over before the onset", alertFinding("herd", "ContendHerd", -4000, -2000), map[string]int{"onset": 0},
			[]string{"herd"}, []string{"herd ContendHerd before the fault"}, markFP},
		{"lasts into it", alertFinding("herd", "ContendHerd", -4000, 250), map[string]int{"onset": 0}, []string{}, []string{}, markTP},
		{"again in it", alertFinding("herd", "ContendHerd", -4000, -2000, 500, 1000), map[string]int{"onset": 0}, []string{}, []string{}, markTP},
		{"of what leads to it", alertFinding("herd", "ContendHerd", -4000, -2000), map[string]int{"begin": -5000, "onset": 0}, []string{}, []string{}, markTP},
		{"before that", alertFinding("herd", "ContendHerd", -4000, -2000), map[string]int{"begin": -1000, "onset": 0},
			[]string{"herd"}, []string{"herd ContendHerd before the fault"}, markFP},
		{"never fired", alertFinding("inflightcpu", "ContendInflightCPU", -4000, -3750), map[string]int{"onset": 0}, []string{"herd"}, []string{}, markFN},
		{"nothing is done", alertFinding("herd", "ContendHerd", -4000, -2000), nil, []string{}, []string{}, markTP},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := testScorer(t, "want herd  # r\nallow inflightcpu  # r\nverdict none")
			got := s.score(&detect.Report{Findings: []detect.Finding{test.finding}}, demoEvents(test.events))
			if !slices.Equal(got.Missing, test.missing) || !slices.Equal(got.Forbidden, test.forbidden) || got.Marks["herd"] != test.mark {
				t.Errorf("missing %q, forbidden %q, %s; want %q, %q, %s", got.Missing, got.Forbidden, got.Marks["herd"], test.missing, test.forbidden, test.mark)
			}
		})
	}
}

// Of several events of one name the first counts.
func TestScoreFirstEvent(t *testing.T) {
	t.Parallel()
	events := append(demoEvents(map[string]int{"onset": 0, "first_kill": 2000}), demoEvents(map[string]int{"onset": 1000, "first_kill": 3000})...)
	got := testScorer(t, "verdict none").score(&detect.Report{}, events)
	if want := map[string]float64{"first_kill": 2}; !reflect.DeepEqual(got.After, want) {
		t.Errorf("events at %v, want %v", got.After, want)
	}
}

// An alert waits for its hold in whole steps, whatever the interval.
func TestHold(t *testing.T) {
	t.Parallel()
	s := testScorer(t, "verdict none")
	for _, test := range []struct {
		timing          series.Timing
		detector, alert string
		want            time.Duration
	}{
		{s.timing, "herd", "ContendHerd", 0},
		{s.timing, "inflightcpu", "ContendInflightCPU", 500 * time.Millisecond},
		{s.timing, "hungrequests", "ContendHungRequests", 2 * time.Second},
		{s.timing, "hungrequests", "ContendInflightCPU", 0}, // there is none
		{series.Timing{Interval: 15 * time.Second}, "inflightcpu", "ContendInflightCPU", 30 * time.Second},
		{series.Timing{Interval: 25 * time.Second}, "lockwait", "ContendLockWait", 50 * time.Second},
		{series.Timing{Interval: 50 * time.Second, Factor: 1}, "hungrequests", "ContendHungRequests", 400 * time.Second},
		{series.Timing{Interval: 7 * time.Second}, "lockwait", "ContendLockWait", 35 * time.Second}, // 30 s, in five steps
	} {
		s := scorer{detectors: s.detectors, timing: test.timing}
		if got := s.hold(&detect.Finding{Detector: test.detector, Alert: test.alert}); got != test.want {
			t.Errorf("%s of %s at %v: %v, want %v", test.alert, test.detector, test.timing.Interval, got, test.want)
		}
	}
}
