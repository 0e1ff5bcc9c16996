package telemetry

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lineSize is the bytes of one line of the log. A pipe on Linux holds whole pages,
// and a writer that waits for one is let on when a page was read: with lines of a
// page each, a reader of one line per Hold lets one writer on per Hold. Lines of
// 100 bytes would go through 40 at once.
const lineSize = 4096

// queuedLines is how many lines wait for the sink before any are dropped: 1 MiB.
const queuedLines = 256

// accessLog writes a line for each request with the standard library's logger.
type accessLog struct {
	logger *log.Logger
}

func newLogger(ctx context.Context, registry prometheus.Registerer, cfg Config) (*accessLog, error) {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gateway_log_lines_dropped_total",
		Help: "Lines that the log's sink was too slow for.",
	})
	if err := registry.Register(dropped); err != nil {
		return nil, fmt.Errorf("register the log's metric: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open the log's pipe: %w", err)
	}
	context.AfterFunc(ctx, func() {
		write.Close()
		read.Close()
	})
	go drain(read, cfg.Hold)
	if cfg.Faulty {
		return &accessLog{log.New(write, "", 0)}, nil
	}
	lines := make(chan []byte, queuedLines)
	go func() {
		for {
			select {
			case line := <-lines:
				write.Write(line) // fails only when the pipe was closed, which ends the program's log
			case <-ctx.Done():
				return
			}
		}
	}()
	return &accessLog{log.New(queue{lines, dropped}, "", 0)}, nil
}

// drain stands for the program at the other end of stdout: it takes one line,
// and that long for it.
func drain(read io.Reader, each time.Duration) {
	line := make([]byte, lineSize)
	for {
		if _, err := io.ReadFull(read, line); err != nil {
			return // the pipe was closed
		}
		time.Sleep(each)
	}
}

// queue is a writer that hands lines over to another goroutine, or drops them.
type queue struct {
	lines   chan<- []byte
	dropped prometheus.Counter
}

// Write implements io.Writer. It never waits.
func (q queue) Write(line []byte) (int, error) {
	select {
	case q.lines <- append([]byte(nil), line...): // the logger uses its buffer again
	default:
		q.dropped.Inc()
	}
	return len(line), nil
}

// Record implements Recorder.
func (l *accessLog) Record(route, method string, status int, elapsed time.Duration) {
	line := make([]byte, 0, lineSize)
	line = time.Now().UTC().AppendFormat(line, "2006-01-02T15:04:05.000Z ")
	line = fmt.Appendf(line, "method=%q route=%q status=%d elapsed=%v headers=", method, route, status, elapsed)
	for len(line) < lineSize-1 {
		line = append(line, '.') // stands for a request's headers, which some log whole
	}
	line = append(line[:lineSize-1], '\n')
	l.logger.Print(string(line))
}
