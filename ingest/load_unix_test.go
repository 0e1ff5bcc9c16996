//go:build unix

package ingest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestLoadNamedPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	written := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = w.WriteString(dumpText)
			w.Close()
		}
		written <- err
	}()
	b := Load(t.Context(), []string{path}, Options{})
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if len(b.Snapshots) != 1 || b.Snapshots[0].Loss.Read != 2 {
		t.Errorf("got %+v", b)
	}
}

func TestLoadDevice(t *testing.T) {
	t.Parallel()
	b := Load(t.Context(), []string{os.DevNull}, Options{})
	if len(b.Failures) != 1 {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), "expected a file, a directory or a named pipe, saw a device | use -")
}
