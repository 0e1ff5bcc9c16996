package ingest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

var (
	gateway = stacks.Process{Binary: "/srv/bin/gateway", BuildID: "b1", Mapping: "0x400000-0x800000@0x0"}
	moved   = stacks.Process{Binary: "/srv/bin/gateway", BuildID: "b1", Mapping: "0x500000-0x900000@0x0"}
	renamed = stacks.Process{Binary: "/srv/bin/gateway (deleted)", BuildID: "b1", Mapping: "0x400000-0x800000@0x0"}
	rebuilt = stacks.Process{Binary: "/srv/bin/gateway", BuildID: "b2", Mapping: "0x400000-0x800000@0x0"}
)

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

func snapshot(name string, p stacks.Process, taken time.Time) *stacks.Snapshot {
	return &stacks.Snapshot{Name: name, Format: stacks.Protobuf, Process: p, Taken: taken}
}

func format(s *stacks.Snapshot, f stacks.Format) *stacks.Snapshot {
	s.Format = f
	return s
}

// dumpOf is a text dump of goroutines first to last, each made by the same function.
func dumpOf(name string, first, last int64, by string) *stacks.Snapshot {
	g := &stacks.Group{Count: last - first + 1, CreatedBy: stacks.NewFrame(by, "/src/app/main.go", 3)}
	for id := first; id <= last; id++ {
		g.Members = append(g.Members, stacks.Member{ID: id, Creator: 1})
	}
	return &stacks.Snapshot{Name: name, Format: stacks.Debug2, Groups: []*stacks.Group{g}}
}

func waited(name string, kind waits.Kind, p stacks.Process, taken time.Time, delay time.Duration) *waits.Profile {
	return &waits.Profile{Name: name, Kind: kind, Process: p, Taken: taken, Sites: []waits.Site{{
		Frames:      []*stacks.Frame{stacks.NewFrame("sync.(*Mutex).Lock", "/go/src/sync/mutex.go", 90)},
		Contentions: int64(delay / time.Millisecond),
		Delay:       delay,
		Wait:        stacks.Wait{Kind: stacks.Lock, Site: -1, LockFrame: -1},
	}}}
}

func over(w *waits.Profile, window time.Duration) *waits.Profile {
	w.Window = window
	return w
}

// describe is a process in one line: "name: snapshots; waits", a difference as "b-a".
func describe(p *Process) string {
	var snaps, ws []string
	for _, s := range p.Snapshots {
		snaps = append(snaps, s.Name)
	}
	for _, w := range p.Waits {
		name := w.Name
		if w.From != "" {
			name = fmt.Sprintf("%s-%s/%v/%v", w.Name, w.From, w.Window, w.Sites[0].Delay)
		}
		ws = append(ws, name)
	}
	return p.Name + ": " + strings.Join(snaps, " ") + "; " + strings.Join(ws, " ")
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	none := stacks.Process{}
	sec := time.Second
	tests := []struct {
		name   string
		bundle Bundle
		origin string   // of every input
		want   []string // by describe
		notes  string   // parts, of all processes in order; "" for no note
	}{
		{name: "nothing"},
		{
			name:   "one snapshot",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{snapshot("/x/g.pb.gz", gateway, at(0))}},
			want:   []string{"gateway (g.pb.gz): /x/g.pb.gz; "},
		},
		{
			name: "two moments of one process",
			bundle: Bundle{
				Snapshots: []*stacks.Snapshot{snapshot("b", gateway, at(7)), snapshot("a", renamed, at(0))},
			},
			want:  []string{"gateway (a): a b; "},
			notes: "took a and b for two moments of one process, 7.0 s apart | replicas of one build look the same | analyse each alone",
		},
		{
			name:   "exactly a second apart",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{snapshot("a", gateway, at(0)), snapshot("b", gateway, at(1))}},
			want:   []string{"gateway (a): a b; "},
			notes:  "1.0 s apart",
		},
		{
			name:   "replicas: less than a second apart",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{snapshot("a", gateway, at(0)), snapshot("b", gateway, at(0.9))}},
			want:   []string{"gateway (a): a; ", "gateway (b): b; "},
			notes:  "took a and b for different processes: they are of one build but not a second apart | took a and b for different processes",
		},
		{
			name:   "from a URL they are one however close",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{snapshot("a", gateway, at(0)), snapshot("b", gateway, at(0.9))}},
			origin: "http://h",
			want:   []string{"http://h: a b; "},
		},
		{
			name:   "no times",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{snapshot("a", gateway, time.Time{}), snapshot("b", gateway, time.Time{})}},
			want:   []string{"gateway (a): a; ", "gateway (b): b; "},
			notes:  "do not say when",
		},
		{
			name: "two views of one moment",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{
				snapshot("a", gateway, at(0)), format(snapshot("leak", gateway, at(0.1)), stacks.Leak)}},
			want: []string{"gateway (a): a leak; "},
		},
		{
			name:   "another mapping or build",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{snapshot("a", gateway, at(0)), snapshot("b", moved, at(7)), snapshot("c", rebuilt, at(9))}},
			want:   []string{"gateway (a): a; ", "gateway (b): b; ", "gateway (c): c; "},
		},
		{
			name: "a pair of each kind, with its snapshots",
			bundle: Bundle{
				Snapshots: []*stacks.Snapshot{snapshot("g1", gateway, at(0)), snapshot("g2", gateway, at(7))},
				Waits: []*waits.Profile{
					waited("block-b", waits.Block, gateway, at(7.1), 90*sec), waited("block-a", waits.Block, gateway, at(0), 20*sec),
					waited("mutex-a", waits.Mutex, gateway, at(0), 10*sec), waited("mutex-b", waits.Mutex, gateway, at(7), 13*sec)},
			},
			want:  []string{"gateway (g1): g1 g2; block-b-block-a/7.1s/1m10s mutex-b-mutex-a/7s/3s"},
			notes: "took block-a and block-b for one process, 7.1 s apart: same build and mappings, nothing negative | took mutex-a and mutex-b for one process",
		},
		{
			name: "three of a kind: first and last",
			bundle: Bundle{Waits: []*waits.Profile{
				waited("1", waits.Block, gateway, at(0), 2*sec), waited("3", waits.Block, gateway, at(9), 8*sec), waited("2", waits.Block, gateway, at(4), 3*sec)}},
			want:  []string{"gateway (3): ; 3-1/9s/6s"},
			notes: "took 1 and 3 for one process | of 3 block profiles of one process, the first and the last are used",
		},
		{
			name: "values that shrink prove replicas",
			bundle: Bundle{
				Snapshots: []*stacks.Snapshot{snapshot("g1", gateway, at(0)), snapshot("g2", gateway, at(60))},
				Waits:     []*waits.Profile{waited("b1", waits.Block, gateway, at(0.2), 9*sec), waited("b2", waits.Block, gateway, at(60.2), 2*sec)},
			},
			want:  []string{"gateway (g1): g1; b1", "gateway (g2): g2; b2"},
			notes: "took b1 and b2 for different processes: | took b1 and b2 for different processes:",
		},
		{
			name: "a pair outweighs snapshots of one moment",
			bundle: Bundle{
				Snapshots: []*stacks.Snapshot{snapshot("g1", gateway, at(0)), snapshot("g2", gateway, at(0.5))},
				Waits:     []*waits.Profile{waited("b1", waits.Block, gateway, at(0), 2*sec), waited("b2", waits.Block, gateway, at(5), 9*sec)},
			},
			want:  []string{"gateway (g1): g1 g2; b2-b1/5s/7s"},
			notes: "took b1 and b2 for one process",
		},
		{
			name: "profiles over a window are not subtracted",
			bundle: Bundle{Waits: []*waits.Profile{
				over(waited("1", waits.Block, gateway, at(0), 2*sec), 5*sec), over(waited("2", waits.Block, gateway, at(9), 8*sec), 5*sec)}},
			want: []string{"gateway (1): ; 1 2"},
		},
		{
			name: "waits join snapshots by build and mapping only",
			bundle: Bundle{
				Snapshots: []*stacks.Snapshot{snapshot("g", gateway, at(0)), snapshot("other", rebuilt, at(0))},
				Waits:     []*waits.Profile{waited("b", waits.Block, rebuilt, at(0), sec), waited("m", waits.Mutex, gateway, at(0), sec), waited("x", waits.Mutex, none, at(0), sec)},
			},
			want: []string{"gateway (g): g; m", "gateway (other): other; b", "x: ; x"},
		},
		{
			name: "a directory's texts join its only process",
			bundle: Bundle{
				Snapshots: []*stacks.Snapshot{format(snapshot("d1", none, time.Time{}), stacks.Debug1), dumpOf("d2", 1, 9, "main.main"), snapshot("g2", gateway, at(7)), snapshot("g1", gateway, at(0))},
				Waits:     []*waits.Profile{waited("text", waits.Mutex, none, time.Time{}, sec)},
			},
			origin: "captures/x",
			want:   []string{"captures/x: g1 g2 d2 d1; text"},
			notes:  "two moments of one process",
		},
		{
			name: "a directory of two processes: texts stay apart",
			bundle: Bundle{
				Snapshots: []*stacks.Snapshot{dumpOf("dir/d2", 1, 9, "main.main"), snapshot("dir/g2", rebuilt, at(7)), snapshot("dir/g1", gateway, at(0))}},
			origin: "dir",
			want:   []string{"d2: dir/d2; ", "gateway (g2): dir/g2; ", "gateway (g1): dir/g1; "},
		},
		{
			name:   "texts alone in a directory",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{format(snapshot("d1", none, time.Time{}), stacks.Debug1), dumpOf("d2", 1, 9, "main.main")}},
			origin: "dir",
			want:   []string{"dir: d2 d1; "},
		},
		{
			name: "two debug=1 texts of a directory may be replicas",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{
				format(snapshot("p/a", none, time.Time{}), stacks.Debug1), format(snapshot("p/b", none, time.Time{}), stacks.Debug1)}},
			origin: "p",
			want:   []string{"a: p/a; ", "b: p/b; "},
		},
		{
			name:   "two dumps of one process",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{dumpOf("x", 1, 10, "main.main"), dumpOf("x#2", 6, 30, "main.main")}},
			want:   []string{"x: x x#2; "},
			notes:  "took x and x#2 for two moments of one process: 5 of 10 goroutines are in both",
		},
		{
			name:   "one goroutine too few in both",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{dumpOf("x", 1, 10, "main.main"), dumpOf("x#2", 7, 30, "main.main")}},
			want:   []string{"x: x; ", "x#2: x#2; "},
			notes:  "took x and x#2 for different processes: only 4 of 10",
		},
		{
			name:   "same ids by other creators",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{dumpOf("x", 1, 10, "main.main"), dumpOf("y", 1, 10, "main.other")}},
			want:   []string{"x: x; ", "y: y; "},
			notes:  "only 0 of 10",
		},
		{
			name:   "dumps without goroutines",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{{Name: "a", Format: stacks.Debug2}, {Name: "b", Format: stacks.Debug2}}},
			want:   []string{"a: a; ", "b: b; "},
			notes:  "only 0 of 0",
		},
		{
			name:   "names that are alike become whole",
			bundle: Bundle{Snapshots: []*stacks.Snapshot{snapshot("pod1/g", gateway, at(0)), snapshot("pod2/g", rebuilt, at(0))}},
			want:   []string{"pod1/g: pod1/g; ", "pod2/g: pod2/g; "},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := tt.bundle
			if tt.origin != "" {
				for _, s := range b.Snapshots {
					b.setOrigin(s.Name, tt.origin)
				}
				for _, w := range b.Waits {
					b.setOrigin(w.Name, tt.origin)
				}
			}
			var got, notes []string
			for _, p := range b.Processes() {
				got = append(got, describe(p))
				notes = append(notes, p.Notes...)
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if tt.notes == "" && len(notes) > 0 {
				t.Errorf("notes %q, want none", notes)
			}
			wantParts(t, strings.Join(notes, "\n"), tt.notes)
		})
	}
}

// Two directories with profiles of one build are two processes: they were given apart.
func TestProcessesOfTwoDirectories(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	for i, dir := range []string{one, two} {
		write(t, dir, "goroutine.pb.gz", goroutineProto(t, "b1", at(float64(60*i)), 7))
		write(t, dir, "block.pb.gz", contentionProto(t, "b1", at(float64(60*i)), time.Second))
	}
	ps := Load(t.Context(), []string{one, two}, Options{}).Processes()
	if len(ps) != 2 || ps[0].Name != one || ps[1].Name != two {
		t.Fatalf("got %d processes", len(ps))
	}
	for _, p := range ps {
		if len(p.Snapshots) != 1 || len(p.Waits) != 1 || len(p.Notes) != 0 {
			t.Errorf("got %s, notes %q", describe(p), p.Notes)
		}
	}
}

// Waits given apart join the snapshots of their build where those are of one
// place, and stay alone where they could belong to either.
func TestProcessesAcrossOrigins(t *testing.T) {
	t.Parallel()
	load := func(snapshots ...string) string {
		b := Bundle{Waits: []*waits.Profile{waited("a/block", waits.Block, gateway, at(0), time.Second), waited("c/mutex", waits.Mutex, gateway, at(0), time.Second)}}
		b.setOrigin("a/block", "a")
		b.setOrigin("c/mutex", "c")
		for i, dir := range snapshots {
			b.Snapshots = append(b.Snapshots, snapshot(dir+"/g", gateway, at(float64(9*i))))
			b.setOrigin(dir+"/g", dir)
		}
		var got []string
		for _, p := range b.Processes() {
			got = append(got, describe(p))
		}
		return strings.Join(got, "\n")
	}
	if got, want := load("b"), "b: b/g; a/block c/mutex"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := load("b", "d"), "b: b/g; \nd: d/g; \na: ; a/block\nc: ; c/mutex"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A log of many small dumps costs no more than a few comparisons each, and a
// dump still finds the process that was dumped a while ago.
func TestProcessesOfManyDumps(t *testing.T) {
	t.Parallel()
	b := &Bundle{}
	const dumps, size = 1000, 600
	for i := range int64(dumps) {
		s := dumpOf(fmt.Sprintf("log#%d", i+1), i*size+1, (i+1)*size, "main.main")
		if i == maxCompared+2 {
			s = dumpOf("again", 2*size+1, 3*size, "main.main")
		}
		b.Snapshots = append(b.Snapshots, s)
	}
	compared := 0
	for _, p := range b.Processes() {
		compared++
		if want := fmt.Sprintf("log#%d", compared); p.Name != want && compared <= maxCompared+2 {
			t.Fatalf("process %d is %s, want %s", compared, p.Name, want)
		}
		if names := describe(p); compared == 3 && names != "log#3: log#3 again; " {
			t.Errorf("got %s", names)
		}
	}
	if compared != dumps-1 {
		t.Errorf("%d processes, want %d", compared, dumps-1)
	}
}

func BenchmarkProcessesOfManyDumps(b *testing.B) {
	bundle := &Bundle{}
	for i := range int64(1000) {
		bundle.Snapshots = append(bundle.Snapshots, dumpOf(fmt.Sprintf("log#%d", i+1), i+1, i+600, fmt.Sprintf("main.f%d", i)))
	}
	for b.Loop() {
		bundle.Processes()
	}
}

// TestProcessesNamed: what the list of a bundle says of whose a profile is goes
// before all likeness, and without it nothing changes.
func TestProcessesNamed(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	var list []string
	put := func(instance, file string, data []byte) {
		name := "profiles/" + instance + "/" + file
		write(t, dir, name, data)
		list = append(list, fmt.Sprintf(`{"file": %q, "job": "gateway", "instance": %q}`, name, instance))
	}
	// Alike to a bit, of one build and one moment.
	for _, instance := range []string{"g-1", "g-2"} {
		put(instance, "goroutine-1.pb.gz", goroutineProto(t, "b1", start, 100))
		put(instance, "goroutine-2.pb.gz", goroutineProto(t, "b1", start.Add(100*time.Millisecond), 100))
		put(instance, "dump.txt", []byte(dumpText))
		put(instance, "block-1.pb.gz", contentionProto(t, "b1", start, time.Second))
		put(instance, "block-2.pb.gz", contentionProto(t, "b1", start.Add(5*time.Second), 3*time.Second))
	}
	// It began anew below its name.
	put("g-3", "block-1.pb.gz", contentionProto(t, "b1", start, 3*time.Second))
	put("g-3", "block-2.pb.gz", contentionProto(t, "b1", start.Add(5*time.Second), time.Second))
	// Not in the list.
	write(t, dir, "profiles/other/goroutine.pb.gz", goroutineProto(t, "b1", start, 7))
	manifest := func(taken string) string {
		return `{"schema": "` + BundleSchema + `", "partial": "no room", "taken": [` + taken + `],
			"events": [{"at": "2026-03-01T12:00:05Z", "name": "first_kill", "text": "g-2"}, {"at": "2026-03-01T12:00:01Z", "name": "onset", "text": "surge"}],
			"missing": [{"what": "mutex", "reason": "no answer", "instance": "g-1"}, {"what": "dump", "reason": "too many"}]}`
	}
	write(t, dir, "bundle.json", []byte(manifest(strings.Join(list, ",\n"))))

	b := Load(t.Context(), []string{dir}, Options{})
	if len(b.Failures) > 0 {
		t.Fatal(b.Failures)
	}
	if want := []string{"the bundle is partial: no room", "mutex of g-1 is missing: no answer", "dump is missing: too many"}; !slices.Equal(b.Warnings, want) {
		t.Errorf("warnings %q, want %q", b.Warnings, want)
	}
	if want := []Event{{start.Add(time.Second), "onset", "surge"}, {start.Add(5 * time.Second), "first_kill", "g-2"}}; !slices.Equal(b.Events, want) {
		t.Errorf("events %v, want %v", b.Events, want)
	}
	var got []string
	for _, p := range b.Processes() {
		text := fmt.Sprintf("%s is %s/%s: %d snapshots", strings.TrimPrefix(p.Name, dir), p.Job, p.Instance, len(p.Snapshots))
		for _, w := range p.Waits {
			text += fmt.Sprintf(", %v over %v", w.Sites[0].Delay, w.Window)
		}
		got = append(got, fmt.Sprintf("%s, %d notes", text, len(p.Notes)))
	}
	want := []string{
		"g-1 is gateway/g-1: 3 snapshots, 2s over 5s, 0 notes",
		"g-2 is gateway/g-2: 3 snapshots, 2s over 5s, 0 notes",
		"/profiles/other is /: 1 snapshots, 0 notes",
		"g-3 is gateway/g-3: 0 snapshots, 1s over 0s, 1 notes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("processes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	write(t, dir, "bundle.json", []byte(manifest("")))
	for _, p := range Load(t.Context(), []string{dir}, Options{}).Processes() {
		if p.Job != "" || p.Instance != "" {
			t.Errorf("%s is of job %q and instance %q, which nothing says", p.Name, p.Job, p.Instance)
		}
	}
}

// TestProcessesOfTwoBundles: bundles that name the same task have two processes of
// it, which are told apart by their bundles.
func TestProcessesOfTwoBundles(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	var dirs []string
	for i, name := range []string{"day", "night"} {
		write(t, dir, name+"/profiles/goroutine.pb.gz", goroutineProto(t, "b1", start.Add(time.Duration(i)*time.Hour), 100))
		write(t, dir, name+"/bundle.json", []byte(`{"schema": "`+BundleSchema+`", "taken": [{"file": "profiles/goroutine.pb.gz"}],
			"processes": [{"folder": "profiles", "job": "shop", "instance": "shop:80"}]}`))
		dirs = append(dirs, filepath.Join(dir, name))
	}
	var got []string
	for _, p := range Load(t.Context(), dirs, Options{}).Processes() {
		got = append(got, fmt.Sprintf("%s: %s/%s", p.Name, p.Job, p.Instance))
	}
	if want := []string{"shop:80 (" + dirs[0] + "): shop/shop:80", "shop:80 (" + dirs[1] + "): shop/shop:80"}; !slices.Equal(got, want) {
		t.Errorf("processes %q, want %q", got, want)
	}
}
