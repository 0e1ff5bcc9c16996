package receive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/stacks"
	"github.com/contend/contend/ingest/waits"
)

// Bounds of one look at the window. A profile of 100 kB takes 5 ms and some MB to
// read, so that all of a busy window would take a minute and a GB.
const (
	maxSample      = 120
	maxSampleBytes = 4 << 20
	// Of a kind and process: 30 snapshots tell how full a lock is.
	maxSameKind = 40
	// A process that has not pushed for longer, and for three of its intervals, is gone:
	// what it waited for is not of now. pyroscope-go pushes each 15 seconds by default.
	silence = time.Minute
)

// Sample reads the newest profiles of the window as the input of an analysis: of
// each process that still pushes the newest of each kind, then the ones before, as
// far as a look's bounds allow. Warnings say what it left out; Failures what could not be read. Once ctx is
// done it returns what it has.
func (r *Receiver) Sample(ctx context.Context) *ingest.Bundle {
	chosen, of, all := r.window.sample()
	b := &ingest.Bundle{Instances: map[string]ingest.Instance{}}
	read := map[*process]bool{}
	for _, k := range chosen {
		if ctx.Err() != nil {
			break
		}
		read[k.of] = true
		switch err := r.readInto(b, k); {
		case errors.Is(err, fs.ErrNotExist): // it has left the window meanwhile
		case err != nil:
			b.Failures = append(b.Failures, ingest.Failure{Name: k.name, Err: err})
			r.unreadable.Inc()
		}
	}
	if len(read) < of {
		b.Warnings = append(b.Warnings, fmt.Sprintf("looked at the newest %d of %d profiles, of %d of the %d processes that push: the others are looked at in their turn", len(chosen), all, len(read), of))
	}
	return b
}

// sample chooses profiles, and counts the processes that push and their profiles.
func (w *window) sample() (chosen []*kept, processes, profiles int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire()
	var live []*process
	for _, p := range w.processes {
		last := p.profiles[len(p.profiles)-1].received
		if w.now().Sub(last) > max(silence, 3*p.span) {
			continue
		}
		live = append(live, p)
		profiles += len(p.profiles)
	}
	// The newest first, so that of many processes those come in turn that pushed last.
	newest := func(p *process) time.Time { return p.profiles[len(p.profiles)-1].received }
	slices.SortFunc(live, func(a, b *process) int {
		return cmp.Or(newest(b).Compare(newest(a)), cmp.Compare(a.folder, b.folder))
	})
	bytes := int64(0)
	turns := make([][][]*kept, len(live))
	for i, p := range live {
		turns[i] = p.turns()
	}
	for turn := 0; turn < maxSameKind; turn++ {
		for _, t := range turns {
			if turn >= len(t) {
				continue
			}
			for _, k := range t[turn] {
				if len(chosen) == maxSample || len(chosen) > 0 && bytes+k.size > maxSampleBytes {
					return chosen, len(live), profiles
				}
				chosen = append(chosen, k)
				bytes += k.size
			}
		}
	}
	return chosen, len(live), profiles
}

// turns are the newest of each kind, then the ones before them, and so on.
func (p *process) turns() [][]*kept {
	var out [][]*kept
	n := map[string]int{}
	for _, k := range slices.Backward(p.profiles) {
		turn := n[k.kind]
		n[k.kind]++
		if turn == maxSameKind {
			break
		}
		if turn == len(out) {
			out = append(out, nil)
		}
		out[turn] = append(out[turn], k)
	}
	return out
}

// readInto adds one profile to b.
func (r *Receiver) readInto(b *ingest.Bundle, k *kept) error {
	data, name, dir := k.data, k.name, ""
	if f := r.window.bundle; f != nil {
		var err error
		if data, err = f.root.ReadFile(k.name); err != nil {
			return cause(err)
		}
		name, dir = f.path(k.name), f.dir
	}
	p, err := ingest.ParseProfile(data, "a profile", "")
	if err != nil {
		return err
	}
	if stacks.ProfileKind(p) == "contention" {
		w, err := waits.FromProfile(name, p)
		if err != nil {
			return err
		}
		b.Waits = append(b.Waits, w)
	} else {
		s, err := stacks.FromProfile(name, p)
		if err != nil {
			return err
		}
		b.Snapshots = append(b.Snapshots, s)
	}
	b.Instances[name] = ingest.Instance{Bundle: dir, Job: k.of.job, Name: k.of.instance}
	return nil
}
