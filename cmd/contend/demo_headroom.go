package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/demo/cliff"
	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/capture"
)

// Ways to look at a lock.
const (
	bySnapshots = "snapshots" // what contend headroom looks at
	byLevels    = "levels"    // the same at this load and all below
	byWaits     = "waits"     // block profiles and series at this load and all below, and no snapshots
	byQueue     = "queue"     // a block profile at this load, with --random-arrivals, where that is true
)

// lookWays are all of them, in order.
var lookWays = []string{bySnapshots, byLevels, byWaits, byQueue}

// lookLoads are the loads that are looked at, in shares of what saturates a lock.
var lookLoads = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}

const (
	// lookFor is twice what contend headroom takes unless told otherwise: a fifth of 600
	// snapshots is known to a sixth, two standard errors to either side.
	lookFor = time.Minute
	// lookEvery is the mean time between two snapshots, as contend headroom's.
	lookEvery = lookFor / 600
	// mostLost is how many snapshots may fail: one in twenty.
	mostLost = 30
	// lookSlack is what profiles take at the most, and a window of the series at the end.
	lookSlack = 10 * time.Second
	// cellsAtOnce leave half of two cores idle: each takes a tenth of one, and holds
	// become longer where a core is not free when they end.
	cellsAtOnce = 8
	// turnTime is what so many take: a ramp, six looks, and the analysis of 21 bundles each.
	turnTime = 10 * time.Minute
)

// lockForecast is what was said of one lock at one load, beside the truth.
type lockForecast struct {
	Lock     string  `json:"lock"`
	Arrivals string  `json:"arrivals"`
	Run      int     `json:"run"`
	Way      string  `json:"way"`
	Load     float64 `json:"load"` // calls a second in shares of what saturates the lock: the truth is 1/load
	Reading  string  `json:"reading,omitempty"`
	Low      float64 `json:"low,omitempty"`  // multiples of the load
	High     float64 `json:"high,omitempty"` // 0: there is no number
	Refused  string  `json:"refused,omitempty"`
}

// ratio is the middle of the bracket in shares of the truth: above 1 is too optimistic.
func (f *lockForecast) ratio() float64 { return math.Sqrt(f.Low*f.High) * f.Load }

// near reports whether the forecast is within 20 % of the truth.
func (f *lockForecast) near() bool { return math.Abs(f.ratio()-1) <= 0.2 }

// holds reports whether the truth is in the bracket.
func (f *lockForecast) holds() bool { return f.Low*f.Load <= 1 && 1 <= f.High*f.Load }

// evalHeadroom is contend demo eval --headroom.
func evalHeadroom(ctx context.Context, cmd *cobra.Command, f *demoEvalFlags) error {
	binary, err := os.Executable()
	if err != nil {
		return &outcome{exitFailed, fmt.Errorf("find this program's own file: %w", err)}
	}
	scratch, err := os.MkdirTemp("", "contend-demo-")
	if err != nil {
		return &outcome{exitFailed, fmt.Errorf("make room for bundles: %w", err)}
	}
	defer os.RemoveAll(scratch)
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	var cells []*lookedAt
	for run := 1; run <= f.runs.value; run++ {
		for _, l := range cliff.Locks() {
			for _, a := range cliff.Patterns() {
				c := cliff.Cell{Lock: l, Arrivals: a, Command: []string{binary, "demo", "task"}, Seed: f.seed + uint64(len(cells))<<8}
				cells = append(cells, &lookedAt{Cell: c, run: run})
			}
		}
	}
	fc := &forecaster{scratch: scratch, stderr: cmd.ErrOrStderr()}
	e := &headroomEval{Schema: headroomSchema, Runs: f.runs.value, Seed: f.seed, Saturation: []saturation{}, Forecasts: []lockForecast{}}
	stopped := fc.run(ctx, cells, e)
	e.Valid = stopped == nil && !slices.ContainsFunc(e.Saturation, func(s saturation) bool { return s.Invalid != "" })
	if f.output == "json" {
		err = writeIndented(cmd.OutOrStdout(), e)
	} else {
		err = writeHeadroomText(cmd.OutOrStdout(), e)
	}
	switch {
	case err != nil:
		return err
	case stopped != nil:
		return &outcome{exitFailed, stopped}
	case !e.Valid:
		return &outcome{exitFailed, errors.New("the result is not valid: some locks could not be played; which is said above")}
	case e.missed() > 0:
		return &outcome{code: exitFound}
	}
	return nil
}

// forecaster plays locks and holds forecasts to what they do.
type forecaster struct {
	scratch string
	stderr  io.Writer
}

// lookedAt is a cell and where the bundles of its loads are.
type lookedAt struct {
	cliff.Cell
	run        int
	saturation float64 // calls a second
	loads      []float64
	dirs       []string
	invalid    error // why nothing can be said of it
	before     error // why it was played once more
}

// said is what became of a cell, and why it took two tries.
func (c *lookedAt) said() string {
	said := fmt.Sprintf("saturates at %.1f calls a second", c.saturation)
	if c.invalid != nil {
		said = "not valid: " + c.invalid.Error()
	}
	if c.before != nil {
		said += fmt.Sprintf(" (played once more, since at first: %v)", c.before)
	}
	return said
}

// run plays all cells, some at once, and forecasts once they are over: an
// analysis would take the time that others need to keep to their schedule. What
// was played until ctx ended is in e in any case.
func (fc *forecaster) run(ctx context.Context, cells []*lookedAt, e *headroomEval) error {
	left := time.Duration((len(cells)+cellsAtOnce-1)/cellsAtOnce) * turnTime
	fmt.Fprintf(fc.stderr, "%s: about %v\n", plural(len(cells), "lock"), left)
	for some := range slices.Chunk(cells, cellsAtOnce) {
		var wg sync.WaitGroup
		for _, c := range some {
			wg.Go(func() {
				if c.invalid = fc.look(ctx, c); c.invalid != nil && ctx.Err() == nil { // once more: the machine may have been busy
					c.before = c.invalid
					c.invalid = fc.look(ctx, c)
				}
			})
		}
		wg.Wait()
		left -= turnTime
		for _, c := range some {
			var of []lockForecast
			if c.invalid == nil {
				of, c.invalid = forecastsOf(ctx, c)
			}
			for _, dir := range c.dirs {
				os.RemoveAll(dir)
			}
			if ctx.Err() != nil {
				return fmt.Errorf("play the locks: %w", context.Cause(ctx))
			}
			one := saturation{Lock: c.Lock.Name, Arrivals: c.Arrivals.Name, Run: c.run, PerSecond: c.saturation}
			if c.invalid != nil {
				one.Invalid = c.invalid.Error()
			}
			e.Saturation = append(e.Saturation, one)
			e.Forecasts = append(e.Forecasts, of...)
			fmt.Fprintf(fc.stderr, "%d of %d: %s, %s, run %d: %s; about %v left\n", len(e.Saturation), len(cells), one.Lock, one.Arrivals, one.Run, c.said(), left)
		}
	}
	return nil
}

// look finds where a lock saturates, and records bundles at lower loads.
func (fc *forecaster) look(ctx context.Context, c *lookedAt) (err error) {
	for _, dir := range c.dirs { // of a try before this one
		os.RemoveAll(dir)
	}
	c.dirs, c.loads = nil, nil
	if c.saturation, err = cliff.Ramp(ctx, c.Cell, cliff.Stay); err != nil {
		return fmt.Errorf("find where it saturates: %w", err)
	}
	var rates []float64
	for i, share := range lookLoads {
		rates = append(rates, share*c.saturation)
		c.dirs = append(c.dirs, filepath.Join(fc.scratch, fmt.Sprintf("%s-%s-%d-%d", c.Lock.Name, c.Arrivals.Name, c.run, i)))
	}
	arrived, err := cliff.Steady(ctx, c.Cell, rates, lookFor+lookSlack, func(ctx context.Context, i int, task fleet.Info) error {
		return record(ctx, task, c.dirs[i], rand.New(rand.NewPCG(c.Seed, uint64(i))))
	})
	for _, a := range arrived {
		c.loads = append(c.loads, a/c.saturation)
	}
	return err
}

// record takes a bundle of a task: block and mutex profiles over lookFor, and
// snapshots at random moments of it, as many as contend headroom takes.
func record(ctx context.Context, task fleet.Info, dir string, random *rand.Rand) error {
	r, err := capture.NewRecorder(ctx, capture.RecordOptions{Out: dir, ClockFactor: play.ClockFactor, Compress: true, Version: version()})
	if err != nil {
		return err
	}
	defer r.Discard()
	if err := r.Add(capture.Target{Job: "gateway", Instance: task.Name, Metrics: task.Admin + "/metrics", PProf: task.Admin + "/debug/pprof"}); err != nil {
		return err
	}
	until := time.Now().Add(lookFor)
	r.Profiles(ctx, false)
	for {
		next := time.Duration(random.ExpFloat64() * float64(lookEvery))
		if !time.Now().Add(next).Before(until) {
			break
		}
		if err := fleet.Wait(ctx, next); err != nil {
			return err
		}
		r.Glance(ctx, task.Name)
	}
	if err := fleet.Wait(ctx, time.Until(until)); err != nil {
		return err
	}
	r.Profiles(ctx, false)
	// A rate is that of the window before it.
	if err := fleet.Wait(ctx, time.Second); err != nil {
		return err
	}
	report, err := r.Finish("")
	if err != nil {
		return err
	}
	for _, m := range report.Missing {
		if m.What != "goroutine" || m.Times > mostLost { // a few snapshots less are as good
			return fmt.Errorf("expected its %s, saw none: %s", m.What, m.Reason)
		}
	}
	return nil
}

// forecastsOf are all that can be said of a cell, by load and way.
func forecastsOf(ctx context.Context, c *lookedAt) ([]lockForecast, error) {
	var out []lockForecast
	for i := range c.dirs {
		add := func(way string, b *ingest.Bundle, random bool) {
			r := detect.Run(b, nil, all.Detectors(), detect.Options{Detectors: []string{"lockheadroom"}, AllLocks: true, RandomArrivals: random})
			f := lockForecast{Lock: c.Lock.Name, Arrivals: c.Arrivals.Name, Run: c.run, Way: way, Load: c.loads[i]}
			f.read(r)
			out = append(out, f)
		}
		one, err := loadLooks(ctx, c.dirs[i:i+1])
		if err != nil {
			return nil, err
		}
		add(bySnapshots, one, false)
		if c.Arrivals.Name == "random" {
			one.Snapshots = nil
			add(byQueue, one, true)
		}
		if i == 0 {
			continue
		}
		several, err := loadLooks(ctx, c.dirs[:i+1])
		if err != nil {
			return nil, err
		}
		add(byLevels, several, false)
		several.Snapshots = nil
		add(byWaits, several, false)
	}
	return out, nil
}

func loadLooks(ctx context.Context, dirs []string) (*ingest.Bundle, error) {
	b := ingest.Load(ctx, dirs, ingest.Options{})
	b.ReadSeries(ctx, ingest.SeriesOptions{})
	if len(b.Failures) > 0 {
		return nil, fmt.Errorf("read what was recorded: %s: %w", b.Failures[0].Name, b.Failures[0].Err)
	}
	return b, nil
}

// read takes from a report the number of the lock that saturates first, of those
// that profiles name, or why there is none.
func (f *lockForecast) read(r *detect.Report) {
	var why []string
	for _, o := range r.RuledOut {
		why = append(why, o.Reason)
	}
	for _, s := range r.Skipped {
		why = append(why, s.Reason)
	}
	for i := range r.Findings {
		h := r.Findings[i].Headroom
		if h == nil || r.Findings[i].Function == "" {
			continue
		}
		if f.High == 0 || h.SaturatesAt.Low*h.SaturatesAt.High < f.Low*f.High {
			f.Low, f.High, f.Reading = h.SaturatesAt.Low, h.SaturatesAt.High, h.Reading
		}
	}
	if f.High == 0 {
		slices.Sort(why) // several levels are told of in the same words
		f.Refused = strings.Join(slices.Compact(why), "; ")
	}
}
