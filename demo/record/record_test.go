package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// TestMain lets the test's binary be the gateway, as the command's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-serve" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestRecord(t *testing.T) {
	s, err := findScenario("telemetryblock")
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	out := filepath.Join(parent, "bundle")
	var stdout bytes.Buffer
	p := plan{out: out, rate: 20, ramp: 50 * time.Millisecond, gap: 50 * time.Millisecond}
	if err := recordScenario(t.Context(), s, p, &stdout); err != nil {
		t.Fatal(err)
	}

	b := readBundle(t, out)
	var kinds []string
	for _, taken := range b.Taken {
		kinds = append(kinds, taken.Kind+filepath.Ext(strings.TrimSuffix(taken.File, ".gz")))
	}
	want := "goroutine.pb block.pb mutex.pb goroutine.pb goroutine.txt block.pb mutex.pb"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("took %s, want %s", got, want)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("beside the bundle: %v, error %v; want nothing", entries, err)
	}
	if response, err := http.Get(b.Target); err == nil {
		response.Body.Close()
		t.Errorf("the gateway at %s is still there", b.Target)
	}
	for _, line := range []string{
		`(?m)^gateway: offered 20/s, served \d+/s, in flight \d+, cores \d+\.\d\d$`,
		`(?m)^api: arrived 22, `,
		`(?m)^health: arrived 3, `,
	} {
		if !regexp.MustCompile(line).MatchString(stdout.String()) {
			t.Errorf("printed %q, want a line like %s", stdout.String(), line)
		}
	}
}

func TestRecordKeepsWhatIsThere(t *testing.T) {
	out := t.TempDir()
	kept := filepath.Join(out, "kept")
	if err := os.WriteFile(kept, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b bundle
	for name, err := range map[string]error{
		"before the run": recordScenario(t.Context(), scenario{}, plan{out: out}, io.Discard),
		"after it":       b.write(out),
		"a file":         b.write(kept),
	} {
		if err == nil || !strings.Contains(err.Error(), "expected a new or empty directory") {
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
	}
	if data, err := os.ReadFile(kept); err != nil || string(data) != "mine" {
		t.Errorf("the file there became %q, error %v", data, err)
	}
}

func TestWriteIntoEmpty(t *testing.T) {
	out := t.TempDir()
	b := bundle{Schema: bundleSchema}
	b.add("block", ".pb.gz", time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC), []byte("data"))
	if err := b.write(out); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(out, "profiles", "block-20260102T030405.006Z.pb.gz")); err != nil || string(data) != "data" {
		t.Errorf("read %q, error %v", data, err)
	}
}

func TestRunUsage(t *testing.T) {
	for _, test := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"help", "-h", 0, "telemetryblock"},
		{"no scenario", "", 2, `expected the name of a scenario, saw ""`},
		{"unknown scenario", "-scenario other", 2, `saw "other"`},
		{"unknown flag", "-other", 2, "flag provided but not defined"},
		{"argument", "-scenario healthy dir", 2, `expected flags only, saw "dir"`},
		{"rate", "-scenario healthy -rate 0", 2, "expected a rate above 0"},
		{"paths in the binary", "-scenario healthy -out dir", 2, "-trimpath"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(test.args), nil, io.Discard, &stderr)
			if code != test.code || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("exit code %d with %q, want %d with %q", code, stderr.String(), test.code, test.says)
			}
		})
	}
}

func TestPlanCheck(t *testing.T) {
	valid := plan{rate: 500, ramp: 5 * time.Second, gap: 5 * time.Second}
	for _, test := range []struct {
		name   string
		change func(*plan)
		ok     bool
	}{
		{"valid", func(*plan) {}, true},
		{"no ramp", func(p *plan) { p.ramp = 0 }, true},
		{"longest", func(p *plan) { p.ramp = maxTime - p.gap }, true},
		{"too long", func(p *plan) { p.ramp = maxTime - p.gap + 1 }, false},
		{"sum overflows", func(p *plan) { p.ramp, p.gap = math.MaxInt64, math.MaxInt64 }, false},
		{"negative ramp", func(p *plan) { p.ramp = -1 }, false},
		{"no gap", func(p *plan) { p.gap = 0 }, false},
		{"highest rate", func(p *plan) { p.rate = maxRate }, true},
		{"rate too high", func(p *plan) { p.rate = maxRate + 1 }, false},
		{"rate that is no number", func(p *plan) { p.rate = math.NaN() }, false},
	} {
		p := valid
		test.change(&p)
		if err := p.check(); (err == nil) != test.ok {
			t.Errorf("%s: error %v", test.name, err)
		}
	}
}

func TestMetricValue(t *testing.T) {
	text := []byte("# TYPE a counter\na_total 1\na{x=\"y\"} 2\na 3e+06\nb x\n")
	if v, err := metricValue(text, "a"); v != 3e6 || err != nil {
		t.Errorf("a is %v, error %v; want 3e+06", v, err)
	}
	for _, name := range []string{"b", "c", "x"} {
		if v, err := metricValue(text, name); err == nil {
			t.Errorf("%s is %v, want an error", name, v)
		}
	}
}

// readBundle checks what every bundle has: a head that lists exactly the files
// there, and profiles that can be read.
func readBundle(t *testing.T, dir string) bundle {
	t.Helper()
	head, err := os.ReadFile(filepath.Join(dir, "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bundle
	if err := json.Unmarshal(head, &b); err != nil {
		t.Fatal(err)
	}
	if b.Schema != bundleSchema || b.ClockFactor != 1 || !strings.HasPrefix(b.Target, "http://127.0.0.1:") {
		t.Errorf("the head says %+v", b)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "profiles")); err != nil || len(entries) != len(b.Taken) {
		t.Errorf("%d files, error %v; the head lists %d", len(entries), err, len(b.Taken))
	}
	b.files = map[string][]byte{}
	for i, taken := range b.Taken {
		if i > 0 && taken.At.Before(b.Taken[i-1].At) {
			t.Errorf("%s is listed after a later file", taken.File)
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(taken.File)))
		if err != nil {
			t.Fatal(err)
		}
		b.files[taken.File] = data
		if !strings.HasSuffix(taken.File, ".pb.gz") {
			continue
		}
		p, err := profile.ParseData(data)
		if err != nil {
			t.Fatalf("%s: %v", taken.File, err)
		}
		for _, m := range p.Mapping {
			if strings.ContainsAny(m.File, `/\`) {
				t.Errorf("%s names the binary %s, want its last element", taken.File, m.File)
			}
		}
	}
	return b
}
