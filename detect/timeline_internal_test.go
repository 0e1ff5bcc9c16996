package detect

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/memory"
)

const quarter = 15 * time.Second

var midnight = time.Unix(1_799_971_200, 0).UTC()

// viewOf is a job's series at steps of a quarter minute: by signal and instance,
// a value a step, NaN where there is none.
func viewOf(steps int, values map[string]map[string][]float64) *SeriesView {
	c := &series.Canonical{
		Store: memory.New(), Start: midnight, End: midnight.Add(time.Duration(steps-1) * quarter),
		Timing: series.Timing{Interval: quarter}, Instances: map[string][]string{"shop": {"a", "b"}},
	}
	for signal, byInstance := range values {
		for instance, list := range byInstance {
			s := promql.Series{Metric: labels.FromStrings("job", "shop", "instance", instance)}
			for i, x := range list {
				if !math.IsNaN(x) {
					s.Floats = append(s.Floats, promql.FPoint{T: midnight.Add(time.Duration(i) * quarter).UnixMilli(), F: x})
				}
			}
			c.Store.AppendMatrix("contend:"+signal, promql.Matrix{s}, quarter)
		}
	}
	return &SeriesView{Job: "shop", Canon: c, index: columnIndex{}}
}

func text(t *Timeline) string {
	var b strings.Builder
	for _, l := range t.Lines {
		fmt.Fprintf(&b, "%s %v\n", l.Name, l.Values)
	}
	for _, e := range t.Ends {
		fmt.Fprintf(&b, "%s %s restarted=%t\n", e.At.Format(time.TimeOnly), e.Instance, e.Restarted)
	}
	return b.String()
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	v := viewOf(12, map[string]map[string][]float64{
		"inflight":       {"a": {1, 2, 30, 40, none, none, none, none, none, none, none, none}, "b": {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"lock_wait":      {"a": {0, 0, 20, 90, none, none, none, none, none, none, none, none}, "b": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		"health_latency": {"a": {0.1, 0.1, 0.9, none, none, none, none, none, none, none, none, none}, "b": {0.2, 0.2, 0.2, math.Inf(1), none, none, none, none, none, none, none, none}},
		// a's series go on for a window of 4 scrapes after its last; b begins anew.
		"start_time": {"a": {5, 5, 5, 5, 5, 5, 5, none, none, none, none, none}, "b": {5, 5, 5, 5, 5, 90, 90, 90, 90.5, 90, 90, 90}},
	})
	tl := v.timeline()
	want := `lock [0 0 20 41 0 0 0 0 0 0 0 0]
unexplained [2 3 11 0 1 1 1 1 1 1 1 1]
inflight [2 3 31 41 1 1 1 1 1 1 1 1]
health_latency [0.2 0.2 0.9 NaN NaN NaN NaN NaN NaN NaN NaN NaN]
00:00:45 a restarted=false
00:01:15 b restarted=true
`
	if got := text(&tl); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if tl.Steps != 1 || tl.Every != quarter || tl.Instances != 2 {
		t.Errorf("got %d steps each %s of %d instances", tl.Steps, tl.Every, tl.Instances)
	}
}

// TestTimelineFolds: of more steps than points, each point has the highest, and the
// places of one step, which add up to it.
func TestTimelineFolds(t *testing.T) {
	t.Parallel()
	const steps = 2*maxPoints + 1
	inFlight, lock, latency := make([]float64, steps), make([]float64, steps), make([]float64, steps)
	for i := range steps {
		inFlight[i] = float64(10 + i%3)
		lock[i] = float64(10 - i%3) // most where the least is in flight
		latency[i] = float64(i % 2)
	}
	v := viewOf(steps, map[string]map[string][]float64{"inflight": {"a": inFlight}, "lock_wait": {"a": lock}, "health_latency": {"a": latency}})
	tl := v.timeline()
	if tl.Steps != 3 || tl.Every != 3*quarter {
		t.Fatalf("a point is %d steps, %s; expected 3", tl.Steps, tl.Every)
	}
	if got := tl.At(2); !got.Equal(midnight.Add(6 * quarter)) {
		t.Errorf("the third point is at %s", got)
	}
	places := tl.Places()
	all, lat := tl.Line("inflight"), tl.Line("health_latency")
	if len(all.Values) != 161 {
		t.Fatalf("%d points, expected 161", len(all.Values))
	}
	for i := range all.Values {
		if want := min(12, inFlight[min(3*i+2, steps-1)]); all.Values[i] != want || places[0].Values[i]+places[1].Values[i] != want {
			t.Errorf("point %d: %g in flight, and %g + %g by place; expected %g", i, all.Values[i], places[0].Values[i], places[1].Values[i], want)
		}
		if want := 1.0; i < 160 && lat.Values[i] != want {
			t.Errorf("point %d: a latency of %g, expected %g", i, lat.Values[i], want)
		}
	}
}

func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	const steps = 40_000 // a week
	starts := make([]float64, steps)
	for i := range starts {
		starts[i] = float64(100 * (i / 50)) // begins anew 800 times
	}
	v := viewOf(steps, map[string]map[string][]float64{"start_time": {"a": starts}, "cpu": {"a": starts}})
	tl := v.timeline()
	if n := len(tl.Line("cpu").Values); n > maxPoints || n < maxPoints/2 {
		t.Errorf("%d points, expected at most %d", n, maxPoints)
	}
	if len(tl.Ends) != maxEnds || tl.MoreEnds != 799-maxEnds {
		t.Errorf("%d ends and %d more, expected %d and %d", len(tl.Ends), tl.MoreEnds, maxEnds, 799-maxEnds)
	}
}
