// Package ingest reads what contend looks at (files, directories, URLs) into
// one Bundle, the only input of the analysis.
package ingest

import (
	"cmp"
	"slices"
	"time"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// Bundle is everything contend was given in one call.
type Bundle struct {
	Snapshots []*stacks.Snapshot
	Waits     []*waits.Profile // as read: cumulative ones not yet subtracted
	Samples   *memory.Store    // series as they were read from files; nil where there are none
	Read      []Samples        // which of them
	Events    []Event          // what happened meanwhile, as the bundle's list says, in the order of time
	Target    string           // URL of the process whose bundle it is; "" where it does not say
	Warnings  []string         // what whoever reads the report must know of the inputs
	// ClockFactor is how much faster than the clock on the wall the scenario of
	// the bundle ran; 0 where it does not say.
	ClockFactor float64
	// Series are the signals found in Samples or on a server: see ReadSeries.
	Series *series.Canonical
	// NoSeries is why there are no Series where there should be some.
	NoSeries string
	Failures []Failure // named inputs that could not be read
	Unused   []Unused  // inputs seen and understood, but of no use here

	// Origin maps the name of an input to the folder or URL it came from, which
	// tells that it is from the process of its neighbours there. Inputs given
	// as files of their own are not in it.
	Origin map[string]string

	// Instances maps the name of an input to whose it is, where the list of a
	// bundle says so.
	Instances map[string]Instance

	// folders maps a folder to whose all inputs in it are, where the list of its bundle says so.
	folders map[string]Instance
	scrapes []*scrape // until it is known whose they are
}

// Event is something that happened while a bundle was taken.
type Event struct {
	At   time.Time
	Name string // such as onset, phase, first_timeout, first_kill or outcome
	Text string
}

// Instance is a process by its labels in series.
type Instance struct {
	Bundle    string // the directory: another has others of that name
	Job, Name string
}

// Failure is an input that could not be read, or not to its end: then the
// bundle has what came before too. Err says what was expected, what was seen
// and what to try.
type Failure struct {
	Name string
	Err  error
}

// Unused is an input that was passed over, and why.
type Unused struct {
	Name, Reason string
}

// Add appends what another bundle has, in its order, but for series: those are
// read once, for the whole.
func (b *Bundle) Add(o *Bundle) {
	b.Snapshots = append(b.Snapshots, o.Snapshots...)
	b.Waits = append(b.Waits, o.Waits...)
	b.Failures = append(b.Failures, o.Failures...)
	b.Unused = append(b.Unused, o.Unused...)
	b.Read = append(b.Read, o.Read...)
	b.scrapes = append(b.scrapes, o.scrapes...)
	b.Target = cmp.Or(b.Target, o.Target)
	b.Warnings = append(b.Warnings, o.Warnings...)
	b.ClockFactor = max(b.ClockFactor, o.ClockFactor)
	b.Events = append(b.Events, o.Events...)
	slices.SortStableFunc(b.Events, func(x, y Event) int { return x.At.Compare(y.At) })
	for name, i := range o.Instances {
		b.setInstance(name, i)
	}
	for name, origin := range o.Origin {
		b.setOrigin(name, origin)
	}
}

func (b *Bundle) setOrigin(name, origin string) {
	if b.Origin == nil {
		b.Origin = make(map[string]string)
	}
	b.Origin[name] = origin
}

func (b *Bundle) setInstance(name string, i Instance) {
	if b.Instances == nil {
		b.Instances = make(map[string]Instance)
	}
	b.Instances[name] = i
}

// addReading appends the inputs read from one file or response.
func (b *Bundle) addReading(r *reading, origin string) {
	b.Read = append(b.Read, r.samples...)
	b.scrapes = append(b.scrapes, r.scrapes...)
	for _, s := range r.snapshots {
		b.Snapshots = append(b.Snapshots, s)
		if origin != "" {
			b.setOrigin(s.Name, origin)
		}
	}
	for _, w := range r.waits {
		b.Waits = append(b.Waits, w)
		if origin != "" {
			b.setOrigin(w.Name, origin)
		}
	}
}

func (b *Bundle) fail(name string, err error) {
	b.Failures = append(b.Failures, Failure{Name: name, Err: err})
}

func (b *Bundle) pass(name, reason string) {
	b.Unused = append(b.Unused, Unused{Name: name, Reason: reason})
}
