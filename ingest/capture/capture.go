package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest"
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
	// What a capture still takes after its end, the second of each cumulative
	// profile, must be done before a job's end (SIGTERM) becomes SIGKILL: 10
	// seconds with most.
	graceTime = 5 * time.Second
	// A line of progress stands for a second at least.
	progressEvery = 5 * time.Second
)

var errNothing = errors.New("nothing could be taken")

// capture is one run.
type capture struct {
	Options
	at      endpoints
	folder  *folder
	start   time.Time
	giveUp  context.CancelCauseFunc
	scraper scraper
	scraped time.Time // when first; zero where there was no scrape
	notes   notes

	// The profiles' half; Run's goroutine alone uses it.
	server  server
	stamps  stamps
	taken   []Taken
	slowest time.Duration   // of all rounds, for the profiles that came
	absent  map[string]bool // kinds that are not served
	empty   map[string]bool // kinds whose last profile had no samples
	dumped  bool            // the dump was tried
	fewest  int64           // goroutines, of those profiles that had too many to dump
	shown   time.Time       // when Progress was last told how far it is

	mu       sync.Mutex // for what follows, and for Progress and Note
	nothings int        // of the two halves, those that began with nothing
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
	folder, err := newFolder(o.Out, false)
	if err != nil {
		return nil, err
	}
	asked := ctx
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	c := &capture{Options: o, at: at, folder: folder, server: server{at.pprof, o.HTTP}, start: time.Now(), giveUp: giveUp, absent: map[string]bool{}, empty: map[string]bool{}}
	c.notes.told = func(m Missing) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.Note != nil {
			c.Note(m)
		}
	}
	series := newSeriesSet()
	c.scraper = scraper{
		series: series.target(labels.FromStrings(model.JobLabel, at.job, model.InstanceLabel, at.instance)),
		url:    at.metrics, http: o.HTTP, note: c.note,
	}

	var wg sync.WaitGroup
	wg.Go(func() { c.scrapeAll(ctx) })
	c.profileAll(ctx)
	wg.Wait()
	c.show("writing the bundle")
	interrupted := asked.Err() != nil
	if len(c.taken) == 0 && c.scraper.ok == 0 {
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
	m, err := c.write()
	if len(m.Taken) == 0 && err != nil {
		folder.remove()
		return nil, err
	}
	if err := folder.finish(err); err != nil {
		return nil, err
	}
	r := &Report{
		Dir: o.Out, Taken: m.Taken, Missing: m.Missing,
		Scrapes: c.scraper.ok, Failed: c.scraper.failed,
		Bytes: folder.bytes, Elapsed: elapsed, Interrupted: interrupted,
	}
	if slices.ContainsFunc(m.Taken, func(t Taken) bool { return t.File == seriesFile }) {
		r.Series = len(series.byName)
	}
	return r, nil
}

// write writes the series and the list of all that was taken. A bundle without
// its list is none: where a full disk has no room for both, the series go.
func (c *capture) write() (*Manifest, error) {
	var series *Taken
	var err error
	if !c.scraped.IsZero() {
		series, err = c.folder.writeSeries(seriesFile, c.scraper.series.seriesSet, c.scraped)
	}
	if err != nil {
		err = fmt.Errorf("%w; they were left out", err)
		c.note("metrics", err.Error())
	}
	m := c.manifest(series)
	if len(m.Taken) == 0 {
		return m, err
	}
	err = c.folder.writeManifest(m)
	if err == nil || series == nil {
		return m, err
	}
	c.folder.drop(seriesFile)
	c.note("metrics", "left out, to make room for the bundle's list: "+err.Error())
	m = c.manifest(nil)
	return m, c.folder.writeManifest(m)
}

// manifest lists what was taken, and the series where there are any.
func (c *capture) manifest(series *Taken) *Manifest {
	taken := c.taken
	if series != nil {
		taken = append(slices.Clone(taken), *series)
	}
	slices.SortStableFunc(taken, func(a, b Taken) int { return a.At.Compare(b.At) })
	return &Manifest{
		Schema: ingest.BundleSchema, Target: c.at.target, ClockFactor: 1, Version: c.Version, Taken: taken, Missing: c.notes.missing(),
		Processes: []Process{{profilesFolder, c.at.job, c.at.instance}}, // by it another capture is known to be of the same
	}
}

// timeLeft is how long to wait for what took a time before, and is given most
// at the most: until a while after the capture's end. A process that died is not
// waited for; one that was slow has its time, and as much again.
func (c *capture) timeLeft(took, most time.Duration) time.Duration {
	left := max(time.Until(c.start.Add(c.For)), 0)
	return min(left+max(graceTime, 2*took), most)
}

// moment is a time as a bundle has it.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func now() time.Time { return moment(time.Now()) }

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
func (c *capture) note(what, reason string) { c.notes.add(what, "", reason) }

// show tells Progress.
func (c *capture) show(step string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Progress != nil {
		c.Progress(step)
	}
}
