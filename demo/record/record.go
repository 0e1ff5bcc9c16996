package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/contend/contend/demo/load"
)

// plan is how one run goes.
type plan struct {
	out       string // directory of the bundle, "" for none
	rate      float64
	ramp, gap time.Duration
}

// Bounds of a run, so that a typing error does not take the machine down.
const (
	maxRate = 5000        // two cores collapse far below it
	maxTime = time.Minute // ramp and gap together
	// Shorter gaps would leave the two profiles of a kind with the same name.
	minGap = 10 * time.Millisecond

	clientTimeout = 3 * time.Second // the demo's clients: 12 scrapes at its 250 ms
	healthRate    = 2               // checks per second, a balancer's in the demo's time
	healthTimeout = time.Second
	// Sent past the peak, so that the load does not stop while the profiles are taken.
	overtime = time.Second
)

func (p plan) check() error {
	switch {
	case !(p.rate > 0) || p.rate > maxRate: // NaN too
		return fmt.Errorf("expected a rate above 0 and up to %d, saw %v", maxRate, p.rate)
	case p.ramp < 0 || p.gap < minGap || p.ramp > maxTime || p.gap > maxTime || p.ramp+p.gap > maxTime:
		return fmt.Errorf("expected a gap of at least %v, and with the ramp at most %v, saw %v and %v", minGap, maxTime, p.gap, p.ramp)
	}
	return nil
}

// driven is what the two kinds of client saw.
type driven struct {
	api, health load.Report
}

// recordScenario runs the scenario under load, writes the bundle where one is
// wanted, and prints what it measured as one line per subject.
func recordScenario(ctx context.Context, s scenario, p plan, stdout io.Writer) error {
	if p.out != "" {
		if err := checkEmpty(p.out); err != nil {
			return err
		}
	}
	// Twice the planned time, and a minute for a machine that is slow.
	ctx, cancel := context.WithTimeout(ctx, 2*(p.ramp+p.gap)+time.Minute)
	defer cancel()
	gateway, err := startProcess(ctx, s)
	if err != nil {
		return err
	}
	defer gateway.stop()

	before, err := scrape(ctx, gateway.url)
	if err != nil {
		return err
	}
	loadCtx, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	var clients sync.WaitGroup
	var seen driven
	var loadErr error
	clients.Go(func() { seen, loadErr = drive(loadCtx, gateway.url, p) })
	defer func() {
		stopLoad()
		clients.Wait()
	}()

	b := bundle{Schema: bundleSchema, Target: gateway.url, ClockFactor: 1}
	if err := wait(ctx, p.ramp); err != nil {
		return err
	}
	if p.out != "" {
		if err := b.take(ctx, false); err != nil {
			return err
		}
	}
	if err := wait(ctx, p.gap); err != nil {
		return err
	}
	if p.out != "" {
		if err := b.take(ctx, true); err != nil {
			return err
		}
	}
	peak, err := scrape(ctx, gateway.url)
	if err != nil {
		return err
	}
	clients.Wait()
	if loadErr != nil {
		return fmt.Errorf("make the load: %w", loadErr)
	}
	if p.out != "" {
		if err := b.write(p.out); err != nil {
			return err
		}
	}
	printMeasured(stdout, p, seen, before, peak)
	return nil
}

// drive sends API calls and health checks until the run is over.
func drive(ctx context.Context, url string, p plan) (driven, error) {
	duration := p.ramp + p.gap + overtime
	var d driven
	var apiErr, healthErr error
	var both sync.WaitGroup
	both.Go(func() {
		d.api, apiErr = load.Run(ctx, load.Config{
			URL: url + "/", Rate: p.rate, Duration: duration, Timeout: clientTimeout,
			// All that arrive within the time-out, and no more can be waiting.
			MaxInFlight: int(math.Ceil(p.rate*clientTimeout.Seconds())) + 1,
		})
	})
	both.Go(func() {
		d.health, healthErr = load.Run(ctx, load.Config{
			URL: url + "/healthz", Rate: healthRate, Duration: duration, Timeout: healthTimeout,
			MaxInFlight: healthRate + 1,
		})
	})
	both.Wait()
	return d, errors.Join(apiErr, healthErr)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
}

func printMeasured(w io.Writer, p plan, seen driven, before, peak scraped) {
	fmt.Fprintf(w, "gateway: offered %.0f/s, served %.0f/s, in flight %.0f, cores %.2f\n",
		p.rate, seen.api.Served(), peak.inFlight, (peak.cpuSeconds-before.cpuSeconds)/peak.at.Sub(before.at).Seconds())
	for _, c := range []struct {
		name string
		load.Report
	}{{"api", seen.api}, {"health", seen.health}} {
		fmt.Fprintf(w, "%s: arrived %d, answered %d, timed out %d, failed %d, dropped %d, latency %v p99 %v, sent late by %v p99 %v\n",
			c.name, c.Arrived, c.Answered, c.TimedOut, c.Failed, c.Dropped,
			round(c.Latency.Median), round(c.Latency.P99), round(c.Lateness.Median), round(c.Lateness.P99))
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
