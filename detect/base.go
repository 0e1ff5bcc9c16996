package detect

import (
	"fmt"
	"sort"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// place of a comparison: goroutines that wait in one way at one function.
type siteKey struct{ wait, function string }

// census is how many stand at each site of one side of a comparison.
type census struct {
	at    map[siteKey]int64
	total int64
}

func (c *census) add(frames []*stacks.Frame, w stacks.Wait, n int64) {
	k := siteKey{wait: string(w.Kind)}
	switch {
	case w.Kind == stacks.Running || w.Kind == stacks.Runnable:
		k.wait = "cpu"
	case w.Kind == stacks.Unknown:
		k.wait = "unknown"
	}
	switch {
	case w.Site >= 0:
		k.function = frames[w.Site].Func
	case len(frames) > 0:
		k.function = frames[len(frames)-1].Func
	}
	if k.function == "" {
		return // a goroutine that has not run yet
	}
	c.at[k] = addEvents(c.at[k], n)
	c.total = addEvents(c.total, n)
}

// compare says what grew from base to now, by site and wait, in numbers and in
// share. Idle goroutines count too: a leak is made of goroutines that each
// look idle. Where neither side has a snapshot, the contentions of block or
// mutex profiles are compared. The sentence says what was compared, or why nothing could be.
func compare(base, now *ingest.Bundle) ([]Growth, string) {
	was, is := countGoroutines(base), countGoroutines(now)
	unit := Goroutines
	if was.total == 0 && is.total == 0 {
		unit = Contentions
		for _, kind := range [...]waits.Kind{waits.Block, waits.Mutex} {
			was, is = countContentions(base, kind), countContentions(now, kind)
			if was.total > 0 && is.total > 0 {
				break
			}
		}
	}
	switch {
	case was.total == 0:
		return nil, "could not compare: the base has no goroutine profile, dump or contention profile of the kind given"
	case is.total == 0:
		return nil, "could not compare: the input has nothing of the kind that the base has"
	}
	var out []Growth
	for k, n := range is.at {
		if n > was.at[k] {
			out = append(out, Growth{Wait: k.wait, Function: k.function, Unit: unit, Before: was.at[k], Now: n, ShareBefore: share(was.at[k], was.total), ShareNow: share(n, is.total)})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if da, db := a.rank(), b.rank(); da != db {
			return da > db
		}
		if a.Function != b.Function {
			return a.Function < b.Function
		}
		return a.Wait < b.Wait
	})
	if len(out) == 0 {
		return nil, fmt.Sprintf("nothing grew: %s %s before, %s now", Thousands(float64(was.total)), unit, Thousands(float64(is.total)))
	}
	return out, fmt.Sprintf("%s %s before, %s now", Thousands(float64(was.total)), unit, Thousands(float64(is.total)))
}

// rank orders growth: idle goroutines by half of theirs, since there are often
// two beside each that waits.
func (g Growth) rank() int64 {
	if g.Wait == string(stacks.Idle) {
		return (g.Now - g.Before) / 2
	}
	return g.Now - g.Before
}

func countGoroutines(b *ingest.Bundle) census {
	c := census{at: map[siteKey]int64{}}
	for _, p := range b.Processes() {
		var snaps []*stacks.Snapshot
		for _, s := range p.Snapshots {
			if !s.Growth && s.Format != stacks.Leak && !s.SharesOnly() {
				snaps = append(snaps, s)
			}
		}
		s := pickLatest(snaps)
		if s == nil {
			continue
		}
		for _, g := range s.Groups {
			if g.Count > 0 && !IsProfiler(g.Frames) {
				c.add(g.Frames, g.Wait, g.Count)
			}
		}
	}
	return c
}

func countContentions(b *ingest.Bundle, kind waits.Kind) census {
	c := census{at: map[siteKey]int64{}}
	for _, p := range b.Processes() {
		for _, w := range p.Waits {
			if w.Kind != kind {
				continue
			}
			for i := range w.Sites {
				if s := &w.Sites[i]; s.Contentions > 0 {
					c.add(s.Frames, s.Wait, s.Contentions)
				}
			}
		}
	}
	return c
}

func share(n, total int64) float64 {
	if total == 0 {
		return 0
	}
	return float64(n) / float64(total)
}
