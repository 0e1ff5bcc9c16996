package scenarios_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/scenarios"
	"github.com/contend/contend/demo/truth"
)

// ofIncident reports whether a scenario is the incident, or one with something
// done about it: those may take longer than half a minute.
func ofIncident(name string) bool {
	return name == "incident" || strings.HasPrefix(name, "fix-") || strings.HasPrefix(name, "control-")
}

func TestTruths(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range scenarios.All() {
		names = append(names, s.Name)
		text, err := scenarios.Truth(s.Name)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		if _, err := truth.Parse(string(text)); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	entries, err := fs.ReadDir(scenarios.Files, ".")
	if err != nil || len(entries) == 0 {
		t.Fatalf("expected folders of scenarios, saw %d: %v", len(entries), err)
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			t.Errorf("%s is a folder and no scenario", e.Name())
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	names, faults := map[string]bool{}, map[string]string{}
	for _, s := range scenarios.All() {
		if !form.MatchString(s.Name) || names[s.Name] {
			t.Errorf("expected a name of its own, of small letters and hyphens, saw %q", s.Name)
		}
		names[s.Name] = true
		if s.Fault == "" || strings.ContainsAny(s.Fault, "\n\t") || strings.TrimSpace(s.Fault) != s.Fault || strings.HasSuffix(s.Fault, ".") {
			t.Errorf("%s: expected a fault on one line without an end stop, saw %q", s.Name, s.Fault)
		}
		if other := faults[s.Fault]; other != "" {
			t.Errorf("%s and %s have the same fault: %s", other, s.Name, s.Fault)
		}
		faults[s.Fault] = s.Name
	}
	if len(names) == 0 {
		t.Fatal("found no scenario")
	}
	for _, want := range []string{"incident", "healthy", "telemetryblock"} {
		if !names[want] {
			t.Errorf("there is no scenario %s", want)
		}
	}
}

func TestMoments(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios.All() {
		if s.Length <= 0 || !ofIncident(s.Name) && s.Length > 30*time.Second {
			t.Errorf("%s: lasts %v, want at most 30 s", s.Name, s.Length)
		}
		if s.Name == "incident" && s.Length > 85*time.Second { // with its start and its analysis within 90 s
			t.Errorf("%s: lasts %v, want at most 85 s", s.Name, s.Length)
		}
		if !slices.IsSorted(s.Profiles) || !slices.IsSorted(s.Glances) {
			t.Errorf("%s: profiles at %v and %v, want them to ascend", s.Name, s.Profiles, s.Glances)
		}
		for _, at := range slices.Concat(s.Profiles, s.Glances) {
			if at < 0 || at >= s.Length {
				t.Errorf("%s: profiles at %v, want them within %v", s.Name, at, s.Length)
			}
		}
		checkSteps(t, s)
		loaded := time.Duration(0)
		for _, p := range s.Load {
			loaded += p.For
		}
		if loaded != s.Length {
			t.Errorf("%s: lasts %v, and its traffic %v", s.Name, s.Length, loaded)
		}
	}
}

func checkSteps(t *testing.T, s play.Scenario) {
	t.Helper()
	if !slices.IsSortedFunc(s.Steps, func(a, b play.Step) int { return int(a.At - b.At) }) {
		t.Errorf("%s: steps do not ascend", s.Name)
	}
	onsets := 0
	for _, step := range s.Steps {
		if step.At < 0 || step.At >= s.Length {
			t.Errorf("%s: a step at %v, want it within %v", s.Name, step.At, s.Length)
		}
		if step.Onset {
			onsets++
		}
		if step.Phase == "" && step.Clock != "" {
			t.Errorf("%s: a step at %v has the moment %s and no phase", s.Name, step.At, step.Clock)
		}
	}
	if len(s.Steps) == 0 || s.Steps[0].At != 0 || s.Steps[0].Phase == "" {
		t.Errorf("%s: has no phase at its start", s.Name)
	}
	if onsets > 1 {
		t.Errorf("%s: %d onsets, want at most one", s.Name, onsets)
	}
}

func TestAllTogether(t *testing.T) {
	t.Parallel()
	sum := time.Duration(0)
	for _, s := range scenarios.All() {
		sum += s.Length + 2*time.Second // to start tasks, and to analyse
	}
	if sum > 25*time.Minute {
		t.Errorf("all scenarios take %v, want at most 25 min", sum)
	}
}

// What is wanted is timed from the onset, so there is one; a change of what All
// returned changes nothing for the next one who asks.
func TestWantsHaveOnset(t *testing.T) {
	t.Parallel()
	for i, s := range scenarios.All() {
		text, err := scenarios.Truth(s.Name)
		if err != nil {
			continue // see TestTruths
		}
		known, _ := truth.Parse(string(text))
		if len(known.Wants) > 0 && !slices.ContainsFunc(s.Steps, func(step play.Step) bool { return step.Onset }) {
			t.Errorf("%s: something is wanted, and no fault sets in", s.Name)
		}
		s.Steps[0].Phase = "changed"
		if scenarios.All()[i].Steps[0].Phase == "changed" {
			t.Errorf("%s: shares its steps with another", s.Name)
		}
	}
}
