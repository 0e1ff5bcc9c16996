package memory

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// target is where a /metrics page is from.
var target = LoadOptions{Format: Text, At: at(1000), Labels: map[string]string{"job": "app", "instance": "a:80"}}

func TestLoadText(t *testing.T) {
	t.Parallel()
	om, dumped := LoadOptions{Format: OpenMetrics}, LoadOptions{Format: Dump}
	for name, tc := range map[string]struct {
		opt  LoadOptions
		text string
		want string // as dump writes it
		read Loaded // without notes
	}{
		"dump-openmetrics": {om, `up{instance="x",job="y"} 1 1700000000.000
up{instance="x",job="y"} NaN 1700000015.001
up{instance="z",job="y"} 1e+21 1700000000.000
# EOF
`, `{__name__="up", instance="x", job="y"} 1@1.7e+09 stale@1.700000015001e+09
{__name__="up", instance="z", job="y"} 1e+21@1.7e+09`, Loaded{Series: 2, Samples: 3}},
		"of an exporter": {om, `# HELP http_requests Requests.
# TYPE http_requests counter
# UNIT http_requests requests
http_requests_total{code="200"} 5 100 # {trace_id="abc} # {"} 0.5 99.5
http_requests_created{code="200"} 1 100
# TYPE latency_seconds histogram
latency_seconds_bucket{le="0.5"} 1 100 # {trace_id="abc"} 0.2
latency_seconds_bucket{le="+Inf"} 2 100
latency_seconds_count 2 100
latency_seconds_created 50 100
# TYPE kube_pod_created gauge
kube_pod_created 77 100
# EOF
`, `{__name__="http_requests_total", code="200"} 5@100
{__name__="kube_pod_created"} 77@100
{__name__="latency_seconds_bucket", le="+Inf"} 2@100
{__name__="latency_seconds_bucket", le="0.5"} 1@100
{__name__="latency_seconds_count"} 2@100`, Loaded{Series: 5, Samples: 5}},
		"names in quotes": {om, `{"http.server.active_requests",job="x"} 1 1.5
{job="x","http.route"="/a","http.server.active_requests"} 2 1.5
# EOF`, `{__name__="http.server.active_requests", "http.route"="/a", job="x"} 2@1.5
{__name__="http.server.active_requests", job="x"} 1@1.5`, Loaded{Series: 2, Samples: 2}},
		"names with dots and no quotes": {om, `http.server.active_requests{http.route="/a"} 1 1.5
# EOF`, `{__name__="http.server.active_requests", "http.route"="/a"} 1@1.5`, Loaded{Series: 1, Samples: 1}},
		"escapes": {om, `a{v="q\"b\\n\nt\tu{}=,# "} 1 1
# EOF`, `{__name__="a", v="q\"b\\n\nt\\tu{}=,# "} 1@1`, Loaded{Series: 1, Samples: 1}},
		"spaces, empty labels, line ends": {om, "a { b = \"1\" , c=\"\", }\t2  3 \r\n\n  a{b=\"1\"} 4 5\na{b=\"1\"}6 7\n# EOF\r\n",
			`{__name__="a", b="1"} 2@3 4@5 6@7`, Loaded{Series: 2, Samples: 3}},
		"a name that begins another": {om, "a 1 1\na{b=\"1\"} 2 1\na 3 2\na {b=\"1\"} 4 2\nab 5 1\n# EOF\n",
			"{__name__=\"a\", b=\"1\"} 2@1 4@2\n{__name__=\"a\"} 1@1 3@2\n{__name__=\"ab\"} 5@1", Loaded{Series: 4, Samples: 5}},
		"by scrape and not by series": {om, "a 1 1\nb 1 1\na 2 2\nb 2 2\n# EOF\n",
			"{__name__=\"a\"} 1@1 2@2\n{__name__=\"b\"} 1@1 2@2", Loaded{Series: 2, Samples: 4}},
		"out of order and twice": {om, "a 2 2\na 1 1\na 2 2\n# EOF\n", `{__name__="a"} 1@1 2@2`, Loaded{Series: 1, Samples: 3, OutOfOrder: 1}},
		"timestamps": {om, "a 1 1.0005\na 2 1.772539200966e9\na 3 -1\na 4 1772539200.967\n# EOF\n",
			`{__name__="a"} 3@-1 1@1.001 2@1.772539200966e+09 4@1.772539200967e+09`, Loaded{Series: 1, Samples: 4, OutOfOrder: 1}},
		"values": {om, "a +Inf 1\na -Inf 2\na 1e-9 3\na -0.5 4\na Nan 5\n# EOF\n",
			`{__name__="a"} +Inf@1 -Inf@2 1e-09@3 -0.5@4 stale@5`, Loaded{Series: 1, Samples: 5}},
		"the target's labels": {target, `# HELP up Up.
# TYPE up gauge
up 1
own{job="mine"} 2
own{job=""} 3
then 4 2000
`, `{__name__="own", instance="a:80", job="app"} 3@1000
{__name__="own", instance="a:80", job="mine"} 2@1000
{__name__="then", instance="a:80", job="app"} 4@2
{__name__="up", instance="a:80", job="app"} 1@1000`, Loaded{Series: 4, Samples: 4}},
		"OpenMetrics without timestamps": {LoadOptions{Format: OpenMetrics, At: at(5)}, "a 1 # {t=\"x\"} 1\n# EOF\n", `{__name__="a"} 1@5`, Loaded{Series: 1, Samples: 1}},
		"tsdb dump": {dumped, `{__name__="m_total", instance="x", job="y"} 1e+21 1700000000000
{__name__="up", instance="x", job="y"} 1 1700000000000
{__name__="up", instance="x", job="y"} NaN 1700000015000
{__name__="up", instance="x", job="z\"q\\e\n\té\u00a0"} 1 1700000015123
{__name__="h"} {count:5, sum:18.4, (0.5,1]:3} 1700000015123
{__name__="http.active", "http.route"="/a"} 1 1700000000000
`, "{__name__=\"http.active\", \"http.route\"=\"/a\"} 1@1.7e+09\n{__name__=\"m_total\", instance=\"x\", job=\"y\"} 1e+21@1.7e+09\n" +
			"{__name__=\"up\", instance=\"x\", job=\"y\"} 1@1.7e+09 stale@1.700000015e+09\n{__name__=\"up\", instance=\"x\", job=\"z\\\"q\\\\e\\n\\té\\u00a0\"} 1@1.700000015123e+09",
			Loaded{Series: 5, Samples: 5, Histograms: 1}},
		"nothing": {om, "# EOF\n", "", Loaded{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New()
			// One byte at a time: no line may depend on how it is read.
			got, err := s.Load("f", iotest.OneByteReader(strings.NewReader(tc.text)), tc.opt)
			if err != nil {
				t.Fatal(err)
			}
			notes := 0
			if tc.read.Histograms > 0 {
				notes = 1
			}
			if len(got.Notes) != notes {
				t.Errorf("got notes %q, want %d", got.Notes, notes)
			}
			if names := s.Histograms(); len(names) != notes || notes > 0 && names[0] != "h" {
				t.Errorf("native histograms of %q, want of h, %d", names, notes)
			}
			got.Notes = nil
			if !reflect.DeepEqual(got, tc.read) {
				t.Errorf("got %+v, want %+v", got, tc.read)
			}
			want := tc.want
			if have := dump(t, s); strings.TrimPrefix(strings.ReplaceAll(have, "{__name__=\"h\"}\n", ""), "\n") != want {
				t.Errorf("got\n%s\nwant\n%s", have, want)
			}
		})
	}
}

func TestLoadBadLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`up`:                      `expected a series and a value`,
		`up{job="x" 1 1`:          `expected a closing brace`,
		`up{job="x} 1 1`:          `expected a closing brace`,
		`up{job=x} 1 1`:           `expected a label's value in quotes`,
		`up{job} 1 1`:             `expected labels of the form name="value"`,
		`up{="x"} 1 1`:            `expected the name of a label`,
		`up{,} 1 1`:               `expected the name of a label`,
		`up{a="1",a="2"} 1 1`:     `expected each label once, saw "a" twice`,
		`up{__name__="down"} 1 1`: `expected each label once, saw "__name__" twice`,
		`{job="x"} 1 1`:           `expected the name of a metric`,
		`{"",job="x"} 1 1`:        `expected the name of a label`,
		`9up 1 1`:                 `expected a name of letters`,
		`up! 1 1`:                 `expected a name of letters`,
		"up{a=\"\xff\"} 1 1":      `expected UTF-8`,
		`up x 1`:                  `expected a number as value, saw "x"`,
		`up{a="b"}`:               `expected a number as value, saw ""`,
		`up 1_0 1`:                `expected a number as value, saw "1_0"`,
		`up 0x1p4 1`:              `expected a number as value`,
		`up 1e999 1`:              `expected a number as value`,
		`up 1`:                    `expected a timestamp, as the time of the scrape is not known`,
		`up 1 x`:                  `expected a timestamp in seconds since 1970, saw "x"`,
		`up 1 NaN`:                `expected a timestamp in seconds`,
		`up 1 1e300`:              `expected a timestamp in seconds`,
		`up 1 1700000000000`:      `expected a timestamp in seconds`,
		"up{a=\"b\x00\"} 1 1":     `expected text, saw a control character`,
		"\x00\x00up 1 1":          `expected text, saw a control character`,
		"up 1\x00 1":              `expected a number as value`,
		`a{x="y"` + manyLabels(`,l%d="x"`, maxLabels-1) + `} 1 1`: `expected at most 500 labels`,
		`up 1 1 1`:                      `expected the end of the line after the timestamp`,
		`panic: runtime error: [5] x y`: `expected a number as value, saw "runtime"`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			s := New()
			got, err := s.Load("f.om", strings.NewReader("a 1 1\n"+line+"\na 2 2\n# EOF\n"), LoadOptions{Format: OpenMetrics})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], "no samples: 1 line, left out: line 2, "+want) {
				t.Errorf("got %q, want %s", got.Notes, want)
			}
			if got.Samples != 2 || got.Bad != 1 {
				t.Errorf("got %+v", got)
			}
			if notes := s.Notes(); len(notes) != 1 || notes[0] != "f.om: "+got.Notes[0] {
				t.Errorf("the store notes %q", notes)
			}
			if names := dump(t, s); !strings.HasPrefix(names, `{__name__="a"} 1@1 2@2`) {
				t.Errorf("got %s", names)
			}
		})
	}
}

func TestLoadMostlyBad(t *testing.T) {
	t.Parallel()
	text := "a 1 1\n" + strings.Repeat("x", 300) + "\nb\n" + "c\n" + "# EOF\n"
	s := New()
	got, err := s.Load("f", strings.NewReader(text), LoadOptions{Format: OpenMetrics})
	want := `expected OpenMetrics text, but 3 of its 4 samples are not: line 2, expected a series and a value: "` + strings.Repeat("x", 100) + `"…; line 3, `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if got.Samples != 1 || dump(t, s) != `{__name__="a"} 1@1` {
		t.Errorf("got %+v: %s", got, dump(t, s))
	}
	// Half is not most.
	if _, err := New().Load("f", strings.NewReader("a 1 1\nb\n# EOF\n"), LoadOptions{Format: OpenMetrics}); err != nil {
		t.Error(err)
	}
	// Only the first few are shown.
	got, err = New().Load("f", strings.NewReader(strings.Repeat("a 1 1\nb\n", 9)+"# EOF\n"), LoadOptions{Format: OpenMetrics})
	if err != nil || len(got.Notes) != 1 || strings.Count(got.Notes[0], "line ") != 3 || !strings.HasSuffix(got.Notes[0], "; …") {
		t.Errorf("got %q, %v", got.Notes, err)
	}
}

func TestLoadCutOff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text  string
		opt   LoadOptions
		notes []string
	}{
		"without its end": {"a 1 1700000000\n", LoadOptions{Format: OpenMetrics}, []string{`there is no "# EOF" at its end; was the file cut off?`}},
		"within a line": {"a 1 1700000000\na 2 1700", LoadOptions{Format: OpenMetrics}, []string{
			`the last line does not end and was left out: "a 2 1700"; was the file cut off?`, `there is no "# EOF" at its end; was the file cut off?`}},
		"a page":               {"a 1\n", target, nil},
		"a page within a line": {"a 1\nb 12", target, []string{`the last line does not end and was left out: "b 12"; was the file cut off?`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := New().Load("f", strings.NewReader(tc.text), tc.opt)
			if err != nil || got.Samples != 1 || !reflect.DeepEqual(got.Notes, tc.notes) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	broken := errors.New("disk on fire")
	s := New()
	_, err := s.Load("f", io.MultiReader(strings.NewReader("a 1 1\na 2 2\na 3"), iotest.ErrReader(broken)), LoadOptions{Format: OpenMetrics})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "reading stopped after line 2: ") {
		t.Errorf("got %v", err)
	}
	if got := dump(t, s); got != `{__name__="a"} 1@1 2@2` {
		t.Errorf("got %s", got)
	}
}

func TestLoadLimits(t *testing.T) {
	t.Parallel()
	const text = "a 1 1\na 2 2\nb 1 1\n# EOF\n"
	for name, tc := range map[string]struct {
		text    string
		opt     LoadOptions
		want    string
		samples int
	}{
		"series":       {text, LoadOptions{Format: OpenMetrics, MaxSeries: 1}, "line 3: more than 1 series; give fewer series or a shorter time (promtool tsdb dump has --match and --min-time); what came before that was read", 2},
		"samples":      {text, LoadOptions{Format: OpenMetrics, MaxSamples: 1}, "line 2: more than 1 samples; give fewer", 1},
		"line":         {"a 1 1\na{x=\"" + strings.Repeat("y", 100) + "\"} 1 1\n# EOF\n", LoadOptions{Format: OpenMetrics, MaxLine: 64}, "line 2 is longer than 64 bytes; give fewer", 1},
		"label":        {"a 1 1\na{x=\"" + strings.Repeat("y", maxLabel+1) + "\"} 1 1\n# EOF\n", LoadOptions{Format: OpenMetrics}, "line 2: a label of more than 65536 bytes", 1},
		"line first":   {"a{x=\"" + strings.Repeat("y", 100) + "\"} 1 1\n# EOF\n", LoadOptions{Format: OpenMetrics, MaxLine: 64}, "line 1 is longer than 64 bytes; give", 0},
		"json series":  {matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"]]},{"metric":{"__name__":"b"},"values":[[1,"1"]]}`), LoadOptions{Format: JSON, MaxSeries: 1}, "more than 1 series; give", 1},
		"json samples": {matrix(`{"metric":{"__name__":"a"},"values":[[1,"1"],[2,"1"]]}`), LoadOptions{Format: JSON, MaxSamples: 1}, "more than 1 samples; give", 1},
		"json label":   {matrix(`{"metric":{"__name__":"a"},"value":[1,"1"]},{"metric":{"__name__":"a","x":"` + strings.Repeat("y", maxLabel+1) + `"},"value":[1,"1"]}`), LoadOptions{Format: JSON}, "a label of more than 65536 bytes; give", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New()
			got, err := s.Load("f", strings.NewReader(tc.text), tc.opt)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if kept := strings.HasSuffix(err.Error(), "; what came before that was read"); kept != (tc.samples > 0) {
				t.Errorf("%v, and %d samples were read", err, tc.samples)
			}
			if got.Samples != tc.samples || s.Stats().Samples != tc.samples {
				t.Errorf("got %+v, and %+v in the store", got, s.Stats())
			}
		})
	}
	// The limits are the store's: a second file has what the first left.
	s := New()
	for _, in := range []struct{ text, want string }{{"a 1 1\n# EOF\n", ""}, {"a 2 2\n# EOF\n", ""}, {"a 3 3\n# EOF\n", "more than 2 samples"}} {
		_, err := s.Load("f", strings.NewReader(in.text), LoadOptions{Format: OpenMetrics, MaxSamples: 2, MaxSeries: 1})
		if (err == nil) != (in.want == "") || err != nil && !strings.Contains(err.Error(), in.want) {
			t.Errorf("%s: got %v", in.text, err)
		}
	}
}

// As many labels as there may be are read, however many lines have them.
func TestLoadManyLabels(t *testing.T) {
	t.Parallel()
	s := New()
	text := "a{" + strings.TrimPrefix(manyLabels(`,l%d="x"`, maxLabels-1), ",") + "} 1 1\n# EOF\n"
	if got, err := s.Load("f", strings.NewReader(text), LoadOptions{Format: OpenMetrics}); err != nil || got.Samples != 1 || got.Bad != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if got := Sniff([]byte(text)); got != OpenMetrics {
		t.Errorf("taken for %s", got)
	}
	if got := Sniff([]byte("a{" + strings.TrimPrefix(manyLabels(`,l%d="x"`, maxLabels), ",") + "} 1 1\n")); got != None {
		t.Errorf("one more is taken for %s", got)
	}
}

// A label of colours and tabs is text; one of other control characters is not,
// and loses its own line alone.
func TestLoadControlCharacters(t *testing.T) {
	t.Parallel()
	s := New()
	text := "\x00\x00\x00# TYPE a gauge\na{b=\"\x1b[1m\t\"} 1 1\na{b=\"\x07\"} 1 1\n" + strings.Repeat("a 1 1\n", 20) + "# EOF\n\x00\x00"
	if got := Sniff([]byte(text)); got != OpenMetrics {
		t.Errorf("taken for %s", got)
	}
	got, err := s.Load("f", strings.NewReader(text), LoadOptions{Format: OpenMetrics})
	if err != nil || got.Samples != 21 || got.Bad != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestLoadStale(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a NaN 1\na NaN 2\n# EOF\n": {"all samples (2) are NaN, which marks the end of a series: there is no value"},
		"a NaN 1\na 1 2\n# EOF\n":   nil,
		"# EOF\n":                   nil,
	} {
		if got, err := New().Load("f", strings.NewReader(text), LoadOptions{Format: OpenMetrics}); err != nil || !reflect.DeepEqual(got.Notes, want) {
			t.Errorf("%q: got %q, %v, want %q", text, got.Notes, err, want)
		}
	}
}

func TestLoadNone(t *testing.T) {
	t.Parallel()
	if _, err := New().Load("f", strings.NewReader("a 1 1\n"), LoadOptions{}); err == nil || !strings.HasSuffix(err.Error(), "saw none of these") {
		t.Errorf("got %v", err)
	}
}

// Files of one process, each with a part of a series.
func TestLoadSeveral(t *testing.T) {
	t.Parallel()
	s := New()
	for i, text := range []string{"up{a=\"b\"} 3 3\n# EOF\n", "up{ a=\"b\" } 1 1\nup{a=\"b\"} 3 3\n# EOF\n"} {
		if _, err := s.Load(fmt.Sprint(i), strings.NewReader(text), LoadOptions{Format: OpenMetrics}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.Stats(), (Stats{Series: 1, Samples: 2, Duplicates: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		head string
		want Format
	}{
		"dump-openmetrics":       {"up{job=\"a\"} 1 1700000000.000\nup{job=\"a\"} 1 17000", OpenMetrics},
		"whole seconds":          {"up 1 1700000000\n", OpenMetrics},
		"seconds after a type":   {"# TYPE up gauge\nup 1 1700000000\n", OpenMetrics},
		"quoted names":           {"{\"a.b\",job=\"x\"} 1 1700000000\n# EOF\n", OpenMetrics},
		"dotted names":           {"a.b{c.d=\"x\"} 1 1700000000\n# EOF\n", OpenMetrics},
		"an end, no timestamp":   {"a 1\n# EOF\n", OpenMetrics},
		"an end alone":           {"# EOF\n", OpenMetrics},
		"a page":                 {"# HELP a A.\n# TYPE a gauge\na 1\n", Text},
		"a page's head":          {"# HELP a A.\n# TYPE a gauge\n", Text},
		"a page, no comments":    {"a{b=\"c\"} 1\nd 2\n", Text},
		"milliseconds":           {"a 1\nb 1 1700000000000\n", Text},
		"a page with a bad line": {"# TYPE a gauge\na 1\n<<<<<<< HEAD\n", Text},
		"a byte order mark":      {"\xef\xbb\xbf# TYPE a gauge\na 1\n", Text},
		"tsdb dump":              {"{__name__=\"up\", job=\"a\"} 1 1700000000000\n", Dump},
		"name not first":         {"{A=\"1\", __name__=\"up\"} 1 1700000000000\n", Dump},
		"a histogram first":      {"{__name__=\"h\"} {count:5, sum:18.4, (0.5,1]:3} 1700000015123\n", Dump},
		"matrix":                 {`{"status":"success","data":{"resultType":"matrix","result":[`, JSON},
		"VictoriaMetrics":        {`{"status":"success","isPartial":false,"data":{"resultType":"vector","result":[`, JSON},
		"sorted keys, indented":  {"{\n  \"data\": {\n    \"result\": [\n      {\n        \"metric\": {", JSON},
		"an error":               {`{"status":"error","errorType":"bad_data","error":"x"}`, JSON},
		"names of labels":        {`{"status":"success","data":["up"]}`, None},
		"a log of JSON":          {`{"status":"error","message":"x"}` + "\n", None},
		"another JSON":           {`{"metric": 1}`, None},
		"an array":               {`[1]`, None},
		"goroutines":             {"goroutine 1 [running]:\nmain.main()\n\t/src/main.go:10 +0x1d\n", None},
		"contention":             {"--- contention:\ncycles/second=1000000000\n5000000000 12 @ 0x1001 0x2001\n", None},
		"meminfo":                {"MemTotal:       16 kB\nMemFree: 5 kB\n", None},
		"a log":                  {"2024-01-01 12:00:00 started\nretry 3\n", None},
		"a number in a log":      {"retry 3\nfailed badly\n", None},
		"comments":               {"# TODO list\n# HELP me\n", None},
		"nothing":                {"", None},
		"HTML":                   {"<html>\n<body>", None},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Sniff([]byte(tc.head)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestExamples loads the example series as model/textparse reads them.
func TestExamples(t *testing.T) {
	t.Parallel()
	const dir = "../../../../shared/series"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the example series are not beside this repository")
	}
	for name, interval := range map[string]time.Duration{
		"counter-resets":            30 * time.Second,
		"cpu-saturation-regression": 30 * time.Second,
		"diurnal-growth":            time.Minute,
		"gauge-leak":                30 * time.Second,
		"grpc-streams":              30 * time.Second,
		"lock-growth-mutex":         15 * time.Second,
		"pool-databasesql":          30 * time.Second,
		"rolling-deploys":           15 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, name, "series.om.gz")
			text := gunzip(t, file)
			if got := Sniff(text[:4096]); got != OpenMetrics {
				t.Errorf("taken for %s", got)
			}
			s := New()
			got, err := s.Load(file, bytes.NewReader(text), LoadOptions{Format: OpenMetrics})
			if err != nil || len(got.Notes) != 0 || got.Bad != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
			series, samples, sum := peer(t, text)
			if got.Series != series || got.Samples != samples || samples == 0 {
				t.Errorf("got %d series and %d samples, want %d and %d", got.Series, got.Samples, series, samples)
			}
			if st, want := s.Stats(), (Stats{Series: series, Samples: samples}); st != want {
				t.Errorf("got %+v, want %+v", st, want)
			}
			var have float64
			for _, x := range s.all {
				for i, v := range x.vs {
					have += weight(x.ts[i], v)
				}
			}
			if have != sum {
				t.Errorf("got a sum of %v, want %v", have, sum)
			}
			start, end, ok := s.Extent()
			if d, err := s.Interval(t.Context(), "", start, end); !ok || err != nil || d != interval {
				t.Errorf("got an interval of %s from %v to %v, %v, want %s", d, start, end, err, interval)
			}
		})
	}
}

// weight is a whole number, so that sums do not depend on their order.
func weight(ts int64, v float64) float64 {
	if v != v {
		v = 12345
	}
	return float64(ts%100003) + float64(int64(v*1e6)%100003)
}

func gunzip(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// peer reads OpenMetrics text with model/textparse.
func peer(t testing.TB, text []byte) (series, samples int, sum float64) {
	t.Helper()
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	seen := map[string]bool{}
	for {
		kind, err := p.Next()
		if err == io.EOF {
			return len(seen), samples, sum
		}
		if err != nil {
			t.Fatal(err)
		}
		if kind != textparse.EntrySeries {
			continue
		}
		m, ts, v := p.Series()
		if !seen[string(m)] { // which makes no string
			seen[string(m)] = true
		}
		samples++
		sum += weight(*ts, v)
	}
}
