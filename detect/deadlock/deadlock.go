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
	if !found && p.Stacks != nil {
		found = nested(p, p.Stacks)
	}
	if found {
		return nil
	}
	switch {
	case p.Detail != nil:
		p.RuleOut("no cycle among the locks whose addresses and holders the dump shows")
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
	var waiters, inScope float64
	proven := true
	var story []string
	counted := map[*stacks.Member]bool{}
	for _, e := range cycle {
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
		if e.who.How < detect.ByEntry {
			proven = false
		}
		story = append(story, fmt.Sprintf("goroutine %d holds 0x%x in %s and waits for 0x%x in %s",
			e.who.Member.ID, uint64(e.holds), e.who.Crowd.Frames[e.who.Frame].Func, uint64(g.Waits(e.who)), e.who.Crowd.Site().Func))
	}
	first := biggest(g, cycle)
	site := siteOf(g, first.holds)
	f := detect.Finding{Wait: string(site.Wait.Kind), Confidence: detect.High, Outranks: 2, Lock: fmt.Sprintf("0x%x", uint64(first.holds))}
	if !proven {
		f.Confidence = detect.Medium
		f.Warnings = append(f.Warnings, "one holder was told by its receiver and because nobody else is inside the object, not by a function known to lock it")
	}
	f.Name(site.Site())
	v.Count(&f, waiters, 0)
	f.Weight = v.Share(inScope)
	f.Severity = severity(f.Weight)
	who := detect.DescribeCrowd(first.who.Crowd, first.who.Frame)
	who.Goroutine = first.who.Member.ID
	f.Holder = who
	switch {
	case len(cycle) == 1:
		f.Summary = fmt.Sprintf("goroutine %d waits for a lock that its own stack holds (%s below %s): it will never get it, and %s wait with it",
			first.who.Member.ID, first.who.Crowd.Site().Func, first.who.Crowd.Frames[first.who.Frame].Func, plural(waiters-1))
	default:
		f.Summary = fmt.Sprintf("%d goroutines wait for each other's locks in a cycle, and %s wait for these locks in all: %s", len(cycle), plural(waiters), strings.Join(story[:min(len(story), 2)], "; "))
	}
	const most = 6 // a longer cycle is told by its beginning
	for _, s := range story[:min(len(story), most)] {
		f.Evidence = append(f.Evidence, detect.Evidence{Text: s, Input: v.Name})
	}
	for _, e := range cycle[:min(len(cycle), 2)] {
		f.Evidence = append(f.Evidence, detect.Evidence{Text: fmt.Sprintf("the stack of goroutine %d", e.who.Member.ID), Input: v.Name, Stack: names(e.who.Crowd.Frames[e.who.Crowd.Wait.Site:min(len(e.who.Crowd.Frames), e.who.Frame+2)])})
	}
	f.Next = advice
	p.Report(f)
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

func severity(share float64) detect.Severity {
	if share >= 0.2 {
		return detect.Critical
	}
	return detect.Warning // it never ends by itself, however few it holds now
}

// maxObject is how far behind an object's address its WaitGroup can lie.
const maxObject = 4096

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
			f.Weight = v.Share(in)
			f.Severity = severity(f.Weight)
			f.Holder = detect.DescribeCrowd(h.Crowd, h.Frame)
			f.Holder.Goroutine = h.Member.ID
			f.Summary = fmt.Sprintf("goroutine %d probably holds a lock in %s while it waits for a WaitGroup of the same object; %s wait for that lock, and if one of them is counted by the WaitGroup neither can go on",
				h.Member.ID, h.Crowd.Frames[h.Frame].Func, plural(waiters))
			site := siteOf(g, id)
			f.Evidence = append(f.Evidence,
				detect.Evidence{Text: fmt.Sprintf("the stack of goroutine %d, which waits for the WaitGroup", h.Member.ID), Input: v.Name, Stack: names(h.Crowd.Frames[:min(len(h.Crowd.Frames), h.Frame+2)])},
				detect.Evidence{Text: fmt.Sprintf("%s wait for 0x%x, most in %s", plural(waiters), uint64(id), site.Site().Func), Input: v.Name, Count: waiters})
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
			return a.Addr() != 0 && !a.Stale() && a.Addr() >= recv && a.Addr()-recv < maxObject
		}
	}
	return false
}

// nested finds, without addresses, stacks that wait for a lock while inside a
// function which others enter by taking a lock of the same kind: a lock taken
// twice, or two of a kind taken in both orders. It is a suspicion, and only
// where nobody else can be holding the lock.
func nested(p *detect.Pass, v *detect.View) bool {
	found := false
	for _, l := range v.Locks() {
		c, i := l.Nested()
		if c == nil || !v.Material(l.InScope, l.Events, 3) {
			continue
		}
		if h, _ := detect.HolderOf(v, l.Without(c), 0); h != nil && h.Function != c.Frames[i].Func {
			continue
		}
		f := detect.Finding{Wait: string(l.Kind), Confidence: detect.Medium, Outranks: -1}
		f.Name(l.Site)
		v.Count(&f, l.N, l.Events)
		f.Weight = v.Share(l.InScope)
		f.Severity = detect.SeverityOf(f.Weight)
		f.Holder = detect.DescribeCrowd(c, i)
		f.Summary = fmt.Sprintf("a suspicion: %s wait for a lock in %s while inside %s, which takes a lock of the same kind; if it is the same lock, or two are taken in both orders, they wait for ever, and %s with them",
			detect.Thousands(c.N), c.Site().Func, c.Frames[i].Func, plural(l.N-c.N))
		f.Evidence = []detect.Evidence{{Text: fmt.Sprintf("%s in this stack", plural(c.N)), Input: v.Name, Count: c.N, Stack: names(c.Frames[c.Wait.Site:min(len(c.Frames), i+2)])}}
		f.Warnings = append(f.Warnings, "without lock addresses (a debug=2 dump) it cannot be proven")
		f.Next = append([]string{"take a debug=2 dump: it shows the locks' addresses, and with them whether this is a cycle"}, advice...)
		p.Report(f)
		found = true
	}
	return found
}

func plural(n float64) string {
	if n == 1 {
		return "1 goroutine"
	}
	return detect.Thousands(n) + " goroutines"
}

func names(frames []*stacks.Frame) []string {
	out := make([]string, len(frames))
	for i, f := range frames {
		out[i] = f.Func
	}
	return out
}
