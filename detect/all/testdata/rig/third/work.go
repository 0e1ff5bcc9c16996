package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	_ "github.com/lib/pq"
	"golang.org/x/sync/errgroup"
)

// A consumer group over channels: a fetcher and a handler for each partition, a
// heartbeat, and one place where offsets are committed.

type message struct {
	partition int
	offset    int64
}

type offsets struct {
	mu   sync.Mutex
	done map[int]int64
}

func (o *offsets) commit(m message, takes time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done[m.partition] = m.offset
	time.Sleep(takes) // the coordinator answers
}

type group struct {
	offsets offsets
	every   time.Duration // a message arrives on each partition
	takes   time.Duration // a commit
}

func (g *group) run(ctx context.Context, partitions int) {
	go g.heartbeat(ctx)
	for p := range partitions {
		ch := make(chan message, 16)
		go g.fetch(ctx, p, ch)
		go g.consume(ctx, ch)
	}
}

func (g *group) heartbeat(ctx context.Context) {
	t := time.NewTicker(300 * ms)
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (g *group) fetch(ctx context.Context, p int, out chan<- message) {
	for n := int64(0); ; n++ {
		time.Sleep(g.every)
		select {
		case out <- message{p, n}:
		case <-ctx.Done():
			return
		}
	}
}

func (g *group) consume(ctx context.Context, in <-chan message) {
	for {
		select {
		case m := <-in:
			g.offsets.commit(m, g.takes)
		case <-ctx.Done():
			return
		}
	}
}

func startGroup(every, takes time.Duration) http.Handler {
	g := &group{offsets: offsets{done: map[int]int64{}}, every: every, takes: takes}
	g.run(context.Background(), 32)
	return nil
}

func groupIdle() http.Handler { return startGroup(2*time.Second, time.Millisecond) }
func groupLock() http.Handler { return startGroup(10*ms, 20*ms) }

// stock asks a server in a protocol of one line each way; the server is silent.
type stock struct {
	conn net.Conn
	line *bufio.Reader
}

func dialStock() *stock {
	conn, err := net.Dial("tcp", strings.TrimPrefix(upstream.Silent, "http://"))
	if err != nil {
		log.Fatal(err)
	}
	return &stock{conn, bufio.NewReader(conn)}
}

func (s *stock) get(article string) string {
	fmt.Fprintf(s.conn, "get %s\n", article)
	line, _ := s.line.ReadString('\n')
	return line
}

func (s *stock) reserve(article string) string {
	fmt.Fprintf(s.conn, "reserve %s\n", article)
	line, _ := s.line.ReadString('\n')
	return line
}

type picker struct{ stock *stock }

func (p *picker) loop(orders <-chan string) {
	for o := range orders {
		p.stock.get(o)
	}
}

func (p *picker) run(orders <-chan string) {
	for o := range orders {
		p.stock.reserve(o)
	}
}

// pickers start 30 workers that take orders from a channel and ask the stock.
func pickers(start func(*picker, chan string)) {
	orders := make(chan string, 10)
	go func() {
		for range time.Tick(2 * ms) {
			orders <- "pen"
		}
	}()
	for range 30 {
		start(&picker{dialStock()}, orders)
	}
}

func workerLoop() http.Handler {
	pickers(func(p *picker, orders chan string) { go p.loop(orders) })
	return nil
}

func workerReserve() http.Handler {
	pickers(func(p *picker, orders chan string) { go p.run(orders) })
	return nil
}

// settlement pays orders in a database that does not answer.
type settlement struct{ db *sql.DB }

func (s *settlement) settle() { s.db.Exec("update orders set paid = true") }

func workerPq() http.Handler {
	db, err := sql.Open("postgres", "postgres://shop@"+upstream.Postgres+"/shop?sslmode=disable")
	if err != nil {
		log.Fatal(err)
	}
	s := &settlement{db}
	for range 30 {
		go func() {
			for {
				s.settle()
			}
		}()
	}
	return nil
}

// cronIdle has jobs that wait for their hour.
func cronIdle() http.Handler {
	wake := make(chan struct{})
	queue := make(chan func())
	for i := range 8 {
		go func() {
			t := time.NewTimer(time.Duration(i+1) * time.Hour)
			select {
			case <-t.C:
			case <-wake:
			}
		}()
		go func() {
			for job := range queue {
				job()
			}
		}()
	}
	return nil
}

type watcher struct{ n int }

func (w *watcher) loop() {
	for range time.NewTicker(time.Minute).C {
		w.n++
	}
}

// leakTicker starts a loop for each request, and never stops it.
func leakTicker() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { go (&watcher{}).loop() })
}

// errgroupSend waits for its parts before it reads what they send.
func errgroupSend() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var g errgroup.Group
		results := make(chan int)
		for i := range 3 {
			g.Go(func() error { results <- i; return nil })
		}
		g.Wait()
		close(results)
		for range results {
		}
	})
}

// memoryLimit lives within a limit that its cache nearly fills.
func memoryLimit() http.Handler {
	cache := make([][]byte, 0, 1<<14)
	for range 1 << 14 {
		cache = append(cache, bytes.Repeat([]byte{1}, 4096))
	}
	var index sync.Map
	for i := range 1 << 18 {
		index.Store(i, &message{partition: i})
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.HeapAlloc))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var parts [][]byte
		for range 200 {
			parts = append(parts, make([]byte, 4096))
		}
		w.Write(parts[7][:8])
		runtime.KeepAlive(cache)
		runtime.KeepAlive(&index)
	})
}

func cpuOne() http.Handler {
	runtime.GOMAXPROCS(1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256([]byte(r.URL.Path))
		for range 200000 {
			sum = sha256.Sum256(sum[:])
		}
		w.Write(sum[:])
	})
}
