package stacks

import (
	"slices"
	"strings"
)

// refine turns a bare operation (a select, a channel, a read) into what the
// code at its site is known to wait for: a permit of a pool, an answer of a
// dependency, or nothing in particular until work arrives.
func (w *Wait) refine(frames []*Frame) {
	w.Op = w.Kind
	w.passPipe(frames)
	if w.Site < 0 || w.Kind == Running || w.Kind == Idle || w.Kind == FDLock {
		return
	}
	client := false
	if w.Kind == Socket || w.Kind == Syscall {
		client = w.passPlumbing(frames)
		if w.Site < 0 {
			return
		}
	}
	site := frames[w.Site]
	key := Key(site)
	switch {
	case !w.Kind.IsLock() && (client || idleSite[key] || w.Kind == Socket && (serverRead(frames, w.Site) || inReader(frames, w.Site)) || forClient(frames, w.Site) || forEvents(frames, w.Site)):
		w.Kind = Idle
	case lockByName(site, w.Kind):
		w.Kind = Lock
		if site.Type != "" && w.Site+1 < len(frames) {
			w.Site++ // a method that locks is a wrapper, as above sync's own locks
		}
	case poolSite[key]:
		w.Kind = Pool
	case answerSite[key]:
		w.Kind, w.Answer = Socket, true
	case !w.Group && poolByName(site, w.Kind):
		w.Kind, w.ByName = Pool, true
	case answerByName(site, w.Kind):
		w.Kind, w.Answer = Socket, true
	}
}

// passPipe moves the site above the pipe that HTTP/2 hands a body over in: who
// reads is a handler (its client is slow) or a caller (the answer is).
func (w *Wait) passPipe(frames []*Frame) {
	if w.Kind != Cond || w.Site < 0 || w.Site+1 >= len(frames) {
		return
	}
	if t := frames[w.Site].Type; (t == "http2pipe" || t == "pipe") && (frames[w.Site].Package == "net/http" || strings.HasSuffix(frames[w.Site].Package, "http2")) {
		w.Site++
	}
}

// passPlumbing moves the site of a read or write above the layers between it
// and the code that asked, and tells files from sockets: a pipe or terminal is
// no dependency. client reports whether the other end is the client of the
// request that the stack serves: net/http reads and writes those through
// types of their own.
func (w *Wait) passPlumbing(frames []*Frame) (client bool) {
	file := false
	for i, f := range frames {
		if f.Package == "os" && f.Type == "File" {
			file = true
		}
		if f.Package == "net/http" && (f.Type == "connReader" && f.Name == "Read" || f.Type == "checkConnErrorWriter") {
			client = true
		}
		if i < w.Site {
			continue
		}
		switch {
		case isRuntime(f), isSync(f), plumbing[f.Package] && !resolver(f), f.Package == "os" && f.Type == "File",
			f.Package == "net/http" && (f.Type == "connReader" && f.Name != "backgroundRead" || f.Type == "persistConn" && f.Name == "Read" || f.Type == "checkConnErrorWriter" || f.Type == "body"),
			f.Type == "Framer", strings.HasSuffix(f.Package, "pgproto3") && f.Type == "Frontend", strings.Contains(f.Package, "jackc/chunkreader"):
			continue
		}
		w.Site = i
		if file && w.Kind == Socket {
			w.Kind = Syscall
		}
		return client
	}
	w.Site = -1
	return client
}

// resolver recognises package net's own client of name servers.
func resolver(f *Frame) bool {
	return f.Package == "net" && (f.Type == "Resolver" || strings.HasPrefix(f.Name, "dns"))
}

var plumbing = map[string]bool{
	"net": true, "io": true, "bufio": true, "bytes": true, "crypto/tls": true, "internal/poll": true, "syscall": true,
	"net/textproto": true, "compress/gzip": true, "compress/flate": true, "encoding/binary": true, "internal/syscall/unix": true, "net/http/internal": true,
}

// Key is a frame's package without major version, receiver type and
// function without closure suffixes, joined by dots: the key of the tables below.
func Key(f *Frame) string {
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
	"net/rpc.Client.input", "net/rpc.Server.readRequestHeader", "net/rpc.gobServerCodec.ReadRequestHeader", "net/rpc/jsonrpc.serverCodec.ReadRequestHeader", "net/rpc/jsonrpc.clientCodec.ReadResponseHeader", "net/rpc.gobClientCodec.ReadResponseHeader",
	"net/http.conn.serve", "net/http.conn.readRequest", "net/http.connReader.backgroundRead", "net/http.Server.Serve",
	"net/http.persistConn.readLoop", "net/http.persistConn.writeLoop", "net/http.awaitLegacyCancel", "net/http.setRequestCancel",
	"net/http.http2ClientConn.readLoop", "net/http.http2clientConnReadLoop.run", "net/http.http2clientStream.writeRequest", "net/http.http2clientStream.doRequest",
	"net/http.http2serverConn.serve", "net/http.http2serverConn.readFrames", "net/http.http2serverConn.readPreface",
	"golang.org/x/net/http2.ClientConn.readLoop", "golang.org/x/net/http2.clientConnReadLoop.run", "golang.org/x/net/http2.clientStream.writeRequest", "golang.org/x/net/http2.clientStream.doRequest",
	"golang.org/x/net/http2.serverConn.serve", "golang.org/x/net/http2.serverConn.readFrames", "golang.org/x/net/http2.serverConn.readPreface",
	"net/http/internal/http2.ClientConn.readLoop", "net/http/internal/http2.clientConnReadLoop.run", "net/http/internal/http2.clientStream.writeRequest", "net/http/internal/http2.clientStream.doRequest",
	"net/http/internal/http2.serverConn.serve", "net/http/internal/http2.serverConn.readFrames",
	"database/sql.DB.connectionOpener", "database/sql.DB.connectionResetter", "database/sql.DB.connectionCleaner", "database/sql.Tx.awaitDone", "database/sql.Rows.awaitDone",
	"github.com/lib/pq.conn.watchCancel", "github.com/go-sql-driver/mysql.mysqlConn.startWatcher", "github.com/jackc/pgx/pgxpool.Pool.backgroundHealthCheck",
	"github.com/jackc/pgx/pgconn/ctxwatch.ContextWatcher.Watch", "github.com/jackc/pgx/pgconn/internal/ctxwatch.ContextWatcher.Watch", "github.com/jackc/pgconn/internal/ctxwatch.ContextWatcher.Watch",
	"google.golang.org/grpc/internal/transport.http2Client.reader", "google.golang.org/grpc/internal/transport.http2Client.keepalive", "google.golang.org/grpc/internal/transport.http2Server.HandleStreams",
	"google.golang.org/grpc/internal/transport.http2Server.keepalive", "google.golang.org/grpc/internal/transport.serverHandlerTransport.HandleStreams", "google.golang.org/grpc/internal/transport.serverHandlerTransport.runStream", "google.golang.org/grpc/internal/transport.controlBuffer.get", "google.golang.org/grpc/internal/transport.loopyWriter.run",
	"google.golang.org/grpc/transport.http2Client.reader", "google.golang.org/grpc/transport.http2Server.HandleStreams", "google.golang.org/grpc/transport.http2Client.controller", "google.golang.org/grpc/transport.http2Server.controller",
	"google.golang.org/grpc.ccBalancerWrapper.watcher", "google.golang.org/grpc.ccResolverWrapper.watcher", "google.golang.org/grpc/internal/grpcsync.CallbackSerializer.run", "google.golang.org/grpc.Server.Serve",
	"google.golang.org/grpc.newClientStreamWithParams", "google.golang.org/grpc.Server.serverWorker",
	"os/signal.loop", "os/signal.signal_recv", "context.cancelCtx.propagateCancel", "context.propagateCancel",
	"github.com/valyala/fasthttp.workerPool.workerFunc", "github.com/valyala/fasthttp.Server.serveConn",
)

// poolSite holds waits for a permit whose names do not say so.
var poolSite = set(
	"database/sql.DB.conn", "net/http.Transport.getConn",
	"golang.org/x/sync/semaphore.Weighted.Acquire", "golang.org/x/sync/errgroup.Group.Go",
	"net/http.http2ClientConn.awaitOpenSlotForStreamLocked", "golang.org/x/net/http2.ClientConn.awaitOpenSlotForStreamLocked", "net/http/internal/http2.ClientConn.awaitOpenSlotForStreamLocked",
	"google.golang.org/grpc/internal/transport.http2Client.NewStream", // waits for the server's limit of streams
	"github.com/panjf2000/ants.poolCommon.retrieveWorker", "github.com/panjf2000/ants.Pool.retrieveWorker",
	"github.com/jackc/puddle.Pool.Acquire", "github.com/jackc/puddle.Pool.acquire", "github.com/jackc/pgx/pgxpool.Pool.Acquire",
	"github.com/redis/go-redis/internal.FastSemaphore.Acquire", "github.com/redis/go-redis/internal/pool.ConnPool.waitTurn", "github.com/go-redis/redis/internal/pool.ConnPool.waitTurn",
)

// answerSite holds waits for another process's answer that are channel
// operations here, because another goroutine reads the socket.
var answerSite = set(
	"net/http.persistConn.roundTrip", "net/http.http2ClientConn.RoundTrip", "net/http.http2ClientConn.roundTrip", "golang.org/x/net/http2.ClientConn.RoundTrip", "golang.org/x/net/http2.ClientConn.roundTrip",
	"golang.org/x/net/http2.ClientConn.internalRoundTrip", "net/http.http2ClientConn.internalRoundTrip", "net/http/internal/http2.ClientConn.internalRoundTrip",
	"net/http/internal/http2.ClientConn.RoundTrip", "net/http/internal/http2.ClientConn.roundTrip",
	"google.golang.org/grpc/internal/transport.ClientStream.waitOnHeader", "google.golang.org/grpc/internal/transport.Stream.waitOnHeader", "google.golang.org/grpc/transport.Stream.waitOnHeader",
	"google.golang.org/grpc/internal/transport.recvBufferReader.readClient", "google.golang.org/grpc/internal/transport.recvBufferReader.read",
	"net/http.http2transportResponseBody.Read", "golang.org/x/net/http2.transportResponseBody.Read", "net/http/internal/http2.transportResponseBody.Read",
	"google.golang.org/grpc.pickerWrapper.pick", "google.golang.org/grpc/internal/transport.NewHTTP2Client", "google.golang.org/grpc/internal/transport.newHTTP2Client",
	"github.com/jackc/puddle.Pool.initResourceValue", "net.Resolver.lookupIPAddr", "net.lookupIPContext", "net/rpc.Client.Call",
	"github.com/nats-io/nats.go.Conn.newRequest", "github.com/nats-io/nats.go.Conn.newRequestWithContext", "github.com/go-ldap/ldap.Conn.readPacket", "github.com/gocql/gocql.Conn.exec",
	"github.com/IBM/sarama.syncProducer.SendMessage", "github.com/Shopify/sarama.syncProducer.SendMessage", "github.com/segmentio/kafka-go.Writer.WriteMessages",
	"github.com/rabbitmq/amqp091-go.Channel.call", "github.com/streadway/amqp.Channel.call",
)

func set(keys ...string) map[string]bool {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// own are the frames from site up that belong to the code that waits: the
// standard library's and those of the first repository met, not its callers'.
// Nothing above a handler's root counts either.
func own(frames []*Frame, site int) []*Frame {
	repo := ""
	for i := site; i < len(frames) && i < site+streamDepth; i++ {
		f := frames[i]
		switch {
		case f.Name == "ServeHTTP":
			return frames[site:i]
		case f.Std || isRuntime(f):
		case repo == "":
			repo = Repository(f.Package)
		case Repository(f.Package) != repo:
			return frames[site:i]
		}
	}
	return frames[site:min(len(frames), site+streamDepth)]
}

// forClient reports whether a wait is for the client of the stream that the
// code at site serves: its next message, or room in its window. A WebSocket is
// a stream in either direction, so nobody waits for an answer there.
func forClient(frames []*Frame, site int) bool {
	for _, f := range own(frames, site) {
		switch pkg := Unversioned(f.Package); {
		case pkg == "google.golang.org/grpc" && f.Type == "serverStream" && (f.Name == "RecvMsg" || f.Name == "SendMsg"),
			f.Type == "http2requestBody" || f.Type == "requestBody" && strings.HasSuffix(pkg, "http2"),
			(f.Type == "http2serverConn" || f.Type == "serverConn") && f.Name == "writeDataFromHandler",
			f.Package != "main" && (strings.HasSuffix(pkg, "/websocket") || pkg == "nhooyr.io/websocket" || strings.HasPrefix(pkg, "github.com/gobwas/ws")):
			return true
		}
	}
	return false
}

// streamDepth is how many frames a stream's own layers take between a wait and
// the code that asked for the next message: grpc-go has eight, go-redis up to
// twenty between a reply and its command.
const streamDepth = 24

// forEvents reports whether a read is of something that comes when it comes: a
// blocking pop from a queue, a subscription, a notification. Told by the
// client library's own exported methods, never by its callers' names.
func forEvents(frames []*Frame, site int) bool {
	for _, f := range own(frames, site) {
		if AsksForEvents(f) {
			return true
		}
	}
	return false
}

// eventClients are the libraries whose methods AsksForEvents knows.
var eventClients = []string{
	"github.com/redis/go-redis", "github.com/go-redis/redis", "github.com/gomodule/redigo", "github.com/redis/rueidis", "github.com/mediocregopher/radix",
	"github.com/aws/aws-sdk-go", "github.com/aws/aws-sdk-go-v2", "github.com/Azure/azure-sdk-for-go", "cloud.google.com/go/pubsub", "gocloud.dev/pubsub",
	"github.com/jackc/pgx", "github.com/lib/pq", "go.mongodb.org/mongo-driver", "github.com/hashicorp/consul/api",
	"github.com/segmentio/kafka-go", "github.com/twmb/franz-go", "github.com/nats-io/nats.go", "github.com/apache/pulsar-client-go",
}

// AsksForEvents reports whether f is the method of a client library that waits
// for what comes when it comes. Libraries and names are exact: an application's
// receiveMessage may well be a call.
func AsksForEvents(f *Frame) bool {
	switch f.Name { // its closures are callbacks, which work on what came
	case "BLPop", "BRPop", "BLMove", "BLMPop", "BRPopLPush", "BZPopMin", "BZPopMax", "BZMPop", "XRead", "XReadGroup",
		"ReceiveMessage", "ReceiveTimeout", "WaitForNotification", "FetchMessage", "PollFetches", "PollRecords", "NextMsg", "NextMsgWithContext":
		return eventClient(f)
	case "Receive":
		return strings.Contains(f.Type, "Sub") && eventClient(f)
	case "Next":
		return f.Type == "ChangeStream" && eventClient(f) // MongoDB
	case "RunWithClientAndHclog":
		return f.Type == "Plan" && eventClient(f) // Consul
	}
	return false
}

func eventClient(f *Frame) bool {
	pkg := Unversioned(f.Package)
	return slices.ContainsFunc(eventClients, func(c string) bool { return pkg == c || strings.HasPrefix(pkg, c+"/") })
}

// inReader reports whether a read is made by the reader of a connection, some
// layers below it.
func inReader(frames []*Frame, site int) bool {
	for _, f := range frames[site:min(len(frames), site+streamDepth)] {
		if f.Name == "ServeHTTP" {
			return false
		}
		if idleSite[Key(f)] {
			return true
		}
	}
	return false
}

// serverRead reports whether a socket read at site is a server's between requests: the
// connection is idle, or its client is slow to send.
func serverRead(frames []*Frame, site int) bool {
	f := frames[site]
	return f.Package == "net/http" && (f.Type == "conn" || f.Type == "connReader" || f.Type == "http2serverConn" || f.Name == "readRequest")
}

// poolByName recognises a pool by what it is called: a pool built on a
// channel, a cond or a mutex is still a pool. A lock inside a pool counts as
// the pool's only on the way to a permit, not in its statistics.
func poolByName(f *Frame, k Kind) bool {
	switch k {
	case Chan, Select, Cond, Lock, RLock:
	default:
		return false
	}
	name := firstElement(f.Name)
	if hasVerb(name, "acquire", "borrow", "checkout") && !k.IsLock() {
		return true
	}
	if !poolish(f) {
		return false
	}
	if hasVerb(name, "acquire", "borrow", "checkout", "lease", "take", "get", "obtain", "waitturn") {
		return true
	}
	return !k.IsLock() && hasVerb(name, "wait", "conn", "reserve", "alloc", "grab", "claim", "submit", "schedule")
}

// TakesPermit reports whether a function is called as one that takes something
// of which there is only so much.
func TakesPermit(f *Frame) bool {
	return hasVerb(firstElement(f.Name), "acquire", "borrow", "checkout", "lease", "take", "get", "obtain", "reserve", "grab", "claim", "enter")
}

// hasVerb reports whether a function's name is one of the verbs, or begins
// with one as a word: Get and GetContext, but not Getter.
func hasVerb(name string, verbs ...string) bool {
	low := strings.ToLower(name)
	for _, v := range verbs {
		if rest, ok := strings.CutPrefix(low, v); ok && (rest == "" || name[len(v)] < 'a' || name[len(v)] > 'z') {
			return true
		}
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
	for _, w := range Words(owner) {
		switch w {
		case "pool", "connpool", "workerpool", "threadpool", "pgxpool", "puddle", "semaphore", "sem", "sema", "limiter", "bulkhead", "permits", "throttle", "slots", "tokens":
			return true
		}
	}
	return false
}

// answerByName recognises clients that multiplex a connection: they wait on a
// channel for the reader to hand them their reply.
func answerByName(f *Frame, k Kind) bool {
	if k != Chan && k != Select && k != Cond {
		return false
	}
	owner := Words(f.Type)
	if len(owner) == 0 {
		return false
	}
	switch owner[len(owner)-1] {
	case "client", "conn", "transport", "broker", "session":
	default:
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
