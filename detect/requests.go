package detect

import (
	"strings"

	"github.com/contend/contend/ingest/stacks"
)

// handlerRoot names, by stacks' key of package, type and function, what a
// server calls a request's handler from: all that stands on it is a request in flight.
// Packages are without major versions.
var handlerRoot = map[string]bool{
	"net/http.serverHandler.ServeHTTP": true, "net/http.HandlerFunc.ServeHTTP": true, "net/http.ServeMux.ServeHTTP": true,
	"net/http.http2serverConn.runHandler": true, "golang.org/x/net/http2.serverConn.runHandler": true, "net/http/internal/http2.serverConn.runHandler": true,
	"google.golang.org/grpc.Server.handleStream": true, "google.golang.org/grpc.Server.processUnaryRPC": true, "google.golang.org/grpc.Server.processStreamingRPC": true, "google.golang.org/grpc.Server.processRPC": true,
	"net/rpc.service.call": true, "github.com/miekg/dns.Server.serveDNS": true,
	"github.com/cloudwego/kitex/server.server.invokeHandleEndpoint": true,
	"github.com/aws/aws-lambda-go/lambda.callBytesHandlerFunc":      true,
}

// IsRequest reports whether a stack (leaf first) is a server's request: its
// handler, or what the handler calls.
func IsRequest(frames []*stacks.Frame) bool {
	for i, f := range frames {
		key := stacks.Key(f)
		if handlerRoot[key] || serverRoot[key] && (!connection[key] || servesRequest(frames[:i], f)) {
			return true
		}
	}
	return false
}

// rooted reports whether a stack shows the server that called its handler. One
// that does not was cut at its root, or is run by something that is no server known here.
func rooted(frames []*stacks.Frame) bool {
	for _, f := range frames {
		if serverRoot[stacks.Key(f)] {
			return true
		}
	}
	return false
}

// connection are the server roots that a connection's goroutine has between requests too.
var connection = map[string]bool{"net/http.conn.serve": true, "github.com/valyala/fasthttp.Server.serveConn": true}

// serverRoot names what a server runs a connection or a call in.
var serverRoot = map[string]bool{
	"net/http.conn.serve": true, "github.com/valyala/fasthttp.Server.serveConn": true,
	"net/http.http2serverConn.runHandler": true, "golang.org/x/net/http2.serverConn.runHandler": true, "net/http/internal/http2.serverConn.runHandler": true,
	"google.golang.org/grpc.Server.handleStream": true, "google.golang.org/grpc.Server.processUnaryRPC": true, "google.golang.org/grpc.Server.processStreamingRPC": true, "google.golang.org/grpc.Server.processRPC": true,
}

// servesRequest reports whether a connection's goroutine is in a handler: what
// is no plumbing of the connection was called from it. (Handlers can stand
// there without serverHandler in dumps whose inlined frames are missing.)
func servesRequest(below []*stacks.Frame, root *stacks.Frame) bool {
	for _, f := range below {
		if !connPlumbing[f.Package] && stacks.Unversioned(f.Package) != stacks.Unversioned(root.Package) && f.Package != "runtime" {
			return !strings.HasPrefix(f.Package, "crypto/") && !strings.HasPrefix(f.Package, "internal/") && f.Package != "bytes"
		}
		if f.Package == "net/http" && f.Type != "conn" && f.Name == "ServeHTTP" {
			return true
		}
	}
	return false
}

var connPlumbing = map[string]bool{"bufio": true, "crypto/tls": true, "net": true, "io": true, "sync": true, "internal/sync": true, "runtime": true, "internal/poll": true, "context": true, "time": true, "syscall": true, "net/textproto": true}

// IsProfiler reports whether a stack is the one that wrote the dump or is
// otherwise about reporting (a test's alarm, a panic in progress): no part of
// the service. Handlers that only run with labels (pprof.Do) are not meant.
func IsProfiler(frames []*stacks.Frame) bool {
	for _, f := range frames {
		if profiler[f.Func] || f.Package == "net/http/pprof" && f.Name != "init" {
			return true
		}
	}
	return false
}

var profiler = map[string]bool{
	"runtime/pprof.(*Profile).WriteTo": true, "runtime/pprof.writeGoroutine": true, "runtime/pprof.writeRuntimeProfile": true,
	"runtime/pprof.writeGoroutineStacks": true, "runtime/pprof.profileWriter": true, "runtime/pprof.StartCPUProfile": true,
	"testing.(*M).startAlarm.func1": true, "runtime/debug.Stack": true, "runtime/debug.PrintStack": true,
}

// isParked reports whether a goroutine outside any handler merely waits for
// work, for time to pass, or to hand work to others: readers that wait to send
// to the loops of a service without handlers stand behind them, and would
// outnumber what the loops themselves wait for. A lock, a permit or an answer
// is not that, unless its caller asks for what may come when it comes.
func isParked(frames []*stacks.Frame, w stacks.Wait) bool {
	switch w.Kind {
	case stacks.Idle, stacks.Sleep, stacks.Select, stacks.Cond, stacks.Chan, stacks.Unknown:
		return true
	case stacks.Pool:
		return w.ByName && ownWorker(frames, w.Site)
	case stacks.Socket:
		return w.Site < 0 || streams(frames, w) || libraryOnly(frames, w.Site) || !w.Answer && (readLoop(frames, w.Site) || ownReader(frames, w.Site))
	case stacks.Syscall:
		return w.Site < 0 || frames[w.Site].Package == "os/signal" || frames[w.Site].Package == "os" || frames[w.Site].Package == "os/exec" || readLoop(frames, w.Site)
	}
	return false
}

// ownWorker reports whether nobody outside the type at site called it: the
// worker of a pool that takes its next job from it.
func ownWorker(frames []*stacks.Frame, site int) bool {
	own := frames[site]
	for _, f := range frames[site+1:] {
		if !f.Std && f.Package != "runtime" && (f.Package != own.Package || f.Type != own.Type) {
			return false
		}
	}
	return true
}

// ownReader reports whether a raw read is done by a library's own goroutine:
// all of its stack that is not standard library lies in one module.
func ownReader(frames []*stacks.Frame, site int) bool {
	module := ""
	for _, f := range frames[site:] {
		if f.Std || f.Package == "runtime" {
			continue
		}
		if f.Package == "main" || module != "" && stacks.Repository(f.Package) != module {
			return false
		}
		module = stacks.Repository(f.Package)
	}
	return module != ""
}

// streams reports whether a goroutine outside any handler reads a stream: a
// response's body, the messages of an RPC that is no single call, what a
// library's subscription receives, or one end of a copy between two
// connections. What comes there comes when it comes (a watch, a log, a tunnel).
func streams(frames []*stacks.Frame, w stacks.Wait) bool {
	switch stacks.Key(frames[w.Site]) {
	case "net/http.bodyEOFSignal.Read", "net/http.http2transportResponseBody.Read", "golang.org/x/net/http2.transportResponseBody.Read", "net/http/internal/http2.transportResponseBody.Read":
		return true
	}
	recv := false
	for i, f := range frames {
		if stacks.AsksForEvents(f) {
			return true
		}
		switch f.Func {
		case "io.Copy", "io.CopyBuffer":
			if i < w.Site { // directly between two connections
				return !w.Answer
			}
		case "google.golang.org/grpc.(*clientStream).RecvMsg":
			recv = true
		case "google.golang.org/grpc.invoke", "google.golang.org/grpc.(*ClientConn).Invoke":
			return false
		}
	}
	return recv
}

// libraryOnly reports whether all of a stack that is not standard library comes from
// the module cache: a library's own goroutine, at its own work.
func libraryOnly(frames []*stacks.Frame, site int) bool {
	any := false
	for _, f := range frames[site:] {
		if f.Std || f.Package == "runtime" {
			continue
		}
		if f.Module == "" {
			return false
		}
		any = true
	}
	return any
}

// readLoop reports whether a goroutine reads message after message: its
// outermost functions say so, or it reads through the standard library's scanner. A
// loop by name alone may have sent a request and wait for its answer.
func readLoop(frames []*stacks.Frame, site int) bool {
	for _, f := range frames[max(site-2, 0):site] {
		if f.Package == "bufio" && f.Type == "Scanner" {
			return true
		}
	}
	const outermost = 3 // a reader is started as such, or by the function that set the connection up
	n := 0
	for i := len(frames) - 1; i >= site && n < outermost; i-- {
		if frames[i].Package == "runtime" {
			continue
		}
		n++
		if own := frames[site]; !own.Std && stacks.Repository(own.Package) != stacks.Repository(frames[i].Package) {
			if !frames[i].Std {
				return false // others call the library, which reads for them
			}
			continue
		}
		reads, loops := false, false
		for _, w := range stacks.Words(frames[i].Name) {
			switch w {
			case "recv", "reader", "readloop", "accept":
				return true
			case "read", "receive", "conn", "message", "msg", "packet", "frame", "main":
				reads = true
			case "loop", "pump", "messages", "packets", "frames":
				loops = true
			}
		}
		if reads && loops {
			return true
		}
	}
	return false
}
