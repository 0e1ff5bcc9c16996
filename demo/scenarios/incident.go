package scenarios

import (
	"context"
	"time"

	"github.com/contend/contend/demo/balancer"
	"github.com/contend/contend/demo/canary"
	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/telemetry"
)

// errorsOnly is a canary that sees no file that never arrives; completions
// makes it one that does.
var (
	errorsOnly  = &canary.Rule{Least: 10, Errors: 0.05}
	completions = &canary.Rule{Least: 10, Errors: 0.05, Completions: 0.5}
)

// pageVisitors open the page that needs the new file, and make four to six
// calls once they have it, as its panels load.
var pageVisitors = load.Visitors{Calls: [2]int{4, 6}, Spread: 900 * ms}

const (
	// backlog visitors gather in the twenty minutes, 270 in all.
	backlog = 13.5
	// reloads are visitors a second while the page hangs, that is until the edge
	// blocks: with five calls each, three times the peak beside the usual traffic,
	// which is what the release of all who waited came to. Of the 2,000 requests a
	// second four tasks serve 800 and eight 1,600: more tasks do not help, but were
	// it 1,700, whether they do would be chance.
	reloads = 300
	// fetch is how long the file takes.
	fetch = 20 * second
	// deploy is 08:47 in the incident: the fleet has its habits by then.
	deploy = 20 * second
)

func release(_ context.Context, s *play.Stage) error { return s.Visit(backlog) }

// faulty is the fleet of the incident under its surge: metrics registered again
// under a lock, health checks on the request path, buffers for every request
// until memory runs out, cold replacements.
func faulty(name, fault string, length time.Duration) play.Scenario {
	s := ordinary(name, fault, length)
	s.Gateway.Telemetry = telemetry.Config{Kind: telemetry.KindMetrics, Faulty: true, Hold: hold}
	s.Gateway.Hold = 64 << 10
	s.Fleet.MemoryLimit = 96 << 20
	s.Fleet.Health.Failures = 2
	s.Fleet.Replace = true
	s.Fleet.Boot = 1500 * ms // a minute and a half, as it takes to pull an image and start a runtime
	// What is held up needs no CPU. A runtime with two threads a task spins one of them
	// looking for work, which a dozen tasks under a flood do not leave to others.
	s.Fleet.Threads = 1
	s.Fleet.ScaleAt, s.Fleet.ScaleTo = 100, 6
	s.Balancer = balancer.Config{Attempts: 2}
	s.Attempts = 2
	s.Asset = fetch
	s.EdgeLimit = 1.2 * peak // once traffic is restored in steps
	s.Visitors = pageVisitors
	s.Reloads = reloads
	s.Canary = errorsOnly
	s.Load = load.Constant(peak, length)
	return s
}

func incidents() []play.Scenario {
	out := []play.Scenario{incident()}
	for _, v := range variants() {
		// From the release on, so that the wait for the file is the baseline.
		s := faulty(v.name, v.what, fetch+20*second)
		s.Profiles = []time.Duration{18 * second, fetch + 1500*ms, fetch + 4500*ms, fetch + 10*second}
		s.Steps = []play.Step{
			{Phase: "the release needs a new file, which does not arrive", Clock: "08:47", Do: release},
			{At: fetch, Phase: "the file arrives at all who wait", Clock: "09:07", Onset: true},
		}
		v.change(&s)
		if v.outcome != compared {
			s.Against, s.Helps = nothingDone, v.outcome == helps
		}
		out = append(out, s)
	}
	return out
}

// incident is the whole of it, from 20 minutes before to the traffic restored.
func incident() play.Scenario {
	const (
		arrives = deploy + fetch      // 09:07
		block   = arrives + 22*second // 09:29
		restore = block + 5*second    // about 10:00, compressed
		step    = 2500 * ms
		end     = restore + 4*step
	)
	s := faulty("incident", "the published outage: a herd finds a gateway whose metrics are registered again under a lock", end)
	s.Profiles = []time.Duration{deploy - second, arrives - second, arrives + 1500*ms, arrives + 4500*ms, arrives + 12*second}
	s.Steps = []play.Step{
		{Phase: "usual traffic", Clock: "08:27"},
		{At: deploy, Phase: "a release needs a new file, which does not arrive", Clock: "08:47", Do: release},
		{At: arrives, Phase: "the file arrives at all who wait, at once", Clock: "09:07", Onset: true},
		{At: arrives + 2*second, Phase: "the surge goes on", Clock: "09:09"},
		{At: arrives + 10*second, Phase: "more tasks by hand", Clock: "09:17", Do: scale(6, 8)},
		{At: block, Phase: "the edge blocks all traffic", Clock: "09:29", Do: blockEdge},
		{At: restore, Phase: "a quarter of the traffic comes back", Clock: "10:00", Do: restoreShare(0.25)},
		{At: restore + step, Phase: "half of the traffic comes back", Clock: "10:05", Do: restoreShare(0.5)},
		{At: restore + 2*step, Phase: "three quarters come back", Clock: "10:10", Do: restoreShare(0.75)},
		{At: restore + 3*step, Phase: "all traffic is back", Clock: "10:15", Do: restoreShare(1)},
	}
	return s
}

// scale adds tasks one a second, as orchestrators do, until there are so many.
func scale(from, to int) func(context.Context, *play.Stage) error {
	return func(ctx context.Context, s *play.Stage) error {
		for n := from + 1; n <= to; n++ {
			s.Fleet.Scale(n)
			select {
			case <-time.After(second):
			case <-ctx.Done():
				return nil // and play says why
			}
		}
		return nil
	}
}

// blockEdge also ends the reloads: people are told to wait.
func blockEdge(_ context.Context, s *play.Stage) error {
	s.CDN.Block(true)
	s.StopVisits()
	return nil
}

func restoreShare(share float64) func(context.Context, *play.Stage) error {
	return func(_ context.Context, s *play.Stage) error {
		s.CDN.Restore(share)
		return nil
	}
}

// nothingDone is the incident on the timeline of its variants.
const nothingDone = "control-nothing"

// outcome is what a variant is to come to.
type outcome int

const (
	helps outcome = iota
	noHelp
	compared // what the others are compared with
)

type variant struct {
	name, what string
	outcome    outcome
	change     func(*play.Scenario)
}

// variants are the incident with one thing done about it: the fixes, and what
// does not help.
func variants() []variant {
	after := func(s *play.Scenario, at time.Duration, phase string, do func(context.Context, *play.Stage) error) {
		s.Steps = append(s.Steps, play.Step{At: fetch + at, Phase: phase, Do: do})
	}
	return []variant{
		{"fix-registered", "the incident with metrics registered once", helps, func(s *play.Scenario) { s.Gateway.Telemetry.Faulty = false }},
		{"fix-dropped", "the incident with telemetry that drops what it cannot hand over", helps, func(s *play.Scenario) {
			s.Gateway.Telemetry = telemetry.Config{Kind: telemetry.KindExporter, Hold: hold}
		}},
		// Memory kills the tasks all the same: checks apart help where checks kill.
		{"fix-health", "the incident with health checks apart from requests, readiness apart from liveness", noHelp, func(s *play.Scenario) {
			s.Gateway.HealthApart = true
			s.Fleet.Ready = fleet.Probe{Path: "/readyz", Every: 250 * ms, Timeout: second, Failures: 2}
		}},
		{"fix-admission", "the incident with admission control", helps, func(s *play.Scenario) { s.Gateway.Admission = 64 }},
		{"fix-balancer", "the incident with a balancer that knows how tasks fare", helps, func(s *play.Scenario) { s.Balancer.Aware = true }},
		{"fix-jitter", "the incident with calls spread over 15 s after the file arrives", helps, func(s *play.Scenario) { s.Visitors.Jitter = 15 * second }},
		{"fix-timeout", "the incident with clients that give up on the file after 3 s", helps, func(s *play.Scenario) {
			s.Visitors.Timeout = 3 * second
			s.Canary = nil // to it a client that gives up is an error, and it would stop the release
		}},
		{"fix-canary", "the incident with a canary that looks at completions", helps, func(s *play.Scenario) { s.Canary = completions }},
		{"fix-twice", "the incident with twice the tasks, each with twice the memory", helps, func(s *play.Scenario) {
			s.Fleet.Tasks *= 2
			s.Fleet.MemoryLimit *= 2
		}},
		{"fix-block", "the incident with the edge blocked after 3 s, and traffic restored in steps", helps, func(s *play.Scenario) {
			after(s, 3*second, "the edge blocks all traffic", blockEdge)
			after(s, 7*second, "a quarter of the traffic comes back", restoreShare(0.25))
			after(s, 9*second, "half of the traffic comes back", restoreShare(0.5))
			after(s, 11*second, "all traffic is back", restoreShare(1))
		}},
		{nothingDone, "the incident with nothing done about it, which the others are held against", compared, func(*play.Scenario) {}},
		{"control-tasks", "no fix: twice the tasks, started under the surge", noHelp, func(s *play.Scenario) {
			after(s, 3*second, "more tasks by hand", scale(4, 8))
		}},
		{"control-cdn", "no fix: the CDN's path is repaired after the herd was released", noHelp, func(s *play.Scenario) {
			after(s, 3*second, "the CDN's path recovers", func(_ context.Context, s *play.Stage) error {
				s.CDN.Repair()
				return nil
			})
		}},
		// It passes, which is what is wrong with it: what it leaves out is the fault.
		{"control-loadtest", "no test: the surge as a load test, with instrumentation turned down", helps, func(s *play.Scenario) {
			s.Gateway.Telemetry = telemetry.Config{Kind: telemetry.KindNone}
		}},
	}
}
