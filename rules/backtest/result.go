package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Schema names the form of a Result's JSON.
const Schema = "contend.backtest/v1"

// Result is what a replay found. Its JSON is stable within Schema; what is
// absent is left out.
type Result struct {
	Schema string `json:"schema"`
	// Start and End are the time that was replayed: less than was asked for where
	// the data begins later.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Alerts are all alerting rules, in the order of their files.
	Alerts []Alert `json:"alerts"`
	// Pages are how often somebody would have been called: see grouped.
	Pages []Page `json:"pages"`
	// GroupBy are the labels that were asked for by which firings are one page; none is
	// by job, and by alertname what has no job.
	GroupBy []string `json:"group_by,omitempty"`
	// NoSeries are the selectors of the rules that matched nothing in the whole
	// window, sorted.
	NoSeries []string `json:"no_series"`
	Notes    []string `json:"notes,omitempty"`
}

// Outcome is what became of an alerting rule.
type Outcome string

// An alert that did not fire either could not have, for want of series or of an
// evaluation, or was waiting, or its condition was false.
const (
	Fired          Outcome = "fired"
	Pending        Outcome = "pending"         // and never for long enough
	ConditionFalse Outcome = "condition false" // at each evaluation
	NoSeries       Outcome = "no series"       // that could make it true
	Failed         Outcome = "failed"          // it could not be replayed
	NotEvaluated   Outcome = "not evaluated"   // not once: its interval is longer than the window
)

// Alert is one alerting rule.
type Alert struct {
	Alert    string `json:"alert"`
	Group    string `json:"group"`
	File     string `json:"file,omitempty"`
	Severity string `json:"severity,omitempty"` // its label, where that is no template
	// Labels are those that its rule gives to all its alerts, severity among them: what
	// tells two of one name apart.
	Labels   map[string]string `json:"labels,omitempty"`
	Outcome  Outcome           `json:"outcome"`
	Firings  []Firing          `json:"firings"`
	Pending  int               `json:"pending"`             // how often it was pending and did not fire
	NoSeries []string          `json:"no_series,omitempty"` // what it reads, itself or by records, that was never there
	Error    string            `json:"error,omitempty"`

	template bool // its severity is one
}

// Firing is a time during which an alert fired, without interruption.
type Firing struct {
	Start  time.Time         `json:"start"`
	End    *time.Time        `json:"end,omitempty"` // nil where it still fires
	Labels map[string]string `json:"labels"`        // without alertname
}

// Page is one call: all that fires at a time with some labels alike, once.
type Page struct {
	Job    string            `json:"job"`    // "" where it is not by job
	Labels map[string]string `json:"labels"` // that it is by: {"job": "gateway"}
	Start  time.Time         `json:"start"`
	End    *time.Time        `json:"end,omitempty"`
	Alerts []string          `json:"alerts"` // sorted
}

const severityLabel = "severity"

// pageSeverities are the values of the label severity for which somebody is
// called: contend's own, and the one that most others use.
var pageSeverities = []string{"page", "critical"}

// pages tells whether somebody is called for a severity.
func pages(severity string) bool { return slices.Contains(pageSeverities, severity) }

// pages tells whether an alert may call somebody.
func (a *Alert) pages() bool { return a.template || pages(a.Severity) }

// title is an alert's name, with the labels of its rule where others have that name; it is printable.
func (r *Result) title(a *Alert) string {
	alike := func(b Alert) bool { return b.Alert == a.Alert }
	first := slices.IndexFunc(r.Alerts, alike)
	if len(a.Labels) == 0 || !slices.ContainsFunc(r.Alerts[first+1:], alike) {
		return printable(a.Alert)
	}
	return printable(a.Alert) + "{" + shownLabels(a.Labels) + "}"
}

// Days is how long the time was that was replayed.
func (r *Result) Days() float64 { return r.End.Sub(r.Start).Hours() / 24 }

// result collects what the rules found.
func (p *replay) result() *Result {
	out := &Result{Schema: Schema, Start: p.opt.Start.UTC(), End: p.opt.End.UTC(), Alerts: []Alert{}, Pages: []Page{}, NoSeries: []string{}}
	p.could = p.possible()
	absent := map[string]bool{}
	for _, r := range p.rules {
		for _, s := range r.reads {
			if !p.there(&s) {
				absent[s.text] = true
			}
		}
		if r.alert != nil {
			out.Alerts = append(out.Alerts, p.alertOf(r))
		}
		p.remark(r)
	}
	for i := range p.groups {
		if g := &p.groups[i]; g.Limit > 0 {
			p.note("group %s: its limit of %d is not applied", g.Name, g.Limit)
		}
	}
	for _, a := range p.opt.Absent {
		out.Alerts = append(out.Alerts, Alert{Alert: a.Alert, Group: a.Group, Severity: a.Severity, Labels: a.static(), Outcome: NoSeries, Firings: []Firing{}, NoSeries: a.Needs})
	}
	for text := range absent {
		out.NoSeries = append(out.NoSeries, text)
	}
	slices.Sort(out.NoSeries)
	out.GroupBy = p.opt.GroupBy
	out.Pages = grouped(out.Alerts, out.GroupBy)
	out.Notes = p.notes
	return out
}

// there tells whether a selector matched anything, or may have for all that is known.
func (p *replay) there(s *selector) bool {
	if p.matched[s.text] {
		return true
	}
	return slices.ContainsFunc(s.from, func(w *rule) bool {
		return !w.empty || w.unknown(map[*rule]bool{}) != "" || w.begin.IsZero() && p.could[w]
	})
}

// possible are the rules that could have had a value with the series that are there. Rules
// that read each other need a value from outside: each look finds those that
// earlier ones feed, until one finds none.
func (p *replay) possible() map[*rule]bool {
	could := map[*rule]bool{}
	for found := true; found; {
		found = false
		for _, level := range p.levels {
			for _, u := range level {
				for _, r := range u.rules {
					if !could[r] && couldBe(r.expr, func(v *parser.VectorSelector) bool { return p.feeds(r, v, could) }) {
						could[r], found = true, true
					}
				}
			}
		}
	}
	return could
}

// feeds tells whether a selector of a rule matches anything, or could of what rules write.
func (p *replay) feeds(r *rule, v *parser.VectorSelector, could map[*rule]bool) bool {
	text := matchersText(v)
	i := slices.IndexFunc(r.reads, func(s selector) bool { return s.text == text })
	return p.matched[text] || i >= 0 && slices.ContainsFunc(r.reads[i].from, func(w *rule) bool { return !w.empty || could[w] })
}

// missing adds the selectors that a rule needs and that match nothing. Of a record that is
// made of other records it is theirs: those are what a user knows.
func (p *replay) missing(r *rule, visited map[*rule]bool, found map[string]bool) map[string]bool {
	visited[r] = true
	for _, s := range r.reads {
		if p.there(&s) {
			continue
		}
		further := false
		for _, w := range s.from {
			if !visited[w] && !w.pure() && !p.could[w] {
				p.missing(w, visited, found)
				further = true
			}
		}
		if !further {
			found[s.text] = true
		}
	}
	return found
}

// couldBe tells whether an expression can have a value where selectors match or not.
func couldBe(e parser.Expr, has func(*parser.VectorSelector) bool) bool {
	switch e := e.(type) {
	case *parser.VectorSelector:
		return has(e)
	case *parser.MatrixSelector:
		return couldBe(e.VectorSelector, has)
	case *parser.ParenExpr:
		return couldBe(e.Expr, has)
	case *parser.UnaryExpr:
		return couldBe(e.Expr, has)
	case *parser.SubqueryExpr:
		return couldBe(e.Expr, has)
	case *parser.AggregateExpr:
		return couldBe(e.Expr, has)
	case *parser.Call:
		switch e.Func.Name {
		case "absent", "absent_over_time", "scalar":
			return true
		}
		return !slices.ContainsFunc(e.Args, func(arg parser.Expr) bool { return !couldBe(arg, has) })
	case *parser.BinaryExpr:
		left := couldBe(e.LHS, has)
		switch {
		case e.Op == parser.LOR:
			return left || couldBe(e.RHS, has)
		case e.Op == parser.LUNLESS:
			return left
		case e.VectorMatching != nil && (e.VectorMatching.FillValues.LHS != nil || e.VectorMatching.FillValues.RHS != nil):
			return left || couldBe(e.RHS, has)
		}
		return left && couldBe(e.RHS, has)
	}
	return true
}

func (p *replay) alertOf(r *rule) Alert {
	out := Alert{Alert: r.Alert, Group: r.group.Name, File: r.group.File, Labels: static(r.labels), Firings: []Firing{}}
	out.Severity, out.template = out.Labels[severityLabel], isTemplate(r.labels[severityLabel])
	for _, t := range r.alert.tracks {
		spans := t.fired
		if t.firing != nil {
			spans = append(slices.Clone(spans), *t.firing)
		} else if len(t.at) > 0 {
			out.Pending++
		}
		out.Pending += t.pending
		named := t.labels.Map()
		delete(named, alertLabel)
		for _, s := range spans {
			f := Firing{Start: s.Fired.UTC(), Labels: named}
			if !s.Resolved.IsZero() {
				end := s.Resolved.UTC()
				f.End = &end
			}
			out.Firings = append(out.Firings, f)
		}
	}
	slices.SortFunc(out.Firings, func(a, b Firing) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(labelText(a.Labels), labelText(b.Labels)))
	})
	out.NoSeries = slices.Sorted(maps.Keys(p.missing(r, map[*rule]bool{}, map[string]bool{})))
	fed := false // by what is not known
	switch {
	case r.err != nil:
		out.Error = r.err.Error()
	case r.evaluations == 0:
		out.Error = r.idle()
	case r.alert.doubled > 0:
		out.Error = fmt.Sprintf("%d evaluations have two alerts with the same labels, first at %s: a server refuses them", r.alert.doubled, clock(r.alert.firstDoubled))
	case r.failures > 0:
		out.Error = fmt.Sprintf("some evaluations failed, %s", r.failure)
	default:
		if why := r.unknown(map[*rule]bool{}); why != "" {
			out.Error, fed = "it reads what is not known: "+why, true
		}
	}
	switch {
	case len(out.Firings) > 0:
		out.Outcome = Fired
	case r.err == nil && r.evaluations == 0:
		out.Outcome = NotEvaluated
	case r.err != nil || r.failures > 0 || fed:
		out.Outcome = Failed
	case out.Pending > 0:
		out.Outcome = Pending
	case !p.could[r]:
		out.Outcome = NoSeries
	default:
		out.Outcome = ConditionFalse
	}
	return out
}

// idle says why a rule was never evaluated. Of a rule whose interval is shorter than the
// window a multiple of it is in there.
func (r *rule) idle() string {
	return fmt.Sprintf("not evaluated: its interval of %s is longer than the window", model.Duration(r.step))
}

// unknown says why not all values of a rule are known, its own fault or that of what
// it reads; "" where they are. A condition on what is not known is not false.
func (r *rule) unknown(visited map[*rule]bool) string {
	visited[r] = true
	name := cmp.Or(r.Record, r.Alert)
	switch {
	case r.err != nil:
		return fmt.Sprintf("%s is not replayed: %v", name, r.err)
	case r.failures > 0:
		return fmt.Sprintf("%s: some evaluations failed, %s", name, r.failure)
	case r.evaluations == 0 && !r.begin.IsZero():
		return name + ": " + r.idle()
	}
	for _, s := range r.reads {
		for _, w := range s.from {
			if visited[w] {
				continue
			}
			if why := w.unknown(visited); why != "" {
				return why
			}
		}
	}
	return ""
}

// remark notes what of a rule is not replayed as a server would.
func (p *replay) remark(r *rule) {
	if r.alert == nil && r.err != nil {
		p.note("%s is not replayed: %v", r.Record, r.err)
	}
	if r.alert == nil && r.failures > 0 {
		p.note("%s: some evaluations failed, %s", r.Record, r.failure)
	}
	if r.alert != nil {
		for name, why := range r.alert.plain {
			p.note("%s: the template of its label %s is not expanded, since it has %s", r.Alert, name, why)
		}
	}
}

func labelText(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// grouped are the firings of alerts that call somebody as calls, as Alertmanager with
// that group_by makes them: as long as any of a group's fires, all are one. Unless it is
// said, that is by job, as in contend's Alertmanager configuration, and of what has no job
// (sum(…) > 5) by alertname, as in most others: what has no label in common is
// no one incident.
func grouped(alerts []Alert, by []string) []Page {
	type call struct {
		Firing
		alert string
	}
	groups := map[string][]call{}
	named := map[string]map[string]string{}
	for _, a := range alerts {
		for _, f := range a.Firings {
			if !pages(f.Labels[severityLabel]) {
				continue
			}
			of := map[string]string{}
			for _, name := range by {
				of[name] = f.Labels[name]
			}
			if _, asked := of[alertLabel]; asked || len(by) == 0 && f.Labels[model.JobLabel] == "" {
				of[alertLabel] = a.Alert
			} else if len(by) == 0 {
				of[model.JobLabel] = f.Labels[model.JobLabel]
			}
			key := labels.FromMap(of).String()
			named[key] = of
			groups[key] = append(groups[key], call{f, a.Alert})
		}
	}
	out := []Page{}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		calls := groups[key]
		slices.SortStableFunc(calls, func(a, b call) int { return a.Start.Compare(b.Start) })
		var page *Page
		for _, c := range calls {
			if page == nil || page.End != nil && c.Start.After(*page.End) {
				out = append(out, Page{Job: named[key][model.JobLabel], Labels: named[key], Start: c.Start, End: c.End})
				page = &out[len(out)-1]
			}
			if page.End != nil && (c.End == nil || c.End.After(*page.End)) {
				page.End = c.End
			}
			if !slices.Contains(page.Alerts, c.alert) {
				page.Alerts = append(page.Alerts, c.alert)
				slices.Sort(page.Alerts)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Page) int { return a.Start.Compare(b.Start) })
	return out
}
