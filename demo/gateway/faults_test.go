package gateway

import (
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestApply(t *testing.T) {
	t.Parallel()
	g, err := newGateway(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := *g.faults.Load(), (Faults{UpstreamTime: 3 * time.Millisecond, Query: 2 * time.Millisecond}); got != want {
		t.Errorf("at start %+v, want %+v", got, want)
	}
	want := Faults{UpstreamTime: time.Second, Query: time.Minute, Garbage: 1}
	if err := g.apply(want); err != nil || *g.faults.Load() != want {
		t.Errorf("%+v, %v; want %+v", *g.faults.Load(), err, want)
	}
	for _, f := range []Faults{{CPU: -1}, {Grow: -1}, {UpstreamTime: -1}, {Query: -1}, {CacheHold: -1}, {HealthDelay: -1}, {Garbage: -1}} {
		if err := g.apply(f); err == nil || *g.faults.Load() != want {
			t.Errorf("%+v is in force: %v", f, err)
		}
	}
}

func TestNewRefusesNegatives(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Loops: -1}, {Admission: -1}, {Pool: -1}, {Hold: -1}, {Faults: Faults{CPU: -1}}} {
		if _, err := newGateway(t.Context(), cfg); err == nil {
			t.Errorf("no error for %+v", cfg)
		}
	}
}

// Each of these takes its time and nothing else does: the clock moves by no more.
func TestFaultsTakeTheirTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pool   int
		faults Faults
		want   time.Duration
	}{
		"defaults":       {want: 3 * time.Millisecond},
		"upstream":       {faults: Faults{UpstreamTime: time.Hour}, want: time.Hour},
		"query default":  {pool: 1, want: 5 * time.Millisecond},
		"query":          {pool: 1, faults: Faults{Query: time.Hour, UpstreamTime: time.Second}, want: time.Hour + time.Second},
		"query unasked":  {faults: Faults{Query: time.Hour}, want: 3 * time.Millisecond},
		"cache":          {faults: Faults{CacheHold: time.Hour}, want: time.Hour + 3*time.Millisecond},
		"health unasked": {faults: Faults{HealthDelay: time.Hour}, want: 3 * time.Millisecond},
		"cpu":            {faults: Faults{CPU: time.Microsecond, Garbage: 10_000}, want: 3 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				faults := test.faults
				if faults.UpstreamTime == 0 {
					faults.UpstreamTime = defaultUpstreamTime
				}
				if faults.Query == 0 {
					faults.Query = defaultQuery
				}
				g := &gateway{app: newApplication(Lock{})}
				g.faults.Store(&faults)
				if test.pool > 0 {
					g.db = openDatabase(test.pool, func() time.Duration { return g.faults.Load().Query })
					defer g.db.Close()
				}
				start := time.Now()
				g.app.work(faults)
				if err := g.ask(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(start); got != test.want {
					t.Errorf("took %v, want %v", got, test.want)
				}
			})
		})
	}
}

// A pool of two answers ten queries of an hour in five hours.
func TestPoolIsTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{db: openDatabase(2, func() time.Duration { return time.Hour })}
		defer g.db.Close()
		g.faults.Store(&Faults{})
		start := time.Now()
		done := make(chan error)
		for range 10 {
			go func() { done <- g.ask(t.Context()) }()
		}
		synctest.Wait()
		if stats := g.db.Stats(); stats.InUse != 2 || stats.WaitCount != 8 {
			t.Errorf("%d connections in use and %d waited for, want 2 and 8", stats.InUse, stats.WaitCount)
		}
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := time.Since(start); got != 5*time.Hour {
			t.Errorf("took %v, want 5h", got)
		}
	})
}

func TestHealthDelay(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		for _, apart := range []bool{false, true} {
			task := start(t, Config{Loops: loops, HealthApart: apart, Faults: Faults{HealthDelay: 1000 * time.Hour}})
			send(t, 2, task.addresses.URL+"/healthz")
			inFlight(t, task, 2)
			if status, _ := get(t, task.addresses.URL+"/"); status != http.StatusOK {
				t.Errorf("apart %v: an API call has status %d, want 200", apart, status)
			}
		}
	})
}

// A wedged task answers health checks and no API call, until it is wedged no more.
func TestWedged(t *testing.T) {
	t.Parallel()
	task := start(t, Config{Faults: Faults{Wedged: true}})
	answers := send(t, 5, task.addresses.URL+"/")
	inFlight(t, task, 5)
	if status, _ := get(t, task.addresses.URL+"/healthz"); status != http.StatusOK {
		t.Errorf("health has status %d, want 200", status)
	}
	if stacks("[chan receive", "gateway.(*cache).rebuild(") == 0 {
		t.Error("no goroutine keeps the lock")
	}
	if err := task.apply(Faults{Wedged: true}); err != nil { // once more changes nothing
		t.Fatal(err)
	}
	if err := task.apply(Faults{}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("status %d, want 200", status)
		}
	}
}

// Two requests each wait for the lock that the other has, and all others behind them.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		task := start(t, Config{Loops: loops, Faults: Faults{Deadlock: true}})
		send(t, 10, task.addresses.URL+"/")
		inFlight(t, task, 10)
		locks := &task.app.transfers
		waitFor(t, "both locks were held", func() bool { return locks.turn.Load() >= 2 && locked(locks.from) && locked(locks.to) })
		for i := range locks.mu {
			if locks.mu[i].TryLock() {
				t.Errorf("lock %d is free", i)
			}
		}
		if err := task.apply(Faults{}); err != nil {
			t.Fatal(err)
		}
		inFlight(t, task, 10)
	})
}

func locked(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestLeak(t *testing.T) {
	t.Parallel()
	app := newApplication(Lock{})
	before := stacks("[chan receive", "gateway.(*application).audit(")
	for range 39 {
		app.work(Faults{Leak: true})
	}
	app.work(Faults{})
	waitFor(t, "three goroutines were left", func() bool {
		return stacks("[chan receive", "gateway.(*application).audit(") == before+3
	})
}

func TestGrow(t *testing.T) {
	t.Parallel()
	const perSecond = 64 << 20
	var before, after runtime.MemStats
	app := newApplication(Lock{})
	runtime.ReadMemStats(&before)
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			app.grow(t.Context(), func() *Faults { return &Faults{Grow: perSecond} })
		}()
		time.Sleep(time.Second + growEvery/2)
		runtime.GC()
		runtime.ReadMemStats(&after)
	})
	// Other tests allocate beside it, a few MiB at most.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown < perSecond*3/4 {
		t.Errorf("the heap grew by %d bytes, want %d", grown, perSecond)
	}
}
