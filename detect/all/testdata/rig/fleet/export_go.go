package main

import (
	"math"
	"strings"
)

// exportGoRuntime writes client_golang's Go and process collectors, DBStats, and
// the histogram of the HTTP client.
func exportGoRuntime(e *Page, p *Process, t float64) {
	v := p.svc
	e.summary("go_gc_duration_seconds", math.Round(p.gcSeconds*1e5)/1e5, math.Round(p.gcCycles))
	goroutines := math.Round(30 + 2.1*float64(p.inFlight) + 2*p.streams + float64(p.rng.Intn(6)))
	e.gauge("go_goroutines", goroutines)
	e.gauge("go_info", 1, "version", "go1.26.4")
	e.gauge("go_memstats_heap_inuse_bytes", math.Round(p.memory*0.45*(0.85+0.3*p.rng.Float64())))
	e.gauge("go_memstats_stack_inuse_bytes", math.Round(goroutines*8192/32768)*32768)
	e.gauge("go_sched_gomaxprocs_threads", float64(v.gomaxprocs))
	e.gauge("go_threads", float64(8+v.gomaxprocs))
	if v.mutexMetric {
		e.counter("go_sync_mutex_wait_total_seconds_total", p.lockWaitTotal)
	}
	e.counter("process_cpu_seconds_total", hundredths(p.cpuTotal))
	e.gauge("process_max_fds", 65536)
	e.gauge("process_open_fds", math.Round(14+float64(p.inFlight)+p.streams+float64(p.rng.Intn(4))))
	e.gauge("process_resident_memory_bytes", pages(p.memory))
	e.gauge("process_virtual_memory_bytes", 1.9e9)
	e.gauge("process_start_time_seconds", p.startTime(t))
	e.gauge("promhttp_metric_handler_requests_in_flight", 1)
	e.counter("promhttp_metric_handler_requests_total", math.Round(p.scrapes), "code", "200")
	e.counter("promhttp_metric_handler_requests_total", 0, "code", "500")
	e.counter("promhttp_metric_handler_requests_total", 0, "code", "503")
	if v.hasSQL {
		db := []string{"db_name", v.poolName}
		most := float64(v.poolSize)
		open := math.Min(most, math.Max(p.poolUsed, 2))
		e.gauge("go_sql_max_open_connections", most, db...)
		e.gauge("go_sql_open_connections", open, db...)
		e.gauge("go_sql_in_use_connections", p.poolUsed, db...)
		e.gauge("go_sql_idle_connections", math.Max(0, open-p.poolUsed), db...)
		e.counter("go_sql_wait_count_total", p.poolWaitN, db...)
		e.counter("go_sql_wait_duration_seconds_total", p.poolWaitTotal, db...)
		e.counter("go_sql_max_idle_closed_total", 0, db...)
		e.counter("go_sql_max_lifetime_closed_total", 0, db...)
	}
	if v.hasClient {
		for o, code := range callCodes {
			if h := &p.callTime[o]; o == ok || h.count > 0 {
				e.histogram("http_client_request_duration_seconds", h, promBuckets, 1, "code", code, "host", "pricing.internal", "method", "get")
			}
		}
		if v.clientGauge {
			e.gauge("client_in_flight_requests", math.Max(0, p.callsNow))
		}
	}
}

// exportGoHTTP writes promhttp's InstrumentHandler metrics. All count a request
// when it ends.
func exportGoHTTP(e *Page, p *Process, t float64) {
	v := p.svc
	if v.inFlightName != "" {
		e.gauge(v.inFlightName, p.inFlightGauge(t))
	}
	buckets := promBuckets
	if len(v.routes) > 2 {
		buckets = fewBuckets
	}
	p.eachRoute("/healthz", func(r int, path, method string) {
		var all Histogram
		for o, code := range statusCodes {
			if n := p.stats.completed[r][o]; n > 0 {
				e.counter("http_requests_total", math.Round(n), "code", code, "handler", path, "method", strings.ToLower(method))
			}
			all.add(&p.stats.latency[r][o])
		}
		if all.count > 0 {
			e.histogram("http_request_duration_seconds", &all, buckets, 1, "handler", path)
		}
	})
	if p.streamsEnded > 0 { // websockets: their handler returns when they close
		h := Histogram{count: math.Round(p.streamsEnded), sum: p.streamSeconds}
		e.counter("http_requests_total", h.count, "code", "200", "handler", "/ws", "method", "get")
		e.histogram("http_request_duration_seconds", &h, fewBuckets, 1, "handler", "/ws")
	}
}

// exportGoGRPC writes the server metrics of go-grpc-middleware: started when a
// call begins, handled when it ends.
func exportGoGRPC(e *Page, p *Process) {
	v := p.svc
	service := v.job + ".v1." + strings.ToUpper(v.job[:1]) + v.job[1:]
	p.eachRoute("Check", func(r int, method, _ string) {
		of := service
		if r == p.health {
			of = "grpc.health.v1.Health"
		}
		l := []string{"grpc_method", method, "grpc_service", of, "grpc_type", "unary"}
		e.counter("grpc_server_started_total", math.Round(p.stats.started[r]), l...)
		e.counter("grpc_server_msg_received_total", math.Round(p.stats.started[r]), l...)
		var all Histogram
		for o, code := range [outcomes]string{"OK", "Internal"} {
			if n := math.Round(p.stats.completed[r][o]); n > 0 || !v.lazyCodes {
				e.counter("grpc_server_handled_total", n, with(l, "grpc_code", code)...)
			}
			all.add(&p.stats.latency[r][o])
		}
		if !v.lazyCodes {
			e.counter("grpc_server_handled_total", 0, with(l, "grpc_code", "DeadlineExceeded")...)
		}
		if all.count > 0 {
			e.histogram("grpc_server_handling_seconds", &all, promBuckets, 1, l...)
		}
	})
	if v.streams == nil {
		return
	}
	l := []string{"grpc_method", "Subscribe", "grpc_service", service, "grpc_type", "bidi_stream"}
	const messages = 40 // of a stream
	e.counter("grpc_server_started_total", math.Round(p.streamsStarted), l...)
	e.counter("grpc_server_msg_received_total", math.Round(p.streamsStarted*messages), l...)
	e.counter("grpc_server_handled_total", math.Round(p.streamsEnded), with(l, "grpc_code", "OK")...)
	e.counter("grpc_server_handled_total", 0, with(l, "grpc_code", "Internal")...)
	if p.streamsEnded > 0 {
		h := Histogram{count: math.Round(p.streamsEnded), sum: p.streamSeconds}
		e.histogram("grpc_server_handling_seconds", &h, promBuckets, 1, l...)
	}
}
