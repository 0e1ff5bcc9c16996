package waits

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const blockText = `--- contention:
cycles/second=2000000000
6000 3 @ 0x46b2c1 0x46b2c2 0x70a123
#	0x46b2c0	internal/sync.(*Mutex).Lock+0x40	/usr/local/go/src/internal/sync/mutex.go:70
#	0x46b2c1	sync.(*Mutex).Lock+0x41			/usr/local/go/src/sync/mutex.go:46
#	0x70a122	main.(*cache[...]).get+0x22		C:/src/app/cache.go:41

2000 1 @ 0x46b2c1 0x46b2c2 0x70a200
#	0x46b2c0	internal/sync.(*Mutex).Lock+0x40	/usr/local/go/src/internal/sync/mutex.go:70
#	0x46b2c1	sync.(*Mutex).Lock+0x41			/usr/local/go/src/sync/mutex.go:46
#	0x70a1ff	main.(*cache[...]).get+0x22		C:/src/app/cache.go:41

1000 2 @ 0x47c210 0x70b000
#	0x47c20f	runtime.selectgo+0x8f	/usr/local/go/src/runtime/select.go:351
#	0x70afff

`

const mutexText = `--- mutex:
cycles/second=1000000000
sampling period=5
4000 2 @ 0x46b3c1 0x70a123
#	0x46b3c0	sync.(*Mutex).Unlock+0x40	/usr/local/go/src/sync/mutex.go:65
#	0x70a122	main.(*cache).get+0x22		/src/app/cache.go:50
`

// fromText reads a text of one profile.
func fromText(t *testing.T, text string) *Profile {
	t.Helper()
	all, err := FromText("x", strings.NewReader(text))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d profiles, error %v; want one", len(all), err)
	}
	return all[0]
}

func TestFromText(t *testing.T) {
	const note = "one of 5 events was sampled"
	tests := []struct {
		name, text string
		kind       Kind
		sites      []string
		warnings   []string // parts
	}{
		{"block", blockText, Block, []string{"4 4000 lock main.(*cache).get", "2 500 select 0x70afff"}, nil},
		{"windows line ends", strings.ReplaceAll(blockText, "\n", "\r\n"), Block, []string{"4 4000 lock main.(*cache).get", "2 500 select 0x70afff"}, nil},
		{"tabs made spaces", strings.ReplaceAll(blockText, "\t", "    "), Block, []string{"4 4000 lock main.(*cache).get", "2 500 select 0x70afff"}, nil},
		// 2 contentions and 4 µs are not multiplied by the period.
		{"mutex", mutexText, Mutex, []string{"2 4000 lock main.(*cache).get"}, []string{note}},
		{"text before", "HTTP/1.1 200 OK\n# not a frame\n\n" + mutexText, Mutex, []string{"2 4000 lock main.(*cache).get"}, []string{note}},
		{"empty", "--- mutex:\ncycles/second=1000000000\nsampling period=0\n", Mutex, nil, []string{"the profile is empty"}},
		{"names stripped", "--- mutex:\ncycles/second=1000000000\n4000 2 @ 0x46b3c1 0x70a123\n", Mutex, []string{"2 4000"}, []string{"1 of 1 samples have no function names"}},
		{"overflow", "--- mutex:\ncycles/second=1\n9000000000000000000 9000000000000000000 @ 0x1\n#\t0x1\tsync.(*Mutex).Unlock+0x1\tm.go:1\n", Mutex,
			[]string{"9000000000000000000 9223372036854775807 lock"}, nil},
		{"line too long", "--- mutex:\n" + strings.Repeat("x", 3*maxTextLine) + "\n" + strings.TrimPrefix(mutexText, "--- mutex:\n"), Mutex,
			[]string{"2 4000 lock main.(*cache).get"}, []string{"line 2: longer than 1024 KiB; the line was left out", note}},
		{"stack before its unit", "--- mutex:\n9 9 @ 0x1\n" + strings.TrimPrefix(mutexText, "--- mutex:\n"), Mutex,
			[]string{"2 4000 lock main.(*cache).get"}, []string{"line 2: a stack before cycles/second=N", note}},
		{"no end of line", strings.TrimSuffix(mutexText, "\n"), Mutex, []string{"2 4000 lock main.(*cache).get"}, []string{note}},
		{"bad lines", mutexText + "x y @ 0x1\n#\t0x1\tmain.lost+0x1\tf.go:1\n7 @\nnonsense\nfish=1\n#\ta\tb\tc\td\n", Mutex, []string{"2 4000 lock main.(*cache).get"},
			[]string{note, "line 7: no numbers", "line 8: a frame without a stack", "line 9: no stack of the form", "line 10: neither", "line 11: an attribute", "line 12: a frame without"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := fromText(t, tt.text)
			if p.Kind != tt.kind || !p.Taken.IsZero() || p.Window != 0 {
				t.Errorf("kind %s, taken %v, window %v", p.Kind, p.Taken, p.Window)
			}
			got := siteLines(p)
			if !slices.EqualFunc(got, tt.sites, strings.HasPrefix) {
				t.Errorf("sites %q, want %q", got, tt.sites)
			}
			if !slices.EqualFunc(p.Warnings, tt.warnings, strings.Contains) {
				t.Errorf("warnings %q, want %q", p.Warnings, tt.warnings)
			}
		})
	}
}

// A text of several profiles gives them all, each with its own warnings.
func TestFromTextSeveral(t *testing.T) {
	t.Parallel()
	unitless := "--- mutex:\n1 1 @ 0x1\n"
	tests := []struct {
		name, text string
		want       []string // name, kind, sites, warnings
	}{
		{"block and mutex", blockText + mutexText, []string{"x block 2 0", "x#2 mutex 1 1"}},
		{"two of one kind", mutexText + mutexText, []string{"x mutex 1 1", "x#2 mutex 1 1"}},
		{"second unreadable", blockText + unitless, []string{"x block 2 1"}},
		{"first unreadable", unitless + blockText, []string{"x block 2 1"}},
		{"too many", strings.Repeat(mutexText, maxTextProfiles) + mutexText + mutexText, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all, err := FromText("x", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == nil {
				last := all[len(all)-1]
				if len(all) != maxTextProfiles || len(last.Warnings) != 2 || !strings.Contains(last.Warnings[1], "more than 100 profiles") {
					t.Errorf("%d profiles, warnings of the last %q", len(all), last.Warnings)
				}
				return
			}
			var got []string
			for _, p := range all {
				got = append(got, fmt.Sprintf("%s %s %d %d", p.Name, p.Kind, len(p.Sites), len(p.Warnings)))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFromTextFrames(t *testing.T) {
	p := fromText(t, blockText)
	var got []string
	for _, f := range p.Sites[0].Frames {
		got = append(got, fmt.Sprintf("%s %s:%d", f.Func, f.File, f.Line))
	}
	want := []string{
		"internal/sync.(*Mutex).Lock /usr/local/go/src/internal/sync/mutex.go:70",
		"sync.(*Mutex).Lock /usr/local/go/src/sync/mutex.go:46",
		"main.(*cache).get C:/src/app/cache.go:41",
	}
	if !slices.Equal(got, want) {
		t.Errorf("frames %q, want %q", got, want)
	}
	if p.Sites[0].Delay != 4*time.Microsecond {
		t.Errorf("delay %v, want 8000 ticks at 2 GHz", p.Sites[0].Delay)
	}
}

func TestFromTextRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `saw no line "--- contention:" or "--- mutex:"`,
		"goroutine profile: total 1\n": `saw no line "--- contention:" or "--- mutex:"`,
		"--- mutex:\n1 1 @ 0x1\n":      "expected cycles/second=N",
	} {
		if _, err := FromText("x", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestFromTextWarningsAreFew(t *testing.T) {
	p := fromText(t, mutexText+strings.Repeat("nonsense\n", 1000))
	if len(p.Warnings) != maxTextWarnings+1 {
		t.Errorf("%d warnings, want %d", len(p.Warnings), maxTextWarnings+1)
	}
}

func FuzzFromText(f *testing.F) {
	f.Add([]byte(blockText))
	f.Add([]byte(mutexText))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := FromText("fuzz", strings.NewReader(string(data)))
		if (err == nil) != (len(all) > 0) {
			t.Fatalf("%d profiles, error %v", len(all), err)
		}
		for _, p := range all {
			checkSane(t, p)
		}
	})
}
