package watch

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/capture"
)

// dumpEvery is how often one cause may have the text dump, which stops a process
// while it is written: 347 ms with 17,000 goroutines.
const dumpEvery = 10 * time.Minute

// EvidenceOptions are what is kept when a cause appears.
type EvidenceOptions struct {
	// Dir has a bundle for each time that causes appeared.
	Dir string
	// MaxBundles, MaxBytes and MaxAge are what Dir may have: the oldest bundles go
	// until it has no more. The last one always stays.
	MaxBundles int
	MaxBytes   int64
	MaxAge     time.Duration
	// NoDump never takes the text dump; MaxGoroutines is how many a process may
	// have for it.
	NoDump        bool
	MaxGoroutines int64
	HTTP          *http.Client
	Version       string // of contend, for the bundles
	// Timeout is how long the profiles of one time may take, also when the command is
	// told to end meanwhile: they are why it ran.
	Timeout time.Duration
}

// Keeper takes profiles of processes when a cause appears, and once more at the
// look that follows, so that block and mutex profiles can be subtracted. Its
// methods are for one goroutine.
type Keeper struct {
	EvidenceOptions
	dumped   map[key]time.Time // when last, by cause
	dumps    *dumpTimer
	recorder *capture.Recorder // of the bundle that waits for its second profiles; nil where there is none
	name     string            // of that bundle
}

// NewKeeper keeps nothing yet, and makes no directory.
func NewKeeper(o EvidenceOptions) *Keeper {
	k := &Keeper{EvidenceOptions: o, dumped: map[key]time.Time{}}
	client := cmp.Or(o.HTTP, &http.Client{})
	timed := *client
	k.dumps = &dumpTimer{next: client.Transport}
	timed.Transport = k.dumps
	k.HTTP = &timed
	return k
}

// Keep ends the bundle of the look before, and begins one where changes tell of a
// cause that has appeared. It says what was kept.
func (k *Keeper) Keep(ctx context.Context, look *Look, changes []Change, processes []capture.Target) (out []Change) {
	if k.recorder != nil {
		k.profiles(ctx, false)
		out = append(out, k.Finish(look.At)...)
	}
	var appeared []Change
	for _, c := range changes {
		news := c.Kind == Begins || c.Kind == Changes && c.Was == detect.Info
		if news && c.Finding.Role == detect.Cause && c.Finding.Severity != detect.Info {
			appeared = append(appeared, c)
		}
	}
	if len(appeared) == 0 || len(processes) == 0 {
		return out
	}
	if err := k.begin(ctx, look, appeared, processes); err != nil {
		out = append(out, Change{At: look.At, Kind: Evidence, Input: k.Dir, Text: "could not be kept: " + err.Error()})
	}
	return out
}

// begin takes the first profiles: the protobuf ones, which cost little, before the dump.
func (k *Keeper) begin(ctx context.Context, look *Look, appeared []Change, processes []capture.Target) error {
	first := appeared[0].Finding
	k.name = look.At.UTC().Format("20060102T150405.000Z") + "-" + first.Detector
	r, err := capture.NewRecorder(context.WithoutCancel(ctx), capture.RecordOptions{
		Out: filepath.Join(k.Dir, k.name), Version: k.Version, HTTP: k.HTTP, MaxGoroutines: k.MaxGoroutines,
	})
	if err != nil {
		return err
	}
	for _, p := range processes {
		if err := r.Add(p); err != nil {
			r.Discard()
			return err
		}
	}
	dump := false
	for _, c := range appeared {
		f := c.Finding
		r.Event(c.At, f.Detector, fmt.Sprintf("%s, %s: %s", f.Job, f.Severity, f.Summary))
		dump = dump || k.mayDump(key{f.Detector, f.Job}, look.At)
	}
	k.recorder = r
	if !k.profiles(ctx, dump) {
		return nil
	}
	for _, c := range appeared {
		k.dumped[key{c.Finding.Detector, c.Finding.Job}] = look.At
	}
	return nil
}

// mayDump reports whether a cause has had no dump for long enough.
func (k *Keeper) mayDump(cause key, now time.Time) bool {
	for c, at := range k.dumped {
		if now.Sub(at) >= dumpEvery {
			delete(k.dumped, c)
		}
	}
	_, had := k.dumped[cause]
	return !k.NoDump && !had
}

// profiles takes those of all processes, and reports whether a dump was asked for.
func (k *Keeper) profiles(ctx context.Context, dump bool) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.Timeout)
	defer cancel()
	before := k.dumps.count()
	k.recorder.Profiles(ctx, dump)
	return k.dumps.count() > before
}

// Finish puts the bundle in place that is under way, if there is one, and removes
// what is too much.
func (k *Keeper) Finish(now time.Time) []Change {
	if k.recorder == nil {
		return nil
	}
	r, err := k.recorder.Finish("")
	k.recorder = nil
	at := filepath.Join(k.Dir, k.name)
	if err == nil {
		err = k.prune(now)
	}
	if r == nil {
		return []Change{{At: now, Kind: Evidence, Input: at, Text: "could not be kept: " + err.Error()}}
	}
	text := fmt.Sprintf("%d files, %s%s; next: contend analyze %s", len(r.Taken), detect.Bytes(float64(r.Bytes)), k.dumps.stalls(), at)
	for _, m := range r.Missing {
		text += fmt.Sprintf("; %s of %s is missing: %s", m.What, m.Instance, m.Reason)
	}
	if err != nil {
		text += "; but " + err.Error()
	}
	return []Change{{At: now, Kind: Evidence, Input: at, Text: text}}
}

// prune removes the oldest bundles until no limit is passed. It touches only
// what has the name of a Keeper's bundle and the list of one.
func (k *Keeper) prune(now time.Time) error {
	entries, err := os.ReadDir(k.Dir)
	if err != nil {
		return fmt.Errorf("look for old bundles: %w", err)
	}
	type kept struct {
		path  string
		at    time.Time
		bytes int64
	}
	var all []kept
	var sum int64
	for _, e := range entries { // sorted by name, which is by time
		name, unfinished := strings.CutPrefix(e.Name(), ".")
		stamp, _, _ := strings.Cut(name, "-")
		at, err := time.Parse("20060102T150405.000Z", stamp)
		dir := filepath.Join(k.Dir, e.Name())
		if unfinished && err == nil && now.Sub(at) > time.Hour { // of one that was killed
			os.RemoveAll(dir)
		}
		if _, listed := os.Lstat(filepath.Join(dir, capture.ManifestFile)); err != nil || unfinished || listed != nil || !e.IsDir() {
			continue
		}
		one := kept{dir, at, bytesIn(dir)}
		all, sum = append(all, one), sum+one.bytes
	}
	for len(all) > 1 && (len(all) > k.MaxBundles || sum > k.MaxBytes || now.Sub(all[0].at) > k.MaxAge) {
		if err := os.RemoveAll(all[0].path); err != nil {
			return fmt.Errorf("remove an old bundle: %w", err)
		}
		sum -= all[0].bytes
		all = slices.Delete(all, 0, 1)
	}
	return nil
}

// bytesIn is the size of the files in a folder; what cannot be read has none.
func bytesIn(dir string) (sum int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// dumpTimer measures how long processes take before the first byte of a text
// dump. They stand still meanwhile, since the runtime stops all goroutines and
// writes every stack to memory before net/http/pprof sends any; that it takes a
// moment to get there and back makes it the most that it can have been.
type dumpTimer struct {
	next http.RoundTripper // nil is the default one

	mu    sync.Mutex
	n     int
	since []stall // that have not been told
}

type stall struct {
	host string
	took time.Duration
}

func (d *dumpTimer) RoundTrip(req *http.Request) (*http.Response, error) {
	next := d.next
	if next == nil {
		next = http.DefaultTransport
	}
	if !strings.HasSuffix(req.URL.Path, "/goroutine") || req.URL.Query().Get("debug") != "2" {
		return next.RoundTrip(req)
	}
	begin := time.Now()
	var mu sync.Mutex // the transport writes beside us
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) {
			mu.Lock()
			defer mu.Unlock()
			begin = time.Now()
		},
	}))
	resp, err := next.RoundTrip(req)
	mu.Lock()
	took := time.Since(begin)
	mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	d.since = append(d.since, stall{req.URL.Host, took})
	return resp, err
}

func (d *dumpTimer) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// stalls tells those that have not been told, in words.
func (d *dumpTimer) stalls() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := ""
	for _, s := range d.since {
		text += fmt.Sprintf("; the dump stopped %s for %s at the most", s.host, s.took.Round(100*time.Microsecond))
	}
	d.since = nil
	return text
}
