package main

import (
	"io"
	"time"
)

var (
	empty = make(chan int)
	full  = make(chan int, 1)
)

func parkChannels() {
	full <- 1
	start(8, chanRecv)
	start(2, chanRange)
	start(9, chanSend)
	start(5, selectTwo)
	start(4, selectTimer)
	start(2, nilRecv)
	start(1, nilSend)
	start(1, selectNone)
	r, w := io.Pipe()
	start(2, func() { readPipe(r) })
	_ = w
}

func chanRecv() {
	<-empty
	work()
}

func chanRange() {
	for range empty {
		work()
	}
}

func chanSend() {
	full <- 1
	work()
}

func selectTwo() {
	select {
	case <-empty:
	case full <- 2:
	}
	work()
}

func selectTimer() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	select {
	case <-t.C:
	case <-empty:
	}
	work()
}

func nilRecv() {
	var c chan int
	<-c
	work()
}

func nilSend() {
	var c chan int
	c <- 1
	work()
}

func selectNone() {
	select {}
}

func readPipe(r *io.PipeReader) {
	var b [1]byte
	r.Read(b[:])
	work()
}
