package main

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contend/contend/demo/play"
)

// testRun is a valid, right run with an outcome and marks "detector=mark …";
// detectors that are not named are tn.
func testRun(scenario string, run int, marks string) played {
	p := played{Scenario: scenario, Run: run, Seed: uint64(run), Score: runScore{
		Missing: []string{}, Forbidden: []string{}, Marks: map[string]mark{}, Delay: map[string]float64{}, After: map[string]float64{},
	}}
	for _, name := range testDetectors {
		p.Score.Marks[name] = markTN
	}
	for word := range strings.FieldsSeq(marks) {
		name, m, _ := strings.Cut(word, "=")
		p.Score.Marks[name] = mark(m)
		switch mark(m) {
		case markFN:
			p.Score.Missing = append(p.Score.Missing, name)
		case markFP:
			p.Score.Forbidden = append(p.Score.Forbidden, name)
		}
	}
	return p
}

var testDetectors = []string{"applock", "herd", "inflightcpu", "lockheadroom", "lockwait", "telemetryblock"}

// testEvaluation has three scenarios, a fix and a control, of two runs each;
// one run was starved.
func testEvaluation() *evaluation {
	ptr := func(x float64) *float64 { return &x }
	recovers := func(s float64) *time.Duration { d := time.Duration(s * float64(time.Second)); return &d }
	incident1 := testRun("incident", 1, "herd=tp inflightcpu=tp telemetryblock=tp lockwait=found")
	incident1.Score.Delay = map[string]float64{"herd": 0.25, "inflightcpu": 1.5, "telemetryblock": 2.1}
	incident1.Score.Warning, incident1.Score.After = ptr(1.5), map[string]float64{play.EventFirstTimeout: 3.3, play.EventFirstKill: 5}
	incident1.Outcome = &play.Result{Served: 21_500, Failed: 8_000, Kills: 12, Recover: recovers(31.5)}
	incident2 := testRun("incident", 2, "herd=fn inflightcpu=tp telemetryblock=tp lockwait=quiet applock=fp")
	incident2.Score.Missing = append(incident2.Score.Missing, "verdict telemetryblock")
	incident2.Score.Forbidden = append(incident2.Score.Forbidden, "verdict applock")
	incident2.Score.Delay = map[string]float64{"inflightcpu": 3.5, "telemetryblock": 3}
	incident2.Score.Warning, incident2.Score.After = ptr(3.1), map[string]float64{play.EventFirstTimeout: 3}
	incident2.Outcome = &play.Result{Served: 20_500, Failed: 10_000, Kills: 15}
	starved := testRun("healthy", 2, "applock=fp")
	starved.Invalid = "requests were sent 120 ms late (99 %), more than 50 ms: the machine is too slow"
	fix1, fix2 := testRun("fix-once", 1, ""), testRun("fix-once", 2, "")
	fix1.Outcome = &play.Result{Served: 40_000, Failed: 90, Recover: recovers(4)}
	fix2.Outcome = &play.Result{Served: 41_001, Failed: 1, Recover: recovers(5)}
	control := testRun("control-more-tasks", 1, "inflightcpu=tp")
	nothing := testRun("control-nothing", 1, "")
	nothing.Outcome = &play.Result{Served: 20_500, Failed: 10_000, Kills: 30}
	control.Score.After = map[string]float64{play.EventFirstKill: 4}
	control.Outcome = &play.Result{Served: 20_000, Failed: 9_900, Kills: 31}
	return &evaluation{runs: 2, detectors: testDetectors, played: []played{
		incident1, incident2, testRun("healthy", 1, ""), starved, fix1, fix2, control, nothing,
	}, variants: map[string]variant{"fix-once": {"control-nothing", true}, "control-more-tasks": {"control-nothing", false}}}
}

func TestEvalJSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := testEvaluation()
	e.played = e.played[:4]
	if err := writeEvalJSON(&b, e); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "schema": "contend.eval/v1",
  "valid": false,
  "runs": 2,
  "scenarios": [
    {
      "name": "incident",
      "run": 1,
      "right": true,
      "missing": [],
      "forbidden": [],
      "lead_s": {
        "first_timeout": 1.8,
        "first_kill": 3.5
      }
    },
    {
      "name": "incident",
      "run": 2,
      "right": false,
      "missing": [
        "herd",
        "verdict telemetryblock"
      ],
      "forbidden": [
        "applock",
        "verdict applock"
      ],
      "lead_s": {
        "first_timeout": -0.1
      }
    },
    {
      "name": "healthy",
      "run": 1,
      "right": true,
      "missing": [],
      "forbidden": []
    },
    {
      "name": "healthy",
      "run": 2,
      "right": false,
      "invalid": "requests were sent 120 ms late (99 %), more than 50 ms: the machine is too slow",
      "missing": [],
      "forbidden": [
        "applock"
      ]
    }
  ],
  "detectors": {
    "applock": {
      "tp": 0,
      "fp": 1,
      "fn": 0,
      "tn": 2
    },
    "herd": {
      "tp": 1,
      "fp": 0,
      "fn": 1,
      "tn": 1,
      "delay_s": 0.25
    },
    "inflightcpu": {
      "tp": 2,
      "fp": 0,
      "fn": 0,
      "tn": 1,
      "delay_s": 2.5
    },
    "lockheadroom": {
      "tp": 0,
      "fp": 0,
      "fn": 0,
      "tn": 3
    },
    "lockwait": {
      "tp": 0,
      "fp": 0,
      "fn": 0,
      "tn": 1
    },
    "telemetryblock": {
      "tp": 2,
      "fp": 0,
      "fn": 0,
      "tn": 1,
      "delay_s": 2.55
    }
  }
}
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// An evaluation without a run is neither valid nor right, and has no null in it.
func TestEvalJSONEmpty(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := &evaluation{runs: 1}
	if err := writeEvalJSON(&b, e); err != nil {
		t.Fatal(err)
	}
	const want = "{\n  \"schema\": \"contend.eval/v1\",\n  \"valid\": false,\n  \"runs\": 1,\n  \"scenarios\": [],\n  \"detectors\": {}\n}\n"
	if b.String() != want || e.valid() {
		t.Errorf("valid: %v, got\n%s", e.valid(), b.String())
	}
}

func TestEvalRight(t *testing.T) {
	t.Parallel()
	good, wrong, starved := testRun("healthy", 1, ""), testRun("healthy", 1, "herd=fp"), testRun("healthy", 1, "")
	starved.Invalid = "starved"
	for _, test := range []struct {
		played   []played
		expected int
		valid    bool
		mistakes int
	}{
		{[]played{good, good}, 2, true, 0},
		{[]played{good, good}, 3, false, 0}, // it was stopped
		{[]played{good, wrong}, 2, true, 1},
		{[]played{good, starved}, 2, false, 0},
		{[]played{wrong, starved}, 2, false, 1},
	} {
		e := evaluation{played: test.played, expected: test.expected}
		if e.valid() != test.valid || e.mistakes() != test.mistakes {
			t.Errorf("%+v: valid %v, %d mistakes", test.played, e.valid(), e.mistakes())
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestEvalWriteError(t *testing.T) {
	t.Parallel()
	for _, write := range []func(failingWriter) error{
		func(w failingWriter) error { return writeEvalJSON(w, testEvaluation()) },
		func(w failingWriter) error { return writeEvalText(w, testEvaluation()) },
	} {
		if err := write(failingWriter{syscall.EPIPE}); err != nil {
			t.Errorf("a reader that went away: %v", err)
		}
		var o *outcome
		if err := write(failingWriter{syscall.ENOSPC}); !errors.As(err, &o) || o.code != exitFailed {
			t.Errorf("a full disk: %v", err)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	list := []float64{3, 1, 10, 2}
	if got := median(list); got != 2.5 {
		t.Errorf("of four: %v", got)
	}
	if got := median(list[:3]); got != 3 {
		t.Errorf("of three: %v", got)
	}
	if got := median(list[:1]); got != 3 {
		t.Errorf("of one: %v", got)
	}
	if !reflect.DeepEqual(list, []float64{3, 1, 10, 2}) {
		t.Errorf("the list itself was sorted: %v", list)
	}
}
