package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

const bundleSchema = "contend.bundle/v1"

// bundle is what bundle.json says, and the files it lists.
type bundle struct {
	Schema      string  `json:"schema"`
	Target      string  `json:"target"`       // URL of the process
	ClockFactor float64 `json:"clock_factor"` // how much faster than the clock on the wall the scenario runs
	Taken       []taken `json:"taken"`        // in the order of time

	files map[string][]byte // by name, as in Taken
}

// taken is one input of the bundle.
type taken struct {
	File string    `json:"file"` // relative to the bundle, with slashes
	Kind string    `json:"kind"` // goroutine, block or mutex
	At   time.Time `json:"at"`   // UTC, when it was asked for
}

const (
	// Above it the text dump is left out: writing it stops the process for too
	// long, and the profile has every goroutine at a hundredth of the size.
	maxDumpGoroutines = 10_000
	// The largest answer read: the runtime cuts its text dumps at 64 MiB.
	maxAnswer = 64 << 20
	// A gateway in trouble answers late; one that takes longer is gone.
	fetchTimeout = 20 * time.Second
)

// take adds the profiles of now and, with dump, the text dump of the same
// moment, unless it would be too long. The block and mutex profiles are
// cumulative: a reader subtracts an earlier one.
func (b *bundle) take(ctx context.Context, dump bool) error {
	goroutines, err := b.takeProfile(ctx, "goroutine")
	if err != nil {
		return err
	}
	if dump && goroutines < maxDumpGoroutines {
		if err := b.takeDump(ctx); err != nil {
			return err
		}
	}
	for _, kind := range []string{"block", "mutex"} {
		if _, err := b.takeProfile(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

// takeProfile returns the sum of the profile's first values: goroutines, or
// contentions.
func (b *bundle) takeProfile(ctx context.Context, kind string) (int64, error) {
	at := time.Now().UTC()
	data, err := fetch(ctx, b.Target+"/debug/pprof/"+kind)
	if err != nil {
		return 0, err
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return 0, fmt.Errorf("read the %s profile: %w", kind, err)
	}
	// A mapping's file is the path of the binary on the machine that ran it.
	for _, m := range p.Mapping {
		m.File = filepath.Base(m.File)
	}
	var packed bytes.Buffer
	if err := p.Write(&packed); err != nil {
		return 0, fmt.Errorf("write the %s profile: %w", kind, err)
	}
	b.add(kind, ".pb.gz", at, packed.Bytes())
	var sum int64
	for _, sample := range p.Sample {
		sum += sample.Value[0]
	}
	return sum, nil
}

func (b *bundle) takeDump(ctx context.Context) error {
	at := time.Now().UTC()
	data, err := fetch(ctx, b.Target+"/debug/pprof/goroutine?debug=2")
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression) // kept for years, written once
	if err != nil {
		return fmt.Errorf("compress the dump: %w", err)
	}
	if _, err := z.Write(data); err != nil {
		return fmt.Errorf("compress the dump: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compress the dump: %w", err)
	}
	b.add("goroutine", ".txt.gz", at, packed.Bytes())
	return nil
}

func (b *bundle) add(kind, ending string, at time.Time, data []byte) {
	name := path.Join("profiles", kind+"-"+at.Format("20060102T150405.000Z")+ending)
	if b.files == nil {
		b.files = map[string][]byte{}
	}
	b.files[name] = data
	b.Taken = append(b.Taken, taken{File: name, Kind: kind, At: at})
}

// write puts the bundle at dir. It is written beside it and then renamed, so
// that dir is never half a bundle.
func (b *bundle) write(dir string) error {
	if err := checkEmpty(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make room for the bundle: %w", err)
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return fmt.Errorf("make room for the bundle: %w", err)
	}
	defer os.RemoveAll(part) // gone after the rename
	if err := b.writeFiles(part); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	// Not every system renames over an empty directory.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the empty directory: %w", err)
	}
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("put the bundle in place: %w", err)
	}
	return nil
}

func (b *bundle) writeFiles(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // MkdirTemp's are private
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "profiles"), 0o755); err != nil {
		return err
	}
	for name, data := range b.files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	head, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bundle.json"), append(head, '\n'), 0o644)
}

// checkEmpty refuses a path that holds anything a bundle would replace.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("expected a new or empty directory for the bundle: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("expected a new or empty directory for the bundle, saw %d entries in %s; remove it or name another", len(entries), dir)
	}
	return nil
}

// scraped is what one look at /metrics says.
type scraped struct {
	at                   time.Time
	inFlight, cpuSeconds float64
}

func scrape(ctx context.Context, url string) (scraped, error) {
	s := scraped{at: time.Now()}
	text, err := fetch(ctx, url+"/metrics")
	if err != nil {
		return s, err
	}
	if s.inFlight, err = metricValue(text, "http_requests_in_flight"); err != nil {
		return s, err
	}
	s.cpuSeconds, err = metricValue(text, "process_cpu_seconds_total")
	return s, err
}

// metricValue finds a metric without labels in Prometheus' text format.
func metricValue(text []byte, name string) (float64, error) {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return 0, fmt.Errorf("expected a number after %s: %w", name, err)
			}
			return v, nil
		}
	}
	return 0, fmt.Errorf("expected the metric %s, saw none", name)
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch from the gateway: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: expected status 200, saw %s", url, response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", url, err)
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("fetch %s: expected at most %d bytes, saw more", url, maxAnswer)
	}
	return data, nil
}
