package ingest

import (
	"slices"
	"time"

	"github.com/contend/contend/ingest/waits"
)

// named are the processes whose names the list of a bundle has. rest is the
// bundle without their inputs.
func (b *Bundle) named() (all []*member, rest *Bundle) {
	if len(b.Instances) == 0 {
		return nil, b
	}
	rest = &Bundle{Origin: b.Origin}
	of := map[Instance]*member{}
	profiles := map[*member][]*waits.Profile{}
	find := func(input string) *member {
		i, ok := b.Instances[input]
		if !ok {
			return nil
		}
		if of[i] == nil {
			of[i] = &member{Process: Process{Job: i.Job, Instance: i.Name}, identified: true, bundle: i.Bundle}
			all = append(all, of[i])
		}
		return of[i]
	}
	for _, s := range b.Snapshots {
		if m := find(s.Name); m != nil {
			m.addSnapshot(s)
		} else {
			rest.Snapshots = append(rest.Snapshots, s)
		}
	}
	for _, w := range b.Waits {
		if m := find(w.Name); m != nil {
			profiles[m] = append(profiles[m], w)
		} else {
			rest.Waits = append(rest.Waits, w)
		}
	}
	for _, m := range all {
		m.addWaits(profiles[m])
	}
	return all, rest
}

// addWaits adds the wait profiles of a process whose name is known.
func (m *member) addWaits(profiles []*waits.Profile) {
	defer m.keepLatest()
	_, apart := m.pairWaits(profiles)
	m.Notes = nil // that they are of one process is no guess
	if apart == "" {
		return
	}
	// It began anew below the same name; the last ones are of now.
	m.note("%s, although both are of %s: the last one is used alone", apart, m.Instance)
	m.inputs = m.inputs[:len(m.Process.Snapshots)]
	m.Process.Waits, m.Process.Between = nil, nil
	for _, kind := range []waits.Kind{waits.Block, waits.Mutex} {
		var last *waits.Profile
		for _, w := range profiles {
			if w.Kind == kind && (last == nil || !w.Taken.Before(last.Taken)) {
				last = w
			}
		}
		if last != nil {
			m.Process.Waits = append(m.Process.Waits, last)
			m.inputs = append(m.inputs, last)
		}
	}
}

// keepLatest leaves of the profiles over an interval, which a client pushes one after the
// other, the last of a kind in Waits: that is the one of now. A cumulative one before
// it, which is the first that a client pushes, has nothing to add.
func (m *member) keepLatest() {
	interval := func(w *waits.Profile) bool { return w.Window > 0 && w.From == "" }
	latest := map[waits.Kind]*waits.Profile{}
	for _, w := range m.Process.Waits {
		if l := latest[w.Kind]; interval(w) && (l == nil || !w.Taken.Before(l.Taken)) {
			latest[w.Kind] = w
		}
	}
	m.Process.Waits = slices.DeleteFunc(m.Process.Waits, func(w *waits.Profile) bool {
		l := latest[w.Kind]
		if l == nil || w == l || w.Taken.After(l.Taken) || w.From != "" {
			return false
		}
		if interval(w) {
			m.Process.Between = append(m.Process.Between, w)
		}
		return true
	})
	sortByTime(m.Process.Between, func(w *waits.Profile) time.Time { return w.Taken })
}
