package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manDate is the month in the pages' title. Pages are of a version, not of a
// month: it is taken out again, and cobra wants one.
var manDate = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// renderedPages are the manual pages of the commands as they are now.
func renderedPages(t *testing.T) map[string][]byte {
	t.Helper()
	pages := map[string][]byte{}
	visitCommands(rootCommand(), func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true // the date of the day
		cmd.InitDefaultVersionFlag()
		if cmd.Long == "" {
			cmd.Long = cmd.Short + "."
		}
		cmd.Long = layOut(cmd.Long)
		if cmd.HasParent() && cmd.HasSubCommands() { // else each gets one of its own, listed
			cmd.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true})
		}
		var b bytes.Buffer
		if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Date: &manDate, Source: "contend", Manual: "contend"}, &b); err != nil {
			t.Fatal(err)
		}
		text := bytes.Replace(b.Bytes(), []byte(`"Jan 2026"`), []byte(`""`), 1)
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = text
	})
	return pages
}

// entry is a line of a list that is laid out by hand: a word or two and, beside
// them, what they are.
var entry = regexp.MustCompile(`^  (\S+(?: \S+)*)  +(\S.*)$`)

// layOut makes Markdown of a description: of its indented lists ones that are
// filled to the reader's width, as the rest is.
func layOut(text string) string {
	var out strings.Builder
	list := false
	for line := range strings.SplitSeq(text, "\n") {
		m := entry.FindStringSubmatch(line)
		switch {
		case m != nil:
			line = "\n`" + m[1] + "`\n: " + m[2]
			list = true
		case list && strings.HasPrefix(line, "  "):
			line = strings.TrimLeft(line, " ")
		case list && line != "":
			line = "\n" + line
			list = false
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// TestManPages holds the pages in man/ to the commands.
func TestManPages(t *testing.T) {
	want := renderedPages(t)
	kept, err := filepath.Glob("man/*.1")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]byte{}
	for _, path := range kept {
		if got[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if maps.EqualFunc(got, want, bytes.Equal) {
		return
	}
	if os.Getenv("CONTEND_UPDATE") == "" {
		for name := range want {
			if !bytes.Equal(got[name], want[name]) {
				t.Errorf("man/%s is not what the command says; CONTEND_UPDATE=1 go test ./cmd/contend writes it", name)
			}
		}
		for name := range got {
			if want[name] == nil {
				t.Errorf("man/%s is of no command; CONTEND_UPDATE=1 go test ./cmd/contend removes it", name)
			}
		}
		return
	}
	for name := range got {
		if want[name] == nil {
			if err := os.Remove("man/" + name); err != nil {
				t.Error(err)
			}
		}
	}
	for name, text := range want {
		update(t, "man/"+name, got[name], text)
	}
}

// TestManRenders lets man read each page: no warning, no line that is cut, and
// tables that are laid out as they are in the help.
func TestManRenders(t *testing.T) {
	t.Parallel()
	man, err := exec.LookPath("man")
	if err == nil {
		// Minimal images of Debian's have a man that only says it was left out.
		err = exec.Command(man, "--warnings", "-l", "man/contend.1").Run()
	}
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatalf("man of man-db is not installed (%v), and CONTEND_REQUIRE is set", err)
		}
		t.Skipf("man of man-db is not installed: %v", err)
	}
	overstrike := regexp.MustCompile(".\b")
	for name := range renderedPages(t) {
		cmd := exec.Command(man, "--warnings=all", "-l", "man/"+name)
		cmd.Env = append(os.Environ(), "MANWIDTH=80", "MANROFFOPT=", "LC_ALL=C.UTF-8", "MANPAGER=cat")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stderr.Len() > 0 {
			t.Errorf("man -l %s: %v\n%s", name, err, &stderr)
		}
		text := overstrike.ReplaceAllString(stdout.String(), "")
		for _, section := range []string{"\nNAME\n", "\nSYNOPSIS\n", "\nDESCRIPTION\n", "\nEXAMPLE\n"} {
			if !strings.Contains(text, section) {
				t.Errorf("%s has no section %q", name, strings.TrimSpace(section))
			}
		}
		if strings.Contains(text, "**") || strings.Contains(text, "```") {
			t.Errorf("%s shows its Markdown", name)
		}
	}
}
