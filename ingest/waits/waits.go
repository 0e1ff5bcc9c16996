// Package waits reads block and mutex profiles: time spent waiting, by the
// stack that waited (block) or that made others wait (mutex).
package waits

import (
	"time"

	"github.com/contend/contend/ingest/stacks"
)

// Kind is the kind of a contention profile. The two have the same sample
// types; only their leaf frames tell them apart.
type Kind string

const (
	Block Kind = "block" // charged to the goroutine that waited
	Mutex Kind = "mutex" // charged to the goroutine that released the lock
)

// Profile is waiting time by stack. Values are as the runtime wrote them:
// already scaled for sampling.
type Profile struct {
	Name     string
	Kind     Kind
	Process  stacks.Process
	Taken    time.Time     // zero where the input does not say
	Window   time.Duration // the time the values were gathered over; 0 when cumulative since the process began
	From     string        // name of the earlier profile, where this is a difference
	Sites    []Site        // longest delay first
	Dropped  int           // sites left out of a difference because they were negative
	Warnings []string
}

// Site is one stack of a contention profile.
type Site struct {
	Frames      []*stacks.Frame // leaf first
	Contentions int64           // events; an estimate, scaled by the runtime
	Delay       time.Duration   // summed over goroutines, so it can exceed the window
	Wait        stacks.Wait
}

// Concurrency is how many goroutines waited in s on average over p's window
// (delay divided by elapsed time, by Little's law). It is 0 for a cumulative
// profile, whose window is not known.
func (p *Profile) Concurrency(s *Site) float64 {
	if p.Window <= 0 {
		return 0
	}
	return s.Delay.Seconds() / p.Window.Seconds()
}
