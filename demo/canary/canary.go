// Package canary judges a release while few have it, as a gate of a deployment
// does: by the errors of its clients alone, or by what they completed too. A
// file that never arrives is no error, and only the second sees it.
package canary

import (
	"context"
	"fmt"
	"time"
)

// Counts are of fetches of the release's assets, since some moment. A fetch
// that was started and neither failed nor completed is waiting.
type Counts struct {
	Started, Failed, Completed int
}

// Since is what was counted after an earlier moment.
func (c Counts) Since(earlier Counts) Counts {
	return Counts{c.Started - earlier.Started, c.Failed - earlier.Failed, c.Completed - earlier.Completed}
}

// Rule says what stops a release.
type Rule struct {
	Least       int     // fetches started in a window, below which it is not judged
	Errors      float64 // highest share of the started that may fail, 0 to 1
	Completions float64 // lowest share of the started that must complete, 0 to 1; 0: completions are not looked at
}

// Judge says in one sentence what a window shows, and whether the release is
// to be stopped. What waits for longer than the window counts as not completed,
// so a window is to be many times as long as a fetch takes.
func Judge(window Counts, rule Rule) (verdict string, stop bool) {
	if window.Started == 0 || window.Started < rule.Least {
		return fmt.Sprintf("not judged: %d fetches started, expected at least %d", window.Started, max(rule.Least, 1)), false
	}
	started := float64(window.Started)
	failed, completed := float64(window.Failed)/started, float64(window.Completed)/started
	switch {
	case failed > rule.Errors:
		return fmt.Sprintf("stop: %.1f %% of %d fetches failed, at most %.1f %% may", 100*failed, window.Started, 100*rule.Errors), true
	case rule.Completions == 0:
		return fmt.Sprintf("healthy: %.1f %% of %d fetches failed; completions are not looked at", 100*failed, window.Started), false
	case completed < rule.Completions:
		return fmt.Sprintf("stop: %.1f %% of %d fetches completed, at least %.1f %% must; %.1f %% failed", 100*completed, window.Started, 100*rule.Completions, 100*failed), true
	}
	return fmt.Sprintf("healthy: %.1f %% of %d fetches failed, %.1f %% completed", 100*failed, window.Started, 100*completed), false
}

// Watch judges each window of the given length by the counts at its ends and
// hands every verdict to say. It returns true as soon as the release is to be
// stopped, and false when ctx ends first.
func Watch(ctx context.Context, every time.Duration, counts func() Counts, rule Rule, say func(verdict string)) (stop bool) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	earlier := counts()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
		now := counts()
		verdict, stop := Judge(now.Since(earlier), rule)
		say(verdict)
		if stop {
			return true
		}
		earlier = now
	}
}
