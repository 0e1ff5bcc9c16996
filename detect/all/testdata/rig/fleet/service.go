package main

import "math/rand"

// Route is one kind of request that a service answers.
type Route struct {
	name, method           string
	share                  float64 // of the service's requests
	cpu                    float64 // mean, seconds
	wait                   float64 // mean of what it waits in any case, seconds
	sigma                  float64 // of that wait, which is log-normal
	lock, pool, dependency bool    // what it takes on its way
}

// Service is a job with its instances: how it works, what is wrong with it and
// what it exports.
type Service struct {
	job, namespace string
	instances      int // at the start
	port           int
	routes         []Route
	rate           curve                               // requests/s of all instances
	weight         func(p *Process, t float64) float64 // of the balancer; nil is even
	errorRate      float64

	// CPU
	gomaxprocs int
	quota      float64 // cores that it may use
	limitCores float64 // what Kubernetes says of it; 0 is nothing
	cpuFactor  procCurve
	extraCPU   curve // cores that are not for requests

	// Waiting
	lockHold     procCurve // seconds; nil or 0 is no lock, +Inf is never released
	lockCPU      float64   // the part of the hold that is CPU
	poolSize     int
	poolHold     curve
	poolTimeout  float64   // 0 is none
	poolLeak     procCurve // the chance that a connection is not given back
	dependency   procCurve // latency
	callHangs    curve     // the chance that a call is never answered
	callTimeout  float64   // 0 is none
	hang         func(t float64, route int, p *Process) float64
	waitFactor   procCurve
	threads      int // of a thread pool; 0 is a thread, or goroutine, for each request
	maxInFlight  int // more are refused; 0 is no limit
	slowByDesign bool

	// Health checks and what follows of them
	healthLock    bool // they take the lock too
	healthExtra   curve
	healthPeriod  float64
	healthTimeout float64
	healthFails   int     // so many in a row and the task is killed; 0 is never
	restartDelay  float64 // seconds
	newAddress    bool    // a killed task is replaced under a new address
	coldFactor    float64 // CPU of a request in a process' first two minutes; 0 is the usual

	// Memory, bytes
	memoryBase       float64
	memoryPerRequest float64
	memoryLimit      float64 // 0 is none
	memoryLeak       procCurve

	// Connections that stay open: streams or websockets
	streams    curve // opened per second and process
	streamLife float64

	// What it exports
	dialect        Dialect
	inFlightName   string
	mutexMetric    bool
	hasSQL         bool
	hikari         bool
	poolName       string
	hasClient      bool // metrics of its calls
	clientGauge    bool // of calls in flight
	taskHistogram  bool // Micrometer's long task timer is a gauge histogram
	lazyCodes      bool // gRPC's counters by code appear with the first of a code
	podLabels      bool
	ownHealthPort  bool // checks are not among the requests that are counted
	metricsLock    bool // /metrics takes the lock too
	slowDiscovery  bool // a target that is gone is scraped for a while
	gaugeError     procCurve
	startTimeDrift procCurve

	// State
	sim             *Sim
	proxies         []*Proxy // in front of it
	pods            []*Pod   // all that ever were
	procs           []*Process
	noise           float64 // of the rate, which drifts slowly
	serial, release int     // of pods, and of deploys
}

// Pod is a place for a process, with an address. Its process may be started again.
type Pod struct {
	svc                       *Service
	replicaSet, name, address string
	index, node               int
	target                    *Target
	proc                      *Process // nil or dead between two
	restarts, oomKills        float64
	created, gone             float64
	lastReason                string // why its last process ended, in Kubernetes' words

	liveness, readiness   Histogram // the kubelet's, of successes alone
	livenessN, readinessN [outcomes]float64

	// Of the CPU quota since the process began
	periods, throttled, throttledSeconds float64
}

// Request is one that is being served, with when it will end.
type Request struct {
	arrived, served, done float64 // served: a thread took it
	route, outcome        uint8
	proxy                 int8    // which proxy it came through; noProxy
	call                  float32 // latency of its call to the dependency; below 0 is none
	callFailed            bool
}

const noProxy = -1

// Process is one life of an instance.
type Process struct {
	svc       *Service
	pod       *Pod
	rng       *rand.Rand
	begun     float64
	base      int     // the second in which it began: index 0 of its tallies
	ready     float64 // when the balancer takes it
	draining  bool
	dead      bool
	stats     *Stats
	health    int // route index of the health check
	ends      map[int][]Request
	hung      []Request
	inFlight  int
	nextCheck float64
	lastCheck float64 // seconds that the last health check took
	failures  int     // in a row
	killAt    float64

	// When what is taken one after another is free again
	cpuFree, lockFree float64
	pool, thread      permits

	// What is still to be credited, by second
	cpuUse, lockWait, lockQueue, poolWait, poolWaits, poolUse, poolQueue, poolTimeouts, calls tally

	// What has been credited
	cpuTotal, cpuRecent                                     float64
	lockWaitTotal, lockQueued                               float64
	poolWaitTotal, poolWaitN, poolUsed, poolQueued, poolOut float64
	acquires                                                map[int][]acquire
	acquireTime, useTime                                    Histogram
	callsNow                                                float64
	callTime                                                [outcomes]Histogram
	gcCycles, gcSeconds                                     float64
	streams, streamsStarted, streamsEnded, streamSeconds    float64
	memory                                                  float64
	scrapes                                                 float64

	memoryFactor, background, jitter float64 // its own constants
}

// acquire is a connection taken from a HikariCP pool: both are timed by it.
type acquire struct{ wait, hold float64 }

// Proxy is in front of a service and counts what passes.
type Proxy struct {
	name        string
	stats       *Stats
	rng         *rand.Rand
	cpu         float64
	connections float64 // idle ones, that clients keep open

	// HAProxy's moving average of the response time
	average, averagedN, averagedSum float64
}
