package watch

import (
	"context"
	"time"
)

// Clock is the time, for tests to set.
type Clock struct {
	Now func() time.Time
	// Wait returns at a time, or earlier once ctx is done.
	Wait func(ctx context.Context, until time.Time)
}

// WallClock is the clock on the wall.
func WallClock() Clock {
	return Clock{time.Now, func(ctx context.Context, until time.Time) {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}}
}

// Every calls look at once and then each interval until ctx is done. What takes
// longer than the interval loses turns, which look is told, and never makes
// up for them.
func Every(ctx context.Context, clock Clock, interval time.Duration, look func(now time.Time, missed int)) {
	due := clock.Now()
	missed := 0
	for ctx.Err() == nil {
		look(clock.Now(), missed)
		turns := max(clock.Now().Sub(due), 0)/interval + 1
		missed = int(turns - 1)
		due = due.Add(turns * interval)
		clock.Wait(ctx, due)
	}
}
