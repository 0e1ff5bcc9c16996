package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracer records a span for each request.
type tracer struct {
	tracer trace.Tracer
}

func newTracer(ctx context.Context, cfg Config) *tracer {
	var process sdktrace.SpanProcessor
	if exporter := (slowExporter{cfg.Hold}); cfg.Faulty {
		process = sdktrace.NewSimpleSpanProcessor(exporter)
	} else {
		process = sdktrace.NewBatchSpanProcessor(exporter) // drops spans when its queue is full, unless told to block
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(process),
		sdktrace.WithResource(resource.Empty()), // asks neither host nor environment
		sdktrace.WithSampler(sdktrace.AlwaysSample()))
	context.AfterFunc(ctx, func() { provider.Shutdown(context.Background()) })
	return &tracer{provider.Tracer("github.com/contend/contend/demo/telemetry")}
}

// Record implements Recorder.
func (t *tracer) Record(route, method string, status int, elapsed time.Duration) {
	end := time.Now()
	_, span := t.tracer.Start(context.Background(), method+" "+route,
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(end.Add(-elapsed)),
		trace.WithAttributes(attribute.String("http.route", route), attribute.Int("http.response.status_code", status)))
	span.End(trace.WithTimestamp(end))
}

// slowExporter stands for a collector of spans that takes its time to answer,
// for one span as for a batch.
type slowExporter struct{ takes time.Duration }

// ExportSpans implements the SDK's SpanExporter.
func (e slowExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	time.Sleep(e.takes)
	return nil
}

// Shutdown implements the SDK's SpanExporter.
func (e slowExporter) Shutdown(context.Context) error { return nil }
