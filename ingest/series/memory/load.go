package memory

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
)

const (
	// A fleet of 1,000 processes with 1,000 series each. A series takes about
	// half a kilobyte beside its samples.
	defaultMaxSeries = 1_000_000
	// 800 MB in two columns: six times what 1,000 instances with 12 signals
	// have in two hours.
	defaultMaxSamples = 50_000_000
	// Real lines are below 2 KiB; a HELP text may be a page.
	defaultMaxLine = 1 << 20
	// Of a label's name or value: statements and stack traces that were made
	// labels by mistake pass.
	maxLabel = 64 << 10
	// Of one series: real ones have below 30, and those of Kubernetes' objects
	// some 100. What a parser does with labels is more than twice for twice as many.
	maxLabels = 500
	// More bad lines than good ones is a file of another kind.
	maxBadShare = 0.5
	// So many of what is bad are shown, shortened to so many characters.
	shownBad, shownText = 3, 100
	// Far from now, a timestamp is another number or in another unit. The year
	// 9999 is the last that RFC 3339 can write.
	maxTime = 253402300799999
	// Samples of one series wait here, so that its columns are made in one
	// piece where a file is sorted by series.
	maxRun = 1 << 16
)

// Format is a form in which series are written to a file.
type Format int

const (
	None        Format = iota // no series
	OpenMetrics               // text with timestamps in seconds: promtool tsdb dump-openmetrics, and exporters that speak it
	Text                      // a /metrics page in Prometheus' text format: without timestamps, or in milliseconds
	Dump                      // promtool tsdb dump: {__name__="up", job="a"} 1 1700000000000
	JSON                      // an answer of the HTTP API: query or query_range
)

// String is the name of the format in a sentence.
func (f Format) String() string {
	return [...]string{"no series", "OpenMetrics text", "Prometheus text", "a promtool tsdb dump", "JSON of the Prometheus API"}[f]
}

// LoadOptions are the choices of one Load. 0 is the default of each.
type LoadOptions struct {
	Format     Format            // see Sniff
	At         time.Time         // of the scrape: the time of samples that have none
	Labels     map[string]string // of the target, added to series that lack them: job, instance
	MaxSeries  int               // of the store; 1,000,000
	MaxSamples int               // of the store; 50,000,000
	MaxLine    int               // bytes; 1 MiB
}

// Loaded says what one Load read.
type Loaded struct {
	Series     int // in the input, new to the store or not
	Samples    int // stale markers included
	Bad        int // lines, or results of a query, that were no samples and were left out
	Histograms int // native histograms, left out
	OutOfOrder int // samples earlier than the one before them in their series
	Notes      []string
}

// Load reads an input of one format, already unpacked, front to back. Memory
// is taken for the samples and not for the text. name is for the store's notes.
//
// What is bad is counted and left out, and the rest is read. An error says
// that the input was not read to its end (a limit, a broken reader, JSON that
// stops making sense), that more of it was bad than good, or that it is the
// API's own error. What was read before it is in the store and in Loaded.
func (s *Store) Load(name string, r io.Reader, opt LoadOptions) (Loaded, error) {
	l := newLoader(s, opt)
	var err error
	switch opt.Format {
	case OpenMetrics, Text, Dump:
		err = l.loadText(r)
	case JSON:
		err = l.loadJSON(r)
	default:
		return Loaded{}, errors.New("expected series: OpenMetrics or Prometheus text, a promtool tsdb dump or JSON of the Prometheus API, saw none of these")
	}
	l.flush()
	l.finish()
	s.mu.Lock()
	for _, note := range l.loaded.Notes {
		s.notes = append(s.notes, name+": "+note)
	}
	s.stats.OutOfOrder += l.loaded.OutOfOrder
	maps.Copy(s.histograms, l.histograms)
	s.mu.Unlock()
	if good := l.loaded.Samples + l.loaded.Histograms; err == nil && float64(l.loaded.Bad) > maxBadShare*float64(l.loaded.Bad+good) {
		err = fmt.Errorf("expected %s, but %d of its %d samples are not: %s", opt.Format, l.loaded.Bad, l.loaded.Bad+good, strings.Join(l.shown, "; "))
	}
	return l.loaded, err
}

// loader is one Load under way.
type loader struct {
	s      *Store
	opt    LoadOptions
	at     int64 // opt.At in ms
	loaded Loaded
	shown  []string // the first few of what was bad
	room   int      // samples
	stale  int      // samples that are NaN
	// The names of metrics with native histograms.
	histograms map[string]bool
	// Samples of one series that are not in the store yet.
	of *entry
	ts []int64
	vs []float64
}

// entry is a series of the input.
type entry struct {
	text   string  // as the line has it, where there are lines
	series *series // nil where it is left out
	last   int64   // time of its last sample
}

func newLoader(s *Store, opt LoadOptions) *loader {
	l := &loader{s: s, opt: opt, histograms: map[string]bool{}}
	l.opt.MaxSeries = cmp.Or(opt.MaxSeries, defaultMaxSeries)
	l.opt.MaxSamples = cmp.Or(opt.MaxSamples, defaultMaxSamples)
	l.opt.MaxLine = cmp.Or(opt.MaxLine, defaultMaxLine)
	if !opt.At.IsZero() {
		l.at = opt.At.UnixMilli()
	}
	s.mu.RLock()
	l.room = l.opt.MaxSamples - s.stats.Samples
	s.mu.RUnlock()
	return l
}

// limitError is the end of a load: what came before it is kept.
type limitError struct{ saw string }

func (e *limitError) Error() string {
	return e.saw + "; give fewer series or a shorter time (promtool tsdb dump has --match and --min-time)"
}

// stopped adds to the error that ended a load what there is all the same.
func (l *loader) stopped(err error) error {
	if l.loaded.Samples+l.loaded.Histograms == 0 {
		return err
	}
	return fmt.Errorf("%w; what came before that was read", err)
}

var errLabels = fmt.Errorf("expected at most %d labels", maxLabels)

var errLabel = &limitError{fmt.Sprintf("a label of more than %d bytes", maxLabel)}

// entry makes the entry of a series. Labels of the target are added to its own.
func (l *loader) entry(own []labels.Label) (*entry, error) {
	b := labels.NewBuilder(labels.FromMap(l.opt.Labels))
	for _, label := range own {
		b.Set(label.Name, label.Value)
	}
	lset := b.Labels()
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	found := l.s.find(lset)
	if found == nil {
		if len(l.s.all) >= l.opt.MaxSeries {
			return nil, &limitError{fmt.Sprintf("more than %d series", l.opt.MaxSeries)}
		}
		found = l.s.seriesOf(lset)
	}
	l.loaded.Series++
	return &entry{series: found, last: math.MinInt64}, nil
}

// put adds a sample to a series.
func (l *loader) put(e *entry, t int64, v float64) error {
	if l.room <= 0 {
		return l.errRoom()
	}
	l.room--
	if v != v {
		l.stale++
	}
	if e != l.of || len(l.ts) == maxRun {
		l.flush()
		l.of = e
	}
	if t < e.last {
		l.loaded.OutOfOrder++
	}
	e.last = t
	l.ts, l.vs = append(l.ts, t), append(l.vs, v)
	l.loaded.Samples++
	return nil
}

func (l *loader) errRoom() error {
	return &limitError{fmt.Sprintf("more than %d samples", l.opt.MaxSamples)}
}

// flush puts the samples that wait into the store.
func (l *loader) flush() {
	if len(l.ts) == 0 {
		return
	}
	endAtNaN(l.vs)
	l.s.mu.Lock()
	l.s.add(l.of.series, l.ts, l.vs)
	l.s.mu.Unlock()
	l.ts, l.vs = l.ts[:0], l.vs[:0]
}

func (l *loader) finish() {
	if n := l.loaded.Bad; n > 0 {
		rest := ""
		if n > len(l.shown) {
			rest = "; …"
		}
		what := "line"
		if l.opt.Format == JSON {
			what = "result"
		}
		l.note("no samples: %s, left out: %s%s", counted(n, what), strings.Join(l.shown, "; "), rest)
	}
	if n := l.loaded.Histograms; n > 0 {
		l.note("native histograms: %s, left out; scrape them as classic histograms too (always_scrape_classic_histograms)", counted(n, "sample"))
	}
	if n := l.loaded.Samples; n > 0 && l.stale == n {
		l.note("all samples (%d) are NaN, which marks the end of a series: there is no value", n)
	}
}

func (l *loader) note(format string, args ...any) {
	l.loaded.Notes = append(l.loaded.Notes, fmt.Sprintf(format, args...))
}

// bad counts a part of the input that is no sample. where is "line 12".
func (l *loader) bad(where string, err error, text []byte) {
	l.loaded.Bad++
	if len(l.shown) < shownBad {
		l.shown = append(l.shown, fmt.Sprintf("%s, %v: %s", where, err, shorten(text)))
	}
}

// shorten quotes the beginning of a text.
func shorten(text []byte) string {
	if len(text) <= shownText {
		return strconv.Quote(string(text))
	}
	n := shownText
	for n > shownText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return strconv.Quote(string(text[:n])) + "…"
}

// loadText reads the formats that have a sample a line.
func (l *loader) loadText(r io.Reader) error {
	t := &textLoader{loader: l, entries: map[string]*entry{}}
	in := bufio.NewReaderSize(r, l.opt.MaxLine)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			return l.stopped(&limitError{fmt.Sprintf("line %d is longer than %d bytes", n, l.opt.MaxLine)})
		}
		// In a last line that is cut off, a timestamp may be cut off too, and
		// put its sample into another year.
		whole := err == nil
		text := bytes.TrimSpace(line)
		if whole || string(text) == endOfText {
			if err := t.line(text); err != nil {
				if _, limit := errors.AsType[*limitError](err); limit {
					return l.stopped(fmt.Errorf("line %d: %w", n, err))
				}
				l.bad("line "+strconv.Itoa(n), err, text)
			}
		} else if len(text) > 0 {
			l.note("the last line does not end and was left out: %s; was the file cut off?", shorten(text))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return l.stopped(fmt.Errorf("reading stopped after line %d: %w", n-1, err))
		}
	}
	if l.opt.Format == OpenMetrics && !t.ended {
		l.note("there is no %q at its end; was the file cut off?", endOfText)
	}
	return nil
}
