package series

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// resembles are words in names of metrics that may be what a signal wants, for
// the signals that services name as they like.
var resembles = map[string]*regexp.Regexp{
	"inflight":        regexp.MustCompile(`(?i)in_?flight|active.*(?:req|call)|(?:req|call).*active|concurren|busy|ongoing`),
	"completions":     regexp.MustCompile(`(?i)(?:req|request|call|http|rpc).*(?:_total|_count)$`),
	"latency":         regexp.MustCompile(`(?i)(?:duration|latency|elapsed|response_time).*_(?:sum|count)$`),
	"cpu":             regexp.MustCompile(`(?i)(?:^|_)cpu(?:_|$)`),
	"lock_wait":       regexp.MustCompile(`(?i)mutex|lock_wait|contention`),
	"pool_wait":       regexp.MustCompile(`(?i)pool.*(?:wait|pending|queue)|(?:wait|pending|queue).*pool`),
	"dependency_wait": regexp.MustCompile(`(?i)(?:client|upstream|downstream|backend).*(?:duration|latency|active|in_?flight)`),
	"health_latency":  regexp.MustCompile(`(?i)health|probe|liveness|readiness`),
	"memory":          regexp.MustCompile(`(?i)(?:^|_)(?:rss|memory)(?:_|$)`),
}

// resembling are the names of up to three metrics that may be what a signal
// wants and that no preset knows, the shortest first.
func resembling(signal string, names []string) []string {
	const most = 3
	pattern := resembles[signal]
	if pattern == nil {
		return nil
	}
	var out []string
	for _, name := range names {
		if pattern.MatchString(name) && !strings.HasSuffix(name, "_bucket") && !strings.HasPrefix(name, "promhttp_") {
			out = append(out, name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(a) - len(b) })
	return out[:min(len(out), most)]
}

// nothingKnown is the error where no signal has a value: what is there, and how to map it.
func (c *collector) nothingKnown() error {
	for _, m := range c.Matches {
		if len(m.Metrics) > 0 {
			return fmt.Errorf("no signal has a value from %s to %s: %s: %s", clock(c.Start), clock(c.End), m.Signal, m.Missing)
		}
	}
	var like []string
	for _, m := range c.Matches {
		if len(m.Near) > 0 {
			like = append(like, m.Signal+" may be "+strings.Join(m.Near, " or "))
		}
	}
	names := c.stage.Present.Own
	const most = 5
	there := strings.Join(names[:min(len(names), most)], ", ")
	if len(like) > 0 {
		there = strings.Join(like, "; ")
	}
	return fmt.Errorf("none of the %d metrics is one that contend knows (%s): map them in contend.yaml or with --signal NAME=PROMQL", len(names), there)
}
