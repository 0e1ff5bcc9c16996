package all_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest"
)

// FuzzAnalyse feeds whatever comes to the whole run, from reading to both
// reports. A detector that panics is caught by Run, so its mark is looked for.
func FuzzAnalyse(f *testing.F) {
	inputs, _ := filepath.Glob("testdata/cases/*/input.*")
	leaks, _ := filepath.Glob("../../ingest/stacks/testdata/versions/leak-*/goroutineleak.*.gz")
	pairs, _ := filepath.Glob("testdata/captures/cache-fill/*-b.pb.gz")
	if len(inputs) == 0 || len(leaks) == 0 || len(pairs) == 0 {
		f.Fatal("seeds are missing")
	}
	inputs = append(append(inputs, leaks...), pairs...)
	for _, path := range inputs {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 16<<10 { // larger ones only slow the mutations
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := ingest.Load(context.Background(), []string{"-"}, ingest.Options{Stdin: bytes.NewReader(data), MaxBytes: 4 << 20})
		r := detect.Run(b, b, all.Detectors(), detect.Options{})
		for _, s := range r.Skipped {
			if strings.Contains(s.Reason, "failed on this input") {
				t.Errorf("%s: %s", s.Detector, s.Reason)
			}
		}
		if err := report.Text(io.Discard, r, report.TextOptions{Top: 3}); err != nil {
			t.Error(err)
		}
		var out bytes.Buffer
		if err := report.JSON(&out, r); err != nil {
			t.Error(err)
		}
		if !json.Valid(out.Bytes()) {
			t.Error("the JSON report is not valid")
		}
		for _, f := range r.Findings {
			if f.Blocked < 0 || f.Total < 0 || f.Requests < 0 || f.Goroutines < 0 {
				t.Errorf("negative numbers: %+v", f)
			}
		}
	})
}
