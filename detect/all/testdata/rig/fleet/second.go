package main

import (
	"math"
	"slices"
)

// arrive serves the requests of one second in their order.
func (p *Process) arrive(t float64, n int) {
	v := p.svc
	times := make([]float64, n)
	for i := range times {
		times[i] = t + p.rng.Float64()
	}
	slices.Sort(times)
	for _, at := range times {
		pick := p.rng.Float64()
		route := 0
		for route < len(v.routes)-1 && pick > v.routes[route].share {
			pick -= v.routes[route].share
			route++
		}
		proxy := int8(noProxy)
		if len(v.proxies) > 0 {
			proxy = int8(p.rng.Intn(len(v.proxies)))
		}
		p.serveRequest(at, route, proxy)
	}
}

// credit moves what falls into this second to the counters and levels, and
// returns the CPU used, in cores.
func (p *Process) credit(second int) float64 {
	v, t, i := p.svc, float64(second), second-p.base
	own := p.background * (0.5 + p.rng.Float64())
	if v.extraCPU != nil {
		own += v.extraCPU(t) * (0.85 + 0.3*p.rng.Float64())
	}
	const startUp = 60 // seconds: class loading, caches
	if p.begun > -100 && t-p.begun < startUp {
		own += 0.15 * (1 - (t-p.begun)/startUp)
	}
	used := p.cpuUse.get(i) + own
	if used > v.quota*1.03 { // no more than the quota: the rest is for the next second
		p.cpuUse.add(i+1, used-v.quota)
		used = v.quota * (1 - 0.004*p.rng.Float64())
	}
	p.cpuTotal += used
	p.cpuRecent = 0.9*p.cpuRecent + 0.1*used
	p.gcCycles += 0.05 + used*0.3
	p.gcSeconds += 0.00001 + used*0.00008
	// Locks of the runtime's own and of libraries wait a little in any process.
	p.lockWaitTotal += p.lockWait.get(i) + 0.00005*p.rng.ExpFloat64()*(1+20*used)
	p.lockQueued += p.lockQueue.get(i)
	p.poolWaitTotal += p.poolWait.get(i)
	p.poolWaitN += p.poolWaits.get(i)
	p.poolUsed += p.poolUse.get(i)
	p.poolQueued += p.poolQueue.get(i)
	p.poolOut += p.poolTimeouts.get(i)
	p.callsNow += p.calls.get(i)
	return used
}

// moveStreams opens and closes connections that stay open.
func (p *Process) moveStreams(t float64) {
	v := p.svc
	if v.streams == nil {
		return
	}
	opened := float64(poisson(p.rng, v.streams(t)))
	p.streams += opened
	p.streamsStarted += opened
	closed := math.Min(p.streams, float64(poisson(p.rng, p.streams/v.streamLife)))
	p.streams -= closed
	p.streamsEnded += closed
	p.streamSeconds += closed * v.streamLife * (0.8 + 0.4*p.rng.Float64())
}

// grow sets the memory, and has the kernel kill what reaches its limit.
func (p *Process) grow(t float64) {
	v := p.svc
	warm := 1.0
	if p.begun >= 0 {
		warm = math.Min(1, 0.6+0.4*(t-p.begun)/300)
	}
	m := v.memoryBase*p.memoryFactor*warm + v.memoryPerRequest*float64(p.inFlight) + p.streams*30e3
	if v.memoryLeak != nil {
		m += v.memoryLeak(t, p)
	}
	p.memory = m * (1 + 0.003*p.rng.NormFloat64())
	if v.memoryLimit > 0 && p.memory >= v.memoryLimit {
		p.pod.oomKills++
		p.pod.lastReason = oomKilled
		p.killAt = t
	}
}

// throttle counts the periods of 100 ms in which the quota was used up. With more
// threads than the quota has cores, a burst uses it up within a period at a
// load that looks low over the second.
func (p *Process) throttle(used float64) {
	v, pod := p.svc, p.pod
	share, part := used/v.quota, 0.0
	switch {
	case share > 0.985:
		part = 0.97
	case float64(v.gomaxprocs) > v.quota*1.5:
		part = math.Pow(share, 3) * 0.5
	case share > 0.8:
		part = (share - 0.8) * 1.5
	}
	pod.periods += 10
	pod.throttled += math.Round(10 * part * (0.9 + 0.2*p.rng.Float64()))
	pod.throttledSeconds += part * (0.4 + 0.1*math.Min(20, float64(v.gomaxprocs)))
}
