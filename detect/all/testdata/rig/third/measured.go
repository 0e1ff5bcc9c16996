package main

import (
	"context"
	"expvar"
	"log"
	"net/http"
	"strconv"
	"time"

	"example.com/shop/internal/telemetry"
	"github.com/DataDog/datadog-go/v5/statsd"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otellog "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

func inhouseCounters() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { telemetry.Registry.Inc("requests") })
}

// slowExporter takes 5 ms for each batch of log records.
type slowExporter struct{}

func (slowExporter) Export(context.Context, []sdklog.Record) error {
	time.Sleep(5 * ms)
	return nil
}
func (slowExporter) Shutdown(context.Context) error   { return nil }
func (slowExporter) ForceFlush(context.Context) error { return nil }

func otelLog() http.Handler {
	p := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(slowExporter{})))
	logger := p.Logger("shop")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var rec otellog.Record
		rec.SetTimestamp(time.Now())
		rec.SetBody(attribute.StringValue("served"))
		logger.Emit(r.Context(), rec)
	})
}

func statsdChannel() http.Handler {
	c, err := statsd.New("127.0.0.1:9", statsd.WithChannelMode(), statsd.WithChannelModeBufferSize(64), statsd.WithoutTelemetry())
	if err != nil {
		log.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 200 {
			c.Distribution("shop.request", float64(i), []string{"path:/"}, 1)
		}
		time.Sleep(10 * ms)
	})
}

func prometheusHot() http.Handler {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "served_total"}, []string{"code"})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 20000 {
			v.WithLabelValues(strconv.Itoa(200 + i%8)).Inc()
		}
	})
}

func expvarHot() http.Handler {
	m := expvar.NewMap("served")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 20000 {
			m.Add(strconv.Itoa(200+i%8), 1)
		}
	})
}
