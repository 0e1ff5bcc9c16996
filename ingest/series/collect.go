package series

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series/memory"
)

const (
	// A day at 15 s. 1,000 instances with 20 signals are 2 GB then.
	maxSteps = 5760
	// What is assumed of a single scrape, which shows none: Prometheus' own
	// example has it, and most servers do.
	usualInterval = 15 * time.Second
	// Queries at a time: one waits for the server while another is read. A server
	// in an incident has more to do than to answer us.
	queriesAtOnce = 2
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
	oneScrape bool
}

// survey finds the names that are there, and the grid.
func (c *collector) survey(ctx context.Context) error {
	c.progress("looking for metrics")
	from := c.opt.Start.Add(-c.opt.History)
	own, err := c.src.Names(ctx, c.Selector, from, c.opt.End)
	if err != nil {
		return fmt.Errorf("listing metrics: %w", err)
	}
	if len(own) == 0 {
		return c.diagnose(ctx, from)
	}
	foreign := own
	if c.Selector != "" {
		// What exporters say of the service's pods is not among its own series.
		if foreign, err = c.src.Names(ctx, `__name__=~"(`+strings.Join(exporters, "|")+`).*"`, from, c.opt.End); err != nil {
			c.Failures = append(c.Failures, fmt.Errorf("listing metrics of cAdvisor, kube-state-metrics and the kubelet: %w", err))
		}
	}
	c.stage.Present = Present{Own: sorted(own), Foreign: sorted(foreign), Labels: c.labels(ctx, from)}

	interval := c.opt.Interval
	if interval <= 0 {
		if interval, err = c.src.Interval(ctx, c.Selector, c.opt.Start, c.opt.End); err != nil {
			return fmt.Errorf("looking for the scrape interval: %w", err)
		}
		if interval <= 0 {
			// A window shorter than the interval shows one scrape of many.
			if interval, err = c.src.Interval(ctx, c.Selector, from, c.opt.End); err != nil {
				return fmt.Errorf("looking for the scrape interval: %w", err)
			}
		}
		c.oneScrape = interval <= 0
		if c.oneScrape {
			interval = usualInterval
			c.Notes = append(c.Notes, fmt.Sprintf("one scrape: levels alone can be seen, as if scraped each %s", interval))
		}
	}
	c.grid(from, interval)
	return nil
}

// labels finds which metrics have the labels that presets look for in several
// places. An expression then reads the one that is there, which takes a third
// of the time. Where a source fails to say, it reads them all.
func (c *collector) labels(ctx context.Context, from time.Time) map[string][]string {
	out := map[string][]string{}
	for _, label := range slices.Concat(web, codes) {
		selector := label + `!=""`
		if c.Selector != "" {
			selector = c.Selector + "," + selector
		}
		if names, err := c.src.Names(ctx, selector, from, c.opt.End); err == nil {
			out[label] = sorted(names)
		}
	}
	return out
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// grid sets the steps: multiples of the interval, or of a multiple of it where
// there would be too many. It covers the whole window, so that a scrape at its very end counts.
func (c *collector) grid(from time.Time, interval time.Duration) {
	step := interval.Truncate(time.Millisecond)
	step = max(step, time.Millisecond)
	if n := c.opt.End.Sub(from)/step + 1; n > maxSteps {
		step *= (n + maxSteps - 1) / maxSteps
		c.Notes = append(c.Notes, fmt.Sprintf("%s at a scrape interval of %s are %d steps: read each %s, at most %d steps; for all of them choose a shorter window",
			c.opt.End.Sub(from).Round(time.Second), interval, n, step, maxSteps))
	}
	// Windows grow with the step, else what lies between two would not be seen.
	c.Timing = Timing{Interval: step, Factor: c.opt.Factor}
	c.stage.Timing = c.Timing
	if first, last, ok := extent(c.src); ok {
		// Each step sees all scrapes that are no more than this before it.
		c.stage.Timing.longest = last.Sub(first) + step
	}
	down := func(t time.Time) time.Time {
		return time.UnixMilli(t.UnixMilli() - t.UnixMilli()%step.Milliseconds()).UTC()
	}
	c.From, c.Start, c.End = down(from), down(c.opt.Start), down(c.opt.End.Add(step-time.Millisecond))
	c.Store.SetLookback(c.Timing.Lookback())
}

// extent is the time of the first and the last sample, of sources that know it: files.
func extent(src Source) (first, last time.Time, ok bool) {
	e, ok := src.(interface {
		Extent() (start, end time.Time, ok bool)
	})
	if !ok {
		return time.Time{}, time.Time{}, false
	}
	return e.Extent()
}

// found is one signal on its way.
type found struct {
	Match
	constant *float64
	matrix   promql.Matrix
	err      error
}

func (c *collector) collect(ctx context.Context) error {
	all := make([]found, len(c.table))
	queries := make([]string, len(c.table))
	asked, failed := 0, 0
	for i, s := range c.table {
		var err error
		if queries[i], err = c.prepare(s, &all[i]); err != nil {
			return err
		}
		if queries[i] != "" {
			asked++
		}
	}
	c.ask(ctx, queries, all)
	if err := ctx.Err(); err != nil {
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
	c.constants(all)
	for i, s := range c.table {
		f := &all[i]
		c.derive(ctx, s, f)
		c.count(f)
		if len(f.matrix) > 0 {
			c.Store.AppendMatrix(s.Metric(), f.matrix, c.Timing.Interval)
			c.stage.Present.Signals = append(c.stage.Present.Signals, s.Name)
		}
		c.explain(s, f)
		c.Matches = append(c.Matches, f.Match)
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
func (c *collector) prepare(s Signal, f *found) (query string, err error) {
	f.Signal = s.Name
	if text, ok := c.opt.Overrides[s.Name]; ok {
		o, err := parseOverride(s, text, c.stage)
		if err != nil {
			return "", err
		}
		f.Matched, f.Metrics, f.constant = "given: "+strings.TrimSpace(text), o.metrics, o.constant
		return o.query, nil
	}
	e, err := c.stage.Expression(s)
	if err != nil {
		return "", err
	}
	f.Matched, f.Metrics = strings.Join(e.Sources, "; "), e.Metrics
	if len(e.Unused) > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("signal %s: not read beside %s: %s; choose with --signal %s='…'",
			s.Name, strings.Join(e.Metrics, ", "), strings.Join(e.Unused, ", "), s.Name))
	}
	return e.Direct, nil
}

// ask sends the queries, a few at a time.
func (c *collector) ask(ctx context.Context, queries []string, all []found) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range queriesAtOnce {
		workers.Go(func() {
			for i := range next {
				m, err := c.src.Range(ctx, queries[i], c.From, c.End, c.Timing.Interval)
				all[i].matrix, all[i].err = finite(m), err
			}
		})
	}
	for i, q := range queries {
		if q == "" {
			continue
		}
		c.progress(fmt.Sprintf("asking for %s (%d of %d)", c.table[i].Name, i+1, len(queries)))
		next <- i
	}
	close(next)
	workers.Wait()
}

func (c *collector) progress(text string) {
	if c.opt.Progress != nil {
		c.opt.Progress(text)
	}
}

// finite drops samples that are NaN or infinite, which every comparison would
// be wrong about, and puts series in the order of their labels.
func finite(m promql.Matrix) promql.Matrix {
	out := make(promql.Matrix, 0, len(m))
	for _, s := range m {
		s.Floats = slices.DeleteFunc(s.Floats, func(p promql.FPoint) bool { return math.IsNaN(p.F) || math.IsInf(p.F, 0) })
		s.Histograms = nil
		if len(s.Floats) > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return out
}

// constants gives signals that are a number that value for each instance that
// any other signal saw, from when it was first seen to when it was last.
func (c *collector) constants(all []found) {
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
		all[i].matrix = finite(m)
	}
}

// derive adds what presets read from canonical series that are stored by now.
func (c *collector) derive(ctx context.Context, s Signal, f *found) {
	_, given := c.opt.Overrides[s.Name]
	if given || f.err != nil || !slices.ContainsFunc(s.Presets, func(p Preset) bool { return p.Derived }) {
		return
	}
	e, err := c.stage.Expression(s)
	if err != nil || e.Derived == "" {
		return // the same error has stopped prepare
	}
	m, err := c.Store.Range(ctx, e.Derived, c.From, c.End, c.Timing.Interval)
	if err != nil {
		f.err = err
		c.Failures = append(c.Failures, fmt.Errorf("signal %s: %w", s.Name, err))
		return
	}
	direct := f.matrix
	f.matrix = merge(direct, finite(m))
	if len(f.matrix) > 0 {
		f.Matched, f.Metrics = strings.Join(e.Sources, "; "), e.Metrics
	}
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
	return finite(a)
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

// explain says why a signal has no instances.
func (c *collector) explain(s Signal, f *found) {
	if f.Instances > 0 {
		return
	}
	f.Hint = s.Hint
	switch {
	case f.err != nil:
		f.Missing = "query failed: " + f.err.Error()
	case f.constant != nil:
		f.Missing = "no instance seen that the number could be of"
	case f.Matched == "":
		f.Missing = "no such series: looked for " + lookedFor(s)
		f.Near = resembling(s.Name, c.stage.Present.Own)
	case len(f.matrix) > 0:
		f.Missing = fmt.Sprintf("no value from %s to %s, only before it", clock(c.Start), clock(c.End))
	case c.oneScrape:
		f.Missing = "one scrape: rates need two"
	case slices.ContainsFunc(f.Metrics, func(m string) bool { return isForeign(m, exporters) }):
		f.Missing = fmt.Sprintf("no value from %s to %s in %s: no series up or target_info of the service has the labels namespace and pod to join them by",
			clock(c.From), clock(c.End), strings.Join(f.Metrics, ", "))
	default:
		f.Missing = fmt.Sprintf("no value from %s to %s in %s", clock(c.From), clock(c.End), strings.Join(f.Metrics, ", "))
	}
	f.Matched = ""
}

// lookedFor names a signal's metrics, the first of each preset and at most 6.
func lookedFor(s Signal) string {
	const most = 6
	var names []string
	for _, p := range s.Presets {
		name := ""
		if len(p.Known) > 0 {
			end := suffixes.FindStringSubmatch(p.Expr)
			name = p.Known[0] + end[1]
		} else if expr, err := (Timing{Interval: time.Second}).Expand(p.Expr); err == nil {
			if parsed, err := promQL.ParseExpr(expr); err == nil {
				name = firstMetric(parsed)
			}
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
