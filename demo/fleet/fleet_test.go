package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contend/contend/demo/balancer"
	"github.com/contend/contend/demo/gateway"
)

const (
	often   = 5 * time.Millisecond
	patient = 10 * time.Second // a check must not fail because the machine is busy
)

// record keeps what a fleet told, in order, as lines such as "killed gateway-1 health 137".
type record struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newRecord() *record { return &record{more: make(chan struct{}, 1000)} }

func (r *record) add(line string) {
	r.mu.Lock()
	r.lines = append(r.lines, line)
	r.mu.Unlock()
	r.more <- struct{}{}
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// start starts a fleet of fake tasks (see fake_test.go) that tells r, and stops it with the test.
func start(t *testing.T, cfg Config) (*Fleet, *record) {
	t.Helper()
	f, r, err := try(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f, r
}

func try(t *testing.T, cfg Config) (*Fleet, *record, error) {
	t.Helper()
	r := newRecord()
	cfg = r.hear(cfg)
	f, err := Start(t.Context(), cfg)
	if err == nil {
		t.Cleanup(f.Stop)
	}
	return f, r, err
}

// hear fills in what tests have in common.
func (r *record) hear(cfg Config) Config {
	cfg.Command = []string{os.Args[0], fakeTask}
	if cfg.Task == nil {
		cfg.Task = func(string) gateway.Config { return gateway.Config{} }
	}
	cfg.Tasks = max(cfg.Tasks, 1)
	cfg.Changed = func(tasks []balancer.Task) {
		line := "serving"
		for _, t := range tasks {
			line += " " + t.Name
		}
		r.add(line)
	}
	cfg.Event = func(e Event) {
		line := e.Kind + " " + e.Task
		if e.Kind == Killed || e.Kind == Ended {
			line += fmt.Sprintf(" %s %d", e.Why, e.Exit)
		}
		r.add(line)
	}
	return cfg
}

// wait waits until the lines are these.
func (r *record) wait(t *testing.T, want ...string) {
	t.Helper()
	for len(r.all()) < len(want) {
		select {
		case <-r.more:
		case <-time.After(patient):
			t.Fatalf("heard %q, want %q", r.all(), want)
		}
	}
	if got := r.all(); !slices.Equal(got, want) {
		t.Fatalf("heard %q, want %q", got, want)
	}
}

// await waits for a line among others.
func (r *record) await(t *testing.T, want string) {
	t.Helper()
	for !slices.Contains(r.all(), want) {
		select {
		case <-r.more:
		case <-time.After(patient):
			t.Fatalf("heard %q, want %q", r.all(), want)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

var (
	health = Probe{Path: "/healthz", Every: often, Timeout: patient, Failures: 1}
	ready  = Probe{Path: "/readyz", Every: often, Timeout: patient, Failures: 2}
)

func TestReplacesUnhealthy(t *testing.T) {
	t.Parallel()
	f, r := start(t, Config{Health: health, Replace: true})
	if err := f.SetFaults("gateway-1", gateway.Faults{Wedged: true}); err != nil {
		t.Fatal(err)
	}
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1",
		"serving", "killed gateway-1 health 137",
		"started gateway-2", "serving gateway-2", "ready gateway-2")
	if err := f.SetFaults("gateway-1", gateway.Faults{}); err == nil {
		t.Error("no error for faults of a task that is gone")
	}
}

func TestSlowHealth(t *testing.T) {
	t.Parallel()
	probe := Probe{Path: "/healthz", Every: often, Timeout: 200 * time.Millisecond, Failures: 2}
	f, r := start(t, Config{Health: probe})
	if err := f.SetFaults("", gateway.Faults{HealthDelay: time.Minute}); err != nil {
		t.Fatal(err)
	}
	// Not replaced: nobody asked for that.
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1", "serving", "killed gateway-1 health 137")
}

func TestReadinessKeepsTrafficAwayOnly(t *testing.T) {
	t.Parallel()
	f, r := start(t, Config{Health: health, Ready: ready, Replace: true})
	f.SetFaults("", gateway.Faults{Leak: true})
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1", "serving", "unready gateway-1")
	f.SetFaults("", gateway.Faults{})
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1", "serving", "unready gateway-1",
		"serving gateway-1", "ready gateway-1")
}

func TestEndsByItself(t *testing.T) {
	t.Parallel()
	// Its health check fails then too, and is not what ended it.
	f, r := start(t, Config{Health: health, Replace: true})
	f.SetFaults("gateway-1", gateway.Faults{Deadlock: true})
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1",
		"serving", "ended gateway-1 panic: as told 2",
		"started gateway-2", "serving gateway-2", "ready gateway-2")
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	f, r := start(t, Config{Threads: 3, Task: func(name string) gateway.Config {
		return gateway.Config{Loops: 7, Faults: gateway.Faults{Query: 1}}
	}})
	if got, want := get(t, f.Tasks()[0].URL+"/told"), "gateway-1 loops=7 query=1ns threads=3"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	f.SetFaults("", gateway.Faults{Query: 2})
	f.Scale(2)
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1",
		"started gateway-2", "serving gateway-1 gateway-2", "ready gateway-2")
	if got, want := get(t, f.Tasks()[1].URL+"/told"), "gateway-2 loops=7 query=2ns threads=3"; got != want {
		t.Errorf("told %q, want %q: faults of all are those of later tasks too", got, want)
	}
}

func TestHealthApartIsAskedAtAdmin(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{true, false} {
		f, _ := start(t, Config{Health: health, Task: func(string) gateway.Config { return gateway.Config{HealthApart: apart} }})
		want := "traffic"
		if apart {
			want = "admin"
		}
		if got := get(t, f.Tasks()[0].URL+"/asked"); got != want {
			t.Errorf("apart %v: health asked at %s, want %s", apart, got, want)
		}
	}
}

func TestScaleAndRoll(t *testing.T) {
	t.Parallel()
	f, r := start(t, Config{Replace: true})
	if err := f.Roll(0); err != nil {
		t.Fatal(err)
	}
	want := []string{"started gateway-1", "serving gateway-1", "ready gateway-1",
		"started gateway-2", "serving gateway-1 gateway-2", "ready gateway-2", "serving gateway-2", "ended gateway-1 retired 0"}
	r.wait(t, want...)
	f.Scale(0)
	r.wait(t, append(want, "serving", "ended gateway-2 retired 0")...)
	f.Scale(1)
	r.wait(t, append(want, "serving", "ended gateway-2 retired 0", "started gateway-3", "serving gateway-3", "ready gateway-3")...)
}

// One that ignores SIGTERM is killed, which is no kill of the fleet's judgement.
func TestRetiredAndDeaf(t *testing.T) {
	t.Parallel()
	f, r := start(t, Config{Task: func(string) gateway.Config { return gateway.Config{Hold: 1} }})
	f.Scale(0)
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1", "serving", "ended gateway-1 retired 137")
}

// A task that dies while its own successor gets ready needs no other. One that dies
// while that of another does is replaced at once, and not only after the roll's turn.
// The fleet is as large when the roll returns, and no larger when the retired task,
// which ignores SIGTERM, is gone.
func TestRollWhileOneDies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ dies, next, retired string }{
		{"gateway-1", "ended gateway-1 panic: as told 2", "gateway-2"},
		{"gateway-2", "ready gateway-4", "gateway-1"},
	} {
		t.Run(tt.dies, func(t *testing.T) {
			t.Parallel()
			f, r := start(t, Config{Tasks: 2, Ready: ready, Replace: true, Task: func(name string) gateway.Config {
				return gateway.Config{Hold: 1, Faults: gateway.Faults{Leak: name == "gateway-3"}} // not ready
			}})
			check := func(when string) {
				t.Helper()
				f.mu.Lock()
				defer f.mu.Unlock()
				var names []string
				for _, task := range f.staying() {
					names = append(names, task.name)
				}
				if want := []string{"gateway-3", "gateway-4"}; !slices.Equal(names, want) || f.named != 4 {
					t.Errorf("%s: tasks %q of %d in all, want %q of 4", when, names, f.named, want)
				}
			}
			rolled := make(chan error, 1)
			go func() { rolled <- f.Roll(0) }()
			r.await(t, "started gateway-3")
			f.SetFaults(tt.dies, gateway.Faults{Deadlock: true})
			r.await(t, tt.next)
			f.SetFaults("gateway-3", gateway.Faults{})
			if err := <-rolled; err != nil {
				t.Fatal(err)
			}
			check("the roll returned")
			r.await(t, "ready gateway-4")
			r.await(t, "ended "+tt.retired+" retired 137")
			check("the retired task is gone")
		})
	}
}

func TestTasksFailing(t *testing.T) {
	t.Parallel()
	f := &Fleet{tasks: []*task{
		{name: "failing", url: "http://127.0.0.1:1", failing: true},
		{name: "retired", url: "http://127.0.0.1:2", failing: true, retired: true},
		{name: "healthy", url: "http://127.0.0.1:3"},
		{name: "not there yet", failing: true},
	}}
	var got []string
	for _, info := range f.Tasks() {
		got = append(got, fmt.Sprintf("%s %v", info.Name, info.Failing))
	}
	if want := []string{"failing true", "retired false", "healthy false"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
}

func TestMemoryLimitNeedsLinux(t *testing.T) {
	t.Parallel()
	limited := newRecord().hear(Config{MemoryLimit: 300 << 20})
	for _, tt := range []struct {
		goos string
		cfg  Config
		want string
	}{
		{"linux", limited, ""},
		{"darwin", newRecord().hear(Config{}), ""},
		{"darwin", limited, "expected Linux, where the memory of a task can be measured and so limited to 300 MiB, saw darwin; scenarios without a memory limit work here: contend demo list"},
	} {
		got := ""
		if err := tt.cfg.check(tt.goos); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s, limit %d: error %q, want %q", tt.goos, tt.cfg.MemoryLimit, got, tt.want)
		}
	}
}

func TestRollStopsAtOneThatFails(t *testing.T) {
	t.Parallel()
	f, r := start(t, Config{Tasks: 1, Replace: true, Task: func(name string) gateway.Config {
		if name == "gateway-2" {
			return refuses(name)
		}
		return gateway.Config{}
	}})
	err := f.Roll(0)
	if want := "replace gateway-1: expected gateway-2 to become ready, saw it ended: refused"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1", "ended gateway-2 refused 3")
	if tasks := f.Tasks(); len(tasks) != 1 || tasks[0].Name != "gateway-1" || !tasks[0].Ready {
		t.Errorf("tasks %+v, want gateway-1 still ready, and no other", tasks)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"ends at once", Config{Task: refuses}, "start the fleet: expected gateway-1 to become ready, saw it ended: refused"},
		{"prints no address", Config{Task: mumbles}, "start the fleet: expected gateway-1 to become ready, saw it killed: start"},
		{"no interval", Config{Health: Probe{Path: "/healthz"}}, "expected the health check /healthz to have an interval and a timeout, saw 0s and 0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := try(t, tt.cfg); err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("no error without a command")
	}
	none := newRecord().hear(Config{})
	none.Command = []string{"/nonexistent/task"}
	if _, err := Start(t.Context(), none); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v, want it to say that there is no such file", err)
	}
}

func TestStopAndEndOfContext(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stop", "context"} {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRecord()
		f, err := Start(ctx, r.hear(Config{Tasks: 2, Replace: true}))
		if err != nil {
			t.Fatal(err)
		}
		// Start returns before all of what it did is told.
		r.await(t, "ready gateway-1")
		r.await(t, "ready gateway-2")
		heard, tasks := r.all(), f.Tasks()
		if how == "context" {
			cancel()
		}
		f.Stop()
		cancel()
		for _, task := range tasks {
			if !refused(task.URL) {
				t.Errorf("%s: %s still answers", how, task.Name)
			}
		}
		if got := r.all(); !slices.Equal(got, heard) {
			t.Errorf("%s: heard %q, want nothing after %q", how, got, heard)
		}
		f.Scale(3)
		f.Stop()
		if n := len(f.Tasks()); n != 0 {
			t.Errorf("%s: a stopped fleet has %d tasks", how, n)
		}
	}
}

func TestScaler(t *testing.T) {
	t.Parallel()
	// One character each 250 ms: load, and where a task is to be added.
	for _, tt := range []struct{ load, want string }{
		{"hhhhhhhhhhhhhhhhhh", "--------+---+---+-"},
		{"hhhhhhhh.hhhhhhhh.", "------------------"},
		{"hhhhhhhhh.hhhhhhhhh", "--------+---------+"},
		{"..................", "------------------"},
	} {
		var s scaler
		var got strings.Builder
		now := time.Date(2024, 11, 12, 9, 7, 0, 0, time.UTC)
		for _, c := range tt.load {
			if s.due(now, c == 'h') {
				got.WriteByte('+')
			} else {
				got.WriteByte('-')
			}
			now = now.Add(scaleEvery)
		}
		if got.String() != tt.want {
			t.Errorf("load %s: added %s, want %s", tt.load, got.String(), tt.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the memory of processes is not known here")
	}
	f, _ := start(t, Config{Health: health, MemoryLimit: 1 << 40})
	for f.Tasks()[0].Resident == 0 {
		time.Sleep(often)
	}
	w := httptest.NewRecorder()
	f.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	const pod = `container="gateway",namespace="demo",pod="gateway-1"`
	for _, want := range []string{
		"\ncontainer_memory_working_set_bytes{" + pod + "} ",
		"\ncontainer_spec_memory_limit_bytes{" + pod + "} 1.099511627776e+12\n",
		"\ncontainer_cpu_usage_seconds_total{" + pod + "} ",
		"\nprober_probe_total{" + pod + `,probe_type="Liveness",result="successful"} `,
		"\nprober_probe_duration_seconds_count{" + pod + `,probe_type="Liveness"} `,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in:\n%s", want, w.Body)
		}
	}
	if strings.Contains(w.Body.String(), `result="failed"`) {
		t.Errorf("a failed check in:\n%s", w.Body)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the memory of processes is not known here")
	}
	f, r := start(t, Config{MemoryLimit: 100 << 20})
	f.SetFaults("", gateway.Faults{Grow: 150 << 20})
	r.wait(t, "started gateway-1", "serving gateway-1", "ready gateway-1", "serving", "killed gateway-1 memory 137")
}
