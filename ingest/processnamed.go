package ingest

import (
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
			of[i] = &member{Process: Process{Job: i.Job, Instance: i.Name}, identified: true}
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
