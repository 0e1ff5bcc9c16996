// Command peers measures contend's reading of goroutine dumps beside other
// readers of the same, on one core and in one run of at most a few minutes:
//
//	go run .              a dump of 17,000 goroutines through each
//	go run . -huge        1 GB through contend, and the memory it took
//	go run . -pprof FILE  contend analyze FILE beside go tool pprof -top FILE
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/DataDog/gostackparse"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
	contend "github.com/contend/contend/ingest/stacks"
	panicparse "github.com/maruel/panicparse/v2/stack"
)

func main() {
	rounds := flag.Int("rounds", 7, "how often to measure; the median is printed")
	huge := flag.Bool("huge", false, "read a dump of 1 GB and print the peak memory")
	profile := flag.String("pprof", "", "time whole processes on this profile `FILE`")
	flag.Parse()
	log.SetFlags(0)
	var err error
	switch {
	case *huge:
		err = readHuge()
	case *profile != "":
		err = processes(*profile, *rounds)
	default:
		err = compare(*rounds)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// analyse is all that contend does with a dump: reading, every detector, the
// verdict and the report in text. It returns how many goroutines it found.
func analyse(data []byte) (int, error) {
	snapshots, err := contend.ReadText("dump", bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	r := detect.Run(&ingest.Bundle{Snapshots: snapshots}, nil, all.Detectors(), detect.Options{})
	if r.Verdict.Cause != "telemetryblock" {
		return 0, fmt.Errorf("expected the verdict telemetryblock, saw %q: %s", r.Verdict.Cause, r.Verdict.Summary)
	}
	return count(snapshots), report.Text(io.Discard, r, report.TextOptions{Top: 3})
}

func count(snapshots []*contend.Snapshot) int {
	n := int64(0)
	for _, s := range snapshots {
		for _, g := range s.Groups {
			n += g.Count
		}
	}
	return int(n)
}

func withGostackparse(data []byte) (int, error) {
	all, errs := gostackparse.Parse(bytes.NewReader(data))
	return len(all), errors.Join(errs...)
}

// withPanicparse does as its own command does with a dump.
func withPanicparse(data []byte) (int, error) {
	snapshot, _, err := panicparse.ScanSnapshot(bytes.NewReader(data), io.Discard, panicparse.DefaultOpts())
	if err != nil && err != io.EOF {
		return 0, err
	}
	if snapshot == nil {
		return 0, errors.New("panicparse: no goroutines found")
	}
	n := 0
	for _, b := range snapshot.Aggregate(panicparse.AnyPointer).Buckets {
		n += len(b.IDs)
	}
	return n, nil
}

// panicparse gets only the first goroutines, and fewer rounds: all of them take
// it over a minute. Its time grows with the square of its input (6 MiB/s on
// 1,000 goroutines, 2 MiB/s on 4,000), so comparing speeds does it a favour.
const (
	panicparseSlice  = 4_000
	panicparseRounds = 3
)

func compare(rounds int) error {
	runtime.GOMAXPROCS(1)
	whole, slice := dump(goroutines), dump(panicparseSlice)
	fmt.Printf("%d goroutines, %.1f MiB; panicparse: the first %d, %.1f MiB, at most %d rounds\nCPU time on one core, %d rounds, %s\n",
		goroutines, mib(whole), panicparseSlice, mib(slice), panicparseRounds, rounds, runtime.Version())
	readers := []*reading{
		{name: "contend", read: analyse, data: whole, want: goroutines},
		{name: "gostackparse", read: withGostackparse, data: whole, want: goroutines},
		{name: "panicparse", read: withPanicparse, data: slice, want: panicparseSlice},
	}
	for i := range rounds {
		for _, r := range readers {
			if r.name == "panicparse" && i >= panicparseRounds {
				continue
			}
			if err := r.measure(); err != nil {
				return err
			}
		}
	}
	for _, r := range readers {
		fmt.Printf("%-13s %9.2f MiB/s  (%.2f to %.2f)\n", r.name, median(r.speeds), slices.Min(r.speeds), slices.Max(r.speeds))
	}
	for _, r := range readers[1:] {
		// Neighbours in time share what else the machine was doing.
		fmt.Printf("contend / %-13s %6.2f\n", r.name, median(quotients(readers[0].speeds, r.speeds)))
	}
	return nil
}

type reading struct {
	name   string
	read   func([]byte) (int, error)
	data   []byte
	want   int       // goroutines
	speeds []float64 // MiB/s, one for each round
}

func (r *reading) measure() error {
	runtime.GC() // one reader's garbage is not the next one's cost
	before := cpuTime()
	got, err := r.read(r.data)
	took := cpuTime() - before
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	if got != r.want {
		return fmt.Errorf("%s read %d goroutines: want %d", r.name, got, r.want)
	}
	r.speeds = append(r.speeds, mib(r.data)/took.Seconds())
	return nil
}

// cpuTime is what the process has used so far. On a shared machine it repeats
// better than the clock does, and with one core they are the same otherwise.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // its arguments are constants: it cannot fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func mib(data []byte) float64 { return float64(len(data)) / (1 << 20) }

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	if len(v)%2 == 0 {
		return (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return v[len(v)/2]
}

// quotients divides round by round, as far as both have rounds.
func quotients(a, b []float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for i := range q {
		q[i] = a[i] / b[i]
	}
	return q
}
