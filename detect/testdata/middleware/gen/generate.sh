#!/bin/sh
# Writes the captures of the parent folder, one folder each. The profiles hold
# the path of the binary, so it is built at a neutral one.
set -eu
cd "$(dirname "$0")"
bin=${BIN:-/opt/shop/shop}
mkdir -p "$(dirname "$bin")"
CGO_ENABLED=0 go build -buildvcs=false -trimpath -o "$bin" .
export DD_INSTRUMENTATION_TELEMETRY_ENABLED=false DD_REMOTE_CONFIGURATION_ENABLED=false DD_TRACE_DEBUG=false

capture() { # case [flags]
	dir=../$1
	rm -rf "$dir" && mkdir -p "$dir"
	case=$1
	shift
	"$bin" -case "$case" -out "$dir" "$@" 2>/dev/null
	gzip -9nf "$dir/goroutine.debug2.txt"
	echo "$case done"
}

# The clients of the first group stand in their own process.
for c in otelhttp-lock otelhttp-pool promhttp-pool newrelic-pool datadog-lock sentry-lock otel-exporter zap-sink; do
	capture $c
done
for c in promhttp-lock newrelic-lock datadog-pool sentry-pool logrus-pipe; do
	capture $c -inside
done
rm -f "$bin"
