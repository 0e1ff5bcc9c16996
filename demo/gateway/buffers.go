package gateway

import (
	"net"
	"os"
	"sync"
)

// spareBuffers are kept for the next request, so that a normal load, with a few
// requests in progress, asks the system for none.
const spareBuffers = 16

// buffers stand for what a proxy holds for each request and connection, outside
// the heap of Go: resident while it is held, given back to the system after, and
// no matter to the garbage collector.
type buffers struct {
	size  int // 0: none are held
	spare chan []byte
}

func newBuffers(size int) *buffers {
	return &buffers{size: size, spare: make(chan []byte, spareBuffers)}
}

// get returns a buffer of which every page is resident.
func (b *buffers) get() []byte {
	if b.size == 0 {
		return nil
	}
	select {
	case buffer := <-b.spare:
		return buffer
	default:
		return touched(allocate(b.size))
	}
}

func (b *buffers) put(buffer []byte) {
	if buffer == nil {
		return
	}
	select {
	case b.spare <- buffer:
	default:
		free(buffer)
	}
}

// touched writes to every page of b, which makes it resident.
func touched(b []byte) []byte {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return b
}

// holdingListener holds a buffer for each connection that is open.
type holdingListener struct {
	net.Listener
	buffers *buffers
}

// Accept implements net.Listener.
func (l holdingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	buffer := l.buffers.get()
	return &holdingConn{Conn: conn, release: sync.OnceFunc(func() { l.buffers.put(buffer) })}, nil
}

type holdingConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *holdingConn) Close() error {
	c.release()
	return c.Conn.Close()
}
