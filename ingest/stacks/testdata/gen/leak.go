package main

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// leak parks goroutines on things that nothing else can reach, beside some on
// things that are still reachable, and writes the goroutineleak profile (Go
// 1.27, or 1.26 built with GOEXPERIMENT=goroutineleakprofile).
func leak(dir string) error {
	mu.Lock()
	start(3, leakRecv)
	start(2, leakSend)
	start(4, leakMutex)
	start(2, leakSelect)
	start(1, leakWaitGroup)
	start(1, nilRecv)
	start(2, waitMutex) // mu is a global: not leaked
	start(2, chanRecv)  // so is empty
	time.Sleep(settle)
	for debug, name := range []string{"goroutineleak.pb.gz", "goroutineleak.debug1.txt", "goroutineleak.debug2.txt"} {
		if err := writeProfile("goroutineleak", filepath.Join(dir, name), debug); err != nil {
			return fmt.Errorf("leak: %w", err)
		}
	}
	return capture(dir)
}

func leakRecv() {
	<-make(chan int)
	work()
}

func leakSend() {
	make(chan int) <- 1
	work()
}

func leakMutex() {
	m := new(sync.Mutex)
	m.Lock()
	m.Lock()
	work()
}

func leakSelect() {
	a, b := make(chan int), make(chan int)
	select {
	case <-a:
	case <-b:
	}
	work()
}

func leakWaitGroup() {
	g := new(sync.WaitGroup)
	g.Add(1)
	g.Wait()
	work()
}
