package memory

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql/parser"
)

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"up{instance=\"x\",job=\"y\"} 1 1700000000.000\nup NaN 15\n# EOF\n",
		"# TYPE a counter\na_total{b=\"q\\\"\\\\\\n\"} 1e9 1 # {t=\"x\"} 1 1\na_created 1 1\n",
		"{\"a.b\",c=\"d\"} +Inf\n{__name__=\"a\", b=\"\\u00a0\"} 1 1700000000000\n",
		"a{b=\"1\"",
		"h {count:5} 1\n",
		matrix(`{"metric":{"__name__":"up"},"values":[[1,"1"],[2,"NaN"],[],[[3,"x"]]]},{"metric":{"__name__":"h"},"histogram":[1,{}]}`),
		`{"status":"error","errorType":"bad_data","error":"x"}{"data":null}`,
		`{"data":{"result":[1,{},null,{"metric":null,"value":"]["}]}}`,
	} {
		for format := OpenMetrics; format <= JSON; format++ {
			f.Add(int(format), seed)
		}
	}
	f.Fuzz(func(t *testing.T, format int, text string) {
		Sniff([]byte(text))
		s := New()
		opt := LoadOptions{Format: Format(max(format, 0) % 5), At: at(1), Labels: map[string]string{"job": "app"}, MaxLine: 1 << 10, MaxSeries: 50, MaxSamples: 200}
		got, err := s.Load("f", strings.NewReader(text), opt)
		st := s.Stats()
		if st.Samples > got.Samples || st.Series > got.Series || st.Samples > 200 || st.Series > 50 {
			t.Errorf("read %+v, and %+v is in the store (%v)", got, st, err)
		}
		if st.Samples+st.Duplicates+st.Conflicts > got.Samples {
			t.Errorf("%+v of %d samples", st, got.Samples)
		}
		for _, x := range s.all {
			if !increasing(x.ts) || len(x.ts) != len(x.vs) || x.labels.Get(model.MetricNameLabel) == "" {
				t.Errorf("%s has %v of %v", x.labels, x.vs, x.ts)
			}
		}
	})
}

// FuzzSeries compares the parser of labels with Prometheus' own: what
// textparse takes, and PromQL's parser of promtool tsdb dump's lines, means
// the same here.
func FuzzSeries(f *testing.F) {
	for _, seed := range []string{
		`up`, `up{}`, `up{job="a"}`, `up{job="a",}`, `a:b{le="+Inf",c=""}`, `{"a.b"}`, `{"a.b",c="d"}`, `{c="d","a.b"}`, `{"a.b","c.d"="e"}`,
		`a{b="\\\"\n\t"}`, `a {b="c"}`, `a{ b = "c" , d = "e" }`, `{__name__="up", job="z\"q\\e\n\té"}`, `a{b="c"`, `a{b=c}`, `a{b="c" d="e"}`, `9`, `a{b="\x41\u00e9"}`, "{\"\xe9\"}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 || strings.ContainsAny(text, "\r\n") || strings.ContainsFunc(text, isControl) {
			return // one line of text
		}
		line := []byte(text + " 1\n")
		if p := textparse.NewPromParser(line, labels.NewSymbolTable(), false); text != "" && text == strings.TrimSpace(text) {
			if kind, err := p.Next(); err == nil && kind == textparse.EntrySeries {
				if _, ts, v := p.Series(); v == 1 && ts == nil {
					var want labels.Labels
					p.Labels(&want)
					compare(t, text, false, want)
				}
			}
		}
		if strings.HasPrefix(text, `{__name__="`) && !strings.ContainsAny(text, "'`#") {
			if want, err := parser.NewParser(parser.Options{}).ParseMetric(text); err == nil {
				compare(t, text, true, want)
			}
		}
	})
}

func compare(t *testing.T, text string, goEscapes bool, want labels.Labels) {
	t.Helper()
	if _, twice := want.HasDuplicateLabelNames(); twice || want.Get(model.MetricNameLabel) == "" || !utf8.ValidString(text) {
		return // which Prometheus refuses later, as names that are not UTF-8
	}
	want = want.WithoutEmpty()
	series, rest, err := cutSeries([]byte(text + " 1"))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if v, _ := cutField([]byte(strings.TrimSpace(string(rest)))); string(v) != "1" {
		t.Fatalf("%q: cut off %q", text, rest)
	}
	got, err := parseSeries(string(series), goEscapes)
	if err != nil {
		t.Fatalf("%q: %v, Prometheus reads %s", text, err, want)
	}
	if have := labels.New(got...); !labels.Equal(have, want) {
		t.Errorf("%q: got %s, want %s", text, have, want)
	}
}
