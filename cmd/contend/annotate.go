package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/secret"
	"github.com/contend/contend/ingest/stacks"
)

// The labels that annotate writes. Scripts and dashboards filter by them.
const (
	labelCause = "contend_cause"
	labelWait  = "contend_wait"
	labelSite  = "contend_site"
)

// noCause is the cause of samples that no detector counts: viewers cannot filter
// for a label that is not there.
const noCause = "none"

type annotateFlags struct {
	output    string
	force     bool
	telemetry []string
	maxBytes  byteSize
}

func annotateCommand() *cobra.Command {
	var f annotateFlags
	cmd := &cobra.Command{
		Use:   "annotate PROFILE -o FILE",
		Short: "Label a profile's samples with their cause, for pprof and others",
		Long: `Annotate writes a goroutine, block or mutex profile again with labels on its
samples, so that go tool pprof -tagfocus, Pyroscope and other viewers filter by
what contend concludes:
  contend_cause  the detector whose finding counts the sample, such as
                 telemetryblock, applock, poolwait or downstream; none where no
                 finding does
  contend_wait   what the stack waits for: lock, rlock, fdlock, chan, pool,
                 socket, select, cond, sleep, syscall, cpu, or idle
  contend_site   the function that waits, as in contend analyze
A stack that tells no wait or no site is without that label. Findings are those
of contend analyze PROFILE. What needs more than one profile is not among them:
a leak that only growth shows, a deadlock that only the addresses in a dump
prove.

All else stays as it is, values and labels too; labels of these three names are
replaced, so that annotating again changes nothing. PROFILE is a file or -
(standard input), in protobuf: text has no labels. Limits are those of analyze.

Exit codes: 0 written; 1 PROFILE could not be read, FILE exists or could not be
written; 2 wrong usage.`,
		Example: `  contend annotate goroutine.pb.gz -o labelled.pb.gz
  go tool pprof -top -tagfocus contend_cause=telemetryblock labelled.pb.gz
  go tool pprof -tags labelled.pb.gz
  curl -s localhost:6060/debug/pprof/goroutine | contend annotate - -o a.pb.gz`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("expected one profile or - (standard input), saw %d arguments; try contend annotate goroutine.pb.gz -o labelled.pb.gz", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return annotateFile(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output, "output", "o", "", "write the profile to `FILE`, - for standard output")
	flags.BoolVar(&f.force, "force", false, "replace a file that exists")
	flags.StringSliceVar(&f.telemetry, "telemetry", nil, "count packages below import path `PREFIX` as telemetry (repeatable)")
	flags.Var(&f.maxBytes, "max-bytes", "limit what the profile may unpack to, as 500MB or 2GiB (default 512MiB)")
	return cmd
}

func annotateFile(cmd *cobra.Command, path string, f *annotateFlags) error {
	if f.output == "" {
		return errors.New("expected a file for the profile, saw none; try -o labelled.pb.gz")
	}
	if err := checkTelemetry(cmd, f.telemetry); err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if _, ok := terminal(stdout); ok && f.output == "-" {
		return errors.New("expected a file or a pipe for the profile, saw a terminal; try -o labelled.pb.gz")
	}
	name := ingest.DisplayName(path)
	p, err := readProfile(cmd.InOrStdin(), path, int64(f.maxBytes))
	if err != nil {
		return &outcome{exitFailed, fmt.Errorf("%s: %w", name, err)}
	}
	if err := annotate(p, f.telemetry); err != nil {
		return &outcome{exitFailed, fmt.Errorf("%s: %w", name, err)}
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return &outcome{exitFailed, fmt.Errorf("write %s: %w", f.output, err)}
	}
	if f.output == "-" {
		return written(stdout.Write(b.Bytes()))
	}
	if err := writeFiles(cmd, []outFile{{f.output, b.Bytes()}}, f.force); err != nil {
		return err
	}
	return writeCauses(stdout, p.Profile, f.output)
}

func readProfile(stdin io.Reader, path string, maxBytes int64) (*ingest.Profile, error) {
	if path == "-" {
		return ingest.ReadProfile("stdin", stdin, maxBytes)
	}
	if strings.Contains(path, "://") {
		return nil, errors.New("expected a file or - (standard input), saw a URL; try curl -s URL | contend annotate - -o labelled.pb.gz")
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("expected a profile to read: %w", secret.WithoutPath(err))
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("expected a profile, saw a directory; name one of the files in it")
	}
	return ingest.ReadProfile(ingest.DisplayName(path), in, maxBytes)
}

// sampleLabels are those of one stack.
type sampleLabels struct{ cause, wait, site string }

// annotate labels the samples of p.
func annotate(p *ingest.Profile, telemetry []string) error {
	byStack := labelsByStack(p.Bundle, detect.Options{Telemetry: telemetry})
	// Most samples have no labels of their own: those with equal ones share a map,
	// which keeps the memory of a large profile within what reading it took.
	shared := map[sampleLabels]map[string][]string{}
	for _, s := range p.Sample {
		frames, err := p.Frames(s)
		if err != nil {
			return err
		}
		l := sampleLabels{cause: noCause}
		if known := byStack[stackID(frames)]; known != nil {
			l = *known
		}
		set := shared[l]
		if set == nil {
			set = l.labels()
			shared[l] = set
		}
		own := maps.Clone(s.Label)
		maps.DeleteFunc(own, func(key string, _ []string) bool { return key == labelCause || key == labelWait || key == labelSite })
		if len(own) == 0 {
			s.Label = set
			continue
		}
		maps.Copy(own, set)
		s.Label = own
	}
	return nil
}

func (l sampleLabels) labels() map[string][]string {
	out := map[string][]string{labelCause: {l.cause}}
	if l.wait != "" {
		out[labelWait] = []string{l.wait}
	}
	if l.site != "" {
		out[labelSite] = []string{l.site}
	}
	return out
}

// stackID identifies a stack of a bundle that was read from one profile: equal
// stacks have one slice of frames.
func stackID(frames []*stacks.Frame) **stacks.Frame {
	if len(frames) == 0 {
		return nil
	}
	return &frames[0]
}

// labelsByStack analyses a bundle and says of each stack what it waits for and
// whose finding counts it: the verdict's, where several do.
func labelsByStack(b *ingest.Bundle, opt detect.Options) map[**stacks.Frame]*sampleLabels {
	out := map[**stacks.Frame]*sampleLabels{}
	add := func(v *detect.View) {
		for _, c := range v.Crowds {
			l := &sampleLabels{cause: noCause, wait: string(c.Wait.Kind)}
			if c.Wait.Kind == stacks.Running || c.Wait.Kind == stacks.Runnable {
				l.wait = "cpu" // as in a report
			}
			if site := c.Site(); site != nil {
				l.site = site.Func
			}
			out[stackID(c.Frames)] = l
		}
	}
	for _, s := range b.Snapshots {
		add(detect.SnapshotView(s, opt))
	}
	for _, w := range b.Waits {
		add(detect.WaitsView(w, opt))
	}
	// Findings come with the verdict's first.
	for _, f := range detect.Run(b, nil, all.Detectors(), opt).Findings {
		if f.Role != detect.Cause || f.Severity == detect.Info {
			continue // info alone is never a verdict
		}
		for _, c := range f.Crowds {
			if l := out[stackID(c.Frames)]; l != nil && l.cause == noCause {
				l.cause = f.Detector
			}
		}
	}
	return out
}

// writeCauses says how much of a profile each cause has, and how to see it.
func writeCauses(w io.Writer, p *profile.Profile, path string) error {
	value, unit, what := 0, time.Duration(0), "samples"
	if stacks.ProfileKind(p) == "goroutine" {
		what = "goroutines"
	}
	if _, delay, per := stacks.ContentionValues(p); delay >= 0 {
		value, unit = delay, per
	}
	sums := map[string]float64{}
	for _, s := range p.Sample {
		if value < len(s.Value) {
			sums[s.Label[labelCause][0]] += float64(s.Value[value])
		}
	}
	causes := slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	next := ""
	for _, cause := range causes {
		amount := detect.Thousands(sums[cause]) + " " + what
		if unit > 0 {
			amount = detect.Seconds(sums[cause]*unit.Seconds()) + " of waiting"
		}
		fmt.Fprintf(t, "  %s\t%s\n", cause, amount)
		if next == "" && cause != noCause {
			next = cause
		}
	}
	if err := t.Flush(); err != nil || next == "" {
		return written(0, err)
	}
	return written(fmt.Fprintf(w, "next: go tool pprof -top -tagfocus %s=%s %s\n", labelCause, next, report.Printable(shellWord(path))))
}
