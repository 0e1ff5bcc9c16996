package detect

import (
	"sort"
	"strings"
	"time"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// Crowd is goroutines that wait in one stack, as a detector sees them.
type Crowd struct {
	Frames []*stacks.Frame // leaf first
	Wait   stacks.Wait     // with the site that counts: a random source's lock below telemetry is telemetry's
	Reason string          // header state, where the input has them
	// N is how many: goroutines of a snapshot, mean goroutines over a window,
	// seconds of delay of a cumulative profile, samples of a wall-clock profile.
	N         float64
	Events    int64 // contentions; 0 in a snapshot
	Request   bool  // under a server handler
	Parked    bool  // outside any handler and waiting for work only
	Telemetry Telemetry
	Group     *stacks.Group // nil outside snapshots
	// Through is the crowd that goroutines of these requests wait in: what the
	// requests wait for through a helper they started. Its wait is theirs.
	Through *Crowd
}

// Site is the function that waits; nil where the stack names none.
func (c *Crowd) Site() *stacks.Frame {
	if c.Wait.Site < 0 || c.Wait.Site >= len(c.Frames) {
		return nil
	}
	return c.Frames[c.Wait.Site]
}

// For is the crowd whose wait counts: Through where there is one.
func (c *Crowd) For() *Crowd {
	if c.Through != nil {
		return c.Through
	}
	return c
}

// View is one input of a process made ready for detectors: its crowds, and
// what they are measured against.
type View struct {
	Name       string // input
	Kind       InputKind
	Format     stacks.Format // of a snapshot
	Mutex      bool          // a mutex profile: charged to who released the lock
	Window     time.Duration // of waits; 0 in a snapshot or cumulative profile
	Cumulative bool          // shares only: no concurrency
	Unit       Unit
	ByRequest  bool     // shares are of requests, else of goroutines that are not parked
	Crowds     []*Crowd // largest first
	InFlight   float64  // what shares are of, in the measure of Crowd.N
	Requests   float64  // goroutines under handlers, those that wait for their own client left out
	Goroutines float64  // all
	Events     int64    // contentions, all
	Snapshot   *stacks.Snapshot
	locks      []*LockSet
}

// InScope reports whether c counts in shares: a request, or where the service
// has no handlers, a goroutine that is not parked.
func (v *View) InScope(c *Crowd) bool {
	if v.ByRequest {
		return c.Request && c.Wait.Kind != stacks.Idle
	}
	return !c.Parked && c.Wait.Kind != stacks.Idle
}

// Share is n of what is in flight, 0 to 1.
func (v *View) Share(n float64) float64 {
	if v.InFlight <= 0 {
		return 0
	}
	return min(n/v.InFlight, 1)
}

// requestsCount is the least part of the busy goroutines that must be requests
// for shares to be of requests. Below it the service works outside handlers
// and its few requests (health checks, a scrape) say little.
const requestsCount = 0.1

// SnapshotView makes a view of a snapshot.
func SnapshotView(s *stacks.Snapshot, opt Options) *View {
	v := &View{Name: s.Name, Kind: Stacks, Format: s.Format, Snapshot: s}
	for _, g := range s.Groups {
		if g.Count <= 0 {
			continue
		}
		v.Goroutines += float64(g.Count)
		if IsProfiler(g.Frames) {
			continue
		}
		c := newCrowd(g.Frames, g.Wait, opt)
		c.Reason, c.N, c.Group = g.Reason, float64(g.Count), g
		v.Crowds = append(v.Crowds, c)
	}
	v.finish()
	if s.Format == stacks.Wallclock {
		v.Cumulative = true
		v.Unit = Samples
	}
	return v
}

// WaitsView makes a view of a block or mutex profile.
func WaitsView(p *waits.Profile, opt Options) *View {
	v := &View{Name: p.Name, Kind: Waits, Mutex: p.Kind == waits.Mutex, Window: p.Window, Cumulative: p.Window <= 0}
	for i := range p.Sites {
		s := &p.Sites[i]
		if IsProfiler(s.Frames) || s.Delay <= 0 && s.Contentions <= 0 {
			continue
		}
		c := newCrowd(s.Frames, s.Wait, opt)
		c.N = s.Delay.Seconds()
		if !v.Cumulative {
			c.N = p.Concurrency(s)
		}
		c.Events = s.Contentions
		v.Events += s.Contentions
		v.Crowds = append(v.Crowds, c)
	}
	v.finish()
	if v.Cumulative {
		v.Unit = Contentions
	}
	return v
}

func newCrowd(frames []*stacks.Frame, w stacks.Wait, opt Options) *Crowd {
	c := &Crowd{Frames: frames, Wait: w}
	c.Request = IsRequest(frames)
	c.passRandom(opt)
	if site := c.Site(); site != nil {
		c.Telemetry = JudgeTelemetry(site, opt.Telemetry)
	}
	if !c.Request {
		c.Parked = IsParked(frames, c.Wait) && !c.backPressure(opt)
	}
	return c
}

// passRandom looks through a math/rand source directly below telemetry: a
// shared source in an id generator or sampler is the generator's lock.
func (c *Crowd) passRandom(opt Options) {
	i := c.Wait.Site
	if i < 0 || !c.Wait.Kind.IsLock() || !strings.HasPrefix(c.Frames[i].Package, "math/rand") {
		return
	}
	for i < len(c.Frames) && strings.HasPrefix(c.Frames[i].Package, "math/rand") {
		i++
	}
	if i < len(c.Frames) && JudgeTelemetry(c.Frames[i], opt.Telemetry).Is {
		c.Wait.Site = i
	}
}

// backPressure reports whether c, outside a handler, waits in telemetry that
// the application called: a worker of the library itself, whose stack is
// telemetry down to its root, is only idle.
func (c *Crowd) backPressure(opt Options) bool {
	if !c.Telemetry.Is || c.Telemetry.ByWord || c.Wait.Kind != stacks.Chan && c.Wait.Kind != stacks.Select && c.Wait.Kind != stacks.Cond {
		return false
	}
	for _, f := range c.Frames[c.Wait.Site:] {
		if !f.Std && f.Package != "runtime" && !JudgeTelemetry(f, opt.Telemetry).Is {
			return true
		}
	}
	return false
}

func (v *View) finish() {
	var busy float64
	for _, c := range v.Crowds {
		if c.Request && c.Wait.Kind != stacks.Idle {
			v.Requests += c.N
		}
		if !c.Parked && c.Wait.Kind != stacks.Idle {
			busy += c.N
		}
	}
	v.Unit, v.InFlight = Goroutines, busy
	if v.Requests > 0 && v.Requests >= requestsCount*busy {
		v.ByRequest, v.Unit, v.InFlight = true, Requests, v.Requests
	}
	sort.SliceStable(v.Crowds, func(i, j int) bool { return v.Crowds[i].N > v.Crowds[j].N })
	v.follow()
}

// follow gives requests that wait for a goroutine they started (a channel, a
// WaitGroup) the wait of those goroutines, one step. Helpers are told by their
// creator where the dump names it, else by being closures of a function in the
// request's stack. Where they outnumber the requests they have outlived
// theirs, and say nothing of the requests still there.
func (v *View) follow() {
	for _, c := range v.Crowds {
		if !c.Request || c.Telemetry.Is {
			continue
		}
		switch c.Wait.Kind {
		case stacks.Chan, stacks.Select, stacks.Cond:
		default:
			continue
		}
		var best *Crowd
		var helpers float64
		for _, h := range v.Crowds {
			if h.Request || h == c || !startedBy(h, c) {
				continue
			}
			helpers += h.N
			if tellsWhy(h) && (best == nil || h.N > best.N) {
				best = h
			}
		}
		leader := c.Site() != nil && strings.HasSuffix(c.Site().Package, "singleflight")
		if leader {
			for _, h := range v.Crowds {
				if h != c && hasFunc(h.Frames, "singleflight.(*Group).doCall") && tellsWhy(h) && (best == nil || h.N > best.N) {
					best = h
				}
			}
		}
		if best == nil {
			continue
		}
		if leader || best.N >= c.N/2 && helpers <= 2*c.N {
			c.Through = best
		}
	}
}

func tellsWhy(c *Crowd) bool {
	switch c.Wait.Kind {
	case stacks.Lock, stacks.RLock, stacks.FDLock, stacks.Pool, stacks.Socket:
		return true
	case stacks.Chan, stacks.Select:
		return c.Telemetry.Is && !c.Parked
	}
	return false
}

func startedBy(h, c *Crowd) bool {
	if len(h.Frames) == 0 {
		return false
	}
	if h.Group != nil && h.Group.CreatedBy != nil {
		for _, f := range c.Frames {
			if f.Func == h.Group.CreatedBy.Func {
				return true
			}
		}
		return false
	}
	root := h.Frames[len(h.Frames)-1]
	for i := len(h.Frames) - 1; i >= 0 && (root.Package == "runtime"); i-- {
		root = h.Frames[i]
	}
	for _, f := range c.Frames {
		if rest, ok := strings.CutPrefix(root.Func, f.Func+"."); ok && !f.Std && (strings.HasPrefix(rest, "func") || strings.HasPrefix(rest, "gowrap")) {
			return true
		}
	}
	return false
}

func hasFunc(frames []*stacks.Frame, suffix string) bool {
	for _, f := range frames {
		if strings.HasSuffix(f.Func, suffix) {
			return true
		}
	}
	return false
}
