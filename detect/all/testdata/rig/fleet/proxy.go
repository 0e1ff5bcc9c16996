package main

import (
	"fmt"
	"math"
	"strconv"
)

// proxyKind is a proxy and how it is scraped.
type proxyKind struct {
	name, job string
	port      int
	export    func(e *Page, v *Service, x *Proxy, begun float64)
}

var (
	envoy   = &proxyKind{"envoy", "envoy", 9901, exportEnvoy}
	nginx   = &proxyKind{"nginx", "ingress-nginx", 10254, exportNginx}
	traefik = &proxyKind{"traefik", "traefik", 8082, exportTraefik}
	haproxy = &proxyKind{"haproxy", "haproxy", 8405, exportHAProxy}
)

// addProxies puts n proxies in front of a service, and scrapes them.
func (s *Sim) addProxies(v *Service, kind *proxyKind, n int) {
	for i := range n {
		x := &Proxy{name: fmt.Sprintf("%s-%d", kind.name, i), stats: newStats(len(v.routes) + 1), rng: s.rng}
		x.connections = 60 + 40*s.rng.Float64()
		tg := s.exporter(kind.job, fmt.Sprintf("10.%d.250.%d:%d", s.network, 10+i, kind.port))
		begun := s.epoch - 86400*(2+5*s.rng.Float64())
		tg.export = func(e *Page) (bool, float64) {
			kind.export(e, v, x, begun)
			return true, 0.005 + 0.004*s.rng.ExpFloat64()
		}
		v.proxies = append(v.proxies, x)
	}
}

// exporter is a target that is always there.
func (s *Sim) exporter(job, instance string) *Target {
	offset := s.rng.Float64() * s.interval
	tg := &Target{job: job, instance: instance, from: math.Inf(-1), to: math.Inf(1), offset: offset, next: offset}
	s.targets = append(s.targets, tg)
	return tg
}

// refused counts a request that no process took.
func (x *Proxy) refused(route int, seconds float64) {
	x.stats.started[route]++
	x.stats.completed[route][failed]++
	x.stats.latency[route][failed].observe(seconds)
}

// ended counts the end of a request.
func (x *Proxy) ended(route int, outcome uint8, seconds float64) {
	x.stats.inFlight[route]--
	x.stats.completed[route][outcome]++
	x.stats.latency[route][outcome].observe(seconds)
}

func exportEnvoy(e *Page, v *Service, x *Proxy, begun float64) {
	n := x.stats.totals()
	active := float64(n.inFlight)
	all := n.okLatency
	all.add(&n.badLatency)
	const milliseconds = 1000
	l := []string{"envoy_http_conn_manager_prefix", "ingress_http"}
	e.counter("envoy_http_downstream_rq_total", math.Round(n.started), l...)
	e.counter("envoy_http_downstream_rq_completed", math.Round(n.ok+n.failed), l...)
	e.gauge("envoy_http_downstream_rq_active", active, l...)
	e.gauge("envoy_http_downstream_cx_active", math.Round(x.connections+active*0.9), l...)
	e.counter("envoy_http_downstream_rq_xx", math.Round(n.ok), with(l, "envoy_response_code_class", "2")...)
	e.counter("envoy_http_downstream_rq_xx", math.Round(n.failed), with(l, "envoy_response_code_class", "5")...)
	e.histogram("envoy_http_downstream_rq_time", &all, longBuckets, milliseconds, l...)
	c := []string{"envoy_cluster_name", v.job}
	e.counter("envoy_cluster_upstream_rq_total", math.Round(n.started), c...)
	e.counter("envoy_cluster_upstream_rq_completed", math.Round(n.ok+n.failed), c...)
	e.gauge("envoy_cluster_upstream_rq_active", active, c...)
	e.gauge("envoy_cluster_upstream_rq_pending_active", 0, c...)
	e.counter("envoy_cluster_upstream_rq_pending_overflow", 0, c...)
	e.counter("envoy_cluster_upstream_rq_xx", math.Round(n.ok), with(c, "envoy_response_code_class", "2")...)
	e.counter("envoy_cluster_upstream_rq_xx", math.Round(n.failed), with(c, "envoy_response_code_class", "5")...)
	e.histogram("envoy_cluster_upstream_rq_time", &all, longBuckets, milliseconds, c...)
	healthy := 0
	for _, p := range v.procs {
		if !p.unavailable(e.at - v.sim.epoch) {
			healthy++
		}
	}
	e.gauge("envoy_cluster_membership_total", float64(len(v.procs)), c...)
	e.gauge("envoy_cluster_membership_healthy", float64(healthy), c...)
	e.gauge("envoy_cluster_circuit_breakers_default_rq_open", 0, c...)
	e.gauge("envoy_server_live", 1)
	e.gauge("envoy_server_uptime", math.Floor(e.at-begun))
	e.gauge("envoy_server_memory_allocated", 4.1e7+active*3e4)
	e.gauge("envoy_server_concurrency", 4)
}

// exportNginx is the ingress controller's. Its connections are not requests:
// most are idle, and writing has those that are being answered.
func exportNginx(e *Page, v *Service, x *Proxy, begun float64) {
	n := x.stats.totals()
	active := float64(n.inFlight)
	self := []string{"controller_class", "k8s.io/ingress-nginx", "controller_namespace", "ingress-nginx", "controller_pod", x.name}
	const process = "nginx_ingress_controller_nginx_process_"
	writing := math.Round(active*(0.9+0.2*x.rng.Float64()) + 1)
	waiting := math.Round(x.connections * (0.9 + 0.2*x.rng.Float64()))
	e.gauge(process+"connections", writing+waiting, with(self, "state", "active")...)
	e.gauge(process+"connections", 0, with(self, "state", "reading")...)
	e.gauge(process+"connections", writing, with(self, "state", "writing")...)
	e.gauge(process+"connections", waiting, with(self, "state", "waiting")...)
	e.counter(process+"connections_total", math.Round(n.started*0.2), with(self, "state", "accepted")...)
	e.counter(process+"connections_total", math.Round(n.started*0.2), with(self, "state", "handled")...)
	e.counter(process+"cpu_seconds_total", x.cpu, self...)
	e.gauge(process+"resident_memory_bytes", 1.4e8+active*2e4, self...)
	e.counter(process+"requests_total", math.Round(n.started), self...)
	ingress := with(self, "exported_service", v.job, "exported_namespace", v.namespace, "ingress", v.job, "host", v.job+".example.com", "path", "/", "method", "GET")
	answered := func(status string, h *Histogram) {
		l := with(ingress, "status", status)
		e.counter("nginx_ingress_controller_requests", math.Round(h.count), l...)
		e.histogram("nginx_ingress_controller_request_duration_seconds", h, promBuckets, 1, l...)
	}
	answered("200", &n.okLatency)
	if n.failed > 0 {
		answered("503", &n.badLatency)
	}
	e.gauge("process_start_time_seconds", begun)
	e.counter("process_cpu_seconds_total", 400+(e.at-begun)*0.012)
}

func exportTraefik(e *Page, v *Service, x *Proxy, begun float64) {
	n := x.stats.totals()
	active := float64(n.inFlight)
	e.gauge("traefik_open_connections", math.Round(x.connections+active*0.95), "entrypoint", "websecure", "protocol", "TCP")
	e.gauge("traefik_open_connections", 1, "entrypoint", "metrics", "protocol", "TCP")
	answered := func(code string, h *Histogram) {
		if h.count == 0 {
			return
		}
		l := []string{"code", code, "method", "GET", "protocol", "http"}
		service, entry := with(l, "service", v.job+"@kubernetes"), with(l, "entrypoint", "websecure")
		e.counter("traefik_service_requests_total", math.Round(h.count), service...)
		e.histogram("traefik_service_request_duration_seconds", h, fewBuckets, 1, service...)
		e.counter("traefik_entrypoint_requests_total", math.Round(h.count), entry...)
		e.histogram("traefik_entrypoint_request_duration_seconds", h, fewBuckets, 1, entry...)
	}
	answered("200", &n.okLatency)
	answered("502", &n.badLatency)
	t := e.at - v.sim.epoch
	for _, pod := range v.pods {
		if pod.gone > t && pod.proc != nil && !pod.proc.unavailable(t) {
			e.gauge("traefik_service_server_up", 1, "service", v.job+"@kubernetes", "url", "http://"+pod.address)
		}
	}
	e.counter("process_cpu_seconds_total", hundredths(x.cpu+(e.at-begun)*0.002))
	e.gauge("process_resident_memory_bytes", 9e7+active*2.5e4)
	e.gauge("process_start_time_seconds", begun)
	e.gauge("process_open_fds", math.Round(20+x.connections+2*active))
	e.gauge("go_goroutines", math.Round(90+4*active))
	e.gauge("go_info", 1, "version", "go1.26.2")
	e.gauge("go_sched_gomaxprocs_threads", 4)
}

// exportHAProxy is the built-in exporter's. Latencies are averages of the last
// 1,024 responses.
func exportHAProxy(e *Page, v *Service, x *Proxy, begun float64) {
	n := x.stats.totals()
	active := float64(n.inFlight)
	x.follow(n.ok+n.failed, n.okLatency.sum+n.badLatency.sum)
	backend, frontend := []string{"proxy", v.job}, []string{"proxy", "fe_https"}
	e.gauge("haproxy_backend_current_sessions", active, backend...)
	e.gauge("haproxy_backend_current_queue", 0, backend...)
	e.gauge("haproxy_backend_limit_sessions", 4000, backend...)
	e.gauge("haproxy_frontend_current_sessions", math.Round(x.connections+active), frontend...)
	e.gauge("haproxy_frontend_limit_sessions", 20000, frontend...)
	e.counter("haproxy_frontend_http_requests_total", math.Round(n.started), frontend...)
	e.gauge("haproxy_backend_response_time_average_seconds", x.average, backend...)
	e.gauge("haproxy_backend_total_time_average_seconds", x.average+0.001, backend...)
	e.gauge("haproxy_backend_queue_time_average_seconds", 0, backend...)
	e.counter("haproxy_backend_http_requests_total", math.Round(n.started), backend...)
	e.counter("haproxy_backend_http_responses_total", math.Round(n.ok), with(backend, "code", "2xx")...)
	e.counter("haproxy_backend_http_responses_total", math.Round(n.failed), with(backend, "code", "5xx")...)
	e.counter("haproxy_backend_sessions_total", math.Round(n.started), backend...)
	t := e.at - v.sim.epoch
	for _, pod := range v.pods {
		p := pod.proc
		if pod.gone < t || p == nil {
			continue
		}
		up := 1.0
		if p.unavailable(t) {
			up = 0
		}
		proxies := float64(len(v.proxies))
		server := with(backend, "server", "srv"+strconv.Itoa(pod.index))
		e.gauge("haproxy_server_current_sessions", math.Round(float64(p.inFlight)/proxies), server...)
		e.gauge("haproxy_server_limit_sessions", 500, server...)
		e.gauge("haproxy_server_check_duration_seconds", math.Round(math.Min(v.healthTimeout, p.lastCheck+0.0004)*1000)/1000, server...)
		e.counter("haproxy_server_check_failures_total", pod.livenessN[failed], server...)
		e.counter("haproxy_server_sessions_total", math.Round(p.stats.started[0]/proxies), server...)
		e.gauge("haproxy_server_status", up, with(server, "state", "UP")...)
	}
	e.gauge("haproxy_process_start_time_seconds", math.Floor(begun))
	e.gauge("haproxy_process_idle_time_percent", 97-2*x.rng.Float64())
	e.gauge("haproxy_process_current_connections", math.Round(x.connections+active))
}

// follow moves the average of the last responses on to so many responses that
// took so many seconds in all.
func (x *Proxy) follow(count, seconds float64) {
	if count > x.averagedN {
		mean := (seconds - x.averagedSum) / (count - x.averagedN)
		share := math.Min(1, (count-x.averagedN)/1024)
		if x.averagedN == 0 {
			share = 1
		}
		x.average += (mean - x.average) * share
	}
	x.averagedN, x.averagedSum = count, seconds
}
