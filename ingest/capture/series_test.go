package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/contend/contend/ingest/series/memory"
)

const openMetrics = "application/openmetrics-text; version=1.0.0"

// newTarget is the only target of a set.
func newTarget(job, instance string) *targetSeries {
	return newSeriesSet().target(labels.FromStrings(model.JobLabel, job, model.InstanceLabel, instance))
}

func written(t testing.TB, s *targetSeries) string {
	t.Helper()
	var b strings.Builder
	if err := s.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// one is what series.om has of one scrape, without what each scrape has.
func one(t *testing.T, s *targetSeries) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(written(t, s)) {
		if !strings.Contains(line, "scrape_duration_seconds") && !strings.HasPrefix(line, "up{instance=\"i\",job=\"j\"}") && line != "# TYPE up gauge\n" && line != "# EOF\n" {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestSeriesSetAdd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		contentType, text, want string
		skipped                 skipped
	}{
		"types": {text: `# HELP a_total A.
# TYPE a_total counter
a_total 1
# TYPE old counter
old 2
# TYPE h histogram
h_bucket{le="1"} 3
h_bucket{le="+Inf"} 4
h_sum 5.5
h_count 4
# TYPE s summary
s{quantile="0.5"} NaN
s_sum 1e+300
s_count 2
# TYPE g gauge
g -Inf
stray 7
`, want: `# TYPE a counter
a_total{instance="i",job="j"} 1 1.500
# TYPE g gauge
g{instance="i",job="j"} -Inf 1.500
# TYPE h histogram
h_bucket{instance="i",job="j",le="+Inf"} 4 1.500
h_bucket{instance="i",job="j",le="1.0"} 3 1.500
h_count{instance="i",job="j"} 4 1.500
h_sum{instance="i",job="j"} 5.5 1.500
old{instance="i",job="j"} 2 1.500
# TYPE s summary
s_count{instance="i",job="j"} 2 1.500
s_sum{instance="i",job="j"} 1e+300 1.500
s{instance="i",job="j",quantile="0.5"} NaN 1.500
stray{instance="i",job="j"} 7 1.500
`},
		"openmetrics": {contentType: openMetrics, text: `# TYPE a counter
# UNIT a_seconds seconds
a_total 1 123.4 # {id="x"} 0.5
a_created 100
# TYPE b info
b_info{v="1"} 1
# EOF
`, want: `# TYPE a counter
a_created{instance="i",job="j"} 100 1.500
a_total{instance="i",job="j"} 1 1.500
# TYPE b info
b_info{instance="i",job="j",v="1"} 1 1.500
`},
		"labels of ours": {text: `a{job="x",instance="y",exported_job="z"} 1
b{job=""} 2
`, want: `a{exported_exported_job="x",exported_instance="y",exported_job="z",instance="i",job="j"} 1 1.500
b{instance="i",job="j"} 2 1.500
`},
		"series of ours":  {text: "up 7\na 1\n", want: "a{instance=\"i\",job=\"j\"} 1 1.500\n", skipped: skipped{duplicate: 1}},
		"twice":           {text: "a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 2\n", want: "a{instance=\"i\",job=\"j\",x=\"1\",y=\"2\"} 1 1.500\n", skipped: skipped{duplicate: 1}},
		"a label twice":   {text: "a{x=\"1\",x=\"2\"} 1\na 3\n", want: "a{instance=\"i\",job=\"j\"} 3 1.500\n", skipped: skipped{invalid: 1}},
		"no text":         {text: "a{x=\"\x00\"} 1\nb{x=\"\x1b\"} 1\n", want: "b{instance=\"i\",job=\"j\",x=\"\x1b\"} 1 1.500\n", skipped: skipped{invalid: 1}},
		"a name twice":    {text: "a{__name__=\"b\"} 1\na 3\n", want: "a{instance=\"i\",job=\"j\"} 3 1.500\n", skipped: skipped{invalid: 1}},
		"escapes":         {text: `a{x="\"\\\n` + "\té" + `"} 1` + "\n", want: `a{instance="i",job="j",x="\"\\\n` + "\té" + `"} 1 1.500` + "\n"},
		"utf-8 names":     {text: "# TYPE \"a.b\" gauge\n{\"a.b\",\"c:d\"=\"1\"} 1\n", want: "# TYPE a_b gauge\na_b{c_d=\"1\",instance=\"i\",job=\"j\"} 1 1.500\n"},
		"their times":     {text: "a 1 99000\n", want: "a{instance=\"i\",job=\"j\"} 1 1.500\n"},
		"one name":        {text: "# TYPE a_total counter\na_total 1\n# TYPE a gauge\na 2\n", want: "a_total{instance=\"i\",job=\"j\"} 1 1.500\na{instance=\"i\",job=\"j\"} 2 1.500\n"},
		"no content type": {contentType: "junk; ;", text: "a 1\n", want: "a{instance=\"i\",job=\"j\"} 1 1.500\n"},
	} {
		s := newTarget("j", "i")
		left, err := s.add(1500, 0.25, []byte(tt.text), tt.contentType)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := one(t, s); got != tt.want || left != tt.skipped {
			t.Errorf("%s: %+v\n%s\nwant %+v\n%s", name, left, got, tt.skipped, tt.want)
		}
	}
}

// What analyze could not read, or labels could not hold, is left out.
func TestSeriesSetAddLarge(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `l%d="x",`, i)
		}
		return b.String()
	}
	const rest = `a{x=""} ` // the text of a series is up to its brace
	for name, tt := range map[string]struct {
		series string
		large  int
	}{
		"the longest":        {`a{x="` + strings.Repeat("y", maxSeriesName-len(rest)+1) + `"}`, 0},
		"longer":             {`a{x="` + strings.Repeat("y", maxSeriesName-len(rest)+2) + `"}`, 1},
		"no labels.Labels":   {`a{x="` + strings.Repeat("y", 17<<20) + `"}`, 1},
		"on many lines":      {`a{x="` + strings.Repeat("y\n", 9<<20) + `"}`, 1},
		"a name":             {strings.Repeat("y", 17<<20), 1},
		"a label's name":     {`a{` + strings.Repeat("y", 17<<20) + `="x"}`, 1},
		"a name in quotes":   {`{"` + strings.Repeat("y", 17<<20) + `"}`, 1},
		"the most labels":    {`a{` + many(maxLabels-1) + `}`, 0},
		"more labels":        {`a{` + many(maxLabels) + `}`, 1},
		"far more labels":    {`a{` + many(150_000) + `}`, 1},
		"all that's escaped": {`a{x="` + strings.Repeat("\n", maxSeriesName/2) + `",job="` + strings.Repeat(`\\`, maxSeriesName/5) + `"}`, 0},
	} {
		for contentType, end := range map[string]string{"": "", openMetrics: "# EOF\n"} {
			if contentType == openMetrics && strings.Contains(tt.series, "\n") {
				continue // which is no OpenMetrics
			}
			s := newTarget(strings.Repeat("j", maxJob), strings.Repeat("i", maxHost))
			left, err := s.add(1500, 0.25, []byte(tt.series+" 1\nb 2\n"+end), contentType)
			if err != nil || left != (skipped{large: tt.large}) {
				t.Errorf("%s, %q: %+v, %v", name, contentType, left, err)
			}
			got, err := memory.New().Load("series.om", strings.NewReader(written(t, s)), memory.LoadOptions{Format: memory.OpenMetrics})
			if err != nil || got.Bad != 0 || got.Series != 4-tt.large {
				t.Errorf("%s, %q: read back %d series, %v, %.300q", name, contentType, got.Series, err, got.Notes)
			}
		}
	}
	// One that has nothing else was scraped all the same.
	s := newTarget("j", "i")
	if left, err := s.add(1500, 0.25, []byte("a{"+many(maxLabels)+"} 1\n"), ""); err != nil || left.large != 1 || one(t, s) != "" {
		t.Errorf("got %+v, %v, %s", left, err, one(t, s))
	}
}

// A scrape that does not parse adds nothing: the caller counts it as failed.
func TestSeriesSetAddInvalid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ contentType, text string }{
		"HTML":         {"text/html", "<!DOCTYPE html><html></html>"},
		"a bad line":   {"", "a 1\nb{ 2\nc 3\n"},
		"no value":     {"", "a 1\nb\n"},
		"bad UTF-8":    {"", "a{x=\"\xff\"} 1\n"},
		"bad type":     {"", "# TYPE a unheard\na 1\n"},
		"nothing":      {"", ""},
		"comments":     {"", "# hello\n"},
		"cut off":      {openMetrics, "a 1\n"},
		"binary":       {"", "\x00\x01\x02"},
		"no last line": {"", "a{x=\"1"},
	} {
		s := newTarget("j", "i")
		if _, err := s.add(1500, 0, []byte(tt.text), tt.contentType); err == nil || errors.Is(err, errTooManySeries) {
			t.Errorf("%s: %v, want that it does not parse", name, err)
		}
		if got := written(t, s); got != "# EOF\n" {
			t.Errorf("%s: kept\n%s", name, got)
		}
	}
}

// A series that is gone, or whose scrape failed, ends once.
func TestSeriesSetEnds(t *testing.T) {
	t.Parallel()
	s := newTarget("j", "i")
	for i, text := range []string{"a 1\nb 1\n", "a 2\n", "a 3\n", "", "", "a 4\nb 2\n", "b 3\n"} {
		at := int64(1000 * (i + 1))
		if text == "" {
			if err := s.fail(at, 0.5); err != nil {
				t.Fatal(err)
			}
		} else if _, err := s.add(at, 0.5, []byte(text), ""); err != nil {
			t.Fatal(err)
		}
	}
	const want = `a{instance="i",job="j"} 1 1.000
a{instance="i",job="j"} 2 2.000
a{instance="i",job="j"} 3 3.000
a{instance="i",job="j"} NaN 4.000
a{instance="i",job="j"} 4 6.000
a{instance="i",job="j"} NaN 7.000
b{instance="i",job="j"} 1 1.000
b{instance="i",job="j"} NaN 2.000
b{instance="i",job="j"} 2 6.000
b{instance="i",job="j"} 3 7.000
`
	if got := one(t, s); got != want {
		t.Errorf("wrote\n%s\nwant\n%s", got, want)
	}
	const up = `# TYPE up gauge
up{instance="i",job="j"} 1 1.000
up{instance="i",job="j"} 1 2.000
up{instance="i",job="j"} 1 3.000
up{instance="i",job="j"} 0 4.000
up{instance="i",job="j"} 0 5.000
up{instance="i",job="j"} 1 6.000
up{instance="i",job="j"} 1 7.000
# EOF
`
	if got := written(t, s); !strings.HasSuffix(got, up) {
		t.Errorf("wrote\n%s\nwant it to end with\n%s", got, up)
	}
}

func TestSeriesSetLimits(t *testing.T) {
	t.Parallel()
	var body bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&body, "a{x=\"%d\"} 1\n", i)
	}
	for name, set := range map[string]func(*targetSeries){
		"memory": func(s *targetSeries) { s.maxMemory = 100_000 },
		"text":   func(s *targetSeries) { s.maxText = 10_000 },
	} {
		s := newTarget("j", "i")
		set(s)
		if _, err := s.add(1000, 0, body.Bytes(), ""); !errors.Is(err, errTooManySeries) {
			t.Errorf("%s: %v, want %v", name, err, errTooManySeries)
		}
		if n := len(s.byName); n < 100 || n > 300 {
			t.Errorf("%s: %d series were kept, want as many as have room", name, n)
		}
		parseBack(t, written(t, s))
	}
}

// parseBack reads series.om as Prometheus does, and returns its samples.
func parseBack(t testing.TB, text string) (samples int) {
	t.Helper()
	p := textparse.NewOpenMetricsParser([]byte(text), labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return samples
		}
		if err != nil {
			t.Fatalf("series.om does not parse: %v\n%s", err, text)
		}
		if entry == textparse.EntrySeries {
			samples++
			if _, at, _ := p.Series(); at == nil {
				t.Fatalf("a sample has no time:\n%s", text)
			}
		}
	}
}

// promtool makes blocks of series.om, with all its samples.
func TestSeriesPromtool(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip("no promtool here: ", err)
	}
	s := newTarget("jöb \"x\"", "i:1")
	const text = `# TYPE requests_total counter
requests_total{job="x",path="a\"b\\c\nd é"} 1
# TYPE lat histogram
lat_bucket{le="1"} 3
lat_bucket{le="+Inf"} 4
lat_sum 5.5
lat_count 4
# TYPE s summary
s{quantile="0.5"} NaN
s_sum 1
s_count 2
# TYPE "http.active" gauge
{"http.active"} -Inf
stray 1e-300
up 3
`
	const start = 1_700_000_000_000
	for i := range int64(10) {
		if i == 7 {
			if err := s.fail(start+i*250, 10); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := s.add(start+i*250, 0.01, []byte(text), ""); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	file, blocks := filepath.Join(dir, "series.om"), filepath.Join(dir, "tsdb")
	if err := os.WriteFile(file, []byte(written(t, s)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", file, blocks).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(blocks, "wal"), 0o700); err != nil { // promtool 2.42 dumps no directory without it
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), promtool, "tsdb", "dump", blocks).Output()
	if err != nil {
		t.Fatalf("promtool: %v", err)
	}
	if got, want := bytes.Count(out, []byte("\n")), parseBack(t, written(t, s)); got != want || want != 12*10 {
		t.Errorf("promtool has %d samples, series.om %d, want 12 series of 10", got, want)
	}
	for _, want := range []string{
		`{__name__="requests_total", exported_job="x", instance="i:1", job="jöb \"x\"", path="a\"b\\c\nd é"} NaN 1700000001750`,
		`{__name__="http_active", instance="i:1", job="jöb \"x\""} -Inf 1700000002250`,
		`{__name__="up", instance="i:1", job="jöb \"x\""} 0 1700000001750`,
	} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("promtool has no %s:\n%s", want, out)
		}
	}
}

// Whatever a target sends, series.om can be read.
func FuzzSeriesSet(f *testing.F) {
	f.Add([]byte("# TYPE a_total counter\na_total{x=\"1\"} 1\n"), []byte("a_total{x=\"1\"} NaN 5\nb{job=\"\\\\\"} -Inf\n"), "")
	f.Add([]byte("{\"a.b\",\"c:d\"=\"1\"} 1\n{\"\"} 2\n"), []byte("a{__name__=\"b\",__name__=\"c\"} 1\n"), "text/plain")
	f.Add([]byte("# TYPE a histogram\na_bucket{le=\"1\"} 1 1 # {a=\"b\"} 1\n# EOF\n"), []byte("\xff\x00"), openMetrics)
	f.Add([]byte("\x0a\x03abc"), []byte("a 1"), "application/vnd.google.protobuf")
	f.Fuzz(func(t *testing.T, first, second []byte, contentType string) {
		s := newTarget("j", "i")
		for i, body := range [][]byte{first, second, first} {
			at := int64(1000 * (i + 1))
			if _, err := s.add(at, 0.1, body, contentType); err != nil {
				if err := s.fail(at, 0.1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := parseBack(t, written(t, s)); n < 6 {
			t.Errorf("%d samples, want those of three scrapes at least", n)
		}
	})
}
