package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
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
	// A pushing process holds up to five connections for the moment of its pushes,
	// and idle ones go after idleTime.
	maxConnections = 1024
	idleTime       = 5 * time.Second
	// A header is one segment; 8 MiB in 20 seconds is a link of 3 Mbit/s. A client that
	// is slower has most likely stopped.
	headerTime = 5 * time.Second
	bodyTime   = 20 * time.Second
	answerTime = 30 * time.Second
	// After SIGTERM, for pushes that are on their way: an orchestrator waits 30 seconds as a rule.
	stopTime = 10 * time.Second
)

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
they come, and prints each finding that is new, and each that is over. No server
is needed.

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
newest profiles are read, 4 MiB of them, those of the processes that pushed
last.

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
	flags.DurationVar(&f.every, "every", 10*time.Second, "analyse what has come each `TIME`, at least 1s")
	flags.StringVarP(&f.output, "output", "o", "text", "`FORMAT` of changes: text, or json with a whole report on a line for each")
	flags.StringSliceVar(&f.telemetry, "telemetry", nil, "count packages below import path `PREFIX` as telemetry (repeatable)")
	return cmd
}

// check refuses flags whose values make no sense, and fills in a default.
func (f *receiveFlags) check(cmd *cobra.Command) error {
	switch {
	case f.window < time.Minute || f.window > 24*time.Hour:
		return fmt.Errorf("expected 1m to 24h for --window, saw %v", f.window)
	case f.every < time.Second:
		return fmt.Errorf("expected at least 1s for --every, saw %v", f.every)
	case cmd.Flags().Changed("bundle") && f.bundle == "":
		return errors.New("expected a directory for --bundle, saw none; check the variable it comes from")
	}
	if f.maxBytes == 0 {
		f.maxBytes = memoryBytes
		if f.bundle != "" {
			f.maxBytes = bundleBytes
		}
	}
	return checkOutput(f.output)
}

func receivePushes(cmd *cobra.Command, f *receiveFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one ends the process
	listener, err := listen(f.listen)
	if err != nil {
		return &outcome{exitFailed, err}
	}
	defer listener.Close()
	receiver, err := receive.New(receive.Options{
		Window: f.window, MaxBytes: int64(f.maxBytes), Bundle: f.bundle, Version: version(),
	})
	if err != nil {
		return &outcome{exitFailed, err}
	}
	stderr := cmd.ErrOrStderr()
	where, memory := "in memory", lookBytes+int64(f.maxBytes)
	if f.bundle != "" {
		where, memory = "in "+report.Printable(f.bundle), lookBytes
	}
	// The collector lets as much lie as is in use, up to here: beyond, it works harder.
	debug.SetMemoryLimit(memory)
	fmt.Fprintf(stderr, "receiving on http://%s, profiles of %v and at most %.0f MB are kept %s\n", listener.Addr(), f.window, float64(f.maxBytes)/1e6, where)

	look := &looker{receiver: receiver, flags: f, stdout: cmd.OutOrStdout()}
	mux := http.NewServeMux()
	mux.Handle("/", receiver)
	mux.HandleFunc("GET /{$}", look.serve)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       bodyTime,
		WriteTimeout:      answerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    16 << 10, // the name of a push is in its first line
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	looked := make(chan error, 1)
	go func() { looked <- look.run(ctx) }()
	select {
	case err = <-served:
		err = &outcome{exitFailed, fmt.Errorf("receiving stopped: %w", err)}
	case err = <-looked: // nobody reads what it prints
	case <-ctx.Done():
	}
	stop()
	grace, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close() // what is left was not acknowledged
	}
	profiles, processes, size, expired := receiver.Held()
	fmt.Fprintf(stderr, "stopped: %s held, of %d processes, %.1f MB; %d left the window\n", plural(profiles, "profile"), processes, float64(size)/1e6, expired)
	if f.bundle != "" && profiles > 0 {
		fmt.Fprintf(stderr, "next: contend analyze %s\n", report.Printable(f.bundle))
	}
	return err
}

// listen says what to try where a port is taken.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("expected a free port at %s, saw one in use: end what listens there (a Pyroscope server listens on 4040), or name another port with --listen, 0 for any", address)
	case err != nil:
		return nil, fmt.Errorf("listen: %w; expected --listen as HOST:PORT, such as 127.0.0.1:4040", err)
	}
	return l, nil
}

// looker analyses what a receiver has and tells what changed.
type looker struct {
	receiver *receive.Receiver
	flags    *receiveFlags
	stdout   io.Writer
	since    map[string]time.Time // findings there are, by what tells them apart
	state    string               // well or silent where there were none
	page     atomic.Pointer[page]
}

// page is the last report as it is served.
type page struct{ text, json []byte }

// run looks each --every until ctx is done, or what it prints cannot be written: where something has come, and
// where something was, since processes that fall silent are a change too.
func (l *looker) run(ctx context.Context) error {
	tick := time.NewTicker(l.flags.every)
	defer tick.Stop()
	had := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		select {
		case <-l.receiver.Changed():
		default:
			if !had {
				continue
			}
		}
		b := l.receiver.Sample(ctx)
		if ctx.Err() != nil {
			return nil
		}
		had = len(b.Snapshots)+len(b.Waits) > 0
		if err := l.look(b, time.Now().UTC()); err != nil {
			return err
		}
	}
}

// look analyses a bundle and prints what is not as it was.
func (l *looker) look(b *ingest.Bundle, now time.Time) error {
	r := detect.Run(b, nil, all.Detectors(), detect.Options{Telemetry: l.flags.telemetry, Live: true})
	changes := l.changes(r, now)
	var text, structured, line bytes.Buffer
	if err := cmp.Or(report.Text(&text, r, report.TextOptions{Top: 3}), report.JSON(&structured, r)); err != nil {
		return &outcome{exitFailed, err}
	}
	l.page.Store(&page{text.Bytes(), structured.Bytes()})
	switch {
	case len(changes) == 0:
		return nil
	case l.flags.output == "json":
		if err := json.Compact(&line, structured.Bytes()); err != nil {
			return &outcome{exitFailed, err}
		}
		line.WriteByte('\n')
	default:
		for _, c := range changes {
			fmt.Fprintf(&line, "%s %s\n", now.Format(time.RFC3339), report.Printable(c))
		}
	}
	return written(l.stdout.Write(line.Bytes()))
}

// changes are the findings that are new, worse or better, and those that are over. Their
// numbers change with each look, and are no change.
func (l *looker) changes(r *detect.Report, now time.Time) (out []string) {
	is := map[string]time.Time{}
	for _, f := range r.Findings {
		key := strings.Join(slices.DeleteFunc([]string{f.Detector, string(f.Role), string(f.Severity), f.Job, f.Process, f.Function},
			func(s string) bool { return s == "" }), ", ")
		since, was := l.since[key]
		if !was {
			since = now
			out = append(out, fmt.Sprintf("new: %s, %s, %s: %s", f.Detector, f.Role, f.Severity, f.Summary))
		}
		is[key] = since
	}
	for _, key := range slices.Sorted(maps.Keys(l.since)) {
		if _, still := is[key]; !still {
			out = append(out, fmt.Sprintf("over: %s, after %v", key, now.Sub(l.since[key]).Round(time.Second)))
		}
	}
	l.since = is
	state, summary := "", ""
	switch {
	case len(r.Findings) > 0:
	case len(r.Inputs) == 0:
		state, summary = "silent", "no process pushes any more"
	default:
		state, summary = "well", cmp.Or(r.Verdict.Summary, "nothing found")
	}
	if state != "" && state != l.state {
		out = append(out, summary)
	}
	l.state = state
	return out
}

// serve answers with the last report.
func (l *looker) serve(w http.ResponseWriter, req *http.Request) {
	p := l.page.Load()
	w.Header().Set("X-Content-Type-Options", "nosniff") // names in it are from strangers
	switch {
	case p == nil:
		http.Error(w, "no profile was analysed yet", http.StatusServiceUnavailable)
	case req.FormValue("o") == "json" || strings.Contains(req.Header.Get("Accept"), "application/json"):
		w.Header().Set("Content-Type", "application/json")
		w.Write(p.json)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write(p.text)
	}
}
