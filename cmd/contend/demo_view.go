package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/report"
)

// liveView shows a run of the demo while it is played: on a terminal a few
// lines that are drawn anew in place, elsewhere one line for each phase.
type liveView struct {
	w    io.Writer
	size func() (width, height int) // of the terminal; nil where w is none

	mu    sync.Mutex
	past  []play.State
	drawn []string // what stands on the terminal
	phase string   // what was said last, where w is no terminal
}

func newLiveView(w io.Writer) *liveView {
	v := &liveView{w: w}
	fd, ok := terminal(w)
	if !ok || os.Getenv("TERM") == "dumb" {
		return v
	}
	v.size = func() (int, int) {
		width, height, err := term.GetSize(fd)
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24 // what terminals that cannot tell usually are
		}
		return width, height
	}
	return v
}

// show shows the state of the run; it is called a few times a second.
func (v *liveView) show(s play.State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.size == nil {
		if s.Phase != v.phase {
			v.phase = s.Phase
			fmt.Fprintln(v.w, phaseLine(s))
		}
		return
	}
	v.past = append(v.past, s)
	width, height := v.size()
	lines := viewLines(v.past, width)
	// A line that has scrolled away cannot be drawn anew.
	lines = lines[:min(len(lines), max(height-1, 1))]
	v.erase(width)
	for _, line := range lines {
		fmt.Fprintln(v.w, line)
	}
	v.drawn = lines
}

// clear takes what is drawn off the terminal, before something else is written there.
func (v *liveView) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.size != nil {
		width, _ := v.size()
		v.erase(width)
	}
}

// erase must be called with mu held. A terminal made narrower since has broken
// its lines, which then take more rows.
func (v *liveView) erase(width int) {
	rows := 0
	for _, line := range v.drawn {
		rows += max(1, (len([]rune(line))+width-1)/width)
	}
	if rows > 0 {
		fmt.Fprintf(v.w, "\x1b[%dA\r\x1b[J", rows)
	}
	v.drawn = nil
}

// phaseLine says that a phase has begun.
func phaseLine(s play.State) string {
	clock := ""
	if s.Clock != "" {
		clock = s.Clock + "  "
	}
	return report.Printable(fmt.Sprintf("%s of %s  %s%s", minutes(s.Elapsed), minutes(s.Of), clock, s.Phase))
}

// viewLines draws the last of some states of a run, with the course of the requests
// in flight and of the CPU since its start. No line has more columns than
// width less one, where a cursor could stand and break it.
func viewLines(past []play.State, width int) []string {
	s := past[len(past)-1]
	waiting := ""
	if s.Waiting > 0 {
		waiting = ", " + detect.Thousands(float64(s.Waiting)) + " wait for the asset"
	}
	failing := ""
	if s.HealthFailing > 0 {
		failing = fmt.Sprintf(", failing on %d", s.HealthFailing)
	}
	lines := []string{
		phaseLine(s),
		fmt.Sprintf("requests/s  %s offered, %s served, %s failed%s", perSecond(s.Offered), perSecond(s.Served), perSecond(s.Failed), waiting),
		course("in flight   ", past, width, detect.Thousands(float64(s.InFlight)), 1, func(s play.State) float64 { return float64(s.InFlight) }),
		// A whole core is the least that fills the height: little CPU is to look little.
		course("CPU         ", past, width, fmt.Sprintf("%.2f cores", finite(s.Cores)), 1, func(s play.State) float64 { return s.Cores }),
		fmt.Sprintf("tasks       %d, %d ready, %d killed; health check %v%s", s.Tasks, s.Ready, s.Kills, s.Health.Round(time.Millisecond), failing),
	}
	for i, line := range lines {
		lines[i] = report.Cut(line, max(width-1, 1))
	}
	return lines
}

// course is a line with a sparkline from the start of a run to its end, where
// there is room for one of some use. full is the least value at its full height.
func course(head string, past []play.State, width int, now string, full float64, of func(play.State) float64) string {
	const least, most = 8, 60
	room := min(width-1-len(head)-2-len("99,999 cores"), most)
	if room < least {
		return head + now
	}
	last := past[len(past)-1]
	span := max(last.Of, last.Elapsed, 1)
	var columns []float64 // the largest value of each
	for _, s := range past {
		i := int(float64(room) * float64(max(s.Elapsed, 0)) / float64(span))
		i = min(i, room-1)
		for len(columns) <= i {
			before := 0.0
			if n := len(columns); n > 0 && n < i {
				before = columns[n-1] // nothing was seen in this one
			}
			columns = append(columns, before)
		}
		columns[i] = max(columns[i], finite(of(s)))
	}
	return head + sparkline(columns, full) + strings.Repeat(" ", room-len(columns)) + "  " + now
}

// sparkline draws values of at least 0 as blocks; the largest, or full where
// that is larger, has the full height.
func sparkline(values []float64, full float64) string {
	blocks := []rune("▁▂▃▄▅▆▇█")
	for _, x := range values {
		full = max(full, x)
	}
	var b strings.Builder
	for _, x := range values {
		b.WriteRune(blocks[int(x/full*float64(len(blocks)-1))])
	}
	return b.String()
}

// finite is x, or 0 where it is no number to draw.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return 0
	}
	return x
}

func perSecond(x float64) string { return detect.Thousands(math.Round(finite(x))) }

// minutes writes a time of a run as 1:05.
func minutes(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
