package series

import "slices"

func memorySignals() []Signal {
	return []Signal{
		{Name: "memory", Meaning: "memory in use", Unit: "bytes",
			Hint: "client libraries export process_resident_memory_bytes by default",
			Presets: slices.Concat(
				// What the limit is compared with, so it goes first.
				pods("cAdvisor", "sum by (BY) (max by ("+perContainer+") (avg_over_time(container_memory_working_set_bytes"+with(containers)+window+")))", 0),
				[]Preset{
					{Source: "client library", Rank: 1, Expr: level("process_resident_memory_bytes")},
					spelled("process.memory.usage", "bytes", Preset{Rank: 1, Expr: level("METRIC")}),
					spelled("dotnet.process.memory.working_set", "bytes", Preset{Rank: 1, Expr: level("METRIC")}),
				})},
		{Name: "memory_limit", Meaning: "memory that may be used", Unit: "bytes", Smallest: true,
			Hint: "cAdvisor exports container_spec_memory_limit_bytes, kube-state-metrics kube_pod_container_resource_limits",
			Presets: slices.Concat(
				// 0 is no limit, and 2^63 less a page is cgroup v1's.
				limits("cAdvisor", "sum by (BY) ("+latest("container_spec_memory_limit_bytes"+with(containers))+" > 0 < 1e18)", 0),
				limits("kube-state-metrics", "sum by (BY) ("+latest(`kube_pod_container_resource_limits{resource="memory"}`)+")", 0))},
	}
}

func lifeSignals() []Signal {
	return []Signal{
		{Name: "start_time", Meaning: "when the process began", Unit: "unix seconds",
			Hint: "client libraries export process_start_time_seconds by default",
			Presets: slices.Concat(
				// The last value changes at a restart at once.
				[]Preset{{Source: "client library", Expr: last("max", "process_start_time_seconds")}},
				pods("cAdvisor", "max by (BY) (last_over_time(container_start_time_seconds"+with(containers)+window+"))", 1),
				// Only a new pod changes it. It has no container label to stand for itself by.
				pods("kube-state-metrics", "max by (BY) (last_over_time(kube_pod_start_time"+window+"))", 2)[:1])},
		{Name: "restarts", Meaning: "restarts of the container so far", Unit: "count",
			Hint:    "kube-state-metrics exports kube_pod_container_status_restarts_total",
			Presets: pods("kube-state-metrics", "sum by (BY) (last_over_time(kube_pod_container_status_restarts_total"+window+"))", 0)},
		{Name: "connections", Meaning: "open client connections", Unit: "count",
			Hint: "client libraries export process_open_fds by default", Presets: connections()},
		{Name: "goroutines", Meaning: "goroutines or threads, one of which a request in flight occupies", Unit: "count",
			Hint: "client_golang's Go collector exports go_goroutines", Presets: goroutines()},
		{Name: "up", Meaning: "share of scrapes that succeeded", Unit: "share",
			Hint:    "Prometheus adds up to what it scrapes; series that are pushed have none",
			Presets: []Preset{{Source: "Prometheus", Expr: "max" + by + "(avg_over_time(up" + window + "))"}}},
	}
}

func connections() []Preset {
	return []Preset{
		{Source: "Envoy", Expr: level("envoy_http_downstream_cx_active" + envoyServing)},
		{Source: "Tomcat", Expr: level("tomcat_connections_current_connections")},
		{Source: "Jetty", Expr: level("jetty_connections_current_connections")},
		{Source: "Reactor Netty", Expr: level("reactor_netty_http_server_connections_total")},
		spelled("kestrel.active_connections", "", Preset{Expr: level("METRIC")}),
		{Source: "Traefik", Expr: level("traefik_open_connections" + with(entry))},
		{Source: "NGINX exporter", Expr: level("nginx_connections_active")},
		{Source: "NGINX Plus", Expr: level("nginxplus_connections_active")},
		{Source: "ingress-nginx", Expr: level(`nginx_ingress_controller_nginx_process_connections{state="active"}`)},
		{Source: "HAProxy", Expr: level("haproxy_frontend_current_sessions" + with(proxied))},
		{Source: "Kong", Expr: level(`kong_nginx_connections_total{state="active"}`)},
		// Files and outgoing connections are among them.
		{Source: "client library", Rank: 1, Expr: level("process_open_fds")},
		spelled("process.open_file_descriptor.count", "", Preset{Rank: 1, Expr: level("METRIC")}),
		{Source: "Micrometer", Rank: 1, Expr: level("process_files_open_files")},
	}
}

func goroutines() []Preset {
	return []Preset{
		{Source: "client_golang", Expr: level("go_goroutines")},
		spelled("go.goroutine.count", "", Preset{Expr: level("METRIC")}),
		spelled("process.runtime.go.goroutines", "", Preset{Expr: level("METRIC")}),
		{Source: "Micrometer", Rank: 1, Expr: level("jvm_threads_live_threads")},
		spelled("jvm.thread.count", "", Preset{Rank: 1, Expr: level("METRIC")}),
		{Source: "Tomcat", Rank: 2, Expr: level("tomcat_threads_busy_threads")},
		spelled("dotnet.thread_pool.thread.count", "", Preset{Rank: 2, Expr: level("METRIC")}),
		spelled("process.thread.count", "", Preset{Rank: 3, Expr: level("METRIC")}),
	}
}
