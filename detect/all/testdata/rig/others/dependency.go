package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// addresses are those of the dependency process. Every protocol is told by its
// caller how many milliseconds to take.
type addresses struct {
	HTTP  string // GET /?ms=N, with &body=1 the header comes at once
	Lines string // "N\n" is answered by "ok\n"
	Redis string // GET N
	GRPC  string // rig.Slow/Call
	Deaf  string // listens and never accepts
}

func dependency() {
	go exitWithParent()
	a := addresses{Deaf: deaf()}
	a.HTTP = "http://" + serve(func(l net.Listener) { http.Serve(l, http.HandlerFunc(slowPage)) })
	a.Lines = serve(func(l net.Listener) { each(l, slowLines) })
	a.Redis = serve(func(l net.Listener) { each(l, slowRedis) })
	a.GRPC = serve(func(l net.Listener) {
		s := grpc.NewServer()
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "rig.Slow", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Call",
			Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var ms wrapperspb.Int32Value
				if err := dec(&ms); err != nil {
					return nil, err
				}
				wait(int(ms.Value))
				return &emptypb.Empty{}, nil
			}}}}, nil)
		s.Serve(l)
	})
	json.NewEncoder(os.Stdout).Encode(a)
	select {}
}

func serve(f func(net.Listener)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go f(l)
	return l.Addr().String()
}

func each(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go f(c)
	}
}

func wait(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

func slowPage(w http.ResponseWriter, r *http.Request) {
	ms, _ := strconv.Atoi(r.FormValue("ms"))
	if r.FormValue("body") != "" {
		fmt.Fprintln(w, "begin")
		w.(http.Flusher).Flush()
	}
	wait(ms)
	fmt.Fprintln(w, strings.Repeat("ok ", 2000))
}

func slowLines(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		ms, _ := strconv.Atoi(strings.TrimSpace(line))
		wait(ms)
		fmt.Fprintln(c, "ok")
	}
}

// slowRedis speaks as much of the protocol as the client needs.
func slowRedis(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		head, err := r.ReadString('\n')
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "*")))
		var args []string
		for range n {
			r.ReadString('\n')
			arg, _ := r.ReadString('\n')
			args = append(args, strings.TrimSpace(arg))
		}
		if len(args) == 0 {
			continue
		}
		switch strings.ToLower(args[0]) {
		case "hello":
			fmt.Fprint(c, "-ERR unknown command 'HELLO'\r\n")
		case "get":
			ms, _ := strconv.Atoi(args[1])
			wait(ms)
			fmt.Fprint(c, "$2\r\nok\r\n")
		case "subscribe":
			fmt.Fprintf(c, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(args[1]), args[1])
		case "blpop":
			s, _ := strconv.Atoi(args[len(args)-1])
			wait(1000 * s)
			fmt.Fprint(c, "*-1\r\n")
		default:
			fmt.Fprint(c, "+OK\r\n")
		}
	}
}

// deaf listens with no room for connections that wait to be accepted.
func deaf() string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		log.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		log.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		log.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		log.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", sa.(*syscall.SockaddrInet4).Port)
}
