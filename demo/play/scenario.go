// Package play puts the parts of the demo together and plays one scenario:
// clients, a CDN, a balancer, tasks in processes of their own, a fleet manager
// that replaces them, and a fault that sets in at a known moment.
package play

import (
	"context"
	"time"

	"github.com/contend/contend/demo/balancer"
	"github.com/contend/contend/demo/canary"
	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
)

// ClockFactor is how many times faster than the clock on the wall the demo
// runs: a minute of the incident is a second here.
const ClockFactor = 60

// ClientTimeout is how long clients wait: twelve scrapes.
const ClientTimeout = 3 * time.Second

// Scenario is one fault, or none, with the traffic it meets. It is data; what
// happens at a step is done on the Stage.
type Scenario struct {
	Name   string
	Fault  string        // one line, for people
	Length time.Duration // from the first request to the end

	Gateway  gateway.Config  // of every task; the name and the real upstream's URL are filled in
	Fleet    fleet.Config    // what is not about this run: sizes, limits, probes
	Balancer balancer.Config // zero is the balancer that makes things worse
	Load     []load.Phase
	Attempts int // of a client in all; 0 is 1
	Streams  int // long-lived connections that are open from the start

	Asset     time.Duration   // how long the CDN's fetch of the new asset takes; 0: there is no new asset
	Visitors  load.Visitors   // who open the page that needs the asset, from the step that releases it
	Reloads   float64         // visitors a second in place of the step's while the page hangs: people reload it
	EdgeLimit float64         // requests per second that the edge lets pass of all traffic; of restored traffic its share; 0: no limit
	Canary    *canary.Rule    // judges the release; nil: nobody does
	Upstream  bool            // tasks call a real upstream instead of a timer
	Profiles  []time.Duration // moments at which profiles are taken, ascending; none: series only
	Glances   []time.Duration // moments at which the first task's goroutine profile alone is taken, ascending
	Steps     []Step          // ascending in At

	Against string // the scenario that the outcome is compared with; "": with none
	Helps   bool   // whether usual traffic is to be served sooner than in that one
}

// Step is a moment at which something happens.
type Step struct {
	At    time.Duration
	Phase string                              // what goes on from here, for people; "": as before
	Clock string                              // the moment of the incident that it stands for, "08:47"; "" in others
	Onset bool                                // the fault sets in here: detection is timed from it
	Do    func(context.Context, *Stage) error // nil: nothing
}

// Target is a process or a part that is scraped as a server would, with the
// labels that service discovery gives it.
type Target struct {
	Job, Instance string
	Labels        map[string]string
	Metrics       string // URL
	PProf         string // URL of its /debug/pprof; "" for a part without profiles
}

// Recorder keeps a record of a run. Its methods are called from several goroutines.
type Recorder interface {
	Add(Target) error
	Remove(instance string)
	// Profiles takes profiles of all targets now; with dump also one text dump.
	Profiles(ctx context.Context, dump bool)
	// Glance takes the goroutine profile of one target now.
	Glance(ctx context.Context, instance string)
	// Event notes a moment, by one of the names below.
	Event(at time.Time, name, text string)
	// Late is why the record is not of the moments it says, "" where it is: the
	// recorder had no CPU.
	Late() string
	// Finish ends the record before its targets end. partial says why it stops
	// early; "" is a whole one.
	Finish(partial string) error
}

// State is what there is to see while a scenario is played.
type State struct {
	Elapsed, Of             time.Duration
	Phase, Clock            string
	Offered, Served, Failed float64 // API calls per second, over the last second
	InFlight                int     // calls that clients wait for
	Waiting                 int     // clients that wait for the asset
	Cores                   float64 // busy in all tasks together
	Tasks, Ready, Kills     int
	Health                  time.Duration // the slowest of the latest health checks
	HealthFailing           int           // tasks whose latest check failed
}

// Outcome is what became of a run.
type Outcome struct {
	Load         load.Report
	Kills        int       // tasks killed by health checks or for their memory
	Onset        time.Time // when the fault set in; zero where none does
	FirstTimeout time.Time // of a client's request after the onset; zero where there was none
	FirstFailure time.Time // of a client's call, with all its attempts, after the onset; zero where there was none
	FirstKill    time.Time
	// Recover is how long after the onset at least the usual traffic was served
	// again, and no task killed any more; nil where it was not before the end.
	Recover *time.Duration
	// Starved is why the run shows the machine and not the fault; "" where it
	// is valid.
	Starved string
}

// Names of events.
const (
	EventOnset        = "onset"         // the fault sets in
	EventBegin        = "begin"         // the first thing is done of what leads to it; what is found before is a false alarm
	EventPhase        = "phase"         // the text is what goes on from here
	EventFirstTimeout = "first_timeout" // of a client's request, after the onset
	EventFirstFailure = "first_failure" // of a client's call with all its attempts, after the onset: refused, cut off or timed out
	EventFirstKill    = "first_kill"    // of a task
	EventCanary       = "canary"        // the text is its judgement
	EventUnrecorded   = "unrecorded"    // a task that could not be added to the record
	EventOutcome      = "outcome"       // the text is a Result, as JSON
)

// Result is an Outcome in short, as it is kept with a record.
type Result struct {
	Served  int            `json:"served"` // calls
	Failed  int            `json:"failed"` // calls, those that timed out among them
	Kills   int            `json:"kills"`  // tasks
	Recover *time.Duration `json:"recover_ns,omitempty"`
	Starved string         `json:"starved,omitempty"` // why the run says nothing
}
