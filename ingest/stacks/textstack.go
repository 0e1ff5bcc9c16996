package stacks

import (
	"bytes"
)

// maxDepth is the most frames kept of one stack. The runtime prints 100 in a
// dump, and at most 1,024 in a profile (GODEBUG profstackdepth).
const maxDepth = 2048

// maxTree is a budget for distinct frames and stacks, in bytes. The largest
// real dumps need about 10 MiB; a made-up one must not take the machine.
const maxTree = 512 << 20

// site is a frame as a text dump prints it. Dumps repeat the same few
// thousand lines, so a line is first compared with the one that followed last
// time, byte by byte, and only looked up when it differs.
type site struct {
	frame *Frame
	name  string // function as printed
	call  string // the same with the parenthesis that opens its arguments
	file  string // its file line as printed, indentation included, up to what differs: " +0x.."
}

// node is a stack as a path in a tree that branches from the leaf frame on.
type node struct {
	parent  *node
	site    *site
	depth   int
	last    *node   // the child taken last
	seen    []*node // up to maxSeen children, for a stack that branches between few
	group   *group  // the group taken last by a goroutine whose stack ends here
	created *site   // the creator read last
}

// maxSeen is how many children of a stack are compared with a line before it
// is looked up: a server's crowds differ by a handful of endpoints and sites.
const maxSeen = 8

// foresee returns a child of n that line calls, with the arguments.
func (n *node) foresee(line []byte) (*node, []byte) {
	if n.last == nil {
		return nil, nil
	}
	if args, ok := n.last.site.isCall(line); ok {
		return n.last, args
	}
	for _, c := range n.seen {
		if args, ok := c.site.isCall(line); ok {
			return c, args
		}
	}
	return nil, nil
}

// foreseen returns the child of n that calls what next calls, on the given file line.
func (n *node) foreseen(next *node, line []byte) *node {
	if next.site.isFile(line) {
		return next
	}
	for _, c := range n.seen {
		if c.site.name == next.site.name && c.site.isFile(line) {
			return c
		}
	}
	return nil
}

type edge struct {
	from *node
	to   *site
}

// frameTree holds the distinct frames and stacks of an input.
type frameTree struct {
	root  node
	sites map[string]*site // by name, a newline, and file with line
	nodes map[edge]*node
	used  int
	key   []byte
}

func newFrameTree() *frameTree {
	return &frameTree{sites: map[string]*site{}, nodes: map[edge]*node{}}
}

// site returns the site of a function's name and file, nil when the tree's
// budget is spent. printed is the file line up to what differs.
func (t *frameTree) site(name []byte, file fileLine) *site {
	t.key = append(append(append(t.key[:0], name...), '\n'), file.place...)
	if s := t.sites[string(t.key)]; s != nil {
		return s
	}
	const each = 400 // bytes of a site and its Frame beside their strings
	if !t.spend(each + 5*len(t.key)) {
		return nil
	}
	s := &site{name: string(name), file: string(file.printed)}
	s.call = s.name + "("
	printed := s.name
	if printed == "panic" {
		printed = "runtime.gopanic" // traceback.go (printFuncName) renames it
	}
	s.frame = NewFrame(printed, string(file.path), file.number)
	t.sites[string(t.key)] = s
	return s
}

// child returns the stack n with the caller s added, nil when the tree's
// budget is spent.
func (t *frameTree) child(n *node, s *site) *node {
	if n.last != nil && n.last.site == s {
		return n.last
	}
	if next := t.nodes[edge{n, s}]; next != nil {
		n.last = next
		return next
	}
	const each = 200 // bytes of a node and its places in the map and its parent
	if !t.spend(each) {
		return nil
	}
	next := &node{parent: n, site: s, depth: n.depth + 1}
	t.nodes[edge{n, s}] = next
	n.last = next
	if len(n.seen) < maxSeen {
		n.seen = append(n.seen, next)
	}
	return next
}

func (t *frameTree) spend(bytes int) bool {
	if t.used+bytes > maxTree {
		return false
	}
	t.used += bytes
	return true
}

// frames lists the stack, leaf first.
func (n *node) frames() []*Frame {
	frames := make([]*Frame, n.depth)
	for ; n.parent != nil; n = n.parent {
		frames[n.depth-1] = n.site.frame
	}
	return frames
}

// fileLine is the second line of a frame: "\t/src/x.go:12 +0x1d".
type fileLine struct {
	path    []byte
	number  int
	place   []byte // path:number
	printed []byte // the line up to the end of place
	offset  bool   // has " +0x..": a call, not an inlined one
	verbose bool   // has fp=, as tracebacks of a crash do
	pcOnly  bool   // "\tpc=0x..": C code without a symbol
	cgo     bool   // "\tx.c:12 pc=0x..": C code
}

// parseFileLine reads a frame's file line. rsyslog writes its tab as "#011".
func parseFileLine(line []byte) (f fileLine, ok bool) {
	s := bytes.TrimLeft(line, " \t")
	s = bytes.TrimPrefix(s, []byte("#011"))
	indent := len(line) - len(s)
	s = bytes.TrimRight(s, " \t")
	if bytes.HasPrefix(s, []byte("pc=0x")) {
		return fileLine{pcOnly: true, cgo: true}, true
	}
	end := len(s)
	if i := bytes.LastIndex(s, []byte(" +0x")); i >= 0 {
		f.offset = true
		f.verbose = bytes.Contains(s[i:], []byte(" fp=0x"))
		end = i
	} else if i := bytes.LastIndex(s, []byte(" fp=0x")); i >= 0 {
		f.verbose = true
		end = i
	} else if i := bytes.LastIndex(s, []byte(" pc=0x")); i >= 0 {
		f.cgo = true
		end = i
	}
	if !f.setPlace(s[:end]) {
		return f, false
	}
	// Without its tab a line is a file only if it looks like one.
	if indent == 0 && (!f.offset && !f.verbose && !isSource(f.path) || bytes.IndexByte(f.path, ' ') >= 0) {
		return f, false
	}
	f.printed = line[:indent+end]
	return f, true
}

// setPlace reads "path:number".
func (f *fileLine) setPlace(s []byte) bool {
	colon := bytes.LastIndexByte(s, ':')
	if colon < 1 {
		return false
	}
	n, ok := parseInt(s[colon+1:])
	if !ok || n > 1<<31-1 || !bytes.ContainsAny(s[:colon], "./<?") || bytes.IndexByte(s[:colon], '\t') >= 0 {
		return false
	}
	f.place, f.path, f.number = s, s[:colon], int(n)
	return true
}

func isSource(path []byte) bool {
	return bytes.HasSuffix(path, []byte(".go")) || bytes.HasSuffix(path, []byte(".s"))
}

// splitCall takes a function line apart: "main.(*T).f(0xc000012345, ...)".
// Names hold parentheses but arguments do not. strong is false where the line
// could be prose or C.
func splitCall(line []byte) (name, args []byte, strong, ok bool) {
	if len(line) < 3 || line[len(line)-1] != ')' {
		return nil, nil, false, false
	}
	paren := bytes.LastIndexByte(line, '(')
	if paren < 1 {
		return nil, nil, false, false
	}
	name, args = line[:paren], line[paren+1:len(line)-1]
	for _, b := range args {
		if !isDigit(b) && !('a' <= b && b <= 'f') && bytes.IndexByte([]byte("x?{}_., "), b) < 0 {
			return nil, nil, false, false
		}
	}
	dot, depth := false, 0
	for _, b := range name {
		switch b {
		case '.':
			dot = true
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		default:
			// Only a type written out has blanks: (*struct { sync.Mutex }).Lock.
			if b < ' ' || b == ' ' && depth == 0 {
				return nil, nil, false, false
			}
		}
	}
	return name, args, dot, true
}

// firstWord reads the first word of a call's arguments, as in "{0x1?, 0x2}, 0x3)".
// It is 0 where there is none, as in "...)" of an inlined call or "_)".
func firstWord(args []byte) Word {
	i := 0
	for i < len(args) && args[i] == '{' {
		i++
	}
	if i+2 >= len(args) || args[i] != '0' || args[i+1] != 'x' {
		return 0
	}
	var v uint64
	for i += 2; i < len(args); i++ {
		digit := hexValue[args[i]]
		if digit == 0 {
			return NewWord(v, args[i] == '?')
		}
		v = v<<4 | uint64(digit-1)
	}
	return NewWord(v, false)
}

// hexValue has one more than the value of each lower-case hexadecimal digit: a
// table, since the first word of every line of a dump is read.
var hexValue = [256]uint8{
	'0': 1, '1': 2, '2': 3, '3': 4, '4': 5, '5': 6, '6': 7, '7': 8, '8': 9, '9': 10,
	'a': 11, 'b': 12, 'c': 13, 'd': 14, 'e': 15, 'f': 16,
}
