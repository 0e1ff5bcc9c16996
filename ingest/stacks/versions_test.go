package stacks_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/stacks"
)

// parked is one entry of testdata/versions/expect.json; its README says what
// the fields mean.
type parked struct {
	Function string            `json:"function"`
	Wait     string            `json:"wait"`
	Accept   []string          `json:"accept"`
	Count    int64             `json:"count"`
	Site     string            `json:"site"`
	AnySite  bool              `json:"any_site"`
	Send     bool              `json:"send"`
	Nil      bool              `json:"nil"`
	Leaked   *bool             `json:"leaked"`
	Found    map[string]int64  `json:"found"`
	Go       []string          `json:"go"`
	Files    []string          `json:"files"`
	Labels   map[string]string `json:"labels"`
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// open reads a capture, gzipped or not, in whichever form it is.
func open(t *testing.T, path string) *stacks.Snapshot {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if strings.HasSuffix(path, ".pb.gz") {
		p, err := profile.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := stacks.FromProfile(path, p)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	all, err := stacks.ReadText(path, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%s: read %d dumps, want 1", path, len(all))
	}
	return all[0]
}

func stands(g *stacks.Group, function string) bool {
	return slices.ContainsFunc(g.Frames, func(f *stacks.Frame) bool { return f.Func == function })
}

// TestVersions holds what is read of one program on eight Go releases, in
// every format, to what the program does.
func TestVersions(t *testing.T) {
	var want []parked
	readJSON(t, "testdata/versions/expect.json", &want)
	files, _ := filepath.Glob("testdata/versions/go1.*/*.gz")
	n := 0
	for _, path := range files {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".txt")
		if name == "block.pb" || name == "mutex.pb" {
			continue
		}
		n++
		release := filepath.Base(filepath.Dir(path))
		t.Run(release+"/"+name, func(t *testing.T) {
			t.Parallel()
			s := open(t, path)
			if len(s.Warnings) > 0 {
				t.Errorf("warnings: %q", s.Warnings)
			}
			if s.Loss.Lost != 0 {
				t.Errorf("lost %d goroutines", s.Loss.Lost)
			}
			seen := map[*stacks.Group]bool{}
			for _, e := range want {
				if len(e.Go) > 0 && !slices.Contains(e.Go, release) || len(e.Files) > 0 && !slices.ContainsFunc(e.Files, func(f string) bool { return strings.HasPrefix(f, name) }) {
					continue
				}
				var count int64
				for _, g := range s.Groups {
					if !stands(g, e.Function) {
						continue
					}
					if seen[g] {
						t.Errorf("%s: stack counted twice", e.Function)
					}
					seen[g] = true
					count += g.Count
					checkWait(t, e, g, name)
				}
				if count != e.Count {
					t.Errorf("%s: %d goroutines, want %d", e.Function, count, e.Count)
				}
			}
			for _, g := range s.Groups {
				if !seen[g] && g.Wait.Kind != stacks.Idle && !runtimeOnly(g) {
					t.Errorf("unexpected: %d in %s, %s", g.Count, g.Frames[0].Func, g.Wait.Kind)
				}
			}
		})
	}
	if n < 40 {
		t.Fatalf("found %d captures, want 8 releases in 5 forms", n)
	}
}

func runtimeOnly(g *stacks.Group) bool {
	return !slices.ContainsFunc(g.Frames, func(f *stacks.Frame) bool { return f.Package != "runtime" })
}

func checkWait(t *testing.T, e parked, g *stacks.Group, file string) {
	t.Helper()
	if ok := append([]string{e.Wait}, e.Accept...); !slices.Contains(ok, string(g.Wait.Kind)) {
		t.Errorf("%s: wait %q (reason %q), want one of %q", e.Function, g.Wait.Kind, g.Reason, ok)
		return
	}
	if site := e.Function; !e.AnySite && g.Wait.Kind != stacks.Idle {
		if e.Site != "" {
			site = e.Site
		}
		if g.Wait.Site < 0 || g.Frames[g.Wait.Site].Func != site {
			got := "none"
			if g.Wait.Site >= 0 {
				got = g.Frames[g.Wait.Site].Func
			}
			t.Errorf("%s: site %s, want %s", e.Function, got, site)
		}
	}
	counts := strings.HasPrefix(file, "goroutine.debug1")
	if g.Wait.Send != e.Send && !counts {
		t.Errorf("%s: send %v, want %v", e.Function, g.Wait.Send, e.Send)
	}
	if text := !counts && !strings.HasPrefix(file, "goroutine.pb"); text && g.Wait.Nil != e.Nil {
		t.Errorf("%s: never ends %v, want %v", e.Function, g.Wait.Nil, e.Nil)
	}
}

func TestLeakMarks(t *testing.T) {
	var want []parked
	readJSON(t, "testdata/versions/expect-leak.json", &want)
	for _, release := range []string{"leak-go1.26", "leak-go1.27"} {
		for _, file := range []string{"goroutineleak.pb.gz", "goroutineleak.debug1.txt.gz", "goroutine.debug2.txt.gz"} {
			t.Run(release+"/"+file, func(t *testing.T) {
				t.Parallel()
				s := open(t, filepath.Join("testdata/versions", release, file))
				marks := file == "goroutine.debug2.txt.gz"
				if !marks && s.Format != stacks.Leak {
					t.Errorf("format %s, want %s", s.Format, stacks.Leak)
				}
				for _, e := range want {
					if n, ok := e.Found[file]; ok {
						e.Count = n
					}
					var count, leaked int64
					for _, g := range s.Groups {
						if stands(g, e.Function) {
							count += g.Count
							leaked += g.Leaked
						}
					}
					switch {
					case marks && *e.Leaked:
						if count < e.Count || leaked != e.Count {
							t.Errorf("%s: %d marked as leaked of %d, want %d", e.Function, leaked, count, e.Count)
						}
					case marks:
						if leaked != 0 {
							t.Errorf("%s: %d marked as leaked, want none", e.Function, leaked)
						}
					case *e.Leaked && count != e.Count:
						t.Errorf("%s: %d, want %d", e.Function, count, e.Count)
					case !*e.Leaked && count != 0:
						t.Errorf("%s: %d in a leak profile, want none", e.Function, count)
					}
				}
			})
		}
	}
}

func TestLabels(t *testing.T) {
	var want []parked
	readJSON(t, "testdata/versions/expect-labels.json", &want)
	files, _ := filepath.Glob("testdata/versions/labels-*/goroutine.*")
	if len(files) < 4 {
		t.Fatalf("found %d captures with labels", len(files))
	}
	for _, path := range files {
		t.Run(strings.TrimPrefix(path, "testdata/versions/"), func(t *testing.T) {
			t.Parallel()
			s := open(t, path)
			have := map[string][]string{}
			var count int64
			for _, g := range s.Groups {
				if !stands(g, "main.waitLabelled") {
					continue
				}
				count += g.Count
				for k, vs := range g.Labels {
					have[k] = append(have[k], vs...)
				}
			}
			var total int64
			for _, e := range want {
				total += e.Count
				for k, v := range e.Labels {
					// Of one key's values a group keeps the first few.
					if !slices.Contains(have[k], v) && len(have[k]) < 8 {
						t.Errorf("label %q=%q not read; of that key: %q", k, v, have[k])
					}
				}
			}
			for k, vs := range have {
				for _, v := range vs {
					if !slices.ContainsFunc(want, func(e parked) bool { return e.Labels[k] == v }) {
						t.Errorf("label %q=%q was never set", k, v)
					}
				}
			}
			if count != total {
				t.Errorf("%d goroutines with labels, want %d", count, total)
			}
		})
	}
}
