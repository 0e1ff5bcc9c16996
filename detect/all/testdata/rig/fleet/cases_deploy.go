package main

import (
	"fmt"
	"math"
)

// Deploys, scaling, lost scrapes and clocks: what changes the series of a healthy
// service.

// deploy is how a release replaces tasks one by one.
type deploy struct {
	newAddress bool // else in place
	cold       bool // new tasks are slower for two minutes
	kube       bool
}

func rolling(d deploy) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		v.mutexMetric = c.dialect == golang && c.even()
		if d.newAddress {
			c.dump = c.dump || c.even()
		}
		gap := c.between(25, 60)
		at := c.between(0.45, 0.55) * c.end()
		c.deployAt(at, gap, d.newAddress)
		again, how := "", "in place"
		if !d.cold && c.even() {
			c.deployAt(at+2200, gap, d.newAddress)
			again = ", and again 37 minutes later"
		}
		if d.newAddress {
			how = "under new addresses"
		}
		if d.cold {
			v.coldFactor = 1.25
			v.waitFactor = func(t float64, p *Process) float64 {
				if p.begun > 0 && t-p.begun < 120 {
					return 1.5
				}
				return 1
			}
			c.story = "New tasks have cold caches: for two minutes requests take 1.5 times as long. "
		}
		c.story += fmt.Sprintf("%d tasks, a rolling deploy %s at minute %.0f, one task every %.0f s%s.", v.instances, how, at/60, gap, again)
		c.silent("rolling deploy "+how, "every task is replaced once: that is a deploy, not a spiral")
		if d.kube {
			v.podLabels = true
			v.memoryLimit = v.memoryBase * 1.7
			v.limitCores = v.quota
			c.addKube(kubernetes{cadvisor: true, stateMetrics: true, probes: true})
		}
	}
}

// deployAt replaces the tasks that live at a time, one every gap seconds.
func (c *Case) deployAt(at, gap float64, newAddress bool) {
	s, v := c.sim, c.svc
	s.at(at, func() {
		v.release++
		replaced := 0
		for _, pod := range v.pods {
			if !math.IsInf(pod.gone, 1) {
				continue
			}
			t := at + float64(replaced)*gap
			replaced++
			drain := func() {
				if pod.proc != nil {
					pod.proc.draining = true
				}
			}
			if newAddress {
				s.at(t, func() { s.start(s.newPod(v, t), t, 15) })
				s.at(t+17, drain)
				s.at(t+30, func() { s.remove(pod, t+30) })
				continue
			}
			s.at(t, drain)
			s.at(t+8, func() {
				if pod.proc != nil {
					s.kill(pod.proc, t+8, completed)
				}
			})
			s.at(t+12, func() { s.start(pod, t+12, 8) })
		}
	})
}

// autoscale doubles the tasks one by one, and takes them back.
func autoscale(c *Case) {
	c.lasts(c.whole(130, 165))
	c.atLeast(4)
	v := c.service()
	base, end := v.rate(0), c.end()
	v.rate = func(t float64) float64 {
		wave := math.Sin(math.Pi * math.Max(0, t/end))
		return base * (1 + 1.1*wave*wave)
	}
	s := c.sim
	var added []*Pod
	for i := range v.instances {
		part := float64(i) / float64(v.instances)
		out := end * (0.22 + 0.26*part)
		s.at(out, func() {
			pod := s.newPod(v, out)
			s.start(pod, out, 20)
			added = append(added, pod)
		})
		in := end * (0.62 + 0.26*part)
		s.at(in, func() {
			if len(added) == 0 {
				return
			}
			pod := added[0]
			added = added[1:]
			if pod.proc != nil {
				pod.proc.draining = true
			}
			s.at(in+12, func() { s.remove(pod, in+12) })
		})
	}
	c.story = fmt.Sprintf("Traffic doubles and falls back; an autoscaler goes from %d to %d tasks one by one and back.", v.instances, 2*v.instances)
	c.silent("scale out and in", "tasks come and go under new addresses without a fault")
}

// everyThirdLost loses every third sample of every target.
func everyThirdLost(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang
	seen := map[*Target]int{}
	c.sim.lost = func(tg *Target, _ float64) bool {
		seen[tg]++
		return seen[tg]%3 == 0
	}
	c.story = fmt.Sprintf("%d tasks, nothing happens; every third sample of every target is missing (remote write loses batches).", v.instances)
	c.silent("every third scrape lost", "gaps in counters and gauges")
}

func prometheusRestart(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang
	from := c.between(0.45, 0.55) * c.end()
	to := from + c.between(160, 420)
	c.sim.lost = func(_ *Target, t float64) bool { return t >= from && t < to }
	c.story = fmt.Sprintf("%d tasks, nothing happens; Prometheus restarts at minute %.0f and misses %.0f s.", v.instances, from/60, to-from)
	c.silent("a gap for all targets", "after the gap counters jump by several intervals")
}

func flakyScrapes(c *Case) {
	c.dump = true
	v := c.service()
	v.mutexMetric = true
	c.sim.at(-1, func() { // when all targets are there
		for _, tg := range c.sim.targets {
			export := tg.export
			tg.export = func(e *Page) (bool, float64) {
				success, seconds := export(e)
				if c.rng.Intn(8) == 0 {
					return false, 10.0004
				}
				return success, seconds
			}
		}
	})
	c.story = fmt.Sprintf("%d tasks, nothing happens; one scrape in eight fails (a flaky network path): up is 0, series get stale markers.", v.instances)
	c.silent("flaky scrapes", "up flaps; nothing restarts")
}

// clockStep moves the start times that are computed from the clock.
func clockStep(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang
	at := c.between(0.45, 0.6) * c.end()
	step := c.between(20, 90)
	v.startTimeDrift = func(t float64, _ *Process) float64 {
		switch {
		case t > at+1500:
			return step * 0.3
		case t > at:
			return step
		}
		return 0
	}
	c.story = fmt.Sprintf("%d tasks; at minute %.0f the nodes' clocks are stepped by %.0f s, and back in part 25 minutes later: process_start_time_seconds moves (boot time plus ticks), no process restarts, no counter resets.", v.instances, at/60, step)
	c.silent("clock step", "changes(process_start_time_seconds) is 2 on every task within half an hour")
}
