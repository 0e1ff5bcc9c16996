package ingest

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/series/memory"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// maxGzip is how many layers of gzip are taken off: curl of a server that
// compresses what is already a .pb.gz gives two.
const maxGzip = 2

// reading is what one file or response held.
type reading struct {
	snapshots []*stacks.Snapshot
	waits     []*waits.Profile
	samples   []Samples
	scrapes   []*scrape
}

// some reports whether anything was read.
func (r *reading) some() bool {
	return len(r.snapshots)+len(r.waits)+len(r.samples)+len(r.scrapes) > 0
}

func (r *reading) warn(msg string) {
	if n := len(r.snapshots); n > 0 {
		r.snapshots[n-1].Warnings = append(r.snapshots[n-1].Warnings, msg)
	}
	if n := len(r.waits); n > 0 {
		r.waits[n-1].Warnings = append(r.waits[n-1].Warnings, msg)
	}
}

// read takes one input apart by its content. It reads src once, front to
// back, so a pipe will do. The reading is never nil, and has what came before
// an error that ended a text early.
func (l *loader) read(name string, src io.Reader) (*reading, error) {
	in := &source{r: src, limit: l.maxText}
	if f, ok := src.(*os.File); ok {
		in.written = fileTime(f)
	}
	head, complete, err := in.unpack()
	if err != nil {
		return &reading{}, err
	}
	kind, why := sniff(head, complete)
	if in.err != nil && (len(head) == 0 || kind == other && errors.Is(in.err, errTooLarge)) {
		return &reading{}, in.failure(false)
	}
	switch kind {
	case proto:
		return l.readProto(name, in)
	case contention:
		return l.readContention(name, in)
	case dump, plainText:
		return l.readText(name, in, kind == dump)
	case samples:
		return l.readSamples(name, in, memory.Sniff(head))
	}
	return &reading{}, why
}

func (l *loader) readText(name string, in *source, sure bool) (*reading, error) {
	snaps, err := stacks.ReadText(name, in.buf)
	r := &reading{snapshots: snaps}
	if in.err != nil {
		return in.keep(r)
	}
	if !sure && (err != nil || len(snaps) == 0) {
		return r, &notProfile{"text without a goroutine dump", tryGoroutine + ", or the whole log where the dump is in one"}
	}
	return r, err
}

// readContention reads the text form of a block or mutex profile.
func (l *loader) readContention(name string, in *source) (*reading, error) {
	in.limit = min(in.limit, l.maxProfile) // its stacks are held in memory
	profiles, err := waits.FromText(name, in.buf)
	r := &reading{waits: profiles}
	if in.err != nil {
		return in.keep(r)
	}
	return r, err
}

// readProto reads a pprof protobuf, which is held in memory.
func (l *loader) readProto(name string, in *source) (*reading, error) {
	data, err := in.all(l.maxProfile)
	if err != nil {
		return &reading{}, err
	}
	p, err := parseProto(data)
	if err != nil {
		return &reading{}, err
	}
	return fromProfile(name, p, nil)
}

func fromProfile(name string, p *profile.Profile, table *stacks.ProfileStacks) (*reading, error) {
	r := &reading{}
	switch kind := stacks.ProfileKind(p); kind {
	case "goroutine", "goroutineleak", "wallclock":
		s, err := stacks.FromStacks(name, p, table)
		if err != nil {
			return r, err
		}
		r.snapshots = []*stacks.Snapshot{s}
	case "contention":
		w, err := waits.FromStacks(name, p, table)
		if err != nil {
			return r, err
		}
		r.waits = []*waits.Profile{w}
	case "":
		return r, &notProfile{stacks.DescribeProfile(p), tryGoroutine}
	default:
		return r, wrongKind(kind)
	}
	return r, nil
}

// source is an input being unpacked: a reader with a limit that remembers the
// first error, since parsers take an early end for the end.
type source struct {
	r       io.Reader
	limit   int64 // bytes unpacked
	n       int64
	buf     *bufio.Reader // what is unpacked, from its beginning
	gzipped bool
	written time.Time // where it is a file
	err     error
}

var errTooLarge = errors.New("too large")

// unpack takes off the gzip and a byte order mark, and returns the head of
// what is inside; it stays in buf. complete says that the head is all.
func (s *source) unpack() (head []byte, complete bool, err error) {
	in := bufio.NewReaderSize(s.r, 64<<10)
	for layer := 0; ; layer++ {
		magic, err := in.Peek(2)
		if err != nil && err != io.EOF && !isCutOff(err) {
			s.err = err
			return nil, false, s.failure(false)
		}
		if len(magic) < 2 || magic[0] != 0x1f || magic[1] != 0x8b {
			break
		}
		if layer == maxGzip {
			return nil, false, &notProfile{fmt.Sprintf("gzip within gzip, more than %d deep", maxGzip), "it unpacked: gzip -dc FILE | contend analyze -"}
		}
		z, err := gzip.NewReader(in)
		if err != nil && err != io.EOF && !isCutOff(err) {
			s.err = err
			return nil, false, s.failure(false)
		}
		if err != nil {
			return nil, false, fmt.Errorf("expected a gzip file, saw one whose header is cut off or damaged: %w; take it again", err)
		}
		s.gzipped = true
		in = bufio.NewReaderSize(&memberReader{z: z}, 64<<10)
	}
	s.r = in
	// Most inputs are small, and a directory has many: the large buffer is
	// made for those that fill a small one.
	s.buf = bufio.NewReaderSize(s, 64<<10)
	if head, err = s.buf.Peek(s.buf.Size()); err == nil {
		s.buf = bufio.NewReaderSize(s.buf, sniffBytes)
		head, err = s.buf.Peek(sniffBytes)
	}
	if bom := []byte("\xef\xbb\xbf"); bytes.HasPrefix(head, bom) {
		s.buf.Discard(len(bom))
		head = head[len(bom):]
	}
	return head, err != nil, nil
}

// Read hides an early end behind io.EOF and keeps it in err.
func (s *source) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, io.EOF
	}
	if s.n >= s.limit {
		// Only one more byte tells a limit reached from a limit passed.
		p = p[:min(len(p), 1)]
	} else {
		p = p[:min(int64(len(p)), s.limit-s.n)]
	}
	n, err := s.r.Read(p)
	s.n += int64(n)
	if s.n > s.limit {
		s.err = errTooLarge
		return 0, io.EOF
	}
	if err != nil && err != io.EOF {
		s.err = err
		err = io.EOF
	}
	return n, err
}

// all returns the rest of the input, up to a limit of its own.
func (s *source) all(limit int64) ([]byte, error) {
	s.limit = min(s.limit, limit)
	data, err := io.ReadAll(s.buf)
	if s.err != nil {
		return nil, s.failure(false)
	}
	return data, err
}

// isCutOff reports whether an input ended early: what was read so far is good.
func isCutOff(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
		return true
	}
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt
}

// keep returns what was read of a text before its early end, with the error.
func (s *source) keep(r *reading) (*reading, error) {
	r.warn("the input was not read to its end: what came before that is here")
	return r, s.failure(r.some())
}

// failure puts the error that ended the input early in words. kept says that
// what came before was read.
func (s *source) failure(kept bool) error {
	rest := ""
	if kept {
		rest = "; what came before that was read"
	}
	switch {
	case errors.Is(s.err, errTooLarge):
		what := "it has more than"
		if s.gzipped {
			what = "it unpacked to more than"
		}
		return fmt.Errorf("%s %s and was not read further%s; raise the limit with --max-bytes if you trust it", what, bytesText(s.limit), rest)
	case errors.Is(s.err, context.Canceled):
		return fmt.Errorf("interrupted before its end%s: %w", rest, s.err)
	case s.gzipped && isCutOff(s.err):
		return fmt.Errorf("expected a whole gzip file, saw one that is cut off or damaged after %s unpacked: %w%s; take it again", bytesText(s.n), s.err, rest)
	case isCutOff(s.err):
		return fmt.Errorf("expected a whole file or answer, saw one that is cut off after %s: %w%s; take it again", bytesText(s.n), s.err, rest)
	}
	return fmt.Errorf("expected to read it to its end, but reading stopped after %s: %w%s; check the disk, pipe or connection it comes from, or give a copy of it as a file", bytesText(s.n), s.err, rest)
}

// memberReader reads gzip and, as gzip itself does, ignores what follows the
// last member (padding of tapes and block devices).
type memberReader struct {
	z    *gzip.Reader
	some bool // read so far
}

func (m *memberReader) Read(p []byte) (int, error) {
	n, err := m.z.Read(p)
	m.some = m.some || n > 0
	if err == gzip.ErrHeader && m.some {
		err = io.EOF
	}
	return n, err
}
