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
	maxTextWarnings = 20      // lines named; a wholly different text would name every one
)

// FromText reads the text that the Go runtime writes of a block or mutex
// profile with debug=1 (writeProfileInternal in the Go source,
// src/runtime/pprof/pprof.go). Unlike profile.ParseData it keeps the function
// names, which stand in comments, and does not multiply by the mutex sampling
// period, since Go scales the values itself since 1.20. The text says neither
// when it was taken nor by which process. Lines that cannot be read become
// warnings.
func FromText(name string, r io.Reader) (*Profile, error) {
	t := textReader{
		profile: &profile.Profile{SampleType: []*profile.ValueType{
			{Type: "contentions", Unit: "count"},
			{Type: "delay", Unit: "nanoseconds"},
		}},
		locations: make(map[string]*profile.Location),
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxTextLine)
	for lines.Scan() {
		t.number++
		if err := t.line(strings.TrimSpace(lines.Text())); err != nil {
			return nil, fmt.Errorf("line %d: %w", t.number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("expected the text of a block or mutex profile, could not read line %d: %w", t.number+1, err)
	}
	if t.kind == "" {
		return nil, errors.New(`expected the text of a block or mutex profile, saw no line "--- contention:" or "--- mutex:"`)
	}
	t.endSample()
	p, err := fromProfile(name, t.profile, t.kind)
	if err != nil {
		return nil, err
	}
	p.Warnings = append(p.Warnings, t.warnings...)
	return p, nil
}

// textReader collects the text into a profile, one location for each
// distinct frame.
type textReader struct {
	profile   *profile.Profile
	locations map[string]*profile.Location // by what the text prints
	kind      Kind                         // "" until the first line of the profile
	perSecond float64                      // the unit of delays, in ticks
	sample    *profile.Sample              // whose frames are being read
	addresses []string                     // of sample
	frames    int
	number    int // of the line
	warnings  []string
}

func (t *textReader) line(line string) error {
	switch {
	case line == "":
	case line == "--- contention:" || line == "--- mutex:":
		if t.kind != "" {
			return errors.New("a second profile begins here: expected one profile in a file, split it")
		}
		t.kind = Block
		if line == "--- mutex:" {
			t.kind = Mutex
		}
	case t.kind == "": // text before the profile
	case strings.HasPrefix(line, "#"):
		return t.frame(line)
	case strings.Contains(line, "@"):
		t.endSample()
		return t.beginSample(line)
	case strings.Contains(line, "="):
		t.attribute(line)
	default:
		t.warn("neither a stack nor a frame")
	}
	return nil
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
func (t *textReader) beginSample(line string) error {
	if t.perSecond <= 0 {
		return errors.New("expected cycles/second=N, the unit of the delays, before the first stack: fetch the profile without debug=1")
	}
	t.sample = nil
	fields := strings.Fields(line)
	if len(fields) < 3 || fields[2] != "@" {
		t.warn("no stack of the form TICKS COUNT @ ADDRESSES")
		return nil
	}
	ticks, err1 := strconv.ParseInt(fields[0], 10, 64)
	count, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.warn("no numbers before the stack")
		return nil
	}
	t.sample = &profile.Sample{Value: []int64{count, nanoseconds(ticks, t.perSecond)}}
	t.addresses = fields[3:]
	t.profile.Sample = append(t.profile.Sample, t.sample)
	return nil
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
