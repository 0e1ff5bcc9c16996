package main

import "fmt"

// behind is a service that exports nothing itself: what there is to see is
// its proxy's, and mostly its cluster's.
func behind(kind *proxyKind, fault func(c *Case, about string, rate float64)) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		v.podLabels = true
		rate := c.perTask()
		v.maxInFlight = c.whole(300, 900)
		n := c.whole(2, 3)
		c.proxies = kind
		c.sim.addProxies(v, kind, n)
		v.limitCores = v.quota
		v.memoryLimit = v.memoryBase * 3
		switch kind {
		case envoy:
			c.dialectTitle = "Envoy"
			c.addKube(kubernetes{cadvisor: true, stateMetrics: true, probes: true})
		case nginx:
			c.dialectTitle = "ingress-nginx"
			c.addKube(kubernetes{cadvisor: true, stateMetrics: true})
		case traefik:
			c.dialectTitle = "Traefik"
			c.addKube(kubernetes{cadvisor: true})
		case haproxy:
			c.dialectTitle = "HAProxy's own exporter"
		}
		fault(c, fmt.Sprintf("%d tasks at %.0f requests/s each behind %d proxies", v.instances, rate, n), rate)
	}
}

func proxySteady(c *Case, about string, _ float64) {
	c.story = about + "."
	c.silent("healthy, steady", "proxy connections (idle keep-alives) are not requests; nothing joins a proxy's requests to the pods' CPU but names")
}

func proxyLock(c *Case, about string, rate float64) {
	v := c.svc
	from, to := c.faultFor(c.between(15, 24))
	v.lockHold = everyProc(during(from, to, 20, 0.35/rate, c.between(1.1, 1.3)/rate))
	v.lockCPU = 0.2
	c.story = about + "; a lock in the tasks saturates. The tasks export nothing themselves."
	c.why = "lock contention seen from the proxy only"
	c.traps = "in flight is the proxy's, CPU the pods': in-flight per CPU may be \"could not look\""
	const sees = "hundreds in flight at the proxy"
	if c.proxies == envoy {
		c.wantsUnlessBlind("inflightcpu", sees, "the CPU is that of other targets")
	} else {
		c.allows(sees, "inflightcpu")
	}
	c.allows(sameQueue, "hungrequests")
	c.allows("to the proxy the tasks are a dependency that became slow", "downstream")
	c.verdict(none, "downstream")
}

func proxySpiral(c *Case, about string, rate float64) {
	v := c.svc
	from, to := c.faultFor(c.between(15, 22))
	v.lockHold = everyProc(during(from, to, 10, 0.45/rate, c.between(1.4, 1.6)/rate))
	v.healthLock = true
	v.healthTimeout = 2
	v.healthFails = 3
	v.restartDelay = 45
	v.newAddress = c.even()
	c.story = about + "; a lock shared with the health handler saturates, liveness kills one task after another."
	c.why = "a replacement spiral seen from kube-state-metrics, the kubelet and a proxy"
	c.traps = "no process_start_time of the tasks: restarts and pods tell"
	c.wants("replacement", "container after container is restarted within minutes")
	c.allows("checks take the lock", "healthcheck")
	c.allows(sameQueue, "inflightcpu", "hungrequests", "memorygrowth")
	c.allows("to the proxy the tasks are a dependency that became slow", "downstream")
	c.verdict(none, "downstream")
}

func proxyHerd(c *Case, _ string, _ float64) {
	v := c.svc
	rate := c.between(9, 14)
	cpu := 0.07 * v.quota / rate
	c.setCPU(cpu, cpu)
	from, to := c.faultFor(c.between(6, 9))
	factor := c.between(4.5, 6)
	all := rate * float64(v.instances)
	v.rate = during(from, to, 10, all, all*factor)
	c.story = fmt.Sprintf("%d tasks at %.0f requests/s each behind %d proxies; arrivals jump %.1f-fold and the fleet takes it.", v.instances, rate, len(v.proxies), factor)
	c.why = "a herd seen at the proxy"
	c.traps = "connections and in flight grow with traffic"
	c.wants("herd", fmt.Sprintf("%.1f times the usual arrivals within seconds", factor))
	c.verdict(none)
}

func proxyCPU(c *Case, about string, rate float64) {
	v := c.svc
	cpu := 0.4 * v.quota / rate
	c.setCPU(cpu, cpu)
	from, to := c.faultFor(c.between(14, 24))
	v.cpuFactor = everyProc(during(from, to, 15, 1, c.between(2.9, 3.3)))
	v.maxInFlight = 250
	c.story = about + ", at 40 % CPU; requests become three times as expensive."
	c.why = "CPU saturation seen from cAdvisor"
	c.traps = "queues at the proxy, CPU at the pods"
	c.wants("cpubound", "all the CPU that the pods may use")
	c.allows("checks queue for the CPU", "healthcheck")
	c.allows("the queue as the proxy sees it", "hungrequests", "downstream")
	c.verdict("cpubound", none)
}

func proxyHealth(c *Case, about string, _ float64) {
	v := c.svc
	from, to := c.faultFor(c.between(14, 24))
	v.healthTimeout = 2
	v.healthExtra = during(from, to, 60, 0, c.between(1.1, 1.5))
	c.story = about + "; the health handler takes over a second (timeout 2 s); requests are fine."
	c.why = "slow health checks alone, HAProxy's view"
	c.traps = "the last check only, a gauge"
	c.wants("healthcheck", "checks take most of their timeout")
	c.verdict(none)
}
