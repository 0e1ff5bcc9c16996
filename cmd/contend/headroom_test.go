package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestHeadroom holds what is printed of a lock that has little left to what was
// injected: a registry that is in use for five eighths of the time, and full at 1.6 times the
// load, of which health checks and scrapes take their part too.
func TestHeadroom(t *testing.T) {
	t.Parallel()
	const bundle = "../../demo/scenarios/lockheadroom/bundle"
	analyse := func(args ...string) (int, string, string) {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"analyze"}, args...), strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	code, text, _ := analyse("--detector", "lockheadroom", bundle)
	for _, want := range []string{
		"lockheadroom, forecast, warning, medium confidence", "medium confidence, in gateway-1", "today's load, by how often somebody is inside", "assumes ",
		"library    github.com/prometheus/client_golang@v1.25.0", "1. hold it shorter", "off the request path", "shard it",
	} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("exit code %d, expected %q in\n%s", code, want, text)
		}
	}
	_, text, _ = analyse("-o", "json", "--detector", "lockheadroom", bundle)
	var r struct {
		Verdict  struct{ Cause string }
		Findings []struct {
			Utilisation struct{ Low, High float64 }
			SaturatesAt struct{ Low, High float64 } `json:"saturates_at"`
			HoldingS    float64                     `json:"holding_s"`
			Queue       float64
			Contentions int
			Reading     string
			Assumes     []string
		}
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Findings) != 1 {
		t.Fatalf("%d findings, %v, want one", len(r.Findings), err)
	}
	f := r.Findings[0]
	// A hold takes 5 ms and what timers take longer.
	if r.Verdict.Cause != "" || f.Utilisation.Low > 0.7 || f.Utilisation.High < 0.6 || f.SaturatesAt.Low < 1 || f.SaturatesAt.High > 2 ||
		f.HoldingS < 0.005 || f.HoldingS > 0.008 || f.Queue <= 0 || f.Contentions < 100 || f.Reading != "direct" || len(f.Assumes) == 0 {
		t.Errorf("verdict %q, %+v", r.Verdict.Cause, f)
	}
	if _, text, _ := analyse("--detector", "lockheadroom", "--expect", "1.05x", bundle); strings.Contains(text, "Finding") || !strings.Contains(text, "today's load, by how often") {
		t.Errorf("a surge of 1.05 is survived, expected the number among what was ruled out:\n%s", text)
	}
	for _, bad := range []string{"1", "x", "-3", "NaN", "1e9"} {
		if code, _, stderr := analyse("--expect", bad, bundle); code != exitUsage || !strings.Contains(stderr, "expected a multiple of today's load above 1") {
			t.Errorf("--expect %s: exit code %d, %s", bad, code, stderr)
		}
	}
}
