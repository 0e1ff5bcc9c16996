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
	"github.com/apache/thrift/lib/go/thrift.TSimpleServer.processRequests": true,
	"github.com/cloudwego/kitex/server.server.invokeHandleEndpoint":        true,
	"github.com/aws/aws-lambda-go/lambda.callBytesHandlerFunc":             true,
}

// IsRequest reports whether a stack (leaf first) is a server's request: its
// handler, or what the handler calls.
func IsRequest(frames []*stacks.Frame) bool {
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		key := frameKey(f)
		if handlerRoot[key] {
			return true
		}
		if i == 0 {
			break
		}
		below := frames[i-1]
		switch key {
		case "net/http.conn.serve":
			// A handler can be called without serverHandler in dumps whose inlined
			// frames are missing; what is no plumbing of the connection is one.
			if below.Package != "net/http" && !connPlumbing[below.Package] || strings.HasSuffix(below.Name, "ServeHTTP") {
				return true
			}
		case "github.com/valyala/fasthttp.Server.serveConn":
			if stacks.Unversioned(below.Package) != "github.com/valyala/fasthttp" && !connPlumbing[below.Package] {
				return true
			}
		}
	}
	return false
}

var connPlumbing = map[string]bool{"bufio": true, "crypto/tls": true, "net": true, "io": true, "sync": true, "internal/sync": true, "runtime": true, "internal/poll": true, "context": true, "time": true, "syscall": true, "net/textproto": true}

func frameKey(f *stacks.Frame) string {
	if f.Type == "" {
		return stacks.Unversioned(f.Package) + "." + f.Name
	}
	return stacks.Unversioned(f.Package) + "." + f.Type + "." + f.Name
}

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

// IsParked reports whether a goroutine outside any handler merely waits for
// work, for time to pass, or to hand work to others: readers that wait to send
// to the loops of a service without handlers stand behind them, and would
// outnumber what the loops themselves wait for. A lock, a permit or an answer
// is not that. A read counts as waiting for work where the function that reads
// is a loop over messages.
func IsParked(frames []*stacks.Frame, w stacks.Wait) bool {
	switch w.Kind {
	case stacks.Idle, stacks.Sleep, stacks.Select, stacks.Cond, stacks.Chan, stacks.Unknown:
		return true
	case stacks.Socket:
		return !w.Answer && w.Site >= 0 && readLoop(frames, w.Site)
	case stacks.Syscall:
		return w.Site < 0 || frames[w.Site].Package == "os/signal" || frames[w.Site].Package == "os" || frames[w.Site].Package == "os/exec" || readLoop(frames, w.Site)
	}
	return false
}

// readLoop looks at the function that reads and the two that called it.
func readLoop(frames []*stacks.Frame, site int) bool {
	for i := site; i < len(frames) && i <= site+2; i++ {
		name := strings.ToLower(frames[i].Name)
		for _, s := range [...]string{"loop", "recv", "reader", "serve", "listen", "accept", "watch", "poll", "consume", "subscribe", "scan", "mainread", "readmsg", "readmessage", "readfrom", "readpacket", "discard"} {
			if strings.Contains(name, s) {
				return true
			}
		}
	}
	return false
}
