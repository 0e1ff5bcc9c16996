package waits_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// TestVersions holds block and mutex profiles of one program on eight Go
// releases to the waits that the program had, one after the other.
func TestVersions(t *testing.T) {
	const dir = "../stacks/testdata/versions"
	var want struct {
		Block, Mutex []struct {
			Function    string
			Wait        string
			Send        bool
			Contentions int64
		}
		DelayEachAtLeast string `json:"delay_each_at_least"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "expect-contention.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	each, err := time.ParseDuration(want.DelayEachAtLeast)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "go1.*", "*.pb.gz"))
	n := 0
	for _, path := range files {
		kind := waits.Kind(strings.TrimSuffix(filepath.Base(path), ".pb.gz"))
		if kind != waits.Block && kind != waits.Mutex {
			continue
		}
		n++
		t.Run(filepath.Base(filepath.Dir(path))+"/"+string(kind), func(t *testing.T) {
			t.Parallel()
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p, err := profile.Parse(f)
			if err != nil {
				t.Fatal(err)
			}
			w, err := waits.FromProfile("contention", p)
			if err != nil {
				t.Fatal(err)
			}
			if w.Kind != kind {
				t.Errorf("kind %s, want %s", w.Kind, kind)
			}
			expected := want.Block
			if kind == waits.Mutex {
				expected = want.Mutex
			}
			for _, e := range expected {
				var contentions int64
				var delay time.Duration
				for i := range w.Sites {
					s := &w.Sites[i]
					if !slices.ContainsFunc(s.Frames, func(f *stacks.Frame) bool { return f.Func == e.Function }) {
						continue
					}
					contentions += s.Contentions
					delay += s.Delay
					if e.Wait != "" && string(s.Wait.Kind) != e.Wait {
						t.Errorf("%s: wait %q, want %q", e.Function, s.Wait.Kind, e.Wait)
					}
					if e.Wait != "" && s.Wait.Send != e.Send {
						t.Errorf("%s: send %v, want %v", e.Function, s.Wait.Send, e.Send)
					}
					if s.Wait.Site < 0 || stacks.Owner(s.Frames[s.Wait.Site]) != e.Function {
						t.Errorf("%s: site %d of %s, want the function itself", e.Function, s.Wait.Site, s.Frames[0].Func)
					}
				}
				if contentions != e.Contentions {
					t.Errorf("%s: %d contentions, want %d", e.Function, contentions, e.Contentions)
				}
				if least := time.Duration(e.Contentions) * each; delay < least {
					t.Errorf("%s: delay %v, want at least %v", e.Function, delay, least)
				}
			}
		})
	}
	if n != 16 {
		t.Fatalf("found %d profiles, want 8 releases of 2", n)
	}
}
