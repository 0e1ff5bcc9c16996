package backtest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/contend/contend/detect"
)

// JSON writes r.
func JSON(w io.Writer, r *Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// span is a duration as people say it, in at most two units: 13d5h, 2h10m, 1m19s,
// and below a minute in one: 31.1s, 250ms.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	// Each is rounded before it is looked at: 59.97 s are a minute.
	if d < time.Second {
		d = d.Round(time.Millisecond)
	} else {
		d = d.Round(100 * time.Millisecond)
	}
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	if d >= day {
		d = d.Round(time.Hour)
	}
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	case d < day:
		return model.Duration(d).String()
	}
	// Else 14d would be 2w, and 15d would not.
	days := fmt.Sprintf("%dd", d/day)
	if hours := d % day / time.Hour; hours > 0 {
		days += fmt.Sprintf("%dh", hours)
	}
	return days
}

// shownFirings are how many of an alert's are listed in text: its latest.
const shownFirings = 10

// printable is a text of a rule file or of series for one line of a page: what is not
// shown, or changes how what is beside it is shown, is escaped as in a string of Go, so that
// nobody can write lines that seem to be of the result. (detect/report, which does
// the like for its own pages, stands beside this package.)
func printable(text string) string {
	const most = 2000 // runes: more than any real name or message
	var b strings.Builder
	n := 0
	for _, c := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if strconv.IsPrint(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

// joined are some texts in a row, each printable.
func joined(texts []string) string {
	var out []string
	for _, text := range texts {
		out = append(out, printable(text))
	}
	return strings.Join(out, ", ")
}

// Text writes r for people. What is from rules and series is on it as printable makes it.
func Text(w io.Writer, r *Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s (%s)\n", clock(r.Start), clock(r.End), span(r.End.Sub(r.Start)))
	fmt.Fprintf(&b, "\n%s\n", pagesText(r))
	for _, p := range r.Pages[max(0, len(r.Pages)-shownFirings):] {
		fmt.Fprintf(&b, "  %s  %s%s: %s\n", clock(p.Start), length(p.Start, p.End), p.groupText(), joined(p.Alerts))
	}
	for i := range r.Alerts {
		a := &r.Alerts[i]
		fmt.Fprintf(&b, "\n%s: %s\n", r.title(a), a.summary(r))
		if more := len(a.Firings) - shownFirings; more > 0 {
			fmt.Fprintf(&b, "  … %d before\n", more)
		}
		for _, f := range a.Firings[max(0, len(a.Firings)-shownFirings):] {
			fmt.Fprintf(&b, "  %s  %s  {%s}\n", clock(f.Start), length(f.Start, f.End), shownLabels(f.Labels))
		}
		if a.Error != "" && a.Outcome != NotEvaluated { // whose summary is the error
			fmt.Fprintf(&b, "  %s\n", printable(a.Error))
		}
		if a.Outcome == NoSeries {
			for _, s := range a.NoSeries {
				fmt.Fprintf(&b, "  nothing matches %s\n", printable(s))
			}
		}
	}
	if n := len(r.NoSeries); n > 0 {
		fmt.Fprintf(&b, "\n%s of the rules matched nothing; -o json lists them (no_series)\n", detect.Plural(float64(n), "selector"))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s", printable(note))
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func pagesText(r *Result) string {
	n := len(r.Pages)
	blind := blindText(r)
	if n == 0 {
		return fmt.Sprintf("nobody was paged (severity %s)%s", strings.Join(pageSeverities, " or "), blind)
	}
	often := ""
	if days := r.Days(); days >= 1 {
		often = fmt.Sprintf(", %.2g a day", float64(n)/days)
	}
	return fmt.Sprintf("paged %s%s (severity %s, grouped by %s)%s", times(n), often, strings.Join(pageSeverities, " or "), r.groupedBy(), blind)
}

// groupedBy says in words by what the pages are grouped.
func (r *Result) groupedBy() string {
	if len(r.GroupBy) > 0 {
		return joined(r.GroupBy)
	}
	if slices.ContainsFunc(r.Pages, func(p Page) bool { return p.Job == "" }) {
		return "job, without one by alertname"
	}
	return model.JobLabel
}

// blindText names the alerts that would page and could not look.
func blindText(r *Result) string {
	text := ""
	if names := r.paging(NoSeries); len(names) > 0 {
		text += "\nnot looked, for want of series: " + strings.Join(names, ", ")
	}
	if names := r.paging(Failed, NotEvaluated); len(names) > 0 {
		text += "\nnot replayed: " + strings.Join(names, ", ")
	}
	return text
}

// paging are the titles of alerts that would page and of which one of some things became.
func (r *Result) paging(became ...Outcome) []string {
	var out []string
	for i := range r.Alerts {
		a := &r.Alerts[i]
		if name := r.title(a); slices.Contains(became, a.Outcome) && a.pages() && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// summary says what became of an alert.
func (a *Alert) summary(r *Result) string {
	pending := ""
	if a.Pending > 0 {
		pending = fmt.Sprintf("; pending %s without firing", times(a.Pending))
	}
	switch a.Outcome {
	case Fired:
		total := time.Duration(0)
		for _, f := range a.Firings {
			end := r.End
			if f.End != nil {
				end = *f.End
			}
			total += end.Sub(f.Start)
		}
		return fmt.Sprintf("fired %s, for %s in all%s", times(len(a.Firings)), span(total), pending)
	case Pending:
		return "never fired" + pending
	case NoSeries:
		return "could not fire: no such series"
	case Failed:
		return "not replayed"
	case NotEvaluated:
		return a.Error
	}
	return "never fired: its condition was false"
}

func length(start time.Time, end *time.Time) string {
	if end == nil {
		return "still firing"
	}
	return "for " + span(end.Sub(start))
}

// groupText is what a page is by, after its time: the job alone where it is by job,
// nothing where it is by the name of the alert, which follows.
func (p *Page) groupText() string {
	_, byName := p.Labels[alertLabel]
	_, byJob := p.Labels[model.JobLabel]
	switch {
	case len(p.Labels) == 1 && byName:
		return ""
	case len(p.Labels) == 1 && byJob && p.Job != "":
		return "  " + printable(p.Job)
	}
	return "  {" + shownLabels(p.Labels) + "}"
}

// shownLabels are the labels of an alert as PromQL writes them, sorted and printable.
func shownLabels(m map[string]string) string {
	var out []string
	for k, v := range m {
		if !model.LegacyValidation.IsValidLabelName(k) {
			k = strconv.Quote(k)
		}
		out = append(out, printable(k+"="+strconv.Quote(v)))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// The form that CI systems read, as of Apache Ant's junitreport.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Error   *junitMessage `xml:"error,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// JUnit writes r as results of tests: one for each limit, which fails where it is
// exceeded and is an error where that is not known, and one for each alert, which is an error where it could not be
// replayed and skipped where there are no series that it could fire on.
func JUnit(w io.Writer, r *Result, limits []Limit) error {
	s := junitSuite{Name: "contend rules backtest", Time: fmt.Sprintf("%.3f", r.End.Sub(r.Start).Seconds()), Timestamp: r.Start.UTC().Format("2006-01-02T15:04:05")}
	for _, l := range limits {
		c := junitCase{Name: printable(l.Text), Class: "limits"}
		beyond, unknown := l.Judge(r)
		c.Out = printable(l.Remark(r))
		if beyond != "" {
			c.Failure = &junitMessage{printable(beyond)}
			s.Failures++
		}
		if unknown != "" {
			c.Error = &junitMessage{printable(unknown)}
			s.Errors++
		}
		s.Cases = append(s.Cases, c)
	}
	for i := range r.Alerts {
		a := &r.Alerts[i]
		c := junitCase{Name: r.title(a), Class: printable(a.Group), Out: a.summary(r)}
		switch {
		case a.Error != "":
			c.Error = &junitMessage{printable(a.Error)}
			s.Errors++
		case a.Outcome == NoSeries:
			c.Skipped = &junitMessage{"no such series: " + joined(a.NoSeries)}
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	s.Tests = len(s.Cases)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(junitSuites{Suites: []junitSuite{s}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
