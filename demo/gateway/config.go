package gateway

import (
	"fmt"
	"time"

	"github.com/contend/contend/demo/telemetry"
)

// Config is what a task is built with. It travels as JSON; durations are nanoseconds.
type Config struct {
	Name        string           // of the task, such as "gateway-3"
	Telemetry   telemetry.Config // the layer on the request path, faulty or fixed
	Loops       int              // event loops that share all connections; 0: a goroutine for each request
	HealthApart bool             // /healthz and /readyz stand apart from requests: no telemetry, admission or loop; on the admin listener too
	Admission   int              // most API calls in progress; any more are answered 503 at once; 0: no limit
	Pool        int              // connections of the database pool; 0: no database is asked
	Upstream    string           // URL of a real upstream; "": a timer stands for it
	Hold        int              // bytes held, and touched, for each request in progress and each open connection, as buffers are
	Pyroscope   string           // URL of a Pyroscope server that the process pushes its profiles to; "": none
	Lock        Lock             // of the store, which each API call takes
	Streams     bool             // serve /stream: server-sent events on long-lived connections
	Faults      Faults           // in force from the start
}

// Faults are what may change while a task runs. Zero values take the defaults.
// It travels as JSON; durations are nanoseconds.
type Faults struct {
	UpstreamTime time.Duration // how long the timer that stands for an upstream takes; default 3 ms
	CPU          time.Duration // computed for each request
	Garbage      int           // bytes allocated and dropped for each request
	CacheHold    time.Duration // how long each request keeps the application's cache locked, asleep; 0: a map look-up
	Query        time.Duration // how long each database query takes; default 2 ms
	HealthDelay  time.Duration // what the health handler alone waits
	Leak         bool          // every tenth request leaves a goroutine parked at a channel for good
	Deadlock     bool          // two requests take two locks in opposite order; all later ones wait behind them
	Grow         int           // bytes kept for good, per second
	Wedged       bool          // requests block on a lock that its holder keeps
	ScrapeTime   time.Duration // what /metrics waits before it answers
}

// Defaults of Faults.
const (
	defaultUpstreamTime = 3 * time.Millisecond
	defaultQuery        = 2 * time.Millisecond
)

func (c Config) check() error {
	if c.Loops < 0 || c.Admission < 0 || c.Pool < 0 || c.Hold < 0 {
		return fmt.Errorf("expected loops, admission, pool and hold of 0 or more, saw %d, %d, %d and %d", c.Loops, c.Admission, c.Pool, c.Hold)
	}
	if err := c.Lock.check(); err != nil {
		return err
	}
	return c.Faults.check()
}

func (f Faults) check() error {
	if f.UpstreamTime < 0 || f.CPU < 0 || f.CacheHold < 0 || f.Query < 0 || f.HealthDelay < 0 || f.ScrapeTime < 0 || f.Garbage < 0 || f.Grow < 0 {
		return fmt.Errorf("expected faults of 0 or more, saw %+v", f)
	}
	return nil
}
