package capture

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

const (
	// Profiles at once: the runtime writes each on one CPU of its process.
	profilesAtOnce = 4
	// For one profile: a process that is wedged answers in ms, one that is
	// starved would only be kept busy.
	profileTime = 5 * time.Second
	// Above it a dump would stop its process for long.
	maxDumpGoroutines = 10_000
)

// Profiles takes a goroutine, block and mutex profile of each target that has
// them, and with dump the text dump of one: of those below MaxGoroutines
// that with the most, where most waits can be seen. What cannot be taken is in the
// bundle's Missing. It returns when that is done, or soon after ctx is.
func (r *Recorder) Profiles(ctx context.Context, dump bool) {
	var live []*recorded
	r.mu.Lock()
	for _, t := range r.targets {
		if t.pprof != nil && t.ctx.Err() == nil {
			live = append(live, t)
		}
	}
	r.mu.Unlock()
	counts := make([]int64, len(live))
	r.each(live, func(i int, t *recorded) {
		if p := r.takeProfile(ctx, t, "goroutine"); p != nil {
			counts[i] = goroutines(p)
		}
	})
	// Before the block and mutex profiles, as in a capture: their difference then
	// has nothing of the stop.
	if dump {
		most := -1
		for i, n := range counts {
			if n < r.MaxGoroutines && n > 0 && (most < 0 || n > counts[most]) {
				most = i
			}
		}
		if most >= 0 {
			r.takeDump(ctx, live[most])
		}
	}
	r.each(live, func(_ int, t *recorded) {
		r.takeProfile(ctx, t, "block")
		r.takeProfile(ctx, t, "mutex")
	})
}

// Glance takes a goroutine profile of one target, and nothing where it is gone
// or has none. It returns as Profiles does.
func (r *Recorder) Glance(ctx context.Context, instance string) {
	r.mu.Lock()
	var live []*recorded
	for _, t := range r.targets {
		if t.Instance == instance && t.pprof != nil && t.ctx.Err() == nil {
			live = append(live, t)
		}
	}
	r.mu.Unlock()
	for _, t := range live {
		r.takeProfile(ctx, t, "goroutine")
	}
}

// each does something with targets, a few at a time.
func (r *Recorder) each(targets []*recorded, do func(int, *recorded)) {
	turns := make(chan struct{}, profilesAtOnce)
	var wg sync.WaitGroup
	for i, t := range targets {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			do(i, t)
		})
	}
	wg.Wait()
}

// takeProfile writes a profile without the path of the binary, which is of the
// machine that ran it; nil where it could not be taken.
func (r *Recorder) takeProfile(ctx context.Context, t *recorded, kind string) (p *profile.Profile) {
	r.take(ctx, t, kind, kind, ".pb.gz", func(ctx context.Context, from server) (data []byte, err error) {
		if _, p, err = from.profile(ctx, kind); err != nil {
			return nil, err
		}
		for _, m := range p.Mapping {
			m.File = path.Base(strings.ReplaceAll(m.File, `\`, "/"))
		}
		var packed bytes.Buffer
		if err := p.Write(&packed); err != nil {
			return nil, fmt.Errorf("compress the profile: %w", err)
		}
		return packed.Bytes(), nil
	})
	return p
}

func (r *Recorder) takeDump(ctx context.Context, t *recorded) {
	r.take(ctx, t, "dump", "goroutine", ".txt.gz", func(ctx context.Context, from server) ([]byte, error) {
		return from.dump(ctx)
	})
}

// take writes what get returns. Of a target that is removed meanwhile nothing
// is missing.
func (r *Recorder) take(ctx context.Context, t *recorded, what, kind, ending string, get func(context.Context, server) ([]byte, error)) {
	at := r.stamps.next()
	within, cancel := context.WithTimeout(ctx, profileTime)
	defer cancel()
	data, err := get(within, server{t.pprof, r.HTTP})
	switch {
	case errors.Is(context.Cause(t.ctx), errRemoved) && err != nil:
		return
	case ctx.Err() != nil && err != nil:
		err = errors.New("interrupted")
	}
	if err != nil {
		r.notes.add(what, t.Instance, err.Error())
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	if len(r.taken) == maxRecorded {
		r.notes.add(what, t.Instance, fmt.Sprintf("a bundle has at most %d profiles", maxRecorded))
		return
	}
	taken, err := r.folder.writeProfile(folderName(t.Instance), kind, ending, at, data)
	if err != nil {
		r.failed = cmp.Or(r.failed, err)
		r.notes.add(what, t.Instance, err.Error())
		return
	}
	taken.Job, taken.Instance = t.Job, t.Instance
	r.taken = append(r.taken, taken)
}

// folderName is an instance's name as that of a folder, neither hidden nor a
// path. Two may share one: no two profiles are of one moment.
func folderName(instance string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, instance)
	if strings.HasPrefix(name, ".") {
		return "_" + name[1:]
	}
	return name
}
