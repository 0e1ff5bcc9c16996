package detect_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
	"github.com/contend/contend/ingest"
)

// A sum over snapshots whose number is not known tells shares. Nothing in the
// report gives it as a number of requests or goroutines.
func TestSummedTellsShares(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../demo/scenarios/telemetryblock/bundle/profiles/gateway-1/goroutine-*.pb.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d profiles, %v", len(files), err)
	}
	data, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	b := ingest.Load(t.Context(), []string{"-"}, ingest.Options{Stdin: bytes.NewReader(data)})
	if len(b.Snapshots) != 1 {
		t.Fatalf("read %d snapshots, failures %v", len(b.Snapshots), b.Failures)
	}
	b.Snapshots[0].Summed = true
	b.Instances = map[string]ingest.Instance{b.Snapshots[0].Name: {Job: "gateway", Name: "gateway-1"}}
	r := detect.Run(b, nil, all.Detectors(), detect.Options{})
	if r.Verdict.Cause != "telemetryblock" || len(r.Findings) != 1 {
		t.Errorf("verdict %q and %d findings, want telemetryblock alone", r.Verdict.Cause, len(r.Findings))
	}
	for _, f := range r.Findings {
		if f.Unit != detect.Samples || f.Requests != 0 || f.RequestsBlocked != 0 || f.Goroutines != 0 {
			t.Errorf("%s counts %s: %d of %d requests, %d goroutines; want samples only", f.Detector, f.Unit, f.RequestsBlocked, f.Requests, f.Goroutines)
		}
	}
	if len(r.Budget) > 0 {
		t.Errorf("a budget of %d places, which is in requests", len(r.Budget))
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if said := regexp.MustCompile(`[^"]*[0-9] (requests|goroutines)[^"]*`).Find(text); said != nil {
		t.Errorf("the report gives a number: %s", said)
	}
}
