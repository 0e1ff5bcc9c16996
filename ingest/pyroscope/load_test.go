package pyroscope

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/pyroscope/pyroscopetest"
	"github.com/contend/contend/ingest/stacks"
)

var (
	start = time.Date(2026, 11, 12, 9, 30, 0, 0, time.UTC)
	end   = start.Add(10 * time.Minute)
)

const upload = 15 * time.Second

// stack is one sample: its functions from the leaf up, and its values.
type stack struct {
	functions string // separated by spaces
	values    []int64
}

var (
	lockWait = "sync.runtime_SemacquireMutex sync.(*Mutex).lockSlow sync.(*Mutex).Lock main.(*cache).get main.handle net/http.HandlerFunc.ServeHTTP net/http.(*conn).serve"
	idle     = "internal/poll.runtime_pollWait internal/poll.(*FD).Read net.(*conn).Read net/http.(*connReader).Read bufio.(*Reader).Peek net/http.(*conn).serve"
	unlock   = "sync.(*Mutex).Unlock main.(*cache).get main.handle net/http.HandlerFunc.ServeHTTP net/http.(*conn).serve"
)

func newProfile(types string, all ...stack) *profile.Profile {
	p := &profile.Profile{PeriodType: &profile.ValueType{Type: "contentions", Unit: "count"}}
	for t := range strings.FieldsSeq(types) {
		name, unit, _ := strings.Cut(t, "/")
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: name, Unit: unit})
	}
	if len(p.SampleType) == 1 {
		p.PeriodType = p.SampleType[0]
	}
	at := map[string]*profile.Location{}
	for _, s := range all {
		sample := &profile.Sample{Value: s.values}
		for name := range strings.FieldsSeq(s.functions) {
			l := at[name]
			if l == nil {
				f := &profile.Function{ID: uint64(len(at) + 1), Name: name}
				l = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f, Line: 1}}}
				at[name], p.Function, p.Location = l, append(p.Function, f), append(p.Location, l)
			}
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func goroutines(waiting, resting int64) *profile.Profile {
	return newProfile("goroutine/count", stack{lockWait, []int64{waiting}}, stack{idle, []int64{resting}})
}

func contention(leaf string, n int64, delay time.Duration) *profile.Profile {
	return newProfile("contentions/count delay/nanoseconds", stack{leaf, []int64{n, int64(delay)}})
}

// push keeps what a process uploads over the window: n times, 15 s apart.
func push(s *pyroscopetest.Server, service, instance string, n int, waiting func(i int) int64) {
	lset := map[string]string{"service_name": service, "instance": instance}
	for i := range n {
		at := start.Add(time.Duration(i+1) * upload)
		w := waiting(i)
		s.Add("goroutines", lset, at, goroutines(w, 5))
		s.Add("block", lset, at, contention(lockWait, 10*w, time.Duration(w)*upload))
		s.Add("mutex", lset, at, contention(unlock, 10*w, time.Duration(w)*upload/2))
	}
}

func constant(n int64) func(int) int64 { return func(int) int64 { return n } }

func serve(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// load asks for everything of the gateway in the window.
func load(t *testing.T, address, selector string) *ingest.Bundle {
	t.Helper()
	q, err := New(address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return q.Load(t.Context(), Query{Selector: selector, Start: start, End: end})
}

// describe is a bundle in words.
func describe(b *ingest.Bundle, server string) string {
	var out strings.Builder
	local := func(s string) string { return strings.ReplaceAll(s, server, "SERVER") }
	for _, s := range b.Snapshots {
		fmt.Fprintf(&out, "%s: %s of %s, summed %v:", local(s.Name), s.Format, s.Taken.Format("15:04:05"), s.Summed)
		for _, g := range s.Groups {
			fmt.Fprintf(&out, " %d %s", g.Count, g.Wait.Kind)
		}
		fmt.Fprintf(&out, " of %d\n", s.Loss.Read)
	}
	for _, w := range b.Waits {
		fmt.Fprintf(&out, "%s: %s over %v:", local(w.Name), w.Kind, w.Window)
		for i := range w.Sites {
			fmt.Fprintf(&out, " %.1f waiting, %d times", w.Concurrency(&w.Sites[i]), w.Sites[i].Contentions)
		}
		out.WriteString("\n")
	}
	for _, p := range b.Processes() {
		fmt.Fprintf(&out, "process %s of %s\n", p.Instance, p.Job)
	}
	for _, u := range b.Unused {
		fmt.Fprintf(&out, "unused %s: %s\n", local(u.Name), u.Reason)
	}
	for _, f := range b.Failures {
		fmt.Fprintf(&out, "failed %s: %s\n", local(f.Name), local(f.Err.Error()))
	}
	for _, w := range b.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", local(w))
	}
	return out.String()
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The sum of a process's snapshots becomes their mean, and its waits a mean over
// the time that the uploads cover. What is outside the window, or of another
// service, is not looked at.
func TestLoad(t *testing.T) {
	t.Parallel()
	s := &pyroscopetest.Server{Tenant: "blue"}
	push(s, "gateway", "gateway-1", 39, constant(100))
	push(s, "gateway", "gateway-2", 20, func(i int) int64 { return int64(i % 2) })
	push(s, "billing", "billing-1", 39, constant(1000))
	s.Add("goroutines", map[string]string{"service_name": "gateway", "instance": "gateway-1"}, end.Add(time.Minute), goroutines(9999, 1))
	server := serve(t, s)
	q, err := New(server+"/", Options{HTTP: &http.Client{Transport: tenant("blue")}})
	if err != nil {
		t.Fatal(err)
	}
	b := q.Load(t.Context(), Query{Selector: `service_name="gateway",`, Start: start, End: end})
	equal(t, describe(b, server), `
SERVER gateway/gateway-1/goroutine: pprof of 09:40:00, summed false: 100 lock 5 idle of 105
SERVER gateway/gateway-2/goroutine: pprof of 09:40:00, summed false: 5 idle 1 lock of 6
SERVER gateway/gateway-1/block: block over 9m45s: 100.0 waiting, 39000 times
SERVER gateway/gateway-1/mutex: mutex over 9m45s: 50.0 waiting, 39000 times
SERVER gateway/gateway-2/block: block over 5m0s: 0.5 waiting, 100 times
SERVER gateway/gateway-2/mutex: mutex over 5m0s: 0.2 waiting, 100 times
process gateway-1 of gateway
process gateway-2 of gateway
warning: SERVER: profiles are merged from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z: goroutine counts are means of 20 to 39 snapshots of each process, and waits are means over the time they cover; a spell that is shorter than the window looks smaller than it was
`)
	asked := s.Asked()
	slices.Sort(asked)
	count := map[string]int{}
	for _, a := range asked {
		count[a]++
	}
	if got, want := fmt.Sprint(count), "map[LabelNames:1 ProfileTypes:1 SelectMergeProfile:10 SelectSeries:1]"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// tenant is a transport that adds the header, as http_headers in a configuration does.
type tenant string

func (id tenant) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Scope-OrgID", string(id))
	return http.DefaultTransport.RoundTrip(r)
}

// What a server has not is said, and what it has instead; the rest is read.
func TestMissing(t *testing.T) {
	t.Parallel()
	gateway := map[string]string{"service_name": "gateway", "instance": "gateway-1"}
	at := start.Add(time.Minute)
	cpu := newProfile("cpu/nanoseconds", stack{"main.handle", []int64{1}})
	for _, tt := range []struct {
		name, selector string
		fill           func(*pyroscopetest.Server)
		want           string
	}{
		{"nothing at all", "", func(*pyroscopetest.Server) {}, `
failed SERVER: expected goroutine, block or mutex profiles, saw no profile of any type from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z; try a longer --since, the tenant as X-Scope-OrgID under http_headers in --http.config.file, or switch them on in the service: ProfileTypes of pyroscope-go
`},
		{"only CPU", "", func(s *pyroscopetest.Server) { s.Add("process_cpu", gateway, at, cpu) }, `
failed SERVER: expected goroutine, block or mutex profiles, saw only process_cpu:cpu:nanoseconds:cpu:nanoseconds; try a longer --since, the tenant as X-Scope-OrgID under http_headers in --http.config.file, or switch them on in the service: ProfileTypes of pyroscope-go
`},
		{"goroutines only, as Alloy names them", "", func(s *pyroscopetest.Server) { s.Add("goroutine", gateway, at, goroutines(3, 0)) }, `
SERVER gateway/gateway-1/goroutine: pprof of 09:40:00, summed false: 3 lock of 3
process gateway-1 of gateway
unused SERVER block: the server has only goroutine:goroutine:count:goroutine:count; to have block profiles, set pyroscope.ProfileBlockDuration among ProfileTypes, and runtime.SetBlockProfileRate
unused SERVER mutex: the server has only goroutine:goroutine:count:goroutine:count; to have mutex profiles, set pyroscope.ProfileMutexDuration among ProfileTypes, and runtime.SetMutexProfileFraction
warning: SERVER: profiles are merged from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z: goroutine counts are means of 1 snapshot of each process, and waits are means over the time they cover; a spell that is shorter than the window looks smaller than it was
`},
		{"another service", `{service_name="gatway"}`, func(s *pyroscopetest.Server) { push(s, "gateway", "gateway-1", 2, constant(3)) }, `
failed SERVER: no profile matches {service_name="gatway"} from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z; try a longer --since, or another --selector: service_name is one of gateway
`},
		{"one upload", "", func(s *pyroscopetest.Server) { push(s, "gateway", "gateway-1", 1, constant(3)) }, `
SERVER gateway/gateway-1/goroutine: pprof of 09:40:00, summed false: 5 idle 3 lock of 8
process gateway-1 of gateway
unused SERVER gateway/gateway-1/block: it uploaded once from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z, which does not say over what time; try a longer --since
unused SERVER gateway/gateway-1/mutex: it uploaded once from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z, which does not say over what time; try a longer --since
warning: SERVER: profiles are merged from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z: goroutine counts are means of 1 snapshot of each process, and waits are means over the time they cover; a spell that is shorter than the window looks smaller than it was
`},
		{"a process in which nothing waited", `{instance="gateway-2"}`, func(s *pyroscopetest.Server) {
			push(s, "gateway", "gateway-1", 2, constant(3))
			for i := range 2 {
				s.Add("goroutines", map[string]string{"service_name": "gateway", "instance": "gateway-2"}, at.Add(time.Duration(i)*upload), goroutines(0, 4))
			}
		}, `
SERVER gateway/gateway-2/goroutine: pprof of 09:40:00, summed false: 4 idle of 4
process gateway-2 of gateway
unused SERVER gateway/gateway-2/block: it uploaded none that is not empty from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z; set pyroscope.ProfileBlockDuration among ProfileTypes, and runtime.SetBlockProfileRate
unused SERVER gateway/gateway-2/mutex: it uploaded none that is not empty from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z; set pyroscope.ProfileMutexDuration among ProfileTypes, and runtime.SetMutexProfileFraction
warning: SERVER: profiles are merged from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z: goroutine counts are means of 2 snapshots of each process, and waits are means over the time they cover; a spell that is shorter than the window looks smaller than it was
`},
		{"no label of processes", "", func(s *pyroscopetest.Server) {
			for i := range 4 {
				s.Add("goroutines", map[string]string{"service_name": "gateway"}, at.Add(time.Duration(i)*upload/2), goroutines(6, 0))
			}
		}, `
SERVER gateway/{service_name="gateway"}/goroutine: pprof of 09:40:00, summed false: 6 lock of 6
process {service_name="gateway"} of gateway
unused SERVER block: the server has only goroutines:goroutine:count:goroutine:count; to have block profiles, set pyroscope.ProfileBlockDuration among ProfileTypes, and runtime.SetBlockProfileRate
unused SERVER mutex: the server has only goroutines:goroutine:count:goroutine:count; to have mutex profiles, set pyroscope.ProfileMutexDuration among ProfileTypes, and runtime.SetMutexProfileFraction
warning: SERVER: no label tells processes apart (none of instance, service_instance_id, service.instance.id, pod, hostname, host): goroutine counts are means of one of all that match {}, waits are those of all together; set the tag instance in pyroscope-go
warning: SERVER: profiles are merged from 2026-11-12T09:30:00Z to 2026-11-12T09:40:00Z: goroutine counts are means of 4 snapshots of each process, and waits are means over the time they cover; a spell that is shorter than the window looks smaller than it was
`},
		{"a selector that does not parse", `{service_name=gateway}`, func(*pyroscopetest.Server) {}, `
failed SERVER: expected a selector such as job="gateway" or job=~"gate.*",namespace="prod", saw "{service_name=gateway}": unexpected identifier "gateway" in label matching, expected string (a shell takes quotes away: 'job="gateway"' keeps them)
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &pyroscopetest.Server{}
			tt.fill(s)
			server := serve(t, s)
			equal(t, describe(load(t, server, tt.selector), server), tt.want)
		})
	}
}

// without is a server that does not implement a method.
func without(s *pyroscopetest.Server, method string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/"+method) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotImplemented)
			fmt.Fprint(w, `{"code":"unimplemented","message":"not here"}`)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// Where nobody says how many snapshots were summed, their sum is no number of
// goroutines, and waits are over no known time.
func TestSumOfUnknownNumber(t *testing.T) {
	t.Parallel()
	s := &pyroscopetest.Server{}
	push(s, "gateway", "gateway-1", 39, constant(100))
	server := serve(t, without(s, "SelectSeries"))
	equal(t, describe(load(t, server, `{service_name="gateway"}`), server), `
SERVER /{service_name="gateway"}/goroutine: pprof of 09:40:00, summed true: 3900 lock 195 idle of 4095
process {service_name="gateway"} of 
warning: SERVER: how many snapshots were merged, and over what time, is not known, so that goroutines are given in shares and waits not at all: expected when profiles were uploaded, saw 501 Not Implemented (not here); try: check the address, and see the server's log; a shorter --since or a narrower --selector asks for less
`)
}

// Of a fleet, the processes with the most goroutines are looked at.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	s := &pyroscopetest.Server{}
	for i := range maxProcesses + 3 {
		push(s, "gateway", fmt.Sprintf("gateway-%02d", i), 2, constant(int64(i)))
	}
	b := load(t, serve(t, s), "")
	if n := len(b.Snapshots); n != maxProcesses {
		t.Errorf("%d snapshots, want %d", n, maxProcesses)
	}
	if got := b.Snapshots[0].Name; !strings.HasSuffix(got, " gateway/gateway-03/goroutine") {
		t.Errorf("the first is %s, want that of gateway-03: three have fewer goroutines", got)
	}
	if want := "of 19 processes that match {}, the 16 with the most goroutines are looked at"; !strings.Contains(strings.Join(b.Warnings, "\n"), want) {
		t.Errorf("warnings %q lack %q", b.Warnings, want)
	}
}

// A label's value is quoted in the selector that tells its process apart.
func TestHostileLabel(t *testing.T) {
	t.Parallel()
	s := &pyroscopetest.Server{}
	hostile := `a"},service_name="other` + "\n\x1b[31m"
	push(s, "gateway", hostile, 2, constant(3))
	b := load(t, serve(t, s), "")
	if len(b.Failures) > 0 || len(b.Snapshots) != 1 || b.Instances[b.Snapshots[0].Name].Name != hostile {
		t.Errorf("read %d snapshots, instances %q, failures %v; want one of %q", len(b.Snapshots), b.Instances, b.Failures, hostile)
	}
}

func TestDivide(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n          int64
		sums, want []int64
	}{
		{1, []int64{3, 1}, []int64{3, 1}},
		{4, []int64{400, 8}, []int64{100, 2}},
		{4, []int64{401, 6, 1, 1}, []int64{100, 2}},                         // 102.25 in all
		{4, []int64{2, 2, 2, 2, 2, 2}, []int64{1, 1, 1}},                    // each is half a goroutine, together three
		{10, []int64{4, 4, 4, 4, 4}, []int64{1, 1}},                         // rare ones stand for all
		{2, []int64{1<<63 - 1, 1<<63 - 1}, []int64{1 << 62, (1 << 62) - 1}}, // no number is too large
		{100, []int64{1}, nil},
	} {
		s := &stacks.Snapshot{}
		for _, n := range tt.sums {
			s.Groups = append(s.Groups, &stacks.Group{Count: n})
		}
		divide(s, tt.n)
		var got []int64
		for _, g := range s.Groups {
			got = append(got, g.Count)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v of %d snapshots are %v in one, want %v", tt.sums, tt.n, got, tt.want)
		}
	}
}

func TestCovered(t *testing.T) {
	t.Parallel()
	at := func(seconds ...int) (out []time.Time) {
		for _, s := range seconds {
			out = append(out, start.Add(time.Duration(s)*time.Second))
		}
		return out
	}
	for _, tt := range []struct {
		uploads []time.Time
		several bool
		want    time.Duration
	}{
		{nil, false, 0},
		{at(15), false, 0},
		{at(15, 30), false, 30 * time.Second},
		{at(0, 15, 30, 45, 75, 90), false, 105 * time.Second},         // one was lost
		{at(0, 15, 30, 45, 330, 345), false, 90 * time.Second},        // nothing came for minutes
		{at(0, 1, 2, 15, 16, 17, 30, 31, 32), true, 33 * time.Second}, // of three processes
	} {
		if got := (&process{uploads: tt.uploads, several: tt.several}).covered(); got != tt.want {
			t.Errorf("uploads at %v cover %v, want %v", tt.uploads, got, tt.want)
		}
	}
}

func pprof(p *profile.Profile) []byte {
	var b bytes.Buffer
	p.WriteUncompressed(&b)
	return b.Bytes()
}
