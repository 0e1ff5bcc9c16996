package ingest

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

const dumpText = `goroutine 1 [running]:
main.main()
	/src/app/main.go:10 +0x1d

goroutine 18 [sync.Mutex.Lock, 3 minutes]:
sync.runtime_SemacquireMutex(0x0?, 0x0?, 0x0?)
	/go/src/runtime/sema.go:95 +0x25
sync.(*Mutex).lockSlow(0xc000012345)
	/go/src/sync/mutex.go:173 +0x15a
sync.(*Mutex).Lock(...)
	/go/src/sync/mutex.go:92
main.(*cache).get(0xc000012340)
	/src/app/cache.go:20 +0x45
created by main.main in goroutine 1
	/src/app/main.go:8 +0x33
`

const contentionText = `--- contention:
cycles/second=1000000000
5000000000 12 @ 0x1001 0x2001
#	0x1000	sync.(*Mutex).Lock+0x20	/go/src/sync/mutex.go:92
#	0x2000	main.(*cache).get+0x40	/src/app/cache.go:20

`

func gz(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// lookup is a profile of the test's own process.
func lookup(t testing.TB, name string, debug int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.Lookup(name).WriteTo(&b, debug); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// contentionProto is a block profile with one site, of a build and a moment.
func contentionProto(t testing.TB, buildID string, taken time.Time, delay time.Duration) []byte {
	t.Helper()
	return encode(t, &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}},
		TimeNanos:  taken.UnixNano(),
	}, buildID, []int64{int64(delay / time.Millisecond), int64(delay)}, "sync.(*Mutex).Lock", "main.(*cache).get")
}

func goroutineProto(t testing.TB, buildID string, taken time.Time, count int64) []byte {
	t.Helper()
	return encode(t, &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}},
		TimeNanos:  taken.UnixNano(),
	}, buildID, []int64{count}, "runtime.gopark", "sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "main.(*cache).get")
}

func typedProto(t testing.TB, types ...string) []byte {
	t.Helper()
	p := &profile.Profile{}
	for i := 0; i < len(types); i += 2 {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: types[i], Unit: types[i+1]})
	}
	return encode(t, p, "", make([]int64, len(types)/2), "main.main")
}

func encode(t testing.TB, p *profile.Profile, buildID string, values []int64, functions ...string) []byte {
	t.Helper()
	m := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x800000, File: "/bin/gateway", BuildID: buildID}
	p.Mapping = []*profile.Mapping{m}
	s := &profile.Sample{Value: values}
	for i, name := range functions {
		f := &profile.Function{ID: uint64(i + 1), Name: name, Filename: "/src/app/file.go"}
		l := &profile.Location{ID: uint64(i + 1), Mapping: m, Address: uint64(0x400100 + i), Line: []profile.Line{{Function: f, Line: int64(i + 1)}}}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, l)
		s.Location = append(s.Location, l)
	}
	p.Sample = []*profile.Sample{s}
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantParts checks that a message has every one of the parts, which are
// separated by " | ", in order.
func wantParts(t testing.TB, got, parts string) {
	t.Helper()
	rest := got
	for part := range strings.SplitSeq(parts, " | ") {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Errorf("message %q: want %q in it", got, part)
			return
		}
		rest = after
	}
}
