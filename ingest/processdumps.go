package ingest

import (
	"cmp"
	"slices"

	"github.com/contend/contend/ingest/stacks"
)

// addDumps places the text dumps that have goroutine ids.
func (b *Bundle) addDumps(all []*member) []*member {
	anonymous := func(s *stacks.Snapshot) bool { return s.Process == (stacks.Process{}) && s.HasStates() }
	dumps := 0
	for _, s := range b.Snapshots {
		if anonymous(s) {
			dumps++
		}
	}
	ids := make(map[*member][]made)      // of the latest dump: goroutines come and go
	recent := make(map[string][]*member) // by origin, the one added to last at the end
	for _, s := range b.Snapshots {
		if !anonymous(s) {
			continue
		}
		origin := b.Origin[s.Name]
		if m := only(all, origin, func(m *member) bool { return m.identified }); m != nil {
			m.addSnapshot(s)
			continue
		}
		var mine []made
		if dumps > 1 {
			mine = goroutines(s)
		}
		var like *member // the process that s shares most goroutines with
		var likeShared, likeOf int
		// Dumps of other folders are other processes, however alike.
		for _, m := range recent[origin] {
			shared, of := sharedGoroutines(ids[m], mine)
			if like == nil || shared*likeOf > likeShared*of {
				like, likeShared, likeOf = m, shared, of
			}
		}
		switch {
		case like == nil:
			like = &member{origin: origin}
			all = append(all, like)
		case likeOf > 0 && 2*likeShared >= likeOf:
			like.note("took %s and %s for two moments of one process: %d of %d goroutines are in both, by id and creator", like.latest(), s.Name, likeShared, likeOf)
		default:
			own := &member{origin: origin}
			own.note("took %s and %s for different processes: only %d of %d goroutines are in both, by id and creator", like.latest(), s.Name, likeShared, likeOf)
			like = own
			all = append(all, own)
		}
		like.addSnapshot(s)
		ids[like] = mine
		recent[origin] = lastOf(recent[origin], like)
	}
	return all
}

// latest is the name of the snapshot added last.
func (m *member) latest() string { return m.Process.Snapshots[len(m.Process.Snapshots)-1].Name }

// maxCompared is how many processes a dump is compared with: those of one
// origin that a dump was added to last. A log of a service that recovers
// panics can have a thousand small dumps that share nothing.
const maxCompared = 64

// lastOf moves m to the end of the members that the next dump is compared with.
func lastOf(recent []*member, m *member) []*member {
	recent = slices.DeleteFunc(recent, func(o *member) bool { return o == m })
	recent = append(recent, m)
	return recent[max(0, len(recent)-maxCompared):]
}

// made is a goroutine and how it came about, which does not change while it lives.
type made struct {
	id, creator int64
	by          string
}

// goroutines lists a dump's goroutines by their ids.
func goroutines(s *stacks.Snapshot) []made {
	var all []made
	for _, g := range s.Groups {
		by := ""
		if g.CreatedBy != nil {
			by = g.CreatedBy.Func
		}
		for _, m := range g.Members {
			all = append(all, made{m.ID, m.Creator, by})
		}
	}
	slices.SortFunc(all, func(a, b made) int { return cmp.Compare(a.id, b.id) })
	return all
}

// sharedGoroutines counts the goroutines of the smaller dump that are in the
// other too: a process never uses an id twice. Both are sorted by id.
func sharedGoroutines(a, b []made) (shared, of int) {
	of = min(len(a), len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].id < b[0].id:
			a = a[1:]
		case a[0].id > b[0].id:
			b = b[1:]
		default:
			if a[0] == b[0] {
				shared++
			}
			a, b = a[1:], b[1:]
		}
	}
	return shared, of
}
