package hungtest

import (
	"errors"
	"sync"
	"testing"
)

type ledger struct {
	mu      sync.Mutex
	balance int
}

// post forgets to unlock when it refuses.
func (l *ledger) post(n int) error {
	l.mu.Lock()
	if l.balance+n < 0 {
		return errors.New("not enough")
	}
	l.balance += n
	l.mu.Unlock()
	return nil
}

func TestPost(t *testing.T) {
	l := &ledger{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { l.post(-1) })
	}
	wg.Wait()
}
