package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
)

// Event happens once, in the second that its time falls into.
type Event struct {
	at   float64
	do   func()
	done bool
}

// Sim is all services of a case and who scrapes them.
type Sim struct {
	rng      *rand.Rand
	epoch    float64 // unix seconds at time 0
	end      float64
	interval float64 // of scrapes, seconds
	network  int     // second number of all addresses

	services []*Service
	targets  []*Target
	store    *Store
	events   []Event
	lost     func(tg *Target, t float64) bool // a scrape that leaves no trace

	firstKill, firstTimeout float64 // 0 is none
}

func (s *Sim) at(t float64, do func()) { s.events = append(s.events, Event{at: t, do: do}) }

// Why a container ended, as kube-state-metrics says.
const (
	completed = "Completed"
	crashed   = "Error"
	oomKilled = "OOMKilled"
)

// name draws n characters as Kubernetes does.
func (s *Sim) name(n int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[s.rng.Intn(len(letters))]
	}
	return string(b)
}

// newPod finds a place for a process, and Prometheus finds it.
func (s *Sim) newPod(v *Service, t float64) *Pod {
	v.serial++
	pod := &Pod{svc: v, index: v.serial, node: s.rng.Intn(nodes), created: t - 7, gone: math.Inf(1)}
	pod.address = fmt.Sprintf("10.%d.%d.%d:%d", s.network, s.rng.Intn(200)+10, s.rng.Intn(250)+2, v.port)
	hashes := [...]string{"7d9c5b6f4", "6b8f47dd9c", "5f64c9b7d8", "84d7f5c6bb"}
	pod.replicaSet = hashes[v.release%len(hashes)]
	pod.name = fmt.Sprintf("%s-%s-%s", v.job, pod.replicaSet, s.name(5))
	tg := &Target{job: v.job, instance: pod.address, from: t, to: math.Inf(1), offset: s.rng.Float64() * s.interval}
	if v.dialect == otlp || v.dialect == otlpDotted {
		tg.push = true
		tg.job = v.namespace + "/" + v.job
		tg.instance = fmt.Sprintf("%s-%s-%s", s.name(8), s.name(4), s.name(12))
	}
	if v.podLabels {
		tg.extra = []string{"namespace", v.namespace, "pod", pod.name, "container", v.job, "endpoint", "metrics", "service", v.job}
	}
	tg.export = func(e *Page) (bool, float64) { return s.exportPod(pod, e) }
	tg.next = tg.offset + math.Ceil((t-tg.offset)/s.interval)*s.interval
	if v.dialect != noMetrics {
		s.targets = append(s.targets, tg)
	}
	pod.target = tg
	v.pods = append(v.pods, pod)
	return pod
}

// exportPod is a scrape of a service's own /metrics.
func (s *Sim) exportPod(pod *Pod, e *Page) (success bool, seconds float64) {
	p, t := pod.proc, e.at-s.epoch
	if p == nil || p.dead || t < p.begun+1 {
		if pod.target.push {
			return true, 0
		}
		return false, 0.0004 + 0.0006*s.rng.Float64() // refused
	}
	seconds = 0.003 + 0.002*s.rng.ExpFloat64()
	if p.svc.metricsLock {
		seconds += math.Max(0, p.lockFree-endOfSecond(t))
	}
	if behind := p.cpuFree - endOfSecond(t); behind > 0 {
		seconds += math.Min(behind*0.2, 3)
	}
	const timeout = 10 // Prometheus' default
	if seconds > timeout {
		return false, timeout + 0.0003 + 0.001*s.rng.Float64()
	}
	p.scrapes++
	exportProcess(e, p, t)
	return true, seconds
}

// start begins a process in a pod; the balancer takes it readyIn seconds later.
func (s *Sim) start(pod *Pod, t, readyIn float64) {
	p := newProcess(pod, t, readyIn, rand.New(rand.NewSource(s.rng.Int63())))
	pod.proc = p
	pod.periods, pod.throttled, pod.throttledSeconds = 0, 0, 0
	pod.svc.procs = append(pod.svc.procs, p)
}

// kill ends a process; proxies see its requests fail.
func (s *Sim) kill(p *Process, t float64, reason string) {
	if p.dead {
		return
	}
	p.dead = true
	p.pod.lastReason = reason
	fail := func(requests []Request) {
		for _, rq := range requests {
			if rq.proxy != noProxy {
				p.svc.proxies[rq.proxy].ended(int(rq.route), failed, t-rq.arrived)
			}
		}
	}
	for _, second := range slices.Sorted(maps.Keys(p.ends)) {
		fail(p.ends[second])
	}
	fail(p.hung)
	p.ends, p.hung = nil, nil
	p.svc.procs = slices.DeleteFunc(p.svc.procs, func(q *Process) bool { return q == p })
}

// remove ends a pod with its process for good.
func (s *Sim) remove(pod *Pod, t float64) {
	if pod.proc != nil {
		s.kill(pod.proc, t, completed)
	}
	pod.gone = t
	pod.target.to = t + s.rng.Float64()*8
	if pod.svc.slowDiscovery {
		pod.target.to = t + 30 + 60*s.rng.Float64()
	}
}

// warmUp is how long the services run before the file begins.
const warmUp = 120

// run simulates the case second by second and scrapes it.
func (s *Sim) run() {
	for _, v := range s.services {
		v.sim = s
		for range v.instances {
			pod := s.newPod(v, -warmUp)
			pod.created = -3600 * (3 + 60*s.rng.Float64())
			s.start(pod, -warmUp, 0)
		}
	}
	for second := -warmUp; second < int(s.end); second++ {
		t := float64(second)
		for i := 0; i < len(s.events); i++ { // an event may add others
			if e := &s.events[i]; !e.done && e.at <= t {
				e.done = true
				e.do()
			}
		}
		if second == 0 {
			s.age()
		}
		for _, v := range s.services {
			s.stepService(v, second)
		}
		if second >= 0 {
			s.scrapeAll(t)
		}
	}
}

// age gives processes and proxies the counters of their whole past, from those
// of the warm-up.
func (s *Sim) age() {
	for _, v := range s.services {
		for _, p := range v.procs {
			p.age(math.Round(-p.pod.created/warmUp), s.interval)
		}
		for _, x := range v.proxies {
			const hours = 40
			x.stats.scale(hours * 3600 / warmUp)
		}
	}
}

// age makes counters what they are after k warm-ups.
func (p *Process) age(k, interval float64) {
	p.stats.scale(k)
	p.poolWaitN = math.Round(p.poolWaitN * k)
	for _, h := range []*Histogram{&p.acquireTime, &p.useTime, &p.callTime[ok], &p.callTime[failed], &p.pod.liveness, &p.pod.readiness} {
		h.scale(k)
	}
	for _, total := range []*float64{
		&p.cpuTotal, &p.lockWaitTotal, &p.poolWaitTotal, &p.gcCycles, &p.gcSeconds,
		&p.pod.livenessN[ok], &p.pod.readinessN[ok], &p.pod.periods, &p.pod.throttled, &p.pod.throttledSeconds,
		&p.streamsEnded, &p.streamSeconds,
	} {
		*total *= k
	}
	p.streamsStarted = p.streamsEnded + p.streams
	p.scrapes = k * warmUp / interval
}

// stepService sends one second's requests to a service's processes, and kills
// and replaces those that are to be.
func (s *Sim) stepService(v *Service, second int) {
	t := float64(second)
	v.noise = 0.97*v.noise + 0.012*s.rng.NormFloat64()
	rate := v.rate(t) * math.Max(0.1, 1+v.noise)
	arrivals := s.balance(v, t, poisson(s.rng, rate))
	for _, p := range slices.Clone(v.procs) {
		p.step(second, arrivals[p])
		if p.killAt > 0 && t >= p.killAt && !p.dead {
			s.killAndReplace(p, t)
		}
	}
	for _, x := range v.proxies {
		x.cpu += 0.01 + 0.00025*rate/float64(len(v.proxies))*(0.9+0.2*s.rng.Float64())
	}
}

// balance spreads n requests over the processes that are ready.
func (s *Sim) balance(v *Service, t float64, n int) map[*Process]int {
	var ready []*Process
	total := 0.0
	for _, p := range v.procs {
		if !p.unavailable(t) {
			ready = append(ready, p)
			if v.weight != nil {
				total += v.weight(p, t)
			}
		}
	}
	arrivals := map[*Process]int{}
	for range n {
		switch {
		case len(ready) > 0 && v.weight == nil:
			arrivals[ready[s.rng.Intn(len(ready))]]++
		case len(ready) > 0:
			pick := s.rng.Float64() * total
			for _, p := range ready {
				if pick -= v.weight(p, t); pick <= 0 {
					arrivals[p]++
					break
				}
			}
		case len(v.proxies) > 0:
			v.proxies[s.rng.Intn(len(v.proxies))].refused(0, 0.001)
		}
	}
	return arrivals
}

// killAndReplace ends a process that failed its health checks or its memory
// limit, and starts another in its place or elsewhere.
func (s *Sim) killAndReplace(p *Process, t float64) {
	v, pod := p.svc, p.pod
	if s.firstKill == 0 {
		s.firstKill = t
	}
	reason := pod.lastReason
	if reason != oomKilled {
		reason = crashed
	}
	s.kill(p, t, reason)
	delay := v.restartDelay * (0.8 + 0.4*s.rng.Float64())
	if v.newAddress {
		s.remove(pod, t)
		begin := t + delay*0.5
		s.at(begin, func() { s.start(s.newPod(v, begin), begin, delay*0.5) })
		return
	}
	pod.restarts++
	begin := t + delay*0.4
	s.at(begin, func() {
		if pod.gone > t+delay {
			s.start(pod, begin, delay*0.6)
		}
	})
}
