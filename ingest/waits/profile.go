package waits

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/stacks"
)

// FromProfile makes a Profile of a block or mutex profile, or of a lock
// profile that another runtime exports as pprof: any with a number of waits
// and a time spent in them (see stacks.ContentionValues). Values are taken as
// they are: Go has scaled them for sampling already.
//
// name is the file or URL. Block and mutex profiles have the same sample
// types, so their leaf frames tell the kind; name is asked only where they do
// not. Text written with debug=1 needs FromText, which keeps function names.
func FromProfile(name string, p *profile.Profile) (*Profile, error) {
	return FromStacks(name, p, nil)
}

// FromStacks is FromProfile with a new table of p's stacks (nil for one of its own), which
// tells afterwards at which site a sample is: both have the slice of its frames.
func FromStacks(name string, p *profile.Profile, table *stacks.ProfileStacks) (*Profile, error) {
	return fromProfile(name, p, table, "")
}

// fromProfile is FromProfile where the kind may be known, as in text.
func fromProfile(name string, p *profile.Profile, table *stacks.ProfileStacks, kind Kind) (*Profile, error) {
	if stacks.ProfileKind(p) != "contention" {
		return nil, fmt.Errorf("expected a block or mutex profile, saw %s: fetch /debug/pprof/block or /debug/pprof/mutex of the process", stacks.DescribeProfile(p))
	}
	count, delay, unit := stacks.ContentionValues(p)
	if delay < 0 {
		return nil, fmt.Errorf("expected a block or mutex profile with a time waited, saw %s: from a profile server, ask for the type with delay:nanoseconds", stacks.DescribeProfile(p))
	}
	out := &Profile{Name: name, Window: time.Duration(max(0, p.DurationNanos))}
	out.Process, out.Taken = stacks.ProfileOrigin(p)
	if count < 0 {
		out.Warnings = append(out.Warnings, "the profile has no number of contentions, only their time")
	}

	if table == nil {
		table = stacks.NewProfileStacks(p)
	}
	for _, sample := range p.Sample {
		if sample == nil || delay >= len(sample.Value) || count >= len(sample.Value) {
			continue
		}
		i, err := table.Add(sample)
		if err != nil {
			return nil, err
		}
		if i == len(out.Sites) {
			out.Sites = append(out.Sites, Site{Frames: table.Frames(i)})
		}
		site := &out.Sites[i]
		site.Delay = addDelay(site.Delay, scaleDelay(sample.Value[delay], unit))
		if count >= 0 {
			site.Contentions = int64(addDelay(time.Duration(site.Contentions), time.Duration(sample.Value[count])))
		}
	}
	out.Warnings = append(out.Warnings, table.Warnings()...)
	empty := len(out.Sites) == 0
	out.dropEmpty()
	if out.Dropped > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d stacks with negative values were left out", out.Dropped))
	}

	known := kind != ""
	if !known {
		kind, known = kindOf(name, out.Sites)
	}
	out.Kind = kind
	if empty {
		on := "runtime.SetBlockProfileRate"
		if kind == Mutex {
			on = "runtime.SetMutexProfileFraction"
		}
		out.Warnings = append(out.Warnings, "the profile is empty: it is off, as it is by default ("+on+" switches it on), or no wait has ended so far; it does not show that nothing waits")
	}
	if !known && len(out.Sites) > 0 {
		out.Warnings = append(out.Warnings, "neither the stacks nor the name say whether this is a block or a mutex profile: it is read as a block profile")
	}
	classify := stacks.Classify
	if out.Kind == Mutex {
		classify = func(frames []*stacks.Frame, _ string) stacks.Wait { return stacks.ClassifyRelease(frames) }
	}
	for i := range out.Sites {
		out.Sites[i].Wait = classify(out.Sites[i].Frames, "")
	}
	out.sort()
	return out, nil
}

// dropEmpty removes sites without any value, and those with a negative one,
// which it counts in Dropped.
func (p *Profile) dropEmpty() {
	p.Sites = slices.DeleteFunc(p.Sites, func(s Site) bool {
		if s.Delay < 0 || s.Contentions < 0 {
			p.Dropped++
			return true
		}
		return s.Delay == 0 && s.Contentions == 0
	})
}

// sort puts the longest delay first, and makes the order independent of the
// input's.
func (p *Profile) sort() {
	slices.SortStableFunc(p.Sites, func(a, b Site) int {
		return cmp.Or(
			cmp.Compare(b.Delay, a.Delay),
			cmp.Compare(b.Contentions, a.Contentions),
			slices.CompareFunc(a.Frames, b.Frames, compareFrames))
	})
}

func compareFrames(a, b *stacks.Frame) int {
	return cmp.Or(cmp.Compare(a.Func, b.Func), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
}

// kindOf tells the kind by the leaves, weighted by delay; by the last mention
// of a kind in the name where no leaf tells; otherwise it is not known.
func kindOf(name string, sites []Site) (kind Kind, known bool) {
	var waited, released float64
	for _, s := range sites {
		weight := 1 + s.Delay.Seconds() // profiles of zero delays still have leaves
		switch leafKind(s.Frames) {
		case Block:
			waited += weight
		case Mutex:
			released += weight
		}
	}
	name = strings.ToLower(name)
	mutex, block := strings.LastIndex(name, "mutex"), strings.LastIndex(name, "block")
	switch {
	case released > waited:
		return Mutex, true
	case waited > 0:
		return Block, true
	case mutex > block:
		return Mutex, true
	}
	return Block, block >= 0
}

// leafKind says which profile a stack is from, by the function at its leaf:
// one that releases a lock (sync's Unlock, the runtime's own in mutex
// profiles, other runtimes' names) or one that waits; "" where neither.
func leafKind(frames []*stacks.Frame) Kind {
	if len(frames) == 0 {
		return ""
	}
	leaf := frames[0]
	lower := strings.ToLower(leaf.Name)
	if strings.Contains(lower, "unlock") || leaf.Func == "runtime._LostContendedRuntimeLock" {
		return Mutex
	}
	if leaf.Package == "runtime" {
		for _, prefix := range []string{"chan", "selectgo", "block", "gopark", "semacquire"} {
			if strings.HasPrefix(leaf.Name, prefix) {
				return Block
			}
		}
		return ""
	}
	for _, word := range []string{"lock", "wait", "semacquire", "acquire", "park"} {
		if strings.Contains(lower, word) {
			return Block
		}
	}
	if leaf.Package == "internal/sync" { // HashTrieMap's methods, which lock inline
		return Block
	}
	return ""
}

// scaleDelay is a profile's value as a duration, at the limit of the type
// where it does not fit.
func scaleDelay(value int64, unit time.Duration) time.Duration {
	switch limit := math.MaxInt64 / int64(unit); {
	case value > limit:
		return math.MaxInt64
	case value < -limit:
		return math.MinInt64
	}
	return time.Duration(value) * unit
}

// addDelay adds without wrapping.
func addDelay(a, b time.Duration) time.Duration {
	sum := a + b
	if a > 0 && b > 0 && sum < 0 {
		return math.MaxInt64
	}
	if a < 0 && b < 0 && sum >= 0 {
		return math.MinInt64
	}
	return sum
}
