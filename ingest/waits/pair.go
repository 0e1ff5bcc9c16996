package waits

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/contend/contend/ingest/stacks"
)

// Pair reports whether b minus a is what one process waited between two
// moments: both are cumulative and of one kind, b was taken later by the same
// process, and nothing in it has shrunk. Otherwise why says in words what
// speaks against it, and the two are to be shown side by side.
func Pair(a, b *Profile) (ok bool, why string) {
	switch {
	case a.Kind != b.Kind:
		return false, fmt.Sprintf("one is a %s profile, the other a %s profile", a.Kind, b.Kind)
	case len(a.Sites) == 0 && !kindKnown(a):
		return false, "the earlier profile is empty, and its name says neither block nor mutex"
	case a.Window > 0 || b.Window > 0:
		return false, "a profile over a duration is a difference already"
	}
	if why := otherProcess(a.Process, b.Process); why != "" {
		return false, why
	}
	switch {
	case a.Taken.IsZero() || b.Taken.IsZero():
		return false, "a profile does not say when it was taken"
	case a.Taken.Equal(b.Taken):
		return false, "both were taken at the same moment"
	case a.Taken.After(b.Taken):
		return false, "the second was taken before the first"
	}
	stackOf := stackKeys()
	later := make(map[string]*Site, len(b.Sites))
	for i := range b.Sites {
		later[stackOf(b.Sites[i].Frames)] = &b.Sites[i]
	}
	for i := range a.Sites {
		before := &a.Sites[i]
		after := later[stackOf(before.Frames)]
		if after == nil {
			after = &Site{}
		}
		if shrunk(before, after) {
			return false, fmt.Sprintf("%s waited %v in the earlier and %v in the later: the process was restarted, or it is another one",
				siteName(before), before.Delay.Round(time.Microsecond), after.Delay.Round(time.Microsecond))
		}
	}
	return true, ""
}

func kindKnown(p *Profile) bool {
	_, known := kindOf(p.Name, p.Sites)
	return known
}

// shrunk reports whether values that only grow in one process are smaller in
// the later profile. The runtime turns ticks into nanoseconds by a rate that it
// measures once; a profile taken right after the start may have been turned by
// an earlier estimate, hence one percent. Counts are truncated estimates, so
// each may be off by one.
func shrunk(before, after *Site) bool {
	return after.Contentions < before.Contentions-1 || after.Delay < before.Delay-before.Delay/100
}

// otherProcess says why two profiles are of different processes, "" where
// they are of the same. A build identifies a program and its mapping, with
// address randomisation, one run of it.
func otherProcess(a, b stacks.Process) string {
	switch {
	case a == stacks.Process{} || b == stacks.Process{}:
		return "a profile does not say which process wrote it"
	case a.BuildID != "" && b.BuildID != "":
		if a.BuildID != b.BuildID {
			return fmt.Sprintf("they are of different builds (%.16s and %.16s)", a.BuildID, b.BuildID)
		}
	case a.Binary != b.Binary:
		return fmt.Sprintf("they are of different programs (%s and %s)", a.Binary, b.Binary)
	}
	if a.Mapping != b.Mapping {
		return "the program was loaded at different addresses: they are of different processes"
	}
	return ""
}

// siteName is the function a reader knows a site by.
func siteName(s *Site) string {
	switch {
	case s.Wait.Site >= 0 && s.Wait.Site < len(s.Frames):
		return s.Frames[s.Wait.Site].Func
	case len(s.Frames) > 0:
		return s.Frames[0].Func
	}
	return "a site without frames"
}

// Difference is b minus a, stack by stack, over the time between them; see
// Pair for when that makes sense. Sites that did not change are left out, and
// so are those that shrank, which Dropped counts.
func Difference(a, b *Profile) *Profile {
	d := *b
	d.From = a.Name
	d.Window = max(0, b.Taken.Sub(a.Taken))
	d.Sites = append([]Site(nil), b.Sites...)

	stackOf := stackKeys()
	later := make(map[string]int, len(b.Sites))
	for i := range b.Sites {
		later[stackOf(b.Sites[i].Frames)] = i
	}
	for i := range a.Sites {
		j, ok := later[stackOf(a.Sites[i].Frames)]
		if !ok {
			d.Dropped++
			continue
		}
		// Neither overflows: no site of a Profile is negative.
		d.Sites[j].Contentions -= a.Sites[i].Contentions
		d.Sites[j].Delay -= a.Sites[i].Delay
	}
	d.dropEmpty()
	d.sort()
	return &d
}

// stackKeys returns a function that gives equal keys to stacks of equal
// functions, files and lines, across profiles.
func stackKeys() func([]*stacks.Frame) string {
	type id struct {
		function, file string
		line           int
	}
	numbers := make(map[id]uint32)
	var key []byte
	return func(frames []*stacks.Frame) string {
		key = key[:0]
		for _, f := range frames {
			at := id{f.Func, f.File, f.Line}
			n, ok := numbers[at]
			if !ok {
				n = uint32(len(numbers))
				numbers[at] = n
			}
			key = binary.LittleEndian.AppendUint32(key, n)
		}
		return string(key)
	}
}
