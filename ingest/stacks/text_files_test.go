package stacks

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readTextFile(t *testing.T, name string) []*Snapshot {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	snaps, err := ReadText(filepath.Base(name), r)
	if err != nil {
		t.Fatal(err)
	}
	return snaps
}

// Dumps from the field. The first line of a profile declares its goroutines;
// those of a dump are its header lines, but for goroutine 0.
func TestReadTextFiles(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"bee-kademlia-metrics-lure.txt":              "debug=1 4277/4277, 7 groups, 3247 [] sync.runtime_SemacquireMutex",
		"ddtrace-globalconfig-pushstat.txt":          "traceback 8/0, 8 groups, 1 [running] testing.(*M).startAlarm.func1",
		"gitea-sqlite-unlocknotify-labels-cgo.txt":   "debug=1 67/67, 7 groups, 31 [] code.gitea.io/gitea/modules/queue.(*ByteFIFOQueue).readToChan",
		"grpc-waitonheader-vendored.txt":             "debug=1 12/12, 6 groups, 3 [] google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader",
		"http-transport-maxconnsperhost-windows.txt": "traceback 24/0, 5 groups, 19 [select] net/http.(*Transport).getConn",
		"instana-recorder-rwmutex.txt":               "debug=1 1626/1626, 8 groups, 1595 [] sync.runtime_SemacquireMutex",
		"logrus-sigquit-cri-prefix.txt":              "traceback 34/0, 9 groups, 12 [semacquire] runtime.gopark",
		"mysql-idle-after-eleven.txt":                "debug=1 11/11, 8 groups, 2 [] database/sql.(*DB).connectionOpener",
		"mysql-new-pool-per-query.txt":               "debug=1 3949/3949, 7 groups, 1970 [] database/sql.(*DB).connectionOpener",
		"opencensus-init-cpu-spin.txt":               "traceback 8/0, 7 groups, 2 [GC worker (idle)] runtime.gopark",
		"pgxpool-puddle-cond.txt":                    "debug=1 3259/3259, 7 groups, 3251 [] sync.runtime_notifyListWait",
		"result-channel.debug1.txt":                  "debug=1 2070/2070, 9 groups, 1918 [] main.(*index).suggest.func1",
		"result-channel.debug2.txt.gz":               "debug=2 2071/0, 9 groups, 1919 [chan send] main.(*index).suggest.func1",
		"statsd-close-waitgroup-vs-mutex.txt":        "debug=2 6/0, 5 groups, 2 [semacquire] sync.runtime_SemacquireMutex",
		"torrent-client-lock-wrapped-sync.txt":       "debug=1 268/268, 6 groups, 120 [] internal/poll.runtime_pollWait",
		"torus-abba-server-distclient.txt":           "debug=2 7/0, 7 groups, 1 [chan receive] main.runServer",
		"transfer-abba.debug1.txt":                   "debug=1 402/402, 5 groups, 200 [] internal/poll.runtime_pollWait",
		"transfer-abba.debug2.txt.gz":                "debug=2 402/0, 5 groups, 200 [IO wait] internal/poll.runtime_pollWait",
		"zap-lockedwritesyncer-windows.txt":          "debug=2 14/0, 4 groups, 11 [semacquire] sync.runtime_SemacquireMutex",
	}
	files, err := filepath.Glob("testdata/text/*")
	if err != nil || len(files) != len(want) {
		t.Fatalf("found %d files, %v, want %d", len(files), err, len(want))
	}
	for _, name := range files {
		base := filepath.Base(name)
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			snaps := readTextFile(t, name)
			checkCounts(t, snaps)
			if len(snaps) != 1 {
				t.Fatalf("got %d snapshots", len(snaps))
			}
			s := snaps[0]
			l := s.Loss
			if l.Lost != 0 || l.Truncated || len(l.UnknownState) != 0 || len(s.Warnings) != 0 {
				t.Errorf("got loss %+v, warnings %q, want none", l, s.Warnings)
			}
			g := s.Groups[0]
			got := fmt.Sprintf("%s %d/%d, %d groups, %d [%s] %s", s.Format, l.Read, l.Declared, len(s.Groups), g.Count, g.Reason, g.Frames[0].Func)
			if got != want[base] {
				t.Errorf("got  %s\nwant %s", got, want[base])
			}
		})
	}
}

// Both text forms of one process, and dumps of eight Go releases, agree on
// how many goroutines there are.
func TestReadTextReleases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/versions/go1.*/*.txt.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snaps := readTextFile(t, name)
			checkCounts(t, snaps)
			if len(snaps) != 1 || snaps[0].Loss.Lost != 0 || len(snaps[0].Warnings) != 0 || len(snaps[0].Loss.UnknownState) != 0 {
				t.Fatalf("got %d snapshots, loss %+v, warnings %q", len(snaps), snaps[0].Loss, snaps[0].Warnings)
			}
			s := snaps[0]
			wantFormat := Traceback
			switch filepath.Base(name) {
			case "goroutine.debug1.txt.gz":
				wantFormat = Debug1
			case "goroutine.debug2.txt.gz":
				wantFormat = Debug2
			}
			if s.Format != wantFormat {
				t.Errorf("got format %s, want %s", s.Format, wantFormat)
			}
			// A SIGQUIT also shows the runtime's own goroutines.
			if n := s.Loss.Read; n != 186 && (n < 186 || filepath.Base(name) != "sigquit.txt.gz") {
				t.Errorf("read %d goroutines, want 186", n)
			}
			if s.Format == Debug1 && s.Loss.Declared != 186 {
				t.Errorf("declared %d, want 186", s.Loss.Declared)
			}
		})
	}
}
