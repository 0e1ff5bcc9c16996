package receive

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/pyroscope-go"
	"github.com/grafana/pyroscope-go/upstream"
	"github.com/grafana/pyroscope-go/upstream/remote"

	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// problems are what a client complains of.
type problems struct {
	mu   sync.Mutex
	said []string
}

func (p *problems) Infof(string, ...any)  {}
func (p *problems) Debugf(string, ...any) {}
func (p *problems) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, fmt.Sprintf(format, args...))
}

// counted tells of each answer to a push.
func counted(h http.Handler) (http.Handler, <-chan struct{}) {
	answered := make(chan struct{}, 1000)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		answered <- struct{}{}
	}), answered
}

// TestClient lets the real client of this very process push what it has: of one
// process under two scopes, goroutines as they are, waits first since the process began and then by
// interval. Nothing that it pushes by default is an error to it.
func TestClient(t *testing.T) {
	// Not parallel: what it profiles is the whole process.
	runtime.SetBlockProfileRate(1)
	runtime.SetMutexProfileFraction(1)
	t.Cleanup(func() {
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(0)
	})
	r, _ := receiverAt(t, Options{Bundle: t.TempDir()})
	r.window.now = time.Now
	handler, answered := counted(r)
	server := httptest.NewServer(handler)
	defer server.Close()

	said := &problems{}
	client, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "shop", ServerAddress: server.URL, Tags: map[string]string{"instance": "a"},
		UploadRate: 300 * time.Millisecond, Logger: said,
		ProfileTypes: append(slices.Clone(pyroscope.DefaultProfileTypes), pyroscope.ProfileGoroutines,
			pyroscope.ProfileBlockCount, pyroscope.ProfileBlockDuration, pyroscope.ProfileMutexCount, pyroscope.ProfileMutexDuration),
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				mu.Lock()
				time.Sleep(time.Millisecond)
				mu.Unlock()
			}
		})
	}
	for range 20 { // of five kinds, so that three intervals are over
		<-answered
	}
	client.Stop()
	close(done)
	wg.Wait()
	if len(said.said) > 0 {
		t.Errorf("the client says %q", said.said)
	}

	b := r.Sample(t.Context())
	processes := b.Processes()
	if len(processes) != 1 || processes[0].Job != "shop" || processes[0].Instance != "a" || len(b.Failures)+len(b.Warnings) > 0 {
		t.Fatalf("%d processes, %v, failures %v, warnings %v; want shop/a alone", len(processes), processesOf(b), b.Failures, b.Warnings)
	}
	first := map[string]time.Duration{}
	for _, w := range b.Waits { // the newest come first
		kind, _, _ := strings.Cut(w.Name[strings.LastIndex(w.Name, "/")+1:], "-")
		if string(w.Kind) != kind {
			t.Errorf("%s is a %s profile", w.Name, w.Kind)
		}
		first[kind] = w.Window
	}
	if want := map[string]time.Duration{"block": 0, "mutex": 0}; !maps.Equal(first, want) {
		t.Errorf("the first waits of a session are over %v, want no time that is known", first)
	}
	p := processes[0]
	if len(p.Snapshots) < 2 || len(p.Waits) != 2 || p.Waits[0].Window <= 0 || p.Waits[1].Window <= 0 {
		t.Errorf("%v, want snapshots and both waits over an interval", processesOf(b))
	}
	for _, w := range p.Waits {
		locked := slices.ContainsFunc(w.Sites, func(s waits.Site) bool { return s.Wait.Kind == stacks.Lock && w.Concurrency(&s) > 0 })
		if !locked {
			t.Errorf("%s: nobody waits for the lock", w.Name)
		}
	}
}

// What the client is told in any other way than 200 it reports, and does not push again.
func TestClientRefused(t *testing.T) {
	t.Parallel()
	r, _ := receiverAt(t, Options{})
	r.window.now = time.Now
	r.window.maxBytes = 100
	server := httptest.NewServer(r)
	defer server.Close()
	said := &problems{}
	client, err := remote.NewRemote(remote.Config{Address: server.URL, Threads: 1, Timeout: 10 * time.Second, Logger: said})
	if err != nil {
		t.Fatal(err)
	}
	client.Start()
	now := time.Now()
	client.Upload(&upstream.UploadJob{Name: "shop{}", StartTime: now.Add(-time.Second), EndTime: now, Profile: pprofOf(t, "goroutine/count")})
	client.Flush()
	client.Stop()
	if len(said.said) != 1 || !strings.Contains(said.said[0], "failed to upload: (413)") {
		t.Errorf("the client says %q, want 413 once", said.said)
	}
}
