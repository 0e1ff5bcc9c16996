// Package watch looks at a service again and again: at its series on a
// Prometheus server and at its live processes. It says what has changed, keeps
// the evidence, and shows the last report.
package watch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/capture"
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/stacks"
)

const (
	// Of one goroutine profile, unpacked: 17,000 goroutines take less than 1 MB.
	maxProfile = 64 << 20
	// Of a process' /metrics, in which the time of its start is looked for.
	maxMetrics = 16 << 20
	// How old the snapshot is that the latest is compared with, from half of it on: a
	// leak shows within minutes, and not from one look to the next. Were it anew
	// that of the look before, a slow leak would end and begin again every 5 minutes.
	earlierTime = 5 * time.Minute
	pprofPath   = "/debug/pprof"
)

// Options are what is looked at, and how.
type Options struct {
	// Series are how the server is asked; without a Server there is none. Until is
	// filled in at each look. The server should be a series.Recent.
	Series ingest.SeriesOptions
	// Processes are URLs of live processes: each its root, or its /debug/pprof.
	Processes []string
	// HTTP fetches from processes; nil is a plain client.
	HTTP *http.Client
	// Timeout is how long one look may take; less than the interval, so that looks
	// never pile up.
	Timeout time.Duration
	// Detectors and Detect are those of detect.Run.
	Detectors []*detect.Detector
	Detect    detect.Options
}

// Looker looks again and again. Its methods are for one goroutine.
type Looker struct {
	Options
	server    *Input // nil where there is none
	processes []*process
	patience  time.Duration // with a process' metrics
}

// Input is one thing that is looked at, and whether it could be seen.
type Input struct {
	Name   string    // without credentials
	Job    string    // of a process; "" is a Prometheus server
	Seen   time.Time // when last; zero is never
	Blind  time.Time // since when it could not be seen; zero where it could
	Why    string    // it could not
	Errors int       // looks without it so far
}

// process is a live one, and what is remembered of it.
type process struct {
	Input
	instance string   // HOST:PORT, as in series, and the path where there is one
	base     *url.URL // its root
	latest   *stacks.Snapshot
	earlier  *stacks.Snapshot // of the same process, for comparison; nil where there is none
	next     *stacks.Snapshot // that is earlier once that one is too old; nil where there is none yet
	started  float64          // unix seconds; 0 where it does not say
	unstated bool             // it does not say when it began, and is not asked again
}

// Look is what one look saw.
type Look struct {
	At     time.Time
	Took   time.Duration
	Report *detect.Report
	Inputs []Input // the server first
	// Restarted are the processes, by name, that are others than at the look before.
	Restarted []string
	bundle    *ingest.Bundle // nil where there are no series
	detectors []*detect.Detector
}

// Targets are the processes that could be seen, for a recorder to take profiles of.
func (l *Looker) Targets() []capture.Target {
	var out []capture.Target
	for _, p := range l.processes {
		if p.Why == "" {
			out = append(out, capture.Target{Job: p.Job, Instance: p.instance, PProf: p.base.JoinPath(pprofPath).String()})
		}
	}
	return out
}

// serverBlind reports whether there is a server and it could not be seen.
func (look *Look) serverBlind() bool {
	return slices.ContainsFunc(look.Inputs, func(in Input) bool { return in.Job == "" && in.Why != "" })
}

// hasProcess reports whether a process of the job is looked at.
func (look *Look) hasProcess(job string) bool {
	return slices.ContainsFunc(look.Inputs, func(in Input) bool { return in.Job != "" && in.Job == job })
}

// processBlind reports whether a process of the job could not be seen.
func (look *Look) processBlind(job string) bool {
	return slices.ContainsFunc(look.Inputs, func(in Input) bool { return in.Job == job && in.Why != "" })
}

// has reports whether a job has series in the window.
func (look *Look) has(job string) bool {
	return look.bundle != nil && look.bundle.Series != nil && slices.Contains(look.bundle.Series.Jobs, job)
}

// sees reports whether the signals of a job go on to the end of the window that a
// detector cannot do without.
func (look *Look) sees(job, detector string) bool {
	i := slices.IndexFunc(look.detectors, func(d *detect.Detector) bool { return d.Name == detector })
	return i >= 0 && slices.ContainsFunc(look.detectors[i].Needs, func(n detect.Need) bool {
		return n.Input == detect.Series && !slices.ContainsFunc(n.Signals, func(signal string) bool { return !look.goesOn(job, signal) })
	})
}

// goesOn reports whether a signal of a job has values at the end of the window.
func (look *Look) goesOn(job, signal string) bool {
	c := look.bundle.Series
	const steps = 4 // of a rate's window
	from := c.End.Add(-steps * c.Timing.Interval).UnixMilli()
	for _, s := range c.Store.Columns("contend:" + signal) {
		for i := len(s.T) - 1; i >= 0 && s.T[i] >= from && s.Labels.Get("job") == job; i-- {
			if !math.IsNaN(s.V[i]) {
				return true
			}
		}
	}
	return false
}

// NewLooker refuses addresses that are none, and a look without any.
func NewLooker(o Options) (*Looker, error) {
	l := &Looker{Options: o, patience: o.Timeout / 4}
	l.Series.Collect.Memo = &series.Memo{}
	if o.Series.Server != nil {
		l.server = &Input{Name: o.Series.ServerName}
	}
	for _, raw := range o.Processes {
		base, err := processURL(raw)
		if err != nil {
			return nil, err
		}
		p := &process{Input: Input{Name: shown(base), Job: jobOf(base)}, base: base, instance: base.Host + base.Path}
		if slices.ContainsFunc(l.processes, func(other *process) bool { return other.Name == p.Name }) {
			return nil, fmt.Errorf("expected each process once, saw %s twice", p.Name)
		}
		if l.server != nil && p.Name == l.server.Name { // Prometheus itself, which is a process too
			p.Name += pprofPath
		}
		l.processes = append(l.processes, p)
	}
	// A bundle's recorder takes as many at once.
	const most = 100
	switch n := len(l.processes); {
	case n == 0 && l.server == nil:
		return nil, errors.New("expected a Prometheus server (--prometheus) or the URL of a process, saw neither")
	case n > most:
		return nil, fmt.Errorf("expected at most %d processes, saw %d; watch the others apart", most, n)
	}
	return l, nil
}

// processURL is the root of a process. What it refuses it does not quote: a
// password may be in it.
func processURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("expected the URL of a process such as http://localhost:6060, saw something else; http:// is needed, and a password's special characters are written as %XX")
	}
	root := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), pprofPath)
	if strings.Contains(root, pprofPath) {
		return nil, errors.New("expected the root of a process or its /debug/pprof, saw another path; a single profile does not change: try contend analyze")
	}
	u.Path, u.RawPath, u.Fragment = root, "", ""
	return u, nil
}

// jobOf is the job of a process that no series know, as contend capture has it.
func jobOf(u *url.URL) string {
	host := u.Hostname()
	if host == "localhost" || net.ParseIP(host) != nil {
		return "process"
	}
	return host
}

func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Look looks once, now. What cannot be seen is in its Inputs; it loses nothing
// of the others.
func (l *Looker) Look(ctx context.Context, now time.Time) *Look {
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, l.Timeout, lateError(l.Timeout))
	defer cancel()
	look := &Look{At: now, detectors: l.Detectors, bundle: &ingest.Bundle{Instances: map[string]ingest.Instance{}}}
	var asked ingest.Bundle
	var wg sync.WaitGroup
	if l.server != nil {
		wg.Go(func() { l.readSeries(ctx, now, &asked) })
	}
	parts := make([]*ingest.Bundle, len(l.processes))
	restarted := make([]bool, len(l.processes))
	for i, p := range l.processes {
		wg.Go(func() { parts[i], restarted[i] = p.look(ctx, now, l.HTTP, l.patience) })
	}
	wg.Wait()
	for i, p := range l.processes {
		p.join(asked.Series)
		look.add(p, parts[i])
		if restarted[i] {
			look.Restarted = append(look.Restarted, p.Name)
		}
	}
	look.bundle.Series, look.bundle.NoSeries = asked.Series, asked.NoSeries
	look.bundle.Failures = append(look.bundle.Failures, asked.Failures...)
	look.Report = detect.Run(look.bundle, nil, l.Detectors, l.Detect)
	if l.server != nil {
		look.Inputs = append(look.Inputs, *l.server)
	}
	for _, p := range l.processes {
		look.Inputs = append(look.Inputs, p.Input)
	}
	look.Took = time.Since(begin)
	return look
}

// lateError ends a look, whose time it is.
type lateError time.Duration

func (e lateError) Error() string {
	return fmt.Sprintf("expected all answers within %v, saw that more were to come; a longer --interval leaves them more time, a narrower --selector asks for less", time.Duration(e))
}

// Is tells that it is for a time that passed.
func (e lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// readSeries asks the server. Where only some of its answers came, it is blind
// too: what was not answered may be what matters.
func (l *Looker) readSeries(ctx context.Context, now time.Time, b *ingest.Bundle) {
	opt := l.Series
	opt.Until = now
	b.ReadSeries(ctx, opt)
	why := ""
	if n := len(b.Failures); n > 0 {
		why = b.Failures[0].Err.Error()
		if n > 1 {
			why += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	l.server.saw(now, why)
}

// saw notes whether an input could be seen: why not, or "".
func (in *Input) saw(now time.Time, why string) {
	in.Why = why
	if why == "" {
		in.Seen, in.Blind = now, time.Time{}
		return
	}
	in.Errors++
	if in.Blind.IsZero() {
		in.Blind = now
	}
}

// look takes a goroutine profile, the cheapest there is: 0.8 ms of a process with
// 17,000 goroutines. restarted says that the process is another than before. Its
// metrics, which may wait for the very lock that its requests wait for, are not
// waited for longer than patience.
func (p *process) look(ctx context.Context, now time.Time, client *http.Client, patience time.Duration) (b *ingest.Bundle, restarted bool) {
	var started float64
	var metrics sync.WaitGroup
	metrics.Go(func() { started = p.startTime(ctx, client, patience) })
	u := p.base.JoinPath(pprofPath, "goroutine")
	b = ingest.Load(ctx, []string{u.String()}, ingest.Options{MaxBytes: maxProfile, HTTP: client})
	metrics.Wait()
	if len(b.Failures) > 0 {
		p.saw(now, b.Failures[0].Err.Error())
		return b, false
	}
	if len(b.Snapshots) != 1 {
		p.saw(now, "expected a goroutine profile, saw another; check that net/http/pprof answers at that address")
		return &ingest.Bundle{}, false
	}
	// One that does not say when it began may be another, if it said so before or was gone.
	unsure := started == 0 && (p.started != 0 || !p.Blind.IsZero())
	restarted = p.started != 0 && started != 0 && started != p.started
	if restarted || unsure {
		p.latest, p.earlier, p.next = nil, nil, nil
	}
	if started != 0 {
		p.started = started
	}
	p.keep(b.Snapshots[0])
	p.saw(now, "")
	return b, restarted
}

// keep takes in the latest snapshot, and has earlier ones grow no older than earlierTime.
func (p *process) keep(s *stacks.Snapshot) {
	switch {
	case p.latest == nil:
	case p.earlier == nil:
		p.earlier = p.latest
		p.earlier.Name += ", before"
	case p.next == nil && p.latest.Taken.Sub(p.earlier.Taken) >= earlierTime/2:
		p.next = p.latest
	}
	if p.next != nil && s.Taken.Sub(p.earlier.Taken) > earlierTime {
		p.earlier, p.next = p.next, nil
		p.earlier.Name += ", before"
	}
	p.latest = s
}

// join gives a process the job that has it as an instance in series, for good: its
// findings are those of the job, also while the server cannot be seen.
func (p *process) join(c *series.Canonical) {
	if c == nil {
		return
	}
	for _, job := range c.Jobs {
		if slices.Contains(c.Instances[job], p.instance) {
			p.Job = job
			return
		}
	}
}

// add adds what was read of a process, with what it is compared with.
func (look *Look) add(p *process, b *ingest.Bundle) {
	all := look.bundle
	all.Snapshots = append(all.Snapshots, b.Snapshots...)
	all.Waits = append(all.Waits, b.Waits...)
	all.Failures = append(all.Failures, b.Failures...)
	if len(b.Snapshots) == 1 && p.earlier != nil {
		all.Snapshots = append(all.Snapshots, p.earlier)
		all.Instances[p.earlier.Name] = ingest.Instance{Job: p.Job, Name: p.instance}
	}
	for _, s := range b.Snapshots {
		all.Instances[s.Name] = ingest.Instance{Job: p.Job, Name: p.instance}
	}
}

// startTime is when a process began, by its metrics; 0 where they do not say.
func (p *process) startTime(ctx context.Context, client *http.Client, patience time.Duration) float64 {
	if p.unstated {
		return 0
	}
	data, _, err := ingest.Get(ctx, client, ingest.Request{URL: p.base.JoinPath("metrics"), Want: "metrics", Accept: "text/plain;version=0.0.4", MaxBytes: maxMetrics, Timeout: patience})
	if err != nil {
		switch ingest.StatusOf(err) {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden:
			p.unstated = true
		}
		return 0
	}
	return startIn(data)
}

// startIn finds process_start_time_seconds in a page of metrics. It is one line
// of some thousand, so that the page is not parsed.
func startIn(page []byte) float64 {
	const name = "process_start_time_seconds"
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, maxMetrics)
	for lines.Scan() {
		rest, ok := bytes.CutPrefix(lines.Bytes(), []byte(name))
		if !ok {
			continue
		}
		if fields := bytes.Fields(rest); len(fields) > 0 {
			if v, err := strconv.ParseFloat(string(fields[0]), 64); err == nil && v > 0 {
				return v
			}
		}
	}
	return 0
}
