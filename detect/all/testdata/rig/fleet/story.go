package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// tale is what a reader is told of a case.
type tale struct {
	story        string
	traps        string // what is easily mistaken in it
	dialectTitle string
	neighbour    bool // a small healthy job is in the file too
}

// storyText is story.md: what was done and what the file shows of it.
func (c *Case) storyText() string {
	var b strings.Builder
	style := "as a /metrics page has them"
	if c.dump {
		style = "as promtool tsdb dump-openmetrics has them"
	}
	fmt.Fprintf(&b, "# %s\n\n%s\n\nTraps: %s.\n\n", c.name, c.story, c.traps)
	fmt.Fprintf(&b, "Dialect: %s. A scrape every %g s for %g minutes, %d tasks at the start, series %s.\n", c.dialectTitle, c.interval, c.minutes, c.svc.instances, style)
	if c.neighbour {
		b.WriteString("\nA small healthy job, notifications, is in the file as well.\n")
	}
	if c.fault >= 0 {
		fmt.Fprintf(&b, "\nThe fault begins at minute %.1f", c.fault/60)
		if c.faultEnd > 0 {
			fmt.Fprintf(&b, " and ends at minute %.1f", c.faultEnd/60)
		}
		if c.sim.firstTimeout > 0 {
			fmt.Fprintf(&b, "; the first request has taken 10 s at minute %.1f", c.sim.firstTimeout/60)
		}
		if c.sim.firstKill > 0 {
			fmt.Fprintf(&b, "; the first task is killed at minute %.1f", c.sim.firstKill/60)
		}
		b.WriteString(".\n")
	}
	before, after := c.spans()
	fmt.Fprintf(&b, "\nOf all series together, counters per second and gauges as a mean:\n\n| series | minutes %s | minutes %s |\n| --- | --- | --- |\n", before, after)
	names := map[string]bool{}
	for _, s := range c.sim.store.all {
		if told(s) {
			names[s.name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&b, "| %s | %.4g | %.4g |\n", name, c.level(name, before), c.level(name, after))
	}
	return b.String()
}

// told is whether a series is worth a line of the story.
func told(s *Series) bool {
	for _, part := range []string{"_bucket", "_info", "_max", "max_", "gomaxprocs", "go_threads", "limit", "spec_", "_created", "_start_time", "uptime", "scrape_", "promhttp_", "go_gc_", "go_memstats_", "jvm_gc_", "_virtual_"} {
		if strings.Contains(s.name, part) {
			return false
		}
	}
	return s.name != "up"
}

// span is from one second to another.
type span struct{ from, to float64 }

func (s span) String() string { return fmt.Sprintf("%.0f-%.0f", s.from/60, s.to/60) }

// spans are two parts of a file to compare: the usual, and the fault when it
// has been there for some minutes.
func (c *Case) spans() (before, after span) {
	if c.fault <= 0 {
		return span{300, c.end() * 0.4}, span{c.end() * 0.5, c.end() * 0.9}
	}
	after = span{c.fault + 240, c.faultEnd}
	if after.to <= after.from {
		after.to = math.Min(c.end(), after.from+900)
	}
	return span{300, c.fault - 120}, after
}

// level is what series of one name come to in a span.
func (c *Case) level(name string, in span) float64 {
	total := 0.0
	for _, key := range slices.Sorted(maps.Keys(c.sim.store.all)) { // in order, so that sums are the same again
		s := c.sim.store.all[key]
		if s.name != name {
			continue
		}
		last, first := 0.0, true
		for _, x := range s.samples {
			if t := x.t - c.sim.epoch; t < in.from || t >= in.to || math.IsNaN(x.v) {
				continue
			}
			switch {
			case !s.counts():
				total += x.v * c.interval
			case first:
			case x.v < last: // a process began again
				total += x.v
			default:
				total += x.v - last
			}
			last, first = x.v, false
		}
	}
	return total / (in.to - in.from)
}

// counts is whether a series only grows within a process' life.
func (s *Series) counts() bool {
	switch s.kind {
	case "counter", "histogram":
		return true
	case "summary":
		return !strings.Contains(s.name, "_active_") // a long task timer is a summary of what is under way
	case "unknown":
		return true
	}
	return false
}
