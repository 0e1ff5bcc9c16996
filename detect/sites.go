package detect

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/contend/contend/ingest/stacks"
)

// SiteSum is the goroutines in scope that wait at one function, whatever
// brought them there.
type SiteSum struct {
	Site      *stacks.Frame
	Kind      stacks.Kind // what most wait for
	N         float64     // in the measure of Crowd.N
	Events    int64
	Telemetry Telemetry
	Crowds    []*Crowd // the crowds that wait (helpers where requests wait through them), largest first
	own       []*Crowd // the crowds counted, in the same order
}

// All are the crowds at a site: those counted, and the helpers that they wait through.
func (s *SiteSum) All() []*Crowd { return slices.Concat(s.own, s.Crowds) }

// Sites adds up, by the function they wait at, the crowds in scope that want
// accepts, the largest first. A request that waits through a helper is counted where the helper waits.
func (v *View) Sites(want func(*Crowd) bool) []*SiteSum {
	byFunc := map[string]*SiteSum{}
	var out []*SiteSum
	for _, c := range v.Crowds {
		if !v.InScope(c) {
			continue
		}
		at := c.For()
		site := at.Site()
		if site == nil || !want(at) {
			continue
		}
		s := byFunc[site.Func]
		if s == nil {
			s = &SiteSum{Site: site, Kind: at.Wait.Kind, Telemetry: at.Telemetry}
			byFunc[site.Func] = s
			out = append(out, s)
		}
		s.N += c.counted()
		s.Events = addEvents(s.Events, c.Events)
		s.Crowds = append(s.Crowds, at)
		s.own = append(s.own, c)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].N > out[j].N })
	return out
}

// Sum adds up the crowds in scope that want accepts.
func (v *View) Sum(want func(*Crowd) bool) (n float64, events int64) {
	for _, c := range v.Crowds {
		if v.InScope(c) && want(c.For()) {
			n += c.counted()
			events = addEvents(events, c.Events)
		}
	}
	return n, events
}

// SiteEvidence shows the largest stacks of a site and who called it.
func (v *View) SiteEvidence(s *SiteSum) []Evidence {
	const most = 3 // one screen
	var out []Evidence
	for i, c := range s.Crowds[:min(len(s.Crowds), most)] {
		own := s.own[i]
		verb := "wait"
		if c.Wait.Kind == stacks.Running || c.Wait.Kind == stacks.Runnable {
			verb = "stand"
		}
		text := fmt.Sprintf("%s %s in %s%s", v.amount(own.N, own.Events), verb, c.Site().Func, calledFrom(c))
		if own != c && own.Site() != nil {
			text = fmt.Sprintf("%s wait in %s for goroutines that wait in %s%s", v.amount(own.N, own.Events), own.Site().Func, c.Site().Func, calledFrom(c))
		}
		out = append(out, Evidence{Text: text, Input: v.Name, Count: round1(own.N), Stack: shortStack(c.Frames, c.Wait.Site, c.Wait.Site+5)})
	}
	return out
}

// InView looks in another view of the process for goroutines in scope at the
// same function, and says what it has.
func (v *View) InView(s *SiteSum) (Evidence, bool) {
	if found := v.Sites(func(c *Crowd) bool { return c.Site().Func == s.Site.Func }); len(found) > 0 {
		o := found[0]
		text := fmt.Sprintf("the block profile has on average %s waiting there over %.1f s", Thousands(round1(o.N)), v.Window.Seconds())
		if wait, ok := v.MeanWait(o); ok {
			text += ", " + Seconds(wait) + " each"
		}
		return Evidence{Text: text, Input: v.Name, Count: round1(o.N)}, true
	}
	return Evidence{}, false
}

// MeanWait is the mean length of a wait at s in seconds, where v is a profile
// that knows it: delay divided by contentions.
func (v *View) MeanWait(s *SiteSum) (float64, bool) {
	if v.Kind != Waits || s.Events <= 0 {
		return 0, false
	}
	return v.meanWait(s.Site, s.N, s.Events), true
}

func (v *View) meanWait(site *stacks.Frame, n float64, events int64) float64 {
	delay := n
	if !v.Cumulative {
		delay *= v.Window.Seconds()
	}
	if site.Func == "net/http.(*persistConn).roundTrip" {
		// It passes its select twice a call: when the request is written, and when the answer comes.
		delay *= 2
	}
	return delay / float64(events)
}

// Lasting is how long those who wait at s now will have waited on average, in
// seconds: the mean waits of its crowds, weighted by how many stand in each. A rare
// slow call is most of what stands there, and little of all calls.
func (v *View) Lasting(s *SiteSum) (float64, bool) {
	sum, n := 0.0, 0.0
	for _, c := range s.own {
		if v.Kind == Waits && c.Events > 0 {
			sum += c.N * v.meanWait(s.Site, c.N, c.Events)
			n += c.N
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / n, true
}

// Worker is a goroutine outside handlers, in site's package and of its type where it has
// one, that is busy with something other than waiting for work: who waits at site to hand something over waits for it.
func (v *View) Worker(site *stacks.Frame) *Crowd {
	for _, c := range v.Crowds {
		switch c.Wait.Kind {
		case stacks.Socket, stacks.Syscall, stacks.Lock, stacks.RLock, stacks.FDLock, stacks.Running, stacks.Pool:
		default:
			continue
		}
		if c.Request || c.Site() == nil {
			continue
		}
		for _, f := range c.Frames {
			if f.Package == site.Package && (site.Type == "" && site.Package != "main" || site.Type != "" && f.Type == site.Type) {
				return c
			}
		}
	}
	return nil
}

// Connecting reports whether a crowd that waits in the HTTP client's getConn
// waits for a connection being made, rather than for one of a limited number:
// at least half as many are dialling at the moment.
func (v *View) Connecting(c *Crowd) bool {
	if site := c.Site(); site == nil || site.Func != "net/http.(*Transport).getConn" {
		return false
	}
	var dials float64
	for _, o := range v.Crowds {
		for _, f := range o.Frames {
			if f.Func == "net/http.(*Transport).dialConnFor" || f.Func == "net/http.(*Transport).dialConn" {
				dials += o.N
				break
			}
		}
	}
	return 2*dials >= c.N
}

// Connects reports whether c's wait is for a connection being made.
func (c *Crowd) Connects() bool {
	for _, f := range c.Frames[:max(c.Wait.Site, 0)] {
		if f.Name == "connect" || f.Name == "Connect" || f.Name == "dial" {
			return true
		}
	}
	return false
}

// addEvents adds two counts of a profile; a sum that does not fit stays at the largest.
func addEvents(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}
