package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// What a reader that has stopped may be behind by, in looks that had changes: far more than
	// an incident has, and as whole reports some ten MB.
	maxBehind = 100
	// At the end a reader gets as long for the rest.
	behindTime = 2 * time.Second
)

// outlet is a writer that never waits for who reads: a pager that has stopped
// must not stop the looks, nor the end. What is too much is left out, which is said once it reads again.
type outlet struct {
	texts  chan string
	ending chan struct{} // closed once nothing is to come
	done   chan struct{} // closed once nothing is written any more
	lost   atomic.Int64
	failed atomic.Pointer[error]
}

func newOutlet(w, stderr io.Writer) *outlet {
	o := &outlet{texts: make(chan string, maxBehind), ending: make(chan struct{}), done: make(chan struct{})}
	go o.run(w, stderr)
	return o
}

func (o *outlet) run(w, stderr io.Writer) {
	defer close(o.done)
	for {
		var text string
		select {
		case text = <-o.texts:
		case <-o.ending:
			select {
			case text = <-o.texts:
			default:
				return
			}
		}
		if _, err := io.WriteString(w, text); err != nil {
			o.failed.Store(&err)
			return
		}
		if n := o.lost.Swap(0); n > 0 {
			complain(stderr, fmt.Sprintf("the changes of %d looks are left out: standard output was not read meanwhile", n))
		}
	}
}

// Write fails as a write before it did.
func (o *outlet) Write(p []byte) (int, error) {
	if err := o.failed.Load(); err != nil {
		return 0, *err
	}
	if len(p) > 0 {
		select {
		case o.texts <- string(p):
		default:
			o.lost.Add(1)
		}
	}
	return len(p), nil
}

// close leaves a reader some time for the rest. What is written after it may be lost.
func (o *outlet) close() error {
	close(o.ending)
	select {
	case <-o.done:
	case <-time.After(behindTime):
	}
	if err := o.failed.Load(); err != nil {
		return *err
	}
	return nil
}
