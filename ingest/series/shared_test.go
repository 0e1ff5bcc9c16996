package series

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/series/memory"
)

// TestSimulatedSeries collects each recorded file of the simulator: exactly
// these signals are found, of every instance.
func TestSimulatedSeries(t *testing.T) {
	const dir = "../../../shared/series"
	files, err := filepath.Glob(filepath.Join(dir, "*", "series.om.gz"))
	if err != nil || len(files) == 0 {
		t.Skipf("no simulated series in %s", dir)
	}
	const (
		golang = "arrivals completions connections cpu cpu_limit errors goroutines health_failures health_latency inflight inflight_change latency lock_wait memory start_time up"
		sql    = golang + " pool_use pool_wait"
		python = "arrivals completions connections cpu errors goroutines health_failures health_latency inflight inflight_change latency memory up"
		grpc   = "arrivals completions connections cpu cpu_limit errors goroutines health_failures health_latency inflight inflight_change latency memory start_time up"
	)
	want := map[string]string{
		"counter-resets":            golang,
		"cpu-saturation-regression": golang,
		"diurnal-growth":            python,
		"gauge-leak":                golang,
		"grpc-streams":              grpc,
		"lock-growth-mutex":         golang,
		"pool-databasesql":          sql,
		"rolling-deploys":           golang,
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			var expect struct {
				Start, End int64
				Selector   string
				IntervalS  int `json:"interval_s"`
			}
			data, err := os.ReadFile(filepath.Join(filepath.Dir(file), "expect.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &expect); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			unpacked, err := gzip.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReaderSize(unpacked, 1<<16)
			head, err := in.Peek(1 << 12)
			if err != nil {
				t.Fatal(err)
			}
			store := memory.New()
			if _, err := store.Load(name, in, memory.LoadOptions{Format: memory.Sniff(head)}); err != nil {
				t.Fatal(err)
			}
			c, err := Collect(t.Context(), store, CollectOptions{
				Selector: expect.Selector, Start: time.Unix(expect.End, 0).Add(-time.Hour), End: time.Unix(expect.End, 0), History: 70 * time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Failures) > 0 || len(c.Notes) > 0 {
				t.Errorf("failures %v, notes %q", c.Failures, c.Notes)
			}
			if want := time.Duration(expect.IntervalS) * time.Second; c.Timing.Interval != want {
				t.Errorf("interval %s, want %s", c.Timing.Interval, want)
			}
			got := map[string]int{}
			for _, m := range c.Matches {
				if m.Missing == "" {
					got[m.Signal] = m.Instances
				}
			}
			signals := slices.Sorted(strings.FieldsSeq(want[name]))
			if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, signals) {
				t.Errorf("found %q\nwant  %q", have, signals)
			}
			t.Log(c.Jobs, got)
		})
	}
}
