// Package downstream finds requests that wait for another process: a socket
// read, an HTTP or RPC response, a connection being made.
package downstream

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
	Name:    "downstream",
	Title:   "requests wait for a slow dependency",
	Role:    detect.Cause,
	Doc:     doc,
	Needs:   []detect.Need{{Input: detect.Stacks}, {Input: detect.Waits}},
	NoAlert: "this version has no series; the dependency's own latency is the alert to have",
	Run:     run,
}

func run(p *detect.Pass) error {
	v := p.Stacks
	if v == nil {
		v = p.Block
	}
	if v == nil {
		p.RuleOut("a mutex profile shows no dependencies: a goroutine profile would")
		return nil
	}
	isWait := func(c *detect.Crowd) bool {
		return c.Wait.Kind == stacks.Socket && !c.Telemetry.Is || v.Connecting(c)
	}
	least := float64(detect.MaterialCalls)
	if !v.ByRequest {
		least = 3 // outside handlers nothing waits for an answer as a matter of course
	}
	for _, s := range v.Sites(isWait) {
		if !v.Material(s.N, s.Events, least) || quick(p, v, s) {
			continue
		}
		report(p, v, s)
	}
	n, events := v.Sum(isWait)
	p.RuleOut("%s wait for another process", v.Of(n, events))
	return nil
}

// slowAnswer is how long an answer must take to call the dependency slow: a
// tenth of a second is what people begin to notice. Below it a crowd of callers
// is traffic, which only a baseline could call too much.
const slowAnswer = 0.100

// quick reports whether a block profile knows that the answers come quickly.
func quick(p *detect.Pass, v *detect.View, s *detect.SiteSum) bool {
	if wait, ok := v.MeanWait(s); ok {
		return wait < slowAnswer
	}
	if p.Block == nil || p.Block.Cumulative {
		return false
	}
	for _, o := range p.Block.Sites(func(c *detect.Crowd) bool { return c.Site().Func == s.Site.Func }) {
		wait, ok := p.Block.MeanWait(o)
		return ok && wait < slowAnswer
	}
	return false
}

func report(p *detect.Pass, v *detect.View, s *detect.SiteSum) {
	f := detect.Finding{Wait: string(stacks.Socket), Severity: detect.SeverityOf(v.Share(s.N)), Confidence: detect.ConfidenceOf(v, s.N)}
	f.Name(s.Site)
	v.Count(&f, s.N, s.Events)
	what := "an answer"
	if s.Kind == stacks.Pool {
		what = "a connection to be made"
	}
	f.Summary = fmt.Sprintf("%s wait for %s in %s", v.Of(s.N, s.Events), what, s.Site.Func)
	caller := detect.FirstCaller(s.Crowds[0].Frames, s.Crowds[0].Wait.Site)
	if caller != nil {
		f.Summary += ", called from " + caller.Func
	}
	f.Evidence = v.SiteEvidence(s)
	known := false
	if p.Block != nil && p.Block != v && !p.Block.Cumulative {
		if e, ok := p.Block.InView(s); ok {
			f.Evidence, known = append(f.Evidence, e), true
		}
	}
	if !known && v.Kind == detect.Stacks {
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
		f.Warnings = append(f.Warnings, "one snapshot cannot tell a slow dependency from a busy one: its latency, or block profiles some seconds apart, would")
	}
	f.Next = []string{
		"look at the latency of the dependency behind this call, from its own side and from this one",
		"give the call a time-out and a limit on how many may wait, so that its slowness stays its own",
	}
	if caller != nil {
		f.Next[0] = fmt.Sprintf("look at the latency of what %s calls, from its own side and from this one", caller.Func)
	}
	p.Report(f)
}
