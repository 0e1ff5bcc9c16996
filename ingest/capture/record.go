package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest"
)

// Bounds of a recording, beside those of a capture.
const (
	// At once; each has a goroutine and a scrape each interval.
	maxTargets = 100
	// Of a target, job and instance among them.
	maxTargetLabels = 20
	// Files of profiles; analyze reads up to 1,000 of a directory, and a bundle
	// has its list and its series beside them.
	maxRecorded = 900
)

// Target is one process of a recording.
type Target struct {
	// Job and Instance are its labels. An instance's name is of one process all
	// the time: one that comes back has another.
	Job, Instance string
	Labels        map[string]string // further ones of all its series: namespace, pod, container
	Metrics       string            // URL of its Prometheus metrics; "" where it has none
	PProf         string            // URL of its /debug/pprof; "" where it has none
}

// RecordOptions are the choices of one recording.
type RecordOptions struct {
	// Out is the directory that will be the bundle: new, or empty.
	Out string
	// Force replaces a bundle that is at Out, once the new one is complete.
	Force bool
	// ClockFactor is how much faster than the clock on the wall the processes
	// run; 0 is 1.
	ClockFactor float64
	// Interval is the time between scrapes of each target, and the most that one
	// may take; 0 is MinScrapeInterval.
	Interval time.Duration
	// MaxGoroutines is how many a process may have for a text dump of it; 0 is 10,000.
	MaxGoroutines int64
	// Compress writes the series as series.om.gz.
	Compress bool
	// Keep says of a metric's name whether its series are kept; nil keeps all.
	Keep func(metric string) bool
	// Version of contend, for the bundle.
	Version string
	// HTTP makes the requests; nil is a plain client.
	HTTP *http.Client
}

// Recorder takes one bundle off several processes that come and go: their
// metrics all the time, their profiles when it is told to. Its methods may be
// called at the same time. It ends with Finish or Discard.
type Recorder struct {
	RecordOptions
	folder *folder
	start  time.Time
	ctx    context.Context // of the scrapes
	stop   context.CancelFunc
	wg     sync.WaitGroup
	series *seriesSet
	notes  notes
	stamps stamps

	mu      sync.Mutex // for what follows
	targets []*recorded
	taken   []Taken
	events  []Event
	scraped time.Time // when first; zero where there was no scrape
	stats   scrapeStats
	failed  error // what could not be written
	ended   bool  // nothing is written any more
}

// recorded is a target of a recording, and what of it is scraped.
type recorded struct {
	Target
	pprof   *url.URL // nil where it has none
	scraper scraper  // its goroutine's
	ctx     context.Context
	remove  context.CancelCauseFunc
}

var errRemoved = errors.New("the target was removed")

// NewRecorder begins a recording of no targets. It refuses an Out that cannot
// be the bundle. Scrapes end once ctx is done; what was taken is kept until
// Finish or Discard.
func NewRecorder(ctx context.Context, o RecordOptions) (*Recorder, error) {
	o.Interval = cmp.Or(o.Interval, MinScrapeInterval)
	o.ClockFactor = cmp.Or(o.ClockFactor, 1)
	o.MaxGoroutines = cmp.Or(o.MaxGoroutines, maxDumpGoroutines)
	switch {
	case o.Out == "":
		return nil, errors.New("expected a directory for the bundle, saw none")
	case o.Interval < MinScrapeInterval:
		return nil, fmt.Errorf("expected at least %v between scrapes, saw %v", MinScrapeInterval, o.Interval)
	case !(o.ClockFactor > 0): // NaN too
		return nil, fmt.Errorf("expected a clock factor above 0, saw %g", o.ClockFactor)
	}
	folder, err := newFolder(o.Out, o.Force)
	if err != nil {
		return nil, err
	}
	r := &Recorder{RecordOptions: o, folder: folder, start: time.Now(), series: newSeriesSet()}
	r.series.keep = o.Keep
	r.ctx, r.stop = context.WithTimeout(ctx, MaxFor)
	return r, nil
}

// Add begins to scrape a target. Its first scrape is within the interval: each
// target has its own moment in it, as in Prometheus.
func (r *Recorder) Add(t Target) error {
	lset, err := t.labels()
	if err != nil {
		return err
	}
	one := &recorded{Target: t}
	if t.PProf != "" {
		if one.pprof, err = parseURL(t.PProf); err != nil {
			return fmt.Errorf("profiles of %s: %w", t.Instance, err)
		}
	}
	if t.Metrics != "" {
		metrics, err := parseURL(t.Metrics)
		if err != nil {
			return fmt.Errorf("metrics of %s: %w", t.Instance, err)
		}
		one.scraper = scraper{
			series: r.series.target(lset), url: metrics, http: r.HTTP,
			note: func(what, reason string) { r.notes.add(what, t.Instance, reason) },
		}
	}
	one.ctx, one.remove = context.WithCancelCause(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	live := 0
	for _, other := range r.targets {
		if other.Instance == t.Instance {
			return fmt.Errorf("expected an instance of a new name, saw %s again; a process that comes back needs another", t.Instance)
		}
		if other.ctx.Err() == nil {
			live++
		}
	}
	if live == maxTargets {
		return fmt.Errorf("expected at most %d targets at once, saw one more: %s", maxTargets, t.Instance)
	}
	r.targets = append(r.targets, one)
	if t.Metrics != "" && r.ctx.Err() == nil {
		r.wg.Go(func() { r.scrapeTarget(one) })
	}
	return nil
}

// labels are those of all the target's series.
func (t *Target) labels() (labels.Labels, error) {
	all := map[string]string{model.JobLabel: t.Job, model.InstanceLabel: t.Instance}
	for name, value := range t.Labels {
		if _, twice := all[name]; twice || !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, model.ReservedLabelPrefix) {
			return labels.EmptyLabels(), fmt.Errorf("expected further labels of %s to have names of their own, of letters, digits and _, saw %q", t.Instance, name)
		}
		all[name] = value
	}
	if len(all) > maxTargetLabels {
		return labels.EmptyLabels(), fmt.Errorf("expected at most %d labels of %s, saw %d", maxTargetLabels, t.Instance, len(all))
	}
	for name, value := range all {
		if value == "" || len(value) > maxJob || !utf8.ValidString(value) || strings.ContainsFunc(value, isControl) {
			return labels.EmptyLabels(), fmt.Errorf("expected a label %s of 1 to %d bytes of text for each target, saw %q", name, maxJob, value[:min(len(value), maxJob)])
		}
	}
	return labels.FromMap(all), nil
}

// Remove ends the scrapes of an instance, which is gone. Its series end at the
// moment of its next scrape, up among them, as a server's do.
func (r *Recorder) Remove(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.targets {
		if t.Instance == instance {
			t.remove(errRemoved)
		}
	}
}

// Event notes in the bundle what happened at a time.
func (r *Recorder) Event(at time.Time, name, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, Event{At: moment(at), Name: name, Text: text})
}

// scrapeTarget scrapes one target until it is removed or all scrapes end.
func (r *Recorder) scrapeTarget(t *recorded) {
	due := r.first(t)
	for sleep(t.ctx, due) {
		late := time.Since(due)
		more := r.scrapeOnce(t)
		// What was slow loses turns, and never makes up for them.
		turns := time.Since(due)/r.Interval + 1
		due = due.Add(turns * r.Interval)
		r.count(t, late, int(turns-1))
		if !more {
			return
		}
	}
	if context.Cause(t.ctx) == errRemoved {
		sleep(r.ctx, due)
		t.scraper.series.gone(now().UnixMilli())
	}
}

// first is the moment of a target's first scrape: within the interval, and the
// same part of it for the same labels, so that a job's scrapes are spread over
// it and not one burst.
func (r *Recorder) first(t *recorded) time.Time {
	h := fnv.New64a()
	h.Write([]byte(t.Job + "\x00" + t.Instance))
	phase := time.Duration(h.Sum64() % uint64(r.Interval))
	now := time.Now()
	since := time.Duration(now.UnixNano() % int64(r.Interval))
	return now.Add((phase - since + r.Interval) % r.Interval)
}

// sleep reports whether the time came before ctx was done.
func sleep(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// scrapeOnce reports whether it is of use to scrape again.
func (r *Recorder) scrapeOnce(t *recorded) bool {
	start := time.Now()
	body, contentType, err := t.scraper.get(t.ctx, r.Interval)
	if err != nil && t.ctx.Err() != nil {
		return true // cut off by ourselves
	}
	r.mu.Lock()
	if at := moment(start); r.scraped.IsZero() || at.Before(r.scraped) {
		r.scraped = at
	}
	r.mu.Unlock()
	// That there is no answer is in the series, as up; what it is instead is not.
	silent := err != nil && ingest.StatusOf(err) == 0
	switch err = t.scraper.keep(start, body, contentType, err); {
	case errors.Is(err, errTooManySeries):
		r.notes.add("metrics", t.Instance, tooManySeries(t.scraper.ok+t.scraper.failed, "fewer targets or a shorter recording"))
		return false
	case err != nil && !silent:
		r.notes.add("metrics", t.Instance, err.Error())
	}
	return true
}

// scrapeStats count the scrapes of all targets.
type scrapeStats struct {
	ok, failed, missed int
	late               []time.Duration // of each
}

// count adds up what a target's scraper did, which its goroutine alone may read.
func (r *Recorder) count(t *recorded, late time.Duration, missed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.ok += t.scraper.ok
	r.stats.failed += t.scraper.failed
	t.scraper.ok, t.scraper.failed = 0, 0
	r.stats.missed += missed
	r.stats.late = append(r.stats.late, late)
}

// ScrapeStats are what the scrapes of a recording were like.
type ScrapeStats struct {
	Answered, Failed int
	Missed           int // turns lost: the scrape before took longer than the interval, or began that late
	// How late scrapes began: more than some ms means that the recorder itself
	// had no CPU, and that the run says little.
	LateMedian, LateP99, LateMax time.Duration
}

// Scrapes are those so far.
func (r *Recorder) Scrapes() ScrapeStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := ScrapeStats{Answered: r.stats.ok, Failed: r.stats.failed, Missed: r.stats.missed}
	if late := slices.Sorted(slices.Values(r.stats.late)); len(late) > 0 {
		s.LateMedian, s.LateP99, s.LateMax = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	}
	return s
}

// Finish ends the recording and puts the bundle in place. partial, where it is
// not "", is why it is only part of what it was to be, which whoever reads it is
// told. Where something could not be written (a full disk), the bundle has the
// rest, is partial too, and the error says so beside the report; where nothing was
// taken, or there is no room for its list, there is none, and no report.
func (r *Recorder) Finish(partial string) (*Report, error) {
	if errors.Is(r.ctx.Err(), context.DeadlineExceeded) {
		r.notes.add("metrics", "", fmt.Sprintf("no more scrapes after %v, the longest recording", MaxFor))
	}
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.write(partial)
	if m == nil {
		r.folder.remove()
		return nil, err
	}
	if err := r.folder.finish(nil); err != nil {
		return nil, err
	}
	return &Report{
		Dir: r.Out, Taken: m.Taken, Missing: m.Missing,
		Scrapes: r.stats.ok, Failed: r.stats.failed, Series: len(r.series.byName),
		Bytes: r.folder.bytes, Elapsed: time.Since(r.start),
	}, err
}

// write writes the series and the list of all that was taken. A bundle without
// its list is none: where a full disk has no room for both, the series go. What
// could not be written is the error, beside the list of the rest or without one.
func (r *Recorder) write(partial string) (*Manifest, error) {
	if len(r.taken) == 0 && r.stats.ok == 0 {
		return nil, cmp.Or(r.failed, fmt.Errorf("%w: neither profiles nor metrics of %d targets", errNothing, len(r.targets)))
	}
	var series *Taken
	name := seriesFile
	if r.Compress {
		name += ".gz"
	}
	if !r.scraped.IsZero() {
		var err error
		if series, err = r.folder.writeSeries(name, r.series, r.scraped); err != nil {
			r.failed = cmp.Or(r.failed, err)
			r.notes.add("series", "", err.Error())
		}
	}
	slices.SortStableFunc(r.events, func(a, b Event) int { return a.At.Compare(b.At) })
	m := r.manifest(series, partial)
	if len(m.Taken) == 0 {
		return nil, r.failed
	}
	err := r.folder.writeManifest(m)
	if err != nil && series != nil && len(r.taken) > 0 {
		r.failed = cmp.Or(r.failed, err)
		r.folder.drop(name)
		r.notes.add("series", "", "left out, to make room for the bundle's list: "+err.Error())
		m = r.manifest(nil, partial)
		err = r.folder.writeManifest(m)
	}
	if err != nil {
		return nil, err
	}
	return m, r.failed
}

// manifest lists what was taken, and the series where there are any.
func (r *Recorder) manifest(series *Taken, partial string) *Manifest {
	taken := slices.Clone(r.taken)
	if series != nil {
		taken = append(taken, *series)
	}
	slices.SortStableFunc(taken, func(a, b Taken) int { return a.At.Compare(b.At) })
	if partial == "" && r.failed != nil {
		partial = r.failed.Error()
	}
	return &Manifest{
		Schema: ingest.BundleSchema, ClockFactor: r.ClockFactor, Version: r.Version,
		Partial: partial, Taken: taken, Events: r.events, Missing: r.notes.missing(),
	}
}

// Discard ends the recording and leaves nothing of it. After Finish it does nothing.
func (r *Recorder) Discard() {
	r.end()
	r.folder.remove()
}

// end waits for what is being scraped.
func (r *Recorder) end() {
	r.mu.Lock()
	r.stop()
	r.ended = true
	r.mu.Unlock()
	r.wg.Wait()
}
