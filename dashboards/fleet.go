package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"

	"github.com/contend/contend/ingest/series"
)

// fleet is the dashboard that finds the one wedged instance of twenty: a table
// of all, the worst of each quantity side by side, and where the requests of
// each of the worst are.
func (b *board) fleet() error {
	b.WithVariable(worstInstance())
	instances, err := b.instances()
	if err != nil {
		return err
	}
	b.WithPanel(instances)
	b.WithRow(b.heading("Worst instances by quantity"))
	for _, one := range multiples {
		e, err := series.ParsePromQL(one.expr)
		if err != nil {
			return err
		}
		g, err := measureGraph(&measure{expr: e}, graph{title: one.title, width: third, description: "The instances that were worst in the time shown. The limits of alerts are in the overview: of many instances they would be too many lines."})
		if err != nil {
			return err
		}
		b.WithPanel(b.graph(g))
	}
	row := b.heading("Worst instances by requests in flight").Collapsed(true) // a panel for each of each job
	g, err := budget(repeated, "sum by (job, instance) (%s)", " {{job}}")
	if err != nil {
		return err
	}
	g.title, g.width = "$worst_instance", quarter
	g.description = "Requests in flight of one instance by what they wait for."
	b.WithRow(row.WithPanel(b.graph(g).Repeat("worst_instance").RepeatDirection(dashboard.PanelRepeatDirectionH).MaxPerRow(whole / quarter)))
	return nil
}

// multiples are the quantities of which the fleet shows the worst.
var multiples = [...]struct{ title, expr string }{
	{"in flight", "contend:inflight"},
	{"in flight per busy core", "contend:inflight_per_cpu"},
	{"mean latency", "contend:latency"},
	{"waiting for locks", "contend:lock_wait"},
	{"waiting for pools", "contend:pool_wait"},
	{"waiting for dependencies", "contend:dependency_wait"},
	{"health check", "contend:health_latency"},
	{"CPU of its limit", "contend:cpu / contend:cpu_limit"},
	{"memory of its limit", "contend:memory / contend:memory_limit"},
	{"errors", "contend:errors"},
	{"connections", "contend:connections"},
	{"goroutines or threads", "contend:goroutines"},
}

// worstInstance is the hidden variable that small multiples are repeated for.
func worstInstance() *dashboard.QueryVariableBuilder {
	query := `query_result(topk by (job) ($worst, max_over_time(contend:inflight{job=~"$job",instance=~"$instance"}[$__range])))`
	all := dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}
	return dashboard.NewQueryVariableBuilder("worst_instance").Hide(dashboard.VariableHideHideVariable).Datasource(datasource).
		Query(dashboard.StringOrMap{String: &query}).Definition(query).Regex(`/instance="([^"]+)"/`).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).
		Current(dashboard.VariableOption{Selected: cog.ToPtr(true), Text: all, Value: all})
}

// columns are the table's, by instance.
var columns = [...]struct {
	title, expr string
	unit        string // Grafana's name
}{
	{"in flight", "contend:inflight", "short"},
	{"alerts", "count without (alert) (contend:holds)", "short"}, // whose condition holds for the instance
	{"per busy core", "contend:inflight_per_cpu", "short"},
	{"times its baseline", "contend:inflight_per_cpu / contend:inflight_per_cpu:baseline", "short"},
	{"waiting for locks", "contend:lock_wait", "short"},
	{"for pools", "contend:pool_wait", "short"},
	{"for dependencies", "contend:dependency_wait", "short"},
	{"latency", "contend:latency", "s"},
	{"health check", "contend:health_latency", "s"},
	{"CPU of limit", "contend:cpu / contend:cpu_limit", "percentunit"},
	{"memory of limit", "contend:memory / contend:memory_limit", "percentunit"},
	{"age", "contend:age", "s"},
}

// instances is the table of all instances as they are now, worst first.
func (b *board) instances() (*table.PanelBuilder, error) {
	const title = "Instances"
	b.panels++
	worstFirst := columns[0].title
	t := table.NewPanelBuilder().
		Id(b.panels).Title(title).Datasource(datasource).Span(whole).Height(height + height/2).
		Description("Every instance at the end of the time shown. One that is wedged stands out by requests in flight that its neighbours do not have.").
		Unit("short").Interval(b.interval()).Filterable(true).
		Footer(common.NewTableFooterOptionsBuilder().Reducer([]string{}).EnablePagination(true)).
		SortBy([]cog.Builder[common.TableSortByFieldState]{common.NewTableSortByFieldStateBuilder().DisplayName(worstFirst).Desc(true)})
	names := map[string]string{}
	for i, c := range columns {
		// Rows are joined by what the queries have in common: that must not be a name.
		expr, _, err := selected("max by (job, instance) ("+c.expr+")", asAlerts)
		if err != nil {
			return nil, err
		}
		q := b.query(title, i, line{expr, ""})
		t.WithTarget(q.Instant().Format(prometheus.PromQueryFormatTable))
		names[fmt.Sprintf("Value #%c", 'A'+i)] = c.title
		t.OverrideByName(c.title, []dashboard.DynamicConfigValue{{Id: "unit", Value: c.unit}})
	}
	t.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	t.WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
		"excludeByName": map[string]bool{"Time": true, "__name__": true},
		"renameByName":  names,
	}})
	return t, nil
}
