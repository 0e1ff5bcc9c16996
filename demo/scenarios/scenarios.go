// Package scenarios lists what the demo can play: each fault on purpose, what
// looks like one and is none, and the incident with each of its fixes.
//
// What must and may be found in each is in NAME/truth.txt, written by hand from
// the fault that is injected; NAME/bundle is a recorded run.
package scenarios

import (
	"embed"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/telemetry"
)

// Files has NAME/truth.txt of every scenario, and NAME/bundle of those that a
// recorded run is kept of.
//
//go:embed */truth.txt all:*/bundle
var Files embed.FS

// Truth is the text of a scenario's truth.txt.
func Truth(name string) ([]byte, error) { return fs.ReadFile(Files, name+"/truth.txt") }

// All are the scenarios in the order they are shown: faults, what must stay
// silent, the incident, its fixes, and what must not help.
func All() []play.Scenario {
	return slices.Concat(faults(), silent(), incidents())
}

const (
	second = time.Second
	ms     = time.Millisecond

	// peak is the usual traffic, requests a second: the incident's at 1:1000.
	peak = 500
	// Four tasks at peak keep a lock of this holding time busy for five eighths of
	// the time. Behind a balancer that takes turns hardly anybody waits then, and
	// three times the traffic is twice what the lock serves.
	hold = 5 * ms

	// warm is how long a scenario runs before its fault: a baseline takes ten
	// minutes of history, older than six, and a window, at the demo's pace 17 s.
	warm = 18 * second
)

// ordinary is the healthy fleet that all others are made from: four tasks that
// record their metrics as they should, under the usual traffic.
func ordinary(name, fault string, length time.Duration) play.Scenario {
	return play.Scenario{
		Name: name, Fault: fault, Length: length,
		Gateway: gateway.Config{Telemetry: telemetry.Config{Kind: telemetry.KindMetrics}},
		Fleet: fleet.Config{
			Tasks: 4, Threads: 2,
			// Every 15 s at the demo's pace. Nobody is killed by it but where a
			// scenario says so: a fault is to be seen, not restarted away.
			Health: fleet.Probe{Path: "/healthz", Every: 250 * ms, Timeout: second, Failures: math.MaxInt},
		},
		Load:     load.Constant(peak, length),
		Profiles: moments(length),
		Steps:    []play.Step{{Phase: "usual traffic"}},
	}
}

// moments are one before the fault, two early in it, and one at the end.
// Profiles of several tasks within two seconds count as one round.
func moments(length time.Duration) []time.Duration {
	return []time.Duration{warm - 2*second, warm + 2500*ms, warm + 5*second, length - 300*ms}
}
