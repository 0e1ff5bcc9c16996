package gateway

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What is held while one call has the lock, and for how long in all.
func TestStoreHolds(t *testing.T) {
	t.Parallel()
	const hold = 8 * time.Millisecond
	free := func(mu *sync.Mutex) bool {
		ok := mu.TryLock()
		if ok {
			mu.Unlock()
		}
		return ok
	}
	for _, c := range []struct {
		kind  string
		takes []time.Duration // each part of the first order, and what is locked in it
		locks []string
	}{
		{"", nil, nil},
		{LockFixed, []time.Duration{hold}, []string{"stock"}},
		{LockReadWrite, []time.Duration{hold}, []string{"catalogue for writers"}},
		{LockRow, []time.Duration{hold / 2, hold, hold * 3 / 4}, []string{"sessions", "stock", "ledger"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{lock: Lock{c.kind, hold}}
			begin := time.Now()
			go s.order()
			for i, takes := range c.takes {
				synctest.Wait()
				locked := ""
				switch {
				case !free(&s.stock.mu):
					locked = "stock"
				case !free(&s.sessions.mu):
					locked = "sessions"
				case !free(&s.ledger.mu):
					locked = "ledger"
				case s.catalogue.mu.TryLock():
					s.catalogue.mu.Unlock()
				case s.catalogue.mu.TryRLock():
					s.catalogue.mu.RUnlock()
					locked = "catalogue for writers"
				default:
					locked = "catalogue"
				}
				if locked != c.locks[i] {
					t.Errorf("%s: %q is locked after %v, want %q", c.kind, locked, time.Since(begin), c.locks[i])
				}
				time.Sleep(takes)
			}
			synctest.Wait()
			if c.kind == LockReadWrite { // the fourth writes
				for range 2 {
					s.order()
				}
				go s.order()
				synctest.Wait()
				if s.catalogue.mu.TryRLock() {
					t.Errorf("readers may read while the fourth call writes")
				}
				time.Sleep(hold)
			}
		})
	}
}

func TestStoreDistributions(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]float64{LockFixed: 0, LockExponential: 1, LockTwoClass: 9} {
		synctest.Test(t, func(t *testing.T) {
			const n, hold = 40_000, time.Millisecond
			s := &store{lock: Lock{kind, hold}}
			sum, squares := 0.0, 0.0
			for range n {
				begin := time.Now()
				s.order()
				x := float64(time.Since(begin)) / float64(hold)
				sum, squares = sum+x, squares+x*x
			}
			mean := sum / n
			variance := squares/n - mean*mean
			// Of two classes: the mean is known to 1.5 % and the variance to 2.2 %, in one standard error.
			if math.Abs(mean-1) > 0.075 || math.Abs(variance-want) > 0.11*want+1e-9 {
				t.Errorf("%s: holds of mean %.3f and variance %.3f, want 1 and %v", kind, mean, variance, want)
			}
		})
	}
}

func TestLockConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lock Lock
		want string
	}{
		{Lock{}, ""},
		{Lock{Kind: LockRow, Hold: time.Second}, ""},
		{Lock{Kind: "rw"}, `expected a lock that is fixed, exponential, two-class, read-write or row, saw "rw"`},
		{Lock{Kind: LockFixed, Hold: -1}, "expected a hold of 0 or more, saw -1ns"},
	} {
		said := ""
		if err := (Config{Lock: c.lock}).check(); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%+v: error %q, want %q", c.lock, said, c.want)
		}
	}
}
