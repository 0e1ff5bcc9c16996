package promapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// Answers are read token by token with jsontext, which is encoding/json/jsontext
// as of Go 1.27: memory is that of the samples. The Decoder of encoding/json
// takes 5 times as long into model.Matrix (BenchmarkDecode), and as long for its
// tokens, and 13 bytes for each byte of an answer. json-iterator, which
// Prometheus' own client had before Go 1.27, is as fast, but not maintained.

const (
	// maxTime is the latest time in milliseconds that a float64 has exactly.
	maxTime = 1 << 53
	// labels.Labels cannot hold 16 MiB, and panics.
	maxLabelBytes = 1 << 20
	// A decoder holds one string or sample in memory: the longest label, with
	// each byte written as \u00XX, and some more.
	maxToken = 8 << 20
)

// answer is what surrounds the data of an answer.
type answer struct {
	status  string // "success", "error"; "" where it is no answer of the API
	errType string
	said    string   // why there is an error
	notes   []string // warnings and infos
	partial bool     // VictoriaMetrics says so here, others in a warning
	data    bool     // there was what the answer is about
	null    bool     // null was in its place
}

// errNoData is that an answer says that it is a success, and has no data.
var errNoData = errors.New("it has no data")

// errTokenTooLong is that a string or a sample exceeds maxToken.
var errTokenTooLong = fmt.Errorf("expected strings of at most %d MiB, saw a longer one", maxToken>>20)

// tokenReader fails where its decoder has more than maxToken in memory.
type tokenReader struct {
	r   io.Reader
	dec *jsontext.Decoder
	n   int64 // bytes read
}

func (t *tokenReader) Read(p []byte) (int, error) {
	if t.n-t.dec.InputOffset() > maxToken {
		return 0, errTokenTooLong
	}
	n, err := t.r.Read(p)
	t.n += int64(n)
	return n, err
}

// decodeAnswer reads an answer of the API; data reads what it is about.
func decodeAnswer(r io.Reader, data func(*jsontext.Decoder) error) (ans answer, err error) {
	in := &tokenReader{r: r}
	dec := jsontext.NewDecoder(in)
	in.dec = dec
	err = object(dec, func(key string) error {
		kind := dec.PeekKind()
		switch {
		case key == "status" && kind == '"':
			ans.status, err = readString(dec)
		case key == "errorType" && kind == '"':
			ans.errType, err = readString(dec)
		case (key == "error" || key == "message") && kind == '"':
			ans.said, err = readString(dec)
		case (key == "warnings" || key == "infos") && kind == '[':
			err = array(dec, func() error {
				note, err := readString(dec)
				if len(ans.notes) < maxWarnings {
					ans.notes = append(ans.notes, clip(note, maxLooked))
				}
				return err
			})
		case key == "isPartial" && kind == 't':
			ans.partial, err = true, dec.SkipValue()
		case key == "data" && kind != 'n':
			ans.data = true
			err = data(dec)
		case key == "data":
			ans.null, err = true, dec.SkipValue()
		default:
			err = dec.SkipValue()
		}
		return err
	})
	if err != nil {
		return ans, err
	}
	switch _, err := dec.ReadToken(); {
	case err == nil:
		return ans, errors.New("expected the end of the answer, saw more")
	case !errors.Is(err, io.EOF):
		return ans, err
	}
	return ans, nil
}

// samples reads results of queries: a matrix, a vector, or a scalar, which is a
// series without labels. Series without a sample that is a number are left out.
type samples struct {
	series   []promql.Series
	most     int   // how many series may be read
	left     int   // how many samples more may be read
	from, to int64 // between these all times must be, in milliseconds

	points []promql.FPoint // of the series that is being read
	labels labels.ScratchBuilder
}

// errTooManySamples is that a result exceeds Options.MaxSamples.
var errTooManySamples = errors.New("too many samples")

// errTooManySeries is that a result exceeds Options.MaxSeries.
var errTooManySeries = errors.New("too many series")

func (s *samples) data(dec *jsontext.Decoder) error {
	found := false
	err := object(dec, func(key string) error {
		if key != "result" {
			return dec.SkipValue() // resultType too: the shape tells
		}
		found = true
		if dec.PeekKind() == 'n' {
			return dec.SkipValue()
		}
		if err := expect(dec, '[', "a list of series"); err != nil {
			return err
		}
		if dec.PeekKind() == '0' {
			return s.scalar(dec)
		}
		for !ended(dec, ']') {
			if err := s.readSeries(dec); err != nil {
				return err
			}
		}
		_, err := dec.ReadToken()
		return err
	})
	if err == nil && !found {
		return errNoData
	}
	return err
}

// scalar reads the rest of [time, "value"].
func (s *samples) scalar(dec *jsontext.Decoder) error {
	at, err := dec.ReadValue()
	if err != nil {
		return err
	}
	at = bytes.Clone(at) // the next read takes its place
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if err := s.point(dec, at, value); err != nil {
		return err
	}
	s.end()
	return expect(dec, ']', "a time and a value")
}

func (s *samples) readSeries(dec *jsontext.Decoder) error {
	s.points = s.points[:0]
	s.labels.Reset()
	err := object(dec, func(key string) error {
		switch key {
		case "metric":
			return s.metric(dec)
		case "value":
			return s.pair(dec)
		case "values":
			return array(dec, func() error { return s.pair(dec) })
		}
		return dec.SkipValue() // histograms
	})
	if err != nil {
		return err
	}
	s.end()
	if len(s.series) > s.most {
		return errTooManySeries
	}
	return nil
}

// end keeps the series that was read.
func (s *samples) end() {
	if len(s.points) == 0 {
		return
	}
	s.labels.Sort()
	s.series = append(s.series, promql.Series{
		Metric: s.labels.Labels(),
		Floats: append(make([]promql.FPoint, 0, len(s.points)), s.points...),
	})
}

func (s *samples) metric(dec *jsontext.Decoder) error {
	return object(dec, func(name string) error {
		value, err := readString(dec)
		switch {
		case err != nil:
			return err
		case name == "" || len(name) > maxLabelBytes || len(value) > maxLabelBytes:
			return fmt.Errorf("expected labels with a name and at most %d bytes, saw %q with %d", maxLabelBytes, clip(name, maxQuoted), len(value))
		case value != "": // else as good as not there
			s.labels.Add(name, value)
		}
		return nil
	})
}

// pair reads [time, "value"].
func (s *samples) pair(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() != '[' {
		return wrong(dec, `a sample [time, "value"]`, v)
	}
	at, value, _ := bytes.Cut(v[1:len(v)-1], []byte(","))
	return s.point(dec, bytes.TrimSpace(at), bytes.TrimSpace(value))
}

// point takes a time in seconds, and a value as PromQL writes it, in quotes.
func (s *samples) point(dec *jsontext.Decoder, at, value []byte) error {
	seconds, err := strconv.ParseFloat(string(at), 64)
	if err != nil {
		return wrong(dec, "a time in seconds", at)
	}
	ms := math.Round(seconds * 1000)
	if !(ms > float64(s.from) && ms < float64(s.to)) {
		return fmt.Errorf("%s: expected a time that was asked for, saw %s", dec.StackPointer(), clip(string(at), maxQuoted))
	}
	if len(value) < 2 || value[0] != '"' {
		return wrong(dec, "a number in quotes", value)
	}
	f, err := strconv.ParseFloat(string(value[1:len(value)-1]), 64)
	if err != nil {
		return wrong(dec, "a number in quotes", value)
	}
	p := promql.FPoint{T: int64(ms), F: f}
	if n := len(s.points); n > 0 && s.points[n-1].T >= p.T {
		return fmt.Errorf("%s: expected ascending times, saw %s after a time as late", dec.StackPointer(), clip(string(at), maxQuoted))
	}
	if s.left--; s.left < 0 {
		return errTooManySamples
	}
	s.points = append(s.points, p)
	return nil
}

// object reads an object; field reads the value of each name.
func object(dec *jsontext.Decoder, field func(name string) error) error {
	if err := expect(dec, '{', "an object"); err != nil {
		return err
	}
	for !ended(dec, '}') {
		name, err := readString(dec)
		if err != nil {
			return err
		}
		if err := field(name); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

func array(dec *jsontext.Decoder, element func() error) error {
	if err := expect(dec, '[', "a list"); err != nil {
		return err
	}
	for !ended(dec, ']') {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// ended is whether there is no further element, for whatever reason: the next
// token says which.
func ended(dec *jsontext.Decoder, end jsontext.Kind) bool {
	kind := dec.PeekKind()
	return kind == end || kind == jsontext.KindInvalid
}

func expect(dec *jsontext.Decoder, kind jsontext.Kind, what string) error {
	tok, err := dec.ReadToken()
	if err == nil && tok.Kind() != kind {
		err = wrong(dec, what, []byte(tok.String()))
	}
	return err
}

func readString(dec *jsontext.Decoder) (string, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return "", err
	}
	if tok.Kind() != '"' {
		return "", wrong(dec, "a string", []byte(tok.String()))
	}
	return tok.String(), nil
}

func wrong(dec *jsontext.Decoder, want string, saw []byte) error {
	return fmt.Errorf("%s: expected %s, saw %s", dec.StackPointer(), want, clip(string(saw), maxQuoted))
}

// clip shortens text to n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
