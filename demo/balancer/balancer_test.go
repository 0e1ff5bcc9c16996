package balancer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answer serves a task that answers every request with status and name.
func answer(t *testing.T, name string, status int) Task {
	t.Helper()
	return serve(t, name, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, name)
	})
}

func serve(t *testing.T, name string, h http.HandlerFunc) Task {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return Task{Name: name, URL: s.URL}
}

// nobody is a task whose port nobody listens at any more.
func nobody(name string) Task {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return Task{Name: name, URL: s.URL}
}

func front(t *testing.T, cfg Config, tasks ...Task) (*Balancer, string) {
	t.Helper()
	b := New(cfg)
	b.SetTasks(tasks)
	return b, serve(t, "balancer", b.ServeHTTP).URL
}

// ask returns status and body of an answer.
func ask(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, got))
}

func TestChoice(t *testing.T) {
	t.Parallel()
	const gone = 0 // nobody listens
	tests := []struct {
		name   string
		cfg    Config
		tasks  []int // statuses of a, b, c
		method string
		want   []string
		asked  []int // how often each task was
	}{
		{"tasks take turns", Config{}, []int{200, 200, 200}, "GET",
			[]string{"200 a", "200 b", "200 c", "200 a"}, []int{2, 1, 1}},
		{"no task", Config{}, nil, "GET", []string{"503 no task may be asked"}, nil},
		{"one attempt by default", Config{}, []int{gone, 200}, "GET",
			[]string{"502 no task answered", "200 b", "502 no task answered"}, []int{0, 1}},
		{"another task after no connection", Config{Attempts: 2}, []int{gone, 200}, "GET",
			[]string{"200 b", "200 b"}, []int{0, 2}},
		{"another task after 502", Config{Attempts: 2}, []int{502, 200}, "GET",
			[]string{"200 b"}, []int{1, 1}},
		{"the last 502 is passed on", Config{Attempts: 2}, []int{502, 502, 200}, "GET",
			[]string{"502 b"}, []int{1, 1, 0}},
		{"a 503 is an answer", Config{Attempts: 2}, []int{503, 200}, "GET",
			[]string{"503 a"}, []int{1, 0}},
		{"no task twice", Config{Attempts: 9}, []int{502, gone}, "GET",
			[]string{"502 no task answered"}, []int{1, 0}},
		{"a POST is not repeated", Config{Attempts: 2}, []int{502, 200}, "POST",
			[]string{"502 a", "200 b"}, []int{1, 1}},
		{"aware: one that failed is left out", Config{Aware: true}, []int{gone, 200}, "GET",
			[]string{"502 no task answered", "200 b", "200 b", "200 b"}, []int{0, 3}},
		{"aware: where all failed none is left out", Config{Aware: true}, []int{502, 502}, "GET",
			[]string{"502 a", "502 b", "502 a"}, []int{2, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := make([]atomic.Int64, len(tt.tasks))
			var tasks []Task
			for i, status := range tt.tasks {
				name := string(rune('a' + i))
				if status == gone {
					tasks = append(tasks, nobody(name))
					continue
				}
				tasks = append(tasks, serve(t, name, func(w http.ResponseWriter, r *http.Request) {
					asked[i].Add(1)
					w.WriteHeader(status)
					io.WriteString(w, name)
				}))
			}
			_, url := front(t, tt.cfg, tasks...)
			for i, want := range tt.want {
				if got := ask(t, tt.method, url, ""); got != want {
					t.Errorf("answer %d: %q, want %q", i, got, want)
				}
			}
			for i := range asked {
				if got := int(asked[i].Load()); got != tt.asked[i] {
					t.Errorf("%s was asked %d times, want %d", tasks[i].Name, got, tt.asked[i])
				}
			}
		})
	}
}

// A task that hangs goes on getting its turn, and only an aware balancer stops at its limit.
func TestOverloaded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg                 Config
		wantSlow, wantQuick int // asked, after 4 requests of which the slow task's hang
	}{
		{Config{}, 2, 2},
		{Config{Aware: true}, 1, 3},
	} {
		t.Run(fmt.Sprintf("aware %v", tt.cfg.Aware), func(t *testing.T) {
			t.Parallel()
			arrived, release := make(chan bool), make(chan bool)
			slow := serve(t, "slow", func(w http.ResponseWriter, r *http.Request) {
				arrived <- true
				<-release
			})
			b, url := front(t, tt.cfg, slow, answer(t, "quick", 200))
			quick := 0
			over := make(chan string)
			for range 4 {
				go func() { over <- ask(t, "GET", url, "") }()
				select {
				case <-arrived:
				case got := <-over:
					if quick++; got != "200 quick" {
						t.Errorf("answer %q, and not by the quick task", got)
					}
					waitFor(t, b, 1, 0) // only then the next one finds it idle
				}
			}
			want := []string{fmt.Sprintf("slow %d", tt.wantSlow), "quick 0"}
			if got := inProgress(b); !slices.Equal(got, want) || quick != tt.wantQuick {
				t.Errorf("in progress %q and %d by the quick task, want %q and %d", got, quick, want, tt.wantQuick)
			}
			close(release)
			for range tt.wantSlow {
				<-over
			}
		})
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Aware: true, Limit: 1}, "503 no task may be asked"},
		{Config{Aware: true, Limit: 2}, "200"},
		{Config{Limit: 1}, "200"},
	} {
		t.Run(fmt.Sprintf("%+v", tt.cfg), func(t *testing.T) {
			t.Parallel()
			arrived, release := make(chan bool), make(chan bool)
			_, url := front(t, tt.cfg, serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hang" {
					arrived <- true
					<-release
				}
			}))
			over := make(chan bool)
			go func() {
				http.Get(url + "/hang")
				close(over)
			}()
			<-arrived
			if got := ask(t, "GET", url, ""); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			close(release)
			<-over
		})
	}
}

func TestPassesOn(t *testing.T) {
	t.Parallel()
	_, front := front(t, Config{}, serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["X-Twice"] = []string{"1", "2"}
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "from the task")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s host=%s region=%q hop=%q body=%q", r.Method, r.RequestURI, r.Host, r.Header["X-Region"], r.Header["X-Hop"], body)
	}))
	req, _ := http.NewRequest("POST", front+"/a%2Fb?q=1&q=2", strings.NewReader("posted"))
	req.Host = "editor.example"
	req.Header = http.Header{"X-Region": {"au", "us"}, "X-Hop": {"from the client"}, "Connection": {"x-hop"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	want := `POST /a%2Fb?q=1&q=2 host=editor.example region=["au" "us"] hop=[] body="posted"`
	if string(body) != want || resp.StatusCode != http.StatusTeapot {
		t.Errorf("%d %s, want 418 %s", resp.StatusCode, body, want)
	}
	if got := resp.Header["X-Twice"]; !slices.Equal(got, []string{"1", "2"}) || resp.Header["X-Hop"] != nil {
		t.Errorf("headers %v, want X-Twice 1 and 2 and no X-Hop", resp.Header)
	}
}

// Events of a stream come one by one, and a client that leaves is no failure.
func TestStreamAndClientGone(t *testing.T) {
	t.Parallel()
	next, left := make(chan string), make(chan bool)
	b, url := front(t, Config{Aware: true}, serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case s := <-next:
				fmt.Fprintln(w, s)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				close(left)
				return
			}
		}
	}))
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	answers := make(chan *http.Response)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
		}
		answers <- resp
	}()
	next <- "one"
	resp := <-answers
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"one", "two", "three"} {
		if want != "one" {
			next <- want
		}
		if got, err := lines.ReadString('\n'); got != want+"\n" || err != nil {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	leave()
	<-left
	waitFor(t, b, 0, 0)
	if got := failedTasks(b); got != "" {
		t.Errorf("failed: %s, want none", got)
	}
}

// waitFor waits until a task has so many requests in progress: an answer may arrive
// before it is counted as over.
func waitFor(t *testing.T, b *Balancer, task, inFlight int) {
	t.Helper()
	for b.Stats()[task].InFlight != inFlight {
		select {
		case <-t.Context().Done():
			t.Fatalf("stats %+v, want %d in progress at task %d", b.Stats(), inFlight, task)
		case <-time.After(time.Millisecond):
		}
	}
}

// inProgress is how many requests each task has in progress, such as "a 1".
func inProgress(b *Balancer) (all []string) {
	for _, s := range b.Stats() {
		all = append(all, fmt.Sprintf("%s %d", s.Task, s.InFlight))
	}
	return all
}

// failedTasks are the names of the tasks that count as failed.
func failedTasks(b *Balancer) (names string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tasks {
		if !t.failedAt.IsZero() {
			names += t.Name
		}
	}
	return names
}

func TestClientGoneBeforeAnswer(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	b := New(Config{Attempts: 2})
	b.SetTasks([]Task{serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	}), serve(t, "b", func(http.ResponseWriter, *http.Request) { t.Error("it is sent to another task") })})
	w := httptest.NewRecorder()
	b.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	if w.Code != statusClientGone {
		t.Errorf("status %d, want 499", w.Code)
	}
	if got, want := inProgress(b), []string{"a 0", "b 0"}; !slices.Equal(got, want) || failedTasks(b) != "" {
		t.Errorf("in progress %q, failed %q; want %q and none", got, failedTasks(b), want)
	}
}

func TestAnswerCutOff(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"100", ""} {
		t.Run("length "+length, func(t *testing.T) {
			t.Parallel()
			b, url := front(t, Config{Attempts: 2}, serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				io.WriteString(w, "half")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}), serve(t, "b", func(http.ResponseWriter, *http.Request) { t.Error("it is sent to another task") }))
			resp, err := http.Get(url)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("error %v, want the answer to break off at the client too", err)
			}
			waitFor(t, b, 0, 0)
			if got := failedTasks(b); got != "a" {
				t.Errorf("failed: %q, want a", got)
			}
		})
	}
}

func TestSetTasks(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan bool), make(chan bool)
	a, c := serve(t, "a", func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-release
		io.WriteString(w, "a")
	}), answer(t, "c", 200)
	b, url := front(t, Config{}, a)
	over := make(chan string)
	go func() { over <- ask(t, "GET", url, "") }()
	<-arrived
	b.SetTasks([]Task{c, a, {Name: "a", URL: c.URL}, {Name: "unreadable", URL: "http://%zz"}})
	want := []string{"c 0", "a 1", "a 0", "unreadable 0"}
	if got := inProgress(b); !slices.Equal(got, want) {
		t.Errorf("in progress %q, want %q: the task that stayed has its request in progress", got, want)
	}
	close(release)
	if got := <-over; got != "200 a" {
		t.Errorf("the request in progress: %q, want 200 a", got)
	}
	waitFor(t, b, 1, 0)
	b.SetTasks([]Task{{Name: "unreadable", URL: "http://%zz"}})
	if got, want := ask(t, "GET", url, ""), "502 no task answered"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.SetTasks(nil)
	if got, want := ask(t, "GET", url, ""), "503 no task may be asked"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
