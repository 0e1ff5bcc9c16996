package detect

import "github.com/contend/contend/ingest/stacks"

// maxFields is how many locks of one type are told apart.
const maxFields = 32

// LockID identifies a lock in a dump with addresses: its own address, or where
// that is not printed (read locks are inlined), that of the object it is in.
type LockID uint64

// WaitFor is the graph in which a cycle is a deadlock: which lock each waiting
// goroutine waits for, and which locks each goroutine's stack is inside of.
type WaitFor struct {
	Waiters map[LockID][]Standing
	Held    map[LockID][]Standing // on the best evidence there is for the lock
	entries map[*Crowd]*entries
}

// Graph builds the wait-for graph of a view with addresses.
func (v *View) Graph() *WaitFor {
	g := &WaitFor{Waiters: map[LockID][]Standing{}, Held: map[LockID][]Standing{}, entries: map[*Crowd]*entries{}}
	byType := map[string][]*entries{}
	for _, l := range v.Locks() {
		e := l.enter()
		for t := range e.types {
			// Locks come most waited for first; no real type has so many.
			if len(byType[t]) < maxFields {
				byType[t] = append(byType[t], e)
			}
		}
		for _, c := range l.Waiters {
			if c.Group == nil || c.Wait.Release {
				continue
			}
			g.entries[c] = e
			for i := range c.Group.Members {
				m := &c.Group.Members[i]
				if id := e.lockOf(c, m); id != 0 {
					g.Waiters[id] = append(g.Waiters[id], Standing{Crowd: c, Member: m, Frame: c.Wait.Site, How: ByEntry})
				}
			}
		}
	}
	for _, c := range v.Crowds {
		if c.Group != nil && !c.Wait.Release {
			g.hold(c, byType)
		}
	}
	for id := range g.Held {
		g.Held[id] = strongest(g.Held[id])
	}
	return g
}

// hold adds what the goroutines of c hold.
func (g *WaitFor) hold(c *Crowd, byType map[string][]*entries) {
	from := 0
	if c.Wait.Kind.IsLock() {
		if c.Site() == nil {
			return // nothing above the lock itself
		}
		from = c.Wait.Site
	}
	for j := from; j < len(c.Frames); j++ {
		f := c.Frames[j]
		if f.Type == "" {
			continue
		}
		t := f.Package + "." + f.Type
		for _, e := range byType[t] {
			line, entry := e.line[f.Func]
			if own := c.Wait.Kind.IsLock() && j == c.Wait.Site; own && (!entry || e == g.entries[c]) {
				continue // where it waits it is inside only what its function locked before
			}
			sameLine := f.Line == line && j > 0 && j != c.Wait.Site && !primitive(c.Frames[j-1])
			if entry && line > 0 && f.Line > 0 && f.Line <= line && !sameLine {
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
				id := LockID(m.Args[j].Addr() + uint64(e.offset[t]))
				if _, waited := g.Waiters[id]; waited {
					g.Held[id] = append(g.Held[id], Standing{Crowd: c, Member: m, Frame: j, How: how})
				}
			}
		}
	}
}

// Waits is the lock that a standing goroutine waits for itself; 0 where it waits for none.
func (g *WaitFor) Waits(s Standing) LockID {
	if e := g.entries[s.Crowd]; e != nil && s.Member != nil {
		return e.lockOf(s.Crowd, s.Member)
	}
	return 0
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
