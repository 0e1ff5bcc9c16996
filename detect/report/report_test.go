package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
)

func TestText(t *testing.T) {
	tests := []struct {
		name   string
		report *detect.Report
		opt    TextOptions
	}{
		{"telemetrylock", telemetryLock(), TextOptions{Width: 100, Top: 3}},
		{"telemetrylock-colour", telemetryLock(), TextOptions{Width: 100, Top: 3, Color: true}},
		{"telemetrylock-narrow", telemetryLock(), TextOptions{Width: 60, Top: 1}},
		{"telemetrylock-all", telemetryLock(), TextOptions{Width: 300}},
		{"nothing", nothingFound(), TextOptions{Top: 3}},
		{"idle", idle(), TextOptions{Top: 3}},
		{"couldnotlook", couldNot(), TextOptions{Top: 3}},
		{"noinput", &detect.Report{}, TextOptions{Top: 3}},
		{"hostile", hostile(), TextOptions{Width: 120, Top: 3}},
		{"wide", wideUnicode(), TextOptions{Width: 80, Top: 3}},
		{"processes", severalProcesses(), TextOptions{Top: 2}},
		{"chain", chain(), TextOptions{Width: 100, Top: 3}},
		{"chain-colour", chain(), TextOptions{Width: 80, Top: 3, Color: true}},
		{"chain-narrow", chain(), TextOptions{Width: 60, Top: 3}},
		{"chain-all", chain(), TextOptions{Width: 140}},
		{"nogrowth", noGrowth(), TextOptions{Top: 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := Text(&b, tt.report, tt.opt); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name+".txt.golden", b.Bytes())
			width := min(max(tt.opt.Width, minWidth), maxWidth)
			if tt.opt.Width == 0 {
				width = defaultWidth
			}
			for line := range strings.Lines(b.String()) {
				if tt.opt.Color {
					continue
				}
				line = strings.TrimSuffix(line, "\n")
				if n := columns(line); n > width {
					t.Errorf("line of %d columns, want at most %d: %s", n, width, line)
				}
				if line != Printable(line) {
					t.Errorf("line is not safe to print: %q", line)
				}
			}
		})
	}
}

// TestLongNames holds a name made to fill the screen to a few lines, at any width.
func TestLongNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{strings.Repeat("x", 4096), strings.Repeat("a/", 2048), strings.Repeat("long.name", 400), strings.Repeat("\u202e\x1b[2J", 800)} {
		r := telemetryLock()
		f := &r.Findings[0]
		f.Function, f.Summary, r.Verdict.Summary = name, name+" waits", name+" waits"
		f.Holder.Function, f.Holder.Wait, f.Holder.Stack = name+"2", "waiting in "+name, []string{name}
		f.Labels = map[string][]string{name: {name}}
		for i := range 3 {
			r.Inputs = append(r.Inputs, detect.Input{Name: fmt.Sprint(name, i), Process: name, Use: "difference from " + name, Kind: "block"})
		}
		r.Notes = []string{name}
		for _, width := range []int{40, 60, 80, 100, 140} {
			var b bytes.Buffer
			if err := Text(&b, r, TextOptions{Width: width, Top: 3}); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(b.String(), "\n"); n > 150 {
				t.Errorf("%.10s… at %d columns: %d lines", name, width, n)
			}
			for line := range strings.Lines(b.String()) {
				if line = strings.TrimSuffix(line, "\n"); columns(line) > width || line != Printable(line) {
					t.Errorf("%.10q… at %d columns: %q", name, width, line)
				}
			}
		}
	}
}

// TestOneScreen holds the common case to what fits a screen.
func TestOneScreen(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	r := telemetryLock()
	r.Findings = r.Findings[:2]
	r.Findings[0].Evidence = r.Findings[0].Evidence[2:]
	r.Findings[0].Holder.Stack = r.Findings[0].Holder.Stack[:5] // from where it waits to where it locked
	if err := Text(&b, r, TextOptions{Width: 100, Top: 3}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 45 {
		t.Errorf("%d lines, want at most 45", n)
	}
}

func TestJSON(t *testing.T) {
	tests := []struct {
		name   string
		report *detect.Report
	}{
		{"telemetrylock", telemetryLock()},
		{"nothing", nothingFound()},
		{"noinput", &detect.Report{Schema: detect.Schema}},
		{"hostile", hostile()},
		{"chain", chain()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := JSON(&b, tt.report); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name+".json.golden", b.Bytes())
			for line := range strings.Lines(b.String()) {
				if line := strings.TrimSuffix(line, "\n"); line != Printable(line) && !strings.Contains(line, "\ufffd") {
					t.Errorf("line is not safe to print: %q", line)
				}
			}
			var back detect.Report
			if err := json.Unmarshal(b.Bytes(), &back); err != nil {
				t.Errorf("does not parse: %v", err)
			}
		})
	}
}

// TestJSONKeepsReport checks that writing changes nothing of the report.
func TestJSONKeepsReport(t *testing.T) {
	t.Parallel()
	r := nothingFound()
	before := *r.Inputs[0].Taken
	if err := JSON(&bytes.Buffer{}, r); err != nil {
		t.Fatal(err)
	}
	if *r.Inputs[0].Taken != before || r.Findings != nil {
		t.Errorf("the report was changed: %+v", r)
	}
}

func TestJSONNotANumber(t *testing.T) {
	t.Parallel()
	r := &detect.Report{Findings: []detect.Finding{{Blocked: 1, Total: nan()}}}
	if err := JSON(&bytes.Buffer{}, r); err == nil {
		t.Error("no error for NaN")
	}
	if err := Text(&bytes.Buffer{}, r, TextOptions{}); err != nil {
		t.Error(err)
	}
}

func nan() float64 { z := 0.0; return z / z }

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteError(t *testing.T) {
	t.Parallel()
	want := errors.New("disk full")
	if err := Text(failingWriter{want}, telemetryLock(), TextOptions{}); !errors.Is(err, want) {
		t.Errorf("Text: %v", err)
	}
	if err := JSON(failingWriter{want}, telemetryLock()); !errors.Is(err, want) {
		t.Errorf("JSON: %v", err)
	}
}

// golden compares got with a file of testdata, which CONTEND_UPDATE=1 rewrites.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("CONTEND_UPDATE") == "1" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s (CONTEND_UPDATE=1 rewrites it); got:\n%s", path, got)
	}
}

func TestBudgetTitle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		unit  detect.Unit
		total float64
		want  string
	}{
		{detect.Requests, 859, "Where the 859 requests are"},
		{detect.Requests, 1, "Where the 1 request is"},
		{detect.Requests, 0, "No requests now"},
		{detect.Goroutines, 40, "Where the 40 goroutines that are not idle are"},
		{detect.Goroutines, 1, "Where the 1 goroutine that is not idle is"},
		{detect.Goroutines, 0, "No goroutines that are not idle now"},
		{detect.Contentions, 3.5, "In flight: 3.5"},
		{"", 12, "In flight: 12"},
	} {
		if got := budgetTitle(tt.unit, tt.total); got != tt.want {
			t.Errorf("budgetTitle(%q, %v) = %q, want %q", tt.unit, tt.total, got, tt.want)
		}
	}
}

func TestUnsure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		confidence detect.Confidence
		warnings   []string
		want       string
	}{
		{detect.Medium, []string{"one snapshot: a second one tells; take it", "other"}, ": one snapshot"},
		{detect.Low, []string{"told by name; not known"}, ": told by name"},
		{detect.Low, []string{"plain"}, ": plain"},
		{detect.Low, nil, ""},
		{detect.High, []string{"plain"}, ""},
		{"", []string{"plain"}, ""},
	} {
		if got := unsure(tt.confidence, tt.warnings); got != tt.want {
			t.Errorf("unsure(%q, %q) = %q, want %q", tt.confidence, tt.warnings, got, tt.want)
		}
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	several := map[string][]string{"tenant": {"a", "b", "c", "d"}, "region": {"eu"}}
	for _, tt := range []struct {
		labels     map[string][]string
		width, top int
		want       string
	}{
		{nil, 100, 3, ""},
		{map[string][]string{"b": {detect.Redacted}, "a": {detect.Redacted}}, 100, 3, "a, b (redacted; --labels shows them)"},
		{map[string][]string{"b": {detect.Redacted}, "a": {detect.Redacted}}, 40, 3, "2 labels (redacted; --labels shows them)"},
		{several, 100, 3, "region=eu, tenant=a|b|c and 1 more"},
		{several, 100, 0, "region=eu, tenant=a|b|c|d"},
		{several, 40, 3, "region=eu and 1 more"},
	} {
		p := &page{width: tt.width, top: tt.top}
		if got := p.labels(tt.labels); got != tt.want {
			t.Errorf("labels(%v) at %d columns, top %d = %q, want %q", tt.labels, tt.width, tt.top, got, tt.want)
		}
	}
}

// TestManyInputs counts a bundle's inputs by kind, and lists those that were not
// read whole; eight or fewer, and with --top 0 all, are listed one by one.
func TestManyInputs(t *testing.T) {
	r := nothingFound()
	r.Inputs = nil
	for i := range 9 {
		kind := []string{"goroutine", "mutex", "goroutine"}[i%3]
		r.Inputs = append(r.Inputs, detect.Input{Name: fmt.Sprintf("b/%d.pb.gz", i), Kind: kind, Process: fmt.Sprint("gateway-", i%2)})
	}
	inputs := func(top int) string {
		var b bytes.Buffer
		if err := Text(&b, r, TextOptions{Top: top}); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(b.String(), "\nInputs in b/")
		section, _, _ := strings.Cut(after, "\nnote:")
		return strings.TrimRight(section, "\n")
	}
	if got, want := inputs(3), "\n  6 goroutine profiles, 3 mutex profiles of 2 processes, read whole: --top 0 lists them"; got != want {
		t.Errorf("nine inputs: saw %q, want %q", got, want)
	}
	if got := inputs(0); strings.Count(got, ".pb.gz") != 9 {
		t.Errorf("nine inputs with --top 0: want each listed, saw %s", got)
	}
	r.Inputs = append(r.Inputs,
		detect.Input{Name: "b/cut.txt", Kind: "goroutine", Goroutines: &detect.GoroutineCounts{Declared: 10, Read: 7, Lost: 3}},
		detect.Input{Name: "b/bad.pb.gz", Error: "expected a profile, saw HTML"},
	)
	got := inputs(3)
	for _, want := range []string{"cut.txt", "7 of 10, 3 lost", "bad.pb.gz: could not be read: expected a profile, saw HTML", "6 goroutine profiles, 3 mutex profiles of 2 processes, read whole"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	r.Inputs = r.Inputs[:8]
	if got := inputs(3); strings.Count(got, ".pb.gz") != 8 {
		t.Errorf("eight inputs: want each listed, saw %s", got)
	}
}
