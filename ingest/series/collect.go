package series

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series/memory"
)

const (
	// Three days at 15 s. How many samples that may be is bounded apart.
	maxSteps = 20_000
	// Queries at a time: one waits for the server while another is read. A server
	// in an incident has more to do than to answer us.
	queriesAtOnce = 2
	// A server that let so many queries time out will let the others too, and
	// somebody is waiting.
	patience = 2
	// Of all signals together: 800 MB, what a query of Prometheus may take by
	// default. 2,500 instances with 20 signals have as many in 4 hours at 15 s.
	maxPoints = 50_000_000
	// Nothing that a service measures is larger: an exabyte, or 30 billion
	// years. Sums of such values stay finite.
	maxValue = 1e18
)

// CollectOptions are the choices of one Collect.
type CollectOptions struct {
	// Selector are matchers of the service's series, with braces or without:
	// job="gateway". "" is all series.
	Selector string
	// Start and End are the window to look at.
	Start, End time.Time
	// History is how far before Start series are read, for baselines.
	History time.Duration
	// Overrides are PromQL by signal, instead of the presets. A number is the value of
	// every instance that is seen. The user's matchers are added where the
	// expression has none for the label. Of the result's labels job and
	// instance stay: quantities that add up (requests, cores, bytes, rates) are
	// summed, of durations, shares and times the largest counts, of limits the smallest.
	Overrides map[string]string
	// HealthRoutes is an anchored regular expression of further health routes.
	HealthRoutes string
	// Factor is that of Timing.
	Factor float64
	// Interval is between two scrapes; 0 asks the source.
	Interval time.Duration
	// Progress, where set, is told what is being asked now. Calls do not overlap.
	Progress func(string)
	// Memo, where set, is what one who collects again and again need not do again.
	Memo *Memo

	maxPoints int // 0 is maxPoints; tests set less
}

// Canonical is what Collect found: canonical series, and how they came about.
type Canonical struct {
	// Source is what the series are called in reports. Collect leaves it to the caller.
	Source string
	Store  *memory.Store // contend:<signal>, each step from From to End
	// From is where the series begin, Start and End are the window, all on the grid of
	// Timing.Interval, which divides the time since 1970.
	From, Start, End time.Time
	Timing           Timing
	Selector         string              // without braces
	Matches          []Match             // one for each signal, in the table's order
	Jobs             []string            // with a value from Start to End, sorted
	Instances        map[string][]string // of each job, sorted
	Notes            []string            // what was odd
	Warnings         []string            // what the user asked for and did not get
	Failures         []error             // queries that failed
}

// Match is what became of one signal.
type Match struct {
	Signal    string
	Matched   string   // the presets and metrics that it was read from; "" where none
	Metrics   []string // sorted
	Instances int      // with a value from Start to End
	Missing   string   // why there are none; "" otherwise
	Hint      string   // how to switch it on, where it is missing
	Near      []string // metrics that no preset knows and that may be it, by their names
}

// Collect finds the signals of a source and stores them as canonical series.
// A signal that is not there, or whose query fails, is a Match with the reason.
// Errors are of what all signals need: a selector that is none or that
// selects nothing, a window without data, a source of which no query succeeds.
func Collect(ctx context.Context, src Source, opt CollectOptions) (*Canonical, error) {
	matchers, selector, err := parseSelector(opt.Selector)
	if err != nil {
		return nil, err
	}
	if opt.End.Before(opt.Start) {
		return nil, fmt.Errorf("expected a window that ends after it starts, saw %s to %s", clock(opt.Start), clock(opt.End))
	}
	table := Signals()
	for _, name := range slices.Sorted(maps.Keys(opt.Overrides)) {
		if err := checkSignal(name, table); err != nil {
			return nil, err
		}
	}
	c := &collector{
		src: src, opt: opt, table: table,
		Canonical: &Canonical{Store: memory.New(), Selector: selector, Instances: map[string][]string{}},
	}
	c.stage.Selector, c.stage.HealthRoutes = matchers, opt.HealthRoutes
	if err := c.survey(ctx); err != nil {
		return nil, err
	}
	if err := c.collect(ctx); err != nil {
		return nil, err
	}
	return c.Canonical, nil
}

// collector is the state of one Collect.
type collector struct {
	*Canonical
	src       Source
	opt       CollectOptions
	table     []Signal
	stage     Stage
	slow      []Stage // for the jobs that are scraped less often than the others
	oneScrape bool
	points    atomic.Int64 // of all signals so far
}

// found is one signal on its way.
type found struct {
	Match
	given      bool
	constant   *float64
	matrix     promql.Matrix
	impossible int // samples that were dropped for their size
	err        error
}

// take is a query's result on its way into memory.
func (c *collector) take(f *found, m promql.Matrix) error {
	var impossible int
	f.matrix, impossible = finite(m)
	f.impossible += impossible
	points := 0
	for _, s := range f.matrix {
		points += len(s.Floats)
	}
	most := cmp.Or(c.opt.maxPoints, maxPoints)
	if c.points.Add(int64(points)) > int64(most) {
		return fmt.Errorf("expected at most %d values of all signals, saw more at signal %s: choose the series of one service with --selector, or a shorter window with --since", most, f.Signal)
	}
	return nil
}

func (c *collector) collect(ctx context.Context) error {
	all := make([]found, len(c.table))
	queries := make([]string, len(c.table))
	asked, failed := 0, 0
	for i, s := range c.table {
		var err error
		if queries[i], err = c.prepare(ctx, s, &all[i]); err != nil {
			return err
		}
		if queries[i] != "" {
			asked++
		}
	}
	if err := c.ask(ctx, queries, all); err != nil {
		return err
	}
	for i, s := range c.table {
		if err := all[i].err; err != nil {
			failed++
			c.Failures = append(c.Failures, fmt.Errorf("signal %s: %w", s.Name, err))
		}
	}
	if asked > 0 && failed == asked {
		return fmt.Errorf("none of %d queries succeeded, the first: %w", asked, c.Failures[len(c.Failures)-failed])
	}
	c.identify(ctx, all)
	if err := c.constants(all); err != nil {
		return err
	}
	for i, s := range c.table {
		f := &all[i]
		if err := c.derive(ctx, s, f); err != nil {
			return err
		}
		if f.impossible > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("signal %s: dropped %d values larger than %g, which nothing measures", s.Name, f.impossible, float64(maxValue)))
		}
		c.count(f)
		if len(f.matrix) > 0 {
			c.Store.AppendMatrix(s.Metric(), f.matrix, c.Timing.Interval)
			c.stage.Present.Signals = append(c.stage.Present.Signals, s.Name)
		}
		c.explain(ctx, s, f)
		if f.given && f.Missing != "" {
			c.Warnings = append(c.Warnings, fmt.Sprintf("signal %s as it is given in contend.yaml or with --signal has no value (%s); without it, its presets are looked for", s.Name, f.Missing))
		}
		c.Matches = append(c.Matches, f.Match)
		f.matrix = nil // the store has it
	}
	for job := range c.Instances {
		c.Jobs = append(c.Jobs, job)
		slices.Sort(c.Instances[job])
		c.Instances[job] = slices.Compact(c.Instances[job])
	}
	slices.Sort(c.Jobs)
	if len(c.Jobs) == 0 {
		return c.nothingKnown()
	}
	return nil
}

// prepare decides where a signal comes from. The query is "" where there is none to send.
func (c *collector) prepare(ctx context.Context, s Signal, f *found) (query string, err error) {
	f.Signal = s.Name
	if text, ok := c.opt.Overrides[s.Name]; ok {
		o, err := parseOverride(s, text, c.stage)
		if err != nil {
			return "", err
		}
		f.given, f.Matched, f.Metrics, f.constant = true, "given: "+strings.TrimSpace(text), o.metrics, o.constant
		return o.query, nil
	}
	e, err := c.opt.Memo.expression(c.stage, s)
	if err != nil {
		return "", err
	}
	f.Matched, f.Metrics = strings.Join(e.Sources, "; "), e.Metrics
	if unused := append(e.Unused, c.hidden(ctx, e.Choices)...); len(unused) > 0 {
		read := slices.DeleteFunc(slices.Clone(e.Metrics), func(m string) bool { return slices.Contains(unused, histogram(m)) })
		c.Notes = append(c.Notes, fmt.Sprintf("signal %s: not read beside %s: %s; choose with --signal %s='…'",
			s.Name, strings.Join(read, ", "), strings.Join(unused, ", "), s.Name))
	}
	return c.withSlow(s, e.Direct)
}

// withSlow is a signal's query with longer windows for the jobs that need them.
// What exporters say has windows of its own.
func (c *collector) withSlow(s Signal, direct string) (string, error) {
	if direct == "" {
		return "", nil
	}
	s.Presets = slices.DeleteFunc(slices.Clone(s.Presets), Preset.readsExporters)
	var queries []string
	for _, slow := range c.slow {
		e, err := c.opt.Memo.expression(slow, s)
		if err != nil {
			return "", err
		}
		if e.Direct != "" {
			queries = append(queries, e.Direct)
		}
	}
	return fallback(append(queries, direct)), nil
}

// hidden are the metrics among choices that some instance has beside one that
// counts before them.
func (c *collector) hidden(ctx context.Context, choices [][]string) []string {
	var out []string
	for _, names := range choices {
		counts := func(names []string) string {
			return "count" + by + "({" + joinMatchers(fmt.Sprintf("__name__=~%q", quoted(names)), c.Selector) + "})"
		}
		for i := 1; i < len(names); i++ {
			m, err := c.glance(ctx, counts(names[i:i+1])+" and "+counts(names[:i]))
			if err == nil && len(m) > 0 { // a query that fails would tell no more than the signal's own
				out = append(out, histogram(names[i]))
			}
		}
	}
	return out
}

// histogram is a metric's name as people know it.
func histogram(metric string) string {
	return strings.TrimSuffix(strings.TrimSuffix(metric, "_sum"), "_count")
}

// glance evaluates a query about which series there are at a few times in the window.
func (c *collector) glance(ctx context.Context, query string) (promql.Matrix, error) {
	return c.src.Range(ctx, query, c.opt.Start, c.opt.End, max(c.opt.End.Sub(c.opt.Start)/20, time.Second).Truncate(time.Millisecond))
}

// ask sends the queries, a few at a time. It fails where results are too large
// for memory; a query that fails is the signal's own error.
func (c *collector) ask(parent context.Context, queries []string, all []found) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	var late atomic.Int32
	for range queriesAtOnce {
		workers.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					continue
				}
				if late.Load() >= patience {
					all[i].err = fmt.Errorf("not asked: %d queries before it had no answer in time", patience)
					continue
				}
				m, err := c.src.Range(ctx, queries[i], c.From, c.End, c.Timing.Interval)
				all[i].err = err
				if errors.Is(err, context.DeadlineExceeded) {
					late.Add(1)
				}
				if err := c.take(&all[i], m); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i, q := range queries {
		if q == "" || ctx.Err() != nil {
			continue
		}
		c.progress(fmt.Sprintf("asking for %s (%d of %d)", c.table[i].Name, i+1, len(queries)))
		next <- i
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

func (c *collector) progress(text string) {
	if c.opt.Progress != nil {
		c.opt.Progress(text)
	}
}

// finite drops samples that are NaN, which every comparison would be wrong
// about, or larger than anything measured, and puts series in the order of
// their labels. impossible counts the large ones.
func finite(m promql.Matrix) (out promql.Matrix, impossible int) {
	out = make(promql.Matrix, 0, len(m))
	for _, s := range m {
		s.Floats = slices.DeleteFunc(s.Floats, func(p promql.FPoint) bool {
			large := math.Abs(p.F) > maxValue
			if large {
				impossible++
			}
			return large || math.IsNaN(p.F)
		})
		s.Histograms = nil
		if len(s.Floats) > 0 {
			out = append(out, s)
		}
	}
	sortSeries(out)
	return out, impossible
}

func sortSeries(m promql.Matrix) {
	slices.SortFunc(m, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
}

// constants gives signals that are a number that value for each instance that
// any other signal saw, from when it was first seen to when it was last.
func (c *collector) constants(all []found) error {
	type life struct {
		labels      labels.Labels
		first, last int64
	}
	seen := map[string]*life{}
	for _, f := range all {
		for _, s := range f.matrix {
			key := s.Metric.String()
			first, last := s.Floats[0].T, s.Floats[len(s.Floats)-1].T
			l := seen[key]
			if l == nil {
				l = &life{s.Metric, first, last}
				seen[key] = l
			}
			l.first, l.last = min(l.first, first), max(l.last, last)
		}
	}
	for i := range all {
		if all[i].constant == nil {
			continue
		}
		var m promql.Matrix
		for _, l := range seen {
			s := promql.Series{Metric: l.labels}
			for t := l.first; t <= l.last; t += c.Timing.Interval.Milliseconds() {
				s.Floats = append(s.Floats, promql.FPoint{T: t, F: *all[i].constant})
			}
			m = append(m, s)
		}
		if err := c.take(&all[i], m); err != nil {
			return err
		}
	}
	return nil
}

// derive adds what presets read from canonical series that are stored by now.
func (c *collector) derive(ctx context.Context, s Signal, f *found) error {
	if f.given || f.err != nil || !slices.ContainsFunc(s.Presets, func(p Preset) bool { return p.Derived }) {
		return nil
	}
	e, err := c.opt.Memo.expression(c.stage, s)
	if err != nil || e.Derived == "" {
		return nil // the same error has stopped prepare
	}
	m, err := c.Store.Range(ctx, e.Derived, c.From, c.End, c.Timing.Interval)
	if err != nil {
		f.err = err
		c.Failures = append(c.Failures, fmt.Errorf("signal %s: %w", s.Name, err))
		return nil
	}
	direct := f.matrix
	if err := c.take(f, m); err != nil {
		return err
	}
	f.matrix = merge(direct, f.matrix)
	if len(f.matrix) > 0 {
		f.Matched, f.Metrics = strings.Join(e.Sources, "; "), e.Metrics
	}
	return nil
}

// merge is a or on (job, instance) b.
func merge(a, b promql.Matrix) promql.Matrix {
	at := map[string]int{}
	for i, s := range a {
		at[s.Metric.String()] = i
	}
	for _, s := range b {
		i, ok := at[s.Metric.String()]
		if !ok {
			a = append(a, s)
			continue
		}
		points := append(slices.Clone(a[i].Floats), s.Floats...)
		slices.SortStableFunc(points, func(x, y promql.FPoint) int { return cmp.Compare(x.T, y.T) })
		a[i].Floats = slices.CompactFunc(points, func(x, y promql.FPoint) bool { return x.T == y.T })
	}
	sortSeries(a)
	return a
}

// count notes the instances that a signal has in the window.
func (c *collector) count(f *found) {
	start := c.Start.UnixMilli()
	for _, s := range f.matrix {
		if s.Floats[len(s.Floats)-1].T < start {
			continue
		}
		f.Instances++
		job := s.Metric.Get("job")
		c.Instances[job] = append(c.Instances[job], s.Metric.Get("instance"))
	}
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
