package series

import "slices"

const (
	// cAdvisor's series of a pod's sandbox and of the pod as a whole would count
	// every container twice.
	containers = `container!="",container!="POD"`
)

func cpuSignals() []Signal {
	return []Signal{
		{Name: "cpu", Meaning: "cores busy", Unit: "cores",
			Hint: "client libraries export process_cpu_seconds_total by default; OpenTelemetry: process.cpu.time", Presets: cpu()},
		{Name: "cpu_limit", Meaning: "cores that may be used, the smallest of the known limits", Unit: "cores", Smallest: true,
			Hint: "client_golang's Go collector exports go_sched_gomaxprocs_threads; kube-state-metrics: kube_pod_container_resource_limits", Presets: cpuLimit()},
		{Name: "cpu_wait", Meaning: "runnable, queueing for CPU", Unit: "requests",
			Hint: `client_golang: collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsScheduler))`, Presets: cpuWait()},
		{Name: "cpu_throttled", Meaning: "share of scheduler periods in which a CPU quota stopped the container", Unit: "share",
			Hint: "cAdvisor exports it for containers with a CPU limit",
			Presets: limits("cAdvisor", "sum by (BY) (rate(container_cpu_cfs_throttled_periods_total"+with(containers)+window+"))"+
				" / (sum by (BY) (rate(container_cpu_cfs_periods_total"+with(containers)+window+")) > 0)", 0)},
		{Name: "lock_wait", Meaning: "waiting for a lock", Unit: "requests",
			Hint:    `client_golang: collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/sync/.*")}))`,
			Presets: lockWait()},
	}
}

func cpu() []Preset {
	return slices.Concat([]Preset{
		{Source: "client library", Expr: rate("process_cpu_seconds_total")},
		spelled("process.cpu.time", "seconds_total", Preset{Expr: rate("METRIC")}),
		spelled("process.runtime.cpython.cpu_time", "seconds_total", Preset{Expr: rate("METRIC")}),
		spelled("jvm.cpu.time", "seconds_total", Preset{Expr: rate("METRIC")}),
		spelled("dotnet.process.cpu.time", "seconds_total", Preset{Expr: rate("METRIC")}),
		{Source: "Micrometer", Expr: rate("process_cpu_time_ns_total") + " / 1e9"},
		// A share of all the machine's cores. It is -1 where the JVM cannot tell.
		{Source: "Micrometer", Expr: "(" + level("process_cpu_usage") + " >= 0) * " + last("max", "system_cpu_count")},
		{Source: "ingress-nginx", Expr: rate("nginx_ingress_controller_nginx_process_cpu_seconds_total")},
	}, pods("cAdvisor", "sum by (BY) (rate(container_cpu_usage_seconds_total"+with(containers)+window+"))", 1))
}

func cpuLimit() []Preset {
	return slices.Concat([]Preset{
		{Source: "client_golang", Expr: last("max", "go_sched_gomaxprocs_threads")},
		{Source: "Micrometer", Expr: last("max", "system_cpu_count")},
		spelled("jvm.cpu.count", "", Preset{Expr: last("max", "METRIC")}),
		spelled("dotnet.process.cpu.count", "", Preset{Expr: last("max", "METRIC")}),
		spelled("go.processor.limit", "", Preset{Expr: last("max", "METRIC")}),
	},
		cpuLimits("kube-state-metrics", "sum by (BY) ("+latest(`kube_pod_container_resource_limits{resource="cpu"}`)+")", 0),
		// A quota of -1 is none.
		cpuLimits("cAdvisor", "sum by (BY) (max by ("+perContainer+") ((last_over_time(container_spec_cpu_quota"+with(containers)+window+") > 0)"+
			" / last_over_time(container_spec_cpu_period"+with(containers)+window+")))", 0))
}

func cpuWait() []Preset {
	return slices.Concat([]Preset{
		{Source: "Go runtime", Known: []string{"go_sched_latencies_seconds"}, Expr: rate("METRIC_sum")},
		spelled("go.schedule.duration", "seconds", Preset{Expr: rate("METRIC_sum")}),
	}, pods("cAdvisor", "sum by (BY) (rate(container_pressure_cpu_waiting_seconds_total"+with(containers)+window+"))", 1))
}

func lockWait() []Preset {
	return []Preset{
		{Source: "client_golang", Expr: rate("go_sync_mutex_wait_total_seconds_total")},
		{Source: "VictoriaMetrics/metrics", Expr: rate("go_mutex_wait_seconds_total")},
		// Threads that wait for a monitor now: a level is the number waiting.
		{Source: "Micrometer", Expr: level(`jvm_threads_states_threads{state="blocked"}`)},
		{Source: "client_java", Expr: level(`jvm_threads_state{state="BLOCKED"}`)},
		spelled("jvm.thread.count", "", Preset{Expr: level(`METRIC{jvm_thread_state="blocked"}`)}),
	}
}
