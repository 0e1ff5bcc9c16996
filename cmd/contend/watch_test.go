package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/cmd/contend/watch"
	"github.com/contend/contend/detect"
)

// startWatch watches each second until the end of the test. What it returns holds
// the lines so far to the detectors that must have begun and may have, and to how
// many bundles there must be at least, which contend analyze reads.
func startWatch(t *testing.T, args ...string) func(want, allow []string, bundles int) error {
	t.Helper()
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	kept := filepath.Join(dir, "kept")
	cmd := exec.Command("contend", append([]string{"watch", "--interval", "2s", "--bundle", kept}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	start(t, cmd)
	t.Cleanup(func() { cmd.Process.Kill() })
	return func(want, allow []string, bundles int) error {
		said, err := os.ReadFile(out.Name())
		if err != nil {
			return err
		}
		var begun []string
		for line := range strings.Lines(string(said)) {
			words := strings.Fields(line)
			if len(words) < 3 || words[1] != "begins" {
				continue
			}
			name := strings.Trim(words[2], ",")
			if !slices.Contains(want, name) && !slices.Contains(allow, name) {
				return fmt.Errorf("%s begins, which must not:\n%s", name, said)
			}
			begun = append(begun, name)
		}
		for _, name := range want {
			if !slices.Contains(begun, name) {
				return fmt.Errorf("%s does not begin:\n%s", name, said)
			}
		}
		// A process that is that busy may answer one look too late, but then the next one.
		if !strings.Contains(string(said), " watching ") || strings.LastIndex(string(said), " blind ") > strings.LastIndex(string(said), " sees ") {
			return fmt.Errorf("it cannot see:\n%s", said)
		}
		if n := strings.Count(string(said), " evidence "+kept); n < bundles {
			return fmt.Errorf("%d bundles, expected %d or more:\n%s", n, bundles, said)
		}
		if bundles == 0 {
			return nil
		}
		r, err := analyzeJSON(kept)
		if err != nil {
			return err
		}
		return found(r, "telemetryblock", []string{"telemetryblock"}, []string{"applock", "lockheadroom", "goroutineleak"})
	}
}

// What cannot be looked for is told of inputs that could be seen: of others it is not known.
func TestBegan(t *testing.T) {
	t.Parallel()
	look := &watch.Look{
		At:     time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		Inputs: []watch.Input{{Name: "http://a"}, {Name: "http://b"}},
		Report: &detect.Report{Skipped: []detect.Skipped{{Detector: "herd"}}},
	}
	const want = "2026-11-30T12:00:00Z watching http://a, http://b, each 15s"
	if got := began(look, 15*time.Second, nil); got != want+"; for want of input it cannot look for herd" {
		t.Errorf("%q", got)
	}
	look.Inputs[1].Why = "no answer"
	if got := began(look, 15*time.Second, nil); got != want {
		t.Errorf("with one that cannot be seen: %q", got)
	}
}
