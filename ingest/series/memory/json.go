package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// maxElement limits what of JSON is in memory at once: one series. A month at
// 15 s is 5 MB.
const maxElement = 64 << 20

// loadJSON reads answers of the HTTP API, one or several, one after another:
//
//	{"status":"success","data":{"resultType":"matrix","result":[
//	  {"metric":{"__name__":"up","job":"a"},"values":[[1700000000.123,"1"],…]},…]}}
//
// See https://prometheus.io/docs/prometheus/latest/querying/api/.
func (l *loader) loadJSON(r io.Reader) error {
	in := &portionReader{r: r}
	j := &jsonLoader{loader: l, in: in, dec: json.NewDecoder(in)}
	var failed []error
	for {
		in.n = 0
		err := j.document()
		if err == io.EOF {
			break
		}
		if api, ok := errors.AsType[*apiError](err); ok {
			failed = append(failed, api)
			continue
		}
		if err != nil {
			rest := "; what came before that was read"
			if _, limit := errors.AsType[*limitError](err); limit {
				rest = ""
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				rest += "; was the file cut off?"
			}
			failed = append(failed, fmt.Errorf("at byte %d: %w%s", j.dec.InputOffset(), err, rest))
			break
		}
	}
	if j.nameless > 0 {
		l.note("without a name, as results of expressions: %d series, left out; save those of a plain selector, such as {job=\"gateway\"}", j.nameless)
	}
	return errors.Join(failed...)
}

// apiError is what the API said instead of a result.
type apiError struct{ kind, message string }

func (e *apiError) Error() string {
	return fmt.Sprintf("expected a result of the Prometheus API, saw its error: %s: %s", e.kind, e.message)
}

type jsonLoader struct {
	*loader
	in       *portionReader
	dec      *json.Decoder
	results  int
	nameless int
}

// document reads one answer. It is io.EOF where there is none.
func (j *jsonLoader) document() error {
	if err := j.open('{'); err != nil {
		return err
	}
	var status, kind, message string
	for {
		key, err := j.key()
		switch {
		case err != nil:
			return noEOF(err)
		case key == "" && status == "error":
			return &apiError{kind, message}
		case key == "":
			return nil
		case key == "status":
			err = j.dec.Decode(&status)
		case key == "errorType":
			err = j.dec.Decode(&kind)
		case key == "error":
			err = j.dec.Decode(&message)
		case key == "data":
			err = j.data()
		default:
			err = j.skip()
		}
		if err != nil {
			return noEOF(err)
		}
	}
}

// data reads the object that the result is in. An error has null in its place.
func (j *jsonLoader) data() error {
	tok, err := j.dec.Token()
	if err != nil || tok == nil {
		return err
	}
	if tok != json.Delim('{') {
		return errors.New("expected the data of a query or query_range, saw that of another request")
	}
	for {
		key, err := j.key()
		switch {
		case err != nil || key == "":
			return err
		case key == "result":
			err = j.result()
		default:
			err = j.skip()
		}
		if err != nil {
			return err
		}
	}
}

func (j *jsonLoader) result() error {
	if err := j.open('['); err != nil {
		return err
	}
	for j.dec.More() {
		j.in.n = 0
		var raw json.RawMessage
		if err := j.dec.Decode(&raw); err != nil {
			return err
		}
		j.results++
		if err := j.element(raw); err != nil {
			if _, limit := errors.AsType[*limitError](err); limit {
				return err
			}
			j.bad(fmt.Sprintf("result %d", j.results), err, raw)
		}
	}
	_, err := j.dec.Token()
	return err
}

// element reads one series.
func (j *jsonLoader) element(raw []byte) error {
	var x struct {
		Metric     map[string]string
		Value      json.RawMessage // [time, "value"]
		Values     json.RawMessage // [[time, "value"], …]
		Histogram  json.RawMessage // [time, {…}]
		Histograms []json.RawMessage
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return errors.New("expected a series with metric and value or values")
	}
	j.loaded.Histograms += len(x.Histograms)
	if x.Histogram != nil {
		j.loaded.Histograms++
	}
	if x.Value == nil && x.Values == nil {
		if x.Histogram == nil && x.Histograms == nil {
			return errors.New("expected a series with metric and value or values")
		}
		return nil
	}
	if x.Metric[model.MetricNameLabel] == "" {
		j.nameless++
		return nil
	}
	own := make([]labels.Label, 0, len(x.Metric))
	for name, v := range x.Metric {
		if len(name) > maxLabel || len(v) > maxLabel {
			return errLabel
		}
		if name != "" && v != "" { // which is no label
			own = append(own, labels.Label{Name: name, Value: v})
		}
	}
	e, err := j.entry(own)
	if err != nil {
		return err
	}
	if err := j.points(e, x.Values); err != nil {
		return err
	}
	return j.points(e, x.Value)
}

// points reads the pairs of time and value that are in JSON known to be valid.
// It takes apart by brackets what encoding/json would make three allocations
// of for each sample.
func (j *jsonLoader) points(e *entry, raw []byte) error {
	for {
		end := bytes.IndexByte(raw, ']')
		start := bytes.LastIndexByte(raw[:max(end, 0)], '[')
		if start < 0 {
			return nil
		}
		pair := raw[start+1 : end]
		raw = raw[end+1:]
		at, quoted, ok := bytes.Cut(pair, []byte(","))
		if !ok && len(bytes.TrimSpace(pair)) == 0 {
			continue // a series without samples
		}
		s, errTime := parseFloat(bytes.TrimSpace(at))
		v, errValue := parseFloat(bytes.Trim(bytes.TrimSpace(quoted), `"`))
		if errTime != nil || errValue != nil || !(math.Abs(s) <= maxTime/1000) {
			j.bad(fmt.Sprintf("result %d", j.results), errors.New("expected a time in seconds and a value in quotes"), pair)
			continue
		}
		if err := j.put(e, int64(math.Round(s*1000)), v); err != nil {
			return err
		}
	}
}

// open takes the bracket that opens an object or an array.
func (j *jsonLoader) open(want json.Delim) error {
	tok, err := j.dec.Token()
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("expected %v, saw %s", want, shorten(fmt.Append(nil, tok)))
	}
	return nil
}

// key takes the next key of an object, or its end, which is "".
func (j *jsonLoader) key() (string, error) {
	tok, err := j.dec.Token()
	if err != nil {
		return "", err
	}
	key, _ := tok.(string)
	if key == "" && tok != json.Delim('}') {
		return "", errors.New("expected a key, saw an empty one")
	}
	return key, nil
}

func (j *jsonLoader) skip() error {
	var raw json.RawMessage
	return j.dec.Decode(&raw)
}

// noEOF tells the end of the input within a document from that after one.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// portionReader fails where more is read than maxElement, since n was 0.
type portionReader struct {
	r io.Reader
	n int
}

func (p *portionReader) Read(b []byte) (int, error) {
	if p.n > maxElement {
		return 0, &limitError{fmt.Sprintf("more than %d MiB of JSON in one piece", maxElement>>20)}
	}
	n, err := p.r.Read(b)
	p.n += n
	return n, err
}
