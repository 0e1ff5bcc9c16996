package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contend/contend/ingest/secret"
	"github.com/contend/contend/ingest/series/memory"
)

const (
	// A 1 GB dump is a large one; 8 GiB leaves room for the log around it.
	// Text is streamed, so the limit bounds time and not memory.
	defaultMaxText = 8 << 30
	// A profile is held in memory. Real ones are below 50 MiB unpacked.
	defaultMaxProfile = 512 << 20
	// Long enough for some hundred waits to end, short enough to sit through.
	defaultSeconds = 5
)

// Options are the choices of one Load. The zero value is ready to use.
type Options struct {
	// MaxBytes limits what one input may unpack to. 0 means 8 GiB of text,
	// which is streamed, and 512 MiB of protobuf, which is held in memory.
	MaxBytes int64
	// Stdin is what the argument "-" reads.
	Stdin io.Reader
	// HTTP fetches URLs; nil is a plain client. See HTTPClient for one with
	// credentials.
	HTTP *http.Client
	// Seconds is how long block and mutex profiles of a host are sampled for;
	// 0 means 5.
	Seconds int
	// Progress, where set, is told what is being read now. Calls do not overlap.
	Progress func(string)
}

// loader is the Options of one Load with the defaults filled in.
type loader struct {
	maxText, maxProfile int64
	stdin               io.Reader
	http                *http.Client
	window              time.Duration // of block and mutex profiles
	headerTimeout       time.Duration
	fetchTimeout        time.Duration
	watchEvery          time.Duration // on average
	progress            func(string)
	samples             *memory.Store
}

func newLoader(opt Options) *loader {
	l := &loader{
		maxText:       defaultMaxText,
		maxProfile:    defaultMaxProfile,
		stdin:         opt.Stdin,
		http:          opt.HTTP,
		window:        time.Duration(opt.Seconds) * time.Second,
		headerTimeout: headerTimeout,
		fetchTimeout:  fetchTimeout,
		watchEvery:    watchEvery,
		progress:      func(string) {},
		samples:       memory.New(),
	}
	if opt.MaxBytes > 0 {
		l.maxText, l.maxProfile = opt.MaxBytes, opt.MaxBytes
	}
	if l.http == nil {
		l.http = &http.Client{}
	}
	l.http = secret.WithoutReferer(l.http)
	if l.window <= 0 {
		l.window = defaultSeconds * time.Second
	}
	if opt.Progress != nil {
		var mu sync.Mutex
		l.progress = func(s string) {
			mu.Lock()
			defer mu.Unlock()
			opt.Progress(s)
		}
	}
	return l
}

// Load reads every argument: a file, a directory, "-" for standard input, or
// an http or https URL. An argument that cannot be read becomes a Failure and
// never loses the others. The bundle is in the order of the arguments; URLs
// are fetched at the same time, so that replicas are seen at one moment.
//
// Once ctx is done, what would have to be waited for (URLs, named pipes,
// standard input) is given up, each a Failure beside what was read of it.
// Files are still read.
func Load(ctx context.Context, args []string, opt Options) *Bundle {
	return newLoader(opt).load(ctx, args)
}

func (l *loader) load(ctx context.Context, args []string) *Bundle {
	// A file named twice (by two globs) would pass for two moments of a process.
	var twice []string
	seen := map[string]bool{}
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		again := seen[arg] && arg != "-"
		if again {
			twice = append(twice, arg)
		}
		seen[arg] = true
		return again
	})
	parts := make([]*Bundle, len(args))
	var fetches sync.WaitGroup
	for i, arg := range args {
		if isURL(arg) {
			fetches.Go(func() { parts[i] = l.loadURL(ctx, arg) })
		}
	}
	stdinRead := false
	for i, arg := range args {
		switch {
		case isURL(arg):
		case arg == "-":
			parts[i] = l.loadStdin(ctx, stdinRead)
			stdinRead = true
		default:
			parts[i] = l.loadPath(ctx, arg)
		}
	}
	fetches.Wait()
	b := &Bundle{}
	for _, p := range parts {
		b.Add(p)
	}
	if len(b.Read)+len(b.scrapes) > 0 {
		b.Samples = l.samples
		b.addScrapes(b.scrapes)
		b.scrapes = nil
	}
	for _, arg := range twice {
		b.pass(DisplayName(arg), "given twice")
	}
	return b
}

func (l *loader) loadStdin(ctx context.Context, again bool) *Bundle {
	const name = "stdin"
	b := &Bundle{}
	switch {
	case again:
		b.fail(name, errors.New("standard input can be read once, but - was given twice; give the second input as a file"))
	case l.stdin == nil:
		b.fail(name, errors.New("there is no standard input to read"))
	default:
		l.progress("reading standard input")
		in := l.stdin
		if !isFile(in) {
			in = newWaitingReader(ctx, in)
		}
		r, err := l.read(name, in)
		if err != nil {
			b.fail(name, err)
		}
		b.addReading(r, "")
	}
	return b
}

func (l *loader) loadPath(ctx context.Context, path string) *Bundle {
	b := &Bundle{}
	if path == "" {
		b.fail(`""`, errors.New("expected a file, a directory, - or a URL, saw an empty argument; check the variable it comes from"))
		return b
	}
	name := DisplayName(path)
	info, err := os.Stat(path)
	if err != nil {
		b.fail(name, pathError(name, err))
		return b
	}
	if info.IsDir() {
		l.progress("reading " + name)
		return l.loadDir(path)
	}
	// A named pipe is how a shell passes the output of a command as a file.
	mode := info.Mode()
	pipe := mode&fs.ModeNamedPipe != 0
	if !mode.IsRegular() && !pipe {
		b.fail(name, fmt.Errorf("expected a file, a directory or a named pipe, saw a %s; use - to read standard input", fileType(mode)))
		return b
	}
	l.progress("reading " + name)
	open := os.Open
	if pipe {
		open = func(path string) (*os.File, error) { return openPipe(ctx, path) }
	}
	f, err := open(path)
	if err != nil {
		b.fail(name, pathError(name, err))
		return b
	}
	defer f.Close()
	var in io.Reader = f
	if pipe {
		in = newWaitingReader(ctx, f)
	}
	r, err := l.read(name, in)
	if err != nil {
		b.fail(name, err)
	}
	b.addReading(r, "")
	return b
}

// pathError says what to try where a path cannot be opened. The error's own
// path is left out: it is in the name.
func pathError(name string, err error) error {
	cause := err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		cause = pe.Err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted before anything was written to it: %w", cause)
	case strings.Contains(name, "://"):
		return errors.New("expected a file, a directory or an http or https URL, saw a URL of another scheme")
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(name, "-"):
		return fmt.Errorf("cannot open: %w; if it is a flag, give it before --", cause)
	case errors.Is(err, fs.ErrNotExist) && looksLikeHost(name):
		return fmt.Errorf("cannot open: %w; if it is a host, try http://%s", cause, withoutUser(name))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot open: %w; try as a user who may read it, or pipe it to contend analyze -", cause)
	}
	return fmt.Errorf("cannot open: %w; expected a file, a directory, - or a URL", cause)
}

// looksLikeHost recognises host:port, whose scheme is easily forgotten.
func looksLikeHost(name string) bool {
	host, port, ok := strings.Cut(withoutUser(name), ":")
	if !ok || strings.ContainsAny(host, `/\`) {
		return false
	}
	port, _, _ = strings.Cut(port, "/")
	return port != "" && strings.Trim(port, "0123456789") == ""
}

func fileType(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
