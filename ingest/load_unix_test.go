//go:build unix

package ingest

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
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

// A pipe that nobody writes to is given up when interrupted, before and after
// somebody opened it.
func TestLoadSilentPipe(t *testing.T) {
	t.Parallel()
	for _, opened := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "pipe")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skip("no named pipes here:", err)
		}
		file := write(t, dir, "file", []byte(dumpText))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if opened {
			// For reading too, so that opening does not wait for the reader.
			w, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			w.WriteString(dumpText)
		}
		b := Load(ctx, []string{path, file}, Options{Progress: func(s string) {
			if s == "reading "+path {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
		}})
		read := 1
		want := "interrupted before anything was written to it: context canceled"
		if opened {
			read, want = 2, "interrupted before its end; what came before that was read"
		}
		if len(b.Failures) != 1 || b.Failures[0].Name != path || len(b.Snapshots) != read {
			t.Fatalf("opened %v: got %+v", opened, b)
		}
		wantParts(t, b.Failures[0].Err.Error(), want)
	}
}
