package main

import (
	"bytes"
	"image/color"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/contend/contend/demo/cliff"
)

// The colours of reports, on white, which tell ways; shapes tell patterns of arrivals.
var (
	wayColors = map[string]color.Color{
		bySnapshots: color.NRGBA{0x1b, 0x6c, 0xa8, 0xff}, byLevels: color.NRGBA{0x2e, 0x7d, 0x4f, 0xff},
		byWaits: color.NRGBA{0xb5, 0x36, 0x1c, 0xff}, byQueue: color.NRGBA{0x8e, 0x3a, 0x9d, 0xff},
	}
	patternShapes = map[string]draw.GlyphDrawer{
		"random": draw.CircleGlyph{}, "turn-4": draw.SquareGlyph{}, "turn-8": draw.TriangleGlyph{}, "batches": draw.CrossGlyph{},
	}
)

// forecastsSVG has a plot for each lock: how far each forecast was off, by the load.
func forecastsSVG(t *testing.T, e *headroomEval) []byte {
	t.Helper()
	const across, down = 3, 2
	const wide, high = 3.3 * vg.Inch, 2.6 * vg.Inch
	locks := cliff.Locks()
	if len(locks) != across*down {
		t.Fatalf("%d locks, want room for all in %d by %d plots", len(locks), across, down)
	}
	canvas := vgsvg.New(across*wide, down*high)
	tiles := draw.Tiles{Rows: down, Cols: across, PadX: vg.Points(8), PadY: vg.Points(8)}
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	for i, l := range locks {
		p := plot.New()
		p.Title.Text = l.Name
		p.X.Label.Text, p.Y.Label.Text = "load, % of what saturates it", "forecast / truth"
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 70, 0.4, 1.6
		p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0.4, Label: "0.4"}, {Value: 0.8, Label: "0.8"}, {Value: 1, Label: "1"}, {Value: 1.2, Label: "1.2"}, {Value: 1.5, Label: "1.5"}}
		for _, at := range []struct {
			y    float64
			dash []vg.Length
		}{{0.8, []vg.Length{2, 3}}, {1, nil}, {1.2, []vg.Length{2, 3}}, {farAhead, []vg.Length{6, 3}}} {
			line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: at.y}, {X: 70, Y: at.y}})
			if err != nil {
				t.Fatal(err)
			}
			line.Color, line.Dashes = color.NRGBA{0x76, 0x7a, 0x82, 0xff}, at.dash
			p.Add(line)
		}
		for _, a := range cliff.Patterns() {
			for _, way := range lookWays {
				var points plotter.XYs
				for _, f := range e.of(l.Name, a.Name, way) {
					if f.Refused == "" {
						points = append(points, plotter.XY{X: 100 * f.Load, Y: min(max(f.ratio(), p.Y.Min), p.Y.Max)})
					}
				}
				if len(points) == 0 {
					continue
				}
				s, err := plotter.NewScatter(points)
				if err != nil {
					t.Fatal(err)
				}
				shape, ok := patternShapes[a.Name]
				if !ok {
					t.Fatalf("no shape for arrivals %s", a.Name)
				}
				s.GlyphStyle = draw.GlyphStyle{Color: wayColors[way], Radius: vg.Points(2.2), Shape: shape}
				p.Add(s)
			}
		}
		p.Draw(tiles.At(whole, i%across, i/across))
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
