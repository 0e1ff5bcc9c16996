package load

import (
	"slices"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	t.Parallel()
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i) // 100 down to 1
	}
	for _, test := range []struct {
		name string
		in   []time.Duration
		want Quantiles
	}{
		{"none", nil, Quantiles{}},
		{"one", []time.Duration{7}, Quantiles{7, 7, 7}},
		{"two", []time.Duration{9, 3}, Quantiles{3, 9, 9}},
		{"hundred", hundred, Quantiles{50, 99, 100}},
	} {
		if got := quantiles(test.in); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	c := Count{Arrived: 9, Dropped: 2}
	for _, o := range []outcome{answered, answered, timedOut, failed, statusPage} {
		c.add(o)
	}
	if want := (Count{Arrived: 9, Dropped: 2, Answered: 2, TimedOut: 1, Failed: 2}); c != want || c.waiting() != 2 {
		t.Errorf("got %+v with %d waiting, want %+v with 2", c, c.waiting(), want)
	}
}

// A surge is short beside a run: clients that were late in it alone are seen.
func TestWorstSecond(t *testing.T) {
	t.Parallel()
	second := func(n int, late time.Duration) []time.Duration {
		return slices.Repeat([]time.Duration{late}, n)
	}
	for name, test := range map[string]struct {
		seconds [][]time.Duration
		want    time.Duration
	}{
		"none":                {nil, 0},
		"one late of many":    {[][]time.Duration{second(900, time.Millisecond), nil, second(200, 300*time.Millisecond), second(900, time.Millisecond)}, 300 * time.Millisecond},
		"too few to say":      {[][]time.Duration{second(900, time.Millisecond), second(99, time.Second)}, time.Millisecond},
		"one call in hundred": {[][]time.Duration{append(second(99, time.Millisecond), time.Second)}, time.Millisecond},
	} {
		if got := worstSecond(test.seconds); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestStarved(t *testing.T) {
	t.Parallel()
	late := func(p99, most time.Duration) Report { return Report{Lateness: Quantiles{P99: p99, Max: most}} }
	dropped := func(calls, visitors int) Report {
		return Report{MaxInFlight: 40, Stats: Stats{Count: Count{Arrived: 100, Answered: 90, Dropped: calls}, Assets: Count{Dropped: visitors}}}
	}
	for name, test := range map[string]struct {
		report Report
		want   string
	}{
		"empty":           {Report{}, ""},
		"just in time":    {late(50*time.Millisecond, time.Second), ""},
		"late":            {late(51*time.Millisecond, time.Second), "1 % of the calls began 51ms or more after they were due, expected at most 50ms; leave the machine more idle"},
		"late once":       {Report{LateSecond: 260 * time.Millisecond}, "in one second 1 % of the calls began 260ms or more after they were due, expected at most 250ms; leave the machine more idle"},
		"a scrape":        {Report{LateSecond: 250 * time.Millisecond}, ""},
		"paused":          {late(5*time.Millisecond, 1100*time.Millisecond), "a call began 1.1s after it was due, expected at most 1s; leave the machine more idle"},
		"nothing dropped": {dropped(0, 0), ""},
		"calls":           {dropped(3, 0), "3 calls and 0 visitors were dropped, expected none: at most 40 of each may wait at once, and 500000 arrive in all; make less load, or allow more"},
		"visitors":        {dropped(0, 1), "0 calls and 1 visitors were dropped, expected none: at most 40 of each may wait at once, and 500000 arrive in all; make less load, or allow more"},
	} {
		starved, why := test.report.Starved()
		if starved != (test.want != "") || why != test.want {
			t.Errorf("%s: got %v, %q; want %q", name, starved, why, test.want)
		}
	}
}
