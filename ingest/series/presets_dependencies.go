package series

// Names that users choose for calls that go out.
const (
	outgoing       = `(?:[a-zA-Z0-9]+_){0,2}(?:http_?)?client_`
	clientGauge    = outgoing + `(?:http_)?(?:requests?_in_?flight|in_?flight_requests?|requests?_in_?progress)`
	clientDuration = outgoing + `(?:http_)?requests?_(?:duration|latency)_seconds`
)

var (
	knownClientGauges    = []string{"client_in_flight_requests", "http_client_requests_in_flight", "httpclient_requests_in_progress"}
	knownClientDurations = []string{"http_client_request_duration_seconds", "client_request_duration_seconds", "httpclient_request_duration_seconds", "rest_client_request_duration_seconds"}
)

// Parts of what a service waits for. Calls of different kinds add up: a request
// waits for one at a time, and many requests for each.
const (
	byHTTP = "http"
	byGRPC = "grpc"
	bySQL  = "database"
)

// elsewhere are Envoy's clusters but for the service behind it.
const elsewhere = `envoy_cluster_name!~"inbound.*|xds-grpc|prometheus_stats|agent|zipkin"`

func dependencySignals() []Signal {
	return []Signal{
		{Name: "dependency_wait", Meaning: "waiting for outgoing calls", Unit: "requests",
			Hint: "client_golang: wrap the transport in promhttp.InstrumentRoundTripperInFlight and InstrumentRoundTripperDuration", Presets: dependencyWait()},
		{Name: "dependency_latency", Meaning: "mean duration of finished outgoing calls", Unit: "seconds",
			Hint: "client_golang: wrap the transport in promhttp.InstrumentRoundTripperDuration", Presets: dependencyLatency()},
	}
}

// timer is a histogram of outgoing calls.
type timer struct {
	Preset
	metric   string
	matchers string
	scale    string // "" for seconds
}

func timers() []timer {
	const queries = `method=~"sql\\.(conn|stmt)\\.(query|exec)"` // rows and connections span the same time
	return []timer{
		{Preset: Preset{Part: byHTTP, Source: named, Metric: clientDuration, Known: knownClientDurations}, metric: "METRIC"},
		{Preset: spelled("http.client.request.duration", "seconds", Preset{Part: byHTTP}), metric: "METRIC"},
		{Preset: spelled("http.client.duration", "milliseconds", Preset{Part: byHTTP}), metric: "METRIC", scale: " / 1000"},
		{Preset: Preset{Part: byHTTP, Source: "Micrometer"}, metric: "http_client_requests_seconds"},
		{Preset: Preset{Part: byHTTP, Source: "Reactor Netty"}, metric: "reactor_netty_http_client_response_time_seconds"},
		{Preset: Preset{Part: byHTTP, Source: "Istio", Rank: 1}, metric: "istio_request_duration_milliseconds", matchers: `reporter="source"`, scale: " / 1000"},
		{Preset: Preset{Part: byHTTP, Source: "Kong", Rank: 1}, metric: "kong_upstream_latency_ms", scale: " / 1000"},
		{Preset: Preset{Part: byGRPC, Source: "go-grpc-middleware", Known: []string{"grpc_client_handling_seconds"}}, metric: "METRIC", matchers: unary},
		{Preset: spelled("rpc.client.call.duration", "seconds", Preset{Part: byGRPC}), metric: "METRIC"},
		{Preset: spelled("rpc.client.duration", "milliseconds", Preset{Part: byGRPC}), metric: "METRIC", scale: " / 1000"},
		{Preset: spelled("db.client.operation.duration", "seconds", Preset{Part: bySQL}), metric: "METRIC"},
		{Preset: spelled("db.sql.latency", "milliseconds", Preset{Part: bySQL, Source: "XSAM/otelsql"}), metric: "METRIC", matchers: queries, scale: " / 1000"},
	}
}

// A gauge counts calls that have not come back, too; a timer what has. Of one
// part the larger counts: a hung dependency's timer stands still.
func dependencyWait() []Preset {
	micrometer := func(metric string) Preset {
		return Preset{Part: byHTTP, Source: "Micrometer", Expr: level(metric)}
	}
	calls := "(sum" + by + "(grpc_client_started_total{" + unary + "}) - (sum" + by + "(grpc_client_handled_total{" + unary + "})" +
		" or 0 * sum" + by + "(grpc_client_started_total{" + unary + "})))"
	out := []Preset{
		{Part: byHTTP, Source: named, Metric: clientGauge, Known: knownClientGauges, Expr: level("METRIC")},
		spelled("http.client.active_requests", "", Preset{Part: byHTTP, Expr: level("METRIC")}),
		micrometer("http_client_requests_active_seconds_count"),
		micrometer("http_client_requests_active_seconds_gcount"),
		micrometer("http_client_requests_active_seconds_active_count"),
		{Part: byGRPC, Source: "go-grpc-middleware", Expr: "avg_over_time(" + calls + "[{{4x,1m}}:{{1x}}])"},
		// A job that is a proxy and nothing else waits for its upstreams by its
		// nature; where the service exports Envoy's series beside its own, they are its calls.
		{Part: byHTTP, Source: "Envoy", Rank: 1, Expr: level("envoy_cluster_upstream_rq_active"+with(elsewhere)) +
			" and on (job, instance) (process_cpu_seconds_total or process_cpu_usage)"},
	}
	for _, t := range timers() {
		t.Expr = rate(t.metric+"_sum"+with(t.matchers)) + t.scale
		out = append(out, t.Preset)
	}
	return out
}

func dependencyLatency() []Preset {
	var out []Preset
	for _, t := range timers() {
		t.Part = "" // the slowest dependency, not the sum of all
		t.Expr = mean(t.metric, t.matchers) + t.scale
		if t.scale != "" {
			t.Expr = "(" + mean(t.metric, t.matchers) + ")" + t.scale
		}
		out = append(out, t.Preset)
	}
	return out
}
