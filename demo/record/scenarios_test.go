package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

const recorded = "../scenarios"

// maxBundle keeps the repository small: a bundle is a few profiles.
const maxBundle = 200 << 10 // bytes

// TestRecordedBundles holds the bundles in the repository to what the recorder
// promises: readable, small, with nothing of the machine that made them.
func TestRecordedBundles(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			b := readBundle(t, filepath.Join(recorded, s.name, "bundle"))
			size := 0
			for name, data := range b.files {
				size += len(data)
				if strings.HasSuffix(name, ".pb.gz") {
					checkProfilePaths(t, name, data)
				} else {
					checkDumpPaths(t, name, data)
				}
			}
			if size == 0 || size > maxBundle {
				t.Errorf("the bundle has %d bytes, want some and at most %d", size, maxBundle)
			}
		})
	}
}

func checkProfilePaths(t *testing.T, name string, data []byte) {
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// A healthy gateway's mutex profile may well be empty; goroutines there always are.
	if len(p.Function) == 0 && strings.Contains(name, "goroutine") {
		t.Errorf("%s names no function", name)
	}
	for _, f := range p.Function {
		if strings.HasPrefix(f.Filename, "/") || strings.Contains(f.Filename, `:\`) {
			t.Errorf("%s holds the path %s", name, f.Filename)
		}
	}
}

func checkDumpPaths(t *testing.T, name string, data []byte) {
	text := gunzip(t, name, data)
	files := regexp.MustCompile(`(?m)^\t(.+):\d+`).FindAllSubmatch(text, -1)
	if len(files) == 0 {
		t.Errorf("%s names no file", name)
	}
	for _, f := range files {
		if bytes.HasPrefix(f[1], []byte("/")) || bytes.Contains(f[1], []byte(`:\`)) {
			t.Errorf("%s holds the path %s", name, f[1])
		}
	}
}

func gunzip(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxAnswer))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return text
}

// TestRecordedFault counts handlers by hand, apart from contend's own reading:
// nearly all wait for the registry's lock under the fault, none without it.
func TestRecordedFault(t *testing.T) {
	for _, test := range []struct {
		name             string
		min, max         int     // handlers, one for each request
		minHeld, maxHeld float64 // share of them in Register, asleep
	}{
		{"telemetryblock", 300, 5000, 0.9, 1},
		{"healthy", 0, 50, 0, 0},
	} {
		b := readBundle(t, filepath.Join(recorded, test.name, "bundle"))
		dumps := 0
		for name, data := range b.files {
			if !strings.HasSuffix(name, ".txt.gz") {
				continue
			}
			dumps++
			handlers, held := 0, 0
			for goroutine := range strings.SplitSeq(string(gunzip(t, name, data)), "\n\n") {
				if !strings.Contains(goroutine, "demo/gateway.(*Gateway).serve") {
					continue
				}
				handlers++
				if strings.Contains(goroutine, "sync.(*RWMutex).Lock(") && strings.Contains(goroutine, "prometheus.(*Registry).Register(") {
					held++
				}
			}
			share := float64(held) / float64(max(handlers, 1))
			if handlers < test.min || handlers > test.max || share < test.minHeld || share > test.maxHeld {
				t.Errorf("%s, %s: %d handlers, %d of them wait for the registry", test.name, name, handlers, held)
			}
		}
		if dumps != 1 {
			t.Errorf("%s has %d text dumps, want 1", test.name, dumps)
		}
	}
}

func TestTruth(t *testing.T) {
	line := regexp.MustCompile(`^(#.*|verdict ([a-z]+)|(want|allow) [a-z]+( [A-Za-z]+)?  # .+|)$`)
	for name, verdict := range map[string]string{"telemetryblock": "telemetryblock", "healthy": "none"} {
		text, err := os.ReadFile(filepath.Join(recorded, name, "truth.txt"))
		if err != nil {
			t.Fatal(err)
		}
		verdicts := ""
		for l := range strings.Lines(string(text)) {
			m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
			if m == nil {
				t.Errorf("%s: cannot read %q", name, l)
				continue
			}
			verdicts += m[2]
		}
		if verdicts != verdict {
			t.Errorf("%s: the verdict is %q, want %q", name, verdicts, verdict)
		}
	}
}
