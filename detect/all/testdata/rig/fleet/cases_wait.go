package main

import "fmt"

// Pools, dependencies and requests that never end.

// hasSQL gives a Go service a database/sql pool.
func (c *Case) hasSQL(v *Service) {
	c.dialectTitle = "client_golang + database/sql"
	v.hasSQL = true
	v.poolName = "main"
}

// sqlPool is a Go service with a pool of few connections.
func (c *Case) sqlPool() *Service {
	v := c.service()
	v.mutexMetric = c.rng.Intn(3) > 0
	c.hasSQL(v)
	v.poolSize = c.whole(4, 12)
	v.poolTimeout = pick(c, 5.0, 10, 15)
	return v
}

// blamesPool is the truth of all pools that are empty.
func (c *Case) blamesPool() {
	c.wants("poolwait", "requests queue for connections")
	c.wants("inflightcpu", "in flight rises over the usual CPU")
	c.allows(sameQueue, "hungrequests")
	c.allows("queries are the dependency's time too", "downstream")
	c.verdict("poolwait")
}

// slowQueries need more connections than the pool has.
func slowQueries(c *Case) {
	v := c.sqlPool()
	rate, size := c.perTask(), float64(v.poolSize)
	usual := c.between(0.28, 0.45) * size / rate
	from, to := c.faultFor(c.between(16, 28))
	slow := c.between(1.12, 1.5) * size / rate
	v.poolHold = during(from, to, 60, usual, slow)
	c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, a pool of %d connections each. Query time goes from %.0f to %.0f ms; the pool serves fewer queries than arrive. Waits have a deadline of %.0f s.", v.instances, rate, v.poolSize, usual*1e3, slow*1e3, v.poolTimeout)
	c.why = "queries take longer, a few permits per task serve fewer than arrive"
	c.traps = "the same in-flight-without-CPU signature as a lock"
	if v.mutexMetric {
		c.traps += "; mutex wait is exported and flat"
	}
	c.blamesPool()
}

// smallPool does not do for grown traffic.
func smallPool(c *Case) {
	v := c.sqlPool()
	rate := c.perTask()
	from, to := c.faultFor(c.between(16, 28))
	hold := 0.72 * float64(v.poolSize) / rate
	factor := c.between(1.5, 1.7)
	all := rate * float64(v.instances)
	v.rate = during(from, to, 600, all, all*factor)
	v.poolHold = constant(hold)
	c.story = fmt.Sprintf("%d tasks, a pool of %d connections each at 72 %% of its capacity. Traffic grows %.1f-fold within ten minutes; query time (%.0f ms) does not change.", v.instances, v.poolSize, factor, hold*1e3)
	c.why = "the pool is too small for the traffic"
	c.traps = "the same in-flight-without-CPU signature as a lock"
	c.blamesPool()
}

// hasHikari gives a Java service a pool of ten.
func (c *Case) hasHikari(v *Service) {
	v.hikari = true
	v.poolName = "HikariPool-1"
	v.poolSize = 10
	v.poolTimeout = 30
	c.dialectTitle += " + HikariCP"
}

// hikari empties a HikariCP pool: by queries that are slow, or by connections
// that are not given back.
func hikari(leak bool) func(c *Case) {
	return func(c *Case) {
		v := c.service()
		c.hasHikari(v)
		rate := c.between(14, 24)
		c.setRate(rate)
		size := float64(v.poolSize)
		usual := c.between(0.2, 0.35) * size / rate
		from, to := c.faultFor(c.between(16, 26))
		c.blamesPool()
		if leak {
			v.poolHold = constant(usual)
			v.poolLeak = everyProc(during(from, to, 0, 0, 0.02))
			c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, HikariCP of 10 with a connection timeout of 30 s. After a release one error path in fifty does not return its connection: within a minute or two of traffic all ten are gone and stay gone. Every request waits 30 s and fails with 500.", v.instances, rate)
			c.why = "connection leak: the pool is empty for good"
			c.traps = "the acquire timer stands still (nobody acquires); only pending and timeouts move; CPU falls"
			c.faultEnd = 0
			return
		}
		slow := c.between(1.15, 1.5) * size / rate
		v.poolHold = during(from, to, 60, usual, slow)
		c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, HikariCP of 10. Queries go from %.0f to %.0f ms: demand on the pool is %.2f.", v.instances, rate, usual*1e3, slow*1e3, slow*rate/size)
		c.why = "slow queries exhaust the pool"
		c.traps = "threads fill too"
	}
}

// hasClient gives a service a dependency, and metrics of the calls to it.
func (c *Case) hasClient(v *Service) {
	v.hasClient = true
	c.dialectTitle += " with an HTTP client histogram"
	if c.dialect == spring {
		v.threads = 400
		v.maxInFlight = 500
	}
}

// caller is a service with a dependency and one of the forms of a client's metrics.
func (c *Case) caller() *Service {
	v := c.service()
	c.hasClient(v)
	v.clientGauge = !c.even()
	v.taskHistogram = v.clientGauge
	v.mutexMetric = c.dialect == golang && c.even()
	return v
}

func slowDependency(c *Case) {
	v := c.caller()
	from, to := c.faultFor(c.between(14, 26))
	usual := c.between(0.025, 0.06)
	rate := c.perTask()
	bad := c.between(1.2, 3)
	v.dependency = everyProc(during(from, to, 40, usual, bad))
	v.callTimeout = 10
	c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, each calls a pricing service: %.0f ms, then %.1f s.", v.instances, rate, usual*1e3, bad)
	c.why = "a dependency became slow"
	c.traps = "the signature of a lock, but the client's histogram tells where the time goes"
	c.wants("downstream", "calls take seconds instead of milliseconds")
	c.wants("inflightcpu", "in flight rises over the usual CPU")
	c.allows(sameQueue, "hungrequests")
	c.verdict("downstream")
}

func hungDependency(c *Case) {
	v := c.caller()
	from, _ := c.faultFor(c.between(14, 26))
	usual := c.between(0.025, 0.06)
	rate := c.perTask()
	v.dependency = everyProc(constant(usual))
	v.callHangs = during(from, c.end()+100, 1, 0, 1)
	v.routes[1].dependency = c.even()
	v.maxInFlight = c.whole(5000, 9000)
	if c.dialect == otelPython {
		v.maxInFlight = c.whole(500, 1500)
	}
	c.faultEnd = 0
	c.story = fmt.Sprintf("%d tasks, %.0f requests/s each, each calls a pricing service (%.0f ms). From the fault on it accepts connections and never answers; the client has no timeout. Requests pile up to the limit of %d per task.", v.instances, rate, usual*1e3, v.maxInFlight)
	c.why = "a hung dependency without a timeout"
	c.traps = "the client's histogram goes silent: no slow call is ever seen, since none ends; with the limit reached every rate can be zero"
	c.wants("inflightcpu", "thousands in flight over the usual CPU")
	if c.dialect == otelPython {
		c.allows("the limit is reached within a minute", "hungrequests")
	} else {
		c.wants("hungrequests", "what is started does not end, and nothing fails")
	}
	c.allows("calls begin and do not end", "downstream")
	c.verdict(none, "downstream")
}

// hungRoute has the requests of one route wait for ever.
func hungRoute(c *Case) {
	v := c.service()
	v.mutexMetric = c.dialect == golang && c.even()
	panel := Route{name: "/api/v1/panel", method: "GET", cpu: v.routes[0].cpu, wait: v.routes[0].wait, sigma: 0.6}
	if c.dialect == grpcGo {
		panel.name = "RenderPanel"
		v.lazyCodes = true
	}
	panel.share = c.between(0.1, 0.2)
	v.routes[0].share, v.routes[1].share = 0.8-panel.share, 0.2
	v.routes = append(v.routes, panel)
	from, to := c.faultFor(c.between(18, 24))
	v.hang = func(t float64, route int, _ *Process) float64 {
		if route == 2 && t >= from && t < to {
			return 1
		}
		return 0
	}
	if c.dialect == spring {
		c.onNetty(v)
		v.taskHistogram = !c.even()
	}
	c.story = fmt.Sprintf("%d tasks, %.0f requests/s each. From the fault on requests for one route (%.0f %% of traffic) wait for ever for a result that does not come. Nothing fails; other routes are fine. Clients wait too.", v.instances, c.perTask(), panel.share*100)
	c.why = "started minus completed grows, errors stay flat"
	c.traps = "latency histograms get better if anything: what hangs is never observed"
	c.wants("hungrequests", "started minus completed grows without end, and nothing fails")
	c.allows("what hangs is in flight without CPU", "inflightcpu")
	c.verdict(none)
}

// onNetty gives a Spring service no threads to run out of.
func (c *Case) onNetty(v *Service) {
	v.threads, v.maxInFlight = 0, 0
	c.dialectTitle = "Micrometer/Spring on Netty (long task timer)"
}
