package ingest

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/contend/contend/ingest/stacks"
)

const (
	// Dumps and profiles of one process, taken seconds apart, share 83% to
	// 100% of their stacks even while its load grows; different programs
	// that have the same load generator or driver inside share up to 56%.
	alikePercent = 75
	// Two moments of one process differ by up to 17 points, so of two
	// processes only a larger difference tells which is meant.
	closerPercent = 20
	// A process' goroutines grow threefold in the seconds between a dump and
	// a profile only where it is already in trouble, and beyond that a small
	// process may be found whole in a large one.
	maxGrowth = 3
	// Below ten goroutines and a tenth of all, what is outside the standard
	// library is main.main and little else, which other programs have too.
	minOwn      = 10
	minOwnShare = 10
)

// joinAlike joins text dumps that were given as files of their own, and so
// have neither an identity nor an origin, with the process whose goroutines
// look like theirs: first with each other, as debug=1 and debug=2 of one
// process, then with a process that is identified.
func joinAlike(all []*member) []*member {
	if !slices.ContainsFunc(all, (*member).isLooseDump) {
		return all
	}
	looks := make(map[*member]*features, len(all))
	for _, m := range all {
		looks[m] = featuresOf(m)
	}
	refusals := make(map[*member]string)
	for _, identified := range []bool{false, true} {
		picks := make(map[*member]likeness)
		picked := make(map[*member]int)
		for _, m := range all {
			if !m.isLooseDump() {
				continue
			}
			pick, refusal := pickAlike(m, all, identified, looks)
			if pick.other != nil {
				picks[m] = pick
				picked[pick.other]++
			} else if refusal != "" {
				refusals[m] = refusal
			}
		}
		joined := make(map[*member]bool)
		for _, m := range all {
			pick, ok := picks[m]
			to := pick.other
			switch {
			case !ok || joined[m] || joined[to]:
				continue
			case picked[to] > 1:
				refusals[m] = fmt.Sprintf("left %s a process of its own: another dump, of another process as far as can be told, is like %s too; analyse each dump with the profiles of its process alone", m.latest(), pick.name)
				continue
			case to.isLooseDump() && picks[to].other != m:
				continue
			}
			if to.isLooseDump() { // both picked each other, and m comes first
				pick, m, to = picks[to], to, m
			}
			to.absorb(m)
			to.note("took %s to be of the process of %s: %s", m.Process.Snapshots[0].Name, pick.name, pick.why())
			looks[to].snapshots = append(looks[to].snapshots, looks[m].snapshots...)
			joined[m] = true
		}
		all = slices.DeleteFunc(all, func(m *member) bool { return joined[m] })
	}
	for _, m := range all {
		if why, ok := refusals[m]; ok && m.isLooseDump() {
			m.note("%s", why)
		}
	}
	return all
}

// isLooseDump reports whether m is nothing but text dumps given as files.
func (m *member) isLooseDump() bool {
	return m.origin == "" && !m.identified && !slices.ContainsFunc(m.Process.Snapshots, func(s *stacks.Snapshot) bool {
		return s.Growth || s.Process != (stacks.Process{}) || !s.HasStates() && s.Format != stacks.Debug1
	})
}

func (m *member) absorb(o *member) {
	m.Process.Snapshots = append(m.Process.Snapshots, o.Process.Snapshots...)
	m.inputs = append(m.inputs, o.inputs...)
	m.Notes = append(m.Notes, o.Notes...)
}

// pickAlike finds the process that a loose dump is of, or says why there is none.
// The refusal is empty where there is nothing to compare with.
func pickAlike(m *member, all []*member, identified bool, looks map[*member]*features) (pick likeness, refusal string) {
	var best, second likeness
	for _, o := range all {
		if o == m || o.identified != identified || bothDumped(m, o) {
			continue
		}
		l, ok := looks[m].compare(looks[o])
		if !ok {
			continue
		}
		l.other = o
		if best.other == nil || l.percent > best.percent {
			best, second = l, best
		} else if second.other == nil || l.percent > second.percent {
			second = l
		}
	}
	name := m.latest()
	switch {
	case best.other == nil:
		return likeness{}, ""
	case !looks[m].telling():
		return likeness{}, fmt.Sprintf("left %s a process of its own: too few of its goroutines are outside the standard library to tell whether it is of the process of %s", name, best.name)
	case best.percent < alikePercent:
		return likeness{}, fmt.Sprintf("took %s and %s for different processes: %s", name, best.name, best.whyNot())
	case second.percent >= alikePercent && best.percent-second.percent < closerPercent:
		return likeness{}, fmt.Sprintf("left %s a process of its own: it is like %s (%d%%) and like %s (%d%%), which may be replicas; analyse it with the profiles of its process alone", name, best.name, best.percent, second.name, second.percent)
	}
	return best, ""
}

// bothDumped reports whether two processes have dumps that are not of one
// process or may be a replica's: goroutine ids have told already, and two
// debug=1 texts cannot tell.
func bothDumped(m, o *member) bool {
	for _, s := range m.Process.Snapshots {
		for _, t := range o.Process.Snapshots {
			if s.HasStates() && t.HasStates() || t.Process == (stacks.Process{}) && sameView(s, t) {
				return true
			}
		}
	}
	return false
}

// likeness is how alike a dump is to an input of another process.
type likeness struct {
	other   *member
	name    string // of the input it was compared with
	percent int    // what both have, of the one that has less in common
	waits   bool   // compared with wait profiles, by function
	totals  [2]int64
}

func (l likeness) why() string {
	if l.waits {
		return fmt.Sprintf("at least %d%% of its goroutines outside the standard library, and of the waiting in the profile, are in functions that both have", l.percent)
	}
	return fmt.Sprintf("at least %d%% of the goroutines of each, outside the standard library, stand in stacks that both have", l.percent)
}

func (l likeness) whyNot() string {
	switch {
	case l.waits:
		return fmt.Sprintf("only %d%% of the goroutines outside the standard library, or of the waiting, is in functions that both have", l.percent)
	case l.totals != [2]int64{}:
		return fmt.Sprintf("%d goroutines against %d", l.totals[0], l.totals[1])
	}
	return fmt.Sprintf("only %d%% of the goroutines outside the standard library stand in stacks that both have", l.percent)
}

// features are what processes are compared by: code outside the standard
// library, as idle connections and the runtime look the same everywhere.
type features struct {
	snapshots []snapshotFeatures
	waitName  string
	waits     map[function]int64 // nanoseconds waited, by the innermost function outside the standard library
}

type snapshotFeatures struct {
	name       string
	total, own int64              // goroutines; those with a function outside the standard library
	stacks     map[uint64]int64   // goroutines by a hash of their functions outside the standard library
	innermost  map[function]int64 // goroutines by the innermost of these
}

// function is named with its file: every program has a main.main.
type function struct{ name, file string }

func featuresOf(m *member) *features {
	c := &features{}
	for _, s := range m.Process.Snapshots {
		// The others hold samples, differences, or leaked goroutines only.
		if !s.Growth && (s.HasStates() || s.Format == stacks.Debug1 || s.Format == stacks.Protobuf) {
			c.snapshots = append(c.snapshots, snapshotFeaturesOf(s))
		}
	}
	if len(c.snapshots) > 0 || len(m.Process.Waits) == 0 {
		return c
	}
	c.waitName = m.Process.Waits[0].Name
	c.waits = make(map[function]int64)
	for _, w := range m.Process.Waits {
		for i := range w.Sites {
			if _, f := ownStack(w.Sites[i].Frames); f != (function{}) && w.Sites[i].Delay > 0 {
				c.waits[f] += int64(w.Sites[i].Delay)
			}
		}
	}
	return c
}

func snapshotFeaturesOf(s *stacks.Snapshot) snapshotFeatures {
	c := snapshotFeatures{name: s.Name, stacks: make(map[uint64]int64), innermost: make(map[function]int64)}
	for _, g := range s.Groups {
		if g.Count <= 0 {
			continue
		}
		c.total += g.Count
		if hash, f := ownStack(g.Frames); f != (function{}) {
			c.own += g.Count
			c.stacks[hash] += g.Count
			c.innermost[f] += g.Count
		}
	}
	return c
}

// ownStack hashes a stack's functions outside the standard library, without
// lines: a goroutine moves on within a function from one moment to the next.
func ownStack(frames []*stacks.Frame) (hash uint64, innermost function) {
	h := fnv.New64a()
	for _, f := range frames {
		if f.Std {
			continue
		}
		if innermost == (function{}) {
			innermost = function{f.Func, f.File}
		}
		for _, text := range [...]string{f.Func, f.File} {
			h.Write([]byte(text))
			h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		}
	}
	return h.Sum64(), innermost
}

// telling reports whether any snapshot has enough outside the standard
// library to be recognised by.
func (c *features) telling() bool {
	return slices.ContainsFunc(c.snapshots, snapshotFeatures.telling)
}

func (s snapshotFeatures) telling() bool {
	return s.own > 0 && (s.own >= minOwn || s.own >= s.total/minOwnShare)
}

// compare says how alike a dump is to a process, by the snapshots most alike,
// or by wait profiles where it has no snapshots. ok is false where it has
// nothing to compare.
func (c *features) compare(o *features) (best likeness, ok bool) {
	for _, s := range c.snapshots {
		for _, t := range o.snapshots {
			l := likeness{name: t.name}
			switch {
			case s.total > maxGrowth*t.total || t.total > maxGrowth*s.total:
				l.totals = [2]int64{s.total, t.total}
			case s.telling() && t.telling():
				l.percent = min(percentIn(s.stacks, t.stacks), percentIn(t.stacks, s.stacks))
			}
			if !ok || l.percent > best.percent {
				best, ok = l, true
			}
		}
		if len(o.waits) > 0 {
			l := likeness{name: o.waitName, waits: true}
			if s.telling() {
				l.percent = min(percentIn(s.innermost, o.waits), percentIn(o.waits, s.innermost))
			}
			if !ok || l.percent > best.percent {
				best, ok = l, true
			}
		}
	}
	return best, ok
}

// percentIn is the share of a's values whose keys b has too, rounded down.
func percentIn[K comparable](a, b map[K]int64) int {
	var shared, all float64
	for key, n := range a {
		all += float64(n)
		if _, ok := b[key]; ok {
			shared += float64(n)
		}
	}
	if all == 0 {
		return 0
	}
	return int(100 * shared / all)
}
