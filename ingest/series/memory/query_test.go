package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// parseStore makes a store of lines: name{labels} value@seconds …
func parseStore(t testing.TB, text string) *Store {
	t.Helper()
	s := New()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		series, rest, err := cutSeries([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		ls, err := parseSeries(string(series), false)
		if err != nil {
			t.Fatal(err)
		}
		var ts []int64
		var vs []float64
		for _, f := range strings.Fields(string(rest)) {
			var v, sec float64
			if _, err := fmt.Sscanf(f, "%g@%g", &v, &sec); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			ts, vs = append(ts, at(sec).UnixMilli()), append(vs, v)
		}
		s.Append(labels.New(ls...), ts, vs)
	}
	return s
}

// eval writes the result of a range query: {labels} value@seconds …
func eval(t testing.TB, s *Store, expr string, start, end, step float64) string {
	t.Helper()
	m, err := s.Range(context.Background(), expr, at(start), at(end), time.Duration(step*float64(time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, x := range m {
		line := x.Metric.String()
		for _, p := range x.Floats {
			line += fmt.Sprintf(" %v@%v", p.F, float64(p.T)/1000)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestRange(t *testing.T) {
	t.Parallel()
	const story = `
		up{instance="a",job="x"}   1@0 1@15 NaN@30 1@60
		up{instance="b",job="x"}   1@0 1@15
		up{instance="c",job="y"}   0@0
		c_total{instance="a"}      10@0 20@15 30@30 5@45 15@60
		g{instance="a"}            1@0 NaN@15 NaN@30 NaN@45 2@60
		{"http.active",job="x"}    3@0`
	for name, tc := range map[string]struct {
		expr             string
		start, end, step float64
		lookback         time.Duration
		want             string
	}{
		"a marker ends a series at once": {`up{instance="a"}`, 0, 75, 15, 0, `{__name__="up", instance="a", job="x"} 1@0 1@15 1@60 1@75`},
		"just before the marker":         {`up{instance="a"}`, 29.999, 30, 0.001, 0, `{__name__="up", instance="a", job="x"} 1@29.999`},
		"look-back is 5 minutes":         {`up{instance="b"}`, 300, 330, 15, 0, `{__name__="up", instance="b", job="x"} 1@300`},
		"a shorter look-back":            {`up{instance="b"}`, 0, 60, 15, 30 * time.Second, `{__name__="up", instance="b", job="x"} 1@0 1@15 1@30`},
		"a marker in a window":           {`count_over_time(g[1m])`, 60, 75, 15, 0, `{instance="a"} 1@60 1@75`},
		"a window is open at its left":   {`count_over_time(c_total[30s])`, 30, 30, 15, 0, `{instance="a"} 2@30`},
		"a counter's reset":              {`round(increase(c_total[1m]), 0.01)`, 60, 60, 15, 0, `{instance="a"} 33.33@60`},
		"resets":                         {`resets(c_total[2m])`, 60, 60, 15, 0, `{instance="a"} 1@60`},
		"offset":                         {`c_total offset 15s`, 15, 30, 15, 0, `{__name__="c_total", instance="a"} 10@15 20@30`},
		"offset into the future":         {`c_total offset -15s`, 15, 30, 15, 0, `{__name__="c_total", instance="a"} 30@15 5@30`},
		"at a time":                      {`c_total @ 30`, 0, 15, 15, 0, `{__name__="c_total", instance="a"} 30@0 30@15`},
		"at the end":                     {`c_total @ end()`, 0, 15, 15, 0, `{__name__="c_total", instance="a"} 20@0 20@15`},
		"a subquery":                     {`max_over_time(c_total[1m:15s])`, 60, 60, 15, 0, `{instance="a"} 30@60`},
		"a subquery without a step":      {`count_over_time(c_total[2m:])`, 60, 60, 15, 0, `{instance="a"} 2@60`},
		"by equality":                    {`up{job="y"}`, 0, 0, 15, 0, `{__name__="up", instance="c", job="y"} 0@0`},
		"by inequality":                  {`up{job!="x"}`, 0, 0, 15, 0, `{__name__="up", instance="c", job="y"} 0@0`},
		"by expression":                  {`count(up{job=~"x|z"})`, 0, 0, 15, 0, `{} 2@0`},
		"by a label that is missing":     {`c_total{job=""}`, 0, 0, 15, 0, `{__name__="c_total", instance="a"} 10@0`},
		"by several names":               {`count by (__name__) ({__name__=~"up|g|none"})`, 0, 0, 15, 0, "{__name__=\"g\"} 1@0\n{__name__=\"up\"} 3@0"},
		"by a pattern of names":          {`count by (__name__) ({__name__=~"c_.*"})`, 0, 0, 15, 0, `{__name__="c_total"} 1@0`},
		"a name in quotes":               {`{"http.active"}`, 0, 0, 15, 0, `{__name__="http.active", job="x"} 3@0`},
		"a scalar":                       {`2 + 2`, 0, 15, 15, 0, `{} 4@0 4@15`},
		"sorted":                         {`up`, 0, 0, 15, 0, "{__name__=\"up\", instance=\"a\", job=\"x\"} 1@0\n{__name__=\"up\", instance=\"b\", job=\"x\"} 1@0\n{__name__=\"up\", instance=\"c\", job=\"y\"} 0@0"},
		"no such series":                 {`down`, 0, 60, 15, 0, ``},
		"absent":                         {`absent(down{job="x"})`, 0, 0, 15, 0, `{job="x"} 1@0`},
		"in another time":                {`up`, 1e6, 1e6, 15, 0, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := parseStore(t, story)
			s.SetLookback(tc.lookback)
			if got := eval(t, s, tc.expr, tc.start, tc.end, tc.step); got != tc.want {
				t.Errorf("%s\ngot  %s\nwant %s", tc.expr, got, tc.want)
			}
		})
	}
}

// What one store evaluates, another takes as a recording rule's series.
func TestRangeOfRecorded(t *testing.T) {
	t.Parallel()
	raw := parseStore(t, `
		x{instance="a"} 1@0 2@15 NaN@30 4@60
		x{instance="b"} 1@0 NaN@15`)
	m, err := raw.Range(context.Background(), `x * 10`, at(0), at(75), 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	s.AppendMatrix("r", m, 15*time.Second)
	want := `{__name__="r", instance="a"} 10@0 20@15 40@60 40@75
{__name__="r", instance="b"} 10@0`
	if got := eval(t, s, `r`, 0, 75, 15); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A result is the caller's: no later query writes to it.
func TestRangeKeepsResults(t *testing.T) {
	t.Parallel()
	s := parseStore(t, "x 1@0 2@15 3@30\ny 7@0 8@15 9@30")
	m, err := s.Range(context.Background(), `x`, at(0), at(30), 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	before := m.String()
	for range 10 {
		eval(t, s, `y + 1`, 0, 30, 15)
	}
	if got := m.String(); got != before {
		t.Errorf("got %s, it was %s", got, before)
	}
}

func TestRangeErrors(t *testing.T) {
	t.Parallel()
	s := parseStore(t, "x{a=\"1\"} 1@0\nx{a=\"2\"} 1@0")
	for name, tc := range map[string]struct {
		expr       string
		start, end float64
		step       time.Duration
		want       string
	}{
		"not PromQL":        {`x{`, 0, 0, time.Second, `expected PromQL, saw "x{"`},
		"a range":           {`x[5m]`, 0, 0, time.Second, `invalid expression type "range vector"`},
		"no such function":  {`mad_over_time(x[5m])`, 0, 0, time.Second, `expected PromQL`},
		"at evaluation":     {`x * on() x`, 0, 0, time.Second, `evaluating "x * on() x"`},
		"no step":           {`x`, 0, 0, 0, `expected a step of a millisecond or more, saw 0s`},
		"ends before start": {`x`, 10, 0, time.Second, `expected a range that ends after it starts`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Range(context.Background(), tc.expr, at(tc.start), at(tc.end), tc.step)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Names(ctx, "", at(0), at(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from a context that is done", err)
	}
	if _, err := s.Range(ctx, "x", at(0), at(1), time.Second); err == nil {
		t.Error("got no error from a context that is done")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := parseStore(t, `
		up{job="x"}      1@0 1@15
		up{job="y"}      1@0
		late{job="x"}    1@100
		ended{job="x"}   1@0 NaN@10
		{"a.b",job="x"}  1@0
		never{job="x"}   NaN@5`)
	for name, tc := range map[string]struct {
		selector   string
		start, end float64
		want       []string
	}{
		"all":                {"", 0, 1000, []string{"a.b", "ended", "late", "up"}},
		"of a job":           {`job="y"`, 0, 1000, []string{"up"}},
		"a comma at the end": {`job="y",`, 0, 1000, []string{"up"}},
		"any job":            {`job=~".*"`, 0, 1000, []string{"a.b", "ended", "late", "up"}},
		"in quotes":          {`"a.b"`, 0, 1000, []string{"a.b"}},
		"by name":            {`__name__=~"up|late",job="x"`, 0, 1000, []string{"late", "up"}},
		"at the bounds":      {"", 15, 100, []string{"late", "up"}},
		"between":            {"", 16, 99, nil},
		"a marker only":      {"", 10, 10, nil},
		"no such job":        {`job="z"`, 0, 1000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Names(context.Background(), tc.selector, at(tc.start), at(tc.end))
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	for _, selector := range []string{`job=`, `{job="x"}`, `job="x"} or {job="y"`, `job=~"("`} {
		if _, err := s.Names(context.Background(), selector, at(0), at(1)); err == nil || !strings.Contains(err.Error(), "expected matchers such as") {
			t.Errorf("%s: got %v", selector, err)
		}
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	series := func(name string, times ...float64) string {
		line := name
		for _, x := range times {
			line += fmt.Sprintf(" 1@%v", x)
		}
		return line + "\n"
	}
	// spaced are the times of n scrapes, without those that keep refuses.
	spaced := func(n int, step float64, keep func(int) bool) (out []float64) {
		for i := range n {
			if keep == nil || keep(i) {
				out = append(out, 1000+float64(i)*step)
			}
		}
		return out
	}
	jitter := []float64{1000, 1014.99, 1030, 1045.01, 1059.98, 1075.002}
	for name, tc := range map[string]struct {
		text     string
		selector string
		end      float64
		want     time.Duration
	}{
		"15 s":                   {series("x", spaced(50, 15, nil)...), "", 1e4, 15 * time.Second},
		"jitter":                 {series("x", jitter...), "", 1e4, 15 * time.Second},
		"14.99 s":                {series("x", spaced(50, 14.99, nil)...), "", 1e4, 15 * time.Second},
		"15.01 s":                {series("x", spaced(50, 15.01, nil)...), "", 1e4, 15 * time.Second},
		"a minute":               {series("x", spaced(50, 60.3, nil)...), "", 1e5, time.Minute},
		"5 s":                    {series("x", spaced(50, 5.004, nil)...), "", 1e4, 5 * time.Second},
		"one and a half":         {series("x", spaced(50, 1.5, nil)...), "", 1e4, 1500 * time.Millisecond},
		"faster than the wall":   {series("x", spaced(50, 0.252, nil)...), "", 1e4, 250 * time.Millisecond},
		"milliseconds":           {series("x", spaced(50, 0.007, nil)...), "", 1e4, 7 * time.Millisecond},
		"not round":              {series("x", spaced(50, 13, nil)...), "", 1e4, 13 * time.Second},
		"every fourth lost":      {series("x", spaced(50, 15, func(i int) bool { return i%4 != 0 })...), "", 1e4, 15 * time.Second},
		"every third lost":       {series("x", spaced(51, 15, func(i int) bool { return i%3 != 1 })...), "", 1e4, 15 * time.Second},
		"lost, and up is there":  {series("x", spaced(50, 30, nil)...) + series("x{i=\"2\"}", spaced(50, 30, nil)...) + series("up", spaced(50, 15, nil)...), "", 1e4, 15 * time.Second},
		"up of another job":      {series(`x{job="a"}`, spaced(50, 30, nil)...) + series(`up{job="b"}`, spaced(50, 15, nil)...), `job="a"`, 1e4, 30 * time.Second},
		"up has one sample":      {series("x", spaced(50, 30, nil)...) + series("up", 1000), "", 1e4, 30 * time.Second},
		"changed, at the end":    {series("x", append(spaced(100, 60, nil), 6955, 6970, 6985, 7000, 7015, 7030, 7045, 7060, 7075, 7090, 7105, 7120, 7135, 7150, 7165, 7180, 7195, 7210, 7225, 7240)...), "", 1e4, 15 * time.Second},
		"changed, before":        {series("x", append(spaced(100, 60, nil), 6955, 6970, 6985)...), "", 6940, time.Minute},
		"a marker is no sample":  {"x 1@0 NaN@15 1@60 NaN@75 1@120 1@180", "", 1e4, time.Minute},
		"a series of one sample": {series("x", 1000), "", 1e4, 0},
		"no series":              {series("x", 1000, 1015), `job="z"`, 1e4, 0},
		"the second is too late": {series("x", 1000, 1015), "", 1014, 0},
		"two samples of 40 series": {strings.Join(func() (all []string) {
			for i := range 40 {
				all = append(all, series(fmt.Sprintf("x{i=\"%d\"}", i), 1000, 1010))
			}
			return all
		}(), ""), "", 1e4, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStore(t, tc.text).Interval(context.Background(), tc.selector, at(0), at(tc.end))
			if err != nil || got != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
	if _, err := New().Interval(context.Background(), "{", at(0), at(1)); err == nil {
		t.Error("got no error of a selector that is none")
	}
}

func TestLabelNames(t *testing.T) {
	t.Parallel()
	s := parseStore(t, "up{job=\"x\"} 1@0\nup{instance=\"a\"} 1@0")
	q, err := s.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := q.LabelNames(context.Background(), nil)
	if want := []string{"__name__", "instance", "job"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "up"))
	var order []string
	for set.Next() {
		order = append(order, set.At().Labels().String())
	}
	if want := []string{`{__name__="up", instance="a"}`, `{__name__="up", job="x"}`}; set.Err() != nil || !reflect.DeepEqual(order, want) {
		t.Errorf("got %q, %v, want %q", order, set.Err(), want)
	}
}
