package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/pprof/profile"
)

// Field numbers of the Profile message in pprof's proto/profile.proto.
const (
	fieldSample   = 2
	fieldMapping  = 3
	fieldLocation = 4
	fieldComment  = 13
	fieldLast     = 15 // doc_url
)

// Field numbers of the Sample and Location messages.
const (
	sampleLocation = 1
	sampleValue    = 2
	sampleLabel    = 3
	locationLine   = 4
)

const (
	// A few bytes of a message can stand for over a hundred of memory, so what
	// the parser will take is counted first. A profile of a million distinct
	// stacks of 25 frames, far beyond what a process writes, takes 0.9 GB.
	maxParsed = 1 << 30
	// Bytes in memory of the parts of a profile, with the spare room that
	// slices and maps leave: of a Sample, Location, Function or Mapping; of a
	// Label with its place in the sample's maps; of a Line, held twice while it
	// is read; and of a number in a packed list, which for a location's id is
	// the id, a pointer and our own index.
	messageMemory = 160
	labelMemory   = 192
	lineMemory    = 160
	numberMemory  = 24
	// The parser goes through all locations for each mapping that adjoins the
	// one before it; this many steps take about a second.
	maxMappingSteps = 1 << 30
	// Names are cleaned once for each line they are at, so one long name at
	// many lines is a small input and long work. A million lines have 200 MB.
	maxNameBytes = 1 << 30
)

var errCutOff = errors.New("it ends in the middle of a field")

// field is one field of a protobuf message.
type field struct {
	number uint64
	wire   int
	data   []byte // the field's own bytes, without tag and length
}

// nextField takes one field off a protobuf message. ok is false where data
// ends inside the field, or is none.
func nextField(data []byte) (f field, rest []byte, ok bool) {
	tag, n := binary.Uvarint(data)
	if n <= 0 {
		return field{}, nil, false
	}
	f.number, f.wire, data = tag>>3, int(tag&7), data[n:]
	var size uint64
	switch f.wire {
	case 0:
		_, n := binary.Uvarint(data)
		if n <= 0 {
			return f, nil, false
		}
		size = uint64(n)
	case 1:
		size = 8
	case 2:
		length, n := binary.Uvarint(data)
		if n <= 0 {
			return f, nil, false
		}
		data, size = data[n:], length
	case 5:
		size = 4
	default:
		return f, nil, false
	}
	if size > uint64(len(data)) {
		return f, nil, false
	}
	f.data = data[:size]
	return f, data[size:], true
}

// numbers is how many numbers a field has: one, or as many as are packed in it.
func (f field) numbers() (n uint64) {
	if f.wire != 2 {
		return 1
	}
	for _, b := range f.data {
		n += uint64(^b >> 7) // the last byte of a number has its top bit clear
	}
	return n
}

// validWire reports whether a field of the Profile message may have that wire
// type: 0 for a number, 2 for a message or string; 13, comments, comes as either.
func validWire(number uint64, wire int) bool {
	switch number {
	case 1, 2, 3, 4, 5, 6, 11, fieldLast:
		return wire == 2
	case 7, 8, 9, 10, 12, 14:
		return wire == 0
	case 13:
		return wire == 0 || wire == 2
	}
	return false
}

// looksProto reports whether head begins as a Profile message: all its fields
// are of that message, up to where the head ends.
func looksProto(head []byte, complete bool) bool {
	fields := 0
	for len(head) > 0 {
		f, rest, ok := nextField(head)
		if !validWire(f.number, f.wire) {
			// Broken further on is still a profile, and worth its own error.
			return fields > 8
		}
		fields++
		if !ok {
			return !complete || fields > 1
		}
		head = rest
	}
	return true
}

// checkProto refuses a message that is small but would take the parser
// out of all proportion to its size.
func checkProto(data []byte) error {
	var memory, mappings, locations uint64
	for len(data) > 0 {
		f, rest, ok := nextField(data)
		if !ok {
			return errCutOff
		}
		memory += messageMemory
		var nested uint64
		switch f.number {
		case fieldMapping:
			mappings++
		case fieldSample:
			nested, ok = nestedMemory(f.data, sampleMemory)
		case fieldLocation:
			locations++
			nested, ok = nestedMemory(f.data, locationMemory)
		case fieldComment:
			nested = f.numbers() * numberMemory
		}
		if !ok {
			return errCutOff
		}
		memory += nested
		data = rest
	}
	if memory > maxParsed {
		return outsize(fmt.Sprintf("would take more than %s of memory to read: so many samples, labels, lines or frames", bytesText(maxParsed)))
	}
	if mappings > 1 && mappings*locations > maxMappingSteps {
		return outsize(fmt.Sprintf("has %d mappings and %d locations", mappings, locations))
	}
	return nil
}

// outsize says what a profile has that no real one has.
type outsize string

func (o outsize) Error() string { return string(o) }

// nestedMemory adds up what the fields of one message take.
func nestedMemory(data []byte, of func(field) uint64) (memory uint64, ok bool) {
	for len(data) > 0 {
		f, rest, ok := nextField(data)
		if !ok {
			return 0, false
		}
		memory += of(f)
		data = rest
	}
	return memory, true
}

func sampleMemory(f field) uint64 {
	switch f.number {
	case sampleLocation, sampleValue:
		return f.numbers() * numberMemory
	case sampleLabel:
		return labelMemory
	}
	return 0
}

func locationMemory(f field) uint64 {
	if f.number == locationLine {
		return lineMemory
	}
	return 0
}

// parseProto parses an unpacked pprof protobuf.
func parseProto(data []byte) (*profile.Profile, error) {
	err := checkProto(data)
	var p *profile.Profile
	if err == nil {
		p, err = profile.ParseUncompressed(data)
	}
	if err == nil {
		err = p.CheckValid()
	}
	if err == nil {
		err = checkNames(p)
	}
	if big, ok := errors.AsType[outsize](err); ok {
		return nil, fmt.Errorf("expected a pprof profile as a process writes it, saw one that %w, more than any real profile; take it from the process again", big)
	}
	if err != nil {
		return nil, fmt.Errorf("expected a pprof profile, saw one that is cut off or damaged: %w; take it again", err)
	}
	return p, nil
}

// checkNames refuses a profile whose names are together far longer than any.
func checkNames(p *profile.Profile) error {
	total := 0
	for _, l := range p.Location {
		for _, line := range l.Line {
			if f := line.Function; f != nil {
				total += len(f.Name) + len(f.Filename)
			}
		}
	}
	if total > maxNameBytes {
		return outsize(fmt.Sprintf("has names of %s together", bytesText(int64(total))))
	}
	return nil
}
