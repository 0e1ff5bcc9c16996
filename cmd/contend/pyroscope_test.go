package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/contend/contend/demo/gateway"
	"github.com/contend/contend/demo/load"
	"github.com/contend/contend/demo/telemetry"
	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/pyroscope/pyroscopetest"
)

// pyroscopeCmd serves what a Pyroscope server has after a scenario of the demo:
// the goroutine profiles of its recorded run.
func pyroscopeCmd(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, 1, "pyroscope SCENARIO")
	profiles, err := filepath.Glob(filepath.Join("..", "..", "demo", "scenarios", args[0], "bundle", "profiles", "*", "goroutine-*.pb.gz"))
	ts.Check(err)
	if len(profiles) == 0 {
		ts.Fatalf("%s has no goroutine profiles", args[0])
	}
	s := &pyroscopetest.Server{}
	for _, name := range profiles {
		data, err := os.ReadFile(name)
		ts.Check(err)
		p, err := profile.ParseData(data)
		ts.Check(err)
		s.Add("goroutines", map[string]string{"service_name": "gateway", "instance": filepath.Base(filepath.Dir(name))}, time.Unix(0, p.TimeNanos), p)
	}
	server := httptest.NewServer(s)
	ts.Defer(server.Close)
	ts.Setenv("PYROSCOPE", server.URL)
}

// TestPyroscope lets the demo's gateway push with the real client while many
// wait for a lock of its telemetry, and asks the server, as an engineer does.
func TestPyroscope(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	s := &pyroscopetest.Server{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	traffic, _ := startTask(t, gateway.Config{
		Name: "gateway-1", Pyroscope: server.URL, Telemetry: telemetry.Config{Kind: "metrics", Faulty: true, Hold: 3 * time.Millisecond},
	})
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	g, err := load.Start(ctx, load.Config{URL: traffic + "/", Phases: load.Constant(3000, longest), Timeout: 10 * time.Second, MaxInFlight: 300})
	if err != nil {
		t.Fatal(err)
	}
	clients.Go(func() { g.Wait() })

	eventually(t, "the lock in pushed profiles", func() error {
		r, err := analyzeJSON("--pyroscope", server.URL, "--selector", `{service_name="gateway"}`, "--since", "20s")
		if err != nil {
			return err
		}
		if warnings := strings.Join(r.Warnings, "\n"); !strings.Contains(warnings, " snapshots of each process") {
			return fmt.Errorf("expected the mean of several snapshots, saw warnings %q", warnings)
		}
		return errors.Join(found(r, "telemetryblock", []string{"telemetryblock"}, nil), meanOf(r, 300))
	})
}

// meanOf checks that findings name the lock, and that no sum of snapshots is told
// as a number of requests: no more than most were ever in flight.
func meanOf(r *detect.Report, most int64) error {
	for _, f := range r.Findings {
		if want := "github.com/prometheus/client_golang/prometheus.(*Registry).Register"; f.Function != want {
			return fmt.Errorf("%s in %s, want %s", f.Detector, f.Function, want)
		}
		if f.Requests > most || f.RequestsBlocked > most || f.Requests == 0 {
			return fmt.Errorf("%s has %d of %d requests, want at most the %d that were ever in flight", f.Detector, f.RequestsBlocked, f.Requests, most)
		}
	}
	return nil
}
