package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/dashboards"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest/series"
)

func dashboardsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:     "dashboards",
		Short:   "Write the detectors as Grafana dashboards",
		Example: "  contend dashboards generate -o grafana/",
	}, generateDashboardsCommand())
}

func generateDashboardsCommand() *cobra.Command {
	out, path, force := "", "", false
	interval := span{15 * time.Second}
	var settings []string
	cmd := &cobra.Command{
		Use:   "generate -o DIR",
		Short: "Write dashboards that draw what the detectors' alerts compare",
		Long: `Generate writes two Grafana dashboards, which read the series that the rules of
contend rules generate record, and what Grafana needs to load them:
  overview.json  alerts, where requests in flight are, and a row for each
                 detector with what its alerts compare and their limits
  fleet.json     all instances, and the worst of them side by side
  provider.yaml  for provisioning/dashboards/ of Grafana's configuration
  .lint          what Grafana's dashboard-linter is to pass over, and why

Without provisioning, import the two dashboards in Grafana under Dashboards,
New, Import. The data source is chosen in the dashboard. Give the same
--interval and --set as to contend rules generate: what is drawn is then what
the alerts have. The same version and flags write the same bytes. A file that
exists is kept unless --force is given.

Exit codes: 0 written; 1 a file exists or could not be written; 2 wrong usage.`,
		Example: `  contend dashboards generate -o grafana/
  contend dashboards generate -o grafana/ --interval 30s --force
  contend dashboards generate -o grafana/ --set ContendInflightCPU.ratio=5`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return errors.New("expected a directory for the dashboards, saw none; try -o grafana/")
			}
			if path == "" {
				return errors.New("expected the directory in which Grafana finds the dashboards for --path, saw none")
			}
			set, err := settingsOf(settings)
			if err != nil {
				return err
			}
			opt := dashboards.Options{Timing: series.Timing{Interval: interval.d}, Settings: set, Path: path}
			return writeDashboards(cmd, out, opt, force)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&out, "output", "o", "", "write to `DIR`, which is made where it is not there")
	flags.Var(&interval, "interval", "scrape and evaluation interval of the rules, `DURATION`")
	addSettings(flags, &settings)
	flags.StringVar(&path, "path", "/var/lib/grafana/dashboards/contend", "`DIR` in which Grafana finds the dashboards, on its own machine")
	flags.BoolVar(&force, "force", false, "replace files that exist")
	return cmd
}

func writeDashboards(cmd *cobra.Command, dir string, opt dashboards.Options, force bool) error {
	generated, err := dashboards.Generate(all.Detectors(), opt)
	if err != nil {
		return &outcome{exitFailed, err}
	}
	var files []outFile
	for _, f := range generated {
		files = append(files, outFile{f.Name, f.Data})
	}
	return writeDir(cmd, dir, files, force)
}
