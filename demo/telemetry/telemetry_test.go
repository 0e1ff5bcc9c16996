package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var kinds = []string{KindMetrics, KindExporter, KindSampler, KindLogger}

func newRecorder(t *testing.T, ctx context.Context, registry prometheus.Registerer, cfg Config) Recorder {
	t.Helper()
	r, err := New(ctx, registry, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A fixed layer never waits, and a faulty one as long as its hold: the clock of
// the bubble moves by nothing else.
func TestRecordTakesHold(t *testing.T) {
	t.Parallel()
	const records = 7
	for _, kind := range kinds {
		if kind == KindLogger {
			continue // it waits for a real pipe, below
		}
		for _, test := range []struct {
			faulty bool
			hold   time.Duration
			want   time.Duration
		}{
			{faulty: false, hold: time.Hour},
			{faulty: true, hold: time.Hour, want: records * time.Hour},
			{faulty: true, want: records * 3 * time.Millisecond},
		} {
			t.Run(fmt.Sprintf("%s/%v/%v", kind, test.faulty, test.hold), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					r := newRecorder(t, ctx, prometheus.NewRegistry(), Config{Kind: kind, Faulty: test.faulty, Hold: test.hold})
					start := time.Now()
					for range records {
						r.Record("/", "GET", 200, time.Millisecond)
					}
					if got := time.Since(start); got != test.want {
						t.Errorf("%d records took %v, want %v", records, got, test.want)
					}
					cancel()
					time.Sleep(2 * test.hold) // of the batch that the end exports
				})
			})
		}
	}
}

// stacks counts the goroutines whose stack has all parts.
func stacks(parts ...string) int {
	var out strings.Builder
	pprof.Lookup("goroutine").WriteTo(&out, 2)
	n := 0
next:
	for stack := range strings.SplitSeq(out.String(), "\n\n") {
		for _, part := range parts {
			if !strings.Contains(stack, part) {
				continue next
			}
		}
		n++
	}
	return n
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := make(<-chan time.Time)
	if deadline, ok := t.Deadline(); ok {
		end = time.After(time.Until(deadline) - 5*time.Second)
	}
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the test's time ended before %s", what)
		}
	}
}

// The lock is held while the slow thing is done: with one goroutine in it, all
// others wait in the lock that the fault is about. A hold without end leaves them
// there for good, which is why no other test here records into a faulty layer
// outside a bubble.
func TestFaultyHoldsLock(t *testing.T) {
	t.Parallel()
	const callers = 5
	const forever = 1000 * time.Hour
	for _, test := range []struct {
		kind    string
		records int // until the lock is held
		holder  []string
		waiter  []string
	}{
		{KindMetrics, callers,
			[]string{"[chan receive", "client_golang/prometheus.(*Registry).Register(", "telemetry.(*filterMetrics).Record("},
			[]string{"[sync.Mutex.Lock", "sync.(*RWMutex).Lock(", "client_golang/prometheus.(*Registry).Register(", "telemetry.(*filterMetrics).Record("}},
		{KindExporter, callers,
			[]string{"[sleep", "sdk/trace.(*simpleSpanProcessor).OnEnd(", "telemetry.(*tracer).Record("},
			[]string{"[sync.Mutex.Lock", "sdk/trace.(*simpleSpanProcessor).OnEnd(", "telemetry.(*tracer).Record("}},
		{KindSampler, callers,
			[]string{"[sleep", "telemetry.(*lockingSampler).sample(", "telemetry.(*lockingSampler).Record("},
			[]string{"[sync.Mutex.Lock", "telemetry.(*lockingSampler).sample(", "telemetry.(*lockingSampler).Record("}},
		{KindLogger, 0, // as many as the pipe takes first, which is the system's to say
			[]string{"[IO wait", "os.(*File).Write(", "log.(*Logger).output(", "telemetry.(*accessLog).Record("},
			[]string{"[sync.Mutex.Lock", "log.(*Logger).output(", "telemetry.(*accessLog).Record("}},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			// With -count those of the test before still stand there.
			held, waited := stacks(test.holder...), stacks(test.waiter...)
			r := newRecorder(t, context.Background(), prometheus.NewRegistry(), Config{Kind: test.kind, Faulty: true, Hold: forever})
			record := func() { r.Record("/", "GET", 200, 0) }
			if test.records == 0 {
				go func() {
					for {
						record()
					}
				}()
				waitFor(t, "the pipe was full", func() bool { return stacks(test.holder...) == held+1 })
				test.records = callers - 1
			}
			for range test.records {
				go record()
			}
			waitFor(t, "all waited", func() bool {
				return stacks(test.holder...) == held+1 && stacks(test.waiter...) == waited+callers-1
			})
		})
	}
}

// A pipe is full after a few lines, and its reader takes none for an hour: a
// fixed logger drops all others at once.
func TestFixedLoggerDrops(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	r := newRecorder(t, t.Context(), registry, Config{Kind: KindLogger, Hold: time.Hour})
	const lines = 10_000
	for range lines {
		r.Record("/", "GET", 200, 0)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("saw %d metric families, want 1: %v", len(families), err)
	}
	// Lines of a page: 256 in the queue, one with who writes, one with who reads,
	// and in the pipe 64 KiB at most, as on Linux.
	if got := families[0].GetMetric()[0].GetCounter().GetValue(); got > lines-queuedLines || got < lines-queuedLines-2-16 {
		t.Errorf("dropped %v lines of %d, want all but %d to %d", got, lines, queuedLines, queuedLines+2+16)
	}
}

func TestLinesAreOnePage(t *testing.T) {
	t.Parallel()
	var sink strings.Builder
	l := &accessLog{log.New(&sink, "", 0)}
	l.Record("/", "GET", 200, time.Second)
	l.Record("/"+strings.Repeat("x", 2*lineSize), "GET", 200, time.Second)
	for i, line := range strings.SplitAfter(sink.String(), "\n") {
		if want := map[bool]int{true: lineSize, false: 0}[i < 2]; len(line) != want {
			t.Errorf("line %d has %d bytes, want %d", i, len(line), want)
		}
	}
}

// countingRegistry is the real registry, with its Register calls counted.
type countingRegistry struct {
	*prometheus.Registry
	calls, already int
}

func (r *countingRegistry) Register(c prometheus.Collector) error {
	err := r.Registry.Register(c)
	r.calls++
	if errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		r.already++
	}
	return err
}

func TestMetricsRegister(t *testing.T) {
	t.Parallel()
	const records = 3
	for _, test := range []struct {
		name           string
		cfg            Config
		calls, already int
	}{
		{"fixed", Config{Hold: 1}, 1, 0},
		{"faulty", Config{Faulty: true, Hold: 1}, 1 + records, records},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			registry := &countingRegistry{Registry: prometheus.NewRegistry()}
			r := newRecorder(t, t.Context(), registry, test.cfg)
			for range records {
				r.Record("/", "GET", 200, 20*time.Millisecond)
			}
			if registry.calls != test.calls || registry.already != test.already {
				t.Errorf("Register was called %d times, %d of them for a known collector; want %d and %d",
					registry.calls, registry.already, test.calls, test.already)
			}
			checkValues(t, registry, records)
		})
	}
}

// checkValues expects that every filter's metrics hold all records: what a
// faulty layer records must not go into collectors that nobody scrapes.
func checkValues(t *testing.T, gatherer prometheus.Gatherer, records int) {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != filterCount {
		t.Fatalf("saw %d metric families, want %d", len(families), filterCount)
	}
	for _, family := range families {
		if seen := family.GetMetric()[0].GetCounter().GetValue(); seen != float64(records) {
			t.Errorf("%s counts %v requests, want %d", family.GetName(), seen, records)
		}
	}
}

func TestSamplersAgree(t *testing.T) {
	t.Parallel()
	for _, faulty := range []bool{false, true} {
		registry := prometheus.NewRegistry()
		r := newRecorder(t, t.Context(), registry, Config{Kind: KindSampler, Faulty: faulty, Hold: 1})
		for i := range 29 {
			r.Record("/", "GET", 200, 0)
			if i < 10 {
				r.Record("/healthz", "GET", 200, 0)
			}
		}
		families, err := registry.Gather()
		if err != nil || len(families) != 1 {
			t.Fatalf("saw %d metric families, want 1: %v", len(families), err)
		}
		got := map[string]float64{}
		for _, m := range families[0].GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
		if want := map[string]float64{"/": 2, "/healthz": 1}; !maps.Equal(got, want) {
			t.Errorf("faulty %v: sampled %v, want %v", faulty, got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Kind: "metric"},
		{Hold: -1},
	} {
		if _, err := New(t.Context(), prometheus.NewRegistry(), cfg); err == nil {
			t.Errorf("no error for %+v", cfg)
		}
	}
	for _, kind := range []string{KindMetrics, KindSampler, KindLogger} {
		registry := prometheus.NewRegistry()
		for _, name := range []string{"gateway_filter_000_requests_total", "gateway_traces_sampled_total", "gateway_log_lines_dropped_total"} {
			registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "Something else."}))
		}
		if _, err := New(t.Context(), registry, Config{Kind: kind}); err == nil {
			t.Errorf("%s: no error for a registry that has another metric of the same name", kind)
		}
	}
}
