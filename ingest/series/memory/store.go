// Package memory holds series that were read from files, and answers PromQL
// over them with Prometheus' own engine: what a server answers, it answers.
//
// Its columns take the place of Prometheus' tsdb, which is a database with a
// log, blocks and compaction, and twice the size of the rest of the program.
package memory

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
)

// Store is a set of series. All its methods may be called at the same time; a
// query sees what was there when it began to read.
type Store struct {
	engine *promql.Engine

	mu       sync.RWMutex
	lookback time.Duration
	all      []*series
	byName   map[string][]*series
	byHash   map[uint64][]*series // of all labels
	unsealed []*series
	// Series of one scrape have their timestamps in common: each column is
	// kept once, which halves the memory that a fleet's series take.
	times map[span][]int64
	// The names of metrics of which native histograms were loaded, and left out.
	histograms map[string]bool
	stats      Stats
	notes      []string
}

// series is one series' labels and its samples in two columns of one length.
// Readers keep slices of both, so what was once in a column never changes: it
// is added to at its end, or replaced.
type series struct {
	labels   labels.Labels
	ts       []int64 // ms
	vs       []float64
	unsealed bool // added to since the last seal
}

// span tells columns of timestamps apart, cheaply and nearly always.
type span struct {
	first, last int64
	n           int
}

// Stats counts what a store holds, and what of it was odd.
type Stats struct {
	Series     int
	Samples    int // stale markers included
	OutOfOrder int // samples earlier than the one before them in their series; sorted
	Duplicates int // samples that were there before; dropped
	Conflicts  int // samples with the time of another of their series and a different value; the last was kept
}

// New returns an empty store.
func New() *Store {
	return &Store{
		engine:   newEngine(),
		lookback: standardLookback,
		byName:   map[string][]*series{},
		byHash:   map[uint64][]*series{},
		times:    map[span][]int64{},

		histograms: map[string]bool{},
	}
}

// Append adds samples to the series of these labels: vs[i] at ts[i], which is
// in milliseconds since 1970. Both have one length and are copied. A NaN says
// that the series ended there, as in promtool's dumps, and is stored as
// Prometheus' stale marker. Series that are appended twice are merged.
func (s *Store) Append(lset labels.Labels, ts []int64, vs []float64) {
	vs = slices.Clone(vs)
	endAtNaN(vs)
	disorder := 0
	for i := 1; i < len(ts); i++ {
		if ts[i] < ts[i-1] {
			disorder++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(s.seriesOf(lset), ts, vs)
	s.stats.OutOfOrder += disorder
}

// AppendMatrix stores the result of a range query as series of that name, as
// a recording rule evaluated each step would: where a series has no value one
// step after a sample, it gets a stale marker, also after its last sample.
// Histograms are left out. A NaN stays the value that it was computed to be.
func (s *Store) AppendMatrix(name string, m promql.Matrix, step time.Duration) {
	ms := step.Milliseconds()
	b := labels.NewBuilder(labels.EmptyLabels())
	var ts []int64
	var vs []float64
	for _, in := range m {
		if len(in.Floats) == 0 {
			continue
		}
		ts, vs = ts[:0], vs[:0]
		for i, p := range in.Floats {
			ts, vs = append(ts, p.T), append(vs, p.F)
			// The marker after the last sample is past the range, or it gives
			// way to the first sample of the range that follows.
			if i+1 == len(in.Floats) || in.Floats[i+1].T-p.T > ms {
				ts, vs = append(ts, p.T+ms), append(vs, staleNaN)
			}
		}
		b.Reset(in.Metric)
		b.Set(model.MetricNameLabel, name)
		lset := b.Labels()
		s.mu.Lock()
		s.add(s.seriesOf(lset), ts, vs)
		s.mu.Unlock()
	}
}

// SetLookback sets how long a sample stands for the present in Range where no
// marker ends its series. 0 and less is Prometheus' default of 5 minutes.
func (s *Store) SetLookback(d time.Duration) {
	if d <= 0 {
		d = standardLookback
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookback = d
}

// Histograms are the names of metrics of which native histograms were loaded: they
// are left out, so that what reads them alone finds nothing. Sorted.
func (s *Store) Histograms() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.histograms))
}

// Stats counts what is there now.
func (s *Store) Stats() Stats {
	s.rlock()
	defer s.mu.RUnlock()
	return s.stats
}

// Notes says in words what was odd in all that was loaded and appended.
func (s *Store) Notes() []string {
	s.rlock()
	defer s.mu.RUnlock()
	return append(slices.Clone(s.notes), s.stats.notes()...)
}

func (st Stats) notes() []string {
	var notes []string
	note := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, counted(n, "sample")))
		}
	}
	note(st.OutOfOrder, "out of order within a series: %s, sorted")
	note(st.Duplicates, "in the input twice: %s, taken once")
	note(st.Conflicts, "of one series and time as another, with a different value: %s; the last was taken")
	return notes
}

// counted is "1 sample" or "2 samples".
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// find is the series of these labels, or nil. The caller holds mu.
func (s *Store) find(lset labels.Labels) *series {
	for _, have := range s.byHash[lset.Hash()] {
		if labels.Equal(have.labels, lset) {
			return have
		}
	}
	return nil
}

// seriesOf is the series of these labels, which is made where there is none.
// The caller holds mu for writing.
func (s *Store) seriesOf(lset labels.Labels) *series {
	if have := s.find(lset); have != nil {
		return have
	}
	made := &series{labels: lset}
	s.all = append(s.all, made)
	name := lset.Get(model.MetricNameLabel)
	s.byName[name] = append(s.byName[name], made)
	hash := lset.Hash()
	s.byHash[hash] = append(s.byHash[hash], made)
	s.stats.Series++
	return made
}

// add puts samples behind those of a series. The caller holds mu for writing.
func (s *Store) add(to *series, ts []int64, vs []float64) {
	if len(ts) == 0 {
		return
	}
	if len(to.ts) == 0 {
		to.ts = s.share(ts, true)
		to.vs = slices.Clone(vs)
	} else {
		to.ts = append(to.ts, ts...)
		to.vs = append(to.vs, vs...)
	}
	s.stats.Samples += len(ts)
	if !to.unsealed {
		to.unsealed = true
		s.unsealed = append(s.unsealed, to)
	}
}

// share returns a column with these timestamps that several series may have:
// it is full, so that append copies it. Unless borrowed, ts itself may be kept.
func (s *Store) share(ts []int64, borrowed bool) []int64 {
	key := span{ts[0], ts[len(ts)-1], len(ts)}
	if have := s.times[key]; slices.Equal(have, ts) {
		return have
	}
	if borrowed {
		ts = slices.Clone(ts)
	}
	ts = slices.Clip(ts)
	s.times[key] = ts
	return ts
}

// rlock locks mu for reading, with all series sealed.
func (s *Store) rlock() {
	for {
		s.mu.RLock()
		if len(s.unsealed) == 0 {
			return
		}
		s.mu.RUnlock()
		s.mu.Lock()
		s.seal()
		s.mu.Unlock()
	}
}

// seal sorts what was added out of order and takes each time once. The caller
// holds mu for writing.
func (s *Store) seal() {
	// Columns that have grown since are of no use to other series.
	clear(s.times)
	for _, x := range s.unsealed {
		x.unsealed = false
		if !increasing(x.ts) {
			s.order(x)
		}
		x.ts = s.share(x.ts, false)
	}
	s.unsealed = nil
}

func increasing(ts []int64) bool {
	for i := 1; i < len(ts); i++ {
		if ts[i] <= ts[i-1] {
			return false
		}
	}
	return true
}

// order replaces the columns of a series by sorted ones without duplicates.
func (s *Store) order(x *series) {
	by := make([]int, len(x.ts))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int {
		switch {
		case x.ts[a] < x.ts[b]:
			return -1
		case x.ts[a] > x.ts[b]:
			return 1
		}
		return 0
	})
	ts, vs := make([]int64, 0, len(by)), make([]float64, 0, len(by))
	for _, i := range by {
		t, v := x.ts[i], x.vs[i]
		n := len(ts) - 1
		if n < 0 || ts[n] != t {
			ts, vs = append(ts, t), append(vs, v)
			continue
		}
		s.stats.Samples--
		switch was := vs[n]; {
		case math.Float64bits(was) == math.Float64bits(v):
			s.stats.Duplicates++
		case value.IsStaleNaN(v):
			// Two parts of one series meet where the first says that it ended.
		case value.IsStaleNaN(was):
			vs[n] = v
		default:
			vs[n] = v
			s.stats.Conflicts++
		}
	}
	x.ts, x.vs = ts, vs
}

var staleNaN = math.Float64frombits(value.StaleNaN)

// endAtNaN turns every NaN into a stale marker.
func endAtNaN(vs []float64) {
	for i, v := range vs {
		if v != v {
			vs[i] = staleNaN
		}
	}
}
