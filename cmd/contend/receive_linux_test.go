package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// BenchmarkReceive pushes 200 profiles of 100 kB a second, on loopback, to contend
// receive in a process of its own, an iteration each: -benchtime 12000x is a minute. It
// states that process' largest resident memory, its CPU, and how many pushes were not acknowledged.
func BenchmarkReceive(b *testing.B) {
	const rate, most = 200, 60_000
	for _, mode := range []string{"bundle", "memory"} {
		b.Run(mode, func(b *testing.B) {
			if b.N > most {
				b.Fatalf("expected at most %d pushes, saw %d", most, b.N)
			}
			args := []string{"receive", "--listen", "127.0.0.1:0"}
			if mode == "bundle" {
				args = append(args, "--bundle", filepath.Join(b.TempDir(), "bundle"))
			}
			r := startReceive(b, args...)
			bodies := make([]*form, 20)
			for i := range bodies {
				bodies[i] = pushForm(largeProfile(b, i), `{"goroutine":{"display-name":"goroutine"}}`)
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			answers := make([]int, b.N)
			latency := make([]time.Duration, b.N)
			start := time.Now()
			for i := range b.N {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / rate)))
				wg.Go(func() {
					began := time.Now()
					answers[i], _ = r.push(b, pushQuery("bench", i%len(bodies), time.Now()), bodies[i%len(bodies)])
					latency[i] = time.Since(began)
				})
			}
			wg.Wait()
			b.StopTimer()
			slices.Sort(latency)
			b.ReportMetric(float64(latency[b.N*99/100].Milliseconds()), "p99-ms")
			b.ReportMetric(float64(len(bodies[0].data))/1e3, "kB/push")
			b.ReportMetric(peakMemory(b, r.cmd.Process.Pid), "peak-MB")
			counts := map[int]int{}
			for _, status := range answers {
				counts[status]++
			}
			for status, n := range counts {
				b.ReportMetric(float64(n), fmt.Sprintf("status-%d", status))
			}
			if code := r.end(b, syscall.SIGTERM); code != exitOK {
				b.Fatalf("exit code %d\n%s", code, r.stderr)
			}
			b.ReportMetric(r.cmd.ProcessState.UserTime().Seconds()+r.cmd.ProcessState.SystemTime().Seconds(), "cpu-s")
		})
	}
}

// peakMemory is the largest resident memory of a process, in MB.
func peakMemory(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if kB, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(kB)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(n) * 1024 / 1e6
		}
	}
	b.Fatal("no VmHWM in /proc")
	return 0
}

// largeProfile is a goroutine profile of some 100 kB as gzip leaves it: thousands of
// goroutines at as many places, under handlers.
func largeProfile(b *testing.B, seed int) []byte {
	b.Helper()
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}},
		PeriodType: &profile.ValueType{Type: "goroutine", Unit: "count"}, Period: 1,
		TimeNanos: time.Now().UnixNano(),
	}
	for i := range 1800 {
		f := &profile.Function{ID: uint64(i + 1), Name: fmt.Sprintf("example.com/shop/p%d.(*T%x).M%x", i%50, rng.Uint32(), rng.Uint32()), Filename: fmt.Sprintf("/src/shop/p%d/f%d.go", i%50, i%300)}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1), Address: 0x400000 + uint64(rng.Uint32N(1<<24)), Line: []profile.Line{{Function: f, Line: int64(i)}}})
	}
	for range 1200 {
		s := &profile.Sample{Value: []int64{int64(1 + rng.IntN(5))}}
		for range 20 {
			s.Location = append(s.Location, p.Location[rng.IntN(len(p.Location))])
		}
		p.Sample = append(p.Sample, s)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}
