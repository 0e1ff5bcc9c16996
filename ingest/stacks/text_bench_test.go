package stacks

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"
)

// convoy is an io.Reader of a debug=2 dump as a service writes it whose
// requests all wait for one lock behind a metrics registry. It makes the text
// as it is read, so that a dump may be larger than memory.
type convoy struct {
	goroutines int
	ownLock    bool // each waits for a lock of its own
	next       int
	buf        []byte
}

func (c *convoy) Read(p []byte) (int, error) {
	for len(c.buf) == 0 {
		if c.next == c.goroutines {
			return 0, io.EOF
		}
		c.buf = c.goroutine(c.buf[:0], c.next)
		c.next++
	}
	n := copy(p, c.buf)
	c.buf = c.buf[n:]
	return n, nil
}

func (c *convoy) goroutine(b []byte, i int) []byte {
	id := 1000 + 3*i
	lock := 0xc000123400
	if c.ownLock {
		lock += 64 * i
	}
	heap := 0xc012000000 + 0x1240*i
	if i%10 == 9 { // one in ten reads a keep-alive connection
		return fmt.Appendf(b, `goroutine %d [IO wait]:
internal/poll.runtime_pollWait(0x7f%08x, 0x72)
	/usr/local/go/src/runtime/netpoll.go:351 +0x85
internal/poll.(*pollDesc).wait(0x%x?, 0x%x?, 0x0)
	/usr/local/go/src/internal/poll/fd_poll_runtime.go:84 +0x27
internal/poll.(*pollDesc).waitRead(...)
	/usr/local/go/src/internal/poll/fd_poll_runtime.go:89
internal/poll.(*FD).Read(0x%x, {0x%x, 0x1000, 0x1000})
	/usr/local/go/src/internal/poll/fd_unix.go:165 +0x279
net.(*netFD).Read(0x%x, {0x%x?, 0x%x?, 0x5?})
	/usr/local/go/src/net/fd_posix.go:68 +0x25
net.(*conn).Read(0x%x, {0x%x?, 0x0?, 0x0?})
	/usr/local/go/src/net/net.go:196 +0x45
net/http.(*connReader).Read(0x%x, {0x%x, 0x1000, 0x1000})
	/usr/local/go/src/net/http/server.go:812 +0x154
bufio.(*Reader).fill(0x%x)
	/usr/local/go/src/bufio/bufio.go:113 +0x103
bufio.(*Reader).Peek(0x%x, 0x4)
	/usr/local/go/src/bufio/bufio.go:152 +0x53
net/http.(*conn).serve(0x%x, {0x9abfc0, 0x%x})
	/usr/local/go/src/net/http/server.go:2145 +0x7a5
created by net/http.(*Server).Serve in goroutine 1
	/usr/local/go/src/net/http/server.go:3493 +0x485

`, id, i, heap, heap+8, heap, heap+64, heap, heap+64, heap, heap+128, heap+64, heap+256, heap+64, heap+512, heap+512, heap+1024, heap+2048)
	}
	return fmt.Appendf(b, `goroutine %d [sync.Mutex.Lock, %d minutes]:
internal/sync.runtime_SemacquireMutex(0x%x?, 0x0?, 0x%x?)
	/usr/local/go/src/runtime/sema.go:95 +0x25
internal/sync.(*Mutex).lockSlow(0x%x)
	/usr/local/go/src/internal/sync/mutex.go:149 +0x15d
internal/sync.(*Mutex).Lock(...)
	/usr/local/go/src/internal/sync/mutex.go:70
sync.(*Mutex).Lock(...)
	/usr/local/go/src/sync/mutex.go:46
github.com/prometheus/client_golang/prometheus.(*Registry).Register(0xc000123380, {0xd2f4e8, 0x%x})
	/go/pkg/mod/github.com/prometheus/client_golang@v1.25.0/prometheus/registry.go:274 +0x1a5
example.net/gateway/telemetry.(*Recorder).histogram(0xc0001d2000, {0xb5a1c3, 0x1c}, {0x%x, 0x4, 0x4})
	/src/gateway/telemetry/recorder.go:91 +0x32b
example.net/gateway/telemetry.(*Recorder).Observe(0xc0001d2000, {0xd30a80, 0x%x}, {0xb5a1c3, 0x1c}, 0x3f50624dd2f1a9fc)
	/src/gateway/telemetry/recorder.go:57 +0x9d
example.net/gateway/middleware.Instrument.func1.1({0x%x?, 0x%x?})
	/src/gateway/middleware/instrument.go:44 +0x1ad
example.net/gateway/middleware.Instrument.func1({0xd2fc20, 0x%x}, 0x%x)
	/src/gateway/middleware/instrument.go:52 +0x2c5
net/http.HandlerFunc.ServeHTTP(0x%x?, {0xd2fc20?, 0x%x?}, 0x%x?)
	/usr/local/go/src/net/http/server.go:2322 +0x29
example.net/gateway/middleware.(*chain).ServeHTTP(0xc0000b4060, {0xd2fc20, 0x%x}, 0x%x)
	/src/gateway/middleware/chain.go:38 +0x10f
net/http.(*ServeMux).ServeHTTP(0x%x?, {0xd2fc20, 0x%x}, 0x%x)
	/usr/local/go/src/net/http/server.go:2861 +0x1c7
net/http.serverHandler.ServeHTTP({0x%x?}, {0xd2fc20?, 0x%x?}, 0x6?)
	/usr/local/go/src/net/http/server.go:3340 +0x8e
net/http.(*conn).serve(0x%x, {0xd30a48, 0xc000199b90})
	/usr/local/go/src/net/http/server.go:2109 +0x665
created by net/http.(*Server).Serve in goroutine 1
	/usr/local/go/src/net/http/server.go:3493 +0x485

`, id, 1+i%7, heap, heap+8, lock, heap+64, heap+128, heap+256, heap+300, heap+308, heap+512, heap+640, heap+300, heap+512, heap+640,
		heap+512, heap+640, heap+300, heap+512, heap+640, heap+700, heap+512, heap+1024)
}

func BenchmarkReadText(b *testing.B) {
	dump, err := io.ReadAll(&convoy{goroutines: 17_000})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(dump)))
	b.ReportAllocs()
	for b.Loop() {
		snaps, err := ReadText("convoy", bytes.NewReader(dump))
		if err != nil || len(snaps) != 1 || snaps[0].Loss.Read != 17_000 || len(snaps[0].Groups) != 2 {
			b.Fatalf("%v %v", snaps, err)
		}
	}
}

// TestReadTextHuge reads 1 GB, made as it is read, and reports the peak of the
// heap. It takes seconds, so it runs only with CONTEND_HUGE=1.
func TestReadTextHuge(t *testing.T) {
	if os.Getenv("CONTEND_HUGE") == "" {
		t.Skip("set CONTEND_HUGE=1")
	}
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("ownLock=%v", own), func(t *testing.T) {
			const goroutines = 800_000
			done := make(chan struct{})
			peak := make(chan uint64)
			go func() {
				var most uint64
				for {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					most = max(most, m.Sys-m.HeapReleased)
					select {
					case <-done:
						peak <- most
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			}()
			in := &counter{r: &convoy{goroutines: goroutines, ownLock: own}}
			snaps, err := ReadText("huge", in)
			close(done)
			if err != nil || len(snaps) != 1 || snaps[0].Loss.Read != goroutines {
				t.Fatalf("got %v, %v", snaps, err)
			}
			t.Logf("%d MB read, peak memory %d MB", in.n/1e6, <-peak/1e6)
		})
	}
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
