package all_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestMiddleware holds the five middlewares around handlers that wait for
// something of the application's to their true cause, and telemetry that
// really blocks to its own.
func TestMiddleware(t *testing.T) {
	const dir = "../testdata/middleware"
	var want []struct {
		Capture, Verdict, Function, Wait, Holder string
		Blocked                                  float64
	}
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) < 13 {
		t.Fatalf("%d expectations, want 5 middlewares around 2 waits and 3 of telemetry's own", len(want))
	}
	for _, e := range want {
		for _, file := range []string{"goroutine.pb.gz", "goroutine.debug2.txt.gz", "."} {
			t.Run(e.Capture+"/"+file, func(t *testing.T) {
				t.Parallel()
				r := analyse(t, filepath.Join(dir, e.Capture, file))
				if r.Verdict.Cause != e.Verdict {
					t.Fatalf("verdict %q, want %q\n%s", r.Verdict.Cause, e.Verdict, summaries(r))
				}
				for _, f := range r.Findings {
					if f.Detector != e.Verdict {
						t.Errorf("unexpected finding %s: %s", f.Detector, f.Summary)
					}
				}
				f := top(r)
				if f.Function != e.Function || f.Wait != e.Wait || f.Blocked != e.Blocked {
					t.Errorf("%v wait for %s in %s, want %v, %s, %s", f.Blocked, f.Wait, f.Function, e.Blocked, e.Wait, e.Function)
				}
				// A holder that no waiter's function encloses is told by its receiver, which
				// only a text dump has.
				if e.Holder != "" && file != "goroutine.pb.gz" {
					if f.Holder == nil {
						t.Fatalf("no holder, want one inside %s\n%s", e.Holder, summaries(r))
					}
					found := f.Holder.Function == e.Holder
					for _, s := range f.Holder.Stack {
						found = found || s == e.Holder
					}
					if !found {
						t.Errorf("holder in %s (%v), want %s in its stack", f.Holder.Function, f.Holder.Stack, e.Holder)
					}
				}
			})
		}
	}
}
