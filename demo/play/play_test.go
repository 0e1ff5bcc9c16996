package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
)

// Arguments that make this binary something else than its tests.
const (
	asTask = "task" // as "contend demo task" is
	asDud  = "dud"  // a task that ends at once
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case asTask:
			os.Exit(gateway.Main(os.Stdin, os.Stdout, os.Stderr))
		case asDud:
			fmt.Fprintln(os.Stderr, "no room")
			os.Exit(7)
		}
	}
	os.Exit(m.Run())
}

// record is a Recorder that keeps what it was told, in order, as lines such as
// "add gateway/gateway-1".
type record struct {
	// What a test asks of it, before the run.
	failAdd  string                // an instance that cannot be added
	failEnd  error                 // of Finish
	late     string                // what Late says
	added    func(Target)          // hears of every Add
	profiled func(context.Context) // hears of every Profiles, which it may hold up

	mu      sync.Mutex
	lines   []string
	more    chan struct{} // closed and made anew with each line
	targets []Target
	gone    map[string]bool   // instances that were removed
	dumps   []bool            // of each Profiles
	texts   map[string]string // the last text of each event
	partial string
	answers bool // all targets that were not removed answered at Finish
}

func newRecord() *record {
	return &record{more: make(chan struct{}), gone: map[string]bool{}, texts: map[string]string{}}
}

// say adds a line; the lock is held.
func (r *record) say(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	close(r.more)
	r.more = make(chan struct{})
}

func (r *record) Late() string { return r.late }

func (r *record) Add(t Target) error {
	if r.added != nil {
		r.added(t)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Instance == r.failAdd {
		return errors.New("no room for " + t.Instance)
	}
	r.targets = append(r.targets, t)
	r.say("add %s/%s", t.Job, t.Instance)
	return nil
}

func (r *record) Remove(instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[instance] = true
	r.say("remove %s", instance)
}

func (r *record) Glance(_ context.Context, instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.say("glance at %s", instance)
}

func (r *record) Profiles(ctx context.Context, dump bool) {
	r.mu.Lock()
	r.dumps = append(r.dumps, dump)
	r.say("profiles")
	r.mu.Unlock()
	if r.profiled != nil {
		r.profiled(ctx)
	}
}

func (r *record) Event(_ time.Time, name, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts[name] = text
	if name == "onset" || name == "phase" {
		name += " " + text
	}
	r.say("%s", name)
}

func (r *record) Finish(partial string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = partial
	r.answers = true
	for _, t := range r.targets {
		if !r.gone[t.Instance] && !answers(t.Metrics) {
			r.answers = false
		}
	}
	r.say("finish")
	return r.failEnd
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// await waits for a line.
func (r *record) await(ctx context.Context, line string) error {
	for {
		r.mu.Lock()
		found, more := slices.Contains(r.lines, line), r.more
		r.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("expected %q, saw the end of the run: %w", line, ctx.Err())
		}
	}
}

// answers reports whether something listens at an address.
func answers(url string) bool {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// checkGone checks that nothing of a run is left: no task, no part.
func (r *record) checkGone(t *testing.T) {
	t.Helper()
	for _, target := range r.targets {
		if answers(target.Metrics) {
			t.Errorf("%s still answers after the run", target.Instance)
		}
	}
}

// checkOrder checks that lines are among those of the record, in this order.
func (r *record) checkOrder(t *testing.T, want ...string) {
	t.Helper()
	rest := r.all()
	for _, line := range want {
		i := slices.Index(rest, line)
		if i < 0 {
			t.Fatalf("%q is missing, or not after the line before it\nwant %q\nin   %q", line, want, r.all())
		}
		rest = rest[i+1:]
	}
}

const length = 1500 * time.Millisecond

// scenario is a short one of one task.
func scenario(steps ...Step) Scenario {
	return Scenario{
		Name: "short", Fault: "a fault for the test", Length: length,
		Fleet: fleet.Config{Tasks: 1, Threads: 1, Health: fleet.Probe{
			Path: "/healthz", Every: 50 * time.Millisecond, Timeout: 5 * time.Second, Failures: math.MaxInt,
		}},
		Load:  load.Constant(40, length),
		Steps: append([]Step{{Phase: "usual traffic", Clock: "08:27"}}, steps...),
	}
}

func options(r *record) Options {
	return Options{Command: []string{os.Args[0], asTask}, Seed: 1, Recorder: r}
}

func TestRun(t *testing.T) {
	t.Parallel()
	r := newRecord()
	var stage *Stage
	// Profiles and steps wait for each other, so that the order is not of the machine.
	r.profiled = func(ctx context.Context) { r.await(ctx, "onset a fault for the test") }
	sc := scenario(
		Step{At: 100 * time.Millisecond, Do: func(ctx context.Context, _ *Stage) error { return r.await(ctx, "profiles") }},
		Step{At: 300 * time.Millisecond, Phase: "two tasks", Clock: "08:47", Onset: true, Do: func(ctx context.Context, s *Stage) error {
			stage = s
			s.Fleet.Scale(2)
			return r.await(ctx, "add gateway/gateway-2")
		}},
		Step{At: 600 * time.Millisecond, Do: func(ctx context.Context, s *Stage) error {
			s.Fleet.Scale(1)
			return r.await(ctx, "remove gateway-2")
		}},
	)
	sc.Profiles = []time.Duration{10 * time.Millisecond, 400 * time.Millisecond, 500 * time.Millisecond}
	sc.Glances = []time.Duration{20 * time.Millisecond, 450 * time.Millisecond}
	sc.Upstream = true
	var states []State
	o := options(r)
	o.Show = func(s State) { states = append(states, s) }
	out, err := Run(t.Context(), sc, o)
	if err != nil {
		t.Fatal(err)
	}
	r.checkGone(t)
	r.checkOrder(t, "add gateway/gateway-1", "add cdn/cdn-1", "add kubelet/node-1", "phase usual traffic",
		"onset a fault for the test", "phase two tasks", "add gateway/gateway-2", "remove gateway-2", "outcome", "finish")
	r.checkOrder(t, "profiles", "onset a fault for the test", "profiles", "profiles", "outcome")
	r.checkOrder(t, "add gateway/gateway-1", "glance at gateway-1", "glance at gateway-1", "outcome")
	// A machine that was too slow is no fault of the play's, and is told of.
	partial, starved := "", ""
	if out.Starved != "" {
		partial, starved = "the run is not valid: "+out.Starved, fmt.Sprintf(`,"starved":%q`, out.Starved)
	}
	if last := r.all()[len(r.all())-1]; last != "finish" || r.partial != partial {
		t.Errorf("the record ends with %q, partial %q; want finish and %q", last, r.partial, partial)
	}
	if !r.answers {
		t.Error("a target was gone before the record was finished")
	}
	// Before the onset none, after it one.
	if want := []bool{false, true, false}; !slices.Equal(r.dumps, want) {
		t.Errorf("dumps were asked for: %v, want %v", r.dumps, want)
	}
	for _, target := range r.targets {
		if !strings.HasPrefix(target.Metrics, "http://127.0.0.1:") || !strings.HasSuffix(target.Metrics, "/metrics") {
			t.Errorf("%s is scraped at %s", target.Instance, target.Metrics)
		}
		if isTask := target.Job == "gateway"; isTask != (target.PProf != "") || isTask != (target.Labels["pod"] == target.Instance) {
			t.Errorf("target %+v: want profiles and a pod of tasks alone", target)
		}
	}
	c := out.Load.Count
	if c.Answered == 0 || c.Arrived != c.Answered+c.Failed+c.TimedOut+c.Dropped {
		t.Errorf("counted %+v", c)
	}
	if out.Onset.IsZero() || out.Kills != 0 || !out.FirstKill.IsZero() || !out.FirstTimeout.IsZero() {
		t.Errorf("outcome %+v, want an onset, no kill and no time-out", out)
	}
	if want := fmt.Sprintf(`{"served":%d,"failed":%d,"kills":0%s}`, c.Answered, c.Failed+c.TimedOut+c.Dropped, starved); r.texts[EventOutcome] != want {
		t.Errorf("outcome %s, want %s", r.texts[EventOutcome], want)
	}
	if stage.Upstream == nil {
		t.Error("the stage has no upstream")
	}
	checkStates(t, states, length)
}

func checkStates(t *testing.T, states []State, of time.Duration) {
	t.Helper()
	if len(states) == 0 {
		t.Fatal("no state was shown")
	}
	var phases []string
	for i, s := range states {
		if s.Of != of || i > 0 && s.Elapsed <= states[i-1].Elapsed {
			t.Errorf("state %d is at %v of %v, after %v", i, s.Elapsed, s.Of, states[max(i-1, 0)].Elapsed)
		}
		if s.Tasks < 1 || s.Tasks > 2 || s.Ready < 1 || s.Kills != 0 || s.HealthFailing >= s.Tasks {
			t.Errorf("state %+v, want one or two tasks, of which the first is ready and well", s)
		}
		// The first may be shown before the first step.
		if phase := s.Clock + " " + s.Phase; phase != " " && (len(phases) == 0 || phase != phases[len(phases)-1]) {
			phases = append(phases, phase)
		}
	}
	if want := []string{"08:27 usual traffic", "08:47 two tasks"}; !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
}

// A task that is killed is scraped no more, and the one in its place is.
func TestRunKills(t *testing.T) {
	t.Parallel()
	r := newRecord()
	sc := scenario(Step{At: 100 * time.Millisecond, Onset: true, Do: func(ctx context.Context, s *Stage) error {
		if err := s.Fleet.SetFaults("gateway-1", gateway.Faults{HealthDelay: time.Minute}); err != nil {
			return err
		}
		return r.await(ctx, "add gateway/gateway-2")
	}})
	sc.Fleet.Health.Failures = 1
	sc.Fleet.Health.Timeout = 2 * time.Second
	sc.Fleet.Replace = true
	out, err := Run(t.Context(), sc, options(r))
	if err != nil {
		t.Fatal(err)
	}
	r.checkGone(t)
	r.checkOrder(t, "add gateway/gateway-1", "onset a fault for the test", "remove gateway-1", "first_kill", "add gateway/gateway-2", "outcome", "finish")
	if want := "gateway-1: health"; r.texts["first_kill"] != want || out.Kills < 1 || !out.FirstKill.After(out.Onset) {
		t.Errorf("first kill %q at %v, %d in all; want %q after %v", r.texts["first_kill"], out.FirstKill, out.Kills, want, out.Onset)
	}
}

func TestRunStepFails(t *testing.T) {
	t.Parallel()
	r := newRecord()
	wrong := errors.New("no such fault")
	_, err := Run(t.Context(), scenario(
		Step{At: 100 * time.Millisecond, Phase: "it breaks", Do: func(context.Context, *Stage) error { return wrong }},
		Step{At: 100 * time.Millisecond, Phase: "never"},
	), options(r))
	want := "at 100ms (it breaks): no such fault"
	if !errors.Is(err, wrong) || err.Error() != want || r.partial != want {
		t.Errorf("error %v, partial %q; want %s in both", err, r.partial, want)
	}
	r.checkGone(t)
	r.checkOrder(t, "phase it breaks", "finish")
	if slices.Contains(r.all(), "phase never") {
		t.Errorf("a step was done after one that failed: %q", r.all())
	}
	if !r.answers {
		t.Error("a target was gone before the record was finished")
	}
}

var errInterrupted = errors.New("interrupted for the test")

func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := newRecord()
	sc := scenario(
		Step{At: 100 * time.Millisecond, Do: func(context.Context, *Stage) error {
			cancel(errInterrupted)
			return nil
		}},
		Step{At: time.Hour, Phase: "never"},
	)
	sc.Length = time.Hour
	sc.Load = load.Constant(40, sc.Length)
	sc.Profiles = []time.Duration{time.Hour}
	_, err := Run(ctx, sc, options(r))
	if !errors.Is(err, errInterrupted) || r.partial != errInterrupted.Error() {
		t.Errorf("error %v, partial %q; want %v in both", err, r.partial, errInterrupted)
	}
	r.checkGone(t)
	r.checkOrder(t, "phase usual traffic", "finish")
	if lines := r.all(); slices.Contains(lines, "phase never") || slices.Contains(lines, "profiles") {
		t.Errorf("after the end: %q", lines)
	}
}

// As Ctrl-C is while tasks start: here one that takes an hour until it is ready.
func TestRunInterruptedAtStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := newRecord()
	r.added = func(Target) { cancel() }
	sc := scenario()
	sc.Fleet.Boot = time.Hour
	_, err := Run(ctx, sc, options(r))
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(r.partial, "start the tasks: ") {
		t.Errorf("error %v, partial %q", err, r.partial)
	}
	r.checkGone(t)
	if want := []string{"add gateway/gateway-1", "finish"}; !slices.Equal(r.all(), want) {
		t.Errorf("recorded %q, want %q", r.all(), want)
	}
}

func TestRunTaskCannotStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		command []string
		want    string
	}{
		"no program": {[]string{os.Args[0] + "-missing"}, "no such file"},
		"ends":       {[]string{os.Args[0], asDud}, "no room"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "no program" && runtime.GOOS == "windows" {
				t.Skip("has another text for it")
			}
			r := newRecord()
			o := options(r)
			o.Command = tt.command
			_, err := Run(t.Context(), scenario(), o)
			if err == nil || err.Error() != r.partial || !strings.HasPrefix(r.partial, "start the tasks: ") || !strings.Contains(r.partial, tt.want) {
				t.Errorf("error %v, partial %q; want one with %q", err, r.partial, tt.want)
			}
			if want := []string{"remove gateway-1", "finish"}; !slices.Equal(r.all(), want) {
				t.Errorf("recorded %q, want %q", r.all(), want)
			}
		})
	}
}

// A recorder that fails loses a task's series, not the run; one that loses a
// part, or all that was recorded, fails it.
func TestRunRecorderFails(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	for name, tt := range map[string]struct {
		failAdd string
		failEnd error
		want    string // of the error
		partial string
	}{
		"task":   {failAdd: "gateway-1"},
		"part":   {failAdd: "cdn-1", want: "no room for cdn-1", partial: "no room for cdn-1"},
		"finish": {failEnd: full, want: full.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecord()
			r.failAdd, r.failEnd = tt.failAdd, tt.failEnd
			sc := scenario()
			sc.Length = 200 * time.Millisecond
			sc.Load = load.Constant(40, sc.Length)
			_, err := Run(t.Context(), sc, options(r))
			if tt.partial == "" && strings.HasPrefix(r.partial, "the run is not valid: ") {
				r.partial = "" // the machine was too slow for calls to be in time
			}
			if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want || r.partial != tt.partial {
				t.Errorf("error %v, partial %q; want %q and %q", err, r.partial, tt.want, tt.partial)
			}
			if slices.Contains(r.all(), "unrecorded") != (name == "task") {
				t.Errorf("recorded %q", r.all())
			}
			r.checkGone(t)
		})
	}
}

// What a client gave up on before the fault is not of the fault.
func TestOutcome(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, tt := range map[string]struct {
		onset, timeout time.Time
		want           time.Time
	}{
		"after the onset":  {at(2), at(5), at(5)},
		"before the onset": {at(2), at(1), time.Time{}},
		"at the onset":     {at(2), at(2), time.Time{}},
		"no onset":         {time.Time{}, at(5), time.Time{}},
		"no time-out":      {at(2), time.Time{}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := newRecord()
			r := &run{recorder: rec, onset: tt.onset, kills: 3}
			report := load.Report{FirstTimeout: tt.timeout, FirstFailure: tt.timeout, Stats: load.Stats{Count: load.Count{Arrived: 7, Answered: 4, Failed: 1, TimedOut: 2}}}
			out := r.outcome(report, start)
			if !out.FirstFailure.Equal(tt.want) || slices.Contains(rec.all(), "first_failure") == tt.want.IsZero() {
				t.Errorf("first failure %v, recorded %q; want %v", out.FirstFailure, rec.all(), tt.want)
			}
			if !out.FirstTimeout.Equal(tt.want) || slices.Contains(rec.all(), "first_timeout") == tt.want.IsZero() {
				t.Errorf("first time-out %v, recorded %q; want %v", out.FirstTimeout, rec.all(), tt.want)
			}
			if want := `{"served":4,"failed":3,"kills":3}`; rec.texts[EventOutcome] != want {
				t.Errorf("outcome %s, want %s", rec.texts[EventOutcome], want)
			}
			if out.Starved != "" {
				t.Errorf("starved: %s", out.Starved)
			}
		})
	}
	late := load.Report{Lateness: load.Quantiles{P99: time.Second, Max: time.Second}}
	if out := (&run{recorder: newRecord()}).outcome(late, start); out.Starved == "" {
		t.Error("a run whose calls were a second late is valid")
	}
	dropped := load.Report{Stats: load.Stats{Count: load.Count{Arrived: 1, Dropped: 1}}}
	if out := (&run{recorder: newRecord()}).outcome(dropped, start); out.Starved == "" {
		t.Error("calls that were never sent starve nothing")
	}
	rec := newRecord()
	rec.late = "scrapes were late"
	out := (&run{recorder: rec}).outcome(load.Report{}, start)
	if want := `{"served":0,"failed":0,"kills":0,"starved":"scrapes were late"}`; out.Starved != rec.late || rec.texts[EventOutcome] != want {
		t.Errorf("starved %q, outcome %s, want %s", out.Starved, rec.texts[EventOutcome], want)
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	answered := func(counts ...int) []load.Second {
		var out []load.Second
		for _, n := range counts {
			out = append(out, load.Second{Answered: n})
		}
		return out
	}
	const none = -1
	for name, tt := range map[string]struct {
		seconds []load.Second
		onset   time.Time
		want    time.Duration // none: not recovered
	}{
		"no onset":                 {answered(100, 100, 100, 100, 100), time.Time{}, none},
		"onset before the start":   {answered(100, 100, 100, 100, 100), at(-time.Second), none},
		"onset at the end":         {answered(100, 100, 100), at(3 * time.Second), none},
		"onset after the end":      {answered(100, 100, 100), at(time.Hour), none},
		"nothing at all":           {nil, at(time.Second), none},
		"never bad":                {answered(100, 100, 100, 100, 100, 0), at(2 * time.Second), 0},
		"a quarter less is usual":  {answered(100, 100, 75, 75, 75, 0), at(2 * time.Second), 0},
		"more than a quarter less": {answered(100, 100, 74, 75, 75, 75, 0), at(2 * time.Second), time.Second},
		"bad for two seconds":      {answered(100, 100, 10, 20, 100, 100, 100, 0), at(2 * time.Second), 2 * time.Second},
		"within a second":          {answered(100, 100, 100, 20, 100, 100, 100, 0), at(1500 * time.Millisecond), 2500 * time.Millisecond},
		"bad again":                {answered(100, 100, 10, 100, 10, 100, 100, 100, 0), at(2 * time.Second), 3 * time.Second},
		"two good seconds":         {answered(100, 100, 10, 100, 100, 0), at(2 * time.Second), none},
		"bad until the end":        {answered(100, 100, 10, 10, 10, 10), at(2 * time.Second), none},
		"bad in the cut second":    {answered(100, 100, 10, 100, 100, 100, 1), at(2 * time.Second), time.Second},
		"one slow second before":   {answered(100, 5, 100, 10, 100, 100, 100, 0), at(3 * time.Second), time.Second},
		"nothing before the onset": {answered(0, 0, 0, 0), at(0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := recovery(tt.seconds, start, tt.onset, time.Time{})
			switch {
			case tt.want == none && got != nil:
				t.Errorf("recovered after %v, want never", *got)
			case tt.want != none && (got == nil || *got != tt.want):
				t.Errorf("recovered after %v, want %v", got, tt.want)
			}
		})
	}
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	u, err := startUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer u.stop()
	get := func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url, nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	if !strings.HasPrefix(u.url, "http://127.0.0.1:") {
		t.Errorf("listens at %s", u.url)
	}
	if body, err := get(t.Context()); err != nil || body != "ok\n" {
		t.Errorf("answered %q, %v", body, err)
	}
	u.SetTime(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if body, err := get(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an upstream that takes an hour answered %q, %v", body, err)
	}
	u.SetTime(0)
	if body, err := get(t.Context()); err != nil || body != "ok\n" {
		t.Errorf("answered %q, %v", body, err)
	}
	u.stop()
	if _, err := get(t.Context()); err == nil {
		t.Error("it answers after its end")
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	if err := fleet.Wait(t.Context(), -time.Second); err != nil {
		t.Errorf("a moment that is over: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if err := fleet.Wait(ctx, time.Hour); err != errInterrupted {
		t.Errorf("got %v, want the cause alone", err)
	}
}

// Traffic that is served while tasks go on dying is no recovery.
func TestRecoveryFromKills(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	seconds := make([]load.Second, 10)
	for i := range seconds {
		seconds[i].Answered = 100
	}
	for _, tt := range []struct{ onset, kill, want time.Duration }{
		{2 * time.Second, 0, 0}, // before the onset
		{2 * time.Second, 4500 * time.Millisecond, 3 * time.Second},
		{2 * time.Second, 6100 * time.Millisecond, -1},
	} {
		got := recovery(seconds, start, start.Add(tt.onset), start.Add(tt.kill))
		if tt.want < 0 && got != nil || tt.want >= 0 && (got == nil || *got != tt.want) {
			t.Errorf("killed after %v: recovered after %v, want %v", tt.kill, got, tt.want)
		}
	}
}
