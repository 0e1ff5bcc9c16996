package crosscheck

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series/memory"
)

// pattern is when a condition holds, a character a step: "#" it does, "." it
// does not, "_" there is no sample. Instances are apart by "/".
type pattern struct{ name, steps string }

const patternSteps = 160 // 40 minutes: an alert that is resolved is remembered by a server for 15

func patterns() []pattern {
	out := []pattern{
		{"never", "...."},
		{"always", strings.Repeat("#", patternSteps)},
		{"from the first step, once", "#"},
		{"once", "..#"},
		{"shorter than any wait", "..##...."},
		{"each second step", strings.Repeat("#.", patternSteps/2)},
		{"each second step, the other way", strings.Repeat(".#", patternSteps/2)},
		{"two of three", strings.Repeat("##.", patternSteps/3)},
		{"flaps, then stays", strings.Repeat("#.", 10) + strings.Repeat("#", 40)},
		{"stays, then flaps, as while it is kept firing", strings.Repeat("#", 45) + strings.Repeat(".#", 30)},
		{"gaps that grow while it is kept firing", strings.Repeat("#", 45) + ".#..#...#....#.....#......#......................#"},
		{"a gap without samples while it is kept firing", strings.Repeat("#", 45) + "___#" + strings.Repeat("_", 30) + "###"},
		{"a gap while pending", "##.##_###." + strings.Repeat("#", 8)},
		{"ends while it fires", strings.Repeat(".", 100) + strings.Repeat("#", patternSteps-100)},
		{"ends while it is kept firing", strings.Repeat(".", 80) + strings.Repeat("#", patternSteps-81) + "."},
		{"ends while pending", strings.Repeat(".", patternSteps-1) + "#"},
		{"again after it is forgotten", strings.Repeat("#", 45) + strings.Repeat(".", 70) + strings.Repeat("#", 45)},
		{"again before it is forgotten", strings.Repeat("#", 45) + strings.Repeat(".", 50) + strings.Repeat("#", 45)},
		{"instances take turns", strings.Repeat("#.", 40) + "/" + strings.Repeat(".#", 40)},
		{"one instance takes over with a step between", strings.Repeat("#", 20) + "/" + strings.Repeat(".", 21) + strings.Repeat("#", 20)},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		var instances []string
		for range 1 + random.IntN(2) {
			// Long stays and quick changes, in one pattern too.
			var b strings.Builder
			for b.Len() < patternSteps {
				stay := 1 + random.IntN([]int{1, 3, 8, 50}[random.IntN(4)])
				b.WriteString(strings.Repeat(string("##._"[random.IntN(4)]), stay))
			}
			instances = append(instances, b.String()[:patternSteps])
		}
		out = append(out, pattern{fmt.Sprintf("random %d", i), strings.Join(instances, "/")})
	}
	return out
}

// TestSpans holds detect.Spans to the states of a server's alerts, each pattern
// being a job, for waits that are none, shorter than a step, between steps and longer than most patterns.
func TestSpans(t *testing.T) {
	t.Parallel()
	const step = 15 * time.Second
	start := time.Unix(writtenStart, 0).UTC()
	end := start.Add((patternSteps - 1) * step)

	type waits struct{ hold, keep time.Duration }
	alerts := map[string]waits{}
	var all []rulefmt.Rule
	for _, hold := range []time.Duration{0, 10 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		for _, keep := range []time.Duration{0, 10 * time.Second, 40 * time.Second, time.Minute, 7 * time.Minute} {
			name := fmt.Sprintf("for %s keep %s", hold, keep)
			alerts[name] = waits{hold, keep}
			all = append(all, rulefmt.Rule{Alert: name, Expr: "count by (job) (condition == 1) > 0", For: model.Duration(hold), KeepFiringFor: model.Duration(keep)})
		}
	}
	store := memory.New()
	everything := patterns()
	for _, p := range everything {
		for i, steps := range strings.Split(p.steps, "/") {
			s := promql.Series{Metric: labels.FromStrings(model.JobLabel, p.name, model.InstanceLabel, fmt.Sprint(i))}
			for n, c := range steps {
				at := start.Add(time.Duration(n) * step).UnixMilli()
				switch c {
				case '#':
					s.Floats = append(s.Floats, promql.FPoint{T: at, F: 1})
				case '.':
					s.Floats = append(s.Floats, promql.FPoint{T: at, F: 0})
				}
			}
			store.AppendMatrix("condition", promql.Matrix{s}, step)
		}
	}
	server := newServer(t, step, writeRules(t, step, all))
	server.run(t, store.All(), start, end, step)

	states := 0
	for _, p := range everything {
		at := p.holds(start, step)
		for name, w := range alerts {
			got := describe(detect.Spans(at, start, end, step, w.hold, w.keep), start)
			prometheus := server.active[alertOf{name, p.name}]
			if want := describe(prometheus, start); got != want {
				t.Errorf("%s, %s (%s): contend says %s; Prometheus says %s", name, p.name, p.steps, got, want)
			}
			states += len(prometheus)
		}
	}
	if states < len(alerts)*len(everything)/2 {
		t.Errorf("the alerts were active %d times, which is too seldom to say anything", states)
	}
	t.Logf("%d patterns, %d alerts, active %d times", len(everything), len(alerts), states)
}

// holds are the steps at which any instance's condition holds.
func (p *pattern) holds(start time.Time, step time.Duration) []int64 {
	var out []int64
	for n := range patternSteps {
		for instance := range strings.SplitSeq(p.steps, "/") {
			if n < len(instance) && instance[n] == '#' {
				out = append(out, start.Add(time.Duration(n)*step).UnixMilli())
				break
			}
		}
	}
	return out
}
