package series

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memo remembers the expressions of one Collect for the next: to write them, with
// the regular expressions in them, is two thirds of the work of one look at a
// service whose metrics are what they were. Its zero value is ready to use.
type Memo struct {
	mu    sync.Mutex
	stage Stage // that they are of
	made  map[string]Expression
}

// maxMemo is how many expressions are remembered. One Collect has 28 of each interval, of
// which 50 jobs have 50 at the most; those of slow jobs that are gone would add up.
const maxMemo = 2000

// expression is stage's of a signal. With a nil Memo it is written each time.
func (m *Memo) expression(stage Stage, s Signal) (Expression, error) {
	if m == nil {
		return stage.Expression(s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil || len(m.made) >= maxMemo || !sameSeries(m.stage, stage) {
		m.made = map[string]Expression{}
		m.stage = stage
	}
	// What else may differ in one Collect: canonical series become more, and of slow
	// jobs the presets are fewer and intervals and selectors others.
	key := fmt.Sprint(s.Name, len(s.Presets), stage.Timing, stage.ExporterInterval, stage.Selector, strings.Join(stage.Present.Signals, ","))
	if e, ok := m.made[key]; ok {
		return e, nil
	}
	e, err := stage.Expression(s)
	if err == nil {
		e.Unused = slices.Clip(e.Unused) // callers append
		m.made[key] = e
	}
	return e, err
}

// sameSeries reports whether two stages are of series with the same names.
func sameSeries(a, b Stage) bool {
	return a.HealthRoutes == b.HealthRoutes && slices.Equal(a.Both, b.Both) &&
		slices.Equal(a.Present.Own, b.Present.Own) && slices.Equal(a.Present.Foreign, b.Present.Foreign) &&
		maps.EqualFunc(a.Present.Labels, b.Present.Labels, slices.Equal)
}
