package main

import "math"

// exportOTelPython writes what OpenTelemetry's Prometheus exporter makes of the
// instrumentation of ASGI, httpx and the system.
func exportOTelPython(e *Page, p *Process, t float64) {
	v := p.svc
	web := []string{"otel_scope_name", "opentelemetry.instrumentation.asgi", "otel_scope_version", "0.58b0"}
	system := []string{"otel_scope_name", "opentelemetry.instrumentation.system_metrics", "otel_scope_version", "0.58b0"}
	exportOTelWeb(e, p, t, web)
	exportOTelCalls(e, p, "80", "opentelemetry.instrumentation.httpx")
	user := p.cpuTotal * 0.86
	e.counter("process_cpu_time_seconds_total", hundredths(user), with(system, "type", "user")...)
	e.counter("process_cpu_time_seconds_total", hundredths(p.cpuTotal-user), with(system, "type", "system")...)
	const hostCores = 8
	e.gauge("process_cpu_utilization_ratio", p.cpuRecent/hostCores, system...)
	e.gauge("process_memory_usage_bytes", pages(p.memory), with(system, "type", "rss")...)
	e.gauge("process_open_file_descriptor_count", float64(22+p.inFlight), system...)
	e.gauge("process_thread_count", float64(9+min(p.inFlight, 40)), system...)
	e.gauge("target_info", 1, "host_name", p.pod.name, "service_name", v.job, "service_version", "2.14.1", "telemetry_sdk_language", "python", "telemetry_sdk_name", "opentelemetry")
}

// exportOTelWeb writes the server metrics of the HTTP semantic conventions.
func exportOTelWeb(e *Page, p *Process, t float64, scope []string) {
	e.gauge("http_server_active_requests", p.inFlightGauge(t), with(scope, "http_request_method", "GET", "url_scheme", "http")...)
	p.eachOutcome("/healthz", func(path, method, code string, h *Histogram) {
		e.histogram("http_server_request_duration_seconds", h, otelBuckets, 1, with(scope, "http_request_method", method, "http_response_status_code", code, "http_route", path, "network_protocol_version", "1.1", "url_scheme", "http")...)
	})
}

// exportOTelCalls writes the client's histogram.
func exportOTelCalls(e *Page, p *Process, port, scope string) {
	if !p.svc.hasClient {
		return
	}
	for o, code := range callCodes {
		if h := &p.callTime[o]; o == ok || h.count > 0 {
			e.histogram("http_client_request_duration_seconds", h, otelBuckets, 1, "http_request_method", "GET", "http_response_status_code", code, "server_address", "pricing.internal", "server_port", port, "otel_scope_name", scope)
		}
	}
}

var javaRuntime = []string{"otel_scope_name", "io.opentelemetry.runtime-telemetry-java8", "otel_scope_version", "2.20.1-alpha"}

var javaNetty = []string{"otel_scope_name", "io.opentelemetry.netty-4.1", "otel_scope_version", "2.20.1-alpha"}

// exportDotted writes what Prometheus keeps of the Java agent's OTLP where it
// does not translate names.
func exportDotted(e *Page, p *Process, t float64) {
	v := p.svc
	e.gauge("http.server.active_requests", p.inFlightGauge(t), with(javaNetty, "http.request.method", "GET", "url.scheme", "http")...)
	p.eachOutcome("/healthz", func(path, method, code string, h *Histogram) {
		e.histogram("http.server.request.duration", h, otelBuckets, 1, with(javaNetty, "http.request.method", method, "http.response.status_code", code, "http.route", path, "network.protocol.version", "1.1", "url.scheme", "http")...)
	})
	if v.hasClient {
		for o, code := range callCodes {
			if h := &p.callTime[o]; o == ok || h.count > 0 {
				e.histogram("http.client.request.duration", h, otelBuckets, 1, "http.request.method", "GET", "http.response.status_code", code, "server.address", "pricing.internal", "server.port", "80")
			}
		}
	}
	e.counter("jvm.cpu.time", hundredths(p.cpuTotal), javaRuntime...)
	e.gauge("jvm.cpu.count", float64(v.gomaxprocs), javaRuntime...)
	e.gauge("jvm.cpu.recent_utilization", p.cpuShare(), javaRuntime...)
	e.gauge("jvm.memory.used", math.Round(p.memory*0.6), with(javaRuntime, "jvm.memory.type", "heap", "jvm.memory.pool.name", "G1 Old Gen")...)
	e.gauge("jvm.memory.used", 9.1e7, with(javaRuntime, "jvm.memory.type", "non_heap", "jvm.memory.pool.name", "Metaspace")...)
	exportJavaThreads(e, p, "jvm.thread.count", "jvm.thread.state", "jvm.thread.daemon")
	e.gauge("target_info", 1, "service.name", v.job, "service.instance.id", e.target.instance, "telemetry.sdk.language", "java", "telemetry.sdk.name", "opentelemetry")
}

// cpuShare is the recent CPU as the JVM gives it: of the cores that it sees.
func (p *Process) cpuShare() float64 {
	return math.Min(1, p.cpuRecent/float64(p.svc.gomaxprocs))
}

func exportJavaThreads(e *Page, p *Process, name, state, daemon string) {
	blocked := math.Max(0, p.lockQueued)
	threads := func(in string, n float64) {
		e.gauge(name, math.Round(n), with(javaRuntime, state, in, daemon, "true")...)
	}
	threads("runnable", 9+math.Min(8, p.cpuRecent*3))
	threads("waiting", 14)
	threads("timed_waiting", 11+float64(max(0, p.inFlight-int(blocked)))*0.8)
	threads("blocked", blocked)
}

// exportOTelJava writes the Java agent's metrics as its Prometheus exporter does.
func exportOTelJava(e *Page, p *Process, t float64) {
	v := p.svc
	exportOTelWeb(e, p, t, javaNetty)
	exportOTelCalls(e, p, "443", "io.opentelemetry.java-http-client")
	if v.poolSize > 0 {
		pool := []string{"pool_name", v.poolName, "otel_scope_name", "io.opentelemetry.hikaricp-3.0", "otel_scope_version", "2.20.1-alpha"}
		const milliseconds = 1000
		e.gauge("db_client_connections_usage", p.poolUsed, with(pool, "state", "used")...)
		e.gauge("db_client_connections_usage", math.Max(0, float64(v.poolSize)-p.poolUsed), with(pool, "state", "idle")...)
		e.gauge("db_client_connections_max", float64(v.poolSize), pool...)
		e.gauge("db_client_connections_pending_requests", math.Max(0, p.poolQueued), pool...)
		e.counter("db_client_connections_timeouts_total", p.poolOut, pool...)
		e.histogram("db_client_connections_wait_time_milliseconds", &p.acquireTime, longBuckets, milliseconds, pool...)
		e.histogram("db_client_connections_use_time_milliseconds", &p.useTime, longBuckets, milliseconds, pool...)
	}
	heap := with(javaRuntime, "jvm_memory_type", "heap", "jvm_memory_pool_name", "G1 Old Gen")
	e.counter("jvm_cpu_time_seconds_total", hundredths(p.cpuTotal), javaRuntime...)
	e.gauge("jvm_cpu_count", float64(v.gomaxprocs), javaRuntime...)
	e.gauge("jvm_cpu_recent_utilization_ratio", p.cpuShare(), javaRuntime...)
	e.gauge("jvm_memory_used_bytes", math.Round(p.memory*0.6*(0.9+0.2*p.rng.Float64())), heap...)
	e.gauge("jvm_memory_limit_bytes", math.Round(v.memoryBase*1.6), heap...)
	exportJavaThreads(e, p, "jvm_thread_count", "jvm_thread_state", "jvm_thread_daemon")
	e.gauge("target_info", 1, "host_name", p.pod.name, "service_name", v.job, "service_version", "5.2.0", "telemetry_sdk_language", "java", "telemetry_sdk_name", "opentelemetry")
}
