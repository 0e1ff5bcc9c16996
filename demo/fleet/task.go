package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/contend/contend/demo/gateway"
)

const (
	// The kubelet waits 10 s before it starts a container again; the demo runs 60
	// times faster than the clock.
	replaceAfter = 10 * time.Second / 60
	// Far longer than a start takes on a machine in full use.
	startTimeout = 10 * time.Second
	// A task drains for at most 1 s after SIGTERM.
	grace = 2 * time.Second
	// At its fastest, 1 GB/s, a task is 50 MB over its limit when it is seen.
	memoryEvery = 50 * time.Millisecond
)

// killedStatus is the exit status of what SIGKILL ended.
const killedStatus = 128 + 9

// task is one process. Fleet.mu guards what may change.
type task struct {
	name  string
	ready chan struct{} // closed when it is ready for the first time
	gone  chan struct{} // closed when its process is
	last  Event         // how it ended; only read after gone

	url, admin string
	started    time.Time
	process    *os.Process
	stdin      io.Writer       // nil until its configuration is sent
	faults     *gateway.Faults // nil: those of its configuration
	usage      usage
	health     time.Duration // what its latest liveness check took
	failing    bool          // that check failed
	isReady    bool
	retired    bool   // it was asked to end
	killed     string // why
}

// usage is what a process took of the machine.
type usage struct {
	resident int64   // bytes
	cpu      float64 // seconds
}

// run runs t from its start to its end.
func (f *Fleet) run(t *task, wait time.Duration) {
	// On Linux a task is killed when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if Wait(f.ctx, wait) != nil {
		f.end(t, 0, "")
		return
	}
	cmd := exec.CommandContext(f.ctx, f.cfg.Command[0], f.cfg.Command[1:]...)
	cmd.SysProcAttr = ownGroup()
	dieWithParent(cmd.SysProcAttr)
	// Whatever holds a dead task's pipes, it is over after this long.
	cmd.WaitDelay = time.Second
	if f.cfg.Threads > 0 {
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", f.cfg.Threads))
	}
	stdout, stderr := newHead(), newHead()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = f.launch(t, cmd)
	}
	if err != nil {
		f.end(t, -1, err.Error())
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	var attending sync.WaitGroup
	attending.Go(func() { f.attend(ctx, t, stdin, stdout) })
	_ = cmd.Wait() // its state says more
	cancel()
	attending.Wait()
	f.probes.forget(t.name)
	f.end(t, exitStatus(cmd.ProcessState), stderr.firstLine())
}

// launch starts t's process.
func (f *Fleet) launch(t *task, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.started, t.process = time.Now(), cmd.Process
	if t.retired { // while it waited to start
		t.process.Kill()
	}
	return nil
}

// end takes t out of the fleet and starts another one in its place where there is to
// be one. said is what it wrote last.
func (f *Fleet) end(t *task, exit int, said string) {
	f.happen(func() Event {
		f.tasks = slices.DeleteFunc(f.tasks, func(other *task) bool { return other == t })
		e := Event{At: time.Now(), Task: t.name, Kind: Ended, Why: said, Exit: exit, URL: t.url, Admin: t.admin}
		switch {
		// One that crashes fails its health check too, and is dead before it is killed.
		case t.killed != "" && exit == killedStatus:
			e.Kind, e.Why = Killed, t.killed
		case t.retired:
			e.Why = "retired"
		}
		f.replace(t)
		t.last = e
		return e
	})
	close(t.gone)
}

// attend gives t its configuration, and asks after it until ctx ends.
func (f *Fleet) attend(ctx context.Context, t *task, stdin io.Writer, stdout *head) {
	cfg, err := f.configure(t, stdin)
	if err != nil {
		f.kill(t, "start")
		return
	}
	var at gateway.Addresses
	select {
	case <-stdout.line:
		err = json.Unmarshal([]byte(stdout.firstLine()), &at)
	case <-time.After(startTimeout):
		err = context.DeadlineExceeded
	case <-ctx.Done(): // it has ended
		return
	}
	if err != nil || at.URL == "" || at.Admin == "" {
		f.kill(t, "start")
		return
	}
	f.happen(func() Event {
		t.url, t.admin = at.URL, at.Admin
		return t.event(Started)
	})

	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { f.watchUsage(ctx, t) })
	if Wait(ctx, time.Until(t.started.Add(f.cfg.Boot))) != nil {
		return
	}
	// Health apart from requests is on a listener apart from theirs too.
	base := at.URL
	if cfg.HealthApart {
		base = at.Admin
	}
	if f.cfg.Ready.Path == "" && f.cfg.Health.Path == "" {
		f.setReady(t, true)
	}
	if p := f.cfg.Ready; p.Path != "" {
		watching.Go(func() { f.probe(ctx, t, readiness, base, p, func(ok bool) { f.setReady(t, ok) }) })
	}
	if p := f.cfg.Health; p.Path != "" {
		watching.Go(func() {
			f.probe(ctx, t, liveness, base, p, func(ok bool) {
				if !ok {
					f.kill(t, "health")
				} else if f.cfg.Ready.Path == "" {
					f.setReady(t, true)
				}
			})
		})
	}
}

// configure sends t its configuration.
func (f *Fleet) configure(t *task, stdin io.Writer) (gateway.Config, error) {
	cfg := f.cfg.Task(t.name)
	cfg.Name = t.name
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.faults != nil {
		cfg.Faults = *t.faults
	}
	t.stdin = stdin
	return cfg, send(stdin, cfg)
}

// send writes v as a line of JSON. A task that has just ended is no error: what
// becomes of it is told elsewhere.
func send(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// setReady lets traffic to t, or keeps it away.
func (f *Fleet) setReady(t *task, ready bool) {
	f.happen(func() Event {
		if t.isReady == ready || t.retired || t.killed != "" {
			return Event{}
		}
		t.isReady = ready
		if !ready {
			return t.event(Unready)
		}
		select {
		case <-t.ready:
		default:
			close(t.ready)
		}
		return t.event(Ready)
	})
}

func (t *task) event(kind string) Event {
	return Event{At: time.Now(), Task: t.name, Kind: kind, URL: t.url, Admin: t.admin}
}

// kill ends t at once.
func (f *Fleet) kill(t *task, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil { // they all end, and not for that reason
		return
	}
	t.killed = cmp.Or(t.killed, why)
	// The only error is that it has ended.
	_ = t.process.Kill()
}

// retire keeps traffic away from t and asks it to end, and kills it when it does not.
func (f *Fleet) retire(t *task) {
	f.happen(func() Event {
		t.retired, t.isReady = true, false
		f.replace(t)
		return Event{}
	})
	f.mu.Lock()
	p := t.process
	f.mu.Unlock()
	if p == nil {
		return // it is not started at all, or ends as soon as it is
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		p.Kill()
	}
	time.AfterFunc(grace, func() {
		select {
		case <-t.gone:
		default:
			p.Kill()
		}
	})
}

// watchUsage measures t until ctx ends, and kills it above the limit.
func (f *Fleet) watchUsage(ctx context.Context, t *task) {
	for Wait(ctx, memoryEvery) == nil {
		u, err := readUsage(t.process.Pid)
		if err != nil {
			continue // it has just ended, or this is not Linux
		}
		f.mu.Lock()
		t.usage = u
		f.mu.Unlock()
		if f.cfg.MemoryLimit > 0 && u.resident > f.cfg.MemoryLimit {
			f.kill(t, "memory")
			return
		}
	}
}

// exitStatus is as a shell gives it.
func exitStatus(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// head keeps the start of what is written to it, and lets the rest go.
type head struct {
	line chan struct{} // closed when the first line is whole

	mu   sync.Mutex
	kept []byte
}

func newHead() *head { return &head{line: make(chan struct{})} }

// Write takes all of p.
func (h *head) Write(p []byte) (int, error) {
	const most = 4 << 10 // bytes; a line of addresses, or a panic's message, is far shorter
	h.mu.Lock()
	defer h.mu.Unlock()
	whole := bytes.IndexByte(h.kept, '\n') >= 0
	h.kept = append(h.kept, p[:min(len(p), most-len(h.kept))]...)
	if !whole && bytes.IndexByte(h.kept, '\n') >= 0 {
		close(h.line)
	}
	return len(p), nil
}

func (h *head) firstLine() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	line, _, _ := strings.Cut(string(h.kept), "\n")
	return line
}
