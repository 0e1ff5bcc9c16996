package stacks

import (
	"bytes"
)

// pending is a line that waits for its file line.
type pending int

const (
	pendingNone pending = iota
	pendingCall
	pendingCreator
)

// goroutine is the state of reading one goroutine's block; it is used again
// for each.
type goroutine struct {
	header      []byte // as it was read
	id, creator int64
	minutes     int
	leaked      bool
	reason      string
	labels      []byte
	line        int // of its header

	node    *node // the stack so far
	args    []Word
	created *site
	elided  int64
	noStack bool
	lost    bool // the tree's budget was spent

	pending   pending
	next      *node  // the stack with the pending call, where it was foreseen
	name      []byte // of the pending call or creator
	word      Word   // first argument of the pending call
	strong    bool   // the pending call cannot be prose
	weak      bool   // it comes after a blank line: needs its file line
	bare      []byte
	blank     bool // a blank line was the last one
	spaced    bool // every line is followed by an empty one
	done      bool // its creator or an empty line was read: no frames follow
	files     bool // has file lines
	odd       bool // the last line was not understood
	cut       bool // the last file line lacks its offset, which only inlined frames do, and they have a caller
	warned    bool
	crash     bool
	ancestors bool // in the stacks of those that created it
	foreseen  bool // the pending creator is the one of the last goroutine with this stack
}

func (g *goroutine) reset(text []byte, h header, reason string, root *node, line int) {
	*g = goroutine{
		header: append(g.header[:0], text...),
		id:     h.id, minutes: h.minutes, leaked: h.leaked, reason: reason, line: line, node: root,
		labels: append(g.labels[:0], h.labels...), args: g.args[:0], name: g.name[:0], bare: g.bare[:0],
	}
}

// bareHeader reports whether line is g's header again, before anything of its
// stack was read.
func (g *goroutine) bareHeader(line []byte) bool {
	return g.node.depth == 0 && g.pending == pendingNone && !g.done && !g.noStack && bytes.Equal(line, g.header)
}

const noStackWarning = "goroutine %d has no stack"

// isFile reports whether line is the file line that s had before. What follows
// must be complete: a line that is cut off is for slowLine to see.
func (s *site) isFile(line []byte) bool {
	n := len(s.file)
	if n == 0 || len(line) < n || string(line[:n]) != s.file {
		return false
	}
	rest := line[n:]
	return len(rest) == 0 || len(rest) > len(offsetWord) && string(rest[:len(offsetWord)]) == offsetWord
}

// isCall reports whether line is a call of s, and returns its arguments with
// the closing parenthesis.
func (s *site) isCall(line []byte) (args []byte, ok bool) {
	n := len(s.call)
	if len(line) <= n || string(line[:n]) != s.call || line[len(line)-1] != ')' {
		return nil, false
	}
	args = line[n:]
	return args, bytes.IndexByte(args, '(') < 0
}

// enter adds the pending call to the stack, with its file line read.
func (g *goroutine) enter(n *node) {
	g.node = n
	g.args = append(g.args, g.word)
	g.pending, g.next = pendingNone, nil
	g.files, g.blank, g.odd, g.cut = true, false, false, false
}

// createdBy reads a creator's line where it is the one that goroutines with
// this stack had before.
func (g *goroutine) createdBy(s *site, line []byte) bool {
	const before = "created by "
	n := len(before) + len(s.name)
	if len(line) < n || string(line[:len(before)]) != before || string(line[len(before):n]) != s.name {
		return false
	}
	if rest := line[n:]; len(rest) > 0 {
		id, ok := bytes.CutPrefix(rest, inGoroutineWord)
		if !ok {
			return false
		}
		if g.creator, ok = parseInt(id); !ok {
			return false
		}
	}
	g.name = append(g.name[:0], s.name...)
	g.pending, g.foreseen = pendingCreator, true
	g.done, g.blank, g.odd = true, false, false
	return true
}

var inGoroutineWord = []byte(" in goroutine ")

// stackLine reads a line of a goroutine's block; false where it is none.
func (t *textReader) stackLine(line []byte) bool {
	g := &t.g
	if g.done && g.pending == pendingNone {
		return g.afterStack(line)
	}
	text := bytes.TrimLeft(line, " \t")
	if name, ok := bytes.CutPrefix(text, []byte("created by ")); ok {
		t.settle()
		g.pending, g.done, g.blank, g.odd = pendingCreator, true, false, false
		if i := bytes.Index(name, inGoroutineWord); i >= 0 {
			g.creator, _ = parseInt(name[i+len(inGoroutineWord):])
			name = name[:i]
		}
		g.name = append(g.name[:0], name...)
		return true
	}
	if text[0] == '.' || text[0] == '[' {
		if n, ok := elidedFrames(text); ok {
			t.settle()
			g.elided += n
			return true
		}
		if bytes.HasPrefix(text, []byte("[originating from goroutine ")) {
			// The stacks of those that created it, told by GODEBUG=tracebackancestors.
			t.settle()
			g.done, g.ancestors = true, true
			return true
		}
	}
	if f, ok := parseFileLine(line); ok && (g.pending != pendingNone || line[0] == '\t' || line[0] == ' ') {
		return t.file(f)
	}
	if string(text) == "goroutine running on other thread; stack unavailable" {
		g.noStack = true
		return true
	}
	name, args, strong, ok := splitCall(text)
	if !ok {
		return false
	}
	t.settle()
	g.name = append(g.name[:0], name...)
	g.word = firstWord(args)
	g.pending, g.next, g.strong, g.weak, g.odd = pendingCall, nil, strong, g.blank, false
	return true
}

// afterStack takes the ancestors' frames, which are not the goroutine's, and
// leaves the rest.
func (g *goroutine) afterStack(line []byte) bool {
	if bytes.HasPrefix(line, []byte("[originating from goroutine ")) {
		g.ancestors = true
		return true
	}
	return g.ancestors && (g.spaced || !g.blank)
}

// elidedFrames reads "...23 frames elided..." (Go 1.21 on) and "...additional
// frames elided..." (before), which hides at least one.
func elidedFrames(line []byte) (n int64, ok bool) {
	if !bytes.HasSuffix(line, []byte("frames elided...")) {
		return 0, false
	}
	rest, ok := bytes.CutPrefix(line, []byte("..."))
	if n, ok := parseInt(rest[:countDigits(rest)]); ok {
		return n, true
	}
	return 1, ok
}

// file reads the file line of the pending call or creator.
func (t *textReader) file(f fileLine) bool {
	g := &t.g
	g.crash = g.crash || f.verbose
	t.offsets = t.offsets || f.offset
	g.cut = t.offsets && !f.offset
	switch {
	case g.pending == pendingCreator:
		g.created = t.creator(f)
	case g.pending == pendingCall:
		if g.next != nil {
			g.setName(g.next.site)
		}
		t.push(f)
	case f.cgo && len(g.bare) > 0:
		g.name, g.word = append(g.name[:0], g.bare...), 0
		t.push(f)
	default:
		if g.odd && !g.warned {
			g.warned = true
			t.d.s.Loss.Misread++
			t.warn(t.in.in.number, "goroutine %d: a frame's function was not understood: %q", g.id, g.bare)
		}
		return false
	}
	g.pending, g.bare = pendingNone, g.bare[:0]
	g.files, g.blank, g.odd = true, false, false
	return true
}

func (g *goroutine) setName(s *site) {
	g.name = append(g.name[:0], s.name...)
	g.strong = true
}

// push adds the function in g.name to the stack.
func (t *textReader) push(f fileLine) {
	g := &t.g
	cut := g.cut
	if g.node.depth >= maxDepth {
		g.elided++
		return
	}
	s := t.tree.site(g.name, f)
	var n *node
	if s != nil {
		n = t.tree.child(g.node, s)
	}
	if n == nil {
		g.lost = true
		g.pending = pendingNone
		return
	}
	g.enter(n)
	g.cut = cut
}

// creator finds the site of the creator in g.name. Nearly always it is that
// of the last goroutine with this stack.
func (t *textReader) creator(f fileLine) *site {
	g := &t.g
	if s := g.node.created; s != nil && s.name == string(g.name) && s.isFile(f.printed) {
		return s
	}
	g.node.created = t.tree.site(g.name, f)
	return g.node.created
}

// settle ends a pending line whose file line did not come.
func (t *textReader) settle() {
	g := &t.g
	switch g.pending {
	case pendingCall:
		if g.next != nil {
			g.setName(g.next.site)
		}
		if g.strong && !g.weak {
			files := g.files
			t.push(fileLine{})
			g.files = files
		}
	case pendingCreator:
		g.created = t.creator(fileLine{})
	}
	g.pending = pendingNone
}

// emptyLine ends a stack, except in a text that has an empty line after every
// line: there the first comes before the first frame is complete.
func (g *goroutine) emptyLine() {
	if g.pending != pendingNone || g.node.depth == 0 {
		g.spaced = true
	}
	g.blank = true
	if !g.spaced {
		g.done = true
	}
}

// text keeps a line within a block that is not a frame's: it may be the name
// of a C function.
func (g *goroutine) text(line []byte) {
	g.bare = append(g.bare[:0], line[:min(len(line), 200)]...)
	g.odd = true
}

// isCut reports whether the input ended in the middle of the goroutine.
// newline says whether the last line was complete.
func (g *goroutine) isCut(newline bool) bool {
	if g.pending != pendingNone {
		return g.files || g.node.depth == 0
	}
	if g.node.depth == 0 && !g.done && !g.noStack {
		return true
	}
	return !newline && (g.odd && !g.blank || g.cut)
}

func (t *textReader) closeGoroutine() {
	g, d := &t.g, t.d
	t.settle()
	if g.lost {
		d.s.Loss.Lost++
		t.warn(g.line, "goroutine %d was left out: more than %d MiB of distinct stacks", g.id, maxTree>>20)
		return
	}
	if g.node.depth == 0 && g.created == nil && !g.noStack {
		d.s.Loss.Lost++
		t.warn(g.line, noStackWarning, g.id)
		return
	}
	// Who writes the stacks of all is the only one running, and comes first.
	if g.reason == "running" && len(d.order) > 0 && writesStacks(g.node) {
		t.newDump(Debug2)
		d = t.d
		d.remember(g.id)
	}
	d.crash = d.crash || g.crash
	if old := d.noStack[g.id]; old != nil && t.section {
		d.forget(g.id, old)
	}
	gr := d.group(g.node, g.created, g.reason)
	if g.noStack && g.node.depth == 0 {
		d.s.Loss.NoStack++
		d.rememberNoStack(g.id, gr)
	}
	t.count(gr)
}

func writesStacks(n *node) bool {
	for n.depth > 1 {
		n = n.parent
	}
	if n.depth == 0 {
		return false
	}
	f := n.site.frame.Func
	return f == "runtime/pprof.writeGoroutineStacks" || f == "runtime/debug.Stack"
}
