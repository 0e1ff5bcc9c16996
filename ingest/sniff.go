package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/contend/contend/ingest/series/memory"
)

// content is what an input holds, as far as its head tells.
type content int

const (
	other      content = iota // text or bytes that notProfile describes
	proto                     // a pprof protobuf, by its first fields
	contention                // the text form of a block or mutex profile
	dump                      // text with a goroutine's or a goroutine profile's header
	samples                   // series, in one of the forms of package memory
	plainText                 // text without one so far: a dump may come later in a log
)

// sniffBytes is how far the head is searched. A service that dies prints its
// dump after its log, so it reaches well past the first lines.
const sniffBytes = 1 << 20

const tryGoroutine = "a goroutine profile: curl -o goroutine.pb.gz http://HOST:PORT/debug/pprof/goroutine"

// notProfile is the error for an input that was understood and is no profile
// contend reads.
type notProfile struct {
	saw string // "JSON", "a heap profile"
	try string // what to give instead
}

func (e *notProfile) Error() string {
	return "expected a goroutine, block or mutex profile, a goroutine dump or Prometheus series, saw " + e.saw + "; try " + e.try
}

// magics are the beginnings of files that are taken for profiles by mistake.
var magics = []struct{ prefix, saw, try string }{
	{"\x28\xb5\x2f\xfd", "a zstd archive", "it unpacked: zstd -dc FILE | contend analyze -"},
	{"PK\x03\x04", "a zip archive", "it unpacked: unzip it and give the directory"},
	{"\xfd7zXZ\x00", "an xz archive", "it unpacked: xz -dc FILE | contend analyze -"},
	{"BZh", "a bzip2 archive", "it unpacked: bzip2 -dc FILE | contend analyze -"},
	{"\x04\x22\x4d\x18", "an lz4 archive", "it unpacked: lz4 -dc FILE | contend analyze -"},
	{"\x7fELF", "an ELF binary or core file", tryGoroutine},
	{"MZ", "a Windows binary", tryGoroutine},
	{"\xcf\xfa\xed\xfe", "a Mach-O binary", tryGoroutine},
	{"\xff\xfe\x00\x00", "UTF-32 text", fmt.Sprintf(tryUTF8, "UTF-32")},
	{"\xff\xfe", "UTF-16 text", fmt.Sprintf(tryUTF8, "UTF-16")},
	{"\xfe\xff", "UTF-16 text", fmt.Sprintf(tryUTF8, "UTF-16")},
}

const tryUTF8 = "it as UTF-8: iconv -f %s -t UTF-8 FILE | contend analyze -"

var (
	dumpHeader = regexp.MustCompile(`goroutine \d+ (?:gp=|m=|\[)|goroutine profile: total \d`)
	traceHead  = regexp.MustCompile(`^go 1\.\d+ trace\x00`)
)

// sniff says what an input holds by its first bytes. complete says that head
// is all of it. The error, where content is other, says what it is instead.
func sniff(head []byte, complete bool) (content, *notProfile) {
	if len(head) == 0 {
		return other, &notProfile{"an empty input", "taking it again: nothing was written"}
	}
	text := isText(head)
	if !text {
		for _, m := range magics {
			if bytes.HasPrefix(head, []byte(m.prefix)) {
				return other, &notProfile{m.saw, m.try}
			}
		}
		switch {
		case len(head) > 262 && string(head[257:262]) == "ustar":
			return other, &notProfile{"a tar archive", "it unpacked: tar -xf FILE and give the directory"}
		case traceHead.Match(head):
			return other, &notProfile{"a Go execution trace", tryGoroutine + ", or go tool trace -pprof=sync FILE for its blocking profile"}
		case isZlib(head):
			return other, &notProfile{"zlib-compressed data", "it unpacked: pigz -dc FILE | contend analyze -"}
		case looksProto(head, complete):
			return proto, nil
		case dumpHeader.Match(head): // a log with a hole or control characters in it
			return dump, nil
		case memory.Sniff(head) != memory.None: // series of which a few lines are damaged
			return samples, nil
		}
		if name := utf16(head); name != "" {
			return other, &notProfile{"UTF-16 text", fmt.Sprintf(tryUTF8, name)}
		}
		return other, &notProfile{"binary data that is no pprof profile", tryGoroutine}
	}
	return sniffText(head, complete)
}

func sniffText(head []byte, complete bool) (content, *notProfile) {
	start := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(start) == 0 && complete:
		return other, &notProfile{"nothing but blank lines", "taking it again: nothing was written"}
	case dumpHeader.Match(head) && !(isJSON(start, complete) && !bytes.Contains(head, []byte(".go:"))):
		return dump, nil // also inside a JSON log record, which has the files; prose about a goroutine has not
	case hasLine(head, "--- contention:") || hasLine(head, "--- mutex:"):
		return contention, nil // but not C++'s "--- contentionz"
	case isHTML(start):
		return other, &notProfile{"HTML (a login or an error page?)", "the address with credentials, or " + tryGoroutine}
	case memory.Sniff(head) != memory.None:
		return samples, nil
	case isJSON(start, complete):
		return other, &notProfile{"JSON", tryGoroutine}
	case hasAnyPrefix(start, "heap profile:", "--- heapz"):
		// The runtime writes both with the same first line.
		return other, &notProfile{"the text of a heap or allocs profile, which shows memory", tryGoroutine}
	case hasAnyPrefix(start, "threadcreate profile:", "--- threadz"):
		return other, wrongKind("threadcreate")
	}
	return plainText, nil
}

// wrongKind is the error for a pprof profile that does not say who waits.
func wrongKind(kind string) *notProfile {
	switch kind {
	case "cpu":
		return &notProfile{"a CPU profile, which shows what runs and not what waits", tryGoroutine}
	case "heap":
		return &notProfile{"a heap profile, which shows memory", tryGoroutine}
	case "allocs":
		return &notProfile{"an allocs profile, which shows memory", tryGoroutine}
	case "threadcreate":
		return &notProfile{"a threadcreate profile, which shows threads", tryGoroutine}
	case "trace":
		return &notProfile{"the address of an execution trace", tryGoroutine}
	}
	return &notProfile{"a " + kind + " profile", tryGoroutine}
}

// isText reports whether head has none of the control characters that text
// never holds; a colour's escape is let through.
func isText(head []byte) bool {
	for _, c := range head {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != '\f' && c != 0x1b {
			return false
		}
	}
	return !bytes.HasPrefix(head, []byte("\xff\xfe")) && !bytes.HasPrefix(head, []byte("\xfe\xff"))
}

// utf16 is the encoding of UTF-16 text that does not begin with its mark: of
// each two bytes of a beginning in ASCII, one is zero. "" is another content.
func utf16(head []byte) string {
	head = head[:min(len(head), 64)&^1]
	if len(head) < 8 {
		return ""
	}
	big, little := true, true
	for i := 0; i < len(head); i += 2 {
		big = big && head[i] == 0 && head[i+1] != 0
		little = little && head[i] != 0 && head[i+1] == 0
	}
	switch {
	case big:
		return "UTF-16BE"
	case little:
		return "UTF-16LE"
	}
	return ""
}

// isZlib recognises RFC 1950's header: deflate, a window up to 32 KiB, and a
// check that makes the two bytes a multiple of 31.
func isZlib(head []byte) bool {
	return len(head) > 2 && head[0] == 0x78 && (int(head[0])<<8|int(head[1]))%31 == 0
}

func isHTML(start []byte) bool {
	low := bytes.ToLower(start[:min(len(start), 64)])
	return hasAnyPrefix(low, "<!doctype html", "<html", "<head", "<body", "<?xml", "<!--")
}

// isJSON reports whether text is one JSON value. A log of one JSON object a
// line is not: a dump may come in a later line.
func isJSON(start []byte, complete bool) bool {
	if len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return false
	}
	if complete {
		return json.Valid(start)
	}
	line, _, more := bytes.Cut(start, []byte("\n"))
	line = bytes.TrimSpace(line)
	if more && json.Valid(line) {
		return false
	}
	// One long line may be a single log record, whose message is the dump.
	return hasAnyPrefix(line, `{"`, "[{", "[[", "[\"") || string(line) == "{" || string(line) == "["
}

// hasLine reports whether a line of b begins with prefix.
func hasLine(b []byte, prefix string) bool {
	return bytes.HasPrefix(b, []byte(prefix)) || bytes.Contains(b, []byte("\n"+prefix))
}

func hasAnyPrefix(b []byte, prefixes ...string) bool {
	for _, p := range prefixes {
		if bytes.HasPrefix(b, []byte(p)) {
			return true
		}
	}
	return false
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
