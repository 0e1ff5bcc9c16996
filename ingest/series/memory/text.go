package memory

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// endOfText is the last line of OpenMetrics text.
const endOfText = "# EOF"

// textLoader reads lines of the form
//
//	name{label="value",…} value timestamp # exemplar
//
// model/textparse reads them too, and is what tests compare with. It is not
// used here because it wants a whole text in memory, parses the labels of each
// line again, and neither knows the lines of promtool tsdb dump nor those that
// dump-openmetrics writes of OpenTelemetry's names, with dots and no quotes.
type textLoader struct {
	*loader
	// A series has thousands of lines, and its labels are parsed in the first.
	// The key is the text before the value.
	entries map[string]*entry
	before  *entry // of the line before: most files are sorted by series
	created string // by # TYPE: the series of this name says when others began
	ended   bool
}

// line reads one line, without spaces around it.
func (t *textLoader) line(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if b[0] == '#' {
		t.comment(b)
		return nil
	}
	rest, same := t.sameSeries(b)
	if !same {
		text, after, err := cutSeries(b)
		if err != nil {
			return err
		}
		e, known := t.entries[string(text)]
		if !known {
			if e, err = t.parse(string(text)); err != nil {
				return err
			}
			t.entries[e.text] = e
		}
		t.before, rest = e, after
	}
	return t.sample(t.before, rest)
}

// sameSeries cuts the text of the line before off b, if b begins with it.
func (t *textLoader) sameSeries(b []byte) (rest []byte, ok bool) {
	if t.before == nil {
		return nil, false
	}
	text := t.before.text
	n := len(text)
	if len(b) <= n || b[n] != ' ' || string(b[:n]) != text {
		return nil, false
	}
	rest = b[n+1:]
	// Labels may follow a name after a space.
	return rest, text[n-1] == '}' || bytes.IndexByte(rest, '{') < 0
}

func (t *textLoader) comment(b []byte) {
	if string(b) == endOfText {
		t.ended = true
		return
	}
	if f := bytes.Fields(b); len(f) == 4 && string(f[1]) == "TYPE" {
		t.created = ""
		switch string(f[3]) {
		case "counter", "histogram", "summary":
			family := strings.Trim(string(f[2]), `"`)
			t.created = strings.TrimSuffix(family, "_total") + "_created"
		}
	}
}

// parse makes the entry of a series from its text.
func (t *textLoader) parse(text string) (*entry, error) {
	own, err := parseSeries(text, t.opt.Format == Dump)
	if err != nil {
		return nil, err
	}
	e := &entry{}
	if metricName(own) != t.created {
		if e, err = t.entry(own); err != nil {
			return nil, err
		}
	}
	e.text = text
	return e, nil
}

// sample reads what follows the series: value, timestamp, exemplar.
func (t *textLoader) sample(e *entry, rest []byte) error {
	rest = bytes.TrimLeft(rest, " \t")
	if isHistogram(rest) {
		t.loaded.Histograms++
		if e.series != nil {
			t.histograms[e.series.labels.Get(model.MetricNameLabel)] = true
		}
		return nil
	}
	text, rest := cutField(rest)
	v, err := parseFloat(text)
	if err != nil {
		return fmt.Errorf("expected a number as value, saw %s", shorten(text))
	}
	at, rest := cutField(rest)
	ms := t.at
	switch {
	case len(at) > 0 && at[0] != '#':
		if ms, err = t.time(at); err != nil {
			return err
		}
		if after, _ := cutField(rest); len(after) > 0 && after[0] != '#' {
			return errors.New("expected the end of the line after the timestamp")
		}
	case ms == 0:
		return errors.New("expected a timestamp, as the time of the scrape is not known")
	}
	if e.series == nil {
		return nil
	}
	return t.put(e, ms, v)
}

// isHistogram reports whether a value is a native histogram, as promtool
// writes it: {count:5, sum:18.4, (0.5,1]:3}.
func isHistogram(value []byte) bool { return bytes.HasPrefix(value, []byte("{count:")) }

// time is a timestamp in milliseconds.
func (t *textLoader) time(b []byte) (int64, error) {
	if t.opt.Format == OpenMetrics {
		s, err := parseFloat(b)
		if err != nil || !(math.Abs(s) <= maxTime/1000) {
			return 0, fmt.Errorf("expected a timestamp in seconds since 1970, saw %s", shorten(b))
		}
		// Prometheus cuts off instead, and reads 1.001 as 1000 ms.
		return int64(math.Round(s * 1000)), nil
	}
	ms, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || ms > maxTime || ms < -maxTime {
		return 0, fmt.Errorf("expected a timestamp in milliseconds since 1970, saw %s", shorten(b))
	}
	return ms, nil
}

// parseFloat reads a number as Prometheus does: without underscores and
// hexadecimal digits.
func parseFloat(b []byte) (float64, error) {
	if bytes.ContainsAny(b, "_pP") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(string(b), 64)
}

// cutField cuts the first of fields that spaces part.
func cutField(b []byte) (field, rest []byte) {
	for i, c := range b {
		if c == ' ' || c == '\t' {
			return b[:i], bytes.TrimLeft(b[i:], " \t")
		}
	}
	return b, nil
}

// cutSeries cuts the text of the series off the beginning of a line: up to the
// brace that closes its labels, or the space after its name.
func cutSeries(b []byte) (series, rest []byte, err error) {
	i := bytes.IndexAny(b, "{ \t")
	if i < 0 {
		return nil, nil, errors.New("expected a series and a value")
	}
	open := i
	for open < len(b) && (b[open] == ' ' || b[open] == '\t') {
		open++
	}
	if open == len(b) || b[open] != '{' {
		return b[:i], b[i:], nil
	}
	quoted := false
	for j := open + 1; j < len(b); j++ {
		switch b[j] {
		case '"':
			quoted = !quoted
		case '\\':
			if quoted {
				j++
			}
		case '}':
			if !quoted {
				return b[:j+1], b[j+1:], nil
			}
		}
	}
	return nil, nil, errors.New("expected a closing brace")
}

// parseSeries parses the text of a series into its labels, without those that
// are empty. goEscapes says that strings are quoted as in Go (promtool tsdb
// dump) and not as in the text formats, which know \\, \" and \n.
func parseSeries(text string, goEscapes bool) ([]labels.Label, error) {
	if strings.ContainsFunc(text, isControl) {
		return nil, errors.New("expected text, saw a control character")
	}
	p := seriesParser{rest: text, goEscapes: goEscapes}
	if name := p.word(); name != "" {
		p.labels = append(p.labels, labels.Label{Name: model.MetricNameLabel, Value: name})
	}
	if p.take('{') {
		for !p.take('}') {
			if err := p.label(); err != nil {
				return nil, err
			}
			p.take(',') // Prometheus does without
		}
	}
	if p.rest != "" {
		return nil, errors.New("expected a name of letters, digits, _, : and . (or in quotes, within the braces)")
	}
	if metricName(p.labels) == "" {
		return nil, errors.New("expected the name of a metric")
	}
	return p.labels, nil
}

// isControl reports whether text never has a character: a byte was damaged, or
// a hole in a file reads as zeros. Colours and what part words are let through.
func isControl(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\f\r\x1b", r) }

func metricName(ls []labels.Label) string {
	for _, l := range ls {
		if l.Name == model.MetricNameLabel {
			return l.Value
		}
	}
	return ""
}

// seriesParser is a series' text, parsed up to rest.
type seriesParser struct {
	rest      string
	goEscapes bool
	labels    []labels.Label
}

// label parses name="value", or "name" alone, which is the metric's.
func (p *seriesParser) label() error {
	name, quoted, err := p.quoted()
	if err != nil {
		return err
	}
	if !quoted {
		name = p.word()
	}
	if name == "" {
		return errors.New("expected the name of a label")
	}
	if !p.take('=') {
		if !quoted {
			return errors.New("expected labels of the form name=\"value\"")
		}
		return p.add(model.MetricNameLabel, name)
	}
	v, quoted, err := p.quoted()
	if err != nil {
		return err
	}
	if !quoted {
		return errors.New("expected a label's value in quotes")
	}
	return p.add(name, v)
}

func (p *seriesParser) add(name, v string) error {
	if len(name) > maxLabel || len(v) > maxLabel {
		return errLabel
	}
	if !utf8.ValidString(name) || !utf8.ValidString(v) {
		return errors.New("expected UTF-8")
	}
	if len(p.labels) == maxLabels {
		return errLabels
	}
	for _, l := range p.labels {
		if l.Name == name {
			return fmt.Errorf("expected each label once, saw %s twice", shorten([]byte(name)))
		}
	}
	if v != "" { // which is no label
		p.labels = append(p.labels, labels.Label{Name: name, Value: v})
	}
	return nil
}

// take takes one character and the spaces around it.
func (p *seriesParser) take(c byte) bool {
	p.rest = strings.TrimLeft(p.rest, " \t")
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = strings.TrimLeft(p.rest[1:], " \t")
	return true
}

// word takes a name without quotes. The characters . - / are those that
// OpenTelemetry's names have beside Prometheus' own.
func (p *seriesParser) word() string {
	n := 0
	for ; n < len(p.rest); n++ {
		c := p.rest[n]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == ':'
		if !letter && (n == 0 || !('0' <= c && c <= '9' || c == '.' || c == '-' || c == '/')) {
			break
		}
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

// escapes are those of the text formats. Another one stays as it is.
var escapes = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n")

// quoted takes a string in quotes, if the rest begins with one.
func (p *seriesParser) quoted() (text string, ok bool, err error) {
	if p.rest == "" || p.rest[0] != '"' {
		return "", false, nil
	}
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '"':
			text, p.rest = p.rest[:i+1], p.rest[i+1:]
			if !p.goEscapes {
				return escapes.Replace(text[1:i]), true, nil
			}
			if text, err = strconv.Unquote(text); err != nil {
				return "", false, errors.New("expected a string as Go quotes it")
			}
			return text, true, nil
		}
	}
	return "", false, errors.New("expected a closing quote")
}
