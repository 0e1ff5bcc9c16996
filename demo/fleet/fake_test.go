package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/contend/contend/demo/gateway"
)

// The test's binary started again with one of these is another program.
const (
	fakeTask   = "fake-task"
	fakeParent = "fake-parent" // runs a fleet and dies as its second argument says
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fakeTask {
		runTask()
		return
	}
	if len(os.Args) > 2 && os.Args[1] == fakeParent {
		runParent(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func refuses(string) gateway.Config { return gateway.Config{Admission: 1} }
func mumbles(string) gateway.Config { return gateway.Config{Admission: 2} }

// deaf tasks do not notice the end of their input.
func deaf(string) gateway.Config { return gateway.Config{Streams: true} }

// runTask speaks the protocol of gateway.Main. Fields of Config and Faults have
// meanings of the tests' own: see where they are read.
func runTask() {
	lines := bufio.NewScanner(os.Stdin)
	var cfg gateway.Config
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &cfg) != nil {
		os.Exit(4)
	}
	switch cfg.Admission {
	case 1:
		fmt.Fprintln(os.Stderr, "refused")
		os.Exit(3)
	case 2:
		fmt.Println("no address")
		select {}
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	go func() {
		for range terminate {
			if cfg.Hold == 0 {
				os.Exit(0)
			}
		}
	}()
	var faults atomic.Pointer[gateway.Faults]
	faults.Store(&cfg.Faults)
	asked := make(chan string, 1)
	handler := func(listener string) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
			select {
			case asked <- listener:
			default:
			}
			now := faults.Load()
			time.Sleep(now.HealthDelay)
			if now.Wedged {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
			if faults.Load().Leak {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		mux.HandleFunc("/asked", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, <-asked) })
		mux.HandleFunc("/told", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s loops=%d query=%v threads=%d", cfg.Name, cfg.Loops, faults.Load().Query, runtime.GOMAXPROCS(0))
		})
		return mux
	}
	serve := func(name string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		go http.Serve(l, handler(name))
		return "http://" + l.Addr().String()
	}
	fmt.Printf("{\"url\": %q, \"admin\": %q}\n", serve("traffic"), serve("admin"))
	var grown []byte
	for lines.Scan() {
		var f gateway.Faults
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			panic(err)
		}
		if f.Deadlock {
			panic("as told")
		}
		grown = make([]byte, f.Grow)
		for i := range grown {
			grown[i] = 1
		}
		faults.Store(&f)
	}
	if cfg.Streams {
		select {}
	}
	runtime.KeepAlive(grown)
}

// runParent starts a fleet, prints where its tasks serve, and dies when told to.
func runParent(how string) {
	cfg := newRecord().hear(Config{Tasks: 2, Replace: true})
	if strings.HasSuffix(how, "deaf") {
		cfg.Task = deaf
	}
	f, err := Start(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	for _, t := range f.Tasks() {
		fmt.Println(t.URL)
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.TrimSuffix(how, " deaf") {
	case "panic":
		panic("as told")
	case "exit":
		os.Exit(0)
	}
	select {} // until it is killed
}

func TestNoTaskOutlivesItsParent(t *testing.T) {
	t.Parallel()
	hows := []string{"killed", "panic", "exit"}
	if runtime.GOOS == "linux" {
		hows = append(hows, "killed deaf", "panic deaf", "exit deaf")
	}
	for _, how := range hows {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], fakeParent, how)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			var urls []string
			for len(urls) < 2 && lines.Scan() {
				urls = append(urls, lines.Text())
			}
			if len(urls) != 2 || refused(urls[0]) || refused(urls[1]) {
				t.Fatalf("tasks at %q, want two that serve", urls)
			}
			if strings.HasPrefix(how, "killed") {
				cmd.Process.Kill()
			} else {
				fmt.Fprintln(stdin)
			}
			cmd.Wait()
			deadline := time.Now().Add(patient)
			for _, url := range urls {
				for !refused(url) {
					if time.Now().After(deadline) {
						t.Fatalf("the task at %s still serves", url)
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}

// refused tells whether nobody listens there any more, and so the process is gone.
func refused(url string) bool {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err == nil {
		c.Close()
	}
	return err != nil
}
