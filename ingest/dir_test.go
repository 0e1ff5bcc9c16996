package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const seriesText = "# TYPE a gauge\na{job=\"g\"} 1 1700000000\na{job=\"g\"} 2 1700000015\n# EOF\n"

// What has to be series is never passed over in silence.
func TestLoadDirSeries(t *testing.T) {
	t.Parallel()
	const list = `{"schema":"contend.bundle/v1","taken":[{"file":"profiles/x.pb.gz","kind":"block"},{"file":"s/data.txt","kind":"series"}]}`
	for name, tt := range map[string]struct {
		files    map[string]string
		failures []string // NAME: a part of its error
		unused   []string
	}{
		"all is read":     {map[string]string{"a.om": seriesText, "b.txt": "notes\n"}, nil, []string{"b.txt"}},
		"by its name":     {map[string]string{"a.om": seriesText, "b.om": "", "c.OM.gz": "\x00\xff\x00\xff", "d.om": "{}", "e.txt": "{}"}, []string{"b.om: an empty input", "c.OM.gz: binary data", "d.om: saw JSON"}, []string{"e.txt"}},
		"by the list":     {map[string]string{"a.om": seriesText, "bundle.json": list, "s/data.txt": "notes\n", "s/other.txt": "notes\n"}, []string{"s/data.txt: text without"}, []string{"s/other.txt"}},
		"listed and read": {map[string]string{"bundle.json": list, "s/data.txt": seriesText}, nil, nil},
		"not there":       {map[string]string{"a.om": seriesText, "bundle.json": list}, []string{".: expected the series that bundle.json lists, but could not read s/data.txt; is the copy complete?"}, nil},
		"another schema":  {map[string]string{"a.om": seriesText, "bundle.json": `[` + list + `]`}, []string{"bundle.json: expected a bundle's list in JSON"}, nil},
		"many not there": {map[string]string{"a.om": seriesText, "bundle.json": `{"schema":"contend.bundle/v1","taken":[` + strings.TrimSuffix(strings.Repeat(`{"file":"1","kind":"series"},{"file":"2","kind":"series"},{"file":"3","kind":"series"},{"file":"4","kind":"series"},{"file":"5","kind":"series"},`, 3), ",") + `]}`},
			[]string{".: could not read 1, 2, 3, 4 and 1 more"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range tt.files {
				write(t, dir, file, []byte(text))
			}
			b := Load(t.Context(), []string{dir}, Options{})
			rel := func(name string) string {
				r, _ := filepath.Rel(dir, name)
				return filepath.ToSlash(r)
			}
			if len(b.Failures) != len(tt.failures) {
				t.Fatalf("failures %v, want %q", b.Failures, tt.failures)
			}
			slices.SortFunc(b.Failures, func(x, y Failure) int { return strings.Compare(x.Name, y.Name) })
			for i, want := range tt.failures {
				file, part, _ := strings.Cut(want, ": ")
				if f := b.Failures[i]; rel(f.Name) != file || !strings.Contains(f.Err.Error(), part) {
					t.Errorf("%s: %v, want %s", rel(f.Name), f.Err, want)
				}
			}
			var unused []string
			for _, u := range b.Unused {
				unused = append(unused, rel(u.Name))
			}
			if !slices.Equal(unused, tt.unused) {
				t.Errorf("unused %q, want %q", unused, tt.unused)
			}
			if len(b.Read) != 1 {
				t.Errorf("read %v, want one", b.Read)
			}
		})
	}
}

// A link that is listed is followed by nobody, which is said.
func TestLoadDirListedLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "bundle.json", []byte(`{"schema":"contend.bundle/v1","taken":[{"file":"series.om","kind":"series"}]}`))
	if err := os.Symlink(write(t, t.TempDir(), "elsewhere", []byte(seriesText)), filepath.Join(dir, "series.om")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	b := Load(t.Context(), []string{dir}, Options{})
	if len(b.Read) != 0 || len(b.Failures) == 0 || !strings.Contains(b.Failures[0].Err.Error(), "could not read series.om") {
		t.Errorf("read %v, failures %v", b.Read, b.Failures)
	}
}

// Rare damage loses the lines it is in.
func TestLoadDamagedSeries(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(strings.ReplaceAll(seriesText, "# EOF\n", ""), 20)
	for name, tt := range map[string]struct {
		text string
		bad  int
	}{
		"a NUL in a label": {"http_in_flight{job=\"g\x00\"} 1 1700000000\n" + text + "# EOF\n", 1},
		"a bell":           {text + "a{job=\"\x07\"} 1 1700000000\n# EOF\n", 1},
		"zeros before":     {strings.Repeat("\x00", 5000) + text + "# EOF\n", 1},
		"zeros after":      {text + "# EOF\n" + strings.Repeat("\x00", 5000), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := Load(t.Context(), []string{"-"}, Options{Stdin: strings.NewReader(tt.text)})
			if len(b.Failures) != 0 || len(b.Read) != 1 {
				t.Fatalf("read %v, failures %v", b.Read, b.Failures)
			}
			if got := b.Read[0].Loaded; got.Samples != 40 || got.Bad != tt.bad {
				t.Errorf("got %+v, want 40 samples and %d bad", got, tt.bad)
			}
		})
	}
}
