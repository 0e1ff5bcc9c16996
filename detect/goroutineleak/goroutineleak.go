// Package goroutineleak finds goroutines parked for good: many at one channel
// or wait site that nothing serves, told by the runtime's own proof, by growth
// between snapshots, by their ages, or by their sheer number.
package goroutineleak

import (
	_ "embed"
	"fmt"
	"sort"
	"strings"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/stacks"
)

//go:embed README.md
var doc string

// Detector is the detector's value.
var Detector = &detect.Detector{
	Name:        "goroutineleak",
	Title:       "goroutines parked for good",
	Role:        detect.Cause,
	Doc:         doc,
	Needs:       []detect.Need{{Input: detect.Stacks}},
	Differences: true,
	NoAlert:     "this version has no series; growth of the goroutine count is the alert to have",
	Run:         run,
}

const (
	// Growth counts from a hundred goroutines and a third more than before: pools
	// and connections of a service that is well breathe by less between two looks.
	grownBy    = 100
	grownShare = 1.0 / 3
	// Ages tell from twenty goroutines that have all waited five minutes and
	// began at different times: no request takes that long, and a pool of workers begins at once.
	agedCount   = 20
	agedMinutes = 5
	// Senders that nothing receives tell from a hundred. Goroutines that may only
	// be idle (receivers, selects) need a number that no pool of workers or
	// connections has, and ten times what is in flight.
	senders     = 100
	population  = 1000
	perInFlight = 10
)

// evidence says how a leak was told, weakest first.
type evidence int

const (
	none evidence = iota
	byNumber
	bySenders
	byAge
	byGrowth
	byRuntime
)

// place is the goroutines parked at one function in one way.
type place struct {
	site   *stacks.Frame
	kind   stacks.Kind
	send   bool
	never  bool // a nil channel or an empty select
	n      float64
	before float64
	aged   int64
	leaked int64
	min    int
	max    int
	crowds []*detect.Crowd
	how    evidence
}

func run(p *detect.Pass) error {
	proven(p)
	if p.Stacks == nil {
		if p.Growth != nil {
			grown(p, p.Growth)
		}
		return nil
	}
	v := p.Stacks
	if v.Unit == detect.Samples {
		p.RuleOut("shares of goroutines do not say how many are parked")
		return nil
	}
	found := places(v, false)
	before := map[string]*place{}
	if p.Earlier != nil {
		before = places(p.Earlier, false)
	}
	ages := map[string]*place{}
	if p.Detail != nil {
		ages = places(p.Detail, false)
	}
	var leaks []*place
	for key, l := range found {
		if a := ages[key]; a != nil {
			l.aged, l.leaked, l.min, l.max, l.never = a.aged, a.leaked, a.min, a.max, l.never || a.never
			if l.kind == stacks.Unknown {
				l.kind, l.send = a.kind, a.send
			}
		}
		if b := before[key]; b != nil {
			l.before = b.n
		}
		l.how = judge(p, v, l)
		if l.how != none {
			leaks = append(leaks, l)
		}
	}
	if len(leaks) == 0 {
		n := 0.0
		for _, l := range found {
			n = max(n, l.n)
		}
		p.RuleOut("outside handlers, no more than %s parked at any one site, without sign that it is for good", detect.Thousands(n))
		return nil
	}
	sort.Slice(leaks, func(i, j int) bool {
		a, b := leaks[i], leaks[j]
		if a.n != b.n {
			return a.n > b.n
		}
		if a.site.Func != b.site.Func {
			return a.site.Func < b.site.Func
		}
		return a.send
	})
	report(p, v, leaks)
	return nil
}

// places collects what is parked outside handlers. Connections of clients are
// no leak of this process, and what waits for locks, permits or answers has detectors of its own.
func places(v *detect.View, all bool) map[string]*place {
	m := map[string]*place{}
	for _, c := range v.Crowds {
		site := c.Site()
		if site == nil || !all && (c.Request || !parks(c)) {
			continue
		}
		key := fmt.Sprintf("%s %t", site.Func, c.Wait.Send)
		l := m[key]
		if l == nil {
			l = &place{site: site, kind: c.Wait.Kind, send: c.Wait.Send}
			m[key] = l
		}
		l.n += c.N
		l.never = l.never || c.Wait.Nil
		l.crowds = append(l.crowds, c)
		g := c.Group
		if g == nil {
			continue
		}
		l.leaked += g.Leaked
		if g.Aged > 0 {
			if l.aged == 0 || g.MinMinutes < l.min {
				l.min = g.MinMinutes
			}
			l.max = max(l.max, g.MaxMinutes)
			l.aged += g.Aged
		}
	}
	return m
}

func parks(c *detect.Crowd) bool {
	switch c.Wait.Kind {
	case stacks.Chan, stacks.Select, stacks.Cond, stacks.Unknown:
		// After its handler a connection waits, at a condition, for a read to be given
		// up: briefly, but for long where the CPU is short. Elsewhere a type of the
		// name says nothing of what such a wait is for.
		site := c.Site()
		return site.Package != "net/http" || !clientConnection(site)
	case stacks.Idle:
		return !clientConnection(c.Site())
	}
	return false
}

// clientConnection reports whether a goroutine serves a connection that a
// client opened, which is as many as there are clients.
func clientConnection(f *stacks.Frame) bool {
	switch f.Package {
	case "net/http":
		// Where a client connects and sends nothing, it stands in the function that reads a request.
		return f.Name == "readRequest" || f.Type == "conn" || f.Type == "connReader" || f.Type == "http2serverConn" || f.Type == "body" || f.Type == "Server"
	case "os/signal":
		return true
	}
	return f.Type == "serverConn" || f.Type == "http2Server" || f.Type == "Server" || strings.HasSuffix(f.Package, "websocket")
}

func judge(p *detect.Pass, v *detect.View, l *place) evidence {
	grew := l.n - l.before
	switch {
	case l.leaked >= agedCount:
		return byRuntime
	case p.Earlier != nil && grew >= grownBy && grew >= grownShare*l.before && outgrows(p, v, l):
		return byGrowth
	case (l.send || l.never) && l.aged >= agedCount && 10*float64(l.aged) >= 9*l.n && l.max >= agedMinutes && !explained(v, l) && !held(v):
		return byAge
	case (l.send || l.never) && l.n >= senders && l.n > v.InFlight && !held(v) && (p.Earlier == nil || grew > 0):
		return bySenders
	case l.n >= population && l.n >= perInFlight*v.InFlight && !explained(v, l) && (p.Earlier == nil || grew > 0):
		return byNumber
	}
	return none
}

// held reports whether what is in flight stands at a lock, a pool or another
// process: then senders outside handlers are the queue behind it, and will be received.
func held(v *detect.View) bool {
	n, _ := v.Sum(func(c *detect.Crowd) bool {
		return c.Wait.Kind.IsLock() || c.Wait.Kind == stacks.Pool || c.Telemetry.Is
	})
	return v.InFlight >= detect.MaterialCount && 2*n >= v.InFlight
}

// outgrows reports whether a place grew more than what the requests in flight
// explain: each may have started a helper or two.
func outgrows(p *detect.Pass, v *detect.View, l *place) bool {
	more := v.InFlight - p.Earlier.InFlight
	return l.n > v.InFlight && l.n-l.before > 3*max(more, 0) && !explained(v, l)
}

// explained reports whether as many clients' connections stand beside the
// place: a goroutine or two for each connection is the usual build of a server of streams.
func explained(v *detect.View, l *place) bool {
	var connections float64
	for _, c := range v.Crowds {
		site := c.Site()
		switch {
		case site == nil:
		case c.Request && c.Wait.Kind == stacks.Idle, c.Wait.Kind == stacks.Idle && clientConnection(site), c.Wait.Kind == stacks.Socket && c.Parked:
			connections += c.N
		}
	}
	return 2*connections >= l.n
}

func report(p *detect.Pass, v *detect.View, leaks []*place) {
	top := leaks[0]
	// A pool that is never closed, or a connection that lingers, leaves a fixed
	// set of goroutines each: places of nearly the same number are one leak.
	together := []*place{top}
	n := top.n
	const same = 0.9 // sets that come and go between two stacks of one dump differ by less
	for _, l := range leaks[1:] {
		if l.n >= same*top.n {
			together = append(together, l)
			n += l.n
		}
	}
	f := detect.Finding{Wait: string(waitKind(top)), Goroutines: detect.Whole(v.Goroutines), Unit: detect.Goroutines, Blocked: n, Total: v.Goroutines}
	if v.ByRequest {
		f.Requests = detect.Whole(v.Requests)
	}
	f.Name(top.site)
	f.Weight = n / (n + v.InFlight)
	f.Severity = detect.Warning
	if n > v.InFlight && top.how > byNumber {
		f.Severity = detect.Critical
	}
	how := ""
	switch top.how {
	case byRuntime:
		f.Confidence, how = detect.High, fmt.Sprintf("the runtime itself marked %s of them as never to wake", detect.Thousands(float64(top.leaked)))
	case byGrowth:
		f.Confidence, how = detect.High, fmt.Sprintf("%s more than in the earlier snapshot", detect.Thousands(grewBy(together)))
	case byAge:
		f.Confidence, how = detect.High, fmt.Sprintf("%s of them have waited between %d and %d minutes", detect.Thousands(float64(top.aged)), top.min, top.max)
	case bySenders:
		f.Confidence, how = detect.Medium, "more than is in flight, and nobody receives"
		f.Warnings = append(f.Warnings, "one snapshot without ages: a second one some seconds later shows whether they grow")
	case byNumber:
		f.Confidence, how = detect.Medium, "each taken alone looks idle; the number is the finding"
		f.Warnings = append(f.Warnings, "one snapshot: a second one some minutes later shows whether they grow")
		if !perPool(top) {
			// Workers, actors, cached workflows and idle connections to many hosts park
			// in thousands by design. What a library starts for each pool does not.
			f.Severity, f.Confidence = detect.Info, detect.Low
		}
	}
	if top.how >= bySenders && n > v.InFlight {
		f.Outranks = 1
	}
	f.Summary = fmt.Sprintf("%s goroutines are parked %s in %s%s: %s", detect.Thousands(n), operation(top), top.site.Func, others(together), how)
	for _, l := range together {
		f.Crowds = append(f.Crowds, l.crowds...)
		c := l.crowds[0]
		e := detect.Evidence{Text: fmt.Sprintf("%s goroutines in %s", detect.Thousands(l.n), l.site.Func), Input: v.Name, Count: l.n}
		if l.how == byGrowth {
			e.Text += fmt.Sprintf(", %s in %s", detect.Thousands(l.before), p.Earlier.Name)
		}
		e.Stack = stack(c)
		f.Evidence = append(f.Evidence, e)
		if g := c.Group; g != nil && g.CreatedBy != nil {
			f.Evidence = append(f.Evidence, detect.Evidence{Text: "created by " + g.CreatedBy.Func, Input: v.Name})
		}
	}
	f.Next = advice(top)
	p.Report(f)
}

func advice(l *place) []string {
	next := "give the channel room for one answer, or select on the context's end beside it"
	switch {
	case l.site.Package == "net/http" && l.site.Type == "persistConn":
		next = "close the body of every response, on every path, and read it to its end: a connection is held until then"
	case l.site.Package == "database/sql":
		next = "open a sql.DB once and keep it: it is a pool, and each that is opened and not closed keeps its goroutines"
	case l.kind == stacks.Idle:
		next = "close what was opened: each of these belongs to a connection or pool that nobody closed"
	}
	return []string{
		fmt.Sprintf("read who should serve or close what %s waits for, and what happens to it when its asker gives up or fails", l.site.Func),
		next,
		"restart before memory runs out: each of these keeps its stack and all it refers to",
	}
}

func grewBy(ls []*place) float64 {
	n := 0.0
	for _, l := range ls {
		n += l.n - l.before
	}
	return n
}

// perPool reports whether a place is a helper that is started for each pool or
// each connection of one, of which a process has a handful, or a connection that waits for its
// response's body to be read.
func perPool(l *place) bool {
	return l.site.Package == "database/sql" || l.site.Type == "mysqlConn" || l.site.Type == "persistConn" && l.crowds[0].Wait.Op == stacks.Select && l.site.Name == "readLoop"
}

func operation(l *place) string {
	switch {
	case l.never:
		return "at a channel that is nil or a select without cases,"
	case l.kind == stacks.Chan && l.send:
		return "sending to a channel"
	case l.kind == stacks.Chan:
		return "at a channel"
	case l.kind == stacks.Select:
		return "in a select"
	case l.kind == stacks.Cond:
		return "at a condition or WaitGroup"
	}
	return "idle"
}

func others(ls []*place) string {
	if len(ls) == 1 {
		return ""
	}
	var names []string
	for _, l := range ls[1:min(len(ls), 3)] {
		names = append(names, l.site.Func)
	}
	return " and " + strings.Join(names, " and ")
}

func stack(c *detect.Crowd) []string {
	var out []string
	for _, f := range c.Frames[c.Wait.Site:min(len(c.Frames), c.Wait.Site+6)] {
		out = append(out, f.Func)
	}
	return out
}

// proven reports what a goroutineleak profile lists: the garbage collector
// found that nothing can ever wake these.
func proven(p *detect.Pass) {
	v := p.Leaks
	if v == nil || v.Goroutines == 0 {
		return
	}
	var top *place
	for _, l := range places(v, true) {
		if top == nil || l.n > top.n || l.n == top.n && l.site.Func < top.site.Func {
			top = l
		}
	}
	if top == nil {
		return
	}
	f := detect.Finding{Wait: string(waitKind(top)), Confidence: detect.High, Blocked: v.Goroutines, Unit: detect.Goroutines, Total: v.Goroutines, Severity: detect.Warning, Weight: 1}
	if p.Stacks != nil {
		f.Total, f.Goroutines = p.Stacks.Goroutines, detect.Whole(p.Stacks.Goroutines)
		f.Weight = v.Goroutines / (v.Goroutines + p.Stacks.InFlight)
	}
	if p.Stacks == nil || v.Goroutines > p.Stacks.InFlight {
		f.Outranks = 1
	}
	f.Crowds = v.Crowds
	f.Name(top.site)
	f.Summary = fmt.Sprintf("%s goroutines can never wake, most in %s: the runtime proved it", detect.Thousands(v.Goroutines), top.site.Func)
	f.Evidence = []detect.Evidence{{Text: fmt.Sprintf("%s leaked in %s", detect.Thousands(top.n), top.site.Func), Input: v.Name, Count: top.n, Stack: stack(top.crowds[0])}}
	f.Next = []string{"read who should serve or close what this function waits for: nothing refers to it any more"}
	p.Report(f)
}

func waitKind(l *place) stacks.Kind {
	if op := l.crowds[0].Wait.Op; op != stacks.Unknown && op != stacks.Idle {
		return op
	}
	return stacks.Chan
}

// grown reports growth read from one ?seconds=N goroutine profile.
func grown(p *detect.Pass, v *detect.View) {
	var top *place
	for _, l := range places(v, false) {
		if l.n >= grownBy && (top == nil || l.n > top.n || l.n == top.n && l.site.Func < top.site.Func) {
			top = l
		}
	}
	if top == nil {
		p.RuleOut("no site grew by %d goroutines over the profile's seconds", grownBy)
		return
	}
	f := detect.Finding{Wait: string(waitKind(top)), Confidence: detect.Medium, Blocked: top.n, Unit: detect.Goroutines, Severity: detect.Warning, Weight: 1, Crowds: top.crowds}
	f.Name(top.site)
	f.Summary = fmt.Sprintf("%s goroutines more are parked %s in %s than at the start of the profile", detect.Thousands(top.n), operation(top), top.site.Func)
	f.Evidence = []detect.Evidence{{Text: fmt.Sprintf("grew by %s", detect.Thousands(top.n)), Input: v.Name, Count: top.n, Stack: stack(top.crowds[0])}}
	f.Warnings = []string{"a profile with ?seconds=N is a difference, not a snapshot: how many there are in all it does not say"}
	f.Next = []string{"take a goroutine profile without seconds, twice some seconds apart"}
	p.Report(f)
}
