package memory

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// manyLabels is n times a format, each with its number.
func manyLabels(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// matrix is an answer of query_range with these results.
func matrix(results string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + results + `]}}`
}

func TestLoadJSON(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text  string
		want  string
		read  Loaded // without notes
		notes string
		err   string
	}{
		"query_range": {matrix(`{"metric":{"__name__":"up","job":"a"},"values":[[1700000000.123,"1"],[1700000015,"NaN"],[1700000030,"+Inf"]]},
			{"metric":{"job":"b","__name__":"up"},"values":[[1,"-1e-3"]]}`),
			"{__name__=\"up\", job=\"a\"} 1@1.700000000123e+09 stale@1.700000015e+09 +Inf@1.70000003e+09\n{__name__=\"up\", job=\"b\"} -0.001@1",
			Loaded{Series: 2, Samples: 4}, "", ""},
		"query": {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1.5,"1"]}]}}`,
			`{__name__="up"} 1@1.5`, Loaded{Series: 1, Samples: 1}, "", ""},
		"several answers": {matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]}`) + "\n" + matrix(`{"metric":{"__name__":"a"},"values":[[2,"2"]]}`) + matrix(``) + "\n\n",
			`{__name__="a"} 1@1 2@2`, Loaded{Series: 2, Samples: 2}, "", ""},
		"other keys and their order": {`{"isPartial":false,"data":{"stats":{"x":[1,{"y":2}]},"result":[ { "values" : [ [ 1 , "1" ] , [ 2 , "2" ] ], "metric" : {"__name__":"a","e":"q\"\u00e9"} } ],"resultType":"matrix"},"warnings":["w"],"status":"success"}`,
			`{__name__="a", e="q\"é"} 1@1 2@2`, Loaded{Series: 1, Samples: 2}, "the server said: w", ""},
		"empty":                    {matrix(``), "", Loaded{}, "", ""},
		"a series without samples": {matrix(`{"metric":{"__name__":"a"},"values":[]}`), `{__name__="a"}`, Loaded{Series: 1}, "", ""},
		"native histograms": {matrix(`{"metric":{"__name__":"h"},"histograms":[[1,{"count":"1","sum":"2","buckets":[[0,"1","2","1"]]}],[2,{"count":"1"}]]},{"metric":{"__name__":"a"},"values":[[1,"1"]],"histograms":[[2,{}]]},{"metric":{"__name__":"h"},"histogram":[1,{}]}`),
			`{__name__="a"} 1@1`, Loaded{Series: 1, Samples: 1, Histograms: 4}, "native histograms: 4 samples, left out; scrape", ""},
		"without a name": {matrix(`{"metric":{"job":"a"},"values":[[1,"1"]]},{"metric":{},"values":[[1,"1"]]},{"metric":{"__name__":"a"},"values":[[1,"1"]]}`),
			`{__name__="a"} 1@1`, Loaded{Series: 1, Samples: 1}, "without a name, as results of expressions: 2 series, left out", ""},
		"bad results": {matrix(`5,{"metric":{"__name__":"a"},"values":[[1,"1"],["x","1"],[2],[2,"y"],[1e300,"1"],[3,"3"]]},{"metric":{"__name__":"a"}},{"metric":{"__name__":"a","b":5},"values":[[1,"1"]]},{"metric":{"__name__":"b"},"values":[[1,"1"],[2,"1"],[3,"1"],[4,"1"],[5,"1"],[6,"1"]]}`),
			"{__name__=\"a\"} 1@1 3@3\n{__name__=\"b\"} 1@1 1@2 1@3 1@4 1@5 1@6", Loaded{Series: 2, Samples: 8, Bad: 7},
			`no samples: 7 results, left out: result 1, expected a series with metric and value or values: "5"; result 2, expected a time in seconds and a value in quotes: "\"x\",\"1\""; result 2, `, ""},
		"a scalar": {`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, "", Loaded{Bad: 2}, "no samples: 2 results, left out: ", "expected JSON of the Prometheus API, but 2 of its 2 samples are not"},
		"an error": {`{"status":"error","errorType":"bad_data","error":"1:3: parse error"}`, "", Loaded{}, "", "expected a result of the Prometheus API, saw its error: bad_data: 1:3: parse error"},
		"an error between": {matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]}`) + `{"status":"error","errorType":"timeout","error":"slow","data":null}` + matrix(`{"metric":{"__name__":"a"},"values":[[2,"2"]]}`),
			`{__name__="a"} 1@1 2@2`, Loaded{Series: 2, Samples: 2}, "", "saw its error: timeout: slow"},
		"cut off": {strings.TrimSuffix(matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]},{"metric":{"__name__":"b"},"values":[[1,"1"]`), "]}}"),
			"{__name__=\"a\"} 1@1\n{__name__=\"b\"} 1@1", Loaded{Series: 2, Samples: 2}, "", "at byte 151: unexpected EOF; was the file cut off?; what came before that was read"},
		"cut off in a sample":       {matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"],[2,"2"],[3,"3"`)[:119], `{__name__="a"} 1@1 2@2`, Loaded{Series: 1, Samples: 2}, "", "at byte 119: unexpected EOF; was the file cut off?; what came before that was read"},
		"cut off before its labels": {matrix(`{"values":[[1,"1"],[2,"2"]]`)[:80], "", Loaded{}, "", "at byte 80: unexpected EOF; was the file cut off?"},
		"cut off between":           {`{"status":"success",`, "", Loaded{}, "", "at byte 20: unexpected EOF; was the file cut off?"},
		"not JSON":                  {matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]}`) + "\n<html>", `{__name__="a"} 1@1`, Loaded{Series: 1, Samples: 1}, "", "at byte 110: invalid character '<' at start of value; what came before that was read"},
		"not JSON at all":           {`{"data":oops`, "", Loaded{}, "", "at byte 8: invalid character 'o' at start of value"},
		"no data":                   {`{"status":"success"}` + matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]}`), `{__name__="a"} 1@1`, Loaded{Series: 1, Samples: 1}, "", "saw an answer without data"},
		"null for data":             {`{"status":"success","data":null}`, "", Loaded{}, "", "saw an answer without data"},
		"what the server said": {`{"status":"success","warnings":["one  store\nat http://me:hunter2@store/?t=hunter2 is down","again","again"],"infos":["rate of a gauge",5],"isPartial":true,"data":{"result":[{"metric":{"__name__":"a"},"value":[1,"1"]}]}}`,
			`{__name__="a"} 1@1`, Loaded{Series: 1, Samples: 1}, "the server said: one store at http://store/?xxxxx is down\nthe server said: again\nthe server said: rate of a gauge\nthe server said that its answer is partial: ", ""},
		"an error without a reason": {`{"status":"error"}`, "", Loaded{}, "", "saw its error: error: no reason given"},
		"an error with credentials": {`{"status":"error","errorType":"execution","error":"asking http://me:hunter2@store/x?token=hunter2 failed"}`, "", Loaded{}, "", "saw its error: execution: asking http://store/x?xxxxx failed"},
		"labels after samples": {matrix(`{"values":[[1,"1"]],"value":[2,"2"],"metric":{"__name__":"a"}},{"values":[[1,"1"]],"metric":{}},{"values":[[1,"1"]]},{"values":[[1,"1"]],"metric":5}`),
			`{__name__="a"} 1@1 2@2`, Loaded{Series: 1, Samples: 2, Bad: 1}, `without a name, as results of expressions: 2 series, left out; save those of a plain selector, such as {job="gateway"}` + "\n" + `no samples: 1 result, left out: result 4, expected a series with metric and value or values: "5"`, ""},
		"keys twice":         {matrix(`{"metric":{"__name__":"a","b":"1","b":"2"},"values":[[1,"1"]]}`), `{__name__="a", b="2"} 1@1`, Loaded{Series: 1, Samples: 1}, "", ""},
		"of another request": {`{"status":"success","data":["up"]}`, "", Loaded{}, "", "expected the data of a query or query_range"},
		"not an object":      {`[1]`, "", Loaded{}, "", `expected {, saw "["`},
		"a result, no list":  {`{"data":{"result":{}}}`, "", Loaded{}, "", `expected [, saw "{"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New()
			got, err := s.Load("f", iotest.OneByteReader(strings.NewReader(tc.text)), LoadOptions{Format: JSON})
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			notes := strings.Join(got.Notes, "\n")
			if tc.notes == "" && notes != "" || !strings.HasPrefix(notes, tc.notes) {
				t.Errorf("got notes %s\nwant %s", notes, tc.notes)
			}
			got.Notes = nil
			if !reflect.DeepEqual(got, tc.read) {
				t.Errorf("got %+v, want %+v", got, tc.read)
			}
			if strings.Contains(fmt.Sprint(err, notes), "hunter2") {
				t.Errorf("a password is shown: %v, %s", err, notes)
			}
			if have := dump(t, s); have != tc.want {
				t.Errorf("got\n%s\nwant\n%s", have, tc.want)
			}
		})
	}
}

func TestLoadJSONManyLabels(t *testing.T) {
	t.Parallel()
	text := matrix(`{"metric":{"__name__":"a"` + manyLabels(`,"l%d":"x"`, maxLabels) + `},"values":[[1,"1"]]},
		{"metric":{"__name__":"b"` + manyLabels(`,"l%d":"x"`, maxLabels-1) + `},"values":[[1,"1"]]}`)
	s := New()
	got, err := s.Load("f", strings.NewReader(text), LoadOptions{Format: JSON})
	want := Loaded{Series: 1, Samples: 1, Bad: 1, Notes: []string{`no samples: 1 result, left out: result 1, expected at most 500 labels: "l499"`}}
	if err != nil || !reflect.DeepEqual(got, want) || len(s.Columns("b")) != 1 {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestLoadJSONLabels(t *testing.T) {
	t.Parallel()
	s := New()
	opt := LoadOptions{Format: JSON, Labels: map[string]string{"job": "app"}}
	text := matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]},{"metric":{"__name__":"a","job":"own"},"values":[[1,"2"]]}`)
	if _, err := s.Load("f", strings.NewReader(text), opt); err != nil {
		t.Fatal(err)
	}
	if got, want := dump(t, s), "{__name__=\"a\", job=\"app\"} 1@1\n{__name__=\"a\", job=\"own\"} 2@1"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// One string is in memory at once, and no more of it than a limit.
func TestLoadJSONPiece(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat(" ", 1<<20)
	text := []string{matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]}`), `{"status":"`}
	for range 4 * maxToken >> 20 {
		text = append(text, pad)
	}
	s := New()
	_, err := s.Load("f", strings.NewReader(strings.Join(text, "")), LoadOptions{Format: JSON})
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB of JSON in one piece") {
		t.Errorf("got %v", err)
	}
	if got := dump(t, s); got != `{__name__="a"} 1@1` {
		t.Errorf("got %s", got)
	}
}
