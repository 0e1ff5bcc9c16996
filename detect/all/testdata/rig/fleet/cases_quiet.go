package main

import (
	"fmt"
	"math"
)

// Healthy services: in these nothing may be found.

// steady is a service to which nothing happens.
func steady(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang && c.even()
	c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, nothing happens.", v.instances, c.perTask())
	c.silent("healthy, steady", "noise only")
}

func steadyLock(c *Case) {
	steady(c)
	c.svc.mutexMetric = true
	c.svc.lockHold = everyProc(constant(0.3 / c.perTask()))
	c.svc.lockCPU = 0.3
	c.traps = "a lock that is used to a third"
}

func steadySQL(c *Case) {
	steady(c)
	c.hasSQL(c.svc)
	c.svc.poolSize = 10
	c.svc.poolHold = constant(0.4 * 10 / c.perTask())
	c.traps = "a pool that is used to two fifths"
}

func steadyHikari(c *Case) {
	steady(c)
	c.hasHikari(c.svc)
	c.svc.poolHold = constant(0.4 * 10 / c.perTask())
	c.traps = "a pool that is used to two fifths"
}

func steadyClient(c *Case) {
	steady(c)
	c.hasClient(c.svc)
	c.svc.dependency = everyProc(constant(0.05))
}

func steadyKube(c *Case) {
	steady(c)
	v := c.svc
	v.podLabels = true
	v.memoryLimit = v.memoryBase * 1.6
	v.limitCores = v.quota
	c.addKube(kubernetes{cadvisor: true, stateMetrics: true, probes: true})
}

func steadyBlackbox(c *Case) {
	steady(c)
	c.addBlackbox()
}

// diurnal is a morning: traffic, and CPU with it, grow threefold.
func diurnal(c *Case) {
	c.lasts(c.whole(140, 170))
	v := c.service()
	v.mutexMetric = c.dialect == golang
	rate := c.between(10, 15)
	cpu := c.between(0.12, 0.2) * v.quota / rate
	c.setCPU(cpu, cpu*1.2)
	if c.dialect == nodeJS {
		c.setCPU(0.15/rate, 0.2/rate)
	}
	end := c.end()
	v.rate = func(t float64) float64 {
		part := math.Min(1, math.Max(0, t/end))
		return rate * float64(v.instances) * (1 + 2.1*(1-math.Cos(math.Pi*part))/2)
	}
	c.story = fmt.Sprintf("%d tasks; traffic grows from %.0f to %.0f requests/s each over the file, CPU with it; latency stays.", v.instances, rate, rate*3.1)
	c.silent("a morning: threefold growth", "in flight triples, so does CPU")
}

func trafficDrop(c *Case) {
	v := c.service()
	base := v.rate(0)
	from := c.between(0.42, 0.5) * c.end()
	to := from + c.between(12, 22)*60
	v.rate = during(from, to, c.between(40, 90), base, base*0.1)
	v.mutexMetric = c.dialect == golang
	c.story = fmt.Sprintf("%d tasks; at minute %.0f traffic falls to a tenth (a partner's outage) and comes back at minute %.0f within about a minute.", v.instances, from/60, to/60)
	c.silent("traffic drop and recovery to the usual level", "arrivals jump tenfold against the last minutes, but not above what was usual before")
}

func busy(kube bool) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		rate := c.perTask()
		cpu := c.between(0.66, 0.72) * v.quota / rate
		c.setCPU(cpu*0.9, cpu*1.3)
		v.mutexMetric = c.dialect == golang
		if kube {
			v.podLabels = true
			v.limitCores = v.quota
			v.memoryLimit = v.memoryBase * 1.5
			c.addKube(kubernetes{cadvisor: true, stateMetrics: true})
		}
		c.story = fmt.Sprintf("%d tasks at about 70 %% of %.0f cores, always.", v.instances, v.quota)
		c.silent("a healthy service that is simply busy", "CPU at 70 %, some queueing for cores")
	}
}

// brokenGauge is an in-flight gauge that one error path forgets to decrement
// (sign 1) or decrements twice (-1).
func brokenGauge(sign float64) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		v.mutexMetric = c.dialect == golang
		perSecond := sign * c.between(0.0006, 0.0012) * c.perTask()
		from := c.between(0.2, 0.3) * c.end()
		v.gaugeError = func(t float64, p *Process) float64 {
			if t < from {
				return 0
			}
			return math.Floor(perSecond*(t-from)*(0.9+0.2*p.jitter)*10) / 10
		}
		if sign < 0 {
			c.story = fmt.Sprintf("%d tasks. From minute %.0f on one error path decrements the in-flight gauge twice: it sinks below zero.", v.instances, from/60)
			c.silent("in-flight gauge goes negative", "a negative level is a broken gauge")
			return
		}
		c.story = fmt.Sprintf("%d tasks. From minute %.0f on one error path in a thousand does not decrement the in-flight gauge: it climbs by %.0f per hour and task. Goroutines, files, latency are flat.", v.instances, from/60, perSecond*3600)
		c.silent("gauge leak", "completions keep pace with arrivals: nothing is in flight that the gauge claims")
	}
}

// streams are gRPC calls that live for long, more and more of them.
func streams(c *Case) {
	v := c.service()
	v.streamLife = c.between(1500, 3600)
	perSecond := c.between(0.15, 0.5)
	end := c.end()
	v.streams = func(t float64) float64 {
		if t < 0 {
			return 0
		}
		return perSecond * (1 + 2*t/end)
	}
	c.story = fmt.Sprintf("%d gRPC tasks; clients open bidi streams that live for %.0f minutes, more and more through the morning; unary calls as ever.", v.instances, v.streamLife/60)
	c.silent("streams: started minus handled grows, unary calls are fine", "grpc_type tells streams from unary calls")
}

// websockets are held by a population that is connected from the start.
func websockets(c *Case) {
	v := c.service()
	v.streamLife = c.between(1500, 3600)
	perSecond := c.between(0.15, 0.5)
	held := perSecond * v.streamLife
	end := c.end()
	v.streams = func(t float64) float64 { return perSecond * (1 + 0.25*math.Sin(2*math.Pi*t/end)) }
	c.sim.at(-warmUp+2, func() {
		for _, p := range v.procs {
			p.streams = math.Round(held)
		}
	})
	c.story = fmt.Sprintf("%d tasks; each holds about %.0f websockets for %.0f minutes each; the in-flight gauge counts a hijacked connection until its handler returns. The population breathes by a quarter; requests as ever.", v.instances, held, v.streamLife/60)
	c.silent("websockets held in the in-flight gauge", "hundreds in flight per task, CPU low, always so")
}

func lowTraffic(c *Case) {
	v := c.service()
	rate := c.between(0.3, 1.6)
	c.setRate(rate)
	c.setCPU(0.01, 0.02)
	v.routes[0].wait, v.routes[1].wait = 0.2, 0.9
	v.routes[0].sigma, v.routes[1].sigma = 0.9, 1.1
	c.story = fmt.Sprintf("%d tasks with %.1f requests/s each that take 0.2 to 2 s.", v.instances, rate)
	c.silent("low traffic: 0 to 3 in flight", "ratios of small numbers")
}

func batch(c *Case) {
	c.every(pick(c, 15.0, 30))
	v := c.service()
	v.mutexMetric = c.dialect == golang
	base := v.rate(0) * 0.5
	factor := c.between(3, 4)
	lasts := c.between(25, 45)
	v.rate = func(t float64) float64 {
		if math.Mod(t+3000, 300) < lasts {
			return base * factor
		}
		return base
	}
	perTask := base / float64(v.instances)
	cpu := 0.13 * v.quota / perTask
	if c.dialect == nodeJS {
		cpu = 0.1 / perTask
	}
	c.setCPU(cpu, cpu)
	c.story = fmt.Sprintf("%d tasks; every five minutes a batch client sends %.1f times the usual traffic for %.0f s.", v.instances, factor, lasts)
	c.silent("batch spikes every five minutes", "each spike is a jump against the minutes before, none against the hour")
}

// collectorPressure is a garbage collector that works more for a while.
func collectorPressure(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang
	cpu := 0.25 * v.quota / c.perTask()
	c.setCPU(cpu*0.9, cpu*1.3)
	from, to := c.faultFor(c.between(15, 25))
	c.fault = -1
	v.extraCPU = during(from, to, 240, 0, v.quota*0.28)
	v.waitFactor = everyProc(during(from, to, 240, 1, 1.25))
	v.memoryLeak = everyProc(during(from, to, 240, 0, v.memoryBase*0.3))
	c.story = fmt.Sprintf("%d tasks; from minute %.0f to %.0f a larger cache keeps the collector busy: CPU from 25 to over 50 %%, requests a quarter slower.", v.instances, from/60, to/60)
	c.silent("GC pressure", "CPU doubles with the same traffic, latency up by a quarter")
}

func idleBeside(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang
	idle := c.another("reports", c.dialect, 2)
	idle.rate = constant(0.002)
	c.story = fmt.Sprintf("%d healthy tasks, and a job 'reports' of two tasks that gets a request every few minutes.", v.instances)
	c.silent("an idle service beside a healthy one", "zero in flight over nearly zero CPU")
}

func longPoll(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang
	if c.dialect == spring {
		c.onNetty(v)
	}
	rate := c.between(6, 14)
	c.setRate(rate)
	v.slowByDesign = true
	poll := &v.routes[0]
	poll.name, poll.share, poll.wait, poll.sigma, poll.cpu = "/poll", 0.8, 27, 0.12, 0.002
	v.routes[1].share = 0.2
	c.story = fmt.Sprintf("%d tasks; %.0f long polls/s each that take about 27 s by design.", v.instances, rate*poll.share)
	c.silent("long polling", "hundreds in flight with hardly any CPU, always so; mean latency 20 s")
}

func slowByDesign(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang
	rate := c.between(12, 25)
	c.setRate(rate)
	c.hasClient(v)
	takes := c.between(3, 5)
	v.dependency = everyProc(constant(takes))
	c.story = fmt.Sprintf("%d tasks in front of a model server that takes %.1f s by design: %.0f in flight per task, always.", v.instances, takes, rate*takes)
	c.silent("constant high in-flight from an upstream that is slow by design", "in-flight per CPU is enormous from the first sample to the last")
}
