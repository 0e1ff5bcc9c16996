package ingest

import (
	"context"
	"io"
	"os"
)

// openPipe opens a named pipe, which waits for somebody to write to it.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result)
	go func() {
		f, err := os.Open(path)
		select {
		case opened <- result{f, err}:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// waitingReader reads what may be silent for long, such as a pipe or a
// terminal, and gives up once ctx is done. A read that is under way then goes
// on in its goroutine, and what it gets is lost.
type waitingReader struct {
	ctx  context.Context
	r    io.Reader
	buf  []byte
	left []byte // of buf, not yet returned
	err  error
	read chan int // bytes read into buf; err is set before
}

func newWaitingReader(ctx context.Context, r io.Reader) *waitingReader {
	// What a pipe holds by default on Linux, and so what one read returns at most.
	const pipeBytes = 64 << 10
	return &waitingReader{ctx: ctx, r: r, buf: make([]byte, pipeBytes), read: make(chan int, 1)}
}

func (w *waitingReader) Read(p []byte) (int, error) {
	if len(w.left) == 0 {
		if w.err != nil {
			return 0, w.err
		}
		if err := w.ctx.Err(); err != nil {
			w.err = err
			return 0, err
		}
		var readErr error
		go func() {
			var n int
			n, readErr = w.r.Read(w.buf)
			w.read <- n
		}()
		select {
		case n := <-w.read:
			w.left, w.err = w.buf[:n], readErr
		case <-w.ctx.Done():
			w.err = w.ctx.Err()
			return 0, w.err
		}
	}
	n := copy(p, w.left)
	w.left = w.left[n:]
	if len(w.left) > 0 || n > 0 {
		return n, nil
	}
	return 0, w.err
}

// isFile reports whether r is a regular file, whose reading never waits for
// anybody.
func isFile(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}
