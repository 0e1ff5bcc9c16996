// Package logging is an in-house logger.
package logging

import (
	"fmt"
	"io"
	"sync"
)

// Logger writes lines, one at a time.
type Logger struct {
	mu  sync.Mutex
	out io.Writer
}

// New makes a Logger that writes to out.
func New(out io.Writer) *Logger { return &Logger{out: out} }

// Infof writes one line under the lock, however slow its writer is: the fault.
func (l *Logger) Infof(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	io.WriteString(l.out, line+"\n")
}
