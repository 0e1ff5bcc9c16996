package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/promapi"
	"github.com/contend/contend/rules"
	"github.com/contend/contend/rules/backtest"
)

func rulesCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "rules",
		Short: "Write the detectors as Prometheus rules, and replay them",
		Example: `  contend rules generate -o contend.rules.yaml
  contend rules check --prometheus http://prometheus:9090
  contend rules backtest --prometheus http://prometheus:9090 --since 14d`,
	}, generateRulesCommand(), checkRulesCommand(), backtestCommand())
}

// rulesFlags are those of commands that write rules.
type rulesFlags struct {
	seriesFlags
	httpConfig string
	interval   span
	labels     []string
	settings   []string
}

func (f *rulesFlags) add(cmd *cobra.Command) {
	f.seriesFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.httpConfig, "http.config.file", "", "`FILE` with TLS and credentials for the server, in the format of promtool")
	flags.Var(&f.interval, "interval", "scrape and evaluation interval, `DURATION` (default the server's, else 15s)")
	flags.StringArrayVar(&f.labels, "extra-label", nil, "label that all alerts get, `NAME=VALUE` (repeatable)")
	addSettings(flags, &f.settings)
}

// options are what the flags say, as far as no server needs to be asked.
func (f *rulesFlags) options(cmd *cobra.Command) (opt rules.Options, err error) {
	if err := f.check(cmd); err != nil {
		return opt, err
	}
	opt.Selector = f.collect().Selector
	if opt.Labels, err = labelsOf(f.labels, rules.CheckLabel); err != nil {
		return opt, fmt.Errorf("--extra-label: %w", err)
	}
	opt.Settings, err = settingsOf(f.settings)
	return opt, err
}

// addSettings adds --set, which is the same for all that is made of alerts.
func addSettings(flags *pflag.FlagSet, texts *[]string) {
	flags.StringArrayVar(texts, "set", nil, "threshold of an alert, `ALERT.NAME=VALUE`, as ContendInflightCPU.for=1m (repeatable)")
}

// settingsOf reads the values of --set.
func settingsOf(texts []string) ([]detect.Setting, error) {
	var out []detect.Setting
	for _, text := range texts {
		s, err := detect.ParseSetting(text)
		if err != nil {
			return nil, fmt.Errorf("--set: %w", err)
		}
		out = append(out, s)
	}
	if _, err := detect.Apply(all.Detectors(), out); err != nil {
		return nil, fmt.Errorf("--set: %w", err)
	}
	return out, nil
}

// stageOne asks the server which metrics there are.
func (f *rulesFlags) stageOne(ctx context.Context, cmd *cobra.Command) (stage *series.Rules, server string, err error) {
	opt := f.collect()
	opt.Interval = f.interval.d
	if f.prometheus == "" {
		const usual = 15 * time.Second
		if opt.Interval == 0 {
			opt.Interval = usual
		}
		stage, err = series.StageOne(ctx, nil, opt)
		return stage, "", err
	}
	api, err := f.api(cmd)
	if err != nil {
		return nil, "", err
	}
	opt.End = f.until.t
	if opt.End.IsZero() {
		opt.End = time.Now()
	}
	since := f.since.d
	if since == 0 {
		since = defaultSince
	}
	opt.Start = opt.End.Add(-since)
	steps := newProgress(cmd.ErrOrStderr())
	defer steps.done()
	opt.Progress = steps.begin
	stage, err = series.StageOne(ctx, api, opt)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", api.Name(), err)
	}
	return stage, api.Name(), nil
}

// api is the server that is named.
func (f *rulesFlags) api(cmd *cobra.Command) (*promapi.API, error) {
	client, err := httpClient(f.httpConfig)
	if err != nil {
		return nil, err
	}
	return promapi.New(f.prometheus, client, promapi.Options{})
}

func generateRulesCommand() *cobra.Command {
	var f rulesFlags
	var out, format string
	var name string
	var metadata []string
	var tests, alertmanager, force bool
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write recording rules and alerts for a service's own metrics",
		Long: `Generate writes one group of rules: recording rules that turn a service's own
metrics into canonical series by job and instance (contend:inflight,
contend:cpu, …), and alerts on those. Nothing needs to be edited. A server that
gets several such groups, each with a selector of its own, needs a --name for
each: what they record would be the same series.

With --prometheus the rules read the metrics that the server has, and what it
has no metrics for is left out and named. Without it they read all metrics that
contend knows; of an instance that has several for one thing the best counts,
and of equally good ones the largest value.

The alerts ContendInflightCPU, ContendHealthCheckSlow and
ContendHealthCheckFailing have severity page, the others severity ticket or
info. --alertmanager writes the routes and inhibitions beside them with which an
incident of a job is one page. What --set changes stands above each alert in the
file.`,
		Example: `  contend rules generate --prometheus http://prometheus:9090 -o rules.yaml
  contend rules generate --name shop --selector 'namespace="shop"' \
      --extra-label team=shop --tests
  contend rules generate --format operator --metadata-label release=prometheus \
      -o - | kubectl apply --server-side -f -
  contend rules generate --set ContendHerd.factor=3 --set ContendHerd.for=1m`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(rules.Formats, rules.Format(format)) {
				return fmt.Errorf("unknown format %q; expected %s", format, joinFormats())
			}
			if out == "" {
				return errors.New("expected a file for --output, or - for standard output, saw none; check the variable it comes from")
			}
			if out == "-" && (tests || alertmanager) {
				return errors.New("--tests and --alertmanager write files beside the rules: name the rules' own with -o")
			}
			if tests && rules.Format(format) != rules.Prometheus {
				return fmt.Errorf("--tests is for promtool, which does not read the format %s", format)
			}
			names, err := labelsOf(metadata, nil)
			if err != nil {
				return fmt.Errorf("--metadata-label: %w", err)
			}
			if len(names) > 0 && rules.Format(format) != rules.Operator {
				return errors.New("--metadata-label is for --format operator")
			}
			if cmd.Flags().Changed("name") {
				if err := rules.CheckName(name); err != nil {
					return fmt.Errorf("--name: %w", err)
				}
			}
			opt, err := f.options(cmd)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			stage, server, err := f.stageOne(ctx, cmd)
			if err != nil {
				return &outcome{exitFailed, err}
			}
			opt.Server, opt.Name = server, name
			group, err := rules.Generate(all.Detectors(), stage, opt)
			if err != nil {
				return &outcome{exitFailed, err}
			}
			for _, note := range slices.Concat(stage.Notes, leftOut(group, stage)) {
				complain(cmd.ErrOrStderr(), note)
			}
			header := rules.Header{Version: headerVersion(), Command: commandLine(cmd), Labels: names}
			text := rules.Encode(group, rules.Format(format), header)
			// Labels and signals are the user's: one that does not parse would have a server refuse all of the file.
			if _, err := backtest.Parse("the rules", text); err != nil {
				first, _, _ := strings.Cut(err.Error(), "\n")
				return fmt.Errorf("expected rules that a server reads, saw %s; look at --extra-label and --signal", first)
			}
			if out == "-" {
				return written(cmd.OutOrStdout().Write(text))
			}
			files := []outFile{{out, text}}
			base := strings.TrimSuffix(out, filepath.Ext(out))
			if tests {
				text, err := rules.Tests(group, filepath.Base(out), stage.Timing, opt.Settings, header)
				if err != nil {
					return err
				}
				files = append(files, outFile{base + "_test.yaml", text})
			}
			if alertmanager {
				files = append(files, outFile{strings.TrimSuffix(base, ".rules") + ".alertmanager.yaml", rules.Alertmanager(group, header)})
			}
			return writeFiles(cmd, files, force)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&out, "output", "o", "contend.rules.yaml", "write the rules to `FILE`, - for standard output")
	flags.BoolVar(&force, "force", false, "replace files that exist")
	flags.StringVar(&format, "format", string(rules.Prometheus), "`FORMAT` of the file: "+joinFormats())
	completeFlag(cmd, "format", strings.Split(joinFormats(), ", ")...)
	flags.StringVar(&name, "name", "", "`NAME` of the group, which its records begin with (default contend)")
	f.add(cmd)
	flags.StringArrayVar(&metadata, "metadata-label", nil, "label of the PrometheusRule, by which an operator selects it, `NAME=VALUE` (repeatable)")
	flags.BoolVar(&tests, "tests", false, "write promtool unit tests beside the rules")
	flags.BoolVar(&alertmanager, "alertmanager", false, "write routes and inhibitions for Alertmanager beside the rules")
	return cmd
}

// leftOut says which alerts are not among the rules, and what would have them
// there; of the records that are not, the file says it.
func leftOut(g *rules.Group, stage *series.Rules) []string {
	hints := map[string]string{} // by signal
	for _, r := range stage.Rules {
		if r.Expr == "" {
			hints[r.Signal.Name] = r.Signal.Hint
		}
	}
	written := 0
	for _, r := range g.Rules {
		if r.Alert != "" {
			written++
		}
	}
	var names, lines []string
	for _, l := range g.LeftOut {
		if l.Severity == "" {
			continue
		}
		names = append(names, fmt.Sprintf("%s (%s)", l.Rule, l.Severity))
		line := l.String()
		for _, need := range l.Needs {
			for name := range strings.SplitSeq(need, " and ") {
				_, signal, _ := strings.Cut(name, ":")
				if hint := hints[signal]; hint != "" {
					line += "; " + hint
				}
			}
		}
		lines = append(lines, line)
	}
	if len(names) == 0 {
		return nil
	}
	head := fmt.Sprintf("%d of %d alerts are written; left out, for want of metrics: %s", written, written+len(names), strings.Join(names, ", "))
	return append([]string{head}, lines...)
}

func joinFormats() string {
	var out []string
	for _, f := range rules.Formats {
		out = append(out, string(f))
	}
	return strings.Join(out, ", ")
}

// labelsOf reads NAME=VALUE.
func labelsOf(texts []string, check func(name string) error) ([]rules.Pair, error) {
	var out []rules.Pair
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("expected NAME=VALUE such as team=shop, saw %q", text)
		}
		if slices.ContainsFunc(out, func(p rules.Pair) bool { return p.Name == name }) {
			return nil, fmt.Errorf("expected %s once, saw it again", name)
		}
		if check != nil {
			if err := check(name); err != nil {
				return nil, err
			}
		}
		out = append(out, rules.Pair{Name: name, Value: value})
	}
	return out, nil
}

// commandLine is the command as it was given, without what may be secret in it.
func commandLine(cmd *cobra.Command) string {
	out := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Name == "force":
				return
			case f.Value.Type() == "bool":
				out += " --" + f.Name
				continue
			case f.Name == "prometheus":
				v = ingest.DisplayName(v)
			}
			out += " --" + f.Name + " " + shellWord(v)
		}
	})
	return out
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]+$`)

func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// headerVersion is the version without the compiler's: files written by two builds of
// one version are the same.
func headerVersion() string {
	v, _, _ := strings.Cut(version(), ",")
	return v
}
