package series

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

const (
	// Until a step is this old it is asked for again: samples of scrapes that took
	// long, and those that a remote write or a Thanos sidecar brings, come late.
	settleTime = 2 * time.Minute
	// Which metrics there are, and how often they are scraped, changes with a
	// release: two minutes later is soon enough to see that, and it is half of the queries.
	surveyTime = 2 * time.Minute
	// What is not asked for any more (a job that is gone, another interval) is
	// forgotten after a while.
	forgetTime = 10 * time.Minute
	// Of all answers together: 160 MB. 1,200 instances with 25 signals have as many in
	// 80 minutes at 15 s. Beyond that, answers are not remembered.
	maxRemembered = 10_000_000
)

// Recent is a source for one who looks at the same series again and again: of
// what it was asked before, it asks the source below for what is new alone,
// and remembers the rest, as long as it is in the window that is asked for.
//
// Two things are taken for granted. A step that is two minutes old does not
// change: samples that come later than that are not seen. And a window ends
// at the present: its end is the clock by which answers age.
type Recent struct {
	Source

	mu      sync.Mutex
	ranges  map[question]*remembered
	surveys map[question]survey
	points  int // in ranges
	most    int // of points
}

// NewRecent remembers answers of src.
func NewRecent(src Source) *Recent {
	return &Recent{Source: src, ranges: map[question]*remembered{}, surveys: map[question]survey{}, most: maxRemembered}
}

// question is what was asked, without its window.
type question struct {
	what, text string
	step       time.Duration
}

// remembered are the settled steps of one expression, from and until included.
type remembered struct {
	from, until time.Time
	series      map[string]promql.Series // by their labels' bytes
	asked       time.Time
}

// survey is an answer about which series there are.
type survey struct {
	at     time.Time
	answer any
}

// Names are those of the source below, two minutes old at the most.
func (r *Recent) Names(ctx context.Context, selector string, start, end time.Time) ([]string, error) {
	return surveyed(r, question{what: "names", text: selector}, end, func(names []string) bool { return len(names) > 0 }, func() ([]string, error) {
		return r.Source.Names(ctx, selector, start, end)
	})
}

// Interval is that of the source below, two minutes old at the most.
func (r *Recent) Interval(ctx context.Context, selector string, start, end time.Time) (time.Duration, error) {
	return surveyed(r, question{what: "interval", text: selector}, end, func(d time.Duration) bool { return d > 0 }, func() (time.Duration, error) {
		return r.Source.Interval(ctx, selector, start, end)
	})
}

// Warnings are what the source below has to say about its answers.
func (r *Recent) Warnings() []string {
	if s, ok := r.Source.(interface{ Warnings() []string }); ok {
		return s.Warnings()
	}
	return nil
}

// surveyed is what ask says, or what it has said before. What is not some is
// asked again: a service that is awaited is to be seen when it comes.
func surveyed[T any](r *Recent, q question, now time.Time, some func(T) bool, ask func() (T, error)) (T, error) {
	r.mu.Lock()
	old, ok := r.surveys[q]
	r.mu.Unlock()
	if ok && now.Sub(old.at).Abs() < surveyTime {
		return old.answer.(T), nil
	}
	answer, err := ask()
	if err == nil && some(answer) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for other, s := range r.surveys {
			if now.Sub(s.at) > forgetTime {
				delete(r.surveys, other)
			}
		}
		r.surveys[q] = survey{now, answer}
	}
	return answer, err
}

// Range asks for the steps that are not known, where start is a multiple of
// step. Other windows ask which series there are, and are answered as Names is.
func (r *Recent) Range(ctx context.Context, expr string, start, end time.Time, step time.Duration) (promql.Matrix, error) {
	q := question{"range", expr, step}
	if step < time.Millisecond || start.UnixMilli()%step.Milliseconds() != 0 {
		m, err := surveyed(r, q, end, func(m promql.Matrix) bool { return len(m) > 0 }, func() (promql.Matrix, error) {
			return r.Source.Range(ctx, expr, start, end, step)
		})
		return copied(m), err
	}
	known := r.known(q, start, end)
	from := start
	if known != nil {
		from = known.until.Add(step)
	}
	fresh, err := r.Source.Range(ctx, expr, from, end, step)
	if err != nil {
		return nil, err
	}
	return r.join(q, known, fresh, start, end), nil
}

// known is what is remembered of a question from start on, without a gap; nil
// where that is nothing. Nobody changes it.
func (r *Recent) known(q question, start, end time.Time) *remembered {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.ranges[q]
	if k == nil || k.from.After(start) || k.until.Before(start) || !k.until.Before(end) {
		return nil
	}
	return k
}

// join puts what is known from start on before what is fresh, and remembers
// of both what is settled. The result belongs to the caller.
func (r *Recent) join(q question, known *remembered, fresh promql.Matrix, start, end time.Time) promql.Matrix {
	settled := end.Add(-max(settleTime, 2*q.step))
	settled = settled.Add(-time.Duration(settled.UnixMilli()%q.step.Milliseconds()) * time.Millisecond)
	all := map[string]promql.Series{}
	if known != nil {
		for key, s := range known.series {
			i, _ := slices.BinarySearchFunc(s.Floats, start.UnixMilli(), func(p promql.FPoint, t int64) int { return int(p.T - t) })
			if i < len(s.Floats) {
				all[key] = promql.Series{Metric: s.Metric, Floats: slices.Clone(s.Floats[i:])}
			}
		}
	}
	var key []byte
	for _, s := range fresh {
		key = s.Metric.Bytes(key)
		old := all[string(key)]
		all[string(key)] = promql.Series{Metric: s.Metric, Floats: append(old.Floats, s.Floats...)}
	}
	keep := &remembered{from: start, until: settled, series: map[string]promql.Series{}, asked: end}
	points := 0
	out := make(promql.Matrix, 0, len(all))
	for key, s := range all {
		out = append(out, s)
		n, _ := slices.BinarySearchFunc(s.Floats, settled.UnixMilli()+1, func(p promql.FPoint, t int64) int { return int(p.T - t) })
		if n > 0 {
			keep.series[key] = promql.Series{Metric: s.Metric, Floats: slices.Clone(s.Floats[:n])}
			points += n
		}
	}
	slices.SortFunc(out, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	r.remember(q, keep, points)
	return out
}

func (r *Recent) remember(q question, keep *remembered, points int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, k := range r.ranges {
		if other == q || keep.asked.Sub(k.asked) > forgetTime {
			r.points -= k.points()
			delete(r.ranges, other)
		}
	}
	if keep.until.Before(keep.from) || r.points+points > r.most {
		return
	}
	r.ranges[q] = keep
	r.points += points
}

func (k *remembered) points() (n int) {
	for _, s := range k.series {
		n += len(s.Floats)
	}
	return n
}

// copied is a matrix that belongs to the caller.
func copied(m promql.Matrix) promql.Matrix {
	out := slices.Clone(m)
	for i := range out {
		out[i].Floats = slices.Clone(out[i].Floats)
	}
	return out
}
