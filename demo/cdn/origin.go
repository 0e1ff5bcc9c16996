package cdn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// What counts of the asset is its time. It is small, so that a thousand
	// clients that get it at once cost little.
	assetSize = 8 << 10
	segment   = 128 // bytes: enough segments that each waits a small part of the whole
	// The share of segments that the incident's path lost at its worst.
	loss = 0.66
)

// Why no more is fetched.
var (
	errAbandoned = errors.New("the release was stopped")
	errClosed    = errors.New("the edge is closed")
)

// origin serves the asset on loopback, behind a path that loses segments.
type origin struct {
	address  string
	server   *http.Server
	served   chan struct{} // closed when the server has ended
	repair   func()
	repaired chan struct{} // closed when the path loses nothing any more
}

func startOrigin() (*origin, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the origin: %w", err)
	}
	o := &origin{
		address: listener.Addr().String(),
		server: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write(bytes.Repeat([]byte("// the object panel of the editor\n"), assetSize)[:assetSize])
		})},
		served:   make(chan struct{}),
		repaired: make(chan struct{}),
	}
	o.repair = sync.OnceFunc(func() { close(o.repaired) })
	go func() {
		defer close(o.served)
		o.server.Serve(listener) // until close; a fetch tells what else goes wrong
	}()
	return o, nil
}

func (o *origin) close() error {
	err := o.server.Close()
	<-o.served
	return err
}

// get fetches the asset on a connection of its own, whose segments arrive with
// the given delays.
func (o *origin) get(ctx context.Context, delays []time.Duration) ([]byte, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(dialing context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(dialing, network, address)
			if err != nil {
				return nil, err
			}
			return &lossyConn{Conn: conn, ctx: ctx, delays: delays, repaired: o.repaired}, nil
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.address+"/", nil)
	if err != nil {
		return nil, fmt.Errorf("fetch the asset: %w", err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("fetch the asset: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, assetSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("fetch the asset: %w", err)
	case response.StatusCode != http.StatusOK || len(body) != assetSize:
		return nil, fmt.Errorf("fetch the asset: expected status 200 and %d bytes, saw %s and %d", assetSize, response.Status, len(body))
	}
	return body, nil
}

// segmentDelays is how long each segment of the asset takes to arrive: as often
// as it is lost, a time-out passes until it is sent again. The time-out is such
// that all take total together.
func segmentDelays(random *rand.Rand, total time.Duration) []time.Duration {
	lost := make([]int, assetSize/segment)
	sum := 0
	for i := range lost {
		for random.Float64() < loss {
			lost[i]++
			sum++
		}
	}
	if sum == 0 { // a seed of one in 10^30
		lost[0], sum = 1, 1
	}
	delays := make([]time.Duration, len(lost))
	for i, n := range lost {
		delays[i] = total * time.Duration(n) / time.Duration(sum)
	}
	return delays
}

// lossyConn reads its segments in order, each after its delay. Those after the
// last delay, as many as the answer's header fills, arrive at once.
type lossyConn struct {
	net.Conn
	ctx      context.Context
	delays   []time.Duration // of the segments not begun
	left     int             // bytes of the segment that is being read
	repaired chan struct{}
}

func (c *lossyConn) Read(p []byte) (int, error) {
	if c.left == 0 && len(c.delays) > 0 {
		timer := time.NewTimer(c.delays[0])
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.repaired:
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		}
		c.delays, c.left = c.delays[1:], segment
	}
	if c.left > 0 {
		p = p[:min(len(p), c.left)]
	}
	n, err := c.Conn.Read(p)
	c.left = max(0, c.left-n)
	return n, err
}
