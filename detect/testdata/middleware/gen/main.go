// Command shop serves one request path behind a middleware of the user's
// choice, lets 40 requests wait inside it, and writes the goroutine profile.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// requests is how many wait at once: enough to tower over the process's own
// goroutines, few enough for a small file.
const requests = 40

func main() {
	scenario := flag.String("case", "", "what to capture: MIDDLEWARE-lock, MIDDLEWARE-pool, otel-exporter, zap-sink or logrus-pipe")
	out := flag.String("out", ".", "write the captures to this `directory`")
	inside := flag.Bool("inside", false, "keep the clients in this process")
	client := flag.String("client", "", "be the clients: send the requests to this `URL`")
	flag.Parse()
	if *client != "" {
		send(*client)
		return
	}
	if err := run(*scenario, *out, *inside); err != nil {
		log.Fatal(err)
	}
}

func run(scenario, out string, inside bool) error {
	handler, err := scene(scenario)
	if err != nil {
		return err
	}
	var entered atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered.Add(1)
		handler.ServeHTTP(w, r)
	})
	go http.Serve(l, counted)

	url := "http://" + l.Addr().String() + "/item?id="
	if inside {
		go send(url)
	} else {
		clients := exec.Command(os.Args[0], "-client", url)
		if err := clients.Start(); err != nil {
			return err
		}
		defer func() {
			clients.Process.Kill()
			clients.Wait()
		}()
	}
	for entered.Load() < requests {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond) // from the door to where they wait
	if err := write(filepath.Join(out, "goroutine.pb.gz"), 0); err != nil {
		return err
	}
	return write(filepath.Join(out, "goroutine.debug2.txt"), 2)
}

func write(name string, debug int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.Lookup("goroutine").WriteTo(f, debug); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// send makes all requests at once and waits for their answers.
func send(url string) {
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			resp, err := http.Get(url + strconv.Itoa(i))
			if err != nil {
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	all.Wait()
}

// scene builds the handler that a case is about.
func scene(name string) (http.Handler, error) {
	switch name {
	case "otel-exporter":
		return spans(), nil
	case "zap-sink":
		return zapLogger(), nil
	case "logrus-pipe":
		return logrusLogger()
	}
	for _, m := range middlewares {
		switch name {
		case m.name + "-lock":
			return m.wrap(locked())
		case m.name + "-pool":
			return m.wrap(pooled())
		}
	}
	return nil, fmt.Errorf("case %q is unknown", name)
}
