package stacks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// checkCounts tests what must hold of whatever was read.
func checkCounts(t *testing.T, snaps []*Snapshot) {
	t.Helper()
	for _, s := range snaps {
		var read int64
		for i, g := range s.Groups {
			read = addSaturating(read, g.Count)
			if g.Count <= 0 && s.Loss.Declared == 0 && !strings.HasPrefix(string(s.Format), "debug=1") && s.Format != Leak {
				t.Errorf("group %d counts %d", i, g.Count)
			}
			if i > 0 && g.Count > s.Groups[i-1].Count {
				t.Errorf("group %d is larger than the one before", i)
			}
			if int64(len(g.Members)) > g.Count {
				t.Errorf("group %d has %d members of %d", i, len(g.Members), g.Count)
			}
			for _, m := range g.Members {
				if len(m.Args) != len(g.Frames) {
					t.Errorf("group %d: goroutine %d has %d arguments for %d frames", i, m.ID, len(m.Args), len(g.Frames))
				}
			}
			var waiters int64
			for _, n := range g.Locks {
				waiters += n
			}
			if waiters > g.Count {
				t.Errorf("group %d has %d waiters of %d", i, waiters, g.Count)
			}
			if len(g.Labels) > profileLabelKeys {
				t.Errorf("group %d has %d label keys", i, len(g.Labels))
			}
		}
		if read != s.Loss.Read {
			t.Errorf("groups hold %d, %d were read", read, s.Loss.Read)
		}
		if d := s.Loss.Declared; d > 0 && addSaturating(s.Loss.Read, s.Loss.Lost) < d {
			t.Errorf("declared %d, read %d, lost %d", d, s.Loss.Read, s.Loss.Lost)
		}
		if len(s.Warnings) > maxWarnings+1 {
			t.Errorf("%d warnings", len(s.Warnings))
		}
	}
}

func FuzzReadText(f *testing.F) {
	files, err := filepath.Glob("testdata/text/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(eachLine(clean, "[a] "))
	f.Add(stamped(clean, "2024-08-27T10:14:%02d.5Z stderr P "))
	f.Add(records(clean, `{"log":"`, `"}`))
	f.Add(`{"log":"` + escape(`{"stack":"`+escape(clean)+`"}`) + `"}`)
	f.Add("goroutine 1 [select labels:{\"a]\": \"\\x00\"}] {k: v}:\nmain.f({0x1?})\n\tx.go:1 fp=0x1\n")
	f.Fuzz(func(t *testing.T, text string) {
		snaps, err := ReadText("x", strings.NewReader(text))
		if (err == nil) != (len(snaps) > 0) {
			t.Fatalf("got %d snapshots, %v", len(snaps), err)
		}
		checkCounts(t, snaps)
	})
}

// A dump cut at any byte loses no goroutine that was begun without saying so.
func TestReadTextCutAnywhere(t *testing.T) {
	t.Parallel()
	text := "panic: boom\n\n" + clean + "\n" + lockDump + strings.ReplaceAll(eachLine(clean, ""), "goroutine ", "goroutine 5")
	begun := regexp.MustCompile(`(?m)^goroutine \d+ \[`)
	for i := range len(text) {
		want := len(begun.FindAllString(text[:i], -1))
		snaps, err := ReadText("x", strings.NewReader(text[:i]))
		if err != nil {
			if want > 1 {
				t.Errorf("cut at %d: %v", i, err)
			}
			continue
		}
		checkCounts(t, snaps)
		if l := snaps[0].Loss; len(snaps) != 1 || l.Read+l.Lost != int64(want) {
			t.Errorf("cut at %d: %d dumps, read %d, lost %d, want %d in all", i, len(snaps), l.Read, l.Lost, want)
		}
		// In the middle of a line the end is seen, but for a line that reads as whole.
		line := text[strings.LastIndexByte(text[:i], '\n')+1 : i]
		if whole := strings.Contains(line, "+0x") || strings.HasSuffix(line, "]:") || strings.HasSuffix(line, "]") || strings.HasPrefix("goroutine", line) ||
			want == 0 || !strings.Contains(text[:i], "+0x"); !whole && !snaps[0].Loss.Truncated && !strings.HasPrefix(line, "goroutine ") {
			t.Errorf("cut at %d, after %q: not seen", i, line)
		}
	}
}
