package receive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var t0 = time.Date(2026, 11, 30, 10, 0, 0, 123456789, time.UTC)

// receiverAt is a receiver whose clock stands at t0, and what sets it.
func receiverAt(t testing.TB, o Options) (*Receiver, *clock) {
	t.Helper()
	if o.Window == 0 {
		o.Window = 15 * time.Minute
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{at: t0}
	r.window.now = c.now
	return r, c
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// push is one push; body is of a form, unless it is set.
type push struct {
	name        string
	from, until time.Time // those of the last 15 seconds where zero
	query       url.Values
	profile     []byte
	config      string
	contentType string
	body        io.Reader
	header      http.Header
}

func (p push) request(now time.Time) *http.Request {
	if p.until.IsZero() {
		p.from, p.until = now.Add(-15*time.Second), now
	}
	q := url.Values{
		"name":  {p.name},
		"from":  {strconv.FormatInt(p.from.UnixNano(), 10)},
		"until": {strconv.FormatInt(p.until.UnixNano(), 10)},
	}
	for k, v := range p.query {
		q[k] = v
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if p.profile != nil {
		part, _ := w.CreateFormFile("profile", "../../profile.pprof")
		part.Write(p.profile)
	}
	if p.config != "" {
		part, _ := w.CreateFormFile("sample_type_config", "sample_type_config.json")
		io.WriteString(part, p.config)
	}
	w.Close()
	if p.body == nil {
		p.body = &form
	}
	if p.contentType == "" {
		p.contentType = w.FormDataContentType()
	}
	req := httptest.NewRequest(http.MethodPost, "/ingest?"+q.Encode(), p.body)
	req.Header.Set("Content-Type", p.contentType)
	for k, v := range p.header {
		req.Header[k] = v
	}
	return req
}

// send pushes, and holds the answer to status.
func send(t testing.TB, r *Receiver, p push, status int) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, p.request(r.window.now()))
	if w.Code != status {
		t.Errorf("push of %q: %d %s, want %d", p.name, w.Code, w.Body, status)
	}
	return w.Body.String()
}

// metrics are the receiver's own that are not 0, without their common prefix.
func metrics(t testing.TB, r *Receiver) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	out := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name, ok := strings.CutPrefix(name, "contend_receive_"); ok && value != "0" {
			out[name] = value
		}
	}
	return out
}

const blockConfig = `{"contentions":{"units":"lock_samples","display-name":"block_count"},"delay":{"units":"lock_nanoseconds","display-name":"block_duration"}}`

var mutexConfig = strings.ReplaceAll(blockConfig, "block", "mutex")

func TestBadPushes(t *testing.T) {
	t.Parallel()
	good := pprofOf(t, "goroutine/count")
	for _, tt := range []struct {
		name   string
		push   push
		status int
		reason string
		answer string
	}{
		{"no name", push{profile: good}, 400, badName, "expected the parameter name"},
		{"a bad label set", push{name: "a{b}", profile: good}, 400, badName, "expected labels as LABEL=VALUE"},
		{"times that go back", push{name: "a", from: t0, until: t0.Add(-time.Second), profile: good}, 400, badTime, "expected until after from"},
		{"the future", push{name: "a", from: t0, until: t0.Add(time.Hour), profile: good}, 400, badTime, "set the clocks"},
		{"the past", push{name: "a", from: t0.Add(-2 * time.Hour), until: t0.Add(-time.Hour), profile: good}, 400, badTime, "set the clocks"},
		{"no times", push{name: "a", query: url.Values{"from": nil}, profile: good}, 400, badTime, "expected from as Unix time"},
		{"another format", push{name: "a", query: url.Values{"format": {"jfr"}}, profile: good}, 415, badForm, `expected format pprof, saw "jfr"`},
		{"no form", push{name: "a", contentType: "application/x-www-form-urlencoded", profile: good}, 415, badForm, "expected a body of multipart/form-data"},
		{"no boundary", push{name: "a", contentType: "multipart/form-data", profile: good}, 415, badForm, "expected a body of multipart/form-data"},
		{"no profile", push{name: "a", config: "{}"}, 400, badForm, "expected a form with the part profile"},
		{"an empty profile", push{name: "a", profile: []byte{}}, 400, badForm, "expected a form with the part profile"},
		{"a bad config", push{name: "a", profile: good, config: "{"}, 400, badForm, "expected sample_type_config as JSON"},
		{"text", push{name: "a", profile: []byte("hello")}, 400, badProfile, "expected a pprof profile"},
		{"cut off", push{name: "a", profile: good[:len(good)-9]}, 400, badProfile, "cut off or damaged"},
		{"too large", push{name: "a", profile: make([]byte, maxPush)}, 413, tooLarge, "expected a push of at most 8388608 bytes"},
		{"a bomb", push{name: "a", profile: pack(t, bytes.Repeat([]byte{fieldStrings<<3 | wireBytes, 0}, maxUnpacked/2+1))}, 413, tooLarge, "at most 32 MiB unpacked"},
		{"half a body", push{name: "a", contentType: "multipart/form-data; boundary=x", body: strings.NewReader("--x\r\nContent-Disposition: form-data; name=profile\r\n\r\n12")}, 400, cutOff, "cut off"},
	} {
		r, _ := receiverAt(t, Options{})
		if answer := send(t, r, tt.push, tt.status); !strings.Contains(answer, tt.answer) {
			t.Errorf("%s: %q, want %q", tt.name, answer, tt.answer)
		}
		want := map[string]string{fmt.Sprintf("rejected_total{reason=%q}", tt.reason): "1"}
		if got := metrics(t, r); !mapsEqual(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
	}
}

func mapsEqual(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) } // printed in order

// A page that somebody's browser shows must not push.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	r, _ := receiverAt(t, Options{})
	send(t, r, push{name: "a", profile: pprofOf(t, "goroutine/count"), header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}, 403)
	if got := metrics(t, r); len(got) > 0 {
		t.Errorf("it was kept: %v", got)
	}
}

// What does not say what waits is acknowledged and not kept.
func TestOtherKinds(t *testing.T) {
	t.Parallel()
	r, _ := receiverAt(t, Options{})
	answer := send(t, r, push{name: "a", profile: pprofOf(t, "samples/count", "cpu/nanoseconds")}, 200)
	if want := "not kept: cpu profiles do not say what waits; contend reads goroutine, block and mutex profiles\n"; answer != want {
		t.Errorf("%q, want %q", answer, want)
	}
	if got, want := metrics(t, r), map[string]string{`ignored_total{kind="cpu"}`: "1"}; !mapsEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// In memory 429 starts at the limit, and ends once the oldest have left.
func TestMemoryFull(t *testing.T) {
	t.Parallel()
	data := pprofOf(t, "goroutine/count")
	r, clock := receiverAt(t, Options{})
	send(t, r, push{name: "a", profile: data}, 200)
	size := r.window.size
	r.window.maxBytes = size
	send(t, r, push{name: "a", profile: data}, 413) // its body is too large for all there is
	r.window.maxBytes = 20_000
	for r.window.size+size <= r.window.maxBytes {
		send(t, r, push{name: "a", profile: data}, 200)
	}
	held := len(r.window.profiles)
	if answer := send(t, r, push{name: "a", profile: data}, 429); !strings.Contains(answer, "--bundle") {
		t.Errorf("answer %q, want what to try", answer)
	}
	if got := metrics(t, r); got[`rejected_total{reason="full"}`] != "1" || got["expired_total"] != "" || got["held_profiles"] != strconv.Itoa(held) {
		t.Errorf("%v, want 1 rejected, none expired, %d held", got, held)
	}
	clock.add(15*time.Minute + time.Second)
	send(t, r, push{name: "b", profile: data}, 200)
	got := metrics(t, r)
	want := map[string]string{
		"accepted_total": strconv.Itoa(held + 1), "expired_total": strconv.Itoa(held), "held_bytes": strconv.FormatInt(size, 10),
		"held_profiles": "1", "processes": "1", `rejected_total{reason="full"}`: "1", `rejected_total{reason="too_large"}`: "1",
	}
	if !mapsEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTooManyProcesses(t *testing.T) {
	t.Parallel()
	data := pprofOf(t, "goroutine/count")
	r, clock := receiverAt(t, Options{Bundle: t.TempDir()})
	for i := range maxProcesses {
		r.window.processes[strconv.Itoa(i)] = &process{}
	}
	send(t, r, push{name: "a", profile: data}, 429)
	delete(r.window.processes, "0")
	send(t, r, push{name: "a", profile: data}, 200)
	send(t, r, push{name: "a", profile: data}, 200)
	send(t, r, push{name: "b", profile: data}, 429)
	clock.add(time.Hour)
	send(t, r, push{name: "b", profile: data}, 200) // a is gone
	if files := filesOf(t, r.window.bundle.dir); len(files) != 2 || !strings.HasPrefix(files[1], "profiles/b-") {
		t.Errorf("files %v, want the list and one of b", files)
	}
}

// Pushes that stand still fill what may be received at once; then others are told to come back.
func TestBusy(t *testing.T) {
	t.Parallel()
	data := pprofOf(t, "goroutine/count")
	r, _ := receiverAt(t, Options{})
	r.receiving.Store(maxReceiving - 100)
	send(t, r, push{name: "a", profile: data}, 503)
	if got := r.receiving.Load(); got != maxReceiving-100 {
		t.Errorf("%d bytes are being received, want %d", got, maxReceiving-100)
	}
	r.receiving.Store(0)
	send(t, r, push{name: "a", profile: data}, 200)
	if got := r.receiving.Load(); got != 0 {
		t.Errorf("%d bytes are being received, want 0", got)
	}
}

// A client that stops in the middle of its body is told so once the server's time for a body is over.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	r, _ := receiverAt(t, Options{})
	r.window.now = time.Now
	server := httptest.NewUnstartedServer(r)
	server.Config.ReadTimeout = 200 * time.Millisecond
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	now := time.Now().UnixNano()
	fmt.Fprintf(conn, "POST /ingest?name=a&from=%d&until=%d HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x\r\n", now, now)
	answer, _ := io.ReadAll(conn)
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
		t.Errorf("answer %q, want 408", answer)
	}
	if got := metrics(t, r)[`rejected_total{reason="slow"}`]; got != "1" {
		t.Errorf("%q pushes were slow, want 1", got)
	}
}

// Under load a push that says its kind is taken on its profile's beginning, and one that does not is read wholly.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	r, _ := receiverAt(t, Options{})
	r.looking.Store(1000)
	goroutines := largeProfile(t)
	config := `{"goroutine":{"units":"goroutines","display-name":"goroutine"}}`
	send(t, r, push{name: "a", profile: goroutines, config: config}, 200)
	send(t, r, push{name: "a", profile: goroutines[:len(goroutines)/2], config: config}, 200)
	send(t, r, push{name: "a", profile: goroutines[:len(goroutines)/2]}, 400)
	send(t, r, push{name: "a", profile: []byte("text that is no profile"), config: config}, 400)
	send(t, r, push{name: "a", profile: pack(t, []byte("text that is no profile")), config: config}, 400)
	send(t, r, push{name: "a", profile: goroutines, config: `{"inuse_space":{}}`}, 200)
	b := r.Sample(t.Context())
	if len(b.Snapshots) != 1 || len(b.Failures) != 1 || !strings.Contains(b.Failures[0].Err.Error(), "cut off") {
		t.Errorf("%d snapshots, failures %v; want 1 and one that is cut off", len(b.Snapshots), b.Failures)
	}
	want := map[string]string{
		"accepted_total": "2", "held_bytes": strconv.Itoa(len(goroutines) + len(goroutines)/2), "held_profiles": "2", "processes": "1",
		`ignored_total{kind="heap"}`: "1", `rejected_total{reason="bad_profile"}`: "3", "unreadable_total": "1",
	}
	if got := metrics(t, r); !mapsEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// largeProfile is a goroutine profile that unpacks to more than its beginning.
func largeProfile(t testing.TB) []byte {
	t.Helper()
	p := profileOf("goroutine/count")
	p.TimeNanos = t0.UnixNano()
	for i := range 1000 {
		s := *p.Sample[0]
		s.Value = []int64{int64(i)}
		p.Sample = append(p.Sample, &s)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Of many processes those are looked at that pushed last, and the report says so; those that are silent are not.
func TestSample(t *testing.T) {
	t.Parallel()
	data := pprofOf(t, "goroutine/count")
	r, clock := receiverAt(t, Options{})
	send(t, r, push{name: "silent", profile: data}, 200)
	clock.add(silence + time.Second)
	for i := range maxSample + 30 {
		for range 2 {
			send(t, r, push{name: fmt.Sprintf("p{instance=%d}", i), profile: data}, 200)
		}
	}
	b := r.Sample(t.Context())
	names := map[string]int{}
	for _, i := range b.Instances {
		names[i.Name]++
	}
	if len(names) != 120 || names["silent"] > 0 || len(b.Snapshots) != 120 {
		t.Errorf("%d profiles of %d processes, want 120 of 120", len(b.Snapshots), len(names))
	}
	if want := []string{"looked at the newest 120 of 300 profiles, of 120 of the 150 processes that push: the others are looked at in their turn"}; !slices.Equal(b.Warnings, want) {
		t.Errorf("warnings %q, want %q", b.Warnings, want)
	}
	// The others come in their turn, although none has pushed since.
	clock.add(time.Second)
	for _, i := range r.Sample(t.Context()).Instances {
		names[i.Name]++
	}
	if len(names) != 150 {
		t.Errorf("%d processes after two looks, want 150", len(names))
	}
	clock.add(silence + time.Second)
	if b := r.Sample(t.Context()); len(b.Snapshots) > 0 || len(b.Warnings) > 0 {
		t.Errorf("%d profiles of silent processes, warnings %q", len(b.Snapshots), b.Warnings)
	}
}

// A job is silent once all its processes are, and is there as long as its profiles.
func TestJobs(t *testing.T) {
	t.Parallel()
	r, clock := receiverAt(t, Options{})
	data := pprofOf(t, "goroutine/count")
	start := clock.now()
	send(t, r, push{name: "shop{instance=a}", profile: data}, 200)
	send(t, r, push{name: "cart{instance=a}", profile: data}, 200)
	clock.add(silence)
	at := clock.now()
	send(t, r, push{name: "shop{instance=b}", profile: data}, 200)
	check := func(want ...Job) {
		t.Helper()
		if got := r.Jobs(); !slices.Equal(got, want) {
			t.Errorf("jobs %v, want %v", got, want)
		}
	}
	check(Job{"cart", start, false}, Job{"shop", at, false})
	clock.add(time.Second)
	check(Job{"cart", start, true}, Job{"shop", at, false})
	clock.add(silence)
	check(Job{"cart", start, true}, Job{"shop", at, true})
	clock.add(13 * time.Minute)
	check(Job{"shop", at, true})
	clock.add(time.Minute)
	check()
}

// Pushes, looks and questions at once, for the race detector; all that is acknowledged is there.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	data := pprofOf(t, "goroutine/count")
	dir := t.TempDir()
	r, _ := receiverAt(t, Options{Bundle: dir})
	r.window.now = time.Now
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				send(t, r, push{name: fmt.Sprintf("p{instance=%d}", i%3), profile: data}, 200)
			}
		})
		wg.Go(func() {
			for range 5 {
				r.Sample(context.Background())
				metrics(t, r)
			}
		})
	}
	wg.Wait()
	if files := filesOf(t, dir); len(files) != 161 {
		t.Errorf("%d files, want 160 and the list", len(files))
	}
}
