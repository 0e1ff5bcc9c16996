package capture

import (
	"cmp"
	"slices"
	"sync"
)

// Each thing is noted once for each reason; a hostile server has many.
const maxNotes = 50

// notes are what was not taken.
type notes struct {
	told func(Missing) // where set, of each when it is first seen

	mu  sync.Mutex
	all []*Missing
}

// add notes that something, of an instance where there are several, was not taken.
func (n *notes) add(what, instance, reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.all {
		if m.What == what && m.Instance == instance && m.Reason == reason {
			m.Times = max(m.Times, 1) + 1
			return
		}
	}
	if len(n.all) == maxNotes {
		return
	}
	m := &Missing{What: what, Reason: reason, At: now(), Instance: instance}
	n.all = append(n.all, m)
	if n.told != nil {
		n.told(*m)
	}
}

func (n *notes) missing() []Missing {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Missing
	for _, m := range n.all {
		out = append(out, *m)
	}
	slices.SortStableFunc(out, func(a, b Missing) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.What, b.What), cmp.Compare(a.Instance, b.Instance))
	})
	return out
}
