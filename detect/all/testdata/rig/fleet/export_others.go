package main

import (
	"maps"
	"math"
	"slices"
)

// exportSpring writes what Micrometer writes of Spring Boot: timers as summaries
// with a maximum that decays, and the long task timer of requests under way.
func exportSpring(e *Page, p *Process, t float64) {
	v := p.svc
	app := []string{"application", v.job}
	n, sum, longest := p.underWay(t)
	active := float64(n) + p.gaugeError(t)
	const family = "http_server_requests_active_seconds"
	none := with(app, "exception", "none", "method", "GET", "outcome", "SUCCESS", "status", "200", "uri", "UNKNOWN")
	if v.taskHistogram {
		e.put("gaugehistogram", family, family+"_gcount", none, active)
		e.put("gaugehistogram", family, family+"_gsum", none, sum)
	} else {
		e.put("summary", family, family+"_count", none, active)
		e.put("summary", family, family+"_sum", none, sum)
	}
	e.gauge(family+"_max", longest, none...)
	p.eachOutcome("/actuator/health/liveness", func(path, method, code string, h *Histogram) {
		outcome, exception := "SUCCESS", "none"
		if code != statusCodes[ok] {
			outcome, exception = "SERVER_ERROR", "SQLTransientConnectionException"
		}
		l := with(app, "error", exception, "exception", exception, "method", method, "outcome", outcome, "status", code, "uri", path)
		e.summary("http_server_requests_seconds", h.sum, h.count, l...)
		e.gauge("http_server_requests_seconds_max", h.max, l...)
		h.max *= 0.8
	})
	busy := float64(n)
	if v.threads > 0 {
		connector := with(app, "name", "http-nio-8080")
		e.gauge("tomcat_threads_busy_threads", busy, connector...)
		e.gauge("tomcat_threads_config_max_threads", float64(v.threads), connector...)
		e.gauge("tomcat_threads_current_threads", math.Max(10, busy), connector...)
		e.gauge("tomcat_connections_current_connections", 12+float64(p.inFlight), connector...)
		e.gauge("tomcat_connections_config_max_connections", 8192, connector...)
	}
	if v.hikari {
		exportHikari(e, p, with(app, "pool", v.poolName))
	}
	if v.hasClient {
		none := with(app, "client_name", "pricing.internal", "exception", "none", "method", "GET", "outcome", "SUCCESS", "status", "200", "uri", "/v1/price/{sku}")
		ended := with(none, "error", "none")
		h := &p.callTime[ok]
		e.summary("http_client_requests_seconds", h.sum, h.count, ended...)
		e.gauge("http_client_requests_seconds_max", h.max, ended...)
		h.max *= 0.8
		const family = "http_client_requests_active_seconds"
		e.put("summary", family, family+"_count", none, math.Max(0, p.callsNow))
	}
	exportJVM(e, p, t, app, busy)
}

func exportHikari(e *Page, p *Process, pool []string) {
	size := float64(p.svc.poolSize)
	e.gauge("hikaricp_connections", size, pool...)
	e.gauge("hikaricp_connections_active", p.poolUsed, pool...)
	e.gauge("hikaricp_connections_idle", math.Max(0, size-p.poolUsed), pool...)
	e.gauge("hikaricp_connections_max", size, pool...)
	e.gauge("hikaricp_connections_min", size, pool...)
	e.gauge("hikaricp_connections_pending", math.Max(0, p.poolQueued), pool...)
	e.counter("hikaricp_connections_timeout_total", p.poolOut, pool...)
	e.summary("hikaricp_connections_acquire_seconds", p.acquireTime.sum, p.acquireTime.count, pool...)
	e.gauge("hikaricp_connections_acquire_seconds_max", p.acquireTime.max, pool...)
	e.summary("hikaricp_connections_usage_seconds", p.useTime.sum, p.useTime.count, pool...)
	p.acquireTime.max *= 0.85
}

// exportJVM writes Micrometer's binders of the JVM and the process.
func exportJVM(e *Page, p *Process, t float64, app []string, busy float64) {
	v := p.svc
	e.gauge("process_cpu_usage", p.cpuShare(), app...)
	e.counter("process_cpu_time_ns_total", math.Round(p.cpuTotal*1e9), app...)
	e.gauge("system_cpu_count", float64(v.gomaxprocs), app...)
	e.gauge("system_cpu_usage", math.Min(1, p.cpuRecent/float64(v.gomaxprocs)*1.05+0.02), app...)
	e.gauge("system_load_average_1m", p.cpuRecent*1.1, app...)
	e.gauge("process_start_time_seconds", p.startTime(t), app...)
	e.gauge("process_uptime_seconds", v.sim.epoch+t-p.startTime(t), app...)
	blocked := math.Max(0, p.lockQueued)
	if v.threads > 0 {
		blocked = math.Min(blocked, float64(v.threads))
	}
	threads := func(state string, n float64) {
		e.gauge("jvm_threads_states_threads", math.Round(n), with(app, "state", state)...)
	}
	threads("blocked", blocked)
	threads("runnable", 9+math.Min(6, p.cpuRecent*3))
	threads("waiting", 16+math.Max(0, 10-busy))
	threads("timed-waiting", 12+math.Max(0, busy-blocked))
	e.gauge("jvm_threads_live_threads", math.Round(38+busy), app...)
	heap := with(app, "area", "heap", "id", "G1 Old Gen")
	e.gauge("jvm_memory_used_bytes", math.Round(p.memory*0.55*(0.8+0.4*p.rng.Float64())), heap...)
	e.gauge("jvm_memory_max_bytes", math.Round(v.memoryBase*1.4), heap...)
	e.summary("jvm_gc_pause_seconds", p.gcSeconds*6, math.Round(p.gcCycles/10), with(app, "action", "end of minor GC", "cause", "G1 Evacuation Pause")...)
	e.gauge("process_files_open_files", float64(40+p.inFlight), app...)
}

// underWay counts requests that a thread has taken, and how long they have
// taken so far: all, and the oldest.
func (p *Process) underWay(t float64) (n int, sum, longest float64) {
	now := endOfSecond(t)
	count := func(requests []Request) {
		for _, rq := range requests {
			if int(rq.route) == p.health || rq.served > now {
				continue
			}
			n++
			sum += now - rq.served
			longest = max(longest, now-rq.served)
		}
	}
	for _, second := range slices.Sorted(maps.Keys(p.ends)) { // in order, so that sums are the same again
		count(p.ends[second])
	}
	count(p.hung)
	return n, sum, longest
}

// exportNode writes prom-client's default metrics and a histogram of requests.
func exportNode(e *Page, p *Process, t float64) {
	lag := 0.0012 + 0.001*p.rng.ExpFloat64() + math.Max(0, p.cpuFree-endOfSecond(t))
	e.gauge("nodejs_eventloop_lag_seconds", lag)
	e.gauge("nodejs_eventloop_lag_p99_seconds", lag*1.5+0.009)
	e.gauge("nodejs_eventloop_lag_mean_seconds", lag*0.9+0.01)
	e.gauge("nodejs_active_handles", float64(8+p.inFlight), "type", "Socket")
	e.gauge("nodejs_active_handles_total", float64(9+p.inFlight))
	e.gauge("nodejs_active_requests_total", 0)
	e.gauge("nodejs_heap_size_used_bytes", math.Round(p.memory*0.4*(0.8+0.4*p.rng.Float64())))
	e.gauge("nodejs_heap_size_total_bytes", math.Round(p.memory*0.55))
	e.gauge("nodejs_version_info", 1, "major", "22", "minor", "11", "patch", "0", "version", "v22.11.0")
	microseconds := func(v float64) float64 { return math.Round(v*1e6) / 1e6 }
	e.counter("process_cpu_user_seconds_total", microseconds(p.cpuTotal*0.9))
	e.counter("process_cpu_system_seconds_total", microseconds(p.cpuTotal*0.1))
	e.counter("process_cpu_seconds_total", microseconds(p.cpuTotal))
	e.gauge("process_start_time_seconds", math.Floor(p.startTime(t)))
	e.gauge("process_resident_memory_bytes", pages(p.memory))
	e.gauge("process_open_fds", float64(25+p.inFlight))
	p.eachOutcome("/healthz", func(path, method, code string, h *Histogram) {
		e.histogram("http_request_duration_seconds", h, promBuckets, 1, "method", method, "route", path, "status_code", code)
	})
}
