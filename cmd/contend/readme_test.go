package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect/all"
)

const readme = "../../README.md"

// TestReadmeSessions runs every command of contend that the README shows, from
// the root of the checkout, and holds the README to what it prints.
func TestReadmeSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many commands one by one")
	}
	data, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	lines := strings.Split(string(data), "\n")
	var out []string
	sessions := 0
	for i := 0; i < len(lines); {
		out = append(out, lines[i])
		if lines[i] != "```console" {
			i++
			continue
		}
		i++
		for lines[i] != "```" {
			command, ok := strings.CutPrefix(lines[i], "$ ")
			if !ok {
				t.Fatalf("README line %d: expected a command in a console block, saw %q", i+1, lines[i])
			}
			out = append(out, lines[i])
			i++
			var shown []string
			for lines[i] != "```" && !strings.HasPrefix(lines[i], "$ ") {
				shown = append(shown, lines[i])
				i++
			}
			args, ok := strings.CutPrefix(command, "go run ./cmd/contend ")
			if !ok {
				out = append(out, shown...) // a command of the go tool's
				continue
			}
			sessions++
			var stdout, stderr bytes.Buffer
			if code := run(strings.Fields(args), strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
				t.Errorf("%s: exit code %d\n%s", command, code, stderr.String())
			}
			real := strings.Split(strings.TrimRight(stdout.String(), "\n"), "\n")
			if want := strings.Join(shown, "\n"); want != strings.Join(real, "\n") && os.Getenv("CONTEND_UPDATE") == "" {
				t.Errorf("the README shows for %s\n%s\nbut it prints\n%s", command, want, strings.Join(real, "\n"))
			}
			out = append(out, real...)
		}
	}
	if sessions == 0 {
		t.Fatal("the README shows no session")
	}
	update(t, "README.md", data, []byte(strings.Join(out, "\n")))
}

// TestReadmeTable holds the README's table to the list of detectors.
func TestReadmeTable(t *testing.T) {
	const begin, end = "<!-- detectors: derived, CONTEND_UPDATE=1 go test ./cmd/contend -->\n", "<!-- end of detectors -->"
	data, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	if !ok {
		t.Fatalf("README has no line %q", begin)
	}
	shown, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("README has no line %q", end)
	}
	var table strings.Builder
	table.WriteString("| detector | role | finds that | needs |\n| --- | --- | --- | --- |\n")
	for _, d := range all.Detectors() {
		var needs []string
		for _, n := range d.Needs {
			needs = append(needs, string(n.Input))
		}
		fmt.Fprintf(&table, "| [%s](detect/%s/README.md) | %s | %s | %s |\n", d.Name, d.Name, d.Role, d.Title, strings.Join(slices.Compact(needs), " or "))
	}
	if shown != table.String() && os.Getenv("CONTEND_UPDATE") == "" {
		t.Errorf("the README's table is\n%s\nthe detectors are\n%s", shown, table.String())
	}
	update(t, readme, data, []byte(before+begin+table.String()+end+after))
}

func update(t *testing.T, path string, old, text []byte) {
	t.Helper()
	if os.Getenv("CONTEND_UPDATE") == "" || bytes.Equal(old, text) {
		return
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
