package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [DETECTOR]",
		Short: "Say what a detector's finding means, what looks like it, and what to do",
		Long: `Explain prints the documentation of one detector: what its finding means, what
looks like it and is not, what to do, and how it was proven. Without an argument
it lists the detectors.`,
		Example: `  contend explain
  contend explain telemetryblock`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listDetectors(cmd.OutOrStdout(), all.Detectors())
			}
			d, err := findDetector(args[0], all.Detectors())
			if err != nil {
				return err
			}
			return written(fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(d.Doc)))
		},
	}
}

func listDetectors(w io.Writer, detectors []*detect.Detector) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range detectors {
		fmt.Fprintf(t, "%s\t%s\t%s\n", d.Name, d.Role, d.Title)
	}
	return written(0, t.Flush())
}

// findDetector returns the detector of a name, or an error that lists the
// names there are, the closest first.
func findDetector(name string, detectors []*detect.Detector) (*detect.Detector, error) {
	var names []string
	for _, d := range detectors {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	names = series.Nearest(strings.ToLower(name), names)
	return nil, fmt.Errorf("unknown detector %q; expected one of %s", name, strings.Join(names, ", "))
}
