package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/contend/contend/cmd/contend/watch"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest/pyroscope/receive"
)

const (
	// Memory holds a profile as it came, and the collector lets twice as much lie; a
	// disk has room for a minute and a half of 200 pushes/s of 100 kB.
	memoryBytes = 128 << 20
	bundleBytes = 2 << 30
	// A look at 4 MiB of profiles takes some 100 MB, the pushes meanwhile up to as much. A
	// tighter limit has the collector take the CPU that waiting pushes need.
	lookBytes = 256 << 20
)

// pushLimits: a pushing process holds up to five connections for the moment of its
// pushes; 8 MiB in 20 seconds is a link of 3 Mbit/s, and a client that is slower has most
// likely stopped. After SIGTERM an orchestrator waits 30 seconds as a rule.
var pushLimits = watch.Limits{Connections: 1024, Request: 20 * time.Second, Answer: 30 * time.Second, Idle: 5 * time.Second, Close: 10 * time.Second}

// receiveFlags are the flags of contend receive as given.
type receiveFlags struct {
	listen    string
	bundle    string
	window    time.Duration
	maxBytes  byteSize
	every     time.Duration
	output    string
	telemetry []string
}

func receiveCommand() *cobra.Command {
	var f receiveFlags
	cmd := &cobra.Command{
		Use:   "receive",
		Short: "Take what pyroscope-go clients push, and say what changes",
		Long: `Receive takes the place of a Pyroscope server for processes that push with
pyroscope-go: it keeps the profiles of the last minutes, analyses the newest as
they come, and prints a line for each change, as contend watch does: a finding
begins, is more or less severe, or ends, once it has not been there for 2
minutes or 8 looks; the verdict is another; a job falls silent. No server is
needed.

In a process, with ProfileGoroutines and the block and mutex types among its
ProfileTypes:
  pyroscope.Start(pyroscope.Config{ApplicationName: "gateway",
      ServerAddress: "http://127.0.0.1:4040",
      Tags: map[string]string{"instance": host}, ...})
Processes are told apart by their tags: give those of one host an instance each.
Profiles of CPU and memory are acknowledged and not kept.

Kept are the profiles of the last --window, up to --max-bytes. In memory, pushes
beyond that are refused (429) until the oldest are too old. With --bundle they
are files that contend analyze DIR reads at any moment; the oldest make room,
and a receiver that starts again goes on with what is there. A push is
acknowledged once its file is written, and survives the end of contend; it is
not synced to the disk, so a crash of the machine can cost the last seconds.
Where the disk is full, pushes are refused (503).

  GET /         the last report, as text or, with ?o=json, as JSON
  GET /metrics  what was accepted, rejected by reason, expired, and is held
  GET /healthz  503 while profiles cannot be written

One push has at most 8 MiB, and 32 MiB unpacked. Each --every, up to 120 of the
newest profiles are read, 4 MiB of them; of more processes than that, those
that were not looked at for longest.

It listens on this machine alone, to requests by the name localhost or a
loopback address, unless --listen says otherwise.

Ctrl-C and SIGTERM end it: pushes under way are answered first.

Exit codes: 0 it was ended; 1 it could not listen or open the bundle; 2 wrong
usage.`,
		Example: `  contend receive
  contend receive --bundle incident/ --window 1h --max-bytes 10GiB
  contend receive --listen 0.0.0.0:4040 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return receivePushes(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", "127.0.0.1:4040", "listen on `HOST:PORT`; whoever reaches it can push and read the report")
	flags.StringVar(&f.bundle, "bundle", "", "keep profiles in `DIR`: new, empty or of a receiver before (default in memory)")
	flags.DurationVar(&f.window, "window", 15*time.Minute, "keep profiles for `TIME`, 1m to 24h")
	flags.Var(&f.maxBytes, "max-bytes", "keep at most so many bytes, as 500MB or 2GiB (default 128MiB in memory, 2GiB in a bundle)")
	flags.DurationVar(&f.every, "every", 10*time.Second, "analyse what has come each `TIME`, 1s to 10m")
	flags.StringVarP(&f.output, "output", "o", "text", "`FORMAT` of changes: text, or json with a whole report on a line for each look with some")
	flags.StringSliceVar(&f.telemetry, "telemetry", nil, "count packages below import path `PREFIX` as telemetry (repeatable)")
	return cmd
}

// check refuses flags whose values make no sense, and fills in a default.
func (f *receiveFlags) check(cmd *cobra.Command) error {
	switch {
	case f.window < time.Minute || f.window > 24*time.Hour:
		return fmt.Errorf("expected 1m to 24h for --window, saw %v", f.window)
	case f.every < minInterval || f.every > maxInterval:
		return fmt.Errorf("expected %v to %v for --every, saw %v", minInterval, maxInterval, f.every)
	case cmd.Flags().Changed("bundle") && f.bundle == "":
		return errors.New("expected a directory for --bundle, saw none; check the variable it comes from")
	}
	if f.maxBytes == 0 {
		f.maxBytes = memoryBytes
		if f.bundle != "" {
			f.maxBytes = bundleBytes
		}
	}
	return cmp.Or(checkTelemetry(cmd, f.telemetry), checkOutput(f.output))
}

func receivePushes(cmd *cobra.Command, f *receiveFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	listener, public, err := openListener(stderr, f.listen, "can push and see the report")
	if err != nil {
		return err
	}
	if listener == nil {
		return errors.New("expected an address for --listen, such as 127.0.0.1:4040, saw none")
	}
	defer listener.Close()
	receiver, err := receive.New(receive.Options{
		Window: f.window, MaxBytes: int64(f.maxBytes), Bundle: f.bundle, Version: version(),
	})
	if err != nil {
		return &outcome{exitFailed, err}
	}
	where, memory := "in memory", lookBytes+int64(f.maxBytes)
	if f.bundle != "" {
		where, memory = "in "+report.Printable(f.bundle), lookBytes
	}
	// The collector lets as much lie as is in use, up to here: beyond, it works harder.
	defer receiver.Close()
	debug.SetMemoryLimit(memory)
	fmt.Fprintf(stderr, "receiving on http://%s, profiles of %v and at most %.0f MB are kept %s\n", listener.Addr(), f.window, float64(f.maxBytes)/1e6, where)

	stdout := newOutlet(cmd.OutOrStdout(), stderr)
	look := &looker{receiver: receiver, flags: f, stdout: stdout, tracker: watch.Tracker{Interval: f.every}}
	mux := http.NewServeMux()
	mux.Handle("/", receiver)
	mux.HandleFunc("GET /{$}", look.serve)
	err = lookEach(f.every, listener, watch.Guard(mux, public), pushLimits, look.look, func() error { return nil })
	err = cmp.Or(err, written(0, stdout.close()))
	profiles, processes, size, expired := receiver.Held()
	fmt.Fprintf(stderr, "stopped: %s held, of %d processes, %.1f MB; %d left the window\n", plural(profiles, "profile"), processes, float64(size)/1e6, expired)
	if f.bundle != "" && profiles > 0 {
		fmt.Fprintf(stderr, "next: contend analyze %s\n", report.Printable(f.bundle))
	}
	return err
}

// looker analyses what a receiver has and tells what changed.
type looker struct {
	receiver *receive.Receiver
	flags    *receiveFlags
	stdout   io.Writer
	tracker  watch.Tracker
	had      bool // profiles, at the last look
	page     atomic.Pointer[page]
}

// page is the last report as it is served.
type page struct{ text, json []byte }

// look analyses where something has come, and where something was: processes that fall
// silent are a change too. It prints what is not as it was.
func (l *looker) look(ctx context.Context, now time.Time, _ int) error {
	select {
	case <-l.receiver.Changed():
	default:
		if !l.had {
			return nil
		}
	}
	b := l.receiver.Sample(ctx)
	if ctx.Err() != nil {
		return nil
	}
	jobs := l.receiver.Jobs()
	l.had = len(jobs) > 0
	r := detect.Run(b, nil, all.Detectors(), detect.Options{Telemetry: l.flags.telemetry, Live: true})
	first := l.page.Load() == nil
	var text, structured bytes.Buffer
	if err := cmp.Or(report.Text(&text, r, report.TextOptions{Top: 3}), report.JSON(&structured, r)); err != nil {
		return err
	}
	l.page.Store(&page{text.Bytes(), structured.Bytes()})
	changes := l.tracker.Changes(&watch.Look{At: now, Report: r, Inputs: inputsOf(jobs)})
	switch {
	case l.flags.output == "json" && (first || len(changes) > 0):
		var line bytes.Buffer
		if err := json.Compact(&line, structured.Bytes()); err != nil {
			return err
		}
		return writeLines(l.stdout, line.String())
	case l.flags.output == "json":
		return nil
	case first && len(changes) == 0: // so that it is known to look
		return writeLines(l.stdout, report.Printable(now.UTC().Format(time.RFC3339)+" looked: "+r.Verdict.Summary))
	}
	return writeLines(l.stdout, changes...)
}

// inputsOf are what is looked at: the jobs whose processes push. Of one that all have
// fallen silent of nothing is known to be over.
func inputsOf(jobs []receive.Job) (out []watch.Input) {
	for _, j := range jobs {
		in := watch.Input{Name: "job " + j.Name, Job: j.Name, Seen: j.Pushed}
		if j.Silent {
			in.Blind, in.Why = j.Pushed, "none of its processes pushes any more"
		}
		out = append(out, in)
	}
	return out
}

// serve answers with the last report.
func (l *looker) serve(w http.ResponseWriter, req *http.Request) {
	p := l.page.Load()
	w.Header().Set("X-Content-Type-Options", "nosniff") // names in it are from strangers
	switch {
	case p == nil:
		http.Error(w, "no profile was analysed yet", http.StatusServiceUnavailable)
	case req.URL.Query().Get("o") == "json" || strings.Contains(req.Header.Get("Accept"), "application/json"):
		w.Header().Set("Content-Type", "application/json")
		w.Write(p.json)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write(p.text)
	}
}
