package stacks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxWarnings is how many warnings a snapshot lists one by one: a screenful.
	maxWarnings = 20

	// maxDumps is the most snapshots of one input. A log of a service that
	// recovers panics holds one small dump for each.
	maxDumps = 1000

	// runtimeLimit is where runtime/pprof stops writing a dump without a word
	// (pprof.go, writeGoroutineStacks).
	runtimeLimit = 64 << 20
)

// ReadText reads the goroutine dumps in r: what debug=1 and debug=2 of
// net/http/pprof write, and the traceback of a panic, a fatal error or a
// signal, of Go 1.1 to 1.27. The text may be dirty: lines of other programs
// before, between and after, a collector's prefix on every line, a dump as an
// escaped string of a JSON or logfmt record, Windows line ends, an end in the
// middle. name is what the snapshots are called; every dump of r becomes one,
// from the second on as "name#2" and so on.
//
// A dump ends where the next begins: at the first line of a profile, at the
// message of another panic or signal, at a goroutine that writes stacks (it
// always comes first), or where an id repeats. Other text does not end one.
// Goroutine 0, the scheduler's stack of a thread, is not counted.
//
// What could not be read is in each Snapshot's Loss and Warnings. Members
// holds the first 64 goroutines of every group, and up to 4,096 of it while
// the snapshot has fewer than 100,000: detail is for naming holders, all
// counts stay complete. The error is not nil only where no goroutine was found.
func ReadText(name string, r io.Reader) ([]*Snapshot, error) {
	t := &textReader{name: name, tree: newFrameTree()}
	t.in.in = newLineReader(r)
	t.in.warn = t.warn
	for {
		line, ok := t.in.next()
		if !ok {
			break
		}
		t.line(line)
	}
	return t.finish()
}

// textReader takes the lines of a text apart into dumps.
type textReader struct {
	in    cleaner
	name  string
	tree  *frameTree
	dumps []*dump
	d     *dump     // the last of dumps, nil before the first
	g     goroutine // being read
	rec   record    // being read, in a profile with counts

	open      block
	crash     bool   // a crash's message was seen, its dump is to come
	died      string // that message, where it is no signal
	breaks    bool   // the next goroutine begins another dump
	section   bool   // a further thread of one crash prints
	twice     bool   // it printed a goroutine again
	thread    bool   // the line before was the rule between threads of one crash
	foreign   bool   // in a profile of something else that has records alike
	offsets   bool   // file lines end in " +0x.."
	ended     bool   // the input has
	orphan    bool   // in a stack without a header
	maybe     bool   // the line before could be the function of one
	first     string
	early     []string // warnings before the first dump
	earlyMore int      // those beyond maxWarnings
	lost      int64    // goroutines lost before the first dump
	memWords  int      // argument words kept, of all dumps
	arena     []Word
}

// block is what the lines being read belong to.
type block int

const (
	outside     block = iota // text between goroutines
	inGoroutine              // a goroutine of a dump
	inRecord                 // a record of a profile with counts
	ignored                  // frames that are no goroutine's, until the next header
)

// maxMessage is how much is kept of a crash's message; a panic prints values.
const maxMessage = 200

func (t *textReader) warn(line int, format string, args ...any) {
	warnings, more := &t.early, &t.earlyMore
	if t.d != nil {
		warnings, more = &t.d.s.Warnings, &t.d.more
	}
	if len(*warnings) >= maxWarnings {
		*more++ // a file may give cause for one on every line
		return
	}
	*warnings = append(*warnings, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// line reads one line. The first cases are those of nearly all lines of a
// dump: a call, a file and a creator that were seen at this place of a stack before.
func (t *textReader) line(line []byte) {
	if t.open == inGoroutine && len(line) > 0 {
		g := &t.g
		switch {
		case line[0] == '\t' && g.pending == pendingCall && g.next != nil:
			if next := g.node.foreseen(g.next, line); next != nil {
				g.node.last = next
				g.enter(next)
				g.cut = t.offsets && len(line) == len(next.site.file)
				return
			}
		case line[0] == '\t' && g.pending == pendingCreator && g.foreseen:
			if s := g.node.created; s.isFile(line) && len(line) > len(s.file) {
				g.created = s
				g.pending, g.foreseen = pendingNone, false
				g.files, g.blank, g.odd, g.cut = true, false, false, false
				return
			}
		case g.pending == pendingNone && !g.done:
			if next, args := g.node.foresee(line); next != nil {
				g.next, g.word, g.pending, g.weak = next, firstWord(args), pendingCall, g.blank
				return
			}
			if s := g.node.created; s != nil && line[0] == 'c' && g.createdBy(s, line) {
				return
			}
		}
	}
	t.slowLine(line)
}

const offsetWord = " +0x"

func (t *textReader) slowLine(line []byte) {
	for n := len(line); n > 0 && (line[n-1] == ' ' || line[n-1] == '\t'); n-- {
		line = line[:n-1]
	}
	if len(line) == 0 {
		t.blank()
		return
	}
	if t.first == "" {
		t.first = string(line[:min(len(line), 80)])
	}
	if line[0] == 'g' && t.profileHead(line) || bytes.HasPrefix(line, goroutineWord) && t.header(line) {
		return
	}
	switch t.open {
	case inGoroutine:
		if t.stackLine(line) {
			return
		}
	case inRecord:
		if line[0] == '#' {
			t.recordLine(line)
			return
		}
	}
	if isDigit(line[0]) && t.recordHead(line) {
		return
	}
	if t.in.learn() {
		return // the same line comes again
	}
	t.text(line)
}

func (t *textReader) blank() {
	t.orphan, t.maybe = false, false
	switch t.open {
	case inGoroutine:
		t.g.emptyLine()
	case inRecord:
		t.closeRecord()
	}
}

// header begins a goroutine. It reports false where line is only text that
// begins like one.
func (t *textReader) header(line []byte) bool {
	if g := &t.g; t.open == inGoroutine && g.bareHeader(line) {
		// The same header again, and nothing between: some logs are full of them.
		t.d.s.Loss.Lost++
		t.warn(g.line, noStackWarning, g.id)
		g.line = t.in.in.number
		return true
	}
	h, ok := parseHeader(line)
	if !ok {
		if t.in.learn() {
			return true // the same line comes again
		}
		if findHeader(line) != 0 || bytes.Contains(line, []byte("]: ")) {
			return false // text about a goroutine
		}
		t.close()
		t.begin(0)
		t.open = ignored
		t.d.s.Loss.Lost++
		t.d.lastCut = true
		t.warn(t.in.in.number, "goroutine header not understood: %q", line[:min(len(line), 80)])
		return true
	}
	t.close()
	if h.id == 0 {
		t.open = ignored
		return true
	}
	if t.section && !t.twice && t.d.ids[h.id] && t.d.noStack[h.id] == nil {
		// A thread prints its goroutine again, though only that one.
		t.open, t.twice = ignored, true
		return true
	}
	t.begin(h.id)
	t.d.remember(h.id)
	t.d.crash = t.d.crash || h.verbose
	t.open = inGoroutine
	t.g.reset(line, h, t.d.reason(h.state), &t.tree.root, t.in.in.number)
	return true
}

// begin makes sure there is a dump for goroutine id (0 where not known).
func (t *textReader) begin(id int64) {
	d := t.d
	if d == nil || t.breaks || d.counts() || d.ids[id] && !(t.section && d.noStack[id] != nil) {
		twice := t.twice
		t.newDump(Debug2)
		if twice {
			t.d.s.Loss.Lost++
			t.warn(t.in.in.number, "one goroutine before this was taken for one of the dump before")
		}
	}
	if t.crash {
		t.d.s.Crash, t.died = t.died, ""
		t.d.crash = true
	}
	t.breaks, t.crash = false, false
	t.d.lastCut = false
}

// newDump begins another dump; false where there are too many already.
func (t *textReader) newDump(f Format) bool {
	t.section, t.twice = false, false
	if len(t.dumps) == maxDumps {
		if !t.d.full {
			t.d.full = true
			t.warn(t.in.in.number, "more than %d dumps: the rest is read as part of this one", maxDumps)
		}
		clear(t.d.ids)
		t.d.noStack = nil
		return false
	}
	if t.d != nil {
		t.d.groups, t.d.reasons, t.d.ids, t.d.noStack = nil, nil, nil, nil // only needed while reading
	}
	name := t.name
	if n := len(t.dumps) + 1; n > 1 {
		name = fmt.Sprintf("%s#%d", t.name, n)
	}
	t.d = newDump(name, f)
	t.dumps = append(t.dumps, t.d)
	t.d.s.Loss.Lost, t.lost = t.lost, 0
	t.d.s.Warnings, t.early = t.early, nil
	t.d.more, t.earlyMore = t.earlyMore, 0
	return true
}

// text looks at a line that is no part of a goroutine: it may say what kind
// of dump comes, or that the last one is over.
func (t *textReader) text(line []byte) {
	thread := t.thread
	t.thread = false
	switch {
	case string(line) == "-----":
		t.thread = true
	case isCrash(line):
		t.close()
		t.crash = true
		if t.died == "" && (bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: "))) {
			t.died = string(line[:min(len(line), maxMessage)])
		}
		// Under GOTRACEBACK=crash every thread prints, with a rule between.
		t.section, t.twice = thread && t.d != nil, false
		t.breaks = t.d != nil && !thread
	case bytes.HasPrefix(line, []byte("exit status ")) || bytes.HasPrefix(line, []byte("[signal SIG")):
		if t.d != nil && !t.breaks {
			t.d.crash = true
		}
	case string(line) == "runtime stack:":
		t.close()
		t.open = ignored
	case isDumpTitle(line):
		t.close()
		t.breaks = t.d != nil
	case isWaitProfile(line):
		t.close()
		t.foreign = true
		t.warn(t.in.in.number, "a block or mutex profile begins here and was not read: give it in a file of its own")
	case bytes.Contains(line, []byte(" profile: total ")) || bytes.HasPrefix(line, []byte("heap profile: ")):
		t.close()
		t.foreign = true
	case t.d == nil && mentionsCrash(line):
		t.crash = true // behind a prefix that is not learned yet
	case t.open == inGoroutine && !t.g.done:
		t.g.text(line)
	case t.open == inGoroutine || t.open == outside:
		t.stray(line)
	}
}

// isCrash reports whether line is the message of a panic, a fatal error or a
// signal that a stack follows.
func isCrash(line []byte) bool {
	if bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) ||
		bytes.HasPrefix(line, []byte("Exception 0x")) || // Windows
		bytes.Contains(line, []byte(": panic serving ")) {
		return true
	}
	rest, ok := bytes.CutPrefix(line, []byte("SIG"))
	n := 0
	for n < len(rest) && 'A' <= rest[n] && rest[n] <= 'Z' {
		n++
	}
	return ok && n > 0 && bytes.HasPrefix(rest[n:], []byte(": "))
}

func mentionsCrash(line []byte) bool {
	for _, s := range [...]string{"panic: ", "fatal error: ", "SIGQUIT: ", "SIGABRT: ", "SIGSEGV: "} {
		if bytes.Contains(line, []byte(s)) {
			return true
		}
	}
	return false
}

// isWaitProfile knows the first line of a block or mutex profile as text.
func isWaitProfile(line []byte) bool {
	return bytes.HasPrefix(line, []byte("--- contention:")) || bytes.HasPrefix(line, []byte("--- mutex:"))
}

// isDumpTitle knows the lines that servers print above a dump of their own.
func isDumpTitle(line []byte) bool {
	for _, s := range [...]string{"goroutine dump", "goroutine stack dump", "thread dump", "RECEIVED SIGQUIT"} {
		if bytes.Contains(line, []byte(s)) {
			return !bytes.Contains(line, []byte("end")) && !bytes.Contains(line, []byte("END"))
		}
	}
	return false
}

// stray notices a stack whose header is missing: two lines of a frame between
// goroutines. It is counted once.
func (t *textReader) stray(line []byte) {
	if t.maybe && !t.orphan {
		if f, ok := parseFileLine(line); ok && (f.offset || f.verbose) {
			t.orphan = true
			if t.d != nil {
				t.d.s.Loss.Lost++
			} else {
				t.lost++
			}
			t.warn(t.in.in.number, "a stack without its goroutine header")
		}
	}
	if t.d == nil && line[0] == '#' && !t.orphan && !t.foreign {
		if _, _, ok := parseCountFrame(bytes.TrimLeft(line[1:], " \t")); ok {
			t.orphan = true
			t.lost++
			t.warn(t.in.in.number, "a stack without its count")
		}
	}
	_, _, strong, ok := splitCall(line)
	t.maybe = ok && strong
}

// close ends the goroutine or record being read.
func (t *textReader) close() {
	switch t.open {
	case inGoroutine:
		t.closeGoroutine()
	case inRecord:
		t.closeRecord()
	}
	t.open, t.orphan, t.maybe = outside, false, false
}

func goroutines(n int64) string {
	if n == 1 {
		return "1 goroutine"
	}
	return fmt.Sprintf("%d goroutines", n)
}

func (t *textReader) finish() ([]*Snapshot, error) {
	err := t.in.in.err
	if errors.Is(err, io.EOF) {
		err = nil
	}
	t.ended = true
	cut := err != nil || t.in.in.read == runtimeLimit
	switch {
	case t.d == nil:
	case t.open == inGoroutine:
		cut = cut || t.g.isCut(t.in.in.newline)
	case t.open == inRecord:
		cut = cut || !t.in.in.newline
	case t.open == ignored:
		cut = cut || t.d.lastCut && !t.in.in.newline
	}
	t.close()
	if t.d != nil && cut {
		t.d.s.Loss.Truncated = true
		switch {
		case err != nil:
			t.warn(t.in.in.number, "reading stopped: %v", err)
		case t.in.in.read == runtimeLimit:
			t.warn(t.in.in.number, "the dump ends at 64 MiB, where the runtime stops writing: goroutines are missing, take the pprof form")
		default:
			t.warn(t.in.in.number, "the input ends in the middle of a goroutine")
		}
	}
	var found, lost int64
	empty := false
	var snaps []*Snapshot
	for _, d := range t.dumps {
		s := d.snapshot()
		snaps = append(snaps, s)
		found = addSaturating(found, s.Loss.Read)
		lost = addSaturating(lost, s.Loss.Lost)
		empty = empty || d.counts() && d.total && s.Loss.Declared == 0
	}
	switch {
	case found > 0 || empty:
		return snaps, nil
	case err != nil:
		return nil, fmt.Errorf("reading stopped before a goroutine was found: %w; take the dump again", err)
	case lost > 0:
		return nil, fmt.Errorf("expected lines such as %q after each goroutine's header, saw %s without a stack that could be read; take the dump again with /debug/pprof/goroutine?debug=2",
			"main.main()", goroutines(lost))
	case t.first == "":
		return nil, errors.New("expected a goroutine dump, saw an empty text; take one from /debug/pprof/goroutine?debug=2")
	}
	return nil, fmt.Errorf("expected a line such as %q or %q, saw no goroutine in a text that begins with %q; take a dump from /debug/pprof/goroutine?debug=2",
		"goroutine 1 [running]:", "goroutine profile: total 1", t.first)
}
