package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

const (
	ManifestFile   = "bundle.json" // the Manifest's
	seriesFile     = "series.om"
	profilesFolder = "profiles"
)

// Manifest is a bundle's bundle.json.
type Manifest struct {
	Schema string `json:"schema"`
	Target string `json:"target"` // URL of the process, without credentials
	// ClockFactor is how much faster than the clock on the wall the process
	// runs: 1, but for the demo's.
	ClockFactor float64 `json:"clock_factor"`
	Version     string  `json:"version"` // of contend
	// Partial is why the bundle is only part of what it was to be; "" where it is whole.
	Partial string    `json:"partial,omitempty"`
	Taken   []Taken   `json:"taken"`            // in the order of time
	Events  []Event   `json:"events,omitempty"` // in the order of time
	Missing []Missing `json:"missing,omitempty"`
	// Window is how long a profile stays, such as 15m0s, in a bundle that contend receive
	// writes: its profiles come and go, and are not in Taken. "" in others.
	Window string `json:"window,omitempty"`
	// Processes are whose the profiles of a folder are, in a bundle of one process and
	// in one with a Window.
	Processes []Process `json:"processes,omitempty"`
}

// Process is whose all profiles of a folder are.
type Process struct {
	Folder   string `json:"folder"` // relative to the bundle, with slashes
	Job      string `json:"job"`
	Instance string `json:"instance"`
}

// Taken is one file of a bundle.
type Taken struct {
	File string    `json:"file"` // relative to the bundle, with slashes
	Kind string    `json:"kind"` // goroutine, block, mutex or series
	At   time.Time `json:"at"`   // UTC, when it was asked for; of series, when first
	// Job and Instance are whose profile it is, as in the labels of the series,
	// where the bundle is of several processes.
	Job      string `json:"job,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// Event is something that happened while the bundle was taken, and which its
// files do not say.
type Event struct {
	At   time.Time `json:"at"`   // UTC
	Name string    `json:"name"` // such as onset, phase, first_timeout, first_kill or outcome
	Text string    `json:"text,omitempty"`
}

// Missing is something that was not taken, or not every time.
type Missing struct {
	What   string    `json:"what"` // goroutine, dump, block, mutex, metrics, or series for some of them
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`              // UTC, when first
	Times  int       `json:"times,omitempty"` // where more than once
	// Instance is whose, where the bundle is of several processes.
	Instance string `json:"instance,omitempty"`
}

// folder is a bundle being written, beside where it will be: that is never
// half a bundle.
type folder struct {
	out, part string
	replace   bool  // a bundle that is at out
	bytes     int64 // written so far
}

// newFolder refuses an out that holds anything a bundle would replace, but for
// another bundle where that is to be replaced.
func newFolder(out string, replace bool) (*folder, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, fmt.Errorf("find the directory for the bundle: %w", err)
	}
	if err := checkFree(out, replace); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return nil, fmt.Errorf("make room for the bundle: %w", err)
	}
	// Stays private, as MkdirTemp makes it: profiler labels can hold secrets.
	part, err := os.MkdirTemp(filepath.Dir(out), "."+filepath.Base(out)+"-")
	if err != nil {
		return nil, fmt.Errorf("make room for the bundle: %w", err)
	}
	return &folder{out: out, part: part, replace: replace}, nil
}

// checkFree says why a bundle cannot be put at out. A symbolic link is not
// followed: the bundle would take the place of the link, not of its target.
// What is replaced has to be a bundle: a slip must not cost somebody's home.
func checkFree(out string, replace bool) error {
	info, err := os.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("expected a new or empty directory for the bundle: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("expected a new or empty directory for the bundle, saw %s, which is a symbolic link; name what it points to", out)
	case !info.IsDir():
		return fmt.Errorf("expected a new or empty directory for the bundle, saw %s, which is no directory; name another", out)
	}
	entries, err := os.ReadDir(out)
	isBundle := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ManifestFile })
	switch {
	case err != nil:
		return fmt.Errorf("expected a new or empty directory for the bundle: %w", err)
	case len(entries) > 0 && replace && !isBundle:
		return fmt.Errorf("expected a new or empty directory or a bundle to replace, saw %s, which is not empty and has no %s; name another", out, ManifestFile)
	case len(entries) > 0 && !replace:
		return fmt.Errorf("expected a new or empty directory for the bundle, saw %s, which is not empty; name another", out)
	}
	return nil
}

// path of a file of the bundle, while it is being written.
func (f *folder) path(name string) string {
	return filepath.Join(f.part, filepath.FromSlash(name))
}

// write leaves no part of a file on a disk that is full.
func (f *folder) write(name string, data []byte) error {
	if err := os.WriteFile(f.path(name), data, 0o666); err != nil {
		os.Remove(f.path(name))
		return fmt.Errorf("write the bundle: %w", err)
	}
	f.bytes += int64(len(data))
	return nil
}

// writeProfile writes what was received as it is, compressed where it is not.
// dir, where it is not "", is the folder of its process.
func (f *folder) writeProfile(dir, kind, ending string, at time.Time, data []byte) (Taken, error) {
	t := Taken{File: path.Join(profilesFolder, dir, kind+"-"+at.Format("20060102T150405.000Z")+ending), Kind: kind, At: at}
	if err := os.MkdirAll(f.path(path.Dir(t.File)), 0o777); err != nil {
		return t, fmt.Errorf("write the bundle: %w", err)
	}
	if !bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(data); err != nil {
			return t, fmt.Errorf("compress the profile: %w", err)
		}
		if err := z.Close(); err != nil {
			return t, fmt.Errorf("compress the profile: %w", err)
		}
		data = packed.Bytes()
	}
	return t, f.write(t.File, data)
}

// writeManifest writes the list of what there is.
func (f *folder) writeManifest(m *Manifest) error {
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return f.write(ManifestFile, append(head, '\n'))
}

// writeSeries writes the series, which began at first: all of them or, where
// there is no room, nothing.
func (f *folder) writeSeries(name string, series *seriesSet, first time.Time) (*Taken, error) {
	size, err := writeSeriesTo(f.path(name), series)
	if err != nil {
		os.Remove(f.path(name))
		return nil, fmt.Errorf("write the series: %w", err)
	}
	f.bytes += size
	return &Taken{File: name, Kind: "series", At: first}, nil
}

// writeSeriesTo compresses them where the name ends so.
func writeSeriesTo(name string, series *seriesSet) (size int64, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close() // closed below, but for errors
	if path.Ext(name) == ".gz" {
		z := gzip.NewWriter(f)
		if err := series.write(z); err != nil {
			return 0, err
		}
		err = z.Close()
	} else {
		err = series.write(f)
	}
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Close()
}

// finish puts the bundle in place, if its list could be written. What was taken
// is never lost: where that fails, the error says where it is.
func (f *folder) finish(err error) error {
	if err == nil {
		err = checkFree(f.out, f.replace)
	}
	if err == nil {
		err = f.move()
	}
	if err != nil {
		return fmt.Errorf("put the bundle in place: %w; what was taken is in %s", err, f.part)
	}
	return nil
}

// move puts the bundle at its place, and a bundle that is there back where that fails.
func (f *folder) move() error {
	// Not every system renames over an empty directory.
	if err := os.Remove(f.out); err == nil || errors.Is(err, fs.ErrNotExist) {
		return os.Rename(f.part, f.out)
	} else if !f.replace {
		return err
	}
	old := f.part + "-old"
	if err := os.Rename(f.out, old); err != nil {
		return err
	}
	if err := os.Rename(f.part, f.out); err != nil {
		return errors.Join(err, os.Rename(old, f.out))
	}
	os.RemoveAll(old) // hidden, and of no more use, where that fails
	return nil
}

// drop takes a file that was written out of the bundle again.
func (f *folder) drop(name string) {
	if info, err := os.Lstat(f.path(name)); err == nil && os.Remove(f.path(name)) == nil {
		f.bytes -= info.Size()
	}
}

func (f *folder) remove() { os.RemoveAll(f.part) }
