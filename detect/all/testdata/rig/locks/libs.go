//go:build libs

package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rcrowley/go-metrics"
	"github.com/rs/zerolog"
	"github.com/sirupsen/logrus"
	"github.com/valyala/fasthttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func init() {
	for name, s := range map[string]service{
		"zap-slow-pipe":        {clients: 150, log: "slow", serve: zapSlow},
		"slog-stopped":         {clients: 150, log: "stopped", serve: slogStopped},
		"zerolog-stdout":       {clients: 150, inside: true, log: "slow", serve: zerologStdout},
		"otel-simple-exporter": {clients: 150, serve: otelSimple},
		"otel-batch-blocking":  {clients: 150, inside: true, serve: otelBatch},
		"rcrowley-percentile":  {clients: 120, serve: rcrowley},
		"statsd-buffer":        {clients: 150, inside: true, serve: statsdBuffer},
		"prometheus-collect":   {clients: 150, serve: prometheusCollect},
		"gauge-callback":       {clients: 150, serve: gaugeCallback},
		"loops-zap":            {clients: 160, log: "slow", serve: loopsZap, client: lineClient},
		"grpc-applock":         {clients: 150, inside: true, serve: grpcLock, client: grpcClient},
		"fasthttp-applock":     {clients: 150, serve: fasthttpLock},
		"http2-logrus":         {clients: 150, inside: true, log: "slow", serve: http2Logrus, client: http2Client},
		"rand-app":             {clients: 100, serve: randApp},
	} {
		services[name] = s
	}
}

// zapSlow: zap writes to a pipe that is read at 200 kB a second.
func zapSlow(ln net.Listener) {
	logger, err := zap.NewProduction()
	check(err)
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		logger.Error("order", zap.Int64("n", n), zap.String("text", text))
	})
}

func slogStopped(ln net.Listener) {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		logger.InfoContext(r.Context(), "order", "n", n, "text", text)
	})
}

// zerologStdout: zerolog has no lock of its own; goroutines queue for the descriptor.
func zerologStdout(ln net.Listener) {
	logger := zerolog.New(os.Stdout)
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		logger.Info().Int64("n", n).Msg(text)
	})
}

// exporter sends spans to the back end, which takes ms for each call.
type exporter struct{ ms int }

func (e exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return ask(e.ms)
}
func (e exporter) Shutdown(context.Context) error { return nil }

// otelSimple: every span is exported under the simple processor's one lock.
func otelSimple(ln net.Listener) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter{ms: 5})).Tracer("orders")
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		_, span := tracer.Start(r.Context(), "order")
		defer span.End()
		fmt.Fprintln(w, n)
	})
}

// otelBatch: a full queue that blocks instead of dropping, before a slow exporter.
func otelBatch(ln net.Listener) {
	tracer := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter{ms: 300},
		sdktrace.WithBlocking(), sdktrace.WithMaxQueueSize(64), sdktrace.WithMaxExportBatchSize(32))).Tracer("orders")
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		_, span := tracer.Start(r.Context(), "order")
		defer span.End()
		fmt.Fprintln(w, n)
	})
}

// rcrowley: a time-out is derived from the timer's own percentile on each
// request, which sorts a large sample under its lock.
func rcrowley(ln net.Listener) {
	h := metrics.GetOrRegisterHistogram("order", nil, metrics.NewUniformSample(50000))
	for i := 0; i < 50000; i++ {
		h.Update(int64(i * 7919 % 50021))
	}
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		h.Update(n)
		fmt.Fprintln(w, h.Percentile(0.99))
	})
}

// acknowledged is a statsd transport that waits for the relay's answer.
type acknowledged struct{}

func (acknowledged) Send(data []byte) (int, error) { return len(data), ask(20) }
func (acknowledged) Close() error                  { return nil }

func statsdBuffer(ln net.Listener) {
	sender, err := statsd.NewBufferedSenderWithSender(acknowledged{}, 50*time.Millisecond, 1432)
	check(err)
	client, err := statsd.NewClientWithSender(sender, "orders", 0)
	check(err)
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		for i := 0; i < 10; i++ {
			client.Inc("a.rather.long.name.of.a.counter.of.orders."+strconv.FormatInt(n%100, 10), 1, 1)
		}
	})
}

// slowly is a collector that relabels what a vector collects, slowly, while the
// vector waits under its read lock.
type slowly struct{ *prometheus.CounterVec }

func (s slowly) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		s.CounterVec.Collect(all)
	}()
	for m := range all {
		var d dto.Metric
		m.Write(&d)
		time.Sleep(2 * time.Millisecond)
		ch <- m
	}
}

// prometheusCollect: a scrape under way, one request with a new label waiting for it, and all
// others waiting behind that one.
func prometheusCollect(ln net.Listener) {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "orders_total"}, []string{"customer"})
	for i := 0; i < 200; i++ {
		vec.WithLabelValues(strconv.Itoa(i)).Inc()
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(slowly{vec})
	go func() {
		for {
			reg.Gather()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n%500 == 0 {
			vec.WithLabelValues("new" + strconv.FormatInt(n, 10)).Inc()
		}
		vec.WithLabelValues(strconv.FormatInt(n%200, 10)).Inc()
	})
}

// loopsZap: no handlers. Readers of connections hand lines to eight loops, and
// all loops are blocked on the logger.
func loopsZap(ln net.Listener) {
	logger, err := zap.NewProduction()
	check(err)
	var loops [8]chan string
	for i := range loops {
		loops[i] = make(chan string)
		go eventLoop(loops[i], logger)
	}
	for i := 0; ; i++ {
		c, err := ln.Accept()
		check(err)
		go readConn(c, loops[i%len(loops)])
	}
}

func eventLoop(events <-chan string, logger *zap.Logger) {
	for e := range events {
		logger.Error("event", zap.String("line", e), zap.String("text", text))
	}
}

func readConn(c net.Conn, events chan<- string) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		events <- lines.Text()
	}
}

// lineClient sends lines without waiting for answers.
func lineClient(clients int) func(caller, n int) error {
	conns := make([]net.Conn, clients)
	return func(caller, n int) (err error) {
		if conns[caller] == nil {
			if conns[caller], err = net.Dial("tcp", serviceAddr); err != nil {
				conns[caller] = nil
				return err
			}
		}
		_, err = fmt.Fprintf(conns[caller], "event %d of %d\n", n, caller)
		return err
	}
}

// reserveServer is a gRPC service whose method waits for the stock's lock.
type reserveServer struct{ stock *stock }

func (s *reserveServer) Reserve(ctx context.Context, n *wrapperspb.Int64Value) (*wrapperspb.Int64Value, error) {
	return n, s.stock.reserve(n.Value)
}

var reserveService = grpc.ServiceDesc{
	ServiceName: "orders.Stock",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Reserve", Handler: func(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.Int64Value)
		if err := dec(in); err != nil {
			return nil, err
		}
		return srv.(*reserveServer).Reserve(ctx, in)
	}}},
}

func grpcLock(ln net.Listener) {
	s := grpc.NewServer()
	s.RegisterService(&reserveService, &reserveServer{&stock{count: map[int64]int{}}})
	s.Serve(ln)
}

func grpcClient(clients int) func(caller, n int) error {
	cc, err := grpc.NewClient(serviceAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	return func(caller, n int) error {
		return cc.Invoke(context.Background(), "/orders.Stock/Reserve", wrapperspb.Int64(int64(n)), new(wrapperspb.Int64Value))
	}
}

func fasthttpLock(ln net.Listener) {
	s := &stock{count: map[int64]int{}}
	fasthttp.Serve(ln, func(ctx *fasthttp.RequestCtx) {
		if err := s.refill(int64(ctx.ID())); err != nil {
			ctx.Error(err.Error(), 500)
		}
	})
}

// http2Logrus: HTTP/2 without TLS; logrus writes to a pipe that is read slowly.
func http2Logrus(ln net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("/order/", func(w http.ResponseWriter, r *http.Request) {
		logrus.WithField("path", r.URL.Path).Info(text)
	})
	s := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	s.Serve(ln)
}

func http2Client(clients int) func(caller, n int) error {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	c := &http.Client{Transport: tr}
	return func(caller, n int) error {
		resp, err := c.Get(fmt.Sprintf("http://%s/order/%d", serviceAddr, n))
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}

// entropy is a random source that asks a slow device, under its own lock.
type entropy struct {
	mu  sync.Mutex
	sum int64
}

func (e *entropy) Seed(int64) {}

func (e *entropy) Int63() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	time.Sleep(time.Millisecond)
	e.sum = e.sum*6364136223846793005 + 1442695040888963407
	return int64(uint64(e.sum) >> 1)
}

// randApp: orders are numbered from one shared, slow random source.
func randApp(ln net.Listener) {
	rng := rand.New(&entropy{})
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, rng.Int63n(1000))
	})
}

// gaugeCallback: a scrape calls back into the application, which counts slowly
// under the lock that requests need.
func gaugeCallback(ln net.Listener) {
	s := &stock{count: map[int64]int{}}
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "orders_in_stock"}, func() float64 { return s.sum() }))
	go func() {
		for {
			reg.Gather()
			time.Sleep(time.Millisecond)
		}
	}()
	handle(ln, func(n int64, w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.count[n%100]++
		s.mu.Unlock()
	})
}

func (s *stock) sum() (sum float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.count {
		sum += float64(n)
	}
	ask(300)
	return sum
}
