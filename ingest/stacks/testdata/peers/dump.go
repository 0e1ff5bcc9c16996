package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strconv"
)

// goroutines is the size of the benchmark's dump: that of a gateway process in
// an incident, most of it behind one lock.
const goroutines = 17_000

// a frame's args are printed as they stand, but for @, which becomes an
// address of the heap, and #, which becomes a small number: no two goroutines
// print the same words.
type frame struct {
	function, args string // args "..." for an inlined call, which has no offset
	place          string // file:line
	offset         string
}

type stack struct {
	per    int // of goroutines
	state  string
	frames []frame
	by     string
	place  string
}

// registry is the address of the registry and, as its first field, of its lock.
const registry = "0xc0001a2370"

const (
	goroot   = "" // built with -trimpath
	client   = "github.com/prometheus/client_golang@v1.25.0/prometheus/"
	gateway  = "example.com/gateway/"
	received = "net/http.(*Server).Serve in goroutine 1"
)

var (
	muxLock = []frame{
		{"internal/sync.runtime_SemacquireMutex", "0x1?, 0x#?, 0x@?", goroot + "runtime/sema.go:95", "0x25"},
		{"internal/sync.(*Mutex).lockSlow", registry, goroot + "internal/sync/mutex.go:149", "0x15d"},
		{"internal/sync.(*Mutex).Lock", "...", goroot + "internal/sync/mutex.go:70", ""},
		{"sync.(*Mutex).Lock", "...", goroot + "sync/mutex.go:46", ""},
		{"sync.(*RWMutex).Lock", "0x@?", goroot + "sync/rwmutex.go:150", "0x1d"},
	}
	register = []frame{
		{"github.com/prometheus/client_golang/prometheus.(*Registry).Register", registry + ", {0x1a3c0e8, 0x@}", client + "registry.go:295", "0x6f"},
		{"example.com/gateway/telemetry.(*Recorder).counter", "0xc00019c000, {0x@, 0x#}, {0x@, 0x3, 0x3}", gateway + "telemetry/recorder.go:61", "0x1b1"},
		{"example.com/gateway/telemetry.(*Recorder).Observe", "0xc00019c000, {0x1a41d30, 0x@}, {0x@, 0x#}, 0x#", gateway + "telemetry/recorder.go:38", "0xa5"},
	}
	gather = []frame{
		{"sync.runtime_SemacquireRWMutexR", "0x@?, 0x#?, 0x@?", goroot + "runtime/sema.go:100", "0x25"},
		{"sync.(*RWMutex).RLock", "...", goroot + "sync/rwmutex.go:74", ""},
		{"github.com/prometheus/client_golang/prometheus.(*Registry).Gather", registry, client + "registry.go:435", "0x99"},
		{"github.com/prometheus/client_golang/prometheus.(*noTransactionGatherer).Gather", "0x@?", client + "registry.go:1081", "0x22"},
		{"github.com/prometheus/client_golang/prometheus/promhttp.HandlerForTransactional.func1", "{0x1a3f2b0, 0x@}, 0x@", client + "promhttp/http.go:138", "0xec"},
	}
	reader = []frame{
		{"internal/poll.runtime_pollWait", "0x7f2c4e0a9c50, 0x72", goroot + "runtime/netpoll.go:351", "0x85"},
		{"internal/poll.(*pollDesc).wait", "0x@?, 0x@?, 0x0", goroot + "internal/poll/fd_poll_runtime.go:84", "0x27"},
		{"internal/poll.(*pollDesc).waitRead", "...", goroot + "internal/poll/fd_poll_runtime.go:89", ""},
		{"internal/poll.(*FD).Read", "0x@, {0x@, 0x1000, 0x1000}", goroot + "internal/poll/fd_unix.go:165", "0x27a"},
		{"net.(*netFD).Read", "0x@, {0x@?, 0x@?, 0x0?}", goroot + "net/fd_posix.go:68", "0x25"},
		{"net.(*conn).Read", "0x@, {0x@?, 0x0?, 0x0?}", goroot + "net/net.go:196", "0x45"},
		{"net/http.(*connReader).Read", "0x@, {0x@, 0x1000, 0x1000}", goroot + "net/http/server.go:828", "0x14b"},
		{"bufio.(*Reader).fill", "0x@", goroot + "bufio/bufio.go:113", "0x103"},
		{"bufio.(*Reader).Peek", "0x@, 0x4", goroot + "bufio/bufio.go:151", "0x53"},
		{"net/http.(*conn).serve", "0x@, {0x1a41c50, 0x@}", goroot + "net/http/server.go:2149", "0x79b"},
	}
	sender = []frame{
		{"example.com/gateway/events.(*Queue).Put", "0xc0003f4000, {0x@, 0x#}, 0x@?", gateway + "events/queue.go:57", "0x9c"},
		{"example.com/gateway/events.(*Publisher).flush", "0x@, {0x@, 0x#, 0x40}", gateway + "events/publisher.go:112", "0x1e5"},
		{"example.com/gateway/events.(*Publisher).run", "0x@", gateway + "events/publisher.go:83", "0x137"},
	}
	worker = []frame{
		{"example.com/gateway/pool.(*worker).loop", "0x@, {0x1a41d30, 0x@}", gateway + "pool/worker.go:44", "0xd1"},
	}
	holder = []frame{
		{"github.com/prometheus/client_golang/prometheus.(*Registry).Register", registry + ", {0x1a3c0e8, 0x@}", client + "registry.go:330", "0x3b0"},
		register[1], register[2],
	}
)

// serve is a request's way from the connection to a handler of the gateway.
func serve(handler frame) []frame {
	return []frame{
		handler,
		{"net/http.HandlerFunc.ServeHTTP", "0x@?, {0x1a3f2b0?, 0x@?}, 0x@?", goroot + "net/http/server.go:2286", "0x29"},
		{"github.com/prometheus/client_golang/prometheus/promhttp.InstrumentHandlerInFlight.func1", "{0x1a3f2b0, 0x@}, 0x@", client + "promhttp/instrument_server.go:72", "0xd4"},
		{"net/http.HandlerFunc.ServeHTTP", "0x@?, {0x1a3f2b0?, 0x@?}, 0x#?", goroot + "net/http/server.go:2286", "0x29"},
		{"net/http.(*ServeMux).ServeHTTP", "0x@?, {0x1a3f2b0, 0x@}, 0x@", goroot + "net/http/server.go:2828", "0x1c4"},
		{"net/http.serverHandler.ServeHTTP", "{0x@?}, {0x1a3f2b0?, 0x@?}, 0x6?", goroot + "net/http/server.go:3311", "0x8e"},
		{"net/http.(*conn).serve", "0x@, {0x1a41c50, 0x@}", goroot + "net/http/server.go:2067", "0x650"},
	}
}

func handler(name, line string) frame {
	return frame{"example.com/gateway/api.(*Server)." + name, "0xc000212180, {0x1a3f2b0, 0x@}, 0x@", gateway + "api/" + line, "0x1f2"}
}

// stacks are the sorts of goroutine, with their numbers: 16,000 of 17,000
// stand in the convoy, at four endpoints.
func stacks() []stack {
	const made = goroot + "net/http/server.go:3464 +0x485"
	convoy := func(per int, state string, h frame) stack {
		return stack{per, state, join(muxLock, register, serve(h)), received, made}
	}
	return []stack{
		convoy(8_000, "sync.Mutex.Lock", handler("playback", "playback.go:118")),
		convoy(4_000, "sync.Mutex.Lock", handler("manifest", "manifest.go:77")),
		convoy(2_500, "sync.Mutex.Lock, 1 minutes", handler("license", "license.go:203")),
		convoy(1_500, "sync.Mutex.Lock, 2 minutes", handler("profile", "profile.go:51")),
		{300, "sync.RWMutex.RLock", join(gather, serve(handler("metrics", "metrics.go:29"))), received, made},
		{200, "IO wait", reader, received, made},
		{300, "chan send", sender, "example.com/gateway/events.Start in goroutine 1", gateway + "events/publisher.go:40 +0x96"},
		{199, "select, 3 minutes", worker, "example.com/gateway/pool.New in goroutine 1", gateway + "pool/pool.go:31 +0x7f"},
		{1, "runnable", join(holder, serve(handler("playback", "playback.go:118"))), received, made},
	}
}

func join(parts ...[]frame) []frame {
	var all []frame
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// generator writes goroutines one after the other: the same for the same seed.
type generator struct {
	random *rand.Rand
	sorts  []stack
	id     int
	buf    bytes.Buffer
}

func newGenerator() *generator {
	return &generator{random: rand.New(rand.NewPCG(17_000, 1)), sorts: stacks()}
}

// next is the text of the next goroutine, valid until the one after. The first
// goroutine is the holder, and the rest are drawn in their proportions.
func (g *generator) next() []byte {
	n := g.random.IntN(goroutines - 1)
	s := &g.sorts[len(g.sorts)-1]
	if g.id > 0 {
		for i := range g.sorts {
			s = &g.sorts[i]
			if n < s.per {
				break
			}
			n -= s.per
		}
	}
	g.id += 1 + g.random.IntN(9)
	b := &g.buf
	b.Reset()
	b.WriteString("goroutine ")
	b.WriteString(strconv.Itoa(g.id))
	b.WriteString(" [" + s.state + "]:\n")
	for _, f := range s.frames {
		b.WriteString(f.function)
		b.WriteByte('(')
		g.args(f.args)
		b.WriteString(")\n\t" + f.place)
		if f.offset != "" {
			b.WriteString(" +" + f.offset)
		}
		b.WriteByte('\n')
	}
	b.WriteString("created by " + s.by + "\n\t" + s.place + "\n\n")
	return b.Bytes()
}

func (g *generator) args(template string) {
	for i := range len(template) {
		switch c := template[i]; c {
		case '@': // Go's heap begins at 0xc000000000 and words are aligned
			g.buf.WriteString("c0" + strconv.FormatUint(0x10000000|g.random.Uint64N(1<<28)&^7, 16))
		case '#':
			g.buf.WriteString(strconv.FormatUint(1+g.random.Uint64N(255), 16))
		default:
			g.buf.WriteByte(c)
		}
	}
}

// dump is the text of the first n goroutines.
func dump(n int) []byte {
	g := newGenerator()
	var all bytes.Buffer
	for range n {
		all.Write(g.next())
	}
	return all.Bytes()
}

// stream is a dump of at least size bytes that is made while it is read.
type stream struct {
	*generator
	left int64
	rest []byte
}

func (s *stream) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.rest) == 0 {
			if s.left <= 0 {
				break
			}
			s.rest = s.next()
			s.left -= int64(len(s.rest))
		}
		c := copy(p[n:], s.rest)
		s.rest = s.rest[c:]
		n += c
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
