package detect

import (
	"fmt"
	"slices"
	"sort"

	"github.com/contend/contend/ingest/stacks"
)

// LockSet is one lock of a type, in all objects of that type: everybody who
// waits for it, at whichever site. Where addresses are printed, two locks of
// one object are two sets; where none is, they cannot be told apart.
type LockSet struct {
	Waiters   []*Crowd         // largest first
	N         float64          // all who wait, in the measure of Crowd.N
	InScope   float64          // those of them that count in the view's shares, helpers' requests included
	Behind    float64          // requests that wait through a helper which waits for it
	Held      float64          // all whom the lock holds up, a request and its helper counted once
	Events    int64            // contentions
	Addresses map[uint64]int64 // waiters by address, where the dump has any
	Site      *stacks.Frame    // the site most wait at
	Kind      stacks.Kind      // what most wait for: lock, rlock or fdlock
	Telemetry Telemetry        // judged at the sites most wait at
	Shared    bool             // an RWMutex: several can hold it at once
	siteKind  stacks.Kind      // what is waited for at Site
	handsOver bool             // Site is where the lock is released
	entries   *entries
}

// Main is the address most wait for, and how many; 0 where none is known.
func (l *LockSet) Main() (addr uint64, n int64) {
	for a, c := range l.Addresses {
		if c > n || c == n && a < addr {
			addr, n = a, c
		}
	}
	return addr, n
}

// One is the lock's address where the set is essentially one lock: most of
// those whose address is known wait for it.
func (l *LockSet) One() uint64 {
	addr, n := l.Main()
	var all int64
	for _, c := range l.Addresses {
		all += c
	}
	if 2*n > all {
		return addr
	}
	return 0
}

// behind are all whom a lock holds up: its waiters, and the requests that wait through one.
func (v *View) behind(l *LockSet) []*Crowd {
	all, waits := slices.Clone(l.Waiters), map[*Crowd]bool{}
	for _, c := range l.Waiters {
		waits[c] = true
	}
	for _, c := range v.Crowds {
		if waits[c.Through] {
			all = append(all, c)
		}
	}
	return all
}

// Locks are the locks of a view, the most waited for first.
func (v *View) Locks() []*LockSet {
	if v.locks == nil {
		v.locks = buildLocks(v)
	}
	return v.locks
}

// forest is a union-find over names.
type forest map[string]string

func (f forest) find(k string) string {
	if _, ok := f[k]; !ok {
		f[k] = k
	}
	for f[k] != k {
		f[k] = f[f[k]]
		k = f[k]
	}
	return k
}

func (f forest) union(a, b string) {
	if ra, rb := f.find(a), f.find(b); ra != rb {
		f[max(ra, rb)] = min(ra, rb)
	}
}

// buildLocks joins the sites of one lock: sites that wait for one address, or
// for the same place in objects of one type. Sites without an address (a read
// lock, a profile) go by the type alone, to its most waited-for lock.
func buildLocks(v *View) []*LockSet {
	joined := forest{}
	var waiting []*Crowd
	place := map[*Crowd]string{}
	largest := map[string]*Crowd{} // class to the largest crowd with an address
	for _, c := range v.Crowds {
		site := c.Site()
		if !c.Wait.Kind.IsLock() || site == nil {
			continue
		}
		waiting = append(waiting, c)
		class := lockClass(c)
		place[c] = fmt.Sprintf("%s %s:%d", class, site.Func, site.Line)
		if c.Group == nil || len(c.Group.Locks) == 0 {
			continue
		}
		if largest[class] == nil {
			largest[class] = c // crowds come largest first
		}
		for a := range c.Group.Locks {
			joined.union(place[c], fmt.Sprintf("@%x", a))
		}
		if d, ok := lockOffset(c); ok {
			joined.union(place[c], fmt.Sprintf("%s+%d", class, d))
		}
	}
	for _, c := range waiting {
		if c.Group != nil && len(c.Group.Locks) > 0 {
			continue
		}
		class := lockClass(c)
		if l := largest[class]; l != nil {
			joined.union(place[c], place[l])
		} else {
			joined.union(place[c], class)
		}
	}
	sets := map[string]*LockSet{}
	of := map[*Crowd]*LockSet{}
	var out []*LockSet
	for _, c := range waiting {
		root := joined.find(place[c])
		l := sets[root]
		if l == nil {
			l = &LockSet{Addresses: map[uint64]int64{}}
			sets[root] = l
			out = append(out, l)
		}
		of[c] = l
		l.Waiters = append(l.Waiters, c)
		l.N += c.N
		l.Events = addEvents(l.Events, c.Events)
		if v.InScope(c) {
			l.InScope += c.N
		}
		if c.Group != nil {
			for a, n := range c.Group.Locks {
				l.Addresses[a] += n
			}
		}
	}
	helping := map[*Crowd]bool{}
	for _, c := range v.Crowds {
		l := of[c.Through]
		if c.Through == nil || l == nil {
			continue
		}
		l.InScope += c.counted()
		l.Behind += c.counted()
		// Inside one library both are at the lock, as at two of its sites.
		if c.Through.nested {
			l.Held -= c.counted() // those that were given up are held all the same
			continue
		}
		if own := c.Site().Package; !helping[c.Through] && (own == "main" || own != c.Through.Site().Package) {
			helping[c.Through] = true
			l.Held -= c.Through.N
		}
	}
	for _, l := range out {
		l.Held += l.N + l.Behind
		l.summarise()
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].N > out[j].N })
	return out
}

// lockOffset is where in its object the lock lies that c waits for, where
// both addresses are printed.
func lockOffset(c *Crowd) (int64, bool) {
	if c.Site().Type == "" {
		return 0, false
	}
	for i := range c.Group.Members {
		m := &c.Group.Members[i]
		if m.Lock == 0 || c.Wait.Site >= len(m.Args) {
			continue
		}
		recv := m.Args[c.Wait.Site]
		if d := int64(m.Lock) - int64(recv.Addr()); recv.Addr() != 0 && !recv.Stale() && d >= 0 && d < MaxObject {
			return d, true
		}
	}
	return 0, false
}

func (l *LockSet) summarise() {
	sort.SliceStable(l.Waiters, func(i, j int) bool { return l.Waiters[i].N > l.Waiters[j].N })
	sites := map[string]float64{}
	below := map[string]float64{} // by function: waiters that stand in it anywhere
	kinds := map[stacks.Kind]float64{}
	var tele float64
	var topTele *Crowd
	for _, c := range l.Waiters {
		sites[owner(c.Site())] += c.N
		kinds[c.Wait.Kind] += c.N
		if c.Telemetry.Is {
			tele += c.N
			if topTele == nil {
				topTele = c
			}
		}
		seen := map[string]bool{}
		for _, f := range c.Frames[c.Wait.Site:] {
			if o := owner(f); !seen[o] {
				seen[o] = true
				below[o] += c.N
			}
		}
		for _, f := range c.Frames[:c.Wait.Site] {
			l.Shared = l.Shared || f.Type == "RWMutex"
		}
	}
	// Where two sites have the same number, the one that the other is called from
	// is where a reader should begin: it encloses them all.
	var best, bestBelow float64
	for _, c := range l.Waiters {
		o := owner(c.Site())
		better := sites[o] > best || sites[o] == best && below[o] > bestBelow
		// Of one function, where it waits says more than where it hands over.
		if better || l.handsOver && !c.Wait.Release && o == owner(l.Site) {
			best, bestBelow, l.Site, l.siteKind, l.handsOver = sites[o], below[o], c.Site(), c.Wait.Kind, c.Wait.Release
		}
	}
	if 2*tele > l.N && topTele != nil {
		l.Telemetry = topTele.Telemetry
	}
	best = 0
	for _, k := range [...]stacks.Kind{stacks.Lock, stacks.RLock, stacks.FDLock} {
		if kinds[k] > best {
			best, l.Kind = kinds[k], k
		}
	}
}

// lockClass is what identifies a lock without its address: the type whose
// methods take it, or where plain functions do, their package. Package main is
// too big a roof for that, so there it is the function.
func lockClass(c *Crowd) string {
	site := c.Site()
	if t, ok := wrapperType(c); ok {
		return site.Package + "." + t
	}
	if site.Type != "" {
		return site.Package + "." + site.Type
	}
	if c.Wait.Kind == stacks.FDLock || site.Package == "main" {
		return owner(site)
	}
	return site.Package
}

// wrapperType is the type of a lock wrapper of the site's own package, which
// stands for the lock better than the many types that use it.
func wrapperType(c *Crowd) (string, bool) {
	if c.Wait.Site < 1 {
		return "", false
	}
	f := c.Frames[c.Wait.Site-1]
	if f.Package == c.Site().Package && f.Type != "" {
		return f.Type, true
	}
	return "", false
}

// owner is a function's name without the suffixes of closures and wrappers,
// so that a deferred unlock counts with its function.
func owner(f *stacks.Frame) string {
	if f == nil {
		return ""
	}
	return stacks.Owner(f)
}
