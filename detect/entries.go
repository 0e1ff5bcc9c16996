package detect

import (
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// entries is how a lock is entered: the functions and lines its waiters wait
// at, what they call it through, and where in an object of a type it lies.
type entries struct {
	line     map[string]int // function to the least line waited at; 0 where lines are unknown
	through  map[string]int // the same for what stands between: os.(*File).Write, sync.(*Once).doSlow
	crowds   map[string]int // function to how many crowds wait at it
	waiters  map[*Crowd]bool
	sites    map[string]bool
	offset   map[string]int64 // receiver type ("pkg.T") to the lock's offset in it
	types    map[string]bool
	foreign  map[string]bool // types whose lock is not inside the receiver: an entry of a logger, a generic method whose first word is a dictionary
	pkg      string
	recvs    map[uint64]bool // receivers of waiters whose lock address is not known
	released map[string]bool // functions that a mutex profile saw release it
}

func (l *LockSet) enter() *entries {
	if l.entries != nil {
		return l.entries
	}
	e := &entries{line: map[string]int{}, through: map[string]int{}, crowds: map[string]int{}, waiters: map[*Crowd]bool{}, sites: map[string]bool{},
		offset: map[string]int64{}, types: map[string]bool{}, foreign: map[string]bool{}, recvs: map[uint64]bool{}, released: map[string]bool{}}
	l.entries = e
	if l.Site != nil {
		e.pkg = l.Site.Package
	}
	for _, c := range l.Waiters {
		e.waiters[c] = true
		if c.Wait.Release {
			continue // that is where it is left
		}
		site := c.Site()
		least(e.line, site)
		e.crowds[site.Func]++
		e.sites[owner(site)] = true
		for _, f := range c.Frames[:c.Wait.Site] {
			if !primitive(f) {
				least(e.through, f)
			}
		}
		if site.Type == "" {
			continue
		}
		t := site.Package + "." + site.Type
		e.types[t] = true
		if c.Group == nil {
			continue
		}
		if d, ok := lockOffset(c); ok {
			e.offset[t] = d
		}
		for i := range c.Group.Members {
			m := &c.Group.Members[i]
			if c.Wait.Site >= len(m.Args) || m.Args[c.Wait.Site].Addr() == 0 || m.Args[c.Wait.Site].Stale() {
				continue
			}
			recv := m.Args[c.Wait.Site].Addr()
			switch {
			case m.Lock == 0:
				e.recvs[recv] = true
			case m.Lock < recv || m.Lock-recv >= MaxObject:
				e.foreign[t] = true
			}
		}
	}
	return e
}

func least(m map[string]int, f *stacks.Frame) {
	if n, ok := m[f.Func]; !ok || f.Line < n {
		m[f.Func] = f.Line
	}
}

// primitive recognises the frames of the lock itself, which nobody is inside of.
func primitive(f *stacks.Frame) bool {
	switch {
	case f.Package == "runtime", strings.HasPrefix(f.Name, "runtime_"):
		return true
	case f.Package == "sync" || f.Package == "internal/sync":
		return f.Type == "Mutex" || f.Type == "RWMutex" || f.Type == "rlocker"
	}
	return f.Type == "fdMutex" || f.Name == "Lock" || f.Name == "RLock"
}

// hold says whether a goroutine is inside the lock: at which frame, and on
// what evidence. m is nil where there are no addresses.
func (e *entries) hold(c *Crowd, m *stacks.Member, addr uint64) (int, Strength) {
	from := 0
	if c.Wait.Kind.IsLock() {
		if c.Site() == nil {
			return -1, noHolder // nothing above the lock itself
		}
		from = c.Wait.Site
		if _, own := e.line[c.Frames[from].Func]; !own || e.waiters[c] {
			from++ // its own wait is not inside; the function it waits in may be, past the line of another lock
		}
	}
	guess := couldHold(c)
	started := root(c.Frames) // a closure that a method started is not inside the method
	bestFrame, best := -1, noHolder
	for j := from; j < len(c.Frames); j++ {
		f := c.Frames[j]
		how := e.holdAt(c, m, addr, j, guess && !(f == started && owner(f) != f.Func))
		if how <= best {
			continue
		}
		bestFrame, best = j, how
		switch _, ok := e.through[f.Func]; {
		case ok:
			// What stands between is nobody's code; who called it is the holder.
			if k := e.below(c.Frames[j+1:]); k >= 0 {
				bestFrame = j + 1 + k
			}
		case how == ByType && strings.HasSuffix(f.Name, "Locked") && j+1 < len(c.Frames):
			bestFrame = j + 1 // by Go's custom its caller holds the lock
		}
	}
	return bestFrame, best
}

func (e *entries) holdAt(c *Crowd, m *stacks.Member, addr uint64, j int, guess bool) Strength {
	f := c.Frames[j]
	var recv stacks.Word
	if m != nil && j < len(m.Args) {
		recv = m.Args[j]
	}
	known := recv.Addr() != 0 && !recv.Stale() && !e.foreign[f.Package+"."+f.Type]
	if line, ok := e.through[f.Func]; ok && f.Line > line && e.below(c.Frames[j+1:]) >= 0 {
		switch {
		case f.Package == "internal/poll" && known && addr != 0 && recv.Addr() == addr:
			return ByEntry
		case f.Package == "internal/poll" && known && addr != 0:
			return noHolder // another file
		}
		return ByFunction
	}
	t := f.Package + "." + f.Type
	line, entry := e.line[f.Func]
	// In a function written on one line, what it calls there tells that it has locked.
	sameLine := entry && line > 0 && f.Line == line && j > 0 && (j != c.Wait.Site || c.Wait.Kind == stacks.Sleep || c.Wait.Kind == stacks.Socket) && !primitive(c.Frames[j-1])
	if entry && line > 0 && f.Line > 0 && f.Line <= line && !sameLine {
		entry = false // not yet past the line that locks
		if c.Wait.Kind.IsLock() || f.Line < line {
			return noHolder
		}
	}
	entry = entry || e.released[f.Func]
	inside := ByReceiver
	if entry {
		inside = ByEntry
	}
	if known && addr != 0 && recv.Addr() == addr && !entry && (guess || inOneWait(c)) {
		return ByReceiver // it was given the lock itself, or an object that begins with it
	}
	if known && f.Type != "" {
		off, hasOffset := e.offset[t]
		same, decided := false, true
		switch {
		case addr != 0 && hasOffset:
			same = recv.Addr()+uint64(off) == addr
		case addr != 0 && !e.foreign[t] && (e.types[t] || f.Package == e.pkg):
			same = addr >= recv.Addr() && addr-recv.Addr() < MaxObject
		case len(e.recvs) > 0 && e.types[t]:
			same = e.recvs[recv.Addr()]
		default:
			decided = false
		}
		if decided {
			if same && (entry || guess || inOneWait(c)) {
				return inside
			}
			return noHolder // another object of the type
		}
	}
	switch {
	case entry:
		// Without an address, one that waits for what comes next has let go of it long since.
		if c.Wait.Kind == stacks.Idle || c.Parked && (c.Wait.Kind == stacks.Socket && !c.Wait.Answer || c.Wait.Kind == stacks.Select) {
			return noHolder
		}
		return ByFunction
	case !guess:
		return noHolder
	case f.Type != "" && e.types[t] && !known,
		f.Type == "" && len(e.types) == 0 && f.Package == e.pkg && f.Package != "main" && !f.Std,
		strings.HasSuffix(f.Name, "Locked") && f.Package == e.pkg:
		return ByType
	}
	return noHolder
}

// below is the index in frames of the nearest function that waiters wait in; -1 where there is none.
func (e *entries) below(frames []*stacks.Frame) int {
	for i, f := range frames {
		if e.sites[owner(f)] {
			return i
		}
	}
	return -1
}

// couldHold reports whether a goroutine is at something that one does inside
// a lock, when only its object or type is known: a loop that waits for
// events is in the object for good and holds nothing.
func couldHold(c *Crowd) bool {
	switch c.Wait.Kind {
	case stacks.Socket:
		return c.Wait.Answer || !c.Parked
	case stacks.Syscall, stacks.Pool, stacks.Lock, stacks.RLock, stacks.FDLock, stacks.Running, stacks.Runnable:
		return !c.Parked
	case stacks.Chan:
		return c.Wait.Send || c.Wait.Either
	}
	return false
}

// inOneWait reports whether a goroutine outside any handler is at a single
// operation rather than at the select of an event loop.
func inOneWait(c *Crowd) bool {
	switch c.Wait.Kind {
	case stacks.Chan, stacks.Cond, stacks.Sleep:
		return true
	}
	return false
}
