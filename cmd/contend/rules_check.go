package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/rules"
)

func checkRulesCommand() *cobra.Command {
	var f rulesFlags
	output := "text"
	cmd := &cobra.Command{
		Use:   "check --prometheus URL",
		Short: "Say which alerts can fire on a server, and what is missing",
		Long: `Check makes the rules as generate does and looks for what each of them reads on
the server, where they need not be loaded. It says how many of the alerts can
fire there, and of each whether its condition holds, is false, or can never hold
since there are no such series; then what to switch on for those, and which
metrics' values contradict how they are read, such as a gauge of which a rate is
taken. Last comes each rule, with how many series each of its selectors matches
now.

A condition is false also where something that it needs has no value yet: a
baseline wants a quarter of an hour of history. It is said what that is, and how
long it takes.`,
		Example: `  contend rules check --prometheus http://prometheus:9090
  contend rules check --prometheus http://prometheus:9090 --since 6h
  contend rules check --prometheus http://prometheus:9090 -o json | jq .missing`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if f.prometheus == "" {
				return errors.New("expected --prometheus URL, such as http://localhost:9090, saw none")
			}
			opt, err := f.options(cmd)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			checked, err := f.checkRules(ctx, cmd, opt)
			if err != nil {
				return &outcome{exitFailed, err}
			}
			stdout := cmd.OutOrStdout()
			if output == "json" {
				return writeIndented(stdout, checked)
			}
			return written(io.WriteString(stdout, checkedText(checked, cmp.Or(terminalWidth(stdout), usualWidth))))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&output, "output", "o", output, "`FORMAT` of the result: text or json")
	completeFlag(cmd, "output", "text", "json")
	f.add(cmd)
	return cmd
}

func (f *rulesFlags) checkRules(ctx context.Context, cmd *cobra.Command, opt rules.Options) (*rules.Checked, error) {
	api, err := f.api(cmd)
	if err != nil {
		return nil, err
	}
	if f.until.t.IsZero() {
		f.until.t = time.Now() // one moment for all that is asked
	}
	stage, _, err := f.stageOne(ctx, cmd)
	if err != nil {
		return nil, err
	}
	opt.All = true
	group, err := rules.Generate(all.Detectors(), stage, opt)
	if err != nil {
		return nil, err
	}
	collect := f.collect()
	collect.Interval, collect.End = stage.Timing.Interval, f.until.t
	collect.Start = collect.End.Add(-cmp.Or(f.since.d, defaultSince))
	collect.History, err = series.Timing{Factor: collect.Factor}.Span(series.History)
	if err != nil {
		return nil, err
	}
	steps := newProgress(cmd.ErrOrStderr())
	defer steps.done()
	collect.Progress = steps.begin
	c, err := series.Collect(ctx, api, collect)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", api.Name(), err)
	}
	for _, err := range c.Failures {
		steps.done()
		complain(cmd.ErrOrStderr(), err.Error())
	}
	checked, err := rules.Check(ctx, api, c, group)
	if err != nil {
		return nil, err
	}
	checked.Server = api.Name()
	return checked, nil
}

// checkedText is c for people, the most urgent first, in lines of at most width columns.
func checkedText(c *rules.Checked, width int) string {
	s := &sheet{width: width}
	s.headline(c)
	s.alerts(c.Alerts)
	s.missing(c)
	if len(c.Doubts) > 0 {
		s.section("Doubts")
	}
	for _, d := range c.Doubts {
		s.words("  ", strings.Fields(fmt.Sprintf("%s: %s %s", d.Record, d.Metric, d.Why)))
	}
	s.rules(c)
	return s.text.String()
}

// sheet is a text under construction.
type sheet struct {
	text  strings.Builder
	width int // in columns
}

func (s *sheet) section(title string) {
	s.line("")
	s.line(title)
}

const hanging = "      " // what is below a line and belongs to it

// words writes words after first, or wrapped below it where the line is too short
// for them. A word is never broken: names are to be copied.
func (s *sheet) words(first string, words []string) {
	for i := range words {
		words[i] = report.Printable(words[i])
	}
	if line := first + strings.Join(words, " "); len(words) == 0 || utf8.RuneCountInString(line) <= s.width {
		s.line(line)
		return
	}
	under := first
	if strings.TrimSpace(first) != "" {
		s.line(first)
		under = hanging
	}
	line := under + words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > s.width {
			s.line(line)
			line = under + word
		} else {
			line += " " + word
		}
	}
	s.line(line)
}

func (s *sheet) line(text string) { s.text.WriteString(strings.TrimRight(text, " ") + "\n") }

// table writes rows of three cells, of which the last is words to wrap.
func (s *sheet) table(rows []row) {
	var name, state int
	for _, r := range rows {
		name, state = max(name, utf8.RuneCountInString(r.name)), max(state, utf8.RuneCountInString(r.state))
	}
	for _, r := range rows {
		s.words(fmt.Sprintf("  %-*s  %-*s  ", name, r.name, state, r.state), r.words)
	}
}

type row struct {
	name, state string
	words       []string
}

func (s *sheet) headline(c *rules.Checked) {
	var cannot, hold, wait []string
	for _, a := range c.Alerts {
		switch name := alertText(c, a.Alert); {
		case a.State == rules.NoSeries:
			cannot = append(cannot, name)
		case a.State == rules.Holding:
			hold = append(hold, name)
		case len(a.Waits) > 0:
			wait = append(wait, name)
		}
	}
	text := fmt.Sprintf("all %d alerts can fire on %s", len(c.Alerts), c.Server)
	if n := len(cannot); n > 0 {
		text = fmt.Sprintf("%d of %d alerts can fire on %s; %d cannot: %s", len(c.Alerts)-n, len(c.Alerts), c.Server, n, strings.Join(cannot, ", "))
	}
	s.words("", strings.Fields(text))
	if len(hold) > 0 {
		s.words("", strings.Fields("hold now: "+strings.Join(hold, ", ")))
	}
	if len(wait) > 0 {
		s.words("", strings.Fields("cannot hold yet, for want of a value: "+strings.Join(wait, ", ")))
	}
}

// alertText is an alert's name, with its severity where somebody would be woken.
func alertText(c *rules.Checked, alert string) string {
	for _, a := range c.Alerts {
		if a.Alert == alert && a.Severity == detect.AlertPage {
			return alert + " (page)"
		}
	}
	return alert
}

func (s *sheet) alerts(alerts []rules.CheckedAlert) {
	s.section("Alerts")
	var rows []row
	for _, a := range alerts {
		text := ""
		switch {
		case a.Instances > 0:
			text = "on " + detect.Plural(float64(a.Instances), "instance")
		case len(a.Needs) > 0:
			var sets []string
			for _, set := range a.Needs {
				sets = append(sets, strings.Join(set, " and "))
			}
			text = "needs " + strings.Join(sets, ", or ")
		case len(a.Waits) > 0:
			var waits []string
			for _, w := range a.Waits {
				text := fmt.Sprintf("%s (%s", w.Record, w.State)
				if w.Takes != "" {
					text += ", takes " + w.Takes
				}
				waits = append(waits, text+")")
			}
			text = "waits for " + strings.Join(waits, " and ")
		}
		state := fmt.Sprintf("%-*s  %s", len(detect.AlertTicket), a.Severity, a.State)
		rows = append(rows, row{a.Alert, state, strings.Fields(text)})
	}
	s.table(rows)
}

// missing writes what to switch on.
func (s *sheet) missing(c *rules.Checked) {
	var idle []string
	for i, m := range c.Missing {
		if len(m.Wakes) == 0 {
			idle = append(idle, m.Record)
			continue
		}
		if i == 0 {
			s.section("To switch on")
		}
		var wakes []string
		for _, w := range m.Wakes {
			text := alertText(c, w.Alert)
			if len(w.With) > 0 {
				text += " (with " + strings.Join(w.With, " and ") + ")"
			}
			wakes = append(wakes, text)
		}
		s.words("  "+m.Record+"  ", strings.Fields("wakes "+strings.Join(wakes, ", ")))
		near := ""
		if len(m.Near) > 0 {
			near = fmt.Sprintf("or name what it is, as --signal %s=%s", strings.TrimPrefix(m.Record, "contend:"), strings.Join(m.Near, " or "))
		}
		for _, text := range []string{m.Hint, m.Why, near} {
			if text != "" {
				s.words(hanging, strings.Fields(text))
			}
		}
	}
	if len(idle) > 0 {
		s.section("No such series either, and no alert needs them (-o json says how to switch them on)")
		s.words("  ", strings.Fields(strings.Join(idle, ", ")))
	}
}

// rules writes what each selector of each rule matches.
func (s *sheet) rules(c *rules.Checked) {
	s.section("Rules: how many series each selector matches")
	var rows []row
	for _, r := range c.Records {
		words := selected(r.Reads)
		if r.Takes != "" {
			words = append(words, "(takes "+r.Takes+")")
		}
		if r.Why != "" {
			words = append(words, strings.Fields("("+r.Why+")")...)
		}
		rows = append(rows, row{r.Record, counted(r.State, r.Instances), words})
	}
	for _, a := range c.Alerts {
		rows = append(rows, row{a.Alert, counted(a.State, a.Instances), selected(a.Reads)})
	}
	s.table(rows)
}

// counted is a state, with of how many instances it is.
func counted(state rules.State, instances int) string {
	if instances > 0 {
		return fmt.Sprintf("%s: %d", state, instances)
	}
	return string(state)
}

// selected are metrics with how many series each has, each one word, since it is to stay on one line.
func selected(reads []rules.Selected) []string {
	var out []string
	for i, r := range reads {
		word := fmt.Sprintf("%s %d", r.Metric, r.Series)
		if i+1 < len(reads) {
			word += ","
		}
		out = append(out, word)
	}
	return out
}
