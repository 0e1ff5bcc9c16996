// Package load drives an HTTP service with an open loop: requests start at a
// fixed rate whether or not earlier ones were answered, as they do from clients
// that do not know of each other, and latency is counted from the moment a
// request should have started. A generator that waits for answers would slow
// down together with the service and hide the queue it is meant to show.
//
// Everything is bounded: the time, the requests in all, those in progress. The
// report says what the generator itself could not keep up with.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bounds of one run, against typing errors: the whole runs in a process that
// shares its machine with the service under load.
const (
	MaxRequests = 200_000   // each costs 40 bytes of record
	MaxAnswer   = 1 << 20   // bytes read of one answer
	maxDuration = time.Hour // of arrivals
)

// Config says what load to make.
type Config struct {
	URL         string
	Rate        float64       // arrivals per second
	Duration    time.Duration // how long requests arrive; the last answers come later
	Timeout     time.Duration // from a request's intended start to the whole of its answer
	MaxInFlight int           // requests in progress; an arrival above it is dropped and counted
}

// Report is what became of the arrivals: Arrived = Dropped + Answered +
// TimedOut + Failed.
type Report struct {
	Arrived  int
	Dropped  int // never sent: MaxInFlight was reached
	Answered int // status 200 within the time-out
	TimedOut int
	Failed   int // another status, no connection, or the run was cancelled

	Sending  time.Duration // from the first arrival due to the last, plus one interval
	Latency  Quantiles     // of the answered, from their intended start
	Lateness Quantiles     // of the sent: from the intended start to the real one
}

// Quantiles of a set of durations, all zero where it is empty.
type Quantiles struct {
	Median, P99, Max time.Duration
}

// Served is the rate of answers, per second of sending.
func (r Report) Served() float64 {
	if r.Sending <= 0 {
		return 0
	}
	return float64(r.Answered) / r.Sending.Seconds()
}

// outcome of one request that was sent.
type outcome struct {
	err            error
	late, answered time.Duration // both since the intended start
}

// Run makes the load and returns when the last request has ended. It ends
// early with ctx's error; the report then covers what was done.
func Run(ctx context.Context, cfg Config) (Report, error) {
	total, err := cfg.requests()
	if err != nil {
		return Report{}, err
	}
	transport := &http.Transport{
		MaxIdleConns:        cfg.MaxInFlight,
		MaxIdleConnsPerHost: cfg.MaxInFlight,
		DisableCompression:  true,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	var (
		report   Report
		outcomes = make([]outcome, 0, total)
		lock     sync.Mutex // guards outcomes
		pending  sync.WaitGroup
		slots    = make(chan struct{}, cfg.MaxInFlight)
		begin    = time.Now()
	)
	for report.Arrived < total && ctx.Err() == nil {
		intended := begin.Add(arrival(report.Arrived, cfg.Rate))
		if wait := time.Until(intended); wait > 0 && !sleep(ctx, wait) {
			break
		}
		report.Arrived++
		select {
		case slots <- struct{}{}:
		default:
			report.Dropped++
			continue
		}
		pending.Go(func() {
			o := outcome{late: time.Since(intended)}
			o.err = get(ctx, client, cfg.URL, intended.Add(cfg.Timeout))
			o.answered = time.Since(intended)
			<-slots
			lock.Lock()
			outcomes = append(outcomes, o)
			lock.Unlock()
		})
	}
	report.Sending = arrival(report.Arrived, cfg.Rate)
	pending.Wait()
	report.add(outcomes)
	return report, ctx.Err()
}

// requests is how many arrive in all, an error where the configuration makes no sense.
func (cfg Config) requests() (int, error) {
	switch {
	case !(cfg.Rate > 0) || math.IsInf(cfg.Rate, 0): // NaN too
		return 0, fmt.Errorf("expected a rate above zero, saw %v requests per second", cfg.Rate)
	case cfg.Duration <= 0 || cfg.Duration > maxDuration:
		return 0, fmt.Errorf("expected a duration above zero and up to %v, saw %v", maxDuration, cfg.Duration)
	case cfg.Timeout <= 0:
		return 0, fmt.Errorf("expected a time-out above zero, saw %v", cfg.Timeout)
	case cfg.MaxInFlight <= 0:
		return 0, fmt.Errorf("expected a limit of requests in flight above zero, saw %d", cfg.MaxInFlight)
	}
	total := math.Ceil(cfg.Rate * cfg.Duration.Seconds())
	if total > MaxRequests {
		return 0, fmt.Errorf("expected at most %d requests in one run, saw %.0f; lower the rate or the duration", MaxRequests, total)
	}
	return int(total), nil
}

// arrival is when request i, counted from 0, is due after the first.
func arrival(i int, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// get reads the whole answer, so that the connection can serve the next request.
func get(ctx context.Context, client *http.Client, url string, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(response.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case n > MaxAnswer:
		return fmt.Errorf("expected an answer of at most %d bytes, saw more", MaxAnswer)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("expected status 200, saw %s", response.Status)
	}
	return nil
}

func (r *Report) add(outcomes []outcome) {
	var latency, lateness []time.Duration
	for _, o := range outcomes {
		lateness = append(lateness, o.late)
		switch {
		case o.err == nil:
			r.Answered++
			latency = append(latency, o.answered)
		case errors.Is(o.err, context.DeadlineExceeded):
			r.TimedOut++
		default:
			r.Failed++
		}
	}
	r.Latency = quantiles(latency)
	r.Lateness = quantiles(lateness)
}

// quantiles sorts its argument.
func quantiles(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	// The nearest rank: the smallest value with at least that share at or below it.
	rank := func(share float64) time.Duration { return d[int(math.Ceil(share*float64(len(d))))-1] }
	return Quantiles{Median: rank(0.5), P99: rank(0.99), Max: d[len(d)-1]}
}
