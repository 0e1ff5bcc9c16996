package detect

import (
	"slices"
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
	nested  bool    // a handler that another handler runs in a goroutine of its own
	helped  float64 // how many of c have a helper that tells why they wait, where creators are known; else 0
}

// Site is the function that waits; nil where the stack names none.
func (c *Crowd) Site() *stacks.Frame {
	if c.Wait.Site < 0 || c.Wait.Site >= len(c.Frames) {
		return nil
	}
	return c.Frames[c.Wait.Site]
}

// counted is how many of c count where its wait is looked at: the request that
// holds what the others' helpers wait for has no helper there.
func (c *Crowd) counted() float64 {
	if c.Through != nil && c.helped > 0 {
		return c.helped
	}
	return c.N
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
	Requests   float64  // goroutines under handlers, those that wait for their own client left out; 0 where there are shares only
	Goroutines float64  // all; 0 where there are shares only
	Events     int64    // contentions, all
	Snapshot   *stacks.Snapshot
	atRest     float64 // in scope, in waits of which only the operation is known
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

// Weigh is the share that decides how bad n is. Handlers that stand in a select or a
// channel may be streams at rest, which are no part of any queue; where a
// crowd is large enough to be no accident, it is measured against the rest,
// but is then never more than a warning.
func (v *View) Weigh(n float64) float64 {
	share := v.Share(n)
	if rest := v.InFlight - v.atRest; n >= firmCount && rest > 0 {
		share = max(share, min(n/rest, criticalShare-0.01))
	}
	return share
}

// requestsCount is the least part of the busy goroutines that must be requests
// for shares to be of requests. Below it the service works outside handlers
// and its few requests (health checks, a scrape) say little.
const requestsCount = 0.1

// nestedWeight is what a handler that another handler runs counts where the
// busy are compared with the requests: time-outs leave up to ten behind for each
// request. Where there are more still, they are what the service does.
const nestedWeight = 0.1

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
		if cutConnection(g) {
			c.Request, c.Parked = true, false
		}
		v.Crowds = append(v.Crowds, c)
	}
	v.finish()
	if s.SharesOnly() {
		v.Cumulative = true
		v.Unit = Samples
		v.Requests, v.Goroutines = 0, 0 // not known
	}
	return v
}

// cutConnection reports whether the frames at a stack's root were left out and
// its creator shows that it serves a connection, which is not between requests.
func cutConnection(g *stacks.Group) bool {
	if g.CreatedBy == nil || g.CreatedBy.Func != "net/http.(*Server).Serve" {
		return false
	}
	for _, f := range g.Frames {
		if f.Func == "net/http.(*conn).serve" {
			return false
		}
	}
	return servesRequest(g.Frames, stacks.NewFrame("net/http.(*conn).serve", "", 0))
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
		v.Events = addEvents(v.Events, s.Contentions)
		v.Crowds = append(v.Crowds, c)
	}
	v.finish()
	if v.Cumulative {
		v.Unit = Contentions
	}
	return v
}

func newCrowd(frames []*stacks.Frame, w stacks.Wait, opt Options) *Crowd {
	c := &Crowd{Frames: frames, Wait: w, Request: IsRequest(frames)}
	c.passRandom(opt)
	if site := c.Site(); site != nil {
		c.Telemetry = JudgeTelemetry(site, opt.Telemetry)
		if !c.Telemetry.Is && handlesLog(frames, c.Wait.Site) {
			c.Telemetry = Telemetry{Is: true, Name: "log/slog"}
		}
	}
	if !c.Request {
		c.Parked = isParked(frames, c.Wait) && !c.backPressure(opt)
	}
	return c
}

// handlesLog reports whether the site, or who in its package called it, was
// called by log/slog itself: a handler of log records, whatever its name.
func handlesLog(frames []*stacks.Frame, site int) bool {
	pkg := frames[site].Package
	for _, f := range frames[site+1:] {
		if f.Package != pkg && f.Name != "Handle" { // handlers hand records on to handlers
			return f.Func == "log/slog.(*Logger).log" || f.Func == "log/slog.(*Logger).logAttrs"
		}
	}
	return false
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

// finish completes a view whose crowds are all there: what one crowd means can
// depend on the others.
func (v *View) finish() {
	sort.SliceStable(v.Crowds, func(i, j int) bool { return v.Crowds[i].N > v.Crowds[j].N })
	v.nestedHandlers()
	v.parkServed()
	v.ownGroups()
	v.semaphores()
	var busy, nested float64
	for _, c := range v.Crowds {
		if c.Request && c.Wait.Kind != stacks.Idle {
			v.Requests += c.N
		}
		if !c.Parked && c.Wait.Kind != stacks.Idle {
			busy += c.N
			if c.nested {
				nested += c.N
			}
		}
	}
	v.Unit, v.InFlight = Goroutines, busy
	if v.Requests > 0 && v.Requests >= requestsCount*(busy-nested+nestedWeight*nested) {
		v.ByRequest, v.Unit, v.InFlight = true, Requests, v.Requests
	}
	v.followHelpers()
	for _, c := range v.Crowds {
		if v.InScope(c) && place(c.For().Wait.Kind) == PlaceUnexplained && !c.Telemetry.Is {
			v.atRest += c.N
		}
	}
}

// nestedHandlers finds the handlers that another handler runs in a goroutine
// of its own (http.TimeoutHandler, a middleware's own): each is a helper of the
// request that started it, not a second request.
func (v *View) nestedHandlers() {
	serving := map[string]bool{} // functions on the stacks that show their server
	var others []*Crowd
	for _, c := range v.Crowds {
		switch {
		case !c.Request:
		case rooted(c.Frames) && c.Wait.Kind == stacks.Idle:
			// A connection that waits for its next message serves none of those it started.
		case rooted(c.Frames):
			for _, f := range c.Frames {
				serving[f.Func] = true
			}
		default:
			others = append(others, c)
		}
	}
	for _, c := range others {
		if c.Group != nil && c.Group.CreatedBy != nil && serving[c.Group.CreatedBy.Func] || startedBy(root(c.Frames).Func, serving) {
			c.Request, c.nested = false, true
			c.Parked = isParked(c.Frames, c.Wait)
		}
	}
}

// parkServed parks goroutines outside handlers that read what comes from the
// other end of a connection this process accepted, and HTTP clients that may
// be calling this very process, as a load test does: each has a connection on
// the server's side too.
func (v *View) parkServed() {
	accepts := map[string]bool{} // functions that accept connections, and their packages
	var conns float64
	for _, c := range v.Crowds {
		for i, f := range c.Frames {
			switch {
			case f.Func == "net/http.(*conn).serve" && c.Request:
				conns += c.N
			case f.Package == "internal/poll" && f.Name == "Accept":
				for _, caller := range c.Frames[i:] {
					if !caller.Std && caller.Package != "runtime" {
						accepts[caller.Func] = true
						accepts[caller.Package] = true
						break
					}
				}
			}
		}
	}
	for _, c := range v.Crowds {
		site := c.Site()
		if c.Request || c.Parked || c.Wait.Kind != stacks.Socket || site == nil {
			continue
		}
		switch {
		case c.Wait.Answer:
			c.Parked = site.Func == "net/http.(*persistConn).roundTrip" && 2*conns >= c.N
		case c.Group != nil && c.Group.CreatedBy != nil:
			c.Parked = accepts[c.Group.CreatedBy.Func]
		default:
			c.Parked = accepts[root(c.Frames).Package]
		}
	}
}

// root is the function a goroutine began with; nil where there are no frames.
func root(frames []*stacks.Frame) *stacks.Frame {
	if len(frames) == 0 {
		return nil
	}
	for i := len(frames) - 1; i > 0; i-- {
		if frames[i].Package != "runtime" {
			return frames[i]
		}
	}
	return frames[0]
}

// ownGroups tells an errgroup that each request has for itself from one that
// all share: with one of its own a request waits for what it started, with a
// shared one for a permit. Of a shared group far fewer run than wait, told by
// what they run: closures of the functions that wait.
func (v *View) ownGroups() {
	if v.Kind != Stacks {
		return // a profile of waits does not show those that run
	}
	var waiting []*Crowd
	var wait, run float64
	callers := map[string]bool{} // functions that those who wait are in
	for _, c := range v.Crowds {
		if site := c.Site(); site != nil && c.Wait.Kind == stacks.Pool && ownGroup(site) {
			waiting, wait = append(waiting, c), wait+c.N
			for _, f := range c.Frames {
				callers[f.Func] = true
			}
		}
	}
	for _, c := range v.Crowds {
		r := root(c.Frames)
		if r == nil || !ownGroup(r) {
			continue
		}
		if i := slices.Index(c.Frames, r); i > 0 && startedBy(c.Frames[i-1].Func, callers) {
			run += c.N
		}
	}
	if run < wait {
		return
	}
	for _, c := range waiting {
		c.Wait.Kind, c.Wait.Group = stacks.Chan, true
	}
}

// startedBy reports whether name is a closure of one of the functions.
func startedBy(name string, functions map[string]bool) bool {
	for p := parent(name); p != ""; p = parent(p) {
		if functions[p] {
			return true
		}
	}
	return false
}

// ownGroup reports whether f is where an errgroup starts its goroutines.
func ownGroup(f *stacks.Frame) bool {
	switch stacks.Key(f) {
	case "golang.org/x/sync/errgroup.Group.Go", "golang.org/x/sync/errgroup.Group.TryGo", "golang.org/x/sync/errgroup.Group.add":
		return true
	}
	return false
}

// semaphores recognises permits that nothing is named for: requests that
// send to a channel wait for room or for a receiver, and requests at a cond
// which few others are past wait for their turn.
func (v *View) semaphores() {
	conds := 0
	for _, c := range v.Crowds {
		site := c.Site()
		if !c.Request || c.Telemetry.Is || c.Wait.Nil || site == nil || site.Std {
			continue
		}
		switch {
		case c.Wait.Kind == stacks.Chan && c.Wait.Send && !c.Wait.Group:
			c.Wait.Kind, c.Wait.ByName = stacks.Pool, true
		case c.Wait.Kind == stacks.Cond && !c.Wait.Group && conds < maxConds && stacks.TakesPermit(site):
			conds++
			if past, _, n := v.Past(c); past != nil && n < c.N {
				c.Wait.Kind, c.Wait.ByName = stacks.Pool, true
			}
		}
	}
}

// Past finds requests that are past where c waits: in the nearest function of
// c's stack, up to its handler, that others are in at a later line. It returns
// the largest such crowd, the index of the function in its frames, and how many are past in all.
func (v *View) Past(c *Crowd) (past *Crowd, frame int, n float64) {
	for i := c.Wait.Site; i < len(c.Frames); i++ {
		f := c.Frames[i]
		if handlerRoot[stacks.Key(f)] || serverRoot[stacks.Key(f)] {
			break
		}
		if f.Std || f.Line == 0 {
			continue
		}
		for _, o := range v.Crowds {
			if o == c || o.Request != c.Request || o.Wait.Kind == stacks.Idle || o.Site() == c.Site() {
				continue
			}
			for j, g := range o.Frames {
				if g.Func == f.Func && (g.Line > f.Line || g.Line == f.Line && i > c.Wait.Site && o.Wait.Kind != c.Wait.Kind) {
					if past == nil {
						past, frame = o, j
					}
					n += o.N
					break
				}
			}
		}
		if past != nil {
			return past, frame, n
		}
	}
	return nil, 0, 0
}
