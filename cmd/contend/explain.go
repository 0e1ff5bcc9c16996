package main

import (
	"cmp"
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
		Use:   "explain [DETECTOR|signals]",
		Short: "Say what a finding means, what looks like it, and what to do",
		Long: `Explain prints the documentation of one detector: what its finding means, what
looks like it and is not, what to do, and how it was proven. Without an argument
it lists the detectors. contend explain signals lists the quantities that series
are read for, with their units: the names that --signal and contend.yaml take.`,
		Example: `  contend explain
  contend explain telemetryblock
  contend explain signals`,
		ValidArgsFunction: completePages,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("expected one detector, signals or nothing, saw %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listDetectors(cmd.OutOrStdout(), all.Detectors())
			}
			if strings.EqualFold(args[0], "signals") {
				return listSignals(cmd.OutOrStdout(), series.Signals())
			}
			d, err := findDetector(args[0], all.Detectors())
			if err != nil {
				return err
			}
			stdout := cmd.OutOrStdout()
			width := min(cmp.Or(terminalWidth(stdout), usualWidth), usualWidth)
			return written(io.WriteString(stdout, markdownText(d.Doc, width, useColor(stdout))))
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

func listSignals(w io.Writer, signals []series.Signal) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range signals {
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Name, s.Unit, s.Meaning)
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
