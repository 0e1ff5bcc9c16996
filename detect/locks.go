package detect

import (
	"fmt"
	"sort"

	"github.com/contend/contend/ingest/stacks"
)

// LockSet is one lock, or where its address is not known, the locks of one
// type: everybody who waits for it, at whichever site.
type LockSet struct {
	Waiters   []*Crowd         // largest first
	N         float64          // all who wait, in the measure of Crowd.N
	InScope   float64          // those of them that count in the view's shares, helpers' requests included
	Behind    float64          // requests that wait through a helper which waits for it
	Events    int64            // contentions
	Addresses map[uint64]int64 // waiters by address, where the dump has any
	Site      *stacks.Frame    // the site most wait at
	Kind      stacks.Kind      // what most wait for: lock, rlock or fdlock
	Telemetry Telemetry        // judged at the sites most wait at
	handsOver bool             // Site is where the lock is released
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

// Locks are the locks of a view, the most waited for first.
func (v *View) Locks() []*LockSet {
	if v.locks == nil {
		v.locks = buildLocks(v)
	}
	return v.locks
}

// buildLocks joins the sites of one lock: those of one address, and where an
// address is not printed (a read lock, a profile) those of one receiver type.
func buildLocks(v *View) []*LockSet {
	parent := map[string]string{}
	var find func(string) string
	find = func(k string) string {
		for parent[k] != k {
			parent[k] = parent[parent[k]]
			k = parent[k]
		}
		return k
	}
	node := func(k string) string {
		if _, ok := parent[k]; !ok {
			parent[k] = k
		}
		return find(k)
	}
	union := func(a, b string) {
		ra, rb := node(a), node(b)
		if ra != rb {
			parent[max(ra, rb)] = min(ra, rb)
		}
	}
	var waiting []*Crowd
	for _, c := range v.Crowds {
		if !c.Wait.Kind.IsLock() || c.Site() == nil || v.Mutex && c.Wait.Kind == stacks.Idle {
			continue
		}
		waiting = append(waiting, c)
		class := lockClass(c)
		node(class)
		if c.Group != nil {
			for a := range c.Group.Locks {
				union(class, fmt.Sprintf("@%x", a))
			}
		}
	}
	sets := map[string]*LockSet{}
	var out []*LockSet
	for _, c := range waiting {
		root := find(lockClass(c))
		l := sets[root]
		if l == nil {
			l = &LockSet{Addresses: map[uint64]int64{}}
			sets[root] = l
			out = append(out, l)
		}
		l.Waiters = append(l.Waiters, c)
		l.N += c.N
		l.Events += c.Events
		if v.InScope(c) {
			l.InScope += c.N
		}
		if c.Group != nil {
			for a, n := range c.Group.Locks {
				l.Addresses[a] += n
			}
		}
	}
	for _, c := range v.Crowds {
		if c.Through != nil && c.Through.Wait.Kind.IsLock() {
			if l := sets[find(lockClass(c.Through))]; l != nil {
				l.InScope += c.N
				l.Behind += c.N
			}
		}
	}
	for _, l := range out {
		l.summarise()
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].N > out[j].N })
	return out
}

func (l *LockSet) summarise() {
	sort.SliceStable(l.Waiters, func(i, j int) bool { return l.Waiters[i].N > l.Waiters[j].N })
	sites := map[string]float64{}
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
	}
	// Where two sites have the same number, the one that the other is called from
	// is where a reader should begin: it encloses them all.
	var best, bestBelow float64
	for _, c := range l.Waiters {
		n := sites[owner(c.Site())]
		if n < best {
			continue
		}
		below := 0.0
		for _, o := range l.Waiters {
			for _, f := range o.Frames[o.Wait.Site:] {
				if owner(f) == owner(c.Site()) {
					below += o.N
					break
				}
			}
		}
		better := n > best || below > bestBelow
		// Of one function, where it waits says more than where it hands over.
		if better || l.Site != nil && owner(l.Site) == owner(c.Site()) && l.handsOver && !c.Wait.Release {
			best, bestBelow, l.Site, l.handsOver = n, below, c.Site(), c.Wait.Release
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
