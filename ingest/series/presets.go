package series

import (
	"fmt"
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
const (
	windowSpan = "4x,1m"
	window     = "[{{" + windowSpan + "}}]"
)

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

// Foreign reports whether a metric that presets read is an exporter's, to
// which the user's selector does not apply.
func Foreign(metric string) bool { return isForeign(metric, exporters) }

// readsExporters tells whether a preset reads such series.
func (p Preset) readsExporters() bool {
	return slices.ContainsFunc(exporters, func(e string) bool { return strings.Contains(p.Expr, e) })
}

// targets are the service's instances with a pod, and by container those with a
// container too, each with the value 1.
func targets(container bool) string {
	own, pushed, by := `namespace!="",pod!=""`, `k8s_pod_name!=""`, "job, instance, namespace, pod"
	if container {
		own, pushed, by = own+`,container!=""`, pushed+`,k8s_container_name!=""`, by+", container"
	}
	info := "last_over_time(target_info{" + pushed + "}" + window + ")"
	for _, l := range []string{"pod", "namespace", "container"} {
		if l != "container" || container {
			info = fmt.Sprintf(`label_replace(%s, "%s", "$1", "k8s_%s_name", "(.+)")`, info, l, l)
		}
	}
	return "(0 * max by (" + by + ") (last_over_time(up{" + own + "}" + window + ") or " + info + ") + 1)"
}

const (
	perPod       = "namespace, pod"
	perContainer = "namespace, pod, container"
	wholePods    = "unless on (" + perPod + ")"
)

// podContainers are the containers of pods, as far as an exporter names them:
// no init containers, and no sandbox.
var podContainers = "(" + strings.Join([]string{
	latest("container_cpu_usage_seconds_total" + with(containers)), latest("kube_pod_container_info"), latest("kube_pod_container_status_restarts_total"),
}, " or ") + ")"

// latest is the latest value of each container. After a restart there are two
// series of it for a while, which are not to be added.
func latest(selector string) string {
	return "max by (" + perContainer + ") (last_over_time(" + selector + window + "))"
}

// pods makes two presets of an expression that is grouped by BY. The first
// brings it to the service's instances: of the container that the instance is
// where its labels say so, else of the whole pod. Where none of them has a pod with that
// container (a pod alone is not scraped yet in its first moments), it
// stands for itself by the second: NAMESPACE/CONTAINER is the job, since many
// operators call theirs manager, and the pod the instance. The user's selector applies to it then, so that a job's selector
// never brings in pods that are not known to be the job's.
func pods(source, expr string, rank int) []Preset {
	return joined(source, grouped(expr, perPod), grouped(expr, perContainer), rank)
}

// limits are pods of what a container may be without. The sum over those of a
// pod's containers that have a limit is none of the pod: with a limited proxy
// beside an unlimited service it would be the proxy's. Where nothing names the
// containers, the sum stays.
func limits(source, expr string, rank int) []Preset {
	each := grouped(expr, perContainer)
	return joined(source, whole(grouped(expr, perPod), each), each, rank)
}

// whole leaves an expression by pod to the pods of which each container is in each.
func whole(pod, each string) string {
	count := "count by (" + perPod + ") "
	return "(" + pod + ") " + wholePods + " (" + count + "(" + each + ") < " + count + podContainers + ")"
}

// cpuLimits are limits of what a process and not a pod is held to. Of several
// limited containers the one that uses most CPU is the service: a proxy's quota
// beside it is none of its own. What no usage tells is as limits has it.
func cpuLimits(source, expr string, rank int) []Preset {
	each := grouped(expr, perContainer)
	usage := "sum by (" + perContainer + ") (rate(container_cpu_usage_seconds_total" + with(containers) + window + "))"
	busiest := "max by (" + perPod + ") ((" + each + ") and on (" + perContainer + ") (" + usage + " == on (" + perPod + ") group_left () max by (" + perPod + ") (" + usage + ")))"
	out := limits(source, expr, rank)
	busy := joined(source, whole(busiest, each), each, rank)[0]
	out[0].Expr = fallback([]string{busy.Expr, out[0].Expr})
	return out
}

func grouped(expr, by string) string { return strings.ReplaceAll(expr, "BY", by) }

func joined(source, pod, each string, rank int) []Preset {
	bring := func(expr, on string, container bool) string {
		return "max" + by + "((" + expr + ") * on (" + on + ") group_right () " + targets(container) + ")"
	}
	return []Preset{
		{Source: source, Rank: rank, Foreign: exporters, Expr: fallback([]string{bring(each, perContainer, true), bring(pod, perPod, false)})},
		{Source: source, Rank: rank,
			Expr: `max` + by + `(label_replace(label_join((` + each + `) unless on (namespace, container) ((` + each + `) and on (namespace, pod) ` + targets(false) + `),` +
				` "job", "/", "namespace", "container"), "instance", "$1", "pod", "(.+)"))`},
	}
}
