package ingest

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/series"
)

// samplesAt is OpenMetrics text of one instance with n samples every 15 s from each time.
func samplesAt(n int, from ...time.Time) string {
	var b strings.Builder
	for _, name := range []string{"up", "http_requests_in_flight"} {
		for _, t := range from {
			for i := range n {
				fmt.Fprintf(&b, "%s{job=\"a\",instance=\"1\"} 1 %d\n", name, t.Unix()+int64(15*i))
			}
			n *= 4 // the later ones are larger
		}
		n >>= 2 * len(from)
	}
	return b.String() + "# EOF\n"
}

// TestSeriesWindow: what is looked at where a file has samples of several times.
func TestSeriesWindow(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	second := first.Add(20 * time.Hour)
	text := samplesAt(41, first, second) // 10 minutes, 41 minutes
	at := func(clock string) time.Time {
		u, err := time.Parse(time.DateTime, "2026-03-0"+clock)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, tt := range []struct {
		name       string
		until      time.Time
		since      time.Duration
		start, end time.Time
	}{
		{"the larger part", time.Time{}, 0, second, at("3 05:40:45")},
		{"a month is clamped to what is there", time.Time{}, 720 * time.Hour, second, at("3 05:40:45")},
		{"its last ten minutes", time.Time{}, 10 * time.Minute, at("3 05:30:45"), at("3 05:40:45")},
		{"until within the earlier part", at("2 09:05:00"), 0, first, at("2 09:05:00")},
		{"until between both", at("2 15:00:00"), 0, first, at("2 09:10:00")},
		{"until after both", at("9 00:00:00"), 0, second, at("3 05:40:45")},
	} {
		b := Load(t.Context(), []string{"-"}, Options{Stdin: strings.NewReader(text)})
		b.ReadSeries(t.Context(), SeriesOptions{Until: tt.until, Since: tt.since, Collect: series.CollectOptions{}})
		if b.Series == nil {
			t.Errorf("%s: no series: %v", tt.name, b.Failures)
			continue
		}
		if !b.Series.Start.Equal(tt.start) || !b.Series.End.Equal(tt.end) {
			t.Errorf("%s: %s to %s, want %s to %s", tt.name, b.Series.Start, b.Series.End, tt.start, tt.end)
		}
		if len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], "--until looks at those") {
			t.Errorf("%s: gaps %q", tt.name, b.Warnings)
		}
	}
}

// TestManifest: what a bundle's list says goes with its files, and a list of another
// kind is a failure beside them.
func TestManifest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, list, gap, failure string }{
		{"what is missing", `{"schema": "contend.bundle/v1", "target": "http://me:hunter2@gw:6060", "clock_factor": 60, "missing": [{"what": "block", "reason": "404"}]}`, "block is missing: 404", ""},
		{"another schema", `{"schema": "contend.bundle/v9"}`, "", `schema contend.bundle/v1, saw "contend.bundle/v9"`},
		{"no JSON", `{`, "", "expected a bundle's list in JSON"},
		{"a clock of its own", `{"schema": "contend.bundle/v1", "clock_factor": -1}`, "", "expected a clock factor from 0.001 to 10000, or 0 for none, saw -1"},
		{"a clock that hardly moves", `{"schema": "contend.bundle/v1", "clock_factor": 1e-9}`, "", "expected a clock factor"},
		{"a slow clock", `{"schema": "contend.bundle/v1", "clock_factor": 1e-3}`, "", ""},
	} {
		dir := t.TempDir()
		write(t, dir, "bundle.json", []byte(tt.list))
		write(t, dir, "series.om", []byte(samplesAt(20, time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))))
		b := Load(t.Context(), []string{dir}, Options{})
		if len(b.Read) != 1 {
			t.Errorf("%s: read %v", tt.name, b.Read)
		}
		if got := strings.Join(b.Warnings, "\n"); got != tt.gap {
			t.Errorf("%s: gaps %q, want %q", tt.name, got, tt.gap)
		}
		var failures []string
		for _, f := range b.Failures {
			failures = append(failures, f.Err.Error())
		}
		if got := strings.Join(failures, "\n"); (got == "") != (tt.failure == "") || !strings.Contains(got, tt.failure) {
			t.Errorf("%s: failures %q, want %q", tt.name, got, tt.failure)
		}
		if tt.gap != "" && (b.ClockFactor != 60 || strings.Contains(b.Target, "hunter2") || !strings.Contains(b.Target, "gw:6060")) {
			t.Errorf("%s: factor %g, target %q", tt.name, b.ClockFactor, b.Target)
		}
	}
}

// TestScrapes: two pages of one process, whose files say when they were written,
// are two moments of one instance; those of two processes are two instances.
func TestScrapes(t *testing.T) {
	t.Parallel()
	page := func(began, cpu float64) []byte {
		return fmt.Appendf(nil, "process_start_time_seconds %g\nprocess_cpu_seconds_total %g\nhttp_requests_in_flight 5\n", began, cpu)
	}
	first := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name      string
		began     float64 // of the second page
		apart     time.Duration
		instances int
		cores     float64 // busy on the first instance at the end; 0 is none
		unused    int
	}{
		{"one process", 1.7e9, 30 * time.Second, 1, 0.5, 0},
		{"two processes", 1.8e9, 30 * time.Second, 2, 0, 0},
		{"copies with the time of the copy", 1.7e9, 0, 1, 0, 1},
	} {
		dir := t.TempDir()
		a := write(t, dir, "a.txt", page(1.7e9, 100))
		b := write(t, dir, "b.txt", page(tt.began, 115))
		for path, at := range map[string]time.Time{a: first, b: first.Add(tt.apart)} {
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
		bundle := Load(t.Context(), []string{a, b}, Options{})
		bundle.ReadSeries(t.Context(), SeriesOptions{})
		if len(bundle.Failures) > 0 || bundle.Series == nil {
			t.Fatalf("%s: %v", tt.name, bundle.Failures)
		}
		c := bundle.Series
		if got := len(c.Instances["scrape"]); got != tt.instances || len(bundle.Unused) != tt.unused {
			t.Errorf("%s: %d instances, unused %v; want %d and %d", tt.name, got, bundle.Unused, tt.instances, tt.unused)
		}
		cores := 0.0
		for _, col := range c.Store.Columns("contend:cpu") {
			for i, v := range col.V {
				if time.UnixMilli(col.T[i]).Equal(c.End) {
					cores = v
				}
			}
		}
		if math.Abs(cores-tt.cores) > 1e-9 {
			t.Errorf("%s: %g cores, want %g", tt.name, cores, tt.cores)
		}
	}
}
