package detect

import (
	"fmt"
	"sort"

	"github.com/contend/contend/ingest/stacks"
)

// MaxObject is how far a lock can lie behind the address of the object it
// guards: structs larger than a page are rare, and the lock is near the front.
const MaxObject = 4096

// maxGuess is how many goroutines may fit a weak sign (being inside the same
// object or type) before it says nothing: a handler's type has hundreds.
const maxGuess = 3

// Strength of a holder's evidence, weakest first.
type Strength int

const (
	noHolder   Strength = iota
	ByType              // inside a method of the type whose lock it is
	ByReceiver          // inside a method of the very object
	ByFunction          // inside a function that enters the lock, past the line that locks; no address to compare
	ByEntry             // the same on the very object
)

// Standing is one goroutine, or where there are no ids a whole crowd, as a candidate.
type Standing struct {
	Crowd  *Crowd
	Member *stacks.Member // nil where the input has no ids
	Frame  int            // where it holds the lock
	How    Strength
}

// holders finds who likely holds the lock at addr (0: whichever lock of the
// set): goroutines not waiting for it whose stack is inside a function that
// enters it. The strongest evidence only, the smallest crowd first. past is how many
// stand past the lock's line where that shows that it is released before.
func holders(v *View, l *LockSet, addr uint64) (found []Standing, past int) {
	e := l.enter()
	var best Strength
	keep := func(s Standing) {
		if s.How > best {
			best, found = s.How, found[:0]
		}
		if s.How == best {
			found = append(found, s)
		}
	}
	for _, c := range v.Crowds {
		if c.Wait.Release {
			continue // it has let go
		}
		if e.waiters[c] && (addr == 0 || !waitsForOther(c, addr)) {
			continue
		}
		if c.Group == nil || len(c.Group.Members) == 0 {
			if j, how := e.hold(c, nil, addr); how != noHolder {
				keep(Standing{c, nil, j, how})
			}
			continue
		}
		for i := range c.Group.Members {
			m := &c.Group.Members[i]
			if addr != 0 && m.Lock == addr {
				continue
			}
			if j, how := e.hold(c, m, addr); how != noHolder {
				keep(Standing{c, m, j, how})
			}
		}
	}
	n := 0.0
	for _, s := range found {
		n += s.count()
	}
	switch {
	case best <= ByReceiver && n > maxGuess:
		return nil, 0
	case best == ByEntry && addr != 0 && !l.Shared && n > 1:
		return nil, int(n) // a mutex has one holder, so these have let go of it
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Crowd.N < found[j].Crowd.N })
	return found, 0
}

func (s Standing) count() float64 {
	if s.Member != nil {
		return 1
	}
	return s.Crowd.N
}

// waitsForOther reports whether some of c wait for a lock of the set other than addr.
func waitsForOther(c *Crowd, addr uint64) bool {
	if c.Group == nil {
		return false
	}
	n := len(c.Group.Locks)
	if _, ok := c.Group.Locks[addr]; ok {
		n--
	}
	return n > 0
}

// HolderOf describes who holds a lock of v. Where nobody seems to, it says in
// words what that means.
func HolderOf(v *View, l *LockSet, addr uint64) (*Holder, string) {
	found, past := holders(v, l, addr)
	if len(found) > 0 {
		h := describeHolder(found)
		h.Then = follow(v, found[0])
		return h, ""
	}
	if c, i := l.Nested(); c != nil && len(l.Addresses) == 0 {
		// It may wait for itself.
		h := describeHolder([]Standing{{Crowd: c, Frame: i, How: ByType}})
		return h, ""
	}
	if past > 0 {
		return nil, fmt.Sprintf("%d are past the line that locks, inside the same function of the same object: it is released before, and is short of turns rather than held", past)
	}
	return nil, notInside(v, l)
}

// maxChain is how many locks a chain of holders is followed over: deeper ones
// are told well enough by their first five.
const maxChain = 5

// follow names the holder of the lock that a holder waits for itself, and so on.
func follow(v *View, s Standing) []Holder {
	var chain []Holder
	seen := map[*Crowd]bool{}
	for len(chain) < maxChain && s.Crowd.Wait.Kind.IsLock() && !s.Crowd.Wait.Release && !seen[s.Crowd] {
		seen[s.Crowd] = true
		l := v.lockOf(s.Crowd)
		if l == nil {
			break
		}
		addr := uint64(0)
		if s.Member != nil {
			addr = s.Member.Lock
		}
		next, _ := holders(v, l, addr)
		if len(next) == 0 || seen[next[0].Crowd] {
			break
		}
		chain = append(chain, *describeHolder(next))
		s = next[0]
	}
	return chain
}

func (v *View) lockOf(c *Crowd) *LockSet {
	for _, l := range v.Locks() {
		for _, w := range l.Waiters {
			if w == c {
				return l
			}
		}
	}
	return nil
}

func describeHolder(found []Standing) *Holder {
	s := found[0]
	f := s.Crowd.Frames[s.Frame]
	h := &Holder{Function: f.Func, State: s.Crowd.Reason, Stack: Names(between(s.Crowd.Frames, operation(s.Crowd), s.Frame)), Brief: shortStack(s.Crowd.Frames, operation(s.Crowd), s.Frame), Confidence: Medium}
	switch {
	case s.How == ByEntry:
		h.Confidence = High
	case s.How <= ByReceiver:
		h.Confidence = Low
	}
	n := 0.0
	for _, o := range found {
		n += o.count()
	}
	if n > 1 {
		h.Count = int64(n)
	}
	if s.Member != nil {
		h.Goroutine = s.Member.ID
	}
	h.Wait = WaitsIn(s.Crowd.For())
	h.AtLock = s.Crowd.Wait.Kind.IsLock()
	return h
}

// DescribeCrowd describes one goroutine of a crowd as the holder of what its
// frame at index i has taken.
func DescribeCrowd(c *Crowd, i int) *Holder {
	s := Standing{Crowd: c, Frame: i, How: ByFunction}
	if c.Group != nil && len(c.Group.Members) > 0 {
		s.Member = &c.Group.Members[0]
	}
	return describeHolder([]Standing{s})
}

// WaitsIn says in words what a crowd does.
func WaitsIn(c *Crowd) string {
	what := kindWords(c.Wait.Kind)
	if c.Wait.ByName && c.Wait.Op == stacks.Chan && c.Wait.Send {
		what = "sending to a channel"
	}
	site := c.Site()
	if site == nil {
		return what
	}
	what += " in " + site.Func
	if site.Std {
		what += calledFrom(c) // whose call it is says more than the library's function
	}
	return what
}

// operation is the index of the outermost frame of what a crowd does at its
// site: the file or connection it reads or writes, else the site itself.
func operation(c *Crowd) int {
	i := max(c.Wait.Site, 0)
	if i > 0 && (c.Frames[i-1].Package == "os" || c.Frames[i-1].Package == "net") {
		return i - 1
	}
	return i
}

// notInside says what it means that nobody is seen to hold a lock that many wait for.
func notInside(v *View, l *LockSet) string {
	if v.Kind == Waits {
		return ""
	}
	var aged, all int64
	for _, c := range l.Waiters {
		if c.Group != nil {
			aged += c.Group.Aged
			all += c.Group.Count
		}
	}
	if c, _ := l.Nested(); all > 0 && 2*aged > all && c == nil {
		return "nobody is seen inside the functions that lock it, and most have waited for minutes: it was probably never released (leaked, not contended)"
	}
	return "nobody is seen inside the functions that lock it: its holder came and went, or it was never released; a debug=2 dump taken twice, a minute apart, tells"
}

// between are the frames from where a goroutine waits to the one that holds
// the lock and its caller.
func between(frames []*stacks.Frame, from, to int) []*stacks.Frame {
	to = min(to+2, len(frames))
	if from >= to {
		from = 0
	}
	return frames[from:to]
}

// shortStack cuts a stack to what a reader needs. The standard library's own
// frames in a row are told by their first, since the fault is hardly ever
// there; a function that recurses stands once.
func shortStack(frames []*stacks.Frame, from, to int) []string {
	const (
		most = 9 // a holder's story fits a screen beside the rest of the report
		row  = 3 // fewer are as short as saying that they are left out
	)
	frames = between(frames, from, to)
	var out []string
	for i := 0; i < len(frames); {
		n := 1
		for frames[i].Std && i+n < len(frames) && frames[i+n].Std {
			n++
		}
		if n < row {
			n = 1
		}
		if name := frames[i].Func; len(out) == 0 || out[len(out)-1] != name {
			out = append(out, name)
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("… %d more of the standard library …", n-1))
		}
		i += n
	}
	if n := len(out); n > most {
		out = append(append(out[:most-3:most-3], fmt.Sprintf("… %d more …", n-most+1)), out[n-2:]...)
	}
	return out
}

// Names are the functions of frames.
func Names(frames []*stacks.Frame) []string {
	out := make([]string, len(frames))
	for i, f := range frames {
		out[i] = f.Func
	}
	return out
}

// Nested finds among a lock's waiters a crowd that waits while inside a
// function which others of the waiters enter by locking, and the index of that
// frame. The crowd is nil where there is none.
func (l *LockSet) Nested() (*Crowd, int) {
	e := l.enter()
	for _, c := range l.Waiters {
		if c.Wait.Release {
			continue
		}
		for j := c.Wait.Site + 1; j < len(c.Frames); j++ {
			f := c.Frames[j]
			line, ok := e.line[f.Func]
			others := e.crowds[f.Func]
			if f.Func == c.Site().Func {
				others--
			}
			deferred := owner(f) == owner(c.Site()) && f.Func != c.Site().Func
			if ok && others > 0 && !deferred && (line == 0 || f.Line == 0 || f.Line > line) {
				return c, j
			}
		}
	}
	return nil, 0
}

func kindWords(k stacks.Kind) string {
	switch k {
	case stacks.Lock:
		return "waiting for a lock"
	case stacks.RLock:
		return "waiting for a read lock"
	case stacks.FDLock:
		return "waiting for a descriptor's lock"
	case stacks.Chan:
		return "waiting on a channel"
	case stacks.Pool:
		return "waiting for a pool"
	case stacks.Socket:
		return "waiting for an answer"
	case stacks.Select:
		return "waiting in a select"
	case stacks.Cond:
		return "waiting for a condition or WaitGroup"
	case stacks.Sleep:
		return "sleeping"
	case stacks.Syscall:
		return "in a system call"
	case stacks.Running:
		return "running"
	case stacks.Runnable:
		return "runnable"
	case stacks.Idle:
		return "idle"
	}
	return "at something this format does not show"
}
