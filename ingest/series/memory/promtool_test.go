package memory

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPromtool reads what promtool dumps of a data directory.
func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal("promtool is not installed, and CONTEND_REQUIRE is set")
		}
		t.Skip("promtool is not installed")
	}
	dir := t.TempDir()
	file, db := filepath.Join(dir, "series.om"), filepath.Join(dir, "db")
	const text = `# TYPE up gauge
up{instance="x",job="y"} 1 1700000000
up{instance="x",job="y"} NaN 1700000015
up{instance="x",job="z\"q\\e\n	é"} 1 1700000015.125
# TYPE m counter
m_total{instance="x",job="y"} 1e21 1700000000
# EOF
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(db, "wal"), 0o700); err != nil { // dump wants a whole data directory
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "tsdb", "create-blocks-from", "openmetrics", file, db).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	load := func(text []byte, want Format) string {
		if got := Sniff(text); got != want {
			t.Errorf("taken for %s, want %s:\n%s", got, want, text)
		}
		s := New()
		got, err := s.Load("f", bytes.NewReader(text), LoadOptions{Format: want})
		if err != nil || got.Samples != 4 || got.Series != 3 || len(got.Notes) != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		return dump(t, s)
	}
	want := load([]byte(text), OpenMetrics)
	out, err := exec.Command(promtool, "tsdb", "dump", db).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := load(out, Dump); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Debian's promtool 2.42 does not have this one.
	if out, err := exec.Command(promtool, "tsdb", "dump-openmetrics", db).Output(); err == nil {
		if got := load(out, OpenMetrics); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
