package main

import "math"

// Dialect is a way in which real libraries export what a service does.
type Dialect string

const (
	golang     Dialect = "go"          // client_golang with promhttp's instrumentation
	grpcGo     Dialect = "grpc"        // go-grpc-middleware's Prometheus interceptors
	otelPython Dialect = "otel-python" // OpenTelemetry's instrumentation of ASGI and httpx, scraped
	otlp       Dialect = "otlp"        // the same pushed to Prometheus' OTLP receiver: no up
	otlpDotted Dialect = "otlp-dotted" // OpenTelemetry's Java agent, pushed, names with dots (NoTranslation)
	otelJava   Dialect = "otel-java"   // the agent, scraped
	spring     Dialect = "spring"      // Micrometer in Spring Boot
	nodeJS     Dialect = "node"        // prom-client
	noMetrics  Dialect = "none"        // only what stands around it says something
)

// title is how a dialect is named to a reader.
func (d Dialect) title() string {
	switch d {
	case golang:
		return "client_golang"
	case grpcGo:
		return "go-grpc-middleware"
	case otlp:
		return "otel-python over OTLP push (no up)"
	case otlpDotted:
		return "otel-java OTLP NoTranslation"
	case spring:
		return "Micrometer/Spring + Tomcat"
	case nodeJS:
		return "node prom-client"
	}
	return string(d)
}

// exportProcess writes a service's own /metrics at time t.
func exportProcess(e *Page, p *Process, t float64) {
	switch p.svc.dialect {
	case golang:
		exportGoRuntime(e, p, t)
		exportGoHTTP(e, p, t)
	case grpcGo:
		exportGoRuntime(e, p, t)
		exportGoGRPC(e, p)
	case otelPython, otlp:
		exportOTelPython(e, p, t)
	case otlpDotted:
		exportDotted(e, p, t)
	case otelJava:
		exportOTelJava(e, p, t)
	case spring:
		exportSpring(e, p, t)
	case nodeJS:
		exportNode(e, p, t)
	}
}

// eachRoute calls f for each route that the service counts, the health check last.
func (p *Process) eachRoute(healthPath string, f func(route int, path, method string)) {
	for i, r := range p.svc.routes {
		f(i, r.name, r.method)
	}
	if !p.svc.ownHealthPort {
		f(p.health, healthPath, "GET")
	}
}

// eachOutcome calls f for the latencies of each route and status code that were seen.
func (p *Process) eachOutcome(healthPath string, f func(path, method, code string, h *Histogram)) {
	p.eachRoute(healthPath, func(r int, path, method string) {
		for o, code := range statusCodes {
			if h := &p.stats.latency[r][o]; h.count > 0 {
				f(path, method, code, h)
			}
		}
	})
}

var statusCodes = [outcomes]string{"200", "500"}

// callCodes are the status codes of calls to the dependency; 504 for a client's timeout.
var callCodes = [outcomes]string{"200", "504"}

// startTime is process_start_time_seconds: the clock's time of the process' begin.
func (p *Process) startTime(t float64) float64 {
	begun := p.begun
	if begun < 0 {
		begun = p.pod.created
	}
	begun += p.svc.sim.epoch + p.jitter
	if p.svc.startTimeDrift != nil {
		begun += p.svc.startTimeDrift(t, p)
	}
	return math.Round(begun*100) / 100
}

// inFlightGauge is what an in-flight gauge says, with its faults and with
// websockets, whose handlers have not returned.
func (p *Process) inFlightGauge(t float64) float64 {
	n := float64(p.inFlight) + p.gaugeError(t)
	if p.svc.streams != nil && p.svc.dialect != grpcGo {
		n += p.streams
	}
	return math.Round(n)
}

func (p *Process) gaugeError(t float64) float64 {
	if p.svc.gaugeError == nil {
		return 0
	}
	return p.svc.gaugeError(t, p)
}

// hundredths are what the kernel counts CPU seconds in.
func hundredths(v float64) float64 { return math.Round(v*100) / 100 }

// pages are what the kernel counts memory in.
func pages(v float64) float64 { return math.Round(v/4096) * 4096 }

func with(labels []string, more ...string) []string {
	return append(more, labels...)
}
