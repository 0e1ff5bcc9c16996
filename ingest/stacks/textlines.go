package stacks

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// maxLine is the size of the read buffer and so the longest line kept whole.
// The longest frame line seen in the field is below 2 KiB; 256 KiB still fits
// a second-level cache.
const maxLine = 256 << 10

// lineReader splits a stream into lines with one buffer of fixed size.
type lineReader struct {
	r          io.Reader
	buf        []byte
	start, end int // unread bytes of buf
	err        error
	number     int   // of the line last returned, from 1
	read       int64 // bytes taken from r
	midLine    bool  // the line last returned goes on
	newline    bool  // the line last returned ended with a newline
	cr         bool  // lines end with a carriage return alone
}

func newLineReader(r io.Reader) lineReader {
	l := lineReader{r: r, buf: make([]byte, maxLine)}
	l.end, l.err = io.ReadFull(r, l.buf[:2])
	if l.err == io.ErrUnexpectedEOF {
		l.err = io.EOF
	}
	l.read = int64(l.end)
	// PowerShell writes what it redirects to a file as UTF-16, with this mark first.
	if mark := string(l.buf[:l.end]); mark == "\xff\xfe" || mark == "\xfe\xff" {
		l.end = 0
		l.r = &utf16Reader{r: r, big: mark == "\xfe\xff"}
	}
	return l
}

// utf16Reader turns UTF-16 into UTF-8. Characters outside the basic plane,
// which no dump has, become replacement characters.
type utf16Reader struct {
	r    io.Reader
	big  bool // the high byte comes first
	buf  [4096]byte
	n    int // bytes in buf: an odd one may be left from the last time
	text []byte
	err  error
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	if len(u.text) == 0 {
		if u.err != nil {
			return 0, u.err
		}
		var n int
		n, u.err = u.r.Read(u.buf[u.n:])
		u.n += n
		u.text = u.text[:0]
		i := 0
		for ; i+1 < u.n; i += 2 {
			low, high := u.buf[i], u.buf[i+1]
			if u.big {
				low, high = high, low
			}
			u.text = utf8.AppendRune(u.text, rune(high)<<8|rune(low))
		}
		u.n = copy(u.buf[:], u.buf[i:u.n])
	}
	n := copy(p, u.text)
	u.text = u.text[n:]
	return n, nil
}

// next returns the next line without its newline; it is valid until the next
// call. A line longer than the buffer comes in parts: more is set on all but
// the last. ok is false at the end of the input, or at an error (see l.err).
func (l *lineReader) next() (line []byte, more, ok bool) {
	if !l.midLine {
		l.number++
	}
	scanned := 0
	for {
		if i := bytes.IndexByte(l.buf[l.start+scanned:l.end], '\n'); i >= 0 {
			line = l.buf[l.start : l.start+scanned+i]
			l.start += len(line) + 1
			l.midLine, l.newline = false, true
			if len(line) == 0 || len(line) == 1 && line[0] == '\r' {
				l.skipEmpty()
			}
			return line, false, true
		}
		scanned = l.end - l.start
		if (scanned == len(l.buf) || l.err != nil) && l.number == 1 && !l.midLine && l.splitAtCR() {
			scanned = 0
			continue
		}
		if scanned == len(l.buf) {
			line = l.buf
			l.start, l.end = 0, 0
			l.midLine, l.newline = true, false
			return line, true, true
		}
		if l.err != nil {
			if scanned == 0 {
				if !l.midLine {
					l.number-- // there is no such line
				}
				l.midLine = false
				return nil, false, false
			}
			line = l.buf[l.start:l.end]
			l.start = l.end
			l.midLine, l.newline = false, false
			return line, false, true
		}
		l.fill()
	}
}

// skipEmpty passes over the empty lines after an empty one: they say nothing
// more, and a file may have nothing else.
func (l *lineReader) skipEmpty() {
	rest := l.buf[l.start:l.end]
	for len(rest) > 0 {
		switch {
		case rest[0] == '\n':
			rest = rest[1:]
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			rest = rest[2:]
		default:
			l.start = l.end - len(rest)
			return
		}
		l.number++
	}
	l.start = l.end
}

// splitAtCR finds out, where the buffer has no newline, whether the input's
// lines end with carriage returns alone, as some log shippers leave them, and
// makes them newlines. It reports whether it did.
func (l *lineReader) splitAtCR() bool {
	text := l.buf[l.start:l.end]
	if l.cr || bytes.Count(text, []byte("\r")) < 2 {
		return false
	}
	l.cr = true
	newlines(text)
	return true
}

func newlines(text []byte) {
	for i, b := range text {
		if b == '\r' {
			text[i] = '\n'
		}
	}
}

// fill reads more of the input.
func (l *lineReader) fill() {
	if l.start > 0 {
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start = 0
	}
	// io.Reader may return nothing for a while; the count is bufio's.
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		if l.cr {
			newlines(l.buf[l.end : l.end+n])
		}
		l.end += n
		l.read += int64(n)
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}
