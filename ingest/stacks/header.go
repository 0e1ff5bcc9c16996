package stacks

import (
	"bytes"
	"strconv"
)

// header is what a goroutine's first line says. Its slices are only valid
// as long as the line is.
type header struct {
	id      int64
	state   []byte // without the marks in parentheses that are counted apart
	minutes int
	leaked  bool
	verbose bool   // has gp=, as tracebacks of a crash do
	labels  []byte // "{k: v}", nil where there are none
}

// parseHeader reads a goroutine's first line, in the form of Go's
// runtime/traceback.go (goroutineheader), releases 1.1 to 1.27:
//
//	goroutine 5 gp=0xc000006c40 m=0 mp=0x55f3a0 [select (leaked) (scan) (durable), 3 minutes, locked to thread, synctest bubble 1 labels:{k: v}] {k: v}:
func parseHeader(line []byte) (h header, ok bool) {
	s, ok := bytes.CutPrefix(line, goroutineWord)
	if !ok {
		return h, false
	}
	n := countDigits(s)
	if h.id, ok = parseInt(s[:n]); !ok {
		return h, false
	}
	s = s[n:]
	if bytes.HasPrefix(s, []byte(" gp=")) {
		h.verbose = true
		bracket := bytes.IndexByte(s, '[')
		if bracket < 1 {
			return h, false
		}
		s = s[bracket-1:]
	}
	if s, ok = bytes.CutPrefix(s, []byte(" [")); !ok {
		return h, false
	}
	end := bytes.IndexByte(s, ']')
	// Up to Go 1.26 labels are inside the brackets and may hold one.
	if i := bytes.Index(s, []byte(" labels:{")); i >= 0 && i < end {
		labels := s[i+len(" labels:"):]
		n := scanLabels(labels, nil)
		if n < 0 {
			return h, false
		}
		h.labels = labels[:n]
		h.parseStatus(bytes.TrimRight(s[:i], ","))
		s = labels[n:]
		end = 0
	} else if end >= 0 {
		h.parseStatus(s[:end])
	}
	if end < 0 || end >= len(s) || s[end] != ']' {
		return h, false
	}
	s = s[end+1:]
	if bytes.HasPrefix(s, []byte(" {")) {
		n := scanLabels(s[1:], nil)
		if n < 0 {
			return h, false
		}
		h.labels = s[1 : 1+n]
		s = s[1+n:]
	}
	return h, len(s) == 0 || string(s) == ":"
}

// parseStatus reads the inside of a header's brackets, but for labels.
func (h *header) parseStatus(s []byte) {
	h.state, s, _ = bytes.Cut(s, []byte(", "))
	for {
		i := bytes.LastIndexByte(h.state, '(')
		if i < 1 {
			break
		}
		switch string(h.state[i:]) {
		case "(leaked)":
			h.leaked = true
		case "(scan)", "(durable)", "(synctest)":
		default: // part of the wait reason: "chan receive (nil chan)"
			i = -1
		}
		if i < 0 {
			break
		}
		h.state = bytes.TrimRight(h.state[:i], " ")
	}
	for len(s) > 0 {
		var field []byte
		field, s, _ = bytes.Cut(s, []byte(", "))
		if n := countDigits(field); n > 0 && bytes.HasPrefix(field[n:], []byte(" minute")) {
			m, _ := parseInt(field[:n])
			h.minutes = int(m)
		}
	}
}

// parseInt reads a decimal number below 2^63.
func parseInt(s []byte) (n int64, ok bool) {
	if len(s) == 0 || len(s) > 19 {
		return 0, false
	}
	for _, b := range s {
		if !isDigit(b) {
			return 0, false
		}
		n = n*10 + int64(b-'0')
	}
	return n, n >= 0
}

// scanLabels reads a label set, "{k: v, "k]": "v"}", at the beginning of s and
// returns its length, -1 where it is none. A key or value is in Go's quotes
// where it needs them. add, if not nil, is called with each pair.
func scanLabels(s []byte, add func(key, value []byte)) int {
	if len(s) == 0 || s[0] != '{' {
		return -1
	}
	i := 1
	for {
		i += blanks(s[i:])
		if i < len(s) && s[i] == '}' {
			return i + 1
		}
		key, n := scanLabel(s[i:], ":")
		if i += n; n < 0 || i >= len(s) || s[i] != ':' {
			return -1
		}
		i++
		i += blanks(s[i:])
		value, n := scanLabel(s[i:], ",}")
		if i += n; n < 0 || i >= len(s) {
			return -1
		}
		if add != nil {
			add(key, value)
		}
		switch s[i] {
		case ',':
			i++
		case '}':
		default:
			return -1
		}
	}
}

func blanks(s []byte) int { return len(s) - len(bytes.TrimLeft(s, " ")) }

// scanLabel reads a key or value, quoted or up to one of the bytes in ends.
func scanLabel(s []byte, ends string) (text []byte, n int) {
	if len(s) == 0 || s[0] != '"' {
		n := bytes.IndexAny(s, ends)
		return s[:max(n, 0)], n
	}
	escaped := false
	for n = 1; n < len(s) && s[n] != '"'; n++ {
		if s[n] == '\\' {
			escaped = true
			n++
		}
	}
	if n >= len(s) {
		return nil, -1
	}
	n++
	text = s[1 : n-1]
	if escaped {
		if plain, err := strconv.Unquote(string(s[:n])); err == nil {
			text = []byte(plain)
		}
	}
	return text, n
}

// knownState reports whether a goroutine's state or wait reason is one that a
// Go release prints: runtime2.go (waitReasonStrings) and traceback.go
// (gStatusStrings) of 1.1 to 1.27, with the marks that parseStatus takes off.
func knownState(state string) bool {
	switch state {
	case "idle", "runnable", "running", "syscall", "waiting", "dead", "copystack", "preempted", "leaked",
		"waiting for cgo callback", "moribund", "stack growth", "stack split", // the last three up to Go 1.8
		"IO wait", "chan receive", "chan receive (nil chan)", "chan send", "chan send (nil chan)",
		"select", "select (no cases)", "semacquire", "sleep", "panicwait", "coroutine",
		"sync.Mutex.Lock", "sync.RWMutex.Lock", "sync.RWMutex.RLock", "sync.Cond.Wait", "sync.WaitGroup.Wait",
		"synctest.Run", "synctest.Wait",
		"GC assist marking", "GC assist wait", "GC sweep wait", "GC scavenge wait", "GC mark termination",
		"GC worker (idle)", "GC worker (active)", "GC worker init", "GC weak to strong wait", "GC background sweeper",
		"garbage collection", "garbage collection scan", "wait for GC cycle", "concurrent sweep wait",
		"mark wait (idle)", "force gc (idle)", "finalizer wait", "cleanup wait",
		"timer goroutine (idle)", "timer goroutine", "GOMAXPROCS updater (idle)",
		"trace reader (blocked)", "trace goroutine status", "trace proc status", "page trace flush",
		"flushing proc caches", "dumping heap", "stopping the world", "debug call", "enqueue":
		return true
	}
	return false
}
