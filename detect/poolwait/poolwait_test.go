package poolwait_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/poolwait"
)

func TestPoolwait(t *testing.T) {
	cases.Run(t, []*detect.Detector{poolwait.Detector}, []cases.Case{
		{
			Name: "database/sql",
			Dump: `
				20 select: database/sql.(*DB).conn(0xc000100000) < database/sql.(*DB).query < main.(*invoices).count < HANDLER
				2 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < github.com/lib/pq.(*conn).recvMessage < main.(*invoices).count < HANDLER`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "database/sql.(*DB).conn", Blocked: 20, Holder: "main.(*invoices).count"}},
		},
		{
			Name: "a pool on a cond, without handlers",
			Dump: `
				3251 sync.Cond.Wait: sync.runtime_notifyListWait < sync.(*Cond).Wait < github.com/jackc/puddle.(*Pool).Acquire < main.store | main.main`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "github.com/jackc/puddle.(*Pool).Acquire", Blocked: 3251}},
		},
		{
			Name: "a pool on a mutex, by its name",
			Dump: `
				20 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < example.com/db.(*connPool).Get(0xc000100000) < HANDLER`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "example.com/db.(*connPool).Get", Blocked: 20}},
		},
		{
			Name: "near-miss: the statistics of a pool are behind a lock",
			Dump: `
				20 sync.Mutex.Lock: LOCK(0xc000100008) < sync.(*Mutex).Lock < example.com/db.(*connPool).Stats(0xc000100000) < HANDLER`,
		},
		{
			Name: "near-miss: getConn while connections are dialled",
			Dump: `
				20 select: net/http.(*Transport).getConn < net/http.(*Transport).roundTrip < main.call < HANDLER
				20 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Connect < net.(*netFD).connect < net/http.(*Transport).dialConn < net/http.(*Transport).dialConnFor | net/http.(*Transport).queueForDial`,
		},
		{
			Name: "net/http's limit of connections",
			Dump: `
				20 select: net/http.(*Transport).getConn < net/http.(*Transport).roundTrip < main.call < HANDLER
				2 select: net/http.(*persistConn).roundTrip < net/http.(*Transport).roundTrip < main.call < HANDLER`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "net/http.(*Transport).getConn", Blocked: 20}},
		},
		{
			Name: "a semaphore that is only a channel in the handler",
			Dump: `
				20 chan send: main.(*api).render@30 < HANDLER
				4 select: net/http.(*persistConn).roundTrip < net/http.(*Client).Do < main.(*api).render@34 < HANDLER`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "main.(*api).render", Blocked: 20, Confidence: detect.Medium}},
		},
		{
			Name: "near-miss: a channel that others have not passed",
			Dump: `
				20 chan receive: main.(*api).render@30 < HANDLER
				4 select: net/http.(*persistConn).roundTrip < net/http.(*Client).Do < main.(*api).render@28 < HANDLER`,
		},
		{
			Name: "near-miss: idle workers of a pool",
			Dump: `
				200 chan receive: example.com/work.(*Pool).worker | example.com/work.New`,
		},
		{
			Name: "near-miss: four requests in a pool are everyday",
			Dump: `
				4 select: database/sql.(*DB).conn < main.(*invoices).count < HANDLER`,
		},
		{
			Name: "an HTTP/2 connection's streams",
			Dump: `
				30 select: net/http.(*http2ClientConn).roundTrip < net/http.(*http2Transport).RoundTrip < net/http.(*Client).do < main.call < HANDLER
				30 sync.Cond.Wait: sync.runtime_notifyListWait < sync.(*Cond).Wait < net/http.(*http2ClientConn).awaitOpenSlotForStreamLocked < net/http.(*http2clientStream).writeRequest < net/http.(*http2clientStream).doRequest | net/http.(*http2ClientConn).roundTrip`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "net/http.(*http2ClientConn).awaitOpenSlotForStreamLocked", Blocked: 30}},
		},
		{
			Name: "near-miss: HTTP/2 calls whose streams are open",
			Dump: `
				30 select: net/http.(*http2ClientConn).roundTrip < net/http.(*http2Transport).RoundTrip < net/http.(*Client).do < main.call < HANDLER
				30 select: net/http.(*http2clientStream).writeRequest < net/http.(*http2clientStream).doRequest | net/http.(*http2ClientConn).roundTrip`,
		},
		{
			Name: "a semaphore on a cond, by what its function takes",
			Dump: `
				20 sync.Cond.Wait: sync.runtime_notifyListWait < sync.(*Cond).Wait < main.(*budget).reserve(0xc000100000)@20 < main.(*api).render@30 < HANDLER
				4 select: net/http.(*persistConn).roundTrip < net/http.(*Client).Do < main.(*api).render@34 < HANDLER`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "main.(*budget).reserve", Blocked: 20, Confidence: detect.Medium}},
		},
		{
			Name: "near-miss: a cond that handlers wait at for news",
			Dump: `
				20 sync.Cond.Wait: sync.runtime_notifyListWait < sync.(*Cond).Wait < main.(*board).changed(0xc000100000)@20 < main.(*api).render@30 < HANDLER
				4 select: net/http.(*persistConn).roundTrip < net/http.(*Client).Do < main.(*api).render@34 < HANDLER`,
		},
		{
			Name: "a group with a limit that all requests share",
			Dump: `
				40 chan send: golang.org/x/sync/errgroup.(*Group).Go < main.render < HANDLER
				4 sleep: time.Sleep < main.render.func1 < golang.org/x/sync/errgroup.(*Group).Go.func1 | golang.org/x/sync/errgroup.(*Group).Go`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "golang.org/x/sync/errgroup.(*Group).Go", Blocked: 40}},
		},
		{
			Name: "a group that all share, beside workers in groups of others",
			Dump: `
				40 chan send: golang.org/x/sync/errgroup.(*Group).Go < main.render < HANDLER
				4 sleep: time.Sleep < main.render.func1 < golang.org/x/sync/errgroup.(*Group).Go.func1 | golang.org/x/sync/errgroup.(*Group).Go
				50 select: main.(*worker).run < main.main.func1 < golang.org/x/sync/errgroup.(*Group).Go.func1 | golang.org/x/sync/errgroup.(*Group).Go`,
			Verdict: "poolwait",
			Want:    []cases.Want{{Detector: "poolwait", Function: "golang.org/x/sync/errgroup.(*Group).Go", Blocked: 40}},
		},
	})
}
