package stacks

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadTextCarriageReturns(t *testing.T) {
	t.Parallel()
	cr := strings.ReplaceAll(clean, "\n", "\r")
	log := strings.Repeat("request served\r", maxLine/10)
	for name, r := range map[string]io.Reader{
		"alone":                strings.NewReader(cr),
		"one byte at a time":   iotest.OneByteReader(strings.NewReader(cr)),
		"after a long log":     strings.NewReader(log + cr),
		"with newlines":        strings.NewReader(strings.ReplaceAll(clean, "\n", "\r\n")),
		"a progress bar first": strings.NewReader("10%\r20%\r30%\n" + clean),
	} {
		snaps, err := ReadText("x", r)
		if err != nil || summary(snaps) != cleanWant {
			t.Errorf("%s: got %v\n%s\nwant\n%s", name, err, summary(snaps), cleanWant)
		}
	}
}

// Empty lines in a row are passed over at once, and still counted.
func TestReadTextEmptyLines(t *testing.T) {
	t.Parallel()
	for _, empty := range []string{"\n", "\r\n"} {
		text := strings.Repeat(empty, 3*maxLine) + "goroutine 9 [sele\n"
		for name, r := range map[string]io.Reader{
			"whole":         strings.NewReader(text + clean),
			"halves":        iotest.HalfReader(strings.NewReader(text + clean)),
			"within a dump": strings.NewReader(strings.Replace(clean, "\n\n", "\n"+text, 1)),
		} {
			line := 3*maxLine + 1
			if name == "within a dump" {
				line += strings.Count(clean[:strings.Index(clean, "\n\n")+1], "\n")
			}
			snaps, err := ReadText("x", r)
			want := strings.Replace(cleanWant, "read 2", "read 2 lost 1", 1) + fmt.Sprintf("! line %d: goroutine header not understood: \"goroutine 9 [sele\"\n", line)
			if err != nil || summary(snaps) != want {
				t.Errorf("%s of %q: got %v\n%s\nwant\n%s", name, empty, err, summary(snaps), want)
			}
		}
	}
}

// A header again and again is one dump of goroutines without stacks.
func TestReadTextBareHeaders(t *testing.T) {
	t.Parallel()
	header, _, _ := strings.Cut(clean, "\n")
	snaps, err := ReadText("x", strings.NewReader(strings.Repeat(header+"\n", 30)+clean))
	if err != nil || len(snaps) != 1 {
		t.Fatalf("got %d snapshots, %v", len(snaps), err)
	}
	s := snaps[0]
	if s.Loss.Read != 2 || s.Loss.Lost != 30 || len(s.Warnings) != maxWarnings+1 || s.Warnings[maxWarnings] != "and 10 more" {
		t.Errorf("got %s", summary(snaps))
	}
	for i, w := range s.Warnings[:maxWarnings] {
		if !strings.HasPrefix(w, fmt.Sprintf("line %d: goroutine ", i+1)) || !strings.HasSuffix(w, " has no stack") {
			t.Errorf("warning %d is %q", i, w)
		}
	}
}

// What stands in a dump and is no dump is said.
func TestReadTextWaitProfile(t *testing.T) {
	t.Parallel()
	waits := "--- contention:\ncycles/second=1000000000\n9 9 @ 0x1\n#\t0x1\tsync.(*Mutex).Lock+0x1\t/m.go:1\n"
	after := strings.Count(clean, "\n") + 1
	for _, tt := range []struct {
		text string
		line int
	}{{clean + waits, after}, {waits + "\n" + clean, 1}, {clean + strings.Replace(waits, "contention", "mutex", 1), after}} {
		snaps, err := ReadText("x", strings.NewReader(tt.text))
		want := cleanWant + fmt.Sprintf("! line %d: a block or mutex profile begins here and was not read: give it in a file of its own\n", tt.line)
		if err != nil || summary(snaps) != want {
			t.Errorf("got %v\n%s\nwant\n%s", err, summary(snaps), want)
		}
	}
}

// Counts at the limit of their type stay there.
func TestReadTextHugeCounts(t *testing.T) {
	t.Parallel()
	one := fmt.Sprintf("goroutine profile: total %d\n%d @ 0x1\n#\t0x1\tmain.f+0x1\t/x.go:1\n\n", math.MaxInt64, int64(math.MaxInt64))
	record := one[strings.Index(one, "\n")+1:]
	for name, text := range map[string]string{
		"one stack": one + record,
		"stacks":    one + strings.ReplaceAll(record, "main.f", "main.g"),
		"dumps":     one + one,
		"lost":      one + fmt.Sprintf("%d @ 0x1\n#\tnonsense\n\n%d @ 0x2\n#\tnonsense\n", int64(math.MaxInt64), int64(math.MaxInt64)),
	} {
		snaps, err := ReadText("x", strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range snaps {
			if s.Loss.Read != math.MaxInt64 || s.Loss.Declared != math.MaxInt64 || s.Loss.Lost < 0 {
				t.Errorf("%s: got %+v", name, s.Loss)
			}
			for _, g := range s.Groups {
				if g.Count != math.MaxInt64 {
					t.Errorf("%s: a group of %d", name, g.Count)
				}
			}
		}
	}
}

// BenchmarkReadTextDull reads text that says the same little thing all the time.
func BenchmarkReadTextDull(b *testing.B) {
	for name, line := range map[string]string{"newline": "\n", "header": "goroutine 1 [running]:\n"} {
		b.Run(name, func(b *testing.B) {
			text := bytes.Repeat([]byte(line), (16<<20)/len(line))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				ReadText("x", bytes.NewReader(text))
			}
		})
	}
}
