package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/contend/contend/detect/report"
	"github.com/contend/contend/ingest/secret"
)

type outFile struct {
	path string
	text []byte
}

// writeDir is writeFiles of files that are named as in dir, which is made where it
// is not there.
func writeDir(cmd *cobra.Command, dir string, files []outFile, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &outcome{exitFailed, fmt.Errorf("expected a directory to write to: %w", err)}
	}
	for i := range files {
		files[i].path = filepath.Join(dir, files[i].path)
	}
	return writeFiles(cmd, files, force)
}

// writeFiles writes all files, or none of them and says why.
func writeFiles(cmd *cobra.Command, files []outFile, force bool) error {
	var parts []*partFile
	defer func() {
		for _, p := range parts {
			p.remove()
		}
	}()
	for _, f := range files {
		if _, err := os.Lstat(f.path); err == nil && !force {
			return &outcome{exitFailed, fmt.Errorf("%s exists and is kept; name another place with -o, or replace it with --force", f.path)}
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &outcome{exitFailed, err}
		}
	}
	for _, f := range files {
		p, err := writePart(f.path, f.text)
		if err != nil {
			return &outcome{exitFailed, fmt.Errorf("write %s: %w", f.path, err)}
		}
		parts = append(parts, p)
	}
	for i, f := range files {
		if err := parts[i].rename(); err != nil {
			return &outcome{exitFailed, fmt.Errorf("write %s: %w", f.path, err)}
		}
		fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", report.Printable(f.path))
	}
	return nil
}

// writeByRename writes a file that is there wholly or not at all, also after a crash.
func writeByRename(path string, text []byte) error {
	p, err := writePart(path, text)
	if err != nil {
		return err
	}
	defer p.remove()
	return p.rename()
}

// partFile is a file that has all of its text and not yet its name.
type partFile struct{ name, target string }

// writePart writes the text beside its place. Where that is a link, it is
// what the link points to: a link stays one. Servers that run as another user read it.
func writePart(path string, text []byte) (*partFile, error) {
	target := path
	if to, err := filepath.EvalSymlinks(path); err == nil {
		target = to
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, secret.WithoutPath(err)
	}
	// A device or a pipe would be replaced by a file.
	if info, err := os.Lstat(target); err == nil && !info.Mode().IsRegular() {
		what := "a device, pipe or socket; -o - writes to standard output"
		if info.IsDir() {
			what = "a directory; name a file in it"
		}
		return nil, errors.New("expected a file or none, saw " + what)
	}
	f, err := os.CreateTemp(filepath.Dir(target), ".part-")
	if err != nil {
		return nil, secret.WithoutPath(err)
	}
	p := &partFile{f.Name(), target}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		p.remove()
		return nil, secret.WithoutPath(err)
	}
	return p, nil
}

func (p *partFile) rename() error { return secret.WithoutPath(os.Rename(p.name, p.target)) }

// remove leaves nothing where it was not renamed.
func (p *partFile) remove() { os.Remove(p.name) }
