package detect

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// Run analyses a bundle with the given detectors. base, which may be nil, is
// what to compare with. Every input that failed to load is in the report with
// its error; a detector that fails could not look, and the others still run.
func Run(b, base *ingest.Bundle, detectors []*Detector, opt Options) *Report {
	r := &Report{Schema: Schema, Findings: []Finding{}, Budget: []Share{}, RuledOut: []RuledOut{}, Skipped: []Skipped{}, Inputs: []Input{}, Warnings: []string{}, drawn: opt.Drawn}
	procs := b.Processes()
	chosen := slices.DeleteFunc(slices.Clone(detectors), func(d *Detector) bool {
		return len(opt.Detectors) > 0 && !slices.Contains(opt.Detectors, d.Name)
	})
	jobs := jobPasses(b.Series, chosen, opt, r)
	var passes []*Pass
	for _, proc := range procs {
		name := ""
		if len(procs) > 1 {
			name = proc.Name
		}
		p := prepare(proc, name, opt)
		p.noSeries = b.NoSeries
		p.job, p.instance = proc.Job, proc.Instance
		p.addSpells(proc, procs)
		for _, j := range jobs {
			p.beside = append(p.beside, j.Series)
		}
		if len(procs) == 1 {
			p.target = b.Target
		}
		passes = append(passes, p)
		for _, d := range chosen {
			if len(jobs) > 0 && !d.needs(Stacks) && !d.needs(Waits) {
				continue // it looks at the series
			}
			p.run(d, r)
		}
		p.lookBack(chosen)
		p.doubt(proc)
		r.Inputs = append(r.Inputs, inputsOf(proc, name, p)...)
		r.Notes = append(r.Notes, proc.Notes...)
		r.Warnings = append(r.Warnings, inputWarnings(proc)...)
	}
	if len(jobs)+len(passes) == 0 {
		blind := &Pass{noSeries: b.NoSeries}
		for _, d := range chosen {
			blind.run(d, r)
		}
	}
	r.runJobs(jobs, passes, chosen)
	r.Warnings = append(r.Warnings, b.Warnings...)
	r.addSeries(b, jobs)
	passes = append(passes, jobs...)
	for _, f := range b.Failures {
		r.Inputs = append(r.Inputs, Input{Name: f.Name, Error: f.Err.Error()})
	}
	for _, u := range b.Unused {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: not used: %s", u.Name, u.Reason))
	}
	decide(r, passes, detectors)
	if r.drawn {
		r.addTimelines(passes)
	}
	if base != nil {
		r.Base, r.BaseSummary = compare(base, b)
		for _, u := range base.Unused {
			r.Notes = append(r.Notes, fmt.Sprintf("base %s: not used: %s", u.Name, u.Reason))
		}
		for _, f := range base.Failures {
			r.Inputs = append(r.Inputs, Input{Name: f.Name, Use: "base", Error: f.Err.Error()})
		}
	}
	return r
}

// run runs one detector, where its needs are met, and says so where they are not.
func (p *Pass) run(d *Detector, r *Report) {
	p.Detector = d
	skip := func(reason string) {
		s := Skipped{Detector: d.Name, Reason: reason, Process: p.Process}
		if p.Series != nil {
			s.Job = p.Series.Job
		}
		r.Skipped = append(r.Skipped, s)
	}
	if reason := unmet(d, p); reason != "" {
		skip(reason)
		return
	}
	before := len(p.findings)
	if err := runOne(d, p); err != nil {
		skip(err.Error())
		return
	}
	p.settle(before)
}

func (d *Detector) needs(kind InputKind) bool {
	return slices.ContainsFunc(d.Needs, func(n Need) bool { return n.Input == kind })
}

// doubtPercent is the part of a dump's goroutines with a frame that was not
// understood from which on what the rest says is in doubt. A log line in a
// block costs one goroutine; text that was folded or edited spoils most.
const doubtPercent = 10

// doubt takes the confidence from findings in input that was largely not understood.
func (p *Pass) doubt(proc *ingest.Process) {
	for _, s := range proc.Snapshots {
		if s.Loss.Read == 0 || 100*s.Loss.Misread < doubtPercent*s.Loss.Read {
			continue
		}
		why := fmt.Sprintf("%s of the %s goroutines in %s have a frame that was not understood, as in text that was folded or edited", Thousands(float64(s.Loss.Misread)), Thousands(float64(s.Loss.Read)), s.Name)
		for i := range p.findings {
			f := &p.findings[i]
			f.Confidence = Low
			f.Warnings = append(f.Warnings, why)
		}
	}
}

// runOne runs a detector; a panic in it is its own failure, and must not cost
// an engineer at night what the others found.
func runOne(d *Detector, p *Pass) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("failed on this input (%v): please report it with the input", r)
		}
	}()
	return d.Run(p)
}

// lookBack keeps what an earlier snapshot shows when the latest shows no cause:
// a trouble that is over, or the sick one of two replicas taken for two moments
// of one process. Of several it is the last that shows a cause.
func (p *Pass) lookBack(detectors []*Detector) {
	if p.Options.Live || len(p.before) == 0 || causeOf(p) != "" {
		return
	}
	for _, s := range p.before {
		q := p.at(s, detectors)
		cause := causeOf(q)
		if cause == "" {
			continue
		}
		for _, f := range q.findings {
			if f.Detector != cause {
				continue
			}
			f.Past = true
			f.Confidence = Weaker(f.Confidence, Medium)
			f.Summary = "earlier, in " + s.Name + ": " + f.Summary
			f.Warnings = append([]string{"it was so in the earlier snapshot and is not in the latest: it is over, or the two are of different replicas"}, f.Warnings...)
			p.findings = append(p.findings, f)
		}
		return
	}
}

// at is what detectors find in an earlier snapshot.
func (p *Pass) at(s *stacks.Snapshot, detectors []*Detector) *Pass {
	v := SnapshotView(s, p.Options)
	q := &Pass{Options: p.Options, Process: p.Process, job: p.job, instance: p.instance, Stacks: v, Block: p.Block, Mutex: p.Mutex}
	if s.HasStates() {
		q.Detail = v
	}
	for _, d := range detectors {
		if unmet(d, q) != "" {
			continue
		}
		q.Detector = d
		if runOne(d, q) != nil {
			continue // said of the latest snapshot, or of no weight here
		}
	}
	return q
}

// since is when the first of a process's snapshots was taken that shows a
// cause; zero where that is not known.
func (p *Pass) since(cause *Detector) time.Time {
	if p.Stacks == nil {
		return time.Time{}
	}
	for _, s := range slices.Backward(p.before) {
		if causeOf(p.at(s, []*Detector{cause})) == cause.Name {
			return s.Taken
		}
	}
	return p.Stacks.Snapshot.Taken
}

// prepare picks what each of a process's inputs is good for. Shares come from
// the protobuf profile where there is one, since it is complete, locks and
// holders from the text dump.
func prepare(proc *ingest.Process, name string, opt Options) *Pass {
	p := &Pass{Options: opt, Process: name, spells: spells(proc, opt), notes: proc.Notes}
	var snaps []*stacks.Snapshot
	for _, s := range proc.Snapshots {
		switch {
		case s.Format == stacks.Leak:
			p.Leaks = SnapshotView(s, opt)
		case s.Growth:
			p.Growth = SnapshotView(s, opt)
		default:
			snaps = append(snaps, s)
		}
	}
	latest := pickLatest(snaps)
	if latest != nil {
		p.Stacks = SnapshotView(latest, opt)
		if latest.HasStates() {
			p.Detail = p.Stacks
		}
		for _, s := range snaps {
			if s.HasStates() && p.Detail == nil {
				p.Detail = SnapshotView(s, opt)
			}
		}
		p.before = pickEarlier(snaps, latest)
		if n := len(p.before); n > 0 {
			p.Earlier = SnapshotView(p.before[n-1], opt)
		}
	}
	for _, w := range proc.Waits {
		v := WaitsView(w, opt)
		if v.Events == 0 && len(v.Crowds) == 0 {
			p.empty = append(p.empty, w.Name)
			continue // off, or nothing has ended: not the same as nothing waits
		}
		switch {
		case w.Kind == waits.Mutex && better(p.Mutex, v):
			p.Mutex = v
		case w.Kind == waits.Block && better(p.Block, v):
			p.Block = v
		}
	}
	return p
}

// better prefers a profile over a window to a cumulative one.
func better(old, v *View) bool {
	return old == nil || old.Cumulative && !v.Cumulative
}

// pickLatest is the latest snapshot of the best format: protobuf before text
// with states before text with counts; a wall-clock profile only where there is nothing else.
func pickLatest(snaps []*stacks.Snapshot) *stacks.Snapshot {
	rank := func(s *stacks.Snapshot) int {
		switch s.Format {
		case stacks.Protobuf:
			return 3
		case stacks.Debug2, stacks.Traceback:
			return 2
		case stacks.Debug1:
			return 1
		}
		return 0
	}
	var best *stacks.Snapshot
	for _, s := range snaps {
		if best == nil || rank(s) > rank(best) || rank(s) == rank(best) && !s.Taken.Before(best.Taken) {
			best = s
		}
	}
	return best
}

// pickEarlier are the snapshots of latest's format that were taken before it,
// the last one first.
func pickEarlier(snaps []*stacks.Snapshot, latest *stacks.Snapshot) []*stacks.Snapshot {
	var out []*stacks.Snapshot
	for _, s := range snaps {
		if s != latest && s.Format == latest.Format && !s.Taken.After(latest.Taken) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *stacks.Snapshot) int { return b.Taken.Compare(a.Taken) })
	return out
}

// unmet says why d cannot look at p's inputs; "" where it can.
func unmet(d *Detector, p *Pass) string {
	if p.Series != nil && d.needs(Series) {
		return p.Series.unmet(d)
	}
	var wanted []string
	for _, n := range d.Needs {
		switch n.Input {
		case Stacks:
			if p.Stacks != nil || d.Differences && (p.Leaks != nil || p.Growth != nil) {
				return ""
			}
			wanted = append(wanted, "a goroutine profile or dump")
		case Waits:
			if p.Block != nil || p.Mutex != nil {
				return ""
			}
			wanted = append(wanted, "a block or mutex profile")
		case Series:
			if p.noSeries != "" && !d.needs(Stacks) && !d.needs(Waits) {
				return "the series could not be used: " + p.noSeries
			}
			if !slices.Contains(wanted, prometheusSeries) {
				wanted = append(wanted, prometheusSeries)
			}
		}
	}
	if len(p.empty) > 0 && p.Series == nil && slices.ContainsFunc(d.Needs, func(n Need) bool { return n.Input == Waits }) {
		return fmt.Sprintf("%s is empty: profiling is off, or no wait has ended so far", strings.Join(p.empty, " and "))
	}
	if p.Growth != nil {
		return "a goroutine profile with seconds is a difference and no snapshot: take one without"
	}
	return "needs " + strings.Join(wanted, " or ") + ", which the input does not have"
}

// settle keeps what the detector ruled out only where it found nothing or the
// user asked for all locks, and
// keeps the promise that one which looked says so.
func (p *Pass) settle(before int) {
	said := p.ruledOut[:0]
	seen := false
	for _, r := range p.ruledOut {
		if r.Detector != p.Detector.Name {
			said = append(said, r)
		} else if len(p.findings) == before || p.Options.AllLocks {
			said = append(said, r)
			seen = true
		}
	}
	p.ruledOut = said
	if !seen && len(p.findings) == before {
		p.RuleOut("looked, found none")
	}
}

const prometheusSeries = "Prometheus series"

func inputsOf(proc *ingest.Process, name string, p *Pass) []Input {
	var out []Input
	for _, s := range proc.Snapshots {
		in := Input{Name: s.Name, Kind: "goroutine", Format: string(s.Format), Process: name, Taken: when(s.Taken)}
		switch s.Format {
		case stacks.Wallclock:
			in.Kind = "wallclock"
		case stacks.Leak:
			in.Kind = "goroutineleak"
		}
		if !s.Summed {
			in.Goroutines = &GoroutineCounts{Declared: s.Loss.Declared, Read: s.Loss.Read, Lost: s.Loss.Lost}
		}
		switch {
		case s.Growth:
			in.Use = "growth over its seconds"
		case p.Stacks != nil && p.Stacks.Snapshot == s:
			in.Use = "shares"
			if p.Detail == p.Stacks {
				in.Use = "shares, locks and holders"
			}
		case p.Detail != nil && p.Detail.Snapshot == s:
			in.Use = "locks and holders"
		case p.Earlier != nil && p.Earlier.Snapshot == s:
			in.Use = "earlier snapshot"
		}
		out = append(out, in)
	}
	for _, w := range proc.Waits {
		in := Input{Name: w.Name, Kind: string(w.Kind), Process: name, Taken: when(w.Taken)}
		if w.Window > 0 {
			in.Window = w.Window.Round(time.Millisecond).String()
		}
		in.Use = "cumulative: shares since the process began"
		if w.From != "" {
			in.Use = "difference from " + w.From
		} else if w.Window > 0 {
			in.Use = "over its seconds"
		}
		out = append(out, in)
	}
	return out
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func inputWarnings(proc *ingest.Process) []string {
	var out []string
	for _, s := range proc.Snapshots {
		if s.Crash != "" {
			out = append(out, s.Name+": the process died of it: "+s.Crash)
		}
		for _, w := range s.Warnings {
			out = append(out, s.Name+": "+w)
		}
		l := s.Loss
		if l.Lost > 0 {
			out = append(out, fmt.Sprintf("%s: %s goroutines lost: shares are of the %s that could be read", s.Name, Thousands(float64(l.Lost)), Thousands(float64(l.Read))))
		}
		if l.NoStack > 0 {
			out = append(out, fmt.Sprintf("%s: %s running on other threads had no stack that the runtime could print", s.Name, Plural(float64(l.NoStack), "goroutine")))
		}
		states := make([]string, 0, len(l.UnknownState))
		for state := range l.UnknownState {
			states = append(states, state)
		}
		sort.Strings(states)
		for _, state := range states {
			out = append(out, fmt.Sprintf("%s: state %q of %d goroutines is of no known Go release; their frames decide", s.Name, state, l.UnknownState[state]))
		}
	}
	for _, w := range proc.Waits {
		for _, t := range w.Warnings {
			out = append(out, w.Name+": "+t)
		}
	}
	return out
}
