package report

import (
	"strings"
	"time"

	"github.com/contend/contend/detect"
)

const register = "github.com/prometheus/client_golang/prometheus.(*Registry).Register"

func ptr[T any](v T) *T { return &v }

// telemetryLock is the incident of the design: requests queue for the
// registry's lock, whose holder waits for a slow collector.
func telemetryLock() *detect.Report {
	return &detect.Report{
		Schema: detect.Schema,
		Verdict: detect.Verdict{
			Cause: "telemetryblock", Confidence: detect.High,
			Summary: "4,038 of 4,100 requests (98%) wait for one lock inside telemetry code, github.com/prometheus/client_golang@v1.25.0",
		},
		Findings: []detect.Finding{
			{
				Detector: "telemetryblock", Role: detect.Cause, Severity: detect.Critical, Confidence: detect.High,
				Summary: "4,038 of 4,100 requests (98%) wait for one lock inside telemetry code, github.com/prometheus/client_golang@v1.25.0",
				Wait:    "lock", Function: register, Package: "github.com/prometheus/client_golang/prometheus",
				Library: "github.com/prometheus/client_golang@v1.25.0", Lock: "0xc0000b4018",
				Blocked: 4038, Total: 4100, Unit: detect.Requests, Requests: 4100, Goroutines: 17260,
				Holder: &detect.Holder{
					Goroutine: 259183, Function: register, State: "chan receive",
					Wait: "waiting on a channel in " + register,
					Stack: []string{
						"time.Sleep", "example.com/gateway/telemetry.(*slowCollector).Describe",
						register + ".func1", register, "example.com/gateway.(*handler).ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve",
					},
				},
				Evidence: []detect.Evidence{
					{Text: "4,038 goroutines wait for lock 0xc0000b4018", Count: 4038, Stack: []string{"sync.(*Mutex).Lock", register, "example.com/gateway.record", "net/http.(*conn).serve"}},
					{Text: "the stack of goroutine 12", Stack: []string{"time.Sleep", "example.com/gateway.tick", "a", "b", "c"}},
					{Text: "4,038 wait in " + register + ", called from example.com/gateway.record"},
					{Text: "no other lock has waiters"},
				},
				Next:     []string{"register metrics once, at start, instead of on every request", "take a second dump to see whether the holder changes", "restart one instance to confirm"},
				Warnings: []string{"the holder is inferred from one dump"},
			},
			{Detector: "applock", Role: detect.Cause, Severity: detect.Info, Confidence: detect.Medium, Summary: "12 requests wait for example.com/gateway/cache.(*Cache).Get", Wait: "lock", Function: "example.com/gateway/cache.(*Cache).Get", Blocked: 12, Total: 4100, Unit: detect.Requests, Holds: "nobody was inside it at the moment of the snapshot"},
			{Detector: "goroutineleak", Role: detect.Cause, Severity: detect.Info, Confidence: detect.Low, Summary: "9,000 goroutines parked at one channel", Wait: "chan", Function: "example.com/gateway.watch", Blocked: 9000, Total: 17260, Unit: detect.Goroutines},
			{Detector: "downstream", Role: detect.Cause, Severity: detect.Info, Confidence: detect.Low, Summary: "2 requests wait for a socket"},
		},
		BudgetUnit: detect.Requests,
		Budget: []detect.Share{
			{Where: "in flight", Now: detect.Measures{Stacks: ptr(4100.0)}, Before: detect.Measures{Stacks: ptr(30.0)}},
			{Where: "lock", Before: detect.Measures{Stacks: ptr(2.0)}, Now: detect.Measures{Stacks: ptr(4050.0), Waits: ptr(3950.2)}},
			{Where: "socket", Now: detect.Measures{Stacks: ptr(47.0)}},
			{Where: "running", Now: detect.Measures{Stacks: ptr(3.0)}},
			{Where: "pool", Now: detect.Measures{Stacks: ptr(0.0), Waits: ptr(0.0)}},
			{Where: "runnable", Now: detect.Measures{Stacks: ptr(0.0)}},
		},
		RuledOut: []detect.RuledOut{
			{Detector: "poolwait", Reason: "0 of 4,100 requests wait for a pool"},
			{Detector: "cpubound", Reason: "3 of 4,100 requests run or wait for a processor"},
			{Detector: "deadlock", Reason: "no cycle among 1 lock with waiters"},
		},
		Inputs: []detect.Input{{
			Name: "dump.txt", Kind: "goroutine", Format: "debug=2",
			Goroutines: &detect.GoroutineCounts{Declared: 17260, Read: 17260},
		}},
	}
}

func nothingFound() *detect.Report {
	return &detect.Report{
		Schema:  detect.Schema,
		Verdict: detect.Verdict{Summary: "nothing found: 12 requests in flight, none of them held for long"},
		Budget: []detect.Share{
			{Where: "in flight", Now: detect.Measures{Stacks: ptr(12.0)}},
			{Where: "running", Now: detect.Measures{Stacks: ptr(9.0)}},
			{Where: "socket", Now: detect.Measures{Stacks: ptr(3.0)}},
			{Where: "lock", Now: detect.Measures{Stacks: ptr(0.0)}},
			{Where: "pool", Now: detect.Measures{Stacks: ptr(0.0)}},
		},
		RuledOut: []detect.RuledOut{
			{Detector: "telemetryblock", Reason: "0 of 12 requests wait in telemetry code"},
			{Detector: "applock", Reason: "0 of 12 requests wait for a lock"},
		},
		Skipped: []detect.Skipped{
			{Detector: "deadlock", Reason: "needs a text dump (debug=2): this profile has no lock addresses"},
			{Detector: "goroutineleak", Reason: "needs a text dump (debug=2) or two snapshots"},
		},
		Inputs: []detect.Input{{
			Name: "goroutine.pb.gz", Kind: "goroutine", Format: "pprof",
			Taken:      ptr(time.Date(2026, 3, 1, 4, 5, 6, 0, time.FixedZone("", 3600))),
			Goroutines: &detect.GoroutineCounts{Read: 240},
		}},
	}
}

// idle has nothing in flight, and something worth knowing.
func idle() *detect.Report {
	return &detect.Report{
		Verdict:  detect.Verdict{Summary: "nothing found that holds a material share: no requests in flight, 3 of 40 goroutines not idle"},
		Findings: []detect.Finding{{Detector: "goroutineleak", Role: detect.Cause, Severity: detect.Info, Confidence: detect.Low, Summary: "6 goroutines are parked for minutes", Unit: detect.Goroutines}},
		Budget:   []detect.Share{{Where: "in flight", Now: detect.Measures{Stacks: ptr(0.0)}}, {Where: "lock", Now: detect.Measures{Stacks: ptr(0.0)}}},
		RuledOut: []detect.RuledOut{{Detector: "applock", Reason: "0 wait"}},
		Inputs:   []detect.Input{{Name: "a", Goroutines: &detect.GoroutineCounts{Read: 40}}},
	}
}

func couldNot() *detect.Report {
	return &detect.Report{
		Schema:  detect.Schema,
		Verdict: detect.Verdict{Summary: "nothing found"},
		Skipped: []detect.Skipped{
			{Detector: "telemetryblock", Reason: "no goroutine, block or mutex profile was read"},
			{Detector: "applock", Reason: "no goroutine, block or mutex profile was read"},
			{Detector: "deadlock", Reason: "no goroutine profile was read"},
		},
		Inputs: []detect.Input{
			{Name: "cpu.pb.gz", Kind: "", Error: "expected a goroutine, block or mutex profile, found a CPU profile; take /debug/pprof/goroutine instead"},
		},
	}
}

// hostile has in every string what would take over a terminal or mislead a reader.
func hostile() *detect.Report {
	const bad = "a\x1b[31mb\x1b]0;title\x07\r\nc\u202ed\u200be\u009b2J\x7f\xff\tf"
	return &detect.Report{
		Verdict: detect.Verdict{Cause: "applock" + bad, Summary: bad, Job: bad, Trigger: bad, Story: []detect.StoryLine{{Detector: bad, Summary: bad}}},
		Findings: []detect.Finding{{
			Detector: "applock" + bad, Role: bad, Severity: bad, Confidence: bad, Summary: bad + "2", Process: bad, Wait: bad, Package: bad,
			Function: bad, Library: bad, Lock: bad, Blocked: 1, Total: 2, Unit: bad, Instances: []string{bad}, Holds: bad,
			Labels: map[string][]string{bad: {bad}, "key": {detect.Redacted}},
			Holder: &detect.Holder{Function: bad, State: bad, Wait: bad, Stack: []string{bad}, Confidence: bad, Then: []detect.Holder{
				{Function: bad, State: bad, Wait: bad, Stack: []string{bad}}, {Function: bad + "2", State: bad, Wait: bad, Stack: []string{bad}},
			}},
			Evidence: []detect.Evidence{{Text: bad, Input: bad, Stack: []string{bad}}},
			Next:     []string{bad}, Warnings: []string{bad},
		}, {
			Detector: bad, Severity: detect.Critical, Confidence: detect.Low, Next: []string{bad}, Warnings: []string{bad},
		}},
		BudgetUnit: bad, Unexplained: []detect.Evidence{{Text: bad, Input: bad}}, BaseSummary: bad, Notes: []string{bad},
		Budget:   []detect.Share{{Where: bad, Now: detect.Measures{Stacks: ptr(1.0)}}, {Where: bad + "0", Now: detect.Measures{Stacks: ptr(0.0)}}},
		RuledOut: []detect.RuledOut{{Detector: bad, Reason: bad, Process: bad}},
		Skipped:  []detect.Skipped{{Detector: bad, Reason: bad, Process: bad}},
		Base:     []detect.Growth{{Wait: bad, Function: bad, Unit: bad, Before: 1, Now: 2}},
		Inputs:   []detect.Input{{Name: bad, Kind: bad, Format: bad, Process: bad, Window: bad, Use: bad}, {Name: bad, Error: bad}},
		Warnings: []string{bad},
	}
}

// chain has what the first incident has not: a chain of holders, several locks,
// labels, sites that stay unexplained, a base, and inputs of one moment.
func chain() *detect.Report {
	const convert = "example.com/shop/internal/rates.(*Rates[go.shape.struct { Currency string; Day int64 }]).ConvertAndRound"
	at := func(second int) *time.Time { return ptr(time.Date(2026, 3, 1, 4, 5, second, 0, time.UTC)) }
	const dir = "bundle/profiles/"
	return &detect.Report{
		Schema: detect.Schema,
		Verdict: detect.Verdict{
			Cause: "applock", Confidence: detect.Medium,
			Summary: "149 of 160 goroutines that are not idle wait for a lock in " + convert,
		},
		BudgetUnit: detect.Goroutines,
		Budget: []detect.Share{
			{Where: "in flight", Now: detect.Measures{Stacks: ptr(160.0)}},
			{Where: "lock", Now: detect.Measures{Stacks: ptr(149.0)}},
			{Where: "unexplained", Now: detect.Measures{Stacks: ptr(11.0)}},
		},
		Unexplained: []detect.Evidence{
			{Text: "9 sleeping in example.com/shop.(*printers).borrow", Input: dir + "goroutine-b.pb.gz", Count: 9},
			{Text: "2 waiting in a select in example.com/shop.(*index).suggest, called from " + convert, Input: dir + "goroutine-b.pb.gz", Count: 2},
		},
		Findings: []detect.Finding{
			{
				Detector: "applock", Role: detect.Cause, Severity: detect.Critical, Confidence: detect.Medium,
				Summary: "149 of 160 goroutines that are not idle wait for a lock in " + convert,
				Wait:    "lock", Function: convert, Blocked: 149, Total: 160, Unit: detect.Goroutines, Goroutines: 315,
				Labels: map[string][]string{"tenant": {detect.Redacted}, "endpoint": {detect.Redacted}},
				Holder: &detect.Holder{
					Goroutine: 108, Function: convert, State: "sync.Mutex.Lock", Confidence: detect.High,
					AtLock: true, Wait: "waiting for a lock in example.com/shop.(*ledger).book", Stack: []string{"example.com/shop.(*ledger).book", convert},
					Then: []detect.Holder{
						{Goroutine: 9, Function: "example.com/shop.(*ledger).close", State: "sync.Mutex.Lock", Confidence: detect.Medium, AtLock: true, Wait: "waiting for a lock in example.com/shop.(*stock).count"},
						{Goroutine: 12, Function: "example.com/shop.(*stock).refill", State: "IO wait", Confidence: detect.Low, Wait: "waiting for an answer in net/http.(*persistConn).roundTrip",
							Stack: []string{"net/http.(*persistConn).roundTrip", "example.com/shop.(*stock).refill"}},
					},
				},
				Holds: "these are 16 locks of one kind, and no single one has most of the waiters",
				Evidence: []detect.Evidence{
					{Text: "149 wait in " + convert, Input: dir + "goroutine-b.pb.gz", Count: 149},
					{Text: "it had 12 in " + dir + "goroutine-a.pb.gz", Input: dir + "dump.txt.gz", Count: 149},
				},
				Next:     []string{"read what it does between Lock and Unlock", "shorten the lock", "admit fewer requests", "a fourth step"},
				Warnings: []string{"one snapshot: a second one shows whether it lasts; take it", "another warning"},
			},
			{
				Detector: "applock", Role: detect.Cause, Severity: detect.Critical, Confidence: detect.High, Summary: "12 wait for another",
				Holder: &detect.Holder{Function: "a.f", Confidence: detect.Low, AtLock: true, Wait: "waiting for a lock in a.g", Then: []detect.Holder{
					{Function: "a.g", Confidence: detect.Medium, AtLock: true, Wait: "waiting for a lock in a.h"}, {Function: "a.i", Confidence: detect.Medium, AtLock: true, Wait: "waiting for a lock in a.h"}, {Function: "a.h", Confidence: detect.Medium, AtLock: true, Wait: "waiting for a lock in a.h"},
				}},
				Next: []string{"not told: the same detector"},
			},
			{Detector: "poolwait", Role: detect.Cause, Severity: detect.Critical, Confidence: detect.High, Summary: "9 wait for a pool", Next: []string{"raise the limit", "not told: a second step"}},
			{Detector: "downstream", Role: detect.Cause, Severity: detect.Critical, Confidence: detect.High, Summary: "2 wait for an answer", Next: []string{"not told: a fifth line"}},
		},
		Base:        []detect.Growth{{Wait: "lock", Function: convert, Unit: detect.Contentions, Before: 3, Now: 149, ShareBefore: 0.01, ShareNow: 0.45}},
		BaseSummary: "201 contentions before, 354 now",
		RuledOut:    []detect.RuledOut{{Detector: "cpubound", Reason: "0 of 160 run"}},
		Inputs: []detect.Input{
			{Name: dir + "goroutine-a.pb.gz", Kind: "goroutine", Format: "pprof", Taken: at(1), Use: "earlier snapshot", Goroutines: &detect.GoroutineCounts{Read: 150}},
			{Name: dir + "goroutine-b.pb.gz", Kind: "goroutine", Format: "pprof", Taken: at(6), Use: "shares", Goroutines: &detect.GoroutineCounts{Read: 1315}},
			{Name: dir + "dump.txt.gz", Kind: "goroutine", Format: "debug=2", Use: "locks and holders", Goroutines: &detect.GoroutineCounts{Read: 315}},
			{Name: dir + "block-20260301T040506.619Z.pb.gz", Kind: "block", Format: "pprof", Taken: at(6), Window: "5.0164s", Use: "difference from " + dir + "block-20260301T040501.611Z.pb.gz"},
			{Name: dir + "cpu.pb.gz", Error: "expected a goroutine profile, found a CPU profile"},
		},
		Notes: []string{
			"took " + dir + "block-20260301T040501.611Z.pb.gz and " + dir + "block-20260301T040506.619Z.pb.gz for one process, 5.0 s apart: same build and mappings",
			dir + "meta.json: not used: JSON", "c", "d",
		},
	}
}

// noGrowth has a base against which nothing grew, and one unexplained site.
func noGrowth() *detect.Report {
	r := nothingFound()
	r.BudgetUnit = detect.Requests
	r.Unexplained = []detect.Evidence{{Text: "9 sleeping in main.poll"}}
	r.BaseSummary = "nothing grew: 201 goroutines before, 199 now"
	return r
}

func wideUnicode() *detect.Report {
	return &detect.Report{
		Verdict: detect.Verdict{Cause: "poolwait", Confidence: detect.Medium, Summary: "30 件中 28 件のリクエストが接続プールを待っています"},
		Findings: []detect.Finding{{
			Detector: "poolwait", Role: detect.Cause, Severity: detect.Warning, Confidence: detect.Medium, Wait: "pool",
			Function: "例え.jp/データ/" + strings.Repeat("接続", 30) + ".(*プール).取得", Blocked: 28, Total: 30, Unit: detect.Requests,
		}},
		Base: []detect.Growth{
			{Wait: "pool", Function: "例え.jp/データ/" + strings.Repeat("接続", 30) + ".(*プール).取得", Before: 0, Now: 28, ShareNow: 0.5},
			{Wait: "socket", Function: "github.com/例え/" + strings.Repeat("long/", 20) + "client.Do", Before: 3, Now: 4, ShareBefore: 0.0001, ShareNow: 0.9999},
		},
		BudgetUnit: detect.Requests,
		Budget: []detect.Share{
			{Where: "プール", Now: detect.Measures{Stacks: ptr(28.0)}},
			{Where: "running", Now: detect.Measures{Stacks: ptr(2.0)}},
		},
	}
}

func severalProcesses() *detect.Report {
	r := &detect.Report{
		Verdict: detect.Verdict{
			Cause: "downstream", Trigger: "herd", Confidence: detect.Medium, Job: "gateway",
			Summary:   "a: 81 of 90 requests wait for an answer from a socket in net/http.(*Transport).RoundTrip",
			Instances: &detect.Affected{Affected: 2, Total: 3},
			Story:     []detect.StoryLine{{At: time.Date(2026, 3, 1, 4, 5, 6, 0, time.UTC), Detector: "herd", Summary: "arrivals tripled"}},
		},
		Base: []detect.Growth{
			{Wait: "socket", Function: "net/http.(*persistConn).roundTrip", Before: 3, Now: 81, ShareBefore: 0.01, ShareNow: 0.45},
			{Wait: "chan", Function: "github.com/organisation/repository/internal/some/deeply/nested/directory/of/packages/queue.(*Worker).Next", Before: 3, Now: 2},
		},
		Warnings: []string{"1", "2", "3", "4", "5", "6", "7"},
	}
	for _, process := range []string{"a", "b", "c"} {
		if process != "c" {
			r.Findings = append(r.Findings, detect.Finding{
				Detector: "downstream", Role: detect.Cause, Severity: detect.Warning, Confidence: detect.Medium, Process: process,
				Summary: "81 of 90 requests wait for an answer from a socket in net/http.(*Transport).RoundTrip",
				Wait:    "socket", Function: "net/http.(*Transport).RoundTrip", Blocked: 81, Total: 90, Unit: detect.Requests,
				Instances: []string{"10.0.0.1:80", "10.0.0.2:80"},
				Window:    &detect.Window{Start: time.Date(2026, 3, 1, 4, 5, 0, 0, time.UTC), End: time.Date(2026, 3, 1, 4, 5, 5, 0, time.UTC)},
				Evidence:  []detect.Evidence{{Text: "81 goroutines stand in roundTrip", Input: process + ".txt"}},
			})
		}
		r.RuledOut = append(r.RuledOut,
			detect.RuledOut{Detector: "applock", Reason: "0 of 90 requests wait for a lock", Process: process},
			detect.RuledOut{Detector: "cpubound", Reason: process + " of 90 requests run", Process: process})
		r.Skipped = append(r.Skipped,
			detect.Skipped{Detector: "deadlock", Reason: "no lock addresses in the input", Process: process},
			detect.Skipped{Detector: "inflightcpu", Reason: "no lock addresses in the input", Process: process})
		r.Inputs = append(r.Inputs, detect.Input{Name: process + ".txt", Kind: "goroutine", Format: "debug=2", Process: process, Goroutines: &detect.GoroutineCounts{Declared: 180, Read: 180}})
	}
	r.Inputs[1].Goroutines = &detect.GoroutineCounts{Declared: 180, Read: 150, Lost: 30}
	r.Inputs = append(r.Inputs,
		detect.Input{Name: "block.pb.gz", Kind: "block", Format: "pprof", Window: "5s", Use: "difference from block-a.pb.gz"},
		detect.Input{Name: "gone.txt", Kind: "", Error: "open gone.txt: no such file or directory"})
	return r
}
