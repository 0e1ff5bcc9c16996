package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/cmd/contend/watch"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/promapi"
)

const (
	// The present, and what an alert has to wait and is kept for: with 60 s between
	// scrapes both are 8 minutes.
	watchSince = 20 * time.Minute
	// Faster than services are scraped there is nothing new in series; slower than
	// that, a person is.
	minInterval, maxInterval = time.Second, 10 * time.Minute
	// What waits for a lock answers slowly, and its evidence is what people come for: the
	// next look waits for it, and so does the end of contend. Docker kills after 10 s.
	evidenceTime = 8 * time.Second
)

// lookFlags are the flags of the commands that look again and again.
type lookFlags struct {
	series     seriesFlags
	interval   time.Duration
	telemetry  []string
	listen     string
	httpConfig string
	client     *http.Client // of httpConfig; nil where there is none
}

func (f *lookFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.series.addServer(cmd)
	flags.DurationVar(&f.interval, "interval", 15*time.Second, "look each `TIME`, 1s to 10m")
	flags.StringSliceVar(&f.telemetry, "telemetry", nil, "count packages below import path `PREFIX` as telemetry (repeatable)")
	flags.StringVar(&f.httpConfig, "http.config.file", "", "`FILE` with TLS and credentials for URLs, in the format of promtool")
}

// looker is what the flags say to look at.
func (f *lookFlags) looker(cmd *cobra.Command, args []string) (*watch.Looker, error) {
	if f.interval < minInterval || f.interval > maxInterval {
		return nil, fmt.Errorf("expected %v to %v between looks, saw %v", minInterval, maxInterval, f.interval)
	}
	err := cmp.Or(checkTelemetry(cmd, f.telemetry), f.series.check(cmd))
	if err != nil {
		return nil, err
	}
	if f.client, err = httpClient(f.httpConfig); err != nil {
		return nil, err
	}
	// Two queries that are not answered in time end a look: see series.Collect. They
	// run beside each other, so that there is time for the rest.
	opt, err := f.series.options(f.client, promapi.Options{Timeout: f.interval / 2})
	if err != nil {
		return nil, err
	}
	if opt.Server != nil {
		opt.Server, opt.Since = series.NewRecent(opt.Server), watchSince/time.Duration(max(1, f.series.factor.value))
	}
	return watch.NewLooker(watch.Options{
		Series: opt, Processes: args, HTTP: f.client, Timeout: f.interval * 4 / 5,
		Detectors: all.Detectors(), Detect: detect.Options{Telemetry: f.telemetry},
	})
}

// openListener listens where that is asked for, before anything is looked at. Of an
// address that others reach it warns of what they can do there.
func openListener(stderr io.Writer, address, others string) (l net.Listener, public bool, err error) {
	if address == "" {
		return nil, false, nil
	}
	if l, public, err = watch.Listen(address); err != nil {
		return nil, false, &outcome{exitFailed, err}
	}
	if public {
		complain(stderr, fmt.Sprintf("%s can be reached by others, who are not asked for a password and %s; --listen 127.0.0.1:PORT is this machine's alone", l.Addr(), others))
	}
	return l, public, nil
}

// keepFlags are how evidence is kept.
type keepFlags struct {
	bundle        string
	noDump        bool
	maxGoroutines number
	bundles       number
	bytes         byteSize
	age           span
}

func watchCommand() *cobra.Command {
	var f lookFlags
	k := keepFlags{
		// As of a capture.
		maxGoroutines: number{value: 10_000, least: 1, most: math.MaxInt32, want: "a number of goroutines above 0; --no-dump for no dump"},
		bundles:       number{value: 20, least: 1, most: 10_000, want: "a number of bundles, 1 to 10000"},
		bytes:         500e6,
		age:           span{7 * 24 * time.Hour},
	}
	cmd := &cobra.Command{
		Use:   "watch [URL]...",
		Short: "Look again and again, say what changes, and keep the evidence",
		Long: `Watch looks each --interval at series on a Prometheus server (--prometheus), at
live processes (URL: the root of a host, or its /debug/pprof), or at both, and
prints a line for each change: a finding begins, is more or less severe, or
ends; the verdict is another; an input cannot be seen, and can be again.

What it costs: of a server, the steps that are new since the look before; of a
process, one goroutine profile (0.8 ms with 17,000 goroutines) and its /metrics,
for when it began. Each look has four fifths of the interval; one that takes
longer is given up, and the next one begins where it stopped.

A finding of series lasts as long as its alert fires: keep_firing_for after its
condition last held. One of stacks lasts until it has not been there for 2
minutes, or 8 looks if that is longer. Severity rises at once and falls after
as long. While an input that showed it cannot be seen, nothing ends.

When a cause appears, profiles of all processes are taken at once, and at the
next look again: goroutine first, then one dump with debug=2, of the process
with the most goroutines below --max-goroutines, then block and mutex. A dump
stops its process while it is written (347 ms with 17,000 goroutines), so that
one cause has it once in 10 minutes; how long it took is said. They are in
--bundle, a bundle for each time, to be given to contend analyze. The oldest
are removed above --keep, --keep-bytes or --keep-age; the last one never is. A
bundle holds profiler labels as they are, which can be secrets; its owner alone
can read it.

With --listen, findings and watch's own health are Prometheus metrics there:
contend_finding{detector,role,job,severity}, contend_verdict{cause,job},
contend_watch_blind_since_timestamp_seconds{input} and more.

SIGTERM and Ctrl-C end it, with what was taken in place.

Exit codes: 0 it was told to end; 1 it could not listen; 2 wrong usage. An input
that cannot be seen is said, and does not end it.`,
		Example: `  contend watch http://localhost:6060
  contend watch --prometheus http://localhost:9090 http://gateway:6060
  contend watch --prometheus http://localhost:9090 --listen 127.0.0.1:7127`,
		RunE: func(cmd *cobra.Command, args []string) error { return runWatch(cmd, args, &f, &k) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "serve /metrics at `HOST:PORT` (default not)")
	flags.StringVar(&k.bundle, "bundle", "contend-watch", "keep profiles in `DIR`, made when a cause appears; '' for none")
	flags.BoolVar(&k.noDump, "no-dump", false, "never take a dump with debug=2, which stops a process while it is written")
	flags.Var(&k.maxGoroutines, "max-goroutines", "take a dump only of a process below `N` goroutines")
	flags.Var(&k.bundles, "keep", "keep the last `N` bundles")
	flags.Var(&k.bytes, "keep-bytes", "keep bundles of at most `SIZE`, as 500MB or 2GiB")
	flags.Var(&k.age, "keep-age", "keep bundles for `DURATION`, as 7d")
	return cmd
}

func runWatch(cmd *cobra.Command, args []string, f *lookFlags, k *keepFlags) error {
	looker, err := f.looker(cmd, args)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	listener, public, err := openListener(stderr, f.listen, "see which findings there are, of which jobs")
	if err != nil {
		return err
	}
	var keeper *watch.Keeper
	if k.bundle != "" {
		keeper = watch.NewKeeper(watch.EvidenceOptions{
			Dir: k.bundle, MaxBundles: k.bundles.value, MaxBytes: int64(k.bytes), MaxAge: k.age.d,
			NoDump: k.noDump, MaxGoroutines: int64(k.maxGoroutines.value), HTTP: f.client, Version: version(), Timeout: evidenceTime,
		})
	}
	stdout := newOutlet(cmd.OutOrStdout(), stderr)
	tracker := &watch.Tracker{Interval: f.interval}
	metrics := &watch.Metrics{}
	first := true
	steps := newProgress(stderr)
	steps.begin("looking for the first time")
	err = lookEach(f.interval, listener, watch.MetricsHandler(metrics.Registry(), public), watch.PageLimits, func(ctx context.Context, now time.Time, missed int) error {
		look := looker.Look(ctx, now)
		steps.done()
		if ctx.Err() != nil {
			return nil // what could not be seen is our own doing
		}
		if first {
			first = false
			if err := writeLines(stdout, began(look, f.interval, listener)); err != nil {
				return err
			}
		}
		changes := tracker.Changes(look)
		metrics.Set(look, tracker, missed)
		err := writeLines(stdout, changes...)
		if keeper != nil { // evidence is kept whether or not anybody reads on
			err = errors.Join(err, writeLines(stdout, keeper.Keep(ctx, look, changes, looker.Targets())...))
		}
		return err
	}, func() error {
		if keeper == nil {
			return nil
		}
		return writeLines(stdout, keeper.Finish(time.Now())...)
	})
	return cmp.Or(err, written(0, stdout.close()))
}

func writeLines[T any](w io.Writer, lines ...T) error {
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&text, line)
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("cannot write to standard output: %w", err)
	}
	return nil
}

// began is the first line: what is looked at, and what cannot be.
func began(look *watch.Look, interval time.Duration, l net.Listener) string {
	var inputs, blind []string
	seen := true
	for _, in := range look.Inputs {
		inputs, seen = append(inputs, in.Name), seen && in.Why == ""
	}
	for _, s := range look.Report.Skipped {
		blind = append(blind, s.Detector)
	}
	line := fmt.Sprintf("%s watching %s, each %v", look.At.UTC().Format(time.RFC3339), strings.Join(inputs, ", "), interval)
	if l != nil {
		line += fmt.Sprintf("; metrics at http://%s/metrics", l.Addr())
	}
	if len(blind) > 0 && seen { // else it is not known yet
		line += "; for want of input it cannot look for " + strings.Join(blind, ", ")
	}
	return report.Printable(line)
}

// lookEach looks each interval until SIGTERM or Ctrl-C, or until look fails, serves h
// meanwhile where there is a listener, and then calls flush. A second signal ends the process.
func lookEach(interval time.Duration, l net.Listener, h http.Handler, limits watch.Limits, look func(ctx context.Context, now time.Time, missed int) error, flush func() error) error {
	ctx, stop := untilSignal()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var served error
	var serving sync.WaitGroup
	if l != nil {
		serving.Go(func() {
			served = watch.Serve(ctx, l, h, limits)
			cancel()
		})
	}
	var failed error
	watch.Every(ctx, watch.WallClock(), interval, func(now time.Time, missed int) {
		if failed = look(ctx, now, missed); failed != nil {
			cancel()
		}
	})
	failed = errors.Join(failed, flush())
	cancel()
	serving.Wait()
	failed = errors.Join(failed, served)
	if failed == nil || errors.Is(failed, syscall.EPIPE) { // who read it has gone
		return nil
	}
	return &outcome{exitFailed, failed}
}
