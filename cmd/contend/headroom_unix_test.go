//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// TestWatchHeadroom watches a process by hand: a store whose lock is in use in six
// snapshots of ten, with a waiter in four, until 40 were answered and Ctrl-C ends the
// watch. What the command says of it is what they show.
func TestWatchHeadroom(t *testing.T) {
	t.Parallel()
	serve := []string{"main.put", "net/http.HandlerFunc.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
	idle := []string{"runtime.gopark", "runtime.selectgo", "main.tick", "main.main"}
	inside := append([]string{"runtime.gopark", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Write", "main.(*store).put@23"}, serve...)
	waits := append([]string{"runtime.gopark", "runtime.semacquire1", "internal/sync.runtime_SemacquireMutex", "internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).Lock", "sync.(*Mutex).Lock", "main.(*store).put@20"}, serve...)
	free, held, contended := [][]string{idle}, [][]string{idle, inside}, [][]string{idle, inside, waits}
	ten := [][][]string{contended, free, held, contended, free, contended, free, held, contended, free}
	const enough = 40
	var answers [enough][]byte
	for i := range answers {
		answers[i] = goroutines(t, time.Unix(int64(1+i), 0), ten[i%10])
	}
	watch := func(t *testing.T, want int, args ...string) string {
		t.Helper()
		var asked atomic.Int32
		done := make(chan struct{})
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/goroutine", func(w http.ResponseWriter, r *http.Request) {
			i := asked.Add(1) - 1
			if i == enough {
				close(done)
				<-r.Context().Done()
				return
			}
			w.Write(answers[i])
		})
		server := httptest.NewServer(mux)
		defer server.Close()
		// Beyond a minute snapshots are further apart than they need be here.
		cmd, stdout, stderr := contend(t, append([]string{"headroom", server.URL, "--for", "1m"}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-done
		cmd.Process.Signal(syscall.SIGINT)
		if code := exitCode(t, cmd.Wait()); code != want || stderr.Len() > 0 {
			t.Errorf("exit code %d, want %d\n%s", code, want, stderr)
		}
		return stdout.String()
	}
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		text := watch(t, exitOK)
		for _, want := range []string{
			"a lock of the application in main.(*store).put saturates at about 1.4-2.3x today's load: in use\n",
			"    reading    by how often somebody is inside, high confidence\n", "    assumes    snapshots were taken at moments",
			"    it is      waiting for an answer there\n", "    to do      hold it shorter: ", "\nLooked at in 40 snapshots, ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("expected %q in\n%s", want, text)
			}
		}
	})
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		var r struct {
			Findings []struct {
				Detector, Severity, Reading string
				SaturatesAt                 struct{ Low, High float64 } `json:"saturates_at"`
			}
		}
		if err := json.Unmarshal([]byte(watch(t, exitFound, "-o", "json", "--fail-on", "warning")), &r); err != nil || len(r.Findings) != 1 {
			t.Fatalf("%v, %d findings, want one", err, len(r.Findings))
		}
		if f := r.Findings[0]; f.Detector != "lockheadroom" || f.Severity != "warning" || f.Reading != "direct" || f.SaturatesAt.Low > 1/0.6 || f.SaturatesAt.High < 1/0.6 {
			t.Errorf("found %+v, want a warning at 1/0.6, direct", f)
		}
	})
	// A surge that it survives is no warning, and its number is told all the same.
	t.Run("survives", func(t *testing.T) {
		t.Parallel()
		if text := watch(t, exitOK, "--expect", "1.2", "--fail-on", "warning"); !strings.Contains(text, "saturates at about 1.4-2.3x") {
			t.Errorf("expected the number in\n%s", text)
		}
	})
}

// goroutines is a profile, taken at a time, of one goroutine in each of the stacks, leaf first.
func goroutines(t *testing.T, at time.Time, all [][]string) []byte {
	t.Helper()
	m := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x800000, File: "/bin/shop", BuildID: "1"}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}, TimeNanos: at.UnixNano(), Mapping: []*profile.Mapping{m}}
	for _, stack := range all {
		s := &profile.Sample{Value: []int64{1}}
		for _, name := range stack {
			name, line := strings.TrimSuffix(strings.TrimSuffix(name, "@20"), "@23"), int64(10)
			if i := slices.Index([]string{"@20", "@23"}, stack[len(s.Location)][len(name):]); i >= 0 {
				line = []int64{20, 23}[i]
			}
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name, Filename: "/src/main/x.go"}
			l := &profile.Location{ID: f.ID, Mapping: m, Address: 0x400000 + f.ID, Line: []profile.Line{{Function: f, Line: line}}}
			p.Function, p.Location, s.Location = append(p.Function, f), append(p.Location, l), append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}
