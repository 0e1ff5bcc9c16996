package stacks

import (
	"strings"
	"testing"
)

// framesOf makes frames, leaf first, of functions joined by " < ".
func framesOf(chain string) []*Frame {
	var frames []*Frame
	for _, f := range strings.Split(chain, " < ") {
		frames = append(frames, NewFrame(f, "", 0))
	}
	return frames
}

func TestClassify(t *testing.T) {
	const (
		mutex   = "internal/sync.runtime_SemacquireMutex < internal/sync.(*Mutex).lockSlow < internal/sync.(*Mutex).Lock < sync.(*Mutex).Lock < "
		cond    = "runtime.gopark < sync.runtime_notifyListWait < sync.(*Cond).Wait < "
		sel     = "runtime.gopark < runtime.selectgo < "
		recv    = "runtime.gopark < runtime.chanrecv < runtime.chanrecv1 < "
		send    = "runtime.gopark < runtime.chansend < runtime.chansend1 < "
		read    = "runtime.gopark < runtime.netpollblock < internal/poll.runtime_pollWait < internal/poll.(*pollDesc).wait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < "
		handler = " < main.h < net/http.HandlerFunc.ServeHTTP < net/http.serverHandler.ServeHTTP < net/http.(*conn).serve"
		grpc    = "google.golang.org/grpc"
	)
	for _, c := range []struct {
		name   string
		reason string
		chain  string
		kind   Kind
		site   string // function, "" for none
	}{
		// Locks, and what stands on the same semaphore without being one.
		{"a mutex", "", mutex + "main.(*cache).get" + handler, Lock, "main.(*cache).get"},
		{"a mutex before Go 1.24", "", "runtime.gopark < runtime.goparkunlock < runtime.semacquire1 < sync.runtime_SemacquireMutex < sync.(*Mutex).lockSlow < sync.(*Mutex).Lock < main.f", Lock, "main.f"},
		{"a reader", "", "runtime.gopark < runtime.semacquire1 < sync.runtime_SemacquireRWMutexR < sync.(*RWMutex).RLock < main.f", RLock, "main.f"},
		{"a writer", "", "runtime.gopark < runtime.semacquire1 < sync.runtime_SemacquireRWMutex < sync.(*RWMutex).Lock < main.f", Lock, "main.f"},
		{"a woken waiter is still in the convoy", "runnable", mutex + "main.f", Lock, "main.f"},
		{"a lock's wrapper is not its site", "", mutex + "main.(*guard).Lock < main.f", Lock, "main.f"},
		{"a method that begins with Lock is", "", mutex + "main.(*ledger).LockFunds < main.transfer", Lock, "main.(*ledger).LockFunds"},
		{"a handler that protocol compilers name Lock", "", mutex + "example.com/pb._Locks_Lock_Handler < " + grpc + ".(*Server).processUnaryRPC", Lock, "example.com/pb._Locks_Lock_Handler"},
		{"a WaitGroup", "", "runtime.gopark < runtime.semacquire1 < sync.runtime_SemacquireWaitGroup < sync.(*WaitGroup).Wait < main.f", Cond, "main.f"},
		{"an old WaitGroup", "semacquire", "sync.runtime_Semacquire < sync.(*WaitGroup).Wait < main.f", Cond, "main.f"},
		{"a semaphore of the runtime's alone", "semacquire", "runtime.gopark < runtime.semacquire1 < main.f", Unknown, "main.f"},

		// Pools and what their names also say.
		{"a database's pool", "", sel + "database/sql.(*DB).conn < database/sql.(*DB).query < main.q" + handler, Pool, "database/sql.(*DB).conn"},
		{"gRPC's stream limit", "", sel + grpc + "/internal/transport.(*http2Client).NewStream < " + grpc + ".(*csAttempt).newStream", Pool, grpc + "/internal/transport.(*http2Client).NewStream"},
		{"a pool by its name", "", sel + "example.com/db.(*ConnPool).Get < main.q", Pool, "example.com/db.(*ConnPool).Get"},
		{"a pool's statistics", "", mutex + "example.com/db.(*ConnPool).Stats < main.q", Lock, "example.com/db.(*ConnPool).Stats"},
		{"a Getter takes no permit", "", sel + "example.com/db.(*ConnPool).Getter < main.q", Select, "example.com/db.(*ConnPool).Getter"},

		// Answers, and reads of what comes when it comes.
		{"an HTTP call", "", sel + "net/http.(*persistConn).roundTrip < net/http.(*Transport).roundTrip < main.call", Socket, "net/http.(*persistConn).roundTrip"},
		{"a NATS request, its path's dot escaped", "", sel + "github.com/nats-io/nats%2ego.(*Conn).newRequest < main.ask", Socket, "github.com/nats-io/nats.go.(*Conn).newRequest"},
		{"a call over a connection of one's own", "", recv + "example.com/rpc.(*Client).Call < main.ask", Socket, "example.com/rpc.(*Client).Call"},
		{"a database's reply", "", read + "bufio.(*Reader).Read < github.com/jackc/pgx/v5/pgproto3.(*Frontend).Receive < github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage < github.com/jackc/pgx/v5/pgconn.(*PgConn).receiveMessage < main.q" + handler, Socket, "github.com/jackc/pgx/v5/pgconn.(*PgConn).peekMessage"},
		{"a blocking pop", "", read + "bufio.(*Reader).fill < github.com/redis/go-redis/v9/internal/proto.(*Reader).ReadReply < github.com/redis/go-redis/v9.(*baseClient).process < github.com/redis/go-redis/v9.cmdable.BLPop < main.worker", Idle, "github.com/redis/go-redis/v9/internal/proto.(*Reader).ReadReply"},
		{"an application's own receiveMessage that asks a database", "", read + "bufio.(*Reader).fill < github.com/lib/pq.(*conn).recvMessage < example.com/app/mail.ReceiveMessage" + handler, Socket, "github.com/lib/pq.(*conn).recvMessage"},
		{"a WebSocket", "", read + "bufio.(*Reader).fill < github.com/gorilla/websocket.(*Conn).read < github.com/gorilla/websocket.(*Conn).NextReader < main.chat" + handler, Idle, "github.com/gorilla/websocket.(*Conn).read"},
		{"an application's package websocket that asks a database", "", read + "bufio.(*Reader).fill < github.com/lib/pq.(*conn).recvMessage < example.com/app/websocket.(*Hub).Join" + handler, Socket, "github.com/lib/pq.(*conn).recvMessage"},
		{"an idle connection", "", read + "net/http.(*connReader).Read < bufio.(*Reader).fill < bufio.(*Reader).Peek < net/http.(*conn).serve", Idle, "net/http.(*conn).serve"},
		{"a gRPC server's stream", "", sel + grpc + "/internal/transport.(*recvBufferReader).read < " + grpc + ".(*serverStream).RecvMsg < main.talk", Idle, grpc + "/internal/transport.(*recvBufferReader).read"},
		{"a gRPC call", "", sel + grpc + "/internal/transport.(*ClientStream).waitOnHeader < " + grpc + ".invoke < main.ask", Socket, grpc + "/internal/transport.(*ClientStream).waitOnHeader"},

		// Channels, conds and the scheduler.
		{"a full queue", "", send + "main.(*log).write" + handler, Chan, "main.(*log).write"},
		{"a cond", "", cond + "main.(*queue).take", Cond, "main.(*queue).take"},
		{"a sleep", "", "runtime.gopark < time.Sleep < main.poll", Sleep, "main.poll"},
		{"running code", "running", "main.sum < main.main", Running, "main.sum"},
		{"a runnable goroutine whose frames show a receive", "runnable", recv + "main.f", Runnable, "main.f"},
		{"a file's lock", "", "internal/poll.runtime_Semacquire < internal/poll.(*fdMutex).rwlock < internal/poll.(*FD).writeLock < internal/poll.(*FD).Write < os.(*File).Write < log.(*Logger).output < main.f", FDLock, "log.(*Logger).output"},
		{"a file is no dependency", "syscall", "syscall.Syscall < syscall.write < internal/poll.(*FD).Write < os.(*File).Write < main.save", Syscall, "main.save"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frames := framesOf(c.chain)
			w := Classify(frames, c.reason)
			site := ""
			if w.Site >= 0 {
				site = frames[w.Site].Func
			}
			if w.Kind != c.kind || site != c.site {
				t.Errorf("%s at %q, want %s at %q", w.Kind, site, c.kind, c.site)
			}
		})
	}
}
