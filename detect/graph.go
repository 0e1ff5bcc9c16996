package detect

import "github.com/contend/contend/ingest/stacks"

// LockID identifies a lock in a dump with addresses: its own address, or where
// that is not printed (read locks are inlined), that of the object it is in.
type LockID uint64

// WaitFor says which lock each of v's waiting goroutines waits for, and Held
// which locks each goroutine's stack is inside of. They are the two kinds of
// edges of the graph in which a cycle is a deadlock.
type WaitFor struct {
	Waiters map[LockID][]Standing
	Held    map[LockID][]Standing
	sets    map[LockID]*LockSet
	entries map[*Crowd]*entries
}

// Set is the LockSet a lock belongs to.
func (g *WaitFor) Set(id LockID) *LockSet { return g.sets[id] }

// Graph builds the wait-for graph of a view with addresses.
func (v *View) Graph() *WaitFor {
	g := &WaitFor{Waiters: map[LockID][]Standing{}, Held: map[LockID][]Standing{}, sets: map[LockID]*LockSet{}, entries: map[*Crowd]*entries{}}
	byType := map[string]entries{}
	for _, l := range v.Locks() {
		e := entriesOf(l)
		for t := range e.types {
			byType[t] = e
		}
		for _, c := range l.Waiters {
			if c.Group == nil || c.Wait.Release {
				continue
			}
			g.entries[c] = &e
			for i := range c.Group.Members {
				m := &c.Group.Members[i]
				if id := e.lockOf(c, m); id != 0 {
					g.Waiters[id] = append(g.Waiters[id], Standing{Crowd: c, Member: m, Frame: c.Wait.Site, How: ByEntry})
					g.sets[id] = l
				}
			}
		}
	}
	for _, c := range v.Crowds {
		if c.Group == nil || wakingUp(c) {
			continue
		}
		from := 0
		if c.Wait.Kind.IsLock() {
			from = c.Wait.Site + 1
		}
		for j := max(from, 0); j < len(c.Frames); j++ {
			f := c.Frames[j]
			e, ok := byType[f.Package+"."+f.Type]
			if !ok || f.Type == "" {
				continue
			}
			line, entry := e.line[f.Func]
			if entry && line > 0 && f.Line > 0 && f.Line < line {
				continue
			}
			how := ByReceiver
			if entry {
				how = ByEntry
			}
			for i := range c.Group.Members {
				m := &c.Group.Members[i]
				if j >= len(m.Args) || m.Args[j].Addr() == 0 || m.Args[j].Stale() {
					continue
				}
				id := LockID(m.Args[j].Addr() + uint64(e.offset[f.Package+"."+f.Type]))
				if _, waited := g.Waiters[id]; waited {
					g.Held[id] = append(g.Held[id], Standing{Crowd: c, Member: m, Frame: j, How: how})
				}
			}
		}
	}
	for id := range g.Held {
		g.Held[id] = strongest(g.Held[id])
	}
	return g
}

// lockOf is the lock a member of a waiting crowd waits for; 0 where nothing tells.
func (e *entries) lockOf(c *Crowd, m *stacks.Member) LockID {
	if m.Lock != 0 {
		return LockID(m.Lock)
	}
	if c.Wait.Site >= len(m.Args) {
		return 0
	}
	recv, site := m.Args[c.Wait.Site], c.Site()
	if site.Type == "" || recv.Addr() == 0 || recv.Stale() {
		return 0
	}
	return LockID(recv.Addr() + uint64(e.offset[site.Package+"."+site.Type]))
}

// strongest keeps the best evidence, and one standing a goroutine.
func strongest(all []Standing) []Standing {
	best := noHolder
	for _, s := range all {
		best = max(best, s.How)
	}
	seen := map[*stacks.Member]bool{}
	var kept []Standing
	for _, s := range all {
		if s.How == best && !seen[s.Member] {
			seen[s.Member] = true
			kept = append(kept, s)
		}
	}
	return kept
}

// Waits is the lock that a standing goroutine waits for itself; 0 where it waits for none.
func (g *WaitFor) Waits(s Standing) LockID {
	if e := g.entries[s.Crowd]; e != nil && s.Member != nil {
		return e.lockOf(s.Crowd, s.Member)
	}
	return 0
}
