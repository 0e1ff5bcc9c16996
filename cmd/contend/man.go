package main

import (
	"embed"
	"errors"

	"github.com/spf13/cobra"
)

// manPages are written by a test, from the commands: what makes them stays out of the binary.
//
//go:embed man/*.1
var manPages embed.FS

func manCommand() *cobra.Command {
	out, force := "", false
	cmd := &cobra.Command{
		Use:   "man -o DIR",
		Short: "Write contend's manual pages",
		Long: `Man writes a manual page for each command, for man to read. Where ~/.local/bin
is in the PATH, man looks for pages in ~/.local/share/man by itself. Pages that
exist are kept unless --force is given.

Exit codes: 0 written; 1 a page exists or could not be written; 2 wrong usage.`,
		Example: `  contend man -o ~/.local/share/man/man1 && man contend
  contend man -o man1 && man man1/contend-analyze.1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return errors.New("expected a directory for the pages, saw none; try -o ~/.local/share/man/man1")
			}
			return writeManPages(cmd, out, force)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&out, "output", "o", "", "write to `DIR`, which is made where it is not there")
	flags.BoolVar(&force, "force", false, "replace files that exist")
	return cmd
}

func writeManPages(cmd *cobra.Command, dir string, force bool) error {
	pages, err := manPages.ReadDir("man")
	if err != nil {
		return &outcome{exitFailed, err}
	}
	var files []outFile
	for _, page := range pages {
		text, err := manPages.ReadFile("man/" + page.Name())
		if err != nil {
			return &outcome{exitFailed, err}
		}
		files = append(files, outFile{page.Name(), text})
	}
	return writeDir(cmd, dir, files, force)
}
