package detect

import (
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// followHelpers gives requests that wait for goroutines they started (a
// channel, a WaitGroup) the wait of those goroutines, one step.
func (v *View) followHelpers() {
	started := v.started()
	for _, c := range v.Crowds {
		if !c.Request {
			continue
		}
		switch c.Wait.Kind {
		case stacks.Chan, stacks.Select, stacks.Cond:
		case stacks.Pool:
			if !c.Wait.ByName || c.Wait.Op != stacks.Chan {
				continue
			}
		case stacks.Socket:
			// An HTTP/2 client's call is made by a goroutine of its own, which may be
			// waiting for the connection to have room for another stream.
			if !c.Wait.Answer || c.Site().Type != "http2ClientConn" && c.Site().Type != "ClientConn" {
				continue
			}
			if through, helped := started.why(c); through != nil && through.Wait.Kind == stacks.Pool {
				c.Through, c.helped = through, helped
			}
			continue
		default:
			continue
		}
		if site := c.Site(); site != nil && strings.HasSuffix(site.Package, "/singleflight") {
			c.Through = v.leader()
			continue
		}
		through, helped := started.why(c)
		switch {
		case through == nil:
			continue
		case c.Telemetry.Is:
			// Telemetry that waits for its own helpers is telemetry still; a collector
			// that asks a database makes the scrape wait for that.
			if through.Telemetry.Is {
				continue
			}
		case through.Wait.Kind == stacks.Socket && !through.Wait.Answer && !c.Wait.Group && !through.nested && !ownResolver(through):
			continue // a raw read beside a channel is as likely a copy between two clients
		}
		c.Through, c.helped = through, helped
	}
}

// ownResolver reports whether a crowd asks a name server on behalf of package net.
func ownResolver(c *Crowd) bool { return c.Site() != nil && c.Site().Package == "net" }

// leader is the crowd of singleflight's leaders: those who make the call that
// all others of the key wait for.
func (v *View) leader() *Crowd {
	for _, c := range v.Crowds {
		if !tellsWhy(c) {
			continue
		}
		for _, f := range c.Frames[c.Wait.Site:] {
			if strings.HasSuffix(f.Func, "/singleflight.(*Group).doCall") {
				return c
			}
		}
	}
	return nil
}

// Looking for helpers and for requests past a line compares stacks with
// stacks. Crowds come largest first, so these bounds lose nothing that matters
// and keep a dump of as many stacks as goroutines linear.
const (
	maxHelpers = 256 // crowds of helpers of one function, or of one creator
	maxConds   = 64  // crowds at conds that are compared with all others
)

// helpers are the goroutines outside handlers by who started them.
type helpers struct {
	byCreator map[int64][]*Crowd  // creator's goroutine id to crowds, once for each goroutine
	creators  map[int64]bool      // ids that started any goroutine, also one that does not tell why
	byParent  map[string][]*Crowd // function that started them, or that a frame is a closure of, to crowds
	ids       bool                // creators are known
}

func (v *View) started() helpers {
	h := helpers{byCreator: map[int64][]*Crowd{}, creators: map[int64]bool{}, byParent: map[string][]*Crowd{}}
	for _, c := range v.Crowds {
		if c.Request {
			continue
		}
		if !tellsWhy(c) {
			if c.nested && c.Group != nil {
				for i := range c.Group.Members {
					h.creators[c.Group.Members[i].Creator] = true
				}
			}
			continue
		}
		if c.Group != nil {
			for i := range c.Group.Members {
				if id := c.Group.Members[i].Creator; id != 0 && len(h.byCreator[id]) < maxHelpers {
					h.ids = true
					h.byCreator[id] = append(h.byCreator[id], c)
				}
			}
		}
		seen := map[string]bool{}
		for _, f := range c.Frames {
			for p := parent(f.Func); p != ""; p = parent(p) {
				h.add(p, c, seen)
			}
		}
		if c.Group != nil && c.Group.CreatedBy != nil {
			h.add(c.Group.CreatedBy.Func, c, seen)
		}
	}
	return h
}

func (h helpers) add(parent string, c *Crowd, seen map[string]bool) {
	if !seen[parent] && len(h.byParent[parent]) < maxHelpers {
		seen[parent] = true
		h.byParent[parent] = append(h.byParent[parent], c)
	}
}

// why finds what most of c's helpers wait for. Where a dump names creators
// they are exact; else helpers are told by being closures of a function in
// c's stack. Helpers that wait at a channel's other end can outlive their
// request: where those without one outnumber the rest they say nothing of the
// requests still there. Whoever a WaitGroup counts cannot. Handlers that a
// handler gave up (http.TimeoutHandler) do, but stand where its next one will.
// It also returns how many of c have such a helper, 0 where that is not known.
func (h helpers) why(c *Crowd) (*Crowd, float64) {
	n := map[*Crowd]float64{}
	if h.ids && c.Group != nil {
		var order []*Crowd
		helped := 0.0
		for i := range c.Group.Members {
			seen := map[*Crowd]bool{}
			if len(h.byCreator[c.Group.Members[i].ID]) > 0 {
				helped++
			}
			for _, o := range h.byCreator[c.Group.Members[i].ID] {
				if seen[o] {
					continue
				}
				seen[o] = true
				if n[o] == 0 {
					order = append(order, o)
				}
				n[o]++
			}
		}
		var best *Crowd
		for _, o := range order {
			if best == nil || n[o] > n[best] || n[o] == n[best] && o.N > best.N {
				best = o
			}
		}
		if best != nil {
			if 2*n[best] < float64(len(c.Group.Members)) || !c.Wait.Group && !best.nested && best.N > 2*c.N {
				return nil, 0
			}
			return best, helped / float64(len(c.Group.Members)) * c.N
		}
		for i := range c.Group.Members {
			if h.creators[c.Group.Members[i].ID] {
				return nil, 0 // their own handlers are known, and do not wait
			}
		}
	}
	var best *Crowd
	var all float64
	for i := max(c.Wait.Site, 0); i < len(c.Frames); i++ {
		f := c.Frames[i]
		if i > c.Wait.Site && (handlerRoot[stacks.Key(f)] || serverRoot[stacks.Key(f)]) {
			break
		}
		if ownGroup(f) {
			continue // every group's goroutines are started there
		}
		for _, o := range h.byParent[f.Func] {
			if n[o] == 0 {
				n[o] = o.N
				all += o.N
				if best == nil || o.N > best.N {
					best = o
				}
			}
		}
	}
	if best == nil || 2*best.N < c.N || !c.Wait.Group && !best.nested && all > 2*c.N {
		return nil, 0
	}
	return best, 0
}

// parent is the function that a closure or its wrapper stands in; "" for a
// function of its own.
func parent(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return ""
	}
	tail := name[i+1:]
	for _, p := range [...]string{"func", "gowrap", ""} {
		if rest, ok := strings.CutPrefix(tail, p); ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
			return name[:i]
		}
	}
	return ""
}

func tellsWhy(c *Crowd) bool {
	switch c.Wait.Kind {
	case stacks.Lock, stacks.RLock, stacks.FDLock, stacks.Pool:
		return true
	case stacks.Socket:
		return c.Wait.Site >= 0
	case stacks.Chan, stacks.Select:
		return c.Telemetry.Is && !c.Parked
	}
	return false
}
