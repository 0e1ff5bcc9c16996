package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/contend/contend/detect"
)

// overTime is an incident with series: a trigger, a cause and a symptom, an
// instance that ended, gaps, and stacks.
func overTime() *detect.Report {
	r := telemetryLock()
	start := time.Date(2026, 3, 1, 4, 5, 0, 0, time.UTC)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	gap := math.NaN()
	r.Verdict.Job, r.Verdict.Trigger = "gateway", "herd"
	r.Verdict.Story = []detect.StoryLine{
		{At: at(20), Until: at(30), Detector: "herd", Role: detect.Trigger, Job: "gateway", Summary: "arrivals rose to 1,500 requests per second"},
		{At: at(25), Detector: "telemetryblock", Role: detect.Cause, Summary: "requests wait for one lock"},
		{At: at(26), Until: at(60), Detector: "healthcheck", Role: detect.Symptom, Job: "gateway", Summary: "health checks turn slow"},
	}
	r.Timelines = []detect.Timeline{{
		Job: "gateway", Start: start, End: at(60), Every: 15 * time.Second, Steps: 1, Instances: 2,
		Lines: []detect.Line{
			{Name: detect.PlaceCPU, Place: true, Unit: "requests", Values: []float64{1, 1, gap, 1, 1}},
			{Name: detect.PlaceLock, Place: true, Unit: "requests", Values: []float64{0, 10, gap, 4038.25, 2}},
			{Name: detect.PlacePool, Place: true, Unit: "requests", Values: []float64{0, 0, gap, 0, 0}},
			{Name: "inflight", Unit: "requests", Values: []float64{1, 12, gap, 4040, 5}},
			{Name: "cpu", Unit: "cores", Values: []float64{0.5, 0.51, gap, 0.02, 0.5}},
			{Name: "health_latency", Unit: "seconds", Worst: true, Values: []float64{gap, 0.012, gap, 0.9, gap}},
			{Name: "health_timeout", Unit: "seconds", Worst: true, Values: []float64{1, 1, 1, 1, 1}},
		},
		Ends: []detect.InstanceEnd{{At: at(40), Instance: "gateway-2"}, {At: at(41), Instance: "gateway-1", Restarted: true}}, MoreEnds: 1,
	}}
	r.Tree = &detect.Tree{Unit: detect.Requests, Inputs: []string{"dump.txt"}, Root: detect.Node{
		N: 4100, By: []detect.CauseShare{{Cause: "telemetryblock", N: 4038}, {Cause: "downstream", N: 62}},
		Children: []*detect.Node{{
			Frames: []string{"example.com/gateway.serve"}, N: 4100, Left: 12, By: []detect.CauseShare{{Cause: "telemetryblock", N: 4038}, {Cause: "downstream", N: 62}},
			Children: []*detect.Node{
				{Frames: []string{"example.com/gateway.record", register}, N: 4038, Here: 4038, By: []detect.CauseShare{{Cause: "telemetryblock", N: 4038}}},
				{Frames: []string{"example.com/gateway.ask"}, N: 50, Here: 50, By: []detect.CauseShare{{Cause: "downstream", N: 50}}},
			},
		}},
	}}
	r.MoreTimelines = 2
	return r
}

func render(t *testing.T, r *detect.Report, o HTMLOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHTML holds what a page says to goldens: a line for each piece of text, after
// the elements it stands in.
func TestHTML(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*detect.Report{
		"overtime": overTime(), "chain": chain(), "nothing": nothingFound(), "idle": idle(),
		"couldnotlook": couldNot(), "noinput": {}, "processes": severalProcesses(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name+".html.golden", []byte(said(t, render(t, r, HTMLOptions{}))))
		})
	}
}

// said is the text of a page's body; of plots, their letters.
func said(t *testing.T, page string) string {
	t.Helper()
	var b strings.Builder
	var walk func(*html.Node, string)
	walk = func(n *html.Node, path string) {
		switch {
		case n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style" || n.Data == "head"):
			return
		case n.Type == html.ElementNode && slices.Contains([]string{"h1", "h2", "h3", "h4", "summary", "th", "td", "dt", "dd", "li", "text", "p"}, n.Data):
			path = n.Data
		}
		if text := strings.Join(strings.Fields(n.Data), " "); n.Type == html.TextNode && text != "" {
			fmt.Fprintf(&b, "%-8s%s\n", path, text)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, path)
		}
	}
	walk(parse(t, page), "")
	return b.String()
}

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// bad is what a name must not do to a page: end a text, an attribute, an element,
// a script or a style, turn the reading order, or hide.
const bad = "\"'><script>alert(1)</script></style></title><img src=x onerror=alert(2)>{{.}}&lt;javascript:alert(3)\x00\x1b[31m\u202ed\u200be\u2066\u2028\x7f\u009b\xff\r\n"

// fill puts s into every string that can be reached from v, makes each list one long, and
// sets numbers that are not usual.
func fill(v reflect.Value, s string, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Pointer:
		if depth < 20 { // a crowd's frames and who began them lead on for ever
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), s, depth+1)
		}
	case reflect.Slice:
		if depth < 9 || v.Type().Elem().Kind() == reflect.String { // trees end
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range v.Len() {
				fill(v.Index(i), s, depth+1)
			}
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, s, depth+1)
		fill(value, s, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 4, 5, 6, 7, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), s, depth+1)
			}
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// elements are those that the template has; a name that makes another has escaped.
var elements = []string{
	"html", "head", "meta", "link", "title", "style", "body", "main", "header", "nav", "section", "article", "figure", "figcaption", "div",
	"h1", "h2", "h3", "h4", "p", "a", "b", "small", "span", "time", "ol", "ul", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td",
	"details", "summary", "label", "input", "button", "svg", "g", "path", "text", "rect", "line", "script",
}

func TestHTMLHostile(t *testing.T) {
	t.Parallel()
	for _, s := range []string{bad, strings.Repeat("<", 1<<20), strings.Repeat("long", 1<<18)} {
		var r detect.Report
		fill(reflect.ValueOf(&r).Elem(), s, 0)
		for i := range r.Timelines {
			r.Timelines[i].Start = time.Date(2026, 3, 1, 4, 5, 0, 0, time.UTC)
			r.Timelines[i].Every, r.Timelines[i].End = time.Second, r.Timelines[i].Start.Add(10*time.Second)
			r.Timelines[i].Lines = append(r.Timelines[i].Lines, overTime().Timelines[0].Lines...)
			for k := range r.Timelines[i].Lines { // all lines of a timeline have its points
				r.Timelines[i].Lines[k].Values = []float64{1, 2, 3, 4, 5}
			}
		}
		page := render(t, &r, HTMLOptions{})
		for i, c := range page {
			if c != '\n' && (isControl(c) || isFormat(c) || c == '\ufffd' && page[i] == 0xff) {
				t.Fatalf("the page has %q in %q", c, page[max(0, i-80):i+20])
			}
		}
		if len(page) > 16<<20 { // of some thousand names in this report
			t.Errorf("names of %d bytes make a page of %d", len(s), len(page))
		}
		scripts := 0
		for n := range parse(t, page).Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			if n.Data == "script" {
				scripts++
			}
			if !slices.Contains(elements, n.Data) {
				t.Errorf("an element %q came out of a name", n.Data)
			}
			for _, a := range n.Attr {
				switch {
				case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "src":
					t.Errorf("%s has the attribute %s=%q", n.Data, a.Key, a.Val)
				case a.Key == "href" && a.Val != "data:," && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "https://github.com/contend/contend/"):
					t.Errorf("a link to %q", a.Val)
				}
			}
		}
		if scripts != 1 {
			t.Errorf("%d scripts, expected the page's own", scripts)
		}
	}
}

func TestHTMLRefresh(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		refresh time.Duration
		want    string
	}{
		{0, ""}, {300 * time.Millisecond, `data-refresh="1"`}, {15 * time.Second, `data-refresh="15"`},
	} {
		page := render(t, overTime(), HTMLOptions{Refresh: tt.refresh, Seen: time.Date(2026, 3, 1, 4, 5, 6, 0, time.UTC)})
		if got := strings.Contains(page, "data-refresh="); got != (tt.want != "") || !strings.Contains(page, tt.want) {
			t.Errorf("%s: expected %q on the page", tt.refresh, tt.want)
		}
		// Only a page that is served asks anybody for anything, and says when it was made.
		if got, want := strings.Contains(page, "connect-src &#39;self&#39;"), tt.want != ""; got != want {
			t.Errorf("%s: the policy allows to ask the page's own server: %t, expected %t", tt.refresh, got, want)
		}
		if got, want := strings.Contains(page, `seen at <time datetime="2026-03-01T04:05:06Z">04:05:06</time> UTC`), tt.want != ""; got != want {
			t.Errorf("%s: it says when its inputs were seen: %t, expected %t", tt.refresh, got, want)
		}
	}
}

// TestHTMLOnceMore: a page depends on the report alone.
func TestHTMLOnceMore(t *testing.T) {
	t.Parallel()
	first := render(t, overTime(), HTMLOptions{})
	if again := render(t, overTime(), HTMLOptions{}); again != first {
		t.Error("one report made two pages that differ")
	}
}

func TestHTMLWriteFails(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	r.Close()
	if err := HTML(w, overTime(), HTMLOptions{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, expected the writer's error", err)
	}
}

// TestPlotsOfOddValues: whatever series hold, a plot is drawn, in little time and space.
func TestPlotsOfOddValues(t *testing.T) {
	t.Parallel()
	for _, values := range [][]float64{
		nil, {}, {math.NaN()}, {0}, {0, 0}, {1}, {-5, -1}, {1e-300, 2e-300}, {math.MaxFloat64, 1}, {math.Inf(1), 1, math.Inf(-1)}, {math.NaN(), 3, math.NaN()},
	} {
		for _, span := range []time.Duration{0, time.Millisecond, time.Minute, 100 * 24 * time.Hour} {
			r := overTime()
			tl := &r.Timelines[0]
			tl.End = tl.Start.Add(span)
			for i := range tl.Lines {
				tl.Lines[i].Values = values
			}
			if page := render(t, r, HTMLOptions{}); len(page) > 200_000 || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
				t.Errorf("%v over %s: a page of %d bytes, NaN or Inf in it: %t", values, span, len(page), strings.Contains(page, "NaN") || strings.Contains(page, "Inf"))
			}
		}
	}
}

// TestLabelsApart: numbers of the story that would print over each other share a label.
func TestLabelsApart(t *testing.T) {
	t.Parallel()
	tl := &detect.Timeline{Start: time.Unix(0, 0), End: time.Unix(100, 0)}
	p := newPlot(tl, desktop)
	for _, tt := range []struct {
		at   []int // seconds, of events 1, 2, …
		want string
	}{
		{[]int{10, 12}, "10: 1, 12: 2"}, // with half a character on each side, a label of one takes two
		{[]int{10, 11}, "10: 1–2"},
		{[]int{10, 11, 12}, "10: 1–3"},
		{[]int{10, 11, 13}, "10: 1–2, 13: 3"},
		// The third joins the second, and their label is so wide that it meets the first.
		{[]int{10, 12, 13}, "10: 1–3"},
		{[]int{0, 100, 101}, "0: 1, 100: 2"}, // beyond the axis
	} {
		var events []moment
		for i, s := range tt.at {
			events = append(events, moment{at: time.Unix(int64(s), 0), role: detect.Cause, number: i + 1})
		}
		var got []string
		for _, g := range groups(tl, append(events, moment{at: time.Unix(10, 0), role: detect.Symptom, number: 9}), detect.Cause, p, 1) {
			got = append(got, fmt.Sprintf("%g: %s", g.x, ranges(g.numbers)))
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("events at %v: %s, expected %s", tt.at, got, tt.want)
		}
	}
}

// TestPanelSays: what is nothing is said to be none, and no peak is made of it.
func TestPanelSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		arrivals, errors float64
		want             string
	}{
		{5, 0, "arrivals at most 5, at 04:05:00. None: errors. Not in the series: completions."},
		{0, 0, "None: arrivals, errors. Not in the series: completions."},
		{5, 0.001, "arrivals at most 5, at 04:05:00; errors at most 0.001, at 04:05:00. Not in the series: completions."},
	} {
		tl := overTime().Timelines[0]
		tl.Lines = []detect.Line{{Name: "arrivals", Values: []float64{tt.arrivals}}, {Name: "errors", Values: []float64{tt.errors}}}
		p := newPanel(&tl, "Arrivals and completions", "requests per second", nil, "arrivals", "completions", "errors")
		if p.Says != tt.want {
			t.Errorf("%g and %g: %q, expected %q", tt.arrivals, tt.errors, p.Says, tt.want)
		}
		if len(p.Legend) != 2 {
			t.Errorf("%g and %g: a legend of %d lines, expected both that are drawn", tt.arrivals, tt.errors, len(p.Legend))
		}
	}
}

// TestHTMLInputs: what could not be read, or not whole, is the first that a reader of
// the inputs sees, however many there are.
func TestHTMLInputs(t *testing.T) {
	t.Parallel()
	list := make([]detect.Input, pageInputs+1)
	for i := range list {
		list[i] = detect.Input{Name: fmt.Sprintf("in-%d", i), Kind: "goroutine"}
	}
	for _, tt := range []struct {
		name  string
		last  detect.Input
		open  bool
		first string
	}{
		{"whole", detect.Input{Name: "last"}, false, "in-0"},
		{"a part", detect.Input{Name: "last", Goroutines: &detect.GoroutineCounts{Declared: 5, Read: 4, Lost: 1}}, true, "last"},
		{"unread", detect.Input{Name: "last", Error: "cannot open"}, true, "last"},
	} {
		list := slices.Clone(list)
		list[pageInputs] = tt.last
		page := render(t, &detect.Report{Inputs: list}, HTMLOptions{})
		if got := strings.Contains(page, fmt.Sprintf("<details open><summary>%d inputs, and 1 more</summary>", pageInputs)); got != tt.open {
			t.Errorf("%s: open %t, expected %t", tt.name, got, tt.open)
		}
		_, rest, _ := strings.Cut(page, `<th scope="row" class="name">`)
		if got, _, _ := strings.Cut(rest, "<"); got != tt.first {
			t.Errorf("%s: the first is %q, expected %q", tt.name, got, tt.first)
		}
	}
}

// TestHTMLBase: numbers of a page have their thousands apart.
func TestHTMLBase(t *testing.T) {
	t.Parallel()
	page := render(t, &detect.Report{Base: []detect.Growth{{Function: "f", Wait: "lock", Before: 999, Now: 1299}}}, HTMLOptions{})
	if want := `<td class="n">999</td><td class="n">1,299</td>`; !strings.Contains(page, want) {
		t.Errorf("expected %s on the page", want)
	}
}

// TestHTMLDay: a page says of what day it is: of its story, else of the last of its inputs.
func TestHTMLDay(t *testing.T) {
	t.Parallel()
	on := func(day int) *time.Time { at := time.Date(2026, 3, day, 23, 0, 0, 0, time.UTC); return &at }
	inputs := []detect.Input{{Name: "a", Taken: on(2)}, {Name: "b", Taken: on(3)}, {Name: "c"}}
	story := detect.Verdict{Story: []detect.StoryLine{{At: *on(1)}}}
	for want, r := range map[string]*detect.Report{
		"contend · 2026-03-03 (UTC)<": {Inputs: inputs},
		"contend · 2026-03-01 (UTC)<": {Inputs: inputs, Verdict: story},
		"contend<":                    {Inputs: inputs[2:]},
	} {
		if page := render(t, r, HTMLOptions{}); !strings.Contains(page, `<p class="brand">`+want) {
			t.Errorf("expected %s as the page's first line", want)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[string][]int{"1": {1}, "1–2": {1, 2}, "2, 4–6": {2, 4, 5, 6}, "1, 3, 5": {1, 3, 5}} {
		if got := ranges(numbers); got != want {
			t.Errorf("ranges(%v) = %q, expected %q", numbers, got, want)
		}
	}
}

func TestClockTicks(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 23, 59, 50, 0, time.UTC)
	for _, tt := range []struct {
		span time.Duration
		want string
	}{
		{3 * time.Second, "23:59:50 23:59:51 23:59:52 23:59:53"},
		{40 * time.Second, "23:59:50 00:00:00 00:00:10 00:00:20 00:00:30"},
		{2 * time.Hour, "00:00 00:30 01:00 01:30"},
		{100 * 24 * time.Hour, "Mar 6 Apr 7 May 9"},
	} {
		var labels []string
		for _, tick := range (clockTicks{start, 4}).Ticks(0, tt.span.Seconds()) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != tt.want {
			t.Errorf("%s: %s, expected %s", tt.span, got, tt.want)
		}
	}
}
