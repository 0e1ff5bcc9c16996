package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/rules"
	"github.com/contend/contend/rules/backtest"
)

// backtestFlags are the flags of contend rules backtest as given.
type backtestFlags struct {
	rulesFlags
	files  []string
	failIf []string
	output string
	// lookback is --query.lookback-delta of the server; 0 is Prometheus' default.
	lookback span
	groupBy  []string
}

// defaultBacktest is how far back a server is asked without --since: two weeks are
// in what one keeps by default.
const defaultBacktest = 14 * 24 * time.Hour

var backtestOutputs = []string{"text", "json", "junit"}

func backtestCommand() *cobra.Command {
	var f backtestFlags
	cmd := &cobra.Command{
		Use:   "backtest BUNDLE|--prometheus URL",
		Short: "Replay rules over history: when would each alert have fired",
		Long: `Backtest replays the alerts of rule files over what a server or a bundle
recorded, with their for and keep_firing_for, and says when each would have
fired, for how long and on what, and how often somebody would have been paged.
Recording rules in the files feed the rules after them, as on a server. Without
--rules the rules are those that contend rules generate writes.

An alert that did not fire is told apart: its condition was false, it was
pending but never for long enough, there are no such series, or it was never
evaluated, since its interval is longer than the window. Where a server keeps
less than --since asks for, what there is is replayed, and it is said.

What has severity page or critical pages somebody, once for all that fires at a
time for a job, as Alertmanager does with group_by: [job]; alerts without a job
are one page by alertname. --group-by has other labels instead, as group_by of
your own route.

A sample counts for 5 minutes where its series does not end, as by default on a
server; in the series of a scenario, for 5 minutes of its faster clock.
--lookback-delta is for servers that have another --query.lookback-delta.

Native histograms are read by a server alone, and not kept between rules: a rule
for which they would be lost is not replayed, nor are the alerts that it feeds.

Rules are replayed as if the alerts had been loaded when the window begins.
Rules that read the future (a negative offset) are not replayed; limits of
groups are not applied; of templates in labels, loops and queries are not
expanded.

--fail-if takes ALERT, a comparison, a number of firings, and /h, /d or /w or
nothing for the whole window; a window shorter than that counts as one. Where
alerts share a name, ALERT{severity="page"} chooses by the labels in their
rules. A name may have spaces: 'Disk full>1/d'. A limit is an error, not passed,
where its alert could not be replayed, was never evaluated or has no series,
unless the firings that there are exceed it all the same. So is one on pages
where an alert that pages could not be replayed, or where none of them has
series; where some have none, stderr names them.

Exit codes: 0 the rules were replayed; 1 the input or a rule file could not be
read, or a --fail-if not be judged; 2 wrong usage; 3 a --fail-if is true (1
outranks 3).`,
		Example: `  contend rules backtest --prometheus http://prometheus:9090 --since 14d
  contend rules backtest --prometheus http://prometheus:9090 \
      --rules alerts.yaml --fail-if 'HighErrorRate>2/d'
  contend rules backtest --rules rules.yaml --fail-if 'pages>1/w' -o junit data/
  contend rules backtest --rules nodes.yaml --group-by cluster,alertname \
      --fail-if 'Disk{severity="page"}>1/d' series.om`,
		RunE: func(cmd *cobra.Command, args []string) error { return backtestRules(cmd, args, &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output, "output", "o", "text", "`FORMAT` of the result: "+strings.Join(backtestOutputs, ", "))
	completeFlag(cmd, "output", backtestOutputs...)
	flags.StringArrayVar(&f.files, "rules", nil, "replay the rule `FILE`: of Prometheus, the operator or mimirtool (repeatable; default contend's own rules)")
	flags.StringArrayVar(&f.failIf, "fail-if", nil, "exit with 3 where an alert fires too often, `ALERT>N/d`, or pages>N/d (repeatable)")
	flags.StringSliceVar(&f.groupBy, "group-by", nil, "`LABELS` by which alerts that fire at a time are one page (default job, and alertname without one)")
	flags.Var(&f.lookback, "lookback-delta", "`DURATION` for which a sample counts, as --query.lookback-delta of the server (default 5m, divided by the clock factor)")
	f.add(cmd)
	flags.Lookup("since").Usage = "replay the last `DURATION` (default 14d of a server, all of a file)"
	flags.Lookup("interval").Usage = "evaluate groups that have no interval each `DURATION` (default the usual time between two scrapes)"
	return cmd
}

func backtestRules(cmd *cobra.Command, args []string, f *backtestFlags) error {
	if !slices.Contains(backtestOutputs, f.output) {
		return fmt.Errorf("unknown output %q; expected %s", f.output, strings.Join(backtestOutputs, ", "))
	}
	if len(args) == 0 && f.prometheus == "" {
		return errors.New("expected a bundle or --prometheus URL, saw neither")
	}
	if len(args) > 0 && f.prometheus != "" {
		return errors.New("expected a bundle or --prometheus URL, saw both")
	}
	if len(f.files) > 0 && len(f.labels)+len(f.settings) > 0 {
		return errors.New("--set and --extra-label change contend's own rules: not with --rules")
	}
	for _, name := range f.groupBy {
		if !model.LegacyValidation.IsValidLabelName(name) {
			return fmt.Errorf("--group-by: expected names of labels such as cluster,alertname, saw %q", name)
		}
	}
	opt, err := f.options(cmd)
	if err != nil {
		return err
	}
	var limits []backtest.Limit
	for _, text := range f.failIf {
		l, err := backtest.ParseLimit(text)
		if err != nil {
			return fmt.Errorf("--fail-if: %w", err)
		}
		limits = append(limits, l)
	}
	var groups []backtest.Group
	var absent []backtest.Absent
	for _, path := range f.files {
		read, err := readRules(path)
		if err != nil {
			return &outcome{exitFailed, err}
		}
		groups = append(groups, read...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	steps := newProgress(cmd.ErrOrStderr())
	defer steps.done()
	in, failed, err := f.open(ctx, cmd, args, steps)
	if err != nil {
		return &outcome{exitFailed, err}
	}
	if len(f.files) == 0 {
		if groups, absent, err = in.generate(ctx, opt); err != nil {
			return &outcome{exitFailed, err}
		}
	}
	for _, l := range limits {
		if err := l.Check(groups, absent); err != nil {
			return fmt.Errorf("--fail-if: %w", err)
		}
	}
	r, err := backtest.Run(ctx, in.source, groups, backtest.Options{
		Start: in.collect.Start, End: in.collect.End, Interval: f.interval.d, Absent: absent, Progress: steps.begin,
		Lookback: cmp.Or(f.lookback.d, in.lookback()), GroupBy: f.groupBy,
	})
	steps.done()
	if err != nil {
		return &outcome{exitFailed, err}
	}
	if err := writeBacktest(cmd.OutOrStdout(), r, limits, f.output); err != nil {
		return err
	}
	exceeded := false
	for _, l := range limits {
		beyond, unknown := l.Judge(r)
		for _, said := range []string{beyond, unknown, l.Remark(r)} {
			if said != "" {
				complain(cmd.ErrOrStderr(), said)
			}
		}
		exceeded = exceeded || beyond != ""
		failed = failed || unknown != ""
	}
	switch {
	case failed:
		return &outcome{exitFailed, nil}
	case exceeded:
		return &outcome{exitFound, nil}
	}
	return nil
}

// readRules reads one rule file.
func readRules(path string) ([]backtest.Group, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, backtest.MaxFile+1))
	if err != nil {
		return nil, err
	}
	return backtest.Parse(path, data)
}

// history is what rules are replayed over.
type history struct {
	source  backtest.Source
	collect series.CollectOptions
}

// lookback is a server's default by the clock of the series.
func (in *history) lookback() time.Duration {
	return time.Duration(float64(backtest.StandardLookback) / cmp.Or(in.collect.Factor, 1))
}

// open finds the series and the window. failed is whether a part of the input could not be read.
func (f *backtestFlags) open(ctx context.Context, cmd *cobra.Command, args []string, steps *progress) (in *history, failed bool, err error) {
	in = &history{collect: f.collect()}
	in.collect.Interval, in.collect.Progress = f.interval.d, steps.begin
	if f.prometheus != "" {
		api, err := f.api(cmd)
		if err != nil {
			return nil, false, err
		}
		in.source = backtest.FromServer(api)
		in.collect.End = f.until.t
		if in.collect.End.IsZero() {
			in.collect.End = time.Now()
		}
		in.collect.Start = in.collect.End.Add(-cmp.Or(f.since.d, defaultBacktest))
		return in, false, nil
	}
	bundle := ingest.Load(ctx, args, ingest.Options{Stdin: cmd.InOrStdin(), Progress: steps.begin})
	failed = complainOf(cmd.ErrOrStderr(), bundle.Failures, "")
	if bundle.Samples == nil {
		return nil, false, errors.New("expected series to replay rules over (series.om of a bundle, OpenMetrics text, a promtool tsdb dump), saw none")
	}
	first, last, ok := bundle.Samples.Extent()
	if !ok {
		return nil, false, errors.New("expected series to replay rules over, saw some without a sample")
	}
	in.source = backtest.FromStore(bundle.Samples)
	in.collect.Factor = cmp.Or(in.collect.Factor, bundle.ClockFactor)
	in.collect.Start, in.collect.End = first, last
	if end := f.until.t; !end.IsZero() && end.Before(last) {
		in.collect.End = end
	}
	if start := in.collect.End.Add(-f.since.d); f.since.d > 0 && start.After(first) {
		in.collect.Start = start
	}
	return in, failed, nil
}

// generate are contend's own rules for what is there, and the alerts that have
// nothing to read there.
func (in *history) generate(ctx context.Context, opt rules.Options) ([]backtest.Group, []backtest.Absent, error) {
	stage, err := series.StageOne(ctx, in.source, in.collect)
	if err != nil {
		return nil, nil, err
	}
	opt.Plain = true
	group, err := rules.Generate(all.Detectors(), stage, opt)
	if err != nil {
		return nil, nil, err
	}
	var absent []backtest.Absent
	for _, l := range group.LeftOut {
		if l.Severity != "" {
			absent = append(absent, backtest.Absent{Alert: l.Rule, Group: group.Name, Severity: l.Severity, Needs: l.Needs})
		}
	}
	groups, err := backtest.Parse("generated rules", rules.Encode(group, rules.Prometheus, rules.Header{}))
	return groups, absent, err
}

func writeBacktest(stdout io.Writer, r *backtest.Result, limits []backtest.Limit, format string) error {
	var b bytes.Buffer
	var err error
	switch format {
	case "json":
		err = backtest.JSON(&b, r)
	case "junit":
		err = backtest.JUnit(&b, r, limits)
	default:
		err = backtest.Text(&b, r)
	}
	if err != nil {
		return &outcome{exitFailed, err}
	}
	return written(stdout.Write(b.Bytes()))
}
