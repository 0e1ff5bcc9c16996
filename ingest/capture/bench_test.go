package capture

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// One minute's scrapes of a large service, and writing them.
func BenchmarkSeriesSet(b *testing.B) {
	var body bytes.Buffer
	for i := range 10_000 {
		if i%10 == 0 {
			fmt.Fprintf(&body, "# TYPE metric_%d_total counter\n", i/10)
		}
		fmt.Fprintf(&body, "metric_%d_total{method=\"GET\",path=\"/api/v1/items\",code=\"%d\"} %d\n", i/10, i%10, i*7)
	}
	for b.Loop() {
		s := newTarget("gateway", "gateway:6060")
		for i := range int64(13) {
			if _, err := s.add(i*5000, 0.01, body.Bytes(), ""); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(13 * body.Len()))
	b.ReportAllocs()
}
