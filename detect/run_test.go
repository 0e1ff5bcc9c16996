package detect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

// TestFailingDetector: a detector that fails or panics could not look, which
// is never shown as clean, and the others still run.
func TestFailingDetector(t *testing.T) {
	t.Parallel()
	needs := []detect.Need{{Input: detect.Stacks}}
	ran := false
	r := detect.Run(&ingest.Bundle{Snapshots: []*stacks.Snapshot{cases.Snapshot(t, "dump", "1 running: main.main")}}, nil, []*detect.Detector{
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

// TestLookBack: what an earlier snapshot showed is not lost with the latest.
func TestLookBack(t *testing.T) {
	t.Parallel()
	var roles []string
	count := &detect.Detector{Name: "crowd", Role: detect.Cause, Needs: []detect.Need{{Input: detect.Stacks}}, Run: func(p *detect.Pass) error {
		roles = append(roles, p.Stacks.Name)
		if p.Stacks.Requests > 10 {
			p.Report(detect.Finding{Severity: detect.Critical, Confidence: detect.High, Summary: "a crowd", Weight: 1})
		}
		return nil
	}}
	b := &ingest.Bundle{Snapshots: []*stacks.Snapshot{
		cases.Snapshot(t, "sick", "20 sync.Mutex.Lock: LOCK(0xc0001000) < sync.(*Mutex).Lock < main.(*cache).get(0xc0001000) < HANDLER"),
		cases.Snapshot(t, "well", "20 chan receive: main.wait < HANDLER\n1 select: main.loop"),
	}}
	b.Snapshots[1].Groups = b.Snapshots[1].Groups[1:] // the handlers are gone
	for i, s := range b.Snapshots {
		s.Process = stacks.Process{Binary: "shop", BuildID: "1", Mapping: "0x400000"}
		s.Taken = time.Date(2026, 1, 1, 0, 0, 10*i, 0, time.UTC)
	}
	r := detect.Run(b, nil, []*detect.Detector{count}, detect.Options{})
	if want := []string{"well", "sick"}; strings.Join(roles, " ") != strings.Join(want, " ") {
		t.Fatalf("looked at %q, want %q", roles, want)
	}
	if r.Verdict.Cause != "crowd" || r.Verdict.Confidence != detect.Medium || !strings.Contains(r.Verdict.Summary, "earlier, in sick") || !r.Findings[0].Past {
		t.Errorf("verdict %+v, want the earlier snapshot's, with medium confidence and said so", r.Verdict)
	}
	// Who looks again and again has told it then.
	roles = nil
	r = detect.Run(b, nil, []*detect.Detector{count}, detect.Options{Live: true})
	if r.Verdict.Cause != "" || len(r.Findings) > 0 || strings.Join(roles, " ") != "well" {
		t.Errorf("live: verdict %+v, looked at %q; want none, of the latest snapshot alone", r.Verdict, roles)
	}
}
