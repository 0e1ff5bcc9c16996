// Package log is a commit log: the orders' durable store, no telemetry.
package log

import "sync"

// Segment is one file of the log.
type Segment struct {
	mu      sync.Mutex
	records [][]byte
	sync    func() error
}

// Open makes an empty segment that becomes durable with sync.
func Open(sync func() error) *Segment { return &Segment{sync: sync} }

// Append adds a record and makes it durable under the lock: the fault.
func (s *Segment) Append(record []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, record)
	return len(s.records), s.sync()
}
