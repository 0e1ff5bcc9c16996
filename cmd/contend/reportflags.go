package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/report"
)

// reportFormats are what a report can be written as.
var reportFormats = []string{"text", "json", "html"}

// reportFlags are how a report is shown, and what a script makes of it.
type reportFlags struct {
	output string
	failOn string
	top    number
	width  number
	of     string // what --top counts
}

func newReportFlags(of string) reportFlags {
	return reportFlags{
		top:   number{value: 3, most: math.MaxInt32, want: "a number of " + of + ", 0 for all"},
		width: number{most: math.MaxInt32, want: "a number of columns"},
		of:    of,
	}
}

func (f *reportFlags) addOutput(flags *pflag.FlagSet) {
	flags.StringVarP(&f.output, "output", "o", "text", "`FORMAT` of the report: text, json or html")
}

func (f *reportFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.failOn, "fail-on", "", "exit with 3 where a finding is at or above `SEVERITY`: critical, warning or info")
	flags.Var(&f.top, "top", "show `N` "+f.of+", and N lines of evidence of each; 0 for all")
	flags.Var(&f.width, "width", "wrap text at `N` columns, 40 to 140 (default the terminal's, else $COLUMNS, else 100)")
}

func (f *reportFlags) check() error {
	if !slices.Contains(reportFormats, f.output) {
		return fmt.Errorf("unknown output %q; expected text, json or html", f.output)
	}
	if f.failOn != "" && !slices.Contains(detect.Severities, detect.Severity(f.failOn)) {
		return fmt.Errorf("unknown severity %q for --fail-on; expected critical, warning or info", f.failOn)
	}
	return nil
}

// renderer writes a report for people.
type renderer func(io.Writer, *detect.Report, report.TextOptions) error

func (f *reportFlags) write(stdout io.Writer, r *detect.Report, text renderer) error {
	var b bytes.Buffer
	var err error
	switch f.output {
	case "json":
		err = report.JSON(&b, r)
	case "html":
		err = report.HTML(&b, r, report.HTMLOptions{})
	default:
		err = text(&b, r, report.TextOptions{
			Width: cmp.Or(f.width.value, terminalWidth(stdout)),
			Color: useColor(stdout),
			Top:   f.top.value,
		})
	}
	if err != nil {
		return &outcome{exitFailed, err}
	}
	return written(stdout.Write(b.Bytes()))
}

// conclude writes a report and is the outcome of the command. failed is whether a
// named input could not be read.
func (f *reportFlags) conclude(stdout io.Writer, r *detect.Report, text renderer, failed bool) error {
	if err := f.write(stdout, r, text); err != nil {
		return err
	}
	switch {
	case failed:
		return &outcome{exitFailed, nil}
	case reaches(r, detect.Severity(f.failOn)):
		return &outcome{exitFound, nil}
	}
	return nil
}

// written turns the result of a write to standard output into an outcome. A
// reader that went away, such as head, is no error.
func written(_ int, err error) error {
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return &outcome{exitFailed, fmt.Errorf("cannot write to standard output: %w", err)}
}

// reaches reports whether a finding is at or above a severity; never where it is "".
func reaches(r *detect.Report, limit detect.Severity) bool {
	worst := slices.Index(detect.Severities, limit)
	return slices.ContainsFunc(r.Findings, func(f detect.Finding) bool {
		i := slices.Index(detect.Severities, f.Severity)
		return i >= 0 && i <= worst
	})
}
