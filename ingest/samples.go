package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

// readSamples reads series into the bundle's store. A scrape, whose samples
// have no time, becomes a store of its own until it is known whose it is.
func (l *loader) readSamples(name string, in *source, format memory.Format) (*reading, error) {
	r := &reading{}
	to, at := l.samples, time.Time{}
	if format == memory.Text {
		to, at = memory.New(), in.written
		if at.IsZero() { // a pipe or an answer: it was written as it was read
			at = time.Now()
		}
	}
	loaded, err := to.Load(name, in.buf, memory.LoadOptions{Format: format, At: at})
	switch {
	case loaded.Samples == 0:
	case format == memory.Text:
		r.scrapes = []*scrape{{name: name, at: at, store: to, loaded: loaded}}
	default:
		r.samples = []Samples{{Name: name, Format: format.String(), Loaded: loaded}}
	}
	if in.err != nil {
		return in.keep(r)
	}
	if err == nil && loaded.Samples == 0 {
		err = fmt.Errorf("expected %s with samples, saw none (%s); take it again", format, cmp.Or(strings.Join(loaded.Notes, "; "), "no line of it is one"))
	}
	return r, err
}

// Samples is one input of series as it was read.
type Samples struct {
	Name   string
	Format string // in words
	Loaded memory.Loaded
}

// scrape is a /metrics page: the state of one process at one time.
type scrape struct {
	name   string
	at     time.Time
	store  *memory.Store
	loaded memory.Loaded
}

// startTime is when the process of a scrape began, in unix seconds; 0 where it
// does not say.
func (s *scrape) startTime() float64 {
	for _, c := range s.store.Columns("process_start_time_seconds") {
		if len(c.V) > 0 && !math.IsNaN(c.V[0]) {
			return c.V[0]
		}
	}
	return 0
}

// addScrapes moves scrapes to the bundle's store. Those of one process are two
// moments of one instance: they have one start time, or no two say when they began.
func (b *Bundle) addScrapes(scrapes []*scrape) {
	instances := map[float64]string{}
	last := map[string]time.Time{}
	for _, s := range scrapes {
		began := s.startTime()
		instance, known := instances[began]
		if !known {
			instance = s.name
			instances[began] = instance
		}
		if at, again := last[instance]; again && s.at.Sub(at) < time.Second {
			// Copies of files have the time of the copy.
			b.pass(s.name, "a second scrape of the same process with the same time: rates need the files' own times; keep them with cp -p")
			continue
		}
		last[instance] = s.at
		for _, c := range s.store.All() {
			lset := labels.NewBuilder(c.Labels)
			for _, target := range [...][2]string{{model.JobLabel, "scrape"}, {model.InstanceLabel, instance}} {
				if lset.Get(target[0]) == "" {
					lset.Set(target[0], target[1])
				}
			}
			b.Samples.Append(lset.Labels(), c.T, c.V)
		}
		b.Read = append(b.Read, Samples{Name: s.name, Format: memory.Text.String(), Loaded: s.loaded})
	}
}

// BundleSchema is the version of a bundle's format, as its list has it.
const BundleSchema = "contend.bundle/v1"

const (
	// Far above what a bundle's list of some hundred files takes.
	maxManifest = 16 << 20
	// A recording has some dozen.
	maxEvents = 1000
)

// readManifest takes from a bundle's own list what its files do not say: whose
// they are, what could not be taken, what happened meanwhile, and how much faster
// than the clock on the wall its scenario ran.
func (b *Bundle) readManifest(name string, f io.Reader) {
	data, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		b.fail(name, err)
		return
	}
	var m struct {
		Schema      string  `json:"schema"`
		Target      string  `json:"target"`
		ClockFactor float64 `json:"clock_factor"`
		Partial     string  `json:"partial"`
		Taken       []struct {
			File     string `json:"file"`
			Job      string `json:"job"`
			Instance string `json:"instance"`
		} `json:"taken"`
		Processes []struct {
			Folder   string `json:"folder"`
			Job      string `json:"job"`
			Instance string `json:"instance"`
		} `json:"processes"`
		Events []struct {
			At   time.Time `json:"at"`
			Name string    `json:"name"`
			Text string    `json:"text"`
		} `json:"events"`
		Missing []struct {
			What     string `json:"what"`
			Reason   string `json:"reason"`
			Instance string `json:"instance"`
		} `json:"missing"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		b.fail(name, fmt.Errorf("expected a bundle's list in JSON: %w; its files are read all the same", err))
		return
	}
	if m.Schema != BundleSchema {
		b.fail(name, fmt.Errorf("expected the list of a bundle of schema %s, saw %q; its files are read all the same", BundleSchema, m.Schema))
		return
	}
	b.Target = DisplayName(m.Target)
	if m.Partial != "" {
		b.Warnings = append(b.Warnings, "the bundle is partial: "+m.Partial)
	}
	for _, missing := range m.Missing {
		what := missing.What
		if missing.Instance != "" {
			what += " of " + missing.Instance
		}
		b.Warnings = append(b.Warnings, what+" is missing: "+missing.Reason)
	}
	dir := filepath.Dir(name)
	for _, t := range m.Taken {
		if t.Instance != "" {
			b.setInstance(filepath.Join(dir, filepath.FromSlash(t.File)), Instance{dir, t.Job, t.Instance})
		}
	}
	for _, p := range m.Processes {
		if b.folders == nil {
			b.folders = make(map[string]Instance)
		}
		b.folders[filepath.Join(dir, filepath.FromSlash(p.Folder))] = Instance{dir, p.Job, p.Instance}
	}
	for _, e := range m.Events[:min(len(m.Events), maxEvents)] {
		b.Events = append(b.Events, Event(e))
	}
	slices.SortStableFunc(b.Events, func(x, y Event) int { return x.At.Compare(y.At) })
	// A day in nine seconds; and an hour in six weeks. Far below that the hours that
	// detectors look back on are longer than a duration can be.
	const fastest, slowest = 1e4, 1e-3
	if f := m.ClockFactor; f != 0 && !(f >= slowest && f <= fastest) {
		b.fail(name, fmt.Errorf("expected a clock factor from %g to %g, or 0 for none, saw %g; its files are read all the same", slowest, fastest, f))
		return
	}
	b.ClockFactor = max(b.ClockFactor, m.ClockFactor)
}

// fileTime is when a file was last written; zero where that is not known.
func fileTime(f *os.File) time.Time {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return time.Time{}
	}
	return info.ModTime()
}

// SeriesOptions are how a bundle's series, or a server's, are looked at.
type SeriesOptions struct {
	// Server, where set, is asked instead of what was read from files.
	Server     series.Source
	ServerName string // for reports, without credentials
	// Since is how long before the end to look at; 0 is all there is of files.
	Since time.Duration
	// Until is the end; zero is now for a server, else the last sample.
	Until time.Time
	// Notes are of how the options came about, for the report.
	Notes []string
	// Collect has the rest; its times are filled in here.
	Collect series.CollectOptions
}

// span is a time in which a file has samples without a gap of hours.
type span struct {
	first, last time.Time
	samples     int
}

// chosen is the span to look at: the last that began by until, where that is
// given, else the one with the most samples.
func chosen(spans []span, until time.Time) span {
	if until.IsZero() {
		return slices.MaxFunc(spans, func(a, b span) int { return a.samples - b.samples })
	}
	in := spans[0]
	for _, s := range spans {
		if !s.first.After(until) {
			in = s
		}
	}
	return in
}

// apart is the gap that makes samples another matter: one stray sample of years
// ago must not make a window of years, in which minutes are nothing.
const apart = 6 * time.Hour

// spans are the times in which the bundle's series have samples, in order.
func (b *Bundle) spans() []span {
	const bucket = time.Hour
	type hour struct {
		first, last int64
		n           int
	}
	hours := map[int64]*hour{}
	for _, c := range b.Samples.All() {
		for i, t := range c.T {
			if math.IsNaN(c.V[i]) {
				continue
			}
			k := t / bucket.Milliseconds()
			h := hours[k]
			if h == nil {
				h = &hour{first: t, last: t}
				hours[k] = h
			}
			h.first, h.last, h.n = min(h.first, t), max(h.last, t), h.n+1
		}
	}
	var out []span
	for _, k := range slices.Sorted(maps.Keys(hours)) {
		h := hours[k]
		first, last := time.UnixMilli(h.first).UTC(), time.UnixMilli(h.last).UTC()
		if n := len(out); n > 0 && h.first-out[n-1].last.UnixMilli() <= apart.Milliseconds() {
			out[n-1].last, out[n-1].samples = last, out[n-1].samples+h.n
			continue
		}
		out = append(out, span{first, last, h.n})
	}
	return out
}

// namesOf names inputs of series in one word.
func namesOf(read []Samples) string {
	switch len(read) {
	case 0:
		return "series"
	case 1:
		return read[0].Name
	}
	return fmt.Sprintf("%s and %d more", read[0].Name, len(read)-1)
}

// ReadSeries finds signals in the series of a bundle, or of a server, and puts
// them in b.Series. Without either it does nothing. What fails is a Failure of
// the bundle; where nothing could be read for it, b.NoSeries says so too.
func (b *Bundle) ReadSeries(ctx context.Context, opt SeriesOptions) {
	source, name, collect := b.window(&opt)
	if source == nil {
		return
	}
	c, err := series.Collect(ctx, source, collect)
	if err == nil {
		err = series.AddRecords(ctx, c.Store, c.Timing, c.From, c.Start, c.End)
	}
	if err != nil {
		b.fail(name, err)
		b.NoSeries = err.Error()
		return
	}
	c.Source = name
	c.Notes = append(c.Notes, opt.Notes...)
	for _, err := range c.Failures {
		b.fail(name, err)
	}
	if server, ok := source.(interface{ Warnings() []string }); ok {
		for _, w := range server.Warnings() {
			c.Notes = append(c.Notes, "the server says: "+w)
		}
	}
	b.Series = c
}

// window decides whose series are looked at, and from when to when.
func (b *Bundle) window(opt *SeriesOptions) (source series.Source, name string, collect series.CollectOptions) {
	collect = opt.Collect
	if collect.Factor == 0 {
		collect.Factor = b.ClockFactor
	}
	collect.End = opt.Until
	switch {
	case opt.Server != nil:
		source, name = opt.Server, opt.ServerName
		if len(b.Read) > 0 {
			b.pass(namesOf(b.Read), "series are asked of the server instead")
		}
		if collect.End.IsZero() {
			collect.End = time.Now()
		}
		collect.Start = collect.End.Add(-opt.Since)
	case b.Samples != nil:
		spans := b.spans()
		if len(spans) == 0 {
			return nil, "", collect
		}
		source, name = b.Samples, namesOf(b.Read)
		in := chosen(spans, opt.Until)
		if len(spans) > 1 {
			b.Warnings = append(b.Warnings, fmt.Sprintf("%s: looked at %s to %s; samples of other times, hours away, are not: --until looks at those",
				name, in.first.Format(time.RFC3339), in.last.Format(time.RFC3339)))
		}
		// Beyond its samples a file has nothing to say.
		if collect.End.IsZero() || collect.End.After(in.last) && !collect.End.Before(in.first) {
			collect.End = in.last
		}
		collect.Start = in.first
		if s := collect.End.Add(-opt.Since); opt.Since > 0 && s.After(in.first) {
			collect.Start = s
		}
		if collect.Start.After(collect.End) {
			collect.Start = collect.End // an end before the first sample: Collect says from when there are any
		}
	}
	if opt.Since > 0 {
		// The span is ours and parses.
		collect.History, _ = series.Timing{Factor: collect.Factor}.Span(series.History)
	}
	return source, name, collect
}
