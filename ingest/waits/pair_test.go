package waits

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// The expected figures are those of go tool pprof -top -unit=ns -base A B.
func TestDifferenceCapture(t *testing.T) {
	tests := []struct {
		kind       Kind
		window     time.Duration
		n          int
		byLeaf     map[string]time.Duration
		sites      []string
		waitingGet float64 // goroutines that waited at main.(*cache).get on average
	}{
		{Block, 7125949561, 15, map[string]time.Duration{
			"runtime.selectgo": 3117986839444, "runtime.chanrecv2": 7027363038, "runtime.chanrecv1": 24876261,
			"sync.(*Mutex).Lock": 1541742436357,
			"sync.(*Cond).Wait":  8382209, "sync.(*WaitGroup).Wait": 854655,
		}, []string{
			"2407 1561601053227 idle net/http.(*persistConn).writeLoop",
			"2752 1549382763128 socket net/http.(*persistConn).roundTrip",
			"1029 1150362764054 lock main.(*cache).get",
			"349 391378763172 lock main.(*cache).size",
		}, 161.4},
		{Mutex, 7126136121, 5, map[string]time.Duration{
			"sync.(*Mutex).Unlock": 1145056008994, "runtime.unlock": 178291,
		}, []string{
			"1040 1143179130373 lock main.(*cache).get",
			"370 1876766606 lock main.(*cache).size",
		}, 160.4},
	}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			a, b := readFile(t, "cache-fill-"+string(tt.kind)+"-a.pb.gz"), readFile(t, "cache-fill-"+string(tt.kind)+"-b.pb.gz")
			if ok, why := Pair(a, b); !ok {
				t.Fatalf("no pair: %s", why)
			}
			d := Difference(a, b)
			if d.Kind != tt.kind || d.Window != tt.window || d.From != a.Name || d.Name != b.Name || !d.Taken.Equal(b.Taken) || len(d.Sites) != tt.n || d.Dropped != 0 {
				t.Errorf("got %s over %v from %s, %d sites, %d dropped, want %s over %v, %d sites", d.Kind, d.Window, d.From, len(d.Sites), d.Dropped, tt.kind, tt.window, tt.n)
			}
			got := byLeaf(d)
			for leaf, want := range tt.byLeaf {
				if got[leaf] != want {
					t.Errorf("%s: %d ns, want %d", leaf, got[leaf], want)
				}
			}
			if lines := siteLines(d); !slices.Equal(lines[:len(tt.sites)], tt.sites) {
				t.Errorf("sites:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(tt.sites, "\n"))
			}
			i := slices.IndexFunc(d.Sites, func(s Site) bool { return siteName(&s) == "main.(*cache).get" })
			if c := d.Concurrency(&d.Sites[i]); math.Abs(c-tt.waitingGet) > 0.1 {
				t.Errorf("%.2f goroutines waited at get, want %.1f", c, tt.waitingGet)
			}
			if len(a.Sites) == len(b.Sites) || a.Sites[0].Delay > b.Sites[0].Delay {
				t.Error("the inputs were changed")
			}
		})
	}
}

func TestPair(t *testing.T) {
	const build = "238c180b729e145e10afedff44c06d6a140af232"
	tests := []struct {
		name string
		edit func(a, b *Profile)
		want string // part of the reason; "" for a pair
	}{
		{"as read", func(a, b *Profile) {}, ""},
		{"reversed", func(a, b *Profile) { *a, *b = *b, *a }, "the second was taken before the first"},
		{"same file twice", func(a, b *Profile) { *b = *a }, "both were taken at the same moment"},
		{"other kind", func(a, b *Profile) { b.Kind = Mutex }, "one is a block profile, the other a mutex profile"},
		{"other build", func(a, b *Profile) { b.Process.BuildID = "ffff" }, "different builds (238c180b729e145e and ffff)"},
		{"same build, renamed binary", func(a, b *Profile) { b.Process.Binary = "/proc/1/exe" }, ""},
		{"no build, same binary", func(a, b *Profile) { b.Process.BuildID = "" }, ""},
		{"no build, other binary", func(a, b *Profile) { b.Process = a.Process; b.Process.BuildID = ""; b.Process.Binary = "/bin/other" }, "different programs"},
		{"other addresses", func(a, b *Profile) { b.Process.Mapping = "0x500000-0x918000@0x0" }, "loaded at different addresses"},
		{"no process", func(a, b *Profile) { a.Process.BuildID, a.Process.Binary, a.Process.Mapping = "", "", "" }, "does not say which process"},
		{"no time", func(a, b *Profile) { b.Taken = time.Time{} }, "does not say when"},
		{"a delta", func(a, b *Profile) { b.Window = time.Second }, "a difference already"},
		{"restart: less delay", func(a, b *Profile) { b.Sites[0].Delay = a.Sites[0].Delay / 2 }, "net/http.(*persistConn).writeLoop waited 12m50.938069s in the earlier and 6m25.469035s in the later: the process was restarted"},
		{"restart: fewer contentions", func(a, b *Profile) { b.Sites[3].Contentions = 1 }, "the process was restarted"},
		{"restart: a stack is gone", func(a, b *Profile) { b.Sites = b.Sites[1:] }, "and 0s in the later"},
		{"noise of the tick rate", func(a, b *Profile) { b.Sites[0].Delay = a.Sites[0].Delay - a.Sites[0].Delay/200 }, ""},
		{"beyond that noise", func(a, b *Profile) { b.Sites[0].Delay = a.Sites[0].Delay - a.Sites[0].Delay/50 }, "restarted"},
		{"one contention fewer", func(a, b *Profile) { b.Sites[0].Contentions = a.Sites[0].Contentions - 1 }, ""},
		{"two contentions fewer", func(a, b *Profile) { b.Sites[0].Contentions = a.Sites[0].Contentions - 2 }, "restarted"},
		{"an empty one before", func(a, b *Profile) { a.Sites = nil }, ""},
		{"an empty one of no kind before", func(a, b *Profile) { a.Sites, a.Name = nil, "x.pb.gz" }, "says neither block nor mutex"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := readFile(t, "cache-fill-block-a.pb.gz"), readFile(t, "cache-fill-block-b.pb.gz")
			if a.Process.BuildID != build {
				t.Fatalf("build %s", a.Process.BuildID)
			}
			tt.edit(a, b)
			ok, why := Pair(a, b)
			if ok != (tt.want == "") || !strings.Contains(why, tt.want) || ok && why != "" {
				t.Errorf("got %v, %q, want the reason %q", ok, why, tt.want)
			}
		})
	}
}

// Negative remainders are counted, never shown.
func TestDifferenceDrops(t *testing.T) {
	read := func(name string, seconds int64, samples ...*profile.Sample) *Profile {
		p, err := FromProfile(name, &profile.Profile{SampleType: typesOf("contentions/count delay/nanoseconds"), TimeNanos: seconds * 1e9, Sample: samples})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	lock := "sync.(*Mutex).Lock"
	a := read("a", 10, sampleOf([]int64{5, 500}, lock, "main.same"), sampleOf([]int64{5, 500}, lock, "main.grows"),
		sampleOf([]int64{5, 500}, lock, "main.shrinks"), sampleOf([]int64{5, 500}, lock, "main.gone"))
	b := read("b", 13, sampleOf([]int64{5, 500}, lock, "main.same"), sampleOf([]int64{7, 900}, lock, "main.grows"),
		sampleOf([]int64{6, 499}, lock, "main.shrinks"), sampleOf([]int64{1, 800}, lock, "main.new"))
	d := Difference(a, b)
	if want := []string{"1 800 lock main.new", "2 400 lock main.grows"}; !slices.Equal(siteLines(d), want) || d.Dropped != 2 || d.Window != 3*time.Second {
		t.Errorf("sites %q, %d dropped, window %v, want %q, 2, 3s", siteLines(d), d.Dropped, d.Window, want)
	}
	if d := Difference(b, a); d.Window != 0 {
		t.Errorf("window %v of a reversed pair, want 0", d.Window)
	}
}
