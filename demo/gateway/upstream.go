package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// idleUpstreams is enough for all requests of a surge to find a connection
	// again: dialling anew for each would leave the machine without ports.
	idleUpstreams = 1024
	// mostAnswer is the most of an upstream's answer that is read, in bytes.
	mostAnswer = 1 << 20
)

// newUpstreamClient makes a client for the service at address, instrumented in
// registry.
func newUpstreamClient(address string, registry prometheus.Registerer) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("expected the upstream to be an http URL with a host") // the address may have credentials
	}
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "client_in_flight_requests",
		Help: "Calls to the upstream that were started and not yet answered.",
	})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "http_client_request_duration_seconds",
		Help:    "Time from a call to the upstream until its answer.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15), // as of the requests that wait for it
	}, []string{"code"})
	registry.MustRegister(inFlight, duration)
	transport := &http.Transport{MaxIdleConns: idleUpstreams, MaxIdleConnsPerHost: idleUpstreams}
	return &http.Client{Transport: promhttp.InstrumentRoundTripperInFlight(inFlight,
		promhttp.InstrumentRoundTripperDuration(duration, transport))}, nil
}

// callUpstream asks the upstream and reads its answer.
func (g *gateway) callUpstream(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.cfg.Upstream, nil)
	if err != nil {
		return fmt.Errorf("ask the upstream: %w", err)
	}
	response, err := g.upstream.Do(request)
	if err != nil {
		return fmt.Errorf("ask the upstream: %w", err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, mostAnswer)); err != nil {
		return fmt.Errorf("read the upstream's answer: %w", err)
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("expected an answer of the upstream, saw status %d", response.StatusCode)
	}
	return nil
}
