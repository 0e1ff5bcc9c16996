package downstream_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/detect/downstream"
)

func TestDownstream(t *testing.T) {
	const roundTrip = "net/http.(*persistConn).roundTrip < net/http.(*Transport).roundTrip < net/http.(*Client).Do"
	contendtest.Run(t, []*detect.Detector{downstream.Detector}, []contendtest.Case{
		{
			Name: "a slow supplier, counted once beside in-process clients",
			Dump: `
				25 select: ` + roundTrip + ` < main.(*page).forecast < HANDLER
				25 select: ` + roundTrip + ` < main.load | main.main
				50 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < net/http.(*persistConn).Read < bufio.(*Reader).fill < bufio.(*Reader).Peek < net/http.(*persistConn).readLoop | net/http.(*Transport).dialConn`,
			Verdict: "downstream",
			Want:    []contendtest.Want{{Detector: "downstream", Function: "net/http.(*persistConn).roundTrip", Blocked: 25, Confidence: detect.Medium}},
		},
		{
			Name: "near-miss: three requests at a store are everyday",
			Dump: `
				3 select: ` + roundTrip + ` < main.(*page).forecast < HANDLER
				500 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < net/http.(*connReader).Read < bufio.(*Reader).fill < bufio.(*Reader).Peek < net/http.(*conn).serve | net/http.(*Server).Serve`,
		},
		{
			Name: "gRPC, without handlers",
			Dump: `
				3 select: google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader < google.golang.org/grpc.(*csAttempt).recvMsg < google.golang.org/grpc.(*clientStream).RecvMsg < google.golang.org/grpc.invoke < main.trigger | main.main`,
			Verdict: "downstream",
			Want:    []contendtest.Want{{Detector: "downstream", Function: "google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader", Blocked: 3}},
		},
		{
			Name: "near-miss: server streams that wait for their clients",
			Dump: `
				40 select: google.golang.org/grpc/internal/transport.(*recvBufferReader).read < google.golang.org/grpc/internal/transport.(*recvBufferReader).Read < io.ReadFull < google.golang.org/grpc.(*serverStream).RecvMsg < main.(*chat).Talk < google.golang.org/grpc.(*Server).processStreamingRPC < google.golang.org/grpc.(*Server).handleStream`,
		},
		{
			Name: "near-miss: read loops over messages",
			Dump: `
				120 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < bufio.(*Reader).Read < example.com/peer.(*Conn).mainReadLoop | example.com/peer.Dial`,
		},
		{
			Name: "a reply read from the socket in the handler",
			Dump: `
				12 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).fill < github.com/redis/go-redis/v9/internal/proto.(*Reader).ReadReply < main.session < HANDLER`,
			Verdict: "downstream",
			Want:    []contendtest.Want{{Detector: "downstream", Function: "github.com/redis/go-redis/v9/internal/proto.(*Reader).ReadReply", Blocked: 12}},
		},
		{
			Name: "followed one step: a handler that waits for what it started",
			Dump: `
				20 sync.WaitGroup.Wait: sync.runtime_SemacquireWaitGroup < sync.(*WaitGroup).Wait < main.(*page).render < HANDLER
				20 select: ` + roundTrip + ` < main.(*page).render.func1 | main.(*page).render`,
			Verdict: "downstream",
			Want:    []contendtest.Want{{Detector: "downstream", Function: "net/http.(*persistConn).roundTrip", Blocked: 20}},
		},
		{
			Name: "connections being made",
			Dump: `
				20 select: net/http.(*Transport).getConn < net/http.(*Transport).roundTrip < main.call < HANDLER
				20 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).WaitWrite < net.(*netFD).connect < net/http.(*Transport).dialConn < net/http.(*Transport).dialConnFor | net/http.(*Transport).queueForDial`,
			Verdict: "downstream",
			Want:    []contendtest.Want{{Detector: "downstream", Function: "net/http.(*Transport).getConn", Blocked: 20}},
		},
	})
}
