package contendtest_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contend/contend/detect/contendtest"
)

// short keeps the tests short: some hundred calls of the slowest.
const short = 200 * time.Millisecond

// hold is the time that a lock is held asleep, so that no core is needed for it.
const hold = 500 * time.Microsecond

// recorded stands in for the test that a check is to fail.
type recorded struct {
	testing.TB
	failed []string
	logged []string
}

func (r *recorded) Helper()           {}
func (r *recorded) Error(args ...any) { r.failed = append(r.failed, fmt.Sprint(args...)) }
func (r *recorded) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}
func (r *recorded) Log(args ...any) { r.logged = append(r.logged, fmt.Sprint(args...)) }
func (r *recorded) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}
func (r *recorded) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// run is once, and again for longer where a machine that is busy made too few calls.
func run(t testing.TB, parallelism int, o contendtest.Options, fn func()) (*recorded, contendtest.Result) {
	t.Helper()
	for {
		r, result := once(t, parallelism, o, fn)
		if o.For >= 16*short || len(r.failed) != 1 || !strings.Contains(r.failed[0], "; raise Options.For from ") {
			return r, result
		}
		o.For *= 4
	}
}

// once runs a check for a stand-in, which may end the goroutine.
func once(t testing.TB, parallelism int, o contendtest.Options, fn func()) (*recorded, contendtest.Result) {
	t.Helper()
	r := &recorded{TB: t}
	var result contendtest.Result
	done := make(chan struct{})
	go func() {
		defer close(done)
		result = contendtest.RunWith(r, parallelism, o, fn)
	}()
	<-done
	t.Logf("failed %q\nlogged %q", r.failed, r.logged)
	return r, result
}

// passes holds fn to a check it must pass.
func passes(t *testing.T, parallelism int, o contendtest.Options, fn func()) (*recorded, contendtest.Result) {
	t.Helper()
	r, result := run(t, parallelism, o, fn)
	if len(r.failed) > 0 || len(r.logged) != 1 {
		t.Errorf("failed %q, logged %q, want a pass and a line", r.failed, r.logged)
	}
	return r, result
}

// number is any that a report may have, of no known size.
const number = `[0-9][0-9.,]*`

// matches holds text to a pattern in which <n> stands for a number and <d> for a time.
func matches(t *testing.T, text, pattern string) {
	t.Helper()
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.ReplaceAll(quoted, "<n>", number)
	quoted = strings.ReplaceAll(quoted, "<d>", number+`(?:ns|µs|ms|s)`)
	if !regexp.MustCompile(`\A` + quoted + `\z`).MatchString(text) {
		t.Errorf("got\n%s\nwant\n%s", text, pattern)
	}
}

// faulty registers its metric again on every recording, as the library of the incident did.
type faulty struct{ registry *prometheus.Registry }

func (f *faulty) record() {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."})
	err := f.registry.Register(c)
	var before prometheus.AlreadyRegisteredError
	if errors.As(err, &before) {
		c = before.ExistingCollector.(prometheus.Counter)
	}
	c.Inc()
}

// mended registers it once.
type mended struct{ counter prometheus.Counter }

func newMended(r *prometheus.Registry) *mended {
	m := &mended{prometheus.NewCounter(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."})}
	r.MustRegister(m.counter)
	return m
}

func (m *mended) record() { m.counter.Inc() }

func TestRegisteredOnEveryRecording(t *testing.T) {
	f := &faulty{prometheus.NewRegistry()}
	r, result := run(t, 8, contendtest.Options{For: short}, f.record)
	if len(r.failed) != 1 {
		t.Fatalf("failed with %q, want one failure", r.failed)
	}
	matches(t, r.failed[0], `expected locks with a utilisation of at most 0.5, saw <n> at <n> calls/s, which 8 callers would make if none waited: the lock in github.com/prometheus/client_golang/prometheus.(*Registry).Register, of github.com/prometheus/client_golang@v<n>
	a read-write lock: this is its writers' side, readers do not exclude each other
	held for <d> of a call of <d>, it saturates at <n> calls/s of one process
	<n> of 8 callers waited for it, <n> times, called from github.com/contend/contend/detect/contendtest_test.(*faulty).record
	<n> calls/s by one caller, <n> by 8: <n> times
	hold it for less of a call, have several, or take it off the path; where <n> calls/s are plenty, say in Options.Rate how many there will be`)
	if l := result.Locks[0]; l.Package != "github.com/prometheus/client_golang/prometheus" || l.Standard || l.Utilisation < 1 {
		t.Errorf("saw %+v", l)
	}
}

func TestRegisteredOnce(t *testing.T) {
	contendtest.RunWith(t, 8, contendtest.Options{For: short}, newMended(prometheus.NewRegistry()).record)
}

// held is a lock that is held for a time.
type held struct {
	mu sync.Mutex
}

//go:noinline
func (h *held) use(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	time.Sleep(d)
}

// A second lock, of another type.
type other struct {
	mu sync.Mutex
}

//go:noinline
func (o *other) use(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	time.Sleep(d)
}

const here = "github.com/contend/contend/detect/contendtest_test."

func TestFullLock(t *testing.T) {
	var h held
	r, result := run(t, 8, contendtest.Options{For: short}, func() { h.use(hold) })
	if len(r.failed) != 1 || len(result.Locks) != 1 {
		t.Fatalf("failed %q, locks %+v, want one of each", r.failed, result.Locks)
	}
	l := result.Locks[0]
	if l.Function != here+"(*held).use" || l.Library != "" || l.Standard || l.ReadWrite || len(l.Callers) != 1 || l.Callers[0] != here+"TestFullLock" {
		t.Errorf("saw %+v", l)
	}
	// Of a call that is all lock, 8 callers ask for it 8 times over, and seven of them wait. The first is a ratio of what the
	// same timer gave at two moments, so it is held to little.
	if l.Utilisation < 2 || l.Waiting < 5 || l.Waiting > 7.5 {
		t.Errorf("saw %+v of %+v, want a utilisation of about 8 with 7 waiting", l, result)
	}
	if x := l.Saturates / result.Together; x < 0.95 || x > 1.3 {
		t.Errorf("saturates at %v calls/s, want the %v that full callers made", l.Saturates, result.Together)
	}
}

// The same lock bears a stated load.
func TestRate(t *testing.T) {
	var h held
	fn := func() { h.use(hold) }
	if r, _ := run(t, 8, contendtest.Options{For: short, Rate: 1e5}, fn); len(r.failed) != 1 || strings.Contains(r.failed[0], "Options.Rate") {
		t.Errorf("failed %q, want one failure without the advice to state a rate", r.failed)
	} else {
		matches(t, strings.SplitN(r.failed[0], "\n", 2)[0], `expected locks with a utilisation of at most 0.5, saw <n> at 100,000 calls/s: the lock in `+here+`(*held).use, of package `+strings.TrimSuffix(here, "."))
	}
	if _, result := passes(t, 8, contendtest.Options{For: short, Rate: 5}, fn); result.Rate != 5 || result.Locks[0].Utilisation > 0.2 {
		t.Errorf("saw %+v", result)
	}
}

// A call of which a fifth is in the lock, with what it takes to wake up: neither unseen nor the whole call.
func TestPartlyLocked(t *testing.T) {
	var h held
	fn := func() {
		h.use(hold)
		time.Sleep(7 * hold)
	}
	_, result := run(t, 4, contendtest.Options{For: 2 * short}, fn)
	if len(result.Locks) != 1 || result.Locks[0].Utilisation < 0.1 || result.Locks[0].Utilisation > 3 {
		t.Errorf("saw %+v, want a utilisation of about 0.8", result.Locks)
	}
}

func TestNoLock(t *testing.T) {
	var n atomic.Int64
	r, result := passes(t, 8, contendtest.Options{For: short}, func() { n.Add(1) })
	for _, l := range result.Locks {
		t.Errorf("saw %+v, want no lock", l)
	}
	if len(r.logged) == 1 {
		matches(t, r.logged[0], "nobody waited for a lock\n\t<n> calls/s by one caller, <n> by 8: <n> times")
	}
}

func TestSharded(t *testing.T) {
	shards := make([]held, 128)
	_, result := passes(t, 4, contendtest.Options{For: short}, func() { shards[rand.IntN(len(shards))].use(hold) })
	if len(result.Locks) > 0 && result.Locks[0].Waiting > 0.5 {
		t.Errorf("saw %+v, want hardly anybody to wait for one of 128", result.Locks[0])
	}
	few := shards[:2] // as many locks as a quarter of the callers are no shards
	r, result := run(t, 8, contendtest.Options{For: 2 * short}, func() { few[rand.IntN(len(few))].use(hold) })
	if len(r.failed) == 0 || len(result.Locks) != 2 || result.Locks[0].Waiting > 6.9 {
		t.Errorf("failed %q, locks %+v, want a failure for one or both of two", r.failed, result.Locks)
	}
}

// table is read by many and written now and then.
type table struct {
	mu      sync.RWMutex
	written atomic.Int64 // milliseconds since it began
	began   time.Time
}

//go:noinline
func (m *table) read() {
	m.mu.RLock()
	defer m.mu.RUnlock()
	time.Sleep(hold)
}

//go:noinline
func (m *table) write(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	time.Sleep(d)
}

func TestReaders(t *testing.T) {
	m := &table{began: time.Now()}
	if _, result := passes(t, 8, contendtest.Options{For: short}, m.read); len(result.Locks) != 0 {
		t.Errorf("saw %+v of readers alone, want no lock", result.Locks)
	}
	fn := func() {
		m.read()
		if now := time.Since(m.began).Milliseconds(); now-m.written.Load() >= 40 {
			m.written.Store(now)
			m.write(0)
		}
	}
	r, result := passes(t, 8, contendtest.Options{For: 2 * short}, fn)
	if len(result.Locks) != 1 || !result.Locks[0].ReadWrite || len(r.logged) != 1 ||
		!strings.Contains(r.logged[0], "\n\ta read-write lock: this is its writers' side, readers do not exclude each other\n") {
		t.Errorf("saw %+v, said %q, want one lock, by its writers", result.Locks, r.logged)
	}
	r, result = run(t, 8, contendtest.Options{For: short}, func() { m.write(hold) })
	if len(r.failed) != 1 || len(result.Locks) != 1 || !result.Locks[0].ReadWrite || result.Locks[0].Function != here+"(*table).write" {
		t.Errorf("failed %q by writers alone, want one failure", r.failed)
	}
}

func TestTwoLocks(t *testing.T) {
	var h held
	var o other
	for worse, fn := range map[string]func(){
		"(*held).use":  func() { h.use(6 * hold); o.use(hold / 2) },
		"(*other).use": func() { h.use(hold / 2); o.use(6 * hold) },
	} {
		r, result := run(t, 8, contendtest.Options{For: 2 * short}, fn)
		if len(r.failed) == 0 || !strings.Contains(r.failed[0], "the lock in "+here+worse+", of package ") {
			t.Errorf("failed %q, want %s first", r.failed, worse)
		}
		if len(result.Locks) == 2 && result.Locks[1].Utilisation > result.Locks[0].Utilisation {
			t.Errorf("saw %+v, want the larger utilisation first", result.Locks)
		}
	}
}

// slow is a sink that takes its time.
type slow struct{}

func (slow) Write(p []byte) (int, error) {
	time.Sleep(hold)
	return len(p), nil
}

var _ io.Writer = slow{}

func TestStandardLibrary(t *testing.T) {
	l := log.New(slow{}, "", 0)
	r, result := run(t, 8, contendtest.Options{For: short}, func() { l.Print("recorded") })
	if len(r.failed) != 1 || len(result.Locks) != 1 {
		t.Fatalf("failed %q, locks %+v, want one of each", r.failed, result.Locks)
	}
	if l := result.Locks[0]; l.Function != "log.(*Logger).output" || !l.Standard {
		t.Errorf("saw %+v", l)
	}
	if !strings.Contains(r.failed[0], "the lock in log.(*Logger).output, of the standard library\n") || !strings.Contains(r.failed[0], ", called from log.(*Logger).Print, from "+here+"TestStandardLibrary\n") {
		t.Errorf("failed %q", r.failed)
	}
}

func TestBrokenFunctions(t *testing.T) {
	var h held
	for _, tt := range []struct {
		name string
		fn   func()
		want string // the first line
	}{
		{"panics", func() { panic("no such metric") }, "expected a function that returns, saw it panic: no such metric\n"},
		{"panics with the lock", func() { h.mu.Lock(); panic("inside") }, "expected a function that returns, saw it panic: inside\n"},
		{"ends its goroutine", runtime.Goexit, "expected a function that returns, saw it end its goroutine; in it, call t.Error rather than t.Fatal or t.FailNow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r, _ := run(t, 2, contendtest.Options{For: 20 * time.Millisecond}, tt.fn); len(r.failed) != 1 || !strings.HasPrefix(r.failed[0], tt.want) {
				t.Errorf("failed %q, want one failure, %q", r.failed, tt.want)
			}
		})
	}
}

func TestStuck(t *testing.T) {
	var h held
	var calls atomic.Int64
	defer h.mu.Unlock()
	r, _ := run(t, 3, contendtest.Options{For: 40 * time.Millisecond}, func() {
		if calls.Add(1) == 1000 {
			h.mu.Lock() // forever
		}
		h.use(0)
	})
	if len(r.failed) != 1 || !regexp.MustCompile(`^expected the function to return within 1s, saw [123] of [13] callers wait for the lock in `+regexp.QuoteMeta(here)+`(\(\*held\)\.use|TestStuck)$`).MatchString(r.failed[0]) {
		t.Errorf("failed %q", r.failed)
	}
}

func TestTooFewCalls(t *testing.T) {
	r, _ := once(t, 8, contendtest.Options{For: 40 * time.Millisecond}, func() { time.Sleep(10 * time.Millisecond) })
	if len(r.failed) != 1 {
		t.Fatalf("failed %q, want one failure", r.failed)
	}
	matches(t, r.failed[0], `expected <n> calls together and 10 alone or more, to see a lock at the limit, saw <n> and <n>; raise Options.For from 40ms to <d>; so far, nobody waited for a lock
	<n> calls/s by one caller, <n> by 8: <n> times`)
}

func TestMisuse(t *testing.T) {
	for want, o := range map[string]contendtest.Options{
		"limit -1, rate 0, for 1s": {Limit: -1},
		"limit 0.5, rate -1":       {Rate: -1},
		"for -1s":                  {For: -time.Second},
	} {
		if r, _ := run(t, 8, o, func() {}); len(r.failed) != 1 || !strings.HasPrefix(r.failed[0], "expected a limit, a rate and a time above zero, saw ") || !strings.Contains(r.failed[0], want) {
			t.Errorf("%+v: failed %q", o, r.failed)
		}
	}
	if r, _ := run(t, 1, contendtest.Options{}, func() {}); len(r.failed) != 1 || r.failed[0] != "expected 2 callers or more, saw 1: one alone never waits for a lock" {
		t.Errorf("failed %q", r.failed)
	}
}

func TestParallelTest(t *testing.T) {
	t.Parallel()
	t.Run("below", func(t *testing.T) {
		r, _ := run(t, 8, contendtest.Options{}, func() {})
		if len(r.failed) != 1 || r.failed[0] != "expected a test that is not parallel, nor any above it, saw one that is: profiles are of the whole process; take out t.Parallel" {
			t.Errorf("failed %q", r.failed)
		}
	})
}

func TestBenchmark(t *testing.T) {
	m := newMended(prometheus.NewRegistry())
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			contendtest.RunWith(b, 4, contendtest.Options{For: short}, m.record)
		}
	})
	for _, name := range []string{"calls/s", "scaling", "utilisation"} {
		if _, ok := result.Extra[name]; !ok {
			t.Errorf("reported %v, want %s", result.Extra, name)
		}
	}
	if result.Extra["calls/s"] <= 0 || result.Extra["utilisation"] > 0.5 {
		t.Errorf("reported %v", result.Extra)
	}
}

// The runtime does not say its block profile's rate, so that it is off again shows in that
// a wait leaves nothing.
func TestProfileIsOffAgain(t *testing.T) {
	contendtest.RunWith(t, 2, contendtest.Options{For: 20 * time.Millisecond}, func() {})
	count := func() (n int64) {
		records := make([]runtime.BlockProfileRecord, 10000)
		k, ok := runtime.BlockProfile(records)
		if !ok {
			t.Fatalf("%d records", k)
		}
		for _, r := range records[:k] {
			n += r.Count
		}
		return n
	}
	before := count()
	for range 10 {
		c := make(chan int)
		go func() { time.Sleep(time.Millisecond); c <- 1 }()
		<-c
	}
	if after := count(); after != before {
		t.Errorf("the block profile has %d more waits", after-before)
	}
}
