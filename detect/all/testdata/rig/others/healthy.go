package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/DataDog/datadog-go/v5/statsd"
	"github.com/gorilla/websocket"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// chatAddr is the address of a service without net/http.
var chatAddr string

func healthy() map[string]service {
	light := plan{Kind: "closed", N: 4, Pause: 20 * time.Millisecond, Timeout: 5 * time.Second}
	return map[string]service{
		"healthy-sse":        {start: eventStreams, load: plan{Kind: "sse", N: 800, Side: 4, Pause: 20 * time.Millisecond}},
		"healthy-websockets": {start: websockets, load: plan{Kind: "ws", N: 600, Side: 4, Pause: 20 * time.Millisecond}},
		"healthy-hijack":     {start: hijacked, load: plan{Kind: "sse", N: 400, Side: 4, Pause: 20 * time.Millisecond}},
		"healthy-grpc-bidi":  {start: bidi, load: plan{Kind: "grpc", N: 400}},
		"healthy-chat":       {start: chat, load: plan{Kind: "chat", N: 600}},
		"healthy-workers":    {start: idleWorkers, load: light},
		"healthy-gateway":    {start: gateway(20), load: plan{Kind: "closed", N: 60, Pause: 20 * time.Millisecond}},
		"healthy-telemetry":  {start: telemetryAtRest, load: light},
		"healthy-cpu":        {start: hashing, load: plan{Kind: "closed", N: 4, Pause: 3 * time.Millisecond}},
		"healthy-gc":         {start: garbage, load: plan{Kind: "closed", N: 6, Pause: 2 * time.Millisecond}},
		"healthy-mutex":      {start: shortMutex, load: closed(100)},
		"healthy-idle-conns": {start: idleConns, load: light},
	}
}

// eventStreams sends events when there are any.
func eventStreams(addresses) http.Handler {
	var subscribers sync.Map
	go func() {
		for range time.Tick(500 * time.Millisecond) {
			n := 0
			for _, s := range subscribers.Range {
				if n++; n%40 == 0 {
					select {
					case s.(chan string) <- "price":
					default:
					}
				}
			}
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		events := make(chan string, 8)
		subscribers.Store(events, events)
		defer subscribers.Delete(events)
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-events:
				fmt.Fprintf(w, "data: %s\n\n", e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, nil) })
	return mux
}

// websockets has the usual pair for each connection: the handler reads, and a
// goroutine beside it writes.
func websockets(addresses) http.Handler {
	var up websocket.Upgrader
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		out := make(chan []byte, 4)
		go func() {
			for m := range out {
				conn.WriteMessage(websocket.TextMessage, m)
			}
		}()
		for {
			_, m, err := conn.ReadMessage()
			if err != nil {
				close(out)
				return
			}
			out <- m
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, nil) })
	return mux
}

// hijacked takes the connection over and reads its client's frames by hand.
func hijacked(addresses) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nhello\n")
		header := make([]byte, 4)
		for {
			if _, err := io.ReadFull(conn, header); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, nil) })
	return mux
}

// bidi keeps a gRPC stream open for each client and waits for what it says.
func bidi(addresses) http.Handler {
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "rig.Feed", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{StreamName: "Follow", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error { return follow(stream) }}}}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	chatAddr = l.Addr().String()
	go s.Serve(l)
	return nil
}

func follow(stream grpc.ServerStream) error {
	for {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
			return err
		}
	}
}

// chat has two goroutines for each connection and knows nothing of HTTP.
type room struct {
	mu      sync.Mutex
	members map[*member]bool
}

type member struct {
	conn net.Conn
	out  chan string
}

func chat(addresses) http.Handler {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	chatAddr = l.Addr().String()
	r := &room{members: map[*member]bool{}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m := &member{conn, make(chan string, 16)}
			r.mu.Lock()
			r.members[m] = true
			r.mu.Unlock()
			go m.deliver()
			go r.hear(m)
		}
	}()
	return nil
}

func (m *member) deliver() {
	for line := range m.out {
		io.WriteString(m.conn, line)
	}
}

func (r *room) hear(m *member) {
	lines := bufio.NewScanner(m.conn)
	for lines.Scan() {
		r.mu.Lock()
		for to := range r.members {
			select {
			case to.out <- lines.Text() + "\n":
			default:
			}
		}
		r.mu.Unlock()
	}
}

// idleWorkers has more workers than work: 400 at a channel, 200 at a condition.
func idleWorkers(addresses) http.Handler {
	jobs := make(chan func())
	for range 400 {
		go func() {
			for job := range jobs {
				job()
			}
		}()
	}
	q := &queue{}
	q.more.L = &q.mu
	for range 200 {
		go q.drain()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done := make(chan struct{})
		jobs <- func() { q.put("mail"); close(done) }
		<-done
		ok(w, nil)
	})
}

type queue struct {
	mu    sync.Mutex
	more  sync.Cond
	items []string
}

func (q *queue) put(s string) {
	q.mu.Lock()
	q.items = append(q.items, s)
	q.mu.Unlock()
	q.more.Signal()
}

func (q *queue) drain() {
	for {
		q.mu.Lock()
		for len(q.items) == 0 {
			q.more.Wait()
		}
		q.items = q.items[1:]
		q.mu.Unlock()
	}
}

// gateway passes every request to the dependency, which takes ms.
func gateway(ms int) func(addresses) http.Handler {
	return func(dep addresses) http.Handler {
		c := upstream()
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ok(w, fetch(r.Context(), c, fmt.Sprintf("%s/?ms=%d", dep.HTTP, ms)))
		})
	}
}

type discardSpans struct{}

func (discardSpans) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discardSpans) Shutdown(context.Context) error                             { return nil }

type discardMetrics struct{ sdkmetric.Exporter }

func (discardMetrics) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}
func (discardMetrics) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}
func (discardMetrics) Export(context.Context, *metricdata.ResourceMetrics) error { return nil }

// telemetryAtRest has the workers of three telemetry libraries waiting for work.
func telemetryAtRest(dep addresses) http.Handler {
	spans := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discardSpans{}), sdktrace.WithBatcher(discardSpans{}))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(discardMetrics{})))
	stats, err := statsd.New("127.0.0.1:8125", statsd.WithChannelMode(), statsd.WithWorkersCount(32))
	if err != nil {
		log.Fatal(err)
	}
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), &zapcore.BufferedWriteSyncer{WS: zapcore.AddSync(io.Discard)}, zap.InfoLevel))
	seen, _ := meters.Meter("rig").Int64Counter("visits")
	tracer := spans.Tracer("rig")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), "visit")
		defer span.End()
		seen.Add(ctx, 1)
		stats.Incr("visits", nil, 1)
		logger.Info("visit", zap.String("path", r.URL.Path))
		ok(w, nil)
	})
}

func hashing(addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sum [32]byte
		for range 20000 {
			sum = sha256.Sum256(sum[:])
		}
		fmt.Fprintf(w, "%x\n", sum)
	})
}

// garbage keeps a large live heap and allocates much for each request.
func garbage(addresses) http.Handler {
	live := make([]map[int]*[64]byte, 40)
	for i := range live {
		live[i] = map[int]*[64]byte{}
		for k := range 20000 {
			live[i][k] = new([64]byte)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var parts [][]byte
		for range 2000 {
			parts = append(parts, make([]byte, 1024))
		}
		fmt.Fprintln(w, len(parts), len(live))
	})
}

// shortMutex has a lock that a few of a hundred requests wait for; most are in
// a long poll, which is what they are for.
func shortMutex(addresses) http.Handler {
	var mu sync.Mutex
	count := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-r.Context().Done():
		}
		mu.Lock()
		count[r.URL.Path]++
		time.Sleep(2300 * time.Microsecond)
		mu.Unlock()
		ok(w, nil)
	})
}

// idleConns has been through a burst: 150 connections to the dependency are kept.
func idleConns(dep addresses) http.Handler {
	c := upstream()
	var burst sync.WaitGroup
	for range 150 {
		burst.Go(func() { fetch(context.Background(), c, dep.HTTP+"/?ms=300") })
	}
	burst.Wait()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok(w, fetch(r.Context(), c, dep.HTTP+"/?ms=2"))
	})
}
