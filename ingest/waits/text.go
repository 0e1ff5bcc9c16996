package waits

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

const (
	maxTextLine     = 1 << 20 // bytes; a line has at most one stack's addresses, of which the runtime keeps 1024
	maxTextFrames   = 1 << 24 // of all stacks together, about 200 MB; real profiles have some ten thousand
	maxTextProfiles = 100     // of one text; a script that fetches one a minute for an hour and more
	maxTextWarnings = 20      // lines named; a wholly different text would name every one
)

// FromText reads the text that the Go runtime writes of a block or mutex
// profile with debug=1 (writeProfileInternal in the Go source,
// src/runtime/pprof/pprof.go). Unlike profile.ParseData it keeps the function
// names, which stand in comments, and does not multiply by the mutex sampling
// period, since Go scales the values itself since 1.20. The text says neither
// when it was taken nor by which process. Lines that cannot be read become
// warnings of the profile they stand in.
//
// A text may hold several profiles; from the second on they are called
// "name#2" and so on. The error is not nil only where none could be read.
func FromText(name string, r io.Reader) ([]*Profile, error) {
	t := textReader{name: name, locations: make(map[string]*profile.Location)}
	in := bufio.NewReaderSize(r, maxTextLine)
	var err error
	for err == nil {
		var line []byte
		line, err = in.ReadSlice('\n')
		if len(line) == 0 {
			break
		}
		t.number++
		if err == bufio.ErrBufferFull {
			t.warn(fmt.Sprintf("longer than %d KiB", maxTextLine>>10))
			for err == bufio.ErrBufferFull {
				_, err = in.ReadSlice('\n')
			}
			continue
		}
		if lineErr := t.line(strings.TrimSpace(string(line))); lineErr != nil {
			return nil, fmt.Errorf("line %d: %w", t.number, lineErr)
		}
	}
	t.endProfile()
	switch {
	case len(t.done) > 0:
		last := t.done[len(t.done)-1]
		if t.refused != nil {
			last.Warnings = append(last.Warnings, fmt.Sprintf("another profile of the input could not be read: %v", t.refused))
		}
		if err != io.EOF {
			last.Warnings = append(last.Warnings, fmt.Sprintf("reading stopped after line %d: %v", t.number, err))
		}
		return t.done, nil
	case err != io.EOF:
		return nil, fmt.Errorf("expected the text of a block or mutex profile, could not read on after line %d: %w", t.number, err)
	case t.refused != nil:
		return nil, t.refused
	}
	return nil, errors.New(`expected the text of a block or mutex profile, saw no line "--- contention:" or "--- mutex:"`)
}

// textReader collects the text into profiles, one location for each
// distinct frame.
type textReader struct {
	name    string
	done    []*Profile
	refused error // of the first profile that could not be read

	profile   *profile.Profile             // nil until the first line of one
	locations map[string]*profile.Location // by what the text prints
	kind      Kind
	perSecond float64         // the unit of delays, in ticks
	unitless  bool            // a stack came before that unit
	sample    *profile.Sample // whose frames are being read
	addresses []string        // of sample
	frames    int
	number    int // of the line
	warnings  []string
	more      int // profiles beyond maxTextProfiles
}

func (t *textReader) line(line string) error {
	switch {
	case line == "":
	case line == "--- contention:":
		t.beginProfile(Block)
	case line == "--- mutex:":
		t.beginProfile(Mutex)
	case t.profile == nil: // text before the profile
	case strings.HasPrefix(line, "#"):
		return t.frame(line)
	case strings.Contains(line, "@"):
		t.endSample()
		t.beginSample(line)
	case strings.Contains(line, "="):
		t.attribute(line)
	default:
		t.warn("neither a stack nor a frame")
	}
	return nil
}

func (t *textReader) beginProfile(kind Kind) {
	t.endProfile()
	if len(t.done) == maxTextProfiles {
		if t.more++; t.more == 1 {
			last := t.done[len(t.done)-1]
			last.Warnings = append(last.Warnings, fmt.Sprintf("line %d: the input has more than %d profiles: the rest was not read; split it", t.number, maxTextProfiles))
		}
		return
	}
	t.kind = kind
	t.profile = &profile.Profile{SampleType: []*profile.ValueType{
		{Type: "contentions", Unit: "count"},
		{Type: "delay", Unit: "nanoseconds"},
	}}
}

// endProfile completes the profile being read, if any.
func (t *textReader) endProfile() {
	if t.profile == nil {
		return
	}
	t.endSample()
	name := t.name
	if n := len(t.done) + 1; n > 1 {
		name = fmt.Sprintf("%s#%d", t.name, n)
	}
	var err error
	var p *Profile
	if t.unitless && len(t.profile.Sample) == 0 {
		err = errors.New("expected cycles/second=N, the unit of the delays, before the first stack: fetch the profile without debug=1")
	} else {
		p, err = fromProfile(name, t.profile, nil, t.kind)
	}
	switch {
	case err == nil:
		p.Warnings = append(p.Warnings, t.warnings...)
		t.done = append(t.done, p)
	case t.refused == nil:
		t.refused = err
	}
	*t = textReader{name: t.name, done: t.done, refused: t.refused, locations: t.locations, frames: t.frames, number: t.number, more: t.more}
}

func (t *textReader) attribute(line string) {
	key, value, _ := strings.Cut(line, "=")
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case key == "cycles/second" && err == nil && n > 0:
		t.perSecond = float64(n)
	case key == "sampling period" && err == nil && n > 1:
		t.warnings = append(t.warnings, fmt.Sprintf("one of %d events was sampled and Go scales for that since 1.20: if an older Go wrote this, amounts are %d times as large, and shares hold", n, n))
	case key != "cycles/second" && key != "sampling period":
		t.warn("an attribute that is not known")
	}
}

// beginSample reads "TICKS COUNT @ ADDRESS...".
func (t *textReader) beginSample(line string) {
	t.sample = nil
	if t.perSecond <= 0 {
		t.unitless = true
		t.warn("a stack before cycles/second=N, the unit of its delay")
		return
	}
	fields := strings.Fields(line)
	if len(fields) < 3 || fields[2] != "@" {
		t.warn("no stack of the form TICKS COUNT @ ADDRESSES")
		return
	}
	ticks, err1 := strconv.ParseInt(fields[0], 10, 64)
	count, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.warn("no numbers before the stack")
		return
	}
	t.sample = &profile.Sample{Value: []int64{count, nanoseconds(ticks, t.perSecond)}}
	t.addresses = fields[3:]
	t.profile.Sample = append(t.profile.Sample, t.sample)
}

// nanoseconds converts as the runtime does for the protobuf form.
func nanoseconds(ticks int64, perSecond float64) int64 {
	ns := float64(ticks) / (perSecond / 1e9)
	switch {
	case ns >= math.MaxInt64:
		return math.MaxInt64
	case ns <= math.MinInt64:
		return math.MinInt64
	}
	return int64(ns)
}

// frame reads "#	PC	FUNCTION+OFFSET	FILE:LINE", or "#	PC" where the
// runtime knows no name. Columns are parted by one or more tabs, which
// a terminal or an editor may have made spaces.
func (t *textReader) frame(line string) error {
	if t.sample == nil {
		t.warn("a frame without a stack")
		return nil
	}
	columns := strings.FieldsFunc(line[1:], func(r rune) bool { return r == '\t' })
	if len(columns) < 3 {
		columns = strings.Fields(line[1:])
	}
	if len(columns) == 1 {
		return t.add(columns[0], func(l *profile.Location) { l.Address = address(columns[0]) })
	}
	if len(columns) != 3 {
		t.warn("no frame of the form # PC FUNCTION+OFFSET FILE:LINE")
		return nil
	}
	function, at := columns[1], columns[2]
	if i := strings.LastIndex(function, "+0x"); i > 0 {
		function = function[:i]
	}
	return t.add(function+"\t"+at, func(l *profile.Location) {
		file, number := at, int64(0)
		if i := strings.LastIndexByte(at, ':'); i > 0 {
			if n, err := strconv.ParseInt(at[i+1:], 10, 64); err == nil {
				file, number = at[:i], n
			}
		}
		l.Line = []profile.Line{{Function: &profile.Function{Name: function, Filename: file}, Line: number}}
	})
}

// add appends the location with that key to the sample, made by fill the first time.
func (t *textReader) add(key string, fill func(*profile.Location)) error {
	if t.frames++; t.frames > maxTextFrames {
		return fmt.Errorf("expected at most %d frames in a profile, saw more: fetch it without debug=1", maxTextFrames)
	}
	l := t.locations[key]
	if l == nil {
		l = &profile.Location{}
		fill(l)
		t.locations[strings.Clone(key)] = l
	}
	t.sample.Location = append(t.sample.Location, l)
	return nil
}

// endSample gives a stack without printed frames its addresses.
func (t *textReader) endSample() {
	if t.sample == nil || len(t.sample.Location) > 0 {
		return
	}
	for _, a := range t.addresses {
		if t.add(a, func(l *profile.Location) { l.Address = address(a) }) != nil {
			return
		}
	}
}

// address reads a printed address, 0 where it is none.
func address(s string) uint64 {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0
	}
	return n
}

func (t *textReader) warn(what string) {
	switch {
	case len(t.warnings) < maxTextWarnings:
		t.warnings = append(t.warnings, fmt.Sprintf("line %d: %s; the line was left out", t.number, what))
	case len(t.warnings) == maxTextWarnings:
		t.warnings = append(t.warnings, fmt.Sprintf("line %d and others could not be read either", t.number))
	}
}
