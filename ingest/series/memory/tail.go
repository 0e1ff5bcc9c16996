package memory

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// Tail is a store of the samples of s from a time on, stale markers and values
// that are NaN as they are. from says for each series from when, in
// milliseconds, or that none of it is wanted.
func (s *Store) Tail(from func(labels.Labels) (ms int64, ok bool)) *Store {
	s.rlock()
	defer s.mu.RUnlock()
	out := New()
	out.lookback = s.lookback
	for _, x := range s.all {
		since, ok := from(x.labels)
		if !ok {
			continue
		}
		if i, _ := slices.BinarySearch(x.ts, since); i < len(x.ts) {
			out.add(out.seriesOf(x.labels), x.ts[i:], x.vs[i:])
		}
	}
	return out
}
