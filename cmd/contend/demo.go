package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/scenarios"
	"github.com/contend/contend/demo/truth"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/capture"
	"github.com/contend/contend/ingest/series"
)

func demoCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "demo",
		Short: "Play a fleet that fails on purpose, and see what contend finds",
		Long: `Demo plays scenarios: a small fleet of real processes behind a balancer and a
CDN, under real traffic on loopback, with one fault each whose truth is written
down.`,
		Example: `  contend demo list           the scenarios
  contend demo run incident   the published outage in some 80 seconds
  contend demo eval           hold contend to the truth of all of them`,
	}, demoListCommand(), demoRunCommand(), demoEvalCommand(), demoTaskCommand())
}

// listedScenario is a scenario in demo list -o json.
type listedScenario struct {
	Name   string   `json:"name"`
	Fault  string   `json:"fault"`
	Wants  []string `json:"wants"`
	Allows []string `json:"allows"`
}

func demoListCommand() *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Name all scenarios, and what is injected in each",
		Example: `  contend demo list
  contend demo list -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			var list []listedScenario
			for _, s := range scenarios.All() {
				t, err := scenarioTruth(s.Name)
				if err != nil {
					return &outcome{exitFailed, err}
				}
				list = append(list, listedScenario{s.Name, s.Fault, detectorsOf(t.Wants), detectorsOf(t.Allows)})
			}
			return writeScenarios(cmd.OutOrStdout(), list, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "`FORMAT` of the list: text or json")
	completeFlag(cmd, "output", "text", "json")
	return cmd
}

func writeScenarios(w io.Writer, list []listedScenario, output string) error {
	if output == "json" {
		return writeIndented(w, list)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%s\n", s.Name, s.Fault)
	}
	return written(0, table.Flush())
}

func writeIndented(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return &outcome{exitFailed, fmt.Errorf("write JSON: %w", err)}
	}
	return written(w.Write(append(text, '\n')))
}

// detectorsOf names each detector once, in the order of the truth.
func detectorsOf(entries []truth.Entry) []string {
	out := []string{}
	for _, e := range entries {
		if !slices.Contains(out, e.Detector) {
			out = append(out, e.Detector)
		}
	}
	return out
}

func checkOutput(output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("unknown output %q; expected text or json", output)
	}
	return nil
}

// scenarioTruth reads what may be found in a scenario.
func scenarioTruth(name string) (truth.Truth, error) {
	text, err := scenarios.Truth(name)
	if err != nil {
		return truth.Truth{}, fmt.Errorf("read the truth of %s: %w", name, err)
	}
	t, err := truth.Parse(string(text))
	if err != nil {
		return truth.Truth{}, fmt.Errorf("read the truth of %s: %w", name, err)
	}
	return t, nil
}

func findScenario(name string) (play.Scenario, error) {
	var names []string
	for _, s := range scenarios.All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return play.Scenario{}, fmt.Errorf("unknown scenario %q; expected one of %s", name, strings.Join(series.Nearest(name, names), ", "))
}

// demoTaskCommand is what the demo starts this binary again with. Nobody calls
// it by hand.
func demoTaskCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "task",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if code := gateway.Main(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()); code != exitOK {
				return &outcome{code: code}
			}
			return nil
		},
	}
}

type demoRunFlags struct {
	bundle, output string
	force          bool
	seed           uint64
	pyroscope      string
	remote         bool
}

func demoRunCommand() *cobra.Command {
	f := demoRunFlags{output: "text", seed: 1}
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Play one scenario, watch it, and print what contend finds",
		Long: `Run plays a scenario with a live view, records profiles and series as it goes,
analyses them as contend analyze does, and prints the verdict.

With --pyroscope its tasks push goroutine, block and mutex profiles with
pyroscope-go once a second, with the labels service_name and instance; contend
analyze --pyroscope reads them back.

It needs some two cores and 1 GB of memory, listens on loopback only, and leaves
nothing behind but the bundle, where one is asked for. Ctrl-C ends it early; the
bundle is kept then, and says that it is a part.

Exit codes: 0 the scenario was played to its end; 1 it was not, or the machine
was too slow for the result to say anything; 2 wrong usage.`,
		Example: `  contend demo run incident
  contend demo run poolwait --bundle poolwait/
  contend analyze poolwait/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("expected the name of a scenario, saw %d arguments; contend demo list names them", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeScenarios,
		RunE:              func(cmd *cobra.Command, args []string) error { return demoRun(cmd, args[0], &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.bundle, "bundle", "", "keep the bundle in `DIR`, new or empty")
	flags.BoolVar(&f.force, "force", false, "replace what is in the bundle's directory")
	flags.Uint64Var(&f.seed, "seed", f.seed, "`NUMBER` that arrivals and losses follow from")
	flags.StringVar(&f.pyroscope, "pyroscope", "", "let the tasks push their profiles to the Pyroscope server at `URL` on this machine")
	flags.BoolVar(&f.remote, "remote", false, "let --pyroscope be another machine")
	flags.StringVarP(&f.output, "output", "o", f.output, "`FORMAT` of the report: text or json")
	completeFlag(cmd, "output", "text", "json")
	return cmd
}

func demoRun(cmd *cobra.Command, name string, f *demoRunFlags) error {
	sc, err := findScenario(name)
	if err != nil {
		return err
	}
	if err := checkOutput(f.output); err != nil {
		return err
	}
	if cmd.Flags().Changed("bundle") && f.bundle == "" {
		return errors.New("expected a directory for --bundle, saw none; check the variable it comes from")
	}
	if err := f.checkPyroscope(cmd); err != nil {
		return err
	}
	// Caught until nothing is left to clear away, however often they come.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	dir := f.bundle
	if dir == "" {
		temporary, err := os.MkdirTemp("", "contend-demo-")
		if err != nil {
			return &outcome{exitFailed, fmt.Errorf("make room for the bundle: %w", err)}
		}
		defer os.RemoveAll(temporary)
		dir = filepath.Join(temporary, sc.Name)
	}
	view := newLiveView(cmd.ErrOrStderr())
	out, kept, err := playScenario(ctx, sc, playOptions{Out: dir, Force: f.force, Seed: f.seed, Pyroscope: f.pyroscope, Show: view.show})
	view.clear()
	if err != nil {
		if f.bundle != "" && kept {
			complain(cmd.ErrOrStderr(), fmt.Sprintf("what was recorded until then is in %s, marked as partial", dir))
		}
		return &outcome{exitFailed, fmt.Errorf("play %s: %w", sc.Name, err)}
	}
	r, b := analyzeBundle(ctx, dir)
	if f.bundle == "" {
		// Not left to the end: who reads the report may keep it waiting, and interrupt it.
		os.RemoveAll(filepath.Dir(dir))
	}
	stop()
	failed := complainOf(cmd.ErrOrStderr(), b.Failures, "")
	if f.bundle != "" && f.output == "text" {
		complain(cmd.ErrOrStderr(), "the bundle is in "+dir)
	}
	if err := (&reportFlags{output: f.output, top: number{value: 3}}).write(cmd.OutOrStdout(), r, report.Text); err != nil {
		return err
	}
	if f.output == "text" {
		if err := writeOutcome(cmd.OutOrStdout(), out); err != nil {
			return err
		}
	}
	if out.Starved != "" {
		return &outcome{exitFailed, fmt.Errorf("the result is not valid: %s", out.Starved)}
	}
	if failed {
		return &outcome{code: exitFailed}
	}
	return nil
}

// writeOutcome says what became of the clients.
func writeOutcome(w io.Writer, out play.Outcome) error {
	c := out.Load.Count
	line := fmt.Sprintf("Played: calls %s answered, %s failed, %s timed out; %s killed",
		thousands(c.Answered), thousands(c.Failed+c.Dropped), thousands(c.TimedOut), plural(out.Kills, "task"))
	switch {
	case out.Onset.IsZero():
	case out.Recover == nil:
		line += "; the usual traffic was not served again before the end"
	case *out.Recover > 0:
		line += fmt.Sprintf("; the usual traffic was served again %v after the fault set in", out.Recover.Round(time.Second))
	}
	ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	l := out.Load
	line += fmt.Sprintf("\nThe median of the answered calls took %v and 99 %% of them %v at most, from when they were due; calls were sent %v late, 99 %% of them %v at most",
		ms(l.Latency.Median), ms(l.Latency.P99), ms(l.Lateness.Median), ms(l.Lateness.P99))
	if err := written(fmt.Fprintln(w)); err != nil {
		return err
	}
	width := cmp.Or(terminalWidth(w), usualWidth)
	for part := range strings.SplitSeq(line, "\n") {
		for _, short := range report.Wrap(part, width) {
			if err := written(fmt.Fprintln(w, short)); err != nil {
				return err
			}
		}
	}
	return nil
}

func thousands(n int) string { return detect.Thousands(float64(n)) }

// analyzeBundle analyses a recorded bundle as contend analyze does.
func analyzeBundle(ctx context.Context, dir string) (*detect.Report, *ingest.Bundle) {
	b := ingest.Load(ctx, []string{dir}, ingest.Options{})
	b.ReadSeries(ctx, ingest.SeriesOptions{})
	return detect.Run(b, nil, all.Detectors(), detect.Options{}), b
}

// playOptions are of one run of a scenario.
type playOptions struct {
	Out   string // directory of the bundle
	Force bool
	Small bool // keep of the metrics those that detectors read, and compress them
	Seed  uint64
	Show  func(play.State)

	Pyroscope string // URL of a server that tasks push to; "": none
}

// Clients, edge and balancer make much garbage, and what the collector takes of
// two cores is missing where it shows: in clients that call late. Some 100 MB more
// of memory are three quarters of that back.
const gcPercent = 400

// playScenario plays a scenario and records its bundle. kept says that there is
// one, which after an error is a part.
func playScenario(ctx context.Context, sc play.Scenario, o playOptions) (out play.Outcome, kept bool, err error) {
	binary, err := os.Executable()
	if err != nil {
		return play.Outcome{}, false, fmt.Errorf("find this program's own file: %w", err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	record := capture.RecordOptions{Out: o.Out, Force: o.Force, ClockFactor: play.ClockFactor, Version: version()}
	if o.Small {
		known := series.Known().Own // sorted
		record.Compress = true
		record.Keep = func(metric string) bool {
			_, ok := slices.BinarySearch(known, metric)
			return ok
		}
	}
	// Its scrapes end with ctx, as the tasks do: a part shows none of them dead.
	r, err := capture.NewRecorder(ctx, record)
	if err != nil {
		if _, there := os.Stat(filepath.Join(o.Out, capture.ManifestFile)); there == nil && !o.Force {
			err = fmt.Errorf("%w, or replace the bundle there with --force", err)
		}
		return play.Outcome{}, false, err
	}
	keep := &recorder{Recorder: r}
	out, err = play.Run(ctx, sc, play.Options{Command: []string{binary, "demo", "task"}, Seed: o.Seed, Pyroscope: o.Pyroscope, Recorder: keep, Show: o.Show})
	return out, keep.kept, err
}

// scrapeLate is how late scrapes may begin: half of their interval. Later ones
// are of another moment than their series says.
const scrapeLate = play.Scrape / 2

// recorder records a play. It is all the demo knows of contend.
type recorder struct {
	*capture.Recorder
	kept bool // there is a bundle
}

func (r *recorder) Add(t play.Target) error { return r.Recorder.Add(capture.Target(t)) }

func (r *recorder) Late() string {
	late := r.Scrapes().LateP99
	if late <= scrapeLate {
		return ""
	}
	return fmt.Sprintf("one scrape in a hundred began %v late or more", late.Round(time.Millisecond))
}

func (r *recorder) Finish(partial string) error {
	report, err := r.Recorder.Finish(partial)
	r.kept = report != nil
	return err
}
