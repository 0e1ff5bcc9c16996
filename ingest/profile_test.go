package ingest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/stacks"
)

// TestReadProfile checks that a sample's frames are the very ones of the bundle,
// whatever the kind and however often it is compressed.
func TestReadProfile(t *testing.T) {
	t.Parallel()
	goroutines, block := goroutineProto(t, "a", time.Now(), 7), contentionProto(t, "a", time.Now(), time.Second)
	for name, data := range map[string][]byte{"goroutine": goroutines, "goroutine.gz": gz(goroutines), "block": gz(gz(block))} {
		p, err := ReadProfile(name, bytes.NewReader(data), 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want []*stacks.Frame
		switch b := p.Bundle; {
		case len(b.Snapshots) == 1 && len(b.Waits) == 0 && name != "block":
			want = b.Snapshots[0].Groups[0].Frames
		case len(b.Waits) == 1 && len(b.Snapshots) == 0 && name == "block":
			want = b.Waits[0].Sites[0].Frames
		default:
			t.Fatalf("%s: bundle %+v", name, b)
		}
		if got, err := p.Frames(p.Sample[0]); err != nil || len(got) == 0 || &got[0] != &want[0] {
			t.Errorf("%s: the sample's frames are not those of the bundle (%v)", name, err)
		}
	}
}

func TestReadProfileRefuses(t *testing.T) {
	t.Parallel()
	proto := goroutineProto(t, "a", time.Now(), 7)
	const expected = "expected a goroutine, block or mutex profile in protobuf, saw "
	for _, tt := range []struct {
		name string
		data []byte
		max  int64
		want string
	}{
		{"empty", nil, 0, expected + "an empty input"},
		{"dump", []byte(dumpText), 0, expected + "text | try a goroutine profile: curl"},
		{"block profile as text", []byte("--- contention:\ncycles/second=1000000000\n"), 0, expected + "text"},
		{"series", []byte("up 1 1764480000\n# EOF\n"), 0, expected + "text"},
		{"HTML", []byte("<!DOCTYPE html><html></html>"), 0, expected + "HTML"},
		{"cpu profile", typedProto(t, "samples", "count", "cpu", "nanoseconds"), 0, expected + "a CPU profile | try a goroutine profile: curl"},
		{"heap profile", gz(typedProto(t, "inuse_objects", "count", "inuse_space", "bytes")), 0, expected + "a heap profile"},
		{"unknown profile", typedProto(t, "apples", "kilograms"), 0, expected + "an unknown sort of profile (apples/kilograms)"},
		{"gzip three deep", gz(gz(gz(proto))), 0, expected + "gzip within gzip"},
		{"cut off", proto[:len(proto)-5], 0, "expected a pprof profile | cut off or damaged | take it again"},
		{"gzip cut off", gz(proto)[:len(gz(proto))-30], 0, "expected a whole gzip file | cut off or damaged | take it again"},
		{"larger than asked for", gz(proto), 50, "unpacked to more than 50 bytes | --max-bytes"},
		{"message bomb", gz(bytes.Repeat([]byte{0x12, 0}, maxParsed/messageMemory+1)), 0, "would take more than 1 GiB of memory to read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := ReadProfile(tt.name, bytes.NewReader(tt.data), tt.max)
			if err == nil {
				t.Fatalf("read %+v", p)
			}
			wantParts(t, err.Error(), tt.want)
			if strings.ContainsAny(err.Error(), "\n") || strings.HasSuffix(err.Error(), ".") {
				t.Errorf("want one line without final stop, got %q", err)
			}
		})
	}
}
