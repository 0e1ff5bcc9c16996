package scenarios_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/demo/scenarios"
)

// Bytes of all files of a recorded run, which are in the binary.
const (
	maxBundle = 240 << 10
	// The incident and its variants last twice as long and go through dozens of tasks.
	maxIncident = 512 << 10
)

// recorded are the files of a scenario's bundle, by their names in it.
func recorded(t *testing.T, name string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	root := name + "/bundle"
	err := fs.WalkDir(scenarios.Files, root, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(scenarios.Files, file)
		files[strings.TrimPrefix(file, root+"/")] = data
		return err
	})
	if err != nil {
		t.Fatalf("expected a recorded run: %v", err)
	}
	return files
}

func TestBundles(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long, and shares nothing between goroutines")
	}
	t.Parallel()
	for _, s := range scenarios.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			files := recorded(t, s.Name)
			size := 0
			for file, data := range files {
				size += len(data)
				checkFile(t, file, data)
			}
			most := maxBundle
			if s.Length > 30*time.Second {
				most = maxIncident
			}
			if size > most {
				t.Errorf("has %d bytes, want at most %d", size, most)
			}
			checkManifest(t, files, len(s.Profiles) > 0)
		})
	}
}

// checkManifest holds the list of a bundle to its files.
func checkManifest(t *testing.T, files map[string][]byte, profiled bool) {
	t.Helper()
	var list struct {
		Schema      string  `json:"schema"`
		ClockFactor float64 `json:"clock_factor"`
		Partial     string  `json:"partial"`
		Taken       []struct {
			File string `json:"file"`
			Kind string `json:"kind"`
		} `json:"taken"`
		Events []struct {
			Name string `json:"name"`
		} `json:"events"`
	}
	if err := json.Unmarshal(files["bundle.json"], &list); err != nil {
		t.Fatalf("expected bundle.json: %v", err)
	}
	if list.Schema != "contend.bundle/v1" || list.ClockFactor != 60 || list.Partial != "" {
		t.Errorf("schema %q, clock factor %v, partial %q; want a whole contend.bundle/v1 at 60", list.Schema, list.ClockFactor, list.Partial)
	}
	kinds := map[string]int{}
	for _, taken := range list.Taken {
		kinds[taken.Kind]++
		if files[taken.File] == nil {
			t.Errorf("%s is listed and not there", taken.File)
		}
	}
	if len(list.Taken) != len(files)-1 {
		t.Errorf("%d files are listed, and %d are there", len(list.Taken), len(files)-1)
	}
	if kinds["series"] != 1 || kinds["goroutine"] > 0 != profiled {
		t.Errorf("has %v, want series, and profiles: %v", kinds, profiled)
	}
	outcomes := 0
	for _, e := range list.Events {
		if e.Name == "outcome" {
			outcomes++
		}
	}
	if outcomes != 1 {
		t.Errorf("has %d outcomes among its events, want one", outcomes)
	}
}

// checkFile looks for what only the machine has that recorded it.
func checkFile(t *testing.T, file string, data []byte) {
	t.Helper()
	if strings.HasSuffix(file, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			return
		}
		if data, err = io.ReadAll(z); err != nil {
			t.Errorf("%s: %v", file, err)
			return
		}
	}
	for _, found := range strangers(string(data)) {
		t.Errorf("%s has the address %s", file, found)
	}
	if !strings.HasSuffix(file, ".pb.gz") {
		for _, found := range machinePaths(string(data)) {
			t.Errorf("%s has the path %s", file, found)
		}
		return
	}
	p, err := profile.ParseData(data)
	if err != nil {
		t.Errorf("%s: %v", file, err)
		return
	}
	for _, m := range p.Mapping {
		if m.File != path.Base(m.File) && m.File != "" {
			t.Errorf("%s has the mapping %s", file, m.File)
		}
	}
	for _, f := range p.Function {
		if isAbsolute(f.Filename) {
			t.Errorf("%s has the source file %s; build with -trimpath", file, f.Filename)
			break // all of them have
		}
	}
	for _, text := range p.Comments {
		for _, found := range machinePaths(text) {
			t.Errorf("%s has the path %s", file, found)
		}
	}
}

var (
	drive = regexp.MustCompile(`^[A-Za-z]:[\\/]`)
	// A source file, or anything below what a file system has at its root; paths of
	// URLs, such as /debug/pprof, are neither.
	machinePath = regexp.MustCompile(`(?:^|[\s"'=(])(/(?:[^\s"'()/:]+/)*[^\s"'()/:]+\.go\b|/(?:build|github|go|home|mnt|opt|private|root|runner|src|tmp|usr|var|work|Users|Volumes)/[^\s"'()]*|[A-Za-z]:\\[^\s"'()]*)`)
	ipv4        = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
	ipv6        = regexp.MustCompile(`\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]`)
	urlHost     = regexp.MustCompile(`\bhttps?://([0-9A-Za-z\[][^\s"'/\\]*)`)
)

func isAbsolute(file string) bool { return strings.HasPrefix(file, "/") || drive.MatchString(file) }

// machinePaths are the absolute paths of files in a text.
func machinePaths(text string) []string {
	var out []string
	for _, m := range machinePath.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// strangers are the addresses in a text but that of loopback.
func strangers(text string) []string {
	var out []string
	for _, m := range ipv4.FindAllString(text, -1) {
		if m != "127.0.0.1" {
			out = append(out, m)
		}
	}
	for _, m := range ipv6.FindAllStringSubmatch(text, -1) {
		if _, err := netip.ParseAddr(m[1]); err == nil {
			out = append(out, m[1])
		}
	}
	for _, m := range urlHost.FindAllStringSubmatch(text, -1) {
		if m[1] != "127.0.0.1" && !strings.HasPrefix(m[1], "127.0.0.1:") {
			out = append(out, m[1])
		}
	}
	return out
}

// The checks of the bundles find what they are for.
func TestChecks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\t/src/app/main.go:10 +0x1d":                             "/src/app/main.go",
		"main.main()\n\t/a/b.go:1":                                "/a/b.go",
		`{"reason": "open /tmp/x: denied"}`:                       "/tmp/x:",
		`"file": "/home/someone/bundle/series.om"`:                "/home/someone/bundle/series.om",
		`at C:\Users\x`:                                           `C:\Users\x`,
		"\tgithub.com/contend/contend/demo/gateway/loops.go:1":    "",
		"\truntime/proc.go:3 +0x1":                                "",
		`Get "/debug/pprof/goroutine" of gateway-1`:               "",
		`"file": "profiles/gateway-1/goroutine-2026.000Z.pb.gz"`:  "",
		`http_requests_total{handler="/healthz"} 1`:               "",
		"/sched/latencies:seconds and /sync/mutex/wait/total:sec": "",
	} {
		if got := strings.Join(machinePaths(text), " "); got != want {
			t.Errorf("paths in %q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"http://127.0.0.1:4711/metrics":        "",
		"127.0.0.1:80 127.0.0.1":               "",
		"127.0.0.2":                            "127.0.0.2",
		"dial tcp 10.1.2.3:80: refused":        "10.1.2.3",
		"listen [::1]:80":                      "::1",
		"http://localhost:80/":                 "localhost:80",
		"https://build.example.com/x":          "build.example.com",
		"http://127.0.0.1.example.com/":        "127.0.0.1.example.com",
		"v1.2.3 go1.26.8":                      "",
		"main.f[go.shape.int] [chan receive]:": "",
	} {
		if got := strings.Join(strangers(text), " "); got != want {
			t.Errorf("addresses in %q: %q, want %q", text, got, want)
		}
	}
}
