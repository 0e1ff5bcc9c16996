// Real holds package headroom to a sync.Mutex: it locks one at known loads, reads
// this process's own block and goroutine profiles, and prints what headroom says
// beside where the lock saturates when everybody asks for it at once.
//
//	go run ./detect/headroom/testdata/real -for 20s
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contend/contend/detect/headroom"
)

type service struct {
	mu   sync.Mutex
	hold func()
	held atomic.Int64 // nanoseconds
}

//go:noinline
func (s *service) critical() {
	s.mu.Lock()
	began := time.Now()
	s.hold()
	s.held.Add(int64(time.Since(began)))
	s.mu.Unlock()
}

// gaps are seconds between arrivals, of mean 1.
var patterns = []struct {
	name string
	gap  func() float64
}{
	{"random", rand.ExpFloat64},
	{"robin 6", func() float64 {
		sum := 0.0
		for range 6 {
			sum += rand.ExpFloat64()
		}
		return sum / 6
	}},
	{"batches", func() float64 { // of 4 on average
		if rand.Float64() < 0.75 {
			return 0
		}
		return 4 * rand.ExpFloat64()
	}},
}

func main() {
	elapsed := flag.Duration("for", 20*time.Second, "time to look at each load")
	hold := flag.Duration("hold", 5*time.Millisecond, "time to hold the lock")
	spin := flag.Bool("spin", false, "hold it computing, not sleeping")
	exponential := flag.Bool("exponential", false, "hold it for exponentially distributed times")
	flag.Parse()
	runtime.SetBlockProfileRate(1)
	s := &service{hold: func() {
		d := *hold
		if *exponential {
			d = time.Duration(rand.ExpFloat64() * float64(d))
		}
		if !*spin {
			time.Sleep(d)
			return
		}
		for until := time.Now().Add(d); time.Now().Before(until); {
		}
	}}
	most := s.capacity(3 * time.Second)
	fmt.Printf("one at a time, %.1f a second\n\npattern  share of that  held   saturates  direct          levels, waits   share           queue           all\n", most)
	for _, p := range patterns {
		seen := map[int]headroom.Window{}
		for _, percent := range []int{15, 20, 30, 40, 60, 80} {
			before := s.held.Load()
			w, counts := s.run(most*float64(percent)/100, p.gap, *elapsed)
			rho := float64(s.held.Load()-before) / float64(w.Elapsed)
			if p.name == "random" { // since counts in 20 seconds are too few to tell
				w.Arrivals = headroom.Random
			} else {
				w.Arrivals = headroom.PatternOf(counts)
			}
			seen[percent] = w
			levels, all := headroom.Forecast{Refused: "one"}, headroom.Of(w)
			if low, ok := seen[percent/2]; ok {
				all = headroom.Of(low, w)
				low.Snapshots, w.Snapshots = 0, 0
				levels = headroom.Levels(low, w)
				w = seen[percent]
			}
			fmt.Printf("%-8s %.2f           %.2f   %4.2f      ", p.name, float64(percent)/100, rho, most*w.Elapsed.Seconds()/w.Acquisitions)
			for _, f := range []headroom.Forecast{headroom.Direct(w), levels, headroom.Share(w), headroom.Queue(w), all} {
				if f.Refused != "" {
					fmt.Printf(" %-15s", "-")
				} else {
					fmt.Printf(" %4.2f %4.2f-%-5.2f", f.Saturates.At, f.Saturates.Low, f.Saturates.High)
				}
			}
			fmt.Println()
		}
	}
}

// capacity is how often the lock is taken a second where somebody always waits.
func (s *service) capacity(d time.Duration) float64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range 20 {
		wg.Go(func() {
			for time.Since(began) < d {
				s.critical()
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// run has goroutines ask for the lock at rate a second and says what was seen of it.
func (s *service) run(rate float64, gap func() float64, elapsed time.Duration) (headroom.Window, []float64) {
	var w headroom.Window
	contentions, delay := waited()
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		inside := false
		for time.Since(began) < elapsed {
			time.Sleep(40*time.Millisecond + time.Duration(rand.Int64N(int64(20*time.Millisecond))))
			was := inside
			inside = somebodyInside()
			w.Snapshots++
			if inside {
				w.Inside++
			}
			if inside != was && w.Snapshots > 1 {
				w.Changes++
			}
		}
	}()
	const slot = 100 * time.Millisecond
	counts := make([]float64, elapsed/slot)
	var wg sync.WaitGroup
	for at := time.Duration(0); ; {
		at += time.Duration(gap() / rate * float64(time.Second))
		if at >= elapsed {
			break
		}
		time.Sleep(time.Until(began.Add(at)))
		w.Acquisitions++
		counts[min(int(at/slot), len(counts)-1)]++
		wg.Go(s.critical)
	}
	<-done
	w.Elapsed = time.Since(began)
	wg.Wait()
	c, d := waited()
	w.Contentions, w.Delay = float64(c-contentions), d-delay
	return w, counts
}

// names are the functions of a stack, leaf first, a line each.
func names(stack []uintptr) string {
	var b strings.Builder
	for frames := runtime.CallersFrames(stack); ; {
		f, more := frames.Next()
		b.WriteString(f.Function + "\n")
		if !more {
			return b.String()
		}
	}
}

func somebodyInside() bool {
	records := make([]runtime.StackRecord, 10000)
	n, ok := runtime.GoroutineProfile(records)
	if !ok {
		fmt.Fprintln(os.Stderr, "more goroutines than expected")
		os.Exit(1)
	}
	for i := range records[:n] {
		if strings.Contains(names(records[i].Stack()), "main.(*service).critical") {
			return true
		}
	}
	return false
}

// waited is how often and how long goroutines have waited for the lock so far.
func waited() (int64, time.Duration) {
	var text bytes.Buffer
	var perSecond int64
	if err := pprof.Lookup("block").WriteTo(&text, 1); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Sscanf(text.String(), "--- contention:\ncycles/second=%d", &perSecond)
	records := make([]runtime.BlockProfileRecord, 1000)
	n, _ := runtime.BlockProfile(records)
	var count, cycles int64
	for i := range records[:n] {
		if strings.Contains(names(records[i].Stack()), "sync.(*Mutex).Lock\nmain.(*service).critical") {
			count, cycles = count+records[i].Count, cycles+records[i].Cycles
		}
	}
	return count, time.Duration(float64(cycles) / float64(perSecond) * float64(time.Second))
}
