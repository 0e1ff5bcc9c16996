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
	Name:  "downstream",
	Title: "requests wait for a slow dependency",
	Role:  detect.Cause,
	Doc:   doc,
	Needs: []detect.Need{
		{Input: detect.Stacks}, {Input: detect.Waits},
		{Input: detect.Series, Signals: []string{"dependency_wait"}},
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
	if !v.ByRequest && v.Requests > 0 {
		// It is a service, and its requests do not wait for these answers.
		p.RuleOut("the few requests in flight are elsewhere; what waits for answers is work beside them")
		return nil
	}
	for _, s := range v.Sites(isWait) {
		// Streams at rest are no reason to measure answers against the rest alone: what
		// is in flight beside them says how many are everyday.
		if !v.Material(s.N, s.Events, least) || v.Share(s.N) < detect.MentionShare {
			continue
		}
		if wait, ok := answerTime(p, v, s); ok && wait < slowAnswer {
			p.RuleOut("%s wait for an answer in %s, but it comes within %s on average: quick", v.Of(s.N, s.Events), s.Site.Func, detect.Seconds(wait))
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

// answerTime is how long the answers take that s waits for, where a block
// profile knows it.
func answerTime(p *detect.Pass, v *detect.View, s *detect.SiteSum) (float64, bool) {
	block := v
	if v.Kind == detect.Stacks {
		block = p.Block
	}
	if block == nil || block.Cumulative && v.Kind == detect.Stacks {
		return 0, false
	}
	same := block.Sites(func(c *detect.Crowd) bool { return c.Site().Func == s.Site.Func })
	// A profile of waits has those that ended: where far fewer waited there than
	// stand there now, the others do not end.
	if len(same) == 0 || v.Kind == detect.Stacks && 2*same[0].N < s.N {
		return 0, false
	}
	return block.Lasting(same[0])
}

func report(p *detect.Pass, v *detect.View, s *detect.SiteSum) {
	f := detect.Finding{Wait: string(stacks.Socket), Severity: detect.SeverityOf(v, v.Share(s.N)), Confidence: detect.ConfidenceOf(v, s.N, v.Share(s.N)), Weight: v.Share(s.N), Crowds: s.All()}
	f.Name(s.Site)
	v.Count(&f, s.N, s.Events)
	what := "an answer"
	connecting := s.Kind == stacks.Pool || s.Crowds[0].Connects()
	if connecting {
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
	if v.Kind == detect.Waits && !v.ByRequest {
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
		f.Warnings = append(f.Warnings, "no stack of this profile is a request's: these may be clients of this service inside its own process")
	}
	if !known && v.Kind == detect.Stacks {
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
		f.Warnings = append(f.Warnings, "one snapshot cannot tell a slow dependency from a busy one: its latency, or block profiles some seconds apart, would")
	}
	f.Next = []string{
		"look at the latency of the dependency behind this call, from its own side and from this one",
		"give the call a time-out and a limit on how many may wait, so that its slowness stays its own",
	}
	if connecting {
		f.Next[0] = "look at the other side's accept queue, and at what stands between (firewall, address, name): connections are not being taken"
	} else if caller != nil {
		f.Next[0] = fmt.Sprintf("look at the latency of what %s calls, from its own side and from this one", caller.Func)
	}
	p.Report(f)
}
