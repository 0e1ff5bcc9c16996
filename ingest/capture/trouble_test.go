package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// since is how long the clock of a synctest bubble runs, in seconds.
func since() int { return int(time.Now().Unix() - 946684800) }

// A process that dies keeps what was taken before, its series end with NaN, and
// one that comes back is taken again.
func TestRunDies(t *testing.T) {
	t.Parallel()
	for _, back := range []int{1000, 50} {
		synctest.Test(t, func(t *testing.T) {
			s := newService()
			o := options(t, nil)
			o.HTTP.Transport = handled{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if since() >= 35 && since() < back {
					w.WriteHeader(gone)
					return
				}
				s.ServeHTTP(w, r)
			})}
			r, err := run(t, t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			taken := "goroutine.pb.gz@0 series.om@0 goroutine.txt.gz@0 block.pb.gz@0 mutex.pb.gz@0 goroutine.pb.gz@10 goroutine.pb.gz@20 goroutine.pb.gz@30"
			up := []int{1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0}
			values := []string{"1", "2", "3", "4", "5", "6", "7", "NaN"}
			const refused = ", saw the connection refused: nothing listens there; check host and port, or forward the port"
			lost := "goroutine@40: expected a goroutine profile" + refused + " (3 times)\n"
			if back == 50 {
				taken += " goroutine.pb.gz@50 goroutine.pb.gz@60 block.pb.gz@60 mutex.pb.gz@60"
				up[10], up[11], up[12] = 1, 1, 1
				values = append(values, "", "", "8", "9", "10")
				lost = "goroutine@40: expected a goroutine profile" + refused + "\n"
			} else {
				lost += "block@60: expected a block profile" + refused + "\nmutex@60: expected a mutex profile" + refused
			}
			m := manifest(t, o.Out)
			if got := takenFiles(m); sorted(got) != sorted(taken) {
				t.Errorf("taken %s\nwant  %s", got, taken)
			}
			scrapes := 0
			for _, one := range up {
				scrapes += one
			}
			want := fmt.Sprintf("metrics@35: expected metrics%s (%d times)\n%s", refused, 13-scrapes, lost)
			if got := missing(m.Missing); got != strings.TrimSpace(want) {
				t.Errorf("missing\n%s\nwant\n%s", got, want)
			}
			if r.Scrapes != scrapes || r.Failed != 13-scrapes {
				t.Errorf("%d scrapes and %d failed, want %d of 13", r.Scrapes, r.Failed, scrapes)
			}
			text := seriesText(t, o.Out)
			for i, one := range up {
				if line := fmt.Sprintf("up{instance=\"gateway:6060\",job=\"gateway\"} %d %d.000\n", one, 946684800+5*i); !strings.Contains(text, line) {
					t.Errorf("series.om has no %s", line)
				}
			}
			var requests strings.Builder
			for i, value := range values {
				if value != "" {
					fmt.Fprintf(&requests, "requests_total{code=\"200\",instance=\"gateway:6060\",job=\"gateway\"} %s %d.000\n", value, 946684800+5*i)
				}
			}
			if !strings.Contains(text, "# TYPE requests counter\n"+requests.String()+"# TYPE scrape") {
				t.Errorf("series.om is\n%s\nwant\n%s", text, requests.String())
			}
		})
	}
}

// What is slow loses turns; no request waits behind another of its kind.
func TestRunSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		metrics, profiles := s.at["/metrics"], s.at["/debug/pprof/"]
		s.at["/metrics"] = func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(7 * time.Second)
			metrics(w, r)
		}
		s.at["/debug/pprof/"] = func(w http.ResponseWriter, r *http.Request) {
			if since() >= 20 {
				time.Sleep(12 * time.Second)
			}
			profiles(w, r)
		}
		o := options(t, s)
		if _, err := run(t, t.Context(), o); err != nil {
			t.Fatal(err)
		}
		const want = "goroutine.pb.gz@0 series.om@0 goroutine.txt.gz@0 block.pb.gz@0 mutex.pb.gz@0 goroutine.pb.gz@10 goroutine.pb.gz@20 goroutine.pb.gz@40 goroutine.pb.gz@60 block.pb.gz@72 mutex.pb.gz@72"
		if got := takenFiles(manifest(t, o.Out)); sorted(got) != sorted(want) {
			t.Errorf("taken %s\nwant  %s", got, want)
		}
		text := seriesText(t, o.Out)
		for i := range 7 {
			if line := fmt.Sprintf("scrape_duration_seconds{instance=\"gateway:6060\",job=\"gateway\"} 7 %d.000\n", 946684800+10*i); !strings.Contains(text, line) {
				t.Errorf("series.om has no %s", line)
			}
		}
	})
}

// One that never answers is given up with the time limits, and is no bundle.
func TestRunHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		var told []string
		o.Note = func(m Missing) { told = append(told, m.What+": "+m.Reason) }
		_, err := run(t, t.Context(), o)
		const unanswered = ", saw no answer in time; the process may be too busy to answer: try again, or send it SIGQUIT, which ends it, and give its output"
		want := []string{
			"metrics: expected metrics" + unanswered,
			"goroutine: expected a goroutine profile" + unanswered,
			"block: not asked for: the profiles before it took 30s",
			"mutex: not asked for: the profiles before it took 30s",
		}
		slices.Sort(told)
		slices.Sort(want)
		if !slices.Equal(told, want) {
			t.Errorf("told of %q, want %q", told, want)
		}
		if !errors.Is(err, errNothing) || since() != 30 {
			t.Errorf("after %d s: %v; want %v after 30", since(), err, errNothing)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Error("there is a bundle of nothing")
		}
	})
}

// Where nothing is served, that is said at once.
func TestRunNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{gone, http.StatusNotFound, http.StatusUnauthorized, http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			o := options(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			told := 0
			o.Note = func(Missing) { told++ }
			_, err := run(t, t.Context(), o)
			if want := "nothing could be taken from http://gateway:6060: neither profiles nor metrics"; err == nil || err.Error() != want {
				t.Errorf("%d: %v, want %s", status, err, want)
			}
			if since() != 0 || told != 4 {
				t.Errorf("%d: after %d s, told of %d; want at once, and 4", status, since(), told)
			}
		})
	}
}

func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	const before = "goroutine.pb.gz@0 series.om@0 goroutine.txt.gz@0 block.pb.gz@0 mutex.pb.gz@0 goroutine.pb.gz@10 goroutine.pb.gz@20"
	for _, tt := range []struct {
		name, taken string
		hangs       bool // from 22 s on
		at, ends    int
	}{
		{"waiting", before + " goroutine.pb.gz@23 block.pb.gz@23 mutex.pb.gz@23", false, 23, 23},
		{"hanging", before, true, 31, 36},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newService()
				o := options(t, nil)
				o.HTTP.Transport = handled{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if tt.hangs && since() >= 22 {
						<-r.Context().Done()
					}
					s.ServeHTTP(w, r)
				})}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(tt.at)*time.Second)
				defer cancel()
				r, err := run(t, ctx, o)
				if err != nil {
					t.Fatal(err)
				}
				m := manifest(t, o.Out)
				if got := takenFiles(m); sorted(got) != sorted(tt.taken) {
					t.Errorf("taken %s\nwant  %s", got, tt.taken)
				}
				want := fmt.Sprintf("interrupted after %ds of 1m0s", tt.ends)
				if got := missing(m.Missing); !r.Interrupted || since() != tt.ends || !strings.Contains(got, want) {
					t.Errorf("interrupted %v, after %d s, missing %s; want %s", r.Interrupted, since(), got, want)
				}
				// An end that was asked for is not the target's.
				if text := seriesText(t, o.Out); strings.Contains(text, "NaN") {
					t.Errorf("series.om ends its series:\n%s", text)
				}
			})
		})
	}
}

// A place that is taken is refused before the target is asked for anything.
func TestRunOut(t *testing.T) {
	t.Parallel()
	s := newService()
	o := options(t, s)
	if err := os.MkdirAll(filepath.Join(o.Out, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, t.Context(), o); err == nil || !strings.Contains(err.Error(), "expected a new or empty directory") {
		t.Errorf("a directory with an entry: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Out = file
	if _, err := run(t, t.Context(), o); err == nil || !strings.Contains(err.Error(), "expected a new or empty directory") {
		t.Errorf("a file: %v", err)
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
	synctest.Test(t, func(t *testing.T) {
		o := options(t, newService())
		if err := os.Mkdir(o.Out, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t, t.Context(), o); err != nil {
			t.Errorf("an empty directory: %v", err)
		}
		manifest(t, o.Out)
	})
}

// A link is never replaced by a directory, nor written through, whenever it
// came there.
func TestRunOutLink(t *testing.T) {
	t.Parallel()
	link := func(t *testing.T, out string) (target string) {
		target = t.TempDir()
		if err := os.Symlink(target, out); err != nil {
			t.Skip("no symbolic links here:", err)
		}
		return target
	}
	check := func(t *testing.T, out, target string) {
		if to, err := os.Readlink(out); err != nil || to != target {
			t.Errorf("the link is now %q, %v", to, err)
		}
		if entries, _ := os.ReadDir(target); len(entries) != 0 {
			t.Errorf("%v were written into its target", entries)
		}
	}
	s := newService()
	o := options(t, s)
	target := link(t, o.Out)
	o.Out += string(filepath.Separator)
	if _, err := run(t, t.Context(), o); err == nil || !strings.Contains(err.Error(), "which is a symbolic link; name what it points to") {
		t.Errorf("got %v", err)
	}
	check(t, filepath.Clean(o.Out), target)
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests, want none", n)
	}
	synctest.Test(t, func(t *testing.T) {
		o := options(t, newService())
		o.Progress = func(step string) {
			if step == "writing the bundle" {
				target = link(t, o.Out)
			}
		}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "which is a symbolic link") {
			t.Errorf("got %v", err)
		}
		check(t, o.Out, target)
	})
}

// On a full disk a bundle has its list, and the series where there is room.
func TestRunDiskFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	for full, want := range map[string]string{
		seriesFile:   "metrics@60: write the series: write ",
		ManifestFile: "metrics@60: left out, to make room for the bundle's list: write the bundle: write ",
	} {
		synctest.Test(t, func(t *testing.T) {
			o := options(t, newService())
			o.Progress = func(step string) {
				if step != "writing the bundle" {
					return
				}
				parts, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Out), ".bundle-*"))
				if err := os.Symlink("/dev/full", filepath.Join(parts[0], full)); err != nil {
					t.Fatal(err)
				}
			}
			r, err := run(t, t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			m := manifest(t, o.Out)
			if got, want := takenFiles(m), strings.Replace(everything, "series.om@0 ", "", 1); sorted(got) != sorted(want) {
				t.Errorf("%s: taken %s\nwant %s", full, got, want)
			}
			if got := missing(m.Missing); !strings.HasPrefix(got, want) || !strings.Contains(got, "no space left on device") {
				t.Errorf("%s: missing %s\nwant %s", full, got, want)
			}
			if _, err := os.Lstat(filepath.Join(o.Out, seriesFile)); err == nil || r.Series != 0 {
				t.Errorf("%s: %s is there, %d series", full, seriesFile, r.Series)
			}
			var size int64
			filepath.WalkDir(o.Out, func(_ string, d fs.DirEntry, _ error) error {
				if info, err := d.Info(); err == nil && !d.IsDir() {
					size += info.Size()
				}
				return nil
			})
			if r.Bytes != size {
				t.Errorf("%s: %d bytes are reported, %d are there", full, r.Bytes, size)
			}
		})
	}
}

// A process that stops answering holds up the end for seconds, not for a
// request's whole time; one that was slow all the time has it.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		every       time.Duration
		hangs       int // from this second on
		slow        time.Duration
		ends        int
		taken, lost string
	}{
		{"hangs before the last profiles", 10 * time.Second, 3, 0, 11, "block.pb.gz@0", "goroutine@11: "},
		{"hangs within", time.Second, 3, 0, 16, "goroutine.pb.gz@2", "goroutine@11: "},
		{"is slow", 10 * time.Second, 1000, 8 * time.Second, 54, "block.pb.gz@38 mutex.pb.gz@46", "mutex@30: "},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newService()
			o := options(t, nil)
			o.For, o.Every, o.ScrapeInterval = 6*time.Second, tt.every, time.Second
			o.HTTP.Transport = handled{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if since() >= tt.hangs {
					<-r.Context().Done()
				}
				if r.URL.Path != "/metrics" {
					time.Sleep(tt.slow)
				}
				s.ServeHTTP(w, r)
			})}
			if _, err := run(t, t.Context(), o); err != nil {
				t.Fatal(err)
			}
			m := manifest(t, o.Out)
			if since() != tt.ends || !strings.Contains(takenFiles(m), tt.taken) || !strings.Contains(missing(m.Missing), tt.lost) {
				t.Errorf("%s: ends after %d s, want %d; taken %s, missing\n%s", tt.name, since(), tt.ends, takenFiles(m), missing(m.Missing))
			}
		})
	}
}

// What was taken is kept where it cannot be put in its place.
func TestRunOutTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := options(t, newService())
		o.Progress = func(step string) {
			if step == "writing the bundle" {
				os.MkdirAll(filepath.Join(o.Out, "other"), 0o755)
			}
		}
		_, err := Run(t.Context(), o)
		parts, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Out), ".bundle-*"))
		if err == nil || len(parts) != 1 || !strings.HasSuffix(err.Error(), "; what was taken is in "+parts[0]) {
			t.Fatalf("%v, and there is %v", err, parts)
		}
		manifest(t, parts[0])
	})
}

func TestOptionsCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string // "" is no error
	}{
		"as they are":      {func(*Options) {}, ""},
		"an hour":          {func(o *Options) { o.For = MaxFor }, ""},
		"longer":           {func(o *Options) { o.For = MaxFor + 1 }, "expected a capture of 1s to 1h0m0s, saw 1h0m0.000000001s"},
		"shorter":          {func(o *Options) { o.For = MinFor - 1 }, "expected a capture of 1s to 1h0m0s, saw 999.999999ms"},
		"fast scrapes":     {func(o *Options) { o.ScrapeInterval = MinScrapeInterval }, ""},
		"faster":           {func(o *Options) { o.ScrapeInterval = MinScrapeInterval - 1 }, "expected at least 250ms between scrapes, saw 249.999999ms"},
		"often":            {func(o *Options) { o.Every = MinEvery }, ""},
		"more often":       {func(o *Options) { o.Every = 0 }, "expected at least 1s between goroutine profiles, saw 0s"},
		"too many":         {func(o *Options) { o.For, o.Every = time.Hour, time.Second }, "expected at most 500 goroutine profiles, saw one every 1s for 1h0m0s; try one every 8s"},
		"as it was told":   {func(o *Options) { o.For, o.Every = time.Hour, 8*time.Second }, ""},
		"fewer than none":  {func(o *Options) { o.MaxGoroutines = -1 }, "expected a number of goroutines, 0 for no dump, saw -1"},
		"no scheme":        {func(o *Options) { o.Target = "me:hunter2@gateway:6060" }, "expected a URL such as http://localhost:6060, saw something else; http:// is needed, and a password's special characters are written as %XX"},
		"another scheme":   {func(o *Options) { o.Target = "ftp://gateway" }, "expected a URL such as"},
		"a profile":        {func(o *Options) { o.Target += "/debug/pprof/goroutine" }, "expected the root of a host or its /debug/pprof"},
		"metrics as a URL": {func(o *Options) { o.Target += "/metrics" }, "expected the root of a host or its /debug/pprof"},
		"a long job":       {func(o *Options) { o.Job = strings.Repeat("j", maxJob) }, ""},
		"a longer job":     {func(o *Options) { o.Job = strings.Repeat("j", maxJob+1) }, "expected a job's name of at most 200 bytes, saw 201"},
		"a long URL":       {func(o *Options) { o.Target += "?token=" + strings.Repeat("x", maxURL) }, "expected a URL of at most 8192 bytes, saw 8218"},
		"a long host":      {func(o *Options) { o.Target = "http://" + strings.Repeat("x", maxHost+1) }, "expected a host of at most 259 bytes, saw 260"},
		"long metrics":     {func(o *Options) { o.Metrics = "http://" + strings.Repeat("x", maxHost+1) }, "metrics: expected a host of at most 259 bytes, saw 260"},
		"a long path":      {func(o *Options) { o.MetricsPath = strings.Repeat("x", maxURL+1) }, "expected a path of at most 8192 bytes, saw 8193"},
		"bad metrics":      {func(o *Options) { o.Metrics = "gateway/metrics" }, "metrics: expected a URL such as"},
	} {
		o := Options{Target: "http://gateway:6060", For: time.Minute, Every: 10 * time.Second, ScrapeInterval: 5 * time.Second}
		tt.change(&o)
		err := o.Check()
		if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: %v tells a password", name, err)
		}
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o                                     Options
		pprof, metrics, target, job, instance string
	}{
		{Options{Target: "http://localhost:6060", MetricsPath: "/metrics"}, "http://localhost:6060/debug/pprof", "http://localhost:6060/metrics", "http://localhost:6060", "process", "localhost:6060"},
		{Options{Target: "https://me:pw@shop.example/a/debug/pprof/?token=x#y", MetricsPath: "m/all"}, "https://me:pw@shop.example/a/debug/pprof?token=x", "https://me:pw@shop.example/a/m/all?token=x", "https://shop.example/a", "shop.example", "shop.example:443"},
		{Options{Target: "http://[::1]:6060/", Metrics: "http://sidecar/m?x=1", Job: "shop"}, "http://[::1]:6060/debug/pprof", "http://sidecar/m?x=1", "http://[::1]:6060", "shop", "sidecar:80"},
	} {
		e, err := newEndpoints(tt.o)
		if err != nil {
			t.Errorf("%s: %v", tt.o.Target, err)
			continue
		}
		got := []string{e.pprof.String(), e.metrics.String(), e.target, e.job, e.instance}
		want := []string{tt.pprof, tt.metrics, tt.target, tt.job, tt.instance}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q\nwant %q", tt.o.Target, got, want)
		}
	}
}
