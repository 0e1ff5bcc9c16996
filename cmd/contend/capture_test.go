package main

import (
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest/capture"
)

func TestDefaultBundle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 9, 7, 10, 0, time.FixedZone("", 3600))
	for target, want := range map[string]string{
		"http://localhost:6060/":        "contend-localhost-6060-20260301T080710Z",
		"https://me:pw@shop.example":    "contend-shop.example-20260301T080710Z",
		"http://[::1]:6060/debug/pprof": "contend---1-6060-20260301T080710Z",
		"http://a_b..c/../d":            "contend-a-b..c-20260301T080710Z",
	} {
		if got := defaultBundle(target, now); got != want {
			t.Errorf("defaultBundle(%q) = %q, want %q", target, got, want)
		}
	}
}

// A bundle's name is safe to print, whoever chose it.
func TestWriteCaptured(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{"b": "b/", "a\x1b[31m\n": `a\x1b[31m\n/`} {
		var out strings.Builder
		if err := writeCaptured(&out, &capture.Report{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasPrefix(got, want+": 0 goroutine") || !strings.HasSuffix(got, "\nnext: contend analyze "+want+"\n") {
			t.Errorf("%q: got %q", dir, got)
		}
	}
}
