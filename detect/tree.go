package detect

import (
	"cmp"
	"slices"

	"github.com/contend/contend/ingest/stacks"
)

// Tree is the stacks of what is in flight, of the snapshots that the budget is of,
// from the handlers down to where they wait.
type Tree struct {
	Unit   Unit
	Inputs []string // the snapshots that were added up
	Root   Node
}

// Node is calls that the same stacks go through, and what those stacks wait for.
type Node struct {
	Frames   []string     // functions without a fork between them, caller first; none at the root
	N        float64      // how many stand in them or in what they call
	Here     float64      // how many of those stand in the last of Frames itself
	By       []CauseShare // of N, in the order of treeCauses
	Children []*Node      // the largest first
	Left     float64      // how many stand in calls that were left out of Children
	calls    map[string]*Node
	by       map[string]float64
}

// CauseShare is how many of a node's wait for what one cause is about.
type CauseShare struct {
	Cause string // a detector's name; "" where the stacks tell no cause
	N     float64
}

const (
	maxNodes   = 400 // more than anyone opens
	treeFrames = 200 // of one stack: recursion adds nothing further down
	// minBranch is the least share of all that is a branch of its own.
	minBranch = 0.002
)

// treeCauses are the causes that a stack alone can tell, in the order of shares.
var treeCauses = []string{"telemetryblock", "applock", "poolwait", "downstream", "cpubound", ""}

// causeOfStack is the detector that a stack is a matter of, whether or not it found
// enough of them to say so; "" where there is none.
func causeOfStack(c *Crowd) string {
	c = c.For()
	switch where := place(c.Wait.Kind); {
	case where == PlaceCPU || where == PlaceRunnable:
		return "cpubound"
	case c.Telemetry.Is:
		return "telemetryblock"
	case where == PlaceLock:
		return "applock"
	case where == PlacePool:
		return "poolwait"
	case where == PlaceDependency:
		return "downstream"
	}
	return ""
}

// treeOf adds up the snapshots of processes; nil where they have none.
func treeOf(of []*Pass) *Tree {
	t := &Tree{Root: *newNode()}
	for _, p := range of {
		v := p.Main()
		if v == nil || v.Kind != Stacks {
			continue
		}
		t.Unit = v.Unit
		t.Inputs = append(t.Inputs, v.Name)
		for _, c := range v.Crowds {
			if v.InScope(c) {
				t.Root.count(c)
			}
		}
	}
	if t.Root.N == 0 {
		return nil
	}
	budget := maxNodes
	t.Root.settle(t.Root.N*minBranch, &budget)
	return t
}

func newNode() *Node { return &Node{calls: map[string]*Node{}, by: map[string]float64{}} }

// count adds a crowd's stack below the root: from its handler where it has one,
// since what a server does to get there is the same for all, down to the site of its wait.
func (n *Node) count(c *Crowd) {
	frames := c.Frames
	for i, f := range slices.Backward(frames) {
		if i > c.Wait.Site && handlerRoot[stacks.Key(f)] {
			frames = frames[:i]
			for i--; i > c.Wait.Site && handlerRoot[stacks.Key(frames[i])]; i-- {
				frames = frames[:i] // what passes a request on to the handler
			}
			break
		}
	}
	frames = frames[min(max(c.Wait.Site, 0), len(frames)):]
	frames = frames[max(0, len(frames)-treeFrames):]
	cause := causeOfStack(c)
	n.add(c.N, cause)
	for _, f := range slices.Backward(frames) {
		next := n.calls[f.Func]
		if next == nil {
			next = newNode()
			next.Frames = []string{f.Func}
			n.calls[f.Func] = next
		}
		n = next
		n.add(c.N, cause)
	}
	n.Here += c.N
}

func (n *Node) add(count float64, cause string) {
	n.N += count
	n.by[cause] += count
}

// settle sorts and prunes the calls of n: those of fewer than least, and those
// beyond what budget has left.
func (n *Node) settle(least float64, budget *int) {
	for len(n.calls) == 1 && n.Here == 0 && n.Frames != nil {
		for _, only := range n.calls {
			n.Frames = append(n.Frames, only.Frames...)
			n.Here, n.calls = only.Here, only.calls
		}
	}
	for _, cause := range treeCauses {
		if x := n.by[cause]; x > 0 {
			n.By = append(n.By, CauseShare{cause, x})
		}
	}
	for _, c := range n.calls {
		n.Children = append(n.Children, c)
	}
	slices.SortFunc(n.Children, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Frames[0], b.Frames[0]))
	})
	kept := n.Children[:0]
	for _, c := range n.Children {
		if c.N < least || *budget == 0 {
			n.Left += c.N
			continue
		}
		*budget--
		kept = append(kept, c)
	}
	n.Children, n.calls, n.by = kept, nil, nil
	for _, c := range n.Children {
		c.settle(least, budget)
	}
}
