package main

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/puddle/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

func pools() map[string]service {
	return map[string]service{
		"pool-sql":       {start: sqlPool, load: closed(150), inside: true},
		"pool-tokens":    {start: inlineTokens, load: closed(150)},
		"pool-channel":   {start: channelPool, load: closed(150)},
		"pool-cond":      {start: condPool, load: closed(150), inside: true},
		"pool-poll":      {start: pollPool, load: closed(150)},
		"pool-semaphore": {start: weighted, load: closed(150)},
		"pool-errgroup":  {start: sharedGroup, load: closed(150), inside: true},
		"pool-maxconns":  {start: maxConns, load: closed(150), inside: true},
		"pool-redis":     {start: redisPool, load: closed(150)},
		"pool-submit":    {start: submitPool, load: closed(150)},
		"pool-puddle":    {start: puddlePool, load: closed(150)},
	}
}

// link is one connection to the dependency's line protocol.
type link struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(addr string) (*link, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &link{conn, bufio.NewReader(conn)}, nil
}

func (l *link) ask(ms int) error {
	if _, err := fmt.Fprintf(l.conn, "%d\n", ms); err != nil {
		return err
	}
	_, err := l.r.ReadString('\n')
	return err
}

func links(addr string, n int) []*link {
	var out []*link
	for range n {
		l, err := dial(addr)
		if err != nil {
			panic(err)
		}
		out = append(out, l)
	}
	return out
}

// A driver for database/sql over the line protocol: a statement is how long it takes.

type lineDriver struct{}

func (lineDriver) Open(addr string) (driver.Conn, error) {
	l, err := dial(addr)
	if err != nil {
		return nil, err
	}
	return lineConn{l}, nil
}

type lineConn struct{ *link }

func (c lineConn) Prepare(q string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c lineConn) Begin() (driver.Tx, error)             { return nil, errors.New("no transactions") }
func (c lineConn) Close() error                          { return c.conn.Close() }
func (c lineConn) QueryContext(_ context.Context, q string, _ []driver.NamedValue) (driver.Rows, error) {
	var ms int
	fmt.Sscan(q, &ms)
	return noRows{}, c.ask(ms)
}

type noRows struct{}

func (noRows) Columns() []string         { return []string{"n"} }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

func init() { sql.Register("line", lineDriver{}) }

func sqlPool(dep addresses) http.Handler {
	db, _ := sql.Open("line", dep.Lines)
	db.SetMaxOpenConns(2)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows, err := db.QueryContext(r.Context(), "30")
		if err == nil {
			rows.Close()
		}
		ok(w, err)
	})
}

type thumbnails struct {
	tokens chan struct{}
	dep    string
	client *http.Client
}

func inlineTokens(dep addresses) http.Handler {
	return &thumbnails{make(chan struct{}, 4), dep.HTTP, upstream()}
}

func (t *thumbnails) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.tokens <- struct{}{}
	defer func() { <-t.tokens }()
	ok(w, fetch(r.Context(), t.client, t.dep+"/?ms=40"))
}

type connPool struct{ free chan *link }

func (p *connPool) Get() *link  { return <-p.free }
func (p *connPool) Put(l *link) { p.free <- l }

func channelPool(dep addresses) http.Handler {
	p := &connPool{make(chan *link, 4)}
	for _, l := range links(dep.Lines, 4) {
		p.Put(l)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := p.Get()
		defer p.Put(l)
		ok(w, l.ask(40))
	})
}

type licences struct {
	mu    sync.Mutex
	freed *sync.Cond
	idle  []*link
}

func (p *licences) take() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) == 0 {
		p.freed.Wait()
	}
	l := p.idle[0]
	p.idle = p.idle[1:]
	return l
}

func (p *licences) release(l *link) {
	p.mu.Lock()
	p.idle = append(p.idle, l)
	p.mu.Unlock()
	p.freed.Signal()
}

func condPool(dep addresses) http.Handler {
	p := &licences{idle: links(dep.Lines, 4)}
	p.freed = sync.NewCond(&p.mu)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := p.take()
		defer p.release(l)
		ok(w, l.ask(40))
	})
}

// printers is a pool that looks for a free one every few milliseconds.
type printers struct {
	mu   sync.Mutex
	idle []*link
}

func (p *printers) borrow() *link {
	for {
		p.mu.Lock()
		if n := len(p.idle); n > 0 {
			l := p.idle[n-1]
			p.idle = p.idle[:n-1]
			p.mu.Unlock()
			return l
		}
		p.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *printers) give(l *link) {
	p.mu.Lock()
	p.idle = append(p.idle, l)
	p.mu.Unlock()
}

func pollPool(dep addresses) http.Handler {
	p := &printers{idle: links(dep.Lines, 4)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := p.borrow()
		defer p.give(l)
		ok(w, l.ask(40))
	})
}

func weighted(dep addresses) http.Handler {
	s := semaphore.NewWeighted(4)
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.Acquire(r.Context(), 1); err != nil {
			return
		}
		defer s.Release(1)
		ok(w, fetch(r.Context(), c, dep.HTTP+"/?ms=40"))
	})
}

func sharedGroup(dep addresses) http.Handler {
	var g errgroup.Group
	g.SetLimit(4)
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done := make(chan error, 1)
		g.Go(func() error {
			done <- fetch(r.Context(), c, dep.HTTP+"/?ms=40")
			return nil
		})
		ok(w, <-done)
	})
}

func maxConns(dep addresses) http.Handler {
	c := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 3}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok(w, fetch(r.Context(), c, dep.HTTP+"/?ms=40"))
	})
}

func redisPool(dep addresses) http.Handler {
	c := redis.NewClient(&redis.Options{Addr: dep.Redis, PoolSize: 3, PoolTimeout: 20 * time.Second, ReadTimeout: 10 * time.Second})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok(w, c.Get(r.Context(), "40").Err())
	})
}

type renderers struct{ jobs chan func() }

func (p *renderers) Submit(job func()) { p.jobs <- job }

func (p *renderers) work() {
	for job := range p.jobs {
		job()
	}
}

func submitPool(dep addresses) http.Handler {
	p := &renderers{make(chan func())}
	for range 4 {
		go p.work()
	}
	c := upstream()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done := make(chan error, 1)
		p.Submit(func() { done <- fetch(r.Context(), c, dep.HTTP+"/?ms=40") })
		ok(w, <-done)
	})
}

func puddlePool(dep addresses) http.Handler {
	p, _ := puddle.NewPool(&puddle.Config[*link]{MaxSize: 3,
		Constructor: func(context.Context) (*link, error) { return dial(dep.Lines) },
		Destructor:  func(l *link) { l.conn.Close() }})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, err := p.Acquire(r.Context())
		if err != nil {
			return
		}
		defer l.Release()
		ok(w, l.Value().ask(40))
	})
}
