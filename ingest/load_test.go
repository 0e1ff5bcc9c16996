package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestLoadFormats(t *testing.T) {
	t.Parallel()
	proto := goroutineProto(t, "b1", t0, 7)
	block := contentionProto(t, "b1", t0, time.Second)
	jsonLine := `{"level":"error","msg":"` + strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(dumpText) + `"}` + "\n"
	tests := []struct {
		name   string
		data   []byte
		format stacks.Format
		waits  waits.Kind
		read   int64
	}{
		{"proto", proto, stacks.Protobuf, "", 7},
		{"proto in gzip", gz(proto), stacks.Protobuf, "", 7},
		{"proto in gzip twice", gz(gz(proto)), stacks.Protobuf, "", 7},
		{"gzip with padding", append(gz(proto), make([]byte, 600)...), stacks.Protobuf, "", 7},
		{"gzip of two members", append(gz([]byte(dumpText[:40])), gz([]byte(dumpText[40:]))...), stacks.Debug2, "", 2},
		{"debug=2", []byte(dumpText), stacks.Debug2, "", 2},
		{"debug=2 in gzip", gz([]byte(dumpText)), stacks.Debug2, "", 2},
		{"byte order mark", []byte("\xef\xbb\xbf" + dumpText), stacks.Debug2, "", 2},
		{"after a log of 2 MiB", []byte(strings.Repeat("2026-03-01 request served\n", 80<<10) + "\n" + dumpText), stacks.Debug2, "", 2},
		{"in a JSON log line", []byte(jsonLine), stacks.Debug2, "", 2},
		{"after 2 MiB of JSON log", []byte(strings.Repeat(`{"level":"info","msg":"served"}`+"\n", 70<<10) + jsonLine), stacks.Debug2, "", 2},
		{"block", block, "", waits.Block, 0},
		{"block in gzip", gz(block), "", waits.Block, 0},
		{"block as text", []byte(contentionText), "", waits.Block, 0},
		{"mutex as text in gzip", gz([]byte(strings.Replace(contentionText, "contention", "mutex", 1))), "", waits.Mutex, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, t.TempDir(), "metrics.json", tt.data) // a name that says nothing
			b := Load(t.Context(), []string{path}, Options{})
			if len(b.Failures)+len(b.Unused) > 0 {
				t.Fatalf("failures %v, unused %v", b.Failures, b.Unused)
			}
			if tt.waits != "" {
				if len(b.Snapshots) != 0 || len(b.Waits) != 1 || b.Waits[0].Kind != tt.waits || len(b.Waits[0].Sites) != 1 || b.Waits[0].Name != path {
					t.Fatalf("want one %s profile of one site, got %+v", tt.waits, b)
				}
				return
			}
			if len(b.Waits) != 0 || len(b.Snapshots) != 1 {
				t.Fatalf("want one snapshot, got %+v", b)
			}
			s := b.Snapshots[0]
			if f := s.Format; f != tt.format && !(f == stacks.Traceback && tt.format == stacks.Debug2) {
				t.Errorf("format %s, want %s", f, tt.format)
			}
			if s.Loss.Read != tt.read || s.Name != path {
				t.Errorf("read %d goroutines as %s, want %d as %s", s.Loss.Read, s.Name, tt.read, path)
			}
		})
	}
}

func TestLoadBad(t *testing.T) {
	t.Parallel()
	proto := goroutineProto(t, "b1", t0, 7)
	tar := make([]byte, 1024)
	copy(tar, "profiles/goroutine")
	copy(tar[257:], "ustar")
	noise := bytes.Repeat([]byte{0xfe, 0x00, 0x13, 0x37}, 99)
	// One function with a name of 1 MiB, at 1100 lines.
	f := &profile.Function{ID: 1, Name: strings.Repeat("f", 1<<20)}
	l := &profile.Location{ID: 1}
	for i := range 1100 {
		l.Line = append(l.Line, profile.Line{Function: f, Line: int64(i)})
	}
	var longNames bytes.Buffer
	if err := (&profile.Profile{
		SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}},
		Function:   []*profile.Function{f}, Location: []*profile.Location{l},
		Sample: []*profile.Sample{{Value: []int64{1}, Location: []*profile.Location{l}}},
	}).WriteUncompressed(&longNames); err != nil {
		t.Fatal(err)
	}
	validProto := slices.Clip(proto)
	const tooMuch = "saw one that would take more than 1 GiB of memory to read | take it from the process again"
	manyMappings := bytes.Repeat([]byte{fieldMapping<<3 | 2, 0, fieldLocation<<3 | 2, 0}, 40_000)
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "expected a goroutine, block or mutex profile, a goroutine dump or Prometheus series, saw an empty input | try"},
		{"empty in gzip", gz(nil), "saw an empty input"},
		{"blank", []byte("\n \n"), "nothing but blank lines"},
		{"prose", []byte("# Notes\nsee the wiki about goroutine leaks\n"), "saw text without a goroutine dump | /debug/pprof/goroutine, or the whole log"},
		{"HTML", []byte("\n<!DOCTYPE html><html><title>Sign in</title></html>"), "saw HTML (a login or an error page?) | credentials"},
		{"JSON", []byte(`{"verdict": "applock"}`), "saw JSON | /debug/pprof/goroutine"},
		{"JSON about a goroutine", []byte(`{"holder": "goroutine 12 [running] in Register"}`), "saw JSON"},
		{"JSON, pretty, large", []byte("{\n" + strings.Repeat(`  "a": 1,`+"\n", 1<<17)), "saw JSON"},
		{"metrics without a sample", []byte("# HELP go_goroutines n\n# TYPE go_goroutines gauge\n"), "saw none ( | take it again"},
		{"an error of the API", []byte(`{"status":"error","errorType":"bad_data","error":"parse error"}`), "parse error"},
		{"execution trace", []byte("go 1.26 trace\x00\x00\x00\x01\x02"), "a Go execution trace | /debug/pprof/goroutine | go tool trace"},
		{"cpu profile", typedProto(t, "samples", "count", "cpu", "nanoseconds"), "saw a CPU profile | try a goroutine profile: curl"},
		{"heap profile", gz(typedProto(t, "alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "count", "inuse_space", "bytes")), "saw a heap profile | try a goroutine profile: curl"},
		{"heap profile as text", []byte("heap profile: 1: 32 [4: 128] @ heap/1048576\n"), "saw the text of a heap or allocs profile"},
		{"threadcreate profile", typedProto(t, "threadcreate", "count"), "saw a threadcreate profile"},
		{"unknown profile", typedProto(t, "apples", "kilograms"), "apples | try a goroutine profile"},
		{"ELF", append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 64)...), "an ELF binary or core file"},
		{"zip", []byte("PK\x03\x04\x14\x00\x00\x00"), "a zip archive | unzip"},
		{"zstd", []byte("\x28\xb5\x2f\xfd\x04\x00"), "a zstd archive | zstd -dc"},
		{"zlib", []byte("x\x9c\x01\x00\x00\xff\xff"), "zlib-compressed | unpacked"},
		{"tar", tar, "a tar archive | tar -xf"},
		{"tar in gzip", gz(tar), "a tar archive | tar -xf"},
		{"UTF-16", []byte("\xff\xfeg\x00o\x00"), "UTF-16 text | iconv"},
		{"UTF-16, big end first", []byte("\xfe\xff\x00g\x00o"), "UTF-16 text | iconv -f UTF-16 -t"},
		{"UTF-16BE without its mark", []byte("\x00#\x00 \x00T\x00Y\x00P\x00E\x00 \x00a"), "UTF-16 text | iconv -f UTF-16BE -t"},
		{"UTF-16LE without its mark", []byte("#\x00 \x00T\x00Y\x00P\x00E\x00 \x00a\x00"), "UTF-16 text | iconv -f UTF-16LE -t"},
		{"UTF-32", []byte("\xff\xfe\x00\x00g\x00\x00\x00"), "UTF-32 text | iconv -f UTF-32 -t"},
		{"every third zero", bytes.Repeat([]byte("ab\x00"), 30), "binary data that is no pprof profile"},
		{"noise", noise, "binary data that is no pprof profile"},
		{"gzip three deep", gz(gz(gz(proto))), "gzip within gzip, more than 2 deep | gzip -dc"},
		{"gzip header cut off", []byte{0x1f, 0x8b, 8}, "gzip file | header is cut off | take it again"},
		{"profile in gzip cut off", gz(proto)[:len(gz(proto))-30], "whole gzip file | cut off or damaged | take it again"},
		{"profile cut off", proto[:len(proto)-5], "pprof profile | cut off or damaged | take it again"},
		{"dump in gzip cut off at once", gz([]byte(dumpText))[:12], "whole gzip file | cut off"},
		{"mapping bomb", manyMappings, "40000 mappings and 40000 locations"},
		{"name bomb", longNames.Bytes(), "has names of 1100 MiB together, more than any real profile"},
		{"message bomb", gz(bytes.Repeat([]byte{0x12, 0}, maxParsed/messageMemory+1)), tooMuch},
		{"label bomb", gz(append(validProto, nested(2, bytes.Repeat([]byte{0x1a, 0}, maxParsed/labelMemory))...)), tooMuch},
		{"line bomb", gz(append(validProto, nested(4, bytes.Repeat([]byte{0x22, 0}, maxParsed/lineMemory))...)), tooMuch},
		{"packed location bomb", gz(append(validProto, nested(2, nested(1, bytes.Repeat([]byte{1}, maxParsed/numberMemory)))...)), tooMuch},
		{"packed value bomb", gz(append(validProto, nested(2, nested(2, bytes.Repeat([]byte{1}, maxParsed/numberMemory)))...)), tooMuch},
		{"location bomb", gz(append(validProto, nested(2, bytes.Repeat([]byte{8, 1}, maxParsed/numberMemory))...)), tooMuch},
		{"comment bomb", gz(append(validProto, nested(13, bytes.Repeat([]byte{1}, maxParsed/numberMemory))...)), tooMuch},
		{"overlong number in a sample", append(validProto, nested(2, append(bytes.Repeat([]byte{0xff}, 9), 0x7f))...), "ends in the middle of a field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			bad := write(t, dir, "bad.pb.gz", tt.data)
			good := write(t, dir, "good", proto)
			b := Load(t.Context(), []string{bad, good}, Options{})
			if len(b.Failures) != 1 || b.Failures[0].Name != bad {
				t.Fatalf("want one failure, got %+v", b)
			}
			msg := b.Failures[0].Err.Error()
			wantParts(t, msg, tt.want)
			if strings.ContainsAny(msg, "\n") || strings.HasSuffix(msg, ".") {
				t.Errorf("want one line without final stop, got %q", msg)
			}
			if len(b.Snapshots) != 1 || b.Snapshots[0].Name != good {
				t.Errorf("the other input was lost: %+v", b.Snapshots)
			}
		})
	}
}

// nested is a message or a packed list as a field of another.
func nested(number int, data []byte) []byte {
	return append(binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(data))), data...)
}

// What a real profile may have many of is no bomb.
func TestCheckProtoLarge(t *testing.T) {
	t.Parallel()
	ids := nested(1, bytes.Repeat([]byte{0x81, 0x01}, 25))
	sample := nested(2, append(ids, nested(2, []byte{1})...))
	if err := checkProto(bytes.Repeat(sample, 1_000_000)); err != nil {
		t.Errorf("a million samples of 25 frames: %v", err)
	}
}

func TestLoadLimits(t *testing.T) {
	t.Parallel()
	text := []byte(dumpText)
	tests := []struct {
		name  string
		data  []byte
		limit int64
		want  string
	}{
		{"text at the limit", text, int64(len(text)), ""},
		{"text over it", text, int64(len(text)) - 1, fmt.Sprintf("it has more than %d bytes | --max-bytes", len(text)-1)},
		{"gzip over it", gz(bytes.Repeat(text, 4000)), 1 << 20, "it unpacked to more than 1 MiB | --max-bytes if you trust it"},
		{"proto over it", gz(append(goroutineProto(t, "b", t0, 1), bytes.Repeat([]byte{0x32, 0}, 2<<20)...)), 3 << 20, "it unpacked to more than 3 MiB | --max-bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := Load(t.Context(), []string{"-"}, Options{Stdin: bytes.NewReader(tt.data), MaxBytes: tt.limit})
			if tt.want == "" {
				if len(b.Failures) != 0 || len(b.Snapshots) != 1 {
					t.Fatalf("got %+v", b)
				}
				return
			}
			if len(b.Failures) != 1 {
				t.Fatalf("want one failure, got %+v", b)
			}
			wantParts(t, b.Failures[0].Err.Error(), tt.want)
		})
	}
}

// The default limit of a protobuf holds although text may be larger.
func TestLoadGzipBomb(t *testing.T) {
	t.Parallel()
	l := newLoader(Options{})
	if l.maxText != 8<<30 || l.maxProfile != 512<<20 {
		t.Fatalf("limits %d and %d, want 8 GiB and 512 MiB", l.maxText, l.maxProfile)
	}
	l.maxProfile = 4 << 20 // as the default, sooner
	field := binary.AppendUvarint([]byte{6<<3 | 2}, 1<<20)
	field = append(field, make([]byte, 1<<20)...)
	data := append(goroutineProto(t, "b", t0, 1), bytes.Repeat(field, 8)...)
	_, err := l.read("bomb", bytes.NewReader(gz(data)))
	if err == nil {
		t.Fatal("want an error")
	}
	wantParts(t, err.Error(), "it unpacked to more than 4 MiB | --max-bytes")
}

func TestLoadCutOffDump(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "goroutine %d [select]:\nmain.work%d(0x%x)\n\t/src/app/main.go:%d +0x1d\n\n", i+1, i%7, i*i*7919, i)
	}
	data := gz([]byte(text.String()))
	b := Load(t.Context(), []string{"-"}, Options{Stdin: bytes.NewReader(data[:len(data)*3/4])})
	if len(b.Failures) != 1 || len(b.Snapshots) != 1 {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), "expected a whole gzip file, saw one that is cut off or damaged after | bytes unpacked: unexpected EOF; what came before that was read; take it again")
	s := b.Snapshots[0]
	if s.Loss.Read < 500 || s.Loss.Read >= 2000 {
		t.Errorf("read %d goroutines, want most of 2000", s.Loss.Read)
	}
	if !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, "not read to its end") }) {
		t.Errorf("warnings %q: want one that it was not read to its end", s.Warnings)
	}
}

func TestLoadStdin(t *testing.T) {
	t.Parallel()
	// A reader that gives one byte at a time, and no seeking, as a slow pipe.
	slow := iotest.OneByteReader(io.MultiReader(strings.NewReader(dumpText)))
	b := Load(t.Context(), []string{"-", "-"}, Options{Stdin: slow})
	if len(b.Snapshots) != 1 || b.Snapshots[0].Name != "stdin" {
		t.Errorf("got %+v", b.Snapshots)
	}
	if len(b.Failures) != 1 {
		t.Fatalf("failures %v", b.Failures)
	}
	wantParts(t, b.Failures[0].Err.Error(), "read once | twice")

	b = Load(t.Context(), []string{"-"}, Options{Stdin: iotest.ErrReader(io.ErrClosedPipe)})
	if len(b.Failures) != 1 {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), "expected to read it to its end, but reading stopped after 0 bytes: | closed pipe; check the disk, pipe or connection")
	if b := Load(t.Context(), []string{"-"}, Options{}); len(b.Failures) != 1 {
		t.Errorf("no stdin: got %+v", b)
	}
}

func TestLoadPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	tests := []struct{ arg, name, want string }{
		{missing, missing, "cannot open: | expected a file, a directory, - or a URL"},
		{"localhost:6060", "localhost:6060", "if it is a host, try http://localhost:6060"},
		{"", `""`, "saw an empty argument"},
		{"me:hunter2@host:9910/x", "xxxxx@host:9910/x", "if it is a host, try http://host:9910/x"},
		{"http:/me:hunter2@host/", "xxxxx@host/", "cannot open: "},
		{"http//me:hunter2@host", "xxxxx@host", "cannot open: "},
		{"me:hun@ter2@host", "xxxxx@host", "cannot open: "},
		{"http:///me:hunter2@host/x?token=hunter2", "http://host/x", "expected a URL such as"},
		{"host:80/x?a=b&token=hunter2#hunter2", "host:80/x?a=b&token=xxxxx", "cannot open: "},
		{"ftp://me:hunter2@host/x?token=abc", "ftp://host/x?token=xxxxx", "an http or https URL, saw a URL of another scheme"},
	}
	for _, tt := range tests {
		b := Load(t.Context(), []string{tt.arg}, Options{})
		if len(b.Failures) != 1 || b.Failures[0].Name != tt.name {
			t.Errorf("%s: got %+v", tt.arg, b)
			continue
		}
		wantParts(t, b.Failures[0].Err.Error(), tt.want)
		if strings.Contains(b.Failures[0].Err.Error(), "hunter") {
			t.Errorf("%s: %v has the password", tt.arg, b.Failures[0].Err)
		}
	}

	// A file that is there goes by its own name.
	at := write(t, dir, "api@v1.2.txt", []byte(dumpText))
	if b := Load(t.Context(), []string{at}, Options{}); len(b.Snapshots) != 1 || b.Snapshots[0].Name != at {
		t.Errorf("got %+v", b)
	}
}

func TestLoadOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var args []string
	for _, name := range []string{"c", "a", "d", "b"} {
		args = append(args, write(t, dir, name, goroutineProto(t, name, t0, 1)))
	}
	var told []string
	b := Load(t.Context(), args, Options{Progress: func(s string) { told = append(told, s) }})
	for i, s := range b.Snapshots {
		if s.Name != args[i] {
			t.Errorf("snapshot %d is %s, want %s", i, s.Name, args[i])
		}
	}
	if len(b.Snapshots) != 4 || len(told) != 4 || told[0] != "reading "+args[0] {
		t.Errorf("%d snapshots, progress %q", len(b.Snapshots), told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Files need no waiting, so they are read even then.
	if b := Load(ctx, append(args, dir), Options{}); len(b.Failures) != 0 || len(b.Snapshots) != 8 {
		t.Errorf("cancelled: got %+v", b)
	}
}

func TestLoadDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proto := goroutineProto(t, "b1", t0, 7)
	write(t, dir, "bundle.json", []byte(`{"schema": "contend.bundle/v1"}`))
	write(t, dir, "metrics.txt", []byte("# TYPE a gauge\na 1\n"))
	write(t, dir, "README", []byte("what this is\n"))
	write(t, dir, ".hidden", proto)
	write(t, dir, ".git/config", proto)
	write(t, dir, "profiles/goroutine.pb.gz", gz(proto))
	write(t, dir, "profiles/block.pb", contentionProto(t, "b1", t0, time.Second))
	write(t, dir, "profiles/cut.pb.gz", gz(proto)[:60])
	write(t, dir, "a/b/c/deep.txt", []byte(dumpText))
	write(t, dir, "a/b/c/d/deeper.txt", []byte(dumpText))
	outside := write(t, t.TempDir(), "secret", proto)
	for name, to := range map[string]string{"out": outside, "in": "profiles/goroutine.pb.gz", "folder": "profiles"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	b := Load(t.Context(), []string{dir}, Options{})
	rel := func(name string) string {
		r, _ := filepath.Rel(dir, name)
		return filepath.ToSlash(r)
	}
	var got []string
	for _, s := range b.Snapshots {
		got = append(got, "snapshot "+rel(s.Name))
		if b.Origin[s.Name] != filepath.Dir(s.Name) {
			t.Errorf("origin of %s is %q", s.Name, b.Origin[s.Name])
		}
	}
	for _, w := range b.Waits {
		got = append(got, "waits "+rel(w.Name))
	}
	for _, s := range b.Read {
		got = append(got, "series "+rel(s.Name))
	}
	for _, f := range b.Failures {
		got = append(got, "failure "+rel(f.Name))
	}
	for _, u := range b.Unused {
		got = append(got, "unused "+rel(u.Name)+": "+u.Reason)
	}
	want := []string{
		"snapshot a/b/c/deep.txt",
		"snapshot profiles/goroutine.pb.gz",
		"waits profiles/block.pb",
		"series metrics.txt",
		"failure profiles/cut.pb.gz",
		"unused README: text without a goroutine dump",
		"unused a/b/c/d: more than 3 folders deep",

		"unused folder: a symbolic link",
		"unused in: a symbolic link",
		"unused out: a symbolic link",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLoadDirWithoutProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := Load(t.Context(), []string{dir}, Options{})
	if len(b.Failures) != 1 || b.Failures[0].Name != dir {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), "expected goroutine, block or mutex profiles or series in it, saw no files; try contend analyze FILE or URL")

	for _, name := range []string{"a", "b", "c", "d", "e"} {
		write(t, dir, name, []byte("{}"))
	}
	b = Load(t.Context(), []string{dir}, Options{})
	if len(b.Failures) != 1 {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), "saw 5 other files: a (JSON), b (JSON), c (JSON), d (JSON), …; try")
}

func TestLoadDirFileLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range maxDirFiles + 2 {
		write(t, dir, fmt.Sprintf("f%04d", i), nil)
	}
	write(t, dir, "a.txt", []byte(dumpText))
	b := Load(t.Context(), []string{dir}, Options{})
	if len(b.Unused) != maxDirFiles-1 || len(b.Snapshots) != 1 {
		t.Errorf("%d unused, %d snapshots", len(b.Unused), len(b.Snapshots))
	}
	const want = "expected at most 1000 files in it, saw 1003: 1000 read, in the order of their paths, 3 not; give it in parts"
	if len(b.Failures) != 1 || b.Failures[0].Name != dir || b.Failures[0].Err.Error() != want {
		t.Errorf("failures %v, want one of the directory: %s", b.Failures, want)
	}

	// One fewer than too many.
	for i := range 3 {
		os.Remove(filepath.Join(dir, fmt.Sprintf("f%04d", i)))
	}
	if b := Load(t.Context(), []string{dir}, Options{}); len(b.Failures) != 0 {
		t.Errorf("exactly as many as are read: failures %v", b.Failures)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range [][]byte{
		nil, []byte(dumpText), []byte(contentionText), gz([]byte(dumpText)), gz(gz([]byte(contentionText))),
		goroutineProto(f, "b", t0, 3), contentionProto(f, "b", t0, time.Second), gz(goroutineProto(f, "b", t0, 3)),
		lookup(f, "goroutine", 0), lookup(f, "goroutine", 1), lookup(f, "goroutine", 2), lookup(f, "heap", 0),
		[]byte(`{"a": 1}`), []byte("<html>"), []byte("# TYPE a gauge\na 1\n"), []byte("PK\x03\x04\x00"), []byte("go 1.26 trace\x00\x00\x00"),
		bytes.Repeat([]byte{fieldMapping<<3 | 2, 0, fieldLocation<<3 | 2, 0}, 200),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := Load(t.Context(), []string{"-"}, Options{Stdin: bytes.NewReader(data), MaxBytes: 1 << 20})
		if len(b.Snapshots)+len(b.Waits)+len(b.Read)+len(b.Failures) == 0 {
			t.Fatal("an input that gave nothing and did not fail")
		}
		for _, failure := range b.Failures {
			if strings.TrimSpace(failure.Err.Error()) == "" {
				t.Fatal("a failure without words")
			}
		}
		b.Processes()
	})
}
