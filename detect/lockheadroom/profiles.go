package lockheadroom

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/headroom"
)

const (
	// apart is how far two loads must differ to be two levels, as package headroom asks.
	apart = 1.2
	// seen is the part of the snapshots with waiters that must show who holds the
	// lock: those without waiters hide a holder as often, so that with two thirds the
	// lock has at most 1.5 times less headroom. Some show a waiter that was just woken.
	seen = 2.0 / 3
	// crowded is the part of the snapshots with a holder that may show two: one
	// has just let go. More of them are past the lock and not inside it.
	crowded = 0.05
	// fewWaits is how many must have waited to trust that who is past the line
	// that locks still holds the lock: as many as package headroom asks for.
	fewWaits = 100
	// fewSeen is how many snapshots must show both a holder and a waiter, where no
	// profile counts who waited.
	fewSeen = 10
	// shortWaits is the part of a holding time that the mean wait behind it is at
	// least: behind the most regular arrivals in use, of 20 tasks in turn, a
	// twentieth and more. Below that, the lock is let go long before its function ends.
	shortWaits = 0.02
)

func ofProfiles(p *detect.Pass) error {
	if p.Later() {
		p.RuleOut("looked at with the later profiles of the same task, as another level of load")
		return nil
	}
	spells, unknown := levelSpells(p)
	moments := p.Moments()
	if len(spells) == 0 && len(moments) < 2 {
		return errors.New(strings.Join(append([]string{"a snapshot is a moment, and a profile since the process began has no window: take two block profiles of one process some seconds apart, one with ?seconds=30, or 30 snapshots"}, unpaired(p)...), "; "))
	}
	var views []*detect.View // the latest first: a lock is told by how it looks now
	for _, s := range slices.Backward(spells) {
		views = append(views, s.View)
	}
	for _, m := range slices.Backward(moments) {
		views = append(views, m)
	}
	locks := detect.LocksOverTime(views)
	if len(locks) == 0 {
		p.RuleOut("no number, which is no all-clear: nobody was seen to wait for a lock in %s; behind a balancer that deals requests out in turn even a lock that is half full looks so", looked(spells, moments))
		return nil
	}
	var others []string // locks without a finding
	for _, l := range locks {
		one := site{l, spells, moments, p}
		f, ok, why := one.assess()
		if !ok {
			others = append(others, fmt.Sprintf("%s: %s%s", l.Site.Func, why, unknown))
			continue
		}
		p.Report(f)
	}
	if p.Options.AllLocks {
		for _, o := range others {
			p.RuleOut("%s", o)
		}
		return nil
	}
	if n := len(others); n > 1 {
		others = append(others[:1], fmt.Sprintf("and %s of which no more is known", detect.Plural(float64(n-1), "other lock")))
	}
	p.RuleOut("%s", strings.Join(others, "; "))
	return nil
}

// levelSpells are the spells of the process that can be compared. Those of earlier
// bundles are other loads, which profiles alone do not tell: how many are in
// flight grows with how slow they are, and waits elsewhere follow locks and
// dependencies of their own. Taken for today's they would make the lock look as
// idle as it was then, so without loads they are left out, and why says so.
func levelSpells(p *detect.Pass) (spells []detect.Spell, why string) {
	spells = p.Spells()
	if loaded(spells) && !slices.ContainsFunc(spells, func(s detect.Spell) bool { return math.IsNaN(s.Load) }) {
		return spells, ""
	}
	all := len(spells)
	spells = slices.DeleteFunc(spells, func(s detect.Spell) bool { return s.Earlier })
	if n := all - len(spells); n > 0 {
		why = fmt.Sprintf("; %s of earlier bundles would be other levels of load, but no series say how many requests a second came: take them with contend capture, which brings the metrics along", detect.Plural(float64(n), "profile"))
	}
	return spells, why
}

// loaded reports whether requests were answered in any of the spells. Where none
// ever were, the series are of something else.
func loaded(spells []detect.Spell) bool {
	return slices.ContainsFunc(spells, func(s detect.Spell) bool { return s.Load > 0 })
}

// unpaired says why two profiles have no difference, where there are two.
func unpaired(p *detect.Pass) []string {
	return slices.DeleteFunc(slices.Clone(p.Notes()), func(n string) bool { return !strings.Contains(n, "different processes") })
}

// looked is what was looked at, in words.
func looked(spells []detect.Spell, moments []*detect.View) string {
	if len(spells) == 0 {
		return detect.Plural(float64(len(moments)), "snapshot")
	}
	d := time.Duration(0)
	for _, s := range spells {
		d += s.Window
	}
	kind := "block"
	if spells[0].Mutex {
		kind = "mutex"
	}
	return fmt.Sprintf("%.1f s of %s profile and %s", d.Seconds(), kind, detect.Plural(float64(len(moments)), "snapshot"))
}

// site is a lock and when the process was looked at.
type site struct {
	lock    *detect.LockOverTime
	spells  []detect.Spell
	moments []*detect.View
	pass    *detect.Pass
}

// assess is the finding of the lock, or in words why there is none.
func (s *site) assess() (detect.Finding, bool, string) {
	var none detect.Finding
	if len(s.lock.Addresses) > 1 && s.lock.One() == 0 {
		return none, false, fmt.Sprintf("no number: these are %d locks of one kind, whose waits cannot be told apart", len(s.lock.Addresses))
	}
	if s.lock.Shared && len(s.lock.Waiters) == 0 {
		return none, false, "no number, which is no all-clear: only readers were seen to wait for this read-write lock, and not how long writers have it"
	}
	crowd := s.crowd()
	if crowd != "" {
		if why := s.full(crowd); why != "" {
			return none, false, why
		}
	}
	some := loaded(s.spells)
	if some && s.spells[len(s.spells)-1].Load == 0 {
		return none, false, "no number: no request was answered in the latest profile, and of that there is no multiple; look under load"
	}
	calm := slices.DeleteFunc(slices.Clone(s.spells), func(sp detect.Spell) bool {
		waiting, _ := s.lock.Waiting(sp.View)
		idle := some && sp.Load == 0 // with others it would make the lock look as idle
		return idle || waiting >= saturated && !sp.End.Equal(s.spells[len(s.spells)-1].End)
	})
	var windows []headroom.Window
	levels := byLoad(calm)
	several := len(levels) > 1 || some && slices.ContainsFunc(s.spells, func(sp detect.Spell) bool { return sp.Load == 0 })
	for _, level := range levels {
		windows = append(windows, s.window(level, s.during(level, several)))
	}
	if len(levels) == 0 {
		windows = append(windows, s.window(nil, s.moments))
	}
	today := &windows[len(windows)-1]
	counted, short := *today, firstWaiterOnly(s.spells)
	unseen := cmp.Or(headroom.Direct(*today).Refused, s.show(windows))
	for i := range windows {
		if short {
			windows[i].Contentions, windows[i].Delay = 0, 0
		}
	}
	f := headroom.Of(windows...)
	if f.Refused != "" {
		waits := ""
		switch {
		case len(s.spells) == 0:
		case short:
			waits = fmt.Sprintf("by waits, saw %s contentions, but a mutex profile of Go 1.21 and older has the time of one waiter at a release, and this one shows no later Go; take a block profile; ", detect.Thousands(counted.Contentions))
		case len(windows) > 1:
			waits = "by waits, " + onlyWaits(headroom.Levels(windows...)) + "; "
		default:
			waits = "by waits, " + headroom.Queue(*today).Refused + "; "
			if n := s.pass.Siblings(); s.pass.Options.RandomArrivals && n > 1 {
				waits += fmt.Sprintf("arrivals are said to be random, but %d instances share the requests, which may be dealt out in turn; ", n)
			}
		}
		f.Refused = waits + "by snapshots, " + unseen
	} else if today.Load*today.Elapsed.Seconds() >= 1 && f.Holding == 0 { // a hold is no longer than the window
		f.Holding = time.Duration(f.Utilisation.At / today.Load * float64(time.Second))
	}
	if why := s.readers(&f); why != "" {
		f = headroom.Forecast{Refused: why}
	}
	if crowd != "" && f.Refused == "" {
		if f.Confidence == headroom.High {
			f.Confidence = headroom.Medium
		}
		f.Assumes = append(f.Assumes, fmt.Sprintf("bursts stay as they are: in each %s wait or so, and it is full already; the number is of the mean load", crowd))
	}
	out, ok, why := assess(f, &s.pass.Options)
	if !ok {
		return none, false, why
	}
	s.describe(&out, &counted)
	return out, true, ""
}

// byLoad puts spells together that are of about one load, today's last. Where
// one's load is not known, they are one level.
func byLoad(spells []detect.Spell) [][]detect.Spell {
	if len(spells) == 0 {
		return nil
	}
	today := spells[len(spells)-1]
	sorted := slices.SortedStableFunc(slices.Values(spells), func(a, b detect.Spell) int { return cmp.Compare(a.Load, b.Load) })
	if !(sorted[0].Load > 0) { // first are those that are not known
		return [][]detect.Spell{spells}
	}
	var levels [][]detect.Spell
	for _, s := range sorted {
		if n := len(levels); n > 0 && s.Load < apart*levels[n-1][0].Load {
			levels[n-1] = append(levels[n-1], s)
		} else {
			levels = append(levels, []detect.Spell{s})
		}
	}
	now := slices.IndexFunc(levels, func(level []detect.Spell) bool {
		return slices.ContainsFunc(level, func(s detect.Spell) bool { return s.View == today.View })
	})
	last := levels[now]
	return append(slices.Delete(levels, now, now+1), last)
}

// during are the snapshots of a level's spells; with one load all that were
// taken while the lock was not saturated.
func (s *site) during(level []detect.Spell, several bool) []*detect.View {
	in := func(of []detect.Spell, t time.Time) bool {
		return slices.ContainsFunc(of, func(sp detect.Spell) bool { return !t.Before(sp.Start) && !t.After(sp.End) })
	}
	var out []*detect.View
	for _, m := range s.moments {
		t := m.Snapshot.Taken
		if in(level, t) || !several && !in(s.spells, t) {
			out = append(out, m)
		}
	}
	return out
}

// window is what was seen of the lock in spells and snapshots of one load.
func (s *site) window(spells []detect.Spell, moments []*detect.View) headroom.Window {
	w := headroom.Window{Arrivals: s.arrivals()}
	if len(spells) > 0 && spells[0].Mutex {
		w.MutexFraction = s.pass.Options.MutexFraction
	} else {
		w.BlockRate = s.pass.Options.BlockRate
	}
	delay, load := 0.0, 0.0
	for _, sp := range spells {
		n, events := s.lock.Waiting(sp.View)
		w.Elapsed += sp.Window
		w.Contentions += float64(events)
		delay += n * sp.Window.Seconds()
		if sp.Load > 0 {
			load += sp.Load * sp.Window.Seconds()
		}
	}
	w.Delay = time.Duration(delay * float64(time.Second))
	if w.Elapsed > 0 {
		w.Load = load / w.Elapsed.Seconds()
	} else if n := len(moments); n > 0 {
		w.Elapsed = moments[n-1].Snapshot.Taken.Sub(moments[0].Snapshot.Taken)
	}
	before := false
	for i, m := range moments {
		inside := s.inside(m)
		if inside {
			w.Inside++
		}
		if i > 0 && inside != before {
			w.Changes++
		}
		before = inside
	}
	w.Snapshots = len(moments)
	return w
}

// inside reports whether somebody has the lock in a snapshot, or waits for it.
func (s *site) inside(m *detect.View) bool {
	waiting, _ := s.lock.Waiting(m)
	return waiting > 0 || s.lock.Holders(m) > 0
}

// arrivals are what the user says they are, except where several instances share
// the requests: whatever deals those out may do so in turn, and then a lone
// reading of waits lulls.
func (s *site) arrivals() headroom.Pattern {
	if s.pass.Options.RandomArrivals && s.pass.Siblings() < 2 {
		return headroom.Random
	}
	return headroom.Unknown
}

// show takes the snapshots out of windows where they do not show who is inside,
// and the delays where they are too low. It says why, "" where nothing was taken out.
func (s *site) show(windows []headroom.Window) (why string) {
	today := &windows[len(windows)-1]
	waited, held, both, two := 0, 0, 0, 0
	for _, m := range s.moments {
		n, _ := s.lock.Waiting(m)
		h := s.lock.Holders(m)
		if n > 0 {
			waited++
		}
		if h > 0 {
			held++
		}
		if n > 0 && h > 0 {
			both++
		}
		if h > 1 {
			two++
		}
	}
	contentions := 0.0
	for i := range windows {
		contentions += windows[i].Contentions
	}
	wait := 0.0
	if today.Contentions > 0 {
		wait = today.Delay.Seconds() / today.Contentions
	}
	switch {
	case len(s.moments) == 0:
		return ""
	case held == 0 || float64(both) < seen*float64(waited):
		why = fmt.Sprintf("who holds it is seen in %d of the %s with waiters, and waiters alone are far fewer than those inside", both, detect.Plural(float64(waited), "snapshot"))
	case float64(two) > crowded*float64(held):
		why = fmt.Sprintf("%d of the snapshots show several past the line that locks: the lock is let go before its function ends", two)
	case len(s.spells) > 0 && contentions < fewWaits:
		why = fmt.Sprintf("%s contentions, expected %d or more, are too few to trust that who is past the line that locks holds it; look for longer, or under more load", detect.Thousands(contentions), fewWaits)
	case len(s.spells) == 0 && both < fewSeen:
		why = "hardly anybody waited, so that who is past the line that locks need not hold it"
	case today.Load > 0 && wait > 0 && wait < shortWaits*float64(today.Inside)/float64(max(1, today.Snapshots))/today.Load:
		why = fmt.Sprintf("waits of %s on average are too short for holds as long as it takes to get past the line that locks", detect.Seconds(wait))
	default:
		return ""
	}
	for i := range windows {
		windows[i].Snapshots, windows[i].Inside, windows[i].Changes = 0, 0, 0
	}
	return why
}

// firstWaiterOnly reports whether delays may be too low: up to Go 1.21 a mutex
// profile has the time of one of those who wait at a release. What tells a later Go are the
// runtime's own locks, in it from 1.22 on, and internal/sync, from 1.24 on.
func firstWaiterOnly(spells []detect.Spell) bool {
	for _, s := range spells {
		if !s.Mutex {
			return false
		}
		for _, c := range s.Crowds {
			if len(c.Frames) > 0 && (c.Frames[0].Package == "runtime" || c.Frames[0].Package == "internal/sync") {
				return false
			}
		}
	}
	return len(spells) > 0
}

// describe says whose lock it is, what was seen of it today, and what to do.
func (s *site) describe(f *detect.Finding, today *headroom.Window) {
	l := s.lock
	f.Wait = "lock"
	f.Name(l.Site)
	if today.Elapsed > 0 {
		f.Queue = today.Delay.Seconds() / today.Elapsed.Seconds()
	}
	f.Contentions = int64(today.Contentions)
	whose := "the application"
	if l.Telemetry.Is {
		whose = "telemetry"
	}
	what := "a lock of " + whose
	if l.Shared {
		what = "the writers' side of a read-write lock of " + whose
		f.Assumes = append(f.Assumes, "only writers were counted: readers do not exclude each other, and few who wait in functions of the same type were seen; what time they take from the writers comes on top, up to half as much again if none reads for longer than five writers write")
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
	}
	if len(s.spells) > 0 && s.spells[0].Mutex {
		f.Charged = "holder"
	}
	f.Summary = fmt.Sprintf("%s in %s %s today's load: %s", what, f.Function, f.Saturates(), f.Held())
	if l.Telemetry.ByWord {
		f.Confidence = detect.Weaker(f.Confidence, detect.Medium)
		f.Warnings = append(f.Warnings, fmt.Sprintf("counted as telemetry only by the word %q in its name or path", l.Telemetry.Name))
	}
	if len(l.Addresses) == 0 {
		f.Warnings = append(f.Warnings, "taken for one lock because the functions that wait are of one type; if they are several, each has more headroom than this")
	}
	for _, m := range slices.Backward(s.moments) {
		if f.Holder = l.Holder(m); f.Holder != nil {
			break
		}
	}
	f.Next = []string{s.shorter(f.Holder)}
	if l.Telemetry.Is {
		f.Next = append(f.Next, "take it off the request path: create instruments once at start, hand records to a queue that drops when it is full")
	} else {
		f.Next = append(f.Next, "take it off the request path: copy on write for what is read, a queue for what is written")
	}
	f.Next = append(f.Next, "shard it: n locks by key have n times the headroom, as far as keys spread evenly")
}

// shorter is what holding it shorter takes.
func (s *site) shorter(h *detect.Holder) string {
	if h == nil {
		return fmt.Sprintf("hold it shorter: the headroom grows as what %s does between Lock and Unlock shrinks", s.lock.Site.Func)
	}
	return fmt.Sprintf("hold it shorter: its holder was seen %s; what waits there can be done before or after", h.Wait)
}
