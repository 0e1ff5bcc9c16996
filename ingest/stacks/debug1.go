package stacks

import (
	"bytes"
)

// record is a stack with a count being read from a debug=1 profile, in the
// form of Go's runtime/pprof/pprof.go (printCountProfile):
//
//	COUNT @ 0xPC 0xPC
//	# labels: {"k":"v"}
//	#	0xPC	func+0xOFF	file:line
type record struct {
	count  int64
	line   int
	node   *node
	labels []byte
	pcs    []byte // the addresses as printed, leaf first
	park   park
	lost   bool // the tree's budget was spent
	bad    bool // a frame was not understood
}

// profileHead reads the first line of a profile with counts.
func (t *textReader) profileHead(line []byte) bool {
	f := Debug1
	rest, ok := bytes.CutPrefix(line, []byte("goroutine profile: total "))
	if !ok {
		f = Leak
		if rest, ok = bytes.CutPrefix(line, []byte("goroutineleak profile: total ")); !ok {
			return false
		}
	}
	total, ok := parseInt(rest[:countDigits(rest)])
	if !ok {
		return false
	}
	t.close()
	t.breaks, t.crash, t.foreign = false, false, false
	if !t.newDump(f) && !t.d.counts() {
		t.foreign = true // too many dumps, and the last is none to add counts to
		return true
	}
	t.d.s.Loss.Declared, t.d.total = addSaturating(t.d.s.Loss.Declared, total), true
	return true
}

// recordHead reads "COUNT @ 0xPC 0xPC". Without the profile's first line only
// the first text may be one.
func (t *textReader) recordHead(line []byte) bool {
	n := countDigits(line)
	count, ok := parseInt(line[:n])
	rest, at := bytes.CutPrefix(line[n:], []byte(" @"))
	if !ok || !at || t.foreign {
		return false
	}
	for _, b := range rest {
		if !isDigit(b) && !('a' <= b && b <= 'f') && b != 'x' && b != ' ' {
			return false
		}
	}
	if t.d == nil && bytes.HasPrefix(rest, []byte(" 0x")) {
		t.newDump(Debug1)
	}
	if t.d == nil || !t.d.counts() || t.breaks {
		return false
	}
	t.close()
	t.open = inRecord
	t.rec = record{count: count, line: t.in.in.number, node: &t.tree.root, labels: t.rec.labels[:0], pcs: append(t.rec.pcs[:0], rest...)}
	return true
}

func (t *textReader) recordLine(line []byte) {
	r := &t.rec
	s := bytes.TrimLeft(line[1:], " \t")
	if labels, ok := bytes.CutPrefix(s, []byte("labels: ")); ok {
		r.labels = append(r.labels, labels...)
		return
	}
	name, f, ok := parseCountFrame(s)
	if !ok {
		r.bad = true
		t.warn(t.in.in.number, "frame not understood: %q", line[:min(len(line), 80)])
		return
	}
	if r.node.depth == 0 {
		r.park = parkOf(r.pcs, s)
	}
	if r.node.depth >= maxDepth || r.lost {
		return
	}
	site := t.tree.site(name, f)
	if site == nil {
		r.lost = true
		return
	}
	if n := t.tree.child(r.node, site); n != nil {
		r.node = n
	} else {
		r.lost = true
	}
}

// parseCountFrame reads "0xPC  func+0xOFF  file:line", with tabs or spaces
// between. A frame without a symbol has only its address, which becomes its name.
func parseCountFrame(s []byte) (name []byte, f fileLine, ok bool) {
	if !bytes.HasPrefix(s, []byte("0x")) {
		return nil, f, false
	}
	end := bytes.IndexAny(s, " \t")
	if end < 0 {
		return s, f, true
	}
	pc := s[:end]
	s = bytes.Trim(s[end:], " \t")
	if len(s) == 0 {
		return pc, f, true
	}
	plus := bytes.Index(s, []byte("+0x"))
	if plus < 1 {
		return nil, f, false
	}
	name, s = s[:plus], s[plus:]
	if end = bytes.IndexAny(s, " \t"); end < 0 {
		return name, f, true
	}
	if !f.setPlace(bytes.TrimLeft(s[end:], " \t")) {
		return name, fileLine{}, true
	}
	f.printed = append([]byte{'\t'}, f.place...) // as a dump with goroutines has it
	return name, f, true
}

func (t *textReader) closeRecord() {
	r, d := &t.rec, t.d
	t.open = outside
	// Without any line a record may still be complete: the runtime hides
	// runtime.goexit, all there is of a goroutine that has not run yet.
	if r.lost || r.node.depth == 0 && (t.ended || r.bad) {
		d.s.Loss.Lost = addSaturating(d.s.Loss.Lost, r.count)
		t.warn(r.line, "no stack could be read for %d goroutines", r.count)
		return
	}
	g := d.groupOf(groupKey{stack: r.node, park: r.park})
	g.Count = addSaturating(g.Count, r.count)
	d.s.Loss.Read = addSaturating(d.s.Loss.Read, r.count)
	if len(r.labels) > 0 {
		g.addLabels(r.labels)
	}
}

// park is what the addresses of a record tell of the frames that debug=1 does
// not name, those of the runtime at the leaf.
type park struct {
	pc     uint64 // the leaf's address; 0 where it is not known
	hidden int    // frames before the first that is named
}

// parkOf compares the addresses of a record with that of its first named
// frame. The latter is printed as of the call, one less than the address to return to.
func parkOf(pcs, frame []byte) park {
	end := bytes.IndexAny(frame, " \t")
	if end < 0 {
		end = len(frame)
	}
	named, ok := parseHex(frame[:end])
	if !ok {
		return park{}
	}
	var p park
	for field := range bytes.FieldsSeq(pcs) {
		pc, ok := parseHex(field)
		if !ok {
			return park{}
		}
		if p.pc == 0 {
			p.pc = pc
		}
		if pc == named+1 || pc == named {
			return p
		}
		p.hidden++
	}
	return park{}
}

func parseHex(s []byte) (uint64, bool) {
	s, ok := bytes.CutPrefix(s, []byte("0x"))
	if !ok || len(s) == 0 || len(s) > 16 {
		return 0, false
	}
	var v uint64
	for _, c := range s {
		switch {
		case isDigit(c):
			v = v<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// resolveParks classifies the groups of a profile with counts again, now that
// all its records are known: those whose named frames show a wait give the
// address of runtime.gopark, which tells of every other whether it is parked.
// Between gopark and the code that waits a select has one frame (selectgo), a
// channel operation two or more (chanrecv, chanrecv1), in every Go release tried.
func resolveParks(groups []*group) {
	votes := map[uint64]int64{}
	for _, g := range groups {
		switch g.Wait.Kind {
		case Lock, RLock, FDLock, Cond, Socket, Sleep, Idle:
			if g.key.park.hidden > 0 {
				votes[g.key.park.pc] = addSaturating(votes[g.key.park.pc], g.Count)
			}
		}
	}
	var gopark uint64
	for pc, n := range votes {
		if n > votes[gopark] || n == votes[gopark] && pc < gopark {
			gopark = pc
		}
	}
	for _, g := range groups {
		p := g.key.park
		reason := reasonParked
		switch {
		case p.pc == 0, gopark == 0 && p.hidden > 0:
		case p.hidden == 0, p.pc != gopark:
			reason = "running" // or runnable: this format does not tell
		case p.hidden == 2:
			reason = "select"
		case p.hidden > 2:
			reason = reasonChan
		}
		if w := Classify(g.Frames, reasonParked); w.Kind != Unknown {
			g.Wait = w // the named frames tell by themselves
		} else {
			g.Wait = Classify(g.Frames, reason)
		}
	}
}
