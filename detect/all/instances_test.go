package all_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
)

// queue is a dump of a process with so many requests that wait for one lock of
// the metrics' registry, in a method of it.
func queue(n int, method string) string {
	return fmt.Sprintf(`
		%d sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < github.com/prometheus/client_golang/prometheus.(*Registry).%s(0xc000100000) < main.record < HANDLER
		1 runnable: sort.Strings < github.com/prometheus/client_golang/prometheus.(*Registry).Register(0xc000100000) < main.record < HANDLER
		2 IO wait: internal/poll.runtime_pollWait < net.(*conn).Read < bufio.(*Reader).Peek < net/http.(*conn).serve`, n, method)
}

// recorded is a bundle whose list says of which instance each dump is: by name of
// the instance, with how long after the start it was taken.
func recorded(t *testing.T, dumps map[string]string, after map[string]time.Duration) *ingest.Bundle {
	t.Helper()
	b := &ingest.Bundle{Instances: map[string]ingest.Instance{}}
	for _, name := range slices.Sorted(maps.Keys(dumps)) {
		at, ok := after[name]
		if !ok {
			at = 59*time.Minute + time.Duration(len(b.Snapshots))*10*time.Millisecond
		}
		file := "bundle/profiles/" + name + "/goroutine.txt"
		b.Snapshots = append(b.Snapshots, taken(t, file, dumps[name], at))
		b.Instances[file] = ingest.Instance{Bundle: "bundle", Job: "gateway", Name: name}
	}
	return b
}

func ofDetector(r *detect.Report, name string) []detect.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f detect.Finding) bool { return f.Detector != name || f.Alert != "" })
}

// TestInstances joins what instances of one job show alike, and names the one
// that shows what others do not.
func TestInstances(t *testing.T) {
	t.Parallel()
	four := map[string]string{"g-1": queue(78, "Register"), "g-2": queue(58, "Register"), "g-3": queue(68, "Gather"), "g-4": queue(48, "Register")}
	wedged := map[string]string{"g-1": quiet, "g-2": quiet, "g-3": queue(68, "Register"), "g-4": quiet}
	gone := maps.Clone(four)
	gone["g-0"] = queue(38, "Register")
	for _, tt := range []struct {
		name      string
		dumps     map[string]string
		after     map[string]time.Duration
		summary   string // how the verdict begins
		instances detect.Affected
		in        []string // instances of the finding
		process   string
		requests  [2]int64 // blocked, and in all
		inFlight  float64  // of the budget
		evidence  string
	}{
		{"all", four, nil,
			"4 of 4 instances of gateway, 252 of 256 requests; in g-1: ", detect.Affected{Affected: 4, Total: 4},
			[]string{"g-1", "g-2", "g-3", "g-4"}, "", [2]int64{252, 256}, 256, "g-3: 68 of 69 requests"},
		{"one", wedged, nil,
			"g-3: ", detect.Affected{Affected: 1, Total: 4},
			[]string{"g-3"}, "g-3", [2]int64{68, 69}, 69, ""},
		{"one that had ended", gone, map[string]time.Duration{"g-0": 50 * time.Minute},
			"4 of 4 instances of gateway, 252 of 256 requests; in g-1: ", detect.Affected{Affected: 4, Total: 4},
			[]string{"g-1", "g-2", "g-3", "g-4"}, "", [2]int64{252, 256}, 256, "g-0, at 08:50:00 UTC: 38 of 39 requests"},
		{"a bundle of one", map[string]string{"g-1": four["g-1"]}, nil,
			"", detect.Affected{Affected: 1, Total: 1}, []string{"g-1"}, "", [2]int64{78, 79}, 79, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := detect.Run(recorded(t, tt.dumps, tt.after), nil, all.Detectors(), detect.Options{})
			v := r.Verdict
			if v.Cause != "telemetryblock" || v.Job != "gateway" || v.Instances == nil || *v.Instances != tt.instances || !strings.HasPrefix(v.Summary, tt.summary) {
				t.Errorf("verdict %+v, instances %+v", v, v.Instances)
			}
			if strings.Count(v.Summary, " requests") > 2 {
				t.Errorf("summary %q", v.Summary)
			}
			found := ofDetector(r, "telemetryblock")
			if len(found) != 1 {
				t.Fatalf("%d findings, want one: %+v", len(found), found)
			}
			f := found[0]
			if f.Job != "gateway" || f.Process != tt.process || !slices.Equal(f.Instances, tt.in) || f.RequestsBlocked != tt.requests[0] || f.Requests != tt.requests[1] {
				t.Errorf("finding of %q in %q, job %s, %d of %d requests", f.Process, f.Instances, f.Job, f.RequestsBlocked, f.Requests)
			}
			if (f.Lock == "") != (len(tt.in) > 1) {
				t.Errorf("lock %q of %d instances", f.Lock, len(tt.in))
			}
			if tt.evidence != "" && !slices.ContainsFunc(f.Evidence, func(e detect.Evidence) bool { return e.Text == tt.evidence }) {
				t.Errorf("no evidence %q in %+v", tt.evidence, f.Evidence)
			}
			if s := r.Budget[0]; s.Where != detect.PlaceInFlight || s.Now.Stacks == nil || *s.Now.Stacks != tt.inFlight {
				t.Errorf("budget %+v, want %g in flight", s, tt.inFlight)
			}
			var text bytes.Buffer
			if err := report.Text(&text, r, report.TextOptions{Width: 100, Top: 3}); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%d of %d instance", tt.instances.Affected, tt.instances.Total); !strings.Contains(text.String(), want) || len(tt.dumps) > 1 && strings.Count(text.String(), "telemetryblock, cause") != 1 {
				t.Errorf("the report lacks %q, or has its finding more than once:\n%s", want, text.String())
			}
		})
	}
}

// TestInstancesTogether holds the series of the instances that share a verdict
// against their stacks, and those of no other.
func TestInstancesTogether(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i, held := range []int{70, 60, 60, 50} {
		fmt.Fprintf(&text, `
contend:up{job="gateway",instance="g-%[1]d"}        1x239
contend:inflight{job="gateway",instance="g-%[1]d"}  4x221 %[2]dx17
contend:cpu{job="gateway",instance="g-%[1]d"}       0.5x239
contend:lock_wait{job="gateway",instance="g-%[1]d"} 0.1x222 %[3]dx16`, i+1, held+1, held)
	}
	text.WriteString(`
contend:inflight{job="gateway",instance="g-9"}  7x239
contend:inflight{job="cdn",instance="cdn"}      900x239
`)
	four := map[string]string{"g-1": queue(78, "Register"), "g-2": queue(58, "Register"), "g-3": queue(68, "Gather"), "g-4": queue(48, "Register")}
	wedged := map[string]string{"g-1": quiet, "g-2": quiet, "g-3": queue(68, "Register"), "g-4": quiet}
	well := map[string]string{"g-1": quiet, "g-2": quiet}
	for _, tt := range []struct {
		name           string
		dumps          map[string]string
		at             time.Duration
		cause, job, of string
		stacks, series float64 // in flight
		warnings       int
	}{
		{"all", four, 59 * time.Minute, "telemetryblock", "gateway", "4 instances of gateway", 256, 244, 0},
		{"one", wedged, 59 * time.Minute, "telemetryblock", "gateway", "g-3", 69, 61, 0},
		{"all before the trouble", four, 30 * time.Minute, "telemetryblock", "gateway", "4 instances of gateway", 256, 16, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			after := map[string]time.Duration{}
			for name := range tt.dumps {
				after[name] = tt.at
			}
			b := recorded(t, tt.dumps, after)
			b.Series = cases.Series(t, text.String())
			r := detect.Run(b, nil, all.Detectors(), detect.Options{})
			if r.Verdict.Cause != tt.cause || r.Verdict.Job != tt.job {
				t.Errorf("verdict %+v", r.Verdict)
			}
			s := r.Budget[0]
			if s.Where != detect.PlaceInFlight || s.Now.Stacks == nil || s.Now.Series == nil || *s.Now.Stacks != tt.stacks || *s.Now.Series != tt.series {
				t.Errorf("budget %+v, want %g by stacks and %g by series", s, tt.stacks, tt.series)
			}
			if r.BudgetTimes == nil || r.BudgetTimes.Of != tt.of {
				t.Errorf("budget of %+v, want %s", r.BudgetTimes, tt.of)
			}
			if len(r.Warnings) != tt.warnings {
				t.Errorf("%d warnings, want %d: %q", len(r.Warnings), tt.warnings, r.Warnings)
			}
			lines := 0
			for _, line := range r.Verdict.Story {
				if line.Detector == tt.cause {
					lines++
				}
			}
			if lines != 1 {
				t.Errorf("story %+v", r.Verdict.Story)
			}
		})
	}
	t.Run("of another job", func(t *testing.T) {
		t.Parallel()
		b := recorded(t, four, nil)
		for name, i := range b.Instances {
			i.Job = "shop"
			b.Instances[name] = i
		}
		b.Series = cases.Series(t, text.String())
		r := detect.Run(b, nil, all.Detectors(), detect.Options{})
		if r.Verdict.Job != "shop" || r.BudgetTimes != nil || len(r.Verdict.Story) > 0 {
			t.Errorf("verdict %+v with the budget of %+v: no series are of its job", r.Verdict, r.BudgetTimes)
		}
	})
	t.Run("well", func(t *testing.T) {
		t.Parallel()
		r := detect.Run(recorded(t, well, nil), nil, all.Detectors(), detect.Options{})
		if want := "nothing found: gateway: 2 requests in flight among 6 goroutines of 2 instances"; r.Verdict.Cause != "" || r.Verdict.Summary != want {
			t.Errorf("verdict %+v, want %q", r.Verdict, want)
		}
		if s := r.Budget[0]; s.Now.Stacks == nil || *s.Now.Stacks != 2 {
			t.Errorf("budget %+v", s)
		}
	})
}
