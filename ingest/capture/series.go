package capture

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

const (
	// What all series may take in memory: 100,000 of them with several hundred
	// samples each, at the 3 bytes that one takes as a rule.
	maxSeriesMemory = 256 << 20
	// A series' structs, its chunk's first bytes and its place in the map,
	// beside its name.
	seriesMemory = 512
	// Of series.om: 10,000 series over half an hour at 5 s. Reading it back at
	// 30 MB/s takes as long as anybody waits.
	maxSeriesText = 1 << 30
	// A sample's value and time, beside its series' name.
	sampleText = 30
	// What a series may be, so that analyze reads what is written here: it takes
	// lines of 1 MiB with labels of 64 KiB, and 500 labels. Escapes, job and
	// instance make a name longer. labels.Labels panics at 16 MiB.
	maxSeriesName = 64 << 10
	maxLabels     = 300
)

var errTooManySeries = errors.New("too many series")

// seriesSet collects the samples of all targets' scrapes, to be written by metric.
type seriesSet struct {
	keep         func(metric string) bool // nil keeps all
	mu           sync.Mutex               // add, fail and gone of several targets; what is below
	families     map[string]*family
	byName       map[string]*sampled // by name with labels, as it is written
	memory, text int                 // bytes so far, about
	maxMemory    int
	maxText      int
	name         []byte // reused
}

// targetSeries are those of one target in a set.
type targetSeries struct {
	*seriesSet
	labels labels.Labels // of the target: job, instance and what else tells it apart
	own    []*sampled
	scrape int // counts scrapes
}

// family is a metric: the series below one TYPE line.
type family struct {
	name   string
	kind   model.MetricType
	series []*sampled
}

// sampled is one series. No chunk gets more than the 65,535 samples it can
// hold: an hour at the least interval has 14,400 scrapes.
type sampled struct {
	name    string
	chunk   *chunkenc.XORChunk
	samples chunkenc.Appender
	scrape  int  // the last one that had it
	live    bool // its last sample does not end it
}

func newSeriesSet() *seriesSet {
	return &seriesSet{
		families: map[string]*family{},
		byName:   map[string]*sampled{},

		maxMemory: maxSeriesMemory,
		maxText:   maxSeriesText,
	}
}

// target are the series of another target, whose labels no other has.
func (s *seriesSet) target(lset labels.Labels) *targetSeries {
	return &targetSeries{seriesSet: s, labels: lset}
}

// The series that Prometheus itself adds to each scrape
// (https://prometheus.io/docs/concepts/jobs_instances/).
const (
	upName       = "up"
	durationName = "scrape_duration_seconds"
)

// skipped counts samples of a scrape that were left out.
type skipped struct{ duplicate, invalid, large int }

// add takes a scrape's answer, all of it or, where it does not parse or is
// empty, nothing; then the error says so. As in Prometheus, all samples are of the scrape's
// moment (in milliseconds), a series that is gone since the last scrape ends
// with NaN, and of two samples of a series the first counts. Timestamps in the
// answer are ignored: what has its own is of another process.
func (s *targetSeries) add(at int64, seconds float64, body []byte, contentType string) (skipped, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	samples := 0
	large, err := eachSample(body, contentType, func(string, model.MetricType, labels.Labels, float64) error {
		samples++
		return nil
	})
	if err != nil {
		return skipped{}, err
	}
	if samples+large == 0 {
		return skipped{}, errors.New("no samples")
	}
	if err := s.begin(at, seconds, 1); err != nil {
		return skipped{}, err
	}
	out := skipped{large: large}
	_, err = eachSample(body, contentType, func(family string, kind model.MetricType, lset labels.Labels, value float64) error {
		if s.keep != nil && !s.keep(lset.Get(model.MetricNameLabel)) {
			return nil
		}
		if !s.setName(lset) {
			out.invalid++
			return nil
		}
		first, err := s.sample(family, kind, at, value)
		if err == nil && !first {
			out.duplicate++
		}
		return err
	})
	if err == nil {
		s.end(at)
	}
	return out, err
}

// fail is a scrape without an answer, which ends all series.
func (s *targetSeries) fail(at int64, seconds float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.begin(at, seconds, 0)
	s.end(at)
	return err
}

// gone is the scrape that a target which was taken away does not get: it ends
// all series, those that tell of scrapes too.
func (s *targetSeries) gone(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scrape++
	s.end(at)
}

// begin adds the series that tell of the scrape. They come first, so that a
// target cannot take their place.
func (s *targetSeries) begin(at int64, seconds, up float64) error {
	s.scrape++
	s.setName(labels.FromStrings(model.MetricNameLabel, upName))
	if _, err := s.sample(upName, model.MetricTypeGauge, at, up); err != nil {
		return err
	}
	s.setName(labels.FromStrings(model.MetricNameLabel, durationName))
	_, err := s.sample(durationName, model.MetricTypeGauge, at, seconds)
	return err
}

// end ends the series that the scrape did not have.
func (s *targetSeries) end(at int64) {
	for _, one := range s.own {
		if one.live && one.scrape != s.scrape {
			one.samples.Append(0, at, math.NaN())
			one.live = false
		}
	}
}

// eachSample calls add for every sample, with the metric it belongs to. Those whose
// series is too large are counted and left out.
func eachSample(body []byte, contentType string, add func(string, model.MetricType, labels.Labels, float64) error) (large int, err error) {
	// The error is about the content type alone; then text is tried.
	p, err := textparse.New(body, contentType, labels.NewSymbolTable(), textparse.ParserOptions{FallbackContentType: "text/plain"})
	if p == nil {
		return 0, err
	}
	var name string
	kind := model.MetricTypeUnknown
	var lset labels.Labels
	for {
		entry, err := p.Next()
		switch {
		case errors.Is(err, io.EOF):
			return large, nil
		case err != nil:
			return large, err
		case entry == textparse.EntryType:
			var metric []byte
			metric, kind = p.Type()
			name = openMetricsName(string(metric), kind)
		case entry == textparse.EntrySeries:
			text, _, value := p.Series()
			if len(text) > maxSeriesName {
				large++
				continue
			}
			if p.Labels(&lset); lset.Len() > maxLabels {
				large++
				continue
			}
			series := lset.Get(model.MetricNameLabel)
			family, familyKind := name, kind
			if !belongs(series, family, familyKind) {
				family, familyKind = series, model.MetricTypeUnknown
			}
			if err := add(family, familyKind, lset, value); err != nil {
				return large, err
			}
		}
	}
}

// openMetricsName is the name of a metric in OpenMetrics, where a counter's
// suffix belongs to its samples alone.
func openMetricsName(name string, kind model.MetricType) string {
	if kind == model.MetricTypeCounter {
		return strings.TrimSuffix(name, "_total")
	}
	return name
}

// suffixes of a metric's samples by its type
// (https://prometheus.io/docs/specs/om/open_metrics_spec/, section "Suffixes").
// A counter without _total, valid in Prometheus' own format, has no type here.
var suffixes = map[model.MetricType][]string{
	model.MetricTypeCounter:        {"_total", "_created"},
	model.MetricTypeGauge:          {""},
	model.MetricTypeHistogram:      {"_bucket", "_sum", "_count", "_created"},
	model.MetricTypeGaugeHistogram: {"_bucket", "_gsum", "_gcount"},
	model.MetricTypeSummary:        {"", "_sum", "_count", "_created"},
	model.MetricTypeInfo:           {"_info"},
	model.MetricTypeStateset:       {""},
	model.MetricTypeUnknown:        {""},
}

func belongs(series, family string, kind model.MetricType) bool {
	suffix, ok := strings.CutPrefix(series, family)
	return ok && slices.Contains(suffixes[kind], suffix)
}

var escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// setName sets name to that of a series as it is written, with the target's
// labels. Others of their names are kept as exported_job and the like, as
// Prometheus does without honor_labels. It reports false where a label is given
// twice or is no text, or the name is missing.
func (s *targetSeries) setName(lset labels.Labels) bool {
	all := make([]labels.Label, 0, s.labels.Len()+lset.Len())
	s.labels.Range(func(l labels.Label) { all = append(all, l) })
	var metric []string
	text := true
	lset.Range(func(l labels.Label) {
		text = text && !strings.ContainsFunc(l.Value, isControl)
		switch {
		case l.Name == model.MetricNameLabel:
			metric = append(metric, escapeName(l.Value))
			return
		case s.labels.Has(l.Name):
			l.Name = model.ExportedLabelPrefix + l.Name
			for lset.Has(l.Name) || s.labels.Has(l.Name) {
				l.Name = model.ExportedLabelPrefix + l.Name
			}
		default:
			l.Name = escapeLabel(l.Name)
		}
		if l.Value != "" { // the same as no label
			all = append(all, l)
		}
	})
	if !text || len(metric) != 1 || metric[0] == "" { // {__name__="a"} is valid text
		return false
	}
	slices.SortFunc(all, func(a, b labels.Label) int { return cmp.Compare(a.Name, b.Name) })
	s.name = append(s.name[:0], metric[0]...)
	for i, l := range all {
		if i > 0 && l.Name == all[i-1].Name {
			return false
		}
		sep := ","
		if i == 0 {
			sep = "{"
		}
		s.name = append(s.name, sep...)
		s.name = append(s.name, l.Name...)
		s.name = append(s.name, `="`...)
		s.name = append(s.name, escapeValue.Replace(l.Value)...)
		s.name = append(s.name, '"')
	}
	s.name = append(s.name, '}')
	return true
}

// isControl reports whether analyze takes a character for damage to a file.
func isControl(r rune) bool { return r < ' ' && !strings.ContainsRune("\n\t\f\r\x1b", r) }

// escapeName makes a name of UTF-8 one that every version of Prometheus reads,
// as an exporter does that is not asked for UTF-8.
func escapeName(name string) string { return model.EscapeName(name, model.UnderscoreEscaping) }

// escapeLabel is escapeName for labels, which have no colon.
func escapeLabel(name string) string { return strings.ReplaceAll(escapeName(name), ":", "_") }

// sample adds one to the series in name, and reports whether it is the first of
// this scrape.
func (s *targetSeries) sample(metric string, kind model.MetricType, at int64, value float64) (first bool, err error) {
	one := s.byName[string(s.name)]
	if one == nil {
		if one, err = s.newSeries(escapeName(metric), kind); err != nil {
			return false, err
		}
	}
	if one.scrape == s.scrape {
		return false, nil
	}
	before := len(one.chunk.Bytes())
	one.samples.Append(0, at, value)
	one.scrape, one.live = s.scrape, true
	s.memory += len(one.chunk.Bytes()) - before
	s.text += len(one.name) + sampleText
	return true, s.full()
}

func (s *seriesSet) full() error {
	if s.memory > s.maxMemory || s.text > s.maxText {
		return errTooManySeries
	}
	return nil
}

func (s *targetSeries) newSeries(metric string, kind model.MetricType) (*sampled, error) {
	s.memory += len(s.name) + seriesMemory
	if err := s.full(); err != nil {
		return nil, err
	}
	one := &sampled{name: string(s.name), chunk: chunkenc.NewXORChunk()}
	var err error
	if one.samples, err = one.chunk.Appender(); err != nil {
		return nil, fmt.Errorf("keep the samples of a series: %w", err)
	}
	f := s.families[metric]
	if f == nil {
		f = &family{name: metric, kind: kind}
		s.families[metric] = f
	}
	if f.kind != kind {
		// As a counter a_total and a gauge a, which are one metric's name in
		// OpenMetrics: without a type both are valid.
		f.kind = model.MetricTypeUnknown
	}
	f.series = append(f.series, one)
	s.byName[one.name] = one
	s.own = append(s.own, one)
	return one, nil
}

// write writes all series as OpenMetrics text with timestamps: metrics by name,
// series by their labels, samples by time. HELP and UNIT are left out: nobody
// reads them there.
func (s *seriesSet) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	var line []byte
	var it chunkenc.Iterator
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		f := s.families[name]
		if f.kind != model.MetricTypeUnknown {
			fmt.Fprintf(out, "# TYPE %s %s\n", f.name, f.kind)
		}
		slices.SortFunc(f.series, func(a, b *sampled) int { return cmp.Compare(a.name, b.name) })
		for _, one := range f.series {
			it = one.chunk.Iterator(it)
			for it.Next() == chunkenc.ValFloat {
				at, value := it.At()
				line = append(line[:0], one.name...)
				line = append(line, ' ')
				line = appendValue(line, value)
				line = fmt.Appendf(line, " %d.%03d\n", at/1000, at%1000)
				if _, err := out.Write(line); err != nil {
					return err
				}
			}
			if err := it.Err(); err != nil {
				return err
			}
		}
	}
	out.WriteString("# EOF\n")
	return out.Flush()
}

func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
