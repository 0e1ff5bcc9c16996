package gateway

import (
	"context"
	"crypto/sha256"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// application is the gateway's own code on the request path, without its
// dependencies and its telemetry: here most faults are.
type application struct {
	kept      [][]byte // what grow has taken, and nobody gives back
	cache     *cache
	store     store
	transfers transfers
	leaks     atomic.Int64  // requests since leaks began
	never     chan struct{} // nothing is ever sent
	rounds    int           // of compute in a millisecond
}

func newApplication(lock Lock) *application {
	return &application{
		store:     store{lock: lock},
		cache:     &cache{entries: map[string]string{"design": "v1"}},
		transfers: transfers{from: make(chan struct{}), to: make(chan struct{})},
		never:     make(chan struct{}),
		rounds:    calibrate(),
	}
}

// work is what each API call does before it asks anyone.
func (a *application) work(f Faults) {
	if f.Leak && a.leaks.Add(1)%leakEvery == 0 {
		go a.audit()
	}
	if f.Deadlock {
		a.transfers.transfer()
	}
	a.cache.get("design", f.CacheHold)
	a.store.order()
	if f.Garbage > 0 {
		churn(f.Garbage)
	}
	if f.CPU > 0 {
		for range f.CPU / time.Millisecond {
			compute(a.rounds)
			runtime.Gosched() // as code that waits and allocates between does; the runtime's own turns are 10 ms
		}
	}
}

const leakEvery = 10

// audit waits for an answer that does not come.
func (a *application) audit() { <-a.never }

// cache is a map under a mutex.
type cache struct {
	mu      sync.Mutex
	entries map[string]string

	wedging sync.Mutex    // one wedge at a time
	release chan struct{} // open while a holder keeps mu
}

// get looks key up, and sleeps so long before it lets the lock go.
func (c *cache) get(key string, hold time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hold > 0 {
		time.Sleep(hold)
	}
	return c.entries[key]
}

// wedge makes a holder take the lock and keep it until wedge(false). It returns
// once that is so.
func (c *cache) wedge(on bool) {
	c.wedging.Lock()
	defer c.wedging.Unlock()
	switch {
	case on && c.release == nil:
		c.release = make(chan struct{})
		held := make(chan struct{})
		go c.rebuild(held, c.release)
		<-held
	case !on && c.release != nil:
		close(c.release)
		c.release = nil
	}
}

// rebuild waits under the lock for something that may not come.
func (c *cache) rebuild(held chan<- struct{}, until <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(held)
	<-until
}

// transfers move something between two accounts, each with a lock of its own.
type transfers struct {
	turn     atomic.Int64
	mu       [2]sync.Mutex
	from, to chan struct{} // closed once the first, the second transfer has its first lock
}

// transfer takes both locks, in an order that alternates between calls. The
// first two calls meet with one lock each in hand, so that it does not hang on
// chance whether they stop each other; all others wait behind them.
func (t *transfers) transfer() {
	n := t.turn.Add(1)
	if n%2 == 1 {
		t.debit(n)
	} else {
		t.credit(n)
	}
}

func (t *transfers) debit(n int64) {
	t.mu[0].Lock()
	defer t.mu[0].Unlock()
	if n == 1 {
		close(t.from)
		<-t.to
	}
	t.mu[1].Lock()
	defer t.mu[1].Unlock()
}

func (t *transfers) credit(n int64) {
	t.mu[1].Lock()
	defer t.mu[1].Unlock()
	if n == 2 {
		close(t.to)
		<-t.from
	}
	t.mu[0].Lock()
	defer t.mu[0].Unlock()
}

// garbageSize is the size of one dropped allocation: of the small size classes,
// as most garbage is.
const garbageSize = 1 << 10

// churn allocates so many bytes, as a list that is dropped whole.
func churn(bytes int) {
	type node struct {
		next *node
		data [garbageSize - 8]byte
	}
	var head *node
	for range bytes / garbageSize {
		head = &node{next: head}
	}
	sum := 0
	for ; head != nil; head = head.next {
		sum += len(head.data) + int(head.data[0])
	}
	_ = sum
}

// compute hashes so many times.
func compute(rounds int) {
	var block [sha256.Size]byte
	for range rounds {
		block = sha256.Sum256(block[:])
	}
}

// calibrate says how many rounds of compute take a millisecond of CPU. A request
// computes a fixed number of rounds and not until a clock has moved on: on a busy
// machine it then waits for a core and does no less.
func calibrate() int {
	const sample = 1000
	best := time.Hour
	for range 5 { // the fastest: the others were interrupted
		start := time.Now()
		compute(sample)
		best = min(best, time.Since(start))
	}
	return int(sample * time.Millisecond / max(best, time.Microsecond))
}

// growEvery is how often memory grows.
const growEvery = 100 * time.Millisecond

// grow keeps as many bytes per second as the faults say, until ctx ends.
func (a *application) grow(ctx context.Context, faults func() *Faults) {
	tick := time.NewTicker(growEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if n := faults().Grow; n > 0 {
				a.kept = append(a.kept, touched(make([]byte, int(int64(n)*int64(growEvery)/int64(time.Second)))))
			}
		case <-ctx.Done():
			return
		}
	}
}
