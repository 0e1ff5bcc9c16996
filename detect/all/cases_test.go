package all_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
)

// expect is the right answer to a case or capture, written by hand from the
// report or the injected fault.
type expect struct {
	Verdict         string   `json:"verdict"`
	Accept          []string `json:"accept"` // other verdicts that are also right
	Forbid          []string `json:"forbid"` // findings that would be wrong, whatever the verdict
	Package         string   `json:"package"`
	Function        string   `json:"function"`
	AcceptFunctions []string `json:"accept_functions"`
	Blocked         *float64 `json:"blocked"`
	BlockedMin      float64  `json:"blocked_min"`
	BlockedMax      float64  `json:"blocked_max"`
	Total           float64  `json:"total"`
	PerFile         map[string]struct {
		Accept     []string `json:"accept"`
		BlockedMin *float64 `json:"blocked_min"`
	} `json:"per_file"`
	// HolderFunctions are who may be named as the holder: nobody, where the list
	// is there and empty. HolderRequired asks for one where the format has stacks.
	HolderFunctions []string                     `json:"holder_functions"`
	HolderRequired  bool                         `json:"holder_required"`
	ConfidenceMax   map[string]detect.Confidence `json:"confidence_max"` // by detector
}

func readExpect(t *testing.T, path string) expect {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e expect
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return e
}

func analyse(t *testing.T, args ...string) *detect.Report {
	t.Helper()
	b := ingest.Load(context.Background(), args, ingest.Options{})
	for _, f := range b.Failures {
		t.Errorf("%s: %v", f.Name, f.Err)
	}
	return detect.Run(b, nil, all.Detectors(), detect.Options{})
}

// top is the finding that the verdict names.
func top(r *detect.Report) detect.Finding {
	for _, f := range r.Findings {
		if f.Detector == r.Verdict.Cause {
			return f
		}
	}
	return detect.Finding{}
}

func TestCases(t *testing.T) {
	dirs, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("found no cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			e := readExpect(t, filepath.Join(dir, "expect.json"))
			inputs, _ := filepath.Glob(filepath.Join(dir, "input.*"))
			if len(inputs) != 1 {
				t.Fatalf("expected one input, saw %v", inputs)
			}
			r := analyse(t, inputs[0])
			right := append([]string{e.Verdict}, e.Accept...)
			if !slices.Contains(right, r.Verdict.Cause) {
				t.Errorf("verdict %q, want one of %q\n%s", r.Verdict.Cause, right, summaries(r))
			}
			f := top(r)
			if r.Verdict.Cause != e.Verdict {
				return // the numbers are those of the first answer
			}
			checkFunction(t, e, f)
			if e.Blocked != nil && r.Verdict.Cause != "" && f.Blocked != *e.Blocked {
				t.Errorf("blocked %v, want %v\n%s", f.Blocked, *e.Blocked, summaries(r))
			}
			if e.Total != 0 && r.Verdict.Cause != "" {
				total := float64(f.Goroutines)
				if f.Unit == detect.Contentions {
					total = f.Total
				}
				if total != e.Total {
					t.Errorf("total %v, want %v", total, e.Total)
				}
			}
		})
	}
}

func checkFunction(t *testing.T, e expect, f detect.Finding) {
	t.Helper()
	if f.Detector == "" || e.Function == "" {
		return
	}
	if ok := append([]string{e.Function}, e.AcceptFunctions...); !slices.Contains(ok, f.Function) {
		t.Errorf("function %q, want one of %q", f.Function, ok)
	}
}

// captureInputs are the ways to look at a capture: each format alone and all
// of them together. The key is that of per_file.
var captureInputs = map[string][]string{
	"goroutine.pb.gz":      {"goroutine.pb.gz"},
	"goroutine.debug1.txt": {"goroutine.debug1.txt"},
	"goroutine.debug2.txt": {"goroutine.debug2.txt*"},
	"block":                {"block-a.pb.gz", "block-b.pb.gz"},
	"mutex":                {"mutex-a.pb.gz", "mutex-b.pb.gz"},
	"goroutine pair":       {"goroutine-a.pb.gz", "goroutine.pb.gz"},
	"all":                  {"."},
}

func TestCaptures(t *testing.T) {
	dirs, err := filepath.Glob("testdata/captures/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("found no captures: %v", err)
	}
	for _, dir := range dirs {
		e := readExpect(t, filepath.Join(dir, "expect.json"))
		forms := 0
		for key, patterns := range captureInputs {
			if !hasAll(dir, patterns) {
				continue // not every capture was taken in every form
			}
			forms++
			t.Run(filepath.Base(dir)+"/"+strings.ReplaceAll(key, " ", "-"), func(t *testing.T) {
				t.Parallel()
				var args []string
				for _, p := range patterns {
					found, _ := filepath.Glob(filepath.Join(dir, p))
					if len(found) != 1 {
						t.Fatalf("expected one file for %s, saw %v", p, found)
					}
					args = append(args, found[0])
				}
				r := analyse(t, args...)
				right := append([]string{e.Verdict}, e.Accept...)
				format := key
				if _, own := e.PerFile[key]; key == "goroutine pair" && !own {
					format = "goroutine.pb.gz" // two can show no more of a lock than one
				}
				least := e.BlockedMin
				if special, ok := e.PerFile[format]; ok {
					right = special.Accept
					if special.BlockedMin != nil {
						least = *special.BlockedMin
					}
				}
				if !slices.Contains(right, r.Verdict.Cause) {
					t.Fatalf("verdict %q, want one of %q\n%s", r.Verdict.Cause, right, summaries(r))
				}
				for _, f := range r.Findings {
					if slices.Contains(e.Forbid, f.Detector) {
						t.Errorf("forbidden finding %s: %s", f.Detector, f.Summary)
					}
				}
				if r.Verdict.Cause != e.Verdict || e.Verdict == "" {
					return
				}
				f := top(r)
				checkFunction(t, e, f)
				checkHolder(t, e, f, key)
				if key == "mutex" {
					return // charged by the release, and short of what the waiters lose: right by share only
				}
				if math.Round(f.Blocked) < least || e.BlockedMax > 0 && f.Blocked > e.BlockedMax {
					t.Errorf("blocked %v, want %v to %v\n%s", f.Blocked, e.BlockedMin, e.BlockedMax, summaries(r))
				}
			})
		}
		if forms < 2 {
			t.Errorf("%s: %d forms found, want at least a file and the whole directory", dir, forms)
		}
	}
}

// checkHolder holds who is named to who it was. Profiles of waits name nobody.
func checkHolder(t *testing.T, e expect, f detect.Finding, form string) {
	t.Helper()
	if limit, ok := e.ConfidenceMax[f.Detector]; ok && detect.Weaker(f.Confidence, limit) != f.Confidence {
		t.Errorf("confidence %s, want at most %s", f.Confidence, limit)
	}
	if f.Holder == nil {
		if e.HolderRequired && form != "block" && form != "mutex" {
			t.Errorf("no holder named, want one in %q: %s", e.HolderFunctions, f.Holds)
		}
		return
	}
	if e.HolderFunctions != nil && !slices.Contains(e.HolderFunctions, f.Holder.Function) {
		t.Errorf("holder in %s (%s confidence), want one of %q", f.Holder.Function, f.Holder.Confidence, e.HolderFunctions)
	}
}

func hasAll(dir string, patterns []string) bool {
	for _, p := range patterns {
		if found, _ := filepath.Glob(filepath.Join(dir, p)); len(found) == 0 {
			return false
		}
	}
	return true
}

func summaries(r *detect.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "verdict: %s\n", r.Verdict.Summary)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "  %s (%s, %s, %.0f of %.0f %s): %s\n", f.Detector, f.Severity, f.Confidence, f.Blocked, f.Total, f.Unit, f.Summary)
	}
	for _, o := range r.RuledOut {
		fmt.Fprintf(&b, "  not %s: %s\n", o.Detector, o.Reason)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	return b.String()
}
