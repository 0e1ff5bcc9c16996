package report

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is an SGR parameter of ECMA-48, as terminals take it.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "1;31"
	green  style = "1;32"
	yellow style = "33"
	cyan   style = "36"
)

// page is the text under construction. Everything printed goes through
// block, which makes it safe for a terminal.
type page struct {
	buf   bytes.Buffer
	width int // display columns
	color bool
	top   int    // how many of a list to show; 0 for all
	jobs  int    // how many jobs' series the report is of
	dir   string // what the names of all inputs begin with; see local
}

// block prints text wrapped to the page, the first line after first and the
// others under it. A word too long for its column, but not for the page, is
// moved to the left instead of broken: a name stays whole, to copy and to search for.
func (p *page) block(s style, first, text string) {
	first = Printable(first)
	indent := columns(first)
	// A prefix that takes most of the line gets a line of its own.
	if indent > p.width/2 {
		p.put(s, strings.TrimRight(first, " "))
		first, indent = "    ", 4
	}
	for i, line := range wrap(Printable(text), p.width-indent, p.width) {
		before := strings.Repeat(" ", indent)
		if i == 0 {
			before = first
		}
		if columns(line) > p.width-indent {
			if strings.TrimSpace(before) != "" {
				p.put(s, strings.TrimRight(before, " "))
			}
			before = strings.Repeat(" ", min(overhang, p.width-columns(line)))
		}
		p.put(s, before+line)
	}
}

// overhang is the indent of a name moved to the left, where it fits.
const overhang = 6

// heading prints the title of a section, after an empty line.
func (p *page) heading(s style, text string) {
	p.buf.WriteByte('\n')
	p.block(s, "", text)
}

// put prints one line that is already safe and of the right width.
func (p *page) put(s style, line string) {
	if p.color && s != plain && line != "" {
		line = "\x1b[" + string(s) + "m" + line + "\x1b[0m"
	}
	p.buf.WriteString(line)
	p.buf.WriteByte('\n')
}

// shown is how many of n list items to print.
func (p *page) shown(n int) int {
	if p.top > 0 && n > p.top {
		return p.top
	}
	return n
}

// maxText bounds one piece of text from an input, in runes: more than any real
// function name or message, little enough that a hostile one cannot fill the screen.
const maxText = 2000

// Printable makes a string of unknown origin safe to print on a terminal:
// control characters become escapes such as \x1b, format characters (bidirectional
// overrides, zero-width ones) and what is not UTF-8 become U+FFFD, other
// kinds of space become a space. Very long text is cut, with "…".
func Printable(s string) string {
	if printableASCII(s) {
		return s
	}
	var b strings.Builder
	n := 0
	for _, c := range s {
		if n++; n > maxText {
			b.WriteRune('…')
			break
		}
		switch {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case isControl(c):
			fmt.Fprintf(&b, `\x%02x`, c)
		case unicode.Is(unicode.Zs, c):
			b.WriteByte(' ')
		case isFormat(c) || !unicode.IsPrint(c):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func printableASCII(s string) bool {
	if len(s) > maxText {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// isControl covers the C0 and C1 control characters and DEL.
func isControl(c rune) bool { return c < 0x20 || 0x7f <= c && c < 0xa0 }

// isFormat covers characters without a shape that change how others are
// shown: general category Cf, and the line and paragraph separators.
func isFormat(c rune) bool {
	return unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029'
}

// columns is the width of printable text on a terminal.
func columns(s string) int {
	n := 0
	for _, c := range s {
		n += runeColumns(c)
	}
	return n
}

func runeColumns(c rune) int {
	switch {
	case c < 0x300:
		return 1
	case unicode.In(c, unicode.Mn, unicode.Me) || 0x1160 <= c && c <= 0x11ff:
		return 0 // combining marks, and the Hangul vowels and finals that join the syllable before
	case unicode.Is(wide, c):
		return 2
	}
	return 1
}

// wide holds the runs of characters that take two columns: Wide and Fullwidth
// in Unicode's EastAsianWidth.txt, joined across unassigned gaps.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x231a, 0x231b, 1}, {0x23e9, 0x23ec, 1}, {0x2705, 0x2705, 1},
		{0x274c, 0x274c, 1}, {0x2e80, 0x303e, 1}, {0x3041, 0xa4cf, 1}, {0xa960, 0xa97f, 1},
		{0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe10, 0xfe19, 1}, {0xfe30, 0xfe6f, 1},
		{0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18cff, 1}, {0x1b000, 0x1b2ff, 1}, {0x1f300, 0x1f64f, 1}, {0x1f680, 0x1f6ff, 1},
		{0x1f900, 0x1f9ff, 1}, {0x1fa70, 0x1faff, 1}, {0x20000, 0x3fffd, 1},
	},
}

// Wrap breaks text at spaces into printable lines of at most width columns. A word
// that is longer is broken where a name may be.
func Wrap(text string, width int) []string { return wrap(Printable(text), width, width) }

// wrap breaks text at spaces into lines of at most width columns. A word that
// is longer has a line of its own up to limit, and is broken where it is longer still.
func wrap(text string, width, limit int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(text) {
		n := columns(word)
		if used > 0 && used+1+n <= width {
			line += " " + word
			used += 1 + n
			continue
		}
		if used > 0 {
			lines = append(lines, line)
		}
		if n > maxNameLines*limit {
			word = cutMiddle(word, maxNameLines*limit)
			n = columns(word)
		}
		for tooLong := n > limit; tooLong && n > width; n = columns(word) {
			var head string
			head, word = breakName(word, width)
			lines = append(lines, head)
		}
		line, used = word, n
	}
	if line == "" && len(lines) > 0 {
		return lines
	}
	return append(lines, line)
}

// maxNameLines is how many lines one name may take: generic functions with
// their type arguments fit, a name made to fill the screen does not.
const maxNameLines = 3

// breakName cuts a name that is longer than width: after its last slash or
// before its last dot that fits, or else where the line ends.
func breakName(name string, width int) (head, tail string) {
	fits, best, used := 0, 0, 0
	for i, c := range name {
		if used += runeColumns(c); used > width {
			break
		}
		if c == '.' && i > 0 {
			best = i
		}
		fits = i + utf8.RuneLen(c)
		if c == '/' {
			best = fits
		}
	}
	switch {
	case best > 0:
		return name[:best], name[best:]
	case fits > 0:
		return name[:fits], name[fits:]
	}
	_, n := utf8.DecodeRuneInString(name) // wider than the whole line
	return name[:n], name[n:]
}

// shorten makes a function's name fit a table: it leaves elements out of the
// middle of the package path, then the whole path, then the name's beginning.
func shorten(name string, width int) string {
	if columns(name) <= width {
		return name
	}
	first, tail, inPath := strings.Cut(name, "/")
	left := columns(tail)
	for inPath {
		i := strings.IndexByte(tail, '/')
		if i < 0 {
			break
		}
		left -= columns(tail[:i+1])
		tail = tail[i+1:]
		if columns(first)+len("/./")+left <= width {
			return first + "/…/" + tail
		}
	}
	if !inPath {
		tail, left = name, columns(name)
	} else if len("./")+left <= width {
		return "…/" + tail
	}
	for i, c := range tail {
		if left < width {
			return "…" + tail[i:]
		}
		left -= runeColumns(c)
	}
	return "…"
}

// Cut shortens text to width columns, with "…" at its end.
func Cut(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	used := 0
	for i, c := range text {
		if used += runeColumns(c); used > width-1 {
			return strings.TrimRight(text[:i], " ") + "…"
		}
	}
	return text
}

// cutMiddle shortens text to width columns, with "…" after its first third:
// names of files begin with what they are and end with when.
func cutMiddle(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	at, head := 0, 0
	for i, c := range text {
		if head+runeColumns(c) > width/3 {
			at = i
			break
		}
		head += runeColumns(c)
	}
	left := columns(text[at:])
	for i, c := range text[at:] {
		if left < width-head {
			return text[:at] + "…" + text[at+i:]
		}
		left -= runeColumns(c)
	}
	return text[:at] + "…"
}

// table pads the cells of rows to equal columns, two spaces apart; the columns
// named in right are aligned to the right.
func table(rows [][]string, right ...int) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	toRight := make([]bool, len(widths))
	for _, i := range right {
		toRight[i] = true
	}
	lines := make([]string, len(rows))
	for r, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-columns(cell))
			if toRight[i] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		lines[r] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// bar draws a share of 0 to 1 as a bar of at most width columns, in eighths.
func bar(share float64, width int) string {
	if !(share > 0) { // also where it is no number
		return ""
	}
	// Something is not nothing: at least one eighth.
	eighths := max(1, int(min(share, 1)*float64(width*8)+0.5))
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string(rune('█' + 8 - rest)) // U+2589 (seven eighths) to U+258F (one eighth)
	}
	return s
}
