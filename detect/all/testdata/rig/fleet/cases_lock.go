package main

import (
	"fmt"
	"math"
)

// A lock of a process. In flight piles up, CPU does not move.

// sameQueue is why symptoms beside a cause are no mistakes.
const sameQueue = "the same queue, from another side"

// jvm is whether a dialect exports the states of threads, which hint at a lock.
func (d Dialect) jvm() bool { return d == spring || d == otelJava || d == otlpDotted }

// lock saturates a lock, with the runtime's lock-wait counter or without, for a
// while or for good.
func lock(counter, recovers bool) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		from, to := c.faultFor(c.between(14, 26))
		if !recovers {
			to = c.end() + 100
			c.faultEnd = 0
		}
		rate := c.perTask()
		usual := c.between(0.25, 0.5) / rate
		bad := c.between(1.06, 1.3) / rate
		v.lockHold = everyProc(during(from, to, 20, usual, bad))
		v.lockCPU = c.between(0.1, 0.35)
		v.mutexMetric = counter
		v.maxInFlight = c.whole(350, 1200)
		if c.dialect == spring {
			v.maxInFlight = 300
		}
		c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, %d cores. Every request takes one process-wide lock for %.1f ms (utilisation %.2f). From the fault on it holds it for %.1f ms (utilisation %.2f; %.0f %% of the hold is CPU): a convoy builds, at most %d requests are admitted per task.", v.instances, rate, v.gomaxprocs, usual*1e3, usual*rate, bad*1e3, bad*rate, v.lockCPU*100, v.maxInFlight)
		c.why = "one lock is asked for more than it can give: requests wait, CPU does not move"
		c.traps = "completions keep coming at the lock's pace; health checks do not take the lock and stay fast"
		c.allows("requests leave at the lock's pace, fewer than come", "hungrequests")
		if c.dialect == grpcGo {
			c.allows("in flight shows only as started minus handled", "inflightcpu")
		} else {
			c.wants("inflightcpu", "hundreds in flight over the usual CPU")
		}
		if counter {
			c.wants("lockwait", "the lock-wait counter grows by the length of the queue")
			c.verdict("lockwait")
			return
		}
		c.traps += "; the runtime's lock-wait counter is not exported: the cause cannot be named"
		c.verdict(none)
		if c.dialect.jvm() {
			c.traps += " (blocked JVM threads hint at it)"
			c.allows("threads are blocked at monitors", "lockwait")
			c.verdict(none, "lockwait")
		}
	}
}

// lockLevels uses a lock for a part of the time at night and for another by day,
// and nothing is wrong: what is to be told is how much more it can take.
func lockLevels(night, day float64) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		rate := c.perTask()
		hold := day / rate
		middle := c.end() / 2
		v.rate = during(middle, c.end()+100, 300, rate*float64(v.instances)*night/day, rate*float64(v.instances))
		v.lockHold = everyProc(constant(hold))
		v.lockCPU = 0.2
		v.mutexMetric = true
		c.story = fmt.Sprintf("%d tasks, %.0f requests/s each by day, every one of which takes one process-wide lock for %.1f ms (utilisation %.2f); at night, the first half, utilisation %.2f. No fault.", v.instances, rate, hold*1e3, day, night)
		c.silent("a lock is in use for a part of the time, more by day than at night", "twice the load by day is no herd: it takes minutes to come")
		const surge = 3 // what a lock is to survive
		if day*surge > 1 {
			c.wants("lockheadroom", fmt.Sprintf("the lock saturates at %.1f times the load by day", 1/day))
		}
	}
}

// incident is a herd that meets a lock, with tasks that are killed for it or not.
func incident(kills bool) func(c *Case) {
	return func(c *Case) {
		c.every(15)
		if !kills {
			c.every(pick(c, 15.0, 30))
		}
		c.atLeast(5)
		v := c.service()
		rate := c.between(24, 34)
		cpu := 0.1 * v.quota / rate
		c.setCPU(cpu, cpu*1.2)
		from, to := c.faultFor(c.between(10, 16))
		factor := c.between(3.6, 4.4)
		dip := c.between(0.5, 0.7)
		base := rate * float64(v.instances)
		surge := during(from, to, 8, base, base*factor)
		v.rate = func(t float64) float64 {
			switch {
			case t > from-1200 && t < from:
				return base * dip
			case t > to && t < to+400:
				return base * (0.5 + 0.5*(t-to)/400)
			}
			return surge(t)
		}
		hold := c.between(0.36, 0.42) / rate
		v.lockHold = everyProc(constant(hold))
		v.lockCPU = 0.25
		v.mutexMetric = c.dialect == golang
		v.maxInFlight = 5000
		v.memoryPerRequest = 60e3
		v.healthLock = true
		v.healthTimeout = 5
		c.story = fmt.Sprintf("%d tasks, %.0f requests/s each; for 20 minutes clients wait for an asset (traffic at %.0f %%), then come at %.1f times the usual rate. Every request takes a lock for %.1f ms (telemetry that registers on every recording): utilisation %.2f before, %.2f in the herd. Health checks need the lock too. ", v.instances, rate, dip*100, factor, hold*1e3, hold*rate, hold*rate*factor)
		c.why = "a herd meets a lock"
		c.traps = "request counters count completions; they rise to the lock's capacity and no further"
		c.wants("herd", fmt.Sprintf("%.1f times the usual arrivals within seconds", factor))
		c.wants("inflightcpu", "thousands in flight over the usual CPU")
		c.allows("checks take the lock", "healthcheck")
		c.allows(sameQueue, "hungrequests", "memorygrowth")
		switch {
		case v.mutexMetric:
			c.wants("lockwait", "the lock-wait counter grows by the length of the queue")
			c.verdict("lockwait")
		case c.dialect.jvm():
			c.allows("threads are blocked at monitors", "lockwait")
			c.verdict(none, "lockwait")
		default:
			c.verdict(none)
		}
		if !kills {
			c.story += "Nobody kills the tasks."
			return
		}
		v.healthPeriod = 15
		v.healthFails = 5
		v.newAddress = true
		v.restartDelay = 45
		c.story += "Tasks that miss five checks (timeout 5 s, every 15 s) are killed; replacements take the surge cold."
		c.why += ": the replacement spiral"
		c.wants("replacement", "tasks are killed within minutes of their start")
	}
}

// spiral saturates a lock that health checks need too, so that one task after
// another is killed.
func spiral(newAddress, kube bool) func(c *Case) {
	return func(c *Case) {
		c.every(pick(c, 15.0, 15, 30))
		c.atLeast(6)
		v := c.service()
		rate := c.between(20, 30)
		c.setRate(rate)
		from, to := c.faultFor(c.between(18, 25))
		usual := c.between(0.45, 0.55) / rate
		v.lockHold = everyProc(during(from, to, 10, usual, c.between(1.3, 1.6)/rate))
		v.lockCPU = 0.25
		v.mutexMetric = c.dialect == golang && c.even()
		v.healthLock = true
		v.healthTimeout = 2
		v.healthFails = 3
		v.newAddress = newAddress
		v.restartDelay = c.between(35, 55)
		v.maxInFlight = 1500
		if kube {
			v.podLabels = c.dialect == golang
			v.memoryLimit = v.memoryBase * 4
			v.limitCores = v.quota
			c.addKube(kubernetes{cadvisor: true, stateMetrics: true, probes: true})
		}
		how := "restarted in place (same address, counters and process_start_time reset)"
		if newAddress {
			how = "replaced by a task under a new address"
		}
		c.story = fmt.Sprintf("%d tasks, %.0f requests/s each. A lock on the request path saturates; health checks need it too; three missed checks (timeout 2 s, period 10 s) and a task is killed and %s after %.0f s. Those left get more, new ones are flooded.", v.instances, rate, how, v.restartDelay)
		c.why = "a replacement spiral"
		c.traps = "tasks live for one to three minutes; in-flight resets with each kill"
		c.wants("replacement", "task after task is killed within minutes of its start")
		c.allows("checks take the lock", "healthcheck")
		c.allows(sameQueue, "inflightcpu", "hungrequests", "memorygrowth")
		c.allows("the lock, as far as tasks live long enough to tell", "lockwait")
		c.verdict(none, "lockwait")
	}
}

// wedged is one task of twelve that waits for itself.
func wedged(c *Case) {
	c.instances = 12
	v := c.service()
	v.mutexMetric = c.dialect == golang
	from, _ := c.faultFor(20)
	c.faultEnd = 0
	var sick *Process // the first that a request reaches
	v.lockHold = func(t float64, p *Process) float64 {
		if t >= from && sick == nil {
			sick = p
		}
		if p == sick {
			return math.Inf(1)
		}
		return 0.1 / 50
	}
	v.maxInFlight = c.whole(600, 1500)
	c.story = fmt.Sprintf("Twelve tasks, %.0f requests/s each, round robin. One of them takes a lock twice and waits for itself: every request it gets hangs, its health handler answers in a millisecond, so it stays in rotation. At %d in flight its listener refuses.", c.perTask(), v.maxInFlight)
	c.why = "one wedged task of twelve"
	c.traps = "eleven are healthy: fleet rates fall by 8 %; a deadlock credits no lock wait (nobody acquires)"
	c.wants("inflightcpu", "one task has hundreds in flight and no CPU")
	c.allows("none of its requests ends", "hungrequests")
	c.verdict(none)
}

// metricsBehindLock saturates a lock that /metrics needs as well.
func metricsBehindLock(c *Case) {
	c.every(pick(c, 15.0, 30))
	v := c.service()
	rate := c.perTask()
	from, to := c.faultFor(c.between(10, 16))
	v.lockHold = everyProc(during(from, to, 5, 0.3/rate, c.between(1.08, 1.15)/rate))
	v.lockCPU = 0.2
	v.metricsLock = true
	v.mutexMetric = c.dialect == golang
	v.maxInFlight = 1500
	c.story = fmt.Sprintf("%d tasks, %.0f requests/s each. The lock that saturates is the metrics registry's: /metrics waits for it as well. Scrapes slow down, then fail (timeout 10 s) while the queue is longer than that; after the fault it drains and they return.", v.instances, rate)
	c.why = "/metrics behind the contended lock: the fault hides itself"
	c.traps = "up is 0 in the fault; what is left are the first scrapes, scrape_duration_seconds and the jump of counters afterwards"
	c.wantsUnlessBlind("inflightcpu", "the first scrapes show the queue", "scrapes fail in the fault")
	c.allows(sameQueue, "hungrequests", "healthcheck", "replacement")
	c.allows("the counter's jump afterwards", "lockwait")
	c.verdict(none, "lockwait")
}

// several are three jobs in one file, the first with a lock that saturates. The
// sick one is looked at, or a healthy one.
func several(sick bool) func(c *Case) {
	return func(c *Case) {
		c.tasks(c.whole(3, 5))
		v := c.service()
		v.job = "checkout"
		v.mutexMetric = true
		healthy := c.another("catalog", golang, c.instances)
		healthy.mutexMetric = true
		c.another("mailer", nodeJS, c.instances)
		rate := c.perTask()
		from, to := c.faultFor(c.between(14, 22))
		v.lockHold = everyProc(during(from, to, 15, 0.4/rate, 1.2/rate))
		v.lockCPU = 0.2
		v.maxInFlight = 700
		healthy.lockHold = everyProc(constant(0.1 / 50))
		c.dialectTitle = "client_golang twice and prom-client"
		c.story = "Three jobs in one file: checkout's lock saturates, catalog and mailer are healthy. "
		if sick {
			c.selector = `job="checkout"`
			c.story += "The sick one is looked at."
			c.why = "three jobs, the sick one is looked at"
			c.traps = "the others' series are in the file"
			c.wants("inflightcpu", "hundreds in flight over the usual CPU")
			c.wants("lockwait", "the lock-wait counter grows by the length of the queue")
			c.allows("requests leave at the lock's pace, fewer than come", "hungrequests")
			c.verdict("lockwait")
			return
		}
		c.selector = `job="catalog"`
		c.story += "A healthy one is looked at."
		c.silent("three jobs, a healthy one is looked at", "the sick job's series are in the file and must not be mixed in")
		c.fault = -1
		c.svc = healthy
	}
}
