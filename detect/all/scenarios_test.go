package all_test

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect/all"
)

// truth is what may be found in a recorded scenario; anything else is forbidden.
type truth struct {
	verdict     string
	want, allow []string
}

// readTruth reads truth.txt: lines "want|allow DETECTOR [ALERT]  # reason" and "verdict NAME|none".
func readTruth(t *testing.T, path string) truth {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tr truth
	seen := false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "verdict" && len(fields) == 2:
			seen = true
			if fields[1] != "none" {
				tr.verdict = fields[1]
			}
		case fields[0] == "want" && len(fields) >= 2:
			tr.want = append(tr.want, fields[1])
		case fields[0] == "allow" && len(fields) >= 2:
			tr.allow = append(tr.allow, fields[1])
		default:
			t.Fatalf("%s: line not understood: %q", path, sc.Text())
		}
	}
	if !seen {
		t.Fatalf("%s: names no verdict", path)
	}
	return tr
}

func TestScenarios(t *testing.T) {
	files, _ := filepath.Glob("../../demo/scenarios/*/truth.txt")
	if len(files) < 2 {
		t.Fatalf("found %d scenarios, want at least one that fires and one that is silent", len(files))
	}
	known := map[string]bool{}
	for _, d := range all.Detectors() {
		known[d.Name] = true
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			tr := readTruth(t, file)
			r := analyse(t, filepath.Join(dir, "bundle"))
			if r.Verdict.Cause != tr.verdict {
				t.Errorf("verdict %q, want %q\n%s", r.Verdict.Cause, tr.verdict, summaries(r))
			}
			found := map[string]bool{}
			for _, f := range r.Findings {
				found[f.Detector] = true
				if !slices.Contains(tr.want, f.Detector) && !slices.Contains(tr.allow, f.Detector) {
					t.Errorf("forbidden finding %s: %s", f.Detector, f.Summary)
				}
			}
			for _, d := range tr.want {
				if known[d] && !found[d] {
					t.Errorf("no finding of %s, which is wanted\n%s", d, summaries(r))
				}
			}
		})
	}
}
