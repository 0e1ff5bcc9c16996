package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Target is what Prometheus scrapes, or one process that pushes OTLP.
type Target struct {
	job, instance string
	extra         []string // names and values of more labels
	offset        float64  // of its scrapes within the interval
	from, to      float64  // while it is discovered
	next          float64
	push          bool // no up and no stale markers of a scrape
	ended         bool
	last          []*Series // of the last scrape
	// export fills a page; a scrape that fails may have filled some of it.
	export func(e *Page) (success bool, seconds float64)
}

// Page is one scrape of one target.
type Page struct {
	store   *Store
	target  *Target
	at      float64 // unix seconds
	series  []*Series
	created int // series that the store did not have
}

// put adds a sample. family and kind are those of the TYPE line, name is the
// sample's; labels are names and values in turn.
func (e *Page) put(kind, family, name string, labels []string, v float64) {
	if e.store.slim && unread(name) {
		return
	}
	s := e.store.series(kind, family, name, e.withTarget(labels))
	if s.new() {
		e.created++
	}
	if s.last >= e.at {
		return
	}
	s.append(e.at, v)
	e.series = append(e.series, s)
}

// label is a name and a value.
type label struct{ name, value string }

// withTarget adds the target's labels and sorts them. The page's own win, as with
// honor_labels, so that kube-state-metrics says which pod it speaks of.
func (e *Page) withTarget(pairs []string) []label {
	l := make([]label, 0, (len(pairs)+len(e.target.extra))/2+2)
	for i := 0; i+1 < len(pairs); i += 2 {
		l = append(l, label{pairs[i], pairs[i+1]})
	}
	l = append(l, label{"instance", e.target.instance}, label{"job", e.target.job})
	for i := 0; i+1 < len(e.target.extra); i += 2 {
		name := e.target.extra[i]
		if !slices.ContainsFunc(l, func(x label) bool { return x.name == name }) {
			l = append(l, label{name, e.target.extra[i+1]})
		}
	}
	slices.SortFunc(l, func(a, b label) int { return strings.Compare(a.name, b.name) })
	return l
}

func (e *Page) gauge(name string, v float64, labels ...string) {
	e.put("gauge", name, name, labels, v)
}

// counter adds a sample of a counter. OpenMetrics has those end in _total; others
// are of unknown type there.
func (e *Page) counter(name string, v float64, labels ...string) {
	family, total := strings.CutSuffix(name, "_total")
	if !total {
		e.put("unknown", name, name, labels, v)
		return
	}
	e.put("counter", family, name, labels, v)
}

func (e *Page) summary(family string, sum, count float64, labels ...string) {
	e.put("summary", family, family+"_sum", labels, sum)
	e.put("summary", family, family+"_count", labels, count)
}

// histogram adds a histogram with some of the bounds, in seconds times unit.
func (e *Page) histogram(family string, h *Histogram, buckets []int, unit float64, labels ...string) {
	withLe := append(slices.Clone(labels), "le", "")
	le := &withLe[len(withLe)-1]
	cumulative := 0.0
	for i, bound := range bounds {
		cumulative += h.buckets[i]
		if slices.Contains(buckets, i) {
			*le = openMetricsFloat(bound * unit)
			e.put("histogram", family, family+"_bucket", withLe, cumulative)
		}
	}
	*le = "+Inf"
	e.put("histogram", family, family+"_bucket", withLe, h.count)
	e.put("histogram", family, family+"_sum", labels, h.sum*unit)
	e.put("histogram", family, family+"_count", labels, h.count)
}

// openMetricsFloat writes 1 as 1.0, which OpenMetrics asks of le.
func openMetricsFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// scrapeAll scrapes the targets whose time has come in the second from t on.
func (s *Sim) scrapeAll(t float64) {
	for _, tg := range s.targets {
		if tg.to < t {
			if !tg.ended && !tg.push {
				tg.markStale(s.epoch + t)
			}
			tg.ended = true
			continue
		}
		for tg.next < t {
			tg.next += s.interval
		}
		if tg.next >= t+1 || tg.from > tg.next {
			continue
		}
		at := tg.next
		tg.next += s.interval
		if s.rng.Float64() < 0.06 { // a scrape that comes a little late
			at += 0.002 + 0.02*s.rng.Float64()
		}
		if s.lost == nil || !s.lost(tg, at) {
			s.store.scrape(tg, math.Round((s.epoch+at)*1000)/1000)
		}
	}
}

// scrape reads one target as Prometheus does: up and the rest of its own
// series, and a stale marker for what has gone.
func (st *Store) scrape(tg *Target, at float64) {
	e := &Page{store: st, target: tg, at: at}
	success, seconds := tg.export(e)
	if !success {
		for _, s := range e.series {
			st.dropLast(s)
		}
		e.series, e.created = nil, 0
	}
	if !tg.push {
		samples, up := float64(len(e.series)), 0.0
		if success {
			up = 1
		}
		created := float64(e.created)
		e.gauge("up", up)
		e.gauge("scrape_duration_seconds", seconds)
		e.gauge("scrape_samples_scraped", samples)
		e.gauge("scrape_samples_post_metric_relabeling", samples)
		e.gauge("scrape_series_added", created)
		tg.markStale(at)
	}
	tg.last = e.series
}

// markStale ends the series of the last scrape that were not in this one.
func (tg *Target) markStale(at float64) {
	for _, s := range tg.last {
		if s.last < at && !s.new() {
			s.append(at, math.NaN())
		}
	}
	tg.last = nil
}
