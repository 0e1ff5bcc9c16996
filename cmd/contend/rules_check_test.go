package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/rules"
)

// checkedSample has one of everything that is written.
func checkedSample() *rules.Checked {
	return &rules.Checked{
		Server: "http://prometheus:9090",
		Alerts: []rules.CheckedAlert{
			{Alert: "ContendInflightCPU", Severity: detect.AlertPage, State: rules.NoSeries, Reads: []rules.Selected{{Metric: "contend:inflight", Series: 0}}, Needs: [][]string{{"contend:inflight"}}},
			{Alert: "ContendCPUBound", Severity: detect.AlertTicket, State: rules.NoSeries, Needs: [][]string{{"contend:cpu", "contend:cpu_limit"}, {"contend:cpu_throttled"}}},
			{Alert: "ContendHerd", Severity: detect.AlertTicket, State: rules.False, Waits: []rules.Wait{
				{Record: "contend:arrivals:peak", State: rules.NoHistory, Takes: "11m"}, {Record: "contend:cpu", State: rules.NoValue}}},
			{Alert: "ContendLockWait", Severity: detect.AlertTicket, State: rules.Holding, Instances: 2},
			{Alert: "ContendReplacementSpiral", Severity: detect.AlertTicket, State: rules.False},
		},
		Records: []rules.CheckedRecord{
			{Record: "contend:lock_wait", State: rules.HasValue, Instances: 2, Reads: []rules.Selected{{Metric: "go_sync_mutex_wait_total_seconds_total", Series: 2}, {Metric: "go_mutex_wait_seconds_total\x1b[2J", Series: 12}}},
			{Record: "contend:memory_limit", State: rules.NoValue, Reads: []rules.Selected{{Metric: "container_spec_memory_limit_bytes", Series: 1}}, Why: "no series is of a pod of the service"},
			{Record: "contend:cpu:median", State: rules.NoHistory, Reads: []rules.Selected{{Metric: "contend:cpu", Series: 1}}, Takes: "16m"},
		},
		Missing: []rules.MissingSignal{
			{Record: "contend:inflight", Hint: "wrap the handler", Why: "no such series: looked for http_requests_in_flight", Near: []string{"open_calls"}, Wakes: []rules.Wake{{Alert: "ContendInflightCPU"}}},
			{Record: "contend:cpu_limit", Hint: "a limit", Wakes: []rules.Wake{{Alert: "ContendCPUBound", With: []string{"contend:cpu"}}}},
			{Record: "contend:oldest", Hint: "nobody asks"},
			{Record: "contend:streams"},
		},
		Doubts: []rules.Doubt{{Record: "contend:lock_wait", Metric: "x_total", Why: "is read as a counter, and falls as often as a gauge does"}},
	}
}

func TestCheckedText(t *testing.T) {
	t.Parallel()
	const want = `3 of 5 alerts can fire on http://prometheus:9090; 2 cannot: ContendInflightCPU (page),
ContendCPUBound
hold now: ContendLockWait
cannot hold yet, for want of a value: ContendHerd

Alerts
  ContendInflightCPU        page    no such series  needs contend:inflight
  ContendCPUBound           ticket  no such series
      needs contend:cpu and contend:cpu_limit, or contend:cpu_throttled
  ContendHerd               ticket  false
      waits for contend:arrivals:peak (no history yet, takes 11m) and contend:cpu (no value now)
  ContendLockWait           ticket  holds           on 2 instances
  ContendReplacementSpiral  ticket  false

To switch on
  contend:inflight  wakes ContendInflightCPU (page)
      wrap the handler
      no such series: looked for http_requests_in_flight
      or name what it is, as --signal inflight=open_calls
  contend:cpu_limit  wakes ContendCPUBound (with contend:cpu)
      a limit

No such series either, and no alert needs them (-o json says how to switch them on)
  contend:oldest, contend:streams

Doubts
  contend:lock_wait: x_total is read as a counter, and falls as often as a gauge does

Rules: how many series each selector matches
  contend:lock_wait         has a value: 2
      go_sync_mutex_wait_total_seconds_total 2, go_mutex_wait_seconds_total\x1b[2J 12
  contend:memory_limit      no value now
      container_spec_memory_limit_bytes 1 (no series is of a pod of the service)
  contend:cpu:median        no history yet  contend:cpu 1 (takes 16m)
  ContendInflightCPU        no such series  contend:inflight 0
  ContendCPUBound           no such series
  ContendHerd               false
  ContendLockWait           holds: 2
  ContendReplacementSpiral  false
`
	if got := checkedText(checkedSample(), usualWidth); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, width := range []int{1, 60, 80} {
		for line := range strings.Lines(checkedText(checkedSample(), width)) {
			line = strings.TrimRight(line, "\n")
			// Titles and the columns of a table, which begin with a name, are as wide as they are.
			wrapped := strings.HasPrefix(line, hanging) || strings.Contains(line, " alerts can fire ")
			if words := strings.Fields(line); wrapped && len(words) > 2 && utf8.RuneCountInString(line) > width {
				t.Errorf("at %d columns a line of %d: %q", width, utf8.RuneCountInString(line), line)
			}
		}
	}

	all := checkedSample()
	all.Alerts, all.Missing, all.Doubts = all.Alerts[3:], nil, nil
	all.Records = nil
	const short = `all 2 alerts can fire on http://prometheus:9090
hold now: ContendLockWait

Alerts
  ContendLockWait           ticket  holds  on 2 instances
  ContendReplacementSpiral  ticket  false

Rules: how many series each selector matches
  ContendLockWait           holds: 2
  ContendReplacementSpiral  false
`
	if got := checkedText(all, usualWidth); got != short {
		t.Errorf("got\n%s\nwant\n%s", got, short)
	}
}

// TestCheckRules asks a real server that scrapes a gateway, and holds check to
// what generate writes for the same server.
func TestCheckRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	var stderr bytes.Buffer
	if code := run([]string{"rules", "check", "--prometheus", "http://127.0.0.1:1", "-o", "yaml"}, nil, &stderr, &stderr); code != exitUsage || !strings.Contains(stderr.String(), `unknown output "yaml"; expected text or json`) {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	binary := prometheusBinary(t)
	t.Parallel()
	_, admin := startGateway(t)
	server := startPrometheus(t, binary, strings.TrimPrefix(admin, "http://"))
	ask := []string{"--prometheus", server, "--clock-factor", clockFactor, "--since", "1m"}
	var checked rules.Checked
	eventually(t, "two scrapes", func() error {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"rules", "check", "-o", "json"}, ask...), nil, &stdout, &stderr); code != exitOK {
			return fmt.Errorf("exit code %d: %s", code, stderr.String())
		}
		checked = rules.Checked{}
		if err := json.Unmarshal(stdout.Bytes(), &checked); err != nil {
			return err
		}
		for _, r := range checked.Records {
			if r.Record == "contend:cpu" && r.State == rules.HasValue {
				return nil
			}
		}
		return errors.New("no rate of CPU yet")
	})
	if checked.Schema != rules.CheckSchema || checked.Server != server {
		t.Errorf("schema %q of server %q", checked.Schema, checked.Server)
	}
	var cannot []string
	for _, a := range checked.Alerts {
		if a.State == rules.NoSeries {
			cannot = append(cannot, a.Alert)
		}
	}
	var file, notes, text bytes.Buffer
	if code := run(append([]string{"rules", "generate", "-o", "-"}, ask...), nil, &file, &notes); code != exitOK {
		t.Fatalf("exit code %d: %s", code, notes.String())
	}
	for _, a := range checked.Alerts {
		if written := strings.Contains(file.String(), "alert: "+a.Alert+"\n"); written != (a.State != rules.NoSeries) {
			t.Errorf("%s: check says %q, generate writes it: %t", a.Alert, a.State, written)
		}
	}
	if code := run(append([]string{"rules", "check"}, ask...), nil, &text, &notes); code != exitOK {
		t.Fatalf("exit code %d: %s", code, notes.String())
	}
	n := len(checked.Alerts)
	if first, _, _ := strings.Cut(text.String(), "\n"); !strings.HasPrefix(first, fmt.Sprintf("%d of %d alerts can fire on %s; %d cannot: ", n-len(cannot), n, server, len(cannot))) {
		t.Errorf("%d of %d alerts cannot fire, and the headline is %q", len(cannot), n, first)
	}
}
