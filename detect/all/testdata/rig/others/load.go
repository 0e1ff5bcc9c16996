package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

// plan is the load on a service.
type plan struct {
	Kind    string // closed: N clients, each asking again after Pause; open: Rate requests a second; sse, ws, chat, grpc: N connections that stay
	Addr    string
	N       int
	Rate    int
	Pause   time.Duration
	Timeout time.Duration
	Side    int  // closed clients beside the N streams
	Calls   int  // unary gRPC callers beside the streams
	Slow    bool // streams come at 100 a second, not at once
}

func (p plan) run() {
	client := &http.Client{Timeout: p.Timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	url := "http://" + p.Addr + "/"
	switch p.Kind {
	case "closed":
		p.closed(client, url, p.N)
	case "open":
		go func() {
			for range time.Tick(time.Second / time.Duration(p.Rate)) {
				go visit(client, url)
			}
		}()
	default:
		p.closed(client, url, p.Side)
		p.unary(p.Calls)
		for i := range p.N {
			go p.stream(i)
			if p.Slow {
				time.Sleep(10 * time.Millisecond)
			}
			if i%50 == 49 {
				time.Sleep(10 * time.Millisecond) // spares the accept queue
			}
		}
	}
}

func (p plan) closed(client *http.Client, url string, n int) {
	for i := range n {
		go func() {
			time.Sleep(p.Pause * time.Duration(i) / time.Duration(n))
			for {
				visit(client, url)
				time.Sleep(p.Pause)
			}
		}()
	}
}

func visit(client *http.Client, url string) {
	res, err := client.Get(url)
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

// stream opens one connection and reads what comes, for good.
func (p plan) stream(i int) {
	switch p.Kind {
	case "sse":
		res, err := http.Get("http://" + p.Addr + "/events")
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
	case "download":
		conn, err := (&net.Dialer{Control: smallBuffer}).Dial("tcp", p.Addr)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: rig\r\n\r\n")
		for buf := make([]byte, 512); ; time.Sleep(200 * time.Millisecond) {
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
	case "upload":
		r, w := io.Pipe()
		go func() {
			for ; ; time.Sleep(500 * time.Millisecond) {
				w.Write(make([]byte, 128))
			}
		}()
		http.Post("http://"+p.Addr+"/events", "application/octet-stream", r)
	case "ws":
		conn, _, err := websocket.DefaultDialer.Dial("ws://"+p.Addr+"/events", nil)
		if err != nil {
			log.Fatal(err)
		}
		conn.ReadMessage()
	case "chat":
		conn, err := net.Dial("tcp", p.Addr)
		if err != nil {
			log.Fatal(err)
		}
		r := bufio.NewReader(conn)
		for n := 0; ; n++ {
			if i == 0 && n%10 == 0 {
				fmt.Fprintf(conn, "hello %d\n", n)
				time.Sleep(200 * time.Millisecond)
			}
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
		}
	case "grpc":
		conn, err := grpc.NewClient(p.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		s, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/rig.Feed/Follow")
		if err != nil {
			log.Fatal(err)
		}
		if err := s.SendMsg(&emptypb.Empty{}); err != nil {
			log.Fatal(err)
		}
		s.RecvMsg(&emptypb.Empty{})
	}
}

// unary has n callers that call again and again.
func (p plan) unary(n int) {
	for range n {
		go func() {
			conn, err := grpc.NewClient(p.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				log.Fatal(err)
			}
			for {
				conn.Invoke(context.Background(), "/rig.Feed/Vote", &emptypb.Empty{}, &emptypb.Empty{})
			}
		}()
	}
}

// smallBuffer makes a connection's receive buffer small, as that of a slow link is.
func smallBuffer(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
}
