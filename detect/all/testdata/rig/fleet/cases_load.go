package main

import (
	"fmt"
	"math"
)

// Arrivals, CPU, health checks and memory.

// herd jumps to a multiple of the usual arrivals, and the fleet takes it.
func herd(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang && c.even()
	rate := c.between(10, 18)
	cpu := c.between(0.06, 0.09) * v.quota / rate
	c.setCPU(cpu, cpu*1.2)
	from, to := c.faultFor(c.between(5, 9))
	factor := c.between(4.5, 6)
	all := rate * float64(v.instances)
	surge := during(from, to, 12, all, all*factor)
	v.rate = surge
	if c.even() {
		dip := c.between(0.35, 0.6)
		v.rate = func(t float64) float64 {
			if t > from-900 && t < from {
				return surge(t) * dip
			}
			return surge(t)
		}
		c.story = fmt.Sprintf("For a quarter of an hour clients wait for an asset (traffic at %.0f %%), then all come at once. ", dip*100)
	}
	c.story += fmt.Sprintf("%d tasks at %.0f requests/s each; arrivals jump to %.1f times as many within 12 s and stay for %.0f minutes. CPU goes from about 8 to %.0f %%; latency stays.", v.instances, rate, factor, (to-from)/60, 8*factor)
	c.why = "a herd that a healthy fleet absorbs: a trigger, no cause"
	c.traps = "in flight grows as traffic does, CPU with it: no contention"
	c.wants("herd", fmt.Sprintf("%.1f times the usual arrivals within seconds", factor))
	c.verdict(none)
}

// cores is what bounds the CPU of a service, and who says so.
type cores int

const (
	ownCores  cores = iota // GOMAXPROCS or what the runtime saw
	kubeLimit              // kube-state-metrics
	throttled              // a quota far below GOMAXPROCS
)

// cpu makes requests so expensive that the CPU does not do.
func cpu(bound cores) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		v.mutexMetric = c.dialect == golang && c.even()
		v.gomaxprocs, v.quota = 2, 2
		rate := c.perTask()
		each := c.between(0.35, 0.45) * v.quota / rate
		c.setCPU(each*0.9, each*1.3)
		switch bound {
		case throttled:
			v.gomaxprocs, v.quota = 16, 1.5
			c.setCPU(each*0.9*0.75, each*1.3*0.75)
		case kubeLimit:
			v.gomaxprocs = 8
		}
		if c.dialect == nodeJS {
			v.gomaxprocs, v.quota = 1, 1
			c.setCPU(each*0.9*0.5, each*1.3*0.5)
		}
		if bound != ownCores {
			v.limitCores = v.quota
			v.podLabels = true
			c.addKube(kubernetes{cadvisor: true, stateMetrics: true})
		}
		from, to := c.faultFor(c.between(15, 28))
		usual := rate * (0.75*v.routes[0].cpu + 0.25*v.routes[1].cpu) / v.quota
		factor := c.between(1.12, 1.35) / usual
		v.cpuFactor = everyProc(during(from, to, 20, 1, factor))
		v.maxInFlight = c.whole(150, 350)
		c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, at %.0f %% of %.1f cores (GOMAXPROCS or its like: %d). A change makes each request %.1f times as expensive: demand is %.2f of capacity. At most %d requests per task are admitted.", v.instances, rate, usual*100, v.quota, v.gomaxprocs, factor, factor*usual, v.maxInFlight)
		c.why = "busy, not blocked: CPU at its limit"
		c.traps = "in flight rises as in contention"
		if bound == throttled {
			c.traps += "; 1.5 of GOMAXPROCS 16 looks idle, the quota is the limit and the throttled periods say so"
		}
		c.wants("cpubound", "all the CPU that it may use")
		c.allows("checks queue for the CPU", "healthcheck")
		c.verdict("cpubound")
		if c.dialect == nodeJS {
			c.verdict("cpubound", none)
			c.traps += "; no in-flight gauge: the share of requests cannot be weighed"
		}
	}
}

// slowChecks makes health checks slow, and nothing else.
func (c *Case) slowChecks(from, to, bad float64) {
	v := c.svc
	v.healthExtra = during(from, to, 90, 0, bad)
	c.story = fmt.Sprintf("%d tasks. The health handler asks a directory service that became slow: checks go from 1 ms to about %.1f s. Requests do not notice.", v.instances, bad)
	c.why = "slow health checks alone"
	c.wants("healthcheck", "checks take most of their timeout")
	c.verdict(none)
}

// checked is a service whose health checks will be slow.
func (c *Case) checked() (from, to float64) {
	v := c.service()
	from, to = c.faultFor(c.between(14, 24))
	v.mutexMetric = c.dialect == golang && c.even()
	return from, to
}

func healthProbes(c *Case) {
	from, to := c.checked()
	v := c.svc
	bad := c.between(0.75, 1.0)
	v.healthTimeout = 1
	v.podLabels = true
	v.ownHealthPort = true
	v.memoryLimit = v.memoryBase * 3
	c.addKube(kubernetes{cadvisor: true, stateMetrics: true, probes: true})
	c.traps = "the kubelet's histogram sees successes only and ends at the timeout of 1 s; its failed counter carries on; nobody is killed"
	c.slowChecks(from, to, bad)
}

func healthBlackbox(c *Case) {
	from, to := c.checked()
	v := c.svc
	bad := c.between(2.2, 3.4)
	v.healthTimeout = 1
	v.ownHealthPort = true
	c.addBlackbox()
	c.traps = "instance of a probe is its target URL; probe_duration is capped at the timeout of 4.5 s"
	c.slowChecks(from, to, bad)
}

func healthRoute(c *Case) {
	from, to := c.checked()
	c.svc.healthTimeout = 2
	c.traps = "few checks (one in ten seconds per task) against many requests in the same histogram"
	c.slowChecks(from, to, c.between(0.4, 0.9))
}

// addBlackbox has the blackbox exporter probe every task.
func (c *Case) addBlackbox() {
	c.blackbox = true
	c.dialectTitle += " + blackbox_exporter"
	c.sim.addBlackbox(c.svc)
}

// limited is a service in Kubernetes.
func (c *Case) limited() (v *Service, from, to float64) {
	v = c.service()
	v.podLabels = true
	v.limitCores = v.quota
	v.mutexMetric = c.dialect == golang && c.even()
	from, to = c.faultFor(c.between(16, 24))
	return v, from, to
}

// memoryOfRequests grows with the requests that wait for a slow dependency.
func memoryOfRequests(c *Case) {
	v, from, to := c.limited()
	rate := c.perTask()
	v.memoryLimit = v.memoryBase * 2
	c.hasClient(v)
	slow := c.between(6, 9)
	v.dependency = everyProc(during(from, to, 480, 0.04, slow))
	v.memoryPerRequest = v.memoryBase / (rate * slow * 0.97)
	v.restartDelay = 25
	c.addKube(kubernetes{cadvisor: true, stateMetrics: true})
	c.story = fmt.Sprintf("%d tasks with a memory limit of %.0f MB. A dependency gets slower and slower within eight minutes; every request in flight holds %.1f MB. Memory goes from half the limit to the limit, the kernel kills, tasks restart in place and fill again.", v.instances, v.memoryLimit/1e6, v.memoryPerRequest/1e6)
	c.why = "memory grows with the requests in flight until the limit"
	c.traps = "container series carry the kubelet's job and instance; pod totals without a container label double the sum"
	c.wants("memorygrowth", "memory goes from half the limit to the limit in minutes")
	c.wants("inflightcpu", "in flight rises over the usual CPU")
	c.wants("downstream", "calls take seconds instead of milliseconds")
	c.allows("tasks are killed at their limit, again and again", "replacement")
	c.allows(sameQueue, "hungrequests", "healthcheck")
	c.verdict("downstream")
}

// memoryLeak fills the memory whatever the requests do.
func memoryLeak(c *Case) {
	v, from, to := c.limited()
	v.memoryLimit = v.memoryBase * 2.2
	perSecond := c.between(0.9, 1.3) * (v.memoryLimit - v.memoryBase) / (to - from)
	v.memoryLeak = func(t float64, p *Process) float64 {
		since := math.Max(from, p.begun)
		if t < since {
			return 0
		}
		return perSecond * (t - since) * (0.9 + 0.2*p.jitter)
	}
	v.dependency = everyProc(func(t float64) float64 {
		return 0.03 + 0.15*math.Min(1, math.Max(0, t-from)/(to-from))
	})
	v.restartDelay = 20
	c.faultEnd = 0
	c.addKube(kubernetes{cadvisor: true, stateMetrics: true})
	c.story = fmt.Sprintf("%d tasks with a memory limit of %.0f MB. From the fault on every request leaves a little behind in a cache without bounds; within %.0f minutes memory is at the limit, tasks are OOM-killed one after another and restart in place.", v.instances, v.memoryLimit/1e6, (to-from)/60)
	c.why = "memory leak to the limit, kills spread over minutes"
	c.traps = "in flight and latency grow a little (six-fold from a low base) as caches press"
	c.wants("memorygrowth", "memory reaches its limit within minutes")
	c.allows("tasks are killed at their limit", "replacement")
	c.allows("latency grows with the leak", "inflightcpu", "downstream", "hungrequests")
	c.verdict(none, "downstream")
}
