// Package gate has a function small enough to be inlined into its caller, so
// that its closure shows which package a Go version names it after.
package gate

import "sync"

// Handler returns a function that takes mu.
func Handler(mu *sync.Mutex) func() {
	return func() {
		mu.Lock()
		mu.Unlock()
	}
}
