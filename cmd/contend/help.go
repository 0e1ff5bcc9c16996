package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
)

// helpWidth is what help is wrapped to, whatever the terminal: the narrowest in
// use, and what examples and tables in the texts are laid out for.
const helpWidth = 80

// usage prints what follows a command's description in its help. It is cobra's
// own with flags wrapped, and for contend itself without what would not fit a screen.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	if cmd.HasParent() {
		fmt.Fprintf(&b, "Usage:\n  %s\n\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
	fmt.Fprintf(&b, "Examples:\n%s\n", cmd.Example)
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(t, "  %s\t%s\n", sub.Name(), sub.Short)
			}
		}
		t.Flush()
		fmt.Fprintf(&b, "\n%s COMMAND --help says more of each.\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(helpWidth))
	}
	return written(fmt.Fprint(cmd.OutOrStdout(), b.String()))
}

// helpCommand is cobra's, but one that it does not know is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Say what a command does",
		Example: "  contend help rules generate",
		Hidden:  true, // --help does the same
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []cobra.Completion
			for _, sub := range about.Commands() {
				if sub.IsAvailableCommand() {
					out = append(out, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return starting(begun, "", out), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if err := noCommand(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag() // to be among its flags
			return about.Help()
		},
	}
}

// group is a command that only has others.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.Args = noCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets only on its own path
	cmd.AddCommand(subs...)
	return cmd
}

// noCommand refuses arguments of a command that only has others: a mistyped one,
// or a file without the command to look at it.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	arg := ingest.DisplayName(args[0]) // an address may have a password
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %s %s?", arg, cmd.CommandPath(), strings.Join(near, " or "))
	}
	if !cmd.HasParent() {
		return fmt.Errorf("unknown command %q; to look at a file or a URL, try contend analyze %s", arg, arg)
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q of %s; expected %s", arg, cmd.CommandPath(), strings.Join(names, ", "))
}

// noArguments refuses what a command would pass over, most often a value that
// was meant for a flag.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("expected no argument, only flags, saw %q", ingest.DisplayName(args[0]))
}

// flagError says of a flag without its value what that is, and of one that there is
// not which is most like it.
func flagError(cmd *cobra.Command, err error) error {
	if empty, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		value, _ := pflag.UnquoteUsage(empty.GetFlag())
		return fmt.Errorf("expected --%s %s, saw no value", empty.GetFlag().Name, value)
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return fmt.Errorf("%w; the flag most like it is --%s", err, series.Nearest(unknown.GetSpecifiedName(), names)[0])
}
