package stacks

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// summary writes what was read of a text in a form short enough to expect.
func summary(snaps []*Snapshot) string {
	var b strings.Builder
	for _, s := range snaps {
		l := s.Loss
		fmt.Fprintf(&b, "%s %s read %d", s.Name, s.Format, l.Read)
		for _, n := range []struct {
			name string
			n    int64
		}{{"declared", l.Declared}, {"lost", l.Lost}, {"elided", l.ElidedFrames}, {"nostack", l.NoStack}} {
			if n.n != 0 {
				fmt.Fprintf(&b, " %s %d", n.name, n.n)
			}
		}
		if l.Truncated {
			b.WriteString(" truncated")
		}
		for _, state := range slices.Sorted(maps.Keys(l.UnknownState)) {
			fmt.Fprintf(&b, " unknown %q %d", state, l.UnknownState[state])
		}
		b.WriteString("\n")
		for _, g := range s.Groups {
			fmt.Fprintf(&b, "%d [%s]", g.Count, g.Reason)
			for i, f := range g.Frames {
				sep := " < "
				if i == 0 {
					sep = " "
				}
				fmt.Fprintf(&b, "%s%s", sep, f.Func)
				if f.File != "" {
					fmt.Fprintf(&b, " %s:%d", f.File, f.Line)
				}
			}
			if g.CreatedBy != nil {
				fmt.Fprintf(&b, " by %s %s:%d", g.CreatedBy.Func, g.CreatedBy.File, g.CreatedBy.Line)
			}
			if g.Aged > 0 {
				fmt.Fprintf(&b, " aged %d %d-%d", g.Aged, g.MinMinutes, g.MaxMinutes)
			}
			if g.Leaked > 0 {
				fmt.Fprintf(&b, " leaked %d", g.Leaked)
			}
			if g.Elided > 0 {
				fmt.Fprintf(&b, " elided %d", g.Elided)
			}
			for _, k := range slices.Sorted(maps.Keys(g.Labels)) {
				fmt.Fprintf(&b, " label %q=%q", k, g.Labels[k])
			}
			for _, a := range slices.Sorted(maps.Keys(g.Locks)) {
				fmt.Fprintf(&b, " lock %#x=%d", a, g.Locks[a])
			}
			b.WriteString("\n")
		}
		for _, w := range s.Warnings {
			fmt.Fprintf(&b, "! %s\n", w)
		}
	}
	return b.String()
}

// Two goroutines and how they are read; most dirt is put around these.
const (
	clean = `goroutine 1 [select]:
main.main()
	/src/main.go:8 +0x1d

goroutine 7 [chan receive, 3 minutes]:
main.(*T).work(0xc000010000)
	/src/t.go:9 +0x2e
created by main.start in goroutine 1
	/src/t.go:4 +0x3f
`
	cleanWant = `x debug=2 read 2
1 [select] main.main /src/main.go:8
1 [chan receive] main.(*T).work /src/t.go:9 by main.start /src/t.go:4 aged 1 3-3
`
)

func eachLine(text, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
}

// stamped puts a different time on each line, as a collector does.
func stamped(text, format string) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fmt.Fprintf(&b, format, i)
		b.WriteString(line + "\n")
	}
	return b.String()
}

func records(text, open, end string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(open + escape(line+"\n") + end + "\n")
	}
	return b.String()
}

func utf16Text(s string, big bool) string {
	var b []byte
	for _, r := range "\ufeff" + s {
		if big {
			b = append(b, byte(r>>8), byte(r))
		} else {
			b = append(b, byte(r), byte(r>>8))
		}
	}
	return string(b)
}

func escape(s string) string {
	return strings.NewReplacer("\\", `\\`, "\n", `\n`, "\t", `\t`, `"`, `\"`, "<", `\u003c`).Replace(s)
}

func TestReadTextDirt(t *testing.T) {
	t.Parallel()
	traceback := strings.Replace(cleanWant, "debug=2", "traceback", 1)
	tests := []struct{ name, text, want string }{
		{"clean", clean, cleanWant},
		{"no newline at the end", strings.TrimSuffix(clean, "\n"), cleanWant},
		{"windows line ends", strings.ReplaceAll(clean, "\n", "\r\n"), cleanWant},
		{"empty line after each", strings.ReplaceAll(clean, "\n", "\n\n"), cleanWant},
		{"spaces for tabs", strings.ReplaceAll(clean, "\t", "        "), cleanWant},
		{"no indentation", strings.ReplaceAll(clean, "\t", ""), cleanWant},
		{"rsyslog's tabs", strings.ReplaceAll(clean, "\t", "#011"), cleanWant},
		{"indented", eachLine(clean, "    "), cleanWant},
		{"text around", "starting (v1)\nlistening on :80\n\n" + clean + "\nserver closed\nbye main()\n", cleanWant},
		{"text inside", strings.ReplaceAll(clean, "\n\t", "\n10:00:01 GET /healthz 200\n\t"), cleanWant},
		{"text between", strings.Replace(clean, "\n\n", "\n2024/01/01 10:00:00 slow query (3s)\n\nx\n\n", 1), cleanWant},
		{"cri", stamped(clean, "2024-08-27T10:14:%02d.5Z stderr F "), cleanWant},
		{"cri with trimmed blanks", strings.ReplaceAll(eachLine(clean, "2024-08-27T10:14:00.51Z stderr F "), "F \n", "F\n"), cleanWant},
		{"cri partial line", strings.Replace(stamped(clean, "2024-08-27T10:14:%02d.5Z stderr F "), "F main.(*T).work(", "P main.(*T).\n2024-08-27T10:14:02.9Z stderr F work(", 1), cleanWant},
		{"syslog", stamped(clean, "Aug %2d 10:00:00 host app[123]: "), cleanWant},
		{"docker-compose", eachLine(clean, "app_1  | "), cleanWant},
		{"brackets", eachLine(clean, "[app] "), cleanWant},
		{"only the header has a prefix", strings.Replace(clean, "goroutine 1", "2024/01/01 10:00:00 stacks: goroutine 1", 1), cleanWant},
		{"two streams", strings.Replace(eachLine(clean, "T1 stderr F "), "stderr F main.main", "stdout F main.main", 1), cleanWant},
		{"docker json", records(clean, `{"log":"`, `","stream":"stderr","time":"2024-08-27T10:14:00.5Z"}`), cleanWant},
		{"go test json", records(clean, `{"Time":"2024-08-27T10:14:00.5Z","Action":"output","Output":"`, `"}`), cleanWant},
		{"one json record", `{"level":"error","stack":"` + escape(clean) + `","n":1}` + "\n", cleanWant},
		{"json in json", `{"log":"` + escape(`{"level":"error","stack":"`+escape(clean)+`","n":1}`) + `\n"}` + "\n", cleanWant},
		{"json behind a prefix", `2024-08-27T10:14:00.5Z stderr F {"msg":"` + escape(clean) + `"}` + "\n", cleanWant},
		{"header after text within json", `{"a":"b","msg":"stacks: ` + escape(clean) + `"}` + "\n", cleanWant},
		{"escaped without quotes", `{"a":1} stacks=` + escape(clean) + "\n", cleanWant},
		{"journal json", strings.ReplaceAll(records(clean, `{"PRIORITY":"6","MESSAGE":"`, `","_PID":"1"}`), `\n"`, `"`), cleanWant},
		{"blanks at the ends of lines", strings.ReplaceAll(clean, "\n", "  \n"), cleanWant},
		{"byte order mark", "\ufeff" + clean, cleanWant},
		{"utf-16", utf16Text(clean, false), cleanWant},
		{"utf-16, big end first", utf16Text(clean, true), cleanWant},
		{"escaped, at the beginning of a line", escape(clean) + "\n", cleanWant},
		{"header within prose", "saw goroutine 5 [select]: it is stuck\n" + clean, cleanWant},
		{"another pod's lines", strings.ReplaceAll(eachLine(clean, "[pod-a] "), "\n[pod-a] \t", "\n[pod-b] main.x(0x1)\n[pod-b] \t/y.go:1 +0x1\n[pod-a] \t"), cleanWant},
		{"windows exception", "Exception 0xc0000005 0x0 0x0 0x0\nPC=0x0\n\n" + clean, traceback},
		{"logfmt", `time=2024 level=error msg="` + escape(clean) + `" n=1` + "\n", cleanWant},
		{"json after other records", `{"msg":"goroutine count","n":3}` + "\n" + `{"msg":"` + escape(clean) + `"}` + "\n", cleanWant},
		{"panic within json", `{"msg":"` + escape("panic: boom\n\n"+clean) + `"}` + "\n", traceback},
		{"panic", "panic: boom\n\n" + clean, traceback},
		{"panic behind a prefix", eachLine("panic: boom\n\n"+clean, "[app] "), traceback},
		{"fatal error", "fatal error: all goroutines are asleep - deadlock!\n\n" + clean + "exit status 2\n", traceback},
		{"exit status", clean + "exit status 2\n", traceback},
		{"registers", "SIGQUIT: quit\nPC=0x480661 m=0 sigcode=0\n\n" + clean + "\nrax    0xca\nrbx    0x0\nrip    0x480661\n", traceback},
		{"scheduler's stack", "SIGQUIT: quit\nPC=0x480661 m=0 sigcode=0\n\ngoroutine 0 [idle]:\nruntime.futex(0x1, 0x80)\n\t/go/src/runtime/sys.s:5 +0x21 fp=0x7f sp=0x7e pc=0x48\n\n" + clean, traceback},
		{"runtime stack", "fatal error: x\n\nruntime stack:\nruntime.throw({0x1, 0x2})\n\t/go/src/runtime/panic.go:1 +0x1\n\n" + clean, traceback},
		{"race report", "==================\nWARNING: DATA RACE\nRead at 0x00c by goroutine 7:\n  main.f()\n      /src/x.go:5 +0x1\n\nGoroutine 7 (running) created at:\n  main.g()\n      /src/x.go:9 +0x1\n==================\n" + clean, cleanWant},
		{"cut header", clean + "\ngoroutine 9 [chan re", strings.Replace(cleanWant, "read 2", "read 2 lost 1 truncated", 1) +
			"! line 11: goroutine header not understood: \"goroutine 9 [chan re\"\n! line 11: the input ends in the middle of a goroutine\n"},
		{"cut after a header", clean + "\ngoroutine 9 [select]:\n", strings.Replace(cleanWant, "read 2", "read 2 lost 1 truncated", 1) +
			"! line 11: goroutine 9 has no stack\n! line 11: the input ends in the middle of a goroutine\n"},
		{"header without a stack", "goroutine 9 [select]:\n\n" + clean, strings.Replace(cleanWant, "read 2", "read 2 lost 1", 1) + "! line 1: goroutine 9 has no stack\n"},
		{"header not understood", strings.Replace(clean, "[select]:", "[select", 1), "x debug=2 read 1 lost 1\n" + strings.SplitAfter(cleanWant, "\n")[2] +
			"! line 1: goroutine header not understood: \"goroutine 1 [select\"\n"},
		{"stack without a header", strings.TrimPrefix(clean, "goroutine 1 [select]:\n"), "x debug=2 read 1 lost 1\n" + strings.SplitAfter(cleanWant, "\n")[2] +
			"! line 2: a stack without its goroutine header\n"},
		{"stack without a header between", clean + "\ngarbage\nmain.x()\n\t/src/x.go:1 +0x1\n", strings.Replace(cleanWant, "read 2", "read 2 lost 1", 1) +
			"! line 13: a stack without its goroutine header\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// One byte at a time must be the same as all at once.
			for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				snaps, err := ReadText("x", r)
				if err != nil {
					t.Fatal(err)
				}
				if got := summary(snaps); got != tt.want {
					t.Errorf("got\n%s\nwant\n%s\nof\n%s", got, tt.want, tt.text)
				}
			}
		})
	}
}

func TestReadTextForms(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"go 1.1", "goroutine 1 [chan receive]:\nmain.main()\n\t/home/u/x.go:8 +0x45\n\ngoroutine 2 [syscall]:\ncreated by runtime.main\n\t/go/src/pkg/runtime/proc.c:221\n",
			"x debug=2 read 2\n1 [chan receive] main.main /home/u/x.go:8\n1 [syscall] by runtime.main /go/src/pkg/runtime/proc.c:221\n"},
		{"windows paths", "goroutine 1 [select]:\nmain.main()\n\tC:/Program Files/app x/main.go:12 +0x1\n", "x debug=2 read 1\n1 [select] main.main C:/Program Files/app x/main.go:12\n"},
		{"vendor, generics, method values", "goroutine 1 [select]:\napp/vendor/g.io/a.(*P[...]).Get(0xc000010000)\n\t/app/vendor/g.io/a/p.go:1 +0x1\nmain.T.M-fm()\n\t<autogenerated>:1 +0x1\nmain.(*struct { sync.Mutex }).Lock(0x1)\n\t<autogenerated>:1 +0x1\n",
			"x debug=2 read 1\n1 [select] g.io/a.(*P).Get /app/vendor/g.io/a/p.go:1 < main.T.M-fm <autogenerated>:1 < main.(*struct { sync.Mutex }).Lock <autogenerated>:1\n"},
		{"no file lines", "goroutine 1 [select]:\nmain.f(...)\nmain.main()\n\ngoroutine 2 [select]:\nmain.g()\ncreated by main.main\n",
			"x debug=2 read 2\n1 [select] main.f < main.main\n1 [select] main.g by main.main :0\n"},
		{"locked, bubble, scan, durable", "goroutine 1 [select (scan) (durable), 2 minutes, locked to thread, synctest bubble 3]:\nmain.main()\n\t/x.go:1 +0x1\n",
			"x debug=2 read 1\n1 [select] main.main /x.go:1 aged 1 2-2\n"},
		{"reasons in parentheses", "goroutine 1 [chan receive (nil chan)]:\nmain.main()\n\t/x.go:1 +0x1\n\ngoroutine 2 [select (no cases)]:\nmain.main()\n\t/x.go:1 +0x1\n",
			"x debug=2 read 2\n1 [chan receive (nil chan)] main.main /x.go:1\n1 [select (no cases)] main.main /x.go:1\n"},
		{"leaked", "goroutine 1 [chan send (leaked)]:\nmain.main()\n\t/x.go:1 +0x1\n", "x debug=2 read 1\n1 [chan send] main.main /x.go:1 leaked 1\n"},
		{"unknown state", "goroutine 1 [dancing, 1 minutes]:\nmain.main()\n\t/x.go:1 +0x1\n", "x debug=2 read 1 unknown \"dancing\" 1\n1 [dancing] main.main /x.go:1 aged 1 1-1\n"},
		{"labels after the brackets", "goroutine 1 [select] {k: v, \"a]b\": \"c}:d \\\"q\\\"\"}:\nmain.main()\n\t/x.go:1 +0x1\n",
			"x debug=2 read 1\n1 [select] main.main /x.go:1 label \"a]b\"=[\"c}:d \\\"q\\\"\"] label \"k\"=[\"v\"]\n"},
		{"labels inside the brackets", "goroutine 1 [select, 4 minutes labels:{\"k\": \"v\", \"a]b\": \"c}:d\"}]:\nmain.main()\n\t/x.go:1 +0x1\n",
			"x debug=2 read 1\n1 [select] main.main /x.go:1 aged 1 4-4 label \"a]b\"=[\"c}:d\"] label \"k\"=[\"v\"]\n"},
		{"gp and mp", "goroutine 5 gp=0xc000006c40 m=nil [select]:\nmain.main()\n\t/x.go:1 +0x1 fp=0xc00004 sp=0xc00003 pc=0x48\n\ngoroutine 6 gp=0xc000006c40 m=3 mp=0xc0000 [running]:\n\tgoroutine running on other thread; stack unavailable\ncreated by main.main in goroutine 1\n\t/x.go:2 +0x1\n",
			"x traceback read 2 nostack 1\n1 [select] main.main /x.go:1\n1 [running] by main.main /x.go:2\n"},
		{"threads", "SIGQUIT: quit\nPC=0x1 m=0 sigcode=0\n\ngoroutine 1 [select]:\nmain.main()\n\t/x.go:1 +0x1\n\ngoroutine 6 [running]:\n\tgoroutine running on other thread; stack unavailable\n\n-----\n\nSIGQUIT: quit\nPC=0x2 m=3 sigcode=0\n\ngoroutine 6 [running]:\nmain.spin()\n\t/x.go:9 +0x1\n",
			"x traceback read 2\n1 [select] main.main /x.go:1\n1 [running] main.spin /x.go:9\n"},
		{"ancestors", "goroutine 5 [select]:\nmain.f()\n\t/x.go:1 +0x1\ncreated by main.g\n\t/x.go:2 +0x1\n[originating from goroutine 4]:\nmain.g(...)\n\t/x.go:3 +0x1\ncreated by main.main\n\t/x.go:4 +0x1\n[originating from goroutine 1]:\nmain.main(...)\n\t/x.go:5 +0x1\n\ngoroutine 6 [select]:\nmain.h()\n\t/x.go:1 +0x1\n",
			"x debug=2 read 2\n1 [select] main.f /x.go:1 by main.g /x.go:2\n1 [select] main.h /x.go:1\n"},
		{"ancestors of a goroutine without a creator", "goroutine 5 [select]:\nmain.f()\n\t/x.go:1 +0x1\n[originating from goroutine 1]:\nmain.main(...)\n\t/x.go:5 +0x1\n\n", "x debug=2 read 1\n1 [select] main.f /x.go:1\n"},
		{"elided", "goroutine 5 [select]:\nmain.f()\n\t/x.go:1 +0x1\n...23 frames elided...\nmain.g()\n\t/x.go:2 +0x1\n\ngoroutine 6 [select]:\nmain.f()\n\t/x.go:1 +0x1\n...additional frames elided...\ncreated by main.g\n\t/x.go:2 +0x1\n",
			"x debug=2 read 2 elided 24\n1 [select] main.f /x.go:1 < main.g /x.go:2 elided 23\n1 [select] main.f /x.go:1 by main.g /x.go:2 elided 1\n"},
		{"cgo", "goroutine 5 [syscall]:\nnon-Go function\n\tpc=0x7f00\nc_wait\n\t/src/w.c:12 pc=0x7f01\nruntime.cgocall(0x1, 0x2)\n\t/go/src/runtime/cgocall.go:157 +0x5c\nmain._Cfunc_wait(0x0)\n\t_cgo_gotypes.go:45 +0x4b\ncrosscall2(0x1, 0x2)\n\t/go/src/runtime/cgo/asm.s:1 +0x1\n",
			"x debug=2 read 1\n1 [syscall] non-Go function < c_wait /src/w.c:12 < runtime.cgocall /go/src/runtime/cgocall.go:157 < main._Cfunc_wait _cgo_gotypes.go:45 < crosscall2 /go/src/runtime/cgo/asm.s:1\n"},
		{"panic frame", "panic: x\n\ngoroutine 5 [running]:\npanic({0x1, 0x2})\n\t/go/src/runtime/panic.go:884 +0x1\nmain.f()\n\t/x.go:1 +0x1\n",
			"x traceback read 1\n1 [running] runtime.gopanic /go/src/runtime/panic.go:884 < main.f /x.go:1\n"},
		{"same stack, other state or creator", "goroutine 1 [select]:\nmain.f()\n\t/x.go:1 +0x1\n\ngoroutine 2 [sleep]:\nmain.f()\n\t/x.go:1 +0x2\n\ngoroutine 3 [sleep, 7 minutes]:\nmain.f()\n\t/x.go:1 +0x1\n\ngoroutine 4 [sleep]:\nmain.f()\n\t/x.go:1 +0x1\ncreated by main.g\n\t/x.go:2 +0x1\n\ngoroutine 5 [select]:\nmain.f()\n\t/x.go:11 +0x1\n",
			"x debug=2 read 5\n2 [sleep] main.f /x.go:1 aged 1 7-7\n1 [select] main.f /x.go:1\n1 [sleep] main.f /x.go:1 by main.g /x.go:2\n1 [select] main.f /x.go:11\n"},
		{"counts", "goroutine profile: total 6\n3 @ 0x1 0x2\n#\t0x1\tmain.(*T[...]).f+0x1d\t\t/src/main.go:8\n#\t0x2\tmain.main+0x1\t/src/a b/main.go:9\n\n2 @ 0x1\n# labels: {\"a}\":\"b, c\", \"k\":\"v\"}\n#       0x1     main.g+0x1d     C:/src/main.go:10\n\n1 @ 0x7\n#\t0x7\n\n",
			"x debug=1 read 6 declared 6\n3 [] main.(*T).f /src/main.go:8 < main.main /src/a b/main.go:9\n2 [] main.g C:/src/main.go:10 label \"a}\"=[\"b, c\"] label \"k\"=[\"v\"]\n1 [] 0x7\n"},
		{"counts behind a prefix", eachLine("goroutine profile: total 3\n3 @ 0x1 0x2\n#\t0x1\tmain.f+0x1d\t/src/main.go:8\n", "pod-x | "), "x debug=1 read 3 declared 3\n3 [] main.f /src/main.go:8\n"},
		{"same stack, other labels", "goroutine profile: total 2\n1 @ 0x1\n# labels: {\"k\":\"v\"}\n#\t0x1\tmain.g+0x1\t/x.go:1\n\n1 @ 0x1\n# labels: {\"k\":\"w\"}\n#\t0x1\tmain.g+0x1\t/x.go:1\n\n",
			"x debug=1 read 2 declared 2\n2 [] main.g /x.go:1 label \"k\"=[\"v\" \"w\"]\n"},
		{"counts without the beginning", "#\t0x1\tmain.f+0x1d\t/src/main.go:8\n#\t0x2\tmain.g+0x1\t/x.go:1\n\n2 @ 0x1\n#\t0x1\tmain.f+0x1d\t/src/main.go:8\n",
			"x debug=1 read 2 lost 1\n2 [] main.f /src/main.go:8\n! line 1: a stack without its count\n"},
		{"counts cut", "goroutine profile: total 6\n3 @ 0x1 0x2\n#\t0x1\tmain.f+0x1d\t/src/main.go:8\n\n2 @ 0x1\n#\t0x1\tma",
			"x debug=1 read 3 declared 6 lost 3 truncated\n3 [] main.f /src/main.go:8\n! line 6: frame not understood: \"#\\t0x1\\tma\"\n! line 5: no stack could be read for 2 goroutines\n! line 6: the input ends in the middle of a goroutine\n! the profile declares 6 goroutines, 3 were read\n"},
		{"counts, not run yet", "goroutine profile: total 1\n1 @ 0x1\n\n", "x debug=1 read 1 declared 1\n1 []\n"},
		{"leak profile", "goroutineleak profile: total 1\n1 @ 0x1\n#\t0x1\tmain.f+0x1d\t/src/main.go:8\n", "x goroutineleak read 1 declared 1\n1 [] main.f /src/main.go:8\n"},
		{"no leaks", "goroutineleak profile: total 0\n", "x goroutineleak read 0\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			snaps, err := ReadText("x", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(snaps); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s\nof\n%s", got, tt.want, tt.text)
			}
		})
	}
}

func TestReadTextSeveralDumps(t *testing.T) {
	t.Parallel()
	dump := func(name, format string) string {
		return strings.Replace(strings.Replace(cleanWant, "x ", name+" ", 1), "debug=2", format, 1)
	}
	counts := "goroutine profile: total 1\n1 @ 0x1\n#\t0x1\tmain.f+0x1d\t/src/main.go:8\n\n"
	countsWant := " debug=1 read 1 declared 1\n1 [] main.f /src/main.go:8\n"
	writer := "goroutine 99 [running]:\nruntime/pprof.writeGoroutineStacks({0x1, 0x2})\n\t/go/p.go:1 +0x1\n\n"
	writerWant := "1 [running] runtime/pprof.writeGoroutineStacks /go/p.go:1\n"
	withWriter := func(name string) string {
		lines := strings.SplitAfterN(strings.Replace(dump(name, "debug=2"), "read 2", "read 3", 1), "\n", 2)
		return lines[0] + writerWant + lines[1]
	}
	tests := []struct{ name, text, want string }{
		{"ids repeat", clean + "\n" + clean, dump("x", "debug=2") + dump("x#2", "debug=2")},
		{"the writer comes first", writer + clean + "\n" + strings.Replace(writer, "99", "100", 1) + clean, withWriter("x") + withWriter("x#2")},
		{"counts then goroutines", counts + clean, "x" + countsWant + dump("x#2", "debug=2")},
		{"goroutines then counts, twice", clean + "\n" + counts + counts, dump("x", "debug=2") + "x#2" + countsWant + "x#3" + countsWant},
		{"dump then panic of another process", clean + "\npanic: boom\n\ngoroutine 50 [running]:\nmain.f()\n\t/x.go:1 +0x1\nexit status 2\n",
			dump("x", "debug=2") + "x#2 traceback read 1\n1 [running] main.f /x.go:1\n"},
		{"two signals behind a prefix", eachLine("SIGQUIT: quit\n\n"+clean+"\nSIGQUIT: quit\n\n"+strings.ReplaceAll(clean, "goroutine ", "goroutine 3"), "[a] "),
			dump("x", "traceback") + dump("x#2", "traceback")},
		{"recovered panics", "http: panic serving 10.0.0.1:80: boom\ngoroutine 50 [running]:\nmain.f()\n\t/x.go:1 +0x1\n2024/01/01 http: panic serving 10.0.0.1:80: boom\ngoroutine 51 [running]:\nmain.f()\n\t/x.go:1 +0x1\n",
			"x traceback read 1\n1 [running] main.f /x.go:1\nx#2 traceback read 1\n1 [running] main.f /x.go:1\n"},
		{"rules between dumps", clean + "-----\n" + clean, dump("x", "debug=2") + "x#2 debug=2" + strings.TrimPrefix(cleanWant, "x debug=2")},
		{"a thread prints its goroutine again", "SIGQUIT: quit\n\n" + clean + "\n-----\n\nSIGQUIT: quit\n\ngoroutine 7 [chan receive]:\nmain.f()\n\t/x.go:1 +0x1\n", dump("x", "traceback")},
		{"rules between crashes", "SIGQUIT: quit\n\n" + clean + "-----\nSIGQUIT: quit\n\n" + clean, dump("x", "traceback") + "x#2 traceback read 1 lost 1\n" + strings.SplitAfter(cleanWant, "\n")[2] +
			"! line 19: one goroutine before this was taken for one of the dump before\n"},
		{"titles", "=== goroutine dump 1 ===\n" + clean + "\n=== goroutine dump 2 ===\ngoroutine 50 [select]:\nmain.f()\n\t/x.go:1 +0x1\n",
			dump("x", "debug=2") + "x#2 debug=2 read 1\n1 [select] main.f /x.go:1\n"},
		{"threads are not goroutines", "threadcreate profile: total 2\n2 @ 0x1\n#\t0x1\tmain.f+0x1d\t/src/main.go:8\n\n" + counts, "x" + countsWant},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			snaps, err := ReadText("x", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(snaps); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s\nof\n%s", got, tt.want, tt.text)
			}
		})
	}
}

const lockDump = `goroutine 21 [sync.Mutex.Lock, 2 minutes]:
internal/sync.runtime_SemacquireMutex(0xc0006b3e24?, 0x0?, 0x1?)
	/go/src/runtime/sema.go:95 +0x25
internal/sync.(*Mutex).lockSlow(0xc0006b3e20)
	/go/src/internal/sync/mutex.go:149 +0x15d
internal/sync.(*Mutex).Lock(...)
	/go/src/internal/sync/mutex.go:70
sync.(*Mutex).Lock(...)
	/go/src/sync/mutex.go:46
main.(*R).get(0xc0006b3e00, {0x1, _}, ...)
	/x.go:1 +0x1
main.f({{0xc0001?, 0x2}, 0x3})
	/x.go:2 +0x1
created by main.main in goroutine 17
	/x.go:3 +0x1

`

func TestReadTextLocksAndMembers(t *testing.T) {
	t.Parallel()
	other := strings.NewReplacer("goroutine 21", "goroutine 22", ", 2 minutes", "", "lockSlow(0xc0006b3e20)", "lockSlow(0xc0006b3f20)").Replace(lockDump)
	third := strings.NewReplacer("goroutine 21", "goroutine 23", ", 2 minutes", "", "lockSlow(0xc0006b3e20)", "lockSlow(0xc0006b3e20?)").Replace(lockDump)
	snaps, err := ReadText("x", strings.NewReader(lockDump+other+third+strings.Replace(lockDump, "21", "24", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if len(snaps) != 1 || len(snaps[0].Groups) != 1 {
		t.Fatalf("got %s", summary(snaps))
	}
	g := snaps[0].Groups[0]
	if want := map[uint64]int64{0xc0006b3e20: 2, 0xc0006b3f20: 1}; !maps.Equal(g.Locks, want) {
		t.Errorf("got locks %#v, want %#v", g.Locks, want)
	}
	args := func(lock Word) []Word {
		return []Word{NewWord(0xc0006b3e24, true), lock, 0, 0, 0xc0006b3e00, NewWord(0xc0001, true)}
	}
	want := []Member{
		{ID: 21, Creator: 17, Minutes: 2, Lock: 0xc0006b3e20, Args: args(0xc0006b3e20)},
		{ID: 22, Creator: 17, Lock: 0xc0006b3f20, Args: args(0xc0006b3f20)},
		{ID: 23, Creator: 17, Args: args(NewWord(0xc0006b3e20, true))},
		{ID: 24, Creator: 17, Minutes: 2, Lock: 0xc0006b3e20, Args: args(0xc0006b3e20)},
	}
	if got, want := fmt.Sprintf("%#v", g.Members), fmt.Sprintf("%#v", want); got != want {
		t.Errorf("got members\n%s, want\n%s", got, want)
	}
}

// Counts stay complete where members and lock addresses do not.
func TestReadTextLimits(t *testing.T) {
	t.Parallel()
	const goroutines = maxLocks + maxLocks/9 + 100
	snaps, err := ReadText("x", &convoy{goroutines: goroutines, ownLock: true})
	if err != nil || len(snaps) != 1 {
		t.Fatalf("got %d snapshots, %v", len(snaps), err)
	}
	s := snaps[0]
	g := s.Groups[0]
	if waiting := int64(goroutines - goroutines/10); s.Loss.Read != goroutines || g.Count != waiting {
		t.Errorf("read %d, %d of them waiting, want %d, %d", s.Loss.Read, g.Count, goroutines, waiting)
	}
	if len(g.Members) != maxMembers || len(g.Locks) != maxLocks || len(s.Warnings) != 1 {
		t.Errorf("got %d members, %d locks, warnings %q", len(g.Members), len(g.Locks), s.Warnings)
	}

	var b strings.Builder
	for i := range maxWarnings + 5 {
		fmt.Fprintf(&b, "goroutine %d [select]:\n\n", i+1)
	}
	snaps, err = ReadText("x", strings.NewReader(b.String()+strings.ReplaceAll(clean, "goroutine ", "goroutine 9")))
	if err != nil {
		t.Fatal(err)
	}
	if w := snaps[0].Warnings; len(w) != maxWarnings+1 || w[maxWarnings] != "and 5 more" || snaps[0].Loss.Lost != maxWarnings+5 {
		t.Errorf("got warnings %q, lost %d", w, snaps[0].Loss.Lost)
	}
}

// A log may hold more dumps than are told apart; their goroutines still count.
func TestReadTextManyDumps(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range maxDumps + 7 {
		fmt.Fprintf(&b, "http: panic serving 10.0.0.1:80: boom\ngoroutine %d [running]:\nmain.f()\n\t/x.go:1 +0x1\n\n", i+1)
	}
	b.WriteString("goroutine profile: total 1\n1 @ 0x1\n#\t0x1\tmain.f+0x1d\t/src/main.go:8\n")
	snaps, err := ReadText("x", strings.NewReader(b.String()))
	if err != nil || len(snaps) != maxDumps {
		t.Fatalf("got %d snapshots, %v", len(snaps), err)
	}
	checkCounts(t, snaps)
	last := snaps[maxDumps-1]
	if last.Name != fmt.Sprintf("x#%d", maxDumps) || last.Loss.Read != 8 || len(last.Warnings) != 1 {
		t.Errorf("got %s", summary(snaps[maxDumps-1:]))
	}
}

func TestReadTextLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine+10)
	tests := []struct{ name, text, want string }{
		{"before", long + "\n" + clean, cleanWant + "! line 1: line is longer than 256 KiB and was cut\n"},
		{"a record larger than the buffer", `{"msg":"` + escape(clean+"\n"+long+long+"\n"+strings.ReplaceAll(clean, "goroutine ", "goroutine 5")) + `"}` + "\n",
			"x debug=2 read 4\n1 [select] main.main /src/main.go:8\n1 [chan receive] main.(*T).work /src/t.go:9 by main.start /src/t.go:4 aged 1 3-3\n"},
		{"a record with the dump far inside", `{"x":"` + long + `","msg":"` + escape(clean) + `"}` + "\n", cleanWant + "! line 1: line is longer than 256 KiB and was cut\n"},
	}
	tests[1].want = strings.NewReplacer("\n1 [", "\n2 [", "aged 1", "aged 2", " in goroutine 51", "").Replace(tests[1].want)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			snaps, err := ReadText("x", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(snaps); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestReadTextErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	tests := []struct {
		name string
		r    io.Reader
		want string
	}{
		{"empty", strings.NewReader("\n\n"), "expected a goroutine dump, saw an empty text; take one from"},
		{"html", strings.NewReader("\n<html><title>Sign in</title>" + strings.Repeat("y", 100)), `saw no goroutine in a text that begins with "<html><title>Sign in</title>yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"; take a dump from`},
		{"headers only", strings.NewReader("goroutine 1 [select]:\ngoroutine 2 [select]:\n"), "header, saw 2 goroutines without a stack"},
		{"prose", strings.NewReader("goroutine 5 is stuck\nmain.f()\n"), `expected a line such as "goroutine 1 [running]:" or "goroutine profile: total 1", saw no goroutine`},
		{"header only", strings.NewReader("goroutine 1 [select]:\n"), "header, saw 1 goroutine without a stack"},
		{"nothing read", iotest.ErrReader(broken), "reading stopped before a goroutine was found: connection reset"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			snaps, err := ReadText("x", tt.r)
			if err == nil || !strings.Contains(err.Error(), tt.want) || snaps != nil {
				t.Errorf("got %v, %v, want error %q", snaps, err, tt.want)
			}
		})
	}

	snaps, err := ReadText("x", io.MultiReader(strings.NewReader(clean+"\ngoroutine 9 [sele"), iotest.ErrReader(broken)))
	want := strings.Replace(cleanWant, "read 2", "read 2 lost 1 truncated", 1) +
		"! line 11: goroutine header not understood: \"goroutine 9 [sele\"\n! line 11: reading stopped: connection reset\n"
	if err != nil || summary(snaps) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, summary(snaps), want)
	}
}
