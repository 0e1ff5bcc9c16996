package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/contend/contend/demo/scenarios"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script by which a shell completes contend's arguments",
		Long: `Completion prints a script for a shell. With it the shell completes commands,
flags, and their values: detectors, scenarios, signals, alerts, formats, files.

  bash        needs the package bash-completion; for all sessions write it to
              ~/.local/share/bash-completion/completions/contend
  zsh         write it to a file _contend in a folder of $fpath, before compinit
  fish        write it to ~/.config/fish/completions/contend.fish
  powershell  contend completion powershell | Out-String | Invoke-Expression`,
		Example: `  source <(contend completion bash)
  contend completion zsh > "${fpath[1]}/_contend"
  contend completion fish > ~/.config/fish/completions/contend.fish`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return fmt.Errorf("expected one shell of %s, saw %q; try contend completion bash", strings.Join(shells, ", "), strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w, root := cmd.OutOrStdout(), cmd.Root()
			switch args[0] {
			case "bash":
				return written(0, root.GenBashCompletionV2(w, true))
			case "zsh":
				return written(0, root.GenZshCompletion(w))
			case "fish":
				return written(0, root.GenFishCompletion(w, true))
			}
			return written(0, root.GenPowerShellCompletionWithDesc(w))
		},
	}
}

// completeFlag has a flag completed with the words it takes.
func completeFlag(cmd *cobra.Command, flag string, words ...string) {
	complete(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // no such flag, or twice: every run would have it
	}
}

// namedFlags are the flags that take a name of contend's own, in all commands.
var namedFlags = map[string]cobra.CompletionFunc{
	"detector": func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndexByte(begun, ',')+1] // of a list
		return starting(begun, before, detectorNames()), cobra.ShellCompDirectiveNoFileComp
	},
	"scenario": completeScenarios,
	"signal": func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		for _, s := range series.Signals() {
			out = append(out, cobra.CompletionWithDesc(s.Name+"=", s.Meaning))
		}
		return starting(begun, "", out), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	},
	"set": func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return starting(begun, "", alertSettings()), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	},
	"fail-on": cobra.FixedCompletions(severityNames(), cobra.ShellCompDirectiveNoFileComp),
}

// addCompletions completes what the commands of a tree do not complete by
// themselves: flags by their name or by what their usage calls their value,
// arguments by what the command calls them.
func addCompletions(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, done := cmd.GetFlagCompletionFunc(f.Name); done {
			return
		}
		if named := namedFlags[f.Name]; named != nil {
			complete(cmd, f.Name, named)
			return
		}
		switch value, _ := pflag.UnquoteUsage(f); {
		case strings.Contains(value, "FILE"):
			complete(cmd, f.Name, completeFiles)
		case strings.Contains(value, "DIR"):
			complete(cmd, f.Name, completeDirs)
		default: // a number, a time, a URL, a query
			complete(cmd, f.Name, cobra.NoFileCompletions)
		}
	})
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !takesFiles(cmd.Use) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		addCompletions(sub)
	}
}

// takesFiles reports whether one of a command's arguments can be a path.
func takesFiles(use string) bool {
	_, args, _ := strings.Cut(use, " ")
	return slices.ContainsFunc(strings.FieldsFunc(args, func(r rune) bool { return r < 'A' || r > 'Z' }), func(word string) bool {
		return slices.Contains([]string{"FILE", "DIR", "PROFILE", "BUNDLE"}, word)
	}) && !strings.HasPrefix(args, "-") // -o FILE is a flag's
}

func completeFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func completeDirs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completePages completes the one argument of explain.
func completePages(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	pages := append(detectorNames(), cobra.CompletionWithDesc("signals", "the quantities that series are read for"))
	return starting(begun, "", pages), cobra.ShellCompDirectiveNoFileComp
}

// completeScenarios completes one name of a scenario.
func completeScenarios(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, s := range scenarios.All() {
		out = append(out, cobra.CompletionWithDesc(s.Name, s.Fault))
	}
	return starting(begun, "", out), cobra.ShellCompDirectiveNoFileComp
}

// starting are the words that go on from what is begun, each after before.
func starting(begun, before string, words []cobra.Completion) []cobra.Completion {
	var out []cobra.Completion
	for _, word := range words {
		if word = before + word; strings.HasPrefix(word, begun) {
			out = append(out, word)
		}
	}
	return out
}

func detectorNames() []cobra.Completion {
	var out []cobra.Completion
	for _, d := range all.Detectors() {
		out = append(out, cobra.CompletionWithDesc(d.Name, d.Title))
	}
	return out
}

func severityNames() []cobra.Completion {
	var out []cobra.Completion
	for _, s := range detect.Severities {
		out = append(out, string(s))
	}
	return out
}

// alertSettings are what --set takes, up to the value.
func alertSettings() []cobra.Completion {
	var out []cobra.Completion
	for _, d := range all.Detectors() {
		for i := range d.Signals {
			s := &d.Signals[i]
			names := []string{"for", "keep_firing_for", "severity"}
			for _, l := range s.Limits() {
				names = append(names, l.Name)
			}
			for _, name := range names {
				out = append(out, s.Alert+"."+name+"=")
			}
		}
	}
	return out
}
