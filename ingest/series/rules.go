package series

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series/memory"
)

// Rules is stage one as recording rules have it.
type Rules struct {
	Timing Timing
	Rules  []Rule   // one for each signal, in the table's order
	Notes  []string // what was odd
}

// Rule is stage one of one signal.
type Rule struct {
	Signal  Signal
	Expr    string   // "" where no metric of it is there
	Sources []string // presets and the metrics that they read, for people
	Missing string   // where Expr is "": what was looked for
	Near    []string // metrics that no preset knows and that may be it
}

// StageOne writes stage one as recording rules. Of src it reads which metrics
// are there and how often they are scraped, from opt.Start to opt.End. A nil
// src is no server in particular: the rules have all presets then, histograms
// in both forms, and opt.Interval must be given. Errors are as Collect's.
func StageOne(ctx context.Context, src Source, opt CollectOptions) (*Rules, error) {
	matchers, selector, err := parseSelector(opt.Selector)
	if err != nil {
		return nil, err
	}
	c := &collector{src: src, opt: opt, table: Signals(), Canonical: &Canonical{Store: memory.New(), Selector: selector}}
	for _, name := range slices.Sorted(maps.Keys(opt.Overrides)) {
		if err := checkSignal(name, c.table); err != nil {
			return nil, err
		}
	}
	c.stage.Selector, c.stage.HealthRoutes = matchers, opt.HealthRoutes
	if src == nil {
		if opt.Interval <= 0 {
			return nil, errors.New("expected the interval between two scrapes, saw none")
		}
		c.stage.Timing = Timing{Interval: opt.Interval, Factor: opt.Factor}
		c.stage.Present, c.stage.Both = Known(), histograms(c.table)
		c.stage.Present.Own = slices.Compact(sorted(append(c.stage.Present.Own, c.stage.Both...)))
		c.stage.Present.Signals = nil
	} else {
		if err := c.survey(ctx); err != nil {
			return nil, err
		}
		c.stage.Timing.longest = 0 // a rule lives longer than what there is now
		c.both(ctx)
	}
	out := &Rules{Timing: c.stage.Timing}
	for _, s := range c.table {
		r, err := c.rule(ctx, s)
		if err != nil {
			return nil, err
		}
		if r.Expr != "" {
			c.stage.Present.Signals = append(c.stage.Present.Signals, s.Name)
		}
		out.Rules = append(out.Rules, r)
	}
	if src != nil && !slices.ContainsFunc(out.Rules, func(r Rule) bool { return r.Expr != "" && r.Signal.Name != "up" }) {
		for _, r := range out.Rules {
			c.Matches = append(c.Matches, Match{Signal: r.Signal.Name, Near: r.Near})
		}
		return nil, fmt.Errorf("%w; looked for %s", c.nothingKnown(), lookedFor(c.table[0]))
	}
	for _, err := range c.Failures {
		c.Notes = append(c.Notes, err.Error())
	}
	out.Notes = c.Notes
	return out, nil
}

// histograms are the names of all that presets read as histograms, sorted.
func histograms(table []Signal) []string {
	var out []string
	for _, s := range table {
		for _, p := range s.Presets {
			if classic.MatchString(p.Expr) {
				out = append(out, p.Known...)
			}
		}
	}
	out = slices.DeleteFunc(out, func(name string) bool { return strings.Contains(name, ".") })
	return slices.Compact(sorted(out))
}

// both finds the histograms that are there in both forms. A summary's quantiles
// have the name of a native histogram too. A query that fails leaves the classic form.
func (c *collector) both(ctx context.Context) {
	for _, name := range c.stage.Present.Own {
		if !c.stage.own(name + "_count") {
			continue
		}
		selector := joinMatchers(fmt.Sprintf("__name__=%q", name), c.Selector)
		if m, err := c.glance(ctx, "count(histogram_count({"+selector+"}))"); err == nil && len(m) > 0 {
			c.stage.Both = append(c.stage.Both, name)
		}
	}
}

// rule is a signal's.
func (c *collector) rule(ctx context.Context, s Signal) (Rule, error) {
	r := Rule{Signal: s}
	if text, ok := c.opt.Overrides[s.Name]; ok {
		o, err := parseOverride(s, text, c.stage)
		if err != nil {
			return Rule{}, err
		}
		r.Expr, r.Sources = o.query, []string{"given: " + strings.TrimSpace(text)}
		if o.constant != nil {
			r.Expr = everyInstance(*o.constant, c.stage.Present.Signals)
		}
		return r, nil
	}
	e, err := c.stage.Expression(c.needed(ctx, s))
	if err != nil {
		return Rule{}, err
	}
	r.Sources = e.Sources
	if e.Direct, err = c.withSlow(s, e.Direct); err != nil {
		return Rule{}, err
	}
	if r.Expr = e.PromQL(); r.Expr == "" {
		r.Missing = lookedFor(s)
		r.Near = resembling(s.Name, c.stage.Present.Own)
	}
	if c.src != nil {
		if unused := append(e.Unused, c.hidden(ctx, e.Choices)...); len(unused) > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("signal %s: not read beside others: %s; choose with --signal %s='…'", s.Name, strings.Join(unused, ", "), s.Name))
		}
	}
	return r, nil
}

// needed is a signal without the presets of the highest ranks that no instance
// needs, as all have a value of a lower one: a server evaluates them all the
// same. A query that fails leaves them.
func (c *collector) needed(ctx context.Context, s Signal) Signal {
	if c.src == nil {
		return s
	}
	all, err := c.stage.Expression(s)
	if err != nil || all.Direct == "" {
		return s
	}
	ranks := map[int]bool{}
	for _, p := range s.Presets {
		if !p.Derived {
			ranks[p.Rank] = true
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(ranks)) {
		fewer := s
		fewer.Presets = slices.DeleteFunc(slices.Clone(s.Presets), func(p Preset) bool { return !p.Derived && p.Rank > rank })
		e, err := c.stage.Expression(fewer)
		if err != nil || e.Direct == "" {
			continue
		}
		if e.Direct == all.Direct {
			return fewer
		}
		if m, err := c.glance(ctx, "count(("+all.Direct+") unless on (job, instance) ("+e.Direct+"))"); err == nil && len(m) == 0 {
			return fewer
		}
	}
	return s
}

// everyInstance is a number for each instance that a signal before it has.
func everyInstance(value float64, signals []string) string {
	among := []string{"up"}
	for _, s := range signals {
		if s == "inflight" || s == "cpu" {
			among = append(among, canonicalPrefix+s)
		}
	}
	return "max" + by + "(" + strings.Join(among, " or ") + ") * 0 + " + strconv.FormatFloat(value, 'g', -1, 64)
}

// Possible reports whether an expression can have a value where only the
// metrics for which has is true exist: what is on the right of unless, and one
// side of or, may be missing.
func Possible(expr string, has func(metric string) bool) (bool, error) {
	e, err := ParsePromQL(expr)
	if err != nil {
		return false, err
	}
	_, ok := prune(e, func(v *parser.VectorSelector) bool {
		name := nameOf(v)
		return name == nil || name.Type != labels.MatchEqual || has(name.Value)
	})
	return ok, nil
}
