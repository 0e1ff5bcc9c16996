package goroutineleak_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/goroutineleak"
)

func TestGoroutineleak(t *testing.T) {
	cases.Run(t, []*detect.Detector{goroutineleak.Detector}, []cases.Case{
		{
			Name:    "one more sender every two minutes",
			Dump:    aged("chan send", "main.(*health).measure.func1 | main.(*health).measure", 40, 2, 2),
			Verdict: "goroutineleak",
			Want:    []cases.Want{{Detector: "goroutineleak", Function: "main.(*health).measure.func1", Blocked: 40, Confidence: detect.High}},
		},
		{
			Name: "near-miss: a pool of receivers that began together",
			Dump: aged("chan receive", "main.worker | main.main", 40, 60, 0),
		},
		{
			Name: "near-miss: workers that had their last job at different times",
			Dump: aged("chan receive", "main.worker | main.main", 40, 2, 3),
		},
		{
			Name:    "marked by the runtime itself",
			Dump:    "30 chan receive (leaked): main.wait | main.start",
			Verdict: "goroutineleak",
			Want:    []cases.Want{{Detector: "goroutineleak", Function: "main.wait", Blocked: 30, Confidence: detect.High}},
		},
		{
			Name: "near-miss: the queue of senders behind loops that are held at a lock",
			Dump: `
				160 chan send: main.read | main.main
				8 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*log).write(0xc000100000) < main.loop | main.main`,
		},
		{
			Name: "thousands of actors by design: worth knowing, no verdict",
			Dump: "2000 chan receive: example.com/actor.(*Actor).run | example.com/actor.Start",
			Want: []cases.Want{{Detector: "goroutineleak", Blocked: 2000, Severity: detect.Info}},
		},
		{
			Name: "near-miss: fifteen senders",
			Dump: aged("chan send", "main.(*health).measure.func1 | main.(*health).measure", 15, 2, 2),
		},
		{
			Name:    "growth between two dumps",
			Earlier: "500 chan receive: main.watch | main.handle",
			Dump:    "900 chan receive: main.watch | main.handle",
			Verdict: "goroutineleak",
			Want:    []cases.Want{{Detector: "goroutineleak", Function: "main.watch", Blocked: 900, Confidence: detect.High}},
		},
		{
			Name:    "near-miss: growth that the requests explain",
			Earlier: "200 chan receive: main.watch | main.handle\n200 select: net/http.(*persistConn).roundTrip < main.call < HANDLER",
			Dump:    "600 chan receive: main.watch | main.handle\n600 select: net/http.(*persistConn).roundTrip < main.call < HANDLER",
		},
		{
			Name: "senders that nobody receives from, more than is in flight",
			Dump: `
				300 chan send: main.(*index).suggest.func1 | main.(*index).suggest
				15 select: main.(*index).suggest < HANDLER`,
			Verdict: "goroutineleak",
			Want:    []cases.Want{{Detector: "goroutineleak", Function: "main.(*index).suggest.func1", Blocked: 300, Confidence: detect.Medium}},
		},
		{
			Name: "pools that were never closed: two helpers each",
			Dump: `
				1970 select: database/sql.(*DB).connectionOpener | database/sql.OpenDB
				1970 select: github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher.func1 | github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher`,
			Verdict: "goroutineleak",
			Want:    []cases.Want{{Detector: "goroutineleak", Function: "database/sql.(*DB).connectionOpener", Blocked: 3940, Confidence: detect.Medium}},
		},
		{
			Name: "near-miss: two goroutines for each client's connection",
			Dump: `
				3000 select: main.(*client).writePump | main.serveWs
				3000 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < bufio.(*Reader).Peek < github.com/gorilla/websocket.(*Conn).advanceFrame < main.(*client).readPump | main.serveWs`,
		},
		{
			Name: "near-miss: idle keep-alive connections of clients",
			Dump: `
				5000 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < net/http.(*connReader).Read < bufio.(*Reader).fill < bufio.(*Reader).Peek < net/http.(*conn).serve | net/http.(*Server).Serve`,
		},
		{
			Name:    "near-miss: connections on which nothing was asked yet, more in each dump",
			Earlier: "3 select: main.loop | main.main",
			Dump: `
				3 select: main.loop | main.main
				5000 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < net/http.(*connReader).Read < bufio.(*Reader).fill < bufio.(*Reader).ReadSlice < bufio.(*Reader).ReadLine < net/textproto.(*Reader).readLineSlice < net/textproto.(*Reader).ReadLine < net/http.readRequest < net/http.(*conn).readRequest < net/http.(*conn).serve | net/http.(*Server).Serve`,
		},
		{
			Name:    "near-miss: connections whose handler has returned, on a process short of CPU",
			Earlier: "3 select: main.loop | main.main",
			Dump: `
				3 select: main.loop | main.main
				5000 sync.Cond.Wait: sync.(*Cond).Wait < net/http.(*connReader).abortPendingRead < net/http.(*conn).serve | net/http.(*Server).Serve`,
		},
		{
			Name:    "a server's own loops, of the name that connections have",
			Earlier: "3 select: main.loop | main.main",
			Dump: `
				3 select: main.loop | main.main
				500 chan receive: main.(*Server).watch | main.(*Server).handle`,
			Verdict: "goroutineleak",
			Want:    []cases.Want{{Detector: "goroutineleak", Function: "main.(*Server).watch", Blocked: 500, Confidence: detect.High}},
		},
		{
			Name: "near-miss: a crowd at a lock is not parked for good",
			Dump: `
				3000 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < main.(*cache).get(0xc000100000) < HANDLER`,
		},
	})
}

// aged writes n goroutines in one stack whose ages begin at first and differ by step minutes.
func aged(state, stack string, n, first, step int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "1 %s, %d minutes: %s\n", state, first+i*step, stack)
	}
	return b.String()
}
