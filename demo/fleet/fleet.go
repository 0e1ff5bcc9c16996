// Package fleet runs the tasks of a gateway as processes, as an orchestrator does:
// it starts them, asks after their health, kills those that fail or take too much
// memory, starts new ones in their place, and scales out under load.
//
// A task is killed without notice (SIGKILL, exit 137) where its health or its
// memory says so, and asked to end (SIGTERM) where a deploy or a smaller scale does.
//
// No task outlives the fleet's process, however that ends: a task ends itself when
// its standard input does, and on Linux the kernel kills it with its parent. On Unix
// Ctrl-C is for the fleet's process alone, which then stops its tasks.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/contend/contend/demo/balancer"
	"github.com/contend/contend/demo/gateway"
)

// Probe is a health check. The zero Probe is none.
//
// As the kubelet's, it is a GET on a connection of its own that succeeds with a
// status from 200 to 399.
type Probe struct {
	Path     string
	Every    time.Duration
	Timeout  time.Duration
	Failures int // so many in a row make the task unhealthy; default 1
}

// Config says what a fleet is like. A zero value is none of it, unless said otherwise.
type Config struct {
	Command []string // starts a task that speaks the protocol of gateway.Main
	Task    func(name string) gateway.Config
	Tasks   int // to begin with

	Threads     int   // GOMAXPROCS of each; 0 leaves it to the task
	MemoryLimit int64 // bytes of resident memory above which a task is killed; Linux only

	Health  Probe // liveness: a task that fails it is killed
	Ready   Probe // readiness: a task that fails it gets no traffic; the zero Probe leaves that to Health
	Replace bool  // a task that ended gets a new one in its place, cold and under a new name

	// A task is added each second while the tasks that get traffic have had more than
	// ScaleAt requests in progress, on average and for 2 s, up to ScaleTo tasks. Stats
	// says how many they have.
	ScaleAt float64
	ScaleTo int
	Stats   func() []balancer.Stats

	Boot time.Duration // from a task's start until it is first asked after its health

	// Both are called one at a time, in the order things happened in. They may call
	// the fleet's methods, but not Scale, Roll and Stop, which wait for them.
	Changed func([]balancer.Task) // the tasks that get traffic, oldest first
	Event   func(Event)
}

// Event is a moment in a task's life: started and, unless the fleet is stopped
// before, either killed or ended; between them any number of ready and unready.
type Event struct {
	At         time.Time
	Task       string
	Kind       string // one of the constants
	Why        string // of killed: "health", "memory" or "start"; of ended: "retired", or what it last said
	Exit       int    // of killed and ended: its exit status, 128 and the signal where one ended it; -1 where it could not be started
	URL, Admin string // what it serves at, once known
}

// Kinds of events.
const (
	Started = "started" // it serves, and is not ready yet
	Ready   = "ready"   // gets traffic
	Unready = "unready" // gets none, since it fails Config.Ready
	Killed  = "killed"  // by the fleet
	Ended   = "ended"   // by itself, or because it was asked to
)

// Info is a task that runs.
type Info struct {
	Name       string
	URL, Admin string
	Started    time.Time // of its process
	Ready      bool
	Resident   int64         // bytes of memory; 0 where it is not known
	CPU        time.Duration // used since its start; 0 where it is not known
	Health     time.Duration // what its latest liveness check took
	Failing    bool          // that check failed, and it was not asked to end
}

// Fleet is a running fleet.
type Fleet struct {
	cfg     Config
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup // tasks, and the autoscaler
	client  *http.Client   // of health checks
	probes  probeMetrics

	// order is held while something happens and the callbacks hear of it. mu is taken
	// after it and not held during callbacks, so that they can ask the fleet.
	order sync.Mutex

	mu     sync.Mutex
	tasks  []*task         // oldest first
	want   int             // how many are to run, and one more during a turn
	turn   [2]*task        // of a roll: the old and its successor, while both are to run
	named  int             // tasks that got a name so far
	faults *gateway.Faults // of all tasks to come, where SetFaults said so
}

// check is an error where the configuration makes no sense on that system.
func (cfg Config) check(goos string) error {
	if len(cfg.Command) == 0 || cfg.Task == nil || cfg.Tasks < 1 {
		return fmt.Errorf("expected a command and at least one task, saw %q and %d tasks", cfg.Command, cfg.Tasks)
	}
	for _, p := range []Probe{cfg.Health, cfg.Ready} {
		if p.Path != "" && (p.Every <= 0 || p.Timeout <= 0) {
			return fmt.Errorf("expected the health check %s to have an interval and a timeout, saw %v and %v", p.Path, p.Every, p.Timeout)
		}
	}
	if cfg.MemoryLimit > 0 && goos != "linux" {
		return fmt.Errorf("expected Linux, where the memory of a task can be measured and so limited to %d MiB, saw %s; scenarios without a memory limit work here: contend demo list", cfg.MemoryLimit>>20, goos)
	}
	return nil
}

// Start starts a fleet and waits until its first tasks are ready, or one of them
// ends. The fleet runs until Stop or the end of ctx.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	if err := cfg.check(runtime.GOOS); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	f := &Fleet{cfg: cfg, ctx: ctx, stop: stop, client: newProbeClient(), probes: newProbeMetrics()}
	f.Scale(cfg.Tasks)
	f.mu.Lock()
	first := slices.Clone(f.tasks)
	f.mu.Unlock()
	for _, t := range first {
		if err := f.awaitReady(t); err != nil {
			f.Stop()
			return nil, fmt.Errorf("start the fleet: %w", err)
		}
	}
	if cfg.ScaleTo > 0 && cfg.Stats != nil {
		f.running.Go(f.autoscale)
	}
	return f, nil
}

// Stop kills all tasks and waits until they are gone. Nothing is heard of it by
// Config.Event.
func (f *Fleet) Stop() {
	f.mu.Lock() // no task is added to the group while it is waited for
	f.stop()
	f.mu.Unlock()
	f.running.Wait()
}

// Tasks are the tasks that run and have said where they serve, oldest first.
func (f *Fleet) Tasks() []Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Info
	for _, t := range f.tasks {
		if t.url != "" {
			all = append(all, Info{Name: t.name, URL: t.url, Admin: t.admin, Started: t.started, Ready: t.isReady, Resident: t.usage.resident,
				CPU: time.Duration(t.usage.cpu * float64(time.Second)), Health: t.health, Failing: t.failing && !t.retired})
		}
	}
	return all
}

// SetFaults changes the faults of the task of that name, and of all tasks, also of
// those to come, where it is "".
func (f *Fleet) SetFaults(name string, faults gateway.Faults) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name == "" {
		f.faults = &faults
	}
	found := name == ""
	var errs []error
	for _, t := range f.tasks {
		if name != "" && name != t.name {
			continue
		}
		found = true
		t.faults = &faults
		if t.stdin == nil {
			continue // it gets them when it starts
		}
		if err := send(t.stdin, faults); err != nil {
			errs = append(errs, fmt.Errorf("send %s its faults: %w", t.name, err))
		}
	}
	if !found {
		return fmt.Errorf("expected the name of a task that runs, saw %q", name)
	}
	return errors.Join(errs...)
}

// Scale adds tasks, or retires the newest, until there are n.
func (f *Fleet) Scale(n int) {
	f.mu.Lock()
	f.want = max(n, 0)
	staying := f.staying()
	for range f.want - len(staying) {
		f.add(0)
	}
	surplus := staying[min(f.want, len(staying)):]
	f.mu.Unlock()
	for _, t := range surplus {
		f.retire(t)
	}
}

// Roll replaces the tasks of this moment one after the other: a new one gets ready,
// the old one gets no more traffic and is asked to end, and the next one's turn is
// after every. It returns when all are replaced, or with an error when a new one
// ended before it was ready or the fleet was stopped. Where Config.Replace says so, a
// task that dies meanwhile gets a replacement too.
func (f *Fleet) Roll(every time.Duration) error {
	f.mu.Lock()
	old := f.staying()
	f.mu.Unlock()
	for _, t := range old {
		f.mu.Lock()
		if !slices.Contains(f.staying(), t) { // what took its place is new
			f.mu.Unlock()
			continue
		}
		successor := f.add(0)
		f.turn = [2]*task{t, successor}
		f.mu.Unlock()
		if err := f.awaitReady(successor); err != nil {
			return fmt.Errorf("replace %s: %w", t.name, err)
		}
		f.retire(t)
		if err := Wait(f.ctx, every); err != nil {
			return fmt.Errorf("replace tasks: %w", err)
		}
	}
	return nil
}

// awaitReady waits until t gets traffic.
func (f *Fleet) awaitReady(t *task) error {
	select {
	case <-t.ready:
		return nil
	case <-t.gone:
	case <-f.ctx.Done():
		<-t.gone
	}
	if err := f.ctx.Err(); err != nil {
		return fmt.Errorf("expected %s to become ready, saw the fleet stopped: %w", t.name, err)
	}
	return fmt.Errorf("expected %s to become ready, saw it %s: %s", t.name, t.last.Kind, t.last.Why)
}

// staying are the tasks that are not to end. f.mu is held.
func (f *Fleet) staying() []*task {
	var all []*task
	for _, t := range f.tasks {
		if !t.retired {
			all = append(all, t)
		}
	}
	return all
}

// replace adds what is missing now that t is not to run any more, where tasks are
// replaced. Of the two of a roll's turn only one is. f.mu is held.
func (f *Fleet) replace(t *task) {
	if slices.Contains(f.turn[:], t) {
		f.turn = [2]*task{}
	}
	if !f.cfg.Replace || f.ctx.Err() != nil {
		return
	}
	want := f.want
	if f.turn[0] != nil {
		want++
	}
	for range want - len(f.staying()) {
		f.add(replaceAfter)
	}
}

// add adds a task whose process starts after wait. f.mu is held.
func (f *Fleet) add(wait time.Duration) *task {
	f.named++
	t := &task{
		name:   fmt.Sprintf("gateway-%d", f.named),
		faults: f.faults,
		ready:  make(chan struct{}),
		gone:   make(chan struct{}),
	}
	if f.ctx.Err() != nil { // it would not be waited for
		close(t.gone)
		return t
	}
	f.tasks = append(f.tasks, t)
	f.running.Go(func() { f.run(t, wait) })
	return t
}

// happen changes a task under the lock and tells the callbacks: event where its
// kind is set, and the tasks that get traffic where they are others than before.
func (f *Fleet) happen(change func() Event) {
	f.order.Lock()
	defer f.order.Unlock()
	f.mu.Lock()
	before := f.serving()
	e := change()
	after := f.serving()
	stopped := f.ctx.Err() != nil
	f.mu.Unlock()
	if stopped {
		return
	}
	if f.cfg.Changed != nil && !slices.Equal(before, after) {
		f.cfg.Changed(after)
	}
	if f.cfg.Event != nil && e.Kind != "" {
		f.cfg.Event(e)
	}
}

// serving are the tasks that get traffic. f.mu is held.
func (f *Fleet) serving() []balancer.Task {
	var all []balancer.Task
	for _, t := range f.tasks {
		if t.isReady {
			all = append(all, balancer.Task{Name: t.name, URL: t.url})
		}
	}
	return all
}

// Wait waits for d. Where ctx ends first, its cause is the error.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
