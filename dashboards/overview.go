package dashboards

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/text"

	"github.com/contend/contend/detect"
)

// overview is the dashboard of an incident: the alerts of all jobs, then of those
// chosen where their requests are and the measures that tell the story, then,
// closed, each job alone, and a row for each detector with all that its alerts
// compare. What is open is as many panels for fifty jobs as for one.
func (b *board) overview() error {
	b.WithPanel(b.alerts())
	b.WithRow(b.heading("$job"))
	together, err := budget(chosen, "sum(%s)", "")
	if err != nil {
		return err
	}
	together.title = "Where requests in flight are"
	together.width = half
	together.description = "Requests in flight of all jobs chosen by what they wait for: the largest share that grows names the cause, and the others are what is ruled out. " +
		"A share is at most what is in flight, instance by instance: calls go out in parallel, and background work uses CPU too."
	b.WithPanel(b.graph(together))
	for _, h := range headlines {
		m, err := b.measured(h.measure)
		if err != nil {
			return err
		}
		g := graph{title: h.title, description: h.description, width: h.width}
		if h.detector != "" {
			g.page = detect.Page(h.detector)
		}
		for _, beside := range h.beside {
			query, byInstance, err := selected(beside.expr, asAlerts)
			if err != nil {
				return err
			}
			legend := beside.legend + " {{job}}"
			if byInstance {
				worst, _, err := selected(h.measure, asAlerts)
				if err != nil {
					return err
				}
				query, legend = worstOnly(query, worst), beside.legend+" {{instance}}"
			}
			g.lines = append(g.lines, line{query, legend})
		}
		if g, err = measureGraph(m, g); err != nil {
			return err
		}
		b.WithPanel(b.graph(g))
	}
	row := b.heading("Where requests in flight are, job by job").Collapsed(true)
	alone, err := budget(chosen, "sum by (job) (%s)", " {{job}}")
	if err != nil {
		return err
	}
	alone.title, alone.width = "$job", third
	alone.description = "Requests in flight of one job by what they wait for."
	b.WithRow(row.WithPanel(b.graph(alone).Repeat("job").RepeatDirection(dashboard.PanelRepeatDirectionH).MaxPerRow(whole / third)))
	return b.rows()
}

// headlines are what tells the story of an incident, beside the budget. Their
// limits are those of the alerts that hold the same against something.
var headlines = [...]struct {
	measure            string
	title, description string
	detector           string
	beside             []line // drawn with it, as PromQL without selectors
	width              uint32
}{
	{
		measure: "contend:inflight_per_cpu", title: "In flight per busy core", detector: "inflightcpu", width: half,
		description: "Requests in flight divided by cores busy, its own median of the last hour, and the limits of its alert. It rises where a service is blocked, not busy, before the first request times out.",
		beside:      []line{{"contend:inflight_per_cpu:baseline", "baseline"}},
	},
	{
		measure: "contend:health_latency", title: "Health checks against their timeout", detector: "healthcheck", width: half,
		description: "How long health checks take, and how long they may. Where a handler that has next to nothing to do slows down, everything else waits too, and what checks it is about to replace it.",
		beside:      []line{{"contend:health_timeout", "timeout"}},
	},
	{
		measure: "sum by (job) (contend:arrivals)", title: "Arrivals against completions", detector: "herd", width: half,
		description: "Requests that begin, finish and fail each second, of the whole job. Where completions stay behind arrivals, requests pile up; where errors stay flat meanwhile, an error rate does not see it.",
		beside:      []line{{"sum by (job) (contend:completions)", "completions"}, {"sum by (job) (contend:errors)", "errors"}},
	},
	{
		measure: "sum by (job) (contend:short_lives)", title: "Replacements", detector: "replacement", width: half,
		description: "How many of the last quarter of an hour's instances began again soon after they began, or were gone within five minutes, and how many instances there are. New ones take the same load cold.",
		beside:      []line{{"count by (job) (contend:start_time)", "instances"}},
	},
	{
		measure: "contend:memory / contend:memory_limit", title: "Memory against its limit", detector: "memorygrowth", width: half,
		description: "Share of the memory limit in use. Requests that wait hold memory: a process that reaches its limit is killed.",
	},
}

// alerts is the state of every alert over time, of jobs that are not chosen
// too: a click on one chooses its job.
func (b *board) alerts() *statetimeline.PanelBuilder {
	const title = "Alerts"
	b.panels++
	state := func(name string) string {
		return `max by (alertname, job) (ALERTS{alertname=~"Contend.+",alertstate="` + name + `"})`
	}
	mapped := func(index int32, text, color string) dashboard.ValueMappingResult {
		return dashboard.ValueMappingResult{Text: &text, Color: &color, Index: &index}
	}
	mapping := dashboard.NewValueMap()
	mapping.Options = map[string]dashboard.ValueMappingResult{"1": mapped(0, "pending", "yellow"), "2": mapped(1, "firing", "red")}
	return statetimeline.NewPanelBuilder().
		Id(b.panels).Title(title).Datasource(datasource).Span(whole).Height(height).
		Description("Which of contend's alerts are pending or firing, for which of all jobs; a click leads to the job. What fires first and what follows is the story of an incident.").
		Unit("short").Interval(b.interval()).NoValue("no alert").
		Mappings([]dashboard.ValueMapping{{ValueMap: mapping}}).
		DataLinks([]cog.Builder[dashboard.DashboardLink]{
			dashboard.NewDashboardLinkBuilder("show ${__field.labels.job}").Type(dashboard.DashboardLinkTypeLink).
				Url("/d/" + overviewUID + "?${__url_time_range}&${datasource:queryparam}&var-job=${__field.labels.job}"),
		}).
		ShowValue(common.VisibilityModeNever).Tooltip(tooltip()).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		WithTarget(b.query(title, 0, line{"2 * " + state("firing") + " or " + state("pending"), "{{alertname}} {{job}}"}))
}

// places are where a request in flight can be, by signal, and what to call it.
var places = [...]struct{ signal, legend string }{
	{"contend:cpu", "on CPU"},
	{"contend:cpu_wait", "queueing for CPU"},
	{"contend:lock_wait", "waiting for a lock"},
	{"contend:pool_wait", "waiting for a pool"},
	{"contend:dependency_wait", "waiting for a dependency"},
}

// budget stacks requests in flight by where they are. form has the place of an
// expression by instance; legends end with whose they are.
func budget(of scope, form, whose string) (graph, error) {
	const all = "contend:inflight"
	rest := all
	out := graph{unit: grafanaUnits["requests"], stacked: true}
	add := func(expr, legend string) error {
		query, _, err := selected(fmt.Sprintf(form, expr), of)
		out.lines = append(out.lines, line{query, legend})
		return err
	}
	for _, p := range places {
		if err := add(fmt.Sprintf("%[1]s <= %[2]s or %[2]s and %[1]s", p.signal, all), p.legend+whose); err != nil {
			return out, err
		}
		rest += fmt.Sprintf(" - (%s or 0 * %s)", p.signal, all) // a signal that is not there holds none
	}
	if err := add("clamp_min("+rest+", 0)", "unexplained"+whose); err != nil {
		return out, err
	}
	return out, add(all, totalLegend+whose)
}

// rows are the detectors, in the order of a story: what set it off, what holds
// the requests, what follows. They are closed, so that the dashboard opens fast.
func (b *board) rows() error {
	var stacks []string
	for _, role := range [...]detect.Role{detect.Trigger, detect.Cause, detect.Symptom, detect.Forecast} {
		for _, d := range b.detectors {
			switch {
			case d.Role != role:
			case len(d.Signals) == 0:
				stacks = append(stacks, fmt.Sprintf("- [%s](%s): %s. No alert sees it: %s.", d.Name, detect.Page(d.Name), d.Title, d.NoAlert))
			default:
				if err := b.row(d); err != nil {
					return fmt.Errorf("detector %s: %w", d.Name, err)
				}
			}
		}
	}
	if len(stacks) == 0 {
		return nil
	}
	row := b.heading("what stacks alone show").Collapsed(true)
	b.panels++
	b.WithRow(row.WithPanel(
		text.NewPanelBuilder().Id(b.panels).Title("Found in profiles and dumps alone").Span(whole).Height(height).
			Description("Detectors that no series can tell from others of the same signature, and the command that looks.").
			Mode(text.TextModeMarkdown).
			Content("`contend analyze http://HOST:PORT` of an instance that an alert names looks for these too:\n\n" + strings.Join(stacks, "\n"))))
	return nil
}

// row is one detector: a panel for each quantity that an alert of it compares.
func (b *board) row(d *detect.Detector) error {
	row := b.heading(fmt.Sprintf("%s: %s (%s)", d.Name, d.Title, d.Role)).Collapsed(true)
	for i := range d.Signals {
		s := &d.Signals[i]
		found, err := measures(s, b.timing)
		if err != nil {
			return err
		}
		explained, err := b.explain(s)
		if err != nil {
			return err
		}
		for _, m := range found {
			description := explained
			if gated := m.gated(); gated != "" {
				description = gated + "\n\n" + explained
			}
			g, err := measureGraph(m, graph{description: description, width: third, page: detect.Page(d.Name)})
			if err != nil {
				return fmt.Errorf("%s: %w", s.Alert, err)
			}
			if len(d.Signals) > 1 {
				g.title = s.Alert + ": " + g.title
			}
			row.WithPanel(b.graph(g))
		}
	}
	b.WithRow(row)
	return nil
}

// explain is the description of a signal's panels, in Markdown.
func (b *board) explain(s *detect.Signal) (string, error) {
	e, err := parsed(s.Expr, b.timing)
	if err != nil {
		return "", err
	}
	out := []string{fmt.Sprintf("**%s** (%s): %s.", s.Alert, s.AlertSeverity(), s.Title)}
	lasts := ""
	if s.For != "" {
		d, err := b.timing.Span(s.For)
		if err != nil {
			return "", err
		}
		lasts = fmt.Sprintf(" for %v", d)
	}
	out = append(out, "Fires where this holds"+lasts+":", fenced(e))
	if len(s.Unless) > 0 {
		names := []string{"unless it looks like"}
		for _, l := range s.Unless {
			names = append(names, "- "+l.Name)
		}
		out = append(out, strings.Join(names, "\n"))
	}
	return strings.Join(append(out, "Thresholds: "+s.Thresholds+"."), "\n\n"), nil
}
