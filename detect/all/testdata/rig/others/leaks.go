package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func leaks() map[string]service {
	open := plan{Kind: "open", Rate: 60, Timeout: 10 * time.Second}
	quick := plan{Kind: "open", Rate: 40, Timeout: 10 * time.Second}
	return map[string]service{
		"leak-send":    {start: lateAnswer, load: open, inside: true},
		"leak-receive": {start: neverClosed, load: open},
		"leak-context": {start: uncancelled, load: open},
		"leak-sqldb":   {start: dbPerRequest, load: open},
		"leak-bodies":  {start: openBodies, load: open},
		"leak-nil":     {start: nilChannel, load: open},
		"leak-after":   {start: afterLoops, load: open},
		"leak-workers": {start: poolPerRequest, load: quick},
		"leak-lock":    {start: leakBehindLock, load: plan{Kind: "closed", N: 150, Timeout: 20 * time.Second}},
	}
}

// lateAnswer gives up after 20 ms on an answer that takes 200.
func lateAnswer(dep addresses) http.Handler {
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := make(chan error)
		go func() { answer <- fetch(context.Background(), c, dep.HTTP+"/?ms=200") }()
		select {
		case err := <-answer:
			ok(w, err)
		case <-time.After(20 * time.Millisecond):
			http.Error(w, "timed out", http.StatusGatewayTimeout)
		}
	})
}

// neverClosed starts a listener of progress for each request and forgets it.
func neverClosed(addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		progress := make(chan int)
		go report(progress)
		progress <- 50
		progress <- 100
		ok(w, nil)
	})
}

func report(progress chan int) {
	for range progress {
	}
}

func uncancelled(addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, _ := context.WithCancel(context.Background())
		go func() {
			<-ctx.Done()
			fmt.Println("released")
		}()
		ok(w, nil)
	})
}

func dbPerRequest(dep addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		db, _ := sql.Open("line", dep.Lines)
		rows, err := db.QueryContext(r.Context(), "2")
		if err == nil {
			rows.Close()
		}
		ok(w, err)
	})
}

func openBodies(dep addresses) http.Handler {
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := c.Get(dep.HTTP + "/?ms=2") // the body stays open
		ok(w, err)
	})
}

func nilChannel(addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var stop chan struct{}
		go func() {
			<-stop
			fmt.Println("stopped")
		}()
		ok(w, nil)
	})
}

// afterLoops starts a refresher for each request, which nothing ends.
func afterLoops(addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stop := make(chan struct{})
		go refresh(stop)
		ok(w, nil)
	})
}

func refresh(stop chan struct{}) {
	for {
		select {
		case <-time.After(time.Second):
		case <-stop:
			return
		}
	}
}

// poolPerRequest makes four workers for each request and never closes their channel.
func poolPerRequest(addresses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jobs := make(chan int)
		var done sync.WaitGroup
		done.Add(8)
		for range 4 {
			go func() {
				for range jobs {
					done.Done()
				}
			}()
		}
		for i := range 8 {
			jobs <- i
		}
		done.Wait()
		ok(w, nil)
	})
}

type ranking struct {
	mu   sync.Mutex
	link *link
}

func (k *ranking) vote() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.link.ask(10)
}

// leakBehindLock leaks a goroutine a request, while requests wait for a lock
// that is held over a call.
func leakBehindLock(dep addresses) http.Handler {
	k := &ranking{link: links(dep.Lines, 1)[0]}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		progress := make(chan int)
		go report(progress)
		progress <- 1
		ok(w, k.vote())
	})
}

func consumers() map[string]service {
	return map[string]service{
		"consumer-http":  {start: consumeHTTP},
		"consumer-idle":  {start: consumeIdle},
		"consumer-blpop": {start: consumeRedis},
	}
}

// consumeHTTP takes messages and delivers each by a call that takes 900 ms.
func consumeHTTP(dep addresses) http.Handler {
	messages := make(chan string)
	go func() {
		for i := 0; ; i++ {
			messages <- fmt.Sprint(i)
		}
	}()
	c := upstream()
	for range 48 {
		go deliverAll(messages, c, dep.HTTP+"/?ms=900")
	}
	return nil
}

func deliverAll(messages chan string, c *http.Client, url string) {
	for range messages {
		fetch(context.Background(), c, url)
	}
}

// consumeIdle waits for messages on a connection of its own for each partition.
func consumeIdle(dep addresses) http.Handler {
	for _, l := range links(dep.Lines, 48) {
		go func() {
			for l.ask(60000) == nil {
			}
		}()
	}
	return nil
}

// consumeRedis waits for work in a list, as is usual with Redis.
func consumeRedis(dep addresses) http.Handler {
	c := redis.NewClient(&redis.Options{Addr: dep.Redis, PoolSize: 100, ReadTimeout: 20 * time.Second})
	for range 48 {
		go func() {
			for {
				c.BLPop(context.Background(), 5*time.Second, "mail")
			}
		}()
	}
	return nil
}
