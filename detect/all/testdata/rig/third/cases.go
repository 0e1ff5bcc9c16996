package main

import "time"

const ms = time.Millisecond

var cases = map[string]service{
	// Servers and clients.
	"chi-zerolog":          {start: chiZerolog, load: load{N: 100, Pause: 10 * ms}},
	"gin-zap-lock":         {start: ginZapLock, load: load{N: 120}},
	"echo-slog-pipe":       {start: echoSlogPipe, load: load{N: 120}, inside: true},
	"timeout-handler-lock": {start: timeoutHandlerLock, load: load{N: 100}, inside: true},
	"h2-healthy":           {start: sleepy, load: load{N: 100, Pause: 20 * ms, HTTP2: true}},
	"h2-lock":              {start: lockHeldOverCall, load: load{N: 100, HTTP2: true}, inside: true},
	"h2-slow-upstream":     {start: slowHTTP2, load: load{N: 120}},
	"proxy-healthy":        {start: proxy(20), load: load{N: 100, Pause: 5 * ms}},
	"proxy-slow":           {start: proxy(1500), load: load{N: 150}},
	"grpc-counters":        {start: grpcCounters, load: load{N: 100, GRPC: true}},
	"blackhole":            {start: blackhole, load: load{Rate: 30}},
	"h2-quick-upstream":    {start: quickHTTP2, load: load{N: 100, Pause: 5 * ms}},
	"upstream-stalls":      {start: upstreamStalls, load: load{N: 150, Pause: 100 * ms}},
	"two-upstreams":        {start: twoUpstreams, load: load{N: 90}},
	"exec-wait":            {start: execWait, load: load{N: 30}},
	"rate-limiter":         {start: rateLimiter, load: load{N: 100}, inside: true},
	"pool-of-one":          {start: poolOfOne, load: load{N: 3}},
	// Locks.
	"sse-broadcast":  {start: sseBroadcast, load: load{Streams: 60, Rate: 25, Path: "/publish"}},
	"range-callback": {start: rangeCallback, load: load{N: 120}},
	"keyed-hot":      {start: keyedHot, load: load{N: 110, Pause: 5 * ms}},
	"journal-pipe":   {start: journalPipe, load: load{N: 100}, inside: true},
	"lru-convoy":     {start: lruConvoy, load: load{N: 64}},
	"syncmap-ctor":   {start: syncMapConstructor, load: load{N: 100}},
	"spooler":        {start: spoolerTake, load: load{N: 100}},
	"publish-full":   {start: publishFull, load: load{N: 100}},
	"blogger":        {start: bloggerIndex, load: load{N: 100}},
	"begin-end":      {start: beginEnd, load: load{N: 100}},
	"bbolt":          {start: boltUpdates, load: load{N: 80}, inside: true},
	"five-requests":  {start: fiveRequests, load: load{N: 5}},
	"hung-dumps":     {start: hungDumps, load: load{N: 80}},
	// Telemetry.
	"inhouse-counters": {start: inhouseCounters, load: load{N: 120}, inside: true},
	"otel-log":         {start: otelLog, load: load{N: 100}},
	"statsd-channel":   {start: statsdChannel, load: load{N: 60, Pause: 10 * ms}},
	"prometheus-hot":   {start: prometheusHot, load: load{N: 16, Pause: 5 * ms}},
	"expvar-hot":       {start: expvarHot, load: load{N: 16, Pause: 5 * ms}, inside: true},
	// Work without requests, leaks, CPU.
	"group-idle":     {start: groupIdle},
	"group-lock":     {start: groupLock},
	"worker-loop":    {start: workerLoop},
	"worker-reserve": {start: workerReserve},
	"worker-pq":      {start: workerPq},
	"cron-idle":      {start: cronIdle},
	"fresh":          {start: sleepy, warm: 200 * ms},
	"leak-ticker":    {start: leakTicker, load: load{Rate: 60}},
	"errgroup":       {start: errgroupSend, load: load{Rate: 25}},
	"memory-limit":   {start: memoryLimit, load: load{N: 24}},
	"cpu-one":        {start: cpuOne, load: load{N: 30}},
	"cgo-usleep":     {start: cgoUsleep, load: load{N: 50}},
}
