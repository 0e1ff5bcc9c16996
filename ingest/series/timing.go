package series

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Timing turns the durations that expressions and alerts are written in into
// those of one set of series.
//
// Windows and waits follow the scrape interval, so that they survive a lost
// scrape, and have a minimum, so that a fast scrape does not make them nervous:
// "4x,1m" is the larger of four scrapes and a minute. Baselines are wall-clock
// time: "1h". Factor divides minimums and wall-clock time where the series are
// of a scenario that runs faster than the clock on the wall.
type Timing struct {
	Interval time.Duration // between two scrapes
	Factor   float64       // of the clock; 0 and 1 are the clock on the wall
	// longest, where above 0, is what stage one's windows are cut to: of series
	// that are shorter than a window, rate would count the rest of it as standstill.
	longest time.Duration
}

var (
	placeholder = regexp.MustCompile(`\{\{([0-9a-z.,]+)\}\}`)
	seconds     = regexp.MustCompile(`\{\{s:([0-9a-z.,]+)\}\}`)
	numbers     = regexp.MustCompile(`\{\{[a-z_]+=([0-9.]+)\}\}`)
	spanForm    = regexp.MustCompile(`^([0-9.]+)x(?:,([0-9]+[a-z0-9]+))?$|^([0-9]+[a-z0-9]+)$`)
)

// Span is the duration that text stands for: "4x", "1h", or "4x,1m", the
// larger of both. It fails where text has another form.
func (t Timing) Span(text string) (time.Duration, error) {
	m := spanForm.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("expected a duration such as 4x (scrapes), 1h or 4x,1m (the larger of both), saw %q", text)
	}
	var d time.Duration
	if m[1] != "" {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, fmt.Errorf("expected a number of scrapes, saw %q: %w", m[1], err)
		}
		d = time.Duration(n * float64(t.Interval))
	}
	if text := m[2] + m[3]; text != "" {
		wall, err := model.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("expected a duration, saw %q: %w", text, err)
		}
		w := time.Duration(wall)
		if t.Factor > 0 {
			w = time.Duration(float64(w) / t.Factor)
		}
		d = max(d, w)
	}
	if t.longest > 0 {
		d = min(d, t.longest)
	}
	return d.Round(time.Millisecond), nil
}

// Expand replaces each {{span}} of an expression by its duration in PromQL,
// {{s:span}} by its seconds, a number, and {{name=2.5}}, a number that has a
// name since users may want another, by that number.
func (t Timing) Expand(expr string) (string, error) {
	var failed error
	out := placeholder.ReplaceAllStringFunc(numbers.ReplaceAllString(expr, "$1"), func(p string) string {
		d, err := t.Span(strings.Trim(p, "{}"))
		if err != nil && failed == nil {
			failed = fmt.Errorf("in %q: %w", expr, err)
		}
		return model.Duration(d).String()
	})
	out = seconds.ReplaceAllStringFunc(out, func(p string) string {
		d, err := t.Span(strings.TrimPrefix(strings.Trim(p, "{}"), "s:"))
		if err != nil && failed == nil {
			failed = fmt.Errorf("in %q: %w", expr, err)
		}
		return strconv.FormatFloat(d.Seconds(), 'g', -1, 64)
	})
	return out, failed
}

// Lookback is how long a sample stands for the present: the smaller of 5
// minutes (Prometheus' default) and 20 scrapes.
func (t Timing) Lookback() time.Duration {
	const standard = 5 * time.Minute
	if t.Interval <= 0 {
		return standard
	}
	return min(standard, 20*t.Interval)
}
