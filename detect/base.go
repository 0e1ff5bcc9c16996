package detect

import (
	"sort"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

// compare says what grew from base to now, by site and wait, in goroutines and in share.
// Idle goroutines count too: a leak is made of goroutines that each look idle.
func compare(base, now *ingest.Bundle) []Growth {
	type key struct{ wait, function string }
	count := func(b *ingest.Bundle) (map[key]int64, int64) {
		m, total := map[key]int64{}, int64(0)
		for _, p := range b.Processes() {
			s := pickLatest(p.Snapshots)
			if s == nil || s.Growth {
				continue
			}
			for _, g := range s.Groups {
				if g.Count <= 0 || IsProfiler(g.Frames) {
					continue
				}
				k := key{wait: string(g.Wait.Kind)}
				if g.Wait.Site >= 0 {
					k.function = g.Frames[g.Wait.Site].Func
				} else if len(g.Frames) > 0 {
					k.function = g.Frames[len(g.Frames)-1].Func
				}
				if k.wait == string(stacks.Unknown) {
					k.wait = "unknown"
				}
				m[k] += g.Count
				total += g.Count
			}
		}
		return m, total
	}
	was, wasTotal := count(base)
	is, isTotal := count(now)
	var out []Growth
	for k, n := range is {
		if n <= was[k] {
			continue
		}
		out = append(out, Growth{Wait: k.wait, Function: k.function, Before: was[k], Now: n, ShareBefore: share(was[k], wasTotal), ShareNow: share(n, isTotal)})
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if da, db := a.Now-a.Before, b.Now-b.Before; da != db {
			return da > db
		}
		if a.Function != b.Function {
			return a.Function < b.Function
		}
		return a.Wait < b.Wait
	})
	return out
}

func share(n, total int64) float64 {
	if total == 0 {
		return 0
	}
	return float64(n) / float64(total)
}
