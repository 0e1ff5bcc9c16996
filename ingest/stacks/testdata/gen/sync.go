package main

import (
	"sync"
	"time"
)

var (
	mu     sync.Mutex
	rw     sync.RWMutex // held for writing
	rwRead sync.RWMutex // held for reading
	group  sync.WaitGroup
	once   sync.Once
	condMu sync.Mutex
	cond   = sync.NewCond(&condMu)
	never  = make(chan int)
)

func parkSync() {
	mu.Lock()
	rw.Lock()
	rwRead.RLock()
	group.Add(1)
	start(7, waitMutex)
	start(5, waitRWMutexWrite)
	start(6, waitRWMutexRead)
	start(4, waitWaitGroup)
	start(3, waitCond)
	start(3, sleep)
	start(1, drainReaders)
	go once.Do(slowInit)
	time.Sleep(50 * time.Millisecond) // the drainer and the init come first
	start(2, readBehindWriter)
	start(3, waitOnce)
}

func waitMutex() {
	mu.Lock()
	defer mu.Unlock()
	work()
}

func waitRWMutexWrite() {
	rw.Lock()
	defer rw.Unlock()
	work()
}

func waitRWMutexRead() {
	rw.RLock()
	defer rw.RUnlock()
	work()
}

// drainReaders owns the write side and waits for a reader to leave.
func drainReaders() {
	rwRead.Lock()
	defer rwRead.Unlock()
	work()
}

// readBehindWriter could share with the reader but for the writer that waits.
func readBehindWriter() {
	rwRead.RLock()
	defer rwRead.RUnlock()
	work()
}

func waitWaitGroup() {
	group.Wait()
	work()
}

func waitCond() {
	condMu.Lock()
	cond.Wait()
	condMu.Unlock()
}

func slowInit() { <-never }

func waitOnce() {
	once.Do(slowInit)
	work()
}

func sleep() {
	time.Sleep(time.Hour)
	work()
}

var sink int

// spin uses a CPU. The call keeps the loop from being a single instruction.
func spin() {
	for {
		sink += step(sink)
	}
}

//go:noinline
func step(n int) int { return n&1 + 1 }

//go:noinline
func work() {}
