package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/pyroscope"
	"github.com/contend/contend/ingest/stacks"
)

// analyzeFlags are the flags of contend analyze as given.
type analyzeFlags struct {
	output     string
	base       string
	telemetry  []string
	detectors  []string
	failOn     string
	top        number
	width      number
	maxBytes   byteSize
	httpConfig string
	seconds    number
	labels     bool
	expect     multiple
	series     seriesFlags
	pyroscope  pyroscopeFlags
}

func analyzeCommand() *cobra.Command {
	f := analyzeFlags{
		top:   number{value: 3, most: math.MaxInt32, want: "a number of findings, 0 for all"},
		width: number{most: math.MaxInt32, want: "a number of columns"},
		// More than a few minutes is another tool's work, and longer than most
		// servers and proxies keep a request open.
		expect:  multiple{detect.UsualSurge},
		seconds: number{value: 5, least: 1, most: 300, want: "a number of seconds, 1 to 300"},
	}
	cmd := &cobra.Command{
		Use:   "analyze FILE|DIR|URL|-...",
		Short: "Name what requests wait for, from profiles, dumps or series",
		Long: `Analyze reads goroutine profiles and dumps, block and mutex profiles, and
Prometheus series, and says what the requests in flight wait for, since when,
where, and who holds them up; what it ruled out, with numbers; what it could not
see; and what to do next.

An argument is
  FILE  a pprof profile, a text dump (debug=1, debug=2, or what a panic, a fatal
        error or SIGQUIT prints), also with log prefixes around it; series as
        promtool tsdb dump, OpenMetrics text (promtool tsdb dump-openmetrics),
        JSON of the Prometheus API or a /metrics page; gzip or not
  DIR   all of those in a directory, up to 1,000 files, three folders deep
  URL   one profile, or a host or its /debug/pprof: then its goroutine profile,
        and its block and mutex profiles over --seconds
  -     standard input

Two block or mutex profiles of one process are subtracted. Files of different
processes are shown side by side. A /metrics page has levels; rates need two of
one process, whose files' times say how far apart they are.

With --prometheus series come from a server: contend finds the metrics of the
usual libraries by itself, says which it found and how to switch on what is
missing, and compares each instance with its own past.

With --pyroscope profiles come from a Pyroscope server, merged over --since for
each process that matches --selector: goroutines as the mean of its snapshots,
waits as the mean over that time. With both servers, --selector may be given
twice: matchers in braces are of profiles then, those without of series. A
tenant is X-Scope-OrgID under http_headers in --http.config.file.

Limits on what one input may unpack to: 8 GiB of text, which is streamed, and
512 MiB of protobuf, which is held in memory. --max-bytes changes both. A
protobuf that would take more than 1 GiB of memory is refused. Text takes memory
by its distinct stacks: of those above 512 MiB, goroutines are counted as lost.

Ctrl-C while inputs are read gives up those that have to be waited for, and
reports what was read; once more, or during the analysis, it ends the process.

Exit codes: 0 the analysis ran, whatever it found; 1 a named input could not be
read (the report of the others is still printed); 2 wrong usage; 3 something at
or above --fail-on was found (1 outranks 3).`,
		Example: `  contend analyze goroutine.pb.gz
  contend analyze http://localhost:6060
  curl -s 'localhost:6060/debug/pprof/goroutine?debug=2' | contend analyze -
  contend analyze --base healthy.pb.gz sick.pb.gz
  contend analyze --prometheus http://localhost:9090 --since 2h
  contend analyze -o html bundle/ > report.html
  contend analyze --pyroscope http://localhost:4040 --since 10m
  contend analyze -o json --fail-on critical bundle/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && f.series.prometheus == "" && f.pyroscope.server == "" {
				return errors.New("expected a file, a directory, a URL or - (standard input), saw no argument; try contend analyze http://localhost:6060")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return analyze(cmd, args, &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output, "output", "o", "text", "`FORMAT` of the report: text, json or html")
	flags.StringVar(&f.base, "base", "", "show what grew against this `FILE|DIR|URL`: a healthy sibling, or yesterday's profile")
	flags.StringSliceVar(&f.detectors, "detector", nil, "run only the detector `NAME` (repeatable; contend explain lists them)")
	flags.StringSliceVar(&f.telemetry, "telemetry", nil, "count packages below import path `PREFIX` as telemetry (repeatable)")
	flags.Var(&f.expect, "expect", "warn of a lock that saturates at less than `N` times today's load")
	flags.StringVar(&f.failOn, "fail-on", "", "exit with 3 where a finding is at or above `SEVERITY`: critical, warning or info")
	flags.Var(&f.top, "top", "show `N` findings, and N lines of evidence of each; 0 for all")
	flags.Var(&f.width, "width", "wrap text at `N` columns, 40 to 140 (default the terminal's, else $COLUMNS, else 100)")
	flags.BoolVar(&f.labels, "labels", false, "show the values of profiler labels, which can hold secrets")
	flags.Var(&f.maxBytes, "max-bytes", "limit what one input may unpack to, as 500MB or 2GiB (default 8GiB of text, 512MiB of protobuf)")
	flags.Var(&f.seconds, "seconds", "sample block and mutex profiles of a URL over `N` seconds, 1 to 300")
	f.pyroscope.add(cmd)
	f.series.add(cmd)
	flags.StringVar(&f.httpConfig, "http.config.file", "", "`FILE` with TLS and credentials for URLs, in the format of promtool")
	completeFlag(cmd, "output", "text", "json", "html")
	return cmd
}

var errNoTelemetry = errors.New("expected an import path for --telemetry, such as example.com/app/metrics, saw none")

// check refuses flags whose values make no sense.
func (f *analyzeFlags) check(args []string) error {
	if f.output != "html" && checkOutput(f.output) != nil {
		return fmt.Errorf("unknown output %q; expected text, json or html", f.output)
	}
	if f.failOn != "" && !slices.Contains(detect.Severities, detect.Severity(f.failOn)) {
		return fmt.Errorf("unknown severity %q for --fail-on; expected critical, warning or info", f.failOn)
	}
	if f.base == "-" && slices.Contains(args, "-") {
		return errors.New("- is given both as an input and as --base; standard input can be read once")
	}
	if slices.Contains(f.telemetry, "") {
		return errNoTelemetry
	}
	for _, name := range f.detectors {
		if _, err := findDetector(name, all.Detectors()); err != nil {
			return err
		}
	}
	return nil
}

func analyze(cmd *cobra.Command, args []string, f *analyzeFlags) error {
	if cmd.Flags().Changed("telemetry") && len(f.telemetry) == 0 {
		f.telemetry = []string{""} // as the library reads --telemetry ''
	}
	if cmd.Flags().Changed("detector") && len(f.detectors) == 0 {
		f.detectors = []string{""}
	}
	if err := cmp.Or(f.check(args), f.series.check(cmd), f.pyroscope.check(cmd)); err != nil {
		return err
	}
	var client *http.Client
	if f.httpConfig != "" {
		var err error
		if client, err = ingest.HTTPClient(f.httpConfig); err != nil {
			return fmt.Errorf("--http.config.file: %w", err)
		}
	}

	steps := newProgress(cmd.ErrOrStderr())
	defer steps.done()
	// The first Ctrl-C or SIGTERM (timeout, a job's end) while inputs are loaded ends waiting for them, so that
	// what was read is still reported. With the handler gone, a second one, or
	// any during the analysis, ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	load := func(args []string) *ingest.Bundle {
		return ingest.Load(ctx, args, ingest.Options{
			MaxBytes: int64(f.maxBytes),
			Stdin:    cmd.InOrStdin(),
			HTTP:     client,
			Seconds:  f.seconds.value,
			Progress: steps.begin,
		})
	}
	bundle := load(args)
	warnOfServers(bundle)
	if err := f.pyroscope.read(ctx, bundle, &f.series, pyroscope.Options{HTTP: client, MaxBytes: int64(f.maxBytes), Progress: steps.begin}); err != nil {
		return err
	}
	if err := f.series.read(ctx, bundle, client, steps.begin); err != nil {
		return err
	}
	var base *ingest.Bundle
	if f.base != "" {
		base = load([]string{f.base})
	}
	stop()

	steps.begin("analysing")
	r := detect.Run(bundle, base, all.Detectors(), detect.Options{
		Telemetry: f.telemetry,
		Detectors: f.detectors,
		Labels:    f.labels,
		Expect:    f.expect.value,
	})
	steps.done()
	failed := complainOf(cmd.ErrOrStderr(), bundle.Failures, "")
	if base != nil {
		failed = complainOf(cmd.ErrOrStderr(), base.Failures, "base ") || failed
	}
	if err := writeReport(cmd.OutOrStdout(), r, f); err != nil {
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

// warnOfServers notes a Prometheus server whose own goroutines were looked at:
// its address given without --prometheus is the likeliest slip.
func warnOfServers(b *ingest.Bundle) {
	for _, s := range b.Snapshots {
		for _, g := range s.Groups {
			if slices.ContainsFunc(g.Frames, func(f *stacks.Frame) bool { return strings.HasPrefix(f.Func, "github.com/prometheus/prometheus/web.") }) {
				b.Warnings = append(b.Warnings, s.Name+" shows the goroutines of a Prometheus server itself; for the series in it, give its address as --prometheus")
				return
			}
		}
	}
}

// complainOf prints failures, each on a line that begins with the input's use
// and name, and reports whether there are any.
func complainOf(stderr io.Writer, failures []ingest.Failure, use string) bool {
	for _, failure := range failures {
		complain(stderr, use+failure.Name+": "+failure.Err.Error())
	}
	return len(failures) > 0
}

func writeReport(stdout io.Writer, r *detect.Report, f *analyzeFlags) error {
	var b bytes.Buffer
	var err error
	switch f.output {
	case "json":
		err = report.JSON(&b, r)
	case "html":
		err = report.HTML(&b, r, report.HTMLOptions{})
	default:
		err = report.Text(&b, r, report.TextOptions{
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
