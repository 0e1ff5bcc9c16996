// Package cases runs detectors on small goroutine dumps written as
// stacks on a line each, so that a test shows its hits and near-misses side by side.
package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

// Want is a finding that must be there. Fields that are zero are not compared.
type Want struct {
	Detector   string
	Function   string
	Blocked    float64
	Holder     string // function
	Confidence detect.Confidence
	Severity   detect.Severity
}

// Case is a dump and all that may be found in it.
type Case struct {
	Name string
	// Dump has a line for each stack, leaf first:
	//
	//	COUNT STATE: FRAME < FRAME < FRAME [| CREATOR]
	//
	// STATE is a header's ("chan send, 5 minutes"), FRAME a function with optional arguments
	// and line ("main.(*T).f(0xc000010000)@12"). HANDLER stands for the frames
	// that net/http calls a handler from, LOCK(0xADDR) for those of sync.Mutex.
	Dump string
	// Earlier, where not empty, is a dump of the same process before it.
	Earlier string
	Verdict string
	Want    []Want
}

// Run holds detectors to the cases: a finding that is not wanted fails as one
// that is missing does.
func Run(t *testing.T, detectors []*detect.Detector, cases []Case) {
	t.Helper()
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			b := &ingest.Bundle{}
			if c.Earlier != "" {
				b.Snapshots = append(b.Snapshots, Snapshot(t, "earlier", c.Earlier))
			}
			b.Snapshots = append(b.Snapshots, Snapshot(t, "dump", c.Dump))
			check(t, detect.Run(b, nil, detectors, detect.Options{}), c)
		})
	}
}

func check(t *testing.T, r *detect.Report, c Case) {
	t.Helper()
	if r.Verdict.Cause != c.Verdict {
		t.Errorf("verdict %q, want %q: %s", r.Verdict.Cause, c.Verdict, r.Verdict.Summary)
	}
	for _, s := range r.Skipped {
		t.Errorf("%s could not look: %s", s.Detector, s.Reason)
	}
	left := slices.Clone(c.Want)
	for _, f := range r.Findings {
		i := slices.IndexFunc(left, func(w Want) bool { return w.Detector == f.Detector })
		if i < 0 {
			t.Errorf("unexpected finding: %s: %s", f.Detector, f.Summary)
			continue
		}
		w := left[i]
		left = slices.Delete(left, i, i+1)
		got := Want{Detector: f.Detector, Function: f.Function, Blocked: f.Blocked, Confidence: f.Confidence, Severity: f.Severity}
		if f.Holder != nil {
			got.Holder = f.Holder.Function
		}
		if w.Function != "" && w.Function != got.Function || w.Blocked != 0 && w.Blocked != got.Blocked || w.Holder != "" && w.Holder != got.Holder ||
			w.Confidence != "" && w.Confidence != got.Confidence || w.Severity != "" && w.Severity != got.Severity {
			t.Errorf("found %+v, want %+v\n%s", got, w, f.Summary)
		}
	}
	for _, w := range left {
		t.Errorf("not found: %+v", w)
	}
}

// Snapshot reads a dump written as Case.Dump says, through its text form.
func Snapshot(t testing.TB, name, dump string) *stacks.Snapshot {
	t.Helper()
	text := Text(t, dump)
	all, err := stacks.ReadText(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || len(all[0].Warnings) > 0 || all[0].Loss.Lost > 0 {
		t.Fatalf("read %d dumps, warnings %q, from\n%s", len(all), all[0].Warnings, text)
	}
	return all[0]
}

var macros = strings.NewReplacer(
	"HANDLER", "net/http.HandlerFunc.ServeHTTP < net/http.serverHandler.ServeHTTP < net/http.(*conn).serve",
	"LOCK(", "internal/sync.runtime_SemacquireMutex < internal/sync.(*Mutex).lockSlow(",
)

// stack is a line of a dump.
type stack struct {
	n       int
	state   string
	frames  []string
	creator string
	first   int // id of its first goroutine
}

// Text writes a dump as the runtime does with debug=2. Goroutines with a
// creator are each created by one of those whose stack has it, in turn.
func Text(t testing.TB, dump string) string {
	t.Helper()
	var all []stack
	id := 101
	for line := range strings.Lines(dump) {
		line = macros.Replace(strings.TrimSpace(line))
		if line == "" {
			continue
		}
		s := stack{first: id}
		if _, err := fmt.Sscanf(line, "%d ", &s.n); err != nil {
			t.Fatalf("stack line %q: expected a count first", line)
		}
		id += s.n
		_, rest, _ := strings.Cut(line, " ")
		state, frames, ok := strings.Cut(rest, ": ")
		if !ok {
			t.Fatalf("stack line %q: expected STATE: FRAME < FRAME", line)
		}
		s.state = state
		frames, s.creator, _ = strings.Cut(frames, " | ")
		for f := range strings.SplitSeq(frames, " < ") {
			s.frames = append(s.frames, strings.TrimSpace(f))
		}
		all = append(all, s)
	}
	var b strings.Builder
	for _, s := range all {
		for i := range s.n {
			fmt.Fprintf(&b, "goroutine %d [%s]:\n", s.first+i, s.state)
			for _, f := range s.frames {
				writeFrame(&b, f)
			}
			if s.creator != "" {
				fmt.Fprintf(&b, "created by %s in goroutine %d\n\t/src/main.go:9 +0x1d\n", s.creator, creatorOf(all, s, i))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func creatorOf(all []stack, s stack, i int) int {
	for _, c := range all {
		if slices.ContainsFunc(c.frames, func(f string) bool { return f == s.creator || strings.HasPrefix(f, s.creator+"@") }) {
			return c.first + i%c.n
		}
	}
	return 1
}

func writeFrame(b *strings.Builder, f string) {
	name, at, ok := strings.Cut(f, "@")
	if !ok {
		at = "10"
	}
	if !strings.HasSuffix(name, ")") {
		name += "(...)"
	}
	head := name
	if i := strings.IndexByte(head, '('); i >= 0 {
		head = head[:i]
	}
	slash := strings.LastIndexByte(head, '/')
	pkg, _, _ := strings.Cut(head[slash+1:], ".")
	pkg = head[:slash+1] + pkg
	root := "/src/"
	if first, _, _ := strings.Cut(pkg, "/"); !strings.Contains(first, ".") && first != "main" {
		root = "/usr/local/go/src/"
	}
	fmt.Fprintf(b, "%s\n\t%s%s/x.go:%s +0x1d\n", name, root, pkg, at)
}
