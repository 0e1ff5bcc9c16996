package main

import (
	"context"
	"runtime/pprof"
	"sync"

	"waits.example/gate"
)

// parkNames starts waiters of one lock under every form of function name.
func parkNames() {
	start(2, func() {
		mu.Lock()
		work()
	})
	w := &waiter{mu: &mu}
	method := w.wait
	start(3, method)
	v := value{mu: &mu}
	start(2, v.wait)
	start(2, waitGeneric[string])
	start(3, (&box[int]{mu: &mu}).wait)
	start(2, gate.Handler(&mu))
	start(1, waitPromoted)
	go waitArgument(&mu, 1)
	go func() {
		defer waitDeferred()
		work()
	}()
	start(2, deep)
	labelled(2, pprof.Labels("endpoint", "/checkout", "tenant", "a b"), waitLabelled)
}

type waiter struct{ mu *sync.Mutex }

func (w *waiter) wait() {
	w.mu.Lock()
	work()
}

type value struct{ mu *sync.Mutex }

func (v value) wait() {
	v.mu.Lock()
	work()
}

type box[T any] struct {
	mu   *sync.Mutex
	held T
}

func (b *box[T]) wait() {
	b.mu.Lock()
	work()
}

// promoted has its Lock from the mutex inside, so the compiler makes the method.
type promoted struct {
	name string
	*sync.Mutex
}

func waitPromoted() {
	var l sync.Locker = &promoted{"", &mu}
	l.Lock()
	work()
}

func waitGeneric[T any]() {
	var b struct{ zero T }
	_ = b
	mu.Lock()
	work()
}

func waitArgument(m *sync.Mutex, n int) {
	m.Lock()
	work()
	sink += n
}

func waitDeferred() {
	mu.Lock()
	work()
}

// deep waits below more frames than any traceback shows.
func deep() { descend(150) }

//go:noinline
func descend(n int) {
	if n == 0 {
		mu.Lock()
		work()
		return
	}
	descend(n - 1)
	work()
}

func waitLabelled() {
	mu.Lock()
	work()
}

func labelled(n int, labels pprof.LabelSet, f func()) {
	pprof.Do(context.Background(), labels, func(context.Context) { start(n, f) })
}

// parkLabels starts goroutines under labels that are hard to read back.
func parkLabels() {
	mu.Lock()
	nasty := []string{
		"plain",
		"two words",
		"]: closes early",
		"{a: b, c: d}",
		`say "hi"`,
		`back\slash`,
		"comma, minutes, 5 minutes]:",
		"line\nbreak",
		"größe",
		"",
	}
	for _, v := range nasty {
		labelled(1, pprof.Labels("value", v), waitLabelled)
	}
	labelled(2, pprof.Labels("key with ]:", "v", "request.id", "abc/1.2_3"), waitLabelled)
	labelled(3, pprof.Labels("a", "1", "b", "2", "c", "3"), waitLabelled)
}
