package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/contend/contend/detect/report"
)

// terminal returns the descriptor of w where w is a terminal.
func terminal(w io.Writer) (fd int, ok bool) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// useColor follows no-color.org: any value of NO_COLOR but the empty one
// turns colour off.
func useColor(w io.Writer) bool {
	_, ok := terminal(w)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// terminalWidth is the columns of w, else what COLUMNS says, else 0.
func terminalWidth(w io.Writer) int {
	if fd, ok := terminal(w); ok {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			return width
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	return 0
}

// slowStep is how long a step may last before it is named: most end sooner,
// and a line that flashes by disturbs.
const slowStep = time.Second

// progress names, on a terminal, the step under way when it lasts long.
type progress struct {
	w     io.Writer // nil where nobody watches
	width int

	mu    sync.Mutex
	step  int // counts steps, so that a late timer cannot show an old one
	shown bool
}

func newProgress(w io.Writer) *progress {
	fd, ok := terminal(w)
	if !ok {
		return &progress{}
	}
	width, _, err := term.GetSize(fd)
	if err != nil || width <= 0 {
		width = 80
	}
	return &progress{w: w, width: width}
}

// begin starts a step and ends the one before.
func (p *progress) begin(name string) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	step := p.step
	time.AfterFunc(slowStep, func() { p.show(step, name) })
}

func (p *progress) show(step int, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if step != p.step {
		return
	}
	// Only one line can be taken back: a wide character takes two columns,
	// so half as many always fit.
	line := []rune(report.Printable(name))
	if limit := p.width/2 - 1; len(line) > limit {
		line = append(line[:max(limit, 0)], '…')
	}
	fmt.Fprintf(p.w, "\r%s", string(line))
	p.shown = true
}

// done ends the last step and leaves the terminal as it was.
func (p *progress) done() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

// end must be called with mu held.
func (p *progress) end() {
	p.step++
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
