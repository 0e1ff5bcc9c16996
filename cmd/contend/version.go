package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of contend",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return written(fmt.Fprintln(cmd.OutOrStdout(), version()))
		},
	}
}

// version is the version the go command stamped into the binary, and what it
// was built with.
func version() string {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
	}
	return versionLine(module)
}

// versionLine says the module's version, which the go command leaves empty or
// calls (devel) where it cannot know one.
func versionLine(module string) string {
	if module == "" || module == "(devel)" {
		module = "built from a checkout"
	}
	return fmt.Sprintf("contend %s, %s %s/%s", module, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
