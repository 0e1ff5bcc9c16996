package stacks

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/google/pprof/profile"
)

const (
	// maxProfileDepth bounds the frames of one stack. The runtime keeps at most
	// 1024 calls (GODEBUG=profstackdepth), which inlining multiplies a little.
	maxProfileDepth = 4096
	// maxProfileFrames bounds the frames of all distinct stacks together (about
	// 200 MB): a few bytes of a crafted profile can stand for thousands of
	// frames. Large real profiles have a few hundred thousand.
	maxProfileFrames = 1 << 24
)

var errTooManyFrames = errors.New("the profile expands to more than 16 million frames: expected a profile as a process writes it, try one with fewer stacks merged into it")

// ProfileStacks turns the samples of one profile into stacks of shared
// frames, equal stacks into one. The zero value is not usable: see
// NewProfileStacks.
type ProfileStacks struct {
	stacks  [][]*Frame
	unnamed []bool // parallel to stacks: no frame has a function name

	frames    []*Frame                     // by frame number, one for each distinct function, file and line
	frameOf   map[frameID]uint32           // number of a frame
	functions map[*profile.Function]*Frame // frames without line

	known     []*profile.Location          // the profile's own table: the location with id n is mostly at n-1
	locations map[*profile.Location]uint32 // index into expanded of those that are not
	expanded  [][]uint32                   // frame numbers of each location, leaf first; nil where not yet seen
	numbers   []uint32                     // what expanded's elements are cut from

	byLocations map[string]int // index into stacks by location indexes, to expand each sequence once
	byFrames    map[string]int // index into stacks by frame numbers
	total       int            // frames expanded

	samples, samplesUnnamed, samplesEmpty, cut int
}

type frameID struct {
	function, file string
	line           int
}

// NewProfileStacks makes an empty table for the samples of p.
func NewProfileStacks(p *profile.Profile) *ProfileStacks {
	return &ProfileStacks{
		frameOf:     make(map[frameID]uint32, len(p.Location)),
		functions:   make(map[*profile.Function]*Frame, len(p.Function)),
		known:       p.Location,
		locations:   make(map[*profile.Location]uint32),
		expanded:    make([][]uint32, len(p.Location)),
		numbers:     make([]uint32, 0, len(p.Location)),
		byLocations: make(map[string]int, len(p.Sample)),
		byFrames:    make(map[string]int, len(p.Sample)),
	}
}

// Frames is the stack with the number that Add returned, leaf first.
func (t *ProfileStacks) Frames(stack int) []*Frame { return t.stacks[stack] }

// Add returns the number of s's stack. Numbers count up from 0 in order of
// first appearance; samples with equal frames have the same. Locations without
// function names become frames named by their address. It fails only when the
// profile's stacks are too many to be held.
func (t *ProfileStacks) Add(s *profile.Sample) (int, error) {
	var buf [512]byte // 128 locations, the depth that Go keeps
	key := buf[:0]
	for i, l := range s.Location {
		if i == maxProfileDepth {
			break
		}
		if l != nil {
			key = binary.LittleEndian.AppendUint32(key, t.location(l))
		}
	}
	stack, ok := t.byLocations[string(key)]
	if !ok {
		var err error
		if stack, err = t.expand(key); err != nil {
			return 0, err
		}
		t.byLocations[string(key)] = stack
	}
	t.samples++
	if len(key) == 0 {
		t.samplesEmpty++
	} else if t.unnamed[stack] {
		t.samplesUnnamed++
	}
	return stack, nil
}

// expand makes the stack of a sequence of locations.
func (t *ProfileStacks) expand(locations []byte) (int, error) {
	var buf [1024]byte
	key := buf[:0]
	for ; len(locations) > 0; locations = locations[4:] {
		for _, f := range t.expanded[binary.LittleEndian.Uint32(locations)] {
			key = binary.LittleEndian.AppendUint32(key, f)
		}
		if len(key) > 4*maxProfileDepth {
			key = key[:4*maxProfileDepth]
			t.cut++
			break
		}
	}
	t.total += len(key) / 4
	if t.total > maxProfileFrames {
		return 0, errTooManyFrames
	}
	if stack, ok := t.byFrames[string(key)]; ok {
		return stack, nil
	}
	frames := make([]*Frame, 0, len(key)/4)
	unnamed := true
	for k := key; len(k) > 0; k = k[4:] {
		f := t.frames[binary.LittleEndian.Uint32(k)]
		unnamed = unnamed && strings.HasPrefix(f.Func, "0x")
		frames = append(frames, f)
	}
	stack := len(t.stacks)
	t.stacks = append(t.stacks, frames)
	t.unnamed = append(t.unnamed, unnamed)
	t.byFrames[string(key)] = stack
	return stack, nil
}

// location returns the index of l in expanded.
func (t *ProfileStacks) location(l *profile.Location) uint32 {
	i := l.ID - 1
	if i < uint64(len(t.known)) && t.known[i] == l {
		if t.expanded[i] == nil {
			t.expanded[i] = t.lines(l)
		}
		return uint32(i)
	}
	n, ok := t.locations[l]
	if !ok {
		n = uint32(len(t.expanded))
		t.expanded = append(t.expanded, t.lines(l))
		t.locations[l] = n
	}
	return n
}

// lines returns the numbers of l's frames: several where calls were inlined.
func (t *ProfileStacks) lines(l *profile.Location) []uint32 {
	start := len(t.numbers)
	for _, line := range l.Line[:min(len(l.Line), maxProfileDepth)] {
		if f := t.function(line.Function); f != nil {
			t.numbers = append(t.numbers, t.frame(f, int(max(0, line.Line))))
		}
	}
	if len(t.numbers) == start && l.Address != 0 {
		t.numbers = append(t.numbers, t.frame(&Frame{Func: fmt.Sprintf("%#x", l.Address)}, 0))
	}
	return t.numbers[start:len(t.numbers):len(t.numbers)]
}

// function returns a frame of fn without line, nil where fn has no name.
func (t *ProfileStacks) function(fn *profile.Function) *Frame {
	if fn == nil || fn.Name == "" && fn.SystemName == "" {
		return nil
	}
	f := t.functions[fn]
	if f == nil {
		f = NewFrame(cmp.Or(fn.Name, fn.SystemName), fn.Filename, 0)
		t.functions[fn] = f
	}
	return f
}

// frame returns the number of the frame that is f with a line.
func (t *ProfileStacks) frame(f *Frame, line int) uint32 {
	id := frameID{f.Func, f.File, line}
	n, ok := t.frameOf[id]
	if !ok {
		n = uint32(len(t.frames))
		at := *f
		at.Line = line
		t.frames = append(t.frames, &at)
		t.frameOf[id] = n
	}
	return n
}

// Warnings says what could not be read of the samples added so far.
func (t *ProfileStacks) Warnings() []string {
	var warnings []string
	// A goroutine that has not run yet has no function of its own, and one between two
	// states no stack; only a good part of the samples says that symbols are missing.
	unnamed := t.samplesUnnamed
	if t.samplesEmpty == t.samples {
		unnamed = t.samples
	}
	if unnamed > 0 && 4*unnamed >= t.samples {
		warnings = append(warnings, fmt.Sprintf("%d of %d samples have no function names: the profile is not symbolised, fetch it from the process itself or pass it through `go tool pprof -proto`",
			unnamed, t.samples))
	}
	if t.cut > 0 {
		warnings = append(warnings, fmt.Sprintf("%d stacks are deeper than %d frames and were cut at the root", t.cut, maxProfileDepth))
	}
	return warnings
}
