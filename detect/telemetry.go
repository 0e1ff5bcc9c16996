package detect

import (
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// Telemetry says whether a frame is of code that measures, traces or logs.
type Telemetry struct {
	Is     bool
	ByWord bool   // only a path word says so: never ground for high confidence
	Name   string // the prefix or word that matched
}

// JudgeTelemetry looks at one frame, the site of a wait. Who calls it or is
// called by it does not matter: middleware further up a handler's stack does
// not make an application's lock telemetry.
func JudgeTelemetry(f *stacks.Frame, user []string) Telemetry {
	for _, p := range user {
		if hasPathPrefix(f.Package, p) || hasPathPrefix(f.Func, p) {
			return Telemetry{Is: true, Name: p}
		}
	}
	pkg := stacks.Unversioned(f.Package)
	if hasPathPrefix(pkg, "github.com/prometheus/client_golang/api") {
		return Telemetry{} // queries a Prometheus server: a client like any other
	}
	for _, p := range telemetryPrefixes {
		if hasPathPrefix(pkg, p) {
			return Telemetry{Is: true, Name: p}
		}
	}
	if telemetryStd[pkg] {
		return Telemetry{Is: true, Name: pkg}
	}
	if f.Std {
		return Telemetry{}
	}
	// A logger of one's own, wherever it stands: middleware that logs requests
	// is called LoggerWithConfig or requestLogger everywhere.
	for _, w := range append(stacks.Words(f.Type), stacks.Words(f.Name)...) {
		if w == "logger" {
			return Telemetry{Is: true, ByWord: true, Name: w}
		}
	}
	if pkg == "main" {
		return Telemetry{}
	}
	for _, e := range strings.Split(pkg, "/") {
		switch {
		case telemetryWords[e]:
			return Telemetry{Is: true, ByWord: true, Name: e}
		case logWords[e] && loggerType(f):
			return Telemetry{Is: true, ByWord: true, Name: e}
		}
	}
	return Telemetry{}
}

// hasPathPrefix reports whether pkg is prefix or lies below it. A prefix that
// ends in a slash or dot is taken as it is.
func hasPathPrefix(pkg, prefix string) bool {
	rest, ok := strings.CutPrefix(pkg, prefix)
	if !ok || prefix == "" {
		return false
	}
	return rest == "" || rest[0] == '/' || rest[0] == '.' || strings.HasSuffix(prefix, "/")
}

// telemetryPrefixes are import paths without major versions. Each library was
// seen holding its callers, in a run or in a public report, or is its like.
var telemetryPrefixes = []string{
	// Metrics.
	"github.com/prometheus/client_golang", "github.com/VictoriaMetrics/metrics", "github.com/rcrowley/go-metrics",
	"github.com/hashicorp/go-metrics", "github.com/armon/go-metrics", "github.com/go-kit/kit/metrics", "github.com/uber-go/tally",
	"github.com/cactus/go-statsd-client", "github.com/smira/go-statsd", "gopkg.in/alexcesaro/statsd", "gopkg.in/alexcesaro/statsd.v2", "github.com/quipo/statsd", "github.com/segmentio/stats",
	"github.com/DataDog/datadog-go", "github.com/uber/jaeger-lib",
	// Traces and agents.
	"go.opentelemetry.io/otel", "go.opentelemetry.io/contrib", "go.opencensus.io", "contrib.go.opencensus.io", "github.com/census-instrumentation",
	"github.com/DataDog/dd-trace-go", "gopkg.in/DataDog/dd-trace-go.v1", "github.com/newrelic/go-agent", "go.elastic.co/apm", "go.elastic.co/ecszap",
	"github.com/getsentry/sentry-go", "github.com/getsentry/raven-go", "github.com/honeycombio/libhoney-go", "github.com/honeycombio/beeline-go",
	"github.com/uber/jaeger-client-go", "github.com/openzipkin/zipkin-go", "github.com/openzipkin-contrib/zipkin-go-opentracing", "github.com/opentracing/opentracing-go",
	"github.com/aws/aws-xray-sdk-go", "github.com/lightstep", "github.com/instana/go-sensor", "github.com/instana/golang-sensor", "github.com/rollbar/rollbar-go", "github.com/bugsnag/bugsnag-go",
	"github.com/SkyAPM/go2sky", "github.com/apache/skywalking-go", "cloud.google.com/go/trace", "cloud.google.com/go/profiler", "github.com/signalfx", "github.com/wavefronthq",
	// Logs.
	"go.uber.org/zap", "github.com/sirupsen/logrus", "github.com/Sirupsen/logrus", "github.com/rs/zerolog", "github.com/golang/glog", "k8s.io/klog", "github.com/go-logr",
	"github.com/go-kit/log", "github.com/go-kit/kit/log", "gopkg.in/natefinch/lumberjack", "gopkg.in/natefinch/lumberjack.v2", "github.com/natefinch/lumberjack", "github.com/lestrrat-go/file-rotatelogs",
	"github.com/arthurkiller/rollingwriter", "github.com/hashicorp/go-hclog", "github.com/inconshreveable/log15", "gopkg.in/inconshreveable/log15.v2", "github.com/apex/log", "github.com/op/go-logging",
	"github.com/cihub/seelog", "github.com/pingcap/log", "github.com/charmbracelet/log", "github.com/phuslu/log", "github.com/fluent/fluent-logger-golang", "cloud.google.com/go/logging",
	"golang.org/x/exp/slog", "google.golang.org/grpc/grpclog", "google.golang.org/grpc/internal/grpclog", "github.com/ipfs/go-log", "github.com/juju/loggo", "github.com/sirupsen",
	// Profilers.
	"github.com/grafana/pyroscope-go", "github.com/pyroscope-io/client", "github.com/google/gops",
}

// telemetryStd are the standard library's own, matched exactly: package log
// has no telemetry below it but slog and syslog.
var telemetryStd = map[string]bool{
	"log": true, "log/slog": true, "log/slog/internal/buffer": true, "log/syslog": true, "expvar": true,
	"runtime/trace": true, "runtime/metrics": true, "golang.org/x/net/trace": true,
}

// telemetryWords are path elements that in-house telemetry goes by. A word is
// a hint, since a package can be named for metrics and keep application state.
var telemetryWords = map[string]bool{
	"telemetry": true, "metrics": true, "metric": true, "tracing": true, "observability": true, "instrumentation": true, "otel": true, "statsd": true, "opentelemetry": true,
}

// logWords count only where the site itself is a writer or logger: a raft log
// and a commit log are no telemetry.
var logWords = map[string]bool{"log": true, "logs": true, "logger": true, "logging": true, "logutil": true, "applog": true}

func loggerType(f *stacks.Frame) bool {
	name := f.Type
	if name == "" {
		name = f.Name
	}
	for _, w := range stacks.Words(name) {
		switch w {
		case "logger", "writer", "syncer", "sink", "handler", "appender", "logf", "printf":
			return true
		}
	}
	return false
}
