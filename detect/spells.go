package detect

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// Spell is what a block or mutex profile saw in a stretch of time.
type Spell struct {
	*View
	Start, End time.Time
	// Load is how many requests a second were answered meanwhile, by the series of
	// the process; NaN where that is not known.
	Load float64
	// Earlier is set where the spell is of the same task in another bundle.
	Earlier bool
}

// spells are a process's contention profiles over a window, in time order: the
// block profiles, or the mutex profiles where there is none or all are empty,
// as those of a process are that does not take them.
func spells(proc *ingest.Process, opt Options) []Spell {
	block, mutex := spellsOf(proc, waits.Block, opt), spellsOf(proc, waits.Mutex, opt)
	shows := func(s Spell) bool { return len(s.Crowds) > 0 }
	if len(block) == 0 || !slices.ContainsFunc(block, shows) && slices.ContainsFunc(mutex, shows) {
		return mutex
	}
	return block
}

func spellsOf(proc *ingest.Process, kind waits.Kind, opt Options) []Spell {
	parts := slices.ContainsFunc(proc.Between, func(w *waits.Profile) bool { return w.Kind == kind })
	var out []Spell
	for _, w := range slices.Concat(proc.Between, proc.Waits) {
		whole := parts && w.From != "" && slices.Contains(proc.Waits, w)
		if w.Kind != kind || w.Window <= 0 || w.Taken.IsZero() || whole {
			continue
		}
		out = append(out, Spell{View: WaitsView(w, opt), Start: w.Taken.Add(-w.Window), End: w.Taken})
	}
	slices.SortStableFunc(out, func(a, b Spell) int { return a.End.Compare(b.End) })
	return out
}

// sameInstance reports whether two processes are one task as two bundles of one
// call show it: of one name and, where that is known, one build. It may have been
// started anew in between; what it locks is the same.
func sameInstance(a, b *ingest.Process) bool {
	x, y := buildOf(a), buildOf(b)
	return a != b && a.Instance != "" && a.Job == b.Job && a.Instance == b.Instance && (x == "" || y == "" || x == y)
}

func buildOf(proc *ingest.Process) string {
	for _, w := range proc.Waits {
		if w.Process.BuildID != "" {
			return w.Process.BuildID
		}
	}
	return ""
}

// addSpells adds to p the spells of the same task in other bundles, which are
// other levels of load. The latest bundle has them all; later is set in the others.
func (p *Pass) addSpells(proc *ingest.Process, procs []*ingest.Process) {
	if len(p.spells) == 0 {
		return
	}
	last := p.spells[len(p.spells)-1].End
	for _, other := range procs {
		if !sameInstance(proc, other) {
			continue
		}
		more := spells(other, p.Options)
		if len(more) > 0 && more[len(more)-1].End.After(last) {
			p.later = true
		}
		for i := range more {
			more[i].Earlier = true
		}
		p.spells = append(p.spells, more...)
	}
	slices.SortStableFunc(p.spells, func(a, b Spell) int { return a.End.Compare(b.End) })
}

// Later reports whether the input has the same task at a later time too, where
// p's spells are looked at with its own.
func (p *Pass) Later() bool { return p.later }

// Siblings is how many instances of p's job the series beside it have, 0 where there are none.
func (p *Pass) Siblings() int {
	for _, v := range p.beside {
		if v.Job == p.job {
			return len(v.Canon.Instances[v.Job])
		}
	}
	return 0
}

// Spells are p's, with their loads.
func (p *Pass) Spells() []Spell {
	out := slices.Clone(p.spells)
	for i := range out {
		out[i].Load = math.NaN()
		for _, v := range p.beside {
			if instance := v.profiled(p); instance != "" {
				out[i].Load = v.loadOf(instance, out[i].Start, out[i].End)
			}
		}
	}
	return out
}

// loadOf is the mean of an instance's completions a second from start to end, NaN
// where they are not known. A sample is the rate of the window before it, so the
// one that looks back on the middle comes half a window later.
func (v *SeriesView) loadOf(instance string, start, end time.Time) float64 {
	sum, n := 0.0, 0.0
	half := v.Window() / 2
	for _, c := range v.columns("completions") {
		if c.instance != instance {
			continue
		}
		for _, x := range c.within(start.Add(half), end.Add(half)).V {
			if !math.IsNaN(x) {
				sum, n = sum+x, n+1
			}
		}
	}
	return sum / n
}

// Values are the steps from start to end at which an instance has all of the
// signals: a row a step, a column a signal.
func (v *SeriesView) Values(start, end time.Time, instance string, signals ...string) [][]float64 {
	var of []column
	for _, s := range signals {
		i := slices.IndexFunc(v.columns(s), func(c column) bool { return c.instance == instance })
		if i < 0 {
			return nil
		}
		of = append(of, v.columns(s)[i])
	}
	var out [][]float64
	for t := start; !t.After(end); t = t.Add(v.Canon.Timing.Interval) {
		var row []float64
		for i := range of {
			if x, ok := of[i].at(t); ok {
				row = append(row, x)
			}
		}
		if len(row) == len(signals) {
			out = append(out, row)
		}
	}
	return out
}

// Moments are the snapshots of the format that shares are read from, in time order.
func (p *Pass) Moments() []*View {
	if p.Stacks == nil || p.Stacks.Snapshot.SharesOnly() {
		return nil
	}
	var out []*View
	for _, s := range slices.Backward(p.before) {
		out = append(out, SnapshotView(s, p.Options))
	}
	return append(out, p.Stacks)
}

// LockOverTime is one lock as several profiles of a process saw it.
type LockOverTime struct {
	*LockSet // everybody who was seen to wait for it; its numbers are of no one profile
	in       map[*View]*LockSet
}

// LocksOverTime are the locks that any of the views shows somebody wait for, told by the
// functions that wait. Of a read-write lock only the writers are kept, since
// readers do not exclude each other.
func LocksOverTime(views []*View) []*LockOverTime {
	var out []*LockOverTime
	at := map[string]*LockOverTime{} // by function that waits, and by what tells the lock: readers and writers may never wait at once
	for _, v := range views {
		for _, l := range v.Locks() {
			var known *LockOverTime
			for _, c := range l.Waiters {
				if known == nil {
					known = cmp.Or(at[owner(c.Site())], at[lockClass(c)])
				}
			}
			if known == nil {
				known = &LockOverTime{&LockSet{Addresses: map[uint64]int64{}}, map[*View]*LockSet{}}
				out = append(out, known)
			}
			for _, c := range l.Waiters {
				for _, name := range [...]string{owner(c.Site()), lockClass(c)} {
					if at[name] == nil {
						at[name] = known
					}
				}
			}
			for a, n := range l.Addresses {
				known.Addresses[a] += n
			}
			known.Waiters = append(known.Waiters, l.Waiters...)
			if known.in[v] == nil {
				known.in[v] = l
			}
		}
	}
	for _, l := range out {
		l.summarise()
		if l.Shared {
			l.Waiters = slices.DeleteFunc(l.Waiters, func(c *Crowd) bool { return !l.counts(c) })
		}
	}
	// Without a site are those for which nobody waited for any time.
	return slices.DeleteFunc(out, func(l *LockOverTime) bool { return l.Site == nil })
}

// counts reports whether a wait is for the lock as a whole: a reader's is not.
func (l *LockOverTime) counts(c *Crowd) bool {
	return !l.Shared || c.Wait.Kind != stacks.RLock
}

// Waiting is how many wait in a view, in the measure of Crowd.N, and their contentions.
func (l *LockOverTime) Waiting(v *View) (n float64, events int64) { return l.waits(v, true) }

// Readers is the same of those who wait to read at a read-write lock.
func (l *LockOverTime) Readers(v *View) (n float64, events int64) { return l.waits(v, false) }

func (l *LockOverTime) waits(v *View, counted bool) (n float64, events int64) {
	if m := l.in[v]; m != nil {
		for _, c := range m.Waiters {
			if l.counts(c) == counted {
				n, events = n+c.N, addEvents(events, c.Events)
			}
		}
	}
	return n, events
}

// Holders is how many stand in a snapshot past the line that locks, in a
// function that waiters enter.
func (l *LockOverTime) Holders(v *View) float64 {
	found, _ := holders(v, l.LockSet, 0)
	n := 0.0
	for _, s := range found {
		if s.How > ByReceiver { // what is weaker is a guess
			n += s.count()
		}
	}
	return n
}

// Holder describes who holds the lock in a snapshot; nil where nobody is seen to.
func (l *LockOverTime) Holder(v *View) *Holder {
	if l.Holders(v) == 0 {
		return nil
	}
	h, _ := HolderOf(v, l.LockSet, 0)
	return h
}
