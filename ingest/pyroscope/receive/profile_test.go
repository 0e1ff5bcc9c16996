package receive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

// pprofOf is a profile with one sample, packed, of sample types as type/unit.
func pprofOf(t testing.TB, types ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := profileOf(types...).Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func profileOf(types ...string) *profile.Profile {
	var line []profile.Line
	var locations []*profile.Location
	p := &profile.Profile{}
	for i, name := range []string{"sync.(*Mutex).Lock", "main.(*store).get", "net/http.serverHandler.ServeHTTP"} {
		f := &profile.Function{ID: uint64(i + 1), Name: name, Filename: "/src/app/main.go"}
		line = []profile.Line{{Function: f, Line: 1}}
		l := &profile.Location{ID: uint64(i + 1), Line: line}
		p.Function, p.Location, locations = append(p.Function, f), append(p.Location, l), append(locations, l)
	}
	s := &profile.Sample{Location: locations}
	for _, t := range types {
		name, unit, _ := strings.Cut(t, "/")
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: unit})
		s.Value = append(s.Value, 3_000_000)
	}
	p.Sample = []*profile.Sample{s}
	return p
}

func unpacked(t testing.TB, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestKinds(t *testing.T) {
	t.Parallel()
	named := func(name string) map[string]sampleType {
		return map[string]sampleType{"contentions": {DisplayName: name + "_count"}, "delay": {DisplayName: name + "_duration"}}
	}
	for _, tt := range []struct {
		types  []string
		config map[string]sampleType
		kind   string
		kept   bool
	}{
		{[]string{"goroutine/count"}, nil, "goroutine", true},
		{[]string{"goroutineleak/count"}, nil, "goroutineleak", true},
		{[]string{"contentions/count", "delay/nanoseconds"}, named("block"), "block", true},
		{[]string{"contentions/count", "delay/nanoseconds"}, named("mutex"), "mutex", true},
		{[]string{"contentions/count", "delay/nanoseconds"}, nil, "contention", true},
		{[]string{"samples/count", "cpu/nanoseconds"}, nil, "cpu", false},
		// Two types of one unit, which stands once among the strings.
		{[]string{"alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"}, nil, "heap", false},
		{[]string{"apples/count"}, nil, "other", false},
	} {
		data := pprofOf(t, tt.types...)
		for _, data := range [][]byte{data, unpacked(t, data)} {
			h, err := newUnpacker().head(data)
			if err != nil {
				t.Fatalf("%v: %v", tt.types, err)
			}
			if kind, kept := kindOf(h, tt.config); kind != tt.kind || kept != tt.kept {
				t.Errorf("%v: %s, %v; want %s, %v", tt.types, kind, kept, tt.kind, tt.kept)
			}
		}
	}
}

func TestBadProfiles(t *testing.T) {
	t.Parallel()
	good := pprofOf(t, "goroutine/count")
	damaged := bytes.Clone(good)
	damaged[len(damaged)-6]++ // of the checksum
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 2 {
		z.Write([]byte{fieldStrings<<3 | wireBytes, 0x80, 0x80, 0x80, 0x0a}) // a string of 20 MiB
		z.Write(make([]byte, 20<<20))
	}
	z.Close()
	for name, data := range map[string][]byte{
		"text":                  []byte("goroutine profile: total 3\n"),
		"an empty gzip":         {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0},
		"half a header":         good[:5],
		"cut off":               good[:len(good)-20],
		"a wrong checksum":      damaged,
		"what follows":          append(bytes.Clone(good), "more"...),
		"gzip in gzip":          pack(t, good),
		"cut off unpacked":      unpacked(t, good)[:60],
		"no types":              pprofOf(t),
		"a type of no end":      {fieldSampleType<<3 | wireBytes, 2, 8, 0x80},
		"a long type":           append([]byte{fieldSampleType<<3 | wireBytes, 0x80, 0x10}, make([]byte, 2048)...),
		"many types":            bytes.Repeat([]byte{fieldSampleType<<3 | wireBytes, 2, 8, 1}, maxTypes+1),
		"an endless string":     {fieldStrings<<3 | wireBytes, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a field of no profile": {16<<3 | wireNumber, 1},
	} {
		if h, err := newUnpacker().head(data); err == nil || errors.Is(err, errUnpacked) || !strings.HasPrefix(err.Error(), "expected a pprof profile, saw ") {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	if _, err := newUnpacker().head(bomb.Bytes()); !errors.Is(err, errUnpacked) {
		t.Errorf("a bomb of %d bytes: %v", bomb.Len(), err)
	}
	// An unpacker is good again after what was bad.
	u := newUnpacker()
	for _, data := range [][]byte{bomb.Bytes(), good[:30], damaged} {
		u.head(data)
		if _, err := u.head(good); err != nil {
			t.Error(err)
		}
	}
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What a push says and its profile does not is added, what it has stays.
func TestComplete(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 30, 9, 59, 45, 1, time.UTC) // no whole ms: not the first of a session
	until := from.Add(15 * time.Second)
	taken := from.Add(14 * time.Second)
	cumulative := map[string]sampleType{"delay": {Cumulative: true}}
	for _, tt := range []struct {
		name          string
		waits         bool
		taken         time.Time
		duration      time.Duration
		config        map[string]sampleType
		from          time.Time
		wantTaken     time.Time
		wantDuration  time.Duration
		wantUntouched bool
	}{
		{name: "goroutines", taken: taken, from: from, wantTaken: taken, wantUntouched: true},
		{name: "goroutines of no time", from: from, wantTaken: until},
		{name: "what waited in an interval", waits: true, taken: taken, from: from, wantTaken: taken, wantDuration: 15 * time.Second},
		{name: "that, of no time", waits: true, from: from, wantTaken: until, wantDuration: 15 * time.Second},
		{name: "what says over how long", waits: true, taken: taken, duration: time.Second, from: from, wantTaken: taken, wantDuration: time.Second, wantUntouched: true},
		{name: "the first of a session", waits: true, taken: taken, from: from.Truncate(time.Second), wantTaken: taken, wantUntouched: true},
		{name: "what is called cumulative", waits: true, taken: taken, config: cumulative, from: from, wantTaken: taken, wantUntouched: true},
		{name: "of no interval", waits: true, taken: taken, from: until, wantTaken: taken, wantUntouched: true},
	} {
		p := profileOf("contentions/count", "delay/nanoseconds")
		p.DurationNanos = int64(tt.duration)
		if !tt.taken.IsZero() {
			p.TimeNanos = tt.taken.UnixNano()
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{b.Bytes(), unpacked(t, b.Bytes())} {
			u := newUnpacker()
			h, err := u.head(data)
			if err != nil {
				t.Fatal(err)
			}
			out, err := u.complete(bytes.Clone(data), h, tt.waits, tt.config, tt.from, until)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(out, data) || tt.wantUntouched != (len(out) == len(data)) {
				t.Errorf("%s: %d bytes became %d", tt.name, len(data), len(out))
			}
			got, err := ingest.ParseProfile(out, "a profile", "")
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if _, taken := stacks.ProfileOrigin(got); !taken.Equal(tt.wantTaken) || got.DurationNanos != int64(tt.wantDuration) {
				t.Errorf("%s: taken %v over %v, want %v over %v", tt.name, taken, time.Duration(got.DurationNanos), tt.wantTaken, tt.wantDuration)
			}
		}
	}
}

// FuzzHead holds what is said of a profile without parsing it to what parsing says.
func FuzzHead(f *testing.F) {
	f.Add(pprofOf(f, "goroutine/count"))
	f.Add(unpacked(f, pprofOf(f, "contentions/count", "delay/nanoseconds")))
	f.Add(unpacked(f, pprofOf(f, "alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes")))
	f.Add([]byte{fieldSampleType<<3 | wireBytes, 2, 8, 0x80})
	real, err := filepath.Glob("../../../demo/scenarios/telemetryblock/bundle/profiles/gateway-1/*.pb.gz")
	if err != nil || len(real) == 0 {
		f.Fatal("no profiles of the demo", err)
	}
	for _, name := range real[:3] {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		u := newUnpacker()
		h, err := u.head(data)
		if err != nil {
			return
		}
		out, err := u.complete(bytes.Clone(data), h, true, nil, time.Unix(1e9, 1), time.Unix(1e9+15, 1))
		if err != nil || !bytes.HasPrefix(out, data) {
			t.Fatalf("%d bytes became %d: %v", len(data), len(out), err)
		}
		before, err := ingest.ParseProfile(data, "a profile", "")
		if err != nil || len(before.SampleType) != len(h.types) {
			return // whole, and yet no profile: the analysis says so
		}
		after, err := ingest.ParseProfile(out, "a profile", "")
		if err != nil {
			t.Fatalf("it was a profile before it was completed: %v", err)
		}
		if stacks.ProfileKind(before) != stacks.ProfileKind(&profile.Profile{SampleType: h.types}) && stacks.ProfileKind(after) != stacks.ProfileKind(before) {
			t.Errorf("%s, and then %s", stacks.DescribeProfile(before), stacks.DescribeProfile(after))
		}
	})
}
