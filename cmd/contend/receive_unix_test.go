//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/cmd/contend/watch"
	"github.com/contend/contend/ingest/pyroscope/receive"
)

// receiving is a contend receive in a process of its own.
type receiving struct {
	cmd            *exec.Cmd
	url            string
	stdout, stderr *bytes.Buffer // to be read once it has ended
	rest           chan struct{} // closed once all of stderr is read
}

// end sends a signal, and returns the exit code, -1 where the signal ended it.
func (r *receiving) end(t testing.TB, sig os.Signal) int {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	r.cmd.Wait()
	<-r.rest
	return r.cmd.ProcessState.ExitCode()
}

// startReceive returns once it listens.
func startReceive(t testing.TB, args ...string) *receiving {
	t.Helper()
	r := &receiving{cmd: exec.CommandContext(t.Context(), "contend", args...), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	r.cmd.Stdout = r.stdout
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stderr = write
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	in := bufio.NewReader(read)
	first, err := in.ReadString('\n')
	address, ok := strings.CutPrefix(first, "receiving on ")
	address, _, _ = strings.Cut(address, ",")
	if !ok {
		t.Fatalf("contend %s said %q, %v; want receiving on", strings.Join(args, " "), first, err)
	}
	r.url = address
	r.rest = make(chan struct{})
	go func() {
		defer close(r.rest)
		io.Copy(r.stderr, in)
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill() // where the test has not ended it
		<-r.rest
		read.Close()
	})
	return r
}

// push is the answer to one push; its status is 0 where there was none.
func (r *receiving) push(t testing.TB, query string, body *form) (status int, answer string) {
	t.Helper()
	resp, err := http.Post(r.url+"/ingest?"+query, body.contentType, bytes.NewReader(body.data))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// pushQuery is that of pyroscope-go's pushes, of one of several processes of a job.
func pushQuery(job string, instance int, until time.Time) string {
	return url.Values{
		"name":  {fmt.Sprintf("%s{instance=%d}", job, instance)},
		"from":  {strconv.FormatInt(until.Add(-15*time.Second).UnixNano(), 10)},
		"until": {strconv.FormatInt(until.UnixNano(), 10)},
	}.Encode()
}

type form struct {
	contentType string
	data        []byte
}

// pushForm is the body of a push; config is its sample_type_config, where it has one.
func pushForm(profile []byte, config string) *form {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, _ := w.CreateFormFile("profile", "profile.pprof") // to memory, which does not fail
	part.Write(profile)
	if config != "" {
		part, _ = w.CreateFormFile("sample_type_config", "sample_type_config.json")
		io.WriteString(part, config)
	}
	w.Close()
	return &form{w.FormDataContentType(), b.Bytes()}
}

// stuckProfile is the goroutine profile of 30 requests that wait for a lock, or of as many that are done.
func stuckProfile(t testing.TB, at time.Time, waiting bool) []byte {
	t.Helper()
	frames := []string{"runtime.gopark", "sync.runtime_SemacquireMutex", "internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock",
		"example.com/shop/stock.(*Store).Get", "example.com/shop.(*api).ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"}
	if !waiting {
		frames = []string{"runtime.gopark", "runtime.netpollblock", "internal/poll.runtime_pollWait", "internal/poll.(*FD).Read",
			"net.(*conn).Read", "net/http.(*connReader).Read", "bufio.(*Reader).fill", "bufio.(*Reader).Peek", "net/http.(*conn).serve"}
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}},
		PeriodType: &profile.ValueType{Type: "goroutine", Unit: "count"}, Period: 1, TimeNanos: at.UnixNano(),
	}
	sample := &profile.Sample{Value: []int64{30}}
	for i, name := range frames {
		f := &profile.Function{ID: uint64(i + 1), Name: name, Filename: "/src/" + strings.ReplaceAll(name, "(", "") + ".go"}
		l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 10}}}
		p.Function, p.Location, sample.Location = append(p.Function, f), append(p.Location, l), append(sample.Location, l)
	}
	p.Sample = []*profile.Sample{sample}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// until asks for a page until it has what is wanted.
func (r *receiving) until(t *testing.T, path, want string) string {
	t.Helper()
	for range 2000 {
		resp, err := http.Get(r.url + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), want) {
			return string(text)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s never has %q", path, want)
	return ""
}

// A lock that fills is told once, however often it is looked at; that it empties is on
// the page at once.
func TestReceiveChanges(t *testing.T) {
	t.Parallel()
	for _, output := range []string{"text", "json"} {
		r := startReceive(t, "receive", "--listen", "127.0.0.1:0", "--every", "1s", "-o", output)
		r.until(t, "/", "no profile was analysed yet")
		push := func(waiting bool) {
			now := time.Now()
			if status, answer := r.push(t, pushQuery("shop", 1, now), pushForm(stuckProfile(t, now, waiting), "")); status != http.StatusOK {
				t.Fatal(status, answer)
			}
		}
		push(true)
		r.until(t, "/?o=json", `"cause": "applock"`)
		text := r.until(t, "/", "30 of 30 requests wait for a lock in example.com/shop/stock.(*Store).Get")
		if !strings.Contains(text, "applock, critical, ") {
			t.Errorf("the page is\n%s", text)
		}
		push(false)
		r.until(t, "/?o=json", `"cause": ""`)
		r.until(t, "/metrics", "contend_receive_accepted_total 2\n")
		r.until(t, "/healthz", "ok\n")
		if code := r.end(t, syscall.SIGTERM); code != exitOK {
			t.Errorf("exit code %d\n%s", code, r.stderr)
		}
		lines := strings.Split(strings.TrimSpace(r.stdout.String()), "\n")
		want := []string{"Z begins applock, critical, shop: 30 of 30 requests wait for a lock in example.com/shop/stock.(*Store).Get", "Z verdict applock, critical, shop: 30 of 30 "}
		if output == "json" {
			want = []string{`{"schema":"contend.report/v1","verdict":{"cause":"applock",`}
		}
		if len(lines) != len(want) {
			t.Fatalf("printed\n%s\nwant %d lines", r.stdout, len(want))
		}
		for i, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("line %q, want %q", lines[i], w)
			}
		}
		if !strings.HasPrefix(r.stderr.String(), "stopped: 2 profiles held, of 1 processes, 0.0 MB; 0 left the window\n") {
			t.Errorf("stderr %q", r.stderr)
		}
	}
}

// Looks at what is pushed say what watches do: what has not been there for two minutes
// has ended, and what cannot be seen has not.
func TestReceiveLooks(t *testing.T) {
	t.Parallel()
	receiver, err := receive.New(receive.Options{Window: 15 * time.Minute, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f := &receiveFlags{every: 10 * time.Second, output: "text"}
	l := &looker{receiver: receiver, flags: f, stdout: &out, tracker: watch.Tracker{Interval: f.every}}
	start := time.Now()
	for _, step := range []struct {
		after time.Duration
		push  string // of job shop: waiting, idle
		want  string // without times
	}{
		{0, "", ""},
		{10 * time.Second, "idle", "looked: nothing found"},
		{20 * time.Second, "waiting", "begins applock, critical, shop; verdict applock, critical, shop"},
		{30 * time.Second, "idle", ""},
		{40 * time.Second, "waiting", ""},
		{50 * time.Second, "idle", ""},
		{2*time.Minute + 39*time.Second, "", ""},
		{2*time.Minute + 40*time.Second, "", "ends applock, critical, shop; verdict"},
	} {
		if step.push != "" {
			body := pushForm(stuckProfile(t, time.Now(), step.push == "waiting"), "")
			req := httptest.NewRequest("POST", "/ingest?"+pushQuery("shop", 1, time.Now()), bytes.NewReader(body.data))
			req.Header.Set("Content-Type", body.contentType)
			w := httptest.NewRecorder()
			if receiver.ServeHTTP(w, req); w.Code != http.StatusOK {
				t.Fatal(w.Code, w.Body)
			}
		}
		out.Reset()
		if err := l.look(t.Context(), start.Add(step.after), 0); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			_, line, _ = strings.Cut(line, " ")
			line, _, _ = strings.Cut(line, "\n")
			what, rest, _ := strings.Cut(line, ": ")
			if what == "looked" {
				what += ": " + rest[:len("nothing found")]
			}
			got = append(got, what)
		}
		if got := strings.Join(got, "; "); got != step.want {
			t.Errorf("after %v: %q, want %q", step.after, got, step.want)
		}
	}
}

// A job of which all have fallen silent cannot be seen, since it was seen last.
func TestSilentJobs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	got := inputsOf([]receive.Job{{Name: "a", Pushed: at}, {Name: "b", Pushed: at, Silent: true}})
	want := []watch.Input{{Name: "job a", Job: "a", Seen: at}, {Name: "job b", Job: "b", Seen: at, Blind: at, Why: "none of its processes pushes any more"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A page of another site whose name leads to this machine reads and pushes nothing.
func TestReceiveGuard(t *testing.T) {
	t.Parallel()
	r := startReceive(t, "receive", "--listen", "127.0.0.1:0")
	for _, to := range []string{"GET /", "GET /metrics", "POST /ingest"} {
		for host, want := range map[string]int{"localhost:4040": 0, "rebound.example:4040": http.StatusMisdirectedRequest} {
			method, path, _ := strings.Cut(to, " ")
			req, err := http.NewRequest(method, r.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if is := resp.StatusCode == http.StatusMisdirectedRequest; is != (want != 0) {
				t.Errorf("%s of %s: %s", to, host, resp.Status)
			}
		}
	}
}

// However it ends, with pushes on their way, all that was acknowledged is in the bundle,
// which can be analysed, and the next receiver goes on with it.
func TestReceiveStop(t *testing.T) {
	t.Parallel()
	for sig, want := range map[os.Signal]int{syscall.SIGTERM: exitOK, os.Interrupt: exitOK, syscall.SIGKILL: -1} {
		dir := filepath.Join(t.TempDir(), "bundle")
		r := startReceive(t, "receive", "--listen", "127.0.0.1:0", "--bundle", dir)
		body := pushForm(stuckProfile(t, time.Now(), true), `{"goroutine":{}}`)
		var wg sync.WaitGroup
		acknowledged, enough := make([]int, 4), make(chan struct{}, 4)
		for i := range acknowledged {
			wg.Go(func() {
				for { // until nobody answers
					if status, _ := r.push(t, pushQuery("shop", i, time.Now()), body); status != http.StatusOK {
						return
					}
					if acknowledged[i]++; acknowledged[i] == 20 {
						enough <- struct{}{}
					}
				}
			})
		}
		for range acknowledged {
			<-enough
		}
		if code := r.end(t, sig); code != want {
			t.Errorf("%v: exit code %d, want %d\n%s", sig, code, want, r.stderr)
		}
		wg.Wait()
		for i, n := range acknowledged {
			kept, err := filepath.Glob(filepath.Join(dir, "profiles", fmt.Sprintf("shop-%d-*", i), "goroutine-*.pb.gz"))
			// One may have been kept whose answer did not arrive.
			if err != nil || len(kept) < n || len(kept) > n+1 {
				t.Errorf("%v: %d kept of process %d, %v; want the %d that were acknowledged", sig, len(kept), i, err, n)
			}
		}
		analyze, stdout, stderr := contend(t, "analyze", dir)
		if code := exitCode(t, analyze.Run()); code != exitOK || !strings.HasPrefix(stdout.String(), "4 of 4 instances of shop, 120 of 120 requests") {
			t.Errorf("%v: analyze: exit code %d\n%s\n%.300s", sig, code, stderr, stdout)
		}
		again := startReceive(t, "receive", "--listen", "127.0.0.1:0", "--bundle", dir)
		again.until(t, "/metrics", "contend_receive_processes 4\n")
		if code := again.end(t, syscall.SIGTERM); code != exitOK {
			t.Errorf("%v: exit code %d\n%s", sig, code, again.stderr)
		}
	}
}

// TestReceiveForm: a request for the report has no form, whose parts net/http would keep
// in memory and, what is more, in files.
func TestReceiveForm(t *testing.T) {
	t.Parallel()
	l := &looker{}
	l.page.Store(&page{text: []byte("text"), json: []byte("{}")})
	for target, want := range map[string]string{"/": "text", "/?o=json": "{}"} {
		body := "--b\r\nContent-Disposition: form-data; name=\"o\"\r\n\r\njson\r\n--b--\r\n"
		req := httptest.NewRequest(http.MethodGet, target, strings.NewReader(body))
		req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		w := httptest.NewRecorder()
		if l.serve(w, req); w.Body.String() != want || req.MultipartForm != nil {
			t.Errorf("%s: %q, form %v; want %q and a form that is not read", target, w.Body, req.MultipartForm, want)
		}
	}
}
