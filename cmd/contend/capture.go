package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest/capture"
)

func captureCommand() *cobra.Command {
	var o capture.Options
	var httpConfig string
	goroutines := number{value: 10_000, most: math.MaxInt32, want: "a number of goroutines, 0 for no dump"}
	cmd := &cobra.Command{
		Use:   "capture URL",
		Short: "Take profiles and metrics off a live process, into a bundle",
		Long: `Capture watches one live Go process for a while and writes a bundle: a directory
with its goroutine, block and mutex profiles, one goroutine dump, and its
Prometheus metrics as series. URL is the root of its host, or its /debug/pprof.

What the process has to answer, one request at a time for profiles and one for
metrics:
  goroutine profile  at the start, each --every, and at the end: 0.8 ms each
                     with 17,000 goroutines
  block and mutex    at the start and at the end
  goroutine dump     once, after the first goroutine profile that has fewer than
                     --max-goroutines: as a rule at the start. It stops the
                     process while it is written: 347 ms and 21 MB with 17,000.
  metrics            each --scrape-interval, never faster than 250 ms
With the flags' defaults that are 7 goroutine profiles, 4 others, one dump and
13 scrapes in a minute. A turn that is due while the one before is still waited
for is left out. What the process does not serve, or not without credentials, is
named and asked for once, and the rest is taken.

The bundle has bundle.json (what was taken when, and what is missing and why),
profiles/ as they were received, and series.om, OpenMetrics text that also
promtool tsdb create-blocks-from openmetrics reads. A series ends with NaN where
a scrape failed or no longer had it. Metrics of up to 64 MiB are read, and
scraping ends where all samples would take more than 256 MiB of memory or 1 GiB
in series.om. A series of more than 64 KiB or 300 labels is left out.

A process that has died is not waited for: the last profiles and the last scrape
get 5 seconds after --for, or twice what they took before.

A bundle holds the labels of profiles and metrics as they are, which can be
secrets, and the paths of the service's source: look at it before it is passed
on. It is readable by its owner alone.

Ctrl-C ends the capture early and keeps what was taken; once more, it ends at
once and leaves a hidden directory beside the bundle's.

Exit codes: 0 something was taken; 1 nothing was, or it could not be written;
2 wrong usage.`,
		Example: `  contend capture http://localhost:6060
  contend capture http://gateway:6060 --for 5m --every 30s -o bundle/
  contend capture http://gateway:6060 --metrics http://gateway:9090/metrics`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("expected the URL of a process, saw no argument; try contend capture http://localhost:6060")
			case 1:
				return nil
			}
			return fmt.Errorf("expected one URL, saw %d arguments; a capture is of one process, so start one for each", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Target = args[0]
			o.MaxGoroutines = goroutines.value
			return takeCapture(cmd, o, httpConfig)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&o.Out, "output", "o", "", "write the bundle to `DIR`, new or empty (default contend-HOST-TIME)")
	flags.DurationVar(&o.For, "for", time.Minute, "watch for `TIME`, 1s to 1h")
	flags.DurationVar(&o.Every, "every", 10*time.Second, "take a goroutine profile each `TIME`, at least 1s")
	// A minute then has 13 scrapes: three windows of four, the least that a rate
	// which survives a lost scrape needs.
	flags.DurationVar(&o.ScrapeInterval, "scrape-interval", 5*time.Second, "scrape the metrics each `TIME`, at least 250ms")
	flags.Var(&goroutines, "max-goroutines", "take the dump only below `N` goroutines; 0 for never")
	flags.StringVar(&o.Metrics, "metrics", "", "`URL` of the metrics, where another host or port serves them")
	flags.StringVar(&o.MetricsPath, "metrics-path", "/metrics", "`PATH` of the metrics, where the process serves them itself")
	flags.StringVar(&o.Job, "job", "", "`NAME` for the label job of all series (default the host's, or process)")
	flags.StringVar(&httpConfig, "http.config.file", "", "`FILE` with TLS and credentials for URLs, in the format of promtool")
	cmd.MarkFlagsMutuallyExclusive("metrics", "metrics-path")
	return cmd
}

func takeCapture(cmd *cobra.Command, o capture.Options, httpConfig string) error {
	if cmd.Flags().Changed("metrics") && o.Metrics == "" {
		return errors.New("expected a URL for --metrics, saw none; check the variable it comes from")
	}
	if err := o.Check(); err != nil {
		return err
	}
	if cmd.Flags().Changed("output") && o.Out == "" {
		return errors.New("expected a directory for --output, saw none; check the variable it comes from")
	}
	if o.Out == "" {
		o.Out = defaultBundle(o.Target, time.Now())
	}
	var err error
	if o.HTTP, err = httpClient(httpConfig); err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	steps := newProgress(stderr)
	defer steps.done()
	// As in analyze: the first signal ends the waiting, a second one the process.
	ctx, stop := untilSignal()
	defer stop()
	o.Version = version()
	o.Progress = steps.begin
	o.Note = func(m capture.Missing) {
		steps.done()
		complain(stderr, m.What+": "+m.Reason)
	}
	r, err := capture.Run(ctx, o)
	steps.done()
	if err != nil {
		return &outcome{exitFailed, err}
	}
	return writeCaptured(cmd.OutOrStdout(), r)
}

// defaultBundle names a bundle after a host and a moment.
func defaultBundle(target string, now time.Time) string {
	host := ""
	if u, err := url.Parse(target); err == nil {
		host = strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.':
				return r
			case r == '[' || r == ']': // of IPv6
				return -1
			}
			return '-'
		}, u.Host)
	}
	return "contend-" + host + "-" + now.UTC().Format("20060102T150405Z")
}

// writeCaptured says on two lines what was taken, and what to do with it.
func writeCaptured(w io.Writer, r *capture.Report) error {
	counts := map[string]int{}
	for _, t := range r.Taken {
		if strings.HasSuffix(t.File, ".txt.gz") {
			counts["dump"]++
		} else {
			counts[t.Kind]++
		}
	}
	scrapes := plural(r.Scrapes, "scrape")
	if r.Failed > 0 {
		scrapes += fmt.Sprintf(" (and %d failed)", r.Failed)
	}
	early := ""
	if r.Interrupted {
		early = ", then interrupted"
	}
	dir := report.Printable(filepath.Clean(r.Dir) + string(filepath.Separator))
	return written(fmt.Fprintf(w, "%s: %d goroutine, %d block and %d mutex profiles, %s, %s of %d series, %.1f MB in %v%s\nnext: contend analyze %s\n",
		dir, counts["goroutine"], counts["block"], counts["mutex"], plural(counts["dump"], "dump"), scrapes, r.Series,
		float64(r.Bytes)/1e6, r.Elapsed.Round(time.Second), early, dir))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
