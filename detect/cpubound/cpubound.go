// Package cpubound finds a process that uses all the CPU it may: its requests
// run or queue for a CPU, and wait for nothing else.
package cpubound

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
	Name:  "cpubound",
	Title: "the process uses all the CPU it may",
	Role:  detect.Cause,
	Doc:   doc,
	Needs: []detect.Need{
		{Input: detect.Stacks},
		{Input: detect.Series, Signals: []string{"cpu", "cpu_limit"}},
		{Input: detect.Series, Signals: []string{"cpu_throttled"}},
	},
	Signals: signals,
	Run:     run,
}

func run(p *detect.Pass) error {
	if p.Series != nil {
		return runSeries(p)
	}
	v := p.Stacks
	if v == nil {
		p.RuleOut("no snapshot of what runs")
		return nil
	}
	if v.Snapshot.Crash != "" {
		p.RuleOut("a crash's traceback shows what ran when the process died, not what it was busy with")
		return nil
	}
	busy := func(c *detect.Crowd) bool {
		return c.Wait.Kind == stacks.Running || c.Wait.Kind == stacks.Runnable
	}
	n, _ := v.Sum(busy)
	share := v.Share(n)
	// Half of the requests on or for a CPU: below that more of them wait for
	// something else than compute. Five, since that many run at once on any larger machine.
	if share < 0.5 || n < detect.MaterialCalls {
		p.RuleOut("%s run or queue for a CPU", v.Of(n, 0))
		return nil
	}
	f := detect.Finding{Wait: "cpu", Severity: detect.SeverityOf(v, v.Share(n)), Confidence: detect.Weaker(detect.ConfidenceOf(v, n, v.Share(n)), detect.Medium)}
	v.Count(&f, n, 0)
	// The stacks of those on other threads cannot be printed: there may be no site at all.
	where := ""
	if sites := v.Sites(busy); len(sites) > 0 {
		f.Name(sites[0].Site)
		f.Evidence = v.SiteEvidence(sites[0])
		for _, s := range sites {
			f.Crowds = append(f.Crowds, s.All()...)
		}
		where = ", most in " + sites[0].Site.Func
	}
	f.Summary = fmt.Sprintf("%s run or queue for a CPU%s: busy, not blocked", v.Of(n, 0), where)
	if runnable, _ := v.Sum(func(c *detect.Crowd) bool { return c.Wait.Kind == stacks.Runnable }); v.Snapshot.HasStates() {
		f.Evidence = append(f.Evidence, detect.Evidence{Text: fmt.Sprintf("%s of them are runnable: they queue for a CPU", detect.Thousands(runnable)), Input: v.Name, Count: runnable})
	} else if p.Detail == nil {
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
		f.Warnings = append(f.Warnings, "this format does not tell running from queueing for a CPU: on a machine with more CPUs than these requests, it is only busy")
	}
	f.Next = []string{
		"take a CPU profile: it says which code uses the CPU (go tool pprof http://HOST/debug/pprof/profile)",
		"look at the CPU limit and at throttling by quota, then add CPU or instances, or admit fewer requests",
	}
	p.Report(f)
	return nil
}
