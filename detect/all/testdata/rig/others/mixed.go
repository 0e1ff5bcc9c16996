package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// mixed are the cases that look like those of the other files and differ in one thing.
func mixed() map[string]service {
	return map[string]service{
		"healthy-longpoll":     {start: longPoll, load: closed(200)},
		"pool-select":          {start: limited, load: closed(150)},
		"downstream-waitgroup": {start: pairs, load: closed(80)},
		"downstream-dns":       {start: deafResolver, load: closed(150)},
		"lock-waitgroup":       {start: helpersAtLock, load: closed(60)},
		"lock-websockets":      {start: lockBesideStreams, load: plan{Kind: "ws", N: 300, Side: 50, Timeout: 20 * time.Second}},
		"downstream-150ms":     {start: gateway(150), load: closed(150)},
		"healthy-chat-ramp":    {start: chat, load: plan{Kind: "chat", N: 900, Slow: true}},
		"healthy-ws-ramp":      {start: websockets, load: plan{Kind: "ws", N: 900, Slow: true, Side: 4, Pause: 20 * time.Millisecond}},
		"consumer-lock":        {start: consumersAtLock},
		"consumer-cpu":         {start: consumersBusy},
	}
}

// longPoll answers when there is news, and then looks the news up.
func longPoll(dep addresses) http.Handler {
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		news := make(chan string, 1)
		time.AfterFunc(time.Duration(200+rand.IntN(400))*time.Millisecond, func() { news <- "goal" })
		item := <-news
		ok(w, fetch(r.Context(), c, dep.HTTP+"/"+item+"?ms=30"))
	})
}

// limit lets n requests in at a time; the others wait as long as their client does.
func limit(n int, next http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-slots }()
		next.ServeHTTP(w, r)
	})
}

func limited(dep addresses) http.Handler { return limit(4, gateway(40)(dep)) }

// pairs asks two dependencies at once with WaitGroup.Go.
func pairs(dep addresses) http.Handler {
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var both sync.WaitGroup
		both.Go(func() { fetch(r.Context(), c, dep.HTTP+"/seats?ms=900") })
		both.Go(func() { fetch(r.Context(), c, dep.HTTP+"/fares?ms=900") })
		both.Wait()
		ok(w, nil)
	})
}

// deafResolver asks a name server that never answers.
func deafResolver(addresses) http.Handler {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	res := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		keep := server // nobody reads it
		return (&net.Dialer{}).DialContext(ctx, "udp", keep.LocalAddr().String())
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := res.LookupHost(r.Context(), "stock.example.com.")
		ok(w, err)
	})
}

// helpersAtLock has two helpers of each request wait for one lock.
func helpersAtLock(dep addresses) http.Handler {
	k := &ranking{link: links(dep.Lines, 1)[0]}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var both sync.WaitGroup
		both.Go(func() { k.vote() })
		both.Go(func() { k.vote() })
		both.Wait()
		ok(w, nil)
	})
}

// lockBesideStreams serves websockets that are at rest, and requests that wait
// for a lock.
func lockBesideStreams(dep addresses) http.Handler {
	k := &ranking{link: links(dep.Lines, 1)[0]}
	var up websocket.Upgrader
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { ok(w, k.vote()) })
	return mux
}

func consumersAtLock(dep addresses) http.Handler {
	k := &ranking{link: links(dep.Lines, 1)[0]}
	for range 32 {
		go func() {
			for {
				k.vote()
			}
		}()
	}
	return nil
}

func consumersBusy(addresses) http.Handler {
	for range 16 {
		go func() {
			var sum [32]byte
			for {
				sum = sha256.Sum256(sum[:])
				if sum == [32]byte{} {
					fmt.Println("found")
				}
			}
		}()
	}
	return nil
}
