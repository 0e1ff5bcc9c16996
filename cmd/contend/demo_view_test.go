package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/contend/contend/demo/play"
)

// incidentStates are 62 s of an incident, one state a second: in flight grows from 20 s on.
func incidentStates(seconds int) []play.State {
	var past []play.State
	for i := range seconds + 1 {
		s := play.State{
			Elapsed: time.Duration(i) * time.Second, Of: 62 * time.Second, Phase: "the asset arrives, all clients are released", Clock: "09:07",
			Offered: 1523.4, Served: 310, Failed: 84.5, Waiting: 270, InFlight: 4, Cores: 0.25,
			Tasks: 5, Ready: 3, Kills: 12, Health: 240*time.Millisecond + 300*time.Microsecond, HealthFailing: 2,
		}
		if i >= 20 {
			s.InFlight = 100 * (i - 19)
		}
		past = append(past, s)
	}
	return past
}

func TestViewLines(t *testing.T) {
	t.Parallel()
	quiet := []play.State{{Of: time.Minute, Phase: "warm-up"}}
	for _, test := range []struct {
		name  string
		past  []play.State
		width int
		want  string
	}{
		{"wide", incidentStates(31), 100, `0:31 of 1:02  09:07  the asset arrives, all clients are released
requests/s  1,523 offered, 310 served, 85 failed, 270 wait for the asset
in flight   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▂▂▃▃▄▅▅▆▆▇█                               1,200
CPU         ▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂                               0.25 cores
tasks       5, 3 ready, 12 killed; health check 240ms, failing on 2`},
		{"narrow", incidentStates(31), 40, `0:31 of 1:02  09:07  the asset arrives…
requests/s  1,523 offered, 310 served,…
in flight   ▁▁▁▁▃▆█        1,200
CPU         ▂▂▂▂▂▂▂        0.25 cores
tasks       5, 3 ready, 12 killed; hea…`},
		{"too narrow for a course", incidentStates(31), 30, `0:31 of 1:02  09:07  the ass…
requests/s  1,523 offered, 3…
in flight   1,200
CPU         0.25 cores
tasks       5, 3 ready, 12 k…`},
		{"hostile", incidentStates(31), 5, `0:3…
req…
in…
CPU…
tas…`},
		{"one column", quiet, 1, `…
…
…
…
…`},
		{"quiet", quiet, 80, `0:00 of 1:00  warm-up
requests/s  0 offered, 0 served, 0 failed
in flight   ▁                                                      0
CPU         ▁                                                      0.00 cores
tasks       0, 0 ready, 0 killed; health check 0s`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(viewLines(test.past, test.width), "\n"); got != test.want {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// No width breaks a line, and no number breaks the view.
func TestViewWidths(t *testing.T) {
	t.Parallel()
	past := incidentStates(70) // longer than it was to be
	past = append(past, play.State{Phase: "a\x1b[2Jb\nc", Elapsed: -time.Second, Offered: math.NaN(), Cores: math.Inf(1), InFlight: -1, Served: -5})
	for width := 1; width < 300; width++ {
		for n := 1; n <= len(past); n += 35 {
			lines := viewLines(past[:n], width)
			lines = append(lines, viewLines(past[len(past)-1:], width)...)
			for _, line := range lines {
				if columns := utf8.RuneCountInString(line); columns > max(width-1, 1) || strings.ContainsAny(line, "\x1b\n") {
					t.Fatalf("%d columns of %d: %q", columns, width, line)
				}
			}
		}
	}
}

func TestCourse(t *testing.T) {
	t.Parallel()
	at := func(second int, n int) play.State {
		return play.State{Elapsed: time.Duration(second) * time.Second, Of: 10 * time.Second, InFlight: n}
	}
	of := func(s play.State) float64 { return float64(s.InFlight) }
	const width = 1 + 10 + 2 + len("99,999 cores") // ten columns of a second
	for _, test := range []struct {
		name string
		past []play.State
		want string
	}{
		{"the start", []play.State{at(0, 0)}, "▁           now"},
		{"the first is the largest", []play.State{at(0, 7)}, "█           now"},
		{"what was not seen is as before", []play.State{at(0, 7), at(3, 0), at(4, 3)}, "███▁▄       now"},
		{"the largest of a column", []play.State{at(0, 7), at(0, 1), at(1, 2)}, "█▃          now"},
		{"the end", []play.State{at(0, 0), at(9, 7), at(10, 0)}, "▁▁▁▁▁▁▁▁▁█  now"},
		{"less than full", []play.State{at(0, 0), at(1, 0)}, "▁▁          now"},
		{"past the end", []play.State{at(0, 7), at(20, 0)}, "█████████▁  now"},
	} {
		if got := course("", test.past, width, "now", 1, of); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// Where nobody watches, each phase is one line, however often it is shown.
func TestLiveViewPlain(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	v := newLiveView(&b)
	for i, phase := range []string{"", "warm-up", "warm-up", "the surge", "the surge", "warm-up"} {
		s := play.State{Elapsed: time.Duration(i) * 25 * time.Second, Of: 62 * time.Second, Phase: phase}
		if phase == "the surge" {
			s.Clock = "09:07"
		}
		v.show(s)
	}
	v.clear()
	const want = "0:25 of 1:02  warm-up\n1:15 of 1:02  09:07  the surge\n2:05 of 1:02  warm-up\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// On a terminal the lines are drawn anew in place, also where it was made
// narrower, and as many as it has rows.
func TestLiveViewTerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	width, height := 60, 24
	v := &liveView{w: &b, size: func() (int, int) { return width, height }}
	drawn := func(width, rows int, past []play.State) string {
		return strings.Join(viewLines(past, width)[:rows], "\n") + "\n"
	}
	past := incidentStates(4)
	for _, step := range []struct {
		name          string
		width, height int
		erased        string // what comes before the lines
		rows          int
	}{
		{"first", 60, 24, "", 5},
		{"again", 60, 24, "\x1b[5A\r\x1b[J", 5},
		{"narrower: two rows for each line that was longer than 30 columns", 30, 24, "\x1b[10A\r\x1b[J", 5},
		{"lower", 30, 4, "\x1b[5A\r\x1b[J", 3},
		{"lowest", 30, 1, "\x1b[3A\r\x1b[J", 1},
	} {
		b.Reset()
		width, height = step.width, step.height
		n := len(v.past)
		v.show(past[n])
		if want := step.erased + drawn(step.width, step.rows, past[:n+1]); b.String() != want {
			t.Errorf("%s: got %q, want %q", step.name, b.String(), want)
		}
	}
	b.Reset()
	v.clear()
	v.clear() // what is gone is not erased twice
	if want := "\x1b[1A\r\x1b[J"; b.String() != want {
		t.Errorf("cleared by %q, want %q", b.String(), want)
	}
}
