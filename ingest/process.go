package ingest

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// oneMoment is how far apart profiles of several replicas, taken by one
// script, are at most; nobody takes one process twice as fast.
const oneMoment = time.Second

// Process is what a Bundle has of one process, as far as can be told.
type Process struct {
	Name string
	// Job and Instance are its labels in series, where the list of its bundle
	// says whose its inputs are.
	Job, Instance string

	Snapshots []*stacks.Snapshot // in time order, then those that do not say when, in the order given
	Waits     []*waits.Profile   // differences where there were two cumulative ones, single ones else
	// Between are the parts of a difference in Waits that has more than two cumulative ones, in
	// time order, and what a process whose name is known pushed over intervals before the last.
	Between []*waits.Profile
	Notes   []string // sentences: what was taken for one process or for several, and why
}

// Processes sorts the inputs by process. Where the list of a bundle says whose
// an input is, that decides. Else build and mappings tell processes apart; origin, goroutine ids, times, values that shrink and stacks that are
// alike decide where those are missing or equal. It does not change the bundle.
func (b *Bundle) Processes() []*Process {
	named, rest := b.named()
	var all []*member
	for _, c := range rest.clusters() {
		all = append(all, c.processes()...)
	}
	all = rest.addDumps(all)
	all = rest.addAnonymous(all)
	all = joinAlike(all)
	all = rest.addAnonymousWaits(all)
	all = append(all, named...)

	place := make(map[any]int, len(b.Snapshots)+len(b.Waits))
	for i, s := range b.Snapshots {
		place[s] = i
	}
	for i, w := range b.Waits {
		place[w] = len(b.Snapshots) + i
	}
	slices.SortStableFunc(all, func(x, y *member) int { return cmp.Compare(x.place(place), y.place(place)) })

	processes := make([]*Process, len(all))
	for i, m := range all {
		sortByTime(m.Process.Snapshots, func(s *stacks.Snapshot) time.Time { return s.Taken })
		processes[i] = &m.Process
	}
	nameProcesses(all)
	return processes
}

// member is a Process being put together.
type member struct {
	Process
	origin     string
	identified bool
	bundle     string // whose list says whose the inputs are; "" where none does
	inputs     []any  // snapshots and wait profiles as read
}

func (m *member) addSnapshot(s *stacks.Snapshot) {
	m.Process.Snapshots = append(m.Process.Snapshots, s)
	m.inputs = append(m.inputs, s)
}

func (m *member) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// place is where the first of m's inputs stands in the bundle.
func (m *member) place(places map[any]int) int {
	first := len(places)
	for _, in := range m.inputs {
		first = min(first, places[in])
	}
	return first
}

// cluster is the inputs of one build, mapping and origin: one process, or
// replicas that look the same.
type cluster struct {
	id        stacks.Process
	origin    string
	snapshots []*stacks.Snapshot
	waits     []*waits.Profile
}

// identity is what processes are compared by: a build id outweighs the path
// of the binary, which a symbolic link or a "(deleted)" changes.
func identity(p stacks.Process) stacks.Process {
	if p.BuildID != "" {
		p.Binary = ""
	}
	return p
}

func (b *Bundle) clusters() []*cluster {
	var all []*cluster
	find := func(p stacks.Process, origin string) *cluster {
		id := identity(p)
		for _, c := range all {
			if c.id == id && c.origin == origin {
				return c
			}
		}
		c := &cluster{id: id, origin: origin}
		all = append(all, c)
		return c
	}
	for _, s := range b.Snapshots {
		if s.Process != (stacks.Process{}) {
			c := find(s.Process, b.Origin[s.Name])
			c.snapshots = append(c.snapshots, s)
		}
	}
	for _, w := range b.Waits {
		if w.Process != (stacks.Process{}) {
			c := find(w.Process, b.Origin[w.Name])
			c.waits = append(c.waits, w)
		}
	}
	return joinOrigins(all)
}

// joinOrigins puts waits that were given apart with the snapshots of their
// build, where those have one origin: analyze DIR block.pb.gz.
func joinOrigins(all []*cluster) []*cluster {
	withSnapshots := make(map[stacks.Process][]*cluster)
	for _, c := range all {
		if len(c.snapshots) > 0 {
			withSnapshots[c.id] = append(withSnapshots[c.id], c)
		}
	}
	return slices.DeleteFunc(all, func(c *cluster) bool {
		same := withSnapshots[c.id]
		if len(c.snapshots) > 0 || len(same) != 1 {
			return false
		}
		same[0].waits = append(same[0].waits, c.waits...)
		return true
	})
}

// processes takes a cluster for one process unless something proves or
// suggests replicas: values that shrink, or snapshots of one moment.
func (c *cluster) processes() []*member {
	sortByTime(c.snapshots, func(s *stacks.Snapshot) time.Time { return s.Taken })
	one := &member{origin: c.origin, identified: true}
	paired, apart := one.pairWaits(c.waits)
	close1, close2 := c.closest()
	if apart == "" && (close1 == nil || paired) {
		for _, s := range c.snapshots {
			one.addSnapshot(s)
		}
		if first, last := c.moments(); last != nil && !paired && !isURL(c.origin) {
			one.note("took %s and %s for two moments of one process, %s apart: same build and mappings; replicas of one build look the same, so if they are replicas, analyse each alone",
				first.Name, last.Name, between(first.Taken, last.Taken))
		}
		return []*member{one}
	}
	if apart == "" {
		apart = fmt.Sprintf("took %s and %s for different processes: they are of one build but not a second apart, or do not say when they were taken", close1.Name, close2.Name)
	}
	return c.separate(apart)
}

// separate makes a process of every snapshot. Waits join the one that was
// taken with them, if there is one such, and are of their own else.
func (c *cluster) separate(why string) []*member {
	var all []*member
	for _, s := range c.snapshots {
		m := &member{origin: c.origin, identified: true}
		m.addSnapshot(s)
		all = append(all, m)
	}
	withSnapshot := len(all)
	for _, w := range c.waits {
		var beside []*member
		for _, m := range all[:withSnapshot] {
			if s := m.Process.Snapshots[0]; !w.Taken.IsZero() && s.Taken.Sub(w.Taken).Abs() < oneMoment {
				beside = append(beside, m)
			}
		}
		if len(beside) != 1 {
			beside = []*member{{origin: c.origin, identified: true}}
			all = append(all, beside[0])
		}
		beside[0].Process.Waits = append(beside[0].Process.Waits, w)
		beside[0].inputs = append(beside[0].inputs, w)
	}
	for _, m := range all {
		m.note("%s", why)
	}
	return all
}

// pairWaits adds a cluster's wait profiles, subtracting the first of a kind
// from the last. apart says, in a sentence, why they cannot be of one process.
func (m *member) pairWaits(profiles []*waits.Profile) (paired bool, apart string) {
	for _, kind := range []waits.Kind{waits.Block, waits.Mutex} {
		var cumulative []*waits.Profile
		for _, w := range profiles {
			if w.Kind != kind {
				continue
			}
			m.inputs = append(m.inputs, w)
			if w.Window > 0 {
				m.Process.Waits = append(m.Process.Waits, w)
			} else {
				cumulative = append(cumulative, w)
			}
		}
		sortByTime(cumulative, func(w *waits.Profile) time.Time { return w.Taken })
		if len(cumulative) < 2 {
			m.Process.Waits = append(m.Process.Waits, cumulative...)
			continue
		}
		first, last := cumulative[0], cumulative[len(cumulative)-1]
		if ok, why := waits.Pair(first, last); !ok {
			return false, fmt.Sprintf("took %s and %s for different processes: %s", first.Name, last.Name, why)
		}
		paired = true
		m.Process.Waits = append(m.Process.Waits, waits.Difference(first, last))
		m.note("took %s and %s for one process, %s apart: same build and mappings, nothing negative", first.Name, last.Name, between(first.Taken, last.Taken))
		if n := len(cumulative) - 2; n > 0 {
			m.Process.Between = append(m.Process.Between, neighbours(cumulative)...)
			m.note("of %d %s profiles of one process, the first and the last are used", n+2, kind)
		}
	}
	return paired, ""
}

// neighbours are the differences of cumulative profiles from one to the next.
// Two that are no pair leave a gap.
func neighbours(cumulative []*waits.Profile) []*waits.Profile {
	var out []*waits.Profile
	for i, later := range cumulative[1:] {
		if ok, _ := waits.Pair(cumulative[i], later); ok {
			out = append(out, waits.Difference(cumulative[i], later))
		}
	}
	return out
}

// moments are the first and the last of several snapshots of one format.
func (c *cluster) moments() (first, last *stacks.Snapshot) {
	for _, s := range c.snapshots {
		for _, t := range c.snapshots {
			if s != t && sameView(s, t) && !t.Taken.Before(s.Taken) {
				last = t
			}
		}
		if last != nil {
			return s, last
		}
	}
	return nil, nil
}

// closest finds two snapshots that are of one moment, or of unknown ones. From
// one URL they are of one process however close.
func (c *cluster) closest() (a, b *stacks.Snapshot) {
	if isURL(c.origin) {
		return nil, nil
	}
	for i, s := range c.snapshots {
		for _, t := range c.snapshots[i+1:] {
			if sameView(s, t) && (s.Taken.IsZero() || t.Taken.IsZero() || t.Taken.Sub(s.Taken).Abs() < oneMoment) {
				return s, t
			}
		}
	}
	return nil, nil
}

// sameView reports whether two snapshots would be two moments of one
// process, rather than two views of one moment.
func sameView(s, t *stacks.Snapshot) bool { return s.Format == t.Format && s.Growth == t.Growth }

// addAnonymous places snapshots that have neither identity nor ids: with the
// only process of their origin, unless that has one of their format already
// that might as well be a replica's.
func (b *Bundle) addAnonymous(all []*member) []*member {
	for _, s := range b.Snapshots {
		if s.Process != (stacks.Process{}) || s.HasStates() {
			continue
		}
		origin := b.Origin[s.Name]
		m := only(all, origin, func(*member) bool { return true })
		if m != nil && !isURL(origin) && slices.ContainsFunc(m.Process.Snapshots, func(t *stacks.Snapshot) bool {
			return t.Process == (stacks.Process{}) && sameView(s, t)
		}) {
			m = nil
		}
		if m == nil {
			m = &member{origin: origin}
			all = append(all, m)
		}
		m.addSnapshot(s)
	}
	return all
}

// addAnonymousWaits places wait profiles that do not say whose they are.
func (b *Bundle) addAnonymousWaits(all []*member) []*member {
	for _, w := range b.Waits {
		if w.Process != (stacks.Process{}) {
			continue
		}
		origin := b.Origin[w.Name]
		m := only(all, origin, func(m *member) bool { return true })
		if m == nil {
			m = &member{origin: origin}
			all = append(all, m)
		}
		m.Process.Waits = append(m.Process.Waits, w)
		m.inputs = append(m.inputs, w)
	}
	return all
}

// only is the one process of an origin that fits, nil where there are none or
// several, or the input was given as a file of its own.
func only(all []*member, origin string, fits func(*member) bool) *member {
	var found *member
	for _, m := range all {
		if origin == "" || m.origin != origin || !fits(m) {
			continue
		}
		if found != nil {
			return nil
		}
		found = m
	}
	return found
}

// nameProcesses names a process by its origin where it is alone there, and by
// its binary and first input elsewhere.
func nameProcesses(all []*member) {
	seen := make(map[string]int)
	for _, m := range all {
		m.Name = m.shortName(all)
		seen[m.Name]++
	}
	for _, m := range all {
		if seen[m.Name] > 1 && m.bundle != "" { // the same task in two bundles
			m.Name += " (" + m.bundle + ")"
			seen[m.Name]++
		}
	}
	for _, m := range all {
		if seen[m.Name] > 1 {
			m.Name, _ = m.firstInput()
		}
	}
}

func (m *member) shortName(all []*member) string {
	if m.Instance != "" {
		return m.Instance
	}
	if m.origin != "" && only(all, m.origin, func(*member) bool { return true }) == m {
		return m.origin
	}
	name, id := m.firstInput()
	if isURL(name) {
		return name
	}
	name = filepath.Base(name)
	if id.Binary == "" {
		return name
	}
	binary := strings.TrimSuffix(id.Binary, " (deleted)") // what Linux adds once a file is replaced
	return path.Base(strings.ReplaceAll(binary, `\`, "/")) + " (" + name + ")"
}

// firstInput is the name of m's first input, and the first identity that any has.
func (m *member) firstInput() (name string, id stacks.Process) {
	add := func(input string, p stacks.Process) {
		name = cmp.Or(name, input)
		id = cmp.Or(id, p)
	}
	for _, s := range m.Process.Snapshots {
		add(s.Name, s.Process)
	}
	for _, w := range m.Process.Waits {
		add(w.Name, w.Process)
	}
	return name, id
}

// sortByTime sorts by time, those without one last, in their order.
func sortByTime[T any](all []T, taken func(T) time.Time) {
	slices.SortStableFunc(all, func(a, b T) int {
		s, t := taken(a), taken(b)
		if s.IsZero() != t.IsZero() {
			if s.IsZero() {
				return 1
			}
			return -1
		}
		return s.Compare(t)
	})
}

// between is a time span to a tenth of a second, which is what a reader compares.
func between(a, b time.Time) string {
	return fmt.Sprintf("%.1f s", b.Sub(a).Abs().Seconds())
}
