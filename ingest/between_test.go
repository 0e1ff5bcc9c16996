package ingest

import (
	"testing"
	"time"

	"github.com/contend/contend/ingest/waits"
)

// Of several cumulative profiles the difference is of all, and its parts are kept;
// where the process began anew there is neither.
func TestBetween(t *testing.T) {
	const sec = time.Second
	all := []*waits.Profile{
		waited("3", waits.Block, gateway, at(9), 8*sec), waited("1", waits.Block, gateway, at(0), 2*sec), waited("2", waits.Block, gateway, at(4), 3*sec),
	}
	b := Bundle{Waits: all}
	p := b.Processes()[0]
	var sum time.Duration
	for i, want := range []struct {
		from, name string
		window     time.Duration
	}{{"1", "2", 4 * sec}, {"2", "3", 5 * sec}} {
		if len(p.Between) != 2 {
			t.Fatalf("%d parts, want 2", len(p.Between))
		}
		got := p.Between[i]
		if got.From != want.from || got.Name != want.name || got.Window != want.window {
			t.Errorf("part %d is %s from %s over %v, want %+v", i, got.Name, got.From, got.Window, want)
		}
		sum += got.Sites[0].Delay
	}
	if whole := p.Waits[0].Sites[0].Delay; sum != whole {
		t.Errorf("parts come to %v, want the whole %v", sum, whole)
	}
	two := Bundle{Waits: all[:2]}
	if p := two.Processes()[0]; len(p.Between) != 0 {
		t.Errorf("two profiles have %d parts, want none: they are the difference", len(p.Between))
	}
	all[0].Sites[0].Delay = sec
	named := Bundle{Waits: all, Instances: map[string]Instance{}}
	for _, w := range all {
		named.Instances[w.Name] = Instance{Job: "gateway", Name: "a"}
	}
	if p := named.Processes()[0]; len(p.Between) != 0 || len(p.Waits) != 1 {
		t.Errorf("a process that began anew has %d parts and %d profiles, want none and the last", len(p.Between), len(p.Waits))
	}
}
