package receive

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/contend/contend/ingest/capture"
)

const (
	// Profiles held, whatever their size: contend analyze counts no more files of a directory, and
	// pushes of a hundred bytes must not take all the disk's inodes.
	maxKept = 50_000
	// Processes with profiles in the window; each has a folder.
	maxProcesses = 1000
)

// kept is one profile of the window.
type kept struct {
	of       *process
	kind     string
	received time.Time // by the receiver's clock, which the window goes by
	name     string    // relative to the bundle, with slashes
	size     int64
	data     []byte // nil where it is in the bundle
}

// process is one process and its profiles in the window, in the order they came.
type process struct {
	folder        string // its name below profiles
	job, instance string
	profiles      []*kept
	span          time.Duration // between pushes, as the last one says
	looked        time.Time     // when the newest of each kind was last chosen for a look
}

// window is the profiles of the last minutes, up to a number of bytes: oldest
// out first, in memory or in a bundle. Its methods may be called at the same time.
type window struct {
	age      time.Duration
	maxBytes int64
	bundle   *folder // nil where they are in memory
	now      func() time.Time

	mu        sync.Mutex // for what follows
	profiles  []*kept    // in the order they came
	processes map[string]*process
	size      int64 // of them, in bytes
	expired   int64 // profiles that left the window
}

var (
	errFull = errors.New("the memory for profiles is full until the oldest leave the window; with --bundle they go to a disk, --max-bytes raises the limit")
	errMany = fmt.Errorf("expected pushes of at most %d processes within the window, saw one more: a label that changes with each push makes it another process", maxProcesses)
)

// pushed is a profile that was found good.
type pushed struct {
	from  pusher
	kind  string
	until time.Time
	span  time.Duration
	data  []byte
}

// add puts a profile into the window. Once it returns without an error, the
// profile is in the bundle, where there is one. Room is made there by the oldest; in memory
// there is none until they are too old, since a client that is told so can push elsewhere.
func (w *window) add(p *pushed) error {
	size := int64(len(p.data))
	var part string
	if w.bundle != nil { // written while others are, and not under the lock
		var err error
		if part, err = w.bundle.writePart(p.data); err != nil {
			return &diskError{err}
		}
		defer w.bundle.root.Remove(part) // gone once it has its name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire()
	if w.bundle == nil && w.size+size > w.maxBytes {
		return errFull
	}
	of, err := w.process(p.from)
	if err != nil {
		return err
	}
	k := &kept{of: of, kind: p.kind, received: w.now(), size: size}
	if w.bundle != nil {
		if k.name, err = w.bundle.keep(part, of.folder, p.kind, p.until); err != nil {
			w.forget(of)
			return &diskError{err}
		}
	} else {
		k.name = fileName(of.folder, p.kind, p.until)
		k.data = bytes.Clone(p.data) // what it was read into is larger
	}
	of.span = p.span
	w.hold(k)
	for len(w.profiles) > maxKept || w.size > w.maxBytes {
		w.drop()
	}
	return nil
}

func (w *window) hold(k *kept) {
	k.of.profiles = append(k.of.profiles, k)
	w.profiles = append(w.profiles, k)
	w.size += k.size
}

// process is the one that pushes, known or new. Of two that have one name, the second
// gets its folder's: reports go by names.
func (w *window) process(from pusher) (*process, error) {
	if p := w.processes[from.folder()]; p != nil {
		return p, nil
	}
	if len(w.processes) >= maxProcesses { // a bundle may come with more
		return nil, errMany
	}
	p := &process{folder: from.folder(), job: from.job, instance: cmp.Or(from.instance, from.job)}
	for _, o := range w.processes {
		if o.job == p.job && o.instance == p.instance {
			p.instance = p.folder
		}
	}
	w.processes[p.folder] = p
	if w.bundle == nil {
		return p, nil
	}
	if err := w.bundle.writeManifest(w.age, w.processes); err != nil {
		delete(w.processes, p.folder)
		return nil, &diskError{err}
	}
	return p, nil
}

// expire drops what is older than the window.
func (w *window) expire() {
	for len(w.profiles) > 0 && w.now().Sub(w.profiles[0].received) > w.age {
		w.drop()
	}
}

// drop takes out the oldest.
func (w *window) drop() {
	k := w.profiles[0]
	w.profiles[0], k.of.profiles[0] = nil, nil                    // for the collector: the arrays stay
	w.profiles, k.of.profiles = w.profiles[1:], k.of.profiles[1:] // k is the oldest there too
	w.size -= k.size
	w.expired++
	gone := w.forget(k.of)
	if w.bundle != nil {
		w.bundle.drop(k.name, gone)
	}
}

// forget leaves a process out that has no profiles, and reports whether it did.
func (w *window) forget(p *process) bool {
	if len(p.profiles) > 0 {
		return false
	}
	delete(w.processes, p.folder)
	return true
}

// diskError is what the bundle's disk says.
type diskError struct{ err error }

func (e *diskError) Error() string {
	return "the profile could not be written and is not kept: " + e.err.Error()
}

func (e *diskError) Unwrap() error { return e.err }

// manifest lists whose the folders of a bundle are.
func manifestOf(age time.Duration, version string, processes map[string]*process) *capture.Manifest {
	m := &capture.Manifest{ClockFactor: 1, Version: version, Window: age.String(), Taken: []capture.Taken{}}
	for _, p := range processes {
		m.Processes = append(m.Processes, capture.Process{Folder: profilesDir + "/" + p.folder, Job: p.job, Instance: p.instance})
	}
	slices.SortFunc(m.Processes, func(a, b capture.Process) int { return cmp.Compare(a.Folder, b.Folder) })
	return m
}
