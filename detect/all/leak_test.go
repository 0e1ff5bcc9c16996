package all_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
)

// TestLeakProfile: a goroutineleak profile alone is proof, and no snapshot: the
// detectors that need one could not look.
func TestLeakProfile(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"leak-go1.26/goroutineleak.pb.gz", "leak-go1.27/goroutineleak.debug1.txt.gz"} {
		r := analyse(t, "../../ingest/stacks/testdata/versions/"+file)
		f := top(r)
		if r.Verdict.Cause != "goroutineleak" || f.Confidence != detect.High {
			t.Errorf("%s: verdict %+v, want a leak with high confidence\n%s", file, r.Verdict, summaries(r))
		}
		if len(r.Findings) != 1 || len(r.Skipped) != len(all.Detectors())-1 || len(r.RuledOut) != 0 {
			t.Errorf("%s: %d findings, %d skipped, %d ruled out, want the leak, and that all others could not look", file, len(r.Findings), len(r.Skipped), len(r.RuledOut))
		}
	}
}
