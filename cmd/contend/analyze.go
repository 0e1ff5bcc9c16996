package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

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
	report     reportFlags
	base       string
	telemetry  []string
	detectors  []string
	maxBytes   byteSize
	httpConfig string
	seconds    number
	labels     bool
	locks      lockFlags
	series     seriesFlags
	pyroscope  pyroscopeFlags
}

func analyzeCommand() *cobra.Command {
	f := analyzeFlags{
		report: newReportFlags("findings"),
		locks:  newLockFlags(),
		// More than a few minutes is another tool's work, and longer than most
		// servers and proxies keep a request open.
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
	f.report.addOutput(flags)
	flags.StringVar(&f.base, "base", "", "show what grew against this `FILE|DIR|URL`: a healthy sibling, or yesterday's profile")
	flags.StringSliceVar(&f.detectors, "detector", nil, "run only the detector `NAME` (repeatable; contend explain lists them)")
	flags.StringSliceVar(&f.telemetry, "telemetry", nil, "count packages below import path `PREFIX` as telemetry (repeatable)")
	f.locks.add(flags)
	f.report.add(flags)
	flags.BoolVar(&f.labels, "labels", false, "show the values of profiler labels, which can hold secrets")
	flags.Var(&f.maxBytes, "max-bytes", "limit what one input may unpack to, as 500MB or 2GiB (default 8GiB of text, 512MiB of protobuf)")
	flags.Var(&f.seconds, "seconds", "sample block and mutex profiles of a URL over `N` seconds, 1 to 300")
	f.pyroscope.add(cmd)
	f.series.add(cmd)
	flags.StringVar(&f.httpConfig, "http.config.file", "", "`FILE` with TLS and credentials for URLs, in the format of promtool")
	completeFlag(cmd, "output", reportFormats...)
	return cmd
}

// check refuses flags whose values make no sense.
func (f *analyzeFlags) check(args []string) error {
	if f.base == "-" && slices.Contains(args, "-") {
		return errors.New("- is given both as an input and as --base; standard input can be read once")
	}
	for _, name := range f.detectors {
		if _, err := findDetector(name, all.Detectors()); err != nil {
			return err
		}
	}
	return nil
}

func analyze(cmd *cobra.Command, args []string, f *analyzeFlags) error {
	if cmd.Flags().Changed("detector") && len(f.detectors) == 0 {
		f.detectors = []string{""} // as the library reads --detector ''
	}
	if err := cmp.Or(f.report.check(), f.check(args), checkTelemetry(cmd, f.telemetry), f.locks.check(), f.series.check(cmd), f.pyroscope.check(cmd)); err != nil {
		return err
	}
	client, err := httpClient(f.httpConfig)
	if err != nil {
		return err
	}
	steps := newProgress(cmd.ErrOrStderr())
	defer steps.done()
	// The first Ctrl-C or SIGTERM (timeout, a job's end) while inputs are loaded ends waiting for them, so that
	// what was read is still reported. With the handler gone, a second one, or
	// any during the analysis, ends the process.
	ctx, stop := untilSignal()
	defer stop()
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
	opt := detect.Options{Telemetry: f.telemetry, Detectors: f.detectors, Labels: f.labels, Drawn: f.report.output == "html"}
	f.locks.set(&opt)
	r := detect.Run(bundle, base, all.Detectors(), opt)
	steps.done()
	failed := complainOf(cmd.ErrOrStderr(), bundle.Failures, "")
	if base != nil {
		failed = complainOf(cmd.ErrOrStderr(), base.Failures, "base ") || failed
	}
	return f.report.conclude(cmd.OutOrStdout(), r, report.Text, failed)
}

// checkTelemetry refuses the empty prefix of a variable that is not set, which
// would be all packages; given alone, the library reads it as no prefix.
func checkTelemetry(cmd *cobra.Command, prefixes []string) error {
	if slices.Contains(prefixes, "") || cmd.Flags().Changed("telemetry") && len(prefixes) == 0 {
		return errors.New("expected an import path for --telemetry, such as example.com/app/metrics, saw none")
	}
	return nil
}

// httpClient is the client of a configuration file, nil where there is none.
func httpClient(configFile string) (*http.Client, error) {
	if configFile == "" {
		return nil, nil
	}
	client, err := ingest.HTTPClient(configFile)
	if err != nil {
		return nil, fmt.Errorf("--http.config.file: %w", err)
	}
	return client, nil
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
