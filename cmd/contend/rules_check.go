package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/rules"
)

func checkRulesCommand() *cobra.Command {
	var f rulesFlags
	cmd := &cobra.Command{
		Use:   "check --prometheus URL",
		Short: "Say for each rule what it finds on a server, and what to switch on",
		Long: `Check makes the rules as generate does and looks for what each of them reads on the
server, where they need not be loaded: how many series each selector matches now,
and whether a condition holds, is false, or can have no value since there are no
such series, with what to switch on for them. A metric whose values contradict how it is
read, such as a gauge of which a rate is taken, is named.`,
		Example: `  contend rules check --prometheus http://prometheus:9090
  contend rules check --prometheus http://prometheus:9090 --selector 'job="gateway"'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			return writeChecked(cmd.OutOrStdout(), checked)
		},
	}
	cmd.Flags().SortFlags = false
	f.add(cmd)
	return cmd
}

func (f *rulesFlags) checkRules(ctx context.Context, cmd *cobra.Command, opt rules.Options) ([]rules.Checked, error) {
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
	collect.Start = collect.End.Add(-max(f.since.d, defaultSince))
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
	return rules.Check(ctx, api, c, group)
}

func writeChecked(w io.Writer, checked []rules.Checked) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tSTATE\tINSTANCES\tSERIES")
	for _, c := range checked {
		var selected []string
		for _, s := range c.Selected {
			selected = append(selected, fmt.Sprintf("%s %d", s.Metric, s.Series))
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", c.Rule, c.State, c.Instances, report.Printable(strings.Join(selected, ", ")))
	}
	if err := written(0, t.Flush()); err != nil {
		return err
	}
	for _, c := range checked {
		if c.Doubt != "" {
			if err := written(fmt.Fprintf(w, "\n%s: %s\n", c.Rule, report.Printable(c.Doubt))); err != nil {
				return err
			}
		}
		if c.Hint != "" {
			if err := written(fmt.Fprintf(w, "\n%s: %s\n", c.Rule, report.Printable(c.Hint))); err != nil {
				return err
			}
		}
	}
	return nil
}
