package detect

import (
	"fmt"

	"github.com/contend/contend/ingest/stacks"
)

// scattered reports requests most of which wait for locks, no one of which has
// a material share: a service that is split over many locks is stuck all the same.
func scattered(p *Pass, want func(*LockSet) bool) {
	v := p.Main()
	if v == nil || v.Kind == Waits {
		return
	}
	var all, sum float64
	var top *LockSet
	var crowds []*Crowd
	most, locks := 0.0, 0
	for _, l := range v.Locks() {
		n := v.Waiting(l, p)
		all += n
		if n <= 0 || !want(l) {
			continue
		}
		sum, locks = sum+n, locks+max(1, len(l.Addresses))
		crowds = append(crowds, v.behind(l)...)
		if n > most {
			top, most = l, n
		}
	}
	if top == nil || v.Weigh(most) >= MaterialShare && most >= MaterialCount || v.Weigh(all) < criticalShare || v.Weigh(sum) < MaterialShare || sum < firmCount {
		return
	}
	f := Finding{Wait: string(top.siteKind), Severity: Warning, Confidence: Medium, Weight: v.Weigh(sum), Crowds: crowds}
	f.Name(top.Site)
	v.Count(&f, sum, 0)
	f.Summary = fmt.Sprintf("%s wait for locks, spread over %d of them, the most, %s, in %s", v.Of(sum, 0), locks, Thousands(most), f.Function)
	f.Evidence = siteEvidence(v, top)
	f.Warnings = append(f.Warnings, "no single lock has a material share: what all their holders do, or wait for, is the question")
	f.Next = []string{
		"look at what runs and at the waits beside these: many locks held at once have a common reason, a full CPU or a slow dependency behind them",
		"take a block profile over some seconds: it says which of the locks costs most",
	}
	p.Report(f)
}

// RuleOutLocks says how much of what is in flight waits for the locks that want
// accepts, and which goroutines outside handlers do: nobody's request is held
// up by those, so they are no finding, but work may be.
func RuleOutLocks(p *Pass, want func(*LockSet) bool, what string) {
	v := p.Main()
	if v == nil {
		return
	}
	var n, beside float64
	var site *stacks.Frame
	for _, l := range v.Locks() {
		if !want(l) {
			continue
		}
		in := v.Waiting(l, p)
		n += in
		if l.N-in > beside {
			beside, site = l.N-in, l.Site
		}
	}
	if v.Kind != Stacks || beside < MaterialCount {
		p.RuleOut("%s wait for %s", v.Of(n, 0), what)
		return
	}
	p.RuleOut("%s wait for %s; outside handlers %s goroutines do, in %s", v.Of(n, 0), what, Thousands(beside), site.Func)
}
