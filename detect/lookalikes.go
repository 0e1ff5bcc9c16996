package detect

// Look-alikes of a service that is blocked. Each fails open: where a series
// that it reads is missing it excludes nothing, since an alert that is silent
// for want of a metric hides that it could not look.
var (
	// A process cannot use more than its limit, and the average over a window
	// hides the last tenth. Requests pile up, and are worked off, while that average
	// is still on its way there and back: what was at the limit within two
	// windows, and what is well on the way up and still rising, counts.
	AtCPULimit = LookAlike{
		Name: "a CPU at its limit: busy, not blocked",
		Expr: `max_over_time(contend:cpu_use[{{8x,2m}}]) > 0.85
or (contend:cpu > 0.6 * contend:cpu_limit and contend:cpu > 1.25 * contend:cpu:baseline
  and contend:cpu > 1.03 * contend:cpu offset {{2x}})`,
	}
	// A third of the periods throttled is everyday in many clusters; half of them
	// is a quota that holds the process.
	Throttled = LookAlike{
		Name: "a CPU throttled by its quota",
		Expr: "contend:cpu_throttled > 0.5",
	}
	// Of a wait that was measured, a CPU at its limit is no other explanation,
	// unless it came there with the wait.
	CPUCameToLimit = LookAlike{
		Name: "a CPU that came to its limit: busy, not blocked",
		Expr: "contend:cpu > 0.85 * contend:cpu_limit and contend:cpu > 1.25 * contend:cpu:baseline",
	}
	// Workers that poll a queue or share a lock wait too, most of all when there
	// is nothing to do.
	Unaffected = LookAlike{
		Name: "waits that are not those of requests, which are as few and as fast as before",
		Expr: "contend:latency < 1.5 * contend:latency:baseline and contend:inflight < 1.5 * clamp_min(contend:inflight:baseline, 1)",
	}
	// Without a limit nobody knows whether the CPU is at it: what grew by half is
	// not flat, where it is more than the fifth of a core that background work
	// comes and goes by, and a whole core is the limit of a runtime with one thread.
	CPURoseToo = LookAlike{
		Name: "CPU that rose too, or one whole core, with no limit known to hold it against",
		Expr: `(contend:cpu > 1.5 * contend:cpu:baseline and contend:cpu - contend:cpu:baseline > 0.2
  or (contend:cpu > 0.92 < 1.08)) unless contend:cpu_limit`,
	}
	// Little's law: finished requests per second times their time is how many
	// were in flight of those that finish.
	Finishing = LookAlike{
		Name: "requests that finish as ever: more of them, not slower ones",
		Expr: "contend:completions * contend:latency > 0.5 * contend:inflight and contend:latency < 2 * contend:latency:baseline",
	}
	// The time in the service, of unfinished requests too, is in flight divided
	// by completions. At least one in flight stands for a baseline that was mostly empty.
	Traffic = LookAlike{
		Name: "more traffic that is served as fast as before",
		Expr: "contend:inflight / contend:completions < 2 * clamp_min(contend:inflight:baseline, 1) / contend:completions:baseline",
	}
	// A request that is in flight has a goroutine, a thread or a connection.
	// Where those do not grow with the gauge, while requests finish as fast and as
	// many as before, the gauge is not counted down. Ten more of them are no noise.
	// The same where traffic falls and the gauge stays where it was.
	// Nor does a leak take from completions: where they fall short of before by what the
	// gauge grows, a twentieth of them or more, requests do not end.
	GaugeLeak = LookAlike{
		Name: "an in-flight gauge that leaks: nothing else grew with it, and requests finish as before",
		Expr: `(contend:latency < 1.5 * contend:latency:baseline and contend:completions > 0.7 * contend:completions:baseline
  or contend:completions <= 0.7 * contend:completions:baseline and contend:inflight < 1.1 * contend:inflight offset {{8x,5m}})
unless (contend:goroutines - contend:goroutines:baseline > 0.5 * (contend:inflight - contend:inflight:baseline)
  and contend:goroutines - contend:goroutines:baseline > 10)
unless (contend:connections - contend:connections:baseline > 0.5 * (contend:inflight - contend:inflight:baseline)
  and contend:connections - contend:connections:baseline > 10
  unless contend:goroutines)
unless (contend:completions < contend:completions:baseline - 0.5 * contend:inflight_change
  and contend:inflight_change > 0.05 * contend:completions)`,
	}
	// A stream is in flight for as long as its client likes. Requests that take
	// minutes are a sign of streams where they did so a quarter of an hour ago, of the
	// job's others too; else they are the trouble itself. That of the other routes
	// is known apart: where they got slower, streams do not explain it.
	Streams = LookAlike{
		Name: "long-lived streams among the requests in flight",
		Expr: `contend:streams > 0 and on (job) (max by (job) (contend:streams offset {{15m}}) > 0)
unless contend:latency > 2 * contend:latency:baseline`,
	}
)
