package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/contend/contend/detect/all"
)

const markdownSample = "# herd\n\nArrivals jump to a **multiple of** their `trailing peak`, by far.\n\n## What to do\n\n" +
	"1. Block at the `edge`.\n   Then wait.\n2. Restore:\n   - in steps,\n   - not at once\n\n" +
	"| reading | assumes |\n| --- | --- |\n| direct | nothing on how they arrive |\n\n    kept   as is\n"

func TestMarkdownText(t *testing.T) {
	t.Parallel()
	plain := `herd

Arrivals jump to a multiple
of their ` + "`trailing peak`" + `, by
far.

What to do

1. Block at the ` + "`edge`" + `. Then
   wait.
2. Restore:
   - in steps,
   - not at once

direct
  assumes  nothing on how
           they arrive

  kept   as is
`
	if got := markdownText(markdownSample, 29, false); got != plain {
		t.Errorf("plain:\n%s\nwant\n%s", got, plain)
	}
	coloured := markdownText(markdownSample, 29, true)
	for _, want := range []string{
		"\x1b[1mherd\x1b[0m\n", "a \x1b[1mmultiple\x1b[0m\n\x1b[1mof\x1b[0m their", "\x1b[36mtrailing\x1b[0m \x1b[36mpeak\x1b[0m, by\n", "the \x1b[36medge\x1b[0m. Then",
	} {
		if !strings.Contains(coloured, want) {
			t.Errorf("expected %q in\n%q", want, coloured)
		}
	}
}

// TestPages checks that each detector's page loses no word on a terminal, and
// that it fits.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, d := range all.Detectors() {
		for _, width := range []int{40, 80, 100} {
			page := markdownText(d.Doc, width, false)
			for line := range strings.SplitSeq(page, "\n") {
				if words := len(strings.Fields(line)); utf8.RuneCountInString(line) > width && words > 1 {
					t.Errorf("%s at %d: a line of %d words is too long: %q", d.Name, width, words, line)
				}
			}
			for _, section := range []string{"What it means", "Look-alikes", "What to do", "Proof"} {
				if !strings.Contains(page, "\n\n"+section+"\n\n") {
					t.Errorf("%s at %d has no section %q", d.Name, width, section)
				}
			}
			if strings.Contains(d.Doc, "\n| ") {
				continue // a row repeats the names of its columns
			}
			strip := strings.NewReplacer("#", "", "*", "", "`", "")
			if got, want := strings.Fields(strip.Replace(page)), strings.Fields(strip.Replace(d.Doc)); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s at %d reads\n%s", d.Name, width, page)
			}
		}
	}
}
