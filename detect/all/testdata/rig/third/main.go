// Command shop runs one small service with one known fault, or none, on
// loopback, puts load on it, and writes what an on-call engineer would collect.
// Dependencies, and half of the clients, are the program itself run again.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	_ "net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// service is one case: what it serves, if anything, and the load on it.
type service struct {
	start  func() http.Handler // nil handler: works without requests
	load   load
	inside bool          // clients are goroutines of the service itself
	warm   time.Duration // before the first look; 2.5 s where 0
}

// upstream is where the service's dependency listens.
var upstream struct{ HTTP, HTTP2, Silent, Postgres string }

func main() {
	name := flag.String("case", "", "case to run; empty lists them")
	out := flag.String("out", ".", "directory to put the capture's folder in")
	role := flag.String("role", "", "internal: upstream or load")
	live := flag.String("live", "", "serve /debug/pprof at this address for 25 s rather than capture")
	flag.Parse()
	switch *role {
	case "upstream":
		go exitWithParent()
		serveUpstream()
	case "load":
		var l load
		if err := json.NewDecoder(os.Stdin).Decode(&l); err != nil {
			log.Fatal(err)
		}
		go exitWithParent()
		l.run()
		select {}
	}
	s, ok := cases[*name]
	if !ok {
		var names []string
		for n := range cases {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			fmt.Println(n)
		}
		return
	}
	runtime.GOMAXPROCS(2)
	runtime.SetBlockProfileRate(10000) // ns
	runtime.SetMutexProfileFraction(5)
	child("upstream", nil, &upstream)
	l := s.load
	if h := s.start(); h != nil {
		srv := httptest.NewUnstartedServer(h)
		if l.HTTP2 {
			srv.EnableHTTP2 = true
			srv.StartTLS()
		} else {
			srv.Start()
		}
		l.URL = srv.URL
	} else if l.URL == "" {
		l.URL = grpcAddr
	}
	switch {
	case l.N+l.Rate == 0:
	case s.inside:
		l.run()
	default:
		child("load", l, nil)
	}
	if *live != "" {
		go http.ListenAndServe(*live, nil)
		time.Sleep(25 * time.Second)
		return
	}
	if s.warm == 0 {
		s.warm = 2500 * time.Millisecond
	}
	time.Sleep(s.warm)
	capture(filepath.Join(*out, "t-"+*name))
}

// child runs this program again in a role. Its stdin stays open until the
// parent ends, which ends the child.
func child(role string, in, out any) {
	cmd := exec.Command(os.Args[0], "-role", role)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	if in != nil {
		json.NewEncoder(stdin).Encode(in)
	}
	if out != nil {
		if err := json.NewDecoder(stdout).Decode(out); err != nil {
			log.Fatal(err)
		}
	}
	pipes = append(pipes, stdin, stdout)
}

var pipes []any // of children, open as long as the parent lives

func exitWithParent() {
	buf := make([]byte, 16)
	for {
		if _, err := os.Stdin.Read(buf); err != nil {
			os.Exit(0)
		}
	}
}

// serveUpstream answers after ?ms= milliseconds; Silent accepts and says nothing.
func serveUpstream() {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ms int
		fmt.Sscan(r.URL.Query().Get("ms"), &ms)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		w.Write([]byte("ok\n"))
	})
	plain := httptest.NewServer(h)
	secure := httptest.NewUnstartedServer(h)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			pipes = append(pipes, c)
		}
	}()
	upstream.HTTP, upstream.HTTP2, upstream.Silent, upstream.Postgres = plain.URL, secure.URL, "http://"+silent.Addr().String(), servePostgres()
	json.NewEncoder(os.Stdout).Encode(upstream)
	select {}
}

// servePostgres lets everybody in, and answers no query.
func servePostgres() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				c.Read(make([]byte, 1024))
				c.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I")) // authenticated, ready
				io.Copy(io.Discard, c)
			}()
		}
	}()
	return l.Addr().String()
}
