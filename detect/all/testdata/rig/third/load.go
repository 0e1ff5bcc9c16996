package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

// load is what clients do: N ask again and again with Pause between (closed),
// or Rate ask a second, whatever is answered (open).
type load struct {
	URL     string
	N       int
	Rate    int
	Pause   time.Duration
	HTTP2   bool
	GRPC    bool
	Path    string
	Streams int // connections to /events that read; one more stops reading
}

func (l load) run() {
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	if l.HTTP2 {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		transport.ForceAttemptHTTP2 = true
	}
	client := &http.Client{Transport: transport}
	for range l.Streams {
		go func() {
			res, err := client.Get(l.URL + "/events")
			if err != nil {
				log.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
		}()
	}
	if l.Streams > 0 {
		time.Sleep(100 * time.Millisecond)
		u, _ := url.Parse(l.URL)
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: shop\r\n\r\n")
		pipes = append(pipes, conn)
	}
	if l.Rate > 0 {
		go func() {
			for range time.Tick(time.Second / time.Duration(l.Rate)) {
				go visit(client, l.URL+l.Path)
			}
		}()
	}
	for i := range l.N {
		if l.GRPC {
			go call(l.URL)
			continue
		}
		go func() {
			time.Sleep(l.Pause * time.Duration(i) / time.Duration(l.N))
			for {
				visit(client, l.URL+l.Path)
				time.Sleep(l.Pause/2 + rand.N(l.Pause+1))
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

func call(addr string) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn.Invoke(context.Background(), "/shop.Cart/Add", &emptypb.Empty{}, &emptypb.Empty{})
	}
}
