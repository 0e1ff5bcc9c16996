package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/contend/contend/ingest/secret"
)

const (
	// Between two snapshots, on average: a share of 0.4 seen in the 300 of 30 seconds is
	// known to within a seventh.
	watchEvery = 100 * time.Millisecond
	// Longer watches are spread out instead: a share of 0.2 in 600 is known to within a
	// sixth, and as many snapshots are read in seconds.
	mostWatched = 600
	// After a snapshot the process is left alone for this many times what the answer
	// took on average, so that it spends no more than a twentieth of one core on it.
	// Measured, a snapshot costs 3.4 ms of CPU with 20 goroutines, 7 ms with
	// 1,000 and 38 ms with 17,000; at a longer rest, half a minute of those
	// would be too few to tell.
	watchRest = 20
	// A process that fails so often in a row is gone, or too busy to be asked.
	watchPatience = 3
)

// Watch looks at the locks of one process for a while: it takes goroutine profiles
// at random moments, ten a second at most, and block and mutex profiles
// over the whole time. raw is the root of its host, or its /debug/pprof. A
// snapshot that could not be taken loses no other; nothing taken is a Failure.
//
// Moments are random (a Poisson process) since a share seen at such moments is a
// share of time whatever the rhythm of what is looked at (PASTA: Wolff 1982). A
// least gap would give them a rhythm of their own.
//
// Once ctx is done, the bundle has the snapshots taken until then.
func Watch(ctx context.Context, raw string, d time.Duration, opt Options) *Bundle {
	l := newLoader(opt)
	l.window = d
	return l.watch(ctx, raw)
}

// watch is loadURL with many snapshots and no dump, which would stop the process.
func (l *loader) watch(ctx context.Context, raw string) *Bundle {
	b := &Bundle{}
	arg, base, err := hostBase(raw)
	if err == nil && base == nil {
		err = errors.New("expected the root of a host or its /debug/pprof, such as http://HOST:PORT, saw another path")
	}
	if err != nil {
		b.fail(DisplayName(raw), err)
		return b
	}
	ctx, cancel := context.WithTimeout(ctx, l.window+l.fetchTimeout)
	defer cancel()
	origin := urlOrigin(base)
	start := time.Now()

	windows := l.loadWindows(ctx, base, origin)
	u := endpoint(base, "goroutine", "")
	name := secret.HideInURL(u)
	mean := max(l.watchEvery, l.window/mostWatched)
	failed, lost := 0, 0
	var last error
	for time.Since(start) < l.window && failed < watchPatience && ctx.Err() == nil {
		asked := time.Now()
		l.progress(fmt.Sprintf("watching %s: %.0f of %.0f s, %d snapshots", origin, asked.Sub(start).Seconds(), l.window.Seconds(), len(b.Snapshots)))
		r, err := l.fetch(ctx, u, fmt.Sprintf("%s, %.3f s in", name, asked.Sub(start).Seconds()), 0)
		b.addReading(r, origin)
		switch {
		case err == nil:
			failed = 0
		case len(b.Snapshots) == 0: // the rest is not waited for, and there is one Failure
			cancel()
			windows()
			b.fail(secret.HideInURL(arg), err)
			return b
		default:
			failed, lost, last = failed+1, lost+1, err
		}
		_ = sleep(ctx, min(gap(rand.ExpFloat64(), mean, time.Since(asked)), time.Until(start.Add(l.window))))
	}
	switch {
	case ctx.Err() != nil: // interrupted, which the profiles below say
	case failed == watchPatience:
		b.fail(name, fmt.Errorf("given up after %.0f of %.0f s: %w", time.Since(start).Seconds(), l.window.Seconds(), last))
		cancel() // what samples in it is gone as well
	case lost > 0:
		b.pass(name, fmt.Sprintf("%d of %d snapshots could not be taken, the last one: %v", lost, lost+len(b.Snapshots), last))
	}
	for _, part := range windows() {
		b.Add(&part)
	}
	return b
}

// gap is how long a process is left alone after an answer that took a while: draw,
// of the exponential distribution with mean 1, times mean or, if that is longer, the rest it is due.
func gap(draw float64, mean, took time.Duration) time.Duration {
	return time.Duration(draw * float64(max(mean, watchRest*took)))
}

// hostBase parses raw, and is the address of the /debug/pprof that it stands for
// with its own query, nil where it is the address of something else.
func hostBase(raw string) (u, base *url.URL, err error) {
	u, err = url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, nil, errors.New("expected a URL such as http://HOST:PORT, saw one that cannot be read; a password's special characters are written as %XX")
	}
	dir := strings.TrimSuffix(u.Path, "/")
	if dir == "" {
		dir = pprofPath
	}
	if !strings.HasSuffix(dir, pprofPath) {
		return u, nil, nil
	}
	at := *u
	at.Path, at.RawPath = dir, ""
	at.RawQuery = withoutParameters(u.RawQuery, "debug", "seconds")
	return u, &at, nil
}
