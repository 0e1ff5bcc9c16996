package receive

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/stacks"
)

const (
	// What one profile may unpack to. One of 100 kB has some MB; Go's own, of
	// 17,000 goroutines at thousands of places, has 10.
	maxUnpacked = 32 << 20
	// What tells a profile: its sample types come first as Go writes it, then a sample or more.
	beginning = 4 << 10
	// Of one sample type's message and of its names, a few dozen bytes each.
	maxTypeBytes = 256
	maxTypes     = 16
)

// Numbers of fields of the Profile message and of its ValueType, and of what is
// written on the wire, in pprof's proto/profile.proto and in the encoding of protocol buffers.
const (
	fieldSampleType = 1
	fieldStrings    = 6
	fieldTime       = 9
	fieldDuration   = 10
	lastField       = 15

	wireNumber = 0
	wireBytes  = 2
)

// head is what a profile says of itself, without its samples.
type head struct {
	types    []*profile.ValueType // none where the profile was only begun
	timed    bool                 // it says when it was taken
	duration bool                 // and over how long
}

// unpacker is what reading a profile takes, a MB that is used again.
type unpacker struct {
	in  gzip.Reader
	buf *bufio.Reader
	out *gzip.Writer
}

func newUnpacker() *unpacker {
	return &unpacker{buf: bufio.NewReaderSize(nil, 32<<10), out: gzip.NewWriter(nil)}
}

// head goes through a profile once, front to back, and holds none of it: that
// takes a fraction of the memory and the time of parsing, and proves that
// the profile is whole. data is gzipped or not.
func (u *unpacker) head(data []byte) (*head, error) {
	limited, err := u.open(data, maxUnpacked)
	if err != nil {
		return nil, err
	}
	h, err := scanHead(u.buf)
	switch {
	case limited.N <= 0:
		return nil, errUnpacked
	case err != nil:
		return nil, notProfile(err)
	case len(h.types) == 0:
		return nil, notProfile(errNoTypes)
	}
	return h, nil
}

// begins goes through the beginning of a profile alone, which takes a tenth of the time:
// that is enough to tell it from anything else, not to prove it whole. It is for profiles of
// pyroscope-go, which always say when they were taken.
func (u *unpacker) begins(data []byte) (*head, error) {
	limited, err := u.open(data, beginning)
	if err != nil {
		return nil, err
	}
	if _, err := scanHead(u.buf); err != nil && limited.N > 0 {
		return nil, notProfile(err)
	} else if err == errField {
		return nil, notProfile(err)
	}
	return &head{timed: true}, nil
}

// open unpacks data into u.buf, up to a limit: what is left of it is 0 where there was more.
func (u *unpacker) open(data []byte, limit int64) (*io.LimitedReader, error) {
	var src io.Reader = bytes.NewReader(data)
	if isGzip(data) {
		if err := u.in.Reset(src); err != nil {
			return nil, notProfile(err)
		}
		src = &u.in
	}
	limited := &io.LimitedReader{R: src, N: limit + 1}
	u.buf.Reset(limited)
	return limited, nil
}

func notProfile(err error) error {
	return fmt.Errorf("expected a pprof profile, saw none or one that is cut off or damaged: %w", err)
}

func isGzip(data []byte) bool { return bytes.HasPrefix(data, []byte("\x1f\x8b")) }

var (
	errUnpacked = fmt.Errorf("expected a profile of at most %d MiB unpacked, saw more", maxUnpacked>>20)
	errNoTypes  = errors.New("it has no sample types")
	errField    = errors.New("a field that no profile has")
)

func scanHead(r *bufio.Reader) (*head, error) {
	h := &head{}
	var types [][2]uint64        // the places of their names and units among the strings
	names := map[uint64]string{} // what stands at those places, which comes later
	var place uint64
	for {
		tag, err := binary.ReadUvarint(r)
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		number, wire := tag>>3, tag&7
		if number < 1 || number > lastField || wire != wireNumber && wire != wireBytes {
			return nil, errField
		}
		n, err := binary.ReadUvarint(r) // a number, or how many bytes follow
		if err != nil {
			return nil, short(err)
		}
		_, wanted := names[place]
		switch {
		case wire == wireNumber:
			h.timed = h.timed || number == fieldTime && n > 0
			h.duration = h.duration || number == fieldDuration && n > 0
		case number == fieldSampleType && len(types) == maxTypes:
			err = errField
		case number == fieldSampleType:
			var t [2]uint64
			if t, err = readType(r, n); err == nil {
				types = append(types, t)
				names[t[0]], names[t[1]] = "", ""
			}
		case number == fieldStrings && wanted:
			names[place], err = readText(r, n)
		default:
			err = skip(r, n)
		}
		if err != nil {
			return nil, err
		}
		if number == fieldStrings {
			place++
		}
	}
	for _, t := range types {
		h.types = append(h.types, &profile.ValueType{Type: names[t[0]], Unit: names[t[1]]})
	}
	return h, nil
}

// readType reads a ValueType: the places of its name and its unit.
func readType(r *bufio.Reader, size uint64) (t [2]uint64, err error) {
	text, err := readText(r, size)
	if err != nil {
		return t, err
	}
	for in := strings.NewReader(text); in.Len() > 0; {
		tag, err := binary.ReadUvarint(in)
		if err != nil {
			return t, short(err)
		}
		place, err := binary.ReadUvarint(in)
		if err != nil {
			return t, short(err)
		}
		switch tag {
		case 1<<3 | wireNumber:
			t[0] = place
		case 2<<3 | wireNumber:
			t[1] = place
		}
	}
	return t, nil
}

func readText(r *bufio.Reader, size uint64) (string, error) {
	if size > maxTypeBytes {
		return "", errField
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return string(b), short(err)
}

func skip(r *bufio.Reader, size uint64) error {
	if size > maxUnpacked {
		return io.ErrUnexpectedEOF
	}
	_, err := r.Discard(int(size))
	return short(err)
}

// short is an end inside a field.
func short(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// sampleType is what a push says of one type of its samples, in the part
// sample_type_config: see pyroscope-go's sample_types.go.
type sampleType struct {
	DisplayName string `json:"display-name"`
	Cumulative  bool   `json:"cumulative"`
}

// kindOf is what a bundle calls the kind of a profile: goroutine, goroutineleak,
// block, mutex, or contention where a client does not say which of the two. Block and
// mutex profiles have the same types, so the push tells them apart. useful says whether
// it tells what waits.
func kindOf(h *head, config map[string]sampleType) (kind string, useful bool) {
	kind, useful = configKind(config)
	if len(h.types) == 0 {
		return kind, useful
	}
	switch saw := stacks.ProfileKind(&profile.Profile{SampleType: h.types}); {
	case saw == "contention" && (kind == "block" || kind == "mutex"):
		return kind, true
	case saw == "goroutine", saw == "goroutineleak", saw == "contention":
		return saw, true
	default:
		return cmp.Or(saw, "other"), false
	}
}

// configKind is the kind as a push of pyroscope-go tells it (sample_types.go); "" where it does not.
func configKind(config map[string]sampleType) (kind string, useful bool) {
	for name, t := range config {
		switch {
		case name == "goroutine", name == "goroutineleak":
			return name, true
		case strings.HasPrefix(t.DisplayName, "block_"):
			return "block", true
		case strings.HasPrefix(t.DisplayName, "mutex_"):
			return "mutex", true
		case strings.HasPrefix(name, "inuse_"):
			return "heap", false
		}
	}
	return "", false
}

// complete adds to a profile what the push knows and the profile does not say: of
// waits over how long they are, and of any when it was taken. What was pushed stays as it is:
// gzip may have members and protocol buffers may have fields that follow.
//
// pyroscope-go pushes goroutines as they are at the end of an interval and block and mutex profiles as
// what was added in it (godeltaprof), which without its duration would pass for what
// waited since the process began. Only the first push of a session is just that: godeltaprof has
// nothing to subtract yet. Its from is the start rounded down to the client's upload interval
// (session.go, truncatedTime), a whole number of ms as no later one is by its clock: it is
// left without a duration, and so is a profile that its push calls cumulative.
func (u *unpacker) complete(data []byte, h *head, waits bool, config map[string]sampleType, from, until time.Time) ([]byte, error) {
	var fields []byte
	if !h.timed {
		fields = binary.AppendUvarint(append(fields, fieldTime<<3|wireNumber), uint64(until.UnixNano()))
	}
	cumulative := from.Nanosecond()%int(time.Millisecond) == 0
	for _, t := range config {
		cumulative = cumulative || t.Cumulative
	}
	if waits && !h.duration && !cumulative && until.After(from) {
		fields = binary.AppendUvarint(append(fields, fieldDuration<<3|wireNumber), uint64(until.Sub(from)))
	}
	if len(fields) == 0 || !isGzip(data) {
		return append(data, fields...), nil
	}
	more := bytes.NewBuffer(data)
	u.out.Reset(more)
	if _, err := u.out.Write(fields); err != nil {
		return nil, err
	}
	err := u.out.Close()
	return more.Bytes(), err
}

// parseConfig reads the part sample_type_config.
func parseConfig(data []byte) (map[string]sampleType, error) {
	var config map[string]sampleType
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("expected sample_type_config as JSON of sample types: %w", err)
	}
	return config, nil
}
