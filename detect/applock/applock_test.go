package applock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/applock"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

func TestApplock(t *testing.T) {
	cases.Run(t, []*detect.Detector{applock.Detector}, []cases.Case{
		{
			Name: "a cache's lock, its holder in a call",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000)@24 < HANDLER
				1 select: net/http.(*persistConn).roundTrip(0xc000900000) < net/http.(*Transport).roundTrip < main.(*cache).get(0xc000100000)@29 < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*cache).get", Blocked: 30, Holder: "main.(*cache).get", Confidence: detect.High, Severity: detect.Critical}},
		},
		{
			Name: "near-miss: as many on a telemetry lock",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < github.com/prometheus/client_golang/prometheus.(*Registry).Register(0xc000100000) < HANDLER`,
		},
		{
			Name: "near-miss: three of a hundred wait for a moment",
			Dump: `
				3 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000) < HANDLER
				97 select: net/http.(*persistConn).roundTrip < main.call < HANDLER`,
		},
		{
			Name: "near-miss: two of two",
			Dump: `
				2 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000) < HANDLER`,
		},
		{
			Name: "worth a mention, no verdict: one in ten",
			Dump: `
				10 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000) < HANDLER
				90 select: net/http.(*persistConn).roundTrip < main.call < HANDLER`,
			Want: []cases.Want{{Detector: "applock", Blocked: 10, Severity: detect.Info}},
		},
		{
			Name: "one lock at three sites, added up by its address",
			Dump: `
				10 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*a).one(0xc000200000) < HANDLER
				10 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*b).two(0xc000300000) < HANDLER
				11 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*c).three(0xc000400000) < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*c).three", Blocked: 31}},
		},
		{
			Name: "a wrapper is looked through, and so is a promoted Lock",
			Dump: `
				20 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < example.com/util/syncutil.(*Mutex).Lock(0xc000100008) < example.com/shop.(*basket).add(0xc000100000) < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "example.com/shop.(*basket).add", Blocked: 20}},
		},
		{
			Name: "readers behind a writer that waits for a slow reader",
			Dump: `
				1 sync.RWMutex.Lock: sync.runtime_SemacquireRWMutex(0x0?) < sync.(*RWMutex).Lock(0x0?) < main.(*table).set(0xc000100000)@40 < HANDLER
				25 sync.RWMutex.RLock: sync.runtime_SemacquireRWMutexR(0x0?) < sync.(*RWMutex).RLock < main.(*table).get(0xc000100000)@20 < HANDLER
				1 IO wait: internal/poll.runtime_pollWait < internal/poll.(*pollDesc).wait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < main.(*table).get(0xc000100000)@25 < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*table).get", Blocked: 26, Holder: "main.(*table).get"}},
		},
		{
			Name: "without handlers, of what is not idle",
			Dump: `
				12 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*index).put(0xc000100000) < main.consume | main.main
				200 chan receive: main.idle | main.main
				50 chan send: main.read | main.main`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*index).put", Blocked: 12}},
		},
		{
			Name: "near-miss: a WaitGroup stands on the same semaphore",
			Dump: `
				30 semacquire: sync.runtime_Semacquire(0xc000100008) < sync.(*WaitGroup).Wait(0xc000100000) < main.fan < HANDLER`,
		},
		{
			Name: "a lock built on a channel",
			Dump: `
				20 chan send: main.(*chanMutex).Lock(0xc000100000) < main.(*ledger).post < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*ledger).post", Blocked: 20}},
		},
		{
			Name: "a method that begins with Lock, and its holder inside it",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*ledger).LockFunds(0xc000100000)@40 < main.transfer@12 < HANDLER
				1 select: net/http.(*persistConn).roundTrip < net/http.(*Client).Do < main.(*ledger).LockFunds(0xc000100000)@47 < main.transfer@12 < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*ledger).LockFunds", Blocked: 30, Holder: "main.(*ledger).LockFunds", Confidence: detect.High}},
		},
		{
			Name: "a convoy counts those who were just woken",
			Dump: `
				20 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000)@40 < HANDLER
				10 runnable: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000)@40 < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*cache).get", Blocked: 30}},
		},
		{
			Name: "all requests wait for locks, none of which has a material share",
			Dump: `
				2 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/kv.(*shard0).get(0xc000100000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000101000) < sync.(*Mutex).Lock < example.com/kv.(*shard1).get(0xc000101000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000102000) < sync.(*Mutex).Lock < example.com/kv.(*shard2).get(0xc000102000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000103000) < sync.(*Mutex).Lock < example.com/kv.(*shard3).get(0xc000103000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000104000) < sync.(*Mutex).Lock < example.com/kv.(*shard4).get(0xc000104000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000105000) < sync.(*Mutex).Lock < example.com/kv.(*shard5).get(0xc000105000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000106000) < sync.(*Mutex).Lock < example.com/kv.(*shard6).get(0xc000106000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000107000) < sync.(*Mutex).Lock < example.com/kv.(*shard7).get(0xc000107000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000108000) < sync.(*Mutex).Lock < example.com/kv.(*shard8).get(0xc000108000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000109000) < sync.(*Mutex).Lock < example.com/kv.(*shard9).get(0xc000109000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc00010a000) < sync.(*Mutex).Lock < example.com/kv.(*shard10).get(0xc00010a000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc00010b000) < sync.(*Mutex).Lock < example.com/kv.(*shard11).get(0xc00010b000) < main.get < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "example.com/kv.(*shard0).get", Blocked: 24, Confidence: detect.Medium, Severity: detect.Warning}},
		},
		{
			Name: "near-miss: a few at locks of a busy service",
			Dump: `
				2 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/kv.(*shard0).get(0xc000100000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000101000) < sync.(*Mutex).Lock < example.com/kv.(*shard1).get(0xc000101000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000102000) < sync.(*Mutex).Lock < example.com/kv.(*shard2).get(0xc000102000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000103000) < sync.(*Mutex).Lock < example.com/kv.(*shard3).get(0xc000103000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000104000) < sync.(*Mutex).Lock < example.com/kv.(*shard4).get(0xc000104000) < main.get < HANDLER
				2 sync.Mutex.Lock: LOCK(0xc000105000) < sync.(*Mutex).Lock < example.com/kv.(*shard5).get(0xc000105000) < main.get < HANDLER
				30 running: main.sum < HANDLER`,
		},
		{
			Name: "requests whose root frames were left out, told by who started them",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*tree).walk(0xc000100000) < main.(*tree).walk | net/http.(*Server).Serve
				300 select: main.tick | main.main`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*tree).walk", Blocked: 30}},
		},
		{
			Name: "methods of one type, without addresses: likely one lock, and no more than likely",
			Dump: `
				11 sync.Mutex.Lock: internal/sync.runtime_SemacquireMutex < internal/sync.(*Mutex).lockSlow < internal/sync.(*Mutex).Lock < sync.(*Mutex).Lock < example.com/app.(*server).list < HANDLER
				10 sync.Mutex.Lock: internal/sync.runtime_SemacquireMutex < internal/sync.(*Mutex).lockSlow < internal/sync.(*Mutex).Lock < sync.(*Mutex).Lock < example.com/app.(*server).show < HANDLER
				10 sync.Mutex.Lock: internal/sync.runtime_SemacquireMutex < internal/sync.(*Mutex).lockSlow < internal/sync.(*Mutex).Lock < sync.(*Mutex).Lock < example.com/app.(*server).edit < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "example.com/app.(*server).list", Blocked: 31, Confidence: detect.Medium}},
		},
		{
			Name: "methods of one type, at one address",
			Dump: `
				11 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/app.(*server).list < HANDLER
				10 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/app.(*server).show < HANDLER
				10 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/app.(*server).edit < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "example.com/app.(*server).list", Blocked: 31, Confidence: detect.High}},
		},
		{
			Name: "a holder in a function written on one line",
			Dump: `
				20 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.slow@243 < main.h@357 < HANDLER
				1 sleep: time.Sleep < main.slow@243 < main.h@357 < HANDLER`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.slow", Blocked: 20, Holder: "main.slow"}},
		},
		{
			Name: "handlers that were given up, and hardly a request",
			Dump: `
				1 running: main.health < HANDLER
				1 select: net/http.(*timeoutHandler).ServeHTTP < HANDLER
				400 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*report).gen(0xc000100000) < net/http.HandlerFunc.ServeHTTP < net/http.(*timeoutHandler).ServeHTTP.func1 | net/http.(*timeoutHandler).ServeHTTP`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*report).gen", Blocked: 400}},
		},
		{
			Name: "calls of net/rpc over HTTP, which a connection started",
			Dump: `
				20 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < bufio.(*Reader).Read < encoding/gob.decodeUintReader < net/rpc.(*gobServerCodec).ReadRequestHeader < net/rpc.(*Server).ServeCodec < net/rpc.(*Server).ServeHTTP < net/http.serverHandler.ServeHTTP < net/http.(*conn).serve | net/http.(*Server).Serve
				60 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*store).get(0xc000100000) < net/rpc.(*service).call | net/rpc.(*Server).ServeCodec`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*store).get", Blocked: 60}},
		},
		{
			Name: "idle connections whose root frames were left out do not dilute a lock",
			Dump: `
				20 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*tree).walk(0xc000100000) < HANDLER
				200 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read | net/http.(*Server).Serve`,
			Verdict: "applock",
			Want:    []cases.Want{{Detector: "applock", Function: "main.(*tree).walk", Blocked: 20}},
		},
	})
}

func run(snapshots ...*stacks.Snapshot) *detect.Report {
	return detect.Run(&ingest.Bundle{Snapshots: snapshots}, nil, []*detect.Detector{applock.Detector}, detect.Options{})
}

// A lock that holds up no request is no finding, but is not hidden either.
func TestOutsideHandlers(t *testing.T) {
	dump := cases.Snapshot(t, "dump", `
		40 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*index).merge(0xc000100000) < main.work | main.main
		8 select: main.(*page).wait < HANDLER`)
	r := run(dump)
	want := []detect.RuledOut{{
		Detector: "applock",
		Reason:   "0 of 8 requests wait for a lock outside telemetry; outside handlers 40 goroutines do, in main.(*index).merge",
	}}
	if len(r.Findings) > 0 || !slices.Equal(r.RuledOut, want) {
		t.Errorf("findings %v, ruled out %v; want none, and %v", r.Findings, r.RuledOut, want)
	}
}

func analyse(t *testing.T, text string) *detect.Report {
	t.Helper()
	snaps, err := stacks.ReadText("dump", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return run(snaps...)
}

// Text that was folded says something, but nothing to be sure of; a dump that
// is largely lost is no all-clear.
func TestUnreadInput(t *testing.T) {
	var folded, lost strings.Builder
	for i := range 30 {
		fmt.Fprintf(&folded, "goroutine %d [sync.Mutex.Lock]:\ninternal/sync.(*Mutex).lockSlow(0xc000100000)\n\t/go/src/sync.go:1 +0x1\nsync.(*Mutex).Lock(...)\n\t/go/src/sync.go:2\nmain.(*cache).get(0xc000100000, {0xc0001,\n0x1})\n\t/app/cache.go:3 +0x1\nmain.handle(0xc000100000)\n\t/app/main.go:4 +0x1\nnet/http.(*conn).serve(0xc000100000)\n\t/go/src/net/http/server.go:5 +0x1\n\n", i+1)
		fmt.Fprintf(&lost, "goroutine %d [selec\n\n", i+1)
	}
	whole := strings.ReplaceAll(folded.String(), "{0xc0001,\n0x1})", "{0xc0001, 0x1})")
	if r := analyse(t, whole); r.Verdict.Cause != "applock" || r.Verdict.Confidence != detect.High {
		t.Fatalf("the whole text: %+v, want an application lock with high confidence", r.Verdict)
	}
	if r := analyse(t, folded.String()); r.Verdict.Confidence == detect.High || r.Verdict.Confidence == detect.Medium {
		t.Errorf("the folded text: %+v, want no more than low confidence", r.Verdict)
	}
	few := "goroutine 99 [select]:\nmain.tick()\n\t/app/main.go:9 +0x1\n\n"
	if r := analyse(t, few+lost.String()); r.Verdict.Cause != "" || !strings.Contains(r.Verdict.Summary, "but 30 of 31 goroutines could not be read, so this is no all-clear") {
		t.Errorf("a dump that is mostly lost: %+v", r.Verdict)
	}
}

// A lock's holder that stands at a channel whose other end may want the lock is advice worth giving.
func TestChannelBehindLock(t *testing.T) {
	dump := cases.Snapshot(t, "dump", `
		30 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*account).post(0xc000100000)@20 < HANDLER
		1 chan send: main.(*account).post(0xc000100000)@22 < HANDLER
		1 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < main.(*account).apply(0xc000100000)@30 < main.drain | main.main`)
	r := run(dump)
	if len(r.Findings) != 1 {
		t.Fatalf("%d findings, want one", len(r.Findings))
	}
	advice := strings.Join(r.Findings[0].Next, "\n")
	if want := "see whether main.(*account).apply, which waits for this lock too, is the other end of the channel"; !strings.Contains(advice, want) {
		t.Errorf("advice lacks %q:\n%s", want, advice)
	}
}
