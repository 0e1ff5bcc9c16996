package series

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

// Slow jobs that come and go are not remembered for ever.
func TestMemoBound(t *testing.T) {
	t.Parallel()
	m := &Memo{}
	signal := Signal{Name: "up", Presets: []Preset{{Source: "Prometheus", Expr: "up"}}}
	most := 0
	for i := range maxMemo + 10 {
		stage := Stage{Selector: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "job", fmt.Sprint("job", i))}}
		if _, err := m.expression(stage, signal); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(m.made))
	}
	if most != maxMemo || len(m.made) != 10 {
		t.Errorf("at most %d remembered, %d in the end; want %d and 10", most, len(m.made), maxMemo)
	}
}
