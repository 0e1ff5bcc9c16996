package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// resultSchema is the version of the files that an evaluation is resumed from.
const resultSchema = "contend.eval-run/v1"

// maxResult bounds the file of one run: a few KB for the marks of all detectors.
const maxResult = 1 << 20 // bytes

// resultFile is the file of one run: what it came to, and what it was played by.
type resultFile struct {
	Schema string `json:"schema"`
	Build  string `json:"build"`
	played
}

// results keeps the runs of an evaluation in a directory, one file each, so
// that it goes on where it was stopped.
type results struct {
	dir, build string
	done       map[runKey]played
	detectors  []string // of whose marks a score is made
}

type runKey struct {
	scenario string
	run      int
}

var (
	// resultName is NAME-RUN.json, as fileOf writes it.
	resultName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*-[1-9][0-9]{0,5}\.json$`)
	// partName is what a run that was stopped while its file was written leaves.
	partName = regexp.MustCompile(`^\.part-[0-9]+$`)
)

// openResults reads the runs that are kept in dir, which it makes where there
// is none. build says what contend they are for: see buildID. A directory with
// anything but runs of that build is refused, since what is right is not told
// from mixed ones.
func openResults(dir, build string, detectors []string) (*results, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("make the directory for results: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("expected a directory with results: %w", err)
	}
	r := &results{dir: dir, build: build, detectors: detectors, done: map[runKey]played{}}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Type().IsRegular() && partName.MatchString(e.Name()):
			errs = append(errs, os.Remove(path))
		case e.Type().IsRegular() && resultName.MatchString(e.Name()):
			errs = append(errs, r.read(path))
		default:
			errs = append(errs, fmt.Errorf("expected results of contend demo eval, saw %s; name a directory of their own", path))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *results) read(path string) error {
	const again = "; remove it, and its run is played again"
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read a result: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxResult+1))
	switch {
	case err != nil:
		return fmt.Errorf("read a result: %w", err)
	case len(text) > maxResult:
		return fmt.Errorf("expected a result of at most %d bytes, saw more in %s%s", maxResult, path, again)
	}
	var file resultFile
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("expected a result, saw other text in %s: %w%s", path, err, again)
	}
	p := file.played
	switch {
	case file.Schema != resultSchema:
		return fmt.Errorf("expected schema %s in %s, saw %q%s", resultSchema, path, file.Schema, again)
	case file.Build != r.build:
		return fmt.Errorf("%s is of another build, %q, and this is %q; name another directory, or remove the results in this one", path, file.Build, r.build)
	case fileOf(p.Scenario, p.Run) != filepath.Base(path):
		return fmt.Errorf("expected in %s the run that its name says, saw run %d of %q%s", path, p.Run, p.Scenario, again)
	case !p.Score.whole(r.detectors):
		return fmt.Errorf("expected a score in %s, saw none or a part%s", path, again)
	}
	r.done[runKey{p.Scenario, p.Run}] = p
	return nil
}

// whole reports whether a score says of each detector what it did, and what was
// missing and forbidden where something was.
func (s *runScore) whole(detectors []string) bool {
	if len(s.Marks) != len(detectors) || s.Missing == nil || s.Forbidden == nil {
		return false
	}
	for _, name := range detectors {
		switch s.Marks[name] {
		case markTP, markTN, markFound, markQuiet:
		case markFN:
			if len(s.Missing) == 0 {
				return false
			}
		case markFP:
			if len(s.Forbidden) == 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// fileOf names the file of a run.
func fileOf(scenario string, run int) string { return fmt.Sprintf("%s-%d.json", scenario, run) }

// find returns a run that is kept. One that was played with another seed is an
// error: it is a run of another evaluation. One that was starved is played again.
func (r *results) find(scenario string, run int, seed uint64) (p played, ok bool, err error) {
	p, ok = r.done[runKey{scenario, run}]
	if !ok || p.Invalid != "" {
		return played{}, false, nil
	}
	if p.Seed != seed {
		return played{}, false, fmt.Errorf("%s was played with seed %d, and this evaluation has %d for it; give the same seed, or another directory", filepath.Join(r.dir, fileOf(scenario, run)), p.Seed, seed)
	}
	return p, true, nil
}

// keep writes a run. It is there wholly or not at all, also where the disk is full.
func (r *results) keep(p played) error {
	name := fileOf(p.Scenario, p.Run)
	if !resultName.MatchString(name) {
		return fmt.Errorf("expected a scenario's name of small letters, digits and hyphens, and a run from 1, saw %q, run %d", p.Scenario, p.Run)
	}
	text, err := json.MarshalIndent(resultFile{resultSchema, r.build, p}, "", "  ")
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	if err := writeByRename(filepath.Join(r.dir, name), append(text, '\n')); err != nil {
		return fmt.Errorf("keep a result in %s: %w", r.dir, err)
	}
	r.done[runKey{p.Scenario, p.Run}] = p
	return nil
}

// buildID is what this binary was built from, exactly: a checkout has no
// version, so that only the bytes of the binary tell a change of a detector or
// of a scenario.
func buildID() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the binary, to tell its results from others': %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the binary, to tell its results from others': %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read the binary, to tell its results from others': %w", err)
	}
	return fmt.Sprintf("%s, binary %x", strings.TrimPrefix(version(), "contend "), sum.Sum(nil)[:6]), nil
}
