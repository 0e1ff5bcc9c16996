package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contend/contend/detect"
)

// job is the plots of one job, all on one time axis.
type job struct {
	Name       string
	Start, End time.Time
	Panels     []*panel
	Note       string // of which instances, and what a point is
}

// placeLooks are the colours of the budget's places, in its order.
var placeLooks = map[string]ribbon{
	detect.PlaceCPU:         {label: "on CPU", color: blue},
	detect.PlaceRunnable:    {label: "queueing for CPU", color: azure},
	detect.PlaceLock:        {label: "waiting for a lock", color: rust},
	detect.PlacePool:        {label: "waiting for a pool", color: ochre},
	detect.PlaceDependency:  {label: "waiting for a dependency", color: leaf},
	detect.PlaceUnexplained: {label: "unexplained", color: muted},
}

// lineLooks are how signals are drawn.
var lineLooks = map[string]ribbon{
	"inflight":       {label: "in flight", color: ink},
	"cpu":            {label: "busy", color: blue},
	"cpu_limit":      {label: "limit", color: rust, dash: dashed},
	"arrivals":       {label: "arrivals", color: blue},
	"completions":    {label: "completions", color: leaf, dash: dashed},
	"errors":         {label: "errors", color: rust, dash: dotted},
	"health_latency": {label: "latency, the slowest instance", color: purple},
	"health_timeout": {label: "timeout", color: rust, dash: dashed},
}

// jobs are the plots of a report's timelines.
func jobs(r *detect.Report) []job {
	var out []job
	for i := range r.Timelines {
		t := &r.Timelines[i]
		j := job{Name: t.Job, Start: t.Start, End: t.End, Note: timelineNote(t)}
		events := moments(r, t)
		id := fmt.Sprintf("job%d", i+1)
		if p := eventsPanel(t, r.Verdict.Story, events); p != nil {
			j.Panels = append(j.Panels, p)
		}
		for _, p := range []*panel{
			newPanel(t, "Where requests in flight are", "requests", areas(t.Places()), "inflight"),
			newPanel(t, "CPU", "cores", nil, "cpu", "cpu_limit"),
			newPanel(t, "Health checks", "seconds", nil, "health_latency", "health_timeout"),
			newPanel(t, "Arrivals and completions", "requests per second", nil, "arrivals", "completions", "errors"),
		} {
			if p != nil {
				j.Panels = append(j.Panels, p)
			}
		}
		for k, p := range j.Panels {
			p.ID = fmt.Sprintf("%s-%d", id, k+1)
		}
		drawPanels(t, j.Panels, events)
		out = append(out, j)
	}
	return out
}

func timelineNote(t *detect.Timeline) string {
	text := "Sums over " + count(int64(t.Instances), "instance", "instances") + "; a point is " + detect.Seconds(t.Every.Seconds())
	if t.Steps > 1 {
		text += fmt.Sprintf(", of whose %d readings lines show the highest, and areas the one with most requests in flight", t.Steps)
	}
	if t.MoreEnds > 0 {
		text += "; " + count(int64(t.MoreEnds), "later end of an instance is", "later ends of instances are") + " left out"
	}
	return text + ". Times are UTC."
}

// moments are the story and the ends of t's instances on its time axis.
func moments(r *detect.Report, t *detect.Timeline) []moment {
	var out []moment
	for i, s := range r.Verdict.Story {
		out = append(out, moment{s.At, s.Until, s.Role, i + 1})
	}
	for _, e := range t.Ends {
		out = append(out, moment{at: e.At, role: roleEnded})
	}
	return out
}

func areas(places []detect.Line) []ribbon {
	var out []ribbon
	for i := range places {
		l := placeLooks[places[i].Name]
		l.line, l.area = &places[i], true
		out = append(out, l)
	}
	return out
}

// newPanel draws the lines of signals over areas; nil where t has not the first of
// them, without which the others say little.
func newPanel(t *detect.Timeline, title, unit string, under []ribbon, signals ...string) *panel {
	if t.Line(signals[0]) == nil {
		return nil
	}
	p := &panel{Title: title, Unit: unit, ribbons: under}
	var missing []string
	for _, name := range signals {
		look := lineLooks[name]
		if look.line = t.Line(name); look.line == nil {
			missing = append(missing, look.label)
			continue
		}
		p.ribbons = append(p.ribbons, look)
	}
	p.describe(t)
	if len(missing) > 0 {
		p.Says += " Not in the series: " + strings.Join(missing, ", ") + "."
	}
	return p
}

// describe fills in the legend, the table, and what the panel says in words.
func (p *panel) describe(t *detect.Timeline) {
	var says, none []string
	p.Columns = []string{"time"}
	for i := range p.ribbons {
		r := &p.ribbons[i]
		p.Columns = append(p.Columns, r.label)
		at, most := peak(r.line.Values)
		if most == 0 {
			none = append(none, r.label)
			if r.area { // of no height
				continue
			}
		} else {
			says = append(says, fmt.Sprintf("%s at most %s, at %s", r.label, figure(most), t.At(at).UTC().Format(time.TimeOnly)))
		}
		p.Legend = append(p.Legend, legendEntry{Label: r.label, Color: hex(r.color), Dash: dashArray(r), Area: r.area})
	}
	// The topmost area first, as in the plot.
	n := 0
	for n < len(p.Legend) && p.Legend[n].Area {
		n++
	}
	slices.Reverse(p.Legend[:n])
	var sentences []string
	if len(says) > 0 {
		sentences = append(sentences, strings.Join(says, "; ")+".")
	}
	if len(none) > 0 {
		sentences = append(sentences, "None: "+strings.Join(none, ", ")+".")
	}
	p.Says = strings.Join(sentences, " ")
	for i := range p.ribbons[0].line.Values {
		row := []string{stamp(t, t.At(i))}
		for _, r := range p.ribbons {
			row = append(row, figure(r.line.Values[i]))
		}
		p.Rows = append(p.Rows, row)
	}
}

// stamp is a moment of t in UTC, with its day where that is not the first, and with
// ms where points are no whole seconds apart.
func stamp(t *detect.Timeline, at time.Time) string {
	form := time.TimeOnly
	if t.Every%time.Second != 0 {
		form = "15:04:05.000"
	}
	if at.UTC().Format(time.DateOnly) != t.Start.UTC().Format(time.DateOnly) {
		form = time.DateOnly + " " + form
	}
	return at.UTC().Format(form)
}

func peak(values []float64) (at int, most float64) {
	most = highest(values)
	return max(slices.Index(values, most), 0), most
}

func dashArray(r *ribbon) string {
	var parts []string
	for _, d := range r.dash {
		parts = append(parts, strconv.FormatFloat(d.Points(), 'g', -1, 64))
	}
	return strings.Join(parts, " ")
}

// figure writes a value of a table in three digits, or whole where it has more: "–" where
// there is none.
func figure(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case math.Abs(x) >= 100:
		return number(x)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// eventsPanel is what happened and when; nil where nothing did.
func eventsPanel(t *detect.Timeline, story []detect.StoryLine, events []moment) *panel {
	if len(events) == 0 {
		return nil
	}
	p := &panel{Title: "What happened", Columns: []string{"time", "event", "what", "until"}}
	for _, m := range roleMarks {
		n := 0
		for _, e := range events {
			if e.role == m.role {
				n++
			}
		}
		if n == 0 {
			continue
		}
		label := m.name
		if m.role == roleEnded {
			label = "an instance ended or began anew"
		}
		p.Legend = append(p.Legend, legendEntry{Label: fmt.Sprintf("%s (%d)", label, n), Color: hex(m.color), Shape: m.sign})
	}
	p.Says = "Numbers are those of the story. Bars are how long the conditions of alerts held."
	for i, s := range story {
		until := ""
		if !s.Until.IsZero() {
			until = stamp(t, s.Until)
		}
		p.Rows = append(p.Rows, []string{stamp(t, s.At), fmt.Sprintf("%d, %s", i+1, markOf(s.Role).name), s.Detector, until})
	}
	for _, e := range t.Ends {
		what := "ended"
		if e.Restarted {
			what = "began anew"
		}
		p.Rows = append(p.Rows, []string{stamp(t, e.At), what, e.Instance, ""})
	}
	return p
}
