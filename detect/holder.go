package detect

import (
	"fmt"
	"sort"
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// maxObject is how far a lock can lie behind the address of the object it
// guards: structs larger than a page are rare, and the lock is near the front.
const maxObject = 4096

// Strength of a holder's evidence, weakest first.
type Strength int

const (
	noHolder   Strength = iota
	ByLocked            // inside a function named …Locked of the lock's package
	ByFunction          // inside a function that waiters enter by locking, past the line they wait at; no address to compare
	ByReceiver          // inside a method of the very object
	ByEntry             // inside a function that waiters enter by locking, on the very object
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
// waiters enter by locking it. The strongest evidence only, largest crowd first.
func holders(v *View, l *LockSet, addr uint64) []Standing {
	e := entriesOf(l)
	var found []Standing
	for _, c := range v.Crowds {
		if c.Wait.Kind.IsLock() && waitsFor(l, c) && (addr == 0 || !otherLock(c, addr)) || wakingUp(c) {
			continue
		}
		if c.Group == nil || len(c.Group.Members) == 0 {
			if j, how := e.hold(c, nil, addr); how != noHolder {
				found = append(found, Standing{c, nil, j, how})
			}
			continue
		}
		for i := range c.Group.Members {
			m := &c.Group.Members[i]
			if addr != 0 && m.Lock == addr {
				continue
			}
			if j, how := e.hold(c, m, addr); how != noHolder {
				found = append(found, Standing{c, m, j, how})
			}
		}
	}
	var best Strength
	for _, s := range found {
		best = max(best, s.How)
	}
	kept := found[:0]
	for _, s := range found {
		if s.How == best {
			kept = append(kept, s)
		}
	}
	sort.SliceStable(kept, func(i, j int) bool { return kept[i].Crowd.N < kept[j].Crowd.N })
	return kept
}

func waitsFor(l *LockSet, c *Crowd) bool {
	for _, w := range l.Waiters {
		if w == c {
			return true
		}
	}
	return false
}

// otherLock reports whether some of c wait for a lock of the set other than addr.
func otherLock(c *Crowd, addr uint64) bool {
	if c.Group == nil {
		return false
	}
	n := len(c.Group.Locks)
	if _, ok := c.Group.Locks[addr]; ok {
		n--
	}
	return n > 0
}

// wakingUp reports whether c was given or is about to try for a lock: its
// state says it runs, its leaf is still inside sync's Lock.
func wakingUp(c *Crowd) bool {
	if c.Wait.Kind != stacks.Runnable && c.Wait.Kind != stacks.Running {
		return false
	}
	for i := 0; i < c.Wait.Site && i < len(c.Frames); i++ {
		f := c.Frames[i]
		if (f.Package == "sync" || f.Package == "internal/sync") && (f.Name == "lockSlow" || f.Name == "Lock" || f.Name == "RLock") {
			return true
		}
	}
	return false
}

// entries is how a lock is entered: the functions and lines its waiters wait
// at, and where in an object of a type the lock lies.
type entries struct {
	line   map[string]int   // function to the least line waited at; 0 where lines are unknown
	offset map[string]int64 // receiver type ("pkg.T") to the lock's offset in it
	types  map[string]bool
	pkg    string
	recvs  map[uint64]bool // receivers of waiters whose lock address is not known
	unaddr bool
}

func entriesOf(l *LockSet) entries {
	e := entries{line: map[string]int{}, offset: map[string]int64{}, types: map[string]bool{}, recvs: map[uint64]bool{}, unaddr: len(l.Addresses) == 0}
	if l.Site != nil {
		e.pkg = l.Site.Package
	}
	for _, c := range l.Waiters {
		if c.Wait.Release {
			continue // that is where it is left
		}
		site := c.Site()
		if n, ok := e.line[site.Func]; !ok || site.Line < n {
			e.line[site.Func] = site.Line
		}
		if site.Type == "" {
			continue
		}
		t := site.Package + "." + site.Type
		e.types[t] = true
		if c.Group == nil {
			continue
		}
		for i := range c.Group.Members {
			m := &c.Group.Members[i]
			if c.Wait.Site >= len(m.Args) {
				continue
			}
			recv := m.Args[c.Wait.Site]
			if recv.Addr() == 0 || recv.Stale() {
				continue
			}
			if m.Lock == 0 {
				e.recvs[recv.Addr()] = true
			} else if d := int64(m.Lock) - int64(recv.Addr()); d >= 0 && d < maxObject {
				if _, known := e.offset[t]; !known {
					e.offset[t] = d
				}
			}
		}
	}
	return e
}

// hold says whether a goroutine is inside the lock: at which frame, and on what evidence.
// m is nil where there are no addresses.
func (e *entries) hold(c *Crowd, m *stacks.Member, addr uint64) (int, Strength) {
	from := 0
	if c.Wait.Kind.IsLock() {
		from = c.Wait.Site + 1 // its own wait is not inside
	}
	bestFrame, best := -1, noHolder
	for j := max(from, 0); j < len(c.Frames); j++ {
		f := c.Frames[j]
		line, entry := e.line[f.Func]
		if entry && line > 0 && f.Line > 0 && f.Line < line {
			continue // before the line that locks
		}
		how := noHolder
		t := f.Package + "." + f.Type
		var recv stacks.Word
		if m != nil && j < len(m.Args) {
			recv = m.Args[j]
		}
		known := recv.Addr() != 0 && !recv.Stale() && f.Type != ""
		off, hasOffset := e.offset[t]
		switch {
		case known && addr != 0 && hasOffset:
			if recv.Addr()+uint64(off) == addr {
				how = ByReceiver
				if entry {
					how = ByEntry
				}
			}
		case known && addr != 0 && (e.types[t] && addr >= recv.Addr() && addr-recv.Addr() < maxObject || recv.Addr() == addr && f.Package == e.pkg):
			how = ByReceiver
			if entry {
				how = ByEntry
			}
		case known && len(e.recvs) > 0 && e.types[t]:
			if e.recvs[recv.Addr()] {
				how = ByReceiver
				if entry {
					how = ByEntry
				}
			}
		case entry && (line == 0 || f.Line == 0 || f.Line > line):
			how = ByFunction
		case strings.HasSuffix(f.Name, "Locked") && f.Package == e.pkg && !c.Wait.Kind.IsLock():
			how = ByLocked
		}
		if how > best {
			bestFrame, best = j, how
		}
	}
	return bestFrame, best
}

// HolderOf describes who holds a lock of v, and what is known of how it is
// held where nobody seems to; names is the view with ids and addresses, which
// may be v itself.
func HolderOf(v *View, l *LockSet, addr uint64) (*Holder, string) {
	found := holders(v, l, addr)
	if len(found) == 0 {
		return nil, notInside(v, l)
	}
	return describeHolder(found), ""
}

func describeHolder(found []Standing) *Holder {
	s := found[0]
	f := s.Crowd.Frames[s.Frame]
	h := &Holder{Function: f.Func, State: s.Crowd.Reason, Stack: shortStack(s.Crowd.Frames, operation(s.Crowd), s.Frame)}
	var n float64
	for _, o := range found {
		if o.Member != nil {
			n++
		} else {
			n += o.Crowd.N
		}
	}
	if n > 1 {
		h.Count = int64(n)
	}
	if s.Member != nil {
		h.Goroutine = s.Member.ID
	}
	h.Wait = waitsIn(s.Crowd)
	return h
}

// DescribeCrowd describes one goroutine of a crowd as the holder of what its
// frame at index i has taken.
func DescribeCrowd(c *Crowd, i int) *Holder {
	s := Standing{Crowd: c, Frame: i}
	if c.Group != nil && len(c.Group.Members) > 0 {
		s.Member = &c.Group.Members[0]
	}
	return describeHolder([]Standing{s})
}

// waitsIn says in words what a crowd does.
func waitsIn(c *Crowd) string {
	what := kindWords(c.Wait.Kind)
	if site := c.Site(); site != nil {
		return fmt.Sprintf("%s in %s", what, site.Func)
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

// notInside says what it means that nobody holds a lock that many wait for.
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
	if all > 0 && 2*aged > all {
		return "nobody is inside it and most have waited for minutes: the lock was probably never released (leaked, not contended)"
	}
	return "nobody was inside it at the moment of the snapshot: its holder came and went, or it was never released; a second snapshot tells"
}

// shortStack cuts a stack to what a reader needs: from the site to the frame
// that holds the lock and its caller.
func shortStack(frames []*stacks.Frame, from, to int) []string {
	const most = 8 // a holder's story fits a screen beside the rest of the report
	to = min(to+2, len(frames))
	if from >= to {
		from = 0
	}
	if to-from <= most {
		return names(frames[from:to])
	}
	out := names(frames[from : from+most-3])
	out = append(out, fmt.Sprintf("… %d more …", to-from-most+1))
	return append(out, names(frames[to-2:to])...)
}

func names(frames []*stacks.Frame) []string {
	out := make([]string, len(frames))
	for i, f := range frames {
		out[i] = f.Func
	}
	return out
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
	return "doing something this format does not show"
}

// Nested finds among a lock's waiters a crowd that waits while inside a
// function which others of the waiters enter by locking, and the index of that frame.
// The crowd is nil where there is none.
func (l *LockSet) Nested() (*Crowd, int) {
	for _, c := range l.Waiters {
		if c.Wait.Release {
			continue
		}
		e := entriesOf(l.Without(c))
		for j := c.Wait.Site + 1; j < len(c.Frames); j++ {
			f := c.Frames[j]
			deferred := owner(f) == owner(c.Site()) && f.Func != c.Site().Func
			if line, ok := e.line[f.Func]; ok && !deferred && (line == 0 || f.Line == 0 || f.Line > line) {
				return c, j
			}
		}
	}
	return nil, 0
}

// Without is the lock with one crowd of waiters left out.
func (l *LockSet) Without(c *Crowd) *LockSet {
	m := *l
	m.Waiters = nil
	for _, w := range l.Waiters {
		if w != c {
			m.Waiters = append(m.Waiters, w)
		}
	}
	return &m
}
