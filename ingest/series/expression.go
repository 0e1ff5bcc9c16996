package series

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Stage writes stage one for one set of series.
type Stage struct {
	Timing Timing
	// ExporterInterval is between two scrapes of cAdvisor, kube-state-metrics and
	// the kubelet. Below Timing.Interval it does not matter.
	ExporterInterval time.Duration
	// Selector are matchers that every selector of the service's own series gets.
	Selector []*labels.Matcher
	// HealthRoutes is an anchored regular expression of routes that are health
	// checks besides the usual ones. "" is none.
	HealthRoutes string
	Present      Present
	// Both are the histograms that some instances have in their classic form
	// and others in their native one, sorted. The others' form is seen in Present.
	Both []string
}

// Present are the names of the metrics that are there, sorted.
type Present struct {
	Own     []string // of series that the selector matches
	Foreign []string // of exporters, for which it does not count
	Signals []string // signals that have a canonical series
	// Labels are the metrics that have a label, sorted. Of a label that is not a
	// key nothing is known, and expressions look for it everywhere.
	Labels map[string][]string
}

// Expression is stage one of one signal.
type Expression struct {
	// Direct reads the service's series, Derived canonical ones; "" where no preset matches.
	Direct, Derived string
	Sources         []string // of the presets in it, with the names they read, for people
	Metrics         []string // that its values come from, sorted
	Unused          []string // metrics that match as well, beyond those that are read
	// Choices are, for each preset, metrics that services chose for one thing.
	// Of an instance that has several, the first counts.
	Choices [][]string
}

// PromQL is the whole expression, as a recording rule has it. "" where nothing matched.
func (e Expression) PromQL() string {
	if e.Direct == "" || e.Derived == "" {
		return e.Direct + e.Derived
	}
	return fallback([]string{e.Direct, e.Derived})
}

// At most so many metrics are read for one preset: one name that services
// choose, and a few in a fleet whose services chose differently.
const maxMetrics = 4

// term is a preset that reads one metric.
type term struct {
	Preset
	text string
}

// Expression writes a signal's stage one from the presets that read metrics
// that are there. Presets are put together by Part and Rank. The text is
// PromQL of Prometheus 2.42 unless the names of metrics in it are not.
func (s Stage) Expression(signal Signal) (Expression, error) {
	var e Expression
	var direct, derived []term
	for _, p := range signal.Presets {
		names, unused := s.candidates(p)
		e.Unused = append(e.Unused, unused...)
		var choice []string
		for _, f := range s.forms(p, names) {
			text, metrics, err := s.write(p, f.name, f.native)
			if err != nil {
				return Expression{}, fmt.Errorf("signal %s, preset %s: %w", signal.Name, p.Source, err)
			}
			if text == "" {
				continue
			}
			if p.Derived {
				derived = append(derived, term{p, text})
			} else {
				direct = append(direct, term{p, text})
			}
			e.Metrics = append(e.Metrics, metrics...)
			if p.Metric != "" && !signal.Largest && !(f.native && s.both(f.name)) {
				choice = append(choice, metrics[0])
			}
			source := p.Source
			if !p.Derived {
				source += ": " + strings.Join(metrics, ", ")
			}
			if !slices.Contains(e.Sources, source) {
				e.Sources = append(e.Sources, source)
			}
		}
		if len(choice) > 1 {
			e.Choices = append(e.Choices, choice)
		}
	}
	slices.Sort(e.Metrics)
	e.Metrics = slices.Compact(e.Metrics)
	e.Direct, e.Derived = parts(direct, signal), parts(derived, signal)
	return e, nil
}

// parts adds up terms of different parts.
func parts(terms []term, signal Signal) string {
	var out []string
	for _, group := range groups(terms, func(t term) string { return t.Part }) {
		var ranked []string
		slices.SortStableFunc(group, func(a, b term) int { return cmp.Compare(a.Rank, b.Rank) })
		for _, equal := range groups(group, func(t term) int { return t.Rank }) {
			ranked = append(ranked, rank(equal, signal))
		}
		out = append(out, fallback(ranked))
	}
	return combine("sum", out)
}

// rank puts terms of one rank together: the metrics of one preset in their
// order, and of several presets the largest or the smallest value.
func rank(terms []term, signal Signal) string {
	var out []string
	for _, same := range groups(terms, func(t term) string { return t.Source + "\n" + t.Expr }) {
		var texts []string
		for _, t := range same {
			texts = append(texts, t.text)
		}
		if signal.Largest {
			out = append(out, texts...)
		} else {
			out = append(out, fallback(texts))
		}
	}
	if signal.Smallest {
		return combine("min", out)
	}
	return combine("max", out)
}

// groups splits terms by key, in the order in which keys come first.
func groups[K comparable](terms []term, key func(term) K) [][]term {
	var out [][]term
	at := map[K]int{}
	for _, t := range terms {
		k := key(t)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	return out
}

// fallback is the first expression that has a value for an instance.
func fallback(exprs []string) string {
	if len(exprs) == 1 {
		return exprs[0]
	}
	return "(" + strings.Join(exprs, ") or on (job, instance) (") + ")"
}

// combine aggregates expressions by instance. or drops what is on its left
// already: a label of its own keeps each. Two presets may read a metric alike, which adds to a sum alone.
func combine(aggregate string, exprs []string) string {
	if aggregate != "sum" {
		exprs = slices.Compact(exprs)
	}
	if len(exprs) < 2 {
		return strings.Join(exprs, "")
	}
	var told []string
	for i, e := range exprs {
		told = append(told, fmt.Sprintf(`label_replace(%s, "preset", "%d", "", "")`, e, i+1))
	}
	return aggregate + by + "(" + strings.Join(told, " or ") + ")"
}

var suffixes = regexp.MustCompile(`METRIC(_[a-z]+)?`)

// candidates are the metrics that a preset may read: those it knows first,
// the others by name. A preset that spells its metrics has one, "".
func (s Stage) candidates(p Preset) (names, unused []string) {
	if len(p.Known) == 0 {
		return []string{""}, nil
	}
	if p.Metric == "" {
		return p.Known, nil
	}
	is, not := regexp.MustCompile("^(?:"+p.Metric+")$"), regexp.MustCompile("^(?:"+p.Not+")$")
	ends := []string{""} // of a native histogram there is but its name
	for _, m := range suffixes.FindAllStringSubmatch(p.Expr, -1) {
		if !slices.Contains(ends, m[1]) {
			ends = append(ends, m[1])
		}
	}
	for _, name := range s.Present.Own {
		for _, end := range ends {
			base, ok := strings.CutSuffix(name, end)
			if ok && is.MatchString(base) && !not.MatchString(base) && !slices.Contains(names, base) {
				names = append(names, base)
			}
		}
	}
	known := func(name string) int {
		if i := slices.Index(p.Known, name); i >= 0 {
			return i
		}
		return len(p.Known)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(known(a), known(b)), cmp.Compare(a, b))
	})
	if len(names) > maxMetrics {
		names, unused = names[:maxMetrics], names[maxMetrics:]
	}
	return names, unused
}

// form is a metric that a preset reads in one way.
type form struct {
	name   string
	native bool // a histogram of one series
}

// forms are the ways to read each of the metrics, the classic histogram first.
func (s Stage) forms(p Preset, names []string) []form {
	var out []form
	for _, name := range names {
		native := s.own(name) && !s.own(name+"_count") && !s.own(name+"_sum")
		out = append(out, form{name, native})
		if !native && s.both(name) && classic.MatchString(p.Expr) {
			out = append(out, form{name, true})
		}
	}
	return out
}

func (s Stage) both(metric string) bool {
	_, ok := slices.BinarySearch(s.Both, metric)
	return ok
}

// write is a preset's expression for one metric, without what reads metrics
// that are not there, and the metrics that are left to take values from. "" where nothing is.
func (s Stage) write(p Preset, metric string, native bool) (string, []string, error) {
	timing := s.Timing
	if p.readsExporters() {
		timing.Interval = max(timing.Interval, s.ExporterInterval)
	}
	text, err := timing.Expand(p.Expr)
	if err != nil {
		return "", nil, err
	}
	if native {
		text = nativeForm(text)
	}
	expr, err := promQL.ParseExpr(text)
	if err != nil {
		return "", nil, err
	}
	if metric != "" {
		rename(expr, metric)
	}
	if err := s.fillRoutes(expr); err != nil {
		return "", nil, err
	}
	expr, ok := prune(expr, func(v *parser.VectorSelector) bool { return s.relabel(v, p.Foreign) && len(s.names(v, p.Foreign)) > 0 })
	if !ok {
		return "", nil, nil
	}
	var metrics []string
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for _, name := range s.names(v, p.Foreign) {
			// Targets and lists of containers say which values count, and are none.
			value := !takesAway(n, path) && (Foreign(name) || !p.readsExporters())
			if value && !slices.Contains(metrics, name) {
				metrics = append(metrics, name)
			}
		}
		s.inject(v, p.Foreign)
		return nil
	})
	return expr.String(), metrics, nil
}

// fillRoutes puts regular expressions in the place of HEALTH, SCRAPE and STREAM.
func (s Stage) fillRoutes(expr parser.Expr) error {
	fill := []string{}
	for word, re := range routes {
		if word == "HEALTH" && s.HealthRoutes != "" {
			re += "|" + s.HealthRoutes
		}
		fill = append(fill, word, "(?i:"+re+")")
	}
	replace := strings.NewReplacer(fill...)
	var failed error
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for i, m := range v.LabelMatchers {
			value := replace.Replace(m.Value)
			if value == m.Value {
				continue
			}
			filled, err := labels.NewMatcher(m.Type, m.Name, value)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("expected a regular expression of health routes, saw %q: %w", s.HealthRoutes, err))
				continue
			}
			v.LabelMatchers[i] = filled
		}
		return nil
	})
	return failed
}

// names are those of the metrics that are there and that a selector may read.
func (s Stage) names(v *parser.VectorSelector, foreign []string) []string {
	name := nameOf(v)
	among := s.Present.Own
	if name.Type == labels.MatchEqual {
		if signal, ok := strings.CutPrefix(name.Value, canonicalPrefix); ok {
			if slices.Contains(s.Present.Signals, signal) {
				return []string{name.Value}
			}
			return nil
		}
		if isForeign(name.Value, foreign) {
			among = s.Present.Foreign
		}
		if _, ok := slices.BinarySearch(among, name.Value); ok {
			return []string{name.Value}
		}
		return nil
	}
	var out []string
	for _, n := range among {
		if name.Matches(n) {
			out = append(out, n)
		}
	}
	return out
}

// own tells whether the service has a metric.
func (s Stage) own(metric string) bool {
	_, ok := slices.BinarySearch(s.Present.Own, metric)
	return ok
}

// relabel takes matchers of labels that the metric does not have out of a
// selector. It is false where one of them needs the label, so that there is no such series.
func (s Stage) relabel(v *parser.VectorSelector, foreign []string) bool {
	name := nameOf(v)
	if name.Type != labels.MatchEqual || isForeign(name.Value, foreign) {
		return true
	}
	lacks := func(m *labels.Matcher) bool {
		have, known := s.Present.Labels[m.Name]
		_, has := slices.BinarySearch(have, name.Value)
		return known && !has
	}
	if slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return lacks(m) && !m.Matches("") }) {
		return false
	}
	v.LabelMatchers = slices.DeleteFunc(v.LabelMatchers, lacks)
	return true
}

func isForeign(name string, beginnings []string) bool {
	return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(name, b) })
}

// inject adds the user's matchers to a selector, as prom-label-proxy does, but
// to none of another job's series. Canonical series have but two labels.
func (s Stage) inject(v *parser.VectorSelector, foreign []string) {
	if isForeign(v.Name, foreign) {
		return
	}
	canonical := strings.HasPrefix(v.Name, canonicalPrefix)
	for _, m := range s.Selector {
		if !canonical || m.Name == "job" || m.Name == "instance" {
			v.LabelMatchers = append(v.LabelMatchers, m)
		}
	}
}

// Known are the names that the table itself has, as if all were there: rules
// for no particular server are made of them. Names that only Prometheus 3
// takes are left out.
func Known() Present {
	p := known()
	return Present{Own: slices.Clone(p.Own), Foreign: slices.Clone(p.Foreign), Signals: slices.Clone(p.Signals)}
}

// known is computed once, of a table that does not change: it parses some hundred expressions.
var known = sync.OnceValue(func() Present {
	var p Present
	for _, s := range Signals() {
		p.Signals = append(p.Signals, s.Name)
		for _, preset := range s.Presets {
			for _, name := range preset.Known {
				for _, m := range suffixes.FindAllStringSubmatch(preset.Expr, -1) {
					p.Own = append(p.Own, name+m[1])
				}
			}
			text, err := Timing{Interval: usualInterval}.Expand(preset.Expr)
			if err != nil {
				continue
			}
			expr, err := promQL.ParseExpr(text)
			if err != nil {
				continue
			}
			for _, matchers := range parser.ExtractSelectors(expr) {
				for _, m := range matchers {
					if m.Name == model.MetricNameLabel && !strings.HasPrefix(m.Value, "METRIC") && !strings.HasPrefix(m.Value, canonicalPrefix) {
						// A spelling with dots that stands for all is a regular expression.
						p.Own = append(p.Own, strings.ReplaceAll(m.Value, ".", "_"))
					}
				}
			}
		}
	}
	p.Own = slices.DeleteFunc(p.Own, func(name string) bool { return strings.Contains(name, ".") })
	p.Own = slices.Compact(sorted(p.Own))
	p.Foreign = p.Own
	return p
})
