package gateway

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of locks of the store.
const (
	LockFixed       = "fixed"       // held equally long by all
	LockExponential = "exponential" // held for exponentially distributed times
	LockTwoClass    = "two-class"   // held for 14 times the mean by one call in 20: their squared coefficient of variation is 9
	LockReadWrite   = "read-write"  // every fourth call writes, and the others read for as long
	LockRow         = "row"         // three locks one after the other, the second held for longest
)

// Lock says which lock of the store each API call takes. Who holds it sleeps. In
// JSON, Hold is in nanoseconds.
type Lock struct {
	Kind string        // one of the kinds above; "" is none
	Hold time.Duration // mean time that it is held for; in a row, the longest
}

func (l Lock) check() error {
	switch l.Kind {
	case "", LockFixed, LockExponential, LockTwoClass, LockReadWrite, LockRow:
	default:
		return fmt.Errorf("expected a lock that is %s, %s, %s, %s or %s, saw %q", LockFixed, LockExponential, LockTwoClass, LockReadWrite, LockRow, l.Kind)
	}
	if l.Hold < 0 {
		return fmt.Errorf("expected a hold of 0 or more, saw %v", l.Hold)
	}
	return nil
}

// store is what calls order from, each part under a lock of its own.
type store struct {
	lock      Lock
	orders    atomic.Int64
	sessions  sessions
	stock     stock
	ledger    ledger
	catalogue catalogue
}

// order takes the lock, or the locks, that there are.
func (s *store) order() {
	n, hold := s.orders.Add(1), s.lock.Hold
	switch s.lock.Kind {
	case LockFixed:
		s.stock.reserve(hold)
	case LockExponential:
		s.stock.reserve(time.Duration(rand.ExpFloat64() * float64(hold)))
	case LockTwoClass:
		s.stock.reserve(time.Duration(twoClass() * float64(hold)))
	case LockReadWrite:
		const writes = 4
		if n%writes == 0 {
			s.catalogue.put(hold)
		} else {
			s.catalogue.get(hold)
		}
	case LockRow:
		s.sessions.touch(hold / 2)
		s.stock.reserve(hold)
		s.ledger.post(hold * 3 / 4)
	}
}

// twoClass is 14.1 once in 20 times and 0.3 otherwise: of mean 1 and variance 9.
func twoClass() float64 {
	const rare, variance = 0.05, 9
	if rand.Float64() < rare {
		return 1 + math.Sqrt(variance*(1-rare)/rare)
	}
	return 1 - math.Sqrt(variance*rare/(1-rare))
}

type stock struct {
	mu   sync.Mutex
	left int
}

func (s *stock) reserve(hold time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(hold)
	s.left--
}

type sessions struct {
	mu   sync.Mutex
	seen time.Time
}

func (s *sessions) touch(hold time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(hold)
	s.seen = time.Now()
}

type ledger struct {
	mu     sync.Mutex
	posted int
}

func (l *ledger) post(hold time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	time.Sleep(hold)
	l.posted++
}

type catalogue struct {
	mu      sync.RWMutex
	version int
}

func (c *catalogue) get(hold time.Duration) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	time.Sleep(hold)
	return c.version
}

func (c *catalogue) put(hold time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	time.Sleep(hold)
	c.version++
}
