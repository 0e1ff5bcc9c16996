package main

import (
	"math"
	"math/rand"
)

// serveRequest takes a request that arrives at t through all its queues at once: every
// queue is first in first out, so what is ahead of it is known already.
func (p *Process) serveRequest(t float64, route int, proxy int8) {
	v := p.svc
	if v.maxInFlight > 0 && p.inFlight >= v.maxInFlight {
		if proxy != noProxy {
			v.proxies[proxy].refused(route, 0.002)
		}
		return
	}
	p.inFlight++
	p.stats.inFlight[route]++
	p.stats.started[route]++
	if proxy != noProxy {
		x := v.proxies[proxy].stats
		x.started[route]++
		x.inFlight[route]++
	}
	rq := Request{arrived: t, served: t, route: uint8(route), proxy: proxy, call: -1}
	if v.threads > 0 {
		rq.served = max(t, p.thread.earliest())
	}
	rq.done, rq.outcome = p.phases(&rq)
	if v.threads > 0 {
		p.thread.take(rq.done)
	}
	if rq.outcome == ok && v.errorRate > 0 && p.rng.Float64() < v.errorRate {
		rq.outcome = failed
	}
	const timeout = 10 // of a patient client
	if rq.done-t > timeout && t > 0 && !v.slowByDesign && v.sim.firstTimeout == 0 && p.begun < t {
		v.sim.firstTimeout = t + timeout
	}
	if math.IsInf(rq.done, 1) {
		p.hung = append(p.hung, rq)
		return
	}
	end := int(math.Floor(rq.done))
	p.ends[end] = append(p.ends[end], rq)
}

// phases is when a request ends that a thread has taken, and how. It never ends
// at +Inf.
func (p *Process) phases(rq *Request) (float64, uint8) {
	v, rng := p.svc, p.rng
	inf := math.Inf(1)
	at := rq.served
	if math.IsInf(at, 1) {
		return inf, ok
	}
	route := &v.routes[rq.route]
	if v.hang != nil {
		if chance := v.hang(rq.arrived, int(rq.route), p); chance > 0 && rng.Float64() < chance {
			p.cpuUse.add(p.second(at), route.cpu)
			return inf, ok
		}
	}
	at = p.useCPU(rq.arrived, at, route)
	if route.lock && v.lockHold != nil {
		at = p.takeLock(rq.arrived, at)
	}
	if route.pool && v.poolSize > 0 && !math.IsInf(at, 1) {
		var outcome uint8
		if at, outcome = p.takeConnection(rq.arrived, at); outcome != ok {
			return at, outcome
		}
	}
	if math.IsInf(at, 1) {
		return inf, ok
	}
	wait := route.wait * logNormal(rng, route.sigma)
	if v.waitFactor != nil {
		wait *= v.waitFactor(rq.arrived, p)
	}
	at += wait
	if route.dependency && v.dependency != nil {
		return p.call(rq, at)
	}
	return at, ok
}

// useCPU queues for the quota and is done with the CPU work of a request.
func (p *Process) useCPU(arrived, at float64, route *Route) float64 {
	v := p.svc
	work := route.cpu * logNormal(p.rng, 0.5)
	if v.cpuFactor != nil {
		work *= v.cpuFactor(arrived, p)
	}
	if v.coldFactor > 0 && p.begun > 0 && arrived-p.begun < 120 {
		work *= v.coldFactor
	}
	quota := v.quota
	if v.extraCPU != nil {
		quota = math.Max(0.3, quota-v.extraCPU(arrived))
	}
	// One that stood long in the queue for threads starts after requests that
	// have come since, which must not wait for it here. The quota is not scarce then.
	if at < arrived+1 {
		wait := math.Max(0, p.cpuFree-at)
		p.cpuFree = math.Max(p.cpuFree, at) + work/quota
		at += wait
	}
	p.cpuUse.add(p.second(at), work)
	return at + work
}

// takeLock queues for the process-wide lock and gives it back. The wait is
// credited when it ends, as runtimes do, so one that never ends is never credited.
func (p *Process) takeLock(arrived, at float64) float64 {
	v := p.svc
	hold := v.lockHold(arrived, p)
	if hold <= 0 {
		return at
	}
	inf := math.Inf(1)
	if !math.IsInf(hold, 1) {
		hold *= logNormal(p.rng, 0.3)
	}
	wait := math.Max(0, p.lockFree-at)
	if math.IsInf(wait, 1) {
		p.lockQueue.add(p.second(at), 1)
		return inf
	}
	if wait > 1e-4 {
		const sampled = 8 // Go's runtime times one wait in so many and counts it for all
		if p.rng.Intn(sampled) == 0 {
			p.lockWait.add(p.second(at+wait), wait*sampled)
		}
		p.lockQueue.add(p.second(at), 1)
		p.lockQueue.add(p.second(at+wait), -1)
	}
	p.lockFree = at + wait + hold
	if math.IsInf(hold, 1) {
		return inf
	}
	p.cpuUse.add(p.second(at+wait), hold*v.lockCPU)
	return at + wait + hold
}

// takeConnection queues for the pool, works with a connection and gives it
// back, unless it is leaked.
func (p *Process) takeConnection(arrived, at float64) (float64, uint8) {
	v := p.svc
	wait := math.Max(0, p.pool.earliest()-at)
	if wait > 0 {
		p.poolQueue.add(p.second(at), 1)
	}
	if v.poolTimeout > 0 && wait > v.poolTimeout {
		end := at + v.poolTimeout
		p.poolQueue.add(p.second(end), -1)
		p.poolTimeouts.add(p.second(end), 1)
		if v.hasSQL { // database/sql credits a wait that a deadline ended too
			p.poolWait.add(p.second(end), v.poolTimeout)
			p.poolWaits.add(p.second(at), 1)
		}
		return end, failed
	}
	hold := v.poolHold(arrived) * logNormal(p.rng, 0.5)
	if math.IsInf(wait, 1) {
		return wait, ok
	}
	taken := p.second(at + wait)
	if wait > 0 {
		p.poolQueue.add(taken, -1)
		p.poolWait.add(taken, wait)
		p.poolWaits.add(taken, 1)
	}
	if v.hikari {
		end := int(math.Floor(at + wait))
		p.acquires[end] = append(p.acquires[end], acquire{wait + 0.00002, hold})
	}
	p.poolUse.add(taken, 1)
	released := at + wait + hold
	if v.poolLeak != nil && p.rng.Float64() < v.poolLeak(arrived, p) {
		p.pool.take(math.Inf(1))
	} else {
		p.poolUse.add(p.second(released), -1)
		p.pool.take(released)
	}
	return released, ok
}

// call asks the dependency. A client's histogram sees a call when it ends.
func (p *Process) call(rq *Request, at float64) (float64, uint8) {
	v := p.svc
	p.calls.add(p.second(at), 1)
	if v.callHangs != nil && p.rng.Float64() < v.callHangs(rq.arrived) {
		return math.Inf(1), ok
	}
	latency := v.dependency(rq.arrived, p) * logNormal(p.rng, 0.5)
	if v.callTimeout > 0 && latency > v.callTimeout {
		rq.callFailed = true
		latency = v.callTimeout
	}
	at += latency
	p.calls.add(p.second(at), -1)
	rq.call = float32(latency)
	if rq.callFailed {
		return at, failed
	}
	return at, ok
}

// checkLatency is how long a health check takes that arrives at t.
func (p *Process) checkLatency(t float64) float64 {
	v := p.svc
	l := 0.0012 * logNormal(p.rng, 0.4)
	if behind := p.cpuFree - t; behind > 0 {
		// The scheduler is fair to a small request: it waits for a turn among
		// those in flight, not for all of their work.
		l += math.Min(behind, 0.0006*float64(p.inFlight)/math.Max(v.quota, 0.5)) * logNormal(p.rng, 0.4)
	}
	if v.healthExtra != nil {
		l += v.healthExtra(t) * logNormal(p.rng, 0.35)
	}
	if v.healthLock && v.lockHold != nil {
		l += math.Max(0, p.lockFree-t)
	}
	return l
}

// step is one second of a process, in which so many requests arrive.
func (p *Process) step(second, arrivals int) {
	t := float64(second)
	if t >= p.nextCheck {
		p.nextCheck += p.svc.healthPeriod
		p.check(t)
	}
	p.arrive(t, arrivals)
	for _, rq := range p.ends[second] {
		p.complete(&rq)
	}
	delete(p.ends, second)
	for _, a := range p.acquires[second] {
		p.acquireTime.observe(a.wait)
		p.useTime.observe(a.hold)
	}
	delete(p.acquires, second)
	used := p.credit(second)
	p.moveStreams(t)
	p.grow(t)
	p.throttle(used)
}

// check is one health check by the balancer, and the kubelet's two probes.
func (p *Process) check(t float64) {
	v, pod := p.svc, p.pod
	l := p.checkLatency(t)
	p.lastCheck = l
	const givenUp = 60 // who asks has gone: the handler's end is not seen
	if !v.ownHealthPort {
		p.stats.started[p.health]++
		if l < givenUp {
			p.stats.inFlight[p.health]++
			end := int(math.Floor(t + l))
			p.ends[end] = append(p.ends[end], Request{arrived: t, served: t, done: t + l, route: uint8(p.health), proxy: noProxy, call: -1})
		}
	}
	p.cpuUse.add(p.second(t), 0.0005)
	if l <= v.healthTimeout {
		pod.liveness.observe(l + 0.001)
		pod.livenessN[ok]++
		p.failures = 0
	} else {
		pod.livenessN[failed]++
		p.failures++
	}
	if l += 0.0003; l <= v.healthTimeout {
		pod.readiness.observe(l)
		pod.readinessN[ok]++
	} else {
		pod.readinessN[failed]++
	}
	if v.healthFails > 0 && p.failures >= v.healthFails && t > 0 {
		p.killAt = t + v.healthTimeout
		p.failures = 0
	}
}

// complete counts a request that has ended.
func (p *Process) complete(rq *Request) {
	r := int(rq.route)
	p.stats.inFlight[r]--
	if r != p.health {
		p.inFlight--
	}
	p.stats.completed[r][rq.outcome]++
	p.stats.latency[r][rq.outcome].observe(rq.done - rq.served)
	if rq.proxy != noProxy {
		p.svc.proxies[rq.proxy].ended(r, rq.outcome, rq.done-rq.arrived+0.001)
	}
	switch {
	case rq.call < 0:
	case rq.callFailed:
		p.callTime[failed].observe(float64(rq.call))
	default:
		p.callTime[ok].observe(float64(rq.call))
	}
}

// unavailable is whether the balancer sends it nothing.
func (p *Process) unavailable(t float64) bool { return p.dead || p.draining || t < p.ready }

// second is the index of a time in the process' tallies.
func (p *Process) second(t float64) int { return int(math.Floor(t)) - p.base }

// newProcess begins a life of a pod.
func newProcess(pod *Pod, t, readyIn float64, rng *rand.Rand) *Process {
	v := pod.svc
	p := &Process{
		svc: v, pod: pod, rng: rng, begun: t, base: int(math.Floor(t)), ready: t + readyIn,
		stats: newStats(len(v.routes) + 1), health: len(v.routes),
		ends: map[int][]Request{}, acquires: map[int][]acquire{},
		cpuFree: t, lockFree: t,
		pool: newPermits(v.poolSize, t), thread: newPermits(v.threads, t),
	}
	p.nextCheck = t + readyIn*0.6 + rng.Float64()*v.healthPeriod
	p.background = 0.008 + 0.01*rng.Float64()
	p.memoryFactor = 1 + 0.06*(rng.Float64()-0.5)
	p.jitter = rng.Float64()
	return p
}
