package stacks

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/pprof/profile"
)

// FromProfile makes a Snapshot of a goroutine, goroutineleak or fgprof
// wall-clock profile. Samples with equal frames become one group, whatever
// their labels. Growth is set where the counts are a difference between two
// moments: where one is negative, or where a goroutine profile says that it
// covers a duration, as net/http/pprof answers to ?seconds=N. Counts that
// Pyroscope or Parca summed over several snapshots look like any others.
//
// An error says what sort of profile p is, if it is none of these.
func FromProfile(name string, p *profile.Profile) (*Snapshot, error) {
	return FromStacks(name, p, nil)
}

// FromStacks is FromProfile with a new table of p's stacks (nil for one of its own), which
// tells afterwards in which group a sample is: both have the slice of its frames.
func FromStacks(name string, p *profile.Profile, table *ProfileStacks) (*Snapshot, error) {
	s := &Snapshot{Name: name}
	switch ProfileKind(p) {
	case "goroutine":
		s.Format = Protobuf
	case "goroutineleak":
		s.Format = Leak
	case "wallclock":
		s.Format = Wallclock
	default:
		return nil, fmt.Errorf("expected a goroutine profile, saw %s: fetch /debug/pprof/goroutine of the process", DescribeProfile(p))
	}
	s.Process, s.Taken = ProfileOrigin(p)
	if s.Format != Wallclock && p.DurationNanos > 0 {
		s.Growth = true
		s.Warnings = append(s.Warnings, fmt.Sprintf("the profile covers %v: its counts are taken for the growth over that time, not for the goroutines there were; fetch it without ?seconds=",
			time.Duration(p.DurationNanos)))
	}

	if table == nil {
		table = NewProfileStacks(p)
	}
	value := goroutineValue(p)
	for _, sample := range p.Sample {
		if sample == nil || value >= len(sample.Value) {
			continue
		}
		count := sample.Value[value]
		i, err := table.Add(sample)
		if err != nil {
			return nil, err
		}
		if i == len(s.Groups) {
			s.Groups = append(s.Groups, &Group{Frames: table.Frames(i)})
		}
		g := s.Groups[i]
		g.Count = addSaturating(g.Count, count)
		s.Growth = s.Growth || count < 0
		addLabels(g, sample.Label)
	}
	s.Groups = slices.DeleteFunc(s.Groups, func(g *Group) bool { return g.Count == 0 })
	for _, g := range s.Groups {
		g.Wait = Classify(g.Frames, "")
		if s.Format == Leak {
			g.Leaked = g.Count
		}
		s.Loss.Read = addSaturating(s.Loss.Read, g.Count)
	}
	if len(s.Groups) == 0 && s.Format == Protobuf && !s.Growth {
		return nil, errors.New("expected the goroutines of a process, which has one at least, saw a goroutine profile without any: take it again, or its ?debug=2 text")
	}
	s.Loss.Read = max(0, s.Loss.Read) // more may have ended than begun
	slices.SortStableFunc(s.Groups, func(a, b *Group) int { return cmp.Compare(b.Count, a.Count) })
	s.Warnings = append(s.Warnings, table.Warnings()...)
	return s, nil
}

// goroutineValue is the index of the value that counts goroutines, or samples
// in a wall-clock profile: the first that is no duration, or 0, since the time
// of a wall-clock profile gives the same shares.
func goroutineValue(p *profile.Profile) int {
	for i, t := range p.SampleType {
		switch typeName(t) {
		case "goroutine", "goroutines", "goroutineleak", "goroutineleaks":
			return i
		}
	}
	return max(0, slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t != nil && timeUnit(t.Unit) == 0 }))
}

// Labels kept of a group: enough to name a route or a tenant, and bounded
// where a label holds a request's id.
const (
	profileLabelKeys   = 16
	profileLabelValues = 8
)

func addLabels(g *Group, labels map[string][]string) {
	if len(labels) == 0 {
		return
	}
	if g.Labels == nil {
		g.Labels = make(map[string][]string)
	}
	keys := make([]string, 0, len(labels))
	for key := range labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		seen, known := g.Labels[key]
		if !known && len(g.Labels) == profileLabelKeys {
			continue
		}
		for _, value := range labels[key] {
			if len(seen) < profileLabelValues && !slices.Contains(seen, value) {
				seen = append(seen, value)
			}
		}
		g.Labels[key] = seen
	}
}

// ProfileOrigin is the process that wrote p, by its main mapping, and the time
// it was taken (at the end, where it covers a duration); both are zero where p
// does not say.
func ProfileOrigin(p *profile.Profile) (Process, time.Time) {
	var process Process
	// The profile package moves what it takes for the main binary to the front.
	if len(p.Mapping) > 0 && p.Mapping[0] != nil {
		m := p.Mapping[0]
		process = Process{
			Binary:  m.File,
			BuildID: m.BuildID,
			Mapping: fmt.Sprintf("%#x-%#x@%#x", m.Start, m.Limit, m.Offset),
		}
	}
	var taken time.Time
	if p.TimeNanos > 0 {
		taken = time.Unix(0, p.TimeNanos).UTC()
	}
	return process, taken
}

// ProfileKind says what sort of profile p is by its sample types: "goroutine",
// "goroutineleak", "wallclock" (fgprof), "contention" (block or mutex),
// "cpu", "heap", "allocs", "threadcreate", or "" where none of these.
// Spellings of Pyroscope, Parca and other runtimes' exports are known.
func ProfileKind(p *profile.Profile) string {
	if p == nil {
		return ""
	}
	var cpu, heap, allocs, wall bool
	for _, t := range p.SampleType {
		switch name := typeName(t); name {
		case "goroutine", "goroutines":
			return "goroutine"
		case "goroutineleak", "goroutineleaks":
			return "goroutineleak"
		case "threadcreate":
			return "threadcreate"
		case "space", "objects":
			heap = true
		case "time":
			wall = wall || timeUnit(t.Unit) > 0
		default:
			words := strings.Split(name, "_")
			cpu = cpu || slices.Contains(words, "cpu")
			heap = heap || slices.Contains(words, "inuse") || slices.Contains(words, "heap")
			allocs = allocs || slices.Contains(words, "alloc")
			wall = wall || slices.Contains(words, "wall") || slices.Contains(words, "wallclock")
		}
	}
	count, delay, _ := ContentionValues(p)
	switch {
	case count >= 0 || delay >= 0:
		return "contention"
	case cpu:
		return "cpu"
	case allocs && (!heap || strings.HasPrefix(p.DefaultSampleType, "alloc")):
		// Go's heap and allocs profiles have the same four types; only the default differs.
		return "allocs"
	case heap:
		return "heap"
	case wall:
		return "wallclock"
	}
	return ""
}

// DescribeProfile names p's kind and sample types, for messages:
// "a cpu profile (samples/count, cpu/nanoseconds)".
func DescribeProfile(p *profile.Profile) string {
	if p == nil || len(p.SampleType) == 0 {
		return "a profile without sample types"
	}
	var types []string
	for i, t := range p.SampleType {
		if i == 8 { // profiles have four or fewer; a damaged one may have thousands
			types = append(types, "...")
			break
		}
		if t != nil {
			types = append(types, fmt.Sprintf("%.40s/%.40s", t.Type, t.Unit))
		}
	}
	kind := ProfileKind(p)
	if kind == "" {
		kind = "unknown sort of"
	}
	article := "a"
	if kind[0] == 'a' || kind[0] == 'u' {
		article = "an"
	}
	return fmt.Sprintf("%s %s profile (%s)", article, kind, strings.Join(types, ", "))
}

// ContentionValues finds which values of p's samples are the number of waits
// and the time spent in them, and the unit of the time; an index is -1 where
// there is none. Go writes contentions/count and delay/nanoseconds; other
// runtimes spell them with lock, mutex, monitor or wait, and in other units.
func ContentionValues(p *profile.Profile) (count, delay int, unit time.Duration) {
	// How well a name fits: 1 only beside one that is surely of contention.
	const beside, family, exact = 1, 2, 3
	count, delay = -1, -1
	var countFit, delayFit int
	for i, t := range p.SampleType {
		words := strings.Split(typeName(t), "_")
		has := func(any ...string) bool {
			return slices.ContainsFunc(any, func(w string) bool { return slices.Contains(words, w) })
		}
		if has("cpu", "wall", "wallclock", "hold", "held", "goroutine") {
			continue
		}
		ofLocks := has("lock", "locks", "mutex", "monitor", "contention", "contentions", "block", "blocked")
		if u := timeUnit(unitOf(t)); u > 0 {
			fit := beside
			switch {
			case has("delay"):
				fit = exact
			case ofLocks:
				fit = family
			}
			if fit > delayFit {
				delay, delayFit, unit = i, fit, u
			}
			continue
		}
		fit := 0
		switch {
		case unitOf(t) == "bytes":
		case has("contention", "contentions"):
			fit = exact
		case ofLocks:
			fit = family
		case unitOf(t) == "count":
			fit = beside
		}
		if fit > countFit {
			count, countFit = i, fit
		}
	}
	if countFit <= beside && delayFit <= beside {
		return -1, -1, 0
	}
	return count, delay, unit
}

// timeUnit is the length of a unit of time by its name in a profile, 0 for
// other units.
func timeUnit(name string) time.Duration {
	switch strings.ToLower(name) {
	case "ns", "nanosecond", "nanoseconds":
		return time.Nanosecond
	case "us", "µs", "usec", "microsecond", "microseconds":
		return time.Microsecond
	case "ms", "msec", "millisecond", "milliseconds":
		return time.Millisecond
	case "s", "sec", "second", "seconds":
		return time.Second
	}
	return 0
}

func unitOf(t *profile.ValueType) string {
	if t == nil {
		return ""
	}
	return t.Unit
}

// typeName is a sample type's name in lower case with words joined by "_".
func typeName(t *profile.ValueType) string {
	if t == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return '_'
	}, t.Type)
}

// addSaturating adds without wrapping: a damaged or merged profile can hold
// values whose sum does not fit.
func addSaturating(a, b int64) int64 {
	sum := a + b
	if a > 0 && b > 0 && sum < 0 {
		return math.MaxInt64
	}
	if a < 0 && b < 0 && sum >= 0 {
		return math.MinInt64
	}
	return sum
}
