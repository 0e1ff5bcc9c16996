package truth

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := Parse(`# Fault: one lock.

verdict lockwait  # by series alone
verdict applock
want applock # the cache's mutex
allow  healthcheck ContendHealthCheckSlow   # checks take the lock  # too
` + "want\tlockwait ContendLockWait\t# the runtime counts it\r\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Truth{
		Wants: []Entry{
			{"applock", "", "the cache's mutex"},
			{"lockwait", "ContendLockWait", "the runtime counts it"},
		},
		Allows:   []Entry{{"healthcheck", "ContendHealthCheckSlow", "checks take the lock  # too"}},
		Verdicts: []string{"lockwait", "applock"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if s := got.Wants[0].String() + "; " + got.Wants[1].String(); s != "applock; lockwait ContendLockWait" {
		t.Errorf("entries are written %q", s)
	}
	if s := got.Verdict(); s != "lockwait or applock" {
		t.Errorf("the verdict is written %q", s)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "expected a line verdict NAME or verdict none, saw none"},
		{"no verdict", "want herd  # r", "expected a line verdict NAME or verdict none, saw none"},
		{"other word", "verdict none\nlook herd  # r", `line 2: expected want, allow or verdict, saw "look"`},
		{"capital", "Want herd  # r\nverdict none", `line 1: expected want, allow or verdict, saw "Want"`},
		{"no detector", "want  # r\nverdict none", `line 1: expected want DETECTOR [ALERT]  # reason, saw "want  # r"`},
		{"too much", "allow herd ContendHerd now  # r\nverdict none", `line 1: expected allow DETECTOR [ALERT]  # reason, saw "allow herd ContendHerd now  # r"`},
		{"no reason", "want herd\nverdict none", `line 1: expected a reason after "want herd", as # and a sentence`},
		{"empty reason", "want herd ContendHerd #  \nverdict none", `line 1: expected a reason after "want herd ContendHerd", as # and a sentence`},
		{"detector's form", "want ContendHerd  # r\nverdict none", `line 1: expected a detector such as herd, saw "ContendHerd"`},
		{"alert's form", "want herd herd  # r\nverdict none", `line 1: expected an alert such as ContendHerd, saw "herd"`},
		{"twice", "want herd  # r\nallow herd  # r\nverdict none", "line 2: herd is listed twice"},
		{"alert twice", "want herd ContendHerd  # r\nwant herd ContendHerd  # r\nverdict none", "line 2: herd ContendHerd is listed twice"},
		{"verdict twice", "verdict none\nverdict none", "line 2: verdict none is listed twice"},
		{"two in a line", "verdict none herd", `line 1: expected verdict and one detector or none, saw "none herd"; for several that are right, give each a line`},
		{"verdict alone", "verdict", `line 1: expected verdict and one detector or none, saw ""; for several that are right, give each a line`},
		{"forbidden verdict", "verdict applock\nverdict herd\nallow herd  # r", "verdict applock is forbidden as a finding; list it with want or allow"},
		{"several", "look\n\nwant herd\nverdict none", "line 1: expected want, allow or verdict, saw \"look\"\nline 3: expected a reason after \"want herd\", as # and a sentence"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(test.text)
			if err == nil || err.Error() != test.want {
				t.Errorf("got %+v and error %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestPermits(t *testing.T) {
	t.Parallel()
	tr, err := Parse(`verdict none
want herd  # any alert
want healthcheck ContendHealthCheckSlow  # this one
allow healthcheck ContendHealthCheckFailing  # perhaps
allow poolwait ContendPoolWait  # this one alone
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		detector, alert string
		want            bool
	}{
		{"herd", "", true},
		{"herd", "ContendHerd", true},
		{"healthcheck", "ContendHealthCheckSlow", true},
		{"healthcheck", "ContendHealthCheckFailing", true},
		{"healthcheck", "ContendHealthCheck", false},
		{"poolwait", "", true}, // what profiles show has no alert
		{"poolwait", "ContendPoolExhausted", false},
		{"applock", "", false},
		{"", "", false},
	} {
		if got := tr.Permits(test.detector, test.alert); got != test.want {
			t.Errorf("%q %q is permitted: %v", test.detector, test.alert, got)
		}
	}
	if !tr.Wanted("herd") || tr.Wanted("poolwait") || tr.Wanted("applock") {
		t.Error("what is wanted is not told from what is allowed or not listed")
	}
	if !tr.Right("") || tr.Right("herd") {
		t.Error("verdict none is not told from another")
	}
}

// TestScenarios reads the truth of every scenario there is.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../scenarios/*/truth.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no scenario: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(string(text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// FuzzParse holds what was read to a second reading of what it is written as.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "#", "verdict none", "verdict\x00", "want herd  # r\nverdict herd\n",
		"verdict none\r\nallow healthcheck ContendHealthCheckSlow # r\r\n", strings.Repeat("want ", 100), "want \xff # \xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := Parse(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, e := range tr.Wants {
			b.WriteString("want " + e.String() + " # " + e.Reason + "\n")
		}
		for _, e := range tr.Allows {
			b.WriteString("allow " + e.String() + " # " + e.Reason + "\n")
		}
		for name := range strings.SplitSeq(tr.Verdict(), " or ") {
			b.WriteString("verdict " + name + "\n")
		}
		again, err := Parse(b.String())
		if err != nil || !reflect.DeepEqual(again, tr) {
			t.Errorf("%q is read as %+v, then as %+v, %v", text, tr, again, err)
		}
	})
}
