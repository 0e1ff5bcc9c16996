package lockheadroom_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/lockheadroom"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

var detectors = []*detect.Detector{lockheadroom.Detector}

func TestStories(t *testing.T) {
	cases.Stories(t, detectors, "testdata/stories.txt")
}

// A store whose put locks in line 20 and is inside until its end.
const (
	handler = "main.put < net/http.HandlerFunc.ServeHTTP < net/http.serverHandler.ServeHTTP < net/http.(*conn).serve"
	waiting = "sync.(*Mutex).Lock < main.(*store).put@20 < " + handler
	writing = "sync.(*RWMutex).Lock < main.(*store).put@20 < " + handler
	reading = "sync.(*RWMutex).RLock < main.(*store).get@30 < " + handler
	let     = "sync.(*Mutex).Unlock < main.(*store).put@25 < " + handler
	letNew  = "internal/sync.(*Mutex).Unlock < sync.(*Mutex).Unlock < main.(*store).put@25 < " + handler
)

var process = stacks.Process{Binary: "/bin/shop", BuildID: "1", Mapping: "0x400000-0x900000@0x0"}

// waited is contentions and delay of a stack.
type waited struct {
	stack string
	n     int64
	delay time.Duration
}

// contention is a block or mutex profile at a time; over window, or since the process began.
func contention(t *testing.T, name string, at time.Duration, window time.Duration, all ...waited) *waits.Profile {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}}}
	for _, w := range all {
		s := &profile.Sample{Value: []int64{w.n, int64(w.delay)}}
		for f := range strings.SplitSeq(w.stack, " < ") {
			name, line := f, int64(10)
			if i := strings.IndexByte(f, '@'); i >= 0 {
				name = f[:i]
				fmt.Sscan(f[i+1:], &line)
			}
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name, Filename: "/src/main/x.go"}, Line: line}}})
		}
		p.Sample = append(p.Sample, s)
	}
	out, err := waits.FromProfile(name, p)
	if err != nil {
		t.Fatal(err)
	}
	out.Process, out.Taken, out.Window = process, cases.Start.Add(at), window
	return out
}

// snapshots are n, a second apart from Start on; of each dump says what stands in it.
func snapshots(t *testing.T, n int, dump func(i int) string) []*stacks.Snapshot {
	t.Helper()
	var out []*stacks.Snapshot
	for i := range n {
		s := cases.Snapshot(t, fmt.Sprintf("snapshot-%02d", i), "1 select: main.tick | main.main\n"+dump(i))
		s.Process, s.Taken = process, cases.Start.Add(time.Duration(i)*time.Second)
		out = append(out, s)
	}
	return out
}

const (
	holder  = "1 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Write < net.(*conn).Write < main.(*store).put@23 < main.put < HANDLER\n"
	waiter  = "1 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*store).put@20 < main.put < HANDLER\n"
	writer  = "1 sync.RWMutex.Lock: sync.runtime_SemacquireRWMutex(0x0?) < sync.(*RWMutex).Lock(0x0?) < main.(*store).put@20 < main.put < HANDLER\n"
	reader  = "1 sync.RWMutex.RLock: sync.runtime_SemacquireRWMutexR(0x0?) < sync.(*RWMutex).RLock < main.(*store).get@30 < main.put < HANDLER\n"
	outside = "1 running: main.sum < HANDLER\n"
)

// busy is a lock that is in use in six snapshots of ten, with a waiter in two.
func busy(i int) string {
	switch i % 10 {
	case 0, 5:
		return holder + waiter
	case 2, 3, 7, 8:
		return holder
	}
	return outside
}

func analyse(b *ingest.Bundle, expect float64) *detect.Report {
	return detect.Run(b, nil, detectors, detect.Options{Expect: expect})
}

// reasons are why nothing was found, in one text.
func reasons(r *detect.Report) string {
	var out []string
	for _, x := range r.RuledOut {
		out = append(out, "ruled out: "+x.Reason)
	}
	for _, x := range r.Skipped {
		out = append(out, "skipped: "+x.Reason)
	}
	return strings.Join(out, "\n")
}

func TestDirect(t *testing.T) {
	t.Parallel()
	b := &ingest.Bundle{
		Snapshots: snapshots(t, 40, busy),
		Waits:     []*waits.Profile{contention(t, "block", 20*time.Second, 20*time.Second, waited{waiting, 300, 900 * time.Millisecond})},
	}
	r := analyse(b, 0)
	if len(r.Findings) != 1 {
		t.Fatalf("%d findings, want one\n%s", len(r.Findings), reasons(r))
	}
	f := r.Findings[0]
	if f.Function != "main.(*store).put" || f.Severity != detect.Warning || f.Confidence != detect.High || f.Reading != "direct" || f.Contentions != 300 || math.Abs(f.Queue-0.045) > 1e-9 {
		t.Errorf("found %s, %s, %s, by %s, %d contentions, queue %v: %s", f.Function, f.Severity, f.Confidence, f.Reading, f.Contentions, f.Queue, f.Summary)
	}
	// In use for 24 of 40 snapshots, which stand for as many: it saturates at 1.67 times the load.
	if u, at := f.Utilisation, f.SaturatesAt; u.Low > 0.6 || u.High < 0.6 || at.Low > 1.67 || at.High < 1.67 || at.High > 2*at.Low {
		t.Errorf("utilisation %v, saturates at %v, want 0.6 and 1.67 in between", u, at)
	}
	if r.Verdict.Cause != "" {
		t.Errorf("verdict %q: a forecast is no cause", r.Verdict.Cause)
	}
	if f.Holder == nil || f.Holder.Function != "main.(*store).put" || !strings.Contains(f.Next[0], "hold it shorter") {
		t.Errorf("holder %+v, next %q", f.Holder, f.Next)
	}
	if r := analyse(b, 1.2); len(r.Findings) > 0 || !strings.Contains(reasons(r), "saturates at about") {
		t.Errorf("with a surge of 1.2: %d findings\n%s", len(r.Findings), reasons(r))
	}
}

// Near-misses: a number is refused, with the reason, and never looks like an all-clear.
func TestNoNumber(t *testing.T) {
	t.Parallel()
	const s = time.Second
	window := func(stack string, n int64, delay time.Duration) []*waits.Profile {
		return []*waits.Profile{contention(t, "block", 20*s, 20*s, waited{stack, n, delay})}
	}
	cumulative := func(at time.Duration, n int64) *waits.Profile {
		return contention(t, fmt.Sprintf("block-%v", at), at, 0, waited{waiting, n, time.Duration(n) * 3 * time.Millisecond})
	}
	of := func(p stacks.Process, w *waits.Profile) *waits.Profile {
		w.Process = p
		return w
	}
	later := process
	later.Mapping = "0x500000-0xa00000@0x0"
	for name, tt := range map[string]struct {
		b    *ingest.Bundle
		want []string
	}{
		"a healthy process with few contentions": {&ingest.Bundle{Waits: window(waiting, 40, 40*time.Millisecond)},
			[]string{"ruled out: main.(*store).put: no number, which is no all-clear: by waits, expected 100 contentions or more, saw 40"}},
		"a healthy process with few contentions, somebody past the line that locks": {&ingest.Bundle{Snapshots: snapshots(t, 40, busy), Waits: window(waiting, 99, 300*time.Millisecond)},
			[]string{"by snapshots, 99 contentions, expected 100 or more, are too few to trust that who is past the line that locks holds it"}},
		"nobody waits": {&ingest.Bundle{Waits: window("runtime.chanrecv1 < main.loop", 40, s)},
			[]string{"ruled out: no number, which is no all-clear: nobody was seen to wait for a lock in 20.0 s of block profile"}},
		"how requests arrive is not known": {&ingest.Bundle{Waits: window(waiting, 900, 3*s)},
			[]string{"expected arrivals known to be random", "by snapshots, expected 30 snapshots or more, saw none"}},
		"code past the lock that is not inside it": {&ingest.Bundle{Waits: window(waiting, 300, 900*time.Millisecond), Snapshots: snapshots(t, 40, func(i int) string {
			if i%2 == 0 {
				return strings.Replace(holder, "1 ", "3 ", 1) + strings.Repeat(waiter, i%4/2)
			}
			return holder
		})}, []string{"20 of the snapshots show several past the line that locks"}},
		"waiters, and nobody seen inside": {&ingest.Bundle{Waits: window(waiting, 300, 900*time.Millisecond), Snapshots: snapshots(t, 40, func(i int) string {
			if i%2 == 0 {
				return waiter
			}
			return outside
		})}, []string{"who holds it is seen in 0 of the 20 snapshots with waiters"}},
		"hardly anybody waits": {&ingest.Bundle{Snapshots: snapshots(t, 40, func(i int) string {
			if i == 0 {
				return holder + waiter
			}
			return holder
		})}, []string{"no all-clear: by snapshots, hardly anybody waited"}},
		"saturated in the profile": {&ingest.Bundle{Waits: window(waiting, 5000, 200*s)}, []string{"ruled out: main.(*store).put: saturated, stuck, or asked for in bursts: on average 10 wait for it"}},
		"saturated in the snapshots": {&ingest.Bundle{Snapshots: snapshots(t, 40, func(int) string {
			return holder + strings.Replace(waiter, "1 ", "40 ", 1)
		})}, []string{"saturated or stuck: 40 wait for it, and somebody is inside in all of 40 snapshots"}},
		"a snapshot": {&ingest.Bundle{Snapshots: snapshots(t, 1, busy)}, []string{"skipped: a snapshot is a moment"}},
		"since the process began": {&ingest.Bundle{Waits: []*waits.Profile{cumulative(0, 900)}}, []string{
			"skipped: a snapshot is a moment, and a profile since the process began has no window"}},
		"two processes": {&ingest.Bundle{Waits: []*waits.Profile{cumulative(0, 900), of(later, cumulative(10*s, 1900))}}, []string{
			"skipped: a snapshot is a moment, and a profile since the process began has no window"}},
		"the wrong order": {&ingest.Bundle{Waits: []*waits.Profile{cumulative(0, 1900), cumulative(10*s, 900)}}, []string{
			"skipped: ", "for different processes: main.(*store).put waited 5.7s in the earlier and 2.7s in the later"}},
		"no time between":                        {&ingest.Bundle{Waits: []*waits.Profile{cumulative(0, 900), cumulative(0, 1900)}}, []string{"skipped: ", "both were taken at the same moment"}},
		"too short a time":                       {&ingest.Bundle{Waits: []*waits.Profile{contention(t, "block", s, s/10, waited{waiting, 900, s / 100})}}, []string{"expected a window of 1s or longer, saw 100ms"}},
		"a mutex profile that may be of Go 1.21": {&ingest.Bundle{Waits: window(let, 900, 3*s)}, []string{"900 contentions, but a mutex profile of Go 1.21 and older"}},
		"a mutex profile beside an empty block profile": {&ingest.Bundle{Waits: []*waits.Profile{
			contention(t, "block", 20*s, 20*s), contention(t, "mutex", 20*s, 20*s, waited{letNew, 900, 3 * s})}}, []string{"main.(*store).put: no number, which is no all-clear: by waits, expected arrivals known to be random"}},
		"empty profiles":                {&ingest.Bundle{Waits: []*waits.Profile{contention(t, "block", 20*s, 20*s), contention(t, "mutex", 20*s, 20*s)}}, []string{"skipped: block and mutex is empty: profiling is off, or no wait has ended so far"}},
		"a mutex profile of a later Go": {&ingest.Bundle{Waits: window(letNew, 900, 3*s)}, []string{"expected arrivals known to be random"}},
		"a read-write lock at which readers wait": {&ingest.Bundle{Waits: window(reading, 900, 3*s)}, []string{
			"ruled out: main.(*store).get: no number, which is no all-clear: only readers were seen to wait for this read-write lock, and not how long writers have it"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := analyse(tt.b, 0)
			for _, f := range r.Findings {
				t.Errorf("unexpected finding: %s", f.Summary)
			}
			for _, want := range tt.want {
				if !strings.Contains(reasons(r), want) {
					t.Errorf("expected %q in\n%s", want, reasons(r))
				}
			}
		})
	}
}

// However many wait at times, a lock that snapshots show free at others is not saturated.
func TestBursts(t *testing.T) {
	t.Parallel()
	const n = 61 // in the last one a burst waits
	crowd := strings.Replace(waiter, "1 ", "20 ", 1)
	burst := func(i int) string { return strings.ReplaceAll(busy(i), waiter, crowd) }
	window := func(d time.Duration) []*waits.Profile { // four wait on average
		return []*waits.Profile{contention(t, "block", d, d, waited{waiting, 300, 4 * d})}
	}
	for name, b := range map[string]*ingest.Bundle{
		"snapshots":             {Snapshots: snapshots(t, n, burst)},
		"snapshots and profile": {Snapshots: snapshots(t, n, burst), Waits: window(n * time.Second)},
	} {
		r := analyse(b, 0)
		if len(r.Findings) != 1 {
			t.Errorf("%s: %d findings, want one\n%s", name, len(r.Findings), reasons(r))
			continue
		}
		f := r.Findings[0]
		if f.Reading != "direct" || f.SaturatesAt.Low > 1.67 || f.SaturatesAt.High < 1.67 || f.Confidence != detect.Medium ||
			!strings.Contains(strings.Join(f.Assumes, "; "), "bursts stay as they are: in each 20 wait or so, and it is full already") {
			t.Errorf("%s: by %s, %s: %s; assumes %q; want 1.67 times", name, f.Reading, f.Confidence, f.Summary, f.Assumes)
		}
	}
	// Near-misses: somebody is always inside; nothing shows that nobody is; the crowd has come to stay; the
	// snapshots are of another time.
	stuck := func(i int) string {
		if i > 40 {
			return holder + crowd
		}
		return busy(i)
	}
	quiet := snapshots(t, n, func(int) string { return outside })
	for want, b := range map[string]*ingest.Bundle{
		"saturated or stuck: 20 wait for it, and somebody is inside in all of 61 snapshots": {Snapshots: snapshots(t, n, func(i int) string {
			return strings.ReplaceAll(burst(i), outside, holder)
		})},
		"saturated, stuck, or asked for in bursts: on average 4 wait for it; 30 snapshots of that time or more tell which": {Waits: window(20 * time.Second)},
		"saturated or stuck since a while: 20 wait for it, and in no snapshot before did a crowd wait for so long":         {Snapshots: snapshots(t, n, stuck)},
		"saturated, stuck, or asked for in bursts: on average 400 wait for it": {
			Snapshots: quiet,
			Waits:     []*waits.Profile{contention(t, "block", time.Hour, 20*time.Second, waited{waiting, 3000, 8000 * time.Second})},
		},
	} {
		if r := analyse(b, 0); len(r.Findings) > 0 || !strings.Contains(reasons(r), want) {
			t.Errorf("%d findings, want none and %s in\n%s", len(r.Findings), want, reasons(r))
		}
	}
}

// A lock that gets stuck was free at times before that, with bursts or without.
func TestStuckInTheEnd(t *testing.T) {
	t.Parallel()
	const n = 121 // the last one has a burst
	for _, c := range []struct {
		burst int // how many wait at a time while all is well
		stuck int // for how many snapshots in the end more and more wait
		want  string
	}{
		{1, 0, ""},
		{1, 1, "10 wait for it"}, // never seen to end
		{1, 20, "29 wait for it"},
		{20, 1, ""}, // as bursts before it
		{20, 2, "11 wait for it"},
		{20, 20, "29 wait for it"},
		{9, 20, "29 wait for it"},
	} {
		r := analyse(&ingest.Bundle{Snapshots: snapshots(t, n, func(i int) string {
			if over := i - (n - c.stuck); over >= 0 {
				return holder + strings.Replace(waiter, "1 ", fmt.Sprintf("%d ", 10+over), 1)
			}
			return strings.ReplaceAll(busy(i), waiter, strings.Replace(waiter, "1 ", fmt.Sprintf("%d ", c.burst), 1))
		})}, 0)
		if c.want == "" && len(r.Findings) != 1 || c.want != "" && (len(r.Findings) > 0 || !strings.Contains(reasons(r), "saturated or stuck since a while: "+c.want)) {
			t.Errorf("%+v: %d findings\n%s", c, len(r.Findings), reasons(r))
		}
	}
}

// Of a read-write lock the writers count, and the finding says so. Where readers
// wait too, how much of the time writers have it is all that is known.
func TestWriters(t *testing.T) {
	t.Parallel()
	writers := func(i int) string { return strings.ReplaceAll(busy(i), waiter, writer) }
	profile := func(readers int) []*waits.Profile {
		return []*waits.Profile{contention(t, "block", 20*time.Second, 20*time.Second,
			waited{writing, 300, 900 * time.Millisecond}, waited{reading, int64(readers), 20 * time.Second})}
	}
	// Readers wait in so many of 61 snapshots in which a writer holds the lock and none waits.
	reading := func(readers int) []*stacks.Snapshot {
		return snapshots(t, 61, func(i int) string {
			text := writers(i)
			if text == holder && readers > 0 {
				readers--
				return text + strings.Replace(reader, "1 ", "20 ", 1)
			}
			return text
		})
	}
	for name, b := range map[string]*ingest.Bundle{
		"a block profile": {Snapshots: snapshots(t, 40, writers), Waits: profile(30)},
		"snapshots":       {Snapshots: reading(3)},
	} {
		r := analyse(b, 0)
		if len(r.Findings) != 1 {
			t.Errorf("%s: %d findings, want one\n%s", name, len(r.Findings), reasons(r))
			continue
		}
		f := r.Findings[0]
		if b.Waits != nil && f.Contentions != 300 || !strings.Contains(f.Summary, "the writers' side of a read-write lock") || f.Confidence != detect.Medium ||
			f.SaturatesAt.Low > 1.67 || f.SaturatesAt.High < 1.67 {
			t.Errorf("%s: %s, %s, %d contentions, want the writers' 300 and 1.67 times", name, f.Summary, f.Confidence, f.Contentions)
		}
		if !slices.ContainsFunc(f.Assumes, func(s string) bool { return strings.Contains(s, "only writers were counted") }) {
			t.Errorf("%s: assumes %q", name, f.Assumes)
		}
	}
	const beside = "no number, which is no all-clear: writers hold this read-write lock or wait for it "
	for want, b := range map[string]*ingest.Bundle{
		beside + "44-74 % of the time, but 31 readers waited for it beside 300 writers, and what time readers take from writers grows with the load": {
			Snapshots: snapshots(t, 40, writers), Waits: profile(31)},
		"this is a read-write lock, but 31 readers waited for it beside 300 writers": {Waits: profile(31)},
		"but readers wait in 4 snapshots beside 37 with a writer":                    {Snapshots: reading(4)},
		"a mutex profile charges who lets go": {Snapshots: snapshots(t, 40, writers), Waits: []*waits.Profile{contention(t, "mutex", 20*time.Second, 20*time.Second,
			waited{"sync.(*RWMutex).Unlock < main.(*store).put@25 < " + handler, 300, 20 * time.Second})}},
	} {
		if r := analyse(b, 0); len(r.Findings) > 0 || !strings.Contains(reasons(r), want) {
			t.Errorf("%d findings, want none and %s in\n%s", len(r.Findings), want, reasons(r))
		}
	}
}

// Profiles at two loads are levels, by the load that the series of the task say.
func TestLevels(t *testing.T) {
	t.Parallel()
	// M/D/1 with holds of 10 ms: 35 and 65 requests a second, waits for 200 s each.
	queue := func(rho float64) time.Duration {
		return time.Duration(rho * rho / 2 / (1 - rho) * 200 * float64(time.Second))
	}
	day := queue(0.65)
	night := waited{waiting, 2450, queue(0.35)}
	both := waited{waiting, 2450 + 8450, night.delay + day}
	bundle := func(loads string) *ingest.Bundle {
		b := &ingest.Bundle{
			Waits: []*waits.Profile{
				contention(t, "block-a", 60*time.Second, 0, waited{waiting, 1, 1}),
				contention(t, "block-b", 260*time.Second, 0, night),
				contention(t, "block-c", 460*time.Second, 0, both),
			},
			Series:    cases.Series(t, `contend:completions{job="shop",instance="a"} `+loads),
			Instances: map[string]ingest.Instance{},
		}
		for _, w := range b.Waits {
			b.Instances[w.Name] = ingest.Instance{Job: "shop", Name: "a"}
		}
		return b
	}
	r := analyse(bundle("35x18 65x20"), 0)
	if len(r.Findings) != 1 {
		t.Fatalf("%d findings, want one\n%s", len(r.Findings), reasons(r))
	}
	f := r.Findings[0]
	if f.Reading != "levels" || f.SaturatesAt.Low > 1/0.65 || f.SaturatesAt.High < 1/0.65 || f.Contentions != 8450 {
		t.Errorf("%s by %s, %d contentions; want 1.54 times by levels, 8450", f.Summary, f.Reading, f.Contentions)
	}
	// A request holds it for 10 ms.
	if math.Abs(f.HoldingS-0.010) > 0.002 {
		t.Errorf("held for %v s a request, want 0.010", f.HoldingS)
	}
	// Two bundles of one task are two levels, whatever was in between; the later one tells.
	two := bundle("35x18 65x20")
	two.Waits = append(two.Waits[:2], contention(t, "block-d", 260*time.Second, 0, waited{waiting, 1, 1}),
		contention(t, "block-e", 460*time.Second, 0, waited{waiting, 8451, day + 1}))
	for i, dir := range [...]string{"night", "night", "day", "day"} {
		two.Instances[two.Waits[i].Name] = ingest.Instance{Bundle: dir, Job: "shop", Name: "a"}
	}
	r = analyse(two, 0)
	if len(r.Findings) != 1 || r.Findings[0].Reading != "levels" || math.Abs(r.Findings[0].SaturatesAt.Low-f.SaturatesAt.Low) > 0.01 {
		t.Errorf("of two bundles: %d findings, want the one of %s\n%s", len(r.Findings), f.Summary, reasons(r))
	}
	// Without series nothing says what the loads were, and the earlier waits are not taken for today's.
	silent := *two
	silent.Series = nil
	r = detect.Run(&silent, nil, detectors, detect.Options{RandomArrivals: true})
	if len(r.Findings) != 1 || r.Findings[0].Reading != "queue" || r.Findings[0].Contentions != 8450 {
		t.Errorf("of two bundles without series: %d findings, want one by queue of the 8450 contentions by day\n%s", len(r.Findings), reasons(r))
	}
	if r := analyse(&silent, 0); len(r.Findings) > 0 || !strings.Contains(reasons(r), "1 profile of earlier bundles would be other levels of load, but no series say how many requests a second came") {
		t.Errorf("of two bundles without series: %d findings\n%s", len(r.Findings), reasons(r))
	}
	// A stretch without requests is no level, and costs the others nothing.
	idle := bundle("35x18 65x13 0x20")
	idle.Waits = append(idle.Waits, contention(t, "block-d", 660*time.Second, 0, both))
	idle.Instances["block-d"] = ingest.Instance{Job: "shop", Name: "a"}
	const none = "main.(*store).put: no number: no request was answered in the latest profile, and of that there is no multiple; look under load"
	if r := analyse(idle, 0); len(r.Findings) > 0 || !strings.Contains(reasons(r), none) {
		t.Errorf("idle in the end: %d findings\n%s", len(r.Findings), reasons(r))
	}
	idle = bundle("0x19 35x12 65x20")
	for i, w := range idle.Waits {
		w.Taken = cases.Start.Add(time.Duration(260+200*i) * time.Second)
	}
	idle.Waits = append(idle.Waits, contention(t, "block-0", 60*time.Second, 0))
	idle.Instances["block-0"] = ingest.Instance{Job: "shop", Name: "a"}
	r = analyse(idle, 0)
	if len(r.Findings) != 1 || r.Findings[0].Reading != "levels" || r.Findings[0].SaturatesAt.Low > 1/0.65 || r.Findings[0].SaturatesAt.High < 1/0.65 {
		t.Errorf("idle at first: %d findings, want one of 1.54 times by levels\n%s", len(r.Findings), reasons(r))
	}
	// Near-miss: of another build, what is locked may be something else.
	two.Waits[0].Process.BuildID, two.Waits[1].Process.BuildID = "0", "0"
	if r := analyse(two, 0); len(r.Findings) > 0 {
		t.Errorf("of two builds: found %s", r.Findings[0].Summary)
	}
	// Near-miss: one load is one level.
	if r := analyse(bundle("50x38"), 0); len(r.Findings) > 0 || !strings.Contains(reasons(r), "expected arrivals known to be random") {
		t.Errorf("at one load: %d findings\n%s", len(r.Findings), reasons(r))
	}
}

// Snapshots of a time without requests say nothing of the load that there is.
func TestIdleSnapshots(t *testing.T) {
	t.Parallel()
	of := func(loads string) *ingest.Bundle {
		b := &ingest.Bundle{
			Waits: []*waits.Profile{
				contention(t, "block-a", 60*time.Second, 0, waited{waiting, 1, 1}),
				contention(t, "block-b", 260*time.Second, 0, waited{waiting, 2, 2}),
				contention(t, "block-c", 460*time.Second, 0, waited{waiting, 2452, 60 * time.Second}),
			},
			Snapshots: snapshots(t, 461, func(i int) string {
				if i <= 260 {
					return outside
				}
				return busy(i)
			}),
			Series:    cases.Series(t, `contend:completions{job="shop",instance="a"} `+loads),
			Instances: map[string]ingest.Instance{},
		}
		for _, w := range b.Waits {
			b.Instances[w.Name] = ingest.Instance{Job: "shop", Name: "a"}
		}
		for _, s := range b.Snapshots {
			b.Instances[s.Name] = ingest.Instance{Job: "shop", Name: "a"}
		}
		return b
	}
	for _, loads := range []string{"0x19 65x20", "1x19 65x20"} { // near-miss: hardly any load is another level
		r := analyse(of(loads), 0)
		if len(r.Findings) != 1 || r.Findings[0].SaturatesAt.Low > 1.67 || r.Findings[0].SaturatesAt.High < 1.67 || r.Findings[0].SaturatesAt.High > 2 {
			t.Errorf("%s: %d findings, want one of 1.67 times\n%s", loads, len(r.Findings), reasons(r))
			for _, f := range r.Findings {
				t.Error(f.Summary)
			}
		}
	}
	// Series that never count a request are of something else.
	if r := analyse(of("0x48"), 0); strings.Contains(reasons(r), "no request was answered") {
		t.Errorf("without requests: %s", reasons(r))
	}
}

// Waits at one load make a number where the user knows that arrivals are random, and nothing denies it.
func TestRandomArrivals(t *testing.T) {
	t.Parallel()
	// M/D/1 at 0.5, 100 a second for 200 s: a quarter waits on average, 10,000 contentions.
	b := &ingest.Bundle{Waits: []*waits.Profile{contention(t, "block", 200*time.Second, 200*time.Second, waited{waiting, 10000, 50 * time.Second})}}
	r := detect.Run(b, nil, detectors, detect.Options{RandomArrivals: true})
	if len(r.Findings) != 1 {
		t.Fatalf("%d findings, want one\n%s", len(r.Findings), reasons(r))
	}
	f := r.Findings[0]
	if f.Reading != "queue" || f.Confidence != detect.Low || f.Severity != detect.Info || f.SaturatesAt.Low > 2 || f.SaturatesAt.High < 2 ||
		!strings.Contains(strings.Join(f.Assumes, "; "), "arrivals are random: many callers who know nothing of each other") {
		t.Errorf("by %s, %s, %s: %s; assumes %q", f.Reading, f.Severity, f.Confidence, f.Summary, f.Assumes)
	}
	for name, tt := range map[string]struct {
		opt  detect.Options
		load string
		want string
	}{
		"nobody says so":           {detect.Options{}, "", "expected arrivals known to be random"},
		"sampled too thinly":       {detect.Options{RandomArrivals: true, BlockRate: 10 * time.Second}, "", "expected 100 contentions or more in the sample, saw 5 of about 10000"},
		"several share the load":   {detect.Options{RandomArrivals: true}, `contend:completions{job="shop",instance="a"} 100x20` + "\n" + `contend:completions{job="shop",instance="b"} 100x20`, "arrivals are said to be random, but 2 instances share the requests, which may be dealt out in turn"},
		"and one does not, though": {detect.Options{RandomArrivals: true}, `contend:completions{job="shop",instance="a"} 100x20`, ""},
	} {
		b := *b
		if tt.load != "" {
			b.Series = cases.Series(t, tt.load)
			b.Instances = map[string]ingest.Instance{"block": {Job: "shop", Name: "a"}}
		}
		r := detect.Run(&b, nil, detectors, tt.opt)
		if (len(r.Findings) > 0) != (tt.want == "") || !strings.Contains(reasons(r), tt.want) {
			t.Errorf("%s: %d findings, want reason %q\n%s", name, len(r.Findings), tt.want, reasons(r))
		}
	}
	// The sampling of a mutex profile is its fraction.
	m := &ingest.Bundle{Waits: []*waits.Profile{contention(t, "mutex", 200*time.Second, 200*time.Second, waited{letNew, 10000, 50 * time.Second})}}
	r = detect.Run(m, nil, detectors, detect.Options{RandomArrivals: true, MutexFraction: 1000})
	if want := "in the sample, saw 10 of about 10000"; len(r.Findings) > 0 || !strings.Contains(reasons(r), want) {
		t.Errorf("one of 1,000 sampled: %d findings, want %q\n%s", len(r.Findings), want, reasons(r))
	}
}

// With all locks, those with room are information, and those without a number have their reason beside it.
func TestAllLocks(t *testing.T) {
	t.Parallel()
	b := &ingest.Bundle{
		Snapshots: snapshots(t, 40, busy),
		Waits: []*waits.Profile{contention(t, "block", 20*time.Second, 20*time.Second,
			waited{waiting, 300, 900 * time.Millisecond}, waited{strings.ReplaceAll(waiting, "store", "cache"), 40, time.Millisecond})},
	}
	opt := detect.Options{Expect: 1.05}
	if r := detect.Run(b, nil, detectors, opt); len(r.Findings) != 0 || !strings.Contains(reasons(r), "and 1 other lock of which no more is known") {
		t.Errorf("%d findings, want none\n%s", len(r.Findings), reasons(r))
	}
	opt.AllLocks = true
	r := detect.Run(b, nil, detectors, opt)
	if len(r.Findings) != 1 || r.Findings[0].Severity != detect.Info || r.Findings[0].Confidence != detect.High {
		t.Errorf("%d findings, want one for information\n%s", len(r.Findings), reasons(r))
	}
	if want := "ruled out: main.(*cache).put: no number, which is no all-clear: by waits, expected 100 contentions or more, saw 40"; !strings.HasPrefix(reasons(r), want) {
		t.Errorf("reasons\n%s\nwant %q", reasons(r), want)
	}
}

// The lock that several instances have is one finding, of the first to fall over.
func TestInstances(t *testing.T) {
	t.Parallel()
	b := &ingest.Bundle{Instances: map[string]ingest.Instance{}}
	for name, dump := range map[string]func(int) string{
		"a": busy,
		"b": func(i int) string {
			if i%10 == 9 {
				return holder
			}
			return busy(i)
		},
	} {
		for _, s := range snapshots(t, 60, dump) {
			s.Name += name
			b.Snapshots = append(b.Snapshots, s)
			b.Instances[s.Name] = ingest.Instance{Job: "shop", Name: name}
		}
	}
	r := analyse(b, 0)
	if len(r.Findings) != 1 {
		t.Fatalf("%d findings, want one\n%s", len(r.Findings), reasons(r))
	}
	f := r.Findings[0]
	// b's is in use for seven tenths of the time, a's for six.
	if !strings.HasPrefix(f.Summary, "2 of 2 instances of shop; in b ") || !slices.Equal(f.Instances, []string{"a", "b"}) || f.SaturatesAt.Low > 1/0.7 || f.SaturatesAt.High < 1/0.7 {
		t.Errorf("%v: %s", f.Instances, f.Summary)
	}
	if !slices.ContainsFunc(f.Evidence, func(e detect.Evidence) bool { return strings.HasPrefix(e.Text, "a: saturates at about 1.") }) {
		t.Errorf("evidence %+v lacks the other instance", f.Evidence)
	}
}

// Of an alert that has fired the finding's window is when its condition held, and it is
// past once the alert is resolved, an hour after that.
func TestFired(t *testing.T) {
	t.Parallel()
	for after, past := range map[int]bool{40: false, 400: true} { // steps of 15 s
		night, day := "34.3x3 35.7x3 ", "63.7x3 66.3x3 "
		waitsAtNight, waitsByDay := "0.06596x3 0.1225x3 ", "0.4225x3 0.7846x3 "
		c := cases.Series(t, fmt.Sprintf("contend:completions{job=\"api\",instance=\"a\"} %s%s65x%d\ncontend:lock_wait{job=\"api\",instance=\"a\"} %s%s8x%d",
			strings.Repeat(night, 26), strings.Repeat(day, 26), after, strings.Repeat(waitsAtNight, 26), strings.Repeat(waitsByDay, 26), after))
		r := detect.Run(&ingest.Bundle{Series: c}, nil, detectors, detect.Options{})
		if len(r.Findings) != 1 {
			t.Fatalf("%d findings, want one\n%s", len(r.Findings), reasons(r))
		}
		f := r.Findings[0]
		from, to := f.Window.Start.Sub(c.Start), f.Window.End.Sub(c.Start)
		if from != 54*time.Minute+45*time.Second || to != time.Hour+47*time.Minute || f.Past != past {
			t.Errorf("window %v to %v, past %v; want 54m45s to 1h47m0s, %v", from, to, f.Past, past)
		}
	}
}

// The alert fires where one lock, whatever its holds, would be full before the surge, and
// not where many with much to spare have as long a queue together, or bursts have.
func TestAlert(t *testing.T) {
	t.Parallel()
	mg1 := func(locks, spread, use float64) float64 { return locks * spread * use * use / (1 - use) }
	for _, tt := range []struct {
		name         string
		grown        float64 // load, by so many times
		before, then float64 // mean queue
		fires        bool
	}{
		{"exponential holds, full at twice the load", 2, mg1(1, 1, 0.25), mg1(1, 1, 0.5), true},
		{"holds of one length, full at 2.2 times", 1.5, mg1(1, 0.5, 0.3), mg1(1, 0.5, 0.45), true},
		{"holds of two lengths, full at 2.5 times", 2, mg1(1, 5, 0.2), mg1(1, 5, 0.4), true},
		{"holds of two lengths, full at 4 times", 2, mg1(1, 5, 0.125), mg1(1, 5, 0.25), false},
		{"exponential holds, full at 3.3 times", 2, mg1(1, 1, 0.15), mg1(1, 1, 0.3), false},
		{"30 locks in use for a tenth of the time", 2, mg1(30, 1, 0.05), mg1(30, 1, 0.1), false},
		{"200 locks in use for a twenty-fifth", 2, mg1(200, 1, 0.02), mg1(200, 1, 0.04), false},
		{"1,000 locks in use for a sixtieth", 1.6, mg1(1000, 1, 0.01), mg1(1000, 1, 0.016), false},
		{"bursts, whose waits grow with their number", 3, 0.2, 0.6, false},
	} {
		series := func(name string, before, then float64) string {
			return fmt.Sprintf("contend:%s{job=\"api\",instance=\"a\"} %gx240 %g+%gx40 %gx200\n", name, before, before, (then-before)/40, then)
		}
		alone := *lockheadroom.Detector
		fired := false
		alone.Run = func(p *detect.Pass) error {
			if p.Series != nil {
				fired = slices.ContainsFunc(p.Series.Firings("ContendLockHeadroom"), func(f detect.Firing) bool { return !f.Fired.IsZero() })
			}
			p.RuleOut("the alert alone is asked for")
			return nil
		}
		c := cases.Series(t, series("completions", 50, 50*tt.grown)+series("lock_wait", tt.before, tt.then))
		detect.Run(&ingest.Bundle{Series: c}, nil, []*detect.Detector{&alone}, detect.Options{})
		if fired != tt.fires {
			t.Errorf("%s: fires %v, want %v", tt.name, fired, tt.fires)
		}
	}
}
