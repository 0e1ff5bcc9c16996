package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/contend/contend/detect"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"contend": main})
}

// TestStories runs the sessions of testdata/*.txtar. Beside testscript's own
// commands they have:
//
//	exitcode N ARG...     run contend, which must exit with N
//	repeat N FILE OUT     append FILE to OUT N times, "{id}" replaced by 101, 102, …
//	gzip FILE OUT [N]     compress FILE, cut to N bytes where N is given
//	cpuprofile OUT        write a CPU profile
//	serve DIR             serve DIR on loopback, its address in $URL and $HOST
//	pyroscope SCENARIO    serve what Pyroscope has of a scenario, its address in $PYROSCOPE
//
// $BUNDLES is the directory of the demo's scenarios.
func TestStories(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many commands one by one")
	}
	bundles, err := filepath.Abs("../../demo/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":   exitCodeCmd,
			"repeat":     repeatCmd,
			"gzip":       gzipCmd,
			"cpuprofile": cpuProfileCmd,
			"serve":      serveCmd,
			"pyroscope":  pyroscopeCmd,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("COLUMNS", "")
			env.Setenv("BUNDLES", bundles)
			env.Setenv("http_proxy", "")
			env.Setenv("HTTP_PROXY", "")
			return nil
		},
	})
}

func need(ts *testscript.TestScript, neg bool, args []string, least, most int, usage string) {
	if neg || len(args) < least || len(args) > most {
		ts.Fatalf("usage: %s", usage)
	}
}

func exitCodeCmd(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, 100, "exitcode N ARG...")
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec("contend", args[1:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("run contend: %v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("contend %s: exit code %d, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

func repeatCmd(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 3, 3, "repeat N FILE OUT")
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	block := ts.ReadFile(args[1])
	f, err := os.OpenFile(ts.MkAbs(args[2]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	ts.Check(err)
	for i := range n {
		_, err := f.WriteString(strings.ReplaceAll(block, "{id}", strconv.Itoa(101+i)))
		ts.Check(err)
	}
	ts.Check(f.Close())
}

func gzipCmd(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, 3, "gzip FILE OUT [N]")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Check(w.Close())
	if len(args) == 3 {
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		if n >= b.Len() {
			ts.Fatalf("%s has %d bytes compressed, fewer than %d to cut", args[0], b.Len(), n)
		}
		b.Truncate(n)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o644))
}

func cpuProfileCmd(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, 1, "cpuprofile OUT")
	f := &profile.Function{ID: 1, Name: "main.work"}
	l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f, Line: 1}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     10_000_000,
		Sample:     []*profile.Sample{{Location: []*profile.Location{l}, Value: []int64{3, 30_000_000}}},
		Location:   []*profile.Location{l},
		Function:   []*profile.Function{f},
	}
	out, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(p.Write(out))
	ts.Check(out.Close())
}

func serveCmd(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, 1, "serve DIR")
	s := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Defer(s.Close)
	ts.Setenv("URL", s.URL)
	ts.Setenv("HOST", s.Listener.Addr().String())
}

func TestByteSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]byteSize{
		"1": 1, "1048576": 1 << 20, "10B": 10, "500MB": 500e6, "2GiB": 2 << 30, "2gib": 2 << 30,
		"1.5 KiB": 1536, "8TiB": 8 << 40, "3kB": 3000,
	} {
		var s byteSize
		if err := s.Set(in); err != nil || s != want {
			t.Errorf("Set(%q) = %d, %v; want %d", in, s, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "MB", "1.2.3MB", "5 apples", "1e9", "0.1", "9000000TiB", "NaN", "Inf", "0x10", "99999999999999999999"} {
		var s byteSize
		if err := s.Set(in); err == nil {
			t.Errorf("Set(%q) = %d, want an error", in, s)
		}
	}
}

func TestFindDetector(t *testing.T) {
	t.Parallel()
	detectors := []*detect.Detector{{Name: "applock"}, {Name: "deadlock"}, {Name: "poolwait"}}
	if d, err := findDetector("deadlock", detectors); err != nil || d != detectors[1] {
		t.Errorf("findDetector(deadlock) = %v, %v", d, err)
	}
	_, err := findDetector("Dedlock", detectors)
	want := `unknown detector "Dedlock"; expected one of deadlock, applock, poolwait`
	if err == nil || err.Error() != want {
		t.Errorf("findDetector(Dedlock): %v, want %s", err, want)
	}
}

func TestReaches(t *testing.T) {
	t.Parallel()
	all := []detect.Severity{detect.Critical, detect.Warning, detect.Info}
	for limit, want := range map[detect.Severity][]detect.Severity{
		"": nil, detect.Critical: all[:1], detect.Warning: all[:2], detect.Info: all,
	} {
		for _, found := range append(all, "") {
			r := &detect.Report{Findings: []detect.Finding{{Severity: found}}}
			if got := reaches(r, limit); got != slices.Contains(want, found) {
				t.Errorf("a finding that is %q reaches %q: %v", found, limit, got)
			}
		}
	}
	if reaches(&detect.Report{}, detect.Info) {
		t.Error("a report without findings reaches info")
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBrokenOutput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err     error
		code    int
		message string
	}{
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, exitOK, ""},
		{errors.New("disk full"), exitFailed, "contend: cannot write to standard output: disk full\n"},
	} {
		var stderr bytes.Buffer
		if code := run([]string{"version"}, nil, brokenWriter{tt.err}, &stderr); code != tt.code || stderr.String() != tt.message {
			t.Errorf("%v: exit code %d, %q on stderr; want %d, %q", tt.err, code, &stderr, tt.code, tt.message)
		}
	}
}

// TestNoEscapes checks that output to anything but a terminal has no colour.
func TestNoEscapes(t *testing.T) {
	t.Parallel()
	if useColor(&bytes.Buffer{}) {
		t.Error("a buffer is coloured")
	}
	var stderr bytes.Buffer
	complain(&stderr, "a\x1b[31m\nb\n")
	if want := fmt.Sprintln(`contend: a\x1b[31m b`); stderr.String() != want {
		t.Errorf("complain wrote %q, want %q", &stderr, want)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	vcs := func(settings ...string) (out []debug.BuildSetting) {
		for i := 0; i < len(settings); i += 2 {
			out = append(out, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return out
	}
	const revision = "0374c0d66e4b8f7a0c1d2e3f405162738495a6b7"
	for _, tt := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "contend built from a checkout, commit unknown"},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("-race", "true", "vcs.revision", "abc", "vcs.modified", "false")}, "contend built from a checkout, commit abc"},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "contend v1.2.3, commit unknown"},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs("vcs.revision", revision, "vcs.modified", "true")}, "contend v1.2.3, commit 0374c0d66e4b with changes"},
	} {
		if got := moduleVersion(&tt.info) + ", " + commitOf(&tt.info); got != tt.want {
			t.Errorf("version %q, want %q", got, tt.want)
		}
	}
}
