package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// A bundle has its profiles one folder down, a collection of captures
	// two; deeper trees are not profiles but somebody's home.
	maxDirDepth = 3
	// Far above a bundle's dozen, and read in seconds.
	maxDirFiles = 1000
	// Profiles of a bundle that has more: there may be its list and series beside them.
	maxNewest = maxDirFiles - 10
	// How many files beyond those are counted, to say how many were left out:
	// as much as is listed in a second.
	maxDirCounted = 100_000
	// How many of the other files an error names.
	maxNamedFiles = 4
)

// loadDir reads the profiles and series of a directory, in the order of their
// paths. Hidden files and symbolic links are left alone. What is there to be
// series, by its name or by a bundle's own list, and cannot be read is a failure.
func (l *loader) loadDir(dir string) *Bundle {
	b := &Bundle{}
	root, err := os.OpenRoot(dir)
	if err != nil {
		b.fail(dir, pathError(dir, err))
		return b
	}
	defer root.Close()

	bundle := readList(root)
	listed := bundle.series()
	var older map[string]bool
	if bundle.Window != "" {
		older = olderProfiles(root)
	}
	if len(older) > 0 {
		b.Warnings = append(b.Warnings, fmt.Sprintf("%s has %d profiles more than the %d that are read at once: of each process and kind the newest were read",
			dir, len(older), maxNewest))
	}
	files, more := 0, 0
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		name := filepath.Join(dir, filepath.FromSlash(p))
		switch {
		case err != nil:
			b.fail(name, pathError(name, err))
			return nil
		case p == ".":
			return nil
		case strings.HasPrefix(path.Base(p), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			if strings.Count(p, "/") >= maxDirDepth {
				b.pass(name, fmt.Sprintf("more than %d folders deep", maxDirDepth))
				return fs.SkipDir
			}
			return nil
		case older[p]:
			return nil
		case files == maxDirFiles:
			if more++; more == maxDirCounted {
				return fs.SkipAll
			}
			return nil
		}
		files++
		if l.loadDirFile(b, root, name, p, d.Type(), listed[p]) {
			delete(listed, p)
		}
		return nil
	})
	if err != nil {
		b.fail(dir, fmt.Errorf("reading stopped: %w", err))
	}
	if more > 0 {
		b.fail(dir, fmt.Errorf("expected at most %d files in it, saw %d: %d read, in the order of their paths, %d%s not; give it in parts",
			maxDirFiles, files+more, files, more, orMore(more)))
	}
	if len(listed) > 0 {
		b.fail(dir, fmt.Errorf("expected the series that %s lists, but could not read %s; is the copy complete?", manifest, firstOf(slices.Sorted(maps.Keys(listed)))))
	}
	if len(b.Snapshots)+len(b.Waits)+len(b.Read)+len(b.scrapes)+len(b.Failures) == 0 {
		b.fail(dir, fmt.Errorf("expected goroutine, block or mutex profiles or series in it, saw %s; try contend analyze FILE or URL", sawFiles(dir, b.Unused)))
	}
	return b
}

func orMore(counted int) string {
	if counted == maxDirCounted {
		return " or more"
	}
	return ""
}

// olderProfiles are the paths of profiles that are not read where a bundle of contend receive,
// which profiles come to all the time, has more than are read at once. What is read
// are the newest of each folder and kind, by their names, in turn.
func olderProfiles(root *os.Root) map[string]bool {
	paths, err := fs.Glob(root.FS(), "profiles/*/*-*.pb.gz") // sorted, and so in the order of time within a kind
	if err != nil || len(paths) <= maxNewest {
		return nil
	}
	kinds := map[string][]string{} // by folder and kind
	for _, p := range paths {
		kind, _, _ := strings.Cut(path.Base(p), "-")
		kind = path.Join(path.Dir(p), kind)
		kinds[kind] = append(kinds[kind], p)
	}
	older := make(map[string]bool, len(paths))
	for _, p := range paths {
		older[p] = true
	}
	names := slices.Sorted(maps.Keys(kinds))
	for left := maxNewest; left > 0; {
		for _, kind := range names {
			if n := len(kinds[kind]); n > 0 && left > 0 {
				delete(older, kinds[kind][n-1])
				kinds[kind] = kinds[kind][:n-1]
				left--
			}
		}
	}
	return older
}

// manifest is a bundle's own list of what was taken when; the profiles beside it say the same.
const manifest = "bundle.json"

// list is what is known of a bundle before its files are read. What is wrong
// with it is for readManifest to say.
type list struct {
	Taken  []struct{ File, Kind string }
	Window string // of a bundle of contend receive, whose profiles come and go
}

// readList reads the list of the bundle at root, if there is one.
func readList(root *os.Root) (l list) {
	info, err := root.Lstat(manifest)
	if err != nil || !info.Mode().IsRegular() { // to open a pipe would wait
		return l
	}
	f, err := root.Open(manifest)
	if err != nil {
		return l
	}
	defer f.Close()
	if json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&l) != nil {
		return list{}
	}
	return l
}

// series are the paths of the series that it has.
func (l *list) series() map[string]bool {
	listed := map[string]bool{}
	for _, t := range l.Taken {
		if t.Kind == "series" {
			listed[path.Clean(t.File)] = true
		}
	}
	return listed
}

// isSeriesName reports whether a file's name says that it has series.
func isSeriesName(p string) bool {
	return strings.HasSuffix(strings.TrimSuffix(strings.ToLower(p), ".gz"), ".om")
}

// loadDirFile reads p, a slash-separated path below the root. listed says that
// it has to have series. It reports whether p was read, or its failure was told.
func (l *loader) loadDirFile(b *Bundle, root *os.Root, name, p string, mode fs.FileMode, listed bool) bool {
	switch {
	case mode&fs.ModeSymlink != 0:
		// Read where it is, its target would be there twice; out of the
		// directory, it is not what was given.
		b.pass(name, "a symbolic link")
		return false
	case !mode.IsRegular():
		b.pass(name, "not a regular file")
		return false
	}
	f, err := root.Open(filepath.FromSlash(p))
	if err != nil {
		b.fail(name, pathError(name, err))
		return true
	}
	defer f.Close()
	if p == manifest {
		b.readManifest(name, f)
		return true
	}
	r, err := l.read(name, f)
	if np, ok := errors.AsType[*notProfile](err); ok && !listed && !isSeriesName(p) {
		b.pass(name, np.saw)
	} else if err != nil {
		b.fail(name, err)
	}
	// The folder and not the argument: each may hold another process' profiles.
	b.addReading(r, filepath.Dir(name))
	if i, ok := b.folders[filepath.Dir(name)]; ok {
		b.setInstance(name, i)
	}
	return true
}

// firstOf names the first few of some files.
func firstOf(names []string) string {
	if more := len(names) - maxNamedFiles; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamedFiles], ", "), more)
	}
	return strings.Join(names, ", ")
}

// sawFiles names what a directory without profiles has.
func sawFiles(dir string, unused []Unused) string {
	if len(unused) == 0 {
		return "no files"
	}
	names := make([]string, 0, maxNamedFiles+1)
	for i, u := range unused {
		if i == maxNamedFiles {
			names = append(names, "…")
			break
		}
		rel, err := filepath.Rel(dir, u.Name)
		if err != nil {
			rel = u.Name
		}
		names = append(names, rel+" ("+u.Reason+")")
	}
	other := "other files"
	if len(unused) == 1 {
		other = "other file"
	}
	return fmt.Sprintf("%d %s: %s", len(unused), other, strings.Join(names, ", "))
}
