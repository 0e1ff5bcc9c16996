package cliff

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/gateway"
)

// asTask has this test's binary be a task, one that ends soon where another argument follows.
const asTask = "as-task"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asTask {
		if len(os.Args) > 2 {
			time.AfterFunc(5*time.Second, func() { // it has long begun to serve
				fmt.Fprintln(os.Stderr, "as told")
				os.Exit(7)
			})
		}
		os.Exit(gateway.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func cell(lock, arrivals string) Cell {
	c := Cell{Command: []string{os.Args[0], asTask}, Seed: 1}
	for _, l := range Locks() {
		if l.Name == lock {
			c.Lock = l
		}
	}
	for _, a := range Patterns() {
		if a.Name == arrivals {
			c.Arrivals = a
		}
	}
	return c
}

// What holds a lock cannot be quicker than its sleep, however slow the machine is.
func TestRamp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lock string
		most float64
	}{
		{"fixed", 100}, {"row", 100}, {"convoy", 100},
		{"read-write", 200}, // a writer of four calls, and then readers together
	} {
		got, err := Ramp(t.Context(), cell(c.lock, "random"), 3*time.Second)
		if busy(t, err) {
			continue
		}
		// Two calls that began before the window.
		if err != nil || got <= c.most/4 || got > c.most+1 {
			t.Errorf("%s: saturates at %.1f calls a second, error %v; want at most %.0f", c.lock, got, err, c.most)
		}
	}
}

// Whose turn it is does not hang on a few calls that wait for ever.
func TestTurn(t *testing.T) {
	t.Parallel()
	tr := newTurns()
	tr.sent = 200
	if got := tr.turn(); got != 200 {
		t.Errorf("nobody waits: turn %d, want 200", got)
	}
	for i := range 10 { // stuck
		tr.waiting[i] = true
	}
	if got := tr.turn(); got != 200 {
		t.Errorf("ten wait: turn %d, want 200", got)
	}
	for i := 150; i < 200; i++ {
		tr.waiting[i] = true
	}
	if got := tr.turn(); got != 150 {
		t.Errorf("those from 150 on wait: turn %d, want 150", got)
	}
}

// A lock that is not full at over its rate has no cliff to be found.
func TestRampFindsNone(t *testing.T) {
	t.Parallel()
	c := cell("fixed", "random")
	c.Lock.Gateway.Lock.Hold = time.Microsecond
	if got, err := Ramp(t.Context(), c, time.Second); !busy(t, err) && (err == nil || !strings.HasPrefix(err.Error(), "expected ever more calls to wait at 130 a second, saw ")) {
		t.Errorf("saturates at %v, error %v; want that it does not", got, err)
	}
}

func TestSteady(t *testing.T) {
	t.Parallel()
	failed := errors.New("nothing to see")
	for _, c := range []struct {
		name    string
		look    func(i int) error
		longest time.Duration
		seen    []int
		want    string // beginning of the error
	}{
		{"two loads", func(int) error { time.Sleep(time.Second); return nil }, 5 * time.Second, []int{0, 1}, ""},
		{"a look fails", func(int) error { return failed }, time.Second, []int{0}, "at 20.0 calls a second: nothing to see"},
		{"a look takes too long", func(int) error { time.Sleep(50 * time.Millisecond); return nil }, time.Millisecond, []int{0}, "at 20.0 calls a second: expected a look of at most 1ms, saw one of "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var seen []int
			arrived, err := Steady(t.Context(), cell("fixed", "turn-4"), []float64{20, 40}, c.longest, func(_ context.Context, i int, task fleet.Info) error {
				if seen = append(seen, i); task.URL == "" || task.Admin == "" {
					t.Errorf("a task without addresses: %+v", task)
				}
				return c.look(i)
			})
			if busy(t, err) {
				return
			}
			said := ""
			if err != nil {
				said = err.Error()
			}
			if !strings.HasPrefix(said, c.want) || c.want == "" && said != "" || !slices.Equal(seen, c.seen) {
				t.Fatalf("looked at %v, error %q; want %v and %q", seen, said, c.seen, c.want)
			}
			if c.want == "" && (arrived[0] < 5 || arrived[0] > 40 || arrived[1] < 20 || arrived[1] > 80) {
				t.Errorf("calls a second %v, want about 20 and 40", arrived)
			}
		})
	}
}

// Calls that fail never ask for the lock, which would seem to be as quick as they are.
func TestCallsFail(t *testing.T) {
	t.Parallel()
	const want = "expected calls to be answered, saw "
	c := cell("fixed", "random")
	c.Lock.Gateway.Admission = 1
	if got, err := Ramp(t.Context(), c, time.Second); !busy(t, err) && (err == nil || !strings.HasPrefix(err.Error(), want)) {
		t.Errorf("saturates at %v, error %v; want that calls fail", got, err)
	}
	_, err := Steady(t.Context(), c, []float64{50}, 5*time.Second, func(ctx context.Context, _ int, _ fleet.Info) error { return fleet.Wait(ctx, time.Second) })
	if !busy(t, err) && (err == nil || !strings.HasPrefix(err.Error(), "at 50.0 calls a second: "+want)) {
		t.Errorf("error %v, want that calls fail", err)
	}
}

// A task that ends is told of at once, and with what.
func TestTaskEnds(t *testing.T) {
	t.Parallel()
	c := cell("fixed", "random")
	c.Command = append(c.Command, "ends")
	begin := time.Now()
	_, err := Steady(t.Context(), c, []float64{20}, time.Minute, func(ctx context.Context, _ int, _ fleet.Info) error { return fleet.Wait(ctx, time.Minute) })
	const want = "expected a task that serves, saw it end with status 7: as told"
	if took := time.Since(begin); err == nil || err.Error() != want || took > 30*time.Second {
		t.Errorf("after %v error %v, want %s", took, err, want)
	}
}

// Whoever stops it is told so, and no task is left: Stop waits for it.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Steady(ctx, cell("fixed", "random"), []float64{20}, time.Minute, func(ctx context.Context, _ int, _ fleet.Info) error {
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was stopped", err)
	}
}

// busy reports whether a run was not valid on this machine, which says nothing of the code.
func busy(t *testing.T, err error) bool {
	if err == nil || !strings.Contains(err.Error(), "leave the machine more idle") {
		return false
	}
	t.Logf("not valid: %v", err)
	return true
}
