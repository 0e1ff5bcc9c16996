package main

import (
	"net/http"
	"strings"

	ddhttp "github.com/DataDog/dd-trace-go/contrib/net/http/v2"
	"github.com/DataDog/dd-trace-go/v2/ddtrace/tracer"
	"github.com/getsentry/sentry-go"
	sentryhttp "github.com/getsentry/sentry-go/http"
	"github.com/newrelic/go-agent/v3/newrelic"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// middlewares stand on the root side of a request's stack. None of them
// reaches its backend, which is off or not there.
var middlewares = []struct {
	name string
	wrap func(http.Handler) (http.Handler, error)
}{
	{"otelhttp", wrapOtel},
	{"promhttp", wrapPrometheus},
	{"newrelic", wrapNewRelic},
	{"datadog", wrapDatadog},
	{"sentry", wrapSentry},
}

func wrapOtel(h http.Handler) (http.Handler, error) {
	return otelhttp.NewHandler(h, "item", otelhttp.WithTracerProvider(sdktrace.NewTracerProvider())), nil
}

func wrapPrometheus(h http.Handler) (http.Handler, error) {
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{Name: "in_flight", Help: "Requests being served."})
	total := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total", Help: "Requests served."}, []string{"code"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "request_seconds", Help: "Time to serve."}, []string{"code"})
	return promhttp.InstrumentHandlerInFlight(inFlight,
		promhttp.InstrumentHandlerDuration(seconds,
			promhttp.InstrumentHandlerCounter(total, h))), nil
}

func wrapNewRelic(h http.Handler) (http.Handler, error) {
	app, err := newrelic.NewApplication(
		newrelic.ConfigAppName("shop"),
		newrelic.ConfigLicense(strings.Repeat("0", 40)), // the length it insists on
		newrelic.ConfigEnabled(false))
	if err != nil {
		return nil, err
	}
	_, h = newrelic.WrapHandle(app, "/item", h)
	return h, nil
}

func wrapDatadog(h http.Handler) (http.Handler, error) {
	// Port 1 is closed: the tracer drops what it cannot send.
	if err := tracer.Start(tracer.WithAgentAddr("127.0.0.1:1"), tracer.WithService("shop"), tracer.WithLogStartup(false)); err != nil {
		return nil, err
	}
	return ddhttp.WrapHandler(h, "shop", "/item"), nil
}

func wrapSentry(h http.Handler) (http.Handler, error) {
	if err := sentry.Init(sentry.ClientOptions{}); err != nil {
		return nil, err
	}
	return sentryhttp.New(sentryhttp.Options{}).Handle(h), nil
}
