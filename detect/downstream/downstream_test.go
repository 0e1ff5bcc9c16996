package downstream_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/downstream"
)

func TestDownstream(t *testing.T) {
	const roundTrip = "net/http.(*persistConn).roundTrip < net/http.(*Transport).roundTrip < net/http.(*Client).Do"
	cases.Run(t, []*detect.Detector{downstream.Detector}, []cases.Case{
		{
			Name: "a slow supplier, counted once beside in-process clients",
			Dump: `
				25 select: ` + roundTrip + ` < main.(*page).forecast < HANDLER
				25 select: ` + roundTrip + ` < main.load | main.main
				50 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*conn).Read < net/http.(*persistConn).Read < bufio.(*Reader).fill < bufio.(*Reader).Peek < net/http.(*persistConn).readLoop | net/http.(*Transport).dialConn`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "net/http.(*persistConn).roundTrip", Blocked: 25, Confidence: detect.Medium}},
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
			Want:    []cases.Want{{Detector: "downstream", Function: "google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader", Blocked: 3}},
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
			Want:    []cases.Want{{Detector: "downstream", Function: "github.com/redis/go-redis/v9/internal/proto.(*Reader).ReadReply", Blocked: 12}},
		},
		{
			Name: "followed one step: a handler that waits for what it started",
			Dump: `
				20 sync.WaitGroup.Wait: sync.runtime_SemacquireWaitGroup < sync.(*WaitGroup).Wait < main.(*page).render < HANDLER
				20 select: ` + roundTrip + ` < main.(*page).render.func1 | main.(*page).render`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "net/http.(*persistConn).roundTrip", Blocked: 20}},
		},
		{
			Name: "connections being made",
			Dump: `
				20 select: net/http.(*Transport).getConn < net/http.(*Transport).roundTrip < main.call < HANDLER
				20 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).WaitWrite < net.(*netFD).connect < net/http.(*Transport).dialConn < net/http.(*Transport).dialConnFor | net/http.(*Transport).queueForDial`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "net/http.(*Transport).getConn", Blocked: 20}},
		},
		{
			Name: "a collector that asks a database while it is scraped",
			Dump: `
				20 select: github.com/prometheus/client_golang/prometheus.(*Registry).Gather < github.com/prometheus/client_golang/prometheus/promhttp.HandlerForTransactional.func1 < HANDLER
				20 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).Read < github.com/lib/pq.(*conn).recvMessage < main.(*tables).Collect < github.com/prometheus/client_golang/prometheus.(*Registry).Gather.func1 | github.com/prometheus/client_golang/prometheus.(*Registry).Gather`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "github.com/lib/pq.(*conn).recvMessage", Blocked: 20}},
		},
		{
			Name: "workers that charge for what they polled",
			Dump: `
				25 select: google.golang.org/grpc/internal/transport.(*ClientStream).waitOnHeader < google.golang.org/grpc.(*clientStream).RecvMsg < google.golang.org/grpc.invoke < google.golang.org/grpc.(*ClientConn).Invoke < main.pollAndCharge | main.main`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "google.golang.org/grpc/internal/transport.(*ClientStream).waitOnHeader", Blocked: 25}},
		},
		{
			Name: "near-miss: workers that poll a queue, and follow its changes",
			Dump: `
				10 select: ` + roundTrip + ` < github.com/aws/aws-sdk-go-v2/service/sqs.(*Client).ReceiveMessage < main.(*worker).loop | main.main
				5 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < io.ReadFull < go.mongodb.org/mongo-driver/x/mongo/driver/topology.(*connection).read < go.mongodb.org/mongo-driver/mongo.(*ChangeStream).Next < main.(*projector).run | main.main
				8 select: google.golang.org/grpc/internal/transport.(*recvBufferReader).readClient < google.golang.org/grpc.(*clientStream).RecvMsg < main.(*prices).follow | main.main`,
		},
		{
			Name: "near-miss: tunnels between two connections",
			Dump: `
				150 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < io.copyBuffer < io.Copy < main.(*tunnel).pipe | main.(*tunnel).handle`,
		},
		{
			Name: "near-miss: a proxied WebSocket's handler and its copies",
			Dump: `
				100 select: net/http/httputil.(*ReverseProxy).handleUpgradeResponse < net/http/httputil.(*ReverseProxy).ServeHTTP < HANDLER
				100 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < io.copyBuffer < io.Copy < net/http/httputil.switchProtocolCopier.copyFromBackend | net/http/httputil.(*ReverseProxy).handleUpgradeResponse`,
		},
		{
			Name: "a handler that another handler runs is one request",
			Dump: `
				30 select: net/http.(*timeoutHandler).ServeHTTP < HANDLER
				30 select: ` + roundTrip + ` < main.page < net/http.HandlerFunc.ServeHTTP < net/http.(*timeoutHandler).ServeHTTP.func1 | net/http.(*timeoutHandler).ServeHTTP`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "net/http.(*persistConn).roundTrip", Blocked: 30}},
		},
		{
			Name: "handlers that were given up and still wait, more than are waited for",
			Dump: `
				20 select: net/http.(*timeoutHandler).ServeHTTP < HANDLER
				200 select: ` + roundTrip + ` < main.page < net/http.HandlerFunc.ServeHTTP < net/http.(*timeoutHandler).ServeHTTP.func1 | net/http.(*timeoutHandler).ServeHTTP`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "net/http.(*persistConn).roundTrip", Blocked: 20}},
		},
		{
			Name: "a group of goroutines that each request has for itself",
			Dump: `
				40 chan send: golang.org/x/sync/errgroup.(*Group).Go < main.fan < HANDLER
				160 select: ` + roundTrip + ` < main.fan.func1 < golang.org/x/sync/errgroup.(*Group).Go.func1 | golang.org/x/sync/errgroup.(*Group).Go`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "net/http.(*persistConn).roundTrip", Blocked: 40}},
		},
		{
			Name: "near-miss: a busy group of each request's own",
			Dump: `
				40 chan send: golang.org/x/sync/errgroup.(*Group).Go < main.fan < HANDLER
				160 sleep: time.Sleep < main.fan.func1 < golang.org/x/sync/errgroup.(*Group).Go.func1 | golang.org/x/sync/errgroup.(*Group).Go`,
		},
		{
			Name: "near-miss: net/rpc at rest, server and client",
			Dump: `
				50 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).Read < io.ReadFull < encoding/gob.decodeUintReader < encoding/gob.(*Decoder).recvMessage < encoding/gob.(*Decoder).Decode < net/rpc.(*gobServerCodec).ReadRequestHeader < net/rpc.(*Server).readRequestHeader < net/rpc.(*Server).ServeCodec | main.main
				50 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).Read < io.ReadFull < encoding/gob.decodeUintReader < encoding/gob.(*Decoder).recvMessage < encoding/gob.(*Decoder).Decode < net/rpc.(*gobClientCodec).ReadResponseHeader < net/rpc.(*Client).input | net/rpc.NewClientWithCodec`,
		},
		{
			Name: "handlers with a time-out that ask a database",
			Dump: `
				30 select: net/http.(*timeoutHandler).ServeHTTP < HANDLER
				30 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).Read < github.com/lib/pq.(*conn).recvMessage < main.list < net/http.HandlerFunc.ServeHTTP < net/http.(*timeoutHandler).ServeHTTP.func1 | net/http.(*timeoutHandler).ServeHTTP`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "github.com/lib/pq.(*conn).recvMessage", Blocked: 30}},
		},
		{
			Name: "an application's own FetchMessage, and the callback of a subscription",
			Dump: `
				40 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).Read < github.com/lib/pq.(*conn).recvMessage < main.(*store).row < example.com/app/chat.(*Store).FetchMessage < main.work | main.main
				40 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).Read < github.com/lib/pq.(*conn).recvMessage < main.(*store).row < cloud.google.com/go/pubsub.(*Subscription).Receive.func2.2 | cloud.google.com/go/pubsub.(*Subscription).Receive`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "github.com/lib/pq.(*conn).recvMessage", Blocked: 80}},
		},
		{
			Name: "a copy out of a database is no tunnel",
			Dump: `
				80 IO wait: internal/poll.runtime_pollWait < internal/poll.(*FD).Read < net.(*netFD).Read < net.(*conn).Read < bufio.(*Reader).Read < github.com/lib/pq.(*conn).recvMessage < main.(*rows).Read < io.copyBuffer < io.Copy < main.export | main.main`,
			Verdict: "downstream",
			Want:    []cases.Want{{Detector: "downstream", Function: "github.com/lib/pq.(*conn).recvMessage", Blocked: 80}},
		},
	})
}
