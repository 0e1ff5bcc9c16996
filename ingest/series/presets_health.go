package series

import (
	"slices"
	"strings"
)

// Probes whose failure restarts a container or takes it out of its service.
const probes = `probe_type=~"Liveness|Readiness"`

func healthSignals() []Signal {
	return []Signal{
		{Name: "health_latency", Meaning: "duration of health checks", Unit: "seconds",
			Hint: "scrape the kubelet's /metrics/probes, or have the request histogram tell the health route apart", Presets: healthLatency()},
		{Name: "health_timeout", Meaning: "how long a health check may take", Unit: "seconds",
			Hint:    "blackbox_exporter exports probe_timeout_seconds; else give it: --signal health_timeout=1",
			Presets: []Preset{{Source: "blackbox_exporter", Expr: last("max", "probe_timeout_seconds")}}},
		{Name: "health_failures", Meaning: "health checks that failed", Unit: "checks/s",
			Hint: "scrape the kubelet's /metrics/probes", Presets: healthFailures()},
	}
}

func healthLatency() []Preset {
	checks := func(metric string, routes []string) string {
		return only(metric+"_sum", routes, "HEALTH") + " / (" + only(metric+"_count", routes, "HEALTH") + " > 0)"
	}
	grpc := Preset{Source: "go-grpc-middleware", Known: []string{"grpc_server_handling_seconds"},
		Expr: mean("METRIC", `grpc_service="grpc.health.v1.Health"`, unary)}
	return slices.Concat([]Preset{
		{Source: named, Metric: chosenDuration, Not: notServed, Known: knownDurations, Expr: checks("METRIC", web)},
		{Source: named, Metric: chosenMillis, Not: notServed, Known: knownMillis, Expr: thousandth(checks("METRIC", web))},
		spelled("http.server.request.duration", "seconds", Preset{Expr: checks("METRIC", otelRoutes)}),
		spelled("http.server.duration", "milliseconds", Preset{Expr: thousandth(checks("METRIC", oldRoutes))}),
		{Source: "Micrometer", Expr: checks("http_server_requests_seconds", uri)},
		grpc,
		spelled("rpc.server.call.duration", "seconds", Preset{Expr: checks("METRIC", []string{"rpc_method"})}),
		spelled("rpc.server.duration", "milliseconds", Preset{Expr: thousandth(checks("METRIC", []string{"rpc_service"}))}),
		{Source: "blackbox_exporter", Expr: "max" + by + "(avg_over_time(probe_duration_seconds" + window + "))"},
		{Source: "HAProxy", Expr: "max" + by + "(avg_over_time(haproxy_server_check_duration_seconds" + window + "))"},
	},
		// Successes alone are observed: it stands still at the timeout.
		pods("kubelet", "sum by (BY) (rate(prober_probe_duration_seconds_sum"+with(probes)+window+"))"+
			" / (sum by (BY) (rate(prober_probe_duration_seconds_count"+with(probes)+window+")) > 0)", 0))
}

func healthFailures() []Preset {
	// One selector of both labels, rather than and: a server would read all failures of all routes.
	http := func(metric string, routes []string, codes ...string) string {
		var failed []string
		for _, route := range routes {
			for _, code := range codes {
				failed = append(failed, "rate("+metric+with(route+`=~"HEALTH"`, code+`=~"5.."`)+window+")")
			}
		}
		return "sum" + by + "(" + strings.Join(failed, " or ") + ") or 0 * " + only(metric, routes, "HEALTH")
	}
	return slices.Concat([]Preset{
		{Source: named, Metric: chosenCounter, Not: notServed, Known: knownCounters, Expr: http("METRIC", web, codes...)},
		{Source: named, Metric: chosenDuration, Not: notServed, Known: knownDurations, Rank: 1, Expr: http("METRIC_count", web, codes...)},
		{Source: named, Metric: chosenMillis, Not: notServed, Known: knownMillis, Rank: 1, Expr: http("METRIC_count", web, codes...)},
		spelled("http.server.request.duration", "seconds", Preset{Expr: http("METRIC_count", otelRoutes, "http_response_status_code")}),
		spelled("http.server.duration", "milliseconds", Preset{Expr: http("METRIC_count", oldRoutes, "http_status_code")}),
		{Source: "Micrometer", Expr: http("http_server_requests_seconds_count", uri, "status")},
		{Source: "go-grpc-middleware", Expr: failing(of("grpc_server_handled_total", unary, `grpc_service="grpc.health.v1.Health"`), grpcErrors, "grpc_code")},
		// A proxy's failed checks are of its upstreams: one endpoint that is down
		// would be a failing proxy for ever. One probe a scrape.
		{Source: "blackbox_exporter", Expr: "sum" + by + "(1 - avg_over_time(probe_success" + window + ")) / {{s:1x}}"},
	},
		pods("kubelet", `sum by (BY) (rate(prober_probe_total`+with(probes, `result="failed"`)+window+"))"+
			" or 0 * sum by (BY) (rate(prober_probe_total"+with(probes)+window+"))", 0))
}
