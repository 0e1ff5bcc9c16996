package capture

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest"
)

// hosts answers for several processes, by the name of their host.
type hosts map[string]http.Handler

func (h hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if one := h[r.URL.Hostname()]; one != nil {
		one.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(gone)
}

// goroutineProfile answers with a profile of so many goroutines, of a binary
// somewhere on a disk; with debug=2 it is a dump.
func goroutineProfile(n int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("debug") == "2" {
			fmt.Fprint(w, "goroutine 1 [running]:\nmain.main()\n\t/src/app/main.go:10 +0x1d\n")
			return
		}
		m := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x800000, File: "/home/somebody/bin/contend"}
		f := &profile.Function{ID: 1, Name: "main.main"}
		l := &profile.Location{ID: 1, Mapping: m, Address: 0x400100, Line: []profile.Line{{Function: f}}}
		(&profile.Profile{
			SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}, TimeNanos: time.Now().UnixNano(),
			Mapping: []*profile.Mapping{m}, Function: []*profile.Function{f}, Location: []*profile.Location{l},
			Sample: []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{n}}},
		}).Write(w)
	}
}

func task(goroutines int64) *service {
	s := newService()
	s.at["/debug/pprof/goroutine"] = goroutineProfile(goroutines)
	return s
}

func taskTarget(name string) Target {
	return Target{Job: "gateway", Instance: name, Metrics: "http://" + name + "/metrics", PProf: "http://" + name + "/debug/pprof"}
}

func newRecorder(t *testing.T, h http.Handler, change ...func(*RecordOptions)) *Recorder {
	t.Helper()
	o := RecordOptions{Out: filepath.Join(t.TempDir(), "bundle"), ClockFactor: 60, Version: "contend v0", HTTP: &http.Client{Transport: handled{h}}}
	for _, c := range change {
		c(&o)
	}
	r, err := NewRecorder(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func add(t *testing.T, r *Recorder, targets ...Target) {
	t.Helper()
	for _, one := range targets {
		if err := r.Add(one); err != nil {
			t.Fatal(err)
		}
	}
}

// samplesOf are the values and seconds of one series in a text.
func samplesOf(text, series string) (values []string, at []string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			value, when, _ := strings.Cut(strings.TrimSpace(rest), " ")
			values, at = append(values, value), append(at, when)
		}
	}
	return values, at
}

// TestRecord records processes that come and go.
func TestRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hosts{"g-1": task(20), "g-2": task(30), "g-3": task(40), "cdn": newService()}
		r := newRecorder(t, h)
		cdn := Target{Job: "cdn", Instance: "cdn", Metrics: "http://cdn/metrics"}
		one := taskTarget("g-1")
		one.Labels = map[string]string{"pod": "g-1", "namespace": "demo"}
		add(t, r, cdn, one, taskTarget("g-2"))
		time.Sleep(2 * time.Second)
		r.Profiles(t.Context(), false)
		r.Event(time.Now(), "onset", "more arrive than are served")
		r.Remove("g-2")
		add(t, r, taskTarget("g-3"))
		time.Sleep(time.Second)
		r.Profiles(t.Context(), true)
		r.Glance(t.Context(), "g-3")
		r.Glance(t.Context(), "g-2") // gone
		r.Glance(t.Context(), "cdn") // has no profiles
		r.Event(time.Now().Add(-2*time.Second), "phase", "ramp")
		stats := r.Scrapes()
		report, err := r.Finish("")
		if err != nil {
			t.Fatal(err)
		}
		if want := (ScrapeStats{Answered: 12 + 12 + 8 + 4}); stats != want {
			t.Errorf("scrapes %+v, want %+v", stats, want)
		}
		m := manifest(t, r.Out)
		if m.ClockFactor != 60 || m.Version != "contend v0" || m.Partial != "" || len(m.Missing) > 0 || report.Scrapes != 36 || report.Failed != 0 {
			t.Errorf("bundle %+v, report %+v", m, report)
		}
		wantEvents := []Event{
			{time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC), "phase", "ramp"},
			{time.Date(2000, 1, 1, 0, 0, 2, 0, time.UTC), "onset", "more arrive than are served"},
		}
		if !slices.Equal(m.Events, wantEvents) {
			t.Errorf("events %+v, want %+v", m.Events, wantEvents)
		}
		var files []string
		for _, taken := range m.Taken {
			if taken.Kind == "series" {
				continue
			}
			kind, ending, _ := strings.Cut(strings.TrimPrefix(taken.File, "profiles/"+taken.Instance+"/"), "-")
			_, ending, _ = strings.Cut(ending, "Z.")
			files = append(files, fmt.Sprintf("%s/%s/%s.%s@%d", taken.Job, taken.Instance, kind, ending, taken.At.Unix()-946684800))
		}
		slices.Sort(files)
		// The dump is of g-3, which has the most goroutines.
		want := strings.Fields("gateway/g-1/block.pb.gz@2 gateway/g-1/block.pb.gz@3 gateway/g-1/goroutine.pb.gz@2 gateway/g-1/goroutine.pb.gz@3 gateway/g-1/mutex.pb.gz@2 gateway/g-1/mutex.pb.gz@3 " +
			"gateway/g-2/block.pb.gz@2 gateway/g-2/goroutine.pb.gz@2 gateway/g-2/mutex.pb.gz@2 " +
			"gateway/g-3/block.pb.gz@3 gateway/g-3/goroutine.pb.gz@3 gateway/g-3/goroutine.pb.gz@3 gateway/g-3/goroutine.txt.gz@3 gateway/g-3/mutex.pb.gz@3")
		if !slices.Equal(files, want) {
			t.Errorf("taken %q\nwant  %q", files, want)
		}

		text := seriesText(t, r.Out)
		const labels1 = `instance="g-1",job="gateway",namespace="demo",pod="g-1"`
		for _, tt := range []struct{ series, want string }{
			{`up{` + labels1 + `}`, "1 1 1 1 1 1 1 1 1 1 1 1"},
			{`requests_total{code="200",` + labels1 + `}`, "1 2 3 4 5 6 7 8 9 10 11 12"},
			{`up{instance="g-2",job="gateway"}`, "1 1 1 1 1 1 1 1 NaN"},
			{`scrape_duration_seconds{instance="g-2",job="gateway"}`, "0 0 0 0 0 0 0 0 NaN"},
			{`requests_total{code="200",instance="g-2",job="gateway"}`, "1 2 3 4 5 6 7 8 NaN"},
			{`up{instance="g-3",job="gateway"}`, "1 1 1 1"},
			{`up{instance="cdn",job="cdn"}`, "1 1 1 1 1 1 1 1 1 1 1 1"},
		} {
			values, at := samplesOf(text, tt.series)
			if got := strings.Join(values, " "); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.series, got, tt.want)
			}
			phase := map[string]bool{} // within the interval of 250 ms
			for _, s := range at {
				var ms int
				fmt.Sscanf(s[strings.Index(s, ".")+1:], "%d", &ms)
				phase[fmt.Sprint(ms%250)] = true
			}
			if len(phase) != 1 {
				t.Errorf("%s: scraped at %v, want each 250 ms", tt.series, at)
			}
		}
	})
}

// TestRecordPhases spreads the scrapes of a job over the interval.
func TestRecordPhases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hosts{}
		for i := range 4 {
			h[fmt.Sprintf("g-%d", i)] = task(1)
		}
		r := newRecorder(t, h)
		for name := range h {
			add(t, r, taskTarget(name))
		}
		time.Sleep(240 * time.Millisecond)
		if _, err := r.Finish(""); err != nil {
			t.Fatal(err)
		}
		text := seriesText(t, r.Out)
		moments := map[string]bool{}
		for name := range h {
			_, at := samplesOf(text, `up{instance="`+name+`",job="gateway"}`)
			for _, s := range at {
				moments[s] = true
			}
		}
		if len(moments) < 3 {
			t.Errorf("scraped at %v, want at different moments", moments)
		}
	})
}

// TestRecordTrouble: a target without an answer in the interval is down, loses
// its turns, and its profiles are missing by its name; none holds up another.
func TestRecordTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow, bad := task(10), task(10)
		slow.at["/metrics"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		slow.at["/debug/pprof/block"] = slow.at["/metrics"]
		bad.at["/metrics"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
		bad.at["/debug/pprof/mutex"] = http.NotFound
		r := newRecorder(t, hosts{"slow": slow, "bad": bad, "many": task(10_000)})
		add(t, r, taskTarget("slow"), taskTarget("bad"), taskTarget("many"))
		start := time.Now()
		r.Profiles(t.Context(), true)
		if took := time.Since(start); took != profileTime {
			t.Errorf("profiles took %v, want the %v that one is given", took, profileTime)
		}
		stats := r.Scrapes()
		if _, err := r.Finish("the load ended early"); err != nil {
			t.Fatal(err)
		}
		m := manifest(t, r.Out)
		if m.Partial != "the load ended early" {
			t.Errorf("partial %q", m.Partial)
		}
		var lost []string
		for _, one := range m.Missing {
			reason, _, _ := strings.Cut(one.Reason, ";")
			reason, _, _ = strings.Cut(reason, ": \"")
			lost = append(lost, fmt.Sprintf("%s of %s: %s", one.What, one.Instance, reason))
		}
		slices.Sort(lost)
		if len(lost) != 3 || !strings.HasPrefix(lost[0], "block of slow: expected a block profile, saw no answer in time") ||
			!strings.HasPrefix(lost[1], "metrics of bad: expected metrics in Prometheus' text format") ||
			!strings.HasPrefix(lost[2], "mutex of bad: expected a mutex profile, saw 404 Not Found") {
			t.Errorf("missing %q", lost)
		}
		dumps := slices.DeleteFunc(m.Taken, func(f Taken) bool { return !strings.HasSuffix(f.File, ".txt.gz") })
		if len(dumps) != 1 || dumps[0].Instance == "many" {
			t.Errorf("dumps %+v, want one of a process with fewer than 10,000 goroutines", dumps)
		}
		text := seriesText(t, r.Out)
		for name, want := range map[string]string{"slow": "0", "bad": "0", "many": "1"} {
			values, _ := samplesOf(text, `up{instance="`+name+`",job="gateway"}`)
			if len(values) < 9 || slices.ContainsFunc(values, func(v string) bool { return v != want }) {
				t.Errorf("up of %s is %q, want %s all the time", name, values, want)
			}
		}
		if stats.LateMax != 0 || stats.Missed < 9 || stats.Answered != 20 || stats.Failed < 29 {
			t.Errorf("scrapes %+v", stats)
		}
	})
}

// TestRecordRefuses what cannot be told apart, or cannot be read back.
func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	r := newRecorder(t, hosts{})
	defer r.Discard()
	add(t, r, Target{Job: "gateway", Instance: "g-1"})
	r.Remove("g-1")
	for _, tt := range []struct {
		change func(*Target)
		want   string
	}{
		{func(t *Target) { t.Instance = "g-1" }, "expected an instance of a new name, saw g-1 again"},
		{func(t *Target) { t.Job = "" }, "expected a label job of 1 to 200 bytes"},
		{func(t *Target) { t.Instance = strings.Repeat("g", 201) }, "expected a label instance of 1 to 200 bytes"},
		{func(t *Target) { t.Labels = map[string]string{"job": "x"} }, `saw "job"`},
		{func(t *Target) { t.Labels = map[string]string{"a-b": "x"} }, `saw "a-b"`},
		{func(t *Target) { t.Labels = map[string]string{"__name__": "x"} }, `saw "__name__"`},
		{func(t *Target) { t.Labels = map[string]string{"pod": "a\x00"} }, "expected a label pod of 1 to 200 bytes"},
		{func(t *Target) { t.Metrics = "ftp://u:secret@h/" }, "metrics of g-2: expected a URL"},
		{func(t *Target) { t.PProf = "h:6060" }, "profiles of g-2: expected a URL"},
	} {
		target := Target{Job: "gateway", Instance: "g-2"}
		tt.change(&target)
		if err := r.Add(target); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %s", target, err, tt.want)
		}
	}
	for i := range maxTargets {
		add(t, r, Target{Job: "gateway", Instance: fmt.Sprintf("n-%d", i)})
	}
	if err := r.Add(Target{Job: "gateway", Instance: "n"}); err == nil || !strings.Contains(err.Error(), "expected at most 100 targets at once") {
		t.Errorf("one more target: %v", err)
	}
	if _, err := r.Finish(""); err == nil || !strings.Contains(err.Error(), "nothing could be taken") {
		t.Errorf("a recording of nothing: %v", err)
	}
	noneLeft(t, r.Out)
	for _, o := range []RecordOptions{{}, {Out: r.Out, Interval: time.Millisecond}, {Out: r.Out, ClockFactor: -1}} {
		if _, err := NewRecorder(t.Context(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// noneLeft checks that there is no bundle, and no part of one.
func noneLeft(t *testing.T, out string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}

// TestRecordOut replaces a bundle at the end alone, and nothing else ever.
func TestRecordOut(t *testing.T) {
	t.Parallel()
	h := hosts{"g-1": task(1)}
	out := filepath.Join(t.TempDir(), "bundle")
	at := func(o *RecordOptions) { o.Out = out }
	force := func(o *RecordOptions) { o.Force = true }
	take := func(r *Recorder) error {
		add(t, r, taskTarget("g-1"))
		r.Profiles(t.Context(), false)
		_, err := r.Finish("")
		return err
	}
	if err := take(newRecorder(t, h, at)); err != nil {
		t.Fatal(err)
	}
	old := manifest(t, out).Taken
	if _, err := NewRecorder(t.Context(), RecordOptions{Out: out}); err == nil || !strings.Contains(err.Error(), "which is not empty") {
		t.Errorf("a bundle without force: %v", err)
	}
	r := newRecorder(t, h, at, force)
	if now := manifest(t, out).Taken; !slices.Equal(now, old) {
		t.Error("the old bundle changed before the end")
	}
	if err := take(r); err != nil {
		t.Fatal(err)
	}
	if now := manifest(t, out).Taken; slices.Equal(now, old) {
		t.Error("the old bundle is still there")
	}
	r = newRecorder(t, h, at, force)
	add(t, r, taskTarget("g-1"))
	r.Discard()
	manifest(t, out)
	if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) != 1 {
		t.Errorf("%v are there, want the bundle alone", entries)
	}
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(filepath.Join(home, "letters"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecorder(t.Context(), RecordOptions{Out: home, Force: true}); err == nil || !strings.Contains(err.Error(), "has no bundle.json") {
		t.Errorf("a directory that is no bundle, with force: %v", err)
	}
}

// TestRecordDiskFull: of a disk that is full the bundle has what there was room
// for, with its list, and says that it is partial.
func TestRecordDiskFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	for _, full := range []string{"series.om.gz", ManifestFile} {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t, hosts{"g-1": task(1)}, func(o *RecordOptions) { o.Compress = true })
			add(t, r, taskTarget("g-1"))
			time.Sleep(time.Second)
			r.Profiles(t.Context(), false)
			if err := os.Symlink("/dev/full", r.folder.path(full)); err != nil {
				t.Fatal(err)
			}
			report, err := r.Finish("")
			if report == nil || err == nil || !strings.Contains(err.Error(), "no space left on device") {
				t.Fatalf("%s: %+v, %v", full, report, err)
			}
			m := manifest(t, r.Out)
			if m.Partial != err.Error() || len(m.Taken) != 3 || slices.ContainsFunc(m.Taken, func(t Taken) bool { return t.Kind == "series" }) ||
				!slices.ContainsFunc(m.Missing, func(m Missing) bool { return m.What == "series" }) {
				t.Errorf("%s: %+v", full, m)
			}
			if _, err := os.Lstat(filepath.Join(r.Out, "series.om.gz")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a part of the series is there: %v", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // and nothing was taken but the series
		r := newRecorder(t, hosts{"g-1": task(1)}, func(o *RecordOptions) { o.Compress = true })
		add(t, r, taskTarget("g-1"))
		time.Sleep(time.Second)
		if err := os.Symlink("/dev/full", r.folder.path("series.om.gz")); err != nil {
			t.Fatal(err)
		}
		if report, err := r.Finish(""); report != nil || err == nil || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("%+v, %v", report, err)
		}
		noneLeft(t, r.Out)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, hosts{"g-1": task(1)})
		add(t, r, taskTarget("g-1"))
		os.RemoveAll(r.folder.part) // as good as a disk that is gone
		if err := os.WriteFile(r.folder.part, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.Profiles(t.Context(), false)
		if _, err := r.Finish(""); err == nil || !strings.Contains(err.Error(), "write the bundle") {
			t.Errorf("profiles that could not be written: %v", err)
		}
		noneLeft(t, r.Out)
	})
}

// TestRecordBounds end the scrapes of all targets, and keep what there is.
func TestRecordBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, hosts{"g-1": task(1), "g-2": task(1)})
		r.series.maxText = 2000
		add(t, r, taskTarget("g-1"), taskTarget("g-2"))
		time.Sleep(10 * time.Second)
		stats := r.Scrapes()
		if _, err := r.Finish(""); err != nil {
			t.Fatal(err)
		}
		m := manifest(t, r.Out)
		if len(m.Missing) != 2 || !strings.Contains(m.Missing[0].Reason, "no more scrapes after") || stats.Answered < 4 || stats.Answered > 10 {
			t.Errorf("%+v, missing %+v", stats, m.Missing)
		}
		parseBack(t, seriesText(t, r.Out))
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, hosts{"g-1": task(1)})
		add(t, r, taskTarget("g-1"))
		time.Sleep(MaxFor + time.Minute)
		if _, err := r.Finish(""); err != nil {
			t.Fatal(err)
		}
		m := manifest(t, r.Out)
		if len(m.Missing) != 1 || m.Missing[0].Reason != "no more scrapes after 1h0m0s, the longest recording" {
			t.Errorf("missing %+v", m.Missing)
		}
	})
}

// TestRecordReadBack reads a recording as analyze does: whose a profile is, what
// happened, and that a part is missing.
func TestRecordReadBack(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "bundle")
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, hosts{"g-1": task(20), "g-2": task(20)}, func(o *RecordOptions) { o.Out, o.Compress = out, true })
		add(t, r, taskTarget("g-1"), taskTarget("g-2"))
		for range 2 {
			time.Sleep(2 * time.Second)
			r.Profiles(t.Context(), true)
		}
		r.Event(time.Now(), "first_kill", "g-1: memory")
		if _, err := r.Finish("interrupted after 4s"); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(filepath.Join(out, "series.om.gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || parseBack(t, string(text)) == 0 {
			t.Errorf("series.om.gz: %v, %s", err, text)
		}
		filepath.WalkDir(filepath.Join(out, "profiles"), func(name string, d fs.DirEntry, _ error) error {
			if !strings.HasSuffix(name, ".pb.gz") {
				return nil
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := profile.ParseData(data)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range p.Mapping {
				if strings.Contains(m.File, "/") {
					t.Errorf("%s names %s", name, m.File)
				}
			}
			return nil
		})
	})
	b := ingest.Load(context.Background(), []string{out}, ingest.Options{})
	if len(b.Failures)+len(b.Unused) > 0 || b.ClockFactor != 60 || b.Samples == nil {
		t.Errorf("failures %v, unused %v, factor %g", b.Failures, b.Unused, b.ClockFactor)
	}
	if want := []string{"the bundle is partial: interrupted after 4s"}; !slices.Equal(b.Warnings, want) {
		t.Errorf("warnings %q, want %q", b.Warnings, want)
	}
	if len(b.Events) != 1 || b.Events[0].Name != "first_kill" || b.Events[0].Text != "g-1: memory" || b.Events[0].At.Unix() != 946684804 {
		t.Errorf("events %+v", b.Events)
	}
	var got []string
	for _, p := range b.Processes() {
		got = append(got, fmt.Sprintf("%s of %s: %d snapshots, %d waits, notes %q", p.Name, p.Job, len(p.Snapshots), len(p.Waits), p.Notes))
	}
	// Alike to a bit, and of one build.
	want := []string{"g-1 of gateway: 4 snapshots, 2 waits, notes []", "g-2 of gateway: 2 snapshots, 2 waits, notes []"}
	if !slices.Equal(got, want) {
		t.Errorf("processes %q\nwant      %q", got, want)
	}
}
