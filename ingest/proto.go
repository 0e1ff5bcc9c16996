package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/pprof/profile"
)

// Field numbers of the Profile message in pprof's proto/profile.proto.
const (
	fieldMapping  = 3
	fieldLocation = 4
	fieldLast     = 15 // doc_url
)

const (
	// An empty message takes 2 bytes of input and over 100 of memory. A profile
	// of a million distinct stacks has some 3 million messages.
	maxMessages = 16 << 20
	// The parser goes through all locations for each mapping that adjoins the
	// one before it; this many steps take about a second.
	maxMappingSteps = 1 << 30
	// Names are cleaned once for each line they are at, so one long name at
	// many lines is a small input and long work. A million lines have 200 MB.
	maxNameBytes = 1 << 30
)

var errCutOff = errors.New("it ends in the middle of a field")

// nextField takes one field off a protobuf message. ok is false where data
// ends inside the field, or is none.
func nextField(data []byte) (number uint64, wire int, rest []byte, ok bool) {
	tag, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, 0, nil, false
	}
	number, wire, data = tag>>3, int(tag&7), data[n:]
	var skip uint64
	switch wire {
	case 0:
		_, n := binary.Uvarint(data)
		if n <= 0 {
			return number, wire, nil, false
		}
		skip = uint64(n)
	case 1:
		skip = 8
	case 2:
		size, n := binary.Uvarint(data)
		if n <= 0 {
			return number, wire, nil, false
		}
		data, skip = data[n:], size
	case 5:
		skip = 4
	default:
		return number, wire, nil, false
	}
	if skip > uint64(len(data)) {
		return number, wire, nil, false
	}
	return number, wire, data[skip:], true
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
		number, wire, rest, ok := nextField(head)
		if !validWire(number, wire) {
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
	var messages, mappings, locations uint64
	for len(data) > 0 {
		number, _, rest, ok := nextField(data)
		if !ok {
			return errCutOff
		}
		messages++
		switch number {
		case fieldMapping:
			mappings++
		case fieldLocation:
			locations++
		}
		data = rest
	}
	if messages > maxMessages {
		return fmt.Errorf("it has %d messages, more than the %d of any real profile", messages, maxMessages)
	}
	if mappings > 1 && mappings*locations > maxMappingSteps {
		return fmt.Errorf("it has %d mappings and %d locations, more than any real profile", mappings, locations)
	}
	return nil
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
		return fmt.Errorf("its names have %s together, more than any real profile's", bytesText(int64(total)))
	}
	return nil
}
