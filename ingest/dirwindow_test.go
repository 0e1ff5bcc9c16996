package ingest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/waits"
)

// Of a bundle whose profiles come and go the newest of each process and kind are read where it
// has more than are read at once, and its list has whose a folder is.
func TestLoadWindow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "bundle.json", []byte(`{"schema":"contend.bundle/v1","window":"15m0s","taken":[],"processes":[
		{"folder":"profiles/a","job":"shop","instance":"first"},{"folder":"profiles/b","job":"shop","instance":"second"}]}`))
	var all []string
	add := func(folder, kind string, n int) {
		for i := range n {
			taken := t0.Add(time.Duration(i) * time.Second)
			data := goroutineProto(t, "b1", taken, 3)
			if kind == "block" {
				data = contentionProto(t, "b1", taken, time.Second)
			}
			all = append(all, write(t, dir, filepath.Join("profiles", folder, kind+"-"+taken.UTC().Format("20060102T150405.000Z")+".pb.gz"), data))
		}
	}
	add("a", "block", 5)
	add("a", "goroutine", 700)
	add("b", "goroutine", 600)
	b := Load(t.Context(), []string{dir}, Options{})
	if len(b.Failures)+len(b.Unused) > 0 || len(b.Snapshots) != maxNewest-5 || len(b.Waits) != 5 {
		t.Errorf("%d snapshots and %d waits, failures %v, unused %v; want %d and 5", len(b.Snapshots), len(b.Waits), b.Failures, b.Unused, maxNewest-5)
	}
	want := []string{fmt.Sprintf("%s has 315 profiles more than the 990 that are read at once: of each process and kind the newest were read", dir)}
	if !slices.Equal(b.Warnings, want) {
		t.Errorf("warnings %q, want %q", b.Warnings, want)
	}
	var got []string
	for _, p := range b.Processes() {
		first, last := p.Snapshots[0].Taken, p.Snapshots[len(p.Snapshots)-1].Taken
		got = append(got, fmt.Sprintf("%s/%s: %d, of %v to %v", p.Job, p.Instance, len(p.Snapshots), first.Sub(t0), last.Sub(t0)))
	}
	if want := []string{"shop/first: 493, of 3m27s to 11m39s", "shop/second: 492, of 1m48s to 9m59s"}; !slices.Equal(got, want) {
		t.Errorf("processes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// No more than are read at once: all of them.
	small := t.TempDir()
	write(t, small, "bundle.json", []byte(`{"schema":"contend.bundle/v1","window":"15m0s","taken":[]}`))
	write(t, small, "profiles/a/goroutine-1.pb.gz", goroutineProto(t, "b1", t0, 3))
	if b := Load(t.Context(), []string{small}, Options{}); len(b.Snapshots) != 1 || len(b.Warnings)+len(b.Failures) > 0 {
		t.Errorf("%d snapshots, warnings %q, failures %v", len(b.Snapshots), b.Warnings, b.Failures)
	}
}

// Of what a process of a known name pushed over intervals the last is of now; the first, of
// no known time, is only used where there is nothing else.
func TestPushedWaits(t *testing.T) {
	t.Parallel()
	sec := time.Second
	cumulative := func(name string, kind waits.Kind, s float64, delay time.Duration) *waits.Profile {
		return waited(name, kind, gateway, at(s), delay)
	}
	for _, tt := range []struct {
		name    string
		pushed  []*waits.Profile
		waits   string
		between string
	}{
		{"intervals", []*waits.Profile{over(cumulative("2", waits.Block, 30, sec), 15*sec), over(cumulative("3", waits.Block, 45, sec), 15*sec), over(cumulative("1", waits.Block, 15, sec), 15*sec)}, "3", "1 2"},
		{"the first of a session alone", []*waits.Profile{cumulative("1", waits.Block, 15, sec)}, "1", ""},
		{"the first and an interval", []*waits.Profile{cumulative("1", waits.Block, 15, 9*sec), over(cumulative("2", waits.Block, 30, sec), 15*sec)}, "2", ""},
		{"an interval and the first of the next session", []*waits.Profile{over(cumulative("1", waits.Block, 15, sec), 15*sec), cumulative("2", waits.Block, 30, sec)}, "1 2", ""},
		{"each kind for itself", []*waits.Profile{cumulative("b", waits.Block, 15, sec), over(cumulative("m", waits.Mutex, 30, sec), 15*sec)}, "b m", ""},
		{"two cumulative ones are subtracted", []*waits.Profile{cumulative("1", waits.Block, 15, sec), cumulative("2", waits.Block, 30, 2*sec)}, "2-1/15s/1s", ""},
	} {
		b := Bundle{Waits: tt.pushed, Instances: map[string]Instance{}}
		for _, w := range tt.pushed {
			b.Instances[w.Name] = Instance{"dir", "shop", "a"}
		}
		processes := b.Processes()
		if len(processes) != 1 {
			t.Fatalf("%s: %d processes", tt.name, len(processes))
		}
		between := &Process{Waits: processes[0].Between}
		if got, want := describe(processes[0]), "a: ; "+tt.waits; got != want {
			t.Errorf("%s: %q, want %q", tt.name, got, want)
		}
		if got, want := describe(between), ": ; "+tt.between; got != want {
			t.Errorf("%s: before them %q, want %q", tt.name, got, want)
		}
	}
}
