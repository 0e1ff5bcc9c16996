package series

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// What is assumed of a single scrape, which shows no interval: Prometheus' own
// example has it, and most servers do.
const usualInterval = 15 * time.Second

// survey finds the names that are there, and the grid.
func (c *collector) survey(ctx context.Context) error {
	c.progress("looking for metrics")
	from := c.opt.Start.Add(-c.opt.History)
	own, err := c.src.Names(ctx, c.Selector, from, c.opt.End)
	if err != nil {
		return fmt.Errorf("listing metrics: %w", err)
	}
	if len(own) == 0 {
		return c.diagnose(ctx, from)
	}
	foreign := own
	if c.Selector != "" {
		// What exporters say of the service's pods is not among its own series.
		if foreign, err = c.src.Names(ctx, `__name__=~"(`+strings.Join(exporters, "|")+`).*"`, from, c.opt.End); err != nil {
			c.Failures = append(c.Failures, fmt.Errorf("listing metrics of cAdvisor, kube-state-metrics and the kubelet: %w", err))
		}
	}
	c.stage.Present = Present{Own: sorted(own), Foreign: sorted(foreign), Labels: c.labels(ctx, from, foreign)}

	interval := c.opt.Interval
	if interval <= 0 {
		if interval, err = c.src.Interval(ctx, c.Selector, c.opt.Start, c.opt.End); err != nil {
			return fmt.Errorf("looking for the scrape interval: %w", err)
		}
		if interval <= 0 {
			// A window shorter than the interval shows one scrape of many.
			if interval, err = c.src.Interval(ctx, c.Selector, from, c.opt.End); err != nil {
				return fmt.Errorf("looking for the scrape interval: %w", err)
			}
		}
		c.oneScrape = interval <= 0
		if c.oneScrape {
			interval = usualInterval
			c.Notes = append(c.Notes, fmt.Sprintf("one scrape: levels alone can be seen, as if scraped each %s", interval))
		}
	}
	c.grid(from, interval)
	if !c.oneScrape {
		c.exporterInterval(ctx)
		c.slowJobs(ctx)
	}
	return nil
}

// exporterInterval finds the interval of cAdvisor, kube-state-metrics and the
// kubelet: they are often scraped each minute where services are each 15 s, and
// have one sample in a service's windows.
func (c *collector) exporterInterval(ctx context.Context) {
	known := Known().Own // few series for each container
	for _, e := range exporters {
		i := slices.IndexFunc(c.stage.Present.Foreign, func(name string) bool {
			_, ok := slices.BinarySearch(known, name)
			return ok && strings.HasPrefix(name, e)
		})
		if i < 0 {
			continue
		}
		d, err := c.src.Interval(ctx, fmt.Sprintf("__name__=%q", c.stage.Present.Foreign[i]), c.opt.Start, c.opt.End)
		if err != nil {
			c.Failures = append(c.Failures, fmt.Errorf("looking for the scrape interval of %s: %w", c.stage.Present.Foreign[i], err))
			continue
		}
		c.stage.ExporterInterval = max(c.stage.ExporterInterval, d)
	}
}

// slowJobs finds the jobs that are scraped less often than the others. Each
// interval gets a stage of its own, with windows to match.
func (c *collector) slowJobs(ctx context.Context) {
	// Each costs a server a query. Who looks at more looks for which is slow, not for why.
	const most = 50
	if slices.ContainsFunc(c.stage.Selector, func(m *labels.Matcher) bool { return m.Name == "job" && m.Type == labels.MatchEqual }) {
		return
	}
	m, err := c.glance(ctx, "count by (job) ({"+joinMatchers(fmt.Sprintf("__name__=~%q", everyTarget), c.Selector)+"})")
	if err != nil {
		c.Failures = append(c.Failures, fmt.Errorf("listing jobs: %w", err))
		return
	}
	sortSeries(m)
	if len(m) > most {
		c.Notes = append(c.Notes, fmt.Sprintf("%d jobs: those but the first %d that are scraped less often than each %s may have no rates; look at one with --selector 'job=\"…\"'", len(m), most, c.Timing.Interval))
		m = m[:most]
	}
	if len(m) < 2 {
		return
	}
	jobs := map[time.Duration][]string{}
	for _, s := range m {
		job := s.Metric.Get("job")
		d, err := c.src.Interval(ctx, joinMatchers(fmt.Sprintf("job=%q", job), c.Selector), c.opt.Start, c.opt.End)
		if err != nil {
			c.Failures = append(c.Failures, fmt.Errorf("looking for the scrape interval of job %s: %w", job, err))
			continue
		}
		if d > c.Timing.Interval {
			jobs[d] = append(jobs[d], job)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(jobs)) {
		slow := c.stage
		slow.Timing.Interval = d
		slow.Selector = append(slices.Clone(slow.Selector), labels.MustNewMatcher(labels.MatchRegexp, "job", quoted(jobs[d])))
		c.slow = append(c.slow, slow)
	}
}

// labels finds which metrics have the labels that presets look for in several
// places. An expression then reads the one that is there, which takes a third
// of the time. Where a source fails to say, it reads them all.
func (c *collector) labels(ctx context.Context, from time.Time, foreign []string) map[string][]string {
	out := map[string][]string{}
	looked := slices.Concat(web, codes)
	if slices.ContainsFunc(foreign, func(name string) bool { return isForeign(name, exporters) }) {
		looked = append(looked, "container", "k8s_container_name") // of targets
	}
	for _, label := range looked {
		if names, err := c.src.Names(ctx, joinMatchers(c.Selector, label+`!=""`), from, c.opt.End); err == nil {
			out[label] = sorted(names)
		}
	}
	return out
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// grid sets the steps: multiples of the interval. It covers the whole window, so
// that a scrape at its very end counts, or the last part of one that has too many steps.
func (c *collector) grid(from time.Time, interval time.Duration) {
	step := interval.Truncate(time.Millisecond)
	step = max(step, time.Millisecond)
	if most := maxSteps * step; c.opt.End.Sub(from) > most {
		// A longer step would make an incident of minutes nothing.
		from = c.opt.End.Add(-most)
		start := from.Add(min(c.opt.History, most/2))
		if !start.After(c.opt.Start) {
			start = c.opt.Start // it is the history alone that is shorter
		}
		c.opt.Start = start
		c.Notes = append(c.Notes, fmt.Sprintf("looked at %s to %s only, %d steps of %s: --until looks at what was before",
			clock(c.opt.Start), clock(c.opt.End), maxSteps, step))
	}
	c.Timing = Timing{Interval: step, Factor: c.opt.Factor}
	c.stage.Timing = c.Timing
	if first, last, ok := extent(c.src); ok {
		// Each step sees all scrapes that are no more than this before it.
		c.stage.Timing.longest = last.Sub(first) + step
	}
	down := func(t time.Time) time.Time {
		return time.UnixMilli(t.UnixMilli() - t.UnixMilli()%step.Milliseconds()).UTC()
	}
	c.From, c.Start, c.End = down(from), down(c.opt.Start), down(c.opt.End.Add(step-time.Millisecond))
	c.Store.SetLookback(c.Timing.Lookback())
}

// extent is the time of the first and the last sample, of sources that know it: files.
func extent(src Source) (first, last time.Time, ok bool) {
	e, ok := src.(interface {
		Extent() (start, end time.Time, ok bool)
	})
	if !ok {
		return time.Time{}, time.Time{}, false
	}
	return e.Extent()
}
