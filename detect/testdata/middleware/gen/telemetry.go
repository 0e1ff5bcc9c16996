package main

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The handlers of this file wait for telemetry: one request is inside the
// exporter or sink, and the others wait for the lock around it.

func spans() http.Handler {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter{}))
	tracer := provider.Tracer("shop")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, span := tracer.Start(r.Context(), "item")
		w.WriteHeader(http.StatusNoContent)
		span.End()
	})
}

type exporter struct{}

func (exporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-never
	return nil
}

func (exporter) Shutdown(context.Context) error { return nil }

func zapLogger() http.Handler {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(sink{}), zap.InfoLevel)
	logger := zap.New(core)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger.Info("item", zap.String("id", r.FormValue("id")))
		w.WriteHeader(http.StatusNoContent)
	})
}

// sink is a destination that has stopped taking anything.
type sink struct{}

func (sink) Write(p []byte) (int, error) {
	<-never
	return len(p), nil
}

func (sink) Sync() error { return nil }

// logrusLogger writes to a pipe that is full and that nobody reads.
func logrusLogger() (http.Handler, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	w.SetWriteDeadline(time.Time{})
	logger := logrus.New()
	logger.SetOutput(w)
	reader = r
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger.WithField("id", r.FormValue("id")).Info("item")
		w.WriteHeader(http.StatusNoContent)
	}), nil
}

// reader keeps the pipe's other end open.
var reader *os.File
