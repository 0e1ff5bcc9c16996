package main

import (
	"fmt"
	"math"
	"strconv"
)

// nodes of the cluster, each with a kubelet.
const nodes = 3

func nodeName(i int) string { return fmt.Sprintf("node-%c", 'a'+i) }

func (pod *Pod) uid() string { return fmt.Sprintf("5f1c-%06d", pod.index*31+7) }

// kubernetes is what is scraped of a cluster.
type kubernetes struct{ cadvisor, stateMetrics, probes bool }

// addKube scrapes the cluster that a service runs in.
func (s *Sim) addKube(v *Service, k kubernetes) {
	for i := range nodes {
		kubelet := func(path string, export func(e *Page), seconds, more float64) {
			tg := s.exporter("kubelet", fmt.Sprintf("10.%d.1.%d:10250", s.network, i+11))
			tg.extra = []string{"metrics_path", path, "node", nodeName(i)}
			tg.export = func(e *Page) (bool, float64) {
				export(e)
				return true, seconds + more*s.rng.Float64()
			}
		}
		if k.cadvisor {
			kubelet("/metrics/cadvisor", func(e *Page) { s.exportCAdvisor(e, v, i) }, 0.06, 0.05)
		}
		if k.probes {
			kubelet("/metrics/probes", func(e *Page) { s.exportProbes(e, v, i) }, 0.01, 0.01)
		}
	}
	if k.stateMetrics {
		tg := s.exporter("kube-state-metrics", fmt.Sprintf("10.%d.2.9:8080", s.network))
		tg.export = func(e *Page) (bool, float64) {
			s.exportState(e, v)
			return true, 0.02 + 0.01*s.rng.Float64()
		}
	}
}

// exportCAdvisor writes containers, and pods as a whole, which have no label of
// a container and would double a sum.
func (s *Sim) exportCAdvisor(e *Page, v *Service, node int) {
	t := e.at - s.epoch
	for _, pod := range v.pods {
		p := pod.proc
		if pod.node != node || pod.gone < t || p == nil || p.dead {
			continue
		}
		id := fmt.Sprintf("/kubepods/burstable/pod%08x", pod.index*7919+1000003)
		whole := []string{"id", id, "namespace", v.namespace, "pod", pod.name}
		container := []string{
			"container", v.job, "id", id + "/" + strconv.FormatInt(int64(pod.restarts)*77+int64(pod.index), 16),
			"image", "registry.example.com/" + v.job + ":3.1", "name", v.job, "namespace", v.namespace, "pod", pod.name,
		}
		exportCgroup(e, p, t, container, 1)
		e.counter("container_oom_events_total", pod.oomKills, container...)
		e.gauge("container_sockets", float64(20+p.inFlight), container...)
		e.gauge("container_threads", float64(16+min(p.inFlight, 200)), container...)
		exportCgroup(e, p, t, whole, 1.002) // the pause container too
		pause := []string{"id", id + "/pause", "image", "registry.k8s.io/pause:3.10", "name", "pause", "container", "POD", "namespace", v.namespace, "pod", pod.name}
		e.counter("container_cpu_usage_seconds_total", 0.04, with(pause, "cpu", "total")...)
		e.gauge("container_memory_working_set_bytes", 491520, pause...)
	}
}

func exportCgroup(e *Page, p *Process, t float64, l []string, factor float64) {
	v, pod := p.svc, p.pod
	e.counter("container_cpu_usage_seconds_total", p.cpuTotal*factor, with(l, "cpu", "total")...)
	e.gauge("container_memory_working_set_bytes", pages(p.memory*factor), l...)
	e.gauge("container_memory_rss", pages(p.memory*0.93*factor), l...)
	if v.limitCores > 0 {
		const period = 100_000 // µs
		e.counter("container_cpu_cfs_periods_total", pod.periods, l...)
		e.counter("container_cpu_cfs_throttled_periods_total", pod.throttled, l...)
		e.counter("container_cpu_cfs_throttled_seconds_total", pod.throttledSeconds, l...)
		e.gauge("container_spec_cpu_quota", v.quota*period, l...)
		e.gauge("container_spec_cpu_period", period, l...)
	}
	e.gauge("container_spec_memory_limit_bytes", v.memoryLimit, l...)
	e.gauge("container_start_time_seconds", math.Floor(p.startTime(t)), l...)
}

// exportProbes writes the kubelet's probes. Its histogram has successes alone.
func (s *Sim) exportProbes(e *Page, v *Service, node int) {
	for _, pod := range v.pods {
		if pod.node != node || pod.gone < e.at-s.epoch {
			continue
		}
		probe := func(kind string, h *Histogram, n [outcomes]float64) {
			l := []string{"probe_type", kind, "container", v.job, "pod", pod.name, "namespace", v.namespace}
			if h.count > 0 {
				e.histogram("prober_probe_duration_seconds", h, promBuckets, 1, l...)
			}
			withUID := with(l, "pod_uid", pod.uid())
			e.counter("prober_probe_total", n[ok], with(withUID, "result", "successful")...)
			if n[failed] > 0 {
				e.counter("prober_probe_total", n[failed], with(withUID, "result", "failed")...)
			}
		}
		probe("Liveness", &pod.liveness, pod.livenessN)
		probe("Readiness", &pod.readiness, pod.readinessN)
	}
}

// exportState writes kube-state-metrics.
func (s *Sim) exportState(e *Page, v *Service) {
	t := e.at - s.epoch
	available := 0.0
	for _, pod := range v.pods {
		if pod.gone < t {
			continue
		}
		l := []string{"namespace", v.namespace, "pod", pod.name, "uid", pod.uid()}
		container := with(l, "container", v.job)
		ready := 0.0
		if pod.proc != nil && !pod.proc.unavailable(t) {
			ready = 1
		}
		available += ready
		e.gauge("kube_pod_info", 1, with(l, "node", nodeName(pod.node), "created_by_kind", "ReplicaSet", "created_by_name", v.job+"-"+pod.replicaSet)...)
		e.gauge("kube_pod_owner", 1, with(l, "owner_kind", "ReplicaSet", "owner_name", v.job+"-"+pod.replicaSet, "owner_is_controller", "true")...)
		if v.limitCores > 0 {
			e.gauge("kube_pod_container_resource_limits", v.limitCores, with(container, "resource", "cpu", "unit", "core")...)
		}
		if v.memoryLimit > 0 {
			e.gauge("kube_pod_container_resource_limits", v.memoryLimit, with(container, "resource", "memory", "unit", "byte")...)
		}
		e.counter("kube_pod_container_status_restarts_total", pod.restarts, container...)
		if pod.lastReason != "" && pod.restarts > 0 {
			e.gauge("kube_pod_container_status_last_terminated_reason", 1, with(container, "reason", pod.lastReason)...)
		}
		e.gauge("kube_pod_status_ready", ready, with(l, "condition", "true")...)
		e.gauge("kube_pod_status_ready", 1-ready, with(l, "condition", "false")...)
		e.gauge("kube_pod_created", math.Floor(s.epoch+pod.created), l...)
		e.gauge("kube_pod_start_time", math.Floor(s.epoch+pod.created)+1, l...)
	}
	deployment := []string{"deployment", v.job, "namespace", v.namespace}
	e.gauge("kube_deployment_spec_replicas", float64(v.instances), deployment...)
	e.gauge("kube_deployment_status_replicas_available", available, deployment...)
}

// addBlackbox probes the health check of every task from outside.
func (s *Sim) addBlackbox(v *Service) {
	for i := range v.instances {
		tg := s.exporter("blackbox", fmt.Sprintf("http://%s-%d.%s.svc:8080/healthz", v.job, i, v.job))
		tg.export = func(e *Page) (bool, float64) {
			// The exporter gives up half a second before Prometheus would.
			timeout := math.Max(v.healthTimeout, 5) - 0.5
			l, success := timeout+1, 1.0
			if i < len(v.pods) && v.pods[i].proc != nil && !v.pods[i].proc.dead {
				l = v.pods[i].proc.checkLatency(endOfSecond(e.at-s.epoch)) + 0.0025
			}
			if l > timeout {
				l, success = timeout+0.0005, 0
			}
			e.gauge("probe_success", success)
			e.gauge("probe_duration_seconds", l)
			e.gauge("probe_timeout_seconds", timeout)
			inPhase := func(phase string, seconds float64) {
				e.gauge("probe_http_duration_seconds", seconds, "phase", phase)
			}
			inPhase("connect", 0.0004)
			inPhase("processing", math.Max(0, l-0.001))
			inPhase("resolve", 0.0003)
			inPhase("tls", 0)
			inPhase("transfer", 0.0001)
			e.gauge("probe_http_status_code", 200*success)
			return true, l + 0.003
		}
	}
}
