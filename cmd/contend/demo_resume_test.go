package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/contend/contend/ingest"
	"time"

	"github.com/contend/contend/demo/play"
)

func TestResume(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "results")
	r, err := openResults(dir, "build 1", testDetectors)
	if err != nil {
		t.Fatal(err)
	}
	recover, warning := 1500*time.Millisecond, 0.75
	want := testRun("fix-once", 12, "herd=tp lockwait=fn")
	want.Score.Warning, want.Score.After, want.Score.Delay = &warning, map[string]float64{play.EventFirstKill: 2.5}, map[string]float64{"herd": 0.25}
	want.Outcome = &play.Result{Served: 1, Failed: 2, Kills: 3, Recover: &recover}
	starved := testRun("healthy", 1, "")
	starved.Invalid = "starved"
	recorded := testRun("healthy", 2, "")
	for _, p := range []played{testRun("fix-once", 12, ""), want, starved, recorded} { // a run that is played again replaces
		if err := r.keep(p); err != nil {
			t.Fatal(err)
		}
	}
	// What a process that was stopped while it wrote leaves is no result.
	if err := os.WriteFile(filepath.Join(dir, ".part-123"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := openResults(dir, "build 1", testDetectors)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*results{r, again} {
		if got, ok, err := r.find("fix-once", 12, 12); err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, %v\nwant %+v", got, ok, err, want)
		}
		if got, ok, err := r.find("healthy", 2, 2); err != nil || !ok || !reflect.DeepEqual(got, recorded) {
			t.Errorf("got %+v, %v, %v\nwant %+v", got, ok, err, recorded)
		}
		for _, near := range []runKey{{"fix-once", 1}, {"fix-once", 2}, {"fix", 12}, {"healthy", 1}} { // the last was starved
			if _, ok, err := r.find(near.scenario, near.run, uint64(near.run)); ok || err != nil {
				t.Errorf("%v is there: %v, %v", near, ok, err)
			}
		}
		_, ok, err := r.find("fix-once", 12, 13)
		if want := filepath.Join(dir, "fix-once-12.json") + " was played with seed 12, and this evaluation has 13 for it; give the same seed, or another directory"; ok || err == nil || err.Error() != want {
			t.Errorf("of another seed: %v, %v", ok, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "fix-once-12.json healthy-1.json healthy-2.json" {
		t.Errorf("the directory has %s", got)
	}
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	const head = `{"schema": "contend.eval-run/v1", "build": "b", `
	for _, test := range []struct{ name, file, text, want string }{
		{"foreign", "notes.txt", "", "expected results of contend demo eval, saw DIR/notes.txt; name a directory of their own"},
		{"hidden", ".git", "", "expected results of contend demo eval, saw DIR/.git; name a directory of their own"},
		{"no run", "herd.json", "", "expected results of contend demo eval, saw DIR/herd.json; name a directory of their own"},
		{"run 0", "herd-0.json", "", "expected results of contend demo eval, saw DIR/herd-0.json; name a directory of their own"},
		{"empty", "herd-1.json", "", "expected a result, saw other text in DIR/herd-1.json: unexpected end of JSON input; remove it, and its run is played again"},
		{"cut", "herd-1.json", head, "expected a result, saw other text in DIR/herd-1.json: unexpected end of JSON input; remove it, and its run is played again"},
		{"too long", "herd-1.json", strings.Repeat(" ", maxResult+1), "expected a result of at most 1048576 bytes, saw more in DIR/herd-1.json; remove it, and its run is played again"},
		{"other JSON", "herd-1.json", `{}`, `expected schema contend.eval-run/v1 in DIR/herd-1.json, saw ""; remove it, and its run is played again`},
		{"other build", "herd-1.json", `{"schema": "contend.eval-run/v1", "build": "a"}`, `DIR/herd-1.json is of another build, "a", and this is "b"; name another directory, or remove the results in this one`},
		{"renamed", "herd-1.json", head + `"scenario": "herd", "run": 2}`, `expected in DIR/herd-1.json the run that its name says, saw run 2 of "herd"; remove it, and its run is played again`},
		{"hostile name", "herd-1.json", head + `"scenario": "../herd\u001b", "run": 1}`, `expected in DIR/herd-1.json the run that its name says, saw run 1 of "../herd\x1b"; remove it, and its run is played again`},
		{"no score", "herd-1.json", head + `"scenario": "herd", "run": 1}`, "expected a score in DIR/herd-1.json, saw none or a part; remove it, and its run is played again"},
		{"an empty score", "herd-1.json", head + `"scenario": "herd", "run": 1, "score": {"marks": {}, "missing": [], "forbidden": []}}`, "expected a score in DIR/herd-1.json, saw none or a part; remove it, and its run is played again"},
		{"a wrong detector that is not named", "herd-1.json", head + `"scenario": "herd", "run": 1, "score": {"marks": {"applock": "fp", "herd": "tp", "inflightcpu": "tn", "lockheadroom": "tn", "lockwait": "tn", "telemetryblock": "tn"}, "missing": [], "forbidden": []}}`, "expected a score in DIR/herd-1.json, saw none or a part; remove it, and its run is played again"},
		{"another word", "herd-1.json", head + `"scenario": "herd", "run": 1, "score": {"marks": {"applock": "good", "herd": "tp", "inflightcpu": "tn", "lockheadroom": "tn", "lockwait": "tn", "telemetryblock": "tn"}, "missing": [], "forbidden": []}}`, "expected a score in DIR/herd-1.json, saw none or a part; remove it, and its run is played again"},
		{"half a score", "herd-1.json", head + `"scenario": "herd", "run": 1, "score": {"marks": {}, "missing": []}}`, "expected a score in DIR/herd-1.json, saw none or a part; remove it, and its run is played again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := openResults(dir, "b", testDetectors)
			if want := strings.ReplaceAll(test.want, "DIR/", dir+string(filepath.Separator)); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if _, err := os.Lstat(filepath.Join(dir, test.file)); err != nil {
				t.Errorf("what was refused is gone: %v", err)
			}
		})
	}
}

// All that is wrong in a directory is named at once, a folder and a link too.
func TestResumeRefusesAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a-1.json"), 0o777); err != nil {
		t.Fatal(err)
	}
	wrong := 1
	if os.Symlink("a-1.json", filepath.Join(dir, "b-1.json")) == nil {
		wrong++
	}
	file := filepath.Join(dir, "c.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong++
	_, err := openResults(dir, "b", testDetectors)
	if err == nil || strings.Count(err.Error(), "expected results of contend demo eval") != wrong {
		t.Errorf("got %v, want %d errors", err, wrong)
	}
	if _, err := openResults(file, "b", testDetectors); err == nil {
		t.Error("a directory that cannot be is opened")
	}
}

func TestKeepFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	r, err := openResults(dir, "b", testDetectors)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []played{testRun("../herd", 1, ""), testRun("Herd", 1, ""), testRun("", 1, ""), testRun("herd", 0, "")} {
		if err := r.keep(p); err == nil || !strings.HasPrefix(err.Error(), "expected a scenario's name") {
			t.Errorf("%q, run %d: %v", p.Scenario, p.Run, err)
		}
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := r.keep(testRun("herd", 1, "")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is gone: %v", err)
	}
	if _, ok, _ := r.find("herd", 1, 1); ok {
		t.Error("a run that could not be kept is done")
	}
}

func TestBuildID(t *testing.T) {
	t.Parallel()
	a, err := buildID()
	if err != nil {
		t.Fatal(err)
	}
	b, err := buildID()
	if err != nil || a != b || !strings.Contains(a, runtime.Version()) {
		t.Errorf("got %q, then %q, %v", a, b, err)
	}
}

// A bundle that is there is kept, unless its run does not count: it was stopped, or not valid.
func TestBundleAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file, text string
		want             bool // it may be replaced
	}{
		{"whole", "bundle.json", `{"schema": "` + ingest.BundleSchema + `"}`, false},
		{"partial", "bundle.json", `{"schema": "` + ingest.BundleSchema + `", "partial": "interrupted"}`, true},
		{"foreign", "bundle.json", `{"schema": "other", "partial": "interrupted"}`, false},
		{"no JSON", "bundle.json", "partial", false},
		{"no bundle", "notes.txt", "partial", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			ev := &evaluator{flags: &demoEvalFlags{bundles: root}}
			dir := ev.bundle("herd", 1)
			if err := ev.free("herd", 1); err != nil {
				t.Fatalf("nothing is there yet: %v", err)
			}
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := ev.free("herd", 1); (err == nil) != test.want {
				t.Errorf("got %v, want it replaced: %v", err, test.want)
			}
		})
	}
}
