// Command waits parks known numbers of goroutines in every kind of wait, each
// kind in a function of its own, and writes the process's profiles. It uses the
// standard library only and builds with Go 1.20 and later. The numbers are
// listed by hand in versions/expect.json.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"
)

// settle is how long everything gets to park before a capture: the slowest
// part is a few dozen loopback requests, which take some milliseconds.
const settle = 700 * time.Millisecond

func main() {
	out := flag.String("out", ".", "write captures to this `directory`")
	mode := flag.String("mode", "profiles", "profiles, panic, quit (park, and wait for SIGQUIT), labels or leak")
	flag.Parse()
	if err := run(*mode, *out); err != nil {
		log.Fatal(err)
	}
}

func run(mode, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	switch mode {
	case "profiles":
		if err := churn(out); err != nil {
			return err
		}
		if err := park(); err != nil {
			return err
		}
		time.Sleep(settle)
		return capture(out)
	case "panic":
		if err := park(); err != nil {
			return err
		}
		time.Sleep(settle)
		panic("on purpose")
	case "quit":
		if err := park(); err != nil {
			return err
		}
		time.Sleep(settle)
		fmt.Println("parked")
		time.Sleep(time.Minute)
		return nil
	case "labels":
		parkLabels()
		time.Sleep(settle)
		return capture(out)
	case "leak":
		return leak(out)
	}
	return fmt.Errorf("mode %q is unknown: want profiles, panic, quit, labels or leak", mode)
}

// park starts everything. Each callee returns at once.
func park() error {
	runtime.GOMAXPROCS(4) // two spin, and the rest must still run
	parkSync()
	parkChannels()
	parkNames()
	if err := parkFiles(); err != nil {
		return err
	}
	if err := parkHTTP(); err != nil {
		return err
	}
	parkSQL()
	start(2, spin)
	return nil
}

// start runs f in n goroutines.
func start(n int, f func()) {
	for i := 0; i < n; i++ {
		go f()
	}
}

// capture writes the goroutine profile in its three forms.
func capture(dir string) error {
	for debug, name := range []string{"goroutine.pb.gz", "goroutine.debug1.txt", "goroutine.debug2.txt"} {
		if err := writeProfile("goroutine", filepath.Join(dir, name), debug); err != nil {
			return err
		}
	}
	return nil
}

func writeProfile(profile, file string, debug int) error {
	p := pprof.Lookup(profile)
	if p == nil {
		return fmt.Errorf("no profile %q in %s", profile, runtime.Version())
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := p.WriteTo(f, debug); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
