package gateway

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// openDatabase opens a real pool of so many connections to a database that
// answers each query after takes.
func openDatabase(connections int, takes func() time.Duration) *sql.DB {
	db := sql.OpenDB(connector{takes})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// connector implements driver.Connector.
type connector struct{ takes func() time.Duration }

func (c connector) Connect(context.Context) (driver.Conn, error) { return session(c), nil }
func (c connector) Driver() driver.Driver                        { return noDriver{} }

// session is a connection to the database.
type session struct{ takes func() time.Duration }

// ExecContext implements driver.ExecerContext.
func (s session) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	timer := time.NewTimer(s.takes())
	defer timer.Stop()
	select {
	case <-timer.C:
		return driver.ResultNoRows, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s session) Prepare(string) (driver.Stmt, error) { return nil, errUnsupported }
func (s session) Begin() (driver.Tx, error)           { return nil, errUnsupported }
func (s session) Close() error                        { return nil }

// noDriver implements driver.Driver, which a pool with a connector does not ask.
type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) { return nil, errUnsupported }

var errUnsupported = errors.New("expected a query without parameters or transaction: the demo's database has no other")
