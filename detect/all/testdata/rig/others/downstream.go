package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func downstream() map[string]service {
	return map[string]service{
		"downstream-body":         {start: slowBody, load: closed(150), inside: true},
		"downstream-grpc":         {start: slowGRPC, load: closed(150), inside: true},
		"downstream-lines":        {start: slowLink, load: closed(150)},
		"downstream-dial":         {start: deafHost, load: closed(150)},
		"downstream-redis":        {start: slowRedisReply, load: closed(150)},
		"downstream-fanout":       {start: fanOut, load: closed(80)},
		"downstream-singleflight": {start: flights, load: closed(200)},
		"worker-lock":             {start: ledgerWorkers, load: closed(150)},
	}
}

// slowBody gets the header at once and the body after 900 ms.
func slowBody(dep addresses) http.Handler {
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok(w, fetch(r.Context(), c, dep.HTTP+"/?ms=900&body=1"))
	})
}

func slowGRPC(dep addresses) http.Handler {
	conn, _ := grpc.NewClient(dep.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok(w, conn.Invoke(r.Context(), "/rig.Slow/Call", wrapperspb.Int32(900), &emptypb.Empty{}))
	})
}

type inventory struct{ pool sync.Pool }

func (s *inventory) stock(dep string) error {
	l, _ := s.pool.Get().(*link)
	if l == nil {
		var err error
		if l, err = dial(dep); err != nil {
			return err
		}
	}
	defer s.pool.Put(l)
	return l.ask(900)
}

func slowLink(dep addresses) http.Handler {
	s := &inventory{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ok(w, s.stock(dep.Lines)) })
}

// deafHost is a dependency whose accept queue is full.
func deafHost(dep addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&net.Dialer{Timeout: 15 * time.Second}).DialContext(r.Context(), "tcp", dep.Deaf)
		if err == nil {
			defer conn.Close()
			conn.SetReadDeadline(time.Now().Add(15 * time.Second))
			_, err = conn.Read(make([]byte, 1))
		}
		ok(w, err)
	})
}

func slowRedisReply(dep addresses) http.Handler {
	c := redis.NewClient(&redis.Options{Addr: dep.Redis, PoolSize: 400, ReadTimeout: 10 * time.Second})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok(w, c.Get(r.Context(), "900").Err())
	})
}

// fanOut asks three times at once for each request.
func fanOut(dep addresses) http.Handler {
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g, ctx := errgroup.WithContext(r.Context())
		for _, part := range []string{"price", "stock", "rating"} {
			g.Go(func() error { return fetch(ctx, c, dep.HTTP+"/"+part+"?ms=900") })
		}
		ok(w, g.Wait())
	})
}

// flights shares one slow call among all who ask for the same.
func flights(dep addresses) http.Handler {
	var g singleflight.Group
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err, _ := g.Do("departures", func() (any, error) {
			return nil, fetch(context.Background(), c, dep.HTTP+"/?ms=900")
		})
		ok(w, err)
	})
}

// ledger is written by eight workers under one lock, which is held over a call.
type ledger struct {
	mu   sync.Mutex
	link *link
}

func (l *ledger) post() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link.ask(20)
}

func ledgerWorkers(dep addresses) http.Handler {
	type entry struct{ done chan error }
	entries := make(chan entry, 1000)
	l := &ledger{link: links(dep.Lines, 1)[0]}
	for range 8 {
		go func() {
			for e := range entries {
				e.done <- l.post()
			}
		}()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := entry{make(chan error, 1)}
		entries <- e
		ok(w, <-e.done)
	})
}

func cpu() map[string]service {
	return map[string]service{
		"cpu-json":    {start: jsonLoop, load: closed(40)},
		"cpu-regexp":  {start: regexpLoop, load: closed(40)},
		"cpu-gosched": {start: spin, load: closed(40)},
	}
}

func jsonLoop(addresses) http.Handler {
	catalogue := map[string][]float64{}
	for i := range 200 {
		catalogue[strconv.Itoa(i)] = make([]float64, 100)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var buf bytes.Buffer
		for range 20 {
			buf.Reset()
			json.NewEncoder(&buf).Encode(catalogue)
		}
		w.Write(buf.Bytes()[:100])
	})
}

var price = regexp.MustCompile(`(\d+\.?\d*)\s*(EUR|USD|GBP)(\s*/\s*\w+)*$`)

func regexpLoop(addresses) http.Handler {
	page := strings.Repeat("some words 12.50 EUR / piece and ", 2000)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		price.FindAllString(page, -1)
		ok(w, nil)
	})
}

// spin computes and yields, as code that means to be fair does.
func spin(addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := 1.0
		for i := range 2000 {
			for range 20000 {
				x *= 1.0000001
			}
			if i%2 == 0 {
				runtime.Gosched()
			}
		}
		ok(w, nil)
		_ = x
	})
}
