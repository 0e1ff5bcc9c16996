package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest"
)

// recorded is a profile of the demo's recorded runs, such as
// applock/gateway-1/goroutine: the last of its kind.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	scenario, rest, _ := strings.Cut(name, "/")
	found, err := filepath.Glob(filepath.Join("../../demo/scenarios", scenario, "bundle/profiles", rest+"-*.pb.gz"))
	if err != nil || len(found) == 0 {
		t.Fatalf("expected profiles of %s, found none (%v)", name, err)
	}
	data, err := os.ReadFile(found[len(found)-1])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// annotated labels a profile as the command does, and reads it with pprof's own reader.
func annotated(t *testing.T, data []byte) (*profile.Profile, []byte) {
	t.Helper()
	p, err := ingest.ReadProfile("test", bytes.NewReader(data), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := annotate(p, nil); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	out, err := profile.ParseData(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out, b.Bytes()
}

// sumsBy adds up the first value of samples by a label's values.
func sumsBy(p *profile.Profile, label string) map[string]int64 {
	sums := map[string]int64{}
	for _, s := range p.Sample {
		for _, v := range s.Label[label] {
			sums[v] += s.Value[0]
		}
	}
	return sums
}

// TestAnnotateCauses holds the labels of recorded profiles to the numbers that
// contend analyze gives for them.
func TestAnnotateCauses(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]int64{
		"telemetryblock/gateway-2/goroutine":          {"telemetryblock": 1302, "none": 2360},
		"telemetryblock-exporter/gateway-1/goroutine": {"telemetryblock": 1264, "none": 1055},
		"applock/gateway-1/goroutine":                 {"applock": 582, "none": 373},
		"poolwait/gateway-1/goroutine":                {"poolwait": 212, "none": 235},
		"downstream/gateway-1/goroutine":              {"downstream": 105, "none": 338},
		"cpubound/gateway-1/goroutine":                {"cpubound": 42, "none": 56},
		// A deadlock is proven by addresses, which a profile has not.
		"deadlock/gateway-1/goroutine":   {"applock": 1205, "none": 372},
		"busy/gateway-1/goroutine":       {"none": 39},
		"healthy/gateway-1/goroutine":    {"none": 12},
		"streams/gateway-1/goroutine":    {"none": 209},
		"telemetryblock/gateway-2/block": {"telemetryblock": 2371, "none": 12143},
		"telemetryblock/gateway-2/mutex": {"telemetryblock": 2800, "none": 100},
		"applock/gateway-1/block":        {"applock": 622, "none": 2923},
		"healthy/gateway-1/block":        {"none": 3663},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := annotated(t, recorded(t, name))
			if got := sumsBy(p, labelCause); !maps.Equal(got, want) {
				t.Errorf("samples by cause %v, want %v", got, want)
			}
		})
	}
}

// TestAnnotateWaits holds the other two labels of one profile to what its stacks are.
func TestAnnotateWaits(t *testing.T) {
	t.Parallel()
	p, _ := annotated(t, recorded(t, "poolwait/gateway-1/goroutine"))
	want := map[string]int64{"pool": 212, "idle": 223, "select": 9, "syscall": 1}
	if got := sumsBy(p, labelWait); !maps.Equal(got, want) {
		t.Errorf("samples by wait %v, want %v", got, want)
	}
	for _, s := range p.Sample {
		if site := strings.Join(s.Label[labelSite], " "); s.Label[labelCause][0] == "poolwait" && (site != "database/sql.(*DB).conn" || s.Label[labelWait][0] != "pool") {
			t.Errorf("%d samples of poolwait at %q, for %v", s.Value[0], site, s.Label[labelWait])
		}
	}
}

// TestAnnotateKeeps checks that all but the three labels is as it was, and that
// a second time changes nothing.
func TestAnnotateKeeps(t *testing.T) {
	t.Parallel()
	mixed := func() []byte {
		p, err := profile.ParseData(recorded(t, "telemetryblock/gateway-2/goroutine"))
		if err != nil {
			t.Fatal(err)
		}
		p.Comments, p.DocURL, p.KeepFrames = []string{"kept"}, "http://localhost/doc", "main.*"
		for i, s := range p.Sample {
			switch i % 3 {
			case 0:
				s.Label = map[string][]string{"tenant": {"a", "b"}, labelCause: {"<script>", "telemetryblock"}}
			case 1:
				s.NumLabel, s.NumUnit = map[string][]int64{"bytes": {7, 8}}, map[string][]string{"bytes": {"B", "kB"}}
				s.Label = map[string][]string{labelSite: {"nowhere"}}
			}
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, data := range map[string][]byte{
		"goroutine": recorded(t, "incident/gateway-1/goroutine"), "block": recorded(t, "incident/gateway-1/block"),
		"mutex": recorded(t, "incident/gateway-1/mutex"), "labels": mixed(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := profile.ParseData(data)
			if err != nil {
				t.Fatal(err)
			}
			got, once := annotated(t, data)
			if len(got.Sample) == 0 {
				t.Fatal("no samples")
			}
			for i, s := range got.Sample {
				if cause := s.Label[labelCause]; len(cause) != 1 || strings.ContainsAny(cause[0], "<>") {
					t.Errorf("sample %d has causes %q", i, cause)
				}
			}
			unlabel(got)
			unlabel(want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the profile is\n%v\nwant\n%v", got, want)
			}
			if _, twice := annotated(t, once); !bytes.Equal(once, twice) {
				t.Error("annotated twice it is another profile")
			}
		})
	}
}

// unlabel takes contend's labels off, and what tells an empty map from none.
func unlabel(p *profile.Profile) {
	for _, s := range p.Sample {
		for _, key := range []string{labelCause, labelWait, labelSite} {
			delete(s.Label, key)
		}
		if len(s.Label) == 0 {
			s.Label = nil
		}
	}
}

// TestAnnotatePprof asks the go tool's own pprof for the samples of one cause.
func TestAnnotatePprof(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("go")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal("the go command is not on PATH, and CONTEND_REQUIRE is set")
		}
		t.Skip("the go command is not on PATH")
	}
	_, data := annotated(t, recorded(t, "telemetryblock/gateway-2/goroutine"))
	path := filepath.Join(t.TempDir(), "labelled.pb.gz")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for focus, want := range map[string]string{
		"contend_cause=telemetryblock": "Showing nodes accounting for 1302, ",
		"contend_wait=lock":            "Showing nodes accounting for 1302, ",
		"contend_cause=applock":        "Showing nodes accounting for 0, 0% of 3662 total",
	} {
		cmd := exec.Command(tool, "tool", "pprof", "-top", "-tagfocus", focus, path)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("-tagfocus %s: %v; expected %q in\n%s", focus, err, want, out)
		}
	}
}

func FuzzAnnotate(f *testing.F) {
	for _, name := range []string{"poolwait/gateway-1/goroutine", "applock/gateway-1/block", "applock/gateway-1/mutex"} {
		scenario, rest, _ := strings.Cut(name, "/")
		found, _ := filepath.Glob(filepath.Join("../../demo/scenarios", scenario, "bundle/profiles", rest+"-*.pb.gz"))
		for _, path := range found[:min(1, len(found))] {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			p, err := profile.ParseData(data)
			if err != nil {
				f.Fatal(err)
			}
			var b bytes.Buffer // not compressed: few changes of a gzip file unpack
			if err := p.WriteUncompressed(&b); err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			f.Add(b.Bytes())
		}
	}
	f.Add([]byte("goroutine 1 [running]:\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ingest.ReadProfile("fuzz", bytes.NewReader(data), 1<<20)
		if err != nil {
			return
		}
		samples := len(p.Sample)
		if err := annotate(p, nil); err != nil {
			return
		}
		if len(p.Sample) != samples {
			t.Fatalf("%d samples became %d", samples, len(p.Sample))
		}
		for _, s := range p.Sample {
			if len(s.Label[labelCause]) != 1 {
				t.Fatalf("a sample has causes %q", s.Label[labelCause])
			}
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := writeCauses(&b, p.Profile, "out"); err != nil {
			t.Fatal(err)
		}
	})
}
