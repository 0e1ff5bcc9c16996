package series

// Names that users choose follow Prometheus' namespace_subsystem_name: at most
// two words before what says that requests are counted.
const (
	chosen = `(?:[a-zA-Z0-9]+_){0,2}`
	// Calls that go out, the scrape handler's own requests, libuv's handles, and
	// exporters with presets of their own. Caddy counts a request once for each
	// handler in its chain, which no sum undoes.
	notServed = `(?:.*_)?(?:http)?(?:clients?|outgoing|outbound|upstreams?|downstreams?|backends?|database|db|sql|redis|cache|kafka|dns)(?:_.*)?` +
		`|(?:promhttp|nodejs|apiserver|nginx|nginxplus|kong|vertx|haproxy|caddy|traefik)_.*`

	chosenGauge    = chosen + `(?:requests?_in_?flight|in_?flight_requests?|requests?_in_?progress|in_?progress_requests?|active_requests|requests_active)`
	chosenCounter  = chosen + `http_(?:server_)?requests?(?:_received)?_total|starlette_requests_total`
	chosenDuration = chosen + `http_requests?_(?:duration|latency)_seconds|starlette_request_duration_seconds`
	chosenMillis   = chosen + `http_requests?_(?:duration|latency)_(?:ms|milliseconds)`
)

var (
	knownGauges    = []string{"http_requests_in_flight", "in_flight_requests", "http_in_flight_requests", "http_requests_in_progress", "http_requests_inprogress"}
	knownCounters  = []string{"http_requests_total", "http_requests_received_total"}
	knownDurations = []string{"http_request_duration_seconds", "http_requests_duration_seconds"}
	knownMillis    = []string{"http_request_duration_ms", "http_request_duration_milliseconds"}
)

const (
	// named is the source of metrics that services name themselves: with
	// client_golang, client_python and its middlewares, prom-client, prometheus-net.
	named = "client library"

	unary = `grpc_type="unary"`
	// The codes that are the server's fault or capacity.
	// https://grpc.github.io/grpc/core/md_doc_statuscodes.html
	grpcErrors = "Unknown|DeadlineExceeded|ResourceExhausted|Internal|Unavailable|DataLoss"
	rpcErrors  = "2|4|8|13|14|15|UNKNOWN|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|INTERNAL|UNAVAILABLE|DATA_LOSS"

	// Admin is the listener that Envoy is scraped on.
	envoyServing = `{envoy_http_conn_manager_prefix!="admin"}`
)

// gauge is something that counts the requests being served.
type gauge struct {
	Preset
	selector string // of one gauge, or
	expr     string // an expression of several, by job and instance
}

// gauges are what inflight and inflight_change are read from.
func gauges() []gauge {
	micrometer := func(metric string) gauge {
		return gauge{Preset: Preset{Source: "Micrometer"}, selector: metric}
	}
	return []gauge{
		{Preset: Preset{Source: named, Metric: chosenGauge, Not: notServed + `|http_server_active_requests`, Known: knownGauges}, selector: "METRIC"},
		{Preset: spelled("http.server.active_requests", "", Preset{}), selector: "METRIC"},
		// Of a method none of whose calls has completed there is no handled counter yet.
		{Preset: Preset{Source: "go-grpc-middleware"}, expr: "sum" + by + "(grpc_server_started_total{" + unary + "}) - (sum" + by +
			"(grpc_server_handled_total{" + unary + "}) or 0 * sum" + by + "(grpc_server_started_total{" + unary + "}))"},
		// The count of a long task timer is how many tasks are running now, by
		// Micrometer 1.13 without and with buckets, and by older ones.
		micrometer("http_server_requests_active_seconds_count"),
		micrometer("http_server_requests_active_seconds_gcount"),
		micrometer("http_server_requests_active_seconds_active_count"),
		{Preset: Preset{Source: "Vert.x"}, selector: "vertx_http_server_active_requests"},
		{Preset: Preset{Source: "kube-apiserver"}, selector: "apiserver_current_inflight_requests"},
		{Preset: Preset{Source: "NGINX Plus"}, selector: "nginxplus_http_requests_current"},
		// Envoy beside a service counts the service's outgoing requests too.
		{Preset: Preset{Source: "Envoy", Rank: 1}, selector: "envoy_http_downstream_rq_active" + envoyServing},
		{Preset: Preset{Source: "NGINX exporter", Rank: 1}, expr: "sum" + by + "(nginx_connections_active) - sum" + by + "(nginx_connections_waiting)"},
		{Preset: Preset{Source: "ingress-nginx", Rank: 1}, expr: `sum` + by + `(nginx_ingress_controller_nginx_process_connections{state="active"})` +
			` - sum` + by + `(nginx_ingress_controller_nginx_process_connections{state="waiting"})`},
		// Levels, for all that the name ends in _total.
		{Preset: Preset{Source: "Kong", Rank: 1}, expr: `sum` + by + `(kong_nginx_connections_total{state="active"})` +
			` - sum` + by + `(kong_nginx_connections_total{state="waiting"})`},
		// Traefik 2 counts requests here; Traefik 3's traefik_open_connections are connections.
		{Preset: Preset{Source: "Traefik", Rank: 1}, selector: `traefik_entrypoint_open_connections{entrypoint!~"traefik|metrics",protocol!~"websocket|sse"}`},
		{Preset: Preset{Source: "HAProxy", Rank: 1}, selector: "haproxy_backend_current_sessions"},
		// A busy thread is a request with blocking handlers alone, and the pool hides what queues before it.
		{Preset: Preset{Source: "Jetty", Rank: 2}, selector: "jetty_server_requests_open_seconds_count"},
		{Preset: Preset{Source: "Jetty", Rank: 2}, selector: "jetty_server_requests_open_seconds_gcount"},
		{Preset: Preset{Source: "Jetty", Rank: 2}, selector: "jetty_server_dispatches_open_seconds_active_count"},
		{Preset: Preset{Source: "Reactor Netty", Rank: 2}, selector: "reactor_netty_http_server_connections_active"},
		{Preset: Preset{Source: "Tomcat", Rank: 3}, selector: "tomcat_threads_busy_threads"},
		{Preset: Preset{Source: "Jetty", Rank: 3}, selector: "jetty_threads_busy"},
	}
}

// inflightPresets are the gauges' levels, and with them their changes. A
// difference of counters is taken at each scrape before it is averaged: a mean
// of each would mix what was before a restart with what is after it.
func inflightPresets() (levels, changes []Preset) {
	for _, g := range gauges() {
		l, c := g.Preset, g.Preset
		if g.expr == "" {
			l.Expr, c.Expr = level(g.selector), change(g.selector)
		} else {
			subquery := "((" + g.expr + ")[{{4x,1m}}:{{1x}}])"
			l.Expr, c.Expr = "avg_over_time"+subquery, "delta"+subquery+" / {{s:4x,1m}}"
		}
		levels, changes = append(levels, l), append(changes, c)
	}
	return levels, changes
}

func requestSignals() []Signal {
	inflight, inflightChange := inflightPresets()
	return []Signal{
		{Name: "inflight", Meaning: "requests being served now", Unit: "requests", Largest: true,
			Hint:    "client_golang: wrap the handler in promhttp.InstrumentHandlerInFlight; OpenTelemetry: http.server.active_requests; Spring: the long task timer http.server.requests.active",
			Presets: inflight},
		{Name: "inflight_change", Meaning: "change of the requests being served", Unit: "requests/s", Largest: true,
			Hint: "comes with inflight", Presets: inflightChange},
		{Name: "completions", Meaning: "requests that finished", Unit: "requests/s", Largest: true,
			Hint: "client_golang: wrap the handler in promhttp.InstrumentHandlerCounter", Presets: completions()},
		{Name: "arrivals", Meaning: "requests that began", Unit: "requests/s", Largest: true,
			Hint: "a proxy in front counts them; else they are completions plus the change of in-flight", Presets: arrivals()},
		{Name: "errors", Meaning: "requests that failed for the server's fault", Unit: "requests/s",
			Hint: "count requests by status code (label code)", Presets: errorPresets()},
		{Name: "latency", Meaning: "mean duration of finished requests, health checks and streams apart", Unit: "seconds",
			Hint: "client_golang: wrap the handler in promhttp.InstrumentHandlerDuration", Presets: latency()},
		{Name: "streams", Meaning: "signs that long-lived streams are among the requests in flight", Unit: "requests/s",
			Hint: "a service without websockets or event streams has none", Presets: streams()},
		{Name: "oldest", Meaning: "age of the oldest request in flight", Unit: "seconds",
			Hint:    "Micrometer's long task timer http.server.requests.active alone exports it",
			Presets: []Preset{{Source: "Micrometer", Expr: last("max", "http_server_requests_active_seconds_max")}}},
	}
}

// Labels of routes by library.
var (
	otelRoutes = []string{"http_route"}
	oldRoutes  = []string{"http_route", "http_target"}
	uri        = []string{"uri"}
)

const (
	proxied   = `proxy!~"stats|metrics|prometheus"`
	entry     = `entrypoint!~"traefik|metrics"`
	inbound   = `reporter="destination"`
	unwatched = `verb!~"WATCH|CONNECT"`
)

func completions() []Preset {
	chosenOf := Preset{Source: named, Not: notServed}
	counter, seconds, millis := chosenOf, chosenOf, chosenOf
	counter.Metric, counter.Known = chosenCounter, knownCounters
	counter.Expr = rate("METRIC" + with(none(web, "SCRAPE")))
	seconds.Metric, seconds.Known, seconds.Rank = chosenDuration, knownDurations, 1
	seconds.Expr = rate("METRIC_count" + with(none(web, "SCRAPE")))
	millis.Metric, millis.Known, millis.Rank = chosenMillis, knownMillis, 1
	millis.Expr = seconds.Expr
	return []Preset{
		counter, seconds, millis,
		spelled("http.server.request.duration", "seconds", Preset{Expr: rate("METRIC_count" + with(none(otelRoutes, "SCRAPE")))}),
		spelled("http.server.duration", "milliseconds", Preset{Expr: rate("METRIC_count" + with(none(oldRoutes, "SCRAPE")))}),
		{Source: "Micrometer", Expr: rate("http_server_requests_seconds_count" + with(none(uri, "SCRAPE")))},
		{Source: "go-grpc-middleware", Expr: rate("grpc_server_handled_total" + with(unary))},
		spelled("rpc.server.call.duration", "seconds", Preset{Expr: rate("METRIC_count")}),
		spelled("rpc.server.duration", "milliseconds", Preset{Expr: rate("METRIC_count")}),
		{Source: "django-prometheus", Expr: rate("django_http_responses_before_middlewares_total")},
		{Source: "Vert.x", Expr: rate("vertx_http_server_response_time_seconds_count")},
		{Source: "kube-apiserver", Expr: rate("apiserver_request_total" + with(unwatched))},
		{Source: "Envoy", Rank: 1, Expr: rate("envoy_http_downstream_rq_completed" + envoyServing)},
		{Source: "Istio", Rank: 1, Expr: rate("istio_requests_total" + with(inbound))},
		{Source: "ingress-nginx", Rank: 1, Expr: rate("nginx_ingress_controller_requests")},
		{Source: "NGINX Plus", Rank: 1, Expr: rate("nginxplus_server_zone_responses")},
		{Source: "Traefik", Rank: 1, Expr: rate("traefik_entrypoint_requests_total" + with(entry, `code!="101"`))},
		{Source: "HAProxy", Rank: 1, Expr: rate("haproxy_frontend_http_responses_total" + with(proxied))},
		{Source: "Kong", Rank: 1, Expr: rate("kong_http_requests_total")},
	}
}

func arrivals() []Preset {
	return []Preset{
		{Source: "go-grpc-middleware", Expr: rate("grpc_server_started_total" + with(unary))},
		{Source: "django-prometheus", Expr: rate("django_http_requests_before_middlewares_total")},
		{Source: "Envoy", Expr: rate("envoy_http_downstream_rq_total" + envoyServing)},
		{Source: "NGINX exporter", Expr: rate("nginx_http_requests_total")},
		{Source: "NGINX Plus", Expr: rate("nginxplus_http_requests_total")},
		{Source: "ingress-nginx", Expr: rate("nginx_ingress_controller_nginx_process_requests_total")},
		{Source: "HAProxy", Expr: rate("haproxy_frontend_http_requests_total" + with(proxied))},
		// A counter that is declared a gauge.
		{Source: "Kong", Expr: rate("kong_nginx_requests_total")},
		// Request counters of libraries count what finished: with a queue that
		// grows, more began. A gauge that is set back by a restart is no arrival.
		{Source: "completions and the change of in-flight", Derived: true, Rank: 8,
			Expr: "clamp_min(contend:completions + on (job, instance) contend:inflight_change, 0)"},
		{Source: "completions", Derived: true, Rank: 9, Expr: "contend:completions"},
	}
}

func errorPresets() []Preset {
	duration := failing(of("METRIC_count"), "5..", codes...)
	return []Preset{
		{Source: named, Metric: chosenCounter, Not: notServed, Known: knownCounters, Expr: failing(of("METRIC"), "5..", codes...)},
		{Source: named, Metric: chosenDuration, Not: notServed, Known: knownDurations, Rank: 1, Expr: duration},
		{Source: named, Metric: chosenMillis, Not: notServed, Known: knownMillis, Rank: 1, Expr: duration},
		spelled("http.server.request.duration", "seconds", Preset{Expr: failing(of("METRIC_count"), "5..", "http_response_status_code")}),
		spelled("http.server.duration", "milliseconds", Preset{Expr: failing(of("METRIC_count"), "5..", "http_status_code")}),
		{Source: "Micrometer", Expr: failing(of("http_server_requests_seconds_count"), "5..", "status")},
		{Source: "go-grpc-middleware", Expr: failing(of("grpc_server_handled_total", unary), grpcErrors, "grpc_code")},
		spelled("rpc.server.call.duration", "seconds", Preset{Expr: failing(of("METRIC_count"), rpcErrors, "rpc_response_status_code")}),
		spelled("rpc.server.duration", "milliseconds", Preset{Expr: failing(of("METRIC_count"), rpcErrors, "rpc_grpc_status_code")}),
		{Source: "Vert.x", Expr: failing(of("vertx_http_server_response_time_seconds_count"), "5..", "code")},
		{Source: "kube-apiserver", Expr: failing(of("apiserver_request_total", unwatched), "5..", "code")},
		{Source: "Envoy", Rank: 1, Expr: failing(of("envoy_http_downstream_rq_xx", `envoy_http_conn_manager_prefix!="admin"`), "5", "envoy_response_code_class")},
		{Source: "Istio", Rank: 1, Expr: failing(of("istio_requests_total", inbound), "5..", "response_code")},
		{Source: "ingress-nginx", Rank: 1, Expr: failing(of("nginx_ingress_controller_requests"), "5..", "status")},
		{Source: "NGINX Plus", Rank: 1, Expr: failing(of("nginxplus_server_zone_responses"), "5xx", "code")},
		{Source: "Traefik", Rank: 1, Expr: failing(of("traefik_entrypoint_requests_total", entry), "5..", "code")},
		{Source: "HAProxy", Rank: 1, Expr: failing(of("haproxy_frontend_http_responses_total", proxied), "5xx", "code")},
		{Source: "Kong", Rank: 1, Expr: failing(of("kong_http_requests_total"), "5..", "code")},
	}
}

const apart = "HEALTH|SCRAPE|STREAM"

func latency() []Preset {
	plain := []string{none(web, apart), `code!="101"`, `status!="101"`, `status_code!="101"`}
	return []Preset{
		{Source: named, Metric: chosenDuration, Not: notServed, Known: knownDurations, Expr: mean("METRIC", plain...)},
		{Source: named, Metric: chosenMillis, Not: notServed, Known: knownMillis, Expr: thousandth(mean("METRIC", plain...))},
		spelled("http.server.request.duration", "seconds", Preset{Expr: mean("METRIC", none(otelRoutes, apart), `http_response_status_code!="101"`)}),
		spelled("http.server.duration", "milliseconds", Preset{Expr: thousandth(mean("METRIC", none(oldRoutes, apart), `http_status_code!="101"`))}),
		{Source: "Micrometer", Expr: mean("http_server_requests_seconds", none(uri, apart), `status!="101"`)},
		{Source: "go-grpc-middleware", Known: []string{"grpc_server_handling_seconds"},
			Expr: mean("METRIC", unary, none([]string{"grpc_service"}, "HEALTH"))},
		spelled("rpc.server.call.duration", "seconds", Preset{Expr: mean("METRIC", none([]string{"rpc_method"}, "HEALTH"))}),
		spelled("rpc.server.duration", "milliseconds", Preset{Expr: thousandth(mean("METRIC", none([]string{"rpc_service"}, "HEALTH")))}),
		{Source: "django-prometheus", Expr: mean("django_http_requests_latency_including_middlewares_seconds")},
		{Source: "Vert.x", Expr: mean("vertx_http_server_response_time_seconds", none([]string{"route", "path"}, apart))},
		{Source: "kube-apiserver", Expr: mean("apiserver_request_duration_seconds", unwatched)},
		{Source: "Envoy", Rank: 1, Expr: thousandth(mean("envoy_http_downstream_rq_time", `envoy_http_conn_manager_prefix!="admin"`))},
		{Source: "Istio", Rank: 1, Expr: thousandth(mean("istio_request_duration_milliseconds", inbound))},
		{Source: "ingress-nginx", Rank: 1, Expr: mean("nginx_ingress_controller_request_duration_seconds", `status!="101"`)},
		{Source: "Traefik", Rank: 1, Expr: mean("traefik_entrypoint_request_duration_seconds", entry, `code!="101"`, `protocol!~"websocket|sse"`)},
		// Over the last 1,024 requests: there is no histogram.
		{Source: "HAProxy", Rank: 1, Expr: "max" + by + "(avg_over_time(haproxy_backend_total_time_average_seconds" + window + "))"},
		{Source: "Kong", Rank: 1, Expr: thousandth(mean("kong_request_latency_ms"))},
	}
}

// thousandth turns milliseconds into seconds.
func thousandth(expr string) string { return "(" + expr + ") / 1000" }

func streams() []Preset {
	// A mean over a minute is no request that anybody waits for.
	slow := func(metric string) string {
		return "count" + by + "(rate(" + metric + "_sum" + window + ") > 60 * rate(" + metric + "_count" + window + "))"
	}
	upgraded := func(metric, code string, routes []string) string {
		return "(" + only(metric, routes, "STREAM") + " > 0 or " + rate(metric+with(code+`="101"`)) + " > 0)"
	}
	return []Preset{
		{Source: named, Metric: chosenCounter, Not: notServed, Known: knownCounters, Expr: upgraded("METRIC", "code", web)},
		{Source: named, Metric: chosenDuration, Not: notServed, Known: knownDurations, Expr: upgraded("METRIC_count", "status_code", web) + " or " + slow("METRIC")},
		spelled("http.server.request.duration", "seconds", Preset{Expr: upgraded("METRIC_count", "http_response_status_code", otelRoutes) + " or " + slow("METRIC")}),
		{Source: "Micrometer", Expr: upgraded("http_server_requests_seconds_count", "status", uri) + " or " + slow("http_server_requests_seconds")},
		{Source: "Istio", Rank: 1, Expr: rate("istio_requests_total"+with(inbound, `response_code="101"`)) + " > 0"},
		{Source: "ingress-nginx", Rank: 1, Expr: rate(`nginx_ingress_controller_requests{status="101"}`) + " > 0"},
		{Source: "Traefik", Rank: 1, Expr: rate("traefik_entrypoint_requests_total"+with(entry, `code="101"`)) + " > 0"},
	}
}
