package load

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// Visitors are clients that open a page: each fetches an asset first and makes
// its API calls when it has it. One whose time-out passes before does without the
// asset and makes them then; one to which it is refused has no page, and makes none.
type Visitors struct {
	PerSecond float64       // visitors arriving, a Poisson process
	Asset     string        // URL
	Timeout   time.Duration // after which they do without the asset; 0: they wait for ever
	Jitter    time.Duration // wait between the asset, or its time-out, and the calls, uniform up to this; 0: none
	Calls     [2]int        // fewest and most calls of one visitor, uniform
	Spread    time.Duration // the calls are made within this, uniform
}

// request is that for the asset, an error where the visitors make no sense.
func (v Visitors) request() (*http.Request, error) {
	switch {
	case !(v.PerSecond > 0) || math.IsInf(v.PerSecond, 0): // NaN too
		return nil, fmt.Errorf("expected a rate above zero, saw %v visitors per second", v.PerSecond)
	case v.Calls[0] < 0 || v.Calls[1] < v.Calls[0] || v.Calls[1] > maxCallsEach:
		return nil, fmt.Errorf("expected from 0 to %d calls of a visitor, the fewest first; saw %v", maxCallsEach, v.Calls)
	case v.Timeout < 0 || v.Jitter < 0 || v.Spread < 0:
		return nil, fmt.Errorf("expected durations of zero or more, saw time-out %v, jitter %v, spread %v", v.Timeout, v.Jitter, v.Spread)
	}
	return newRequest(v.Asset)
}

// calls draws when one visitor makes its calls after it got the asset or gave up
// on it, in order.
func (v Visitors) calls(random *rand.Rand) []time.Duration {
	begin := time.Duration(random.Int64N(int64(v.Jitter) + 1))
	calls := make([]time.Duration, v.Calls[0]+random.IntN(v.Calls[1]-v.Calls[0]+1))
	for i := range calls {
		calls[i] = begin + time.Duration(random.Int64N(int64(v.Spread)+1))
	}
	slices.Sort(calls)
	return calls
}

// Visit lets visitors arrive until StopVisits, the next Visit or the end of the
// run. After that it does nothing.
func (g *Generator) Visit(v Visitors) error {
	request, err := v.request()
	if err != nil {
		return fmt.Errorf("visitors: %w", err)
	}
	asset := perRegion(request)
	g.lock.Lock()
	defer g.lock.Unlock()
	g.stopVisits()
	if g.arriving.Err() != nil {
		return nil // and nothing is added to what Wait may already have waited for
	}
	var ctx context.Context
	ctx, g.stopVisits = context.WithCancel(g.arriving)
	g.visits++
	random := rand.New(rand.NewPCG(g.cfg.Seed, g.visits))
	g.pending.Go(func() { g.visitors(ctx, v, asset, random) })
	return nil
}

// StopVisits lets no more visitors arrive. Those that have, stay.
func (g *Generator) StopVisits() {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.stopVisits()
}

// visitors lets them arrive until ctx ends.
func (g *Generator) visitors(ctx context.Context, v Visitors, asset []*http.Request, random *rand.Rand) {
	next := time.Now()
	for {
		next = next.Add(seconds(random.ExpFloat64() / v.PerSecond))
		region, calls := random.IntN(len(asset)), v.calls(random)
		if !sleepUntil(ctx, next) {
			return
		}
		g.lock.Lock()
		sent := g.admit(&g.stats.Assets)
		g.lock.Unlock()
		if sent {
			g.pending.Go(func() { g.visitor(v.Timeout, asset[region], region, calls) })
		}
	}
}

// visitor is one that arrived. It waits for the asset until the run ends at the
// latest, and then stays counted as waiting.
func (g *Generator) visitor(timeout time.Duration, asset *http.Request, region int, calls []time.Duration) {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	o := g.attempt(g.arriving, asset, deadline)
	if g.arriving.Err() != nil {
		return
	}
	g.lock.Lock()
	g.stats.Assets.add(o)
	g.lock.Unlock()
	if o != answered && o != timedOut {
		return
	}
	opened := time.Now()
	for _, after := range calls {
		due := opened.Add(after)
		if !sleepUntil(g.arriving, due) {
			return
		}
		g.arrive(due, region)
	}
}
