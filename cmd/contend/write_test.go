package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestWriteFiles: all or none, what is no file is left alone, and a link stays a link.
func TestWriteFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"old": "old", "target": "old"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("target", path("link")), os.Symlink("nowhere", path("broken")), os.Mkdir(path("folder"), 0o777), os.Symlink(os.DevNull, path("device"))); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(path(name))
		if errors.Is(err, fs.ErrNotExist) {
			return "none"
		}
		return string(text)
	}
	for _, test := range []struct {
		name  string
		files []string
		force bool
		want  string // of the error
		after map[string]string
	}{
		{"new", []string{"a", "b"}, false, "", map[string]string{"a": "new", "b": "new"}},
		{"kept", []string{"c", "old"}, false, "exists and is kept; name another place with -o, or replace it with --force", map[string]string{"c": "none", "old": "old"}},
		{"replaced", []string{"old"}, true, "", map[string]string{"old": "new"}},
		{"a link", []string{"link"}, true, "", map[string]string{"link": "new", "target": "new"}},
		{"a device", []string{"d", "device"}, true, "expected a file or none, saw a device, pipe or socket", map[string]string{"d": "none"}},
		{"a folder", []string{"e", "folder"}, true, "expected a file or none, saw a directory", map[string]string{"e": "none"}},
		{"no folder", []string{"f", "missing/x"}, false, "no such file or directory", map[string]string{"f": "none"}},
	} {
		var files []outFile
		for _, name := range test.files {
			files = append(files, outFile{path(name), []byte("new")})
		}
		cmd := &cobra.Command{}
		var stdout bytes.Buffer
		cmd.SetOut(&stdout)
		err := writeFiles(cmd, files, test.force)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if err != nil && (strings.Contains(err.Error(), ".part-") || stdout.Len() > 0) {
			t.Errorf("%s: %v, and wrote %q", test.name, err, &stdout)
		}
		for name, want := range test.after {
			if got := read(name); got != want {
				t.Errorf("%s: %s has %q, want %q", test.name, name, got, want)
			}
		}
	}
	if info, err := os.Lstat(path("link")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if parts, _ := filepath.Glob(path(".part-*")); len(parts) > 0 {
		t.Errorf("%v are left over", parts)
	}
}
