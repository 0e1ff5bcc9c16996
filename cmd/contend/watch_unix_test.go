//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// sickProcess answers as a recorded task of the demo did while its requests
// waited in telemetry, once it is told to; before, as it did while all was well.
func sickProcess(t *testing.T) (url string, sick *atomic.Bool) {
	t.Helper()
	files, err := filepath.Glob("../../demo/scenarios/telemetryblock/bundle/profiles/gateway-1/*-*.pb.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded profiles: %v", err)
	}
	slices.Sort(files)
	sick = &atomic.Bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/{kind}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("debug") == "2" {
			io.WriteString(w, lockedDump)
			return
		}
		of := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !strings.HasPrefix(filepath.Base(f), r.PathValue("kind")) })
		file := of[0]
		if sick.Load() {
			file = of[len(of)-1]
		}
		http.ServeFile(w, r, file)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, sick
}

// SIGTERM ends a watch with the bundle that it was taking in place.
func TestTerminateWatch(t *testing.T) {
	t.Parallel()
	url, sick := sickProcess(t)
	dir := filepath.Join(t.TempDir(), "kept")
	cmd, _, stderr := contend(t, "watch", "--interval", "1s", "--listen", "127.0.0.1:0", "--bundle", dir, url)
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	next := func(want string) string {
		t.Helper()
		if !lines.Scan() || !regexp.MustCompile(want).MatchString(lines.Text()) {
			cmd.Process.Kill()
			t.Fatalf("line %q, want %s; stderr %q", lines.Text(), want, stderr)
		}
		return lines.Text()
	}
	first := next(`Z watching ` + url + `, each 1s; metrics at http://127\.0\.0\.1:\d+/metrics; for want of input it cannot look for .*herd`)
	sick.Store(true)
	next(`Z begins telemetryblock, critical, process: `)
	next(`Z verdict telemetryblock, critical, process: `)
	at := regexp.MustCompile(`http://\S+/metrics`).FindString(first)
	resp, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if want := `contend_finding{detector="telemetryblock",job="process",role="cause",severity="critical"} 1`; err != nil || !bytes.Contains(page, []byte(want+"\n")) {
		t.Errorf("%v; no %s in\n%s", err, want, page)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	kept := next(`Z evidence ` + dir + `/\d{8}T\d{6}\.\d{3}Z-telemetryblock: \d files, .*; the dump stopped 127\.0\.0\.1:\d+ for \S+ at the most; next: contend analyze `)
	for lines.Scan() {
		t.Errorf("then %q", lines.Text())
	}
	if code := exitCode(t, cmd.Wait()); code != exitOK || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !strings.Contains(kept, entries[0].Name()) {
		t.Fatalf("%v in the directory, %v; want the bundle alone", entries, err)
	}
	analyze, report, stderr := contend(t, "analyze", "-o", "json", filepath.Join(dir, entries[0].Name()))
	if code := exitCode(t, analyze.Run()); code != exitOK || !strings.Contains(report.String(), `"cause": "telemetryblock"`) {
		t.Errorf("exit code %d, stderr %q, report %.300s", code, stderr, report)
	}
}

// The page is there while the process is told to end by Ctrl-C.
func TestInterruptServe(t *testing.T) {
	t.Parallel()
	url, sick := sickProcess(t)
	sick.Store(true)
	cmd, _, stderr := contend(t, "serve", "--interval", "1s", "--listen", "127.0.0.1:0", url)
	cmd.Stdout = nil
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	at := regexp.MustCompile(`http://\S+/`).FindString(line)
	if err != nil || at == "" {
		t.Fatalf("%q, %v, %q", line, err, stderr)
	}
	eventually(t, "the report", func() error {
		resp, err := http.Get(at + "report.json")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && !bytes.Contains(body, []byte(`"cause": "telemetryblock"`)) {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	cmd.Process.Signal(os.Interrupt)
	if code := exitCode(t, cmd.Wait()); code != exitOK || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
