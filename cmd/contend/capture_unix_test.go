//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Ctrl-C and SIGTERM end a capture early: the closing profiles are still taken,
// and the bundle can be analysed.
func TestInterruptCapture(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		scraped, last := make(chan struct{}, 1000), make(chan struct{}, 10)
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/mutex", func(w http.ResponseWriter, r *http.Request) { // the last of a round
			pprof.Handler("mutex").ServeHTTP(w, r)
			last <- struct{}{}
		})
		mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "a 1\n")
			scraped <- struct{}{}
		})
		server := httptest.NewServer(mux)
		defer server.Close()
		dir := filepath.Join(t.TempDir(), "bundle")
		cmd, stdout, stderr := contend(t, "capture", server.URL, "--for", "1h", "--every", "1m", "--scrape-interval", "250ms", "-o", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-last
		for len(scraped) > 0 {
			<-scraped
		}
		for range 2 { // by the second, what was answered before has arrived
			<-scraped
		}
		cmd.Process.Signal(sig)
		if code := exitCode(t, cmd.Wait()); code != exitOK {
			t.Errorf("%v: exit code %d, want %d\n%s", sig, code, exitOK, stderr)
		}
		if !strings.HasPrefix(stdout.String(), dir+"/: 2 goroutine, 2 block and 2 mutex profiles, 1 dump, ") || !strings.Contains(stdout.String(), ", then interrupted\nnext: ") {
			t.Errorf("%v: stdout %q", sig, stdout)
		}
		if want := "contend: time: interrupted after "; !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: stderr %q, want %s", sig, stderr, want)
		}
		analyze, _, stderr := contend(t, "analyze", dir)
		if code := exitCode(t, analyze.Run()); code != exitOK {
			t.Errorf("%v: analyze: exit code %d\n%s", sig, code, stderr)
		}
	}
}
