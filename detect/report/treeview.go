package report

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/contend/contend/detect"
)

// treeView is the stacks of what is in flight, as an icicle on its side: a row for
// each call, its bar as wide as its share and below its caller's.
type treeView struct {
	Title  string
	Inputs int
	Legend []legendEntry
	Nodes  []*nodeView
}

type nodeView struct {
	Name  string   // the last of its calls, short
	Calls []string // caller first
	More  int      // calls before those, left out
	Count string
	Share string
	Says  string // of what its stacks wait for
	Here  string // how many stand in the last call itself
	Left  string // how many stand in calls that are not shown
	Bars  []stretch
	Open  bool
	Nodes []*nodeView
}

// stretch is a stretch of a row's bar, in one colour.
type stretch struct{ X, Width, Color string }

// causeLooks are the causes in words and colours.
var causeLooks = map[string]struct {
	words string
	color color.NRGBA
}{
	"telemetryblock": {"blocked in telemetry", purple},
	"applock":        {"waiting for a lock", rust},
	"poolwait":       {"waiting for a pool", ochre},
	"downstream":     {"waiting for a dependency", leaf},
	"cpubound":       {"on CPU or queueing for it", blue},
	"":               {"waiting, the stacks do not tell for what", muted},
}

// A row is open where it has this share of all, down to a depth that shows the way
// to where most wait; the others open at a click.
const (
	openShare = 0.2
	openDepth = 5
	nodeCalls = 24 // the last ones, of a row of calls without a fork
)

func newTreeView(t *detect.Tree) *treeView {
	if t == nil {
		return nil
	}
	v := &treeView{Title: "Where their stacks stand", Inputs: len(t.Inputs)}
	for _, c := range t.Root.By {
		look := causeLooks[c.Cause]
		label := look.words
		if c.Cause != "" {
			label += " (" + c.Cause + ")"
		}
		v.Legend = append(v.Legend, legendEntry{
			Label: fmt.Sprintf("%s: %s of %s %s, %s", label, number(c.N), number(t.Root.N), t.Unit, percent(c.N/t.Root.N)),
			Color: hex(look.color), Area: true,
		})
	}
	v.Nodes = nodeViews(t.Root.Children, 0, t.Root.N, 0)
	return v
}

// nodeViews are the calls side by side from x, a share of all.
func nodeViews(nodes []*detect.Node, x, all float64, depth int) (out []*nodeView) {
	for _, n := range nodes {
		v := &nodeView{
			Name: shortCall(n.Frames[len(n.Frames)-1]), Calls: n.Frames,
			Count: number(n.N), Share: percent(n.N / all),
			Open: depth < openDepth && n.N >= openShare*all,
		}
		if more := len(n.Frames) - nodeCalls; more > 0 {
			v.Calls, v.More = n.Frames[more:], more
		}
		if n.Here > 0 && len(n.Children) > 0 {
			v.Here = number(n.Here)
		}
		if n.Left > 0 {
			v.Left = number(n.Left)
		}
		var says []string
		at := x
		for _, c := range n.By {
			look := causeLooks[c.Cause]
			v.Bars = append(v.Bars, stretch{width(at), width(c.N / all), hex(look.color)})
			at += c.N / all
			says = append(says, number(c.N)+" "+look.words)
		}
		v.Says = strings.Join(says, ", ")
		v.Nodes = nodeViews(n.Children, x, all, depth+1)
		x += n.N / all
		out = append(out, v)
	}
	return out
}

// shortCall is a function's name without the path before its package.
func shortCall(name string) string {
	head, _, _ := strings.Cut(name, "[") // type arguments have slashes too
	return name[strings.LastIndexByte(head, '/')+1:]
}
