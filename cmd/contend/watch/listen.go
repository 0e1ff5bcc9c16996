package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// A header is a line and some fields, in one segment.
	headerTime = 5 * time.Second
	maxHeader  = 16 << 10 // bytes
)

// Limits are what clients of one server may take, so that slow and stuck ones do
// not stop what it is about.
type Limits struct {
	Connections int           // at once; more wait
	Request     time.Duration // for a request with its body
	Answer      time.Duration
	Idle        time.Duration // between requests of one connection
	Close       time.Duration // for what is under way when it is told to end
}

// Listen listens at an address such as 127.0.0.1:7126. public says that others
// than this machine may reach it.
func Listen(address string) (l net.Listener, public bool, err error) {
	l, err = net.Listen("tcp", address)
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, false, fmt.Errorf("expected a free port at %s, saw one in use; end what listens there, or name another with --listen, 0 for any", address)
	case errors.As(err, &op):
		err = op.Err // without the address, which stands before
		fallthrough
	case err != nil:
		return nil, false, fmt.Errorf("cannot listen at %s: %w; expected --listen as HOST:PORT, such as 127.0.0.1:0", address, err)
	}
	at, ok := l.Addr().(*net.TCPAddr)
	return l, !ok || !at.IP.IsLoopback(), nil
}

// Serve answers on l until ctx is done, and then ends what is under way.
func Serve(ctx context.Context, l net.Listener, h http.Handler, limits Limits) error {
	s := &http.Server{
		Handler: h, ErrorLog: log.New(io.Discard, "", 0), // it would quote what clients send
		ReadHeaderTimeout: min(headerTime, limits.Request), ReadTimeout: limits.Request, WriteTimeout: limits.Answer,
		IdleTimeout: limits.Idle, MaxHeaderBytes: maxHeader,
	}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.Close)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
	})
	if err := s.Serve(netutil.LimitListener(l, limits.Connections)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve at %s: %w", l.Addr(), err)
	}
	<-stopped
	return nil
}

// Guard keeps other sites' pages from reading what is meant for this machine: a
// name of theirs that leads to a loopback address (DNS rebinding) is refused. Of
// a public address the names are not known.
func Guard(h http.Handler, public bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("X-Frame-Options", "SAMEORIGIN")
		if !public && !IsLoopback(r.Host) {
			http.Error(w, "expected a request for localhost or a loopback address, saw another name", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// IsLoopback reports whether a host, with a port or without, is this machine by a name that no
// name server has a say in.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}
