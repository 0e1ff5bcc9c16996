package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Report is what one capture took.
type Report struct {
	Dir         string // the bundle
	Taken       []Taken
	Missing     []Missing
	Scrapes     int // that had an answer
	Failed      int // scrapes without one
	Series      int
	Bytes       int64 // of all files
	Elapsed     time.Duration
	Interrupted bool // ctx was done before the end
}

const (
	// What an interrupted capture still takes, the second of each cumulative
	// profile, must be done before a job's end (SIGTERM) becomes SIGKILL: 10
	// seconds with most.
	graceTime = 5 * time.Second
	// A line of progress stands for a second at least.
	progressEvery = 5 * time.Second
	// Each thing is noted once for each reason; a hostile server has many.
	maxNotes = 50
)

var errNothing = errors.New("nothing could be taken")

// capture is one run.
type capture struct {
	Options
	at      endpoints
	folder  *folder
	start   time.Time
	giveUp  context.CancelCauseFunc
	scrapes scrapes

	// The profiles' half; Run's goroutine alone uses it.
	taken  []Taken
	last   time.Time       // when a profile was asked for
	absent map[string]bool // kinds that are not served
	empty  map[string]bool // kinds whose last profile had no samples
	dumped bool            // the dump was tried
	fewest int64           // goroutines, of those profiles that had too many to dump
	shown  time.Time       // when Progress was last told how far it is

	mu       sync.Mutex // for what follows, and for Progress and Note
	notes    []*Missing
	nothings int // of the two halves, those that began with nothing
}

// Run takes a bundle off a process and puts it at o.Out. Profiles and scrapes
// go on beside each other; one that fails loses no other, and is in the
// report's Missing. Where neither the first profiles nor the first scrape give
// anything, Run ends at once with an error, and there is no bundle.
//
// Once ctx is done, Run waits no longer: it takes the closing profiles if that
// is quick, and the bundle has what there is.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	at, err := newEndpoints(o)
	if err != nil {
		return nil, err
	}
	folder, err := newFolder(o.Out)
	if err != nil {
		return nil, err
	}
	asked := ctx
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	c := &capture{Options: o, at: at, folder: folder, start: time.Now(), giveUp: giveUp, absent: map[string]bool{}, empty: map[string]bool{}}
	c.scrapes.series = newSeriesSet(at.job, at.instance)

	var wg sync.WaitGroup
	wg.Go(func() { c.scrapeAll(ctx) })
	c.profileAll(ctx)
	wg.Wait()
	c.show("writing the bundle")
	interrupted := asked.Err() != nil
	if len(c.taken) == 0 && c.scrapes.ok == 0 {
		folder.remove()
		if interrupted {
			return nil, errors.New("interrupted before anything was taken")
		}
		return nil, fmt.Errorf("%w from %s: neither profiles nor metrics", errNothing, at.target)
	}
	elapsed := time.Since(c.start)
	if interrupted {
		c.note("time", fmt.Sprintf("interrupted after %v of %v", elapsed.Round(time.Second), c.For))
	}
	if err := c.writeSeries(); err != nil {
		c.note("metrics", err.Error())
	}
	slices.SortStableFunc(c.taken, func(a, b Taken) int { return a.At.Compare(b.At) })
	m := &Manifest{Schema: Schema, Target: at.target, ClockFactor: 1, Version: c.Version, Taken: c.taken, Missing: c.missing()}
	if err := folder.finish(m); err != nil {
		return nil, err
	}
	return &Report{
		Dir: o.Out, Taken: m.Taken, Missing: m.Missing,
		Scrapes: c.scrapes.ok, Failed: c.scrapes.failed, Series: len(c.scrapes.series.byName),
		Bytes: folder.bytes, Elapsed: elapsed, Interrupted: interrupted,
	}, nil
}

// now is the time as a bundle has it.
func (c *capture) now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// next is the first multiple of an interval after now: what was slow loses
// turns, and never makes up for them.
func (c *capture) next(interval time.Duration) time.Time {
	return c.start.Add((time.Since(c.start)/interval + 1) * interval)
}

// wait sleeps until a time, and reports whether that is within the capture.
func (c *capture) wait(ctx context.Context, until time.Time) bool {
	if until.After(c.start.Add(c.For)) {
		return false
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// foundNothing ends the capture where the other half has begun with nothing too.
func (c *capture) foundNothing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nothings++; c.nothings == 2 {
		c.giveUp(errNothing)
	}
}

// note remembers that something was not taken.
func (c *capture) note(what, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.notes {
		if n.What == what && n.Reason == reason {
			n.Times = max(n.Times, 1) + 1
			return
		}
	}
	if len(c.notes) == maxNotes {
		return
	}
	n := &Missing{What: what, Reason: reason, At: c.now()}
	c.notes = append(c.notes, n)
	if c.Note != nil {
		c.Note(*n)
	}
}

func (c *capture) missing() []Missing {
	var out []Missing
	for _, n := range c.notes {
		out = append(out, *n)
	}
	slices.SortStableFunc(out, func(a, b Missing) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.What, b.What))
	})
	return out
}

// show tells Progress.
func (c *capture) show(step string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Progress != nil {
		c.Progress(step)
	}
}
