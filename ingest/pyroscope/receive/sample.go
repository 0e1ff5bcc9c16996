package receive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/secret"
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

// Job is a job with processes in the window.
type Job struct {
	Name   string
	Pushed time.Time // when one of its processes pushed last
	Silent bool      // none pushes any more: Sample passes over them
}

// Jobs are those of the window, by name.
func (r *Receiver) Jobs() []Job {
	w := r.window
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire()
	jobs := map[string]Job{}
	for _, p := range w.processes {
		j, known := jobs[p.job]
		last := p.newest()
		if last.After(j.Pushed) {
			j.Pushed = last
		}
		jobs[p.job] = Job{p.job, j.Pushed, (!known || j.Silent) && w.silent(p)}
	}
	return slices.SortedFunc(maps.Values(jobs), func(a, b Job) int { return cmp.Compare(a.Name, b.Name) })
}

// newest is when the last profile of a process came.
func (p *process) newest() time.Time { return p.profiles[len(p.profiles)-1].received }

// silent reports whether a process pushes no more.
func (w *window) silent(p *process) bool { return w.now().Sub(p.newest()) > max(silence, 3*p.span) }

// Sample reads the newest profiles of the window as the input of an analysis: of
// each process that still pushes the newest of each kind, then the ones before, as
// far as a look's bounds allow. Those processes come first that were not looked at for
// longest. Warnings say what it left out; Failures what could not be read. Once ctx is
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
		if w.silent(p) {
			continue
		}
		live = append(live, p)
		profiles += len(p.profiles)
	}
	slices.SortFunc(live, func(a, b *process) int {
		return cmp.Or(a.looked.Compare(b.looked), b.newest().Compare(a.newest()), cmp.Compare(a.folder, b.folder))
	})
	bytes := int64(0)
	turns := make([][][]*kept, len(live))
	for i, p := range live {
		turns[i] = p.turns()
	}
	for turn := 0; turn < maxSameKind; turn++ {
		for i, t := range turns {
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
			if turn == 0 {
				live[i].looked = w.now()
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
		if data, err = f.read(k.name); err != nil {
			return secret.WithoutPath(err)
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
