package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// slowReader takes a text only when it is let.
type slowReader struct {
	began chan struct{} // has a value once it is written to
	let   chan struct{}
	text  bytes.Buffer
}

func (s *slowReader) Write(p []byte) (int, error) {
	select {
	case s.began <- struct{}{}:
	default:
	}
	<-s.let
	return s.text.Write(p)
}

// Who writes is not held up by a reader that has stopped; what is left out is said.
func TestOutlet(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{0, 7} {
		s := &slowReader{began: make(chan struct{}, 1), let: make(chan struct{})}
		var stderr bytes.Buffer
		o := newOutlet(s, &stderr)
		var want strings.Builder
		fmt.Fprintln(o, "first")
		fmt.Fprintln(&want, "first")
		<-s.began // so that it waits for its place no more
		for i := range maxBehind + lost {
			if _, err := fmt.Fprintln(o, i); err != nil {
				t.Fatal(err)
			}
			if i < maxBehind {
				fmt.Fprintln(&want, i)
			}
		}
		close(s.let)
		if err := o.close(); err != nil || s.text.String() != want.String() {
			t.Errorf("%v, wrote\n%s\nwant\n%s", err, s.text.String(), want.String())
		}
		said := ""
		if lost > 0 {
			said = "contend: the changes of 7 looks are left out: standard output was not read meanwhile\n"
		}
		if stderr.String() != said {
			t.Errorf("said %q, want %q", stderr.String(), said)
		}
	}
}

// A reader that never reads again does not keep a command from its end.
func TestOutletStuck(t *testing.T) {
	t.Parallel()
	o := newOutlet(&slowReader{let: make(chan struct{})}, io.Discard)
	fmt.Fprintln(o, "lost")
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// A write that failed is told at the next one, also of nothing.
func TestOutletFails(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	o := newOutlet(failingWriter{gone}, io.Discard)
	if _, err := io.WriteString(o, "x"); err != nil {
		t.Error(err)
	}
	if err := o.close(); err != gone {
		t.Error(err)
	}
	if _, err := io.WriteString(o, ""); err != gone {
		t.Error(err)
	}
}
