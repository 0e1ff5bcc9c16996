package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/cmd/contend/watch"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/pyroscope"
)

// pyroscopeFlags are the flags of the commands that look at the profiles of a
// Pyroscope server. Which and when, they share with series.
type pyroscopeFlags struct{ server string }

// profilesSince is how far back a Pyroscope server is asked where --since is not
// given. Profiles come merged over it, so it is shorter than that of series: what
// began ten minutes ago is a sixth of an hour's mean.
const profilesSince = 10 * time.Minute

func (f *pyroscopeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.server, "pyroscope", "", "ask the Pyroscope server at `URL` for goroutine, block and mutex profiles")
}

// check refuses an address that makes no sense.
func (f *pyroscopeFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("pyroscope") && f.server == "" {
		return errors.New("expected a URL for --pyroscope, such as http://localhost:4040, saw none")
	}
	if f.server == "" {
		return nil
	}
	if _, err := pyroscope.New(f.server, pyroscope.Options{}); err != nil {
		return fmt.Errorf("--pyroscope: %w", err)
	}
	return nil
}

// read adds the server's profiles to a bundle.
func (f *pyroscopeFlags) read(ctx context.Context, b *ingest.Bundle, s *seriesFlags, opt pyroscope.Options) error {
	if f.server == "" {
		return nil
	}
	q, err := pyroscope.New(f.server, opt)
	if err != nil {
		return fmt.Errorf("--pyroscope: %w", err)
	}
	end := s.until.t
	if end.IsZero() {
		end = time.Now()
	}
	since := s.since.d
	if since == 0 {
		since = profilesSince
	}
	b.Add(q.Load(ctx, pyroscope.Query{Selector: s.selector.ofProfiles(), Start: end.Add(-since), End: end}))
	return nil
}

// checkPyroscope refuses a server that the demo's tasks cannot or should not push
// to. Their client says nothing of a push that fails, so it is tried here.
func (f *demoRunFlags) checkPyroscope(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("pyroscope") {
		if f.remote {
			return errors.New("--remote is about --pyroscope, which is not given")
		}
		return nil
	}
	q, err := pyroscope.New(f.pyroscope, pyroscope.Options{})
	if err != nil {
		return fmt.Errorf("--pyroscope: %w", err)
	}
	u, err := url.Parse(f.pyroscope)
	if err != nil {
		return fmt.Errorf("--pyroscope: %w", err)
	}
	host := u.Hostname()
	if !f.remote && !watch.IsLoopback(host) {
		return fmt.Errorf("--pyroscope: expected a server on this machine, such as http://127.0.0.1:4040, saw %s; --remote lets profiles leave it", q.Name())
	}
	port := cmp.Or(u.Port(), u.Scheme) // "http" and "https" name their ports
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), dialTimeout)
	if err != nil {
		return &outcome{exitFailed, fmt.Errorf("--pyroscope: expected a server that takes profiles at %s, but there is no connection: %w; start one there", q.Name(), err)}
	}
	return conn.Close()
}

// dialTimeout is far longer than a connection takes on one machine or beyond.
const dialTimeout = 3 * time.Second
