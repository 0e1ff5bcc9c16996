package all_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/demo/truth"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
)

// scenario is one of the demo, with what may be found in it.
type scenario struct {
	name, dir string
	truth     truth.Truth
}

// scenarios reads the truth of every folder of the demo's scenarios.
func scenarios(t *testing.T) []scenario {
	t.Helper()
	const root = "../../demo/scenarios"
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var out []scenario
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		s := scenario{name: e.Name(), dir: filepath.Join(root, e.Name())}
		text, err := os.ReadFile(filepath.Join(s.dir, "truth.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if s.truth, err = truth.Parse(string(text)); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		t.Fatalf("found no scenario in %s", root)
	}
	return out
}

// TestTruths holds the truths to each other and to the detectors: what is
// misspelled would be wanted of nobody, and what is nowhere forbidden could
// always be found.
func TestTruths(t *testing.T) {
	t.Parallel()
	alerts := map[string][]string{}
	for _, d := range all.Detectors() {
		alerts[d.Name] = []string{""}
		for _, s := range d.Signals {
			alerts[d.Name] = append(alerts[d.Name], s.Alert)
		}
	}
	wanted, forbidden := map[string]int{}, map[string]int{}
	quiet, blamed, blameless := 0, 0, 0
	for _, s := range scenarios(t) {
		for _, e := range slices.Concat(s.truth.Wants, s.truth.Allows) {
			if !slices.Contains(alerts[e.Detector], e.Alert) {
				t.Errorf("%s: lists %s, which is no detector with such an alert", s.name, e)
			}
		}
		for name := range alerts {
			switch {
			case s.truth.Wanted(name):
				wanted[name]++
			case !s.truth.Permits(name, ""):
				forbidden[name]++
			}
		}
		if len(s.truth.Wants) == 0 {
			quiet++
		}
		switch {
		case !s.truth.Right(""):
			blamed++
		default:
			blameless++
		}
	}
	for name := range alerts {
		if wanted[name] == 0 || forbidden[name] < wanted[name] {
			t.Errorf("%s: expected a scenario that wants it and no fewer that forbid it, saw %d and %d", name, wanted[name], forbidden[name])
		}
	}
	// Those in which nothing is wrong, from healthy to gcpressure, are eight.
	if quiet < 8 || blamed == 0 || blameless < blamed {
		t.Errorf("expected at least 8 scenarios that want nothing, saw %d, and no fewer that may have no cause than that have one, saw %d and %d", quiet, blameless, blamed)
	}
}

var (
	pageCommand = regexp.MustCompile("`contend demo run ([^`]*)`")
	pageDemo    = regexp.MustCompile(`\(demo: ([^)]*)\)`)
	pageName    = regexp.MustCompile("`([^`]*)`")
)

// TestPages holds what a detector's page says of the demo to the truths: its
// proof names scenarios of which one at least wants it, its look-alikes name
// those that forbid it.
func TestPages(t *testing.T) {
	t.Parallel()
	truths := map[string]truth.Truth{}
	for _, s := range scenarios(t) {
		truths[s.name] = s.truth
	}
	for _, d := range all.Detectors() {
		shown := false
		for part := range strings.SplitSeq(d.Doc, "\n## ") {
			section, text, _ := strings.Cut(part, "\n")
			var names []string
			for _, m := range pageCommand.FindAllStringSubmatch(text, -1) {
				names = append(names, m[1])
			}
			for _, m := range pageDemo.FindAllStringSubmatch(text, -1) {
				for _, n := range pageName.FindAllStringSubmatch(m[1], -1) {
					names = append(names, n[1])
				}
			}
			for _, name := range names {
				tr, ok := truths[name]
				if !ok {
					t.Errorf("%s: %q names %q, which is no scenario", d.Name, section, name)
					continue
				}
				shown = shown || section == "Proof" && tr.Wanted(d.Name)
				if section == "Look-alikes" && tr.Permits(d.Name, "") {
					t.Errorf("%s: scenario %s is named as a look-alike and may find it", d.Name, name)
				}
			}
		}
		if !shown {
			t.Errorf("%s: expected its proof to name a scenario that wants it, as `contend demo run NAME`", d.Name)
		}
	}
}

// TestScenarios holds the analysis of each recorded run to its truth exactly.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			// As contend analyze reads a bundle.
			b := ingest.Load(t.Context(), []string{filepath.Join(s.dir, "bundle")}, ingest.Options{})
			b.ReadSeries(t.Context(), ingest.SeriesOptions{})
			if len(b.Failures) > 0 {
				t.Fatalf("expected the bundle of a recorded run: %v", b.Failures[0].Err)
			}
			if b.Series == nil {
				t.Fatalf("expected a bundle with series, saw none: %s", b.NoSeries)
			}
			r := detect.Run(b, nil, all.Detectors(), detect.Options{})
			if !s.truth.Right(r.Verdict.Cause) {
				t.Errorf("verdict %q, want %s", r.Verdict.Cause, s.truth.Verdict())
			}
			for _, w := range s.truth.Wants {
				if !slices.ContainsFunc(r.Findings, func(f detect.Finding) bool {
					return f.Detector == w.Detector && (w.Alert == "" || f.Alert == w.Alert)
				}) {
					t.Errorf("no finding of %s, which is wanted: %s", w, w.Reason)
				}
			}
			for _, f := range r.Findings {
				if !s.truth.Permits(f.Detector, f.Alert) {
					t.Errorf("forbidden finding %s %s: %s", f.Detector, f.Alert, f.Summary)
				}
			}
			if t.Failed() {
				t.Logf("%s", summaries(r))
			}
		})
	}
}

// TestBlamed holds what a verdict names to what was injected: a lock at another
// place, or of other instances, would be as wrong as another cause.
func TestBlamed(t *testing.T) {
	t.Parallel()
	const telemetry = "github.com/contend/contend/demo/telemetry."
	for name, want := range map[string]struct {
		function  string
		instances []string // nil: of all four
	}{
		"telemetryblock":           {"github.com/prometheus/client_golang/prometheus.(*Registry).Register", nil},
		"telemetryblock-exporter":  {"go.opentelemetry.io/otel/sdk/trace.(*simpleSpanProcessor).OnEnd", nil},
		"telemetryblock-sampler":   {telemetry + "(*lockingSampler).sample", nil},
		"telemetryblock-logger":    {"log.(*Logger).output", nil},
		"telemetryblock-eventloop": {"github.com/prometheus/client_golang/prometheus.(*Registry).Register", nil},
		"applock":                  {"github.com/contend/contend/demo/gateway.(*cache).get", nil},
		"onewedged":                {"github.com/contend/contend/demo/gateway.(*cache).get", []string{"gateway-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := ingest.Load(t.Context(), []string{"../../demo/scenarios/" + name + "/bundle"}, ingest.Options{})
			b.ReadSeries(t.Context(), ingest.SeriesOptions{})
			r := detect.Run(b, nil, all.Detectors(), detect.Options{})
			if want.instances == nil {
				want.instances = []string{"gateway-1", "gateway-2", "gateway-3", "gateway-4"}
			}
			for _, f := range r.Findings {
				if f.Detector != r.Verdict.Cause {
					continue
				}
				slices.Sort(f.Instances)
				if f.Function != want.function || !slices.Equal(f.Instances, want.instances) {
					t.Errorf("%s in %s of %q, want %s of %q", f.Detector, f.Function, f.Instances, want.function, want.instances)
				}
				return
			}
			t.Errorf("no finding of the cause %q", r.Verdict.Cause)
		})
	}
}

// TestIncidentStory holds the story of the incident to what was injected, in
// order: clients hang for a file, then come as a herd; the registry's lock holds
// them; health checks and memory follow, and at last tasks die. CONTEND_INCIDENT
// names the bundle of another run.
func TestIncidentStory(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("CONTEND_INCIDENT"), "../../demo/scenarios/incident/bundle")
	b := ingest.Load(t.Context(), []string{dir}, ingest.Options{})
	b.ReadSeries(t.Context(), ingest.SeriesOptions{})
	r := detect.Run(b, nil, all.Detectors(), detect.Options{})
	v := r.Verdict
	if v.Cause != "telemetryblock" || v.Trigger != "herd" || v.Job != "gateway" || v.Confidence != detect.High {
		t.Errorf("cause %q, trigger %q, job %q, confidence %q; want telemetryblock, herd, gateway, high", v.Cause, v.Trigger, v.Job, v.Confidence)
	}
	const register = "github.com/prometheus/client_golang/prometheus.(*Registry).Register"
	if len(r.Findings) == 0 {
		t.Fatal("no findings")
	}
	if f := r.Findings[0]; f.Detector != "telemetryblock" || f.Function != register {
		t.Errorf("the first finding is %s in %s, want telemetryblock in %s", f.Detector, f.Function, register)
	}
	first := map[string]time.Time{}
	for _, line := range v.Story {
		if _, told := first[line.Detector]; !told {
			first[line.Detector] = line.At
		}
	}
	order := [][]string{{"hungrequests"}, {"herd"}, {"inflightcpu", "lockwait", "telemetryblock"}, {"healthcheck", "memorygrowth"}, {"replacement"}}
	for i, group := range order {
		for _, name := range group {
			at, told := first[name]
			if !told {
				t.Errorf("the story does not tell of %s", name)
				continue
			}
			if i == 0 {
				continue
			}
			for _, before := range order[i-1] {
				// A profile is taken when it is taken, however long the lock has held.
				if name != "telemetryblock" && before != "telemetryblock" && at.Before(first[before]) {
					t.Errorf("%s at %v is told before %s at %v, which it follows from", name, at, before, first[before])
				}
			}
		}
	}
	if t.Failed() {
		for _, line := range v.Story {
			t.Logf("%v %s: %s", line.At, line.Detector, line.Summary)
		}
	}
}
