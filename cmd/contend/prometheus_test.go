package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/telemetry"
	"github.com/contend/contend/detect"
)

const (
	// The demo's clock: an hour that baselines look back on is a minute here.
	clockFactor = "60"
	// A baseline wants ten minutes of history, six minutes ago: 16 s.
	habit = 20 * time.Second
	// What is waited for usually comes within a tenth of it. Two cores that
	// other work shares can be that slow.
	patience = 40 * time.Second
	// However long the test takes, the load ends.
	longest = time.Minute
)

// TestPrometheus lets a real server scrape the demo's gateway and asks it, as
// an engineer does. The gateway's telemetry is faulty from the start: with few
// requests nobody waits for its lock, until a surge finds it.
func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	binary := prometheusBinary(t)
	t.Parallel()
	traffic, admin := startGateway(t)
	instance := strings.TrimPrefix(admin, "http://")
	server := startPrometheus(t, binary, instance)
	ask := []string{"--prometheus", server, "--selector", `job="gateway"`, "--clock-factor", clockFactor, "--since"}

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	send := func(path string, rate float64, inFlight int) {
		g, err := load.Start(ctx, load.Config{URL: traffic + path, Phases: load.Constant(rate, longest), Timeout: 10 * time.Second, MaxInFlight: inFlight})
		if err != nil {
			t.Fatalf("load on %s: %v", path, err)
		}
		clients.Go(func() { g.Wait() })
	}
	send("/", 40, 100)
	send("/healthz", 2, 20)

	eventually(t, "a scrape", func() error {
		_, err := analyzeJSON(append(ask, "30s")...)
		return err
	})
	begin := time.Now()
	t.Run("errors", func(t *testing.T) { serverErrors(t, server, traffic, admin) })
	time.Sleep(time.Until(begin.Add(habit)))

	eventually(t, "silence while nobody waits", func() error {
		r, err := analyzeJSON(append(ask, "10s")...)
		if err != nil {
			return err
		}
		return errors.Join(found(r, "", nil, nil), matched(r))
	})

	watched := startWatch(t, append(slices.Clip(ask[:len(ask)-1]), admin)...)
	eventually(t, "a watch that says nothing", func() error { return watched(nil, nil, 0) })

	// 3,000 a second are more than the lock serves on any machine, and 600 at a
	// time are all that wait: further arrivals are dropped where they arise.
	send("/", 3000, 600)
	want := []string{
		"herd",        // the surge
		"lockwait",    // the fault, as far as series can tell
		"inflightcpu", // one lock lets one core be used, and hundreds wait
	}
	allow := []string{
		"healthcheck",  // health checks pass the same telemetry
		"hungrequests", // more begin than end while the queue grows, which is as long as a request takes
	}
	eventually(t, "the lock in series", func() error {
		r, err := analyzeJSON(append(ask, "30s")...)
		if err != nil {
			return err
		}
		return errors.Join(found(r, "lockwait", want, allow), surged(r, instance), matched(r))
	})
	eventually(t, "the lock in series and profiles", func() error {
		r, err := analyzeJSON(append(ask, "30s", admin, "--seconds", "1")...)
		if err != nil {
			return err
		}
		return errors.Join(found(r, "telemetryblock", append(want, "telemetryblock"), allow), surged(r, instance), named(r))
	})
	eventually(t, "the lock and its evidence by a watch", func() error {
		return watched(append(want, "telemetryblock"), allow, 1)
	})
}

// serverErrors asks a server what it has no answer to.
func serverErrors(t *testing.T, server, traffic, admin string) {
	for _, tt := range []struct {
		name   string
		args   []string
		code   int
		says   []string
		report string // what standard output has
	}{
		{"selector of another job", []string{"--prometheus", server, "--selector", `job="gatway"`}, exitFailed,
			[]string{`no series match {job="gatway"}`, "job is one of: gateway"}, "could not look"},
		{"beside a process", []string{"--prometheus", server, "--selector", `job="gatway"`, "--seconds", "1", admin}, exitFailed,
			[]string{"job is one of: gateway"}, "looked at"},
		{"label that nothing has", []string{"--prometheus", server, "--selector", `job="gateway",region="eu"`}, exitFailed,
			[]string{`none has region="eu"`, "no series with the label region"}, "could not look"},
		{"window without data", []string{"--prometheus", server, "--selector", `job="gateway"`, "--until", "2020-01-01T00:00:00Z"}, exitFailed,
			[]string{"no data from 2019-12-31T23:00:00Z to 2020-01-01T00:00:00Z or in the 1h10m before"}, "could not look"},
		{"wrong path", []string{"--prometheus", server + "/mimir"}, exitFailed,
			[]string{server + "/mimir: ", "404", "no Prometheus API is there", "check the address"}, "could not look"},
		{"another server", []string{"--prometheus", traffic}, exitFailed,
			[]string{"no answer of a Prometheus API"}, "could not look"},
		{"wrong scheme", []string{"--prometheus", strings.Replace(server, "http:", "https:", 1)}, exitFailed,
			[]string{"try http:// in place of https://"}, "could not look"},
		{"PromQL that does not parse", []string{"--prometheus", server, "--signal", "inflight=sum("}, exitUsage,
			[]string{"--signal", "signal inflight", `saw "sum("`, "unclosed left parenthesis"}, ""},
		{"unknown signal", []string{"--prometheus", server, "--signal", "inflite=up"}, exitUsage,
			[]string{`saw "inflite"; is it inflight?`}, ""},
		{"metric that is not there", []string{"--prometheus", server, "--signal", "inflight=sum by (job, instance) (open_calls)"}, exitOK,
			nil, "no inflight series"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(append([]string{"analyze"}, tt.args...), nil, &stdout, &stderr)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, says := range tt.says {
				if !strings.Contains(stderr.String(), says) {
					t.Errorf("stderr lacks %q:\n%s", says, stderr.String())
				}
			}
			lines := 0
			switch tt.code {
			case exitFailed:
				lines = 1
			case exitUsage:
				lines = 2 // and where help is
			}
			if got := strings.Count(stderr.String(), "\n"); got != lines {
				t.Errorf("stderr has %d lines, want %d:\n%s", got, lines, stderr.String())
			}
			if !strings.Contains(stdout.String(), tt.report) || tt.report == "" && stdout.Len() > 0 {
				t.Errorf("the report lacks %q:\n%s", tt.report, stdout.String())
			}
		})
	}
}

// found holds a report to its verdict, and to all that must and may be found.
func found(r *detect.Report, verdict string, want, allow []string) error {
	var errs []error
	if r.Verdict.Cause != verdict {
		errs = append(errs, fmt.Errorf("verdict %q, want %q: %s", r.Verdict.Cause, verdict, r.Verdict.Summary))
	}
	seen := map[string]bool{}
	for _, f := range r.Findings {
		seen[f.Detector] = true
		if !slices.Contains(want, f.Detector) && !slices.Contains(allow, f.Detector) {
			errs = append(errs, fmt.Errorf("forbidden finding %s: %s", f.Detector, f.Summary))
		}
	}
	for _, d := range want {
		if !seen[d] {
			errs = append(errs, fmt.Errorf("no finding of %s", d))
		}
	}
	return errors.Join(errs...)
}

// surged checks what an analysis says of the surge, with profiles and without.
func surged(r *detect.Report, instance string) error {
	var errs []error
	if v := r.Verdict; v.Trigger != "herd" || v.Job != "gateway" || v.Instances != nil && *v.Instances != (detect.Affected{Affected: 1, Total: 1}) {
		errs = append(errs, fmt.Errorf("trigger %q, job %q, instances %v; want herd, gateway, 1 of 1", v.Trigger, v.Job, v.Instances))
	}
	for _, f := range r.Findings {
		if f.Alert != "" && (f.Job != "gateway" || !slices.Equal(f.Instances, []string{instance})) {
			errs = append(errs, fmt.Errorf("%s is of job %q, instances %q; want gateway, %s", f.Detector, f.Job, f.Instances, instance))
		}
	}
	var told []string
	for i, line := range r.Verdict.Story {
		if i > 0 && line.At.Before(r.Verdict.Story[i-1].At) {
			errs = append(errs, fmt.Errorf("%s is told after what followed it", line.Detector))
		}
		told = append(told, line.Detector)
	}
	for _, f := range r.Findings {
		if !slices.Contains(told, f.Detector) {
			errs = append(errs, fmt.Errorf("the story has %q, and not %s", told, f.Detector))
		}
	}
	return errors.Join(errs...)
}

// named checks that stacks name the lock that series can only count waiters of.
func named(r *detect.Report) error {
	const function = "github.com/prometheus/client_golang/prometheus.(*Registry).Register"
	var errs []error
	for _, f := range r.Findings {
		switch f.Detector {
		case "telemetryblock":
			if f.Function != function {
				errs = append(errs, fmt.Errorf("telemetryblock in %s, want %s", f.Function, function))
			}
		case "lockwait":
			if f.Severity != detect.Info || !strings.Contains(f.Summary, "see telemetryblock") {
				errs = append(errs, fmt.Errorf("lockwait does not give way to telemetryblock: %s, %s", f.Severity, f.Summary))
			}
		}
	}
	if s := r.Verdict.Story; len(s) == 0 || s[len(s)-1].Detector != "telemetryblock" {
		errs = append(errs, errors.New("telemetryblock, which is seen when the profile is taken, is not last in the story"))
	}
	return errors.Join(errs...)
}

// matched checks which of the gateway's metrics were taken for which signal.
func matched(r *detect.Report) error {
	var errs []error
	metrics := map[string]string{
		"inflight":       "http_requests_in_flight",
		"completions":    "http_requests_total",
		"arrivals":       "completions and the change of in-flight",
		"latency":        "http_request_duration_seconds",
		"health_latency": "http_request_duration_seconds",
		"cpu":            "process_cpu_seconds_total",
		"cpu_limit":      "go_sched_gomaxprocs_threads",
		"cpu_wait":       "go_sched_latencies_seconds_sum",
		"lock_wait":      "go_sync_mutex_wait_total_seconds_total",
		"memory":         "process_resident_memory_bytes",
		"goroutines":     "go_goroutines",
		"start_time":     "process_start_time_seconds",
		"up":             "up",
	}
	for _, s := range r.Signals {
		if want, ok := metrics[s.Signal]; ok && !strings.Contains(s.Matched, want) {
			errs = append(errs, fmt.Errorf("signal %s was read from %q, want %s; missing: %q", s.Signal, s.Matched, want, s.Missing))
		}
		if s.Signal == "pool_wait" && (s.Matched != "" || s.Missing == "" || s.Hint == "") {
			errs = append(errs, fmt.Errorf("signal pool_wait, which the gateway has none of: %+v", s))
		}
		delete(metrics, s.Signal)
	}
	if len(metrics) > 0 {
		errs = append(errs, fmt.Errorf("the report says nothing of the signals %v", metrics))
	}
	return errors.Join(errs...)
}

// analyzeJSON runs contend analyze, which must succeed.
func analyzeJSON(args ...string) (*detect.Report, error) {
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"analyze", "-o", "json"}, args...), nil, &stdout, &stderr); code != exitOK {
		return nil, fmt.Errorf("exit code %d: %s", code, stderr.String())
	}
	r := &detect.Report{}
	if err := json.Unmarshal(stdout.Bytes(), r); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	return r, nil
}

// eventually waits until try has no error.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	begin := time.Now()
	for {
		err := try()
		if err == nil {
			t.Logf("%s: after %v", what, time.Since(begin).Round(time.Millisecond))
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("%s, not after %v: %v", what, patience, err)
		}
		time.Sleep(250 * time.Millisecond) // a scrape
	}
}

// startGateway starts a task of the demo whose telemetry is faulty, and returns
// the URLs of its traffic and of its metrics and profiles.
func startGateway(t *testing.T) (traffic, admin string) {
	t.Helper()
	return startTask(t, gateway.Config{
		Name: "gateway", Telemetry: telemetry.Config{Kind: "metrics", Faulty: true, Hold: 3 * time.Millisecond},
	})
}

// startTask starts a task of the demo in a process of its own.
func startTask(t *testing.T, cfg gateway.Config) (traffic, admin string) {
	t.Helper()
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("contend", "demo", "task")
	// More than the machine has, so that it is no limit that the fault comes near:
	// blocked or busy would be for the machine to decide.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=4")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := start(t, cmd)
	if _, err := stdin.Write(append(config, '\n')); err != nil {
		t.Fatalf("send the gateway its configuration: %v", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the gateway prints no address: %v", err)
	}
	var at struct{ URL, Admin string }
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatalf("the gateway prints %q: %v", line, err)
	}
	return at.URL, at.Admin
}

// start starts a command that ends when its standard input does: at the end of
// the test, and however else the test's process ends.
func start(t *testing.T, cmd *exec.Cmd) io.Writer {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer late.Stop()
		cmd.Wait()
	})
	return stdin
}

// startPrometheus starts a server that scrapes a host as the job gateway, and
// returns its URL.
func startPrometheus(t *testing.T, binary, host string) string {
	return startServer(t, binary, fmt.Sprintf(`
global: {scrape_interval: 250ms, scrape_timeout: 250ms}
scrape_configs:
- job_name: gateway
  static_configs: [{targets: [%q]}]
`, host))
}

// startServer starts a Prometheus server and returns its URL.
func startServer(t *testing.T, binary, config string) string {
	t.Helper()
	dir := t.TempDir()
	configFile, logFile := filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "log")
	if err := os.WriteFile(configFile, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// The server does not mind its standard input; the shell does.
	cmd := exec.Command("sh", "-c", `"$@" & read -r _; kill $!; wait`, "sh", binary,
		"--config.file="+configFile, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--query.lookback-delta=5s")
	cmd.Stderr = log
	start(t, cmd)

	server := ""
	listening := regexp.MustCompile(`msg="Listening on" .*address=(127\.0\.0\.1:\d+)`)
	eventually(t, "a Prometheus server", func() error {
		said, err := os.ReadFile(logFile)
		if err != nil {
			return err
		}
		m := listening.FindSubmatch(said)
		if m == nil {
			return fmt.Errorf("it does not listen: %s", said)
		}
		server = (&url.URL{Scheme: "http", Host: string(m[1])}).String()
		resp, err := http.Get(server + "/-/ready")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it is not ready, status %s: %s", resp.Status, said)
		}
		return nil
	})
	return server
}

// prometheusBinary is the server's program; without one the test is skipped, or
// fails where CONTEND_REQUIRE asks for it.
func prometheusBinary(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatalf("CONTEND_REQUIRE is set: %v; install Debian's package prometheus", err)
		}
		t.Skipf("needs a Prometheus server, such as Debian's package: %v", err)
	}
	return binary
}
