package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

// treeOf is the tree of one snapshot, written as in package cases, where one
// detector looks and finds nothing.
func treeOf(t *testing.T, dump string) *detect.Tree {
	t.Helper()
	none := &detect.Detector{Name: "none", Role: detect.Cause, Needs: []detect.Need{{Input: detect.Stacks}}, Run: func(*detect.Pass) error { return nil }}
	b := &ingest.Bundle{Snapshots: []*stacks.Snapshot{cases.Snapshot(t, "dump", dump)}}
	if r := detect.Run(b, nil, []*detect.Detector{none}, detect.Options{}); r.Tree != nil {
		t.Error("a tree that nobody draws was built")
	}
	return detect.Run(b, nil, []*detect.Detector{none}, detect.Options{Drawn: true}).Tree
}

// outline writes a tree as lines: how many stand in a call, how many of them stand in its
// last function, what they wait for, and its functions.
func outline(t *detect.Tree) string {
	var b strings.Builder
	var walk func(*detect.Node, string)
	walk = func(n *detect.Node, in string) {
		fmt.Fprintf(&b, "%s%g/%g", in, n.N, n.Here)
		for _, c := range n.By {
			fmt.Fprintf(&b, " %s=%g", c.Cause, c.N)
		}
		fmt.Fprintf(&b, " %s\n", strings.Join(n.Frames, " > "))
		for _, c := range n.Children {
			walk(c, in+"  ")
		}
	}
	walk(&t.Root, "")
	return b.String()
}

func TestTree(t *testing.T) {
	t.Parallel()
	got := outline(treeOf(t, `30 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < shop.(*cache).get < shop.list < shop.api < HANDLER
20 sync.Mutex.Lock: LOCK(0xc0002000) < sync.(*Mutex).Lock < github.com/prometheus/client_golang/prometheus.(*Registry).Register < shop.api < HANDLER
5 select: net/http.(*persistConn).roundTrip < net/http.(*Client).Do < shop.ask < shop.list < shop.api < HANDLER
3 running: shop.list < shop.api < HANDLER
2 chan receive: shop.wait < shop.stream < HANDLER
9 select: shop.background`))
	want := `60/0 telemetryblock=20 applock=30 downstream=5 cpubound=3 =2 
  58/0 telemetryblock=20 applock=30 downstream=5 cpubound=3 shop.api
    38/3 applock=30 downstream=5 cpubound=3 shop.list
      30/30 applock=30 shop.(*cache).get
      5/5 downstream=5 shop.ask > net/http.(*Client).Do > net/http.(*persistConn).roundTrip
    20/20 telemetryblock=20 github.com/prometheus/client_golang/prometheus.(*Registry).Register
  2/2 =2 shop.stream > shop.wait
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestTreeIsBounded: however many stacks differ, and however deep they are, a tree is
// small and no goroutine is missing from its counts.
func TestTreeIsBounded(t *testing.T) {
	t.Parallel()
	var dump strings.Builder
	for i := range 300 {
		fmt.Fprintf(&dump, "1 chan receive: shop.wait%d < shop.a%d < shop.b%d < HANDLER\n", i, i%20, i%7)
	}
	fmt.Fprintf(&dump, "9 chan receive: shop.wait < %sshop.deep < HANDLER\n", strings.Repeat("shop.f < shop.g < ", 400))
	tree := treeOf(t, dump.String())
	nodes, deepest := 0, 0
	var walk func(*detect.Node)
	walk = func(n *detect.Node) {
		nodes++
		deepest = max(deepest, len(n.Frames))
		sum := n.Here + n.Left
		for _, c := range n.Children {
			sum += c.N
			walk(c)
		}
		if sum != n.N {
			t.Errorf("%v: %g here, left out or below, of %g", n.Frames, sum, n.N)
		}
	}
	walk(&tree.Root)
	if tree.Root.N != 309 || nodes < 100 || nodes > 401 || deepest > 200 {
		t.Errorf("%g goroutines in %d rows of up to %d calls; expected 309, at most 401 and 200", tree.Root.N, nodes, deepest)
	}
}
