// Package poolwait finds requests that wait for a permit: a connection of a
// pool, a slot of a semaphore or of a worker pool.
package poolwait

import (
	_ "embed"
	"fmt"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/stacks"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:  "poolwait",
	Title: "requests wait for a connection pool or semaphore",
	Role:  detect.Cause,
	Doc:   doc,
	Needs: []detect.Need{
		{Input: detect.Stacks}, {Input: detect.Waits},
		{Input: detect.Series, Signals: []string{"pool_wait"}},
		{Input: detect.Series, Signals: []string{"pool_use", "inflight"}},
	},
	Signals: signals,
	Run:     run,
}

func run(p *detect.Pass) error {
	if p.Series != nil {
		return runSeries(p)
	}
	v := p.Waiters()
	if v == nil {
		p.RuleOut("a mutex profile shows no pools: a block or goroutine profile would")
		return nil
	}
	isWait := func(c *detect.Crowd) bool {
		return c.Wait.Kind == stacks.Pool && !c.Telemetry.Is && !v.Connecting(c)
	}
	for _, s := range v.Sites(isWait) {
		if !v.Material(s.N, s.Events, detect.MaterialCalls) || shortWait(v, s) {
			continue
		}
		report(p, v, s)
	}
	n, events := v.Sum(isWait)
	p.RuleOut("%s wait for a pool", v.Of(n, events))
	return nil
}

// longWait is how long a wait for a permit must be to make requests slow: a
// hundredth of a second is noticed in a request, less is a pool doing its work.
const longWait = 0.010

func shortWait(v *detect.View, s *detect.SiteSum) bool {
	wait, ok := v.MeanWait(s)
	return ok && wait < longWait
}

func report(p *detect.Pass, v *detect.View, s *detect.SiteSum) {
	f := detect.Finding{Wait: string(stacks.Pool), Severity: detect.SeverityOf(v, v.Weigh(s.N)), Confidence: detect.ConfidenceOf(v, s.N, v.Weigh(s.N)), Weight: v.Weigh(s.N), Crowds: s.All()}
	f.Name(s.Site)
	v.Count(&f, s.N, s.Events)
	wait := s.Crowds[0].Wait
	what := "a permit of a pool"
	if wait.ByName && wait.Op == stacks.Chan && wait.Send {
		what = "room in a channel, or for somebody who receives,"
	}
	f.Summary = fmt.Sprintf("%s wait for %s in %s", v.Of(s.N, s.Events), what, s.Site.Func)
	f.Evidence = v.SiteEvidence(s)
	if wait.ByName {
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
		why := "taken for a pool by its name and what is done there; no library known to contend is at this site"
		if what != "a permit of a pool" {
			why = "requests stand at a send: whether a pool is full, a queue, or nobody receives, their stacks do not tell"
		}
		f.Warnings = append(f.Warnings, why)
	}
	if v.Kind == detect.Stacks {
		if past, frame, n := v.Past(s.Crowds[0]); past != nil {
			f.Holder = detect.DescribeCrowd(past, frame)
			f.Holder.Count = int64(n)
			f.Summary += fmt.Sprintf("; %s past it, %s", detect.Thousands(n), f.Holder.Wait)
		} else {
			f.Holds = "nobody is seen past the wait: who has a permit is elsewhere, or permits were not given back; look for a return without release"
		}
	}
	if p.Block != nil && p.Block != v && !p.Block.Cumulative {
		if e, ok := p.Block.InView(s); ok {
			f.Evidence = append(f.Evidence, e)
		}
	}
	f.Next = []string{
		"see what those who have a permit do with it, and how long: a pool is full because they are slow, or because it is small",
		"raise the pool's size only as far as what is behind it can take; give the wait a time-out, so that callers fail fast",
	}
	if what != "a permit of a pool" {
		f.Next = []string{
			fmt.Sprintf("see who receives what %s sends, and what keeps them", s.Site.Func),
			"do not send on the request path without a way out: select on the context's end, or drop when nobody takes it",
		}
		if w := v.Worker(s.Site); w != nil {
			h := detect.DescribeCrowd(w, w.Wait.Site)
			f.Evidence = append(f.Evidence, detect.Evidence{Text: "who should receive it may be one that is " + h.Wait, Input: v.Name, Stack: h.Stack})
		}
	} else if f.Holder != nil {
		f.Next[0] = fmt.Sprintf("look at those past it (%s): if that is slow, it is the cause; if it is quick, the pool is too small", f.Holder.Wait)
	}
	p.Report(f)
}
