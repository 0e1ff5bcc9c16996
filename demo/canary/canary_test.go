package canary

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	errors := Rule{Least: 10, Errors: 0.01}
	completions := Rule{Least: 10, Errors: 0.01, Completions: 0.9}
	for _, test := range []struct {
		name   string
		window Counts
		rule   Rule
		want   string
		stop   bool
	}{
		{"nothing started", Counts{}, Rule{}, "not judged: 0 fetches started, expected at least 1", false},
		{"too few", Counts{Started: 9, Failed: 9}, errors, "not judged: 9 fetches started, expected at least 10", false},
		{"just enough", Counts{Started: 10, Failed: 10}, errors, "stop: 100.0 % of 10 fetches failed, at most 1.0 % may", true},
		{"as many errors as may be", Counts{Started: 100, Failed: 1, Completed: 99}, errors, "healthy: 1.0 % of 100 fetches failed; completions are not looked at", false},
		{"one more", Counts{Started: 100, Failed: 2, Completed: 98}, errors, "stop: 2.0 % of 100 fetches failed, at most 1.0 % may", true},
		{"all wait, by errors", Counts{Started: 100}, errors, "healthy: 0.0 % of 100 fetches failed; completions are not looked at", false},
		{"all wait, by completions", Counts{Started: 100}, completions, "stop: 0.0 % of 100 fetches completed, at least 90.0 % must; 0.0 % failed", true},
		{"as few completions as may be", Counts{Started: 100, Completed: 90}, completions, "healthy: 0.0 % of 100 fetches failed, 90.0 % completed", false},
		{"one less", Counts{Started: 100, Completed: 89}, completions, "stop: 89.0 % of 100 fetches completed, at least 90.0 % must; 0.0 % failed", true},
		{"more complete than started", Counts{Started: 10, Completed: 40}, completions, "healthy: 0.0 % of 10 fetches failed, 400.0 % completed", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			verdict, stop := Judge(test.window, test.rule)
			if verdict != test.want || stop != test.stop {
				t.Errorf("got  %q, stop %v\nwant %q, stop %v", verdict, stop, test.want, test.stop)
			}
		})
	}
}

// TestWatch has a release that completes in its first window and not in its second.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		rule Rule
		stop bool
		want []string
	}{
		{"errors", Rule{Errors: 0.01}, false, []string{
			"healthy: 0.0 % of 20 fetches failed; completions are not looked at",
			"healthy: 0.0 % of 30 fetches failed; completions are not looked at",
			"not judged: 0 fetches started, expected at least 1",
		}},
		{"completions", Rule{Errors: 0.01, Completions: 0.5}, true, []string{
			"healthy: 0.0 % of 20 fetches failed, 100.0 % completed",
			"stop: 3.3 % of 30 fetches completed, at least 50.0 % must; 0.0 % failed",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer cancel()
				counted := []Counts{{5, 1, 4}, {25, 1, 24}, {55, 1, 25}, {55, 1, 25}}
				counts := func() (c Counts) {
					c, counted = counted[0], counted[1:]
					return c
				}
				var said []string
				stop := Watch(ctx, time.Second, counts, test.rule, func(v string) { said = append(said, v) })
				if stop != test.stop || !slices.Equal(said, test.want) {
					t.Errorf("got stop %v and %q, want %v and %q", stop, said, test.stop, test.want)
				}
			})
		})
	}
}
