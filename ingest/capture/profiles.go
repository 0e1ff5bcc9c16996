package capture

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
)

const (
	// The runtime cuts its text dumps at 64 MiB; profiles are far smaller.
	maxProfile = 64<<20 + 1<<10
	// For the first round of profiles, and the most for another: a process that has not answered by then would
	// only be kept busy.
	roundTimeout = 30 * time.Second
)

// profileAll takes goroutine profiles at the start, at each interval and at the
// end, and block and mutex profiles at the start and at the end.
//
// The latter are taken cumulative, for the analysis to subtract, and not over
// the time of the capture (?seconds=N): that keeps a request open all the time,
// which a server with a shorter write timeout refuses, and leaves nothing where
// the process dies before.
func (c *capture) profileAll(ctx context.Context) {
	c.show("taking the first profiles")
	c.round(ctx, roundTimeout, "goroutine", "block", "mutex")
	if len(c.taken) == 0 {
		c.foundNothing()
	}
	c.showTaken()
	end := c.start.Add(c.For)
	for next := c.next(c.Every); next.Before(end) && c.wait(ctx, next); next = c.next(c.Every) {
		c.round(ctx, c.timeLeft(c.slowest, roundTimeout), "goroutine")
		c.showTaken()
	}
	c.wait(ctx, end)
	if context.Cause(ctx) == errNothing {
		return
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), graceTime)
		defer cancel()
	}
	c.show("taking the last profiles")
	c.round(ctx, c.timeLeft(c.slowest, roundTimeout), "goroutine", "block", "mutex")
	for _, cumulative := range []struct{ kind, setting string }{
		{"block", "runtime.SetBlockProfileRate"},
		{"mutex", "runtime.SetMutexProfileFraction"},
	} {
		if c.empty[cumulative.kind] { // at the end, and so at the start
			c.note(cumulative.kind, "empty: its profiling is off ("+cumulative.setting+"), or nothing waited since the process began")
		}
	}
	if c.fewest > 0 && !c.dumped {
		c.note("dump", fmt.Sprintf("not taken: it would stop the process for long to write %d goroutines as text, so lock addresses are not known; --max-goroutines is %d", c.fewest, c.MaxGoroutines))
	}
}

// round takes one profile of each kind, one after the other, within a time. The dump follows
// the first goroutine profile that says it may: early, since a process that
// dies takes its locks' addresses along, and before the block and mutex profiles,
// whose difference then has nothing of the stop.
func (c *capture) round(ctx context.Context, within time.Duration, kinds ...string) {
	round, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var took time.Duration
	defer func() { c.slowest = max(c.slowest, took) }()
	for _, kind := range kinds {
		if c.absent[kind] {
			continue
		}
		if round.Err() != nil && ctx.Err() == nil {
			c.note(kind, fmt.Sprintf("not asked for: the profiles before it took %v", within.Round(time.Second)))
			continue
		}
		start := time.Now()
		p, err := c.takeProfile(round, kind)
		if err == nil {
			took += time.Since(start)
		}
		switch {
		case err != nil && ctx.Err() != nil: // interrupted, which is noted once
			return
		case err != nil:
			c.note(kind, err.Error())
			c.absent[kind] = absent(err)
		case kind == "goroutine":
			c.takeDump(round, goroutines(p))
		default:
			c.empty[kind] = len(p.Sample) == 0
		}
	}
}

// goroutines is how many a goroutine profile has.
func goroutines(p *profile.Profile) (sum int64) {
	for _, s := range p.Sample {
		sum += s.Value[0]
	}
	return sum
}

// stamps are the moments of profiles, which are also their files' names: no two
// have the same.
type stamps struct {
	mu   sync.Mutex
	last time.Time
}

func (s *stamps) next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now()
	if !at.After(s.last) {
		at = s.last.Add(time.Millisecond)
	}
	s.last = at
	return at
}

// server is a process' /debug/pprof.
type server struct {
	url  *url.URL
	http *http.Client
}

func (s server) get(ctx context.Context, kind, query, want string) ([]byte, error) {
	u := s.url.JoinPath(kind)
	if query != "" && u.RawQuery != "" {
		query = u.RawQuery + "&" + query
	}
	u.RawQuery = cmp.Or(query, u.RawQuery)
	data, _, err := ingest.Get(ctx, s.http, ingest.Request{
		URL: u, Want: want, MaxBytes: maxProfile,
		Timeout: 2 * roundTimeout, // the round's own end comes first
	})
	return data, err
}

// profile is one profile as it was received, once it has proved to be of its kind.
func (s server) profile(ctx context.Context, kind string) ([]byte, *profile.Profile, error) {
	want := "a " + kind + " profile"
	data, err := s.get(ctx, kind, "", want)
	if err != nil {
		return nil, nil, err
	}
	p, err := ingest.ParseProfile(data, want, "")
	if err != nil {
		return nil, nil, err
	}
	if saw := stacks.ProfileKind(p); saw != sampleKind[kind] {
		return nil, nil, fmt.Errorf("expected %s, saw %s", want, stacks.DescribeProfile(p))
	}
	return data, p, nil
}

// sampleKind is what the samples of a profile are, by its kind.
var sampleKind = map[string]string{"goroutine": "goroutine", "block": "contention", "mutex": "contention"}

// dump is the text dump of all goroutines.
func (s server) dump(ctx context.Context) ([]byte, error) {
	data, err := s.get(ctx, "goroutine", "debug=2", "a goroutine dump")
	if err != nil {
		return nil, err
	}
	return data, ingest.CheckDump(data)
}

// takeProfile writes a profile as it was received.
func (c *capture) takeProfile(ctx context.Context, kind string) (*profile.Profile, error) {
	at := c.stamps.next()
	data, p, err := c.server.profile(ctx, kind)
	if err != nil {
		return nil, err
	}
	taken, err := c.folder.writeProfile("", kind, ".pb.gz", at, data)
	if err != nil {
		return nil, err
	}
	c.taken = append(c.taken, taken)
	return p, nil
}

// takeDump takes the text dump, once, where there are few goroutines enough.
func (c *capture) takeDump(ctx context.Context, goroutines int64) {
	if c.dumped || c.MaxGoroutines == 0 {
		return
	}
	if goroutines >= int64(c.MaxGoroutines) {
		if c.fewest == 0 || goroutines < c.fewest {
			c.fewest = goroutines
		}
		return
	}
	c.dumped = true
	at := c.stamps.next()
	data, err := c.server.dump(ctx)
	var taken Taken
	if err == nil {
		taken, err = c.folder.writeProfile("", "goroutine", ".txt.gz", at, data)
	}
	if err != nil {
		c.note("dump", err.Error())
		return
	}
	c.taken = append(c.taken, taken)
}

// showTaken tells how far the capture is.
func (c *capture) showTaken() {
	if now := time.Now(); now.Sub(c.shown) >= progressEvery {
		c.shown = now
		elapsed := now.Sub(c.start)
		c.show(fmt.Sprintf("%v of %v, %d profiles", elapsed.Round(time.Second), c.For, len(c.taken)))
	}
}
