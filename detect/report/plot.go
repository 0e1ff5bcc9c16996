package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	// gonum's plots have a continuous time axis, so that a mark stands where its moment
	// is, gaps, any y scale and one left edge for plots below each other; their SVG is
	// letters and paths. go-analyze/charts is 5 MB smaller in the binary, but puts points at
	// equal distances with a label each, and marks values only.
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/contend/contend/detect"
)

// Colours of plots on a light ground; page.css turns them into those for a dark
// one. Each has a contrast of 3 to 1 at least, as WCAG 1.4.11 asks for graphics,
// and none is the only thing that tells a line: dashes and shapes do too.
var (
	ink    = rgb(0x3a3f47)
	paper  = rgb(0xfffffe) // between areas
	grid   = rgb(0xd5d9df)
	muted  = rgb(0x767a82)
	blue   = rgb(0x1b6ca8)
	azure  = rgb(0x4a8fc9)
	rust   = rgb(0xb5361c)
	ochre  = rgb(0x96690a)
	leaf   = rgb(0x2e7d4f)
	purple = rgb(0x8e3a9d)
)

func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 0xff}
}

func hex(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// ribbon is how one line of a plot looks, and what its legend says.
type ribbon struct {
	line  *detect.Line
	label string
	color color.NRGBA
	dash  []vg.Length // nil is unbroken
	area  bool        // stacked on the areas before it
}

// panel is one plot, and the table under it.
type panel struct {
	ID, Title   string
	Unit        string
	Says        string // what a reader who cannot see it is told
	Legend      []legendEntry
	Wide, Phone template.HTML
	Columns     []string
	Rows        [][]string
	ribbons     []ribbon
}

// legendEntry shows a colour and, for lines, their dashes.
type legendEntry struct {
	Label, Color, Dash string
	Area               bool
	Shape              string // of events
}

// moment is an event on the time axis.
type moment struct {
	at, until time.Time
	role      detect.Role
	number    int // in the story
}

// look is how large plots are drawn, in CSS pixels.
type look struct {
	width, height, events, font vg.Length
	ticks                       int // labels that fit below the time axis
}

// An SVG that shrinks shrinks its letters: a phone gets plots of its own.
var (
	desktop = look{width: 960, height: 170, events: 120, font: 12, ticks: 10}
	phone   = look{width: 360, height: 150, events: 116, font: 11, ticks: 4}
)

var (
	dashed = []vg.Length{6, 3}
	dotted = []vg.Length{1.5, 2.5}
	mixed  = []vg.Length{8, 3, 2, 3}
)

// roleMark is how the events of a role are drawn: a row, a shape, a colour and a dash.
type roleMark struct {
	role  detect.Role
	name  string
	color color.NRGBA
	dash  []vg.Length
	shape draw.GlyphDrawer
	sign  string // the shape in text
}

// roleEnded is the row of instances that ended.
const roleEnded = detect.Role("ended")

// roleMarks from the top row down.
var roleMarks = []roleMark{
	{detect.Trigger, "trigger", ochre, dashed, draw.TriangleGlyph{}, "△"},
	{detect.Cause, "cause", rust, nil, draw.BoxGlyph{}, "■"},
	{detect.Symptom, "symptom", blue, dotted, draw.RingGlyph{}, "○"},
	{detect.Forecast, "forecast", leaf, mixed, draw.PlusGlyph{}, "+"},
	{roleEnded, "ended", muted, nil, draw.CrossGlyph{}, "×"},
}

// drawPanels fills in the two sizes of each panel, all on one time axis.
func drawPanels(t *detect.Timeline, panels []*panel, events []moment) {
	for _, size := range []look{desktop, phone} {
		plots := make([]*plot.Plot, len(panels))
		left := vg.Length(0) // of the widest labels
		// A label below the axis' end needs half its width beyond it: of 15:04:05 that is
		// twice its height. Where a browser has not the font it is set in, its letters are up
		// to a fifth wider, and all of that is to the right.
		right := size.width - 2.75*size.font
		for i, p := range panels {
			if p.ribbons == nil {
				plots[i] = eventsPlot(t, events, size)
			} else {
				plots[i] = linesPlot(t, p.ribbons, events, size)
			}
			data := plots[i].DataCanvas(draw.New(vgsvg.New(size.width, size.height)))
			left, right = max(left, data.Min.X), min(right, data.Max.X)
		}
		for i, p := range panels {
			height := size.height
			if p.ribbons == nil {
				height = size.events
			}
			svg := vgsvg.New(size.width, height)
			c := draw.New(svg)
			data := plots[i].DataCanvas(c)
			c = draw.Crop(c, left-data.Min.X, right-data.Max.X, 0, 0)
			plots[i].Draw(c)
			if size == desktop {
				p.Wide = inline(svg)
			} else {
				p.Phone = inline(svg)
			}
		}
	}
}

// newPlot is an empty plot over the window of t.
func newPlot(t *detect.Timeline, size look) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the page's own shows
	p.X.Min, p.X.Max = 0, max(t.End.Sub(t.Start).Seconds(), 1)
	p.X.Tick.Marker = clockTicks{t.Start, size.ticks}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.Color, axis.Tick.Color = grid, grid
		axis.Width, axis.Tick.Width = 1, 1
		axis.Tick.Length = 4
		axis.Tick.Label.Color = ink
		axis.Tick.Label.Font.Variant = "Sans"
		axis.Tick.Label.Font.Size = size.font
	}
	return p
}

// linesPlot draws areas, then lines, then a mark for each event.
func linesPlot(t *detect.Timeline, ribbons []ribbon, events []moment, size look) *plot.Plot {
	p := newPlot(t, size)
	g := plotter.NewGrid()
	g.Vertical.Width = 0
	g.Horizontal = draw.LineStyle{Color: grid, Width: 0.5}
	p.Add(g)
	base := make([]float64, len(ribbons[0].line.Values)) // all lines of a timeline have its points
	top := 0.0
	for _, r := range ribbons {
		values := drawable(r.line.Values)
		if r.area {
			upper := make([]float64, len(values))
			for i, x := range values {
				upper[i] = base[i] + x
			}
			addArea(p, t, base, upper, r.color)
			for i, x := range upper {
				if !math.IsNaN(x) {
					base[i] = x
				}
			}
			values = upper
		} else {
			addLine(p, t, values, draw.LineStyle{Color: r.color, Width: 1.75, Dashes: r.dash})
		}
		if m := highest(values); m > top {
			top = m
		}
	}
	p.Y.Min, p.Y.Max = 0, cmpOr(top*1.08, 1)
	p.Y.Tick.Marker = numberTicks{}
	for _, e := range events {
		if x, ok := onAxis(p, t, e.at); ok && e.role != roleEnded {
			m := markOf(e.role)
			p.Add(&plotter.Line{XYs: plotter.XYs{{X: x, Y: 0}, {X: x, Y: p.Y.Max}}, LineStyle: draw.LineStyle{Color: m.color, Width: 1, Dashes: m.dash}})
		}
	}
	return p
}

func cmpOr(x, other float64) float64 {
	if x > 0 {
		return x
	}
	return other
}

// drawable leaves gaps for values beyond what a float counts one by one: the scale of
// an axis to the largest of all floats has no end.
func drawable(values []float64) []float64 {
	const most = 1e15
	out := slices.Clone(values)
	for i, x := range out {
		if math.Abs(x) > most {
			out[i] = math.NaN()
		}
	}
	return out
}

// runs are the index ranges of values without a gap.
func runs(values []float64) (out [][2]int) {
	from := -1
	for i, x := range append(slices.Clone(values), math.NaN()) {
		switch {
		case math.IsNaN(x) && from >= 0:
			out = append(out, [2]int{from, i})
			from = -1
		case !math.IsNaN(x) && from < 0:
			from = i
		}
	}
	return out
}

func points(t *detect.Timeline, values []float64, run [2]int) plotter.XYs {
	var xys plotter.XYs
	for i := run[0]; i < run[1]; i++ {
		xys = append(xys, plotter.XY{X: t.At(i).Sub(t.Start).Seconds(), Y: values[i]})
	}
	return xys
}

func addLine(p *plot.Plot, t *detect.Timeline, values []float64, style draw.LineStyle) {
	for _, run := range runs(values) {
		xys := points(t, values, run)
		if len(xys) == 1 { // a line of one point would not show
			xys = append(xys, plotter.XY{X: xys[0].X + t.Every.Seconds()/2, Y: xys[0].Y})
		}
		p.Add(&plotter.Line{XYs: xys, LineStyle: style})
	}
}

func addArea(p *plot.Plot, t *detect.Timeline, base, upper []float64, fill color.Color) {
	for _, run := range runs(upper) {
		ring := points(t, upper, run)
		below := points(t, base, run)
		slices.Reverse(below)
		p.Add(&plotter.Polygon{XYs: []plotter.XYs{append(ring, below...)}, Color: fill, LineStyle: draw.LineStyle{Color: paper, Width: 0.5}})
	}
}

// eventsPlot has a row for each role with events: how long each lasted, and its
// number in the story.
func eventsPlot(t *detect.Timeline, events []moment, size look) *plot.Plot {
	p := newPlot(t, size)
	var rows []roleMark // from the bottom
	for _, m := range slices.Backward(roleMarks) {
		if slices.ContainsFunc(events, func(e moment) bool { return e.role == m.role }) {
			rows = append(rows, m)
		}
	}
	p.Y.Min, p.Y.Max = -0.5, float64(len(rows))-0.3 // room for the top row's numbers
	p.Y.LineStyle.Width = 0
	p.Y.Tick.Length = 0
	var labels plot.ConstantTicks
	// What a character of a label takes of the axis: digits are half as wide as high, and
	// some fonts' more.
	wide := (p.X.Max - p.X.Min) * float64(0.65*size.font/size.width)
	for i, m := range rows {
		y := float64(i)
		labels = append(labels, plot.Tick{Value: y, Label: m.name})
		p.Add(&plotter.Line{XYs: plotter.XYs{{X: 0, Y: y}, {X: p.X.Max, Y: y}}, LineStyle: draw.LineStyle{Color: grid, Width: 0.5}})
		var at plotter.XYs
		numbers := &plotter.Labels{Offset: vg.Point{Y: 6}}
		for _, group := range groups(t, events, m.role, p, wide) {
			numbers.XYs = append(numbers.XYs, plotter.XY{X: group.x, Y: y})
			numbers.Labels = append(numbers.Labels, ranges(group.numbers))
			numbers.TextStyle = append(numbers.TextStyle, text.Style{
				Color: ink, Font: p.X.Tick.Label.Font, XAlign: text.XCenter, Handler: p.TextHandler,
			})
		}
		for _, e := range events {
			x, ok := onAxis(p, t, e.at)
			if e.role != m.role || !ok {
				continue
			}
			at = append(at, plotter.XY{X: x, Y: y})
			if to := min(e.until.Sub(t.Start).Seconds(), p.X.Max); to > x {
				p.Add(&plotter.Line{XYs: plotter.XYs{{X: x, Y: y}, {X: to, Y: y}}, LineStyle: draw.LineStyle{Color: m.color, Width: 3}})
			}
		}
		if len(at) > 0 {
			p.Add(&plotter.Scatter{XYs: at, GlyphStyle: draw.GlyphStyle{Color: m.color, Radius: 4, Shape: m.shape}})
		}
		if len(numbers.XYs) > 0 {
			p.Add(numbers)
		}
	}
	p.Y.Tick.Marker = labels
	return p
}

// numbered is events so near each other that they share a label, which stands over the first.
type numbered struct {
	x       float64
	numbers []int
}

// groups are the numbered events of a role; those whose labels would print over each other
// are together. A character of a label is as wide as wide on the axis.
func groups(t *detect.Timeline, events []moment, role detect.Role, p *plot.Plot, wide float64) (out []numbered) {
	half := func(n numbered) float64 { return float64(utf8.RuneCountInString(ranges(n.numbers))+1) / 2 * wide }
	for _, e := range events {
		x, ok := onAxis(p, t, e.at)
		if e.role != role || e.number == 0 || !ok {
			continue
		}
		out = append(out, numbered{x, []int{e.number}})
		// A label that grew may meet the one before it.
		for n := len(out); n > 1 && out[n-1].x-out[n-2].x < half(out[n-1])+half(out[n-2]); n-- {
			out[n-2].numbers = append(out[n-2].numbers, out[n-1].numbers...)
			out = out[:n-1]
		}
	}
	return out
}

// ranges writes ascending numbers as "2, 4–6".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		k := i
		for k+1 < len(numbers) && numbers[k+1] == numbers[k]+1 {
			k++
		}
		part := fmt.Sprint(numbers[i])
		if k > i {
			part += fmt.Sprintf("–%d", numbers[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	return strings.Join(parts, ", ")
}

func onAxis(p *plot.Plot, t *detect.Timeline, at time.Time) (x float64, ok bool) {
	x = at.Sub(t.Start).Seconds()
	return x, x >= p.X.Min && x <= p.X.Max
}

func markOf(role detect.Role) roleMark {
	i := slices.IndexFunc(roleMarks, func(m roleMark) bool { return m.role == role })
	return roleMarks[max(i, 0)]
}

func highest(values []float64) float64 {
	most := math.Inf(-1)
	for _, x := range values {
		if x > most {
			most = x
		}
	}
	return most
}

// clockTicks labels a time axis of seconds since start, in UTC.
type clockTicks struct {
	start time.Time
	most  int // labels
}

// tickSteps are the distances between labels that people read easily.
var tickSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

func (c clockTicks) Ticks(from, to float64) []plot.Tick {
	span := time.Duration((to - from) * float64(time.Second))
	step := tickSteps[len(tickSteps)-1]
	for i := len(tickSteps) - 1; i >= 0 && int(span/tickSteps[i]) <= c.most; i-- {
		step = tickSteps[i]
	}
	for int(span/step) > c.most { // weeks
		step *= 2
	}
	form := time.TimeOnly
	switch {
	case step >= 24*time.Hour:
		form = "Jan 2"
	case step >= time.Minute:
		form = "15:04"
	}
	var ticks []plot.Tick
	for at := c.start.Truncate(step); !at.After(c.start.Add(span)); at = at.Add(step) {
		// A label at the very edge would be cut.
		if x := at.Sub(c.start).Seconds(); x >= from {
			ticks = append(ticks, plot.Tick{Value: x, Label: at.UTC().Format(form)})
		}
	}
	return ticks
}

// numberTicks are gonum's, with thousands set apart.
type numberTicks struct{}

func (numberTicks) Ticks(from, to float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(from, to)
	for i := range ticks {
		if ticks[i].Label != "" && math.Abs(ticks[i].Value) >= 1000 {
			ticks[i].Label = detect.Thousands(ticks[i].Value)
		}
	}
	return slices.DeleteFunc(ticks, plot.Tick.IsMinor)
}

var styleAttribute = regexp.MustCompile(`\s*style="([^"]*)"`)

// inline is an SVG to stand inside a page: without the prologue, sized by its
// place, and with attributes where it had styles, which a content security policy
// without 'unsafe-inline' forbids. Texts in it are escaped by vgsvg.
func inline(c *vgsvg.Canvas) template.HTML {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		panic(err) // a buffer takes all
	}
	_, body, _ := strings.Cut(b.String(), "<svg ")
	_, body, _ = strings.Cut(body, ">\n")
	body = styleAttribute.ReplaceAllStringFunc(body, func(s string) string {
		var attributes strings.Builder
		for part := range strings.SplitSeq(styleAttribute.FindStringSubmatch(s)[1], ";") {
			// The page's font is the one to use.
			if key, value, ok := strings.Cut(part, ":"); ok && !strings.HasPrefix(key, "font-") || key == "font-size" {
				fmt.Fprintf(&attributes, ` %s="%s"`, strings.TrimSpace(key), strings.ToLower(strings.TrimSpace(value)))
			}
		}
		return attributes.String()
	})
	w, h := c.Size()
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %g %g" aria-hidden="true" focusable="false">`, w.Points(), h.Points()) + body)
}
