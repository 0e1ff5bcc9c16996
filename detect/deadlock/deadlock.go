// Package deadlock finds goroutines that wait for each other in a cycle, or
// for a lock their own stack holds.
package deadlock

import (
	_ "embed"
	"fmt"
	"sort"
	"strings"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/stacks"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:    "deadlock",
	Title:   "goroutines wait for each other in a cycle",
	Role:    detect.Cause,
	Doc:     doc,
	Needs:   []detect.Need{{Input: detect.Stacks}},
	NoAlert: "a wait that never ends is counted nowhere: only a dump shows it",
	Run:     run,
}

func run(p *detect.Pass) error {
	found := false
	if p.Detail != nil {
		g := p.Detail.Graph()
		found = cycles(p, p.Detail, g)
		if !found {
			found = joinUnderLock(p, p.Detail, g)
		}
	}
	if !found && p.Detail != nil && asleep(p.Detail) {
		found = allAsleep(p, p.Detail)
	}
	if !found {
		found = nested(p)
	}
	if found {
		return nil
	}
	switch {
	case p.Detail != nil:
		p.RuleOut("no cycle seen among the locks whose addresses and holders the dump shows")
	default:
		p.RuleOut("no stack takes a lock of a kind it is already inside of; without addresses (debug=2) no cycle can be followed")
	}
	return nil
}

// edge is one step of a cycle: a goroutine that holds a lock and waits for the next.
type edge struct {
	holds detect.LockID
	who   detect.Standing
}

// cycles follows each lock to its holder, to the lock that one waits for, and
// so on. Each lock must have one holder on the best evidence there is, so a
// cycle is unambiguous.
func cycles(p *detect.Pass, v *detect.View, g *detect.WaitFor) bool {
	var ids []detect.LockID
	for id := range g.Waiters {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	done := map[detect.LockID]bool{}
	found := false
	for _, start := range ids {
		var path []edge
		at := map[detect.LockID]int{}
		for id := start; id != 0 && !done[id]; {
			if i, seen := at[id]; seen {
				report(p, v, g, path[i:])
				found = true
				break
			}
			held := g.Held[id]
			if len(held) != 1 {
				break
			}
			at[id] = len(path)
			path = append(path, edge{id, held[0]})
			id = g.Waits(held[0])
		}
		for _, e := range path {
			done[e.holds] = true
		}
		done[start] = true
	}
	return found
}

func report(p *detect.Pass, v *detect.View, g *detect.WaitFor, cycle []edge) {
	waiters, inScope, aged := crowd(v, g, cycle)
	entered := true
	var story []string
	for _, e := range cycle {
		entered = entered && e.who.How == detect.ByEntry
		story = append(story, fmt.Sprintf("goroutine %d is inside 0x%x by %s and waits for 0x%x in %s",
			e.who.Member.ID, uint64(e.holds), e.who.Crowd.Frames[e.who.Frame].Func, uint64(g.Waits(e.who)), e.who.Crowd.Site().Func))
	}
	first := biggest(g, cycle)
	site := siteOf(g, first.holds)
	var locks []string
	for _, e := range cycle {
		locks = append(locks, fmt.Sprintf("0x%x", uint64(e.holds)))
	}
	f := detect.Finding{Wait: string(site.Wait.Kind), Confidence: detect.Medium, Outranks: -1, Lock: fmt.Sprintf("0x%x", uint64(first.holds)), Locks: locks}
	proven := false
	switch {
	case entered && (len(cycle) > 1 || aged):
		// Two goroutines that are each past the line where the other waits cannot
		// both have let go. One alone may have: it unlocks, calls out and comes
		// back, which only time rules out.
		f.Confidence, f.Outranks, proven = detect.High, 2, true
	case asleep(v):
		f.Confidence, f.Outranks, proven = detect.High, 2, true
	case len(cycle) > 1 && aged:
		f.Outranks, proven = 2, true
		f.Warnings = append(f.Warnings, "one holder was told by its receiver and because nobody else is inside the object, not by a function known to lock it; that all have waited for minutes speaks for it")
	case len(cycle) == 1 && entered && writerWaits(g, first.holds) && len(g.Held[first.holds]) == 1:
		// A writer that waits for readers proves that one has not let go, and nobody
		// else is inside.
		f.Outranks, proven = 2, true
		f.Warnings = append(f.Warnings, "told by elimination: a writer waits for readers to leave, and this is the only one seen inside")
	case len(cycle) == 1 && !entered:
		return // inside a method of the object, which need not lock anything
	default:
		f.Warnings = append(f.Warnings, "a suspicion: whoever is past the line that locks may have unlocked before it called on; a second dump with the same goroutines in the same place proves it")
	}
	f.Name(site.Site())
	v.Count(&f, waiters, 0)
	f.RequestsBlocked = requests(v, inScope)
	f.Weight = v.Share(inScope)
	f.Severity = severity(f.Weight, proven)
	f.Holder = detect.DescribeCrowd(first.who.Crowd, first.who.Frame)
	f.Holder.Goroutine = first.who.Member.ID
	prefix := ""
	if !proven {
		prefix = "a suspicion: "
	}
	below, above := first.who.Crowd.Site().Func, first.who.Crowd.Frames[first.who.Frame].Func
	if len(cycle) == 1 {
		f.Summary = fmt.Sprintf("%sgoroutine %d waits for a lock that its own stack took (%s below %s), and %s wait with it", prefix, first.who.Member.ID, below, above, detect.Plural(waiters-1, "goroutine"))
		f.Next = selfAdvice
	} else {
		f.Summary = fmt.Sprintf("%s%d goroutines wait for each other's locks in a cycle, and %s wait for these locks in all: %s", prefix, len(cycle), detect.Plural(waiters, "goroutine"), strings.Join(story[:2], "; "))
		f.Next = advice
	}
	const most = 6 // a longer cycle is told by its beginning
	for _, s := range story[:min(len(story), most)] {
		f.Evidence = append(f.Evidence, detect.Evidence{Text: s, Input: v.Name})
	}
	for _, e := range cycle[:min(len(cycle), 2)] {
		f.Evidence = append(f.Evidence, detect.Evidence{Text: fmt.Sprintf("the stack of goroutine %d", e.who.Member.ID), Input: v.Name, Stack: stackOf(e.who.Crowd, e.who.Frame)})
	}
	p.Report(f)
}

// asleep reports whether the runtime itself ended the process because none of
// its goroutines could ever go on.
func asleep(v *detect.View) bool {
	return strings.Contains(v.Snapshot.Crash, "all goroutines are asleep")
}

// allAsleep reports what the runtime found without a cycle of locks: everybody
// waits for something that nobody is left to do.
func allAsleep(p *detect.Pass, v *detect.View) bool {
	var top *detect.Crowd
	for _, c := range v.Crowds {
		if c.Site() != nil && c.Wait.Kind != stacks.Idle && (top == nil || c.N > top.N) {
			top = c
		}
	}
	if top == nil {
		return false
	}
	f := detect.Finding{Wait: string(top.Wait.Kind), Confidence: detect.High, Severity: detect.Critical, Outranks: 2, Weight: 1,
		Blocked: v.Goroutines, Total: v.Goroutines, Unit: detect.Goroutines, Goroutines: detect.Whole(v.Goroutines)}
	f.Name(top.Site())
	f.Summary = fmt.Sprintf("the process died because all its goroutines were asleep: %s, most %s", detect.Plural(v.Goroutines, "goroutine"), detect.WaitsIn(top))
	f.Evidence = []detect.Evidence{{Text: v.Snapshot.Crash, Input: v.Name}, {Text: fmt.Sprintf("%s in this stack", detect.Plural(top.N, "goroutine")), Input: v.Name, Count: top.N, Stack: stackOf(top, top.Wait.Site+4)}}
	f.Next = []string{"see who should have served what they wait for, and why it ended or was never started"}
	p.Report(f)
	return true
}

// writerWaits reports whether a writer has the lock's turn and waits for its
// readers to leave.
func writerWaits(g *detect.WaitFor, id detect.LockID) bool {
	for _, w := range g.Waiters[id] {
		for _, f := range w.Crowd.Frames[:w.Crowd.Wait.Site] {
			if f.Name == "runtime_SemacquireRWMutex" {
				return true
			}
		}
	}
	return false
}

// crowd counts who waits for the locks of a cycle, those of them in scope, and
// whether every goroutine of the cycle has waited for a minute at least.
func crowd(v *detect.View, g *detect.WaitFor, cycle []edge) (waiters, inScope float64, aged bool) {
	counted := map[*stacks.Member]bool{}
	aged = true
	for _, e := range cycle {
		aged = aged && e.who.Member.Minutes > 0
		for _, w := range g.Waiters[e.holds] {
			if counted[w.Member] {
				continue
			}
			counted[w.Member] = true
			waiters++
			if v.InScope(w.Crowd) {
				inScope++
			}
		}
	}
	return waiters, inScope, aged
}

func requests(v *detect.View, inScope float64) int64 {
	if !v.ByRequest || v.Unit == detect.Samples {
		return 0
	}
	return int64(inScope)
}

// stackOf is a goroutine's stack from where it waits to where it holds.
func stackOf(c *detect.Crowd, frame int) []string {
	return detect.Names(c.Frames[max(c.Wait.Site, 0):min(len(c.Frames), frame+2)])
}

var selfAdvice = []string{
	"restart the process if it stands still: no lock of sync can be taken twice by one goroutine; keep this dump for the repair",
	"do not call back into the object while holding its lock; a read lock taken twice waits for ever once a writer stands between",
}

var advice = []string{
	"restart the process: nothing else ends a deadlock; keep this dump for the repair",
	"take the locks in one order everywhere, or do not call into code that locks while holding one",
}

func biggest(g *detect.WaitFor, cycle []edge) edge {
	best := cycle[0]
	for _, e := range cycle[1:] {
		if len(g.Waiters[e.holds]) > len(g.Waiters[best.holds]) {
			best = e
		}
	}
	return best
}

// siteOf is the crowd most of a lock's waiters are in.
func siteOf(g *detect.WaitFor, id detect.LockID) *detect.Crowd {
	n := map[*detect.Crowd]int{}
	var best *detect.Crowd
	for _, w := range g.Waiters[id] {
		n[w.Crowd]++
		if best == nil || n[w.Crowd] > n[best] {
			best = w.Crowd
		}
	}
	return best
}

// severity of a deadlock: it never ends by itself, however few it holds now. A
// suspicion is no more than worth a look.
func severity(share float64, proven bool) detect.Severity {
	switch {
	case !proven:
		return detect.Info
	case share >= detect.MaterialShare:
		return detect.Critical
	}
	return detect.Warning
}

// joinUnderLock finds a goroutine that holds a lock while it waits for a WaitGroup of the
// same object, when a goroutine that could be one of those it waits for wants
// that lock. That the WaitGroup counts just that goroutine cannot be read from a dump.
func joinUnderLock(p *detect.Pass, v *detect.View, g *detect.WaitFor) bool {
	var ids []detect.LockID
	for id := range g.Held {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	for _, id := range ids {
		for _, h := range g.Held[id] {
			if h.Crowd.Wait.Kind != stacks.Cond || !groupOf(h) || h.Crowd.Site() == nil {
				continue
			}
			waiters := float64(len(g.Waiters[id]))
			in := 1.0
			for _, w := range g.Waiters[id] {
				if v.InScope(w.Crowd) {
					in++
				}
			}
			f := detect.Finding{Wait: string(stacks.Lock), Confidence: detect.Medium, Outranks: 1, Lock: fmt.Sprintf("0x%x", uint64(id))}
			f.Name(h.Crowd.Frames[h.Frame])
			v.Count(&f, waiters+1, 0)
			f.RequestsBlocked = requests(v, in-1)
			f.Weight = v.Share(in)
			f.Severity = severity(f.Weight, true)
			f.Holder = detect.DescribeCrowd(h.Crowd, h.Frame)
			f.Holder.Goroutine = h.Member.ID
			f.Summary = fmt.Sprintf("goroutine %d probably holds a lock in %s while it waits for a WaitGroup of the same object; %s wait for that lock, and if one of them is counted by the WaitGroup neither can go on",
				h.Member.ID, h.Crowd.Frames[h.Frame].Func, detect.Plural(waiters, "goroutine"))
			site := siteOf(g, id)
			f.Evidence = append(f.Evidence,
				detect.Evidence{Text: fmt.Sprintf("the stack of goroutine %d, which waits for the WaitGroup", h.Member.ID), Input: v.Name, Stack: detect.Names(h.Crowd.Frames[:min(len(h.Crowd.Frames), h.Frame+2)])},
				detect.Evidence{Text: fmt.Sprintf("%s wait for 0x%x, most in %s", detect.Plural(waiters, "goroutine"), uint64(id), site.Site().Func), Input: v.Name, Count: waiters})
			f.Warnings = append(f.Warnings, "a suspicion: a dump does not show whom a WaitGroup counts")
			f.Next = advice
			p.Report(f)
			return true
		}
	}
	return false
}

// groupOf reports whether h waits for a WaitGroup that lies in the object whose method it is in.
func groupOf(h detect.Standing) bool {
	recv := h.Member.Args[h.Frame].Addr()
	for i := 0; i < h.Frame && i < len(h.Member.Args); i++ {
		f := h.Crowd.Frames[i]
		if f.Package == "sync" && f.Type == "WaitGroup" && f.Name == "Wait" {
			a := h.Member.Args[i]
			return a.Addr() != 0 && !a.Stale() && a.Addr() >= recv && a.Addr()-recv < detect.MaxObject
		}
	}
	return false
}

// nested finds, without addresses, stacks that wait for a lock while inside a
// function which others enter by taking a lock of the same kind: a lock taken
// twice, or two of a kind taken in both orders. It is a suspicion, and only
// where nobody else can be holding the lock. Where a dump has the addresses, the
// graph has answered already.
func nested(p *detect.Pass) bool {
	v := p.Stacks
	if v == nil {
		return false
	}
	found := false
	for _, l := range v.Locks() {
		if len(l.Addresses) > 0 || !v.Material(l.InScope, l.Events, detect.MaterialCount) || p.Detail != nil && p.Detail != v && addressed(p.Detail, l) {
			continue
		}
		c, i := l.Nested()
		if c == nil {
			continue
		}
		if h, _ := detect.HolderOf(v, l, 0); h != nil && h.Function != c.Frames[i].Func {
			continue
		}
		f := detect.Finding{Wait: string(l.Kind), Confidence: detect.Medium, Severity: detect.Info, Outranks: -1, Weight: v.Share(l.InScope)}
		f.Name(l.Site)
		v.Count(&f, l.N, l.Events)
		f.RequestsBlocked = requests(v, l.InScope)
		f.Holder = detect.DescribeCrowd(c, i)
		f.Summary = fmt.Sprintf("a suspicion: %s wait for a lock in %s while inside %s, which takes a lock of the same kind; if it is the same lock, or two are taken in both orders, they wait for ever, and %s with them",
			detect.Thousands(c.N), c.Site().Func, c.Frames[i].Func, detect.Plural(l.N-c.N, "goroutine"))
		f.Evidence = []detect.Evidence{{Text: fmt.Sprintf("%s in this stack", detect.Plural(c.N, "goroutine")), Input: v.Name, Count: c.N, Stack: stackOf(c, i)}}
		f.Warnings = append(f.Warnings, "without lock addresses (a debug=2 dump) it cannot be proven")
		f.Next = append([]string{"take a debug=2 dump: it shows the locks' addresses, and with them whether this is a cycle"}, advice...)
		p.Report(f)
		found = true
	}
	return found
}

// addressed reports whether the addresses of lock l's waiters are known in a view with details.
func addressed(v *detect.View, l *detect.LockSet) bool {
	for _, m := range v.Locks() {
		if m.Site != nil && l.Site != nil && stacks.Owner(m.Site) == stacks.Owner(l.Site) && len(m.Addresses) > 0 {
			return true
		}
	}
	return false
}
