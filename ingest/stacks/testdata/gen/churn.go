package main

import (
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Each wait of churn is one event of the block profile and, for locks, one of
// the mutex profile. It lasts long enough that spinning never ends it first.
const hold = 3 * time.Millisecond

// churn waits known numbers of times, one wait after the other, and writes the
// block and mutex profiles with every event sampled.
func churn(dir string) error {
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	c := &churner{data: make(chan int), read: make(chan int)}
	c.cond = sync.NewCond(&c.condMu)
	c.repeat(20, c.mu.Lock, c.lockMutex, c.releaseMutex)
	c.repeat(15, c.rw.RLock, c.lockWrite, c.releaseRead)
	c.repeat(10, c.rw.Lock, c.lockRead, c.releaseWrite)
	c.repeat(12, func() {}, c.receive, func() { c.data <- 1 })
	c.repeat(11, func() {}, c.send, func() { <-c.data })
	c.repeat(9, func() {}, c.choose, func() { c.read <- 1 })
	c.repeat(8, func() { c.group.Add(1) }, c.waitGroup, c.group.Done)
	c.repeat(7, func() {}, c.waitCond, c.signal)
	runtime.SetBlockProfileRate(0)
	runtime.SetMutexProfileFraction(0)
	if err := writeProfile("block", filepath.Join(dir, "block.pb.gz"), 0); err != nil {
		return err
	}
	return writeProfile("mutex", filepath.Join(dir, "mutex.pb.gz"), 0)
}

type churner struct {
	mu         sync.Mutex
	rw         sync.RWMutex
	data, read chan int
	group      sync.WaitGroup
	condMu     sync.Mutex
	cond       *sync.Cond
}

// repeat makes wait block n times: between take and release.
func (c *churner) repeat(n int, take, wait, release func()) {
	for i := 0; i < n; i++ {
		done := make(chan bool, 1)
		take()
		go func() {
			wait()
			done <- true
		}()
		time.Sleep(hold)
		release()
		for len(done) == 0 { // a receive would be an event of its own
			time.Sleep(100 * time.Microsecond)
		}
	}
}

func (c *churner) lockMutex() {
	c.mu.Lock()
	c.mu.Unlock()
}

func (c *churner) lockWrite() {
	c.rw.Lock()
	c.rw.Unlock()
}

func (c *churner) lockRead() {
	c.rw.RLock()
	c.rw.RUnlock()
}

func (c *churner) releaseMutex() { c.mu.Unlock() }
func (c *churner) releaseRead()  { c.rw.RUnlock() }
func (c *churner) releaseWrite() { c.rw.Unlock() }
func (c *churner) receive()      { <-c.data }
func (c *churner) send()         { c.data <- 1 }
func (c *churner) waitGroup()    { c.group.Wait() }

func (c *churner) choose() {
	select {
	case <-c.read:
	case <-never:
	}
}

func (c *churner) waitCond() {
	c.condMu.Lock()
	c.cond.Wait()
	c.condMu.Unlock()
}

func (c *churner) signal() {
	c.condMu.Lock()
	c.cond.Signal()
	c.condMu.Unlock()
}
