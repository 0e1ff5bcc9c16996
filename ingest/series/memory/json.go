package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/contend/contend/ingest/secret"
)

const (
	// A decoder holds one string or sample in memory: the longest label, with
	// each byte written as \u00XX, and some more.
	maxToken = 1 << 20
	// Of what a server said, so many texts are shown, so many characters of each.
	maxSaid, maxSaidText = 10, 200
	// So much of a text is searched for secrets, at least: one that is cut in
	// two would not be known.
	maxSearched = 4 << 10
)

// loadJSON reads answers of the HTTP API, one or several, one after another:
//
//	{"status":"success","data":{"resultType":"matrix","result":[
//	  {"metric":{"__name__":"up","job":"a"},"values":[[1700000000.123,"1"],…]},…]}}
//
// See https://prometheus.io/docs/prometheus/latest/querying/api/. Samples are
// taken as they come: an answer that is cut off has those before. It is read
// with jsontext, since the tokens of encoding/json take 5 times as long.
func (l *loader) loadJSON(r io.Reader) error {
	in := &tokenReader{r: r}
	// Twice the same key, and bytes that are not UTF-8, lose no other series.
	in.dec = jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	j := &jsonLoader{loader: l, in: in, dec: in.dec}
	var failed []error
	for {
		err := j.document()
		if err == io.EOF {
			break
		}
		_, api := errors.AsType[*apiError](err)
		if api || errors.Is(err, errNoData) {
			failed = append(failed, err)
			continue
		}
		if err != nil {
			failed = append(failed, l.stopped(j.located(err)))
			break
		}
	}
	if j.nameless > 0 {
		l.note("without a name, as results of expressions: %d series, left out; save those of a plain selector, such as {job=\"gateway\"}", j.nameless)
	}
	for i, said := range j.said {
		if i == maxSaid {
			l.note("the server said more than that")
			break
		}
		l.note("the server said: %s", said)
	}
	if j.partial {
		l.note("the server said that its answer is partial: a part of its storage could not be reached")
	}
	return errors.Join(failed...)
}

// apiError is what the API said instead of a result.
type apiError struct{ kind, message string }

func (e *apiError) Error() string {
	return fmt.Sprintf("expected a result of the Prometheus API, saw its error: %s: %s", e.kind, e.message)
}

var (
	errNoData = errors.New("expected a result of the Prometheus API, saw an answer without data; save that of a query or query_range")
	errSeries = errors.New("expected a series with metric and value or values")
	errPoint  = errors.New("expected a time in seconds and a value in quotes")
)

type jsonLoader struct {
	*loader
	in       *tokenReader
	dec      *jsontext.Decoder
	results  int
	nameless int
	said     []string // warnings and infos, each once
	partial  bool
}

// located says where an error is.
func (j *jsonLoader) located(err error) error {
	at := j.dec.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at, err = syntax.ByteOffset, syntax.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("at byte %d: %w; was the file cut off?", j.in.n, err)
	}
	return fmt.Errorf("at byte %d: %w", at, err)
}

// document reads one answer. It is io.EOF where there is none.
func (j *jsonLoader) document() error {
	if j.dec.PeekKind() == jsontext.KindInvalid { // the end, between documents
		_, err := j.dec.ReadToken()
		return err
	}
	var status, kind, message string
	data := false
	err := j.object(func(key string) (err error) {
		switch saw := j.dec.PeekKind(); {
		case key == "status" && saw == '"':
			status, err = j.text()
		case key == "errorType" && saw == '"':
			kind, err = j.text()
		case key == "error" && saw == '"':
			message, err = j.text()
		case (key == "warnings" || key == "infos") && saw == '[':
			err = j.array(j.warning)
		case key == "isPartial":
			j.partial = j.partial || saw == 't'
			err = j.dec.SkipValue()
		case key == "data" && saw != 'n':
			data = true
			err = j.data()
		default:
			err = j.dec.SkipValue()
		}
		return err
	})
	switch {
	case err != nil:
		return noEOF(err)
	case status == "error":
		return &apiError{cmp.Or(shown(kind), "error"), cmp.Or(shown(message), "no reason given")}
	case !data:
		return errNoData
	}
	return nil
}

func (j *jsonLoader) warning() error {
	if j.dec.PeekKind() != '"' {
		return j.dec.SkipValue()
	}
	text, err := j.text()
	if said := shown(text); err == nil && len(j.said) <= maxSaid && !slices.Contains(j.said, said) {
		j.said = append(j.said, said)
	}
	return err
}

// shown is what a server said, on one line and without credentials in URLs.
func shown(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxSearched)], "")
	text = secret.HideURLs(strings.Join(strings.Fields(text), " "))
	if len(text) > maxSaidText {
		text = strings.ToValidUTF8(text[:maxSaidText], "") + "…"
	}
	return text
}

// data reads the object that the result is in.
func (j *jsonLoader) data() error {
	if saw := j.dec.PeekKind(); saw != '{' && saw != jsontext.KindInvalid {
		return errors.New("expected the data of a query or query_range, saw that of another request")
	}
	return j.object(func(key string) error {
		if key == "result" {
			return j.array(j.result)
		}
		return j.dec.SkipValue()
	})
}

// element is a series of a result, as far as it was read.
type element struct {
	labels  []labels.Label
	metric  bool // labels are known
	floats  bool // there was a value, or a list of them
	other   bool // there was a histogram
	dropped bool // it was counted among what is left out
	entry   *entry
	ts      []int64 // samples that came before the labels
	vs      []float64
}

// result reads one series.
func (j *jsonLoader) result() error {
	j.results++
	x := &element{}
	if j.dec.PeekKind() != '{' {
		return j.drop(x, errSeries)
	}
	if err := j.object(func(key string) error { return j.field(x, key) }); err != nil {
		return err
	}
	if name := metricName(x.labels); x.other && name != "" {
		j.histograms[name] = true
	}
	switch {
	case x.dropped:
	case x.floats:
		return j.enter(x) // which came without labels
	case !x.other:
		j.badResult(errSeries, []byte(labels.New(x.labels...).String()))
	}
	return nil
}

func (j *jsonLoader) field(x *element, key string) error {
	saw := j.dec.PeekKind()
	switch {
	case saw == 'n':
	case key == "metric":
		return j.metric(x)
	case key == "value" || key == "values":
		if saw != '[' {
			return j.drop(x, errSeries)
		}
		x.floats = true
		if x.metric {
			if err := j.enter(x); err != nil {
				return err
			}
		}
		if key == "value" {
			return j.point(x)
		}
		return j.array(func() error { return j.point(x) })
	case key == "histogram":
		x.other = true
		j.loaded.Histograms++
	case key == "histograms" && saw == '[':
		x.other = true
		return j.array(func() error {
			j.loaded.Histograms++
			return j.dec.SkipValue()
		})
	}
	return j.dec.SkipValue()
}

// metric reads the labels of a series.
func (j *jsonLoader) metric(x *element) error {
	if j.dec.PeekKind() != '{' {
		return j.drop(x, errSeries)
	}
	x.labels = x.labels[:0]
	err := j.object(func(name string) error {
		if j.dec.PeekKind() != '"' {
			return j.drop(x, errSeries)
		}
		value, err := j.text()
		switch {
		case err != nil:
			return err
		case len(name) > maxLabel || len(value) > maxLabel:
			return errLabel
		case name == "" || value == "": // which is no label
		case len(x.labels) < maxLabels:
			x.labels = append(x.labels, labels.Label{Name: name, Value: value})
		case !x.dropped:
			x.dropped = true
			j.badResult(errLabels, []byte(name))
		}
		return nil
	})
	x.metric = true
	if err == nil && x.floats {
		err = j.enter(x)
	}
	return err
}

// enter makes the entry of a series, unless there is one or it is left out.
func (j *jsonLoader) enter(x *element) (err error) {
	switch {
	case x.dropped || x.entry != nil:
		return nil
	case metricName(x.labels) == "":
		x.dropped = true
		j.nameless++
		return nil
	}
	if x.entry, err = j.entry(x.labels); err != nil {
		return err
	}
	for i, t := range x.ts {
		if err := j.put(x.entry, t, x.vs[i]); err != nil {
			return err
		}
	}
	return nil
}

// point reads [time, "value"].
func (j *jsonLoader) point(x *element) error {
	pair, err := j.dec.ReadValue()
	if err != nil || x.dropped {
		return err
	}
	if pair.Kind() != '[' {
		j.badResult(errPoint, pair)
		return nil
	}
	pair = pair[1 : len(pair)-1]
	at, quoted, _ := bytes.Cut(pair, []byte(","))
	s, errTime := parseFloat(bytes.TrimSpace(at))
	v, errValue := parseFloat(bytes.Trim(bytes.TrimSpace(quoted), `"`))
	if errTime != nil || errValue != nil || !(math.Abs(s) <= maxTime/1000) {
		j.badResult(errPoint, pair)
		return nil
	}
	t := int64(math.Round(s * 1000))
	if x.entry != nil {
		return j.put(x.entry, t, v)
	}
	if len(x.ts) == j.room {
		return j.errRoom()
	}
	x.ts, x.vs = append(x.ts, t), append(x.vs, v)
	return nil
}

// drop leaves a series out for the value that comes next.
func (j *jsonLoader) drop(x *element, why error) error {
	if x.dropped {
		return j.dec.SkipValue()
	}
	x.dropped = true
	value, err := j.dec.ReadValue()
	if err == nil {
		j.badResult(why, value)
	}
	return err
}

func (j *jsonLoader) badResult(err error, text []byte) {
	j.bad(fmt.Sprintf("result %d", j.results), err, text)
}

// object reads an object; field reads the value of each key.
func (j *jsonLoader) object(field func(key string) error) error {
	return j.within('{', '}', func() error {
		key, err := j.text()
		if err != nil {
			return err
		}
		return field(key)
	})
}

func (j *jsonLoader) array(element func() error) error { return j.within('[', ']', element) }

func (j *jsonLoader) within(open, end jsontext.Kind, element func() error) error {
	tok, err := j.dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != open {
		return fmt.Errorf("expected %c, saw %s", open, shorten([]byte(tok.String())))
	}
	// Without a further element, for whatever reason, the next token says which.
	for next := j.dec.PeekKind(); next != end && next != jsontext.KindInvalid; next = j.dec.PeekKind() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = j.dec.ReadToken()
	return err
}

// text reads a string.
func (j *jsonLoader) text() (string, error) {
	tok, err := j.dec.ReadToken()
	if err != nil {
		return "", err
	}
	return tok.String(), nil
}

// noEOF tells the end of the input within a document from that after one.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// tokenReader fails where its decoder has more than maxToken in memory.
type tokenReader struct {
	r   io.Reader
	dec *jsontext.Decoder
	n   int64 // bytes read
}

func (t *tokenReader) Read(p []byte) (int, error) {
	if t.n-t.dec.InputOffset() > maxToken {
		return 0, &limitError{fmt.Sprintf("more than %d MiB of JSON in one piece", maxToken>>20)}
	}
	n, err := t.r.Read(p)
	t.n += int64(n)
	return n, err
}
