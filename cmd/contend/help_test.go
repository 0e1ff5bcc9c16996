package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// visitCommands calls f for each command that people call by hand, contend itself first.
func visitCommands(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Hidden {
		return
	}
	f(cmd)
	for _, sub := range cmd.Commands() {
		visitCommands(sub, f)
	}
}

// TestHelp holds the help of every command to what a reader needs: examples,
// and no line that a terminal folds.
func TestHelp(t *testing.T) {
	t.Parallel()
	commands := 0
	visitCommands(rootCommand(), func(cmd *cobra.Command) {
		commands++
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		var stdout, stderr bytes.Buffer
		if code := run(args, nil, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
			t.Errorf("%s --help: exit code %d, %q on stderr", cmd.CommandPath(), code, &stderr)
		}
		if cmd.Example == "" || !strings.Contains(stdout.String(), "\nExamples:\n"+cmd.Example+"\n") {
			t.Errorf("the help of %s has no examples", cmd.CommandPath())
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("an example of %s is not indented by two: %q", cmd.CommandPath(), line)
			}
		}
		for line := range strings.SplitSeq(stdout.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > helpWidth || strings.TrimRight(line, " \t") != line {
				t.Errorf("the help of %s has a line of %d columns, or one that ends in blanks: %q", cmd.CommandPath(), n, line)
			}
		}
	})
	if commands < 10 {
		t.Errorf("visited %d commands", commands)
	}
}

// TestHelpFitsScreen checks that contend alone says all it can do on one screen,
// with the line for the next command.
func TestHelpFitsScreen(t *testing.T) {
	t.Parallel()
	var alone, asked bytes.Buffer
	if code := run(nil, nil, &alone, nil) + run([]string{"--help"}, nil, &asked, nil); code != exitOK || !bytes.Equal(alone.Bytes(), asked.Bytes()) {
		t.Errorf("exit code %d; contend prints\n%s\ncontend --help\n%s", code, &alone, &asked)
	}
	const rows = 24
	if n := bytes.Count(alone.Bytes(), []byte("\n")); n >= rows {
		t.Errorf("the help has %d lines, of a screen's %d:\n%s", n, rows, &alone)
	}
	visitCommands(rootCommand(), func(cmd *cobra.Command) {
		if cmd.HasParent() && !cmd.Parent().HasParent() && !strings.Contains(alone.String(), "\n  "+cmd.Name()+" ") {
			t.Errorf("the help does not list %s", cmd.Name())
		}
	})
}
