package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

const captures = "../detect/all/testdata/captures/"

// permutations of the inputs' order; a result may not depend on it.
func permutations(args []string) [][]string {
	if len(args) < 2 {
		return [][]string{args}
	}
	var all [][]string
	for i := range args {
		for _, p := range permutations(slices.Delete(slices.Clone(args), i, i+1)) {
			all = append(all, append([]string{args[i]}, p...))
		}
	}
	return all
}

// processesOf loads captures' files, each named on its own, and says which
// make a process: "file file | file", sorted, and the notes that likeness
// gave, sorted.
func processesOf(t *testing.T, args []string) (processes, notes string) {
	t.Helper()
	paths := make([]string, len(args))
	for i, a := range args {
		paths[i] = captures + a
	}
	b := Load(t.Context(), paths, Options{})
	if len(b.Failures) > 0 {
		t.Fatalf("failures: %v", b.Failures)
	}
	var all, said []string
	for _, p := range b.Processes() {
		var names []string
		for _, s := range p.Snapshots {
			names = append(names, strings.TrimPrefix(s.Name, captures))
		}
		for _, w := range p.Waits {
			names = append(names, strings.TrimPrefix(w.Name, captures))
		}
		slices.Sort(names)
		all = append(all, strings.Join(names, " "))
		for _, n := range p.Notes {
			if strings.Contains(n, ".txt") && !strings.Contains(n, "by id and creator") {
				said = append(said, strings.ReplaceAll(n, captures, ""))
			}
		}
		if len(p.Name) > 60 || strings.Contains(p.Name, "/") {
			t.Errorf("name %q is long", p.Name)
		}
	}
	slices.Sort(all)
	slices.Sort(said)
	return strings.Join(all, " | "), strings.Join(said, "\n")
}

func TestLooseDumpsOfCaptures(t *testing.T) {
	t.Parallel()
	const (
		cache = "cache-fill/"
		pq    = "pq-two-conns/"
		each  = ": at least %d%% of the goroutines of each, outside the standard library, stand in stacks that both have"
	)
	dump, text, pb := "goroutine.debug2.txt.gz", "goroutine.debug1.txt", "goroutine.pb.gz"
	tests := []struct {
		name  string
		args  []string
		want  string
		notes string
	}{
		{
			"a lock convoy's dump and profile",
			[]string{cache + dump, cache + pb},
			"cache-fill/goroutine.debug2.txt.gz cache-fill/goroutine.pb.gz",
			"took cache-fill/goroutine.debug2.txt.gz to be of the process of cache-fill/goroutine.pb.gz" + fmt.Sprintf(each, 99),
		},
		{
			"with a pair of block profiles",
			[]string{cache + dump, cache + pb, cache + "block-a.pb.gz", cache + "block-b.pb.gz"},
			"cache-fill/block-b.pb.gz cache-fill/goroutine.debug2.txt.gz cache-fill/goroutine.pb.gz",
			"took cache-fill/goroutine.debug2.txt.gz to be of the process of cache-fill/goroutine.pb.gz" + fmt.Sprintf(each, 99),
		},
		{
			"a pool's dump and profile with a pair of mutex profiles",
			[]string{pq + dump, pq + pb, pq + "mutex-a.pb.gz", pq + "mutex-b.pb.gz"},
			"pq-two-conns/goroutine.debug2.txt.gz pq-two-conns/goroutine.pb.gz pq-two-conns/mutex-b.pb.gz",
			"took pq-two-conns/goroutine.debug2.txt.gz to be of the process of pq-two-conns/goroutine.pb.gz" + fmt.Sprintf(each, 99),
		},
		{
			"block profiles only",
			[]string{pq + dump, pq + "block-a.pb.gz", pq + "block-b.pb.gz"},
			"pq-two-conns/block-b.pb.gz pq-two-conns/goroutine.debug2.txt.gz",
			"took pq-two-conns/goroutine.debug2.txt.gz to be of the process of pq-two-conns/block-b.pb.gz: at least 99% of its goroutines outside the standard library, and of the waiting in the profile, are in functions that both have",
		},
		{
			"another program's block profiles",
			[]string{cache + dump, pq + "block-a.pb.gz", pq + "block-b.pb.gz"},
			"cache-fill/goroutine.debug2.txt.gz | pq-two-conns/block-b.pb.gz",
			"",
		},
		{
			"two texts and no profile",
			[]string{cache + dump, cache + text},
			"cache-fill/goroutine.debug1.txt cache-fill/goroutine.debug2.txt.gz",
			"",
		},
		{
			"two texts and a profile",
			[]string{pq + dump, pq + text, pq + pb},
			"pq-two-conns/goroutine.debug1.txt pq-two-conns/goroutine.debug2.txt.gz pq-two-conns/goroutine.pb.gz",
			"",
		},
		{
			"another program's profile",
			[]string{cache + dump, pq + pb},
			"cache-fill/goroutine.debug2.txt.gz | pq-two-conns/goroutine.pb.gz",
			"took cache-fill/goroutine.debug2.txt.gz and pq-two-conns/goroutine.pb.gz for different processes: only 49% of the goroutines outside the standard library stand in stacks that both have",
		},
		{
			"two programs, dump and profile of each",
			[]string{cache + dump, pq + pb, cache + pb, pq + dump},
			"cache-fill/goroutine.debug2.txt.gz cache-fill/goroutine.pb.gz | pq-two-conns/goroutine.debug2.txt.gz pq-two-conns/goroutine.pb.gz",
			"took cache-fill/goroutine.debug2.txt.gz to be of the process of cache-fill/goroutine.pb.gz" + fmt.Sprintf(each, 99) +
				"\ntook pq-two-conns/goroutine.debug2.txt.gz to be of the process of pq-two-conns/goroutine.pb.gz" + fmt.Sprintf(each, 99),
		},
		{
			"idle connections look the same in every program",
			[]string{"healthy-idle-conns/" + dump, "healthy-idle-conns/" + pb},
			"healthy-idle-conns/goroutine.debug2.txt.gz | healthy-idle-conns/goroutine.pb.gz",
			"left healthy-idle-conns/goroutine.debug2.txt.gz a process of its own: too few of its goroutines are outside the standard library to tell whether it is of the process of healthy-idle-conns/goroutine.pb.gz",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, args := range permutations(tt.args) {
				got, notes := processesOf(t, args)
				if got != tt.want {
					t.Errorf("%s: got %s, want %s", args, got, tt.want)
				}
				if tt.notes != "" && notes != tt.notes {
					t.Errorf("%s: notes\n%s\nwant\n%s", args, notes, tt.notes)
				}
			}
		})
	}
}

// stacked gives a snapshot counts goroutines in each of main.f0, main.f1, ….
func stacked(s *stacks.Snapshot, counts ...int64) *stacks.Snapshot {
	s.Groups = nil
	for i, n := range counts {
		g := &stacks.Group{Count: n, Frames: []*stacks.Frame{
			stacks.NewFrame("sync.(*Mutex).Lock", "/go/src/sync/mutex.go", 90),
			stacks.NewFrame(fmt.Sprintf("main.f%d", i), "/src/app/main.go", i),
		}}
		for id := range n {
			// Ids of one snapshot and another never meet.
			g.Members = append(g.Members, stacks.Member{ID: int64(len(s.Name))*1e6 + int64(i)*1e4 + id, Creator: 1})
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}

func TestLooseDumps(t *testing.T) {
	t.Parallel()
	replica := func(name string, p stacks.Process, counts ...int64) *stacks.Snapshot {
		return stacked(snapshot(name, p, at(0)), counts...)
	}
	dump := func(name string, counts ...int64) *stacks.Snapshot {
		return stacked(&stacks.Snapshot{Name: name, Format: stacks.Debug2}, counts...)
	}
	text := func(name string, counts ...int64) *stacks.Snapshot {
		return stacked(&stacks.Snapshot{Name: name, Format: stacks.Debug1}, counts...)
	}
	tests := []struct {
		name   string
		bundle Bundle
		want   []string
		notes  string
	}{
		{
			"just enough in common",
			Bundle{Snapshots: []*stacks.Snapshot{dump("d", 75, 25), replica("g", gateway, 75)}},
			[]string{"gateway (g): g d; "},
			"took d to be of the process of g: at least 75% of the goroutines of each, outside the standard library, stand in stacks that both have",
		},
		{
			"just too little in common",
			Bundle{Snapshots: []*stacks.Snapshot{dump("d", 74, 26), replica("g", gateway, 75)}},
			[]string{"d: d; ", "gateway (g): g; "},
			"took d and g for different processes: only 74% of the goroutines outside the standard library stand in stacks that both have",
		},
		{
			"the profile has more than the dump",
			Bundle{Snapshots: []*stacks.Snapshot{dump("d", 75), replica("g", gateway, 74, 26)}},
			[]string{"d: d; ", "gateway (g): g; "},
			"only 74%",
		},
		{
			"three times as many",
			Bundle{Snapshots: []*stacks.Snapshot{dump("d", 300), replica("g", gateway, 100)}},
			[]string{"gateway (g): g d; "},
			"at least 100%",
		},
		{
			"more than three times as many",
			Bundle{Snapshots: []*stacks.Snapshot{dump("d", 301), replica("g", gateway, 100)}},
			[]string{"d: d; ", "gateway (g): g; "},
			"took d and g for different processes: 301 goroutines against 100",
		},
		{
			"replicas that look the same",
			Bundle{Snapshots: []*stacks.Snapshot{replica("g1", gateway, 81, 19), replica("g2", moved, 100), dump("d", 81, 19)}},
			[]string{"gateway (g1): g1; ", "gateway (g2): g2; ", "d: d; "},
			"left d a process of its own: it is like g1 (100%) and like g2 (81%), which may be replicas; analyse it with the profiles of its process alone",
		},
		{
			"one replica is clearly closer",
			Bundle{Snapshots: []*stacks.Snapshot{replica("g2", moved, 100), replica("g1", gateway, 80, 20), dump("d", 80, 20)}},
			[]string{"gateway (g2): g2; ", "gateway (g1): g1 d; "},
			"took d to be of the process of g1: at least 100%",
		},
		{
			"one replica is stuck as the dump is",
			Bundle{Snapshots: []*stacks.Snapshot{replica("g1", gateway, 1, 0, 99), replica("g2", moved, 1, 99), dump("d", 2, 80)}},
			[]string{"gateway (g1): g1; ", "gateway (g2): g2 d; "},
			"took d to be of the process of g2",
		},
		{
			"dumps of two replicas and one profile",
			Bundle{Snapshots: []*stacks.Snapshot{dump("d", 80), dump("d2", 90), replica("g", gateway, 85)}},
			[]string{"d: d; ", "d2: d2; ", "gateway (g): g; "},
			"left d a process of its own: another dump, of another process as far as can be told, is like g too; analyse each dump with the profiles of its process alone | took d and d2 for different processes | left d2",
		},
		{
			"two debug=1 texts may be replicas",
			Bundle{Snapshots: []*stacks.Snapshot{text("t1", 80), text("t2", 90)}},
			[]string{"t1: t1; ", "t2: t2; "},
			"",
		},
		{
			"a text that may be of either dump",
			Bundle{Snapshots: []*stacks.Snapshot{text("t", 80), dump("d", 80), dump("d2", 80)}},
			[]string{"t: t; ", "d: d; ", "d2: d2; "},
			"left t a process of its own: it is like d (100%) and like d2 (100%)",
		},
		{
			"a process of waits is named by its binary",
			Bundle{
				Snapshots: []*stacks.Snapshot{dump("x/d", 80)},
				Waits:     []*waits.Profile{waitedIn("main.f0", "x/b")},
			},
			[]string{"gateway (d): x/d; x/b"},
			"took x/d to be of the process of x/b: at least 100% of its goroutines outside the standard library, and of the waiting in the profile, are in functions that both have",
		},
		{
			"waits elsewhere",
			Bundle{
				Snapshots: []*stacks.Snapshot{dump("d", 80)},
				Waits:     []*waits.Profile{waitedIn("main.f1", "b")},
			},
			[]string{"d: d; ", "gateway (b): ; b"},
			"took d and b for different processes: only 0% of the goroutines outside the standard library, or of the waiting, is in functions that both have",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got, notes []string
			for _, p := range tt.bundle.Processes() {
				got = append(got, describe(p))
				notes = append(notes, p.Notes...)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if tt.notes == "" && len(notes) > 0 {
				t.Errorf("notes %q, want none", notes)
			}
			wantParts(t, strings.Join(notes, "\n"), tt.notes)
		})
	}
}

// waitedIn is a block profile of the gateway whose one site is in a function.
func waitedIn(function, name string) *waits.Profile {
	w := waited(name, waits.Block, gateway, at(0), time.Second)
	w.Sites[0].Frames = append(w.Sites[0].Frames, stacks.NewFrame(function, "/src/app/main.go", 3))
	return w
}
