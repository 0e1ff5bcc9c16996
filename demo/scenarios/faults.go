package scenarios

import (
	"context"
	"time"

	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/telemetry"
)

// faults must each be found.
func faults() []play.Scenario {
	return []play.Scenario{
		telemetryLock("telemetryblock", "metrics are registered again on every recording, under the registry's lock", telemetry.Config{Kind: telemetry.KindMetrics, Faulty: true, Hold: hold}, 0),
		telemetryLock("telemetryblock-exporter", "a span exporter holds its one lock while it exports", telemetry.Config{Kind: telemetry.KindExporter, Faulty: true, Hold: hold}, 0),
		telemetryLock("telemetryblock-sampler", "a sampler takes a lock to count, and asks for its quota under it", telemetry.Config{Kind: telemetry.KindSampler, Faulty: true, Hold: hold}, 0),
		telemetryLock("telemetryblock-logger", "a logger writes to a slow sink under its lock", telemetry.Config{Kind: telemetry.KindLogger, Faulty: true, Hold: hold}, 0),
		telemetryLock("telemetryblock-eventloop", "metrics are registered again, on event loops on which nothing may block", telemetry.Config{Kind: telemetry.KindMetrics, Faulty: true, Hold: hold}, 16),
		// 125 requests a second and task hold the lock for 1.9 seconds a second.
		sudden("applock", "requests hold the application's cache lock for long", 28*second, gateway.Faults{CacheHold: 15 * ms}),
		poolwait(),
		downstream(),
		cpubound(),
		sudden("deadlock", "two requests take two locks in opposite order", 28*second, gateway.Faults{Deadlock: true}),
		sudden("goroutineleak", "every tenth request leaves a goroutine behind that nobody wakes", 30*second, gateway.Faults{Leak: true}),
		hungrequests(),
		sudden("healthcheck", "health checks alone take long, requests do not", 27*second, gateway.Faults{HealthDelay: 700 * ms}),
		lockheadroom(),
		lockwait(),
		replacement(),
		memorygrowth(),
		surge("herd", "three times the traffic at once, which a healthy fleet serves", 28*second, load.Phase{For: 10 * second, From: 3 * peak, To: 3 * peak}),
		surge("herd-spike", "three times the traffic for one second", 26*second, load.Phase{For: second, From: 3 * peak, To: 3 * peak}),
		onewedged(),
	}
}

// all sets the faults of every task, of those that start later too.
func all(f gateway.Faults) func(context.Context, *play.Stage) error {
	return func(_ context.Context, s *play.Stage) error { return s.Fleet.SetFaults("", f) }
}

// sudden is a fault that sets in on all tasks at once.
func sudden(name, fault string, length time.Duration, f gateway.Faults) play.Scenario {
	s := ordinary(name, fault, length)
	s.Steps = append(s.Steps, play.Step{At: warm, Phase: fault, Onset: true, Do: all(f)})
	return s
}

// telemetryLock has its fault from the start; traffic that grows finds it. It
// grows too steadily for a herd: by 200 a second each second, until the
// lock is asked for twice what it serves.
func telemetryLock(name, fault string, t telemetry.Config, loops int) play.Scenario {
	const grows = 5 * second
	s := ordinary(name, fault, 29*second)
	s.Gateway.Telemetry, s.Gateway.Loops = t, loops
	s.Load = []load.Phase{
		{For: warm, From: 400, To: 400},
		{For: grows, From: 400, To: 1400},
		{For: s.Length - warm - grows, From: 1400, To: 1400},
	}
	s.Steps = append(s.Steps,
		play.Step{At: warm, Phase: "traffic grows steadily", Onset: true},
		play.Step{At: warm + grows, Phase: "traffic stays high"})
	return s
}

// poolwait's queries get slow enough that five connections serve 83 of a
// task's 125 requests a second.
func poolwait() play.Scenario {
	s := sudden("poolwait", "queries hold the five connections of a database pool for longer", 28*second, gateway.Faults{Query: 60 * ms})
	s.Gateway.Pool = 5
	return s
}

func downstream() play.Scenario {
	s := ordinary("downstream", "the service behind the gateway answers in 0.8 s instead of 3 ms", 28*second)
	s.Upstream = true
	s.Steps = append(s.Steps, play.Step{At: warm, Phase: "the upstream turns slow", Onset: true, Do: func(_ context.Context, s *play.Stage) error {
		s.Upstream.SetTime(800 * ms)
		return nil
	}})
	return s
}

// cpubound is one task with one thread, so that the other core is left for
// those who ask it: 28 requests a second of 40 ms are an eighth more than it can
// do. With far more of them its metrics would not be answered in time either.
func cpubound() play.Scenario {
	s := sudden("cpubound", "every request computes for 40 ms, more than the one CPU can do", 28*second, gateway.Faults{CPU: 40 * ms})
	s.Fleet.Tasks, s.Fleet.Threads = 1, 1
	s.Load = load.Constant(28, s.Length)
	return s
}

// hungrequests is the release without what followed: the new file does not
// arrive, and nothing fails.
func hungrequests() play.Scenario {
	s := ordinary("hungrequests", "a new file does not arrive through the CDN: clients wait, nothing fails", 30*second)
	s.Asset = time.Minute
	s.Canary = errorsOnly
	s.Visitors = pageVisitors
	s.Steps = append(s.Steps, play.Step{At: warm, Phase: "a release needs a new file", Onset: true, Do: release})
	return s
}

// lockheadroom is telemetryblock's lock at the usual traffic: in use for some five
// eighths of the time, and hardly anybody waits, since the balancer takes turns.
// Only looking often shows it: one task is looked at for as many snapshots as a
// share of time takes.
func lockheadroom() play.Scenario {
	const (
		length = 26 * second
		begin  = 6 * second
		looks  = 32
		// Health checks and scrapes come every 250 ms and take the lock too: at a
		// multiple of that, all snapshots would be of the same moment of a check.
		often = 590 * ms
	)
	s := ordinary("lockheadroom", "none yet: metrics are registered again on every recording, under a lock that twice the usual traffic would fill", length)
	s.Gateway.Telemetry = telemetry.Config{Kind: telemetry.KindMetrics, Faulty: true, Hold: hold}
	s.Profiles = []time.Duration{begin - 200*ms, length - 300*ms}
	for i := range looks {
		s.Glances = append(s.Glances, begin+time.Duration(i)*often)
	}
	s.Steps = append(s.Steps, play.Step{At: begin, Phase: "the lock is looked at", Onset: true})
	return s
}

// lockwait is applock without profiles: whose lock it is, series cannot say.
func lockwait() play.Scenario {
	s := sudden("lockwait", "requests hold a lock for long, and no profiles are taken", 28*second, gateway.Faults{CacheHold: 15 * ms})
	s.Profiles = nil
	return s
}

// replacement loses each task some three seconds after it began.
func replacement() play.Scenario {
	s := sudden("replacement", "tasks reach their memory limit within seconds of their start, again and again", 30*second, gateway.Faults{Grow: 40 << 20})
	s.Fleet.MemoryLimit = 160 << 20
	s.Fleet.Replace = true
	return s
}

// memorygrowth piles up connections that stay open, each with its buffers: 10 MB
// more a second in each task.
func memorygrowth() play.Scenario {
	s := ordinary("memorygrowth", "clients open connections and keep them, each with its buffers, until memory runs out", 28*second)
	s.Gateway.Hold = 256 << 10
	s.Fleet.MemoryLimit = 96 << 20
	s.Steps = append(s.Steps, play.Step{At: warm, Phase: "clients open more and more connections", Onset: true, Do: func(ctx context.Context, s *play.Stage) error {
		s.Connect(ctx, 1500, 160)
		return nil
	}})
	return s
}

// surge is ordinary traffic with something else in between.
func surge(name, fault string, length time.Duration, then load.Phase) play.Scenario {
	s := ordinary(name, fault, length)
	s.Load = []load.Phase{{For: warm, From: peak, To: peak}, then}
	if rest := length - warm - then.For; rest > 0 {
		s.Load = append(s.Load, load.Phase{For: rest, From: peak, To: peak})
	}
	s.Steps = append(s.Steps, play.Step{At: warm, Phase: fault, Onset: true})
	return s
}

// onewedged blocks one task of four; the balancer goes on sending to it.
func onewedged() play.Scenario {
	s := ordinary("onewedged", "one task of four keeps a lock of the application, the others are well", 28*second)
	s.Steps = append(s.Steps, play.Step{At: warm, Phase: "a task wedges", Onset: true, Do: func(_ context.Context, s *play.Stage) error {
		return s.Fleet.SetFaults("gateway-2", gateway.Faults{Wedged: true})
	}})
	return s
}
