package memory

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

var _ storage.Queryable = (*Store)(nil)

// at is a time in seconds since 1970.
func at(s float64) time.Time { return time.UnixMilli(int64(s * 1000)) }

// dump writes what a store holds, a series a line: name{labels} value@seconds.
// A stale marker is "stale".
func dump(t testing.TB, s *Store) string {
	t.Helper()
	s.rlock()
	defer s.mu.RUnlock()
	var lines []string
	for _, x := range s.all {
		if len(x.ts) != len(x.vs) {
			t.Fatalf("%s has %d times and %d values", x.labels, len(x.ts), len(x.vs))
		}
		var b strings.Builder
		b.WriteString(x.labels.String())
		for i, ts := range x.ts {
			v := fmt.Sprint(x.vs[i])
			if value.IsStaleNaN(x.vs[i]) {
				v = "stale"
			}
			fmt.Fprintf(&b, " %s@%v", v, float64(ts)/1000)
		}
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// every returns n samples, a step apart in seconds, of values from 0.
func every(n int, step float64) ([]int64, []float64) {
	ts, vs := make([]int64, n), make([]float64, n)
	for i := range ts {
		ts[i], vs[i] = int64(float64(i)*step*1000), float64(i)
	}
	return ts, vs
}

func TestAppend(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	type part struct {
		ts []int64
		vs []float64
	}
	for name, tc := range map[string]struct {
		parts []part
		want  string
		stats Stats
	}{
		"in order":               {[]part{{[]int64{1000, 2000}, []float64{1, 2}}}, "1@1 2@2", Stats{Series: 1, Samples: 2}},
		"out of order":           {[]part{{[]int64{3000, 1000, 2000}, []float64{3, 1, 2}}}, "1@1 2@2 3@3", Stats{Series: 1, Samples: 3, OutOfOrder: 1}},
		"the same twice":         {[]part{{[]int64{1000, 1000, 2000}, []float64{1, 1, 2}}}, "1@1 2@2", Stats{Series: 1, Samples: 2, Duplicates: 1}},
		"two values of one time": {[]part{{[]int64{1000, 1000, 1000}, []float64{1, 7, 2}}}, "2@1", Stats{Series: 1, Samples: 1, Conflicts: 2}},
		"any NaN ends it":        {[]part{{[]int64{1000, 2000}, []float64{1, nan}}}, "1@1 stale@2", Stats{Series: 1, Samples: 2}},
		"a marker that is early": {[]part{{[]int64{1000, 2000}, []float64{1, nan}}, {[]int64{2000, 3000}, []float64{2, 3}}}, "1@1 2@2 3@3", Stats{Series: 1, Samples: 3}},
		"a marker after a value": {[]part{{[]int64{2000}, []float64{2}}, {[]int64{1000, 2000}, []float64{1, nan}}}, "1@1 2@2", Stats{Series: 1, Samples: 2}},
		"markers twice":          {[]part{{[]int64{1000}, []float64{nan}}, {[]int64{1000}, []float64{-nan}}}, "stale@1", Stats{Series: 1, Samples: 1, Duplicates: 1}},
		"the later part first":   {[]part{{[]int64{3000, 4000}, []float64{3, 4}}, {[]int64{1000, 2000}, []float64{1, 2}}}, "1@1 2@2 3@3 4@4", Stats{Series: 1, Samples: 4}},
		"parts that overlap":     {[]part{{[]int64{1000, 2000}, []float64{1, 2}}, {[]int64{2000, 3000}, []float64{2, 3}}}, "1@1 2@2 3@3", Stats{Series: 1, Samples: 3, Duplicates: 1}},
		"0 and -0 differ":        {[]part{{[]int64{1000, 1000}, []float64{0, math.Copysign(0, -1)}}}, "-0@1", Stats{Series: 1, Samples: 1, Conflicts: 1}},
		"infinities":             {[]part{{[]int64{1000, 2000}, []float64{math.Inf(1), math.Inf(-1)}}}, "+Inf@1 -Inf@2", Stats{Series: 1, Samples: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New()
			for _, p := range tc.parts {
				ts, vs := slices.Clone(p.ts), slices.Clone(p.vs)
				s.Append(labels.FromStrings("__name__", "up"), ts, vs)
				clear(ts) // the store has its own
				clear(vs)
			}
			if got, want := dump(t, s), `{__name__="up"} `+tc.want; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got := s.Stats(); got != tc.stats {
				t.Errorf("got %+v, want %+v", got, tc.stats)
			}
		})
	}
}

// Timestamps that series share must not be written to by one of them.
func TestSharedTimes(t *testing.T) {
	t.Parallel()
	s := New()
	a, b, c := labels.FromStrings("__name__", "a"), labels.FromStrings("__name__", "b"), labels.FromStrings("__name__", "c")
	for i := range int64(5) { // grows, with room at its end
		s.Append(a, []int64{i}, []float64{1})
	}
	s.Append(b, []int64{0, 1, 2, 3, 4}, []float64{2, 2, 2, 2, 2})
	s.Stats() // seals
	s.Append(a, []int64{10}, []float64{1})
	s.Append(b, []int64{20}, []float64{2})
	s.Append(c, []int64{30, 0}, []float64{3, 3})
	want := `{__name__="a"} 1@0 1@0.001 1@0.002 1@0.003 1@0.004 1@0.01
{__name__="b"} 2@0 2@0.001 2@0.002 2@0.003 2@0.004 2@0.02
{__name__="c"} 3@0 3@0.03`
	if got := dump(t, s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	s = New()
	ts, vs := every(100, 15)
	for i := range 10 {
		s.Append(labels.FromStrings("__name__", "up", "instance", fmt.Sprint(i)), ts, vs)
	}
	s.Stats()
	for _, x := range s.all {
		if &x.ts[0] != &s.all[0].ts[0] {
			t.Errorf("%s has a column of timestamps of its own", x.labels)
		}
	}
}

func TestAppendMatrix(t *testing.T) {
	t.Parallel()
	s := New()
	nan := math.NaN()
	s.AppendMatrix("contend:inflight", promql.Matrix{
		{Metric: labels.FromStrings("__name__", "x", "instance", "a"), Floats: []promql.FPoint{{T: 0, F: 1}, {T: 15000, F: 2}, {T: 60000, F: nan}}},
		{Metric: labels.FromStrings("instance", "b"), Floats: []promql.FPoint{{T: 30000, F: 3}}},
		{Metric: labels.FromStrings("instance", "none")},
	}, 15*time.Second)
	// The range that follows, in a call of its own.
	s.AppendMatrix("contend:inflight", promql.Matrix{
		{Metric: labels.FromStrings("instance", "a"), Floats: []promql.FPoint{{T: 75000, F: 4}}},
	}, 15*time.Second)
	want := `{__name__="contend:inflight", instance="a"} 1@0 2@15 stale@30 NaN@60 4@75 stale@90
{__name__="contend:inflight", instance="b"} 3@30 stale@45`
	if got := dump(t, s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := s.Stats(), (Stats{Series: 2, Samples: 8}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// The marker after the end is no sample.
	if start, end, ok := s.Extent(); !ok || !start.Equal(at(0)) || !end.Equal(at(75)) {
		t.Errorf("got an extent from %v to %v, %v", start, end, ok)
	}
}

func TestExtent(t *testing.T) {
	t.Parallel()
	s := New()
	if _, _, ok := s.Extent(); ok {
		t.Error("an empty store has an extent")
	}
	s.Append(labels.FromStrings("__name__", "gone"), []int64{500}, []float64{math.NaN()})
	if _, _, ok := s.Extent(); ok {
		t.Error("a marker alone has an extent")
	}
	s.Append(labels.FromStrings("__name__", "a"), []int64{1000, 9000}, []float64{1, math.NaN()})
	s.Append(labels.FromStrings("__name__", "b"), []int64{5000, 3000}, []float64{1, 1})
	if start, end, ok := s.Extent(); !ok || !start.Equal(at(1)) || !end.Equal(at(5)) {
		t.Errorf("got %v to %v, %v", start, end, ok)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	s := New()
	if got := s.Notes(); len(got) != 0 {
		t.Errorf("an empty store notes %q", got)
	}
	s.Append(labels.FromStrings("__name__", "a"), []int64{2, 1, 1, 1}, []float64{1, 1, 1, 2})
	want := []string{
		"out of order within a series: 1 sample, sorted",
		"in the input twice: 1 sample, taken once",
		"of one series and time as another, with a different value: 1 sample; the last was taken",
	}
	if got := s.Notes(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	ts := []int64{10, 20, 30, 40}
	vs := []float64{1, 2, 3, 4}
	x := &excerpt{ts: ts, vs: vs}
	it := x.Iterator(nil)
	for _, step := range []struct {
		seek int64 // 0 is Next
		want int64 // 0 is the end
	}{{0, 10}, {5, 10}, {10, 10}, {15, 20}, {20, 20}, {12, 20}, {0, 30}, {40, 40}, {41, 0}, {0, 0}, {0, 0}, {10, 0}} {
		got := chunkenc.ValNone
		if step.seek == 0 {
			got = it.Next()
		} else {
			got = it.Seek(step.seek)
		}
		if got == chunkenc.ValNone {
			if step.want != 0 {
				t.Fatalf("%+v: is at its end", step)
			}
			continue
		}
		if at, v := it.At(); at != step.want || v != float64(at)/10 || it.AtT() != at {
			t.Fatalf("%+v: is at %d with %v", step, at, v)
		}
	}
	again := (&excerpt{ts: ts[3:], vs: vs[3:]}).Iterator(it)
	if again != it {
		t.Error("the iterator is not used again")
	}
	if again.Next() != chunkenc.ValFloat || again.AtT() != 40 {
		t.Error("the iterator does not begin anew")
	}
}

func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := New()
	ts, vs := every(100, 15)
	s.Append(labels.FromStrings("__name__", "up", "instance", "0"), ts, vs)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 20 {
				m, err := s.Range(context.Background(), `up{instance="0"}`, at(0), at(99*15), 15*time.Second)
				if err != nil || len(m) != 1 || len(m[0].Floats) != 100 {
					t.Errorf("got %v, %v", m, err)
				}
				if _, err := s.Names(context.Background(), "", at(0), at(1e6)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		s.Append(labels.FromStrings("__name__", "up", "instance", fmt.Sprint(i%5+1)), ts, vs)
		s.Append(labels.FromStrings("__name__", "up", "instance", "0"), []int64{int64(1e7 - i)}, []float64{1})
	}
	wg.Wait()
}
