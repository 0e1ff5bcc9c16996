package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of contend",
		Example: "  contend version",
		Hidden:  true, // --version does the same
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return written(fmt.Fprintln(cmd.OutOrStdout(), version()))
		},
	}
}

// version says which contend this is, of which commit, and what it was built with.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return fmt.Sprintf("%s, %s, %s %s/%s", moduleVersion(info), commitOf(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// moduleVersion is what the go command stamped into the binary, which it leaves
// empty or calls (devel) where it cannot know one.
func moduleVersion(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return "contend " + v
	}
	return "contend built from a checkout"
}

// commitOf is the commit that the binary was built of. go run, go test, -buildvcs=false
// and the source of a release stamp none.
func commitOf(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return "commit unknown"
	}
	const short = 12 // as the go command writes it in versions
	out := "commit " + commit[:min(short, len(commit))]
	if settings["vcs.modified"] == "true" {
		out += " with changes"
	}
	return out
}
