package backtest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/contend/contend/ingest/series"
)

// Limit is a bound on how often an alert may fire.
type Limit struct {
	Text     string
	alert    string            // its name; "" is any that the matchers match
	matchers []*labels.Matcher // of the labels that its rule gives it
	op       string
	most     float64
	per      time.Duration // 0 is the whole window
}

// pagesName is what a limit calls the pages of all alerts together.
const pagesName = "pages"

var (
	// The last comparison is the limit's: the name of an alert may have any characters.
	limitForm = regexp.MustCompile(`^(?s:(.*))(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*(?:/\s*([hdw]))?\s*$`)
	limitPer  = map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
)

// ParseLimit reads "ContendInflightCPU>2/d": too much is when that alert fired more than
// twice a day. The comparison may be >, >=, < or <=; the time h, d or w, or none for the
// whole window; the name pages counts the pages of all alerts. Matchers after the
// name, Disk full{severity="page"}>1/d, choose among alerts by the labels in their rules;
// an alert whose name ends with } or has space around it is {alertname="…"}.
func ParseLimit(text string) (Limit, error) {
	m := limitForm.FindStringSubmatch(text)
	if m == nil || strings.TrimSpace(m[1]) == "" {
		return Limit{}, fmt.Errorf(`expected an alert and how often it may not fire, such as ContendInflightCPU>2/d, Disk{severity="page"}>1/d or pages>1/w, saw %q`, text)
	}
	l := Limit{Text: strings.TrimSpace(text), op: m[2], per: limitPer[m[4]]}
	var err error
	if l.alert, l.matchers, err = chosen(strings.TrimSpace(m[1])); err != nil {
		return Limit{}, fmt.Errorf("expected matchers such as {severity=\"page\"} in %q: %w", text, err)
	}
	if l.alert == pagesName && l.matchers != nil {
		return Limit{}, fmt.Errorf("expected pages without matchers, since a page may be of several alerts, saw %q", text)
	}
	if l.most, err = strconv.ParseFloat(m[3], 64); err != nil {
		return Limit{}, fmt.Errorf("expected a number in %q: %w", text, err)
	}
	return l, nil
}

// chosen splits the name of an alert from the matchers after it: the longest that are some.
func chosen(text string) (alert string, matchers []*labels.Matcher, err error) {
	if !strings.HasSuffix(text, "}") {
		return text, nil, nil
	}
	p := parser.NewParser(parser.Options{})
	for i, c := range text {
		if c != '{' {
			continue
		}
		m, failed := p.ParseMetricSelector(text[i:])
		if failed == nil {
			return strings.TrimSpace(text[:i]), m, nil
		}
		err = cmp.Or(err, failed)
	}
	return text, nil, err
}

// on tells whether the limit is on an alert of a name and static labels.
func (l *Limit) on(alert string, own map[string]string) bool {
	if l.alert != "" && l.alert != alert {
		return false
	}
	return !slices.ContainsFunc(l.matchers, func(m *labels.Matcher) bool {
		if m.Name == alertLabel {
			return !m.Matches(alert)
		}
		return !m.Matches(own[m.Name])
	})
}

// Check fails where the limit is on none of the alerts, neither of the groups nor of
// those that are absent from them, or on pages where none of them pages.
func (l *Limit) Check(groups []Group, absent []Absent) error {
	var names, ofName []string
	found := false
	look := func(alert string, own map[string]string) {
		s := static(own)
		if !slices.Contains(names, alert) {
			names = append(names, alert)
		}
		if alert == l.alert {
			ofName = append(ofName, "{"+shownLabels(s)+"}")
		}
		severity := own[severityLabel]
		found = found || l.on(alert, s) || l.alert == pagesName && (isTemplate(severity) || pages(severity))
	}
	for _, a := range absent {
		look(a.Alert, a.static())
	}
	for i := range groups {
		for _, r := range groups[i].Rules {
			if r.Alert != "" {
				look(r.Alert, ownLabels(&groups[i], &r))
			}
		}
	}
	switch {
	case found:
		return nil
	case len(names) == 0:
		return fmt.Errorf("%s: the rules have no alerts", l.Text)
	case l.alert == pagesName:
		return fmt.Errorf("%s: expected an alert that pages (severity %s), saw none among %d", l.Text, strings.Join(pageSeverities, " or "), len(names))
	case len(ofName) > 0:
		return fmt.Errorf("%s: expected an alert of the rules, saw %s with other labels only: %s", l.Text, l.alert, strings.Join(ofName, ", "))
	case l.alert == "":
		return fmt.Errorf("%s: expected an alert of the rules, saw none with such labels", l.Text)
	}
	near := series.Nearest(l.alert, names)
	return fmt.Errorf("%s: expected an alert of the rules, saw %q; the closest: %s", l.Text, l.alert, strings.Join(near[:min(len(near), 3)], ", "))
}

// Judge says by how much r is beyond the limit, or else why that is not known; both are
// "" where r is within it.
//
// An alert that could not be replayed, or has no series, might have fired more often
// than it did: what is beyond a limit even so is beyond it, and what is
// within it only for that is not known. Pages are not known where an alert that pages
// could not be replayed, or where none of those that page has series: a rule
// file has alerts for what one does not run.
func (l *Limit) Judge(r *Result) (beyond, unknown string) {
	n := len(r.Pages)
	unknown = r.blindPages()
	if l.alert != pagesName {
		n, unknown = 0, ""
		for i := range r.Alerts {
			a := &r.Alerts[i]
			if !l.on(a.Alert, a.Labels) {
				continue
			}
			n += len(a.Firings)
			if why := a.blind(); why != "" && unknown == "" {
				unknown = r.title(a) + ": " + why
			}
		}
	}
	// A window shorter than the limit's time counts as if it were as long: two firings
	// in ten minutes are no 288 a day.
	often := float64(n)
	if l.per > 0 {
		often /= max(float64(r.End.Sub(r.Start))/float64(l.per), 1)
	}
	var over bool
	switch l.op {
	case ">":
		over = often > l.most
	case ">=":
		over = often >= l.most
	case "<":
		over = often < l.most
	default:
		over = often <= l.most
	}
	// More firings would not change that it is beyond an upper bound, or within a lower one.
	if upper := l.op[0] == '>'; unknown != "" && over != upper {
		return "", fmt.Sprintf("%s is not known: %s", l.Text, unknown)
	}
	if !over {
		return "", ""
	}
	name := strings.TrimSpace(l.Text[:strings.LastIndex(l.Text, l.op)])
	said := name + " never fired"
	switch {
	case l.alert == pagesName && n == 0:
		said = "nobody is paged"
	case l.alert == pagesName:
		said = "somebody is paged " + times(n)
	case n > 0:
		said = name + " fired " + times(n)
	}
	return fmt.Sprintf("%s in %s, which is %s", said, span(r.End.Sub(r.Start)), l.Text), ""
}

// Remark names the alerts that page and have no series, where the limit is on pages and
// they do not make it unknown; "" where there are none.
func (l *Limit) Remark(r *Result) string {
	names := r.paging(NoSeries)
	if l.alert != pagesName || len(names) == 0 {
		return ""
	}
	if _, unknown := l.Judge(r); unknown != "" {
		return ""
	}
	return l.Text + ": not looked, for want of series: " + strings.Join(names, ", ")
}

// blind says why an alert may have fired more often than it did; "" where it did not.
func (a *Alert) blind() string {
	switch {
	case a.Error != "":
		return a.Error
	case a.Outcome == NoSeries:
		return "no such series: " + strings.Join(a.NoSeries, ", ")
	}
	return ""
}

// blindPages says why pages may have been more than they are.
func (r *Result) blindPages() string {
	paging, noSeries := 0, 0
	for i := range r.Alerts {
		a := &r.Alerts[i]
		if !a.pages() {
			continue
		}
		paging++
		if a.Outcome == NoSeries {
			noSeries++
		} else if a.Error != "" {
			return r.title(a) + ": " + a.Error
		}
	}
	if noSeries == paging && paging > 0 {
		return "no alert that pages has series: " + strings.Join(r.paging(NoSeries), ", ")
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
