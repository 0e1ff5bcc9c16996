// Package stacks reads goroutine dumps (text) and goroutine profiles (pprof)
// into one form: a Snapshot of stacks, each with the goroutines that stand in
// it. It also says what a stack waits for and at which function; see Classify.
package stacks

import (
	"time"
)

// Format says how a snapshot was written, and so what it can show.
type Format string

const (
	Protobuf  Format = "pprof"         // goroutine profile, debug=0: complete, no states, ids or addresses
	Debug1    Format = "debug=1"       // text with counts: no states, ids or addresses
	Debug2    Format = "debug=2"       // text, one block a goroutine: states, ids, addresses
	Traceback Format = "traceback"     // what a panic, fatal error or SIGQUIT prints; as Debug2
	Wallclock Format = "wallclock"     // fgprof: samples of time, so shares only
	Leak      Format = "goroutineleak" // goroutineleak profile: every goroutine in it can never wake
)

// Process identifies the process that wrote a profile, as far as it tells.
// Text dumps leave it empty.
type Process struct {
	Binary  string // path of the main mapping
	BuildID string // of the main mapping
	Mapping string // start, limit and offset of the main mapping
}

// Snapshot is the goroutines of one process at one moment.
type Snapshot struct {
	Name     string // the input it was read from; "FILE#2" for the second dump of a file
	Format   Format
	Process  Process
	Taken    time.Time // zero where the input does not say
	Crash    string    // the message that the process died with ("fatal error: all goroutines are asleep - deadlock!"); "" for a dump or a signal
	Growth   bool      // counts are a difference between two moments and can be negative (?seconds=N)
	Summed   bool      // counts are a sum over an unknown number of snapshots, so shares only
	Groups   []*Group  // largest first, then by first appearance
	Loss     Loss
	Warnings []string // what could not be read, each with a line number where there is one
}

// HasStates reports whether each goroutine's scheduler state is known
// (running, runnable, or its wait reason), rather than read off its frames.
func (s *Snapshot) HasStates() bool { return s.Format == Debug2 || s.Format == Traceback }

// SharesOnly reports whether the counts are no numbers of goroutines, and tell
// shares only.
func (s *Snapshot) SharesOnly() bool { return s.Format == Wallclock || s.Summed }

// Group is the goroutines that share a stack, a state and a creator.
type Group struct {
	Frames    []*Frame // leaf first, runtime frames as the input has them
	CreatedBy *Frame   // nil where unknown
	Reason    string   // the header's state or wait reason ("chan receive", "running"); "" where the format has none
	Count     int64    // goroutines; samples in a Wallclock snapshot; may be negative in a Growth snapshot
	Elided    int      // frames the runtime left out of the middle of the stack

	// Aged counts the goroutines whose header gave an age in minutes;
	// MinMinutes and MaxMinutes are the least and largest of those.
	// A goroutine without minutes may still have waited long: see
	// the Go runtime's mgcmark.go, where the start is stamped.
	Aged                   int64
	MinMinutes, MaxMinutes int
	Leaked                 int64 // goroutines marked (leaked) by the runtime

	// Labels are pprof labels seen in the group, key to at most maxLabelValues
	// distinct values. Values may be secrets; reports redact them.
	Labels map[string][]string

	// Locks counts the waiters of each lock by address (Debug2 and Traceback, where the
	// leaf is a lock wait and its address was printed and not stale).
	// Unlike Members it is complete.
	Locks map[uint64]int64

	// Members are the group's goroutines in order of appearance, all of them
	// up to a limit (see ReadText); empty where the format has no ids.
	Members []Member

	// Wait is what the goroutines wait for, by Classify.
	Wait Wait
}

// Member is one goroutine of a group.
type Member struct {
	ID      int64
	Creator int64  // id of the goroutine that created it; 0 where unknown
	Minutes int    // age of its wait; 0 where the header gave none
	Lock    uint64 // address of the lock it waits for; 0 where not known
	Args    []Word // first argument word of each frame, usually the receiver; parallel to Group.Frames
}

// Word is an argument word of a frame as printed in a text dump.
type Word uint64

// stale marks a word the runtime printed with a question mark: it may have
// been overwritten since the call. User-space addresses leave the bit free.
const stale Word = 1 << 63

// NewWord makes a Word of a printed value.
func NewWord(v uint64, isStale bool) Word {
	w := Word(v) &^ stale
	if isStale {
		w |= stale
	}
	return w
}

// Addr is the printed value; 0 where there was none.
func (w Word) Addr() uint64 { return uint64(w &^ stale) }

// Stale reports whether the runtime itself doubted the value.
func (w Word) Stale() bool { return w&stale != 0 }

// Loss says what of an input was not read.
type Loss struct {
	Declared     int64 // goroutines the input says it has; 0 where it does not say
	Read         int64 // goroutines in Groups
	Lost         int64 // goroutines known to be missing: declared or begun, not read
	Misread      int64 // goroutines read, but for a frame that was not understood
	ElidedFrames int64
	Truncated    bool             // the input ends in the middle of a goroutine or at the runtime's 64 MiB
	UnknownState map[string]int64 // header states not known to any Go release, with their goroutines
	NoStack      int64            // running on other threads: the runtime could not print their stacks
}
