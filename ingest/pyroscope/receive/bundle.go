package receive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/capture"
	"github.com/contend/contend/ingest/secret"
)

const (
	profilesDir = "profiles"
	partPrefix  = ".part-" // hidden: contend analyze passes over it
	// Of the list of a bundle: 1,000 processes with the longest names take less than a MB.
	maxManifest = 4 << 20
	// Of a profile's file: what a push has, and what complete adds.
	maxFile = maxPush + 1<<10
	// The file that is locked while a receiver has a bundle, hidden as parts are. It stays:
	// two could have it where one removes it.
	lockFile = ".lock"
)

// folder is the bundle that pushes go to, which contend analyze reads at any
// moment: each profile is a file of its own that has its name once it is whole.
//
// A file is the kernel's before its push is acknowledged, and is not synced: what was
// acknowledged outlives contend however it ends, and a crash of the machine may cost
// the last seconds, which is what the kernel keeps back. 200 syncs a second would cost a disk
// more than the profiles.
type folder struct {
	root    *os.Root
	lock    fileutil.Releaser
	dir     string
	version string // of contend
	parts   atomic.Int64
}

// openFolder makes a bundle, or continues one that a receiver wrote before: what is
// there is w's, so that it leaves the window in its turn. Anything else that is not empty is
// refused: it is not the receiver's to delete.
func openFolder(dir, version string, w *window) (*folder, error) {
	// Private: labels can hold secrets.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the bundle: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the bundle: %w", err)
	}
	f := &folder{root: root, dir: dir, version: version}
	if err := f.take(); err != nil {
		root.Close()
		return nil, err
	}
	if err := f.resume(w); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// take locks a bundle: of two receivers each would remove the other's profiles, and write
// over what is not yet acknowledged. What is not a receiver's is left as it is.
func (f *folder) take() error {
	if _, err := f.readManifest(); err != nil {
		return err
	}
	if info, err := f.root.Lstat(lockFile); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("expected a file as %s in %s, saw something else; name another directory", lockFile, f.dir)
	}
	lock, _, err := fileutil.Flock(filepath.Join(f.dir, lockFile))
	if err != nil {
		return fmt.Errorf("expected a bundle that no other contend receive writes to, but %s cannot be locked: %w; end the other, or name another directory", f.dir, secret.WithoutPath(err))
	}
	f.lock = lock
	return nil
}

// close lets another receiver go on with the bundle.
func (f *folder) close() {
	f.lock.Release() // the system does where this fails
	f.root.Close()
}

func (f *folder) resume(w *window) error {
	m, err := f.readManifest()
	if err != nil {
		return err
	}
	named := map[string]capture.Process{}
	for _, p := range m.Processes {
		named[path.Base(p.Folder)] = p
	}
	var found []*kept
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("read the bundle: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partPrefix) { // of a push that was not acknowledged
			f.root.Remove(e.Name())
		}
	}
	err = fs.WalkDir(f.root.FS(), profilesDir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		sub, of := path.Dir(name), path.Base(path.Dir(name))
		if !d.Type().IsRegular() || path.Dir(sub) != profilesDir || !strings.HasSuffix(name, ".pb.gz") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Size() > maxFile { // no receiver's, and not to make room for
			return nil
		}
		p := w.processes[of]
		if p == nil {
			p = &process{folder: of, job: named[of].Job, instance: cmp.Or(named[of].Instance, of)}
			w.processes[of] = p
		}
		kind, _, _ := strings.Cut(path.Base(name), "-")
		received := info.ModTime()
		if now := w.now(); received.After(now) { // by a clock that was set back since: it has to expire, too
			received = now
		}
		found = append(found, &kept{of: p, kind: kind, received: received, name: name, size: info.Size()})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the bundle: %w", err)
	}
	slices.SortStableFunc(found, func(a, b *kept) int { return a.received.Compare(b.received) })
	for _, k := range found {
		w.hold(k)
	}
	if err := f.writeManifest(w.age, w.processes); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

// readManifest is empty where the directory is, and refuses one that is no receiver's.
func (f *folder) readManifest() (m capture.Manifest, err error) {
	info, err := f.root.Lstat(capture.ManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := fs.ReadDir(f.root.FS(), ".")
		// A lock alone is of a receiver that ended, or was refused, before it wrote a list.
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lockFile })
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("expected a new or empty directory or a bundle of contend receive, saw %s with other files; name another", f.dir)
		}
		return m, err
	} else if err == nil && !info.Mode().IsRegular() { // to open a pipe would wait
		return m, fmt.Errorf("expected a bundle of contend receive in %s, saw a %s that is no file; name another directory", f.dir, capture.ManifestFile)
	}
	file, err := f.root.Open(capture.ManifestFile)
	if err != nil {
		return m, fmt.Errorf("read the bundle: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("expected a bundle of contend receive in %s, saw a %s that is damaged: %w; name another directory", f.dir, capture.ManifestFile, err)
	}
	if m.Schema != ingest.BundleSchema || m.Window == "" {
		return m, fmt.Errorf("expected a new or empty directory or a bundle of contend receive, saw another bundle in %s, which is kept; name another", f.dir)
	}
	return m, nil
}

// writePart writes data under a name that is nobody's yet, and leaves nothing where
// the disk is full.
func (f *folder) writePart(data []byte) (name string, err error) {
	name = fmt.Sprintf("%s%d", partPrefix, f.parts.Add(1))
	if err = f.root.WriteFile(name, data, 0o600); err != nil {
		f.root.Remove(name)
		return "", secret.WithoutPath(err)
	}
	return name, nil
}

// keep gives a part its name in its process' folder: that of its kind and moment, or of the
// next ms that is free.
func (f *folder) keep(part, of, kind string, at time.Time) (name string, err error) {
	if err := f.root.MkdirAll(path.Join(profilesDir, of), 0o700); err != nil {
		return "", secret.WithoutPath(err)
	}
	for {
		name = fileName(of, kind, at)
		if _, err = f.root.Lstat(name); err != nil {
			break
		}
		at = at.Add(time.Millisecond)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", secret.WithoutPath(err)
	}
	if err := f.root.Rename(part, name); err != nil {
		return "", secret.WithoutPath(err)
	}
	return name, nil
}

// read reads a profile, whatever was put in its place since.
func (f *folder) read(name string) ([]byte, error) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxFile))
}

// fileName is that of a profile, as in other bundles.
func fileName(of, kind string, at time.Time) string {
	return path.Join(profilesDir, of, kind+"-"+at.UTC().Format("20060102T150405.000Z")+".pb.gz")
}

// drop takes a profile out of the bundle, and its folder with the last. That a
// file is gone already, or cannot be removed, changes nothing: it is of the window no more.
func (f *folder) drop(name string, last bool) {
	f.root.Remove(name)
	if last {
		f.root.Remove(path.Dir(name))
	}
}

// writeManifest writes whose the folders are.
func (f *folder) writeManifest(age time.Duration, processes map[string]*process) error {
	m := manifestOf(age, f.version, processes)
	m.Schema = ingest.BundleSchema
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // which takes six bytes for one
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return err
	}
	part, err := f.writePart(text.Bytes())
	if err != nil {
		return err
	}
	if err := f.root.Rename(part, capture.ManifestFile); err != nil {
		f.root.Remove(part)
		return secret.WithoutPath(err)
	}
	return nil
}

// path is a profile's on the disk.
func (f *folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }
