package memory

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// fleet writes OpenMetrics text of so many series: by series, as promtool
// does, or else by scrape.
func fleet(w io.Writer, instances, signals, samples int, bySeries bool) error {
	b := bufio.NewWriterSize(w, 1<<16)
	line := func(i, j, k int) {
		fmt.Fprintf(b, "http_server_signal_%02d_total{instance=\"10.0.%d.%d:8080\",job=\"gateway\",method=\"GET\"} %.6g %d.%03d\n",
			j, i/250, i%250, float64(k*(j+1))*0.37, 1_700_000_000+k*15, i%1000)
	}
	for n := range instances * signals * samples {
		if bySeries {
			line(n/samples%instances, n/samples/instances, n%samples)
		} else {
			line(n/signals%instances, n%signals, n/signals/instances)
		}
	}
	b.WriteString("# EOF\n")
	return b.Flush()
}

// BenchmarkLoad prints MB/s and the ratio to a plain loop of model/textparse
// over the same text, which parses labels and keeps nothing.
func BenchmarkLoad(b *testing.B) {
	for _, bm := range []struct {
		name     string
		bySeries bool
	}{{"by-series", true}, {"by-scrape", false}} {
		var buf bytes.Buffer
		fleet(&buf, 100, 12, 240, bm.bySeries)
		text := buf.Bytes()
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				got, err := New().Load("f", bytes.NewReader(text), LoadOptions{Format: OpenMetrics})
				if err != nil || got.Samples != 100*12*240 {
					b.Fatal(got, err)
				}
			}
			b.StopTimer()
			own := b.Elapsed() / time.Duration(b.N)
			start := time.Now()
			const rounds = 3
			for range rounds {
				textparseAll(b, text)
			}
			theirs := time.Since(start) / rounds
			b.ReportMetric(float64(theirs)/float64(own), "x-textparse")
		})
	}
}

func BenchmarkLoadJSON(b *testing.B) {
	var results []string
	for i := range 100 {
		var values []string
		for k := range 480 {
			values = append(values, fmt.Sprintf(`[%d.%03d,"%g"]`, 1_700_000_000+k*15, i, float64(k)*0.37))
		}
		results = append(results, fmt.Sprintf(`{"metric":{"__name__":"up","instance":"%d"},"values":[%s]}`, i, strings.Join(values, ",")))
	}
	text := matrix(strings.Join(results, ","))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if got, err := New().Load("f", strings.NewReader(text), LoadOptions{Format: JSON}); err != nil || got.Samples != 48000 {
			b.Fatal(got, err)
		}
	}
}

func textparseAll(b *testing.B, text []byte) {
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	var lset labels.Labels
	for {
		kind, err := p.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
		if kind == textparse.EntrySeries {
			p.Series()
			p.Labels(&lset)
		}
	}
}

// BenchmarkMemory prints what 8.6 million samples take: 1,000 instances with
// 12 signals for 3 hours at 15 s. Their text is written while it is read, so
// that memory is the store's.
func BenchmarkMemory(b *testing.B) {
	for _, bm := range []struct {
		name     string
		bySeries bool
	}{{"by-series", true}, {"by-scrape", false}} {
		b.Run(bm.name, func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				r, w := io.Pipe()
				go func() { w.CloseWithError(fleet(w, 1000, 12, 720, bm.bySeries)) }()
				s := New()
				if _, err := s.Load("f", r, LoadOptions{Format: OpenMetrics}); err != nil {
					b.Fatal(err)
				}
				n := s.Stats().Samples
				var full runtime.MemStats
				runtime.ReadMemStats(&full)
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(s)
				b.ReportMetric(float64(n), "samples")
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "live-MB")
				b.ReportMetric(float64(full.HeapSys)/1e6, "peak-heap-MB")
			}
		})
	}
}

// BenchmarkRange evaluates for fleets of three sizes: what one signal of stage
// one costs, and a baseline of stage two.
func BenchmarkRange(b *testing.B) {
	for _, instances := range []int{10, 100, 1000} {
		s := New()
		ts, vs := every(720, 15)
		for i := range instances {
			for j := range 12 {
				s.Append(labels.FromStrings("__name__", fmt.Sprintf("signal_%d_total", j), "instance", fmt.Sprint(i), "job", "x"), ts, vs)
			}
		}
		start, end, _ := s.Extent()
		start = start.Add(time.Hour)
		for _, expr := range []string{
			`signal_0_total`,
			`sum by (job, instance) (rate(signal_1_total[1m]))`,
			`max_over_time(signal_2_total[1m])`,
			`quantile_over_time(0.5, signal_3_total[1h:2m] offset 5m)`,
			`signal_4_total > 2 * (signal_5_total + 1)`,
		} {
			b.Run(fmt.Sprintf("%d/%s", instances, expr), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Range(context.Background(), expr, start, end, 15*time.Second); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("%d/twelve at once", instances), func(b *testing.B) {
			for b.Loop() {
				var wg sync.WaitGroup
				for half := range 2 {
					wg.Go(func() {
						for j := range 6 {
							if _, err := s.Range(context.Background(), fmt.Sprintf(`sum by (job, instance) (rate(signal_%d_total[1m]))`, half*6+j), start, end, 15*time.Second); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			}
		})
	}
}
