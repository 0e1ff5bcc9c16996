package detect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

// TestFailingDetector: a detector that fails or panics could not look, which
// is never shown as clean, and the others still run.
func TestFailingDetector(t *testing.T) {
	t.Parallel()
	needs := []detect.Need{{Input: detect.Stacks}}
	ran := false
	r := detect.Run(&ingest.Bundle{Snapshots: []*stacks.Snapshot{contendtest.Snapshot(t, "dump", "1 running: main.main")}}, nil, []*detect.Detector{
		{Name: "fails", Needs: needs, Run: func(*detect.Pass) error { return errors.New("no luck") }},
		{Name: "panics", Needs: needs, Run: func(p *detect.Pass) error { var v []int; _ = v[len(p.Process)]; return nil }},
		{Name: "works", Needs: needs, Run: func(*detect.Pass) error { ran = true; return nil }},
	}, detect.Options{})
	if !ran {
		t.Error("the detector after the failing ones did not run")
	}
	if len(r.Skipped) != 2 || r.Skipped[0].Reason != "no luck" || !strings.Contains(r.Skipped[1].Reason, "index out of range") {
		t.Errorf("skipped %+v, want the two that failed with their reasons", r.Skipped)
	}
	if len(r.RuledOut) != 1 || r.RuledOut[0].Detector != "works" {
		t.Errorf("ruled out %+v, want only the one that looked", r.RuledOut)
	}
}
