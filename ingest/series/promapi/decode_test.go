package promapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

func TestRangeValues(t *testing.T) {
	t.Parallel()
	a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, matrix(`{"metric":{"b":"\u00e9\n","a":"1"},"values":[[1700000000,"NaN"],[1700000001.0,"+Inf"], [ 1.700000002e9 , "-0.5e-3"]],"histograms":[[1700000003,{"count":"1"}]]}`,
			`{"metric":{"only":"histograms"},"histograms":[[1700000000,{"count":"1"}]]}`, `{"metric":{},"values":[]}`))
	})
	m, err := rangeOf(t, a, 4, time.Second)
	if err != nil || len(m) != 1 {
		t.Fatalf("got %v, %v", m, err)
	}
	f := m[0].Floats
	if !labels.Equal(m[0].Metric, labels.FromStrings("a", "1", "b", "é\n")) || len(f) != 3 ||
		!math.IsNaN(f[0].F) || !math.IsInf(f[1].F, 1) || f[2].F != -0.0005 || f[2].T != 1_700_000_002_000 {
		t.Errorf("got %v", m)
	}
}

// A server that gives nonsense gets an error that says so, for that query.
func TestHostile(t *testing.T) {
	t.Parallel()
	values := func(v string) string { return matrix(`{"metric":{},"values":[` + v + `]}`) }
	deep := strings.Repeat("[", 100_000)
	tests := []struct{ name, body, want string }{
		{"huge number", values(`[1700000000,"1e999"]`), "number in quotes, saw | 1e999"},
		{"huge time", values(`[1e300,"1"]`), "a time that was asked for, saw 1e300"},
		{"endless time", values(`[1e999,"1"]`), "a time in seconds, saw 1e999"},
		{"time before", values(`[1699999999,"1"]`), "a time that was asked for"},
		{"time after", values(`[1700000010,"1"]`), "a time that was asked for"},
		{"time in words", values(`["1700000000","1"]`), "a time in seconds"},
		{"no time", values(`[null,"1"]`), "a time in seconds, saw null"},
		{"bare number", values(`[1700000000,1]`), "a number in quotes, saw 1"},
		{"word", values(`[1700000000,"one"]`), "a number in quotes"},
		{"no value", values(`[1700000000]`), "a number in quotes"},
		{"two values", values(`[1700000000,"1","2"]`), "a number in quotes"},
		{"no sample", values(`[]`), "a time in seconds"},
		{"number for sample", values(`1`), "/data/result/0/values/0: expected a sample"},
		{"object for sample", values(`{"1":"2"}`), "expected a sample"},
		{"deep sample", values(deep), "saw another"},
		{"unsorted", values(`[1700000002,"1"],[1700000001,"1"]`), "ascending times"},
		{"one time twice", values(`[1700000002,"1"],[1700000002,"1"]`), "ascending times"},
		{"value and values", matrix(`{"metric":{},"value":[1700000002,"1"],"values":[[1700000001,"1"]]}`), "ascending times"},
		{"one series twice", matrix(`{"metric":{"a":"1"},"values":[[1700000000,"1"]]}`, `{"metric":{"a":"1"},"values":[[1700000001,"1"]]}`), `each series once, saw {a="1"} twice`},
		{"one label twice", matrix(`{"metric":{"a":"1","a":"2"},"values":[[1700000000,"1"]]}`), "duplicate object member name"},
		{"label without a name", matrix(`{"metric":{"":"1"},"values":[[1700000000,"1"]]}`), "labels with a name"},
		{"long label", matrix(`{"metric":{"a":"` + strings.Repeat("x", maxLabelBytes+1) + `"},"values":[[1700000000,"1"]]}`), "at most 1048576 bytes"},
		{"number for label", matrix(`{"metric":{"a":1},"values":[[1700000000,"1"]]}`), "/metric/a: expected a string, saw 1"},
		{"labels in a list", matrix(`{"metric":[],"values":[[1700000000,"1"]]}`), "expected an object"},
		{"bad UTF-8", matrix("{\"metric\":{\"a\":\"\xff\"},\"values\":[[1700000000,\"1\"]]}"), "UTF-8"},
		{"number for series", matrix(`{}`, `5`), "expected an object, saw 5"},
		{"object for result", success(`{"result":{}}`), "a list of series"},
		{"text for data", success(`"x"`), "expected an object, saw x"},
		{"no data", `{"status":"success"}`, "saw another: it has no data"},
		{"null for data", success(`null`), "saw another: it has no data"},
		{"no result", success(`{"resultType":"matrix"}`), "saw another: it has no data"},
		{"number for status", `{"status":1,"data":{"result":[]}}`, "no answer of a Prometheus API"},
		{"number in warnings", `{"status":"success","warnings":[1]}`, "expected a string"},
		{"more after it", matrix() + matrix(), "the end of the answer, saw more"},
		{"no JSON in it", `{"status":"success","data":oops}`, "invalid"},
		{"cut off", values(`[1700000000,"1"`)[:80], "cut off after 80 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, _ := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, tt.body) })
			m, err := rangeOf(t, a, 10, time.Second)
			if m != nil {
				t.Errorf("got %v", m)
			}
			wantError(t, err, tt.name == "number for status", tt.want)
			if len(err.Error()) > 3*maxQuoted {
				t.Errorf("an error of %d bytes: %.300s", len(err.Error()), err)
			}
		})
	}
}

func TestHostileEndless(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, head, more, want string }{
		{"space", " ", " ", "no answer of a Prometheus API"},
		{"string", `{"status":"`, "x", "at most 100000 bytes"},
		{"list", `{"status":[`, "[],", "at most 100000 bytes"},
		{"samples", `{"status":"success","data":{"result":[{"metric":{},"values":[`, `[1700000000,"1"],`, "ascending times"},
		{"series", `{"status":"success","data":{"result":[`, `{"metric":{}},`, "at most 100000 bytes"},
		{"warnings", `{"status":"success","warnings":[`, `"warning",`, "at most 100000 bytes"},
		{"after the end", matrix(), " ", "at most 100000 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, _ := serve(t, Options{MaxBytes: 100_000, MaxPoints: 10}, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, tt.head)
				for more := strings.Repeat(tt.more, 1000); ; {
					if _, err := io.WriteString(w, more); err != nil {
						return
					}
				}
			})
			_, err := rangeOf(t, a, 10, time.Second)
			wantError(t, err, tt.name == "space", tt.want)
		})
	}
}

// One string is not read into memory without end, wherever it is.
func TestHostileStrings(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"label":     `{"status":"success","data":{"result":[{"metric":{"a":"`,
		"name":      `{"status":"success","data":{"result":[{"metric":{"`,
		"value":     `{"status":"success","data":{"result":[{"metric":{},"values":[[1700000000,"`,
		"sample":    `{"status":"success","data":{"result":[{"metric":{},"values":[[`,
		"another":   `{"status":"success","data":{"stats":{"x":["`,
		"the error": `{"status":"error","error":"`,
		"a key":     `{"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := io.MultiReader(strings.NewReader(head), strings.NewReader(strings.Repeat("1", 4*maxToken)))
			s := samples{most: 10, left: 10, from: 0, to: maxTime}
			if _, err := decodeAnswer(in, s.data); !errors.Is(err, errTokenTooLong) {
				t.Errorf("got %v", err)
			}
		})
	}
	// What is long in all, but not in one piece, is read.
	long := `{"status":"success","stats":[` + strings.Repeat(`"`+strings.Repeat("x", maxToken/4)+`",`, 8) + `1],"data":[]}`
	if _, err := decodeAnswer(strings.NewReader(long), func(dec *jsontext.Decoder) error { return dec.SkipValue() }); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		matrix(`{"metric":{"a":"1"},"values":[[1700000000,"NaN"],[1700000001.5,"1e3"]]}`),
		vector(one), success(`{"resultType":"scalar","result":[1700000000,"2.5"]}`), success("[]"),
		`{"status":"error","errorType":"bad_data","error":"x","warnings":["y"],"isPartial":true}`, `{"status":`, "", "<html>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := samples{most: 100, left: 1000, from: -maxTime, to: maxTime}
		if _, err := decodeAnswer(bytes.NewReader(data), s.data); err != nil {
			return
		}
		n := 0
		for _, series := range s.series {
			n += len(series.Floats)
			if len(series.Floats) == 0 {
				t.Error("a series without samples")
			}
			for i := range len(series.Floats) - 1 {
				if series.Floats[i].T >= series.Floats[i+1].T {
					t.Error("times do not ascend")
				}
			}
			series.Metric.Range(func(l labels.Label) {
				if l.Name == "" || l.Value == "" {
					t.Errorf("label %q=%q", l.Name, l.Value)
				}
			})
		}
		if n > 1000 || len(s.series) > 100 {
			t.Errorf("%d samples of %d series", n, len(s.series))
		}
	})
}

// largeAnswer is 1,000 series of 720 points, half of them whole numbers.
func largeAnswer() []byte {
	var b bytes.Buffer
	b.WriteString(`{"status":"success","data":{"resultType":"matrix","result":[`)
	for s := range 1000 {
		if s > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"metric":{"__name__":"contend:inflight","instance":"10.0.%d.%d:8080","job":"gateway"},"values":[`, s/256, s%256)
		for i := range 720 {
			if i > 0 {
				b.WriteByte(',')
			}
			value := strconv.Itoa(i % 40)
			if s%2 == 0 {
				value = strconv.FormatFloat(float64(i*s)/7, 'f', -1, 64)
			}
			fmt.Fprintf(&b, `[%d,"%s"]`, 1_700_000_000+10*i, value)
		}
		b.WriteString("]}")
	}
	b.WriteString("]}}")
	return b.Bytes()
}

// BenchmarkDecode also runs encoding/json into the types of Prometheus' model,
// and reports how many times slower that is.
func BenchmarkDecode(b *testing.B) {
	data := largeAnswer()
	peer := time.Now()
	var want struct{ Data struct{ Result model.Matrix } }
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&want); err != nil {
		b.Fatal(err)
	}
	took := time.Since(peer)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		s := samples{most: 1000, left: 720_000, from: 0, to: maxTime}
		if _, err := decodeAnswer(struct{ io.Reader }{bytes.NewReader(data)}, s.data); err != nil {
			b.Fatal(err)
		}
		if len(s.series) != len(want.Data.Result) || s.left != 0 {
			b.Fatal(errors.New("not all was read"))
		}
	}
	b.ReportMetric(float64(took)/(float64(b.Elapsed())/float64(b.N)), "x-encoding/json")
}
