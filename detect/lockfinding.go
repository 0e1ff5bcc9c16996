package detect

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// LockFindings reports the locks that requests wait for and that want accepts,
// from the best view there is, with what the other views say of the same lock.
// It is the common part of the detectors of locks; next says what to do.
func LockFindings(p *Pass, want func(*LockSet) bool, next func(*LockSet, *Finding) []string) {
	seen := map[string]bool{}
	scattered(p, want)
	for _, v := range [...]*View{p.Stacks, p.Block, p.Mutex} {
		if v == nil || v.Cumulative && v.Kind == Waits && p.Stacks != nil {
			continue // since the process began: no match for what is seen now
		}
		for _, l := range v.Locks() {
			n := v.Waiting(l, p)
			if !want(l) || v != p.Stacks && alreadySeen(l, seen) || !v.Material(n, l.Events, MaterialCount) {
				continue
			}
			for _, c := range l.Waiters {
				seen[owner(c.Site())] = true
				seen[lockClass(c)] = true
			}
			f := lockFinding(p, v, l, n)
			if v.Kind == Waits && p.Stacks != nil {
				// The snapshot is of now, and does not have it.
				f.Severity, f.Confidence, f.Weight = Info, Low, MentionShare
			}
			f.Next = next(l, &f)
			p.Report(f)
		}
	}
}

// Waiting is how many count as waiting for l in v: requests, where the service
// has any in this profile or in its snapshot.
func (v *View) Waiting(l *LockSet, p *Pass) float64 {
	requests := v.ByRequest || p.Stacks != nil && p.Stacks.ByRequest
	if !requests {
		return l.N
	}
	n := l.Behind
	for _, c := range l.Waiters {
		if c.Request {
			n += c.N
		}
	}
	return n
}

func alreadySeen(l *LockSet, seen map[string]bool) bool {
	for _, c := range l.Waiters {
		if seen[owner(c.Site())] || seen[lockClass(c)] {
			return true
		}
	}
	return false
}

func lockFinding(p *Pass, v *View, l *LockSet, n float64) Finding {
	f := Finding{Wait: string(l.siteKind), Severity: SeverityOf(v, v.Weigh(n)), Confidence: ConfidenceOf(v, n, v.Weigh(n)), Weight: v.Weigh(n), Crowds: v.behind(l)}
	f.Name(l.Site)
	if v.Mutex {
		// The profile charges the release, often in a deferred closure.
		f.Function, f.Charged = owner(l.Site), "holder"
	}
	v.Count(&f, n, l.Events)
	if v.Kind == Stacks && v.Unit != Samples {
		f.Blocked = l.Held // everybody, requests or not
		if v.ByRequest {
			f.RequestsBlocked = Whole(n)
		}
		f.Labels = labelsOf(l.Waiters, p.Options)
	}
	if l.Telemetry.ByWord {
		f.Confidence = Weaker(f.Confidence, Medium)
		if f.Severity == Critical {
			f.Severity = Warning // a word is no ground for more
		}
		f.Warnings = append(f.Warnings, fmt.Sprintf("counted as telemetry only by the word %q in its name or path", l.Telemetry.Name))
	}
	if v.Kind == Stacks {
		addresses(p, v, l, &f)
		if l.spread() > 0 && f.Lock == "" {
			f.Confidence = Weaker(f.Confidence, Medium)
			f.Warnings = append(f.Warnings, "taken for one lock because the functions that wait are of one type; a ?debug=2 dump shows addresses")
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
	return f
}

// addresses fills in what the view with ids and addresses says of the lock:
// which it is and who holds it.
func addresses(p *Pass, v *View, l *LockSet, f *Finding) {
	names, dl := v, l
	if p.Detail != nil && p.Detail != v {
		if m := sameLock(p.Detail, l); m != nil {
			names, dl = p.Detail, m
		}
	}
	p.releasedBy(l)
	p.releasedBy(dl)
	one := dl.One()
	if one != 0 {
		f.Lock = fmt.Sprintf("0x%x", one)
	}
	if len(dl.Addresses) > 0 {
		f.Evidence = append(f.Evidence, addressEvidence(names, dl))
	}
	if len(dl.Addresses) > 1 && one == 0 {
		f.Holds = fmt.Sprintf("these are %d locks of one kind, and no single one has most of the waiters", len(dl.Addresses))
		if h, _ := HolderOf(names, dl, 0); h != nil && h.Confidence != Low {
			h.Goroutine = 0 // one of several
			f.Holder = h
		}
		return
	}
	f.Holder, f.Holds = HolderOf(names, dl, one)
	if names != v && (f.Holder == nil || f.Holder.Confidence == Low) {
		// The snapshot is of another moment, and may have caught one inside.
		if h, _ := HolderOf(v, l, 0); h != nil && (h.Confidence != Low || f.Holder == nil && h.Count == 0) {
			f.Holder, f.Holds = h, ""
		}
	}
	stuck, of := p.sameGoroutines(dl)
	if of > 0 {
		// A keep-alive connection's goroutine serves one request after another, so
		// the same ids a second later prove no single wait.
		f.Evidence = append(f.Evidence, Evidence{Text: fmt.Sprintf("%s of %s waiters are goroutines that stood there in %s too", Thousands(float64(stuck)), Thousands(float64(of)), p.Earlier.Name), Input: names.Name, Count: float64(stuck)})
	}
	switch {
	case f.Holder != nil:
	case of > 0 && 10*stuck >= 9*of:
		if !strings.Contains(f.Holds, "leaked") {
			f.Holds = "nobody is seen inside the functions that lock it, and the same goroutines wait in both dumps: one long hold, or never released; ages of minutes in a later dump tell"
		}
	case of > 0:
		f.Holds = "nobody is seen inside the functions that lock it, and its waiters change: it is held often and briefly"
	case p.neverReleased(l):
		f.Holds = fmt.Sprintf("nobody got it between the two snapshots: the same crowd stands there, and the block profile over %.1f s has no wait that ended: it was never released (leaked, not contended)", p.Block.Window.Seconds())
	}
}

// sameGoroutines counts those of a lock's waiters that stood at it in the
// earlier dump too, by their ids, of those whose ids are kept. of is 0 where
// there are no two dumps with ids.
func (p *Pass) sameGoroutines(l *LockSet) (same, of int) {
	if p.Earlier == nil || !p.Earlier.Snapshot.HasStates() {
		return 0, 0
	}
	before := sameLock(p.Earlier, l)
	if before == nil {
		return 0, 0
	}
	ids := map[int64]bool{}
	for _, c := range before.Waiters {
		for i := range c.Group.Members {
			ids[c.Group.Members[i].ID] = true
		}
	}
	for _, c := range l.Waiters {
		if c.Group == nil {
			continue
		}
		for i := range c.Group.Members {
			of++
			if ids[c.Group.Members[i].ID] {
				same++
			}
		}
	}
	return same, of
}

// releasedBy adds to what is known of how l is entered the functions that a
// mutex profile saw release a lock of its kind: they are inside until they do.
func (p *Pass) releasedBy(l *LockSet) {
	if p.Mutex == nil {
		return
	}
	classes := map[string]bool{}
	for _, c := range l.Waiters {
		classes[lockClass(c)] = true
	}
	for _, m := range p.Mutex.Locks() {
		for _, c := range m.Waiters {
			if !classes[lockClass(c)] {
				continue
			}
			released := l.enter().released
			released[c.Site().Func] = true
			if c.Site().Type != "" {
				released[owner(c.Site())] = true // often deferred in a closure
			}
		}
	}
}

// neverReleased reports whether two snapshots and the block profile between
// them show that nobody got the lock: as many stood there before, and no wait at it ended.
func (p *Pass) neverReleased(l *LockSet) bool {
	if p.Earlier == nil || p.Block == nil || p.Block.Cumulative || p.Block.Events == 0 || sameLock(p.Block, l) != nil {
		return false
	}
	before := sameLock(p.Earlier, l)
	return before != nil && 2*before.N >= l.N
}

func lockSummary(v *View, l *LockSet, n float64, f *Finding) string {
	var b strings.Builder
	what := "a lock"
	switch {
	case l.siteKind == stacks.RLock:
		what = "a read lock"
	case l.Kind == stacks.FDLock:
		what = "the lock of one file descriptor"
	case f.Holds != "" && len(l.Addresses) > 1 && l.One() == 0:
		what = fmt.Sprintf("one of %d locks of a kind", len(l.Addresses))
	}
	of := v.Of(n, l.Events)
	if v.Mutex {
		fmt.Fprintf(&b, "%s: %s was held by %s", of, what, f.Function)
	} else {
		fmt.Fprintf(&b, "%s wait for %s in %s", of, what, f.Function)
		if others := l.spread(); others > 0 {
			fmt.Fprintf(&b, " and %s", Plural(float64(others), "other function"))
		}
	}
	if v.Unit == Requests && v.Kind == Stacks && l.Held > n+0.5 {
		fmt.Fprintf(&b, " (%s goroutines in all)", Thousands(l.Held))
	}
	if h := f.Holder; h != nil {
		b.WriteString("; " + h.who() + " " + h.Wait)
		if n := len(h.Then); n > 0 {
			last := h.Then[n-1]
			b.WriteString(", where " + last.who() + " " + last.Wait)
		}
	}
	return b.String()
}

// who begins a sentence about a holder.
func (h *Holder) who() string {
	sure := "its likely holder"
	if h.Confidence == Low {
		sure = "its possible holder"
	}
	switch {
	case h.Count > 1 && h.Goroutine == 0:
		return fmt.Sprintf("%d goroutines are past the line that locks, each", h.Count)
	case h.Goroutine != 0:
		return fmt.Sprintf("%s, goroutine %d, is", sure, h.Goroutine)
	}
	return sure + " is"
}

// Root is the end of a chain of holders: the one that is not waiting for a lock.
func (h *Holder) Root() *Holder {
	if h == nil || len(h.Then) == 0 {
		return h
	}
	return &h.Then[len(h.Then)-1]
}

// Redacted stands for a label's value: values can be secrets.
const Redacted = "[redacted]"

// labelsOf collects the pprof labels of crowds, with their values where the user asked for them.
func labelsOf(crowds []*Crowd, opt Options) map[string][]string {
	var out map[string][]string
	for _, c := range crowds {
		if c.Group == nil {
			continue
		}
		for key, values := range c.Group.Labels {
			if out == nil {
				out = map[string][]string{}
			}
			if !opt.Labels {
				out[key] = []string{Redacted}
				continue
			}
			for _, v := range values {
				if !slices.Contains(out[key], v) {
					out[key] = append(out[key], v)
				}
			}
		}
	}
	for _, values := range out {
		slices.Sort(values)
	}
	return out
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

func addressEvidence(v *View, l *LockSet) Evidence {
	var all int64
	for _, n := range l.Addresses {
		all += n
	}
	_, at := l.Main()
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

// spread is how many functions wait for the lock beside its site, where that
// has less than half of the waiters; else 0.
func (l *LockSet) spread() int {
	funcs := map[string]bool{}
	at := 0.0
	for _, c := range l.Waiters {
		funcs[c.Site().Func] = true
		if c.Site().Func == l.Site.Func {
			at += c.N
		}
	}
	if 2*at >= l.N {
		return 0
	}
	return len(funcs) - 1
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
		return fmt.Sprintf("%s waits (%s)", Thousands(float64(events)), Seconds(n))
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
			out = append(out, Evidence{Text: fmt.Sprintf("the %s profile has %s of delay there since the process began", kind, Seconds(m.N)), Input: o.Name, Count: float64(m.Events)})
		} else {
			out = append(out, Evidence{Text: fmt.Sprintf("the %s profile has on average %s waiting there over %.1f s", kind, Thousands(round1(m.N)), o.Window.Seconds()), Input: o.Name, Count: round1(m.N)})
		}
	}
	return out
}
