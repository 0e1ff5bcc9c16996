package promapi

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// prometheus starts a server that scrapes itself every second, and gives its URL.
func prometheus(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CONTEND_REQUIRE") != "" {
			t.Fatal("prometheus is not installed, and CONTEND_REQUIRE is set")
		}
		t.Skip("prometheus is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	scrape := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: self, static_configs: [{targets: ['%s']}]}]\n", address)
	if err := os.WriteFile(file, []byte(scrape), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command(binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			said, _ := os.ReadFile(output.Name())
			t.Logf("prometheus said:\n%s", said)
		}
	})
	return "http://" + address
}

func TestPrometheus(t *testing.T) {
	t.Parallel()
	begun := time.Now().Add(-time.Second)
	a := connect(t, prometheus(t), nil, Options{MaxPoints: 2})
	const selector = `job="self"`

	const enough = 4 // scrapes, for three spacings
	up := 0.0
	for deadline := time.Now().Add(20 * time.Second); up < enough; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v scrapes in 20 s; health: %v", up, a.Health(t.Context()))
		}
		if v, err := a.Instant(t.Context(), `sum(count_over_time(up{job="self"}[1m]))`, time.Now()); err == nil && len(v) == 1 {
			up = v[0].F
		}
	}
	if err := a.Health(t.Context()); err != nil {
		t.Error(err)
	}
	end := time.Now().Truncate(time.Second)
	names, err := a.Names(t.Context(), selector, begun, end)
	if err != nil || !slices.Contains(names, "up") || !slices.Contains(names, "go_goroutines") || !slices.IsSorted(names) {
		t.Errorf("names %v, %v", names, err)
	}
	if names, err := a.Names(t.Context(), `job="none"`, begun, end); err != nil || len(names) != 0 {
		t.Errorf("names of nothing %v, %v", names, err)
	}
	if d, err := a.Interval(t.Context(), selector, begun, end); err != nil || d != time.Second {
		t.Errorf("interval %v, %v", d, err)
	}
	if d, err := a.Interval(t.Context(), `job="none"`, begun, end); err != nil || d != 0 {
		t.Errorf("interval of nothing %v, %v", d, err)
	}

	start := end.Add(-time.Second)
	m, err := a.Range(t.Context(), `label_replace(vector(time()), "job", "self", "", "") or up{job="self"} * 0`, start, end, 100*time.Millisecond)
	if err != nil || len(m) != 2 || len(m[0].Floats)+len(m[1].Floats) != 22 {
		t.Fatalf("range %v, %v", m, err)
	}
	whole := connect(t, a.Name(), nil, Options{})
	if want, err := whole.Range(t.Context(), `label_replace(vector(time()), "job", "self", "", "") or up{job="self"} * 0`, start, end, 100*time.Millisecond); err != nil || m.String() != want.String() {
		t.Errorf("in parts %v, at once %v, %v", m, want, err)
	}
	if v, err := a.Instant(t.Context(), "scalar(vector(2))", end); err != nil || len(v) != 1 || v[0].F != 2 || v[0].T != end.UnixMilli() {
		t.Errorf("scalar %v, %v", v, err)
	}

	_, err = a.Range(t.Context(), "up{job=}", start, end, time.Second)
	wantError(t, err, isQueryError, "`up{job=}` | 400 Bad Request, bad_data | parse error | check the expression and --selector")
	_, err = a.Names(t.Context(), "job=", start, end)
	wantError(t, err, isQueryError, "names of `{job=}` | 400 Bad Request, bad_data")
	_, err = whole.Range(t.Context(), "up @ end()", start, start.Add(12_000*time.Second), time.Second)
	wantError(t, err, isQueryError, "exceeded maximum resolution | --since")
	wantError(t, connect(t, a.Name()+"/prometheus", nil, Options{}).Health(t.Context()), isUnreachable, "no Prometheus API is there")
	// The address of a page, as a browser shows it.
	if err := connect(t, a.Name()+"/graph?g0.expr=up", nil, Options{}).Health(t.Context()); err != nil {
		t.Error(err)
	}
}
