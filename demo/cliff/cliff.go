// Package cliff is what a forecast of a lock is held to: a task of the gateway
// with one kind of lock, asked for in one pattern of arrivals. Ramp finds the load at
// which the lock falls over, by going there; Steady keeps it at lower loads while
// somebody looks.
package cliff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/telemetry"
)

// Hold is how long locks are held: a hundred times what a goroutine takes to run
// on once it is woken, which is part of a hold where many wait and not where none do.
const Hold = 10 * time.Millisecond

// Lock is a kind of lock.
type Lock struct {
	Name    string
	Gateway gateway.Config
	Rate    float64 // calls a second at which it is full, by arithmetic: where the ramp is to look
}

// Locks are all kinds.
func Locks() []Lock {
	of := func(kind string) gateway.Config {
		return gateway.Config{Telemetry: telemetry.Config{Kind: telemetry.KindNone}, Lock: gateway.Lock{Kind: kind, Hold: Hold}}
	}
	rate := 1 / Hold.Seconds()
	return []Lock{
		{"fixed", of(gateway.LockFixed), rate},
		{"exponential", of(gateway.LockExponential), rate},
		{"two-class", of(gateway.LockTwoClass), rate},
		// Of four calls one writes. A writer waits for the readers before it, who read at once, and they for it.
		{"read-write", of(gateway.LockReadWrite), 4 * rate / 2},
		{"row", of(gateway.LockRow), rate},
		// The incident's registry, in which each call registers its metrics again.
		{"convoy", gateway.Config{Telemetry: telemetry.Config{Kind: telemetry.KindMetrics, Faulty: true, Hold: Hold}}, rate},
	}
}

// Arrivals are a pattern in which calls arrive.
type Arrivals struct {
	Name string
	Gap  load.Gap
}

// Patterns are all patterns.
func Patterns() []Arrivals {
	return []Arrivals{{"random", load.Random}, {"turn-4", load.Dealt(4)}, {"turn-8", load.Dealt(8)}, {"batches", load.Batches(4)}}
}

// Cell is a lock and how it is asked for.
type Cell struct {
	Lock     Lock
	Arrivals Arrivals
	Command  []string // starts a task, as in fleet.Config
	Seed     uint64   // of the arrivals: it and some that follow
}

const (
	// The ramp goes from half of what a lock can do to over, climbing, and stays there:
	// enough to be asked for all the time, and few that wait, each with a connection.
	over = 1.3
	// Stay is how long a ramp is to stay where a lock is full: the mean of 4,000 holds is
	// known to 1.6 % if they are exponential, to 5 % if they are of two classes.
	Stay = 40 * time.Second
	// Before a load is looked at: many times what a call takes.
	settle = 2 * time.Second
	// Calls wait for longer than a ramp lasts, and none is dropped.
	patience, mostWaiting = 2 * time.Minute, 10_000
	// In percent of the calls. So many more calls than there were seem to arrive at a lock.
	mostFailed = 1
	// So many calls more that wait are no accident of the moment.
	waiting = 20
)

// Ramp is at how many calls a second the lock saturates: how fast the turn comes to
// those who wait, in stay, in which more come all the time, after half as long in
// which their number climbs to that.
//
// It is not how many are answered: where readers pass by writers that queue, calls are
// answered of which too many read.
func Ramp(ctx context.Context, c Cell, stay time.Duration) (perSecond float64, err error) {
	from, to, climb := c.Lock.Rate/2, over*c.Lock.Rate, stay/2
	phases := []load.Phase{{For: climb, From: from, To: to}, {For: stay, From: to, To: to}}
	err = c.task(ctx, func(ctx context.Context, task fleet.Info) error {
		t := newTurns()
		defer t.transport.CloseIdleConnections()
		var before, after, first, last int
		elapsed, err := c.load(ctx, task, t, phases, climb, func(ctx context.Context, stats func() load.Stats) error {
			before, first = stats().InFlight, t.turn()
			err := fleet.Wait(ctx, stay)
			after, last = stats().InFlight, t.turn()
			return err
		})
		if err != nil {
			return err
		}
		if after-before < waiting {
			return fmt.Errorf("expected ever more calls to wait at %.0f a second, saw %d and then %d", to, before, after)
		}
		perSecond = float64(last-first) / elapsed.Seconds()
		return nil
	})
	return perSecond, err
}

// turns sends calls, and knows which of those that wait was sent first.
type turns struct {
	transport *http.Transport
	mu        sync.Mutex
	sent      int
	waiting   map[int]bool // by how many were sent before
}

func newTurns() *turns {
	return &turns{transport: &http.Transport{MaxIdleConns: mostWaiting, MaxIdleConnsPerHost: mostWaiting, DisableCompression: true}, waiting: map[int]bool{}}
}

// RoundTrip implements http.RoundTripper.
func (t *turns) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	n := t.sent
	t.sent++
	t.waiting[n] = true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.waiting, n)
		t.mu.Unlock()
	}()
	return t.transport.RoundTrip(r)
}

// turn is how many calls were sent before the one whose turn it is, of those that wait.
// The very first may be one whose connection took many seconds, as where a busy
// machine dropped its first packet.
func (t *turns) turn() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	const late = 10
	if len(t.waiting) <= late {
		return t.sent
	}
	return slices.Sorted(maps.Keys(t.waiting))[late]
}

// Steady keeps a task at each of rates, in calls a second, for as long as look
// takes, at most longest. It says how many calls a second arrived meanwhile, by
// the index of the rate, which look is told too.
func Steady(ctx context.Context, c Cell, rates []float64, longest time.Duration, look func(ctx context.Context, i int, task fleet.Info) error) ([]float64, error) {
	arrived := make([]float64, len(rates))
	err := c.task(ctx, func(ctx context.Context, task fleet.Info) error {
		for i, rate := range rates {
			var before, after load.Stats
			c.Seed++ // other moments at each
			elapsed, err := c.load(ctx, task, nil, load.Constant(rate, settle+longest), settle, func(ctx context.Context, stats func() load.Stats) error {
				before = stats()
				err := look(ctx, i, task)
				after = stats()
				return err
			})
			if err != nil {
				return fmt.Errorf("at %.1f calls a second: %w", rate, err)
			}
			if elapsed > longest { // and calls have ceased to come
				return fmt.Errorf("at %.1f calls a second: expected a look of at most %v, saw one of %v", rate, longest, elapsed.Round(time.Second))
			}
			arrived[i] = float64(after.Arrived-before.Arrived) / elapsed.Seconds()
		}
		return nil
	})
	return arrived, err
}

// task starts a task for as long as do takes, whose context ends where the task does.
func (c Cell) task(ctx context.Context, do func(context.Context, fleet.Info) error) error {
	alive, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	f, err := fleet.Start(ctx, fleet.Config{Command: c.Command, Task: func(string) gateway.Config { return c.Lock.Gateway }, Tasks: 1, Event: func(e fleet.Event) {
		if e.Kind == fleet.Ended {
			ended(fmt.Errorf("expected a task that serves, saw it end with status %d: %s", e.Exit, cmp.Or(e.Why, "it said nothing")))
		}
	}})
	if err != nil {
		return err
	}
	defer f.Stop()
	tasks := f.Tasks()
	if len(tasks) != 1 {
		return errors.New("expected a task that serves, saw it end")
	}
	err = do(alive, tasks[0])
	if err != nil && ctx.Err() == nil && alive.Err() != nil {
		return context.Cause(alive)
	}
	return err
}

// load asks a task for the lock, by a transport or nil for a plain one, and after a
// while does something that takes elapsed, with what became of the calls so far. It
// is an error where the machine had no time to send calls when they were due.
func (c Cell) load(ctx context.Context, task fleet.Info, by http.RoundTripper, phases []load.Phase, after time.Duration, do func(context.Context, func() load.Stats) error) (elapsed time.Duration, err error) {
	clients, stop := context.WithCancel(ctx)
	defer stop()
	g, err := load.Start(clients, load.Config{URL: task.URL, Phases: phases, Seed: c.Seed, Gap: c.Arrivals.Gap, Timeout: patience, MaxInFlight: mostWaiting, Transport: by})
	if err != nil {
		return 0, fmt.Errorf("start the clients: %w", err)
	}
	err = fleet.Wait(ctx, after)
	begin := time.Now()
	if err == nil {
		err = do(ctx, g.Stats)
	}
	elapsed = time.Since(begin)
	sent := g.Stats() // before those that wait are cut off
	stop()
	report := g.Wait()
	if n := sent.Failed + sent.TimedOut; ctx.Err() == nil && n > mostFailed*sent.Arrived/100 {
		return 0, fmt.Errorf("expected calls to be answered, saw %d of %d fail; those that wait are some thousands of open files, see ulimit -n", n, sent.Arrived)
	}
	if err != nil {
		return 0, err
	}
	if starved, why := report.Starved(); starved {
		return 0, errors.New(why)
	}
	return elapsed, nil
}
