package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand"
	"os"
	"path/filepath"
)

// scenario is a kind of case: build makes the services and what is wrong with
// them, and says by hand what is right to find.
type scenario struct {
	name    string
	dialect Dialect
	build   func(c *Case)
}

// Case is one scenario with its numbers drawn.
type Case struct {
	scenario
	options
	rng *rand.Rand
	sim *Sim
	svc *Service // the one that the case is about
	truth
	tale

	interval  float64 // of scrapes, seconds
	minutes   float64
	instances int
	dump      bool // written as promtool's dump
	kube      kubernetes
	proxies   *proxyKind
	blackbox  bool
	fault     float64 // when it begins; below 0 is never
	faultEnd  float64 // 0 is the end of the file
}

// options are for smaller files. A case that would not be itself any more takes
// more than they ask for.
type options struct {
	instances int     // at most
	minutes   float64 // at most
	interval  float64 // at least, seconds
	slim      bool
	draw      int64 // other numbers for the same scenario
}

// newCase draws the numbers that every case has. They depend on its name alone.
func newCase(sc scenario, opt options) *Case {
	h := fnv.New64a()
	h.Write([]byte(sc.name))
	rng := rand.New(rand.NewSource(int64(h.Sum64()>>1) + opt.draw))
	c := &Case{scenario: sc, options: opt, rng: rng, fault: -1}
	c.every(pick(c, 15.0, 15, 30, 30, 30, 60))
	c.lasts(c.whole(95, 150))
	c.tasks(c.whole(3, 9))
	c.dump = rng.Intn(5) < 2
	c.sim = &Sim{rng: rng, network: c.whole(20, 120)}
	const newYear = 1767225600 // 2026
	c.sim.epoch = newYear + math.Floor(rng.Float64()*150)*86400 + float64(c.whole(0, 40))*1800
	c.dialectTitle = sc.dialect.title()
	sc.build(c)
	return c
}

// The three sizes of a case are set before it makes its service.

func (c *Case) every(seconds float64) { c.interval = math.Max(seconds, c.options.interval) }

func (c *Case) lasts(minutes int) {
	c.minutes = float64(minutes)
	if c.options.minutes > 0 {
		c.minutes = math.Min(c.minutes, c.options.minutes)
	}
}

func (c *Case) tasks(n int) {
	c.instances = n
	if c.options.instances > 0 {
		c.instances = min(n, c.options.instances)
	}
}

func (c *Case) atLeast(n int) { c.instances = max(n, c.instances) }

func (c *Case) end() float64 { return c.minutes * 60 }

// between, whole and pick draw a number, a whole number and one of several values.

func (c *Case) between(a, b float64) float64 { return a + (b-a)*c.rng.Float64() }

func (c *Case) whole(a, b int) int { return a + c.rng.Intn(b-a+1) }

func (c *Case) even() bool { return c.rng.Intn(2) == 0 }

func pick[T any](c *Case, xs ...T) T { return xs[c.rng.Intn(len(xs))] }

// service makes the service that the case is about, healthy so far.
func (c *Case) service() *Service {
	c.sim.interval = c.interval
	v := &Service{
		job:       pick(c, "gateway", "orders", "profile", "search", "catalog", "billing", "media", "sessions", "checkout", "inventory"),
		namespace: pick(c, "prod", "shop", "core"),
	}
	c.setUp(v, c.dialect, c.instances)
	c.svc = v
	c.sim.services = append(c.sim.services, v)
	if c.dialect == golang && c.rng.Intn(5) == 0 {
		w := c.another("notifications", golang, 1)
		w.port = 9090
		w.rate = constant(2.5)
		c.neighbour = true
	}
	return v
}

// another adds a healthy job to the same file.
func (c *Case) another(job string, d Dialect, instances int) *Service {
	w := &Service{job: job, namespace: c.svc.namespace}
	c.setUp(w, d, instances)
	w.inFlightName = c.svc.inFlightName
	c.sim.services = append(c.sim.services, w)
	return w
}

// setUp gives a service sensible numbers for its dialect.
func (c *Case) setUp(v *Service, d Dialect, instances int) {
	v.dialect = d
	v.instances = instances
	v.port = 8080
	v.gomaxprocs = pick(c, 2, 2, 4)
	v.quota = float64(v.gomaxprocs)
	v.healthPeriod = 10
	v.healthTimeout = pick(c, 1.0, 2, 5)
	v.memoryBase = c.between(120e6, 420e6)
	v.memoryPerRequest = 40e3
	v.restartDelay = c.between(20, 40)
	v.errorRate = 0.0005
	v.slowDiscovery = c.rng.Intn(3) == 0
	perTask := c.between(22, 50)
	v.rate = constant(perTask * float64(instances))
	cpu := math.Min(0.02, c.between(0.12, 0.3)*v.quota/perTask)
	wait := c.between(0.008, 0.03)
	v.routes = []Route{
		{name: "/api/v1/designs", method: "GET", share: 0.75, cpu: cpu * 0.9, wait: wait, sigma: 0.6, lock: true, pool: true, dependency: true},
		{name: "/api/v1/export", method: "POST", share: 0.25, cpu: cpu * 1.3, wait: wait * 2, sigma: 0.7, lock: true, pool: true, dependency: true},
	}
	switch d {
	case golang:
		v.inFlightName = pick(c, "http_requests_in_flight", "in_flight_requests", "myapp_http_inflight_requests")
	case grpcGo:
		v.routes[0].name, v.routes[1].name = "GetItem", "ListItems"
	case otelPython, otlp, otlpDotted:
		v.port = 9464
		v.routes[0].name, v.routes[1].name = "/items/{id}", "/items"
		c.dump = c.dump || d != otelPython // only a database has pushed series
	case otelJava:
		v.port = 9464
		v.memoryBase *= 3
	case spring:
		v.memoryBase *= 3
		v.threads = 200
		v.maxInFlight = 300 // acceptCount is 100
		v.ownHealthPort = true
		v.routes[0].name, v.routes[1].name = "/api/items/{id}", "/api/items"
	case nodeJS:
		v.gomaxprocs, v.quota = 1, 1
		v.routes[0].cpu = math.Min(v.routes[0].cpu, 0.22/perTask)
		v.routes[1].cpu = math.Min(v.routes[1].cpu, 0.3/perTask)
	}
}

// addKube scrapes the cluster as well.
func (c *Case) addKube(k kubernetes) {
	c.kube = k
	c.sim.addKube(c.svc, k)
	if k.cadvisor {
		c.dialectTitle += " + cAdvisor"
	}
	if k.stateMetrics {
		c.dialectTitle += " + kube-state-metrics"
	}
	if k.probes {
		c.dialectTitle += " + kubelet probes"
	}
}

// perTask is the requests per second of each of the service's tasks at first.
func (c *Case) perTask() float64 { return c.svc.rate(0) / float64(c.svc.instances) }

func (c *Case) setRate(perTask float64) { c.svc.rate = constant(perTask * float64(c.svc.instances)) }

func (c *Case) setCPU(first, second float64) {
	c.svc.routes[0].cpu, c.svc.routes[1].cpu = first, second
}

// faultFor puts the fault after 45 minutes at least, so that there is a usual
// level to compare with.
func (c *Case) faultFor(minutes float64) (from, to float64) {
	from = math.Max(45*60, math.Floor(c.between(0.48, 0.62)*c.minutes)*60)
	from += math.Floor(c.between(0, 50))
	to = math.Min(from+minutes*60, c.end()-6*60)
	c.fault, c.faultEnd = from, to
	return from, to
}

// run simulates the case and writes its files to a folder of its name.
func (c *Case) run(out string) error {
	s := c.sim
	s.end = c.end()
	s.store = newStore(c.dump, c.slim)
	s.run()
	dir := filepath.Join(out, c.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.store.write(filepath.Join(dir, "series.om.gz")); err != nil {
		return err
	}
	for name, text := range map[string]string{"truth.txt": c.truthText(), "story.md": c.storyText()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}
