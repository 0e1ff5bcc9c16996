package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// never is what holders wait for.
var never = make(chan struct{})

// server is the application: nothing of it is telemetry.
type server struct{ store *store }

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	v, err := s.store.get(r.Context(), r.FormValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, v)
}

// store answers from memory, or from a database where it has one.
type store struct {
	mu    sync.Mutex
	items map[string]string
	db    *sql.DB
}

func (s *store) get(ctx context.Context, id string) (string, error) {
	if s.db != nil {
		return s.load(ctx, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[id], nil
}

func (s *store) load(ctx context.Context, id string) (v string, err error) {
	err = s.db.QueryRowContext(ctx, "select v from items where id = $1", id).Scan(&v)
	return v, err
}

// refresh holds the store's lock for as long as the process lives.
func (s *store) refresh(started *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	started.Done()
	<-never
	s.items = map[string]string{}
}

// report keeps a connection for as long as the process lives.
func (s *store) report(started *sync.WaitGroup) {
	c, err := s.db.Conn(context.Background())
	if err != nil {
		panic(err)
	}
	defer c.Close()
	started.Done()
	<-never
}

// locked is a server whose store is locked by a refresh that hangs.
func locked() http.Handler {
	s := &store{}
	var started sync.WaitGroup
	started.Add(1)
	go s.refresh(&started)
	started.Wait()
	return http.HandlerFunc((&server{s}).handle)
}

// pooled is a server whose four connections are all with reports that hang.
func pooled() http.Handler {
	const conns = 4
	s := &store{db: sql.OpenDB(connector{})}
	s.db.SetMaxOpenConns(conns)
	var started sync.WaitGroup
	started.Add(conns)
	for range conns {
		go s.report(&started)
	}
	started.Wait()
	return http.HandlerFunc((&server{s}).handle)
}

var errNothing = errors.New("a connection that does nothing")

type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return conn{}, nil }
func (connector) Driver() driver.Driver                        { return nil }

type conn struct{}

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errNothing }
func (conn) Close() error                        { return nil }
func (conn) Begin() (driver.Tx, error)           { return nil, errNothing }
