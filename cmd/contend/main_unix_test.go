//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

const lockedDump = `goroutine 1 [running]:
main.main()
	/src/app/main.go:10 +0x1d

`

// contend prepares a run of the command in a process of its own.
func contend(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), "contend", args...) // put there by testscript.Main
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// The first Ctrl-C gives up a pipe that nobody writes to; the file after it is
// read and reported.
func TestInterruptWhileLoading(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if err := os.WriteFile(file, []byte(lockedDump), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := contend(t, "analyze", pipe, file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Opening for writing succeeds once contend waits in its open, so its
	// handler stands by then.
	for i := 0; ; i++ {
		w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			defer w.Close()
			break
		}
		if i == 10_000 {
			cmd.Process.Kill()
			t.Fatal("contend did not open the pipe")
		}
		time.Sleep(time.Millisecond)
	}
	cmd.Process.Signal(os.Interrupt)
	if code := exitCode(t, cmd.Wait()); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if want := "contend: " + pipe + ": interrupted before"; !strings.HasPrefix(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("stderr %q, want one line: %s", stderr, want)
	}
	if !strings.Contains(stdout.String(), "\n  file ") {
		t.Errorf("the file is not in the report:\n%s", stdout)
	}
}

// A reader that goes away, such as head, changes neither the exit code nor
// is it complained of.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	stuck := testscriptFile(t, "testdata/failon.txtar", "stuck.txt")
	cmd, _, stderr := contend(t, "analyze", "--fail-on", "critical", stuck)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd.Stdout = w
	err = cmd.Run()
	w.Close()
	if code := exitCode(t, err); code != exitFound || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q; want %d and nothing", code, stderr, exitFound)
	}
}

// What a broken server sends beside its answer must not get to the terminal.
func TestUnsolicitedAnswer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if req.URL.Path == "/slow" { // so that contend sees the rest of the others
						time.Sleep(100 * time.Millisecond)
					}
					io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"+"hunter2 hunter2\r\n")
				}
			}()
		}
	}()
	u := "http://" + l.Addr().String()
	cmd, stdout, stderr := contend(t, "analyze", u+"/x", u+"/y", u+"/slow")
	if code := exitCode(t, cmd.Run()); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if strings.Contains(stderr.String()+stdout.String(), "hunter2") || strings.Count(stderr.String(), "\n") != 3 {
		t.Errorf("stderr %q, want three lines without what the server sent", stderr)
	}
}

// testscriptFile writes a file of a story to a directory of its own.
func testscriptFile(t *testing.T, story, name string) string {
	t.Helper()
	archive, err := txtar.ParseFile(story)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name == name {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatalf("%s has no file %s", story, name)
	return ""
}
