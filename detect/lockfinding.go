package detect

import (
	"fmt"
	"sort"
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// LockFindings reports the locks that requests wait for and that want accepts,
// from the best view there is, with what the other views say of the same lock.
// It is the common part of the detectors of locks; next is what to do, and
// label what to call the code ("telemetry", "application").
func LockFindings(p *Pass, want func(*LockSet) bool, next func(*LockSet, *Holder) []string) {
	seen := map[string]bool{}
	for _, v := range [...]*View{p.Stacks, p.Block, p.Mutex} {
		if v == nil || v.Cumulative && v.Kind == Waits && p.Stacks != nil {
			continue // since the process began: no match for what is seen now
		}
		for _, l := range v.Locks() {
			n := l.InScope
			if v.Mutex {
				n = l.N
			}
			if !want(l) || seen[owner(l.Site)] || !v.Material(n, l.Events, materialCount) {
				continue
			}
			if v.Mutex && (p.Block != nil || p.Stacks != nil) && alreadySeen(l, seen) {
				continue
			}
			for _, c := range l.Waiters {
				seen[owner(c.Site())] = true
			}
			p.Report(lockFinding(p, v, l, n, next))
		}
	}
}

func alreadySeen(l *LockSet, seen map[string]bool) bool {
	for _, c := range l.Waiters {
		if seen[owner(c.Site())] {
			return true
		}
	}
	return false
}

func lockFinding(p *Pass, v *View, l *LockSet, n float64, next func(*LockSet, *Holder) []string) Finding {
	f := Finding{Wait: string(l.Kind), Severity: SeverityOf(v.Share(n)), Confidence: ConfidenceOf(v, n)}
	f.Name(l.Site)
	if v.Mutex {
		// The profile charges the release, often in a deferred closure.
		f.Function, f.Charged = owner(l.Site), "holder"
	}
	v.Count(&f, n, l.Events)
	if v.Kind == Stacks && v.Unit != Samples {
		f.Blocked = l.N + l.Behind // everybody who waits for the lock, requests or not
		if v.ByRequest {
			f.RequestsBlocked = int64(n)
		}
		f.Weight = v.Share(n)
	}
	if l.Telemetry.ByWord {
		f.Confidence = Weaker(f.Confidence, Medium)
		f.Warnings = append(f.Warnings, fmt.Sprintf("counted as telemetry only because its path has the element %q", l.Telemetry.Name))
	}

	names, dl := v, l
	if v.Kind == Stacks && p.Detail != nil && p.Detail != v {
		if m := sameLock(p.Detail, l); m != nil {
			names, dl = p.Detail, m
		}
	}
	addr, at := dl.Main()
	if addr != 0 {
		f.Lock = fmt.Sprintf("0x%x", addr)
		f.Evidence = append(f.Evidence, addressEvidence(names, dl, at))
	}
	if v.Kind == Stacks {
		f.Holder, f.Holds = HolderOf(names, dl, addr)
		if f.Holder == nil && names != v {
			if h, _ := HolderOf(v, l, 0); h != nil {
				f.Holder, f.Holds = h, ""
			}
		}
	}
	f.Evidence = append(f.Evidence, siteEvidence(v, l)...)
	f.Evidence = append(f.Evidence, otherViews(p, v, l)...)
	if v.Cumulative && v.Kind == Waits {
		f.Warnings = append(f.Warnings, "one cumulative profile: shares since the process began, not what waits now; a second one some seconds later gives the concurrency")
	}
	if v.Mutex {
		f.Warnings = append(f.Warnings, "a mutex profile charges the code that releases the lock, that is its holder's, not the waiters'")
	}
	f.Summary = lockSummary(v, l, n, &f)
	f.Next = next(l, f.Holder)
	return f
}

func lockSummary(v *View, l *LockSet, n float64, f *Finding) string {
	var b strings.Builder
	what := "a lock"
	switch l.Kind {
	case stacks.RLock:
		what = "a read lock"
	case stacks.FDLock:
		what = "the lock of one file descriptor"
	}
	of := v.Of(n, l.Events)
	if v.Mutex {
		fmt.Fprintf(&b, "%s: %s was held by %s", of, what, f.Function)
	} else {
		fmt.Fprintf(&b, "%s wait for %s in %s", of, what, f.Function)
	}
	if v.Unit == Requests && v.Kind == Stacks && l.N+l.Behind > n+0.5 {
		fmt.Fprintf(&b, " (%s goroutines in all)", Thousands(l.N+l.Behind))
	}
	if h := f.Holder; h != nil {
		who := "its likely holder"
		if h.Goroutine != 0 {
			who = fmt.Sprintf("its likely holder, goroutine %d,", h.Goroutine)
		}
		fmt.Fprintf(&b, "; %s is %s", who, h.Wait)
	}
	return b.String()
}

// sameLock finds in view v the lock that l is in another view.
func sameLock(v *View, l *LockSet) *LockSet {
	want := map[string]bool{}
	for _, c := range l.Waiters {
		want[owner(c.Site())] = true
	}
	for _, m := range v.Locks() {
		for _, c := range m.Waiters {
			if want[owner(c.Site())] {
				return m
			}
		}
	}
	return nil
}

func addressEvidence(v *View, l *LockSet, at int64) Evidence {
	var all int64
	for _, n := range l.Addresses {
		all += n
	}
	e := Evidence{Input: v.Name, Count: float64(at)}
	if len(l.Addresses) == 1 {
		e.Text = fmt.Sprintf("all %s waiters whose lock address is printed wait for one lock", Thousands(float64(all)))
	} else {
		e.Text = fmt.Sprintf("waiters are spread over %s locks; the most waited for has %s of %s", Thousands(float64(len(l.Addresses))), Thousands(float64(at)), Thousands(float64(all)))
	}
	return e
}

// siteEvidence lists the sites of a lock by how many wait there, with a stack each.
func siteEvidence(v *View, l *LockSet) []Evidence {
	type at struct {
		crowd *Crowd
		n     float64
		ev    int64
	}
	var order []string
	sum := map[string]*at{}
	for _, c := range l.Waiters {
		k := c.Site().Func
		if sum[k] == nil {
			sum[k] = &at{crowd: c}
			order = append(order, k)
		}
		sum[k].n += c.N
		sum[k].ev += c.Events
	}
	sort.SliceStable(order, func(i, j int) bool { return sum[order[i]].n > sum[order[j]].n })
	const most = 5 // sites of one lock beyond these are the tail
	var out []Evidence
	for _, k := range order[:min(len(order), most)] {
		s := sum[k]
		out = append(out, Evidence{
			Text:  fmt.Sprintf("%s %s %s%s", v.amount(s.n, s.ev), does(v, s.crowd), k, calledFrom(s.crowd)),
			Input: v.Name, Count: round1(s.n), Stack: shortStack(s.crowd.Frames, s.crowd.Wait.Site, s.crowd.Wait.Site+5),
		})
	}
	return out
}

func does(v *View, c *Crowd) string {
	switch {
	case v.Mutex:
		return "waited until it was released in"
	case c.Wait.Release:
		return "are handing it over in"
	}
	return "wait in"
}

func calledFrom(c *Crowd) string {
	if f := FirstCaller(c.Frames, c.Wait.Site); f != nil {
		return ", called from " + f.Func
	}
	return ""
}

// amount is a number of waiters in the view's measure.
func (v *View) amount(n float64, events int64) string {
	switch {
	case v.Unit == Contentions:
		return fmt.Sprintf("%s waits (%s)", Thousands(float64(events)), seconds(n))
	case v.Unit == Samples:
		return Thousands(n) + " samples"
	case v.Kind == Waits:
		return "on average " + Thousands(round1(n))
	}
	return Thousands(n)
}

// otherViews says what the process's other inputs show of the same lock. Two
// measures that agree are better evidence than either.
func otherViews(p *Pass, v *View, l *LockSet) []Evidence {
	var out []Evidence
	for _, o := range [...]*View{p.Block, p.Mutex} {
		if o == nil || o == v {
			continue
		}
		m := sameLock(o, l)
		if m == nil {
			continue
		}
		kind := "block"
		if o.Mutex {
			kind = "mutex"
		}
		if o.Cumulative {
			out = append(out, Evidence{Text: fmt.Sprintf("the %s profile has %s of delay there since the process began", kind, seconds(m.N)), Input: o.Name, Count: float64(m.Events)})
		} else {
			out = append(out, Evidence{Text: fmt.Sprintf("the %s profile has on average %s waiting there over %.1f s", kind, Thousands(round1(m.N)), o.Window.Seconds()), Input: o.Name, Count: round1(m.N)})
		}
	}
	return out
}
