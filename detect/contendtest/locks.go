package contendtest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// key identifies a lock: by address where that is known, by class otherwise.
type key struct {
	address uint64
	class   string
}

// class is the type whose methods take a lock, or where functions do, their
// package; in package main, which may be anything, the function.
func class(f *stacks.Frame) string {
	switch {
	case f.Type != "":
		return f.Package + "." + f.Type
	case f.Package == "main":
		return stacks.Owner(f)
	}
	return f.Package
}

// sum is the waits for one lock.
type sum struct {
	waiting, contentions float64
	readWrite            bool
	readersWait          bool
	functions            map[string]*function
}

// function is one that asks for a lock.
type function struct {
	name    string
	waiting float64
	top     *waits.Site // its stack where most is waited
}

// locks are the locks that callers waited for, the largest utilisation first. A
// function's waits are shared out among the locks that snapshots saw it wait for.
func (o *observed) locks(r *Result) []Lock {
	sites := slices.DeleteFunc(o.blocked.Sites, func(s waits.Site) bool { return !s.Wait.Kind.IsLock() || s.Wait.Site < 0 || s.Delay == 0 })
	classOf := map[string]string{} // by function
	for i := range sites {
		f := sites[i].Frames[sites[i].Wait.Site]
		classOf[stacks.Owner(f)] = class(f)
	}
	byFunction, byClass := map[string]map[uint64]int64{}, map[string]map[uint64]int64{}
	for _, snapshot := range o.snapshots {
		for w, n := range snapshot {
			if w.address != 0 {
				count(byFunction, w.function, w.address, n)
				count(byClass, classOf[w.function], w.address, n)
			}
		}
	}
	sums := map[key]*sum{}
	for i := range sites {
		s := &sites[i]
		function := stacks.Owner(s.Frames[s.Wait.Site])
		among := byFunction[function]
		if len(among) == 0 { // of a reader no address is printed
			among = byClass[classOf[function]]
		}
		total := int64(0)
		for _, n := range among {
			total += n
		}
		waiting := s.Delay.Seconds() / o.elapsed.Seconds()
		if total == 0 {
			add(sums, key{class: classOf[function]}, s, waiting, 1)
		}
		for address, n := range among {
			add(sums, key{address: address}, s, waiting, float64(n)/float64(total))
		}
	}
	var out []Lock
	for k, s := range sums {
		out = append(out, s.lock(r, o.busy(k, s)))
	}
	slices.SortFunc(out, func(a, b Lock) int {
		return cmp.Or(cmp.Compare(b.Utilisation, a.Utilisation), cmp.Compare(a.Function, b.Function))
	})
	return out
}

func count(in map[string]map[uint64]int64, name string, address uint64, n int64) {
	if in[name] == nil {
		in[name] = map[uint64]int64{}
	}
	in[name][address] += n
}

// busy is the share of snapshots with somebody waiting for a lock, with one more
// that might have had, as none in a few is no proof.
func (o *observed) busy(k key, s *sum) float64 {
	seen := 0
	for _, snapshot := range o.snapshots {
		for w := range snapshot {
			if s.functions[w.function] != nil && (w.address == k.address || w.address == 0) {
				seen++
				break
			}
		}
	}
	return float64(seen+1) / float64(len(o.snapshots)+1)
}

// add adds a share of what was waited at a site.
func add(sums map[key]*sum, k key, site *waits.Site, waiting, share float64) {
	s := sums[k]
	if s == nil {
		s = &sum{functions: map[string]*function{}}
		sums[k] = s
	}
	s.waiting += share * waiting
	s.contentions += share * float64(site.Contentions)
	s.readWrite = s.readWrite || slices.ContainsFunc(site.Frames[:site.Wait.Site], func(f *stacks.Frame) bool { return f.Package == "sync" && f.Type == "RWMutex" })
	s.readersWait = s.readersWait || site.Wait.Kind == stacks.RLock
	name := stacks.Owner(site.Frames[site.Wait.Site])
	f := s.functions[name]
	if f == nil {
		f = &function{name: name, top: site} // sites come with the longest delay first
		s.functions[name] = f
	}
	f.waiting += share * waiting
}

// lock is what s says of a lock that somebody waits for in a share busy of the time.
func (s *sum) lock(r *Result, busy float64) Lock {
	top := slices.MaxFunc(slices.Collect(maps.Values(s.functions)), func(a, b *function) int {
		return cmp.Or(cmp.Compare(a.waiting, b.waiting), cmp.Compare(b.name, a.name))
	})
	frames, at := top.top.Frames, top.top.Wait.Site
	site := frames[at]
	l := Lock{
		Function: top.name, Package: site.Package, Library: site.Library(), Standard: site.Std,
		ReadWrite: s.readWrite, Waiting: s.waiting, Contentions: int64(s.contentions + 0.5),
	}
	for _, caller := range frames[at+1 : max(at+1, outer(frames))] {
		if !strings.HasSuffix(caller.Name, "-fm") { // the compiler's, for a method value
			l.Callers = append(l.Callers, stacks.Owner(caller))
		}
	}
	// Those at work are Together/Alone, but two must be there for one to wait.
	n := min(max(2, s.waiting+r.Scaling), float64(r.Parallelism))
	held := min(byQueue(s.waiting, n), byWaiters(busy, n))
	if s.readersWait {
		held = min(held, busy)
	}
	l.Saturates = r.Together / held
	l.Holding = time.Duration(held / r.Together * float64(time.Second))
	l.Utilisation = r.Rate * held / r.Together
	return l
}
