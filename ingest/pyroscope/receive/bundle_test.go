package receive

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contend/contend/ingest"
	"github.com/contend/contend/ingest/capture"
)

// filesOf are all files below a directory, with slashes, in order.
func filesOf(t testing.TB, dir string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && p != lockFile {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// mutexProfile is a profile of what made others wait, with the leaf that tells it.
func mutexProfile(t testing.TB) []byte {
	t.Helper()
	p := profileOf("contentions/count", "delay/nanoseconds")
	p.Function[0].Name = "sync.(*Mutex).Unlock"
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// What is in a bundle is what was pushed, by process, and an analysis reads it so.
func TestBundle(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "bundle")
	r, clock := receiverAt(t, Options{Bundle: dir})
	goroutines, waited, released := pprofOf(t, "goroutine/count"), pprofOf(t, "contentions/count", "delay/nanoseconds"), mutexProfile(t)
	for range 2 {
		for _, instance := range []string{"a", "../../b"} {
			name := "shop{instance=" + instance + ",otel.scope.name=x}"
			send(t, r, push{name: name, profile: goroutines}, 200)
			name = strings.Replace(name, "name=x", "name=y", 1)
			send(t, r, push{name: name, profile: waited, config: blockConfig}, 200)
			send(t, r, push{name: name, profile: released, config: mutexConfig}, 200)
		}
		send(t, r, push{name: "shop{instance=a,zone=2}", profile: goroutines}, 200) // another a
		send(t, r, push{name: "shop{instance=a,zone=2}", profile: goroutines}, 200) // of the same moment
		clock.add(15 * time.Second)
	}
	const a, other, b = "profiles/shop-a-92295647b3eb/", "profiles/shop-a-038bd5411f31/", "profiles/shop-_._.._b-baf69ec30ea7/"
	want := []string{"bundle.json"}
	for _, of := range []string{b, other, a} {
		kinds, stamps := []string{"block", "goroutine", "mutex"}, []string{"00.123", "15.123"}
		if of == other {
			kinds, stamps = []string{"goroutine"}, []string{"00.123", "00.124", "15.123", "15.124"}
		}
		for _, kind := range kinds {
			for _, s := range stamps {
				want = append(want, of+kind+"-20261130T1000"+s+"Z.pb.gz")
			}
		}
	}
	if files := filesOf(t, dir); !slices.Equal(files, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(files, "\n"), strings.Join(want, "\n"))
	}
	for name, pushed := range map[string][]byte{a + "goroutine": goroutines, b + "block": waited, a + "mutex": released} {
		if data := readFile(t, filepath.Join(dir, name+"-20261130T100000.123Z.pb.gz")); !bytes.HasPrefix(data, pushed) {
			t.Errorf("%s is not as it was pushed", name)
		}
	}
	sample, loaded := r.Sample(t.Context()), ingest.Load(t.Context(), []string{dir}, ingest.Options{})
	for _, bundle := range []*ingest.Bundle{sample, loaded} {
		if len(bundle.Failures)+len(bundle.Warnings)+len(bundle.Unused) > 0 {
			t.Errorf("failures %v, warnings %v, unused %v", bundle.Failures, bundle.Warnings, bundle.Unused)
		}
		want := []string{
			"shop/../../b: 2; block over 15s, mutex over 15s, before block over 15s, before mutex over 15s",
			"shop/a: 2; block over 15s, mutex over 15s, before block over 15s, before mutex over 15s",
			"shop/shop-a-038bd5411f31: 4; ",
		}
		if got := processesOf(bundle); !slices.Equal(got, want) {
			t.Errorf("processes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// processesOf are the processes of a bundle in a line each, in order.
func processesOf(b *ingest.Bundle) (out []string) {
	for _, p := range b.Processes() {
		var ws []string
		for _, w := range p.Waits {
			ws = append(ws, fmt.Sprintf("%s over %v", w.Kind, w.Window))
		}
		for _, w := range p.Between {
			ws = append(ws, fmt.Sprintf("before %s over %v", w.Kind, w.Window))
		}
		out = append(out, fmt.Sprintf("%s/%s: %d; %s", p.Job, p.Instance, len(p.Snapshots), strings.Join(ws, ", ")))
	}
	slices.Sort(out)
	return out
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A receiver that starts again goes on with what is there: its window, its names, and what it has to drop.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := pprofOf(t, "goroutine/count")
	r, clock := receiverAt(t, Options{Bundle: dir})
	clock.at = time.Now() // files have the machine's time
	for range 3 {
		send(t, r, push{name: "shop{instance=a}", profile: data}, 200)
		send(t, r, push{name: "shop{instance=a,zone=2}", profile: data}, 200)
		clock.add(time.Second)
	}
	before := filesOf(t, dir)
	if err := os.WriteFile(filepath.Join(dir, partPrefix+"7"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, profilesDir, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := processesOf(r.Sample(t.Context()))
	r.Close()
	again, clock := receiverAt(t, Options{Bundle: dir})
	clock.at = time.Now()
	if got := processesOf(again.Sample(t.Context())); !slices.Equal(got, want) || len(want) != 2 {
		t.Errorf("processes %v, want %v", got, want)
	}
	if files := filesOf(t, dir); !slices.Equal(slices.DeleteFunc(files, func(f string) bool { return f == "profiles/notes.txt" }), before) {
		t.Errorf("files %v, want %v", files, before)
	}
	// What was held leaves first, and the file of a stranger stays.
	again.window.maxBytes = again.window.size
	clock.add(time.Second)
	again.window.maxBytes += 600
	send(t, again, push{name: "b", profile: data}, 200)
	clock.add(15*time.Minute + time.Second)
	if got := metrics(t, again); got["expired_total"] != "7" || got["held_profiles"] != "" {
		t.Errorf("%v, want 7 expired and none held", got)
	}
	if files := filesOf(t, dir); !slices.Equal(files, []string{"bundle.json", "profiles/notes.txt"}) {
		t.Errorf("files %v", files)
	}
}

// Two receivers would write over each other's profiles: the second is refused until the first ends.
func TestOneReceiver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, _ := receiverAt(t, Options{Bundle: dir})
	for range 2 { // also where nothing was pushed
		if _, err := New(Options{Window: time.Minute, MaxBytes: 1 << 20, Bundle: dir}); err == nil || !strings.Contains(err.Error(), "expected a bundle that no other contend receive writes to") {
			t.Errorf("a second receiver: %v", err)
		}
		send(t, r, push{name: "a", profile: pprofOf(t, "goroutine/count")}, 200)
	}
	if got := metrics(t, r); got["held_profiles"] != "2" {
		t.Errorf("%v, want 2 profiles as they were", got)
	}
	r.Close()
	again, _ := receiverAt(t, Options{Bundle: dir})
	again.Close()
}

// As many processes as there may be, with the longest names, do not keep a receiver from starting again.
func TestLongNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, clock := receiverAt(t, Options{Bundle: dir})
	clock.at = time.Now()
	data := pprofOf(t, "goroutine/count")
	for i := range maxProcesses - 1 { // in the bundle, without a list for each
		r.window.processes[fmt.Sprint(i)] = &process{folder: fmt.Sprintf("%060d", i), job: strings.Repeat("k", maxJob), instance: strings.Repeat("\"", maxInstance) + "…"}
	}
	send(t, r, push{name: strings.Repeat("j", maxJob) + "{instance=" + strings.Repeat("\"", maxLabelValue) + "}", profile: data}, 200)
	if info, err := os.Stat(filepath.Join(dir, capture.ManifestFile)); err != nil || info.Size() > maxManifest/4 {
		t.Errorf("the list has %v, %v; want less than a MB", info, err)
	}
	r.Close()
	again, _ := receiverAt(t, Options{Bundle: dir})
	if got, want := processesOf(again.Sample(t.Context())), []string{strings.Repeat("j", maxJob) + "/" + strings.Repeat("\"", maxInstance) + "…: 1; "}; !slices.Equal(got, want) {
		t.Errorf("processes %q, want %q", got, want)
	}
}

// What is put into a bundle meanwhile costs no profile and no memory, and does not stay for ever.
func TestPlanted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, clock := receiverAt(t, Options{Bundle: dir})
	clock.at = time.Now()
	data := pprofOf(t, "goroutine/count")
	send(t, r, push{name: "a", profile: data}, 200)
	r.Close()
	files := filesOf(t, dir)
	ahead := filepath.Join(dir, files[1])
	if err := os.Chtimes(ahead, time.Time{}, time.Now().AddDate(10, 0, 0)); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(ahead)
	for name, size := range map[string]int64{"goroutine-large.pb.gz": maxFile + 1, "goroutine-largest.pb.gz": maxFile} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(folder, name), size); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxProcesses { // one more than there may be
		of := filepath.Join(dir, profilesDir, fmt.Sprint("p", i))
		if err := os.Mkdir(of, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(of, "goroutine-1.pb.gz"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, clock := receiverAt(t, Options{Bundle: dir})
	clock.at = time.Now()
	if got := metrics(t, again); got["held_profiles"] != "1002" || got["processes"] != "1001" {
		t.Errorf("%v, want 1002 profiles of 1001 processes: all but the one that is too large", got)
	}
	send(t, again, push{name: "b", profile: data}, 429)
	send(t, again, push{name: "a", profile: data}, 200) // is known
	clock.add(15*time.Minute + time.Second)
	if got := metrics(t, again); got["held_profiles"] != "" {
		t.Errorf("%v, want all expired", got)
	}
	if left := filesOf(t, dir); len(left) != 2 || !strings.HasSuffix(left[1], "/goroutine-large.pb.gz") {
		t.Errorf("files %v, want the list and the one that is no receiver's", left)
	}
}

// What has left the window is not held by the arrays that it stood in.
func TestDropFrees(t *testing.T) {
	t.Parallel()
	r, clock := receiverAt(t, Options{})
	for range 2 {
		send(t, r, push{name: "a", profile: pprofOf(t, "goroutine/count")}, 200)
		clock.add(10 * time.Minute)
	}
	all := r.window.profiles
	of := all[0].of.profiles
	metrics(t, r) // expires the first
	if all[0] != nil || of[0] != nil || all[1] == nil || of[1] == nil {
		t.Errorf("%v and %v, want the first out of both and the second in both", all, of)
	}
}

// In a bundle the oldest make room.
func TestBundleFull(t *testing.T) {
	t.Parallel()
	data := pprofOf(t, "goroutine/count")
	dir := t.TempDir()
	r, clock := receiverAt(t, Options{Bundle: dir})
	send(t, r, push{name: "old", profile: data}, 200)
	clock.add(time.Second)
	for range 9 {
		send(t, r, push{name: "new", profile: data}, 200)
		clock.add(time.Second)
	}
	r.window.maxBytes = 5 * r.window.size / 10
	send(t, r, push{name: "new", profile: data}, 200)
	if got := metrics(t, r); got["accepted_total"] != "11" || got["expired_total"] != "6" || got["held_profiles"] != "5" || got["processes"] != "1" {
		t.Errorf("%v, want 11 accepted, 6 expired, 5 of 1 process held", got)
	}
	if files := filesOf(t, dir); len(files) != 6 || !strings.HasPrefix(files[1], "profiles/new-") {
		t.Errorf("files %v, want the list and 5 of new", files)
	}
}

// A disk that takes nothing is 503, nothing acknowledged and nothing left over.
func TestDiskTrouble(t *testing.T) {
	t.Parallel()
	data := pprofOf(t, "goroutine/count")
	dir := t.TempDir()
	r, _ := receiverAt(t, Options{Bundle: dir})
	health := func() int {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		return w.Code
	}
	// A file where the folder of the process is to be; root may write anywhere.
	if err := os.WriteFile(filepath.Join(dir, profilesDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if answer := send(t, r, push{name: "a", profile: data}, 503); strings.Contains(answer, dir) || !strings.Contains(answer, "is not kept") {
		t.Errorf("answer %q, want no path of this machine", answer)
	}
	if code := health(); code != 503 {
		t.Errorf("health %d, want 503", code)
	}
	if got, want := metrics(t, r), map[string]string{`rejected_total{reason="disk"}`: "1"}; !mapsEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := os.Remove(filepath.Join(dir, profilesDir)); err != nil {
		t.Fatal(err)
	}
	send(t, r, push{name: "a", profile: data}, 200)
	if code := health(); code != 200 {
		t.Errorf("health %d, want 200", code)
	}
	if files := filesOf(t, dir); len(files) != 2 {
		t.Errorf("files %v, want the list and one", files)
	}
}

// Opening what is no file can wait for ever.
func TestNoFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{capture.ManifestFile, lockFile} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Window: time.Minute, MaxBytes: 1 << 20, Bundle: dir}); err == nil || !strings.Contains(err.Error(), "name another directory") {
			t.Errorf("a directory as %s: %v", name, err)
		}
	}
}

// A directory that is not a receiver's is refused, and left as it is.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"saw another bundle":             {capture.ManifestFile: `{"schema":"contend.bundle/v1","taken":[]}`},
		"of another schema":              {capture.ManifestFile: `{"schema":"x","window":"1m"}`},
		"that is damaged":                {capture.ManifestFile: `{`},
		"with other files; name another": {"notes.txt": "mine"},
	} {
		dir := t.TempDir()
		for f, text := range files {
			if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if name == "of another schema" {
			name = "saw another bundle"
		}
		if _, err := New(Options{Window: time.Minute, MaxBytes: 1 << 20, Bundle: dir}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v, want an error with %q", files, err, name)
		}
		if got := filesOf(t, dir); len(got) != 1 {
			t.Errorf("files %v, want what was there", got)
		}
	}
}
