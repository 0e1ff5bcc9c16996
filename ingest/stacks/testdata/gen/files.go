package main

import (
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func parkFiles() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	for i := 0; i < 4; i++ {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		server, err := l.Accept()
		if err != nil {
			return err
		}
		open = append(open, server)
		go readSocket(client)
	}
	start(2, func() { acceptShared(l) })
	for i := 0; i < 2; i++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go accept(l)
	}

	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	open = append(open, r)
	go fillPipe(w)
	time.Sleep(50 * time.Millisecond) // it comes first
	start(2, func() { waitDescriptor(w) })

	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		return err
	}
	start(2, func() { blockingRead(fds[0]) })

	cat := exec.Command("cat") // ends with this process, which holds its input
	stdin, err := cat.StdinPipe()
	if err != nil {
		return err
	}
	if err := cat.Start(); err != nil {
		return err
	}
	open = append(open, stdin)
	go waitChild(cat)

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	open = append(open, signals)
	return nil
}

// open keeps from the garbage collector what must not be closed.
var open []any

func readSocket(c net.Conn) {
	var b [1]byte
	c.Read(b[:])
	work()
}

func accept(l net.Listener) {
	for {
		l.Accept()
		work()
	}
}

// acceptShared is for two on one listener: one polls, and the other waits for
// the descriptor's read lock.
func acceptShared(l net.Listener) {
	for {
		l.Accept()
		work()
	}
}

// fillPipe writes more than any pipe holds, so it stays inside Write.
func fillPipe(w *os.File) {
	w.Write(make([]byte, 4<<20))
	work()
}

// waitDescriptor asks for the descriptor's write lock, which fillPipe has.
func waitDescriptor(w *os.File) {
	w.Write([]byte("x"))
	work()
}

func blockingRead(fd int) {
	var b [1]byte
	syscall.Read(fd, b[:])
	work()
}

func waitChild(c *exec.Cmd) {
	c.Wait()
	work()
}
