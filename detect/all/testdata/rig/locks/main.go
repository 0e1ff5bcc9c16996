// Command orders is a set of small services, each with one injected fault in its
// locks. The parent process starts the service, plays its dependencies (a slow
// back end, a reader of its log), and where the load is not inside the service,
// sends it. The service captures itself at the peak of trouble and exits.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

const (
	serviceAddr = "127.0.0.1:18471"
	backendAddr = "127.0.0.1:18472" // answers after ?ms= milliseconds
	sinkAddr    = "127.0.0.1:18473" // reads slowly
)

// service is one program with one fault.
type service struct {
	clients int                                         // concurrent callers
	inside  bool                                        // callers run in the service's own process
	log     string                                      // reader of stdout and stderr: "" quick, "slow", or "stopped"
	serve   func(ln net.Listener)                       // serves until the process ends
	client  func(clients int) func(caller, n int) error // default: HTTP
}

func main() {
	name := flag.String("case", "", "service to run")
	out := flag.String("out", "", "directory for the captures")
	serve := flag.Bool("serve", false, "be the service")
	flag.Parse()
	s, ok := services[*name]
	if !ok {
		for n := range services {
			fmt.Println(n)
		}
		return
	}
	if s.client == nil {
		s.client = httpClient
	}
	if *serve {
		runService(s, *out)
		return
	}
	go backend()
	go sink()
	if err := supervise(s, "-serve", "-case", *name, "-out", *out); err != nil {
		fmt.Fprintln(os.Stderr, *name, err)
		os.Exit(1)
	}
}

func supervise(s service, args ...string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close() // not before: a collected reader would break the pipe
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return err
	}
	switch s.log {
	case "slow":
		go drip(r)
	case "stopped":
	default:
		go io.Copy(os.Stderr, r)
	}
	if !s.inside {
		go load(s)
	}
	return cmd.Wait()
}

// drip reads 200 kB a second.
func drip(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		if _, err := r.Read(buf); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func backend() {
	http.ListenAndServe(backendAddr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := time.ParseDuration(r.FormValue("ms") + "ms")
		time.Sleep(d)
	}))
}

func sink() {
	ln, err := net.Listen("tcp", sinkAddr)
	for err == nil {
		var c net.Conn
		if c, err = ln.Accept(); err == nil {
			c.(*net.TCPConn).SetReadBuffer(4096)
			go drip(c)
		}
	}
}

// ask calls the back end, which takes ms milliseconds.
func ask(ms int) error {
	resp, err := http.Get(fmt.Sprintf("http://%s/?ms=%d", backendAddr, ms))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func load(s service) {
	call := s.client(s.clients)
	for i := 0; i < s.clients; i++ {
		go func(caller int) {
			for n := 0; ; n++ {
				if call(caller, n) != nil {
					time.Sleep(50 * time.Millisecond)
				}
			}
		}(i)
	}
}

func httpClient(clients int) func(caller, n int) error {
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	return func(caller, n int) error {
		resp, err := c.Get(fmt.Sprintf("http://%s/order/%d?caller=%d", serviceAddr, n, caller))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
}
