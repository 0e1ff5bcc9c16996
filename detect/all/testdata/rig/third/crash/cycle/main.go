// Command cycle ends with "all goroutines are asleep": two take two locks in both orders.
package main

import (
	"sync"
	"time"
)

type shelf struct {
	mu    sync.Mutex
	items int
}

func (s *shelf) moveTo(t *shelf, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	t.add(n)
	s.items -= n
}

func (s *shelf) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items += n
}

func main() {
	a, b := &shelf{items: 5}, &shelf{items: 5}
	go a.moveTo(b, 1)
	b.moveTo(a, 2)
}
