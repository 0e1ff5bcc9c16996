package stacks

import (
	"strings"
)

// Frame is one function of a stack, as one call site of it. Frames are shared
// between groups: compare them by pointer only within one snapshot.
type Frame struct {
	Func    string // fully qualified, without vendor prefix and generic arguments: "net/http.(*conn).serve"
	Package string // path of the package the code is from: "net/http"; for a closure inlined into another package, the file's package
	Type    string // receiver type without star or arguments: "conn"; "" for a function
	Name    string // what follows the package and type: "serve", "serve.func1"
	File    string // as printed
	Line    int
	Module  string // module the file is from, where the path names a version: "github.com/prometheus/client_golang"
	Version string // of Module: "v1.25.0"
	Std     bool   // standard library
}

// NewFrame makes a Frame of a function's name and file as a dump or profile
// has them. It allocates; readers call it once for each distinct frame.
func NewFrame(name, file string, line int) *Frame {
	name, file = cut(name), cut(file)
	f := &Frame{File: file, Line: line}
	name = stripVendor(stripBrackets(name))
	pkg, typ, rest := splitName(name)
	f.Func, f.Package, f.Type, f.Name = unescape(name), unescape(pkg), typ, unescape(rest)
	var filePkg string
	f.Module, f.Version, filePkg = fileModule(file)
	// Up to Go 1.26 a closure of an inlined function carries its caller's
	// package (main.main.InstrumentHandlerInFlight.func4); the path is right.
	if filePkg != "" && filePkg != f.Package && isClosure(f.Name) && !samePackage(f.Package, filePkg) {
		f.Package = filePkg
	}
	f.Std = isStd(f.Package, file)
	return f
}

// maxName bounds the names and paths that are kept. The longest seen in the
// field, generic types written out, have some hundreds of bytes.
const maxName = 4096

func cut(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "") + "…"
}

// Library is the frame's module and version, "" where its path names none.
func (f *Frame) Library() string {
	if f.Module == "" {
		return ""
	}
	return f.Module + "@" + f.Version
}

// unescape writes the dots of a path's last element (nats%2ego) as such.
func unescape(name string) string {
	if strings.Contains(name, "%") {
		name = strings.ReplaceAll(name, "%2e", ".")
		name = strings.ReplaceAll(name, "%2E", ".")
	}
	return name
}

// stripBrackets removes […] groups, which nest and hold other packages' paths.
func stripBrackets(s string) string {
	if strings.IndexByte(s, '[') < 0 {
		return s
	}
	var b strings.Builder
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '[':
			depth++
		case c == ']' && depth > 0:
			depth--
		case depth == 0:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func stripVendor(s string) string {
	if i := strings.LastIndex(s, "/vendor/"); i >= 0 {
		// A slash inside parentheses belongs to a method value's type, not to the path.
		if p := strings.IndexByte(s, '('); p < 0 || i < p {
			return s[i+len("/vendor/"):]
		}
	}
	return strings.TrimPrefix(s, "vendor/")
}

// splitName takes apart a name without brackets and vendor directory, its
// escapes still in. Forms: pkg.F, pkg.(*T).M, pkg.T.M,
// pkg.F.func1, pkg.T.M-fm, pkg.init.0. Value receivers cannot be told from
// closures of functions, except that Go's closures have known suffixes.
func splitName(name string) (pkg, typ, rest string) {
	// Package paths can hold dots, but only before the last slash, except where
	// the last element itself has one (gopkg.in/yaml.v3), which names escape as
	// %2e. Where a tool has unescaped them, a version ("v3") after the dot is part of the path.
	paren := strings.IndexByte(name, '(')
	head := name
	if paren >= 0 {
		head = name[:paren]
	}
	slash := strings.LastIndexByte(head, '/')
	dot := strings.IndexByte(name[slash+1:], '.')
	if dot < 0 {
		return "", "", name
	}
	dot += slash + 1
	for {
		next := name[dot+1:]
		end := strings.IndexByte(next, '.')
		if end < 0 || !isPathVersion(next[:end]) && next[:end] != "go" { // a keyword is no identifier
			break
		}
		dot += 1 + end
	}
	pkg, rest = name[:dot], name[dot+1:]
	if strings.HasPrefix(rest, "(*") {
		if end := strings.Index(rest, ")."); end > 0 {
			return pkg, rest[2:end], rest[end+2:]
		}
		return pkg, "", rest
	}
	first, more, ok := strings.Cut(rest, ".")
	if ok && first != "" && !isClosureElement(firstElement(more)) && first != "init" && first != "glob" {
		// pkg.T.M: a value receiver, or a closure that inlining renamed (main.main.F.func1).
		if !isClosure(more) {
			return pkg, first, more
		}
		if second, _, _ := strings.Cut(more, "."); second != more && !isClosureElement(second) {
			return pkg, first, more
		}
	}
	return pkg, "", rest
}

func firstElement(s string) string {
	first, _, _ := strings.Cut(s, ".")
	return first
}

// isPathVersion recognises the elements that gopkg.in puts after a dot
// and modules of a later major version a slash ("v2").
func isPathVersion(s string) bool {
	if len(s) < 2 || s[0] != 'v' {
		return false
	}
	return allDigits(s[1:])
}

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isClosure reports whether a name's tail is one the compiler makes for a
// function literal or a wrapper.
func isClosure(name string) bool {
	for name != "" {
		first, more, _ := strings.Cut(name, ".")
		if isClosureElement(first) {
			return true
		}
		name = more
	}
	return false
}

func isClosureElement(s string) bool {
	for _, p := range [...]string{"func", "gowrap", "deferwrap"} {
		if rest, ok := strings.CutPrefix(s, p); ok && allDigits(rest) {
			return true
		}
	}
	return false
}

// fileModule reads module, version and package off a path of the module
// cache or of a vendor directory. Without a version, module is "".
func fileModule(file string) (module, version, pkg string) {
	if strings.IndexByte(file, '\\') >= 0 {
		file = strings.ReplaceAll(file, `\`, "/")
	}
	dir := file
	if i := strings.LastIndexByte(file, '/'); i >= 0 {
		dir = file[:i]
	} else {
		return "", "", ""
	}
	if i := strings.LastIndex(dir, "/vendor/"); i >= 0 {
		return "", "", unescapePath(dir[i+len("/vendor/"):])
	}
	at := strings.IndexByte(dir, '@')
	if at < 0 {
		return "", "", ""
	}
	module = dir[:at]
	rest := dir[at+1:]
	version, sub, _ := strings.Cut(rest, "/")
	if i := strings.LastIndex(module, "/pkg/mod/"); i >= 0 {
		module = module[i+len("/pkg/mod/"):]
	} else if i := rootedModule(module); i > 0 {
		module = module[i:]
	}
	module = unescapePath(module)
	pkg = module
	if sub != "" {
		pkg += "/" + unescapePath(sub)
	}
	return module, version, pkg
}

// rootedModule finds where a module path begins in a file path with another
// prefix (a module cache of another name): at the first element with a dot.
func rootedModule(p string) int {
	if !strings.HasPrefix(p, "/") && !strings.Contains(p, ":/") {
		return 0 // -trimpath: begins with the module
	}
	start := 0
	for i, c := range p {
		if c == '/' {
			start = i + 1
			end := strings.IndexByte(p[start:], '/')
			if end < 0 {
				end = len(p) - start
			}
			if e := p[start : start+end]; strings.IndexByte(e, '.') > 0 {
				return start
			}
		}
	}
	return 0
}

// unescapePath undoes the module cache's escape of capitals ("!data!dog").
func unescapePath(s string) string {
	if strings.IndexByte(s, '!') < 0 {
		return s
	}
	var b strings.Builder
	up := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '!' {
			up = true
			continue
		}
		if up && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		up = false
		b.WriteByte(c)
	}
	return b.String()
}

// samePackage reports whether the name's package is the file's but for a
// major-version element or directory name that the two spell differently.
func samePackage(name, file string) bool {
	return strings.HasSuffix(file, "/"+name) || strings.HasSuffix(name, "/"+file)
}

// isStd reports whether a package is of the standard library: its first path
// element has no dot, and its file, where known, is not of a user's tree.
func isStd(pkg, file string) bool {
	if pkg == "" || pkg == "main" {
		return false
	}
	first, _, _ := strings.Cut(pkg, "/")
	if strings.IndexByte(first, '.') >= 0 {
		return false
	}
	if file == "" || file == "??" {
		return stdFirst[first]
	}
	file = strings.ReplaceAll(file, `\`, "/")
	// GOROOT/src/net/http/server.go, or with -trimpath net/http/server.go.
	dir, _, ok := cutLast(file, '/')
	if !ok {
		return stdFirst[first]
	}
	return stdFirst[first] && (dir == pkg || strings.HasSuffix(dir, "/src/"+pkg) || runtimeFile(file))
}

// runtimeFile covers names that the linker gives to functions of package
// runtime (sync.runtime_SemacquireMutex is in runtime/sema.go).
func runtimeFile(file string) bool {
	return strings.HasPrefix(file, "runtime/") || strings.Contains(file, "/src/runtime/")
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// stdFirst holds the first path elements of the standard library's packages
// (go list std, Go 1.27), so that a user's dotless module is not taken for one.
var stdFirst = map[string]bool{
	"archive": true, "bufio": true, "bytes": true, "cmp": true, "compress": true, "container": true,
	"context": true, "crypto": true, "database": true, "debug": true, "embed": true, "encoding": true,
	"errors": true, "expvar": true, "flag": true, "fmt": true, "go": true, "hash": true, "html": true,
	"image": true, "index": true, "internal": true, "io": true, "iter": true, "log": true, "maps": true,
	"math": true, "mime": true, "net": true, "os": true, "path": true, "plugin": true, "reflect": true,
	"regexp": true, "runtime": true, "simd": true, "slices": true, "sort": true, "strconv": true, "strings": true,
	"structs": true, "sync": true, "syscall": true, "testing": true, "text": true, "time": true,
	"unicode": true, "unique": true, "unsafe": true, "weak": true, "vendor": true,
}

// Owner is f's function without the suffixes that the compiler gives closures
// and deferred wrappers, so that what a function defers or starts counts as its own.
func Owner(f *Frame) string {
	name := f.Func
	for {
		head, tail, ok := cutLast(name, '.')
		if !ok || !isClosureElement(tail) && !allDigits(tail) {
			return name
		}
		name = head
	}
}

// Words splits a Go name into its words, in lower case: JSONLogger is json and
// logger, readLoop read and loop.
func Words(name string) []string {
	var out []string
	start := 0
	upper := func(i int) bool { return i < len(name) && 'A' <= name[i] && name[i] <= 'Z' }
	for i := 1; i <= len(name); i++ {
		next := i < len(name) && upper(i) && (!upper(i-1) || i+1 < len(name) && 'a' <= name[i+1] && name[i+1] <= 'z')
		if i == len(name) || next || name[i] == '.' || name[i] == '_' {
			if w := strings.Trim(name[start:i], "._"); w != "" {
				out = append(out, strings.ToLower(w))
			}
			start = i
		}
	}
	return out
}

// Repository is the part of an import path that names the repository: host,
// owner and name on the large hosts, host and name elsewhere.
func Repository(pkg string) string {
	host, rest, _ := strings.Cut(pkg, "/")
	n := 1
	switch host {
	case "github.com", "gitlab.com", "bitbucket.org", "golang.org", "gitea.com", "codeberg.org":
		n = 2
	}
	for i, c := range rest {
		if c == '/' {
			if n--; n == 0 {
				return pkg[:len(host)+1+i]
			}
		}
	}
	return pkg
}
