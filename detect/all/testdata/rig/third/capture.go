package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"
)

// between is the time from the first look to the second; early asks for a dump at both.
var (
	between = 4 * time.Second
	early   = false
)

func capture(dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		log.Fatal(err)
	}
	a := time.Now().UTC()
	writeProfile(dir, "goroutine", "goroutine-a")
	writeProfile(dir, "block", "block-a")
	writeProfile(dir, "mutex", "mutex-a")
	if early {
		write(dir, "earlier.debug2.txt.gz", zip(text(2)))
	}
	time.Sleep(between)
	b := time.Now().UTC()
	writeProfile(dir, "goroutine", "goroutine")
	writeProfile(dir, "block", "block-b")
	writeProfile(dir, "mutex", "mutex-b")
	write(dir, "goroutine.debug1.txt", text(1))
	write(dir, "goroutine.debug2.txt.gz", zip(text(2)))
	meta, _ := json.Marshal(map[string]any{"go": runtime.Version(), "gomaxprocs": runtime.GOMAXPROCS(0), "a": a, "b": b,
		"elapsed_seconds": b.Sub(a).Seconds(), "goroutines": runtime.NumGoroutine()})
	write(dir, "capture.json", append(meta, '\n'))
}

// writeProfile replaces the path of the binary, which is that of a machine.
func writeProfile(dir, kind, name string) {
	var raw, buf bytes.Buffer
	if err := pprof.Lookup(kind).WriteTo(&raw, 0); err != nil {
		log.Fatal(err)
	}
	p, err := profile.Parse(&raw)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range p.Mapping {
		m.File = "service"
	}
	p.Write(&buf)
	write(dir, name+".pb.gz", buf.Bytes())
}

func text(debug int) []byte {
	var buf bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&buf, debug)
	return buf.Bytes()
}

func zip(data []byte) []byte {
	var buf bytes.Buffer
	w, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	w.Write(data)
	w.Close()
	return buf.Bytes()
}

func write(dir, name string, data []byte) {
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		log.Fatal(err)
	}
}
