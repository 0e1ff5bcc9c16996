package series

import (
	"strings"
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		timing Timing
		text   string
		want   time.Duration
	}{
		{Timing{Interval: 15 * time.Second}, "4x", time.Minute},
		{Timing{Interval: 15 * time.Second}, "4x,1m", time.Minute},
		{Timing{Interval: 5 * time.Second}, "4x,1m", time.Minute},
		{Timing{Interval: time.Minute}, "4x,1m", 4 * time.Minute},
		{Timing{Interval: time.Minute}, "1.5x", 90 * time.Second},
		{Timing{Interval: time.Minute}, "1h30m", 90 * time.Minute},
		// A minute of a scenario that runs 60 times as fast, at 4 scrapes a second.
		{Timing{Interval: 250 * time.Millisecond, Factor: 60}, "4x,1m", time.Second},
		{Timing{Interval: 250 * time.Millisecond, Factor: 60}, "1h", time.Minute},
		{Timing{Interval: 250 * time.Millisecond, Factor: 1}, "1h", time.Hour},
	} {
		if got, err := test.timing.Span(test.text); err != nil || got != test.want {
			t.Errorf("%v of %s: got %v, %v, want %v", test.timing, test.text, got, err, test.want)
		}
	}
	for _, text := range []string{"", "x", "4", ",", "4x1m", "m", "-1m", "4x,", "1.2.3x"} {
		if got, err := quarter.Span(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	got, err := quarter.Expand("delta(x[{{4x,1m}}]) / {{s:4x,1m}} and y[{{1h}}:{{2m}}] offset {{1x}}")
	if want := "delta(x[1m]) / 60 and y[1h:2m] offset 15s"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"x[{{4z}}]", "x / {{s:4}}"} {
		if _, err := quarter.Expand(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: got error %v, want one that shows it", bad, err)
		}
	}
}

func TestLookback(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]time.Duration{
		0: 5 * time.Minute, time.Second: 20 * time.Second, 15 * time.Second: 5 * time.Minute, time.Minute: 5 * time.Minute,
	} {
		if got := (Timing{Interval: interval}).Lookback(); got != want {
			t.Errorf("%s: got %s, want %s", interval, got, want)
		}
	}
}
