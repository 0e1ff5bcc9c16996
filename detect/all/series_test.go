package all_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
)

// seriesTruth is what is right to say of a file of series. A finding that is
// neither wanted nor allowed is wrong, and so is a detector of series that could
// not look and is not among skip. One that is wanted and may be skipped must do one of the two.
type seriesTruth struct {
	selector                string
	want, allow, look, skip []string
	verdicts                []string // any of them; "" is no cause
}

// detectorsOfSeries are the names of the detectors that can work from series.
func detectorsOfSeries() []string {
	var names []string
	for _, d := range all.Detectors() {
		if slices.ContainsFunc(d.Needs, func(n detect.Need) bool { return n.Input == detect.Series }) {
			names = append(names, d.Name)
		}
	}
	return names
}

// readSeriesTruth reads truth.txt: lines "want|allow|look|skip DETECTOR  # reason",
// "verdict NAME|none", which may be there more than once, and "select MATCHERS".
func readSeriesTruth(t *testing.T, path string) seriesTruth {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tr seriesTruth
	known := append(detectorsOfSeries(), "none")
	for line := range strings.Lines(string(data)) {
		text, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 || fields[0] != "select" && !slices.Contains(known, fields[1]) {
			t.Fatalf("%s: line not understood: %q", path, line)
		}
		switch word, name := fields[0], fields[1]; word {
		case "want":
			tr.want = append(tr.want, name)
		case "allow":
			tr.allow = append(tr.allow, name)
		case "look":
			tr.look = append(tr.look, name)
		case "skip":
			tr.skip = append(tr.skip, name)
		case "select":
			tr.selector = name
		case "verdict":
			tr.verdicts = append(tr.verdicts, strings.TrimSuffix(name, "none"))
		default:
			t.Fatalf("%s: line not understood: %q", path, line)
		}
	}
	if len(tr.verdicts) == 0 {
		t.Fatalf("%s: names no verdict", path)
	}
	return tr
}

// readSharedTruth reads the expect.json of a simulated file. There "lock" is any
// detector of locks, and what need not look may be skipped.
func readSharedTruth(t *testing.T, path string) seriesTruth {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Selector      string
		Want, Allow   []string
		WantOrSkipped []string `json:"want_or_skipped"`
		MustLook      []string `json:"must_look"`
		Verdicts      []string `json:"accept_verdicts"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(e.Verdicts) == 0 {
		t.Fatalf("%s: names no verdict", path)
	}
	known := detectorsOfSeries()
	names := func(in []string) []string {
		var out []string
		for _, name := range in {
			if name == "lock" {
				name = "lockwait"
			}
			if name == "" || slices.Contains(known, name) {
				out = append(out, name)
			}
		}
		return out
	}
	tr := seriesTruth{selector: e.Selector, want: names(append(e.Want, e.WantOrSkipped...)), allow: names(e.Allow), look: names(e.MustLook), verdicts: names(e.Verdicts)}
	for _, name := range known {
		if !slices.Contains(tr.look, name) && !slices.Contains(e.Want, name) {
			tr.skip = append(tr.skip, name)
		}
	}
	return tr
}

func analyseSeries(t *testing.T, selector string, files ...string) *detect.Report {
	t.Helper()
	b := ingest.Load(t.Context(), files, ingest.Options{})
	b.ReadSeries(t.Context(), ingest.SeriesOptions{Collect: series.CollectOptions{Selector: selector}})
	for _, f := range b.Failures {
		t.Errorf("%s: %v", f.Name, f.Err)
	}
	if b.Series == nil {
		t.Fatalf("no signals in the series of %v", files)
	}
	return detect.Run(b, nil, all.Detectors(), detect.Options{})
}

// check holds a report to the truth.
func (tr seriesTruth) check(t *testing.T, r *detect.Report) {
	t.Helper()
	if !slices.Contains(tr.verdicts, r.Verdict.Cause) {
		t.Errorf("verdict %q, want one of %q", r.Verdict.Cause, tr.verdicts)
	}
	found, skipped := map[string]bool{}, map[string]string{}
	for _, f := range r.Findings {
		found[f.Detector] = true
		if !slices.Contains(tr.want, f.Detector) && !slices.Contains(tr.allow, f.Detector) {
			t.Errorf("forbidden finding %s: %s", f.Detector, f.Summary)
		}
	}
	for _, s := range r.Skipped {
		skipped[s.Detector] = s.Reason
	}
	for _, name := range tr.want {
		if !found[name] && (skipped[name] == "" || !slices.Contains(tr.skip, name)) {
			t.Errorf("no finding of %s, which is wanted", name)
		}
	}
	for _, name := range detectorsOfSeries() {
		if reason := skipped[name]; reason != "" && !found[name] && !slices.Contains(tr.skip, name) {
			t.Errorf("%s could not look, where it must: %s", name, reason)
		}
	}
	if t.Failed() {
		t.Logf("%s", summaries(r))
	}
}

func TestSeries(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	files, err := filepath.Glob("testdata/series/*/series.om.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no cases: %v", err)
	}
	wanted, forbidden := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		dir := filepath.Dir(file)
		tr := readSeriesTruth(t, filepath.Join(dir, "truth.txt"))
		for _, name := range detectorsOfSeries() {
			want := slices.Contains(tr.want, name)
			wanted[name] = wanted[name] || want
			forbidden[name] = forbidden[name] || !want && !slices.Contains(tr.allow, name)
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			tr.check(t, analyseSeries(t, tr.selector, file))
		})
	}
	for _, name := range detectorsOfSeries() {
		if !wanted[name] || !forbidden[name] {
			t.Errorf("%s: expected a case that wants it and one that forbids it, saw %t and %t", name, wanted[name], forbidden[name])
		}
	}
}

// TestSeriesShared holds contend to the simulated files that are kept beside the
// repository.
func TestSeriesShared(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../shared/series/*/series.om.gz")
	if err != nil || len(files) == 0 {
		t.Skip("no simulated series beside the repository: they are not part of it")
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			tr := readSharedTruth(t, filepath.Join(dir, "expect.json"))
			tr.check(t, analyseSeries(t, tr.selector, file))
		})
	}
}

// TestSeriesForms reads the same series in other forms: what is found must not
// depend on the form.
func TestSeriesForms(t *testing.T) {
	t.Parallel()
	forms := map[string]func(t *testing.T, file string) []string{
		"promtool-dump": writeDump,
		"api-json":      writeJSON,
		"two-files":     splitByInstance,
	}
	// One with a cause, one whose names have dots, and one with stale markers.
	for _, name := range []string{"lock-mutex-go", "upstream-slow-dotted", "gaps-flaky-go"} {
		file := filepath.Join("testdata/series", name, "series.om.gz")
		for form, write := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				want, got := conclusions(analyseSeries(t, "", file)), conclusions(analyseSeries(t, "", write(t, file)...))
				if got != want {
					t.Errorf("got\n%s\nwant as of OpenMetrics text\n%s", got, want)
				}
			})
		}
	}
}

// conclusions are the verdict and the findings with their numbers.
func conclusions(r *detect.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q: %s\n", r.Verdict.Cause, r.Verdict.Summary)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s, %s, %s: %s\n", f.Detector, f.Severity, f.Confidence, f.Summary)
	}
	return b.String()
}

// writeDump writes series as promtool tsdb dump does.
func writeDump(t *testing.T, file string) []string {
	t.Helper()
	b := ingest.Load(t.Context(), []string{file}, ingest.Options{})
	var out bytes.Buffer
	for _, c := range b.Samples.All() {
		lset := c.Labels.String()
		for i, v := range c.V {
			fmt.Fprintf(&out, "%s %s %d\n", lset, strconv.FormatFloat(v, 'g', -1, 64), c.T[i])
		}
	}
	return []string{write(t, "dump.txt", out.Bytes())}
}

// writeJSON writes series as an answer of the API has them, which has no stale
// markers.
func writeJSON(t *testing.T, file string) []string {
	t.Helper()
	b := ingest.Load(t.Context(), []string{file}, ingest.Options{})
	type result struct {
		Metric labels.Labels `json:"metric"`
		Values [][2]any      `json:"values"`
	}
	var results []result
	for _, c := range b.Samples.All() {
		r := result{Metric: c.Labels}
		for i, v := range c.V {
			if !math.IsNaN(v) {
				r.Values = append(r.Values, [2]any{float64(c.T[i]) / 1000, strconv.FormatFloat(v, 'f', -1, 64)})
			}
		}
		results = append(results, r)
	}
	answer, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": results}})
	if err != nil {
		t.Fatal(err)
	}
	return []string{write(t, "answer.json", answer)}
}

// splitByInstance writes the lines of every other instance to a file of their own.
func splitByInstance(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(gz)
	if err != nil {
		t.Fatal(err)
	}
	instance := regexp.MustCompile(`instance="([^"]*)"`)
	half := map[string]int{}
	var halves [2]bytes.Buffer
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		line := sc.Text()
		m := instance.FindStringSubmatch(line)
		if m == nil { // a comment is of both
			fmt.Fprintln(&halves[0], line)
			fmt.Fprintln(&halves[1], line)
			continue
		}
		if _, seen := half[m[1]]; !seen {
			half[m[1]] = len(half) % 2
		}
		fmt.Fprintln(&halves[half[m[1]]], line)
	}
	if len(half) < 2 {
		t.Fatalf("%s: expected several instances, saw %d", file, len(half))
	}
	return []string{write(t, "a.om", halves[0].Bytes()), write(t, "b.om", halves[1].Bytes())}
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
