// Package backtest replays rule files over recorded series: when would each
// alert have fired, for how long, on what, and how often would somebody have
// been paged.
package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/ingest/series/promapi"
)

const (
	// Prometheus' global evaluation_interval, of a source that has no samples to
	// tell how often it was scraped.
	usualInterval = time.Minute
	// A chunk of time is evaluated rule by rule: at most so many steps, which is
	// 8 hours at 15 s and one request of package promapi, and so many that the
	// samples of all records stay below chunkSamples (16 bytes each, 80 MB).
	firstSteps, leastSteps, mostSteps = 240, 60, 2000
	chunkSamples                      = 5_000_000
	// A rule that fails is asked for in halves to find the evaluations that do.
	maxFailures = 16
	// Glances at a window to find where its data begins.
	glances = 200
	// Steps of a replay: a year at 15 s.
	maxSteps = 2_200_000
)

// Options are the choices of one Run.
type Options struct {
	// Start and End are the time to replay, as if the alerting rules had been
	// loaded at Start; what they record was there before.
	Start, End time.Time
	// Interval is that of groups which have none; 0 is the usual time between two
	// scrapes of the source.
	Interval time.Duration
	// Absent are alerts that are not among the rules, since nothing they read is
	// there: the result has them as what could not fire.
	Absent []Absent
	// Lookback is how long a sample stands for the present where its series does not
	// end: --query.lookback-delta of the server that is to evaluate the rules, or
	// did; 0 is its default, StandardLookback.
	Lookback time.Duration
	// GroupBy are labels by which what fires at a time is one page; none is by job,
	// and by alertname where there is no job.
	GroupBy []string
	// Progress, where set, is told how far the replay is. Calls may overlap.
	Progress func(string)

	chunk int64 // steps at a time; 0 is by the number of samples. Tests set it
}

// Absent is an alert that can not fire.
type Absent struct {
	Alert, Group, Severity string
	Needs                  []string // what it would read
}

// static are the labels that its rule would have, as far as they are known.
func (a *Absent) static() map[string]string {
	return map[string]string{severityLabel: a.Severity}
}

// StandardLookback is the default of Prometheus' --query.lookback-delta.
const StandardLookback = 5 * time.Minute

// replay is the state of one Run.
type replay struct {
	ctx      context.Context
	src      Source
	groups   []Group
	opt      Options
	lookback time.Duration
	rules    []*rule
	levels   [][]unit
	// keep is how far before an evaluation what is recorded under a name is read.
	keep     map[string]time.Duration
	local    []selector      // what rules read beside records
	recorded map[string]bool // the names that rules write
	matched  map[string]bool // by a selector's text
	store    *memory.Store
	fine     time.Duration  // the shortest step
	could    map[*rule]bool // see possible; of a replay that is over

	mu    sync.Mutex
	notes []string
}

// Run replays rules over what src has. A rule that cannot be replayed is in the result
// with the reason. An error says that nothing could be: the window is empty, the server
// does not answer, or the context was cancelled.
func Run(ctx context.Context, src Source, groups []Group, opt Options) (*Result, error) {
	if !opt.End.After(opt.Start) {
		return nil, fmt.Errorf("expected a window that ends after it starts, saw %s to %s", clock(opt.Start), clock(opt.End))
	}
	scrape, err := src.Interval(ctx, "", opt.Start, opt.End)
	if err != nil {
		return nil, err
	}
	p := &replay{ctx: ctx, src: src, groups: groups, opt: opt, keep: map[string]time.Duration{}, recorded: map[string]bool{}, matched: map[string]bool{}}
	p.lookback = cmp.Or(opt.Lookback, StandardLookback)
	if p.lookback != StandardLookback {
		p.note("a sample stands for the present for %s (look-back), not for %s as by default", span(p.lookback), span(StandardLookback))
	}
	p.opt.Interval = cmp.Or(opt.Interval, scrape, usualInterval)
	if p.opt.Progress == nil {
		p.opt.Progress = func(string) {}
	}
	if s, ok := src.Source.(*memory.Store); ok {
		s.SetLookback(p.lookback)
	}
	p.rules = compile(groups, p.opt.Interval, p.lookback)
	p.fine = p.opt.Interval
	for _, r := range p.rules {
		p.fine = min(p.fine, r.step)
	}
	p.fine = min(p.fine, max(opt.End.Sub(opt.Start), time.Millisecond)) // of what is evaluated at most once
	if opt.End.Sub(opt.Start)/p.fine > maxSteps {
		return nil, fmt.Errorf("expected at most %d evaluations, saw %s each %s: choose a shorter window with --since", maxSteps, model.Duration(opt.End.Sub(opt.Start)), model.Duration(p.fine))
	}
	link(p.rules)
	all := units(p.rules)
	for _, u := range all {
		for len(p.levels) <= u.level {
			p.levels = append(p.levels, nil)
		}
		p.levels[u.level] = append(p.levels[u.level], u)
	}
	if err := p.look(); err != nil {
		return nil, err
	}
	begin, err := p.covered()
	if err != nil {
		return nil, err
	}
	first := schedule(all, p.opt.Start)
	if first.Before(begin) {
		first = begin
	}
	if err := p.refuseHistograms(first); err != nil {
		return nil, err
	}
	p.plan()
	if err := p.run(first); err != nil {
		return nil, err
	}
	return p.result(), nil
}

// note adds a remark on the replay as a whole.
func (p *replay) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// look finds out which selectors match anything in the window.
func (p *replay) look() error {
	selectors := map[string]selector{}
	need := time.Duration(0)
	for _, r := range p.rules {
		for _, s := range r.reads {
			if s.raw {
				selectors[s.text] = s
				need = max(need, s.need)
			}
			if s.fixed != nil && *s.fixed > p.opt.Start.UnixMilli() {
				r.err = errors.New("@ reads at one time after the start of the window, which a live rule does not have before")
			}
		}
	}
	start := p.opt.Start.Add(-need)
	names, err := p.src.Names(p.ctx, "", start, p.opt.End)
	if err != nil {
		return err
	}
	p.opt.Progress("looking for the series that rules read")
	for text, s := range selectors {
		if name := s.metric(); name != "" {
			if _, ok := slices.BinarySearch(names, name); !ok || len(s.matchers) == 1 {
				p.matched[text] = ok
				continue
			}
		}
		found, err := p.src.Names(p.ctx, s.braced(), start, p.opt.End)
		if err != nil {
			return err
		}
		p.matched[text] = len(found) > 0
	}
	return nil
}

// plan decides what is kept from one chunk of time for the next, and what is
// read beside records.
func (p *replay) plan() {
	local := map[string]selector{}
	for _, r := range p.rules {
		if r.begin.IsZero() || r.err != nil {
			continue
		}
		for _, name := range r.writes() {
			p.recorded[name] = true
		}
		if r.pure() && !r.stepwise {
			continue
		}
		for _, s := range r.reads {
			for _, w := range s.from {
				for _, name := range w.writes() {
					p.keep[name] = max(p.keep[name], s.need)
				}
			}
			if s.fixed != nil {
				r.err = errors.New("@ reads at one time beside what is recorded, which a replay in chunks does not have")
			}
			if s.raw && p.matched[s.text] {
				s.need = max(s.need, local[s.text].need)
				local[s.text] = s
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(local)) {
		p.local = append(p.local, local[text])
	}
}

// writes are the names of the series that a rule writes.
func (r *rule) writes() []string {
	if r.Record != "" {
		return []string{r.Record}
	}
	return []string{alertsMetric, forStateMetric}
}

// run replays one chunk of time after the other.
func (p *replay) run(first time.Time) error {
	p.store = memory.New()
	p.store.SetLookback(p.lookback)
	steps := cmp.Or(p.opt.chunk, firstSteps)
	// Not from a multiple of the shortest step: one of a longer step may be before it.
	for from := gridFrom(first, time.Millisecond); !from.After(p.opt.End); {
		to := p.opt.End.Add(time.Millisecond) // excluded
		if time.Duration(steps) < to.Sub(from)/p.fine {
			to = from.Add(time.Duration(steps) * p.fine)
		}
		p.opt.Progress(fmt.Sprintf("replaying %s of %s", clock(from), clock(p.opt.End)))
		if err := p.chunk(from, to); err != nil {
			return err
		}
		if samples := int64(p.store.Stats().Samples); samples > 0 && p.opt.chunk == 0 {
			steps = min(max(steps*chunkSamples/samples, leastSteps), 4*steps)
		}
		steps = min(steps, mostSteps)
		from = to
		p.store = p.carry(to)
	}
	return nil
}

// carry is a store of what evaluations from a time on read of the past.
func (p *replay) carry(from time.Time) *memory.Store {
	return p.store.Tail(func(l labels.Labels) (int64, bool) {
		need, ok := p.keep[l.Get(model.MetricNameLabel)]
		return from.Add(-need).UnixMilli(), ok
	})
}

// chunk evaluates all rules from a time until before another.
func (p *replay) chunk(from, to time.Time) error {
	for _, s := range p.local {
		columns, err := p.src.raw(p.ctx, &s, from.Add(-s.need), to.Add(-time.Millisecond), p.fine, p.lookback)
		if err != nil && !p.passes(err) {
			return err
		}
		if err != nil {
			p.blind(&s, err)
		}
		for _, c := range columns {
			if !p.recorded[c.Labels.Get(model.MetricNameLabel)] {
				p.store.Append(c.Labels, c.T, c.V)
			}
		}
	}
	for _, level := range p.levels {
		var tasks []func() error
		for _, u := range level {
			tasks = append(tasks, func() error { return p.unit(u, from, to) })
		}
		if err := series.TwoAtOnce(tasks); err != nil {
			return err
		}
	}
	return p.ctx.Err()
}

// blind gives up the rules that read series beside records which could not be had.
func (p *replay) blind(s *selector, err error) {
	for _, r := range p.rules {
		reads := slices.ContainsFunc(r.reads, func(x selector) bool { return x.text == s.text })
		if reads && r.err == nil && (!r.pure() || r.stepwise) {
			r.err = err
		}
	}
}

func (p *replay) unit(u unit, from, to time.Time) error {
	if !u.stepwise {
		return p.rule(u.rules[0], from, to)
	}
	for at := from; at.Before(to); {
		next := to
		for _, r := range u.rules {
			due := gridFrom(at, r.step)
			if due.Equal(at) {
				if err := p.rule(r, at, at.Add(time.Millisecond)); err != nil {
					return err
				}
				due = at.Add(r.step)
			}
			if due.Before(next) {
				next = due
			}
		}
		at = next
	}
	return nil
}

// rule evaluates a rule at its steps from a time until before another.
func (p *replay) rule(r *rule, from, to time.Time) error {
	if r.begin.IsZero() || r.err != nil {
		return nil
	}
	if from.Before(r.begin) {
		from = r.begin
	}
	start := gridFrom(from, r.step)
	if !start.Before(to) {
		return nil
	}
	end := start.Add(to.Add(-time.Millisecond).Sub(start).Truncate(r.step))
	r.evaluations += int64(end.Sub(start)/r.step) + 1
	ask := p.store.Range
	whole := r.stepwise
	if r.pure() && !r.stepwise {
		ask, whole = p.src.Range, p.src.server
	}
	failures := 0
	var patient query
	patient = func(expr string, a, b time.Time, step time.Duration) (promql.Matrix, error) {
		m, err := ask(p.ctx, expr, a, b, step)
		if err == nil || !p.passes(err) {
			return m, err
		}
		if b.Sub(a) < step || failures >= maxFailures {
			failures++
			r.failed(a, err)
			return nil, nil
		}
		half := a.Add((b.Sub(a) / 2).Truncate(step))
		left, err := patient(expr, a, half, step)
		if err != nil {
			return nil, err
		}
		right, err := patient(expr, half.Add(step), b, step)
		return join([]promql.Matrix{left, right}), err
	}
	var m promql.Matrix
	var err error
	if a, b := start.Add(-r.offset), end.Add(-r.offset); whole {
		m, err = patient(r.text, a, b, r.step)
	} else {
		m, err = evaluate(patient, r.expr, a, b, r.step)
	}
	if err != nil {
		return err
	}
	if len(m) > 0 {
		r.empty = false
	}
	if r.alert == nil {
		p.write(r, r.Record, r.labelled(m), start)
		return nil
	}
	if r.err = r.alert.take(p.ctx, m); r.err != nil {
		return p.ctx.Err()
	}
	active, err := r.alert.advance(end)
	if err != nil {
		r.err = err
		return nil
	}
	if _, read := p.keep[alertsMetric]; read {
		alerts, forState := r.alert.series(active, start, end)
		p.write(r, alertsMetric, alerts, start)
		p.write(r, forStateMetric, forState, start)
	}
	return nil
}

// passes tells whether others may be evaluated where one is not.
func (p *replay) passes(err error) bool {
	_, unreachable := errors.AsType[*promapi.Unreachable](err)
	return !unreachable && p.ctx.Err() == nil
}

// labelled are a recording rule's results with its labels.
func (r *rule) labelled(m promql.Matrix) promql.Matrix {
	if len(r.labels) == 0 {
		return m
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	for i := range m {
		b.Reset(m[i].Metric)
		for name, value := range r.labels {
			b.Set(name, value)
		}
		m[i].Metric = b.Labels()
	}
	return m
}

// write stores what a rule writes under a name: from an evaluation on, or of a
// stepwise rule at that one.
func (p *replay) write(r *rule, name string, m promql.Matrix, at time.Time) {
	if !r.stepwise {
		p.store.AppendMatrix(name, m, r.step)
		return
	}
	// AppendMatrix would put a stale marker at the next evaluation, where a rule
	// that is evaluated before this one is to see the value of now.
	ts := []int64{at.Add(-r.offset).UnixMilli()}
	written := map[string]labels.Labels{}
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, s := range m {
		if len(s.Floats) == 0 {
			continue
		}
		b.Reset(s.Metric)
		b.Set(model.MetricNameLabel, name)
		lset := b.Labels()
		written[string(lset.Bytes(nil))] = lset
		p.store.Append(lset, ts, []float64{s.Floats[0].F})
	}
	for key, lset := range r.written[name] {
		if _, again := written[key]; !again {
			p.store.Append(lset, ts, []float64{math.NaN()})
		}
	}
	if r.written == nil {
		r.written = map[string]map[string]labels.Labels{}
	}
	r.written[name] = written
}

// failed notes that a rule could not be evaluated at a time.
func (r *rule) failed(at time.Time, err error) {
	if r.failures++; r.failures == 1 {
		r.failure = fmt.Sprintf("first at %s: %v", clock(at), err)
	}
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
