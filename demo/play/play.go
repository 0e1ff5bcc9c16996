package play

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/contend/contend/demo/canary"
	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/load"
)

// Options are of one run of a scenario.
type Options struct {
	Command   []string // argv that starts a task: this binary, "demo", "task"
	Seed      uint64   // of arrivals and of the lossy path
	Pyroscope string   // URL of a Pyroscope server that the tasks push their profiles to; "": none
	Recorder  Recorder
	Show      func(State) // called about four times a second, never at once with itself; nil: nobody looks
}

// Scrape is the interval at which the demo is scraped, 15 s of what it imitates
// at 1:60. The live view is told the state as often.
const Scrape = 250 * time.Millisecond

// run is what a run is kept track of by; its lock guards what several goroutines change.
type run struct {
	recorder Recorder
	stage    *Stage

	lock         sync.Mutex
	phase, clock string
	onset        time.Time
	firstKill    time.Time
	lastKill     time.Time
	kills        int
}

// Run plays a scenario to its end. When ctx ends, or something fails, all parts
// are ended, the recorder is told why, and the error says so. No process is
// left behind in any case.
func Run(ctx context.Context, sc Scenario, o Options) (Outcome, error) {
	r := &run{recorder: o.Recorder}
	r.stage = &Stage{scenario: sc}
	defer r.stage.tearDown()

	out, err := r.play(ctx, o)
	partial := ""
	switch {
	case err != nil:
		partial = err.Error()
	case out.Starved != "":
		partial = "the run is not valid: " + out.Starved // for who reads the record later
	}
	// Before the tasks end: a series that ends at the end of a record is no task that died.
	failed := o.Recorder.Finish(partial)
	switch {
	case err == nil:
		err = failed
	case failed != nil:
		err = fmt.Errorf("%w; and %w", err, failed)
	}
	return out, err
}

func (r *run) play(ctx context.Context, o Options) (Outcome, error) {
	s, sc := r.stage, &r.stage.scenario
	if err := s.build(ctx, o, r); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients, stopClients := context.WithCancel(ctx)
	defer stopClients()
	var err error
	s.Clients, err = load.Start(clients, load.Config{
		URL: s.edge, Phases: sc.Load, Seed: o.Seed, Timeout: ClientTimeout, Attempts: max(sc.Attempts, 1),
		MaxInFlight: maxInFlight, Streams: sc.Streams, Transport: toEdge{s.CDN},
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("start the clients: %w", err)
	}
	start := time.Now()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { r.takeProfiles(ctx, start) })
	beside.Go(func() { r.glance(ctx, start) })
	beside.Go(func() { r.show(ctx, start, o.Show) })
	if sc.Reloads > 0 {
		beside.Go(func() { s.reload(ctx) })
	}
	if sc.Canary != nil {
		beside.Go(func() { r.judge(ctx, *sc.Canary) })
	}
	failed := r.steps(ctx, start)
	if failed == nil {
		failed = fleet.Wait(ctx, time.Until(start.Add(sc.Length)))
	}
	stopClients()
	report := s.Clients.Wait()
	return r.outcome(report, start), failed
}

// maxInFlight bounds the calls that clients wait for at once: each has a
// connection to a task. It is the surge times the clients' time-out; a run in
// which more wait is not valid.
const maxInFlight = 6_000

// steps does each step at its moment.
func (r *run) steps(ctx context.Context, start time.Time) error {
	begun := false
	for _, step := range r.stage.scenario.Steps {
		if err := fleet.Wait(ctx, time.Until(start.Add(step.At))); err != nil {
			return err
		}
		now := time.Now()
		if !begun && (step.Do != nil || step.Onset) {
			begun = true
			r.recorder.Event(now, EventBegin, "")
		}
		r.lock.Lock()
		if step.Phase != "" {
			r.phase, r.clock = step.Phase, step.Clock
		}
		if step.Onset {
			r.onset = now
		}
		r.lock.Unlock()
		if step.Onset {
			r.stage.Clients.ForgetFailures() // one before the fault is not of it
			r.recorder.Event(now, EventOnset, r.stage.scenario.Fault)
		}
		if step.Phase != "" {
			r.recorder.Event(now, EventPhase, step.Phase)
		}
		if step.Do != nil {
			if err := step.Do(ctx, r.stage); err != nil {
				return fmt.Errorf("at %v (%s): %w", step.At, step.Phase, err)
			}
		}
	}
	return nil
}

func (r *run) takeProfiles(ctx context.Context, start time.Time) {
	dumped := false
	for _, at := range r.stage.scenario.Profiles {
		if fleet.Wait(ctx, time.Until(start.Add(at))) != nil {
			return
		}
		r.lock.Lock()
		sick := !r.onset.IsZero()
		r.lock.Unlock()
		// One dump, of the first crowd: a later one is larger and says the same.
		r.recorder.Profiles(ctx, sick && !dumped)
		dumped = dumped || sick
	}
}

// glance looks at one task often: a bundle with as many profiles of all would be large.
func (r *run) glance(ctx context.Context, start time.Time) {
	for _, at := range r.stage.scenario.Glances {
		if fleet.Wait(ctx, time.Until(start.Add(at))) != nil {
			return
		}
		r.recorder.Glance(ctx, "gateway-1")
	}
}

// fleetEvent keeps what is scraped and the balancer's view in step with the tasks.
func (r *run) fleetEvent(e fleet.Event) {
	switch e.Kind {
	case fleet.Started:
		err := r.recorder.Add(Target{
			Job: "gateway", Instance: e.Task,
			Labels:  map[string]string{"namespace": "demo", "pod": e.Task, "container": "gateway"},
			Metrics: e.Admin + "/metrics", PProf: e.Admin + "/debug/pprof",
		})
		if err != nil {
			r.recorder.Event(e.At, EventUnrecorded, err.Error())
		}
	case fleet.Ended:
		r.recorder.Remove(e.Task)
	case fleet.Killed:
		r.recorder.Remove(e.Task)
		r.lock.Lock()
		r.kills++
		r.lastKill = e.At
		first := r.firstKill.IsZero()
		if first {
			r.firstKill = e.At
		}
		r.lock.Unlock()
		if first {
			r.recorder.Event(e.At, EventFirstKill, e.Task+": "+e.Why)
		}
	}
}

// show tells the state until ctx ends.
func (r *run) show(ctx context.Context, start time.Time, to func(State)) {
	if to == nil {
		return
	}
	var earlier []load.Stats // the last second, oldest first
	cpu, at := r.cpuSeconds(), time.Now()
	for n := 0; fleet.Wait(ctx, time.Until(start.Add(time.Duration(n)*Scrape))) == nil; n++ {
		stats := r.stage.Clients.Stats()
		earlier = append(earlier, stats)
		if len(earlier) > int(time.Second/Scrape)+1 {
			earlier = earlier[1:]
		}
		first := earlier[0]
		over := max(float64(len(earlier)-1)*Scrape.Seconds(), Scrape.Seconds())
		rate := func(now, before int) float64 { return float64(now-before) / over }
		state := State{
			Elapsed: time.Since(start), Of: r.stage.scenario.Length,
			Offered: rate(stats.Arrived, first.Arrived), Served: rate(stats.Answered, first.Answered),
			Failed:   rate(stats.Failed+stats.TimedOut+stats.Dropped, first.Failed+first.TimedOut+first.Dropped),
			InFlight: stats.InFlight, Waiting: stats.WaitingAssets,
		}
		tasks := r.stage.Fleet.Tasks()
		state.Tasks = len(tasks)
		for _, t := range tasks {
			if t.Ready {
				state.Ready++
			}
			if t.Failing {
				state.HealthFailing++
			}
			state.Health = max(state.Health, t.Health)
		}
		now, seconds := time.Now(), r.cpuSeconds()
		// Less than before where a task is gone.
		state.Cores = max(0, (seconds-cpu)/max(now.Sub(at).Seconds(), 1e-3))
		cpu, at = seconds, now
		r.lock.Lock()
		state.Phase, state.Clock, state.Kills = r.phase, r.clock, r.kills
		r.lock.Unlock()
		to(state)
	}
}

// cpuSeconds is what the present tasks have used.
func (r *run) cpuSeconds() float64 {
	sum := 0.0
	for _, t := range r.stage.Fleet.Tasks() {
		sum += t.CPU.Seconds()
	}
	return sum
}

// judge is the canary of a release: its loop ends with the stage.
func (r *run) judge(ctx context.Context, rule canary.Rule) {
	s := r.stage
	say := func(verdict string) { r.recorder.Event(time.Now(), EventCanary, verdict) }
	if canary.Watch(ctx, canaryWindow, s.CDN.Counts, rule, say) {
		const phase = "the canary stops the release"
		r.lock.Lock()
		r.phase, r.clock = phase, ""
		r.lock.Unlock()
		r.recorder.Event(time.Now(), EventPhase, phase)
		s.StopVisits()
		s.CDN.Abandon()
	}
}

// canaryWindow is five minutes of the incident: a fetch takes well below one.
const canaryWindow = 5 * time.Second

// outcome sums up a run.
func (r *run) outcome(report load.Report, start time.Time) Outcome {
	r.lock.Lock()
	defer r.lock.Unlock()
	out := Outcome{Load: report, Kills: r.kills, Onset: r.onset, FirstKill: r.firstKill}
	if _, out.Starved = report.Starved(); out.Starved == "" {
		out.Starved = r.recorder.Late()
	}
	if report.FirstTimeout.After(r.onset) && !r.onset.IsZero() {
		out.FirstTimeout = report.FirstTimeout
		r.recorder.Event(report.FirstTimeout, EventFirstTimeout, "a client gave up after "+ClientTimeout.String())
	}
	if report.FirstFailure.After(r.onset) && !r.onset.IsZero() {
		out.FirstFailure = report.FirstFailure
		r.recorder.Event(report.FirstFailure, EventFirstFailure, "a client had no answer")
	}
	out.Recover = recovery(report.Seconds, start, r.onset, r.lastKill)
	c := report.Count
	text, _ := json.Marshal(Result{ // of numbers: it cannot fail
		Served: c.Answered, Failed: c.Failed + c.TimedOut + c.Dropped, Kills: out.Kills, Recover: out.Recover, Starved: out.Starved,
	})
	r.recorder.Event(time.Now(), EventOutcome, string(text))
	return out
}

// recovery finds the last second in which the usual traffic was not served, or
// a task was killed. Usual is the median of the seconds before the onset, less a
// quarter for the chance in arrivals: five standard deviations at the peak. A
// fault that never kept it from being served was over at once.
func recovery(seconds []load.Second, start, onset, lastKill time.Time) *time.Duration {
	if onset.IsZero() || onset.Before(start) {
		return nil
	}
	first := int(math.Ceil(onset.Sub(start).Seconds()))
	if first >= len(seconds) {
		return nil
	}
	before := make([]int, 0, first)
	for _, s := range seconds[:first] {
		before = append(before, s.Answered)
	}
	slices.SortFunc(before, cmp.Compare)
	usual := 0.0
	if len(before) > 0 {
		usual = 0.75 * float64(before[len(before)/2])
	}
	// The last second is seldom whole.
	last := len(seconds) - 1
	bad := first - 1
	for i := first; i < last; i++ {
		if float64(seconds[i].Answered) < usual {
			bad = i
		}
	}
	if lastKill.After(onset) {
		bad = max(bad, int(lastKill.Sub(start)/time.Second))
	}
	if last-bad-1 < steady {
		return nil
	}
	d := time.Duration(bad+1)*time.Second - onset.Sub(start)
	if bad < first {
		d = 0
	}
	return &d
}

// steady is for how many seconds traffic must be served to be called so.
const steady = 3
