package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contend/contend/detect"
)

// maxLinks of a chain of holders are shown between the first and the root:
// locks nest two or three deep, what is longer tells no more.
const maxLinks = 3

// holder says who holds the lock and what that goroutine waits for itself,
// down to the one at the root that waits for no lock. A brief one leaves out
// the links between and the stack.
func (p *page) holder(f *detect.Finding, brief bool) {
	h := f.Holder
	if h == nil {
		p.field("holder", f.Holds)
		return
	}
	key := "holder"
	if f.Wait == "pool" { // a pool has as many holders as permits
		key = "holders"
	}
	p.field(key, whoHolds(h, f.Function, f.Wait == "pool"))
	if len(h.Then) > 0 {
		p.field(itIs(h), theirWait(h)+", held by")
		h = p.chain(h.Then, brief)
	} else {
		p.field(itIs(h), theirWait(h))
	}
	p.field("locks", f.Holds)
	if !brief && !slices.Equal(h.Stack, []string{h.Function}) {
		stack := h.Brief
		if p.top == 0 || len(stack) == 0 {
			stack = h.Stack
		}
		p.stack("its stack", stack, maxFrames)
	}
}

// chain prints who holds the lock that a holder waits for, and so on, and
// returns the last. Only one that waits for no lock is called the root.
func (p *page) chain(list []detect.Holder, brief bool) *detect.Holder {
	last := &list[len(list)-1]
	between := list[:len(list)-1]
	shown := min(len(between), maxLinks)
	if brief && shown > 1 { // one takes the line that would tell of it
		shown = 0
	}
	for i := range between[:shown] {
		p.field("then", whoHolds(&between[i], "", false)+", "+theirWait(&between[i])+", held by")
	}
	if more := len(between) - shown; more > 0 {
		p.styledField(dim, "then", "… "+count(int64(more), "holder", "holders")+" between …")
	}
	key := "root"
	if last.AtLock {
		key = "then"
	}
	p.styledField(bold, key, whoHolds(last, "", false))
	p.styledField(bold, itIs(last), theirWait(last))
	return last
}

// whoHolds names a holder, as surely as it is known. The function that waits
// is not named again.
func whoHolds(h *detect.Holder, waiter string, pool bool) string {
	who := "likely "
	if h.Confidence == detect.Low {
		who = "possibly "
	}
	switch {
	case pool:
		who += count(max(h.Count, 1), "goroutine", "goroutines")
	case h.Count > 1:
		who += "one of " + count(h.Count, "goroutine", "goroutines")
	case h.Goroutine != 0:
		who += fmt.Sprintf("goroutine %d", h.Goroutine)
	default:
		who += "one goroutine"
	}
	// What it waits for can begin with its state.
	if h.State != "" && !strings.HasPrefix(h.Wait, h.State) {
		who += ", " + h.State
	}
	switch h.Function {
	case "":
		return who
	case waiter:
		return who + ", inside the same function"
	}
	return who + ", inside " + h.Function
}

// itIs is the key under which what holders wait for stands.
func itIs(h *detect.Holder) string {
	if h.Count > 1 {
		return "they are"
	}
	return "it is"
}

// theirWait is what a holder waits for; the function it is inside is not
// named again.
func theirWait(h *detect.Holder) string {
	if wait, ok := strings.CutSuffix(h.Wait, " in "+h.Function); ok && h.Function != "" {
		return wait + " there"
	}
	return h.Wait
}

// maxFrames of a holder's stack leave the screen to the rest of the report.
const maxFrames = 12

// stack prints at most limit frames, leaf first, each on its own line, the
// first after key.
func (p *page) stack(key string, frames []string, limit int) {
	n := min(len(frames), limit)
	lines := slices.Clone(frames[:n])
	if more := len(frames) - n; more > 0 {
		lines = append(lines, "… "+count(int64(more), "frame", "frames")+" more")
	}
	for _, line := range lines {
		p.styledField(dim, key, line)
		key = ""
	}
}

// labels is the profiler labels of those that wait, cut to one line: the keys
// alone where the values are kept back.
func (p *page) labels(labels map[string][]string) string {
	if len(labels) == 0 {
		return ""
	}
	tail, hidden := "", false
	var list []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		v := labels[key]
		if len(v) == 1 && v[0] == detect.Redacted {
			hidden = true
			list = append(list, key)
			continue
		}
		n := p.shown(len(v))
		list = append(list, key+"="+strings.Join(v[:n], "|")+andMore(len(v)-n))
	}
	if hidden {
		tail = " (redacted; --labels shows them)"
	}
	text := Printable(strings.Join(list, ", "))
	room := p.width - fieldIndent
	for n := len(list) - 1; p.top > 0 && n > 0 && columns(text+tail) > room; n-- {
		text = Printable(strings.Join(list[:n], ", ")) + andMore(len(list)-n)
	}
	if p.top > 0 && columns(text+tail) > room {
		text = count(int64(len(list)), "label", "labels")
	}
	return text + tail
}
