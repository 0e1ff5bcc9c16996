package all_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

const (
	// Requests that wait to register metrics, as the dump of one process shows them.
	convoy = `
		78 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < github.com/prometheus/client_golang/prometheus.(*Registry).Register(0xc000100000) < main.record < HANDLER
		1 runnable: sort.Strings < github.com/prometheus/client_golang/prometheus.(*Registry).Register(0xc000100000) < main.record < HANDLER
		2 IO wait: internal/poll.runtime_pollWait < net.(*conn).Read < bufio.(*Reader).Peek < net/http.(*conn).serve`
	quiet = `
		1 runnable: main.render < HANDLER
		2 IO wait: internal/poll.runtime_pollWait < net.(*conn).Read < bufio.(*Reader).Peek < net/http.(*conn).serve`
	// The same moment in the series of that process: a herd, then waits for locks.
	herd = `
contend:arrivals{job="gateway",instance="a"}      100x220 320x19
contend:inflight{job="gateway",instance="a"}      4x221 60x3 79x14
contend:cpu{job="gateway",instance="a"}           0.5x239
contend:lock_wait{job="gateway",instance="a"}     0.1x222 70x16
contend:health_latency{job="gateway",instance="a"} 0.002x225 0.9x13`
)

// taken is a dump of a process that says when it was taken.
func taken(t *testing.T, name, dump string, after time.Duration) *stacks.Snapshot {
	t.Helper()
	s := cases.Snapshot(t, name, dump)
	s.Taken = cases.Start.Add(after)
	return s
}

// TestTogether puts series and profiles of one service side by side.
func TestTogether(t *testing.T) {
	t.Parallel()
	b := &ingest.Bundle{Series: cases.Series(t, herd), Snapshots: []*stacks.Snapshot{taken(t, "dump", convoy, 59*time.Minute)}}
	r := detect.Run(b, nil, all.Detectors(), detect.Options{})
	v := r.Verdict
	if v.Cause != "telemetryblock" || v.Trigger != "herd" || v.Job != "gateway" {
		t.Errorf("verdict %+v", v)
	}
	var story []string
	for _, s := range v.Story {
		story = append(story, s.At.Sub(cases.Start).String()+" "+s.Detector)
	}
	if want := []string{"55m0s herd", "55m30s inflightcpu", "55m45s lockwait", "56m30s healthcheck", "59m0s telemetryblock"}; !slices.Equal(story, want) {
		t.Errorf("story %q, want %q", story, want)
	}
	for _, f := range r.Findings {
		if f.Detector == "lockwait" && (f.Severity != detect.Info || !strings.HasSuffix(f.Summary, "see telemetryblock, which names the lock")) {
			t.Errorf("lockwait does not give way: %s, %s", f.Severity, f.Summary)
		}
	}
	for _, s := range r.Budget {
		if s.Where == detect.PlaceLock && (s.Now.Stacks == nil || *s.Now.Stacks != 78 || s.Now.Series == nil || *s.Now.Series != 70 || s.Before.Series == nil || *s.Before.Series != 0.1) {
			t.Errorf("budget of locks: %+v", s)
		}
	}
	if len(r.Warnings) > 0 {
		t.Errorf("warnings %q", r.Warnings)
	}
	for _, s := range r.Skipped {
		if s.Detector == "lockwait" || s.Detector == "telemetryblock" || s.Detector == "poolwait" {
			t.Errorf("skipped: %+v", s)
		}
	}
}

// TestTogetherDisagree names what does not fit together.
func TestTogetherDisagree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, dump string
		at         time.Duration
		series     string
		cause      string
		want       string // in the warnings; "" is none
	}{
		{"of one moment", convoy, 59 * time.Minute, herd, "telemetryblock", ""},
		{"profiles of an hour later", convoy, 2 * time.Hour, herd, "telemetryblock", "they are of different moments, or a clock differs"},
		{"before the trouble", convoy, 30 * time.Minute, herd, "telemetryblock", "in flight: the profile has 79 and the series 4"},
		{"the profile shows nothing", quiet, 59 * time.Minute, herd, "lockwait", "the profiles do not show it"},
		{"another cause", convoy, 59 * time.Minute, `
contend:inflight{job="gateway",instance="a"}   4x221 79x17
contend:pool_wait{job="gateway",instance="a"}  0x221 70x17`, "telemetryblock", "the series of job gateway say poolwait and the profiles say telemetryblock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &ingest.Bundle{Series: cases.Series(t, tt.series), Snapshots: []*stacks.Snapshot{taken(t, "dump", tt.dump, tt.at)}}
			r := detect.Run(b, nil, all.Detectors(), detect.Options{})
			if r.Verdict.Cause != tt.cause {
				t.Errorf("cause %q, want %q: %s", r.Verdict.Cause, tt.cause, r.Verdict.Summary)
			}
			got := strings.Join(r.Warnings, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
}

// TestTroubleInTheMiddle finds what neither the first nor the last of a bundle's
// snapshots shows, and when it was first seen.
func TestTroubleInTheMiddle(t *testing.T) {
	t.Parallel()
	b := &ingest.Bundle{Series: cases.Series(t, herd)}
	for i, dump := range []string{quiet, convoy, convoy, quiet} {
		b.Snapshots = append(b.Snapshots, taken(t, "dump"+string(rune('1'+i)), dump, 56*time.Minute+time.Duration(i)*time.Minute))
	}
	r := detect.Run(b, nil, all.Detectors(), detect.Options{})
	if r.Verdict.Cause != "telemetryblock" || !strings.HasPrefix(r.Verdict.Summary, "earlier, in dump3: ") {
		t.Errorf("%s: %s", r.Verdict.Cause, r.Verdict.Summary)
	}
	i := slices.IndexFunc(r.Verdict.Story, func(s detect.StoryLine) bool { return s.Detector == "telemetryblock" })
	if i < 0 || r.Verdict.Story[i].At != cases.Start.Add(57*time.Minute) {
		t.Errorf("story %+v", r.Verdict.Story)
	}
}

// TestStories are series on which several detectors have something to say.
func TestStories(t *testing.T) {
	cases.Stories(t, all.Detectors(), "testdata/stories.txt")
}

// TestLeakProfileBesideJobs: a leak profile is no snapshot, and of several jobs
// none is known to be its process's.
func TestLeakProfileBesideJobs(t *testing.T) {
	t.Parallel()
	b := ingest.Load(t.Context(), []string{"../../ingest/stacks/testdata/versions/leak-go1.27/goroutineleak.pb.gz"}, ingest.Options{})
	b.Series = cases.Series(t, `
contend:inflight{job="a",instance="1"}  4x60
contend:inflight{job="b",instance="2"}  4x60`)
	r := detect.Run(b, nil, all.Detectors(), detect.Options{})
	if r.Verdict.Cause != "goroutineleak" || len(b.Failures) > 0 {
		t.Errorf("verdict %+v, failures %v", r.Verdict, b.Failures)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "an instance of none of the 2 jobs") }) {
		t.Errorf("notes %q", r.Notes)
	}
}

// TestOngoing tells what still holds from what is over, and ends a window where
// the condition ended and not its alert.
func TestOngoing(t *testing.T) {
	t.Parallel()
	for series, want := range map[string]bool{
		"contend:lock_wait{job=\"a\",instance=\"1\"} 0.1x100 80x40\ncontend:inflight{job=\"a\",instance=\"1\"} 9x100 90x40":             true,
		"contend:lock_wait{job=\"a\",instance=\"1\"} 0.1x100 80x40 0.1x20\ncontend:inflight{job=\"a\",instance=\"1\"} 9x100 90x40 9x20": false,
	} {
		r := detect.Run(&ingest.Bundle{Series: cases.Series(t, series)}, nil, all.Detectors(), detect.Options{Detectors: []string{"lockwait"}})
		if len(r.Findings) != 1 || r.Findings[0].Ongoing != want {
			t.Fatalf("%s: %+v", series, r.Findings)
		}
		if end := r.Findings[0].Window.End.Sub(cases.Start); end != 141*15*time.Second {
			t.Errorf("%s: ends at %s", series, end)
		}
	}
}
