package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
)

// lockFlags are what the user knows of a process's locks and asks of them.
type lockFlags struct {
	expect        multiple
	blockRate     time.Duration
	mutexFraction number
	random        bool
}

func newLockFlags() lockFlags {
	return lockFlags{
		expect:        multiple{detect.UsualSurge},
		mutexFraction: number{least: 0, most: math.MaxInt32, want: "the process's runtime.SetMutexProfileFraction, a whole number"},
	}
}

func (f *lockFlags) add(flags *pflag.FlagSet) {
	flags.Var(&f.expect, "expect", "warn of a lock that saturates at less than `N` times today's load")
	flags.DurationVar(&f.blockRate, "block-rate", 0, "the process's runtime.SetBlockProfileRate, as a `TIME` such as 10ms: widens a forecast's error, changes no value")
	flags.Var(&f.mutexFraction, "mutex-fraction", "the process's runtime.SetMutexProfileFraction, one of `N`: widens a forecast's error, changes no value")
	flags.BoolVar(&f.random, "random-arrivals", false, "requests come from many who know nothing of each other, and no balancer deals them out in turn: allows a forecast from waits at one load")
}

func (f *lockFlags) check() error {
	if f.blockRate < 0 {
		return fmt.Errorf("expected a time of 0 or more for --block-rate, saw %v", f.blockRate)
	}
	return nil
}

func (f *lockFlags) set(o *detect.Options) {
	o.Expect, o.BlockRate, o.MutexFraction, o.RandomArrivals = f.expect.value, f.blockRate, f.mutexFraction.value, f.random
}

// headroomFlags are the flags of contend headroom as given.
type headroomFlags struct {
	report     reportFlags
	time       time.Duration
	locks      lockFlags
	telemetry  []string
	httpConfig string
}

const (
	// Half a minute of ten snapshots a second brackets a share of 0.2 within 1.6 times.
	usualWatch = 30 * time.Second
	// The 30 snapshots that a forecast takes at least, and some more.
	minWatch = 5 * time.Second
	// Servers and proxies keep no request open for longer.
	maxWatch = 5 * time.Minute
)

func headroomCommand() *cobra.Command {
	f := headroomFlags{report: newReportFlags("locks"), locks: newLockFlags()}
	cmd := &cobra.Command{
		Use:   "headroom URL",
		Short: "Say at what load the locks of a live process fall over",
		Long: `Headroom watches one live Go process for a while, and says of each lock that
somebody waited for how much of the time it is in use, how long it is held, how
many wait, and at what multiple of today's load it saturates, with what that
assumes; whose code it is, and what raising the limit would take. URL is the
root of its host, or its /debug/pprof. Take it at the load of a usual busy hour.

Where there is no number it says why, and that is no all-clear. A process in
which hardly anybody waits has none.

What the process has to answer:
  goroutine profile  at random moments, ten a second on average at most, 600 in
                     all: 3.4 ms of CPU each with 20 goroutines, 38 ms with
                     17,000. After each it is left alone for 20 times what the
                     answer took on average, and so spends at most a twentieth
                     of one core
  block and mutex    one each, over --for
No dump is taken: nothing stops the process.

Block and mutex profiles are off by default in Go; without them a forecast rests
on the snapshots alone.

Ctrl-C ends the watch early and reports what was seen.

Exit codes: 0 the forecast was made, whatever it says; 1 the process could not
be looked at, or not to the end; 2 wrong usage; 3 something at or above
--fail-on was found (1 outranks 3).`,
		Example: `  contend headroom http://localhost:6060
  contend headroom http://gateway:6060 --for 2m --expect 5x
  contend headroom http://gateway:6060 -o json --fail-on warning`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("expected the URL of a process, saw no argument; try contend headroom http://localhost:6060")
			case 1:
				return nil
			}
			return fmt.Errorf("expected one URL, saw %d arguments; each process has locks of its own, so start one for each", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return forecast(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.report.addOutput(flags)
	flags.DurationVar(&f.time, "for", usualWatch, "watch for `TIME`, 5s to 5m")
	f.locks.add(flags)
	flags.StringSliceVar(&f.telemetry, "telemetry", nil, "count packages below import path `PREFIX` as telemetry (repeatable)")
	f.report.add(flags)
	flags.StringVar(&f.httpConfig, "http.config.file", "", "`FILE` with TLS and credentials for URLs, in the format of promtool")
	completeFlag(cmd, "output", reportFormats...)
	return cmd
}

func forecast(cmd *cobra.Command, url string, f *headroomFlags) error {
	if err := cmp.Or(f.report.check(), f.locks.check(), checkTelemetry(cmd, f.telemetry)); err != nil {
		return err
	}
	if f.time < minWatch || f.time > maxWatch {
		return fmt.Errorf("expected a time of %v to %v for --for, saw %v", minWatch, maxWatch, f.time)
	}
	client, err := httpClient(f.httpConfig)
	if err != nil {
		return err
	}
	steps := newProgress(cmd.ErrOrStderr())
	defer steps.done()
	// As in analyze: the first signal ends the watch, a second one the process.
	ctx, stop := untilSignal()
	defer stop()
	bundle := ingest.Watch(ctx, url, f.time, ingest.Options{HTTP: client, Progress: steps.begin})
	stop()
	steps.begin("analysing")
	opt := detect.Options{Telemetry: f.telemetry, Detectors: []string{"lockheadroom"}, AllLocks: true, Drawn: f.report.output == "html"}
	f.locks.set(&opt)
	r := detect.Run(bundle, nil, all.Detectors(), opt)
	steps.done()
	failed := complainOf(cmd.ErrOrStderr(), bundle.Failures, "")
	return f.report.conclude(cmd.OutOrStdout(), r, report.Forecast, failed)
}
