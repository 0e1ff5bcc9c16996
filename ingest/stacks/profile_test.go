package stacks

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func readProfile(t testing.TB, name string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// typesOf makes sample types of "type/unit" words.
func typesOf(words ...string) []*profile.ValueType {
	var types []*profile.ValueType
	for _, w := range words {
		name, unit, _ := strings.Cut(w, "/")
		types = append(types, &profile.ValueType{Type: name, Unit: unit})
	}
	return types
}

// locationOf makes a location whose lines are the functions, innermost first.
func locationOf(functions ...string) *profile.Location {
	l := &profile.Location{}
	for i, f := range functions {
		l.Line = append(l.Line, profile.Line{Function: &profile.Function{Name: f, Filename: "/src/f.go"}, Line: int64(i + 1)})
	}
	return l
}

func sampleOf(value int64, locations ...*profile.Location) *profile.Sample {
	return &profile.Sample{Value: []int64{value}, Location: locations}
}

func functionsOf(frames []*Frame) string {
	var names []string
	for _, f := range frames {
		names = append(names, f.Func)
	}
	return strings.Join(names, " < ")
}

func TestFromProfileCapture(t *testing.T) {
	s, err := FromProfile("goroutine.pb.gz", readProfile(t, "cache-fill-goroutine.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "goroutine.pb.gz" || s.Format != Protobuf || s.Growth || len(s.Warnings) != 0 {
		t.Errorf("got name %q, format %q, growth %v, warnings %q", s.Name, s.Format, s.Growth, s.Warnings)
	}
	wantProcess := Process{
		Binary:  "/var/tmp/hsvc/13-cache-fill-local",
		BuildID: "238c180b729e145e10afedff44c06d6a140af232",
		Mapping: "0x400000-0x818000@0x0",
	}
	if s.Process != wantProcess {
		t.Errorf("process = %+v, want %+v", s.Process, wantProcess)
	}
	if want := time.Date(2026, 11, 29, 19, 45, 9, 252525299, time.UTC); !s.Taken.Equal(want) {
		t.Errorf("taken %v, want %v", s.Taken, want)
	}
	if s.Loss.Read != 1105 || s.Loss.Declared != 0 {
		t.Errorf("loss = %+v, want 1105 read, none declared", s.Loss)
	}
	var counts []int64
	for _, g := range s.Groups {
		counts = append(counts, g.Count)
	}
	if want := []int64{221, 221, 220, 220, 166, 53, 1, 1, 1, 1}; !slices.Equal(counts, want) {
		t.Errorf("counts = %v, want %v", counts, want)
	}
	for i, want := range map[int]string{
		// Two frames of one location: FD.Read was inlined into waitRead's caller.
		0: "runtime.gopark < runtime.netpollblock < internal/poll.runtime_pollWait < internal/poll.(*pollDesc).wait < internal/poll.(*pollDesc).waitRead < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < net/http.(*persistConn).Read < bufio.(*Reader).fill < bufio.(*Reader).Peek < net/http.(*persistConn).readLoop",
		1: "runtime.gopark < runtime.selectgo < net/http.(*persistConn).writeLoop",
	} {
		if got := functionsOf(s.Groups[i].Frames); !strings.HasPrefix(got, want) {
			t.Errorf("group %d stands in\n%s, want\n%s", i, got, want)
		}
	}
	if f := s.Groups[0].Frames[5]; f.File != "/usr/local/go/src/internal/poll/fd_unix.go" || f.Line != 165 {
		t.Errorf("the inlined frame is at %s:%d, want fd_unix.go:165", f.File, f.Line)
	}
	if s.Groups[0].Frames[0] != s.Groups[1].Frames[0] {
		t.Error("the shared leaf runtime.gopark is two frames, want one")
	}
	if g := s.Groups[4]; g.Wait.Kind != Lock || g.Frames[g.Wait.Site].Func != "main.(*cache).get" {
		t.Errorf("group 4 waits %+v, want a lock at main.(*cache).get", g.Wait)
	}
}

func TestFromProfileCase(t *testing.T) {
	s, err := FromProfile("input.pb.gz", readProfile(t, "clickhouse-http-persistconn-goroutine.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Loss.Read != 6284 || len(s.Groups) != 6 {
		t.Errorf("read %d goroutines in %d groups, want 6284 in 6", s.Loss.Read, len(s.Groups))
	}
	g := s.Groups[4]
	if g.Count != 12 {
		t.Errorf("group 4 has %d goroutines, want 12", g.Count)
	}
	i := slices.IndexFunc(g.Frames, func(f *Frame) bool { return f.Library() == "github.com/ClickHouse/clickhouse-go/v2@v2.32.2" })
	if i < 0 || g.Frames[i].Func != "github.com/ClickHouse/clickhouse-go/v2.(*httpConnect).executeRequest" {
		t.Errorf("no frame of clickhouse-go v2.32.2 in %s", functionsOf(g.Frames))
	}
}

func TestFromProfileKinds(t *testing.T) {
	loc := locationOf("runtime.gopark", "main.work")
	tests := []struct {
		name     string
		profile  *profile.Profile
		format   Format
		growth   bool
		counts   []int64
		read     int64
		warnings int
		leaked   int64
	}{
		{name: "goroutine", format: Protobuf, counts: []int64{3}, read: 3,
			profile: &profile.Profile{SampleType: typesOf("goroutine/count"), Sample: []*profile.Sample{sampleOf(3, loc)}}},
		{name: "pyroscope push", format: Protobuf, counts: []int64{3}, read: 3,
			profile: &profile.Profile{SampleType: typesOf("goroutines/goroutine"), Sample: []*profile.Sample{sampleOf(3, loc)}}},
		{name: "leak", format: Leak, counts: []int64{3}, read: 3, leaked: 3,
			profile: &profile.Profile{SampleType: typesOf("goroutineleak/count"), Sample: []*profile.Sample{sampleOf(3, loc)}}},
		{name: "fgprof", format: Wallclock, counts: []int64{5}, read: 5,
			profile: &profile.Profile{SampleType: typesOf("samples/count", "time/nanoseconds"), DurationNanos: 3e9,
				Sample: []*profile.Sample{{Value: []int64{5, 50_000_000}, Location: []*profile.Location{loc}}}}},
		{name: "wall time only", format: Wallclock, counts: []int64{50}, read: 50,
			profile: &profile.Profile{SampleType: typesOf("wall/nanoseconds"), Sample: []*profile.Sample{sampleOf(50, loc)}}},
		{name: "delta", format: Protobuf, growth: true, counts: []int64{3}, read: 3, warnings: 1,
			profile: &profile.Profile{SampleType: typesOf("goroutine/count"), DurationNanos: 5e9, Sample: []*profile.Sample{sampleOf(3, loc)}}},
		{name: "negative", format: Protobuf, growth: true, counts: []int64{2, -7}, read: 0,
			profile: &profile.Profile{SampleType: typesOf("goroutine/count"),
				Sample: []*profile.Sample{sampleOf(-7, loc), sampleOf(2, locationOf("main.other"))}}},
		{name: "zero", format: Protobuf, counts: []int64{1}, read: 1,
			profile: &profile.Profile{SampleType: typesOf("goroutine/count"),
				Sample: []*profile.Sample{sampleOf(0, loc), sampleOf(1, locationOf("main.other"))}}},
		{name: "overflow", format: Protobuf, counts: []int64{math.MaxInt64, math.MaxInt64}, read: math.MaxInt64,
			profile: &profile.Profile{SampleType: typesOf("goroutine/count"),
				Sample: []*profile.Sample{sampleOf(math.MaxInt64, loc), sampleOf(1, loc), sampleOf(math.MaxInt64, locationOf("main.other"))}}},
		{name: "no location", format: Protobuf, counts: []int64{4}, read: 4, warnings: 1,
			profile: &profile.Profile{SampleType: typesOf("goroutine/count"), Sample: []*profile.Sample{sampleOf(4)}}},
		{name: "damaged", format: Protobuf, counts: []int64{4}, read: 4, warnings: 1,
			profile: &profile.Profile{SampleType: append(typesOf("goroutine/count"), nil), Mapping: []*profile.Mapping{nil},
				Sample: []*profile.Sample{nil, {}, sampleOf(4, nil, &profile.Location{Line: []profile.Line{{}}})}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := FromProfile("x", tt.profile)
			if err != nil {
				t.Fatal(err)
			}
			var counts []int64
			var leaked int64
			for _, g := range s.Groups {
				counts = append(counts, g.Count)
				leaked += g.Leaked
			}
			if s.Format != tt.format || s.Growth != tt.growth || !slices.Equal(counts, tt.counts) || s.Loss.Read != tt.read || len(s.Warnings) != tt.warnings {
				t.Errorf("got %s, growth %v, counts %v, read %d, warnings %q", s.Format, s.Growth, counts, s.Loss.Read, s.Warnings)
			}
			if tt.leaked != leaked {
				t.Errorf("%d leaked, want %d", leaked, tt.leaked)
			}
		})
	}
}

func TestFromProfileRefuses(t *testing.T) {
	tests := []struct {
		profile *profile.Profile
		want    string
	}{
		{&profile.Profile{SampleType: typesOf("samples/count", "cpu/nanoseconds")}, "expected a goroutine profile, saw a cpu profile (samples/count, cpu/nanoseconds): fetch /debug/pprof/goroutine of the process"},
		{&profile.Profile{SampleType: typesOf("contentions/count", "delay/nanoseconds")}, "saw a contention profile"},
		{&profile.Profile{SampleType: typesOf("alloc_objects/count", "alloc_space/bytes")}, "saw an allocs profile"},
		{&profile.Profile{SampleType: typesOf("fish/barrel")}, "saw an unknown sort of profile (fish/barrel)"},
		{&profile.Profile{}, "saw a profile without sample types"},
		{&profile.Profile{SampleType: typesOf("goroutine/count")}, "saw a goroutine profile without any"},
		{nil, "saw a profile without sample types"},
	}
	for _, tt := range tests {
		if _, err := FromProfile("x", tt.profile); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want an error with %q", err, tt.want)
		}
	}
}

func TestFromProfileMerges(t *testing.T) {
	generic := func(arg string) *profile.Location { return locationOf("main.(*Pool[" + arg + "]).Get") }
	base := locationOf("main.serve")
	labelled := func(value int64, key, label string, l *profile.Location) *profile.Sample {
		s := sampleOf(value, l, base)
		s.Label = map[string][]string{key: {label}}
		return s
	}
	p := &profile.Profile{SampleType: typesOf("goroutine/count")}
	for i := range 20 {
		p.Sample = append(p.Sample,
			labelled(1, "route", fmt.Sprintf("/%d", i), generic("go.shape.int")),
			labelled(1, fmt.Sprintf("key%02d", i), "v", generic("go.shape.string")))
	}
	p.Sample = append(p.Sample, sampleOf(100, locationOf("main.(*Pool[go.shape.int]).Put"), base))
	s, err := FromProfile("x", p)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Groups) != 2 || s.Groups[0].Count != 100 || s.Groups[1].Count != 40 {
		t.Fatalf("got %d groups, want two: other function 100, one for all labels and type arguments 40", len(s.Groups))
	}
	labels := s.Groups[1].Labels
	if got, want := labels["route"], []string{"/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"}; !reflect.DeepEqual(got, want) {
		t.Errorf("values of route = %q, want the first eight %q", got, want)
	}
	if len(labels) != 16 {
		t.Errorf("%d label keys, want 16", len(labels))
	}
	if s.Groups[0].Labels != nil {
		t.Errorf("labels %v of a group without, want none", s.Groups[0].Labels)
	}
}

func TestFromProfileUnsymbolised(t *testing.T) {
	bare := &profile.Location{Address: 0x4a2f10}
	p := &profile.Profile{SampleType: typesOf("goroutine/count"), Sample: []*profile.Sample{
		sampleOf(5, bare),
		sampleOf(4, &profile.Location{Address: 0x4a2f20}),
		sampleOf(3, bare, locationOf("main.cgoCaller")),
	}}
	s, err := FromProfile("x", p)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"2 of 3 samples have no function names: the profile is not symbolised, fetch it from the process itself or pass it through `go tool pprof -proto`"}
	if !slices.Equal(s.Warnings, want) {
		t.Errorf("warnings = %q, want %q", s.Warnings, want)
	}
	// Near-miss: a sample without any stack beside named ones.
	one, err := FromProfile("x", &profile.Profile{SampleType: typesOf("goroutine/count"), Sample: []*profile.Sample{sampleOf(1), sampleOf(3, locationOf("main.a"))}})
	if err != nil || len(one.Warnings) > 0 {
		t.Errorf("warnings %q, error %v; want none", one.Warnings, err)
	}
	if got, want := functionsOf(s.Groups[2].Frames), "0x4a2f10 < main.cgoCaller"; got != want {
		t.Errorf("frames %s, want %s", got, want)
	}
}

// A few bytes of a profile can name a location of thousands of inlined
// functions thousands of times.
func TestFromProfileBomb(t *testing.T) {
	fn := &profile.Function{Name: "main.f"}
	var deep [2]*profile.Location
	for i := range deep {
		deep[i] = &profile.Location{}
		for j := range 2 * maxProfileDepth {
			deep[i].Line = append(deep[i].Line, profile.Line{Function: fn, Line: int64(i + j)})
		}
	}
	p := &profile.Profile{SampleType: typesOf("goroutine/count"), Sample: []*profile.Sample{sampleOf(1, deep[0], deep[1])}}
	s, err := FromProfile("x", p)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Groups[0].Frames) != maxProfileDepth || len(s.Warnings) != 1 {
		t.Errorf("%d frames, warnings %q, want %d frames and one warning", len(s.Groups[0].Frames), s.Warnings, maxProfileDepth)
	}

	table := NewProfileStacks(p)
	table.total = maxProfileFrames - maxProfileDepth
	for i, want := range []error{nil, errTooManyFrames} {
		if _, err := table.Add(p.Sample[0]); err != want {
			t.Errorf("sample %d: %v, want %v", i, err, want)
		}
		p.Sample[0].Location = p.Sample[0].Location[:1]
	}
}

func TestProfileKind(t *testing.T) {
	tests := []struct {
		types, want string
	}{
		{"goroutine/count", "goroutine"},
		{"goroutines/goroutine", "goroutine"},
		{"Goroutine/count", "goroutine"},
		{"goroutineleak/count", "goroutineleak"},
		{"threadcreate/count", "threadcreate"},
		{"contentions/count delay/nanoseconds", "contention"},
		{"contentions/count delay/microseconds", "contention"},
		{"contentions/count delay/ns", "contention"},
		{"delay/nanoseconds", "contention"},
		{"contentions/count", "contention"},
		{"contentions/count delay/cycles", "contention"},
		{"lock/count lock_time/ns", "contention"},
		{"lock_wait/count duration/ms", "contention"},
		{"mutex-wait/nanoseconds samples/count", "contention"},
		{"samples/count cpu/nanoseconds", "cpu"},
		{"samples/count cpu/nanoseconds wall/nanoseconds", "cpu"},
		{"cpu-time/nanoseconds", "cpu"},
		{"alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes", "heap"},
		{"objects/count space/bytes", "heap"},
		{"alloc_objects/count alloc_space/bytes", "allocs"},
		{"samples/count time/nanoseconds", "wallclock"},
		{"wall-time/nanoseconds", "wallclock"},
		{"wallclock/nanoseconds", "wallclock"},
		{"wall_clock/nanoseconds", "wallclock"}, // a clock is no lock
		{"samples/count", ""},
		{"time/count", ""},
		{"blocks/count duration/ns", ""}, // blocks of memory
		{"block_read/bytes", ""},
		{"lock_hold/nanoseconds", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got := ProfileKind(&profile.Profile{SampleType: typesOf(strings.Fields(tt.types)...)}); got != tt.want {
			t.Errorf("ProfileKind(%s) = %q, want %q", tt.types, got, tt.want)
		}
	}
	allocs := &profile.Profile{SampleType: typesOf("alloc_space/bytes", "inuse_space/bytes"), DefaultSampleType: "alloc_space"}
	if got := ProfileKind(allocs); got != "allocs" {
		t.Errorf("kind of Go's allocs profile = %q", got)
	}
}

func TestContentionValues(t *testing.T) {
	tests := []struct {
		types        string
		count, delay int
		unit         time.Duration
	}{
		{"contentions/count delay/nanoseconds", 0, 1, time.Nanosecond},
		{"delay/microseconds contentions/count", 1, 0, time.Microsecond},
		{"lock_wait/nanoseconds contentions/count delay/nanoseconds", 1, 2, time.Nanosecond},
		{"samples/count lock/milliseconds", 0, 1, time.Millisecond},
		{"lock-acquire/count lock-acquire-wait/ns lock-release/count lock-release-hold/ns", 0, 1, time.Nanosecond},
		{"contention/count duration/seconds", 0, 1, time.Second},
		{"delay/ns", -1, 0, time.Nanosecond},
		{"contentions/count", 0, -1, 0},
		{"samples/count time/nanoseconds", -1, -1, 0},
	}
	for _, tt := range tests {
		count, delay, unit := ContentionValues(&profile.Profile{SampleType: typesOf(strings.Fields(tt.types)...)})
		if count != tt.count || delay != tt.delay || unit != tt.unit {
			t.Errorf("ContentionValues(%s) = %d, %d, %v, want %d, %d, %v", tt.types, count, delay, unit, tt.count, tt.delay, tt.unit)
		}
	}
}

func FuzzFromProfile(f *testing.F) {
	for _, name := range []string{"cache-fill-goroutine.pb.gz", "clickhouse-http-persistconn-goroutine.pb.gz"} {
		var raw bytes.Buffer
		if err := readProfile(f, name).WriteUncompressed(&raw); err != nil {
			f.Fatal(err)
		}
		f.Add(raw.Bytes())
	}
	f.Add([]byte("goroutine profile: total 2\n2 @ 0x1 0x2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// Unlike ParseData this leaves an inconsistent profile as it is.
		p, err := profile.ParseUncompressed(data)
		if err != nil {
			if p, err = profile.ParseData(data); err != nil {
				return
			}
		}
		s, err := FromProfile("fuzz", p)
		if err != nil {
			return
		}
		var read int64
		for _, g := range s.Groups {
			if g.Count == 0 || len(g.Frames) > maxProfileDepth || g.Wait.Site >= len(g.Frames) {
				t.Errorf("group of %d with %d frames, site %d", g.Count, len(g.Frames), g.Wait.Site)
			}
			if g.Count < 0 && !s.Growth {
				t.Error("a negative count in a snapshot that is no growth")
			}
			read = addSaturating(read, g.Count)
		}
		_ = ProfileKind(p)
	})
}

// largeProfile has 5,000 stacks of 30 frames, of 2,000 functions, as a large
// service with many kinds of work has.
func largeProfile(b *testing.B) []byte {
	b.Helper()
	p := &profile.Profile{SampleType: typesOf("goroutine/count"), PeriodType: typesOf("goroutine/count")[0], Period: 1}
	for i := range 10_000 {
		if i < 2000 {
			p.Function = append(p.Function, &profile.Function{ID: uint64(i + 1),
				Name:     fmt.Sprintf("github.com/example/service/internal/part%d.(*handler%d).serve", i%40, i),
				Filename: fmt.Sprintf("/home/ci/go/pkg/mod/github.com/example/service@v1.2.3/internal/part%d/file%d.go", i%40, i%200)})
		}
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1), Address: uint64(0x400000 + 16*i),
			Line: []profile.Line{{Function: p.Function[i*7%len(p.Function)], Line: int64(i%500 + 1)}}})
	}
	for i := range 5000 {
		s := sampleOf(int64(1 + i%9))
		for d := range 30 {
			s.Location = append(s.Location, p.Location[(i*(d+1)*31+d*d)%len(p.Location)])
		}
		p.Sample = append(p.Sample, s)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkFromProfile sets FromProfile beside the parsing it follows.
func BenchmarkFromProfile(b *testing.B) {
	capture, err := os.ReadFile("testdata/cache-fill-goroutine.pb.gz")
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		data []byte
	}{{"capture", capture}, {"5000-stacks", largeProfile(b)}} {
		p, err := profile.ParseData(bb.data)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bb.name+"/parse", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := profile.ParseData(bb.data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+"/snapshot", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := FromProfile("x", p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
