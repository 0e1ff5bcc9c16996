package detect

import (
	"testing"

	"github.com/contend/contend/ingest/stacks"
)

func TestJudgeTelemetry(t *testing.T) {
	t.Parallel()
	const yes, word, no = "yes", "by word", "no"
	for _, c := range []struct{ name, file, want string }{
		{"github.com/prometheus/client_golang/prometheus.(*Registry).Register", "", yes},
		{"github.com/prometheus/client_golang/api.(*httpClient).Do", "", no},
		{"go.opentelemetry.io/otel/sdk/metric.(*cache[go.shape.string]).Lookup", "", yes},
		{"app/vendor/github.com/instana/golang-sensor.(*SpanRecorder).RecordSpan", "", yes},
		{"gopkg.in/natefinch/lumberjack%2ev2.(*Logger).Write", "", yes},
		{"github.com/DataDog/datadog-go/v5/statsd.(*worker).processMetric", "", yes},
		{"gopkg.in/DataDog/dd-trace-go.v1/internal/globalconfig.SetServiceName", "", yes},
		{"k8s.io/klog/v2.(*loggingT).output", "", yes},
		{"log.(*Logger).output", "/usr/local/go/src/log/log.go", yes},
		{"log/slog.(*commonHandler).handle", "/usr/local/go/src/log/slog/handler.go", yes},
		{"expvar.(*Map).Add", "/usr/local/go/src/expvar/expvar.go", yes},
		// A closure that inlining put under its caller's package is its file's.
		{"main.main.InstrumentHandlerInFlight.func4", "/go/pkg/mod/github.com/prometheus/client_golang@v1.25.0/prometheus/promhttp/instrument_server.go", yes},

		{"example.com/shop/pkg/telemetry.(*Recorder).Count", "", word},
		{"example.com/shop/internal/metrics.(*Figures).Price", "", word},
		{"example.com/shop/log.(*fileWriter).Write", "", word},
		{"github.com/gin-gonic/gin.LoggerWithConfig.func1", "", word},
		{"main.(*requestLogger).log", "", word},
		{"main.(*JSONLogger).Info", "", word},

		{"example.com/db/raft/log.(*storage).append", "", no},
		{"example.com/db/commitlog.(*Segment).Write", "", no},
		{"github.com/prometheus/client_golangish.(*T).M", "", no},
		{"crypto/rand.(*devReader).Read", "/usr/local/go/src/crypto/rand/rand_unix.go", no},
		{"database/sql.(*DB).conn", "/usr/local/go/src/database/sql/sql.go", no},
		{"main.(*cache).get", "/src/main.go", no},
		{"main.(*bloggerDirectory).find", "/src/main.go", no},
		{"logarithm.Table.Lookup", "/src/logarithm/l.go", no},
	} {
		f := stacks.NewFrame(c.name, c.file, 1)
		got := no
		if j := JudgeTelemetry(f, nil); j.ByWord {
			got = word
		} else if j.Is {
			got = yes
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	own := stacks.NewFrame("example.com/shop/audit.(*Trail).Add", "", 1)
	if j := JudgeTelemetry(own, []string{"example.com/shop/audit"}); !j.Is || j.ByWord {
		t.Errorf("a user's prefix: %+v, want telemetry without a doubt", j)
	}
	if j := JudgeTelemetry(own, []string{"example.com/shop/aud"}); j.Is {
		t.Errorf("a prefix that ends within a path element: %+v, want none", j)
	}
}

func TestIsRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		frames []string // leaf first
		want   bool
	}{
		{"a handler", []string{"main.h", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}, true},
		{"a handler whose inlined frames are missing", []string{"main.h", "net/http.(*conn).serve"}, true},
		{"a handler whose stack was cut at the root", []string{"main.h", "net/http.HandlerFunc.ServeHTTP", "example.com/mux.(*Router).ServeHTTP"}, true},
		{"an idle connection", []string{"net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek", "net/http.(*conn).serve"}, false},
		{"a TLS handshake", []string{"net.(*conn).Read", "crypto/tls.(*Conn).readRecord", "crypto/tls.(*Conn).HandshakeContext", "net/http.(*conn).serve"}, false},
		{"what http.TimeoutHandler starts", []string{"main.h", "net/http.HandlerFunc.ServeHTTP", "net/http.(*timeoutHandler).ServeHTTP.func1"}, true}, // its starter shows that it is a helper
		{"HTTP/2", []string{"main.h", "net/http.HandlerFunc.ServeHTTP", "net/http.(*http2serverConn).runHandler"}, true},
		{"gRPC", []string{"main.(*srv).Get", "example.com/pb._Shop_Get_Handler", "google.golang.org/grpc.(*Server).processUnaryRPC", "google.golang.org/grpc.(*Server).handleStream"}, true},
		{"fasthttp", []string{"main.h", "github.com/valyala/fasthttp.CompressHandlerBrotliLevel.func1", "github.com/valyala/fasthttp.(*Server).serveConn", "github.com/valyala/fasthttp.(*workerPool).workerFunc"}, true},
		{"fasthttp between requests", []string{"bufio.(*Reader).Peek", "github.com/valyala/fasthttp.(*RequestHeader).Read", "github.com/valyala/fasthttp.(*Server).serveConn"}, false},
		{"a client", []string{"net/http.(*persistConn).roundTrip", "net/http.(*Client).Do", "main.load"}, false},
		{"a worker", []string{"main.work", "main.main.func1"}, false},
	} {
		var frames []*stacks.Frame
		for _, f := range c.frames {
			frames = append(frames, stacks.NewFrame(f, "", 0))
		}
		if got := IsRequest(frames); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
