package series

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// clockSource has one series, which counts the seconds, and a second one that
// ends at a time. It notes what it is asked.
type clockSource struct {
	asked []string
	ends  time.Time
	names []string
	fails bool
}

func (s *clockSource) Names(_ context.Context, selector string, _, _ time.Time) ([]string, error) {
	s.asked = append(s.asked, "names "+selector)
	return s.names, nil
}

func (s *clockSource) Interval(context.Context, string, time.Time, time.Time) (time.Duration, error) {
	s.asked = append(s.asked, "interval")
	return 15 * time.Second, nil
}

func (s *clockSource) Range(_ context.Context, expr string, start, end time.Time, step time.Duration) (promql.Matrix, error) {
	s.asked = append(s.asked, fmt.Sprintf("%s %d steps", expr, end.Sub(start)/step+1))
	if s.fails {
		return nil, errors.New("no answer")
	}
	long, short := promql.Series{Metric: labels.FromStrings("a", "1")}, promql.Series{Metric: labels.FromStrings("b", "1")}
	for t := start; !t.After(end); t = t.Add(step) {
		p := promql.FPoint{T: t.UnixMilli(), F: float64(t.Unix())}
		long.Floats = append(long.Floats, p)
		if t.Before(s.ends) {
			short.Floats = append(short.Floats, p)
		}
	}
	m := promql.Matrix{long}
	if len(short.Floats) > 0 {
		m = append(m, short)
	}
	return m, nil
}

// What is remembered and what is asked are together what the source says, whatever
// the windows and failures before; and no more is asked than is new or not settled.
func TestRecent(t *testing.T) {
	t.Parallel()
	const step = 15 * time.Second
	begin := time.Unix(1_700_000_010, 0).UTC()
	begin = begin.Add(-time.Duration(begin.UnixMilli()%step.Milliseconds()) * time.Millisecond)
	src := &clockSource{ends: begin.Add(90 * time.Minute)}
	recent := NewRecent(src)
	for _, look := range []struct {
		what  string
		at    time.Duration // of the end
		fails bool
		steps int // that are asked for
	}{
		{"the first", 0, false, 241},
		{"a scrape later: what is younger than two minutes again", step, false, 9},
		{"a failure", 2 * step, true, 9},
		{"after it", 3 * step, false, 10},
		{"a minute later", time.Minute + 3*step, false, 12},
		{"half an hour later, what was missed", 31 * time.Minute, false, 125},
		{"a series has ended meanwhile", 91 * time.Minute, false, 241},
		{"a clock that was set back", 20 * time.Minute, false, 241},
	} {
		src.asked, src.fails = nil, look.fails
		end := begin.Add(look.at)
		got, err := recent.Range(t.Context(), "x", end.Add(-time.Hour), end, step)
		if (err != nil) != look.fails {
			t.Errorf("%s: error %v", look.what, err)
		}
		if want := []string{fmt.Sprintf("x %d steps", look.steps)}; !slices.Equal(src.asked, want) {
			t.Errorf("%s: asked %q, want %q", look.what, src.asked, want)
		}
		if look.fails {
			continue
		}
		want, _ := src.Range(t.Context(), "x", end.Add(-time.Hour), end, step)
		if got.String() != want.String() {
			t.Errorf("%s: the answer is not that of the source:\n%.300s\nwant\n%.300s", look.what, got, want)
		}
		for _, s := range got { // it belongs to the caller, as Collect takes it
			clear(s.Floats)
		}
	}
}

// Which series there are is asked each two minutes, and each time while there are none.
func TestRecentSurvey(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_001, 0)
	src := &clockSource{}
	recent := NewRecent(src)
	ask := func(at time.Time) string {
		src.asked = nil
		if _, err := recent.Names(t.Context(), `job="a"`, at.Add(-time.Hour), at); err != nil {
			t.Fatal(err)
		}
		if _, err := recent.Interval(t.Context(), "", at.Add(-time.Hour), at); err != nil {
			t.Fatal(err)
		}
		if _, err := recent.Range(t.Context(), "y", at.Add(-time.Hour), at, 3*time.Minute); err != nil {
			t.Fatal(err)
		}
		return strings.Join(src.asked, ", ")
	}
	const names, rest = `names job="a"`, ", interval, y 21 steps"
	if got := ask(at); got != names+rest {
		t.Errorf("at first: %s", got)
	}
	src.names = []string{"up"}
	if got := ask(at.Add(15 * time.Second)); got != names {
		t.Errorf("while there is nothing: %s, want %s", got, names)
	}
	if got := ask(at.Add(30 * time.Second)); got != "" {
		t.Errorf("once there is: %s, want nothing", got)
	}
	if got := ask(at.Add(136 * time.Second)); got != names+rest {
		t.Errorf("two minutes later: %s", got)
	}
}

// A Collect with a Memo finds what one without finds, also when metrics come and go.
func TestMemo(t *testing.T) {
	t.Parallel()
	memo := &Memo{}
	without := func(metric string) string {
		return strings.Join(slices.DeleteFunc(strings.Split(fleet, "\n"), func(line string) bool { return strings.HasPrefix(line, metric) }), "\n")
	}
	for _, story := range []string{fleet, fleet, without("http_requests_in_flight"), fleet, without("process_cpu")} {
		s := parseStory(t, story)
		opt := CollectOptions{Start: s.end.Add(-5 * time.Minute), End: s.end}
		want, err := Collect(t.Context(), s.store, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Memo = memo
		got, err := Collect(t.Context(), s.store, opt)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got.Matches, got.Notes, got.Jobs, got.Instances) != fmt.Sprint(want.Matches, want.Notes, want.Jobs, want.Instances) {
			t.Errorf("with a memo\n%v\nwithout\n%v", got.Matches, want.Matches)
		}
	}
}

// Beyond what may be remembered answers are right all the same, and asked for whole.
func TestRecentLimit(t *testing.T) {
	t.Parallel()
	const step = 15 * time.Second
	src := &clockSource{}
	recent := NewRecent(src)
	recent.most = 100
	end := time.Unix(1_700_000_100, 0)
	end = end.Add(-time.Duration(end.UnixMilli()%step.Milliseconds()) * time.Millisecond)
	for _, tt := range []struct {
		expr         string
		window, want time.Duration // want is what is asked for
	}{
		{"small", 20 * time.Minute, 20 * time.Minute}, // 73 settled steps are remembered
		{"small", 20 * time.Minute, 2*time.Minute - step},
		{"other", 20 * time.Minute, 20 * time.Minute}, // and as many more are too many
		{"other", 20 * time.Minute, 20 * time.Minute},
		{"small", 20 * time.Minute, 2*time.Minute - step},
	} {
		src.asked = nil
		m, err := recent.Range(t.Context(), tt.expr, end.Add(-tt.window), end, step)
		if err != nil || len(m) != 1 || len(m[0].Floats) != int(tt.window/step)+1 {
			t.Fatalf("%s: %v, %v", tt.expr, m, err)
		}
		if want := fmt.Sprintf("%s %d steps", tt.expr, tt.want/step+1); src.asked[0] != want {
			t.Errorf("asked %q, want %q", src.asked, want)
		}
	}
}
