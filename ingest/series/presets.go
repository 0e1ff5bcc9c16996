package series

import (
	"slices"
	"strings"
)

// Signals is the table of all signals, each with its presets. A signal that
// others are derived from comes before them.
//
// The names are those of the libraries' own sources and documentation.
func Signals() []Signal {
	return slices.Concat(requestSignals(), cpuSignals(), healthSignals(), poolSignals(), dependencySignals(), memorySignals(), lifeSignals())
}

// The expressions below are put together of few forms, so that every preset
// averages over the same window and none divides by zero.

// window survives a lost scrape, and a fast scrape does not make it nervous.
const window = "[{{4x,1m}}]"

// by is what canonical series are told apart by.
const by = " by (job, instance) "

// level is a gauge's mean over the window: a mean outlives a lost scrape, an
// instant value does not.
func level(selector string) string { return "sum" + by + "(avg_over_time(" + selector + window + "))" }

// change is a gauge's change per second over the window.
func change(selector string) string {
	return "sum" + by + "(delta(" + selector + window + ")) / {{s:4x,1m}}"
}

// last is the latest value in the window, for what changes at once and seldom.
func last(aggregate, selector string) string {
	return aggregate + by + "(last_over_time(" + selector + window + "))"
}

// rate is how fast a counter grows per second.
func rate(selector string) string { return "sum" + by + "(rate(" + selector + window + "))" }

// mean is the mean of what a histogram or summary observed in the window.
func mean(metric string, matchers ...string) string {
	return rate(metric+"_sum"+with(matchers...)) + " / (" + rate(metric+"_count"+with(matchers...)) + " > 0)"
}

// anyOf is the rate of the series that have a value in the first of the labels
// that is there at all. A service has one label for a thing, and few series of
// it are health checks or failures: adding up each label's is many times
// cheaper than telling them apart among all series.
func anyOf(selector func(matchers ...string) string, labels []string, value string) string {
	var out []string
	for _, l := range labels {
		out = append(out, rate(selector(l+value)))
	}
	return "(" + strings.Join(out, " or ") + ")"
}

// failing is the rate of a counter's series with a bad code in one of the
// labels. A service that counts by code and has had no bad one yet reads 0.
func failing(selector func(matchers ...string) string, bad string, codes ...string) string {
	return anyOf(selector, codes, `=~"`+bad+`"`) + " or 0 * " + anyOf(selector, codes, `!=""`)
}

// only is the rate of the series that have the route.
func only(metric string, routes []string, route string) string {
	return anyOf(of(metric), routes, `=~"`+route+`"`)
}

// of makes selectors of a metric with fixed matchers and others.
func of(metric string, fixed ...string) func(...string) string {
	return func(matchers ...string) string { return metric + with(slices.Concat(fixed, matchers)...) }
}

// with puts matchers in braces.
func with(matchers ...string) string {
	matchers = slices.DeleteFunc(matchers, func(m string) bool { return m == "" })
	if len(matchers) == 0 {
		return ""
	}
	return "{" + strings.Join(matchers, ",") + "}"
}

// none are matchers of series that have no such route in any of the labels.
func none(routes []string, route string) string {
	var out []string
	for _, r := range routes {
		out = append(out, r+`!~"`+route+`"`)
	}
	return strings.Join(out, ",")
}

// Routes in Expr, told by their whole text. Short words count at the root
// alone: /orders/{id}/status is no health check.
var routes = map[string]string{
	"HEALTH": `/?(?:ping|status|live|ready)/?|(?:.*/)?(?:health|healthz|healthy|livez|readyz)/?` +
		`|(?:.*/)?health/(?:live|ready|started|liveness|readiness)/?|.*/actuator/health(?:/.*)?|/-/ready` +
		`|grpc\.health\.v1\.Health(?:/.*)?`,
	"SCRAPE": `/?metrics/?|.*/actuator/prometheus|/q/metrics`,
	"STREAM": `(?:.*/)?(?:ws|wss|websocket|sse|event-?stream|eventsource)(?:/.*)?`,
}

// web are the labels in which services that name their metrics themselves put
// the route, and codes those of the status code.
var (
	web   = []string{"handler", "route", "path", "uri"} // not endpoint: Kubernetes names the target's port so
	codes = []string{"code", "status", "status_code"}
)

// spelled fills in how OpenTelemetry's exporters to Prometheus spell a name:
// with underscores or dots, each with the unit (and _total for counters) or
// without. unit is as Prometheus spells it, "" for counts in braces.
// https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
func spelled(name, unit string, p Preset) Preset {
	if p.Source == "" {
		p.Source = "OpenTelemetry"
	}
	suffix := ""
	if unit != "" {
		suffix = "_" + unit
	}
	flat := strings.ReplaceAll(name, ".", "_")
	p.Known = []string{flat + suffix, flat, name + suffix, name}
	p.Known = slices.Compact(p.Known)
	return p
}

// dotted are the attributes in Expr as they are where the metric's name keeps
// its dots.
var dotted = map[string]string{
	"db_client_connection_pool_name": "db.client.connection.pool.name",
	"db_client_connection_state":     "db.client.connection.state",
	"http_request_method":            "http.request.method",
	"http_response_status_code":      "http.response.status_code",
	"http_route":                     "http.route",
	"http_status_code":               "http.status_code",
	"http_target":                    "http.target",
	"jvm_thread_state":               "jvm.thread.state",
	"pool_name":                      "pool.name",
	"rpc_grpc_status_code":           "rpc.grpc.status_code",
	"rpc_method":                     "rpc.method",
	"rpc_response_status_code":       "rpc.response.status_code",
	"rpc_service":                    "rpc.service",
}

// Series of cAdvisor, kube-state-metrics and the kubelet's probes have the job
// and instance of their exporter. What they say of a pod is brought to the
// service's own instances by namespace and pod, and by nothing less: a service's
// name may be that of a proxy in front of it.

// exporters begin the names of such series.
var exporters = []string{"container_", "kube_pod_", "prober_"}

// targets are the service's instances with a pod, each with the value 1.
const targets = `(0 * max by (job, instance, namespace, pod) (last_over_time(up{namespace!="",pod!=""}` + window + `)` +
	` or label_replace(label_replace(last_over_time(target_info{k8s_pod_name!=""}` + window + `),` +
	` "pod", "$1", "k8s_pod_name", "(.+)"), "namespace", "$1", "k8s_namespace_name", "(.+)")) + 1)`

// pods makes two presets of an expression that is grouped by BY. The first
// brings it to the service's instances. Where none of them has a pod with that
// container (a pod alone is not scraped yet in its first moments), it
// stands for itself by the second: the container is the job and the pod the
// instance. The user's selector applies to it then, so that a job's selector
// never brings in pods that are not known to be the job's.
func pods(source, expr string, rank int) []Preset {
	byPod := strings.ReplaceAll(expr, "BY", "namespace, pod")
	byContainer := strings.ReplaceAll(expr, "BY", "namespace, pod, container")
	return []Preset{
		{Source: source, Rank: rank, Foreign: exporters,
			Expr: "max" + by + "((" + byPod + ") * on (namespace, pod) group_right () " + targets + ")"},
		{Source: source, Rank: rank,
			Expr: `max` + by + `(label_replace(label_replace((` + byContainer + `) unless on (namespace, container) ((` + byContainer + `) and on (namespace, pod) ` + targets + `),` +
				` "job", "$1", "container", "(.+)"), "instance", "$1", "pod", "(.+)"))`},
	}
}
