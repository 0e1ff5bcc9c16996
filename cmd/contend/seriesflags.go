package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/promapi"
)

// seriesFlags are the flags of the commands that look at Prometheus series.
type seriesFlags struct {
	prometheus string
	selector   selectors
	since      span
	until      moment
	signals    []string
	config     string
	factor     number

	// What check read of config and signals.
	mapping    series.Config
	configFile string            // "" where there is none
	overrides  map[string]string // PromQL by signal
}

// defaultSince is how far back a server is asked where --since is not given:
// an incident that somebody has just been woken for, and what was before it.
const defaultSince = time.Hour

// defaultConfig is read where it is there and --config is not given.
const defaultConfig = "contend.yaml"

func (f *seriesFlags) add(cmd *cobra.Command) {
	f.addServer(cmd)
	flags := cmd.Flags()
	flags.Var(&f.since, "since", "look at the last `DURATION` of series, as 2h or 30m (default 1h of a server, all of a file)")
	flags.Var(&f.until, "until", "end at `TIME`, as 2026-11-12T09:30:00Z (default now, or the end of a file)")
}

// addServer adds the flags of commands that look at a server's present alone.
func (f *seriesFlags) addServer(cmd *cobra.Command) {
	// The bundle's own limit: see ingest.Bundle.ClockFactor.
	f.factor = number{least: 1, most: 10_000, want: "how many times faster than the clock, 1 to 10000"}
	flags := cmd.Flags()
	flags.StringVar(&f.prometheus, "prometheus", "", "ask the Prometheus-compatible API at `URL` for series (Thanos, Mimir, Cortex, VictoriaMetrics too)")
	flags.Var(&f.selector, "selector", "look at the series that match `MATCHERS`, such as 'job=\"gateway\"' (default all jobs)")
	flags.StringArrayVar(&f.signals, "signal", nil, "take PromQL for a signal that is not found by itself, `NAME=PROMQL`, by job and instance (repeatable)")
	flags.Var(&f.factor, "clock-factor", "read series of a scenario that runs `N` times faster than the clock on the wall (default what a bundle says, else 1)")
	flags.StringVar(&f.config, "config", "", "`FILE` that maps a service's own metrics to signals (default contend.yaml, where it is there)")
}

// check refuses values and combinations that make no sense, and keeps what it read.
func (f *seriesFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("prometheus") && f.prometheus == "" {
		return errors.New("expected a URL for --prometheus, such as http://localhost:9090, saw none")
	}
	for _, text := range []string{f.selector.bare, f.selector.braced} {
		if err := series.CheckSelector(text); err != nil {
			return fmt.Errorf("--selector: %w", err)
		}
	}
	if f.prometheus != "" {
		if _, err := promapi.New(f.prometheus, http.DefaultClient, promapi.Options{}); err != nil {
			return fmt.Errorf("--prometheus: %w", err)
		}
	}
	var err error
	if f.mapping, err = f.loadConfig(); err != nil {
		return err
	}
	f.overrides = map[string]string{}
	for _, text := range f.signals {
		name, expr, err := series.ParseSignalFlag(text)
		if err != nil {
			return fmt.Errorf("--signal: %w", err)
		}
		f.overrides[name] = expr
	}
	return nil
}

// read finds the signals in a bundle's series or on the server.
func (f *seriesFlags) read(ctx context.Context, b *ingest.Bundle, client *http.Client, progress func(string)) error {
	opt, err := f.options(client, promapi.Options{Progress: progress})
	if err != nil {
		return err
	}
	b.ReadSeries(ctx, opt)
	return nil
}

// options are how series are looked at, and on which server.
func (f *seriesFlags) options(client *http.Client, limits promapi.Options) (ingest.SeriesOptions, error) {
	opt := ingest.SeriesOptions{Since: f.since.d, Until: f.until.t, Collect: f.collect()}
	opt.Collect.Progress = limits.Progress
	if f.configFile != "" {
		opt.Notes = append(opt.Notes, fmt.Sprintf("read %s: selector %q, %d signals", f.configFile, f.mapping.Selector, len(f.mapping.Signals)))
	}
	if f.prometheus != "" {
		api, err := promapi.New(f.prometheus, client, limits)
		if err != nil {
			return opt, fmt.Errorf("--prometheus: %w", err)
		}
		opt.Server, opt.ServerName = api, api.Name()
		if opt.Since == 0 {
			opt.Since = defaultSince
		}
	}
	return opt, nil
}

// collect is which series are looked at, of the flags and contend.yaml: flags win.
func (f *seriesFlags) collect() series.CollectOptions {
	opt := series.CollectOptions{
		Selector: f.selector.ofSeries(), HealthRoutes: f.mapping.HealthRoutes, Factor: float64(f.factor.value), Overrides: map[string]string{},
	}
	if opt.Selector == "" {
		opt.Selector = f.mapping.Selector
	}
	maps.Copy(opt.Overrides, f.mapping.Signals)
	maps.Copy(opt.Overrides, f.overrides)
	return opt
}

func (f *seriesFlags) loadConfig() (series.Config, error) {
	path := f.config
	if path == "" {
		if _, err := os.Stat(defaultConfig); errors.Is(err, fs.ErrNotExist) {
			return series.Config{}, nil
		}
		path = defaultConfig
	}
	f.configFile = path
	return series.LoadConfig(path)
}

// selectors is the flag --selector. Series and profiles of one service have other
// labels (job here, service_name there), so it may be given twice: matchers in
// braces are of profiles then, those without of series. One alone is of both.
type selectors struct{ bare, braced string }

func (s *selectors) String() string { return cmp.Or(s.bare, s.braced) }

func (s *selectors) Set(text string) error {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		s.braced = text
	} else {
		s.bare = text
	}
	return nil
}

func (s *selectors) Type() string { return "matchers" }

func (s *selectors) ofSeries() string   { return cmp.Or(s.bare, s.braced) }
func (s *selectors) ofProfiles() string { return cmp.Or(s.braced, s.bare) }

// span is a flag of a duration as Prometheus writes it.
type span struct{ d time.Duration }

func (s *span) String() string {
	if s.d == 0 {
		return ""
	}
	return model.Duration(s.d).String()
}

func (s *span) Set(text string) error {
	d, err := model.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("expected a duration such as 30m or 2h, saw %q", text)
	}
	s.d = time.Duration(d)
	return nil
}

func (s *span) Type() string { return "duration" }

// moment is a flag of a point in time.
type moment struct{ t time.Time }

func (m *moment) String() string {
	if m.t.IsZero() {
		return ""
	}
	return m.t.Format(time.RFC3339)
}

func (m *moment) Set(text string) error {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("expected a time such as 2026-11-12T09:30:00Z, saw %q", text)
	}
	m.t = t
	return nil
}

func (m *moment) Type() string { return "time" }
