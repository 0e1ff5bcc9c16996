package dashboards

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Widths are in columns of Grafana's grid of 24, which fills a wall; on a
// narrow screen Grafana puts all panels below each other. Heights are in its
// rows.
const (
	whole   = 24
	half    = 12
	third   = 8
	quarter = 6
	height  = 8
)

// line is one query of a panel.
type line struct {
	expr   string
	legend string
}

// graph is a panel of lines over time.
type graph struct {
	title, description string
	unit               string // Grafana's name
	lines              []line
	width              uint32
	stacked            bool
	page               string // of documentation; "" is none
}

// Legends of lines that are drawn in a way of their own.
const (
	limitLegend = "Contend" // the alert's name: all begin so
	totalLegend = "in flight"
)

func (b *board) interval() string { return model.Duration(b.timing.Interval).String() }

// heading is a row.
func (b *board) heading(title string) *dashboard.RowBuilder {
	b.panels++
	return dashboard.NewRowBuilder(title).Id(b.panels)
}

// graph draws a graph. Its queries have their selectors.
func (b *board) graph(g graph) *timeseries.PanelBuilder {
	b.panels++
	p := timeseries.NewPanelBuilder().
		Id(b.panels).Title(g.title).Description(g.description).Datasource(datasource).
		Unit(g.unit).Interval(b.interval()).Span(g.width).Height(height).
		AxisSoftMin(0).LineWidth(1).ShowPoints(common.VisibilityModeNever).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassic)).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).
			DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(tooltip()).
		OverrideByRegexp("/^"+limitLegend+"/", []dashboard.DynamicConfigValue{
			{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{6, 6}}},
			{Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": "red"}},
		})
	for i, l := range g.lines {
		p.WithTarget(b.query(g.title, i, l))
	}
	if g.unit == grafanaUnits["share"] {
		p.AxisSoftMax(1) // a share is seen against the whole
	}
	if g.stacked {
		p.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A")).FillOpacity(60)
		p.OverrideByRegexp("/^"+totalLegend+"/", []dashboard.DynamicConfigValue{
			{Id: "custom.stacking", Value: map[string]any{"mode": "none", "group": "A"}},
			{Id: "custom.fillOpacity", Value: 0},
			{Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": "text"}},
		})
	}
	if g.page != "" {
		p.Links([]cog.Builder[dashboard.DashboardLink]{
			dashboard.NewDashboardLinkBuilder("what it means, and what to do").Type(dashboard.DashboardLinkTypeLink).Url(g.page).TargetBlank(true),
		})
	}
	return p
}

func tooltip() *common.VizTooltipOptionsBuilder {
	return common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)
}

// query is a panel's i-th query, noted where dashboard-linter would object.
func (b *board) query(panel string, i int, l line) *prometheus.DataqueryBuilder {
	for rule, matcher := range map[string]string{instanceRule: `instance=~"$instance"`, jobRule: `job=~"$job"`} {
		if !everySelector(l.expr, matcher) {
			b.exceptions[rule] = append(b.exceptions[rule], exclusionEntry{b.title, panel, i})
		}
	}
	return prometheus.NewDataqueryBuilder().Datasource(datasource).RefId(string(rune('A' + i))).
		Expr(l.expr).LegendFormat(l.legend).Range()
}

// everySelector reports whether each of a query's selectors has the matcher:
// all of ours are in braces of their own.
func everySelector(query, matcher string) bool {
	return strings.Count(query, "{") == strings.Count(query, matcher)
}

// measureLines are the lines of a measure and of its limits, each named with its alert.
func measureLines(m *measure) ([]line, error) {
	own, byInstance, err := selected(m.text(), asAlerts)
	if err != nil {
		return nil, err
	}
	legend := "{{job}}"
	if byInstance {
		legend = "{{instance}}"
	}
	narrowed := func(query string) string {
		if byInstance {
			return worstOnly(query, own)
		}
		return query
	}
	lines := []line{{narrowed(own), legend}}
	for _, l := range m.limits {
		query, _, err := selected(l.query(m), asAlerts)
		if err != nil {
			return nil, err
		}
		name := l.alert
		if !l.fixed() {
			query, name = narrowed(query), l.alert+" "+legend
		}
		lines = append(lines, line{query, name + ": " + strings.ReplaceAll(l.String(), "contend:", "")})
	}
	return lines, nil
}

// measureGraph fills in what a graph of a measure does not say itself.
func measureGraph(m *measure, g graph) (graph, error) {
	lines, err := measureLines(m)
	if err != nil {
		return g, err
	}
	g.lines = append(lines, g.lines...)
	name, err := unit(m.expr)
	if err != nil {
		return g, err
	}
	var known bool
	if g.unit, known = grafanaUnits[name]; !known {
		return g, fmt.Errorf("expected a unit that Grafana has a name for, saw %q of %s", name, m.text())
	}
	title := cmp.Or(g.title, m.value)
	if title == "" {
		if title, err = describe(m.expr); err != nil {
			return g, err
		}
	}
	g.title = sentence(title)
	return g, nil
}

// sentence begins with a capital letter, as titles do.
func sentence(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// fenced is PromQL in Markdown.
func fenced(e parser.Expr) string {
	return "```\n" + parser.Prettify(e) + "\n```"
}
