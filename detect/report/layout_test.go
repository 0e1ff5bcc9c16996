package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"net/http.(*conn).serve", "net/http.(*conn).serve"},
		{"a\x1b[31mred", `a\x1b[31mred`},
		{"a\nb\r\tc", `a\nb\r\tc`},
		{"\u009b2J\x7f", `\x9b2J\x7f`},
		{"a\u202egpj.exe", "a\ufffdgpj.exe"},
		{"a\u2066\u200b\ufeff\u2028b", "a\ufffd\ufffd\ufffd\ufffdb"},
		{"a\xff\xfeb", "a\ufffd\ufffdb"},
		{"a\u00a0\u3000b", "a  b"},
		{"naïve·café", "naïve·café"},
		{"接続", "接続"},
		{strings.Repeat("x", maxText), strings.Repeat("x", maxText)},
		{strings.Repeat("x", maxText+1), strings.Repeat("x", maxText) + "…"},
	} {
		if got := Printable(tt.in); got != tt.want {
			t.Errorf("Printable(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want int
	}{
		{"", 0}, {"abc", 3}, {"接続", 4}, {"e\u0301", 1}, {"ｆｕｌｌ", 8}, {"half ｶﾅ", 7}, {"…█→", 3}, {"🔥", 2}, {"\u1112\u1161\u11ab", 2},
	} {
		if got := columns(tt.in); got != tt.want {
			t.Errorf("columns(%q) = %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in           string
		width, limit int
		want         []string
	}{
		{"", 10, 10, []string{""}},
		{"one two three", 13, 13, []string{"one two three"}},
		{"one two three", 12, 12, []string{"one two", "three"}},
		{"in a/b.Function", 12, 12, []string{"in", "a/b.Function"}},
		{"in ab/cd.Function", 11, 11, []string{"in", "ab/cd", ".Function"}},
		{"github.com/x/y", 12, 12, []string{"github.com/", "x/y"}},
		{"abcdefgh", 3, 3, []string{"abc", "def", "gh"}},
		{"接続待ち", 5, 5, []string{"接続", "待ち"}},
		{"in a/b.(*T).Method, it", 8, 16, []string{"in", "a/b.(*T).Method,", "it"}},
		{"in a/b.(*T).Method, it", 8, 15, []string{"in", "a/b", ".(*T)", ".Method,", "it"}},
		{strings.Repeat("x", 11), 4, 10, []string{"xxxx", "xxxx", "xxx"}},
		{strings.Repeat("x", 31), 10, 10, []string{strings.Repeat("x", 10), "…" + strings.Repeat("x", 9), strings.Repeat("x", 10)}},
		{"接続", 2, 3, []string{"接", "続"}},
	} {
		if got := wrap(tt.in, tt.width, tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("wrap(%q, %d, %d) = %q, want %q", tt.in, tt.width, tt.limit, got, tt.want)
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	const name = "github.com/prometheus/client_golang/prometheus.(*Registry).Register"
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{name, len(name), name},
		{name, len(name) - 1, "github.com/…/client_golang/prometheus.(*Registry).Register"},
		{name, 57, "github.com/…/prometheus.(*Registry).Register"},
		{name, 43, "…/prometheus.(*Registry).Register"},
		{name, 20, "…*Registry).Register"},
		{"main.f", 3, "….f"},
		{"", 3, ""},
	} {
		got := shorten(tt.in, tt.width)
		if columns(got) > tt.width {
			t.Errorf("shorten(%q, %d) = %q, too long", tt.in, tt.width, got)
		}
		if got != tt.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		share float64
		want  string
	}{
		{0, ""}, {0.001, "▏"}, {0.25, "█"}, {0.28125, "█▏"}, {0.96875, "███▉"}, {1, "████"}, {2, "████"}, {-1, ""}, {nan(), ""},
	} {
		if got := bar(tt.share, 4); got != tt.want {
			t.Errorf("bar(%v, 4) = %q, want %q", tt.share, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   float64
		want string
	}{
		{0, "0"}, {4038, "4,038"}, {3950.2, "3,950"}, {0.3, "0.3"}, {0.04, "<0.1"}, {99.94, "99.9"}, {99.96, "100"}, {1e20, "1e+20"}, {nan(), "NaN"}, {-2.5, "-2.5"},
	} {
		if got := number(tt.in); got != tt.want {
			t.Errorf("number(%v) = %q, want %q", tt.in, got, tt.want)
		}
	}
	for in, want := range map[float64]string{0: "0.0%", 1: "100.0%", 0.9999: ">99.9%", 0.0001: "<0.1%", 0.985: "98.5%"} {
		if got := percent(in); got != want {
			t.Errorf("percent(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestCommonDir(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"a/b"}, ""},
		{[]string{"a/b", "a/c"}, "a/"},
		{[]string{"a/b/c", "a/bc/d", "a/b/c"}, "a/"},
		{[]string{"a", "b"}, ""},
		{[]string{"a/b", ""}, ""},
		{[]string{"", "a/b"}, ""},
		{[]string{"/a", "/b"}, "/"},
		{[]string{"a/b/", "a/b/"}, "a/b/"},
		{[]string{"http://h/debug/pprof/goroutine", "http://h/debug/pprof/block"}, "http://h/debug/pprof/"},
		{[]string{"http://h/debug/pprof/goroutine", "http://h/debug/block"}, "http://h/debug/"},
		{[]string{"http://h/debug/pprof/goroutine", "http://prometheus:9090"}, ""},
		{[]string{"http://h", "https://h"}, ""},
	} {
		var list []detect.Input
		for _, name := range tt.names {
			list = append(list, detect.Input{Name: name})
		}
		if got := commonDir(list); got != tt.want {
			t.Errorf("commonDir(%q) = %q, want %q", tt.names, got, tt.want)
		}
	}
}

func TestCutMiddle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{"", 3, ""},
		{"goroutine.pb.gz", 15, "goroutine.pb.gz"},
		{"goroutine.pb.gz", 12, "goro…e.pb.gz"},
		{"goroutine.pb.gz", 1, "…"},
		{"接続接続", 7, "接…接続"},
		{"接続接続", 6, "接…続"},
	} {
		if got := cutMiddle(tt.in, tt.width); got != tt.want {
			t.Errorf("cutMiddle(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"ab cd", 4, "ab…"}, {"接続", 3, "接…"}, {"接続", 2, "…"},
	} {
		if got := Cut(tt.in, tt.width); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

func TestShortName(t *testing.T) {
	t.Parallel()
	list := []detect.Input{{Name: "a/x/g.txt"}, {Name: "b/x/g.txt"}, {Name: "b/x/h.txt"}, {Name: "g.pb"}, {Name: "c/g.pb"}, {Name: "d/"}}
	for _, tt := range []struct{ in, want string }{
		{"b/x/h.txt", "h.txt"},
		{"a/x/g.txt", "a/x/g.txt"},
		{"g.pb", "g.pb"},
		{"c/g.pb", "c/g.pb"},
		{"d/", "d/"},
		{"not/listed", "listed"},
		{"", ""},
	} {
		if got := shortName(tt.in, list); got != tt.want {
			t.Errorf("shortName(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
