package telemetryblock_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/telemetryblock"
)

func TestTelemetryblock(t *testing.T) {
	cases.Run(t, []*detect.Detector{telemetryblock.Detector}, []cases.Case{
		{
			Name: "metrics registered again on every recording",
			Dump: `
				40 sync.RWMutex.Lock: LOCK(0xc000100018) < sync.(*RWMutex).Lock < github.com/prometheus/client_golang/prometheus.(*Registry).Register(0xc000100000)@270 < main.record < HANDLER
				1 chan receive: github.com/prometheus/client_golang/prometheus.(*Registry).Register(0xc000100000)@280 < main.record < HANDLER`,
			Verdict: "telemetryblock",
			Want: []cases.Want{{Detector: "telemetryblock", Function: "github.com/prometheus/client_golang/prometheus.(*Registry).Register", Blocked: 40,
				Holder: "github.com/prometheus/client_golang/prometheus.(*Registry).Register", Confidence: detect.High}},
		},
		{
			Name: "near-miss: an application's lock inside telemetry middleware",
			Dump: `
				40 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*store).get(0xc000100000) < go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp.(*middleware).serveHTTP < HANDLER`,
		},
		{
			Name: "near-miss: a lock that a metrics callback takes is the application's",
			Dump: `
				40 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*store).size(0xc000100000) < github.com/VictoriaMetrics/metrics.(*Gauge).Get < HANDLER`,
		},
		{
			Name: "a logger behind its slow sink",
			Dump: `
				20 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < log.(*Logger).output(0xc000100000)@240 < log.Println < HANDLER
				1 syscall: syscall.Syscall < syscall.write < internal/poll.(*FD).Write < os.(*File).Write(0xc000200000) < log.(*Logger).output(0xc000100000)@249 < log.Println < HANDLER`,
			Verdict: "telemetryblock",
			Want:    []cases.Want{{Detector: "telemetryblock", Function: "log.(*Logger).output", Blocked: 20, Holder: "log.(*Logger).output"}},
		},
		{
			Name: "a logger without a lock: all at the descriptor",
			Dump: `
				20 semacquire: internal/poll.runtime_Semacquire < internal/poll.(*fdMutex).rwlock(0xc000200000) < internal/poll.(*FD).Write < os.(*File).Write < github.com/rs/zerolog.levelWriterAdapter.WriteLevel < HANDLER`,
			Verdict: "telemetryblock",
			Want:    []cases.Want{{Detector: "telemetryblock", Function: "github.com/rs/zerolog.levelWriterAdapter.WriteLevel", Blocked: 20}},
		},
		{
			Name: "a full queue",
			Dump: `
				25 select: go.opentelemetry.io/otel/sdk/trace.(*batchSpanProcessor).enqueueBlockOnQueueFull < go.opentelemetry.io/otel/sdk/trace.(*batchSpanProcessor).OnEnd < main.work < HANDLER`,
			Verdict: "telemetryblock",
			Want:    []cases.Want{{Detector: "telemetryblock", Function: "go.opentelemetry.io/otel/sdk/trace.(*batchSpanProcessor).enqueueBlockOnQueueFull", Blocked: 25}},
		},
		{
			Name: "near-miss: telemetry's own workers at rest",
			Dump: `
				40 select: go.opentelemetry.io/otel/sdk/trace.(*batchSpanProcessor).processQueue < go.opentelemetry.io/otel/sdk/trace.NewBatchSpanProcessor.func1 | go.opentelemetry.io/otel/sdk/trace.NewBatchSpanProcessor
				10 select: github.com/DataDog/datadog-go/v5/statsd.(*sender).sendLoop | github.com/DataDog/datadog-go/v5/statsd.newSender`,
		},
		{
			Name: "a shared random source below a tracer",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < math/rand.(*lockedSource).Int63 < math/rand.(*Rand).Int63 < github.com/openzipkin/zipkin-go/idgenerator.(*randomID64).TraceID < HANDLER`,
			Verdict: "telemetryblock",
			Want:    []cases.Want{{Detector: "telemetryblock", Function: "github.com/openzipkin/zipkin-go/idgenerator.(*randomID64).TraceID", Blocked: 30}},
		},
		{
			Name: "near-miss: the same source in the application",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < math/rand.(*lockedSource).Int63 < math/rand.(*Rand).Int63 < main.shuffle < HANDLER`,
		},
		{
			Name: "in-house telemetry by a path word, with less confidence",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < example.com/shop/pkg/telemetry.(*Recorder).Count(0xc000100000) < HANDLER`,
			Verdict: "telemetryblock",
			Want:    []cases.Want{{Detector: "telemetryblock", Function: "example.com/shop/pkg/telemetry.(*Recorder).Count", Blocked: 30, Confidence: detect.Medium}},
		},
		{
			Name: "near-miss: a raft log is no telemetry",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < example.com/db/raft/log.(*storage).append(0xc000100000) < HANDLER`,
		},
		{
			Name: "a handler of log records, whatever its package is called",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/shop/ship.(*Handler).Handle(0xc000100000)@20 < log/slog.(*Logger).log < log/slog.(*Logger).Info < main.order < HANDLER
				1 select: net/http.(*persistConn).roundTrip < net/http.(*Client).Do < example.com/shop/ship.(*Handler).Handle(0xc000100000)@25 < log/slog.(*Logger).log < log/slog.(*Logger).Info < main.order < HANDLER`,
			Verdict: "telemetryblock",
			Want:    []cases.Want{{Detector: "telemetryblock", Function: "example.com/shop/ship.(*Handler).Handle", Blocked: 30, Holder: "example.com/shop/ship.(*Handler).Handle"}},
		},
		{
			Name: "near-miss: a handler of something else",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/shop/ship.(*Handler).Handle(0xc000100000)@20 < main.order < HANDLER`,
		},
		{
			Name: "a handler of log records behind another",
			Dump: `
				30 sync.Mutex.Lock: LOCK(0xc000100000) < sync.(*Mutex).Lock < example.com/shop/ship.(*Handler).Handle(0xc000100000)@20 < github.com/samber/slog-multi.(*FanoutHandler).Handle < log/slog.(*Logger).log < log/slog.(*Logger).Info < main.order < HANDLER`,
			Verdict: "telemetryblock",
			Want:    []cases.Want{{Detector: "telemetryblock", Function: "example.com/shop/ship.(*Handler).Handle", Blocked: 30}},
		},
	})
}
