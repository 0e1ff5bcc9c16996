package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// parkSQL gives away both connections of a pool and queues for a third.
func parkSQL() {
	db := sql.OpenDB(connector{})
	db.SetMaxOpenConns(2)
	var held sync.WaitGroup
	held.Add(2)
	start(2, func() { holdDBConn(db, &held) })
	held.Wait()
	start(5, func() { queryDB(db) })
	start(2, func() { beginDB(db) })
}

func holdDBConn(db *sql.DB, held *sync.WaitGroup) {
	c, err := db.Conn(context.Background())
	if err != nil {
		panic(err)
	}
	held.Done()
	<-never
	c.Close()
}

func queryDB(db *sql.DB) {
	db.Query("select 1")
	work()
}

func beginDB(db *sql.DB) {
	db.Begin()
	work()
}

var errNothing = errors.New("a connection that does nothing")

type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return conn{}, nil }
func (connector) Driver() driver.Driver                        { return nil }

type conn struct{}

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errNothing }
func (conn) Close() error                        { return nil }
func (conn) Begin() (driver.Tx, error)           { return nil, errNothing }
