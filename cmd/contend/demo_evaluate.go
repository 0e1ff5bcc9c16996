package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/demo/play"
	"github.com/contend/contend/demo/scenarios"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/capture"
	"github.com/contend/contend/ingest/series"
)

type demoEvalFlags struct {
	names    []string
	runs     number
	seed     uint64
	recorded bool
	resume   string
	bundles  string
	force    bool
	headroom bool
	output   string
}

func demoEvalCommand() *cobra.Command {
	f := demoEvalFlags{seed: 1, output: "text", runs: number{value: 1, least: 1, most: 100, want: "a number of runs, 1 to 100"}}
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Play all scenarios, and hold what contend finds to their truth",
		Long: `Eval plays each scenario, analyses what was recorded, and holds it to the
scenario's truth.txt: what must be found, what may be, and nothing else. It
prints who found what where, how long after the fault, how long before the first
request timed out and the first task was killed, and what each fix of the
incident was worth.

A run on a machine that was too slow for it is played once more, and then not
valid: nothing is concluded from it. All scenarios take some 24 minutes; with
--resume an evaluation that was stopped goes on where it was.

With --headroom it holds forecasts to the truth instead: it finds by a ramp at
what load each of six kinds of locks saturates under each of four patterns of
arrivals, and forecasts that from what is seen at 10 to 60 % of it. A run of it
takes some half an hour.

Exit codes: 0 every run was right; 1 a run could not be played or is not valid;
2 wrong usage; 3 a run was not right, or a fix did not help, or what is none
did, or forecasts were not as good as they are to be.`,
		Example: `  contend demo eval --recorded
  contend demo eval --scenario incident --scenario healthy
  contend demo eval --runs 3 --resume results/
  contend demo eval --headroom`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return demoEval(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.names, "scenario", nil, "play the scenario `NAME` (repeatable; default all)")
	flags.Var(&f.runs, "runs", "play each `N` times, with different seeds")
	flags.Uint64Var(&f.seed, "seed", f.seed, "`NUMBER` of the first run, which arrivals and losses follow from")
	flags.BoolVar(&f.recorded, "recorded", false, "play nothing: use the recorded runs that are part of contend")
	flags.StringVar(&f.resume, "resume", "", "keep finished runs in `DIR`, and play only those that are not there")
	flags.StringVar(&f.bundles, "bundles", "", "keep a small bundle of each run in `DIR`, with the metrics that detectors read")
	flags.BoolVar(&f.force, "force", false, "replace bundles that are there")
	flags.BoolVar(&f.headroom, "headroom", false, "hold forecasts of locks to the load that saturates them")
	flags.StringVarP(&f.output, "output", "o", f.output, "`FORMAT` of the result: text or json")
	completeFlag(cmd, "output", "text", "json")
	return cmd
}

// chosenScenarios are those named, in the order of the list, or all.
func chosenScenarios(names []string) ([]play.Scenario, error) {
	for _, name := range names {
		if _, err := findScenario(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(scenarios.All(), func(s play.Scenario) bool {
		return len(names) > 0 && !slices.Contains(names, s.Name)
	}), nil
}

func demoEval(cmd *cobra.Command, f *demoEvalFlags) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	for _, flag := range []string{"runs", "seed", "resume", "bundles"} {
		if f.recorded && cmd.Flags().Changed(flag) {
			return fmt.Errorf("--recorded plays nothing, and --%s is for what is played; give one of them", flag)
		}
	}
	for _, flag := range []string{"scenario", "recorded", "resume", "bundles", "force"} {
		if f.headroom && cmd.Flags().Changed(flag) {
			return fmt.Errorf("--headroom plays no scenarios, and --%s is of those; give one of them", flag)
		}
	}
	for flag, dir := range map[string]string{"resume": f.resume, "bundles": f.bundles} {
		if cmd.Flags().Changed(flag) && dir == "" {
			return fmt.Errorf("expected a directory for --%s, saw none; check the variable it comes from", flag)
		}
	}
	chosen, err := chosenScenarios(f.names)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if f.headroom {
		return evalHeadroom(ctx, cmd, f)
	}
	e := &evaluation{runs: f.runs.value, expected: f.runs.value * len(chosen), variants: variantsOf(chosen)}
	for _, d := range all.Detectors() {
		e.detectors = append(e.detectors, d.Name)
	}
	ev := &evaluator{flags: f, stderr: cmd.ErrOrStderr()}
	if f.resume != "" {
		build, err := buildID()
		if err != nil {
			return &outcome{exitFailed, err}
		}
		if ev.results, err = openResults(f.resume, build, e.detectors); err != nil {
			return &outcome{exitFailed, err}
		}
	}
	if ev.scratch, err = os.MkdirTemp("", "contend-demo-"); err != nil {
		return &outcome{exitFailed, fmt.Errorf("make room for bundles: %w", err)}
	}
	defer os.RemoveAll(ev.scratch)

	failed := ev.evaluate(ctx, e, chosen)
	write := writeEvalText
	if f.output == "json" {
		write = writeEvalJSON
	}
	if err := write(cmd.OutOrStdout(), e); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return &outcome{exitFailed, failed}
	case !e.valid():
		return &outcome{exitFailed, errors.New("the result is not valid: some runs are not; what is wrong is said above")}
	case e.mistakes() > 0:
		return &outcome{code: exitFound}
	}
	return nil
}

// evaluator plays runs, or reads recorded ones, and scores them.
type evaluator struct {
	flags   *demoEvalFlags
	stderr  io.Writer
	results *results // nil where nothing is kept
	scratch string
}

const (
	// overhead is what a run takes beside its length: tasks to start, the analysis.
	overhead = 2 * time.Second
	// estimate is how exactly it is said what is left.
	estimate = 10 * time.Second
)

// evaluate adds all runs to e. One that cannot be played ends it.
func (ev *evaluator) evaluate(ctx context.Context, e *evaluation, chosen []play.Scenario) error {
	left := time.Duration(0)
	for run := 1; run <= e.runs; run++ {
		for _, sc := range chosen {
			_, done, err := ev.finished(sc.Name, run)
			if err != nil {
				return err
			}
			if done {
				continue
			}
			left += sc.Length + overhead
			if err := ev.free(sc.Name, run); err != nil {
				return err
			}
		}
	}
	if !ev.flags.recorded {
		fmt.Fprintf(ev.stderr, "%s of %s: about %v\n", plural(e.runs, "run"), plural(len(chosen), "scenario"), left.Round(estimate))
	}
	total := e.runs * len(chosen)
	for run := 1; run <= e.runs; run++ {
		for _, sc := range chosen {
			p, done, err := ev.finished(sc.Name, run)
			if err == nil && !done {
				p, err = ev.one(ctx, sc, run)
				left -= sc.Length + overhead
			}
			if err != nil {
				return fmt.Errorf("%s, run %d: %w", sc.Name, run, err)
			}
			e.played = append(e.played, p)
			if !ev.flags.recorded {
				fmt.Fprintf(ev.stderr, "%d of %d: %s, run %d: %s; about %v left\n", len(e.played), total, sc.Name, run, p.word(), left.Round(estimate))
			}
		}
	}
	return nil
}

// finished is a run that is kept from an evaluation before this one.
func (ev *evaluator) finished(name string, run int) (p played, ok bool, err error) {
	if ev.results == nil {
		return played{}, false, nil
	}
	return ev.results.find(name, run, ev.seed(run))
}

func (ev *evaluator) seed(run int) uint64 { return ev.flags.seed + uint64(run-1) }

// word is what a run came to, on one line.
func (p *played) word() string {
	switch {
	case p.Invalid != "":
		return "not valid: " + p.Invalid
	case p.right():
		return "right"
	}
	return fmt.Sprintf("missing %q, forbidden %q", p.Score.Missing, p.Score.Forbidden)
}

// one is a run of a scenario, from where it is.
func (ev *evaluator) one(ctx context.Context, sc play.Scenario, run int) (played, error) {
	if ev.flags.recorded {
		dir, err := ev.unpack(sc.Name)
		if err != nil {
			return played{}, err
		}
		defer os.RemoveAll(dir)
		return ev.score(ctx, played{Scenario: sc.Name, Run: run}, dir)
	}
	p := played{Scenario: sc.Name, Run: run, Seed: ev.seed(run)}
	dir := filepath.Join(ev.scratch, sc.Name)
	if ev.flags.bundles != "" {
		dir = ev.bundle(sc.Name, run)
	} else {
		defer os.RemoveAll(dir)
	}
	// A machine that others share is too slow at times; one that is twice in a row is too slow.
	for try := range 2 {
		out, _, err := playScenario(ctx, sc, playOptions{Out: dir, Force: ev.flags.force || try > 0 || again(dir), Small: true, Seed: p.Seed})
		if err != nil {
			return played{}, err
		}
		p.Invalid = out.Starved
		if p.Invalid == "" || try == 1 {
			break
		}
		fmt.Fprintf(ev.stderr, "%s, run %d, is played again: %s\n", sc.Name, run, p.Invalid)
	}
	p, err := ev.score(ctx, p, dir)
	if err == nil && ev.results != nil {
		err = ev.results.keep(p)
	}
	return p, err
}

// bundle is where the bundle of a run is kept.
func (ev *evaluator) bundle(scenario string, run int) string {
	return filepath.Join(ev.flags.bundles, fmt.Sprintf("%s-%d", scenario, run))
}

// free says before anything is played that a bundle would replace what is
// there. One that is marked as partial, or whose run was not valid, is of a run
// that is to be played again.
func (ev *evaluator) free(scenario string, run int) error {
	if ev.flags.bundles == "" || ev.flags.force {
		return nil
	}
	dir := ev.bundle(scenario, run)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 && !again(dir) {
		return fmt.Errorf("expected no bundle in %s yet, saw one; give --force, or another directory", dir)
	}
	return nil
}

// again reports whether a directory has a bundle that is marked as partial: of a
// run that was stopped, or was not valid.
func again(dir string) bool {
	f, err := os.Open(filepath.Join(dir, capture.ManifestFile))
	if err != nil {
		return false
	}
	defer f.Close()
	var m capture.Manifest
	err = json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&m)
	return err == nil && m.Schema == ingest.BundleSchema && m.Partial != ""
}

// maxManifest is far above what a run writes, some 10 KB.
const maxManifest = 1 << 20

// score analyses a bundle and holds it to its scenario's truth.
func (ev *evaluator) score(ctx context.Context, p played, dir string) (played, error) {
	t, err := scenarioTruth(p.Scenario)
	if err != nil {
		return played{}, err
	}
	r, b := analyzeBundle(ctx, dir)
	if len(b.Failures) > 0 {
		return played{}, fmt.Errorf("read the bundle: %w", b.Failures[0].Err)
	}
	s := scorer{truth: t, detectors: all.Detectors(), timing: series.Timing{Factor: b.ClockFactor}}
	if b.Series != nil {
		s.timing = b.Series.Timing
	}
	p.Score = s.score(r, b.Events)
	for _, event := range b.Events {
		if event.Name == play.EventOutcome {
			if err := json.Unmarshal([]byte(event.Text), &p.Outcome); err != nil {
				return played{}, fmt.Errorf("expected the outcome of a run among the events of its bundle: %w", err)
			}
			p.Invalid = cmp.Or(p.Invalid, p.Outcome.Starved)
		}
	}
	return p, nil
}

// unpack writes a recorded bundle, which is part of this binary, to files.
func (ev *evaluator) unpack(name string) (string, error) {
	recorded, err := fs.Sub(scenarios.Files, name+"/bundle")
	if err != nil {
		return "", fmt.Errorf("find the recorded run: %w", err)
	}
	if _, err := fs.Stat(recorded, "bundle.json"); err != nil {
		return "", errors.New("expected a recorded run, saw none; try without --recorded")
	}
	dir := filepath.Join(ev.scratch, name)
	if err := os.CopyFS(dir, recorded); err != nil {
		return "", fmt.Errorf("unpack the recorded run: %w", err)
	}
	return dir, nil
}
