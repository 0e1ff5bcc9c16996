package stacks

import (
	"bytes"
	"unicode/utf8"
)

// cleaner gives the lines of a dump as the runtime wrote them: without line
// ends of Windows, without what a log collector put before each line, and out
// of the escaped string of a JSON or logfmt record. What surrounds a dump is
// learned from its first header line (see learn), so no collector is named.
type cleaner struct {
	in   lineReader
	warn func(line int, format string, args ...any)

	raw     []byte // the physical line last read, or a part of it
	rawMore bool   // it goes on
	skip    bool   // drop the rest of the physical line
	again   bool   // give the last line once more: learn found out how to read it
	virtual bool   // the last line came out of a string: line
	line    []byte // that line

	prefix []byte // what stood before the last header; digits stand for any number
	key    []byte // opens the string that holds the dump: "log":" or stacktrace="
	unit   int    // backslashes that stand for one in that string; 0 for plain text

	str      []byte // undecoded rest of the string
	inString bool
	strUnit  int  // unit of the string being decoded
	slashes  int  // backslashes read and not yet decoded
	hex      int  // digits still to come of a \u escape
	char     rune // those that came
	decoded  bool // the string gave a line already
	out      []byte
	join     []byte // the beginning of a line that the container runtime cut in parts
}

// next returns the next line. It is valid until the call after it.
func (c *cleaner) next() (line []byte, ok bool) {
	if c.again && c.virtual {
		c.again = false
		return c.line, true
	}
	c.join = c.join[:0]
	for {
		if c.inString {
			if line, ok := c.decode(); ok {
				c.virtual, c.line = true, trimCR(line)
				return c.line, true
			}
			continue
		}
		relearned := c.again
		c.again, c.virtual = false, false
		if !relearned {
			raw, more, ok := c.in.next()
			if !ok {
				return c.join, len(c.join) > 0
			}
			c.raw, c.rawMore = raw, more
			// A record that is escaped or very long may hold a dump anywhere.
			if c.skip || c.unit > 0 || more {
				skipping := c.skip
				c.skip = skipping && more
				if c.learn() || skipping {
					continue
				}
			}
			if c.unit > 0 {
				if i := bytes.Index(c.raw, c.key); i >= 0 {
					c.open(c.raw[i+len(c.key):], c.unit)
					continue
				}
			}
		}
		if c.rawMore {
			c.skip = true
			c.warn(c.in.number, "line is longer than %d KiB and was cut", maxLine>>10)
		}
		line = c.raw
		if len(c.prefix) == 0 {
			return trimCR(line), true
		}
		n, ok := matchPrefix(c.prefix, line)
		if !ok {
			return trimCR(line), true
		}
		partial := isPartial(line[:n])
		line = trimCR(line[n:])
		if !partial && len(c.join) == 0 {
			return line, true
		}
		if len(c.join)+len(line) <= maxLine {
			c.join = append(c.join, line...)
		}
		if !partial {
			return c.join, true
		}
	}
}

func trimCR(line []byte) []byte {
	for len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	return line
}

// isPartial reports whether a line's prefix is that of the Kubernetes
// container runtime interface with the tag P: the line goes on in the next.
// Format: TIME SP stdout|stderr SP P|F SP TEXT (kubelet's CRI logging design).
func isPartial(prefix []byte) bool {
	return bytes.HasSuffix(prefix, []byte(" stderr P ")) || bytes.HasSuffix(prefix, []byte(" stdout P "))
}

var goroutineWord = []byte("goroutine ")

// learn looks for a header in the middle of the last line and remembers how
// to take it out. It reports whether it did; next then gives the line again.
func (c *cleaner) learn() bool {
	line := c.raw
	if c.virtual {
		line = c.line
	}
	at := findHeader(line)
	if at < 0 {
		return false
	}
	if c.virtual {
		c.line = line[at:]
		c.again = at > 0
		return c.again
	}
	unit := escapeUnit(line[at:])
	if unit == 0 {
		// The same prefix a second time: next has taken it off already.
		if bytes.Equal(c.prefix, line[:at]) && c.unit == 0 {
			return false
		}
		c.prefix = append(c.prefix[:0], line[:at]...)
		c.key, c.unit = nil, 0
		c.again = true
		return true
	}
	c.prefix = c.prefix[:0]
	quote := openingQuote(line[:at], unit)
	if quote < 0 {
		c.key, c.unit = nil, 0
		c.open(line[at:], unit)
		return true
	}
	if key := line[keyStart(line, quote) : quote+1]; !bytes.Equal(c.key, key) {
		c.key = bytes.Clone(key)
	}
	c.unit = unit
	c.open(line[quote+1:], unit)
	return true
}

// findHeader returns where a goroutine header or a profile's first line
// begins in line, -1 where there is none.
func findHeader(line []byte) int {
	for from := 0; ; {
		i := bytes.Index(line[from:], goroutineWord)
		if i < 0 {
			return -1
		}
		at := from + i
		from = at + len(goroutineWord)
		rest := line[from:]
		if bytes.HasPrefix(rest, []byte("profile: total ")) {
			return at
		}
		n := countDigits(rest)
		if rest = rest[n:]; n > 0 && (bytes.HasPrefix(rest, []byte(" [")) || bytes.HasPrefix(rest, []byte(" gp="))) {
			return at
		}
	}
}

func countDigits(s []byte) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// escapeUnit says how deep header (a header and what follows it on its line)
// is escaped: 0 not at all, 1 once, 2 twice (JSON within JSON), 4 thrice.
func escapeUnit(header []byte) int {
	if rest, ok := bytes.CutPrefix(header, []byte("goroutine profile: total ")); ok {
		return unitAt(rest[countDigits(rest):])
	}
	if header = bytes.TrimRight(header, " \t\r"); headerEnds(header) {
		return 0
	}
	for i, b := range header {
		if b == ':' && headerEnds(header[:i+1]) {
			if unit := unitAt(header[i+1:]); unit > 0 {
				return unit
			}
		}
	}
	return 0
}

func headerEnds(s []byte) bool {
	return bytes.HasSuffix(s, []byte("]:")) || bytes.HasSuffix(s, []byte("}:"))
}

// unitAt counts the backslashes of the escaped newline or the closing quote s
// begins with.
func unitAt(s []byte) int {
	n := 0
	for n < len(s) && s[n] == '\\' {
		n++
	}
	switch {
	case n == len(s):
		return 0
	case s[n] == '"':
		n++
	case s[n] != 'n' && s[n] != 'r':
		return 0
	}
	if n == 1 || n == 2 || n == 4 {
		return n
	}
	return 0
}

// openingQuote finds the quote that opens the string s ends in, -1 where it
// ends in none.
func openingQuote(s []byte, unit int) int {
	quote, slashes := -1, 0
	for i, b := range s {
		switch {
		case b == '\\':
			slashes++
			continue
		case b != '"' || slashes != unit-1:
		case quote < 0:
			quote = i
		default:
			quote = -1
		}
		slashes = 0
	}
	return quote
}

// keyStart goes back from a string's opening quote to where its key begins.
func keyStart(line []byte, quote int) int {
	back := func(i int, set string) int {
		for i > 0 && bytes.IndexByte([]byte(set), line[i-1]) >= 0 {
			i--
		}
		return i
	}
	i := back(quote, ` :=\`)
	if i > 0 && line[i-1] == '"' {
		i--
	}
	for i > 0 && isWordByte(line[i-1]) {
		i--
	}
	if i > 0 && line[i-1] == '"' {
		i--
	}
	return i
}

func isWordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b == '.' || b == '-' || b == '@' || b >= utf8.RuneSelf
}

// matchPrefix compares the beginning of line with a learned prefix and
// returns its length in line. Numbers match numbers, spaces may be more or
// fewer (syslog pads days), stdout matches stderr and P matches F.
func matchPrefix(prefix, line []byte) (int, bool) {
	i, j := 0, 0
	for i < len(prefix) {
		if j == len(line) {
			// Editors and collectors cut the blanks at the end of an empty line.
			return j, j > 0 && len(bytes.TrimLeft(prefix[i:], " \t")) == 0
		}
		p, b := prefix[i], line[j]
		switch {
		case isDigit(p):
			n, m := countDigits(prefix[i:]), countDigits(line[j:])
			if m == 0 {
				return 0, false
			}
			i, j = i+n, j+m
		case p == ' ' && b == ' ':
			i, j = i+1, j+1
			rest := bytes.TrimLeft(prefix[i:], " ")
			if len(rest) == 0 {
				continue // blanks at the end belong to the prefix one by one
			}
			i = len(prefix) - len(rest)
			for j < len(line) && line[j] == ' ' {
				j++
			}
		case p == b:
			i, j = i+1, j+1
		case sameStream(prefix[i:], line[j:]):
			i, j = i+len("out"), j+len("out")
		case (p == 'F' && b == 'P' || p == 'P' && b == 'F') && len(prefix) == i+2 && prefix[i+1] == ' ':
			i, j = i+1, j+1
		default:
			return 0, false
		}
	}
	return j, true
}

// sameStream compares the ends of stdout and stderr, which differ from "std" on.
func sameStream(a, b []byte) bool {
	out, err := []byte("out "), []byte("err ")
	return bytes.HasPrefix(a, out) && bytes.HasPrefix(b, err) || bytes.HasPrefix(a, err) && bytes.HasPrefix(b, out)
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func (c *cleaner) open(s []byte, unit int) {
	c.str, c.inString, c.strUnit = s, true, unit
	c.decoded, c.slashes, c.hex = false, 0, 0
}

// decode returns the next line of the string c is in. ok is false where the
// string ended without one.
func (c *cleaner) decode() (line []byte, ok bool) {
	c.out = c.out[:0]
	for {
		for i, b := range c.str {
			if b == '\\' && c.hex == 0 {
				c.slashes++
				continue
			}
			switch c.escape(b) {
			case lineEnds:
				c.str = c.str[i+1:]
				c.decoded = true
				return c.out, true
			case stringEnds:
				c.inString, c.skip = false, c.rawMore
				return c.out, len(c.out) > 0 || !c.decoded
			}
		}
		ok := false
		if c.rawMore {
			c.str, c.rawMore, ok = c.in.next()
		}
		if !ok {
			c.inString = false
			return c.out, len(c.out) > 0
		}
	}
}

type escapeResult int

const (
	goesOn escapeResult = iota
	lineEnds
	stringEnds
)

// escape decodes byte b, which follows c.slashes backslashes. At depth n of
// escaping, 2^(n-1) backslashes (the unit) stand for one.
func (c *cleaner) escape(b byte) escapeResult {
	if c.hex > 0 {
		c.char = c.char<<4 | rune(hexDigit(b))
		if c.hex--; c.hex == 0 {
			for _, b := range utf8.AppendRune(nil, c.char) {
				c.emit(b)
			}
		}
		return goesOn
	}
	n := c.slashes
	c.slashes = 0
	for ; n >= 2*c.strUnit; n -= 2 * c.strUnit {
		c.emit('\\')
	}
	switch {
	case b == '"' && n < c.strUnit:
		return stringEnds
	case n < c.strUnit:
		c.emit(b)
	case b == 'n':
		return lineEnds
	case b == 't':
		c.emit('\t')
	case b == 'r':
	case b == 'u':
		c.hex, c.char = 4, 0
	default:
		c.emit(b)
	}
	return goesOn
}

func (c *cleaner) emit(b byte) {
	if len(c.out) < maxLine {
		c.out = append(c.out, b)
	}
}

func hexDigit(b byte) byte {
	switch {
	case isDigit(b):
		return b - '0'
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10
	}
	return 0
}
