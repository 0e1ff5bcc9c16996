package memory

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Column is one series of a store. Its slices are the store's own: read only.
type Column struct {
	Labels labels.Labels
	T      []int64   // ms, ascending
	V      []float64 // V[i] at T[i]; NaN is a stale marker
}

// Columns are the series of a name, sorted by labels; for looking values up,
// where PromQL would be a long way round.
func (s *Store) Columns(name string) []Column {
	s.rlock()
	defer s.mu.RUnlock()
	var out []Column
	for _, x := range s.byName[name] {
		out = append(out, Column{x.labels, x.ts, x.vs})
	}
	slices.SortFunc(out, func(a, b Column) int { return labels.Compare(a.Labels, b.Labels) })
	return out
}

// All are the series of a store, in the order in which they came.
func (s *Store) All() []Column {
	s.rlock()
	defer s.mu.RUnlock()
	out := make([]Column, len(s.all))
	for i, x := range s.all {
		out[i] = Column{x.labels, x.ts, x.vs}
	}
	return out
}

// Only is a store of the series that keep is true of. It shares their samples
// with s, and is not to be added to.
func (s *Store) Only(keep func(Column) bool) *Store {
	s.rlock()
	defer s.mu.RUnlock()
	out := New()
	out.lookback = s.lookback
	for _, x := range s.all {
		if !keep(Column{x.labels, x.ts, x.vs}) {
			continue
		}
		out.all = append(out.all, x)
		name := x.labels.Get(model.MetricNameLabel)
		out.byName[name] = append(out.byName[name], x)
	}
	return out
}
