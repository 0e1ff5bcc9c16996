package stacks

import (
	"bytes"
	"fmt"
	"slices"
)

const (
	// Members kept; see ReadText.
	minMembers   = 64
	maxMembers   = 4096
	allMembers   = 100_000
	maxArgsWords = 4 << 20 // 32 MiB, over all dumps of an input

	// maxLocks bounds the addresses counted in a group: a hundred thousand
	// locks with a waiter each are no contention, and 5 MiB.
	maxLocks = 100_000

	// maxIDs is how many ids of a dump are remembered to see one repeat. The
	// runtime prints goroutines in the order of their first creation, so the
	// next dump of a process repeats one of the first at once.
	maxIDs = 1024

	// maxStates bounds the distinct header states that are told apart.
	maxStates = 256
)

// dump is a Snapshot being read.
type dump struct {
	s       *Snapshot
	groups  map[groupKey]*group
	order   []*group // by first appearance
	reasons map[string]string
	ids     map[int64]bool
	noStack map[int64]*group // goroutines whose stack another thread may still print
	members int
	more    int  // warnings beyond maxWarnings
	crash   bool // written by a crash: a traceback
	total   bool // has a declared total
	full    bool
	lastCut bool // its last header was not understood
}

type groupKey struct {
	stack   *node
	created *site
	reason  string
	park    park // of a profile with counts
}

// group is a Group being read.
type group struct {
	Group
	key    groupKey
	dump   *dump
	isLock bool
	labels []byte // the label set added last

	lock  uint64 // the address read last, with lockN waiters not yet in Locks
	lockN int64
	over  bool // more than maxLocks
}

func newDump(name string, f Format) *dump {
	return &dump{
		s:       &Snapshot{Name: name, Format: f},
		groups:  map[groupKey]*group{},
		reasons: map[string]string{},
		ids:     map[int64]bool{},
	}
}

// counts reports whether d is a profile with counts rather than goroutines.
func (d *dump) counts() bool { return d.s.Format == Debug1 || d.s.Format == Leak }

func (d *dump) warn(text string) {
	if len(d.s.Warnings) < maxWarnings {
		d.s.Warnings = append(d.s.Warnings, text)
	} else {
		d.more++
	}
}

func (d *dump) remember(id int64) {
	if len(d.ids) < maxIDs {
		d.ids[id] = true
	}
}

func (d *dump) rememberNoStack(id int64, g *group) {
	if d.noStack == nil {
		d.noStack = map[int64]*group{}
	}
	if len(d.noStack) < maxIDs {
		d.noStack[id] = g
	}
}

// forget takes back a goroutine without a stack, since its stack came later.
func (d *dump) forget(id int64, g *group) {
	delete(d.noStack, id)
	g.Count--
	d.s.Loss.Read--
	d.s.Loss.NoStack--
	n := len(g.Members)
	g.Members = slices.DeleteFunc(g.Members, func(m Member) bool { return m.ID == id })
	d.members -= n - len(g.Members)
}

// reason returns the string of a header's state, without allocating one for
// each goroutine.
func (d *dump) reason(state []byte) string {
	if s, ok := d.reasons[string(state)]; ok {
		return s
	}
	if len(d.reasons) == maxStates {
		return "???" // what the runtime prints for a status it does not know
	}
	s := string(state[:min(len(state), 80)])
	d.reasons[s] = s
	return s
}

// group finds or makes the group of a stack. What a group waits for is found
// out only here, once.
func (d *dump) group(n *node, created *site, reason string) *group {
	return d.groupOf(groupKey{stack: n, created: created, reason: reason})
}

func (d *dump) groupOf(key groupKey) *group {
	n, created, reason := key.stack, key.created, key.reason
	if n.group != nil && n.group.dump == d && n.group.key == key {
		return n.group
	}
	g := d.groups[key]
	if g == nil {
		g = &group{key: key, dump: d}
		g.Frames, g.Reason = n.frames(), reason
		if created != nil {
			g.CreatedBy = created.frame
		}
		if d.counts() {
			reason = reasonParked // until all records are known
		}
		g.Wait = Classify(g.Frames, reason)
		g.isLock = g.Wait.Kind.IsLock() && g.Wait.LockFrame >= 0 && g.Wait.LockFrame < n.depth
		d.groups[key] = g
		d.order = append(d.order, g)
	}
	n.group = g
	return g
}

// count adds the goroutine just read to its group.
func (t *textReader) count(gr *group) {
	g, d := &t.g, gr.dump
	gr.Count++
	d.s.Loss.Read++
	d.s.Loss.ElidedFrames += g.elided
	gr.Elided = max(gr.Elided, int(min(g.elided, 1<<31-1)))
	if g.minutes > 0 {
		gr.Aged++
		gr.MaxMinutes = max(gr.MaxMinutes, g.minutes)
		if gr.Aged == 1 || g.minutes < gr.MinMinutes {
			gr.MinMinutes = g.minutes
		}
	}
	if g.leaked {
		gr.Leaked++
	}
	if len(g.labels) > 0 {
		gr.addLabels(g.labels)
	}
	var lock uint64
	if gr.isLock {
		if w := g.args[gr.Wait.LockFrame]; !w.Stale() {
			lock = w.Addr()
		}
		gr.addLock(lock, t.warn, g.line)
	}
	if n := len(gr.Members); n >= minMembers && (n >= maxMembers || d.members >= allMembers || t.memWords+len(g.args) > maxArgsWords) {
		return
	}
	d.members++
	gr.Members = append(gr.Members, Member{ID: g.id, Creator: g.creator, Minutes: g.minutes, Lock: lock, Args: t.keep(g.args)})
}

// keep copies argument words into a large block, one allocation for many.
func (t *textReader) keep(args []Word) []Word {
	const each = 4096
	if len(t.arena) < len(args) {
		t.arena = make([]Word, max(each, len(args)))
	}
	kept := t.arena[:len(args):len(args)]
	t.arena = t.arena[len(args):]
	copy(kept, args)
	t.memWords += len(args)
	return kept
}

// addLock counts a waiter of the lock at addr, 0 where that is not known.
func (g *group) addLock(addr uint64, warn func(int, string, ...any), line int) {
	if addr == 0 {
		return
	}
	if addr != g.lock {
		g.flushLock()
		g.lock = addr
		if _, ok := g.Locks[addr]; !ok && len(g.Locks) >= maxLocks {
			g.lock = 0
			if !g.over {
				g.over = true
				warn(line, "more than %d locks are waited for at one place: the rest is not told apart", maxLocks)
			}
			return
		}
	}
	g.lockN++
}

func (g *group) flushLock() {
	if g.lockN > 0 {
		if g.Locks == nil {
			g.Locks = map[uint64]int64{}
		}
		g.Locks[g.lock] += g.lockN
		g.lockN = 0
	}
}

// addLabels adds a label set as printed, within the limits on keys and values.
func (g *group) addLabels(set []byte) {
	if bytes.Equal(g.labels, set) {
		return
	}
	g.labels = append(g.labels[:0], set...)
	scanLabels(set, func(key, value []byte) {
		values, known := g.Labels[string(key)]
		if len(values) >= profileLabelValues || !known && len(g.Labels) >= profileLabelKeys {
			return
		}
		for _, v := range values {
			if v == string(value) {
				return
			}
		}
		if g.Labels == nil {
			g.Labels = map[string][]string{}
		}
		g.Labels[string(key)] = append(values, string(value))
	})
}

// snapshot completes d.
func (d *dump) snapshot() *Snapshot {
	s := d.s
	if d.counts() {
		resolveParks(d.order)
	}
	for _, g := range d.order {
		g.flushLock()
		if g.Count == 0 {
			continue
		}
		if g.Reason != "" && !knownState(g.Reason) {
			if s.Loss.UnknownState == nil {
				s.Loss.UnknownState = map[string]int64{}
			}
			s.Loss.UnknownState[g.Reason] = addSaturating(s.Loss.UnknownState[g.Reason], g.Count)
		}
		done := g.Group // g itself would keep the whole tree alive
		s.Groups = append(s.Groups, &done)
	}
	slices.SortStableFunc(s.Groups, func(a, b *Group) int {
		switch {
		case a.Count > b.Count:
			return -1
		case a.Count < b.Count:
			return 1
		}
		return 0
	})
	if !d.counts() && d.crash {
		s.Format = Traceback
	}
	if d.total {
		switch missing := s.Loss.Declared - s.Loss.Read; {
		case missing > 0:
			s.Loss.Lost = missing
			d.warn(fmt.Sprintf("the profile declares %d goroutines, %d were read", s.Loss.Declared, s.Loss.Read))
		case missing < 0:
			d.warn(fmt.Sprintf("the profile declares %d goroutines, but holds %d", s.Loss.Declared, s.Loss.Read))
		}
	}
	if d.more > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("and %d more", d.more))
	}
	return s
}
