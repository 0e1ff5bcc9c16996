package watch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/capture"
)

func newKeeper(t *testing.T, change func(*EvidenceOptions)) *Keeper {
	t.Helper()
	o := EvidenceOptions{Dir: t.TempDir(), MaxBundles: 100, MaxBytes: 1 << 30, MaxAge: 24 * time.Hour, Timeout: 20 * time.Second}
	if change != nil {
		change(&o)
	}
	return NewKeeper(o)
}

func begins(detector string, role detect.Role, severity detect.Severity) Change {
	return Change{Kind: Begins, Finding: &Tracked{Detector: detector, Role: role, Severity: severity, Job: "app", Summary: "it waits"}}
}

func worse(was detect.Severity) Change {
	c := begins("applock", detect.Cause, detect.Critical)
	c.Kind, c.Was = Changes, was
	return c
}

// Each cause that appears has its profiles, and one dump in ten minutes.
func TestDumpLimits(t *testing.T) {
	t.Parallel()
	cause := func(name string) []Change { return []Change{begins(name, detect.Cause, detect.Critical)} }
	for name, tt := range map[string]struct {
		change func(*EvidenceOptions)
		begin  map[int][]Change // by look, which are 15 s apart
		dumps  int64
		want   int // goroutine profiles
	}{
		"one cause":                     {nil, map[int][]Change{0: cause("applock")}, 1, 2},
		"again within 10 minutes":       {nil, map[int][]Change{0: cause("applock"), 39: cause("applock")}, 1, 4},
		"again after 10 minutes":        {nil, map[int][]Change{0: cause("applock"), 40: cause("applock")}, 2, 4},
		"another cause at another time": {nil, map[int][]Change{0: cause("applock"), 1: cause("poolwait")}, 2, 4},
		"two causes at once":            {nil, map[int][]Change{0: slices.Concat(cause("applock"), cause("poolwait")), 5: cause("poolwait")}, 1, 4},
		"no dump":                       {func(o *EvidenceOptions) { o.NoDump = true }, map[int][]Change{0: cause("applock")}, 0, 2},
		"too many goroutines":           {func(o *EvidenceOptions) { o.MaxGoroutines = 1 }, map[int][]Change{0: cause("applock")}, 0, 2},
		"a symptom":                     {nil, map[int][]Change{0: {begins("healthcheck", detect.Symptom, detect.Critical)}}, 0, 0},
		"what turns out to be bad":      {nil, map[int][]Change{0: {begins("applock", detect.Cause, detect.Info)}, 1: {worse(detect.Info)}, 2: {worse(detect.Warning)}}, 1, 2},
		"what is worth knowing alone":   {nil, map[int][]Change{0: {begins("lockwait", detect.Cause, detect.Info)}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStandIn(t)
			k := newKeeper(t, tt.change)
			targets := []capture.Target{{Job: "app", Instance: "a:1", PProf: s.URL + "/debug/pprof"}}
			for i := range 45 {
				k.Keep(t.Context(), &Look{At: noon.Add(time.Duration(i) * 15 * time.Second)}, tt.begin[i], targets)
			}
			if d, p := s.dumps.Load(), s.profiles.Load(); d != tt.dumps || p != int64(tt.want) {
				t.Errorf("%d dumps and %d goroutine profiles, want %d and %d", d, p, tt.dumps, tt.want)
			}
		})
	}
}

// What is kept is a bundle that analyze reads, with the dump's stall said beside it.
func TestKept(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	k := newKeeper(t, nil)
	targets := []capture.Target{{Job: "app", Instance: "a:1", PProf: s.URL + "/debug/pprof"}}
	if out := k.Keep(t.Context(), &Look{At: noon}, []Change{begins("applock", detect.Cause, detect.Warning)}, targets); len(out) != 0 {
		t.Errorf("at once: %v", out)
	}
	out := k.Keep(t.Context(), &Look{At: noon.Add(15 * time.Second)}, nil, targets)
	dir := filepath.Join(k.Dir, "20261130T120000.000Z-applock")
	if len(out) != 1 || out[0].Input != dir || !strings.Contains(out[0].Text, "7 files") || strings.Count(out[0].Text, "the dump stopped 127.0.0.1:") != 1 {
		t.Fatalf("%v", out)
	}
	b := ingest.Load(t.Context(), []string{dir}, ingest.Options{})
	if len(b.Failures) != 0 || len(b.Snapshots) != 3 || len(b.Events) != 1 || b.Events[0].Text != "app, warning: it waits" {
		t.Errorf("failures %v, %d snapshots, events %v", b.Failures, len(b.Snapshots), b.Events)
	}
	for _, i := range b.Instances {
		if i.Job != "app" || i.Name != "a:1" {
			t.Errorf("instance %+v", i)
		}
	}
	if out := k.Finish(noon); out != nil {
		t.Errorf("once more: %v", out)
	}
}

// A directory that cannot be written is said, and costs nothing else.
func TestCannotKeep(t *testing.T) {
	t.Parallel()
	s := newStandIn(t)
	k := newKeeper(t, nil)
	k.Dir = filepath.Join(k.Dir, "file")
	if err := os.WriteFile(k.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := k.Keep(t.Context(), &Look{At: noon}, []Change{begins("applock", detect.Cause, detect.Warning)}, []capture.Target{{Job: "app", Instance: "a", PProf: s.URL}})
	if len(out) != 1 || out[0].Kind != Evidence || !strings.Contains(out[0].Text, "could not be kept") || s.profiles.Load() != 0 {
		t.Errorf("%v", out)
	}
}

// The oldest bundles go, the last one never, and nothing that is not ours.
func TestPrune(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for name, tt := range map[string]struct {
		change func(*EvidenceOptions)
		want   string
	}{
		"none":       {nil, "1 2 3"},
		"count":      {func(o *EvidenceOptions) { o.MaxBundles = 2 }, "2 3"},
		"bytes":      {func(o *EvidenceOptions) { o.MaxBytes = 2*mb + 1000 }, "2 3"},
		"age":        {func(o *EvidenceOptions) { o.MaxAge = 90 * time.Minute }, "3"},
		"never last": {func(o *EvidenceOptions) { o.MaxBytes = 1; o.MaxAge = time.Second }, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, tt.change)
			write := func(path string, size int) {
				t.Helper()
				path = filepath.Join(k.Dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, hour := range []string{"1", "2", "3"} {
				write("20261130T0"+hour+"0000.000Z-applock/bundle.json", mb)
			}
			write("20261130T000000.000Z-not-a-bundle/x", mb)
			write("20261130T000000.000Z-file", mb)
			write("somebody/bundle.json", mb)
			write(".20261130T000000.000Z-applock-123/bundle.json", mb) // of one that was killed
			write(".20261130T035959.000Z-applock-123/x", mb)           // that is being written
			if err := k.prune(time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(k.Dir)
			if err != nil {
				t.Fatal(err)
			}
			var kept, others []string
			for _, e := range entries {
				if hour, ok := strings.CutSuffix(e.Name(), "0000.000Z-applock"); ok {
					kept = append(kept, strings.TrimPrefix(hour, "20261130T0"))
				} else {
					others = append(others, e.Name())
				}
			}
			if got := strings.Join(kept, " "); got != tt.want {
				t.Errorf("kept %q, want %q", got, tt.want)
			}
			if want := []string{".20261130T035959.000Z-applock-123", "20261130T000000.000Z-file", "20261130T000000.000Z-not-a-bundle", "somebody"}; !slices.Equal(others, want) {
				t.Errorf("others %q, want %q", others, want)
			}
		})
	}
}
