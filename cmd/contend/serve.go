package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/cmd/contend/watch"
)

// servePort is the same each time, so that a bookmark lasts, and none that
// Prometheus, its exporters or net/http/pprof's examples use.
const servePort = "7126"

func serveCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use:   "serve [URL]...",
		Short: "Show the report as a page that keeps itself up to date",
		Long: `Serve looks each --interval at series on a Prometheus server (--prometheus), at
live processes (URL), or at both, and shows the report at http://` + "127.0.0.1:" + servePort + `/
for a browser, which asks again by itself. Where nothing can be seen, the last
report stays, with its age and the reason.

It listens on this machine alone, to requests by the name localhost or a
loopback address, unless --listen says otherwise: whoever reaches it sees
function names, addresses and jobs of the service, and is not asked for a
password.

Beside the page there are /report.json and, for Prometheus, /metrics.

Exit codes: 0 it was told to end (SIGTERM, Ctrl-C); 1 it could not listen; 2
wrong usage.`,
		Example: `  contend serve http://localhost:6060
  contend serve --prometheus http://localhost:9090 --selector 'job="gateway"'
  contend serve --listen 127.0.0.1:8080 http://gateway:6060`,
		RunE: func(cmd *cobra.Command, args []string) error { return runServe(cmd, args, &f) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:"+servePort, "serve the page at `HOST:PORT`")
	return cmd
}

func runServe(cmd *cobra.Command, args []string, f *lookFlags) error {
	looker, err := f.looker(cmd, args)
	if err != nil {
		return err
	}
	looker.Detect.Drawn = true
	if f.listen == "" {
		return fmt.Errorf("expected an address for --listen, such as 127.0.0.1:%s, saw none", servePort)
	}
	listener, public, err := openListener(cmd.ErrOrStderr(), f.listen, "see the report: function names, addresses and jobs of the service")
	if err != nil {
		return err
	}
	if err := written(fmt.Fprintf(cmd.OutOrStdout(), "serving the report at http://%s/\n", listener.Addr())); err != nil {
		return err
	}
	tracker := &watch.Tracker{Interval: f.interval}
	metrics := &watch.Metrics{}
	page := &watch.Page{Interval: f.interval, Now: time.Now}
	return lookEach(f.interval, listener, page.Handler(metrics.Registry(), public), watch.PageLimits, func(ctx context.Context, now time.Time, missed int) error {
		look := looker.Look(ctx, now)
		if ctx.Err() != nil {
			return nil
		}
		tracker.Changes(look) // for the metrics, which have the same hysteresis
		metrics.Set(look, tracker, missed)
		return page.Set(look)
	}, func() error { return nil })
}
