package play

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/contend/contend/demo/fleet"
	"github.com/contend/contend/demo/gateway"
)

// upstreamTime is how long the upstream takes when nothing is wrong with it.
const upstreamTime = 3 * time.Millisecond

// Upstream is a service behind the gateway, real but for its work.
type Upstream struct {
	url    string
	takes  atomic.Int64
	server *http.Server
}

func startUpstream() (*Upstream, error) {
	listener, err := net.Listen("tcp", gateway.Loopback)
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	u := &Upstream{url: "http://" + listener.Addr().String()}
	u.SetTime(upstreamTime)
	u.server = &http.Server{Handler: http.HandlerFunc(u.serve), ReadHeaderTimeout: 10 * time.Second}
	go u.server.Serve(listener)
	return u, nil
}

// SetTime sets how long it takes to answer, from the next request on.
func (u *Upstream) SetTime(d time.Duration) { u.takes.Store(int64(d)) }

func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	if fleet.Wait(r.Context(), time.Duration(u.takes.Load())) == nil {
		io.WriteString(w, "ok\n")
	}
}

func (u *Upstream) stop() { u.server.Close() }
