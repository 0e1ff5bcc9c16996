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
	Name:    "poolwait",
	Title:   "requests wait for a connection pool or semaphore",
	Role:    detect.Cause,
	Doc:     doc,
	Needs:   []detect.Need{{Input: detect.Stacks}, {Input: detect.Waits}},
	NoAlert: "this version has no series; a pool's own wait metric is the alert to have",
	Run:     run,
}

func run(p *detect.Pass) error {
	v := p.Stacks
	if v == nil {
		v = p.Block
	}
	if v == nil {
		p.RuleOut("a mutex profile shows no pools: a block or goroutine profile would")
		return nil
	}
	isWait := func(c *detect.Crowd) bool {
		return c.Wait.Kind == stacks.Pool && !c.Telemetry.Is && !v.Connecting(c)
	}
	for _, s := range v.Sites(func(c *detect.Crowd) bool { return isWait(c) || passed(v, c) != nil }) {
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
	f := detect.Finding{Wait: string(stacks.Pool), Severity: detect.SeverityOf(v.Share(s.N)), Confidence: detect.ConfidenceOf(v, s.N)}
	f.Name(s.Site)
	v.Count(&f, s.N, s.Events)
	f.Summary = fmt.Sprintf("%s wait for a permit of a pool in %s", v.Of(s.N, s.Events), s.Site.Func)
	f.Evidence = v.SiteEvidence(s)
	if s.Kind != stacks.Pool {
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
		f.Warnings = append(f.Warnings, "taken for a semaphore because others are past the line these wait at, inside the same function; nothing there is named a pool")
	}
	if caller := detect.FirstCaller(s.Crowds[0].Frames, s.Crowds[0].Wait.Site); caller != nil {
		if u := users(v, caller); u != nil {
			f.Holder = u
			f.Summary += fmt.Sprintf("; %s inside, %s", detect.Thousands(float64(max(u.Count, 1))), u.Wait)
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
	if f.Holder != nil {
		f.Next[0] = "those inside are " + f.Holder.Wait + ": if that is slow, it is the cause; if it is quick, the pool is too small"
	}
	p.Report(f)
}

// users are the goroutines past the pool: called from the same function, not
// waiting for it.
func users(v *detect.View, caller *stacks.Frame) *detect.Holder {
	var top *detect.Crowd
	var at int
	var n float64
	for _, c := range v.Crowds {
		if c.Wait.Kind == stacks.Pool || c.Wait.Kind == stacks.Idle || c.Site() == nil {
			continue
		}
		for i, f := range c.Frames {
			if f.Func == caller.Func {
				n += c.N
				if top == nil {
					top, at = c, i
				}
				break
			}
		}
	}
	if top == nil || v.Kind != detect.Stacks {
		return nil
	}
	h := detect.DescribeCrowd(top, at)
	h.Count = int64(n)
	return h
}

// passed recognises a semaphore that is only a channel (or a cond): requests
// stand in a channel operation in a function, and others are in calls further
// down the same function. It returns one of those, nil where there is none.
func passed(v *detect.View, c *detect.Crowd) *detect.Crowd {
	if v.Kind != detect.Stacks || !c.Request || c.Telemetry.Is || c.Wait.Kind != stacks.Chan && c.Wait.Kind != stacks.Cond || c.Through != nil {
		return nil
	}
	site := c.Site()
	if site.Std || site.Line == 0 {
		return nil
	}
	for _, o := range v.Crowds {
		if o == c || !o.Request {
			continue
		}
		for i, f := range o.Frames {
			if i > o.Wait.Site && f.Func == site.Func && f.Line > site.Line {
				return o
			}
		}
	}
	return nil
}
