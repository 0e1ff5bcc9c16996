package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"
)

const (
	blockRate     = 10000 // ns
	mutexFraction = 5
	settle        = 2 * time.Second
	between       = 5 * time.Second
)

func runService(s service, out string) {
	runtime.SetBlockProfileRate(blockRate)
	runtime.SetMutexProfileFraction(mutexFraction)
	ln, err := net.Listen("tcp", serviceAddr)
	check(err)
	go s.serve(ln)
	if s.inside {
		go load(s)
	}
	time.Sleep(settle)
	a := time.Now()
	write(out, "goroutine-a.pb.gz", "goroutine", 0)
	write(out, "block-a.pb.gz", "block", 0)
	write(out, "mutex-a.pb.gz", "mutex", 0)
	time.Sleep(between)
	b := time.Now()
	write(out, "goroutine.pb.gz", "goroutine", 0)
	write(out, "goroutine.debug1.txt", "goroutine", 1)
	write(out, "goroutine.debug2.txt.gz", "goroutine", 2)
	write(out, "block-b.pb.gz", "block", 0)
	write(out, "mutex-b.pb.gz", "mutex", 0)
	about, err := json.Marshal(map[string]any{
		"go": runtime.Version(), "gomaxprocs": runtime.GOMAXPROCS(0), "a": a.UTC(), "b": b.UTC(), "elapsed_seconds": b.Sub(a).Seconds(),
		"load_in_flight": s.clients, "load_inside": s.inside, "goroutines": runtime.NumGoroutine(),
		"block_rate_ns": blockRate, "mutex_fraction": mutexFraction,
	})
	check(err)
	check(os.WriteFile(filepath.Join(out, "capture.json"), append(about, '\n'), 0o644))
	os.Exit(0)
}

func write(dir, file, profile string, debug int) {
	f, err := os.Create(filepath.Join(dir, file))
	check(err)
	defer f.Close()
	var w io.Writer = f
	if debug == 2 {
		z := gzip.NewWriter(f)
		defer z.Close()
		w = z
	}
	check(pprof.Lookup(profile).WriteTo(w, debug))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
