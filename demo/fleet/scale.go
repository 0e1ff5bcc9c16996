package fleet

import "time"

const (
	scaleEvery = 250 * time.Millisecond // how often load is looked at: a scrape of the demo
	scaleAfter = 2 * time.Second        // high for so long, so that a spike of a second adds nothing
	scaleStep  = time.Second            // between two tasks that are added
)

// autoscale adds tasks under load until the fleet is stopped.
func (f *Fleet) autoscale() {
	var s scaler
	for Wait(f.ctx, scaleEvery) == nil {
		stats := f.cfg.Stats()
		inFlight := 0
		for _, t := range stats {
			inFlight += t.InFlight
		}
		// Without tasks there is no mean: then what is missing is not scale.
		high := float64(inFlight) > f.cfg.ScaleAt*float64(len(stats)) && len(stats) > 0
		if !s.due(time.Now(), high) {
			continue
		}
		f.mu.Lock()
		if f.want < f.cfg.ScaleTo {
			f.want++
			f.add(0)
		}
		f.mu.Unlock()
	}
}

// scaler decides when a task is added.
type scaler struct {
	since time.Time // when load became high; zero while it is not
	last  time.Time // when a task was last added
}

// due tells whether a task is to be added now.
func (s *scaler) due(now time.Time, high bool) bool {
	switch {
	case !high:
		s.since = time.Time{}
		return false
	case s.since.IsZero():
		s.since = now
	}
	if now.Sub(s.since) < scaleAfter || now.Sub(s.last) < scaleStep {
		return false
	}
	s.last = now
	return true
}
