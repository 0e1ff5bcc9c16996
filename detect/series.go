package detect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series"
)

// SeriesView is one job's canonical series and what its detectors' alerts did
// in the window that is analysed.
type SeriesView struct {
	Job    string
	Canon  *series.Canonical
	alerts map[string]*alerted // by name of the alert
	index  columnIndex         // of all jobs' views together
	gaps   []string            // see holes
}

// alerted is what one alert did for one job.
type alerted struct {
	signal *Signal
	spans  []Span
	held   []promql.Series // by instance: where the condition held
	looked []string        // the look-alikes that excluded what else would have held
}

// Firing is one time an alert fired for a job.
type Firing struct {
	Span
	Signal *Signal
	// Instances are those for which the condition held meanwhile, the longest and then the
	// largest value first.
	Instances []string
	// Worst and At are the largest value among them and when; Instance is whose.
	Worst    float64
	At       time.Time
	Instance string

	held []promql.Series // where the condition held, by instance, also before and after
}

// steps are the times, in ms and ascending, at which the condition held for an instance.
func (f *Firing) steps() []int64 {
	at := StepsOf(f.held)
	from, _ := slices.BinarySearch(at, f.Active.UnixMilli())
	to := len(at)
	if !f.Resolved.IsZero() {
		to, _ = slices.BinarySearch(at, f.Resolved.UnixMilli())
	}
	return at[from:to]
}

// Window is when the condition held, from its first step to its last; an alert goes on for a while.
func (f *Firing) Window() Window { return Window{Start: f.Active.UTC(), End: f.last()} }

// last is the last step at which the condition held.
func (f *Firing) last() time.Time {
	at := f.steps()
	if len(at) == 0 {
		return f.Active.UTC()
	}
	return time.UnixMilli(at[len(at)-1]).UTC()
}

// lasted is how long the condition held, from its first step to its last.
func (f *Firing) lasted(v *SeriesView) time.Duration {
	at := f.steps()
	if len(at) == 0 {
		return 0
	}
	return time.UnixMilli(at[len(at)-1]).Sub(f.Active) + v.Canon.Timing.Interval
}

// heldAt is for how many instances the condition held at a step.
func (f *Firing) heldAt(t time.Time) int {
	n := 0
	for _, s := range f.held {
		if slices.ContainsFunc(s.Floats, func(p promql.FPoint) bool { return p.T == t.UnixMilli() }) {
			n++
		}
	}
	return n
}

// End is when it was resolved, else the end of the window.
func (f *Firing) End(v *SeriesView) time.Time {
	if f.Resolved.IsZero() {
		return v.Canon.End
	}
	return f.Resolved
}

// evaluateSignals runs the alerts of detectors over canonical series (stage two)
// and returns a view for each job, in order. A condition that cannot be
// evaluated is an error: it is ours.
func evaluateSignals(ctx context.Context, c *series.Canonical, detectors []*Detector) ([]*SeriesView, error) {
	var views []*SeriesView
	byJob := map[string]*SeriesView{}
	index := columnIndex{}
	for _, job := range c.Jobs {
		v := &SeriesView{Job: job, Canon: c, alerts: map[string]*alerted{}, index: index}
		views, byJob[job] = append(views, v), v
	}
	var signals []*Signal
	for _, d := range detectors {
		for i := range d.Signals {
			signals = append(signals, &d.Signals[i])
		}
	}
	var mu sync.Mutex // of the views' alerts
	var tasks []func() error
	for _, s := range signals {
		tasks = append(tasks, func() error {
			held, looked, err := evaluateOne(ctx, c, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Alert, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for job, v := range byJob {
				v.alerts[s.Alert] = &alerted{signal: s, held: held[job], looked: looked[job]}
			}
			return nil
		})
	}
	if err := series.TwoAtOnce(tasks); err != nil {
		return nil, err
	}
	for _, v := range views {
		for _, a := range v.alerts {
			hold, keep := v.span(a.signal.For), v.span(a.signal.KeepFiring)
			if v.moment() {
				hold = 0
			}
			a.spans = Spans(StepsOf(a.held), c.Start, c.End, c.Timing.Interval, hold, keep)
		}
	}
	return views, nil
}

// Window is the time that rates and averages are of.
func (v *SeriesView) Window() time.Duration { return v.span("4x,1m") }

// moment reports whether the window is that of a scrape or two: nothing can be
// seen to last in it, so conditions need not.
func (v *SeriesView) moment() bool {
	return v.Canon.End.Sub(v.Canon.Start) <= 2*v.Canon.Timing.Interval
}

// span is a duration of a signal, which Validate has checked; "" is none.
func (v *SeriesView) span(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, _ := v.Canon.Timing.Span(text)
	return d
}

// evaluateOne returns, by job, where the condition of s held, and which
// look-alikes excluded what would have held without them.
func evaluateOne(ctx context.Context, c *series.Canonical, s *Signal) (held map[string][]promql.Series, looked map[string][]string, err error) {
	p := &plan{ctx, c}
	all := scope{store: c.Store, start: c.Start, end: c.End}
	bare, err := p.run(s.Expr, all)
	if err != nil || len(bare) == 0 {
		return nil, nil, err // nothing to exclude from: the usual case, and the cheap one
	}
	whole := bare
	looked = map[string][]string{}
	in := p.narrow(all, bare)
	for _, l := range s.Unless {
		excluded, err := p.run(l.Expr, in)
		if err != nil {
			return nil, nil, err
		}
		for job := range byJob(filter(bare, excluded, keyOf, true)) {
			looked[job] = append(looked[job], l.Name)
		}
		whole = filter(whole, excluded, keyOf, false)
	}
	return byJob(whole), looked, nil
}

func byJob(m promql.Matrix) map[string][]promql.Series {
	out := map[string][]promql.Series{}
	for _, s := range m {
		job := s.Metric.Get(model.JobLabel)
		out[job] = append(out[job], s)
	}
	return out
}

// Firings are the times an alert fired, in order, and one for which it is still
// pending at the end of the window: what has just begun must not look ruled out.
func (v *SeriesView) Firings(alert string) []Firing {
	a := v.alerts[alert]
	if a == nil {
		return nil
	}
	var out []Firing
	for _, s := range a.spans {
		if s.Fired.IsZero() && !s.Resolved.IsZero() {
			continue
		}
		f := Firing{Span: s, Signal: a.signal, held: a.held}
		// At the very end, series that were scraped a moment apart end a step apart.
		if s.Fired.IsZero() && f.lasted(v) < 2*v.Canon.Timing.Interval {
			continue
		}
		f.gather(a.held, f.End(v))
		out = append(out, f)
	}
	return out
}

// gather fills in the instances for which the condition held until end.
func (f *Firing) gather(held []promql.Series, end time.Time) {
	type of struct {
		instance string
		steps    int
		worst    float64
	}
	var all []of
	f.Worst = math.Inf(-1)
	for _, s := range held {
		o := of{instance: s.Metric.Get(model.InstanceLabel), worst: math.Inf(-1)}
		for _, p := range s.Floats {
			if p.T < f.Active.UnixMilli() || p.T > end.UnixMilli() {
				continue
			}
			o.steps++
			o.worst = max(o.worst, p.F)
			if p.F > f.Worst {
				f.Worst, f.At, f.Instance = p.F, time.UnixMilli(p.T).UTC(), o.instance
			}
		}
		if o.steps > 0 {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b of) int {
		return cmp.Or(cmp.Compare(b.steps, a.steps), cmp.Compare(b.worst, a.worst), cmp.Compare(a.instance, b.instance))
	})
	for _, o := range all {
		f.Instances = append(f.Instances, o.instance)
	}
}

// LookedLike are the look-alikes for which alert did not fire although the
// rest of its condition held.
func (v *SeriesView) LookedLike(alert string) []string {
	if a := v.alerts[alert]; a != nil {
		return a.looked
	}
	return nil
}

// Has reports whether the job has samples of a signal in the window.
func (v *SeriesView) Has(signal string) bool {
	return slices.ContainsFunc(v.columns(signal), func(c column) bool {
		return slices.ContainsFunc(c.within(v.Canon.Start, v.Canon.End).V, func(x float64) bool { return !math.IsNaN(x) })
	})
}

func (v *SeriesView) columns(signal string) []column {
	return v.index.of(v.Canon, signal)[v.Job]
}

// columnIndex is every job's samples of a signal, so that many jobs do not each
// go through the series of all.
type columnIndex map[string]map[string][]column // by signal and job

func (x columnIndex) of(c *series.Canonical, signal string) map[string][]column {
	jobs, ok := x[signal]
	if !ok {
		jobs = map[string][]column{}
		for _, col := range c.Store.Columns("contend:" + signal) {
			job := col.Labels.Get(model.JobLabel)
			jobs[job] = append(jobs[job], column{col.Labels.Get(model.InstanceLabel), col.T, col.V})
		}
		x[signal] = jobs
	}
	return jobs
}

// column is one instance's samples of a signal.
type column struct {
	instance string
	T        []int64 // ms, ascending
	V        []float64
}

// within is the part of a column from start to end.
func (c column) within(start, end time.Time) column {
	from, _ := slices.BinarySearch(c.T, start.UnixMilli())
	to, _ := slices.BinarySearch(c.T, end.UnixMilli()+1)
	to = max(to, from)
	return column{c.instance, c.T[from:to], c.V[from:to]}
}

// at is the value at a step; ok is false where there is none.
func (c *column) at(t time.Time) (float64, bool) {
	i, found := slices.BinarySearch(c.T, t.UnixMilli())
	if !found || math.IsNaN(c.V[i]) {
		return 0, false
	}
	return c.V[i], true
}

// Of is the value of a signal or record for one instance at a step.
func (v *SeriesView) Of(signal, instance string, t time.Time) (float64, bool) {
	for _, c := range v.columns(signal) {
		if c.instance == instance {
			return c.at(t)
		}
	}
	return 0, false
}

// Sum is the sum of a signal at a step over instances, all of the job's where none is named.
func (v *SeriesView) Sum(signal string, t time.Time, instances ...string) (sum float64, ok bool) {
	for _, c := range v.columns(signal) {
		if len(instances) > 0 && !slices.Contains(instances, c.instance) {
			continue
		}
		if x, there := c.at(t); there {
			sum, ok = sum+x, true
		}
	}
	return sum, ok
}

// InstancesAt is how many instances have a sample of a signal at a step.
func (v *SeriesView) InstancesAt(signal string, t time.Time) int {
	n := 0
	for _, c := range v.columns(signal) {
		if _, there := c.at(t); there {
			n++
		}
	}
	return n
}

// JobValue is the value at a step of a record that is of the job as a whole.
func (v *SeriesView) JobValue(record string, t time.Time) (float64, bool) {
	return v.Of(record, "", t)
}

// Highest is the largest value of a signal or record of any instance in the
// window; 0 where there is none.
func (v *SeriesView) Highest(signal string) float64 {
	most := 0.0
	for _, c := range v.columns(signal) {
		for _, x := range c.within(v.Canon.Start, v.Canon.End).V {
			if x > most { // never so of a stale marker
				most = x
			}
		}
	}
	return most
}

// HighestSum is the largest sum of a signal over the instances in the window.
func (v *SeriesView) HighestSum(signal string) float64 {
	_, sum := v.peak(signal, v.Canon.Start, v.Canon.End)
	return sum
}

// peak is the step from start to end at which a signal's sum over the job's
// instances is largest, and that sum.
func (v *SeriesView) peak(signal string, start, end time.Time) (at time.Time, sum float64) {
	sums := map[int64]float64{}
	for _, c := range v.columns(signal) {
		c = c.within(start, end)
		for i, t := range c.T {
			if !math.IsNaN(c.V[i]) {
				sums[t] += c.V[i]
			}
		}
	}
	at = start
	for t, x := range sums {
		if x > sum || x == sum && t < at.UnixMilli() {
			sum, at = x, time.UnixMilli(t).UTC()
		}
	}
	return at, sum
}
