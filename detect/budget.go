package detect

import (
	"math"

	"github.com/contend/contend/ingest/stacks"
)

// Places of the budget, in the order they are shown.
const (
	PlaceInFlight    = "in flight"
	PlaceCPU         = "cpu"
	PlaceRunnable    = "runnable"
	PlaceLock        = "lock"
	PlacePool        = "pool"
	PlaceDependency  = "dependency"
	PlaceUnexplained = "unexplained"
)

var places = []string{PlaceInFlight, PlaceCPU, PlaceRunnable, PlaceLock, PlacePool, PlaceDependency, PlaceUnexplained}

// place says where in the budget goroutines that wait for k are. Waits of
// which only the operation is known (a channel, a select, a sleep) are what
// the budget cannot explain.
func place(k stacks.Kind) string {
	switch k {
	case stacks.Lock, stacks.RLock, stacks.FDLock:
		return PlaceLock
	case stacks.Pool:
		return PlacePool
	case stacks.Socket:
		return PlaceDependency
	case stacks.Running:
		return PlaceCPU
	case stacks.Runnable:
		return PlaceRunnable
	}
	return PlaceUnexplained
}

// shares adds up v's crowds in scope by place.
func (v *View) shares() map[string]float64 {
	m := map[string]float64{PlaceInFlight: v.InFlight}
	for _, c := range v.Crowds {
		if v.InScope(c) {
			m[place(c.For().Wait.Kind)] += c.N
		}
	}
	return m
}

// BudgetOf says where the requests of a process are, from its snapshot and from
// its block profile; before is an earlier snapshot. Measures that an input
// cannot take stay nil: a block profile knows no running goroutine and no
// socket read, a protobuf profile cannot tell running from runnable.
func BudgetOf(now, before, block *View) []Share {
	var out []Share
	var nowShares, beforeShares, blockShares map[string]float64
	if now != nil && now.Unit != Samples {
		nowShares = now.shares()
	}
	if before != nil {
		beforeShares = before.shares()
	}
	if block != nil && !block.Cumulative {
		blockShares = block.shares()
		if now != nil && now.ByRequest && !block.ByRequest {
			blockShares = nil // clients and workers, no requests
		}
	}
	for _, p := range places {
		s := Share{Where: p}
		if nowShares != nil && !(p == PlaceRunnable && !now.Snapshot.HasStates()) {
			s.Now.Stacks = number(nowShares[p])
		}
		if beforeShares != nil && !(p == PlaceRunnable && !before.Snapshot.HasStates()) {
			s.Before.Stacks = number(beforeShares[p])
		}
		if blockShares != nil && (p == PlaceLock || p == PlacePool || p == PlaceDependency) {
			s.Now.Waits = number(blockShares[p])
		}
		if s.Now != (Measures{}) || s.Before != (Measures{}) {
			out = append(out, s)
		}
	}
	return out
}

func number(x float64) *float64 {
	x = math.Round(x*10) / 10
	return &x
}
