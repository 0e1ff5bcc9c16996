package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startDemo starts a run of a scenario whose temporary files are in a directory of
// their own, and returns once it says its first phase: then all its processes
// serve. What it says on stderr is whole once ended is closed.
func startDemo(t *testing.T, args ...string) (cmd *exec.Cmd, temporary string, stderr *bytes.Buffer, ended chan struct{}) {
	t.Helper()
	temporary = t.TempDir()
	cmd, _, stderr = contend(t, append([]string{"demo", "run"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.Stderr = nil
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	first, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(first, "usual traffic") {
		rest, _ := io.ReadAll(lines)
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("expected the first phase, saw %q: %v", first+string(rest), err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(stderr, lines)
	}()
	return cmd, temporary, stderr, ended
}

// TestDemoRunEndsEarly looks at runs of the demo while they play, and ends them.
// One after the other, since each takes most of a small machine.
func TestDemoRunEndsEarly(t *testing.T) {
	t.Parallel()
	t.Run("interrupted", testInterrupted)
	t.Run("without a bundle", testInterruptedWithoutBundle)
	t.Run("killed", testKilled)
	t.Run("forecasts interrupted", testForecastsInterrupted)
}

// No process and no file is left but the bundle, and that says that it is a part.
func testInterrupted(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "bundle")
	// The scenario with the least to do before its fault.
	cmd, temporary, stderr, ended := startDemo(t, "cpubound", "--bundle", dir)
	tree := append(children(t, cmd.Process.Pid), cmd.Process.Pid)
	checkLoopback(t, tree, 2)
	time.Sleep(2 * time.Second) // eight scrapes of each part, and a record needs one
	cmd.Process.Signal(os.Interrupt)
	<-ended
	if code := exitCode(t, cmd.Wait()); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	checkNoProcess(t, tree)
	checkNames(t, temporary)
	checkNames(t, parent, "bundle")
	const why = "interrupt signal received"
	want := fmt.Sprintf("contend: what was recorded until then is in %s, marked as partial\ncontend: play cpubound: %s\n", dir, why)
	if stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	checkPartial(t, dir, why)
}

// checkPartial checks that a bundle is marked as a part, and that analyze reads it
// and warns of that.
func checkPartial(t *testing.T, dir, why string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Partial string `json:"partial"`
	}
	if err := json.Unmarshal(text, &list); err != nil || list.Partial != why {
		t.Errorf("partial %q, %v; want %q", list.Partial, err, why)
	}
	cmd, stdout, stderr := contend(t, "analyze", dir)
	if code := exitCode(t, cmd.Run()); code != exitOK {
		t.Errorf("analyze: exit code %d, want %d\n%s", code, exitOK, stderr)
	}
	if !strings.Contains(stdout.String(), "the bundle is partial: "+why) {
		t.Errorf("analyze does not say that the bundle is partial:\n%s", stdout)
	}
}

// A run without a bundle leaves nothing at all, also at its very start.
func testInterruptedWithoutBundle(t *testing.T) {
	cmd, temporary, stderr, ended := startDemo(t, "healthy")
	tree := append(children(t, cmd.Process.Pid), cmd.Process.Pid)
	checkLoopback(t, tree, 5)
	for range 3 { // impatience changes nothing
		cmd.Process.Signal(syscall.SIGTERM)
	}
	<-ended
	if code := exitCode(t, cmd.Wait()); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	checkNoProcess(t, tree)
	checkNames(t, temporary)
	if strings.Contains(stderr.String(), "recorded until then") || !strings.HasPrefix(stderr.String(), "contend: play healthy: terminated signal received") {
		t.Errorf("stderr %q", stderr)
	}
}

// A run that is killed cannot end its tasks. They end all the same.
func testKilled(t *testing.T) {
	cmd, _, _, ended := startDemo(t, "healthy")
	tasks := children(t, cmd.Process.Pid)
	if len(tasks) != 4 {
		t.Errorf("saw %d tasks, want four", len(tasks))
	}
	cmd.Process.Kill()
	<-ended
	cmd.Wait()
	for range 1000 {
		if !slices.ContainsFunc(tasks, isDemo) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	checkNoProcess(t, tasks)
}

// Of forecasts nothing is left either, and what is printed says that it is a part.
func testForecastsInterrupted(t *testing.T) {
	temporary := t.TempDir()
	cmd, stdout, stderr := contend(t, "demo", "eval", "--headroom")
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var tree []int
	for deadline := time.Now().Add(time.Minute); len(tree) <= cellsAtOnce; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			cmd.Process.Kill()
			t.Fatalf("expected %d tasks within a minute, saw %d", cellsAtOnce, len(tree)-1)
		}
		tree = append(children(t, cmd.Process.Pid), cmd.Process.Pid)
	}
	cmd.Process.Signal(os.Interrupt)
	if code := exitCode(t, cmd.Wait()); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	checkNoProcess(t, tree)
	checkNames(t, temporary)
	if want := "24 locks: about 30m0s\ncontend: play the locks: interrupt signal received\n"; stderr.String() != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	if want := "not valid: some locks were not played\n0 forecasts of 0 locks "; !strings.HasPrefix(stdout.String(), want) {
		t.Errorf("stdout %q, want it to begin with %q", stdout, want)
	}
}

// checkNames checks what is in a directory, hidden or not.
func checkNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("in %s is %q, want %q", dir, got, want)
	}
}

// isDemo reports whether a process runs that is part of a demo: another may have
// its number by now.
func isDemo(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(line, []byte("\x00demo\x00"))
}

func checkNoProcess(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if isDemo(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// children are the processes that a process started.
func children(t *testing.T, of int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// Its name, in parentheses, may hold anything; see proc_pid_stat(5).
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(of) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, pid)
		}
	}
	return out
}

// checkLoopback checks that the processes of a demo, its tasks and the one that
// started them, are as many as expected, and can be reached from this machine only.
func checkLoopback(t *testing.T, pids []int, want int) {
	t.Helper()
	if len(pids) != want {
		t.Errorf("saw %d processes, want the demo and its tasks, %d", len(pids), want)
	}
	for _, pid := range pids {
		listening, err := listeners(pid)
		if err != nil {
			t.Errorf("look at the sockets of process %d: %v", pid, err)
			continue
		}
		// A task has one for its traffic and one beside it; the other parts, more.
		if len(listening) < 2 {
			t.Errorf("process %d listens at %v, want two addresses at least", pid, listening)
		}
		for _, at := range listening {
			if !at.Addr().IsLoopback() {
				t.Errorf("process %d listens at %v", pid, at)
			}
		}
	}
}

// listeners are the addresses that a process can be reached at: of TCP where it
// listens, of UDP all. See proc_pid_net(5) for the format.
func listeners(pid int) ([]netip.AddrPort, error) {
	mine := map[string]bool{} // inodes of its sockets
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			mine[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	const listen = "0A"
	var out []netip.AddrPort
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, os.ErrNotExist) && strings.HasSuffix(table, "6") {
			continue // a machine without IPv6
		}
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			fields := strings.Fields(line)
			if len(fields) < 10 || !mine[fields[9]] || strings.HasPrefix(table, "tcp") && fields[3] != listen {
				continue
			}
			at, err := parseSocket(fields[1])
			if err != nil {
				return nil, err
			}
			out = append(out, at)
		}
	}
	return out, nil
}

// parseSocket reads an address as the kernel prints it: words of four bytes,
// each in the machine's order, which is little-endian wherever this runs.
func parseSocket(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var raw []byte
	for word := range slices.Chunk([]byte(host), 8) {
		value, err := strconv.ParseUint(string(word), 16, 32)
		if err != nil {
			return netip.AddrPort{}, err
		}
		raw = append(raw, byte(value), byte(value>>8), byte(value>>16), byte(value>>24))
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("expected an address, saw %q", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

func TestParseSocket(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000:0050":                         "0.0.0.0:80",
		"00000000000000000000000001000000:0016": "[::1]:22",
		"00000000000000000000000000000000:0016": "[::]:22",
	} {
		if got, err := parseSocket(text); err != nil || got.String() != want {
			t.Errorf("parseSocket(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
}
