package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// asTask makes the test's own binary a task, as contend's binary is one with
// "demo task".
const asTask = "GATEWAY_TEST_TASK"

func TestMain(m *testing.M) {
	if os.Getenv(asTask) != "" {
		os.Exit(Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// process is a task in a process of its own.
type process struct {
	*exec.Cmd
	Addresses
	stdin  io.WriteCloser
	stderr bytes.Buffer
}

func startProcess(t *testing.T, config string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.Env = append(os.Environ(), asTask+"=1")
	p.Stderr = &p.stderr
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, config+"\n")
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("read the task's addresses: %v", err)
	}
	if err := json.Unmarshal([]byte(line), &p.Addresses); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTaskEndsWithStdin(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		p := startProcess(t, `{"Loops":`+string(rune('0'+loops))+`,"Faults":{"Wedged":true}}`)
		send(t, 3, p.URL+"/")
		io.WriteString(p.stdin, `{"Wedge":true}`+"\n"+`{"Grow":-1}`+"\n{}\n")
		if status, _ := get(t, p.URL+"/"); status != http.StatusOK { // waits until the last line is in force
			t.Errorf("status %d, want 200", status)
		}
		p.stdin.Close()
		if err := p.Wait(); err != nil {
			t.Errorf("the task ended with %v, want exit code 0", err)
		}
		for _, want := range []string{`unknown field "Wedge"`, "expected faults of 0 or more"} {
			if !strings.Contains(p.stderr.String(), want) {
				t.Errorf("stderr %q lacks %q", p.stderr.String(), want)
			}
		}
	})
}

// A task that is terminated finishes the request that is in progress.
func TestTaskDrains(t *testing.T) {
	t.Parallel()
	upstream := newHeldUpstream(t)
	forBoth(t, func(t *testing.T, loops int) {
		p := startProcess(t, `{"Loops":`+string(rune('0'+loops))+`,"HealthApart":true,"Upstream":"`+upstream.URL+`"}`)
		answers := send(t, 1, p.URL+"/")
		<-upstream.asked
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "its readiness failed", func() bool {
			status, _, err := tryGet(t.Context(), p.Admin+"/readyz")
			return err != nil || status == http.StatusServiceUnavailable
		})
		upstream.answer <- struct{}{}
		if status := <-answers; status != http.StatusOK {
			t.Errorf("status %d, want 200", status)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("the task ended with %v, want exit code 0", err)
		}
	})
}

// A request without end does not keep a task that is terminated.
func TestTaskDrainsForSoLong(t *testing.T) {
	t.Parallel()
	forBoth(t, func(t *testing.T, loops int) {
		p := startProcess(t, `{"Loops":`+string(rune('0'+loops))+`,"Faults":{"Wedged":true}}`)
		send(t, 3, p.URL+"/")
		waitFor(t, "requests were in flight", func() bool {
			_, page := get(t, p.Admin+"/metrics")
			return strings.Contains(page, "\nhttp_requests_in_flight 3\n")
		})
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("the task ended with %v, want exit code 0", err)
		}
	})
}

func TestMainRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, stdin, want string }{
		{"nothing", "", "expected a line with the task's config on stdin, saw none"},
		{"no JSON", "gateway\n", "read the task's config"},
		{"unknown field", `{"Loop":1}`, `unknown field "Loop"`},
		{"two values", "{} {}", "saw more"},
		{"negative", `{"Pool":-1}`, "expected loops"},
		{"telemetry", `{"Telemetry":{"Kind":"metric"}}`, "set up telemetry"},
		{"long", strings.Repeat(" ", mostLine+1) + "{}", "token too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := Main(strings.NewReader(test.stdin), &stdout, &stderr); code != 1 || stdout.Len() != 0 {
				t.Errorf("exit code %d, stdout %q; want 1 and nothing", code, stdout.String())
			}
			if !strings.Contains(stderr.String(), test.want) {
				t.Errorf("stderr %q lacks %q", stderr.String(), test.want)
			}
		})
	}
	if code := Main(strings.NewReader("{}\n"), brokenWriter{}, io.Discard); code != 1 {
		t.Errorf("exit code %d with a stdout that is closed, want 1", code)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }
