package waits

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func parseFile(t testing.TB, file string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func readFile(t testing.TB, file string) *Profile {
	t.Helper()
	p, err := FromProfile(file, parseFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// siteLine is a site in one line: contentions, delay in ns, wait, function.
func siteLine(s Site) string {
	return fmt.Sprintf("%d %d %s %s", s.Contentions, s.Delay.Nanoseconds(), s.Wait.Kind, siteName(&s))
}

func siteLines(p *Profile) []string {
	var lines []string
	for _, s := range p.Sites {
		lines = append(lines, siteLine(s))
	}
	return lines
}

// byLeaf sums delays by leaf function, as go tool pprof -top does.
func byLeaf(p *Profile) map[string]time.Duration {
	sums := make(map[string]time.Duration)
	for _, s := range p.Sites {
		sums[s.Frames[0].Func] += s.Delay
	}
	return sums
}

func TestFromProfileFiles(t *testing.T) {
	tests := []struct {
		file  string
		kind  Kind
		taken time.Time
		sites []string // the first of them
		n     int
	}{
		{"cockroach-cryptorand-mutex.pb.gz", Mutex, time.Date(2019, 3, 15, 12, 26, 40, 0, time.UTC), []string{
			"30122 77020000000 lock crypto/rand.(*devReader).Read",
			"4120 9940000000 lock github.com/cockroachdb/cockroach/pkg/storage.(*Replica).withRaftGroup",
			"3302 7121000000 lock github.com/cockroachdb/cockroach/pkg/util/hlc.(*Clock).Now",
			"2210 5888000000 lock github.com/cockroachdb/cockroach/pkg/util/metric.(*Histogram).RecordValue",
		}, 4},
		{"sentry-otel-spanmap-block.pb.gz", Block, time.Date(2025, 7, 16, 8, 0, 0, 9, time.UTC), []string{
			"1204 2402118000000 idle net/http.(*persistConn).writeLoop",
			"640 1920331000000 select go.opentelemetry.io/otel/sdk/trace.(*batchSpanProcessor).processQueue",
			"58 610000000000 chan github.com/getsentry/sentry-go.(*HTTPTransport).worker",
			"38211 412880000000 rlock github.com/getsentry/sentry-go/otel.(*SentrySpanMap).Get",
			"35120 391220000000 lock github.com/getsentry/sentry-go/otel.(*SentrySpanMap).Set",
			"31002 377004000000 lock github.com/getsentry/sentry-go/otel.(*SentrySpanMap).MarkFinished",
			"2911 40118000000 lock github.com/getsentry/sentry-go/otel.(*SentrySpanMap).MarkFinished",
		}, 8},
		{"cache-fill-block-b.pb.gz", Block, time.Date(2026, 11, 29, 19, 45, 9, 343491719, time.UTC), []string{
			"4484 2332539122291 idle net/http.(*persistConn).writeLoop",
			"5309 2311429981641 socket net/http.(*persistConn).roundTrip",
			"1903 1714356736992 lock main.(*cache).get",
			"645 584033925236 lock main.(*cache).size",
		}, 20},
		{"cache-fill-mutex-b.pb.gz", Mutex, time.Date(2026, 11, 29, 19, 45, 9, 345042989, time.UTC), []string{
			"1905 1680793740748 lock main.(*cache).get",
			"630 2846659314 lock main.(*cache).size",
		}, 7},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			// The name must not be needed to tell the kind.
			p, err := FromProfile("profile.pb.gz", parseFile(t, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if p.Kind != tt.kind || !p.Taken.Equal(tt.taken) || p.Window != 0 || len(p.Sites) != tt.n || p.Dropped != 0 || len(p.Warnings) != 0 {
				t.Errorf("got %s, taken %v, window %v, %d sites, %d dropped, warnings %q", p.Kind, p.Taken, p.Window, len(p.Sites), p.Dropped, p.Warnings)
			}
			if got := siteLines(p); !slices.Equal(got[:len(tt.sites)], tt.sites) {
				t.Errorf("sites:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.sites, "\n"))
			}
		})
	}
}

func TestFromProfileEmpty(t *testing.T) {
	for name, want := range map[string]Kind{"http://svc/debug/pprof/mutex": Mutex, "block-a.pb.gz": Block, "x": Block, "block-svc/mutex.pb.gz": Mutex} {
		p, err := FromProfile(name, parseFile(t, "password-hash-mutex-a.pb.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if p.Kind != want || len(p.Sites) != 0 || len(p.Warnings) != 1 {
			t.Errorf("%s: kind %s, %d sites, warnings %q", name, p.Kind, len(p.Sites), p.Warnings)
		}
		on := "SetBlockProfileRate"
		if want == Mutex {
			on = "SetMutexProfileFraction"
		}
		for _, part := range []string{"empty", on} {
			if !strings.Contains(p.Warnings[0], part) {
				t.Errorf("warning %q does not mention %s", p.Warnings[0], part)
			}
		}
	}
}

// typesOf makes sample types of "type/unit" words.
func typesOf(words string) []*profile.ValueType {
	var types []*profile.ValueType
	for w := range strings.FieldsSeq(words) {
		name, unit, _ := strings.Cut(w, "/")
		types = append(types, &profile.ValueType{Type: name, Unit: unit})
	}
	return types
}

// sampleOf makes a sample whose stack is the functions, leaf first.
func sampleOf(values []int64, functions ...string) *profile.Sample {
	s := &profile.Sample{Value: values}
	for _, f := range functions {
		s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: f, Filename: "/src/f.go"}, Line: 7}}})
	}
	return s
}

func TestFromProfileValues(t *testing.T) {
	lock := []string{"sync.(*Mutex).Lock", "main.get"}
	goTypes := "contentions/count delay/nanoseconds"
	tests := []struct {
		name     string
		types    string
		samples  []*profile.Sample
		sites    []string
		dropped  int
		warnings []string // parts of them
	}{
		{name: "period is no factor", types: goTypes,
			samples: []*profile.Sample{sampleOf([]int64{3, 1000}, lock...)}, sites: []string{"3 1000 lock main.get"}},
		{name: "microseconds", types: "contentions/count delay/microseconds",
			samples: []*profile.Sample{sampleOf([]int64{3, 1000}, lock...)}, sites: []string{"3 1000000 lock main.get"}},
		{name: "milliseconds first", types: "delay/milliseconds contentions/count",
			samples: []*profile.Sample{sampleOf([]int64{1000, 3}, lock...)}, sites: []string{"3 1000000000 lock main.get"}},
		{name: "seconds", types: "lock/count lock_wait/seconds",
			samples: []*profile.Sample{sampleOf([]int64{3, 2}, lock...)}, sites: []string{"3 2000000000 lock main.get"}},
		{name: "three types", types: "lock_wait/count contentions/count delay/ns",
			samples: []*profile.Sample{sampleOf([]int64{9, 3, 5}, lock...)}, sites: []string{"3 5 lock main.get"}},
		{name: "one type of a profile server", types: "delay/nanoseconds",
			samples: []*profile.Sample{sampleOf([]int64{5}, lock...)}, sites: []string{"0 5 lock main.get"}, warnings: []string{"no number of contentions"}},
		{name: "merged and sorted", types: goTypes,
			samples: []*profile.Sample{
				sampleOf([]int64{1, 10}, "sync.(*Mutex).Lock", "main.b"), sampleOf([]int64{1, 10}, "sync.(*Mutex).Lock", "main.a"),
				sampleOf([]int64{2, 10}, "sync.(*Mutex).Lock", "main.c"), sampleOf([]int64{1, 6}, lock...), sampleOf([]int64{1, 5}, lock...),
				sampleOf([]int64{0, 0}, "sync.(*Mutex).Lock", "main.zero")},
			sites: []string{"2 11 lock main.get", "2 10 lock main.c", "1 10 lock main.a", "1 10 lock main.b"}},
		{name: "overflow", types: "contentions/count delay/seconds",
			samples: []*profile.Sample{sampleOf([]int64{math.MaxInt64, math.MaxInt64 / 10}, lock...), sampleOf([]int64{5, math.MaxInt64}, lock...)},
			sites:   []string{"9223372036854775807 9223372036854775807 lock main.get"}},
		{name: "negative", types: "contentions/count delay/seconds",
			samples: []*profile.Sample{sampleOf([]int64{1, 5}, lock...), sampleOf([]int64{1, math.MinInt64}, "sync.(*Mutex).Lock", "main.x"),
				sampleOf([]int64{-1, 5}, "sync.(*Mutex).Lock", "main.y")},
			sites: []string{"1 5000000000 lock main.get"}, dropped: 2, warnings: []string{"2 stacks with negative values were left out"}},
		{name: "no locations", types: goTypes,
			samples: []*profile.Sample{sampleOf([]int64{1, 5})},
			sites:   []string{"1 5  a site without frames"}, warnings: []string{"1 of 1 samples have no function names", "neither the stacks nor the name"}},
		{name: "damaged", types: goTypes,
			samples: []*profile.Sample{nil, {}, {Value: []int64{1}}, sampleOf([]int64{1, 5}, lock...)},
			sites:   []string{"1 5 lock main.get"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := FromProfile("x", &profile.Profile{SampleType: typesOf(tt.types), Sample: tt.samples, Period: 100})
			if err != nil {
				t.Fatal(err)
			}
			if got := siteLines(p); !slices.Equal(got, tt.sites) || p.Dropped != tt.dropped || len(p.Warnings) != len(tt.warnings) {
				t.Fatalf("sites %q, %d dropped, warnings %q, want %q, %d, %q", got, p.Dropped, p.Warnings, tt.sites, tt.dropped, tt.warnings)
			}
			for i, w := range tt.warnings {
				if !strings.Contains(p.Warnings[i], w) {
					t.Errorf("warning %q, want one with %q", p.Warnings[i], w)
				}
			}
		})
	}
}

func TestFromProfileKind(t *testing.T) {
	tests := []struct {
		name    string
		leaves  string // with equal delays
		want    Kind
		guessed bool
	}{
		{"x", "sync.(*Mutex).Unlock", Mutex, false},
		{"x", "internal/sync.(*Mutex).Unlock", Mutex, false},
		{"x", "sync.(*RWMutex).RUnlock", Mutex, false},
		{"x", "runtime.unlock", Mutex, false},
		{"x", "runtime._LostContendedRuntimeLock", Mutex, false},
		{"x", "sync.(*Mutex).Lock", Block, false},
		{"x", "sync.(*RWMutex).RLock", Block, false},
		{"x", "runtime.chanrecv1", Block, false},
		{"x", "runtime.selectgo", Block, false},
		{"x", "sync.(*WaitGroup).Wait", Block, false},
		{"x", "internal/poll.(*fdMutex).rwlock", Block, false},
		{"x", "internal/sync.(*HashTrieMap[go.shape.interface {},go.shape.interface {}]).LoadOrStore", Block, false},
		{"x", "pthread_mutex_lock", Block, false},
		{"x", "pthread_mutex_unlock", Mutex, false},
		{"block.pb.gz", "sync.(*Mutex).Unlock", Mutex, false}, // stacks outweigh the name
		{"mutex.pb.gz", "sync.(*Mutex).Lock", Block, false},
		{"x", "sync.(*Mutex).Lock sync.(*Mutex).Unlock sync.(*Mutex).Unlock", Mutex, false},
		{"x", "sync.(*Mutex).Lock sync.(*Mutex).Lock sync.(*Mutex).Unlock", Block, false},
		{"mutex.pb.gz", "main.f", Mutex, false},
		{"http://mutex.svc/debug/pprof/block?seconds=5", "main.f", Block, false},
		{"x", "main.f", Block, true},
	}
	for _, tt := range tests {
		in := &profile.Profile{SampleType: typesOf("contentions/count delay/nanoseconds")}
		for leaf := range strings.SplitSeq(tt.leaves, " sync") {
			if strings.HasPrefix(leaf, ".(") {
				leaf = "sync" + leaf
			}
			in.Sample = append(in.Sample, sampleOf([]int64{1, 1e9}, leaf, fmt.Sprintf("main.f%d", len(in.Sample))))
		}
		p, err := FromProfile(tt.name, in)
		if err != nil {
			t.Fatal(err)
		}
		if p.Kind != tt.want || tt.guessed != (len(p.Warnings) == 1) {
			t.Errorf("%s with leaves %s: %s, warnings %q, want %s", tt.name, tt.leaves, p.Kind, p.Warnings, tt.want)
		}
	}
}

func TestFromProfileRefuses(t *testing.T) {
	for types, want := range map[string]string{
		"samples/count cpu/nanoseconds":     "expected a block or mutex profile, saw a cpu profile (samples/count, cpu/nanoseconds): fetch /debug/pprof/block",
		"goroutine/count":                   "saw a goroutine profile (goroutine/count)",
		"contentions/count":                 "with a time waited, saw a contention profile (contentions/count)",
		"contentions/count delay/fortnight": "with a time waited",
		"":                                  "saw a profile without sample types",
	} {
		if _, err := FromProfile("x", &profile.Profile{SampleType: typesOf(types)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", types, err, want)
		}
	}
	if _, err := FromProfile("x", nil); err == nil {
		t.Error("no error for no profile")
	}
}

// profile.ParseData reads C++ text: ticks and counts are scaled by it, and
// names are unknown.
func TestFromProfileLegacyText(t *testing.T) {
	in, err := profile.ParseData([]byte("--- contentionz 1 ---\ncycles/second=2000000000\nsampling period=10\nms since reset=5000\n4000 3 @ 0x1001 0x2001\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := FromProfile("contentionz", in)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sites) != 1 || p.Sites[0].Contentions != 30 || p.Sites[0].Delay != 20*time.Microsecond || p.Sites[0].Frames[0].Func != "0x1000" {
		t.Errorf("sites %q, want 30 contentions and 20µs at 0x1000", siteLines(p))
	}
	if p.Window != 5*time.Second || len(p.Warnings) != 2 {
		t.Errorf("window %v, warnings %q, want 5s, one for names and one for the kind", p.Window, p.Warnings)
	}
}

func TestWindow(t *testing.T) {
	in := parseFile(t, "cache-fill-block-a.pb.gz")
	in.DurationNanos = 5e9
	p, err := FromProfile("x", in)
	if err != nil {
		t.Fatal(err)
	}
	if p.Window != 5*time.Second {
		t.Errorf("window %v, want 5s", p.Window)
	}
	in.DurationNanos = -1
	if p, err = FromProfile("x", in); err != nil || p.Window != 0 {
		t.Errorf("window %v (%v) of a negative duration, want 0", p.Window, err)
	}
}

func FuzzFromProfile(f *testing.F) {
	for _, file := range []string{"cache-fill-block-a.pb.gz", "cache-fill-mutex-b.pb.gz", "password-hash-mutex-a.pb.gz"} {
		var raw bytes.Buffer
		if err := parseFile(f, file).WriteUncompressed(&raw); err != nil {
			f.Fatal(err)
		}
		f.Add(raw.Bytes())
	}
	f.Add([]byte("--- contentionz 1 ---\ncycles/second=2000000000\nsampling period=10\n4000 3 @ 0x1001 0x2001\n"))
	f.Add([]byte("--- contentionz 1 ---\nformat = java\nresolution=microseconds\nsampling period=100\nms since reset=6000\n 100 1 @ 0x1 0x2\n0x1 a.b (C.java:3)\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := profile.ParseUncompressed(data)
		if err != nil {
			if in, err = profile.ParseData(data); err != nil {
				return
			}
		}
		p, err := FromProfile("fuzz", in)
		if err != nil {
			return
		}
		checkSane(t, p)
		later := *p
		later.Taken = p.Taken.Add(time.Second)
		d := Difference(p, &later)
		if len(d.Sites) != 0 || d.Dropped != p.Dropped {
			t.Errorf("a profile minus itself has %d sites, %d dropped", len(d.Sites), d.Dropped)
		}
		Pair(p, &later)
	})
}

func checkSane(t *testing.T, p *Profile) {
	t.Helper()
	for i, s := range p.Sites {
		if s.Delay < 0 || s.Contentions < 0 || s.Wait.Site >= len(s.Frames) {
			t.Errorf("site %s", siteLine(s))
		}
		if i > 0 && s.Delay > p.Sites[i-1].Delay {
			t.Error("sites are not sorted")
		}
	}
	if p.Kind != Block && p.Kind != Mutex {
		t.Errorf("kind %q", p.Kind)
	}
}

func BenchmarkFromProfile(b *testing.B) {
	in := parseFile(b, "cache-fill-block-b.pb.gz")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromProfile("x", in); err != nil {
			b.Fatal(err)
		}
	}
}
