package contendtest

import (
	"bytes"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// self is this package's path, which the callers' own frames begin with.
var self = reflect.TypeFor[Options]().PkgPath()

// callers call a function in a loop.
type callers struct {
	calls   int64
	elapsed time.Duration // until the last was back
}

func (c *callers) rate() float64 { return float64(c.calls) / c.elapsed.Seconds() }

// call has n goroutines call fn for a while. It fails t where fn panics, ends its
// goroutine, or does not come back.
func call(t testing.TB, n int, while time.Duration, fn func()) callers {
	t.Helper()
	var (
		stop    atomic.Bool
		calls   atomic.Int64
		running sync.WaitGroup
		broken  = make(chan string, n)
		began   = time.Now()
	)
	for range n {
		running.Go(func() {
			done := int64(0)
			returned := false
			defer func() {
				calls.Add(done)
				if returned {
					return
				}
				if p := recover(); p != nil {
					broken <- fmt.Sprintf("expected a function that returns, saw it panic: %v\n%s", p, debug.Stack())
				} else {
					broken <- "expected a function that returns, saw it end its goroutine; in it, call t.Error rather than t.Fatal or t.FailNow"
				}
			}()
			for !stop.Load() {
				fn()
				done++
			}
			returned = true
		})
	}
	back := make(chan struct{})
	go func() {
		running.Wait()
		close(back)
	}()
	why := ""
	select {
	case why = <-broken:
	case <-back: // only if all broke
	case <-time.After(while):
	}
	stop.Store(true)
	// What takes longer than everything so far is not coming back, or was not worth the wait.
	const least = time.Second // for a machine that does something else for a moment
	select {
	case <-back:
	case <-time.After(max(while, least)):
		if why == "" {
			why = fmt.Sprintf("expected the function to return within %v, saw %s", max(while, least), stuck(n))
		}
	}
	elapsed := time.Since(began)
	if why == "" {
		select {
		case why = <-broken:
		default:
		}
	}
	if why != "" {
		t.Fatal(why)
	}
	return callers{calls: calls.Load(), elapsed: elapsed}
}

// stuck says where most of those of n callers are who did not come back.
func stuck(n int) string {
	all, err := stacks.ReadText("goroutines", bytes.NewReader(dump(nil)))
	if err != nil {
		return err.Error()
	}
	for _, g := range all[0].Groups { // the largest first
		if at := g.Wait.Site; at >= 0 && at < outer(g.Frames) && outer(g.Frames) < len(g.Frames) {
			in := "in"
			if g.Wait.Kind.IsLock() {
				in = "wait for the lock in"
			}
			return fmt.Sprintf("%d of %d callers %s %s", g.Count, n, in, stacks.Owner(g.Frames[at]))
		}
	}
	return "that it did not"
}

// outer is the index of the first frame of the callers' own loop, len(frames) where
// a stack has none.
func outer(frames []*stacks.Frame) int {
	if i := slices.IndexFunc(frames, func(f *stacks.Frame) bool { return f.Package == self }); i >= 0 {
		return i
	}
	return len(frames)
}

// dump is all goroutines' stacks in buf, or a larger one: what
// pprof.Lookup("goroutine").WriteTo(w, 2) writes, which allocates its own each time.
func dump(buf []byte) []byte {
	const most = 64 << 20 // the runtime's own limit
	if cap(buf) == 0 {
		buf = make([]byte, 1<<20) // the stacks of some thousand goroutines
	}
	for {
		buf = buf[:cap(buf)]
		if n := runtime.Stack(buf, true); n < len(buf) || len(buf) >= most {
			return buf[:n]
		}
		buf = make([]byte, 2*len(buf))
	}
}

// observed is what callers did and where they waited meanwhile.
type observed struct {
	callers
	blocked   *waits.Profile
	snapshots []map[waiter]int64 // how many waited for locks at a moment
}

// waiter is where somebody waits for a lock, and for which; address is 0 where the
// stack does not tell.
type waiter struct {
	function string
	address  uint64
}

// observe is call, looked at.
func observe(t testing.TB, n int, while time.Duration, fn func()) *observed {
	t.Helper()
	runtime.SetBlockProfileRate(1) // every wait
	defer runtime.SetBlockProfileRate(askedBlockRate())

	before := blockProfile(t)
	done := make(chan struct{})
	texts := make(chan []string)
	go func() { texts <- snapshots(while, done) }()
	c := func() callers {
		defer close(done) // also where call ends this goroutine
		return call(t, n, while, fn)
	}()
	o := &observed{callers: c, blocked: waits.Difference(before, blockProfile(t))}
	for _, text := range <-texts {
		all, err := stacks.ReadText("goroutines", strings.NewReader(text))
		if err != nil {
			t.Fatalf("expected a dump of goroutines: %v", err)
		}
		o.snapshots = append(o.snapshots, waiting(all[0]))
	}
	return o
}

// waiting is who waits for locks in s.
func waiting(s *stacks.Snapshot) map[waiter]int64 {
	all := map[waiter]int64{}
	for _, g := range s.Groups {
		if !g.Wait.Kind.IsLock() || g.Wait.Release || g.Wait.Site < 0 {
			continue
		}
		w := waiter{function: stacks.Owner(g.Frames[g.Wait.Site])}
		unknown := g.Count
		for address, n := range g.Locks {
			all[waiter{w.function, address}] += n
			unknown -= n
		}
		if unknown > 0 {
			all[w] += unknown
		}
	}
	return all
}

// snapshots takes dumps until done.
func snapshots(while time.Duration, done <-chan struct{}) []string {
	const (
		most  = 200 // two errors of a share of 0.1 are then under a half of it
		every = 20  // at most one part in so many is spent on them, as everything stands still meanwhile
	)
	var texts []string
	var buf []byte
	for pause := while / most; ; {
		select {
		case <-done:
			return texts
		case <-time.After(pause):
		}
		began := time.Now()
		buf = dump(buf)
		texts = append(texts, string(buf))
		pause = max(while/most, every*time.Since(began))
	}
}

// askedBlockRate is the rate that go test was asked for, 0 for none.
func askedBlockRate() int {
	f := flag.Lookup("test.blockprofile")
	if f == nil || f.Value.String() == "" {
		return 0
	}
	rate, _ := flag.Lookup("test.blockprofilerate").Value.(flag.Getter).Get().(int)
	return rate
}

func blockProfile(t testing.TB) *waits.Profile {
	t.Helper()
	var b bytes.Buffer
	err := pprof.Lookup("block").WriteTo(&b, 0)
	var raw *profile.Profile
	if err == nil {
		raw, err = profile.Parse(&b)
	}
	var p *waits.Profile
	if err == nil {
		p, err = waits.FromProfile("block", raw)
	}
	if err != nil {
		t.Fatalf("expected this process's block profile: %v", err)
	}
	return p
}
