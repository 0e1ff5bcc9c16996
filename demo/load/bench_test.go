//go:build unix

package load

import (
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCall is 2,000 calls a second for a second against a server that does
// nothing, in one process. CPU of both is reported for each call.
func BenchmarkCall(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for b.Loop() {
		before := cpuTime(b)
		cfg := soon(server.URL)
		cfg.Phases = Constant(2000, time.Second)
		g, err := Start(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		r := g.Wait()
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(r.Arrived), "µs-cpu/call")
		b.ReportMetric(float64(r.Lateness.P99.Microseconds()), "µs-late-p99")
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
