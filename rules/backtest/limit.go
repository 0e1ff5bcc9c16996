package backtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contend/contend/ingest/series"
)

// Limit is a bound on how often an alert may fire.
type Limit struct {
	Text  string
	alert string
	op    string
	most  float64
	per   time.Duration // 0 is the whole window
}

// pagesName is what a limit calls the pages of all alerts together.
const pagesName = "pages"

var (
	limitForm = regexp.MustCompile(`^\s*([^\s<>=]+)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*(?:/\s*([hdw]))?\s*$`)
	limitPer  = map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
)

// ParseLimit reads "ContendInflightCPU>2/d": too much is when that alert fired more than
// twice a day. The comparison may be >, >=, < or <=; the time h, d or w, or none for the
// whole window; the name pages counts the pages of all alerts.
func ParseLimit(text string) (Limit, error) {
	m := limitForm.FindStringSubmatch(text)
	if m == nil {
		return Limit{}, fmt.Errorf("expected an alert and how often it may not fire, such as ContendInflightCPU>2/d or pages>1/w, saw %q", text)
	}
	most, err := strconv.ParseFloat(m[3], 64)
	if err != nil {
		return Limit{}, fmt.Errorf("expected a number in %q: %w", text, err)
	}
	return Limit{Text: strings.TrimSpace(text), alert: m[1], op: m[2], most: most, per: limitPer[m[4]]}, nil
}

// Check fails where no alert of the groups has the limit's name.
func (l Limit) Check(groups []Group) error {
	var names []string
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert != "" && !slices.Contains(names, r.Alert) {
				names = append(names, r.Alert)
			}
		}
	}
	if l.alert == pagesName || slices.Contains(names, l.alert) {
		return nil
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: the rules have no alerts", l.Text)
	}
	near := series.Nearest(l.alert, names)
	return fmt.Errorf("%s: expected an alert of the rules, saw %q; the closest: %s", l.Text, l.alert, strings.Join(near[:min(len(near), 3)], ", "))
}

// Exceeded says by how much r is beyond the limit; "" where it is not. A window
// shorter than the limit's time counts as if it were as long: two firings in ten minutes
// are no 288 a day.
func (l Limit) Exceeded(r *Result) string {
	n := len(r.Pages)
	if l.alert != pagesName {
		n = 0
		for _, a := range r.Alerts {
			if a.Alert == l.alert {
				n += len(a.Firings)
			}
		}
	}
	often := float64(n)
	if l.per > 0 {
		often /= max(float64(r.End.Sub(r.Start))/float64(l.per), 1)
	}
	var beyond bool
	switch l.op {
	case ">":
		beyond = often > l.most
	case ">=":
		beyond = often >= l.most
	case "<":
		beyond = often < l.most
	default:
		beyond = often <= l.most
	}
	if !beyond {
		return ""
	}
	said := l.alert + " never fired"
	switch {
	case l.alert == pagesName && n == 0:
		said = "nobody is paged"
	case l.alert == pagesName:
		said = "somebody is paged " + times(n)
	case n > 0:
		said = l.alert + " fired " + times(n)
	}
	return fmt.Sprintf("%s in %s, which is %s", said, span(r.End.Sub(r.Start)), l.Text)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
