package stacks

import "strings"

// refine turns a bare operation (a select, a channel, a read) into what the
// code at its site is known to wait for: a permit of a pool, an answer of a
// dependency, or nothing in particular until work arrives.
func (w *Wait) refine(frames []*Frame) {
	if w.Site < 0 || w.Kind == Running || w.Kind == Idle || w.Kind == FDLock {
		return
	}
	if w.Kind == Socket || w.Kind == Syscall {
		w.passPlumbing(frames)
		if w.Site < 0 {
			return
		}
	}
	site := frames[w.Site]
	key := siteKey(site)
	switch {
	case idleSite[key] || w.Kind == Socket && serverRead(frames, w.Site):
		if !w.Kind.IsLock() {
			w.Kind = Idle
		}
	case lockByName(site, w.Kind):
		w.Kind = Lock
		if site.Type != "" && w.Site+1 < len(frames) {
			w.Site++ // a method that locks is a wrapper, as above sync's own locks
		}
	case poolSite[key]:
		w.Kind = Pool
	case answerSite[key]:
		w.Kind, w.Answer = Socket, true
		if key == "google.golang.org/grpc/internal/transport.recvBufferReader.read" && !hasType(frames, "clientStream", "csAttempt", "addrConnStream") {
			w.Kind = Idle // a server stream waits for its client's next message
		}
	case poolByName(site, w.Kind):
		w.Kind = Pool
	case answerByName(site, w.Kind):
		w.Kind, w.Answer = Socket, true
	}
}

// passPlumbing moves the site of a read or write above the layers between it
// and the code that asked, and tells files from sockets: a pipe or terminal is
// no dependency.
func (w *Wait) passPlumbing(frames []*Frame) {
	file := false
	for i, f := range frames {
		if f.Package == "os" && f.Type == "File" {
			file = true
		}
		if i < w.Site {
			continue
		}
		switch {
		case isRuntime(f), isSync(f), plumbing[f.Package], f.Package == "os" && f.Type == "File",
			f.Package == "net/http" && (f.Type == "connReader" && f.Name != "backgroundRead" || f.Type == "persistConn" && f.Name == "Read"),
			f.Type == "Framer", strings.HasSuffix(f.Package, "pgproto3") && f.Type == "Frontend", strings.Contains(f.Package, "jackc/chunkreader"):
			continue
		}
		w.Site = i
		if file && w.Kind == Socket {
			w.Kind = Syscall
		}
		return
	}
	w.Site = -1
}

var plumbing = map[string]bool{
	"net": true, "io": true, "bufio": true, "bytes": true, "crypto/tls": true, "internal/poll": true, "syscall": true,
	"net/textproto": true, "compress/gzip": true, "compress/flate": true, "encoding/binary": true, "internal/syscall/unix": true,
}

// siteKey is a frame's package without major version, receiver type and
// function without closure suffixes, joined by dots: the key of the tables below.
func siteKey(f *Frame) string {
	name := f.Name
	for {
		head, tail, ok := cutLast(name, '.')
		if !ok || !isClosureElement(tail) && !allDigits(tail) {
			break
		}
		name = head
	}
	if f.Type == "" {
		return Unversioned(f.Package) + "." + name
	}
	return Unversioned(f.Package) + "." + f.Type + "." + name
}

// Unversioned strips the major-version elements of an import path
// ("github.com/jackc/puddle/v2" and its packages), so that one table entry
// serves all versions of a module.
func Unversioned(pkg string) string {
	if !strings.Contains(pkg, "/v") {
		return pkg
	}
	parts := strings.Split(pkg, "/")
	kept := parts[:0]
	for _, p := range parts {
		if !isPathVersion(p) {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "/")
}

// idleSite holds what parks until work arrives, or beside a request that is
// counted by its own goroutine. Found by running each library at rest.
var idleSite = set(
	"net/http.conn.serve", "net/http.conn.readRequest", "net/http.connReader.backgroundRead", "net/http.Server.Serve",
	"net/http.persistConn.readLoop", "net/http.persistConn.writeLoop", "net/http.awaitLegacyCancel", "net/http.setRequestCancel",
	"net/http.http2ClientConn.readLoop", "net/http.http2clientConnReadLoop.run", "net/http.http2clientStream.writeRequest", "net/http.http2clientStream.doRequest",
	"net/http.http2serverConn.serve", "net/http.http2serverConn.readFrames", "net/http.http2serverConn.readPreface",
	"golang.org/x/net/http2.ClientConn.readLoop", "golang.org/x/net/http2.clientConnReadLoop.run", "golang.org/x/net/http2.clientStream.writeRequest", "golang.org/x/net/http2.clientStream.doRequest",
	"golang.org/x/net/http2.serverConn.serve", "golang.org/x/net/http2.serverConn.readFrames", "golang.org/x/net/http2.serverConn.readPreface",
	"net/http/internal/http2.ClientConn.readLoop", "net/http/internal/http2.clientConnReadLoop.run", "net/http/internal/http2.clientStream.writeRequest", "net/http/internal/http2.clientStream.doRequest",
	"net/http/internal/http2.serverConn.serve", "net/http/internal/http2.serverConn.readFrames",
	"net/http.body.Read", "net/http.body.readLocked", // a handler that waits for the rest of its client's request
	"database/sql.DB.connectionOpener", "database/sql.DB.connectionResetter", "database/sql.DB.connectionCleaner", "database/sql.Tx.awaitDone", "database/sql.Rows.awaitDone",
	"github.com/lib/pq.conn.watchCancel", "github.com/go-sql-driver/mysql.mysqlConn.startWatcher", "github.com/jackc/pgx/pgxpool.Pool.backgroundHealthCheck",
	"github.com/jackc/pgx/pgconn/ctxwatch.ContextWatcher.Watch", "github.com/jackc/pgx/pgconn/internal/ctxwatch.ContextWatcher.Watch", "github.com/jackc/pgconn/internal/ctxwatch.ContextWatcher.Watch",
	"google.golang.org/grpc/internal/transport.http2Client.reader", "google.golang.org/grpc/internal/transport.http2Client.keepalive", "google.golang.org/grpc/internal/transport.http2Server.HandleStreams",
	"google.golang.org/grpc/internal/transport.http2Server.keepalive", "google.golang.org/grpc/internal/transport.controlBuffer.get", "google.golang.org/grpc/internal/transport.loopyWriter.run",
	"google.golang.org/grpc/transport.http2Client.reader", "google.golang.org/grpc/transport.http2Server.HandleStreams", "google.golang.org/grpc/transport.http2Client.controller", "google.golang.org/grpc/transport.http2Server.controller",
	"google.golang.org/grpc.ccBalancerWrapper.watcher", "google.golang.org/grpc.ccResolverWrapper.watcher", "google.golang.org/grpc/internal/grpcsync.CallbackSerializer.run", "google.golang.org/grpc.Server.Serve",
	"google.golang.org/grpc.newClientStreamWithParams", "google.golang.org/grpc.Server.serverWorker",
	"os/signal.loop", "os/signal.signal_recv", "context.cancelCtx.propagateCancel", "context.propagateCancel",
	"github.com/gorilla/websocket.Conn.advanceFrame", "github.com/gorilla/websocket.Conn.NextReader", "github.com/coder/websocket.Conn.readFrameHeader", "nhooyr.io/websocket.Conn.readFrameHeader",
	"github.com/valyala/fasthttp.workerPool.workerFunc", "github.com/valyala/fasthttp.Server.serveConn",
)

// poolSite holds waits for a permit whose names do not say so.
var poolSite = set(
	"database/sql.DB.conn", "net/http.Transport.getConn",
	"golang.org/x/sync/semaphore.Weighted.Acquire", "golang.org/x/sync/errgroup.Group.Go",
	"github.com/jackc/puddle.Pool.Acquire", "github.com/jackc/puddle.Pool.acquire", "github.com/jackc/pgx/pgxpool.Pool.Acquire",
	"github.com/redis/go-redis/internal.FastSemaphore.Acquire", "github.com/redis/go-redis/internal/pool.ConnPool.waitTurn", "github.com/go-redis/redis/internal/pool.ConnPool.waitTurn",
)

// answerSite holds waits for another process's answer that are channel
// operations here, because another goroutine reads the socket.
var answerSite = set(
	"net/http.persistConn.roundTrip", "net/http.http2ClientConn.RoundTrip", "net/http.http2ClientConn.roundTrip", "golang.org/x/net/http2.ClientConn.RoundTrip", "golang.org/x/net/http2.ClientConn.roundTrip",
	"net/http/internal/http2.ClientConn.RoundTrip", "net/http/internal/http2.ClientConn.roundTrip",
	"google.golang.org/grpc/internal/transport.ClientStream.waitOnHeader", "google.golang.org/grpc/internal/transport.Stream.waitOnHeader", "google.golang.org/grpc/transport.Stream.waitOnHeader",
	"google.golang.org/grpc/internal/transport.recvBufferReader.readClient", "google.golang.org/grpc/internal/transport.recvBufferReader.read",
	"google.golang.org/grpc.pickerWrapper.pick", "google.golang.org/grpc/internal/transport.NewHTTP2Client", "google.golang.org/grpc/internal/transport.newHTTP2Client",
	"github.com/jackc/puddle.Pool.initResourceValue", "net.Resolver.lookupIPAddr", "net.lookupIPContext", "net/rpc.Client.Call",
)

func set(keys ...string) map[string]bool {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// serverRead reports whether a socket read at site is a server's between requests: the
// connection is idle, or its client is slow to send.
func serverRead(frames []*Frame, site int) bool {
	f := frames[site]
	return f.Package == "net/http" && (f.Type == "conn" || f.Type == "connReader" || f.Type == "http2serverConn" || f.Name == "readRequest")
}

func hasType(frames []*Frame, types ...string) bool {
	for _, f := range frames {
		for _, t := range types {
			if f.Type == t {
				return true
			}
		}
	}
	return false
}

// poolByName recognises a pool by what it is called: a pool built on a
// channel, a cond or a mutex is still a pool. A lock inside a pool counts as
// the pool's only on the way to a permit, not in its statistics.
func poolByName(f *Frame, k Kind) bool {
	verb := strings.ToLower(firstElement(f.Name))
	if poolish(f) {
		if k.IsLock() || k == Syscall || k == Socket {
			return k.IsLock() && hasPrefix(verb, "acquire", "borrow", "checkout", "lease", "take", "get", "obtain", "waitturn")
		}
		return hasPrefix(verb, "acquire", "borrow", "checkout", "lease", "take", "get", "obtain", "wait", "conn", "reserve", "alloc", "pop", "grab", "claim", "enter", "submit", "schedule", "dispatch", "go", "do", "open", "next", "pick")
	}
	switch k {
	case Chan, Select, Cond:
		return hasPrefix(verb, "acquire", "borrow", "checkout")
	}
	return false
}

// lockByName recognises locks that are built on a channel or a cond, and
// SQLite's wait for another connection of the same process to unlock.
func lockByName(f *Frame, k Kind) bool {
	if k != Chan && k != Select && k != Cond && k != Unknown {
		return false
	}
	name := strings.ToLower(firstElement(f.Name))
	switch name {
	case "lock", "rlock", "wlock", "lockcontext", "rlockcontext", "lockctx", "waitlock", "waitforlock":
		return true
	}
	return strings.HasPrefix(name, "unlock_notify")
}

func poolish(f *Frame) bool {
	owner := f.Type
	if owner == "" {
		owner = f.Package[strings.LastIndexByte(f.Package, '/')+1:]
	}
	owner = strings.ToLower(owner)
	for _, s := range [...]string{"pool", "semaphore", "limiter", "bulkhead", "permit", "throttle", "puddle"} {
		if strings.Contains(owner, s) {
			return true
		}
	}
	return owner == "sem" || owner == "sema" || owner == "slots" || owner == "tokens"
}

// answerByName recognises clients that multiplex a connection: they wait on a
// channel for the reader to hand them their reply.
func answerByName(f *Frame, k Kind) bool {
	if k != Chan && k != Select && k != Cond {
		return false
	}
	owner := strings.ToLower(f.Type)
	if !strings.HasSuffix(owner, "client") && !strings.HasSuffix(owner, "conn") && !strings.HasSuffix(owner, "transport") && !strings.HasSuffix(owner, "broker") && !strings.HasSuffix(owner, "session") {
		return false
	}
	return hasPrefix(strings.ToLower(firstElement(f.Name)), "roundtrip", "call", "invoke", "request", "dorequest", "sendandreceive", "waitresponse", "waitreply", "waitforresponse", "exchange")
}

func hasPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
