package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// ownClients are services whose handlers wait for their own clients, or for events.
func ownClients() map[string]service {
	return map[string]service{
		"healthy-downloads": {start: downloads, load: plan{Kind: "download", N: 150, Side: 4, Pause: 20 * time.Millisecond}},
		"healthy-uploads":   {start: uploads, load: plan{Kind: "upload", N: 150, Side: 4, Pause: 20 * time.Millisecond}},
		"healthy-pubsub":    {start: pubsub, load: plan{Kind: "sse", N: 150, Side: 4, Pause: 20 * time.Millisecond}},
		"lock-grpc":         {start: lockBesideGRPC, load: plan{Kind: "grpc", N: 250, Calls: 50}},
		"lock-sse":          {start: lockBesideEvents, load: plan{Kind: "sse", N: 200, Side: 50, Timeout: 20 * time.Second}},
	}
}

// downloads sends large files to clients that read slowly.
func downloads(addresses) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 64<<10)
		for range 10000 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, nil) })
	return mux
}

// uploads receives what clients send slowly.
func uploads(addresses) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, n, err)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, nil) })
	return mux
}

// pubsub passes messages of a Redis channel to each client of an event stream.
func pubsub(dep addresses) http.Handler {
	c := redis.NewClient(&redis.Options{Addr: dep.Redis, PoolSize: 400})
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		sub := c.Subscribe(r.Context(), "prices")
		defer sub.Close()
		for {
			m, err := sub.ReceiveMessage(r.Context())
			if err != nil {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", m.Payload)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, nil) })
	return mux
}

// lockBesideGRPC has streams at rest and calls that wait for a lock.
func lockBesideGRPC(dep addresses) http.Handler {
	k := &ranking{link: links(dep.Lines, 1)[0]}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "rig.Feed", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Follow", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return follow(stream) }}},
		Methods: []grpc.MethodDesc{{MethodName: "Vote",
			Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				if err := dec(&emptypb.Empty{}); err != nil {
					return nil, err
				}
				return &emptypb.Empty{}, k.vote()
			}}}}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	chatAddr = l.Addr().String()
	go s.Serve(l)
	return nil
}

// lockBesideEvents has event streams at rest and requests that wait for a lock.
func lockBesideEvents(dep addresses) http.Handler {
	k := &ranking{link: links(dep.Lines, 1)[0]}
	mux := http.NewServeMux()
	mux.Handle("/events", eventStreams(dep))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, k.vote()) })
	return mux
}
