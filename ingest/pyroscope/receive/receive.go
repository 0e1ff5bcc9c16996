// Package receive takes what pyroscope-go clients push, as a Pyroscope server
// would, checks it, and keeps it for a window, in a bundle or in memory.
package receive

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// One push, far above a real one: 100 kB is a large goroutine profile.
	maxPush = 8 << 20
	// Of the part beside the profile; pyroscope-go's has 200 bytes.
	maxConfig = 16 << 10
	maxParts  = 8
	// Of all pushes that are being received and kept. At 200 pushes/s of 100 kB that take 10 ms
	// each, two are; slow clients fill it, and then others are told to come back.
	maxReceiving = 32 << 20
)

// Options are the choices of one receiver.
type Options struct {
	Window   time.Duration // how long a profile stays
	MaxBytes int64         // of all profiles that stay
	// Bundle is the directory they are in: new, empty, or of a receiver before. ""
	// keeps them in memory.
	Bundle  string
	Version string // of contend, for the bundle
}

// Receiver takes the pushes of pyroscope-go clients and keeps those of the last
// minutes. It is an http.Handler of POST /ingest, GET /metrics and GET /healthz;
// the server around it bounds connections and the time that a request may take.
type Receiver struct {
	http.Handler
	window    *window
	unpackers sync.Pool    // of *unpacker
	looking   atomic.Int64 // at how many profiles
	receiving atomic.Int64 // bytes
	troubled  atomic.Bool  // the last write to the disk failed
	changed   chan struct{}

	accepted, unreadable prometheus.Counter
	rejected, ignored    *prometheus.CounterVec
}

// New opens the bundle, where there is to be one.
func New(o Options) (*Receiver, error) {
	r := &Receiver{
		window:    &window{age: o.Window, maxBytes: o.MaxBytes, now: time.Now, processes: map[string]*process{}},
		unpackers: sync.Pool{New: func() any { return newUnpacker() }},
		changed:   make(chan struct{}, 1),
	}
	if o.Bundle != "" {
		f, err := openFolder(o.Bundle, o.Version, r.window)
		if err != nil {
			return nil, err
		}
		r.window.bundle = f
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ingest", r.ingest)
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.register(), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", r.healthz)
	// A page in a browser of the same machine must not push: forms need no consent.
	r.Handler = http.NewCrossOriginProtection().Handler(mux)
	return r, nil
}

// Close lets another receiver go on with the bundle. No push is to come after it.
func (r *Receiver) Close() {
	if r.window.bundle != nil {
		r.window.bundle.close()
	}
}

// register makes the receiver's own metrics.
func (r *Receiver) register() *prometheus.Registry {
	r.accepted = prometheus.NewCounter(prometheus.CounterOpts{Name: "contend_receive_accepted_total", Help: "Profiles acknowledged and kept."})
	r.unreadable = prometheus.NewCounter(prometheus.CounterOpts{Name: "contend_receive_unreadable_total", Help: "Times that a profile kept could not be read by the analysis."})
	r.rejected = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "contend_receive_rejected_total", Help: "Pushes not acknowledged."}, []string{"reason"})
	r.ignored = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "contend_receive_ignored_total", Help: "Profiles acknowledged and not kept: of a kind that does not say what waits."}, []string{"kind"})
	held := func(name, help string, value func(*window) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return r.held(value) })
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(r.accepted, r.rejected, r.ignored, r.unreadable,
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "contend_receive_expired_total", Help: "Profiles that left the window, by age or to make room."},
			func() float64 { return r.held(func(w *window) float64 { return float64(w.expired) }) }),
		held("contend_receive_held_bytes", "Bytes of the profiles in the window.", func(w *window) float64 { return float64(w.size) }),
		held("contend_receive_held_profiles", "Profiles in the window.", func(w *window) float64 { return float64(len(w.profiles)) }),
		held("contend_receive_processes", "Processes with profiles in the window.", func(w *window) float64 { return float64(len(w.processes)) }),
	)
	for _, reason := range reasons {
		r.rejected.WithLabelValues(reason)
	}
	return reg
}

func (r *Receiver) held(value func(*window) float64) float64 {
	r.window.mu.Lock()
	defer r.window.mu.Unlock()
	r.window.expire()
	return value(r.window)
}

// Held is what the window has, and what left it since the receiver began.
func (r *Receiver) Held() (profiles, processes int, bytes, expired int64) {
	r.window.mu.Lock()
	defer r.window.mu.Unlock()
	return len(r.window.profiles), len(r.window.processes), r.window.size, r.window.expired
}

// Changed has a value once profiles have come since the last was taken from it.
func (r *Receiver) Changed() <-chan struct{} { return r.changed }

// Why pushes are refused, as in contend_receive_rejected_total.
const (
	badName      = "bad_name"
	badTime      = "bad_time"
	badForm      = "bad_form"
	badProfile   = "bad_profile"
	tooLarge     = "too_large"
	slow         = "slow"
	cutOff       = "cut_off"
	busy         = "busy"
	full         = "full"
	tooManyNames = "too_many_processes"
	disk         = "disk"
)

var reasons = []string{badName, badTime, badForm, badProfile, tooLarge, slow, cutOff, busy, full, tooManyNames, disk}

// refusal is a push that is not acknowledged.
type refusal struct {
	status int
	reason string
	err    error
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

func refuse(status int, reason string, err error) error { return &refusal{status, reason, err} }

// ingest answers one push: 200 where it is kept, or of a kind that is of no use here,
// which a client can do nothing about. pyroscope-go takes any other answer for a loss, and does not try again.
func (r *Receiver) ingest(w http.ResponseWriter, req *http.Request) {
	body := &metered{r: http.MaxBytesReader(w, req.Body, min(maxPush, r.window.maxBytes)), all: &r.receiving}
	defer body.release() // not before it is kept
	p, ignored, err := r.receive(req, body)
	if err == nil && ignored == "" {
		err = r.keep(p)
	}
	if err != nil {
		var e *refusal
		errors.As(err, &e) // all are
		r.rejected.WithLabelValues(e.reason).Inc()
		http.Error(w, e.Error(), e.status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if ignored != "" {
		r.ignored.WithLabelValues(ignored).Inc()
		fmt.Fprintf(w, "not kept: %s profiles do not say what waits; contend reads goroutine, block and mutex profiles\n", ignored)
		return
	}
	r.accepted.Inc()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// keep puts a profile into the window.
func (r *Receiver) keep(p *pushed) error {
	err := r.window.add(p)
	var d *diskError
	switch {
	case errors.Is(err, errFull):
		return refuse(http.StatusTooManyRequests, full, err)
	case errors.Is(err, errMany):
		return refuse(http.StatusTooManyRequests, tooManyNames, err)
	case errors.As(err, &d):
		r.troubled.Store(true)
		return refuse(http.StatusServiceUnavailable, disk, err)
	}
	r.troubled.Store(false)
	return nil
}

// receive reads a push and finds out what it is. ignored is its kind where it is of
// no use. All errors are refusals.
func (r *Receiver) receive(req *http.Request, body io.Reader) (p *pushed, ignored string, err error) {
	q := req.URL.Query()
	if format := q.Get("format"); format != "" && format != "pprof" {
		return nil, "", refuse(http.StatusUnsupportedMediaType, badForm, fmt.Errorf("expected format pprof, saw %.40q", format))
	}
	from, err := parseName(q.Get("name"))
	if err != nil {
		return nil, "", refuse(http.StatusBadRequest, badName, err)
	}
	start, until, err := parseSpan(q, r.window.now(), r.window.age)
	if err != nil {
		return nil, "", refuse(http.StatusBadRequest, badTime, err)
	}
	f, err := readForm(req, body)
	if err != nil {
		return nil, "", formError(err)
	}
	h, u, err := r.look(f)
	defer r.unpackers.Put(u)
	switch {
	case errors.Is(err, errUnpacked):
		return nil, "", refuse(http.StatusRequestEntityTooLarge, tooLarge, err)
	case err != nil:
		return nil, "", refuse(http.StatusBadRequest, badProfile, err)
	}
	kind, useful := kindOf(h, f.config)
	if !useful {
		return nil, kind, nil
	}
	waits := kind != "goroutine" && kind != "goroutineleak"
	data, err := u.complete(f.profile, h, waits, f.config, start, until)
	if err != nil {
		return nil, "", refuse(http.StatusBadRequest, badProfile, err)
	}
	return &pushed{from: from, kind: kind, until: until, span: until.Sub(start), data: data}, "", nil
}

// look finds out what a profile is: wholly, if there is a CPU for it, or if its push does not
// say of what kind it is. Else its beginning has to do, so that pushes do not queue up:
// the analysis passes over one that turns out to be damaged.
func (r *Receiver) look(f *form) (*head, *unpacker, error) {
	u := r.unpackers.Get().(*unpacker)
	defer r.looking.Add(-1)
	kind, _ := configKind(f.config)
	if r.looking.Add(1) > int64(runtime.GOMAXPROCS(0)) && kind != "" {
		h, err := u.begins(f.profile)
		return h, u, err
	}
	h, err := u.head(f.profile)
	return h, u, err
}

// form is the body of a push.
type form struct {
	profile []byte
	config  map[string]sampleType
}

var (
	errBusy   = errors.New("too many pushes are being received at once; push again later")
	errParts  = fmt.Errorf("expected a form with the part profile among its first %d, saw none; try curl -F profile=@goroutine.pb.gz", maxParts)
	errNoForm = errors.New("expected a body of multipart/form-data with the part profile, as pyroscope-go pushes it, saw another; try curl -F profile=@goroutine.pb.gz")
)

// readForm reads the parts of a push that matter here. It never makes a file of one.
func readForm(req *http.Request, body io.Reader) (*form, error) {
	kind, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, errNoForm
	}
	f := &form{}
	parts := multipart.NewReader(body, params["boundary"])
	for range maxParts {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		switch part.FormName() {
		case "profile":
			if f.profile, err = io.ReadAll(part); err != nil {
				return nil, err
			}
		case "sample_type_config":
			data, err := io.ReadAll(io.LimitReader(part, maxConfig))
			if err != nil {
				return nil, err
			}
			if f.config, err = parseConfig(data); err != nil {
				return nil, err
			}
		}
	}
	if len(f.profile) == 0 {
		return nil, errParts
	}
	return f, nil
}

// formError says whose fault it is that a body could not be read.
func formError(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, tooLarge, fmt.Errorf("expected a push of at most %d bytes, saw more", large.Limit))
	case errors.Is(err, errBusy):
		return refuse(http.StatusServiceUnavailable, busy, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, slow, errors.New("the body took too long to arrive"))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return refuse(http.StatusBadRequest, cutOff, errors.New("expected a whole body, saw one that is cut off"))
	case errors.Is(err, errNoForm):
		return refuse(http.StatusUnsupportedMediaType, badForm, err)
	}
	return refuse(http.StatusBadRequest, badForm, err)
}

// metered counts what is read towards what all pushes may hold.
type metered struct {
	r    io.Reader
	all  *atomic.Int64
	mine int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.mine += int64(n)
	if m.all.Add(int64(n)) > maxReceiving {
		return 0, errBusy
	}
	return n, err
}

func (m *metered) release() { m.all.Add(-m.mine) }

// healthz is 503 while the disk takes no profiles.
func (r *Receiver) healthz(w http.ResponseWriter, _ *http.Request) {
	if r.troubled.Load() {
		http.Error(w, "the last profile could not be written to the bundle", http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}
