package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// An answer or an input that does not end is given up, and what came is kept.
func TestLoadEndless(t *testing.T) {
	t.Parallel()
	s := fakePprof(t, map[string]http.HandlerFunc{
		"/endless": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, dumpText)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"/proto": func(w http.ResponseWriter, r *http.Request) {
			w.Write(goroutineProto(t, "b", t0, 7)[:20])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"/short": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(dumpText)+1000))
			io.WriteString(w, dumpText)
		},
		"/waits": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(contentionText)+1000))
			io.WriteString(w, contentionText)
		},
	})
	n := len(dumpText)
	tests := []struct {
		path string
		read int // snapshots and wait profiles
		want string
	}{
		{"/endless", 1, fmt.Sprintf("expected a whole answer, saw one that was still arriving: %d bytes in | s; what came before that was read; take it with curl", n)},
		{"/proto", 0, "expected a whole answer, saw one that was still arriving: 20 bytes in | s; take it with curl"},
		{"/short", 1, fmt.Sprintf("saw one that is cut off after %d bytes: unexpected EOF; what came before that was read; take it again", n)},
		{"/waits", 1, "saw one that is cut off after | what came before that was read"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			l := hostLoader(Options{})
			l.fetchTimeout = 200 * time.Millisecond
			b := l.load(t.Context(), []string{s.URL + tt.path, "-"})
			if len(b.Failures) != 2 || b.Failures[0].Name != s.URL+tt.path {
				t.Fatalf("got %+v", b)
			}
			if n := len(b.Snapshots) + len(b.Waits); n != tt.read {
				t.Errorf("read %d inputs, want %d", n, tt.read)
			}
			wantParts(t, b.Failures[0].Err.Error(), tt.want)
		})
	}
}

// Once interrupted, what is silent is given up; what it gave before is kept,
// and so are the files of the call.
func TestLoadInterrupted(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "file", []byte(dumpText))
	tests := []struct {
		name, said string
		read       int
		want       string
	}{
		{"silent", "", 0, "interrupted before its end: context canceled"},
		{"a dump and silence", dumpText, 1, "interrupted before its end; what came before that was read: context canceled"},
		{"half a gzip header", "\x1f\x8b\x08", 0, "interrupted before its end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, w := io.Pipe()
			defer w.Close()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				io.WriteString(w, tt.said)
				w.Write(nil) // returns once the next read waits, so what was said is taken
				cancel()
			}()
			b := Load(ctx, []string{"-", file}, Options{Stdin: r})
			if len(b.Failures) != 1 || b.Failures[0].Name != "stdin" {
				t.Fatalf("got %+v", b)
			}
			wantParts(t, b.Failures[0].Err.Error(), tt.want)
			if n := len(b.Snapshots); n != tt.read+1 || b.Snapshots[n-1].Name != file {
				t.Errorf("read %d snapshots, want %d with the file", n, tt.read+1)
			}
		})
	}
}

// Standard input that is a file is read even then.
func TestLoadInterruptedStdinFile(t *testing.T) {
	t.Parallel()
	f, err := os.Open(write(t, t.TempDir(), "file", []byte(dumpText)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b := Load(ctx, []string{"-"}, Options{Stdin: f}); len(b.Failures) != 0 || len(b.Snapshots) != 1 {
		t.Errorf("got %+v", b)
	}
}

func TestWaitingReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(dumpText, 1000)
	broken := errors.New("broken")
	for name, r := range map[string]io.Reader{
		"whole":        strings.NewReader(text),
		"bytes":        iotest.OneByteReader(strings.NewReader(text)),
		"end with it":  iotest.DataErrReader(strings.NewReader(text)),
		"broken after": io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)),
	} {
		got, err := io.ReadAll(newWaitingReader(t.Context(), r))
		if !bytes.Equal(got, []byte(text)) || (err == broken) != (name == "broken after") {
			t.Errorf("%s: read %d bytes of %d, %v", name, len(got), len(text), err)
		}
	}
}

// A read error says what was expected and what to try, and keeps what was read.
func TestLoadReadError(t *testing.T) {
	t.Parallel()
	r := io.MultiReader(strings.NewReader(dumpText), iotest.ErrReader(&os.PathError{Op: "read", Path: "/dev/stdin", Err: os.ErrInvalid}))
	b := Load(t.Context(), []string{"-"}, Options{Stdin: r})
	if len(b.Failures) != 1 || len(b.Snapshots) != 1 {
		t.Fatalf("got %+v", b)
	}
	wantParts(t, b.Failures[0].Err.Error(), fmt.Sprintf("expected to read it to its end, but reading stopped after %d bytes: | ; what came before that was read; check the disk, pipe or connection", len(dumpText)))
}
