package series

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// parseSelector reads a user's matchers, with braces or without. text is the
// same without braces.
func parseSelector(selector string) (matchers []*labels.Matcher, text string, err error) {
	text = strings.TrimSpace(selector)
	if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") {
		text = strings.TrimSpace(text[1 : len(text)-1])
	}
	if text == "" {
		return nil, "", nil
	}
	matchers, err = promQL.ParseMetricSelector("{" + text + "}")
	if err != nil {
		return nil, "", fmt.Errorf("expected a selector such as job=\"gateway\" or job=~\"gate.*\",namespace=\"prod\", saw %q: %w (a shell takes quotes away: 'job=\"gateway\"' keeps them)", selector, plain(err))
	}
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel {
			return nil, "", fmt.Errorf("expected matchers of labels that all series of a service have, such as job=\"gateway\", saw the name of a metric in %q", selector)
		}
	}
	return matchers, text, nil
}

// CheckSelector says what is wrong with a user's matchers.
func CheckSelector(selector string) error {
	_, _, err := parseSelector(selector)
	return err
}

// plain is a parser's error with its column in the text, not in the braces
// that were put around it.
func plain(err error) error {
	var all parser.ParseErrors
	if errors.As(err, &all) && len(all) > 0 {
		return all[0].Err
	}
	return err
}

// quoted is a regular expression of names.
func quoted(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, regexp.QuoteMeta(n))
	}
	return strings.Join(out, "|")
}

// joinMatchers puts matchers without braces one after the other.
func joinMatchers(matchers ...string) string {
	return strings.Join(slices.DeleteFunc(matchers, func(m string) bool { return m == "" }), ",")
}

// Labels that values are looked for in where no series matches: these are of
// every target, by a scrape, by OpenTelemetry, by a client library.
const everyTarget = "up|target_info|process_start_time_seconds"

// diagnose says why there are no series.
func (c *collector) diagnose(ctx context.Context, from time.Time) error {
	window := fmt.Sprintf("from %s to %s", clock(c.opt.Start), clock(c.opt.End))
	if c.opt.History > 0 {
		window += fmt.Sprintf(" or in the %s before", model.Duration(c.opt.History))
	}
	any, err := c.src.Names(ctx, "", from, c.opt.End)
	if err != nil {
		return fmt.Errorf("no series match {%s} %s, and listing all metrics failed: %w", c.Selector, window, err)
	}
	if len(any) == 0 {
		if first, last, ok := extent(c.src); ok {
			return fmt.Errorf("no data %s; there is data from %s to %s", window, clock(first), clock(last))
		}
		return fmt.Errorf("no data %s; try another window", window)
	}
	for _, m := range c.stage.Selector {
		if names, err := c.src.Names(ctx, m.String(), from, c.opt.End); err != nil || len(names) > 0 {
			continue
		}
		return fmt.Errorf("no series match {%s} %s: none has %s; %s", c.Selector, window, m, c.closest(ctx, m, any))
	}
	return fmt.Errorf("no series match {%s} %s: each matcher has series, and no series matches all", c.Selector, window)
}

// closest names the values of a label that are there and most like the one that
// was asked for.
func (c *collector) closest(ctx context.Context, m *labels.Matcher, names []string) string {
	const most = 5
	var values []string
	// The first few metrics stand for all where no series is of every target.
	for _, among := range []string{everyTarget, quoted(names[:min(len(names), 20)])} {
		matrix, err := c.glance(ctx, fmt.Sprintf("count by (%s) (last_over_time({__name__=~%q}[5m]))", m.Name, among))
		if err != nil {
			return "asking for its values failed: " + err.Error()
		}
		for _, s := range matrix {
			if v := s.Metric.Get(m.Name); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			break
		}
	}
	if len(values) == 0 {
		return fmt.Sprintf("no series with the label %s was found", m.Name)
	}
	values = Nearest(m.Value, values)
	if len(values) > most {
		return fmt.Sprintf("%s has %d values, the closest: %s", m.Name, len(values), strings.Join(values[:most], ", "))
	}
	return fmt.Sprintf("%s is one of: %s", m.Name, strings.Join(values, ", "))
}

// Nearest sorts names by how many letters they are away from text.
func Nearest(text string, names []string) []string {
	out := slices.Sorted(slices.Values(names))
	slices.SortStableFunc(out, func(a, b string) int { return distance(text, a) - distance(text, b) })
	return out
}

// distance is Levenshtein's: the fewest letters to put in, take out or change, of
// the first 64 bytes, since labels can be long and what is mistyped is not.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
